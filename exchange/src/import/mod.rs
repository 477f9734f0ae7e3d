//! Pieces and events become commits.
//!
//! ```text
//! pieces -> rejoin: what the session has already -> parser -> events -> turns -> commits
//!              |                                                         |
//!            fork: what another session has                     rewind: back to a turn
//! ```
//!
//! [`transcript`] brings in a file that grows at its end, [`whole_document`] one that says everything
//! at once, and [`follow`] what was added since a client's last event.

pub(crate) mod between;
mod captures;
pub(crate) mod follow;
pub(crate) mod fork;
mod redacted;
mod rejoin;
mod rewind;
pub(crate) mod source;
mod taken_back;
pub(crate) mod transcript;
mod turns;
mod unread;
pub(crate) mod whole_document;
