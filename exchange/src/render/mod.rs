//! Renders sessions for users and for other tools. Imports cannot restore the original bytes from
//! these forms.
//!
//! | file | job |
//! |---|---|
//! | `history` | the snapshots of branches, oldest first, each with its changes |
//! | `page`, `page/*.js`, `page/page.css` | one self-contained HTML file: the page and its data |
//! | `markdown` | a transcript to read, turn by turn |
//! | `message` | one message as Markdown, in a transcript or in its own file |
//! | `escape` | escapes text for HTML and Markdown |
//! | `document` | a whole context as one JSON document |
//! | `timestamp` | the time of a message |
//! | `dialogue` | a conversation in the order that model APIs require |
//! | `native` | a conversation as a transcript that an agent resumes as a new session |
//! | `training` | conversations as data for training and evaluation |
//! | `chat`, `atif` | a conversation in the formats of OpenAI, Anthropic and ATIF |
//!
//! The forms are described in `docs/reference/formats/exports.md`.

mod atif;
mod chat;
pub(crate) mod dialogue;
mod document;
mod escape;
mod history;
mod markdown;
mod message;
pub mod native;
mod page;
mod timestamp;
mod training;

pub use crate::text::zstd::compress as compress_stream;
pub use atif::{Trajectory, export_atif};
pub(crate) use chat::{arguments, is_stray_note};
pub use chat::{export_anthropic, export_openai};
pub use document::{ContentDetail, DOCUMENT_SCHEMA, export_document};
pub use markdown::export_markdown;
pub use message::message_markdown;
pub use page::{
    LivePage, MAX_STARTS, NotePage, Page, PageBranch, PageCompressor, PagePart, SCREENS_ADDRESS,
    WantedTurns, export_page, live_page, note_page, write_parts, write_turns,
};
#[cfg(feature = "share")]
pub use page::{PAGE_KEY_BYTES, PageKey, PageSealer};
pub use training::{
    LeftOut, NothingFound, RewardKind, RunOutcome, TaskFile, TaskFolder, Training, TrainingFormat,
    TrainingLine, TrainingOptions,
};

use turntree::object::Time;

/// Formats a time, for example as RFC 3339. The library has no calendar.
pub type ShowTime<'a> = &'a dyn Fn(Time) -> String;
