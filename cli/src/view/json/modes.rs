//! Records of an agent's modes, in the form of OLLM CLI.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use turntree_exchange::formats::ollm::PastTransition;

use super::Moved;
use crate::view::clock;

/// `ollm modes`.
#[derive(Debug, Serialize)]
pub(crate) struct ModesRecord<'a> {
    session: &'a str,
    /// Transitions that were dropped.
    expired: u64,
    /// The remaining ones, oldest first.
    transitions: Vec<ModeChange<'a>>,
    counts: Vec<ModeCount<'a>>,
    modes: Vec<ModeTime<'a>>,
}

#[derive(Debug, Serialize)]
struct ModeChange<'a> {
    id: String,
    time: String,
    from: &'a str,
    to: &'a str,
    task: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct ModeCount<'a> {
    from: &'a str,
    to: &'a str,
    count: u64,
}

/// The time spent in a mode that was entered and left.
#[derive(Debug, Serialize)]
struct ModeTime<'a> {
    mode: &'a str,
    micros: i64,
}

/// `ollm transition --restore`.
#[derive(Serialize)]
pub(crate) struct MovedBack {
    #[serde(flatten)]
    pub(crate) moved: Moved,
    /// The state in which the restored mode was left; `null` if it was not left before.
    pub(crate) restored: Option<Value>,
}

impl<'a> ModesRecord<'a> {
    pub(crate) fn new(
        session: &'a str,
        past: &'a [PastTransition],
        expired: u64,
        counts: &'a BTreeMap<(String, String), u64>,
        times: &'a BTreeMap<String, i64>,
    ) -> Self {
        let change = |change: &'a PastTransition| ModeChange {
            id: change.id.to_string(),
            time: clock::rfc3339(change.time),
            from: &change.from,
            to: &change.to,
            task: change.task.as_deref(),
        };
        let counted = |((from, to), count): (&'a (String, String), &u64)| ModeCount {
            from,
            to,
            count: *count,
        };
        let spent = |(mode, micros): (&'a String, &i64)| ModeTime { mode, micros: *micros };
        Self {
            session,
            expired,
            transitions: past.iter().map(change).collect(),
            counts: counts.iter().map(counted).collect(),
            modes: times.iter().map(spent).collect(),
        }
    }
}
