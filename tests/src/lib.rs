//! The test kit.
//!
//! | what | job |
//! |---|---|
//! | [`sim`] | a disk that crashes and fails on demand, by seed |
//! | [`oracle`] | what a store must be after that, whatever happened |
//! | [`sample`] | a small store with some of everything |
//! | [`Sandbox`] | a store of its own for a test |
//! | [`claude_code`], [`recorded_sessions`] | transcripts: made here, and real ones where they are |

pub mod oracle;
pub mod sample;
mod sandbox;
pub mod sim;
mod transcripts;

pub use sandbox::{Sandbox, recorded_sessions, stamp};
pub use transcripts::{claude_code, claude_code_turn};
