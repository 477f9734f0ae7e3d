//! Moves sessions with their dependencies from one store to another.
//!
//! [`bundle`] uses one self-contained file, which verifies without a store and can be archived for
//! years. [`remote`] uses a bucket of such files, which several machines push to and fetch from.

pub mod bundle;
pub mod remote;
