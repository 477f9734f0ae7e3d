//! In and out: recorded sessions, one file a format.

pub mod formats;
