//! The record of a replay.

use serde::Serialize;

/// `replay`.
#[derive(Debug, Serialize)]
pub(crate) struct Replayed {
    /// The last snapshot whose answers were served; `null` before the first turn.
    pub(crate) last: Option<String>,
    /// The number of recorded answers, and of those that were served.
    pub(crate) answers: u64,
    pub(crate) served: u64,
    /// Requests that got a recorded answer, and side requests that got a placeholder.
    pub(crate) requests: u64,
    pub(crate) side_requests: u64,
    /// The first difference that ended the replay.
    pub(crate) difference: Option<ReplayDifference>,
    /// Results of tools that were not the recorded ones.
    pub(crate) result_differences: Vec<ReplayDifference>,
    pub(crate) refused: u64,
    pub(crate) forwarded: u64,
    /// The exit code of the command.
    pub(crate) exit: i32,
}

/// A part of a request that is not the recorded one.
#[derive(Debug, Serialize)]
pub(crate) struct ReplayDifference {
    /// `prompt`, `text`, `call`, `arguments` or `result`.
    pub(crate) kind: &'static str,
    /// Where it is in the request, such as `messages[4]`.
    pub(crate) place: String,
    /// The number of answers before it.
    pub(crate) answers: u64,
    pub(crate) expected: String,
    pub(crate) found: String,
}
