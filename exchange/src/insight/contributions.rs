//! Contributions: what merges and cherry-picks brought to a branch, for an agent that works on it.

use turntree::context::MessageEntry;
use turntree::context::sections::{FILES, MAIN_MESSAGES};
use turntree::error::Result;
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{LogEntry, MERGED_FROM, Repository};

use super::turn_diff::turn_diff;
use crate::formats::view;
use crate::import::rollback::RESUMED_FROM;

/// The newest turns of a line in which [`contributions`] looks.
const CONTRIBUTION_TURNS: usize = 50;

/// What a merge or a cherry-pick brought.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contribution {
    /// Its snapshot.
    pub commit: ObjectId,
    /// The turn of that snapshot.
    pub turn: u64,
    /// The merged branch, or the id of the snapshot.
    pub from: String,
    /// The texts of the messages that it added to the main conversation, in order.
    pub texts: Vec<String>,
    /// The paths that it changed.
    pub files: Vec<String>,
}

/// Returns what merges and cherry-picks brought to the line of `tip`, newest first: those among the
/// last 50 turns, after the beginning of a resumed session and after `since`.
///
/// # Errors
/// Errors of reading the snapshots.
pub fn contributions(
    repo: &Repository,
    tip: &ObjectId,
    since: Option<&ObjectId>,
) -> Result<Vec<Contribution>> {
    let mut found = Vec::new();
    for entry in repo.history(&[*tip], &[])?.first_parent().take(CONTRIBUTION_TURNS) {
        let entry = entry?;
        if Some(&entry.id) == since || entry.commit.metadata.contains_key(RESUMED_FROM) {
            break;
        }
        if let Some(from) = entry.commit.metadata.get(MERGED_FROM) {
            found.extend(contribution(repo, &entry, from.clone())?);
        }
    }
    Ok(found)
}

/// Reads one. `None` if its content expired.
fn contribution(repo: &Repository, entry: &LogEntry, from: String) -> Result<Option<Contribution>> {
    let Some(turn) = turn_diff(repo, entry)? else { return Ok(None) };
    let (mut texts, mut files) = (Vec::new(), Vec::new());
    for (name, diff) in &turn.changed {
        match name.as_str() {
            FILES => files.extend(diff.changes.iter().map(|change| change.key.clone())),
            MAIN_MESSAGES => {
                for item in diff.changes.iter().filter_map(|change| change.new.as_ref()) {
                    let message = MessageEntry::from_item(item)?;
                    let bytes = repo.store().read_as(Kind::Blob, &message.blob)?;
                    texts.push(view(&message.media, &bytes).text);
                }
            }
            _ => {}
        }
    }
    texts.retain(|text| !text.trim().is_empty());
    Ok(Some(Contribution { commit: entry.id, turn: entry.commit.turn, from, texts, files }))
}
