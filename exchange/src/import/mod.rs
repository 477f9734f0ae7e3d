//! Turns pieces and events of transcripts into commits.
//!
//! ```text
//! pieces -> resume: what the session has already -> parser -> events -> turns -> commits
//!              |                                                         |
//!            fork: what another session has                     rewind: back to a turn
//! ```
//!
//! [`transcript`] imports a file that grows at its end. [`document_import`] imports a document that
//! its client rewrites as a whole. [`follow`] imports the part that a client added since its last
//! event.

mod captures;
pub(crate) mod document_import;
pub(crate) mod finish;
pub(crate) mod flush;
pub(crate) mod follow;
pub(crate) mod fork;
pub(crate) mod gap_limit;
mod redact;
mod resume;
pub(crate) mod rewind;
pub(crate) mod rollback;
pub(crate) mod source;
pub(crate) mod transcript;
pub(crate) mod turns;
