//! The record of the last run of automatic maintenance, stored next to the store for the next run.
//!
//! ```text
//! maintenance.last   {"version":1,"time_micros":...,"outcome":"done","left_bytes":0,...}
//! ```
//!
//! The file is derived: if it is missing, torn or invalid, a step is due as on the first run.

use serde::{Deserialize, Serialize};

use super::collection::Collected;
use crate::error::{Error, ErrorKind, Result};
use crate::maintenance::keep::policy::Policies;
use crate::maintenance::keep::roots::PROTECTED_OPERATIONS;
use crate::maintenance::keep::store_bound::Fullness;
use crate::object::RefChange;
use crate::repo::{Repository, is_session_ref};
use crate::store::{CollectorLock, JournalSize, Store};

const VERSION: u64 = 1;

/// The longest stored reason, in bytes.
const MAX_REASON_BYTES: usize = 1024;

/// Failures in a row after which the interval to the next try stays the same.
const MAX_DOUBLINGS: u32 = 4;

/// A step marks the store again when it has grown by one part in this many.
const GROWTH_PARTS: u64 = 4;

/// The outcome of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StepOutcome {
    /// It began, and is still running or was killed.
    Begun,
    /// It wrote packs, or expired turns or sessions.
    Done,
    /// It found nothing to do.
    Nothing,
    /// It failed.
    Failed,
}

impl StepOutcome {
    /// Returns the name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Done => "done",
            Self::Nothing => "nothing",
            Self::Failed => "failed",
        }
    }
}

/// The last try of automatic maintenance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LastStep {
    version: u64,
    /// The start time, in microseconds since the Unix epoch.
    pub time_micros: i64,
    /// The outcome.
    pub outcome: StepOutcome,
    /// The reason why it failed or did nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Bytes of the idle journal that it left.
    pub left_bytes: u64,
    /// Objects of the idle journal that it left.
    pub left_objects: u64,
    /// Tries in a row that failed or were killed.
    pub failures: u32,
    /// Bytes of the written packs.
    #[serde(default)]
    pub written_bytes: u64,
    /// Bytes of the replaced files.
    #[serde(default)]
    pub replaced_bytes: u64,
    /// Turns that expired.
    #[serde(default)]
    pub expired_turns: u64,
    /// Bytes of all files, if the budgets were exceeded with nothing left to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_bytes: Option<u64>,
    /// The last step that marked the store, as opposed to steps that only packed the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marked: Option<MarkedStore>,
}

/// The store when a step last marked it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MarkedStore {
    /// Bytes of all files after the step, or after a later one that found them smaller.
    pub bytes: u64,
    /// The number of the newest operation before the mark.
    pub operation: u64,
}

impl LastStep {
    /// Reads the record of the last try; `None` if it is missing or invalid.
    #[must_use]
    pub fn of(repo: &Repository) -> Option<Self> {
        let store = repo.store();
        let last: Self = serde_json::from_slice(&store.last_step()?).ok()?;
        (last.version == VERSION).then_some(last)
    }

    /// Creates the record of a try that begins now, after `last`.
    pub(in crate::maintenance) fn begin(time_micros: i64, last: Option<&Self>) -> Self {
        Self {
            version: VERSION,
            time_micros,
            outcome: StepOutcome::Begun,
            reason: None,
            left_bytes: 0,
            left_objects: 0,
            failures: last.map_or(0, |last| last.failures).saturating_add(1),
            written_bytes: 0,
            replaced_bytes: 0,
            expired_turns: 0,
            over_bytes: last.and_then(|last| last.over_bytes),
            marked: last.and_then(|last| last.marked),
        }
    }

    /// Returns true if a step that marks the store would free little: the store has grown by less
    /// than a quarter since the last mark, no deleted branch, tag or pin has lost the protection of
    /// its operation since, and nothing expires. So all marks of a growing store cost five times as
    /// much as the last one, instead of one for each step.
    ///
    /// # Errors
    /// Errors of reading the policies and the operations since the last mark.
    pub(super) fn frees_little(&mut self, repo: &Repository) -> Result<bool> {
        let Some(marked) = &mut self.marked else { return Ok(false) };
        let fullness = Fullness::of(repo)?;
        // A collection on request may have made the store smaller since.
        marked.bytes = marked.bytes.min(fullness.file_bytes);
        let marked = *marked;
        Ok(fullness.bound_bytes.is_none()
            && fullness.file_bytes - marked.bytes < marked.bytes / GROWTH_PARTS
            && Policies::load(repo.store(), &repo.refs())?.is_empty()
            && repo.forgotten_sessions()?.is_empty()
            && !has_unprotected_deletion(repo, marked.operation)?)
    }

    /// Records that a step has marked the store, up to the operation of this number.
    ///
    /// # Errors
    /// Errors of reading the sizes of files.
    pub(super) fn record_mark(&mut self, repo: &Repository, operation: u64) -> Result<()> {
        let bytes = Fullness::of(repo)?.file_bytes;
        self.marked = Some(MarkedStore { bytes, operation });
        Ok(())
    }

    /// Records the outcome. In an encrypted store the reason is omitted: a message may contain
    /// names from the store.
    pub(in crate::maintenance) fn end(
        &mut self,
        done: &Result<Option<Collected>>,
        is_encrypted: bool,
    ) {
        let reason = match done {
            Ok(Some(collected)) => {
                self.outcome = StepOutcome::Done;
                self.written_bytes = collected.written_bytes;
                self.replaced_bytes = collected.replaced_bytes;
                self.expired_turns = collected.expired_turns;
                None
            }
            Ok(None) => {
                self.outcome = StepOutcome::Nothing;
                None
            }
            Err(error) => Some(error),
        };
        match reason {
            None => self.failures = 0,
            Some(error) => {
                self.outcome = StepOutcome::Failed;
                self.reason = (!is_encrypted).then(|| format_reason(error));
            }
        }
    }

    /// Records the rest of the journal.
    pub(super) fn record_rest(&mut self, left: JournalSize) {
        (self.left_bytes, self.left_objects) = (left.bytes, left.objects);
    }

    /// Replaces the stored record.
    ///
    /// # Errors
    /// `Io` when the file cannot be written.
    pub(in crate::maintenance) fn keep(&self, store: &Store, lock: &CollectorLock) -> Result<()> {
        let bytes = serde_json::to_vec(self).map_err(|source| {
            Error::new(ErrorKind::Io, "write the last step").with_source(source)
        })?;
        store.write_last_step(lock, &bytes)
    }

    /// Returns true if it began more than `than_micros` before `now_micros`.
    pub(super) fn is_older(&self, now_micros: i64, than_micros: i64) -> bool {
        self.time_micros < now_micros.saturating_sub(than_micros)
    }

    /// Returns the interval to the next try, as a multiple of the usual one.
    #[must_use]
    pub fn distances(&self) -> u64 {
        // One kill may be a machine that was turned off; repeated kills mean a lack of resources.
        let is_killed = self.outcome == StepOutcome::Begun;
        let doublings = if is_killed { self.failures.saturating_sub(1) } else { self.failures };
        1 << doublings.min(MAX_DOUBLINGS)
    }

    /// Returns the part of an idle journal that is new since this try, and the multiple of the
    /// usual interval to the next try. If the journal is smaller than this try left it, another
    /// process has packed it since.
    pub(super) fn new_since(&self, idle: JournalSize) -> (JournalSize, u64) {
        let times = self.distances();
        let bytes = idle.bytes.checked_sub(self.left_bytes);
        match bytes.zip(idle.objects.checked_sub(self.left_objects)) {
            Some((bytes, objects)) => (JournalSize { bytes, objects }, times),
            None => (idle, 1),
        }
    }
}

/// Returns true if an operation that protected the content of a deleted branch, tag or pin at the
/// mark after the operation `marked` is not among the protected ones any more.
fn has_unprotected_deletion(repo: &Repository, marked: u64) -> Result<bool> {
    let was_protected = marked.saturating_sub(PROTECTED_OPERATIONS as u64);
    for entry in repo.operations().skip(PROTECTED_OPERATIONS) {
        let operation = entry?.operation;
        if operation.sequence <= was_protected {
            break;
        }
        let deletes = |change: &RefChange| change.new.is_none() && is_session_ref(&change.name);
        if operation.changes.iter().any(deletes) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Formats an error in one line.
fn format_reason(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    let end = (0..=MAX_REASON_BYTES.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or_default());
    text
}
