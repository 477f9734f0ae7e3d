//! In and out: recorded sessions, one file a format.

mod json;

pub mod detect;
pub mod formats;
pub mod lines;
