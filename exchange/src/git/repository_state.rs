//! Finds the commits of earlier exports by their trailers, so no separate list can be lost.

use std::collections::{HashMap, HashSet};

use gix::ObjectId as GitId;
use gix::objs::{CommitRef, Kind as GitKind, TagRef};
use turntree::error::Result;
use turntree::object::ObjectId;

use super::{git_error, trailers};

/// A snapshot in the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownCommit {
    pub(super) commit: GitId,
    pub(super) tree: GitId,
}

/// The target of a ref in the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExistingRef {
    pub(super) target: GitId,
    /// True if turntree wrote the target.
    pub(super) is_own: bool,
}

/// The content of the repository.
#[derive(Debug, Default)]
pub(super) struct RepositoryState {
    pub(super) commits: HashMap<ObjectId, KnownCommit>,
    /// The branches and tags, by full name.
    pub(super) refs: HashMap<String, ExistingRef>,
    /// The snapshots that branches and tags point to.
    pub(super) tips: Vec<ObjectId>,
}

impl RepositoryState {
    /// Reads all commits that are reachable from branches and tags.
    pub(super) fn read(git: &gix::Repository) -> Result<Self> {
        let failed = |error| git_error("read the refs of the repository", error);
        let mut known = Self::default();
        let (mut left, mut seen) = (Vec::new(), HashSet::new());
        let platform = git.references().map_err(failed)?;
        for found in platform.all().map_err(failed)? {
            let found =
                found.map_err(|error| git_error("read a ref", gix::Error::from_error(error)))?;
            let name = found.name().as_bstr().to_string();
            let Some(target) = found.target().try_id().map(ToOwned::to_owned) else { continue };
            let (is_own, tip) = Self::inspect_target(git, target)?;
            known.tips.extend(tip);
            known.refs.insert(name, ExistingRef { target, is_own });
            left.push(target);
        }
        while let Some(id) = left.pop() {
            if !seen.insert(id) {
                continue;
            }
            let Some(object) = find_object(git, id)? else { continue };
            match object.kind {
                GitKind::Commit => {
                    if let Ok(commit) = CommitRef::from_bytes(&object.data, id.kind()) {
                        left.extend(commit.parents());
                        known.add_commit(id, &commit);
                    }
                }
                GitKind::Tag => {
                    let tag = TagRef::from_bytes(&object.data, id.kind());
                    left.extend(tag.iter().map(TagRef::target));
                }
                GitKind::Tree | GitKind::Blob => {}
            }
        }
        Ok(known)
    }

    /// Returns true if turntree wrote the object, and the snapshot of the commit or of the target
    /// of the tag.
    fn inspect_target(git: &gix::Repository, id: GitId) -> Result<(bool, Option<ObjectId>)> {
        let Some(object) = find_object(git, id)? else { return Ok((false, None)) };
        match object.kind {
            GitKind::Commit => Ok(snapshot_of_commit(&object)),
            GitKind::Tag => {
                let Ok(tag) = TagRef::from_bytes(&object.data, id.kind()) else {
                    return Ok((false, None));
                };
                let tagger = tag.tagger().ok().flatten();
                let is_own = tagger.is_some_and(|tagger| trailers::is_own(&tagger));
                // A tag of turntree points to a commit. A tag that points to another tag could be
                // part of an endless chain.
                let target = find_object(git, tag.target())?;
                let (target_is_own, tip) =
                    target.map_or((false, None), |target| snapshot_of_commit(&target));
                Ok((is_own && target_is_own, tip))
            }
            GitKind::Tree | GitKind::Blob => Ok((false, None)),
        }
    }

    fn add_commit(&mut self, id: GitId, commit: &CommitRef<'_>) {
        if let Some(facts) = trailers::parse_facts(commit) {
            let tree = commit.tree();
            // If two forged commits claim the same snapshot, the choice is still deterministic.
            let known = self.commits.entry(facts.id).or_insert(KnownCommit { commit: id, tree });
            if id < known.commit {
                *known = KnownCommit { commit: id, tree };
            }
        }
    }
}

/// Returns true if `object` is a commit that turntree wrote, and its snapshot.
fn snapshot_of_commit(object: &gix::Object<'_>) -> (bool, Option<ObjectId>) {
    let commit = match object.kind {
        GitKind::Commit => CommitRef::from_bytes(&object.data, object.id.kind()).ok(),
        _ => None,
    };
    let facts = commit.and_then(|commit| trailers::parse_facts(&commit));
    (facts.is_some(), facts.map(|facts| facts.id))
}

/// Returns the object `id`, or `None` if it is missing: the history may be shallow.
fn find_object(git: &gix::Repository, id: GitId) -> Result<Option<gix::Object<'_>>> {
    git.try_find_object(id).map_err(|error| git_error(format!("read git object {id}"), error))
}
