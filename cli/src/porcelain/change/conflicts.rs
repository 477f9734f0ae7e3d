//! Open conflicts of a branch: lists and resolves them.

use turntree::context::sections::FILES_PREFIX;
use turntree::context::{MergeSide, OpenConflict, Take, open_conflicts};
use turntree::repo::{BranchName, Repository, Resolution, Signature, Transaction};
use turntree::{Error, ErrorKind};

use super::merge::RACE;
use crate::program::invocation::stamp;
use crate::view::advice::Advice;
use crate::view::error::{Hint, Result};
use crate::view::json;
use crate::view::render::count;

/// A resolution of open conflicts.
#[derive(Debug)]
pub(crate) struct Decision<'a> {
    /// Paths of conflicts; if empty, all open conflicts.
    pub(crate) paths: &'a [String],
    pub(crate) take: Take,
    /// The message of the snapshot.
    pub(crate) message: Option<&'a str>,
}

/// The advice for a path that is not an open conflict.
fn listing() -> Advice {
    Advice::new(
        "'turntree resolve' lists the open conflicts",
        "call resolve without take: it lists the open conflicts",
    )
}

/// The open conflicts of a branch.
pub(crate) fn open(repo: &Repository, branch: &BranchName) -> Result<Vec<OpenConflict>> {
    match repo.tip(branch) {
        Some(tip) => Ok(open_conflicts(repo, &repo.context(&tip)?)?),
        None => Err(Error::not_found(format!("branch {branch} has no snapshot yet")).into()),
    }
}

/// The records of open conflicts.
pub(crate) fn records<'a>(
    open: impl IntoIterator<Item = &'a OpenConflict>,
) -> Vec<json::OpenConflict> {
    let id = |conflict: &OpenConflict, version| {
        conflict.item(version).map(|item| item.link.id.to_string())
    };
    let record = |conflict: &OpenConflict| json::OpenConflict {
        path: conflict.path.clone(),
        kind: conflict.kind.name(),
        base: id(conflict, MergeSide::Base),
        ours: id(conflict, MergeSide::Ours),
        theirs: id(conflict, MergeSide::Theirs),
    };
    open.into_iter().map(record).collect()
}

/// Parses the name of a version: ours, theirs, base or current.
pub(crate) fn version(name: &str) -> Option<Take> {
    match MergeSide::ALL.into_iter().find(|version| version.name() == name) {
        Some(version) => Some(Take::Version(version)),
        None => (name == "current").then_some(Take::Current),
    }
}

/// Resolves conflicts in a snapshot.
pub(crate) fn decide(
    repo: &Repository,
    branch: &BranchName,
    decision: Decision<'_>,
) -> Result<json::Resolved> {
    let stamp = stamp()?;
    let (change, resolution) = stage(repo, branch, decision, &stamp)?;
    let turn = change.read_commit(&resolution.commit)?.turn;
    let reason = format!("resolve {}", count(resolution.closed.len() as u64, "conflict"));
    change.commit(&stamp, &reason).hint(ErrorKind::Conflict, Advice::anyone(RACE))?;
    Ok(json::Resolved {
        session: branch.session().to_owned(),
        branch: branch.branch().to_owned(),
        id: resolution.commit.to_string(),
        turn,
        resolved: resolution.closed,
        removed: resolution.removed,
        open: resolution.left,
    })
}

/// The open conflict that a path names: exact, or below `files`.
fn named_by(open: &[String], path: &str) -> String {
    let file = format!("{FILES_PREFIX}{}", path.trim_start_matches("./"));
    let is_file = !open.iter().any(|open| open == path) && open.contains(&file);
    if is_file { file } else { path.to_owned() }
}

/// Resolves conflicts in a transaction, without committing it.
pub(crate) fn stage<'r>(
    repo: &'r Repository,
    branch: &BranchName,
    decision: Decision<'_>,
    stamp: &Signature,
) -> Result<(Transaction<'r>, Resolution)> {
    let Decision { paths, take, message } = decision;
    let mut change = repo.begin();
    let open: Vec<String> = open(repo, branch)?.into_iter().map(|conflict| conflict.path).collect();
    let paths: Vec<String> = match paths {
        [] => open,
        paths => paths.iter().map(|path| named_by(&open, path)).collect(),
    };
    if paths.is_empty() {
        return Err(Error::not_found(format!("{branch} has no open conflict")).into());
    }
    let decisions: Vec<_> = paths.into_iter().map(|path| (path, take.clone())).collect();
    let resolution = change
        .resolve_conflicts(branch, &decisions, message, stamp)
        .hint(ErrorKind::NotFound, listing())?;
    Ok((change, resolution))
}
