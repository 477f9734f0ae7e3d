//! The gateway of `replay`: serves recorded answers to the client that the command runs.
//!
//! | file | job |
//! |---|---|
//! | `gateway.rs` | decides on requests: a recorded answer, a refusal, or the real model |
//! | `forward.rs` | sends a request to the real model, and its answer back while it comes |
//! | `tally.rs` | what happened: answers served, the first difference, forwarded requests |
//!
//! The key is in the path of each address, since clients of all interfaces keep a path in the base
//! address that they are given, and send their own credentials in headers.

mod forward;
mod gateway;
mod tally;

pub(crate) use self::gateway::{Gateway, Then};
pub(crate) use self::tally::{Tally, first_line};
