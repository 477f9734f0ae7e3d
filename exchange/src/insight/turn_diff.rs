//! What a turn changed, against the turn before it.

use turntree::context::{Context, ContextDiff, diff_by_value};
use turntree::error::{ErrorKind, Result};
use turntree::object::{Commit, Trigger};
use turntree::repo::{LogEntry, Repository};

/// A turn's context, and its differences from the one before.
pub(crate) struct TurnDiff {
    pub(crate) after: Context,
    pub(crate) changed: ContextDiff,
}

/// Compares a turn with its first parent, by what entries say; `None` when the content of one of them was dropped.
pub(crate) fn turn_diff(repo: &Repository, entry: &LogEntry) -> Result<Option<TurnDiff>> {
    let before = entry.parents.first().map(|parent| repo.context(parent)).transpose();
    match before.and_then(|before| Ok((before, repo.context(&entry.id)?))) {
        Ok((before, after)) => {
            let changed = diff_by_value(repo.store(), &before.unwrap_or_default(), &after)?;
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
