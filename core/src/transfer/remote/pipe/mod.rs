//! A bucket at the other end of a pipe: the verbs of a remote for `ssh`, as frames on two streams.
//!
//! ```text
//! server   turntree remote 1\n
//! client   frame: what is asked, and bytes of an object      server   frame: the answer, and bytes
//! ```
//!
//! One question has one answer, in turn; an upload is a question with as many frames behind it as its bytes
//! need. The bytes are `format-spec/remote.md`, "On a pipe". Either end believes nothing of the other one:
//! lengths are bounded before anything is read, and keys are keys.

mod client;
mod frame;
mod server;

pub use client::{Pipe, PipeBucket};
pub use frame::{Answer, Frame, MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES, Request};
pub use server::{refuse, serve};

/// What a server says first: the version of the frames.
pub const GREETING: &str = "turntree remote 1";
