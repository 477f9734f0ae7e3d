//! Records of exports to and imports from git repositories.

use serde::Serialize;

/// `git export`.
#[derive(Debug, Serialize)]
pub(crate) struct GitExported {
    /// The repository.
    pub(crate) directory: String,
    /// Commits written.
    pub(crate) commits: u64,
    /// Git objects written, commits included.
    pub(crate) objects: u64,
    /// Bytes written.
    pub(crate) bytes: u64,
    /// Turns left out because retention has dropped them.
    pub(crate) expired: u64,
    pub(crate) refs: Vec<GitRef>,
    /// Refs of an earlier export that conflicted with a new one.
    pub(crate) deleted: Vec<String>,
    /// The branch that HEAD was set to, if that changed.
    pub(crate) head: Option<String>,
    pub(crate) notes: Vec<GitNote>,
}

/// A branch or tag that was exported.
#[derive(Debug, Serialize)]
pub(crate) struct GitRef {
    /// Full name in the store.
    pub(crate) name: String,
    /// Full name in the repository.
    pub(crate) git_name: String,
    /// The git object.
    pub(crate) git_id: String,
    /// `kept`, `made` or `moved`.
    pub(crate) change: &'static str,
}

/// `git import`.
#[derive(Debug, Serialize)]
pub(crate) struct GitImported {
    pub(crate) session: String,
    /// Snapshots made.
    pub(crate) commits: u64,
    /// Bytes the store grew by.
    pub(crate) new_bytes: u64,
    pub(crate) branches: Vec<GitBranch>,
    pub(crate) tags: Vec<GitTag>,
    pub(crate) notes: Vec<GitNote>,
}

/// A branch that was imported.
#[derive(Debug, Serialize)]
pub(crate) struct GitBranch {
    /// Branch in the session.
    pub(crate) branch: String,
    /// Its name in the repository: the full name of a ref, or the id of a commit.
    pub(crate) git_name: String,
    /// The snapshot it is at.
    #[serde(flatten)]
    pub(crate) at: super::HeadId,
    /// True if it moved.
    pub(crate) moved: bool,
}

/// A tag that was imported.
#[derive(Debug, Serialize)]
pub(crate) struct GitTag {
    pub(crate) tag: String,
    /// Its full name in the repository.
    pub(crate) git_name: String,
    /// The snapshot of the tag.
    pub(crate) id: String,
    /// True if it is new.
    pub(crate) created: bool,
}

/// Content that was left out or changed.
#[derive(Debug, Serialize)]
pub(crate) struct GitNote {
    /// A path, a ref or a commit.
    pub(crate) place: String,
    pub(crate) message: String,
}
