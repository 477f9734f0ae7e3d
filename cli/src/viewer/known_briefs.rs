//! Briefs of sessions that a server has read, kept for later answers.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use turntree::object::ObjectId;
use turntree_exchange::{SessionBrief, Spending, TurnKind};

/// The maximum number of briefs that are kept. They have numbers, and no content.
const MAX_KNOWN: usize = 4096;

/// The known briefs, by the newest snapshot of their session.
#[derive(Debug, Default)]
pub(super) struct KnownBriefs(Mutex<HashMap<ObjectId, BriefRecord>>);

/// The brief of a session, as a page reads it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct BriefRecord {
    /// A letter for each slot of the picture, see [`TurnKind`].
    kinds: String,
    passed: Option<bool>,
    interrupted: bool,
    failed_calls: u64,
    /// Input and output tokens, and US dollars; null if they are not recorded.
    tokens: Option<u64>,
    cost: Option<f64>,
    /// False if the session cost more.
    whole: bool,
}

impl BriefRecord {
    pub(super) fn of(brief: &SessionBrief) -> Self {
        let spending = brief.spending.as_ref();
        Self {
            kinds: brief.kinds.iter().copied().map(TurnKind::letter).collect(),
            passed: brief.passed,
            interrupted: brief.is_interrupted,
            failed_calls: brief.failed_calls,
            tokens: spending.map(|spending| spending.tokens.total()),
            cost: spending.and_then(Spending::cost),
            whole: !brief.has_older && spending.is_none_or(Spending::is_whole),
        }
    }
}

impl KnownBriefs {
    /// Returns the brief of the line of a snapshot.
    pub(super) fn get(&self, tip: &ObjectId) -> Option<BriefRecord> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(tip).cloned()
    }

    /// Keeps the brief of the line of a snapshot.
    pub(super) fn keep(&self, tip: ObjectId, brief: BriefRecord) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(tip, brief);
    }
}
