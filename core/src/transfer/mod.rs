//! Takes sessions out of one store and into another, with everything that they need.
//!
//! [`bundle`] does it by one file, which verifies by itself and may lie in an archive for years.

pub mod bundle;
