//! Output for people and programs: text, records, errors, and values formatted and parsed.

pub(crate) mod advice;
pub(crate) mod clock;
pub(crate) mod error;
pub(crate) mod json;
pub(crate) mod moment;
pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod render;
pub(crate) mod short_names;
mod terminal_text;
pub(crate) mod units;
pub(crate) mod usage;
