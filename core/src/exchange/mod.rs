//! In and out: recorded sessions, one file a format.

pub mod document;
pub mod formats;
