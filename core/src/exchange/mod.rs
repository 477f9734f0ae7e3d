//! In and out: recorded sessions and state documents, one file a format.
//!
//! ```text
//! file -> cut into pieces -> parsed into events -> turns -> commits
//!         lines, document    formats/<name>       turns    import
//!
//! commits -> the file again, byte for byte, or the messages at any revision
//! ```

pub mod detect;
pub mod document;
mod export;
pub mod formats;
mod import;
mod json;
pub mod lines;
mod rejoin;
mod source;
mod state;
mod turns;

pub use export::export_messages;
pub use import::{ImportNote, ImportOptions, ImportReport, import};
pub use source::export_source;
pub use state::{JSON_MEDIA, apply_state};
