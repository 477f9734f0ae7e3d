//! Forks and merges branches, and resolves the conflicts of merges.

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use turntree::context::sections::FILES_PREFIX;
use turntree::context::{MergeSide, MessagePolicy, Selection, Take, open_conflicts};
use turntree::local::{Repo, Snapshot};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{BranchName, MergeKind, MergeRequest, Resolution, split_range};
use turntree::{Error, ErrorKind, Result};

use crate::error::already_exists;
use crate::lookup::{branch_name, snapshot_at};
use crate::process::{detached, patiently};
use crate::values::{Answer, named};

/// The digits of an id that name a snapshot in a message.
const ID_DIGITS: usize = 12;

/// Creates a branch at a snapshot, which it returns.
pub(crate) fn fork(py: Python<'_>, repo: &Repo, branch: &str, at: &str) -> PyResult<Snapshot> {
    let name = branch_name(branch)?;
    let at = detached(py, || snapshot_at(repo, at))?;
    let mut change = repo.change();
    change.on(&name).expect(None).go_on_from(at.id());
    let is_forked = patiently(py, || match change.commit(&format!("fork {name}")) {
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
        outcome => outcome.map(|_| true),
    })?;
    match is_forked {
        true => Ok(at),
        false => Err(already_exists(format!("branch {name} exists already: choose another name"))),
    }
}

/// The result of a merge.
#[pyclass(frozen, module = "turntree", get_all)]
pub(crate) struct MergeOutcome {
    /// The newest snapshot of the branch now.
    id: String,
    /// ``up-to-date``, ``fast-forward`` or ``merged``.
    kind: &'static str,
    /// Conflicting paths; all versions are in the section ``conflicts``.
    conflicts: Vec<String>,
}

/// Merges the newest snapshot of `theirs` into the branch `into`. With the program, tool calls stay
/// with their results.
pub(crate) fn merge(
    py: Python<'_>,
    repo: &Repo,
    into: &str,
    theirs: &str,
) -> PyResult<MergeOutcome> {
    let repo = repo.clone().reading(crate::formats());
    let outcome = patiently(py, || {
        repo.refresh()?;
        repo.session(into)?.merge(&repo.session(theirs)?)
    })?;
    let (id, kind) = (outcome.snapshot.id().to_string(), outcome.kind.name());
    Ok(MergeOutcome { id, kind, conflicts: outcome.conflicts })
}

/// Applies the changes of snapshots to a branch, in one operation.
pub(crate) fn cherry_pick(
    repo: &Repo,
    into: &BranchName,
    revisions: &[String],
    only: &[String],
) -> Result<Vec<MergeOutcome>> {
    if revisions.is_empty() {
        return Err(Error::invalid("a cherry-pick needs at least one revision"));
    }
    repo.refresh()?;
    let (stamp, formats) = (repo.stamp(), crate::formats());
    let mut change = repo.repository().begin();
    let mut picks = Vec::new();
    let mut is_changed = false;
    for revision in revisions {
        for theirs in picked(repo, revision)? {
            let request = MergeRequest {
                into: into.clone(),
                theirs,
                label: theirs.short(ID_DIGITS),
                messages: MessagePolicy::default(),
                only: Selection::parse(only),
                tools: &formats.tool_use,
                message: None,
            };
            let staged = change.cherry_pick(&request, &stamp)?;
            is_changed |= staged.kind != MergeKind::UpToDate;
            let conflicts = staged.report.map(|report| report.conflicts).unwrap_or_default();
            picks.push(MergeOutcome {
                id: staged.commit.to_string(),
                kind: staged.kind.name(),
                conflicts: conflicts.into_iter().map(|conflict| conflict.path).collect(),
            });
        }
    }
    if is_changed {
        change.commit(&stamp, &format!("cherry-pick {}", revisions.join(" ")))?;
    }
    Ok(picks)
}

/// Returns the snapshots of a revision or a range, oldest first.
fn picked(repo: &Repo, revision: &str) -> Result<Vec<ObjectId>> {
    let Some((after, until)) = split_range(revision) else {
        return Ok(vec![repo.resolve(revision)?]);
    };
    let (after, until) = (repo.resolve(after)?, repo.resolve(until)?);
    let history = repo.repository().history(&[until], &[after])?.first_parent();
    let mut ids = history.map(|entry| Ok(entry?.id)).collect::<Result<Vec<ObjectId>>>()?;
    if ids.is_empty() {
        return Err(Error::not_found(format!("there is no snapshot in '{revision}'")));
    }
    ids.reverse();
    Ok(ids)
}

/// An open conflict, with the content of each side.
pub(crate) struct Conflict {
    path: String,
    kind: &'static str,
    sides: [Option<Bytes>; 3],
}

/// Returns the open conflicts of a branch, ordered by path.
pub(crate) fn conflicts(repo: &Repo, branch: &BranchName) -> Result<Vec<Conflict>> {
    repo.refresh()?;
    let repository = repo.repository();
    let tip = tip_of(repo, branch)?;
    let open = open_conflicts(repository.store(), &repository.context(&tip)?)?;
    let conflict = |open: turntree::context::OpenConflict| {
        let side = |side| match open.item(side) {
            Some(item) if item.link.kind == Kind::Blob => {
                repository.store().read_as(Kind::Blob, &item.link.id).map(Some)
            }
            _ => Ok(None),
        };
        let sides = [side(MergeSide::Base)?, side(MergeSide::Ours)?, side(MergeSide::Theirs)?];
        Ok(Conflict { path: open.path.clone(), kind: open.kind.name(), sides })
    };
    open.into_iter().map(conflict).collect()
}

fn tip_of(repo: &Repo, branch: &BranchName) -> Result<ObjectId> {
    let missing = || Error::not_found(format!("branch {branch} has no snapshot"));
    repo.repository().tip(branch).ok_or_else(missing)
}

impl Answer for Conflict {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let [base, ours, theirs] =
            self.sides.map(|side| side.map(|bytes| PyBytes::new(py, &bytes)));
        named(py, "OpenConflict", (self.path, self.kind, base, ours, theirs))
    }
}

/// Parses the version or the content that a resolution takes.
pub(crate) fn taken(name: Option<&str>, content: Option<Bytes>) -> Result<Take> {
    let version = |name: &str| match MergeSide::ALL.into_iter().find(|side| side.name() == name) {
        Some(side) => Ok(Take::Version(side)),
        None if name == "current" => Ok(Take::Current),
        None => {
            let text = format!("take is '{name}': expected ours, theirs, base or current");
            Err(Error::invalid(text))
        }
    };
    match (name, content) {
        (Some(name), None) => version(name),
        (None, Some(content)) => Ok(Take::Content(content)),
        _ => Err(Error::invalid("a resolution has one source: name it by take= or by content=")),
    }
}

/// Resolves open conflicts of a branch: those at some paths, or all of them.
pub(crate) fn resolve(
    repo: &Repo,
    branch: &BranchName,
    paths: &[String],
    take: &Take,
    message: Option<&str>,
) -> Result<Resolution> {
    if matches!(take, Take::Content(_)) && paths.len() != 1 {
        return Err(Error::invalid("content is for one path"));
    }
    repo.refresh()?;
    let repository = repo.repository();
    let context = repository.context(&tip_of(repo, branch)?)?;
    let open: Vec<String> = open_conflicts(repository.store(), &context)?
        .into_iter()
        .map(|conflict| conflict.path)
        .collect();
    let paths: Vec<String> = match paths {
        [] if open.is_empty() => {
            return Err(Error::not_found(format!("{branch} has no open conflict")));
        }
        [] => open,
        paths => paths.iter().map(|path| named_by(&open, path)).collect(),
    };
    let decisions: Vec<_> = paths.into_iter().map(|path| (path, take.clone())).collect();
    let (stamp, mut change) = (repo.stamp(), repository.begin());
    let resolution = change.resolve_conflicts(branch, &decisions, message, &stamp)?;
    let count = resolution.closed.len();
    let conflicts = if count == 1 { "conflict" } else { "conflicts" };
    change.commit(&stamp, &format!("resolve {count} {conflicts}"))?;
    Ok(resolution)
}

/// Returns the open conflict that a path names: exact, or that of a file.
fn named_by(open: &[String], path: &str) -> String {
    let file = format!("{FILES_PREFIX}{}", path.trim_start_matches("./"));
    let is_file = !open.iter().any(|open| open == path) && open.contains(&file);
    if is_file { file } else { path.to_owned() }
}

impl Answer for Resolution {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let id = self.commit.to_string();
        named(py, "Resolved", (id, self.closed, self.removed, self.left))
    }
}
