//! The records of `bisect`.

use serde::Serialize;

/// `bisect`, and its verbs `start`, `good`, `bad`, `skip` and `run`.
#[derive(Serialize)]
pub(crate) struct Bisect {
    pub(crate) session: String,
    /// `waiting`, `next`, `found` or `stuck`.
    pub(crate) state: &'static str,
    pub(crate) has_bad: bool,
    pub(crate) has_good: bool,
    /// The turn to test next, or the first bad one.
    pub(crate) turn: Option<BisectTurn>,
    /// The number of turns that may be the first bad one, until it is found.
    pub(crate) remaining: Option<u64>,
    /// The maximum number of answers still needed.
    pub(crate) steps: Option<u32>,
    /// The turns that may be the first bad one, if `state` is `stuck`.
    pub(crate) candidates: Vec<BisectTurn>,
    /// The answers of a run.
    pub(crate) answers: Vec<BisectAnswer>,
}

impl Bisect {
    /// A search with a bad and a good turn.
    pub(crate) fn new(session: &str, answers: Vec<BisectAnswer>) -> Self {
        Self {
            session: session.to_owned(),
            state: "",
            has_bad: true,
            has_good: true,
            turn: None,
            remaining: None,
            steps: None,
            candidates: Vec::new(),
            answers,
        }
    }
}

/// A turn of a search.
#[derive(Serialize)]
pub(crate) struct BisectTurn {
    pub(crate) turn: u64,
    pub(crate) id: String,
    pub(crate) message: String,
    /// `skipped` or `elided` if it cannot be tested.
    pub(crate) untestable: Option<&'static str>,
}

/// The verdict of a run on a turn.
#[derive(Serialize)]
pub(crate) struct BisectAnswer {
    pub(crate) turn: u64,
    pub(crate) id: String,
    /// `good`, `bad` or `skip`.
    pub(crate) verdict: &'static str,
    /// True if the command ran; false if a turn with the same files was known.
    pub(crate) tested: bool,
}

/// One line of `bisect log`.
#[derive(Serialize)]
pub(crate) struct BisectNote {
    /// `good`, `bad` or `skip`.
    pub(crate) verdict: &'static str,
    /// `commit`, or `tree` for a root of files.
    pub(crate) kind: &'static str,
    pub(crate) id: String,
    /// The turn of a commit, if it still exists.
    pub(crate) turn: Option<u64>,
}

/// `bisect reset`.
#[derive(Serialize)]
pub(crate) struct BisectReset {
    /// The session whose search has ended.
    pub(crate) session: String,
}
