//! Compares a turn with its parent.

use turntree::context::sections::is_transcript_section;
use turntree::context::{Context, ContextDiff, diff_by_value_but};
use turntree::error::{ErrorKind, Result};
use turntree::object::{Commit, Trigger};
use turntree::repo::{LogEntry, Repository};

use crate::import::rewind::source_start;

/// The context of a turn, and its differences from the parent.
pub(crate) struct TurnDiff {
    pub(crate) after: Context,
    pub(crate) changed: ContextDiff,
}

/// Compares a turn with its first parent by the values of the entries. `None` if the content of
/// either expired.
///
/// For a turn that begins a branch of a transcript, the pieces of the transcript are not listed.
/// All previous pieces of the file would count, which is quadratic in thousands of branches.
pub(crate) fn turn_diff(repo: &Repository, entry: &LogEntry) -> Result<Option<TurnDiff>> {
    let before = entry.parents.first().map(|parent| repo.context(parent)).transpose();
    match before.and_then(|before| Ok((before, repo.context(&entry.id)?))) {
        Ok((before, after)) => {
            let (before, begins) =
                (before.unwrap_or_default(), source_start(&entry.commit).is_some());
            let skips = |section: &str| begins && is_transcript_section(section);
            let changed = diff_by_value_but(repo, &before, &after, &skips)?;
            Ok(Some(TurnDiff { after, changed }))
        }
        Err(error) if error.kind() == ErrorKind::Expired => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns true if a commit only repeats earlier messages.
pub(crate) fn repeats(commit: &Commit) -> bool {
    matches!(commit.trigger, Trigger::Compaction | Trigger::Merge | Trigger::Rollback)
}
