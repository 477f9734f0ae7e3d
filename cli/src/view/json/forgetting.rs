//! The record of `session forget`.

use serde::Serialize;

use super::collection::ObjectsSize;

/// `session forget`.
#[derive(Serialize)]
pub(crate) struct Forgetting {
    pub(crate) dry_run: bool,
    pub(crate) sessions: Vec<ForgottenSession>,
    /// The time from which a collection frees it; `null` if nothing was done.
    pub(crate) free_time: Option<String>,
    /// The objects freed; `null` if nothing was freed yet.
    pub(crate) freed: Option<ObjectsSize>,
}

/// A session to forget.
#[derive(Serialize)]
pub(crate) struct ForgottenSession {
    pub(crate) session: String,
    pub(crate) branches: u64,
    /// The highest turn number.
    pub(crate) turn: u64,
    /// Turns that no other session has.
    pub(crate) turns: u64,
    /// Bytes used only by this session.
    pub(crate) bytes: u64,
    /// The time of the newest turn.
    pub(crate) time: String,
    /// Remotes that had it when they were last seen.
    pub(crate) remotes: Vec<String>,
}
