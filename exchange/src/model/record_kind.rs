//! The kinds of records that the client of a format writes, and the role of each.

use super::event::Event;
use crate::text::json;

/// A kind of record, as a client names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordKind {
    /// The name. A nested kind follows after a slash, as in `event_msg/token_count`.
    pub name: &'static str,
    /// The role of the kind for the reader.
    pub role: KindRole,
}

/// The role of a kind of records for the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KindRole {
    /// A message, or a part of one.
    Message,
    /// Changes the context: a compaction, a system prompt, a file or a scratchpad entry.
    Context,
    /// Removes messages from the context.
    Rewind,
    /// Records the tokens or the cost of an answer.
    Usage,
    /// Holds a fact about the session: its id, directory, title or model.
    Facts,
    /// Only kept in the source, for this reason.
    Ignored(&'static str),
}

impl KindRole {
    /// Returns the name in the documentation of the formats.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Context => "context",
            Self::Rewind => "going back",
            Self::Usage => "usage",
            Self::Facts => "facts",
            Self::Ignored(_) => "ignored",
        }
    }
}

impl RecordKind {
    /// Creates a kind with its role.
    #[must_use]
    pub const fn new(name: &'static str, role: KindRole) -> Self {
        Self { name, role }
    }

    /// Returns true if `kinds` lists `name`. Otherwise counts the record as one of an unknown kind.
    pub(crate) fn is_listed(kinds: &[Self], name: &str, events: &mut Vec<Event>) -> bool {
        let is_listed = kinds.iter().any(|kind| kind.name == name);
        if !is_listed {
            events.push(Event::Unread { kind: json::plain(name).to_owned() });
        }
        is_listed
    }
}
