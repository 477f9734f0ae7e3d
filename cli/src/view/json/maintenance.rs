//! The record of automatic maintenance in `status`.

use serde::Serialize;
use turntree::object::Time;

/// Automatic maintenance in `status`.
#[derive(Serialize)]
pub(crate) struct Maintenance {
    /// When it began the last time.
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
    /// Why nothing goes on now, for people; `null` while nothing has to.
    pub(crate) waits: Option<String>,
}
