//! Reads the origin of a session from its records and snapshots: its directories, its git branch
//! and remote, and its title and id at the client.

use turntree::error::Result;
use turntree::object::ObjectId;
use turntree::repo::Repository;

use crate::formats::session::{GIT_REMOTE, TITLE};

/// Metadata key of a snapshot, and key of a fact in the section `meta`: the git branch of the
/// directory.
pub const GIT_BRANCH: &str = "git_branch";

/// The origin of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The directories as text: the one in the records, and the workspace of the newest snapshot
    /// that has one.
    pub directories: Vec<String>,
    /// The git branch of the directory.
    pub git_branch: Option<String>,
    /// The URL of the git remote.
    pub git_remote: Option<String>,
    /// The title from the client.
    pub title: Option<String>,
    /// The id at the client.
    pub client_id: Option<String>,
}

/// Reads the origin of the line of the commit `tip`. Reads a few objects.
///
/// # Errors
/// `Corrupt` and `Io` for unreadable objects. Expired content is omitted.
pub fn origin(repo: &Repository, tip: &ObjectId) -> Result<Origin> {
    let fact = |key: &str| repo.fact_of(tip, key);
    let mut origin = Origin {
        directories: repo.directories_of(tip)?,
        git_branch: fact(GIT_BRANCH)?,
        git_remote: fact(GIT_REMOTE)?,
        title: fact(TITLE)?.filter(|title| !title.is_empty()),
        client_id: fact("session_id")?,
    };
    if let Some(commit) = repo.newest_with_workspace(tip)? {
        let recorded =
            |key: &str| commit.metadata.get(key).filter(|text| !text.is_empty()).cloned();
        origin.git_branch = origin.git_branch.or_else(|| recorded(GIT_BRANCH));
        origin.git_remote = origin.git_remote.or_else(|| recorded(GIT_REMOTE));
    }
    Ok(origin)
}
