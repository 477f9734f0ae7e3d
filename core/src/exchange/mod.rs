//! In and out: recorded sessions, one file a format.

mod json;

pub mod detect;
pub mod document;
pub mod formats;
pub mod lines;
