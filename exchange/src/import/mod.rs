//! Pieces and events become commits.
//!
//! ```text
//! pieces -> resume: what the session has already -> parser -> events -> turns -> commits
//!              |                                                         |
//!            fork: what another session has                     rewind: back to a turn
//! ```
//!
//! [`transcript`] brings in a file that grows at its end, [`document_import`] one that says everything
//! at once, and [`follow`] what was added since a client's last event.

mod captures;
pub(crate) mod document_import;
pub(crate) mod finish;
pub(crate) mod flush;
pub(crate) mod follow;
pub(crate) mod fork;
pub(crate) mod gap_limit;
mod redacted;
mod resume;
pub(crate) mod rewind;
pub(crate) mod source;
pub(crate) mod taken_back;
pub(crate) mod transcript;
pub(crate) mod turns;
