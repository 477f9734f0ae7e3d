//! A bucket at the other end of a pipe: the protocol of a remote over `ssh`, as frames on two
//! streams.
//!
//! ```text
//! server   turntree remote 1\n
//! client   frame: what is asked, and bytes of an object      server   frame: the answer, and bytes
//! ```
//!
//! Requests are answered one after another; an upload is a request followed by as many frames as
//! its bytes need. `format-spec/remote.md`, "On a pipe", specifies the bytes. Both ends treat each
//! other as untrusted: they check lengths before reading, and validate keys.

mod client;
mod frame;
mod server;

pub use client::{Pipe, PipeBucket};
pub use frame::{Answer, Frame, Request};
pub use server::{refuse, serve};

/// The first line of a server: the version of the frames.
pub const GREETING: &str = "turntree remote 1";
