//! In and out: recorded sessions, one file a format.
//!
//! A transcript passes through here in three steps, none of which keeps more than a record:
//!
//! 1. [`detect`] names the format from the beginning of the file.
//! 2. [`lines`] or [`document`] cuts the file into pieces whose bytes, joined, are the file again.
//! 3. [`formats`] has a parser for each format that says what a piece means.

mod json;

pub mod detect;
pub mod document;
pub mod formats;
pub mod lines;
