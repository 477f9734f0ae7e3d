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
//! is added to it. On the branch that went back they are not played again. A name says whose line a
//! branch may be; that it begins with what was taken back proves it.

use turntree::context::Transcript;
use turntree::error::Result;
use turntree::object::{Commit, ObjectId, Trigger};
use turntree::repo::{BranchName, RESTORED_FROM, ROLLED_BACK_TO, Repository};

use super::rewind::{is_beginning, unique_branch};
use crate::model::format::RecordFormat;

/// The line with which a client goes on with what was taken back of its branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLine {
    /// The branch that it becomes.
    pub branch: BranchName,
    /// The newest of the turns that were taken back.
    pub base: ObjectId,
}

/// The branch that went back when the line of its client began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WentBack {
    /// That branch.
    pub branch: BranchName,
    /// True if turns have been added to it since.
    pub has_turns: bool,
}

/// Returns the line with which the client of `branch` goes on from turns of which `branch` went back;
/// nothing when it has not, or a transcript has grown on it since.
///
/// # Errors
/// Those of reading the history.
pub fn client_line(repo: &Repository, branch: &BranchName) -> Result<Option<ClientLine>> {
    let Some(tip) = repo.tip(branch) else { return Ok(None) };
    // A client has what was there before the first of several rollbacks.
    let Some(base) = taken_back_of(repo, &tip, |_| true)?.pop() else { return Ok(None) };
    Ok(Some(ClientLine { branch: client_branch(repo, branch)?, base }))
}

/// Returns the branch that went back when `line` began; nothing when `line` is not that of a client
/// which goes on with what was taken back.
///
/// # Errors
/// Those of reading the history.
pub fn went_back(repo: &Repository, line: &BranchName) -> Result<Option<WentBack>> {
    let Some(branch) = named_after(line) else { return Ok(None) };
    let (Some(own), Some(tip)) = (repo.tip(line), repo.tip(&branch)) else { return Ok(None) };
    let begun = repo.merge_base(&tip, &own)?.filter(|begun| *begun != own);
    let Some(begun) = begun else { return Ok(None) };
    let mut has_turns = false;
    for entry in repo.history(&[tip], &[])?.first_parent() {
        let (id, commit) = entry.map(|entry| (entry.id, entry.commit))?;
        if id == begun {
            break;
        }
        if is_back(&commit) && commit.parents.first() == Some(&begun) {
            return Ok(Some(WentBack { branch, has_turns }));
        }
        has_turns |= commit.trigger == Trigger::Turn;
    }
    Ok(None)
}

/// Returns whether `line` is one with which the client of `branch` goes on, or the client of such a
/// line.
///
/// # Errors
/// Those of reading the history.
pub fn is_line_of(repo: &Repository, line: &BranchName, branch: &BranchName) -> Result<bool> {
    let is_longer = |line: &BranchName| line.branch().len() > branch.branch().len();
    let mut above = Some(line.clone());
    // Each name is shorter than the one before.
    while let Some(line) = above.take().filter(is_longer) {
        above = went_back(repo, &line)?.map(|back| back.branch);
        if above.as_ref() == Some(branch) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The suffix of the client's line, behind the name of the branch.
const CLIENT: &str = "-client";

/// The branch for whose client a line is named so.
fn named_after(line: &BranchName) -> Option<BranchName> {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let name = match line.branch().rsplit_once('-') {
        Some((name, number)) if is_number(number) => name,
        _ => line.branch(),
    };
    BranchName::new(line.session(), name.strip_suffix(CLIENT)?).ok()
}

/// Returns whether a commit takes its branch to another state.
fn is_back(commit: &Commit) -> bool {
    [ROLLED_BACK_TO, RESTORED_FROM].iter().any(|key| commit.metadata.contains_key(*key))
}

/// The turns that were taken back of the branch at `tip`, the newest before each rollback, when nothing
/// of a transcript has come since; the last rollback is the first.
pub(crate) fn taken_back(
    repo: &Repository,
    format: RecordFormat,
    tip: &ObjectId,
) -> Result<Vec<ObjectId>> {
    taken_back_of(repo, tip, |agent| agent == format.name)
}

/// The same for a transcript whose turns an agent of such a name has taken.
fn taken_back_of(
    repo: &Repository,
    tip: &ObjectId,
    is_its: impl Fn(&str) -> bool,
) -> Result<Vec<ObjectId>> {
    let source = |id: &ObjectId| Transcript::open(repo.store(), &repo.context(id)?);
    let mut taken = Vec::new();
    for entry in repo.history(&[*tip], &[])?.first_parent() {
        let commit = entry?.commit;
        if is_back(&commit) {
            let Some(before) = commit.parents.first() else { break };
            // Content that retention has dropped is no line to go on with.
            let is_there = repo.store().tombstone(&repo.commit(before)?.tree).is_none();
            // Another transcript may have gone on there: its records are not counted, but looked for.
            if is_there {
                let had = source(before)?;
                if !had.is_empty() && !is_beginning(repo.store(), &had, &source(tip)?)? {
                    taken.push(*before);
                }
            }
        } else if commit.trigger == Trigger::Turn && is_its(&commit.author.agent) {
            break;
        }
    }
    Ok(taken)
}

/// A free name for the line with which the client of `branch` goes on.
pub(crate) fn client_branch(repo: &Repository, branch: &BranchName) -> Result<BranchName> {
    let stem = format!("{}{CLIENT}", branch.branch());
    unique_branch(branch.session(), &stem, |name| repo.tip(name).is_some())
}
