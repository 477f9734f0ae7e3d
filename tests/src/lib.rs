//! The test kit: a disk that crashes and fails on demand, and the oracle that judges a store after.

// A test that cannot go on says so by panicking.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a broken expectation must end the test where it is noticed"
)]

pub mod oracle;
mod sandbox;
pub mod sim;
mod transcripts;

pub use sandbox::{Sandbox, recorded_sessions, stamp};
pub use transcripts::{claude_code, claude_code_turn};
