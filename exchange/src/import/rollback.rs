//! Finds turns that a rollback removed from a branch while its client still has them.
//!
//! ```text
//! 1 <- 2 <- 3 <- 4 (back to 1)      main stays here
//!           \
//!            5 <- 6                 main-client: what the client goes on with
//! ```
//!
//! A client does not notice a rollback in the store: its transcript still has the rolled-back turns
//! and continues from them. These turns become a separate branch once the client adds to them. An
//! import does not replay them on the branch that was rolled back. The name of a branch suggests
//! the branch that its client belongs to; that it starts with rolled-back turns proves it.

use turntree::context::Transcript;
use turntree::error::Result;
use turntree::object::{Commit, ObjectId, Trigger};
use turntree::repo::{BranchName, RESTORED_FROM, ROLLED_BACK_TO, Repository};

use super::rewind::{is_source_prefix, unique_branch};
use crate::model::format::RecordFormat;

/// The metadata of the snapshot that begins a resumed session: the snapshot that it continues.
pub const RESUMED_FROM: &str = "resumed-from";

/// The metadata of such a snapshot that is not the newest of its branch: the tip of that branch,
/// whose turns since then the session does not have.
pub const RESUMED_PAST: &str = "resumed-past";

/// The branch on which a client continues from rolled-back turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientBranch {
    /// The name of that branch.
    pub branch: BranchName,
    /// The newest rolled-back turn.
    pub base: ObjectId,
}

/// The branch that was rolled back when a client's branch began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolledBackBranch {
    /// The name of the rolled-back branch.
    pub branch: BranchName,
    /// True if turns were added to it since the rollback.
    pub has_turns: bool,
}

/// Returns the branch on which the client of `branch` continues from rolled-back turns. `None` if
/// there was no rollback, or if a transcript has added turns to `branch` since.
///
/// # Errors
/// The errors of reading the history.
pub fn client_branch(repo: &Repository, branch: &BranchName) -> Result<Option<ClientBranch>> {
    let Some(tip) = repo.tip(branch) else { return Ok(None) };
    // The client still has the turns before the first of several rollbacks.
    let Some(base) = rolled_back_turns_of(repo, &tip, |_| true)?.pop() else { return Ok(None) };
    Ok(Some(ClientBranch { branch: free_client_branch(repo, branch)?, base }))
}

/// Returns the branch that was rolled back when `line` began. `None` if `line` does not continue
/// from rolled-back turns.
///
/// # Errors
/// The errors of reading the history.
pub fn rolled_back_branch(
    repo: &Repository,
    line: &BranchName,
) -> Result<Option<RolledBackBranch>> {
    let Some(branch) = rolled_back_name(line) else { return Ok(None) };
    let (Some(own), Some(tip)) = (repo.tip(line), repo.tip(&branch)) else { return Ok(None) };
    let begun = repo.merge_base(&tip, &own)?.filter(|begun| *begun != own);
    let Some(begun) = begun else { return Ok(None) };
    let mut has_turns = false;
    for entry in repo.history(&[tip], &[])?.first_parent() {
        let (id, commit) = entry.map(|entry| (entry.id, entry.commit))?;
        if id == begun {
            break;
        }
        if is_rollback(&commit) && commit.parents.first() == Some(&begun) {
            return Ok(Some(RolledBackBranch { branch, has_turns }));
        }
        has_turns |= commit.trigger == Trigger::Turn;
    }
    Ok(None)
}

/// Returns true if `line` is the branch on which the client of `branch` continues, directly or
/// through such branches in between.
///
/// # Errors
/// The errors of reading the history.
pub fn is_client_branch_of(
    repo: &Repository,
    line: &BranchName,
    branch: &BranchName,
) -> Result<bool> {
    let is_longer = |line: &BranchName| line.branch().len() > branch.branch().len();
    let mut above = Some(line.clone());
    // Terminates, because each name is shorter than the one before.
    while let Some(line) = above.take().filter(is_longer) {
        above = rolled_back_branch(repo, &line)?.map(|back| back.branch);
        if above.as_ref() == Some(branch) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The suffix that a client's branch adds to the name of the rolled-back branch.
const CLIENT: &str = "-client";

/// Returns the branch that the name of a client's branch derives from.
fn rolled_back_name(line: &BranchName) -> Option<BranchName> {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let name = match line.branch().rsplit_once('-') {
        Some((name, number)) if is_number(number) => name,
        _ => line.branch(),
    };
    BranchName::new(line.session(), name.strip_suffix(CLIENT)?).ok()
}

/// Returns true if a commit rolls its branch back or restores another state.
fn is_rollback(commit: &Commit) -> bool {
    [ROLLED_BACK_TO, RESTORED_FROM].iter().any(|key| commit.metadata.contains_key(*key))
}

/// Returns the turns that were rolled back from the branch at `tip`: the newest turn before each
/// rollback, the last rollback first. Stops at the newest turn that came from a transcript of this
/// format, and where a client was given its transcript by a resume: it has no other turns.
pub(crate) fn rolled_back_turns(
    repo: &Repository,
    format: RecordFormat,
    tip: &ObjectId,
) -> Result<Vec<ObjectId>> {
    rolled_back_turns_of(repo, tip, |agent| agent == format.name)
}

/// Returns the rolled-back turns like `rolled_back_turns`, for a transcript whose turns have an
/// agent that `is_its` accepts.
fn rolled_back_turns_of(
    repo: &Repository,
    tip: &ObjectId,
    is_its: impl Fn(&str) -> bool,
) -> Result<Vec<ObjectId>> {
    let source = |id: &ObjectId| Transcript::open(repo, &repo.context(id)?);
    let mut rolled_back = Vec::new();
    for entry in repo.history(&[*tip], &[])?.first_parent() {
        let commit = entry?.commit;
        if commit.metadata.contains_key(RESUMED_FROM) {
            break;
        }
        if is_rollback(&commit) {
            let Some(before) = commit.parents.first() else { break };
            // A client cannot continue from expired content.
            let is_there = repo.tombstone(&repo.commit(before)?.tree).is_none();
            // Another transcript may have added records there, so compare the records instead of
            // counting them.
            if is_there {
                let had = source(before)?;
                if !had.is_empty() && !is_source_prefix(repo, &had, &source(tip)?)? {
                    rolled_back.push(*before);
                }
            }
        } else if commit.trigger == Trigger::Turn && is_its(&commit.author.agent) {
            break;
        }
    }
    Ok(rolled_back)
}

/// Returns a free name for the branch on which the client of `branch` continues.
pub(crate) fn free_client_branch(repo: &Repository, branch: &BranchName) -> Result<BranchName> {
    let stem = format!("{}{CLIENT}", branch.branch());
    unique_branch(branch.session(), &stem, |name| repo.tip(name).is_some())
}
