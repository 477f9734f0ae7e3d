//! Takes sessions out of one store and into another, with everything that they need.
//!
//! [`bundle`] does it by one file, which verifies by itself and may lie in an archive for years;
//! [`remote`] by many of them in a bucket that several machines push to and fetch from.

pub mod bundle;
pub mod remote;
