//! Finds turns that a rollback took back of a branch, and that its client still has.
//!
//! ```text
//! 1 <- 2 <- 3 <- 4 (back to 1)      main stays here
//!           \
//!            5 <- 6                 main-client: what the client goes on with
//! ```
//!
//! A client does not know that somebody went back: its transcript has the turns that were taken back,
//! and goes on from them. So they stand for a line of their own, which becomes a branch once something
//! is added to it. On the branch that went back they are not played again.

use turntree::context::SOURCE;
use turntree::error::Result;
use turntree::object::{ObjectId, Trigger};
use turntree::repo::{BranchName, RESTORED_FROM, ROLLED_BACK_TO, Repository};

use super::rewind::unique_branch;
use crate::model::format::RecordFormat;

/// The line with which a client goes on with what was taken back of its branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLine {
    /// The branch that it becomes.
    pub branch: BranchName,
    /// The newest of the turns that were taken back.
    pub base: ObjectId,
}

/// Returns the line with which the client of `branch` goes on from turns of which `branch` went back;
/// nothing when it has not, or a transcript has grown on it since.
///
/// # Errors
/// Those of reading the history.
pub fn client_line(repo: &Repository, branch: &BranchName) -> Result<Option<ClientLine>> {
    let Some(tip) = repo.tip(branch) else { return Ok(None) };
    let Some(base) = taken_back_of(repo, &tip, |_| true)? else { return Ok(None) };
    Ok(Some(ClientLine { branch: client_branch(repo, branch)?, base }))
}

/// Returns whether `line` is called as one with which the client of `branch` goes on.
#[must_use]
pub fn is_client_line(line: &BranchName, branch: &BranchName) -> bool {
    let rest = line.branch().strip_prefix(branch.branch());
    let rest = rest.and_then(|rest| rest.strip_prefix('-')?.strip_prefix(CLIENT));
    let is_number = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
    line.session() == branch.session()
        && rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(is_number))
}

/// The suffix of the client's line, behind the name of the branch.
const CLIENT: &str = "client";

/// The newest turn that was taken back of the branch at `tip`, when nothing of a transcript has come
/// since.
pub(crate) fn taken_back(
    repo: &Repository,
    format: RecordFormat,
    tip: &ObjectId,
) -> Result<Option<ObjectId>> {
    taken_back_of(repo, tip, |agent| agent == format.name)
}

/// The same for a transcript whose turns an agent of such a name has taken.
fn taken_back_of(
    repo: &Repository,
    tip: &ObjectId,
    is_its: impl Fn(&str) -> bool,
) -> Result<Option<ObjectId>> {
    let pieces = |id: &ObjectId| repo.context(id)?.count(repo.store(), SOURCE);
    for entry in repo.history(&[*tip], &[])?.first_parent() {
        let (id, commit) = entry.map(|entry| (entry.id, entry.commit))?;
        let went_back =
            [ROLLED_BACK_TO, RESTORED_FROM].iter().any(|key| commit.metadata.contains_key(*key));
        if went_back {
            let Some(before) = commit.parents.first() else { return Ok(None) };
            // Content that retention has dropped is no line to go on with.
            if repo.store().tombstone(&repo.commit(before)?.tree).is_some() {
                return Ok(None);
            }
            let is_longer = pieces(before)? > pieces(&id)?;
            return Ok(is_longer.then_some(*before));
        }
        if commit.trigger == Trigger::Turn && is_its(&commit.author.agent) {
            return Ok(None);
        }
    }
    Ok(None)
}

/// A free name for the line with which the client of `branch` goes on.
pub(crate) fn client_branch(repo: &Repository, branch: &BranchName) -> Result<BranchName> {
    let stem = format!("{}-{CLIENT}", branch.branch());
    unique_branch(branch.session(), &stem, |name| repo.tip(name).is_some())
}
