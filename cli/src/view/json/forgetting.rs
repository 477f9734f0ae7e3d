//! The record of `session forget`.

use serde::Serialize;

use super::collection::ObjectsSize;

/// `session forget`.
#[derive(Serialize)]
pub(crate) struct Forgetting {
    pub(crate) dry_run: bool,
    pub(crate) sessions: Vec<ForgottenSession>,
    /// From when on a collection frees it; `null` when nothing was done.
    pub(crate) free_time: Option<String>,
    /// What it freed; `null` when it freed nothing yet.
    pub(crate) freed: Option<ObjectsSize>,
}

/// A session that goes.
#[derive(Serialize)]
pub(crate) struct ForgottenSession {
    pub(crate) session: String,
    pub(crate) branches: u64,
    /// The highest turn.
    pub(crate) turn: u64,
    /// Turns that only it has.
    pub(crate) turns: u64,
    /// What only it takes.
    pub(crate) bytes: u64,
    /// When the newest turn was made.
    pub(crate) time: String,
    /// Remotes that had it when they were last seen.
    pub(crate) remotes: Vec<String>,
}
