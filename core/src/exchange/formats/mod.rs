//! Transcript formats: pieces of a file in, events of a session out.
//!
//! A transcript is read as a stream of [`Piece`]s whose bytes, one after the other, are the file. A
//! format's [`Parser`] sees each piece once, in order, and says what it means as [`Event`]s. It
//! keeps only what it needs to know about the past (open tool calls, the working directory), so
//! memory does not grow with the file. The importer turns events into commits.
//!
//! [`FORMATS`] lists what is known: how to recognise a file, cut it, understand its pieces, and view
//! one message of it.
//!
//! ```
//! use turntree::exchange::detect::detect;
//! use turntree::exchange::formats::Event;
//!
//! let file = br#"{"type":"user","uuid":"u1","sessionId":"s1","message":{"role":"user","content":"Hi"}}"#;
//! let format = detect(file)?;
//! assert_eq!(format.name, "claude-code");
//!
//! let mut parser = (format.parser)();
//! let mut events = Vec::new();
//! for piece in (format.cut)(Box::new(file.as_slice())) {
//!     parser.piece(&piece?, &mut events);
//! }
//! parser.finish(&mut events);
//! assert!(events.iter().any(|event| matches!(event, Event::Message(m) if m.summary == "Hi")));
//! # Ok::<(), turntree::Error>(())
//! ```

mod atif;
mod chat;
mod claude_code;
mod cline;
mod cline_sdk;
mod codex;
mod conversation;
mod copilot_cli;
mod editor;
mod files;
mod opencode;
mod openhands;
mod patch;
mod pi;
mod session;
mod swe_agent;
#[cfg(test)]
mod testing;
mod view;

use std::io::BufRead;
use std::ops::Range;

use bytes::Bytes;
use serde_json::Value;

pub use self::view::{MessageView, ToolCall, ToolResult};
use super::detect::Shape;
use super::state::JSON_MEDIA;
pub use crate::context::Role;
use crate::error::{Error, Result};
use crate::object::Time;

/// What there is to know about a format.
#[derive(Debug, Clone, Copy)]
pub struct FormatSpec {
    /// The name in commands: lower case with hyphens.
    pub name: &'static str,
    /// What writes it, for people.
    pub title: &'static str,
    /// Whether a value at the beginning of a file is of this format.
    pub recognise: fn(&Shape<'_>) -> bool,
    /// The pieces of a file.
    pub cut: for<'r> fn(Box<dyn BufRead + 'r>) -> Pieces<'r>,
    /// Cut elements that stand beside the conversation and do not grow at its end.
    pub asides: &'static [&'static str],
    /// A parser for one file.
    pub parser: fn() -> Box<dyn Parser + Send>,
    /// The view of a message, parsed.
    pub view: fn(&Value) -> MessageView,
}

/// The pieces of one file, in order; nothing follows an error.
pub type Pieces<'r> = Box<dyn Iterator<Item = Result<Piece>> + 'r>;

/// Every format, in the order in which they are tried.
///
/// Whoever says least comes last: a chat has nothing of its own but its roles.
pub static FORMATS: &[FormatSpec] = &[
    claude_code::FORMAT,
    codex::FORMAT,
    copilot_cli::FORMAT,
    pi::FORMAT,
    opencode::FORMAT,
    swe_agent::FORMAT,
    openhands::FORMAT,
    atif::FORMAT,
    cline_sdk::FORMAT,
    cline::FORMAT,
    cline::WINDOW,
    chat::TAU2,
    chat::ANTHROPIC,
    chat::OPENAI,
];

/// The format called `name`.
///
/// # Errors
/// `InvalidInput` when there is none.
pub fn named(name: &str) -> Result<&'static FormatSpec> {
    FORMATS.iter().find(|format| format.name == name).ok_or_else(|| {
        Error::invalid(format!("'{name}' is not a format: expected one of {}", names()))
    })
}

/// The names of all formats, for messages.
pub(super) fn names() -> String {
    FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}

/// What a message says, for looking at it. [`JSON_MEDIA`] is read as a chat message. `bytes` that are
/// not of `format` (a name of [`FORMATS`]) give a view whose text is the bytes.
#[must_use]
pub fn view(format: &str, bytes: &[u8]) -> MessageView {
    let spec = if format == JSON_MEDIA { Ok(&chat::OPENAI) } else { named(format) };
    match (spec, super::json::value(bytes)) {
        (Ok(spec), Some(value)) => (spec.view)(&value),
        _ => MessageView::unreadable(bytes),
    }
}

/// The agent that the session is with; all others were called by it.
pub(super) use crate::context::MAIN_AGENT as MAIN;

/// The parsed record in `piece`; nothing for other pieces, and a report if it cannot be parsed.
fn record(piece: &Piece, events: &mut Vec<Event>) -> Option<Value> {
    let PieceKind::Record { .. } = piece.kind else { return None };
    let value = super::json::value(&piece.bytes);
    if value.is_none() {
        events.push(Event::Unknown { what: "a record that is not JSON".to_owned() });
    }
    value
}

/// The text of `value` at `path` (a JSON pointer).
fn text_at<'v>(value: &'v Value, path: &str) -> Option<&'v str> {
    value.pointer(path).and_then(Value::as_str)
}

/// `value` as content of its own: text as it is, anything else as JSON.
fn own(value: &Value) -> Content {
    Content::Own(match value {
        Value::String(text) => Bytes::copy_from_slice(text.as_bytes()),
        other => other.to_string().into(),
    })
}

/// A stretch of a transcript: the unit that is stored and, for records, understood.
#[derive(Debug, Clone)]
pub struct Piece {
    /// What it is.
    pub kind: PieceKind,
    /// The bytes, exactly as in the file.
    pub bytes: Bytes,
    /// Separator after `bytes` in the file (a line end, a comma and white space): a few bytes that
    /// are stored beside the blob, so that equal records are equal blobs.
    pub suffix: Bytes,
    /// Offset of `bytes` in the file.
    pub offset: u64,
    /// Line on which `bytes` starts, from 1.
    pub line: u64,
}

impl Piece {
    /// The end of a file, where a parser may still have something to say.
    pub(super) fn end() -> Self {
        let kind = PieceKind::Glue { fields: Vec::new() };
        Self { kind, bytes: Bytes::new(), suffix: Bytes::new(), offset: 0, line: 0 }
    }
}

/// What a piece is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PieceKind {
    /// A JSON value of its own: a line, or an element of an array that the format cuts.
    Record {
        /// Which cut it matched: the format's own path, such as `messages[*]`; empty for a line.
        path: &'static str,
    },
    /// What stands between the cut elements of a JSON document, with the values of the fields that
    /// the format asked for and that lie inside: path and range in `bytes`. An empty range is where
    /// a value begins that holds cut elements.
    Glue {
        /// Fields found in this piece, in file order.
        fields: Vec<(&'static str, Range<usize>)>,
    },
    /// Bytes that are not what the format allows, kept as they are.
    Damaged {
        /// What was expected and found, with line and column.
        reason: String,
    },
}

/// Where the bytes of something lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The whole piece: the blob of the `source` entry is shared.
    Piece,
    /// A part of the piece's bytes.
    Part(Range<usize>),
    /// Bytes that do not stand in the file as such (an unescaped file content, say).
    Own(Bytes),
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageEvent {
    /// Whose conversation: `main`, or `delegate@delegator`.
    pub agent: String,
    /// Who speaks.
    pub role: Role,
    /// The record as it came in.
    pub content: Content,
    /// When, if the record says so.
    pub time: Option<Time>,
    /// The model, if the record says so.
    pub model: Option<String>,
    /// One line for people, at most 100 characters: the text's first line, or `[Read, Bash]`.
    pub summary: String,
}

/// What a piece means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A turn begins with what follows; everything before belongs to earlier turns.
    ///
    /// A turn is one prompt, or one model step with the results of its tool calls. Parallel tool
    /// calls and results that come late stay in the turn of their step.
    Turn,
    /// A message at the end of its agent's conversation.
    Message(MessageEvent),
    /// The context was compacted: a commit of its own. The agent's list becomes `summary`, then the
    /// part `keep` of the list as it was before.
    Compact {
        /// Whose conversation.
        agent: String,
        /// Messages that stand for what was dropped, first in the new list. All from this piece.
        summary: Vec<MessageEvent>,
        /// Indices into the agent's list before, clamped to it.
        keep: Range<u64>,
    },
    /// The agent's system prompt.
    SystemPrompt {
        /// Whose.
        agent: String,
        /// The prompt.
        content: Content,
    },
    /// An entry of the scratchpad (`todos`, say), or its removal.
    Scratchpad {
        /// The key; `todos` of a sub-agent is `todos/<agent>`.
        key: String,
        /// The value.
        content: Option<Content>,
    },
    /// The whole content of a workspace file after this piece, or its removal.
    File {
        /// Relative to the session's working directory where it lies inside, else absolute.
        path: String,
        /// The content.
        content: Option<Content>,
    },
    /// A fact about the session for the `meta` section: `session_id`, `cwd`, `version`, `model`.
    Meta {
        /// Its name.
        key: String,
        /// Its value.
        value: String,
    },
    /// Something in the piece was not understood; it is kept in `source` and reported.
    Unknown {
        /// What, for people.
        what: String,
    },
}

/// Understands the pieces of one format.
pub trait Parser {
    /// Adds to `events` what `piece` means. Never fails: what is not understood is
    /// [`Event::Unknown`] and stays in `source`.
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>);

    /// The file has ended.
    fn finish(&mut self, events: &mut Vec<Event>) {
        let _ = events;
    }
}
