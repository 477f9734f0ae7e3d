//! What a turn changed, against the turn before it.

use turntree::context::{Context, ContextDiff, diff_by_value_but, is_transcript_section};
use turntree::error::{ErrorKind, Result};
use turntree::object::{Commit, Trigger};
use turntree::repo::{LogEntry, Repository};

use crate::import::rewind::begins;

/// A turn's context, and its differences from the one before.
pub(crate) struct TurnDiff {
    pub(crate) after: Context,
    pub(crate) changed: ContextDiff,
}

/// Compares a turn with its first parent, by what entries say; `None` when the content of one of them was dropped.
///
/// The pieces of a transcript are not listed for a turn that begins a branch of one: all that the file had
/// before would count, and of thousands of branches that is the square.
pub(crate) fn turn_diff(repo: &Repository, entry: &LogEntry) -> Result<Option<TurnDiff>> {
    let before = entry.parents.first().map(|parent| repo.context(parent)).transpose();
    match before.and_then(|before| Ok((before, repo.context(&entry.id)?))) {
        Ok((before, after)) => {
            let (before, begins) = (before.unwrap_or_default(), begins(&entry.commit).is_some());
            let skips = |section: &str| begins && is_transcript_section(section);
            let changed = diff_by_value_but(repo.store(), &before, &after, &skips)?;
            Ok(Some(TurnDiff { after, changed }))
        }
        Err(error) if error.kind() == ErrorKind::Expired => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether the messages of a commit were said before.
pub(crate) fn repeats(commit: &Commit) -> bool {
    matches!(commit.trigger, Trigger::Compaction | Trigger::Merge | Trigger::Rollback)
}
