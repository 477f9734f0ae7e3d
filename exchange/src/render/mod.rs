//! Sessions for people and for other tools: what is written here is not read back byte for byte.
//!
//! | file | job |
//! |---|---|
//! | `story` | the snapshots of branches, oldest first, each with what it changed |
//! | `page`, `page/*.js`, `page/page.css` | one self-contained HTML file: the page and its data |
//! | `markdown` | a transcript to read, turn by turn |
//! | `message` | one message as Markdown, in a transcript or a file of its own |
//! | `escape` | text that cannot leave the place in a document where it stands |
//! | `document` | a whole context as one JSON document |
//! | `moment` | when a message was said |
//! | `speech` | a conversation as the interfaces of models take it: calls with their results |
//! | `native` | that as a transcript that an agent takes up as a session of its own |
//! | `chat`, `atif` | that in the forms of OpenAI and Anthropic, and as an ATIF trajectory |
//!
//! The forms are described in `docs/formats/exports.md`.

mod atif;
mod chat;
mod dialogue;
mod document;
mod escape;
mod history;
mod markdown;
mod message;
pub mod native;
mod page;
mod timestamp;

pub use atif::{Trajectory, export_atif};
pub use chat::{export_anthropic, export_openai};
pub use document::{ContentDetail, DOCUMENT_SCHEMA, export_document};
pub use markdown::export_markdown;
pub use message::message_markdown;
pub use page::{
    LivePage, MAX_STARTS, NotePage, Page, PageBranch, PagePart, SCREENS_ADDRESS, WantedTurns,
    compress_page, export_page, live_page, note_page, write_parts, write_turns,
};

use turntree::object::Time;

/// Writes a moment for people and programs: RFC 3339, say. The library knows no calendar.
pub type ShowTime<'a> = &'a dyn Fn(Time) -> String;
