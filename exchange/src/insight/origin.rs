//! Where a session is from: its directories, its git branch and remote, and what its client calls
//! it, as its records and its snapshots say.

use turntree::error::Result;
use turntree::object::ObjectId;
use turntree::repo::Repository;

use crate::formats::session::{GIT_REMOTE, TITLE};

/// Metadata of a snapshot, and a fact of the section `meta`: the branch of the git repository around
/// its directory.
pub const GIT_BRANCH: &str = "git_branch";

/// Where a session is from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// Its directories as text: the one that its records name, and the workspace of its newest
    /// snapshot that has one.
    pub directories: Vec<String>,
    /// The branch of the git repository around it.
    pub git_branch: Option<String>,
    /// The address of the remote of that repository.
    pub git_remote: Option<String>,
    /// The title that its client gave it.
    pub title: Option<String>,
    /// The id that its client has for it.
    pub client_id: Option<String>,
}

/// Reads where the line that ends at the commit `tip` is from. Reads a few objects.
///
/// # Errors
/// `Corrupt` and `Io` when something cannot be read; what retention has dropped is left out.
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
        let said = |key: &str| commit.metadata.get(key).filter(|text| !text.is_empty()).cloned();
        origin.git_branch = origin.git_branch.or_else(|| said(GIT_BRANCH));
        origin.git_remote = origin.git_remote.or_else(|| said(GIT_REMOTE));
    }
    Ok(origin)
}
