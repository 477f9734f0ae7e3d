//! Buckets of the tests, with the trouble that networks make.
//!
//! [`MemoryBucket`] is for the protocol: everything that a client may see of an object storage happens in
//! it on demand or by a seed, at any call, and clients are interleaved and killed between any two.

mod fault;
mod machine;
mod memory;
mod objects;
#[cfg(test)]
mod tests;

pub use fault::{Call, Fault, Requests, Verb};
pub use machine::{Machine, ORIGIN, REMOTE};
pub use memory::{MemoryBucket, MemoryClient};
pub use objects::Saved;
