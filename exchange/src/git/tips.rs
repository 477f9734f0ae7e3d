//! The starting points of an import: branches, tags and commits of a repository, and their names in
//! the session.

use std::collections::HashSet;

use gix::ObjectId as GitId;
use gix::objs::Kind as GitKind;
use turntree::error::{Error, ErrorKind, Result};
use turntree::repo::{HEAD, MAIN_BRANCH};

use super::refs::original_name;
use super::source_repository::{MAX_STRUCTURED_BYTES, SourceRepository, parse_commit, resolve_ref};
use super::{git_error, trailers};

/// Number of digits of a git id in the name of a branch.
pub(super) const SHORT_DIGITS: usize = 8;

/// A branch, tag or commit to import.
pub(super) struct Tip {
    /// The name in the repository.
    pub(super) git_name: String,
    /// The name of the branch in the session.
    pub(super) name: String,
    pub(super) commit: GitId,
}

/// Returns the targets of the revisions: without revisions all branches, and without branches HEAD.
///
/// # Errors
/// `InvalidInput` or `Ambiguous` for a revision that does not identify a commit, and the errors of
/// [`SourceRepository::peel`].
pub(super) fn tips(source: &SourceRepository, revisions: &[String]) -> Result<Vec<Tip>> {
    let git = &source.git;
    let failed = |error| git_error("read the refs of the repository", error);
    let mut tips = Vec::new();
    if revisions.is_empty() {
        let platform = git.references().map_err(failed)?;
        for found in platform.local_branches().map_err(failed)? {
            let found =
                found.map_err(|error| git_error("read a ref", gix::Error::from_error(error)))?;
            tips.push(tip_of_ref(source, found)?);
        }
        let head = git.find_reference(HEAD).ok();
        let head = head.filter(|head| resolve_ref(head.clone()).is_ok());
        if let (true, Some(head)) = (tips.is_empty(), head) {
            tips.push(Tip { name: MAIN_BRANCH.to_owned(), ..tip_of_ref(source, head)? });
        }
    }
    for revision in revisions {
        tips.push(resolve_revision(source, revision)?);
    }
    if tips.is_empty() {
        return Err(Error::invalid("the repository has no branch with a commit"));
    }
    name_branches(source, &mut tips)?;
    Ok(tips)
}

/// Returns the target of a revision: a full ref, a branch, a tag, a remote branch, or an id.
fn resolve_revision(source: &SourceRepository, revision: &str) -> Result<Tip> {
    for folder in ["", "refs/heads/", "refs/tags/", "refs/remotes/"] {
        let full = format!("{folder}{revision}");
        let Ok(name) = gix::refs::FullName::try_from(full.as_str()) else { continue };
        let found = source.git.try_find_reference(name.as_ref());
        if let Some(found) = found.map_err(|error| git_error(format!("read {full}"), error))? {
            return tip_of_ref(source, found);
        }
    }
    let missing = || Error::invalid(format!("'{revision}' is not a branch, tag or commit there"));
    let prefix = gix::hash::Prefix::from_hex(revision).map_err(|_| missing())?;
    let found = source.git.objects.lookup_prefix(prefix, None);
    let found = found.map_err(|error| git_error(format!("look for {revision}"), error))?;
    let commit = match found {
        Some(Ok(id)) => id,
        Some(Err(())) => {
            let message = format!("several ids of objects there begin with {revision}");
            return Err(Error::new(ErrorKind::Ambiguous, message));
        }
        None => return Err(missing()),
    };
    let commit = source.peel(commit)?.commit;
    let name = commit.to_hex_with_len(SHORT_DIGITS).to_string();
    Ok(Tip { git_name: commit.to_string(), name, commit })
}

fn tip_of_ref(source: &SourceRepository, found: gix::Reference<'_>) -> Result<Tip> {
    let git_name = found.name().as_bstr().to_string();
    let peeled = resolve_ref(found).and_then(|id| source.peel(id));
    let commit = peeled.map_err(|error| error.at(&git_name))?.commit;
    let name = git_name.splitn(3, '/').nth(2).unwrap_or(&git_name).to_owned();
    Ok(Tip { git_name, name, commit })
}

/// Assigns branch names in the session. Branches of an export drop the name of their session,
/// unless this causes duplicates. Of other branches, the branch of HEAD becomes main, unless
/// another branch has this name.
fn name_branches(source: &SourceRepository, tips: &mut [Tip]) -> Result<()> {
    let (mut bare, mut exported) = (Vec::new(), HashSet::new());
    for tip in tips.iter() {
        let bytes = source.read(&tip.commit, GitKind::Commit, MAX_STRUCTURED_BYTES)?;
        let facts = trailers::parse_facts(&parse_commit(&bytes, &tip.commit)?);
        let name = facts.map(|facts| {
            exported.insert(tip.git_name.clone());
            let name = original_name(&tip.name);
            name.strip_prefix(&format!("{}/", facts.session)).map_or(name.clone(), str::to_owned)
        });
        bare.push(name.unwrap_or_else(|| tip.name.clone()));
    }
    let all: HashSet<&String> = bare.iter().collect();
    if all.len() == bare.len() {
        for (tip, name) in tips.iter_mut().zip(bare) {
            tip.name = name;
        }
    }
    let head = source.git.head_name().ok().flatten().map(|name| name.as_bstr().to_string());
    let head = head.filter(|head| !exported.contains(head));
    if !tips.iter().any(|tip| tip.name == MAIN_BRANCH)
        && let Some(tip) = tips.iter_mut().find(|tip| Some(&tip.git_name) == head.as_ref())
    {
        MAIN_BRANCH.clone_into(&mut tip.name);
    }
    tips.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(())
}
