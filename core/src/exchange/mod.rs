//! In and out: recorded sessions, one file a format.

pub mod formats;
mod state;

pub use state::{JSON_MEDIA, apply_state};
