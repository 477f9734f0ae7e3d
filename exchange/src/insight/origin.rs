//! Where a session is from: its directories, its git branch and remote, and what its client calls
//! it, as its records and its snapshots say.

use turntree::ErrorKind;
use turntree::error::Result;
use turntree::object::{Commit, Kind, ObjectId, ObjectSource};
use turntree::repo::{Repository, WORKSPACE};

use crate::formats::session::{GIT_REMOTE, TITLE};

/// Metadata of a snapshot, and a fact of the section `meta`: the branch of the git repository around
/// its directory.
pub const GIT_BRANCH: &str = "git_branch";

/// Most bytes of a fact that are read.
const MAX_FACT_BYTES: usize = 16 << 10;

/// Most commits that are asked for their workspace: not every snapshot has one.
const MAX_COMMITS: usize = 16;

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
    let mut origin = Origin::default();
    origin.add_records(repo, tip)?;
    let (mut at, grafts) = (Some(*tip), repo.grafts()?);
    for _ in 0..MAX_COMMITS {
        let Some(id) = at.filter(|id| !grafts.is_forgotten(id)) else { break };
        let commit = repo.commit(&id)?;
        if origin.add_snapshot(&commit) {
            break;
        }
        at = commit.parents.first().copied();
    }
    Ok(origin)
}

impl Origin {
    /// Adds what the records say, which imports keep in the section `meta`.
    fn add_records(&mut self, repo: &Repository, tip: &ObjectId) -> Result<()> {
        let context = match repo.context(tip) {
            Err(error) if error.kind() == ErrorKind::Expired => return Ok(()),
            context => context?,
        };
        let store = repo.store();
        let facts = context.map(store, "meta")?;
        let fact = |key: &str| -> Result<Option<String>> {
            let Some(item) = facts.get(store, key.as_bytes())? else { return Ok(None) };
            let bytes = store.read_as(Kind::Blob, &item.link.id)?;
            let text = std::str::from_utf8(&bytes).ok().filter(|text| text.len() <= MAX_FACT_BYTES);
            Ok(text.filter(|text| !text.is_empty()).map(str::to_owned))
        };
        self.directories.extend(fact("cwd")?);
        self.git_branch = fact(GIT_BRANCH)?;
        self.git_remote = fact(GIT_REMOTE)?;
        self.title = fact(TITLE)?;
        self.client_id = fact("session_id")?;
        Ok(())
    }

    /// Adds what a snapshot says, and returns whether it names a workspace.
    fn add_snapshot(&mut self, commit: &Commit) -> bool {
        let fact = |key: &str| commit.metadata.get(key).filter(|text| !text.is_empty());
        let Some(workspace) = fact(WORKSPACE) else { return false };
        if !self.directories.contains(workspace) {
            self.directories.push(workspace.clone());
        }
        self.git_branch = self.git_branch.take().or_else(|| fact(GIT_BRANCH).cloned());
        self.git_remote = self.git_remote.take().or_else(|| fact(GIT_REMOTE).cloned());
        true
    }
}
