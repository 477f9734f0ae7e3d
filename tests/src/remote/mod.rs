//! Buckets of the tests, with the trouble that networks make.
//!
//! [`MemoryBucket`] tests the protocol: every behaviour of an object storage happens in it on
//! demand or by a seed, at any call, and clients are interleaved and killed between any two.
//! [`ObjectServer`] tests the wire: programs push to it, and are killed at any of their requests.

mod contract;
mod fault;
mod machine;
mod memory;
mod objects;
mod server;
mod team;
#[cfg(test)]
mod tests;

pub use contract::{Open, Source, expect_bucket};
pub use fault::{Call, Fault, Requests, Verb};
pub use machine::{Machine, ORIGIN, REMOTE};
pub use memory::{MemoryBucket, MemoryClient};
pub use objects::Saved;
pub use server::{BUCKET, KEY_ID, ObjectServer, Request, SavedObjects, Trouble};
pub use team::Team;
