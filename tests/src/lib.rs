//! The test kit: a disk that crashes and fails on demand, and the oracle that judges a store after.

pub mod oracle;
mod sandbox;
pub mod sim;
mod transcripts;

pub use sandbox::{Sandbox, recorded_sessions, stamp};
pub use transcripts::{claude_code, claude_code_turn};
