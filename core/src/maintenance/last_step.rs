//! The last try of automatic maintenance, as it is kept beside the store for the next one.
//!
//! ```text
//! maintenance.last   {"version":1,"time_micros":...,"outcome":"done","left_bytes":0,...}
//! ```
//!
//! The file is derived: one that is missing, torn or of something else is as good as none, and then a
//! step is due as it was the first time.

use serde::{Deserialize, Serialize};

use super::collect::Collected;
use crate::error::{Error, ErrorKind, Result};
use crate::store::{CollectorLock, JournalSize, Store};

const VERSION: u64 = 1;

/// Most bytes of a reason that are kept.
const MAX_REASON_BYTES: usize = 1024;

/// Failures in a row after which the distance to the next try grows no more.
const MAX_DOUBLINGS: u32 = 4;

/// What became of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StepOutcome {
    /// It began; it goes on, or its process was ended.
    Begun,
    /// It wrote packs, or let something go.
    Done,
    /// There was nothing that it could do.
    Nothing,
    /// It failed.
    Failed,
}

impl StepOutcome {
    /// Returns its name in records.
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
    /// When it began, in microseconds since the Unix epoch.
    pub time_micros: i64,
    /// What became of it.
    pub outcome: StepOutcome,
    /// Why it failed, or did nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Bytes of the idle journal that it has left.
    pub left_bytes: u64,
    /// Objects of it.
    pub left_objects: u64,
    /// Tries in a row that did not come to a good end.
    pub failures: u32,
    /// Bytes of the packs that it wrote.
    #[serde(default)]
    pub written_bytes: u64,
    /// Bytes of the files that went.
    #[serde(default)]
    pub replaced_bytes: u64,
    /// Turns that expired.
    #[serde(default)]
    pub expired_turns: u64,
    /// Bytes of all files, when the budgets could not be kept although nothing was left to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_bytes: Option<u64>,
}

impl LastStep {
    /// Reads what the last try has left; nothing when there is none that can be believed.
    #[must_use]
    pub fn of(store: &Store) -> Option<Self> {
        let last: Self = serde_json::from_slice(&store.last_step()?).ok()?;
        (last.version == VERSION).then_some(last)
    }

    /// A try that begins now, behind `last`.
    pub(super) fn begun(time_micros: i64, last: Option<&Self>) -> Self {
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
        }
    }

    /// Notes what became of it. In an encrypted store the reason is left out: a message may name what is
    /// in it.
    pub(super) fn end(&mut self, done: &Result<Option<Collected>>, is_encrypted: bool) {
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
                self.reason = (!is_encrypted).then(|| shortened(error));
            }
        }
    }

    /// Notes what it has left of the journal.
    pub(super) fn leave(&mut self, left: JournalSize) {
        (self.left_bytes, self.left_objects) = (left.bytes, left.objects);
    }

    /// Puts it in the place of the one before.
    ///
    /// # Errors
    /// `Io` when the disk refuses.
    pub(super) fn keep(&self, store: &Store, lock: &CollectorLock) -> Result<()> {
        let bytes = serde_json::to_vec(self).map_err(|source| {
            Error::new(ErrorKind::Io, "write the last step").with_source(source)
        })?;
        store.keep_last_step(lock, &bytes)
    }

    /// Returns true if it began more than so long before this moment, in microseconds.
    pub(super) fn is_older(&self, now_micros: i64, than_micros: i64) -> bool {
        self.time_micros < now_micros.saturating_sub(than_micros)
    }

    /// Returns how often the usual distance the next try is away.
    #[must_use]
    pub fn distances(&self) -> u64 {
        // Killed once may be a machine that was turned off; killed again and again it has no room.
        let is_killed = self.outcome == StepOutcome::Begun;
        let doublings = if is_killed { self.failures.saturating_sub(1) } else { self.failures };
        1 << doublings.min(MAX_DOUBLINGS)
    }

    /// What of an idle journal is new since then, and how often the usual distance to the next try it
    /// has to be. Where there is less than this has left, others have packed it since.
    pub(super) fn is_behind(&self, idle: JournalSize) -> (JournalSize, u64) {
        let times = self.distances();
        let bytes = idle.bytes.checked_sub(self.left_bytes);
        match bytes.zip(idle.objects.checked_sub(self.left_objects)) {
            Some((bytes, objects)) => (JournalSize { bytes, objects }, times),
            None => (idle, 1),
        }
    }
}

/// An error in one line.
fn shortened(error: &Error) -> String {
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
