//! Events: what the pieces of a transcript mean, in the words every format shares.

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;
use serde_json::Value;
use turntree::context::{Context, Role};
use turntree::error::Result;
use turntree::object::{ObjectId, ObjectSource, Time};

use super::headline::Headline;
use crate::text::piece::Piece;

/// The place of the bytes of a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The whole piece: the blob of the `source` entry is shared.
    Piece,
    /// A part of the piece's bytes.
    Part(Range<usize>),
    /// Bytes that do not stand in the file as such (an unescaped file content, say).
    Own(Bytes),
}

impl Content {
    /// The bytes themselves, for content of `piece`. A part beyond it is empty.
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

    /// A value as content of its own: text as it is, anything else as JSON.
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
    /// The record as it came in.
    pub content: Content,
    /// When, if the record says so.
    pub time: Option<Time>,
    /// The model, if the record says so.
    pub model: Option<String>,
    /// What it is about.
    pub headline: Headline,
}

/// An event: the meaning of a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A turn begins with what follows; everything before belongs to earlier turns.
    ///
    /// A turn is one prompt, or one model step with the results of its tool calls. Parallel tool
    /// calls and results that come late stay in the turn of their step.
    Turn,
    /// A message at the end of its agent's conversation.
    Message(MessageEvent),
    /// A message that was said before the last `back` of its agent's conversation, and came late.
    Late {
        /// The message.
        message: MessageEvent,
        /// Messages that follow it.
        back: u64,
    },
    /// A message that was written again: it takes the place of what it was.
    Again {
        /// The message as it is now.
        message: MessageEvent,
        /// Messages of its agent's conversation that follow it.
        back: u64,
    },
    /// The conversation goes back to what it was after an earlier piece, and goes on from there. What
    /// was said since stays on a branch of its own; files, facts and the source stay as they are.
    Back {
        /// Pieces of the file before this one.
        at: u64,
        /// The piece it goes on from, the first being 0; nothing for the beginning.
        to: Option<u64>,
    },
    /// The context was compacted: a commit of its own. The agent's list becomes `summary`, then the
    /// part `keep` of the list as it was before.
    Compact {
        /// The agent of the conversation.
        agent: String,
        /// Messages that stand for what was dropped, first in the new list. All from this piece.
        summary: Vec<MessageEvent>,
        /// Indices into the agent's list before, clamped to it.
        keep: Range<u64>,
    },
    /// The context was compacted as by [`Event::Compact`], in another order: the list becomes parts of
    /// what it was, the summary, and further parts of it.
    Rearrange {
        /// The agent of the conversation.
        agent: String,
        /// Rising indices into the agent's list before, clamped to it.
        before: Vec<Range<u64>>,
        /// Messages that stand for what was dropped. All from this piece.
        summary: Vec<MessageEvent>,
        /// As `before`, behind the summary.
        after: Vec<Range<u64>>,
    },
    /// The agent's system prompt.
    SystemPrompt {
        /// The agent.
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
    /// An entry of any other map section, or its removal.
    Entry {
        /// The section: `agents/<name>/state`, say.
        section: String,
        /// The key.
        key: String,
        /// The value.
        content: Option<Content>,
        /// True if the value is JSON, and not text.
        is_json: bool,
    },
    /// A section that is there no more.
    Clear {
        /// The section.
        section: String,
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
    /// The piece is a record of a kind that is not read: it is kept in `source`, and counted.
    Unread {
        /// The name of the kind in its format.
        kind: String,
    },
    /// Something in the piece was not understood; it is kept in `source` and reported.
    Unknown {
        /// A description for people.
        what: String,
    },
}

/// Understands the pieces of one format.
pub trait Parser {
    /// Adds to `events` what `piece` means. Never fails: what is not understood is
    /// [`Event::Unknown`] and stays in `source`.
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>);

    /// Resumes after `base`, which came from a document and not from earlier pieces. Called before
    /// any piece, and only for a format that [continues](crate::Records::continues) another.
    ///
    /// # Errors
    /// As for reading the context.
    fn resume(&mut self, source: &dyn ObjectSource, base: &Context) -> Result<()> {
        let _ = (source, base);
        Ok(())
    }

    /// The session worked in `directory`, says something else than its transcript. Called before any
    /// piece.
    fn worked_in(&mut self, directory: &str) {
        let _ = directory;
    }

    /// The file has ended.
    fn finish(&mut self, events: &mut Vec<Event>) {
        let _ = events;
    }

    /// Saves the knowledge of the pieces so far, for [`Parser::load`] of another parser; nothing
    /// when a parser of this format has to see every piece itself.
    fn save(&self) -> Option<Vec<u8>> {
        None
    }

    /// Takes over what another one knew, before any piece. `contents` are blobs that an earlier try
    /// [wanted](Parser::wanted). False when that is not what a parser of this format says.
    fn load(&mut self, saved: &[u8], contents: &HashMap<ObjectId, Bytes>) -> bool {
        let _ = (saved, contents);
        false
    }

    /// Returns true if a piece refers to something that a parser which saw every piece would know,
    /// and this one does not.
    fn is_lost(&self) -> bool {
        false
    }

    /// The blobs without which the events so far are not those of a parser that saw every piece.
    fn wanted(&self) -> Vec<ObjectId> {
        Vec::new()
    }
}
