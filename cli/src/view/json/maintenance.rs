//! The record of automatic maintenance in `status`.

use serde::Serialize;
use turntree::object::Time;

/// Automatic maintenance in `status`.
#[derive(Serialize)]
pub(crate) struct Maintenance {
    /// The time of its last start.
    pub(crate) time: String,
    #[serde(skip)]
    pub(crate) began: Time,
    /// `begun`, `done`, `nothing` or `failed`.
    pub(crate) outcome: &'static str,
    /// Why it failed.
    pub(crate) reason: Option<String>,
    /// Bytes of the packs that it wrote.
    pub(crate) written_bytes: u64,
    /// Turns that expired.
    pub(crate) expired_turns: u64,
    /// Why none is running now, for people; `null` if none is due.
    pub(crate) waits: Option<String>,
}
