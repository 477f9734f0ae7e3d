//! Events: the meaning of the pieces of a transcript, in a form that all formats share.

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;
use serde_json::Value;
use turntree::context::{Context, Role};
use turntree::error::Result;
use turntree::object::{ObjectId, ObjectSource, Time};

use super::headline::Headline;
use crate::text::piece::Piece;

/// The location of the bytes of a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The whole piece. Shares the blob of the `source` entry.
    Piece,
    /// A part of the bytes of the piece.
    Part(Range<usize>),
    /// Bytes that the file does not contain as such, for example the unescaped content of a file.
    Own(Bytes),
}

impl Content {
    /// Returns the bytes of a content of `piece`. Empty for a part beyond it.
    pub(crate) fn bytes_in(&self, piece: &Piece) -> Bytes {
        match self {
            Self::Piece => piece.bytes.clone(),
            Self::Own(bytes) => bytes.clone(),
            Self::Part(range) => match piece.bytes.get(range.clone()) {
                Some(_) => piece.bytes.slice(range.clone()),
                None => Bytes::new(),
            },
        }
    }

    /// Returns a value as separate content: text as it is, other values as JSON.
    pub(crate) fn own(value: &Value) -> Self {
        Self::Own(match value {
            Value::String(text) => Bytes::copy_from_slice(text.as_bytes()),
            other => other.to_string().into(),
        })
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageEvent {
    /// The agent of the conversation: `main`, or `delegate@delegator`.
    pub agent: String,
    /// The speaker.
    pub role: Role,
    /// The record as imported.
    pub content: Content,
    /// The time, if recorded.
    pub time: Option<Time>,
    /// The model, if recorded.
    pub model: Option<String>,
    /// The headline of the message.
    pub headline: Headline,
}

/// An event: the meaning of a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Starts a turn. Everything before belongs to earlier turns.
    ///
    /// A turn is one prompt, or one model step with the results of its tool calls. Parallel tool
    /// calls and late results stay in the turn of their step.
    Turn,
    /// Appends a message to its agent's conversation.
    Message(MessageEvent),
    /// Inserts a late message before the last `back` messages of its agent's conversation.
    LateMessage {
        /// The message.
        message: MessageEvent,
        /// The number of messages after it.
        back: u64,
    },
    /// Replaces a message that its client rewrote.
    ReplaceMessage {
        /// The new message.
        message: MessageEvent,
        /// The number of messages after it in its agent's conversation.
        back: u64,
    },
    /// Rewinds the conversation to its state after an earlier piece, from where it continues. A
    /// branch keeps the abandoned messages. Files, facts and the source stay unchanged.
    Rewind {
        /// The number of pieces of the file before this one.
        at: u64,
        /// The piece to continue from, counted from 0. `None` for the start.
        to: Option<u64>,
    },
    /// Compacts the context, in a separate commit. The agent's list becomes `summary`, followed by
    /// the part `keep` of the old list.
    Compact {
        /// The agent of the conversation.
        agent: String,
        /// Messages that replace the dropped ones, first in the new list. All are from this piece.
        summary: Vec<MessageEvent>,
        /// Indices into the agent's old list, clamped to it.
        keep: Range<u64>,
    },
    /// Compacts the context like [`Event::Compact`], in another order: the list becomes ranges of
    /// the old list, the summary, and further ranges.
    Rearrange {
        /// The agent of the conversation.
        agent: String,
        /// Ascending ranges of the agent's old list, clamped to it.
        before: Vec<Range<u64>>,
        /// Messages that replace the dropped ones. All are from this piece.
        summary: Vec<MessageEvent>,
        /// Like `before`, after the summary.
        after: Vec<Range<u64>>,
    },
    /// Sets the agent's system prompt.
    SystemPrompt {
        /// The agent.
        agent: String,
        /// The prompt.
        content: Content,
    },
    /// Sets or removes an entry of the scratchpad, for example `todos`.
    Scratchpad {
        /// The key. The `todos` of a sub-agent have the key `todos/<agent>`.
        key: String,
        /// The value. `None` removes the entry.
        content: Option<Content>,
    },
    /// Sets or removes an entry of any other map section.
    Entry {
        /// The section, for example `agents/<name>/state`.
        section: String,
        /// The key.
        key: String,
        /// The value. `None` removes the entry.
        content: Option<Content>,
        /// True if the value is JSON, false for text.
        is_json: bool,
    },
    /// Removes a section.
    Clear {
        /// The section.
        section: String,
    },
    /// Sets or removes the content of a workspace file after this piece.
    File {
        /// The path: relative to the session's working directory if inside of it, else absolute.
        path: String,
        /// The content. `None` removes the file.
        content: Option<Content>,
    },
    /// Sets a fact about the session in the `meta` section: `session_id`, `cwd`, `version`,
    /// `model`.
    Meta {
        /// The name of the fact.
        key: String,
        /// The value of the fact.
        value: String,
    },
    /// Counts a record of an unknown kind. The record is kept in `source`.
    Unread {
        /// The name of the kind in its format.
        kind: String,
    },
    /// Reports a part of the piece that the parser does not understand. The piece is kept in
    /// `source`.
    Unknown {
        /// A description for users.
        what: String,
    },
}

/// Parses the pieces of one format.
pub trait Parser {
    /// Adds the events of `piece` to `events`. Never fails: a part that the parser does not
    /// understand is [`Event::Unknown`] and stays in `source`.
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>);

    /// Resumes after `base`, which came from a document and not from earlier pieces. Called before
    /// any piece, and only for a format that [continues](crate::Records::continues) another.
    ///
    /// # Errors
    /// The errors of reading the context.
    fn resume(&mut self, source: &dyn ObjectSource, base: &Context) -> Result<()> {
        let _ = (source, base);
        Ok(())
    }

    /// Sets the working directory of the session, from a source other than the transcript. Called
    /// before any piece.
    fn set_directory(&mut self, directory: &str) {
        let _ = directory;
    }

    /// Saves the state of the parser for [`Parser::load`]. `None` if a parser of this format must
    /// see every piece.
    fn save(&self) -> Option<Vec<u8>> {
        None
    }

    /// Restores a saved state, before any piece. `contents` are blobs that an earlier attempt
    /// [missing blobs](Parser::missing_blobs). Returns false if the state is invalid.
    fn load(&mut self, saved: &[u8], contents: &HashMap<ObjectId, Bytes>) -> bool {
        let _ = (saved, contents);
        false
    }

    /// Returns true if a piece references data that a parser that saw every piece would know, but
    /// this one does not.
    fn lacks_context(&self) -> bool {
        false
    }

    /// Returns the blobs that the parser lacks to emit the same events as one that saw every piece.
    fn missing_blobs(&self) -> Vec<ObjectId> {
        Vec::new()
    }
}
