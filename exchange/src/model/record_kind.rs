//! The kinds of records that the client of a format writes, and what its reader does with each.

use super::event::Event;
use crate::text::json;

/// A kind of record, as a client names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordKind {
    /// The name. A kind within a kind follows it behind a slash, as in `event_msg/token_count`.
    pub name: &'static str,
    /// What the reader does with it.
    pub role: KindRole,
}

/// What a reader does with the records of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KindRole {
    /// A message, or a part of one.
    Message,
    /// It changes the context: a compaction, a system prompt, a file or a scratchpad entry.
    Context,
    /// It removes messages from the context.
    GoingBack,
    /// It records the tokens or the cost of an answer.
    Usage,
    /// It has a fact about the session: its id, directory, title or model.
    Facts,
    /// It is kept in the source and nothing else, for this reason.
    Ignored(&'static str),
}

impl KindRole {
    /// Returns its name, as the pages of the formats have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Context => "context",
            Self::GoingBack => "going back",
            Self::Usage => "usage",
            Self::Facts => "facts",
            Self::Ignored(_) => "ignored",
        }
    }
}

impl RecordKind {
    /// A kind and what the reader does with it.
    #[must_use]
    pub const fn new(name: &'static str, role: KindRole) -> Self {
        Self { name, role }
    }

    /// Returns true if `kinds` lists `name`; else the record is counted as one of an unknown kind.
    pub(crate) fn is_listed(kinds: &[Self], name: &str, events: &mut Vec<Event>) -> bool {
        let is_listed = kinds.iter().any(|kind| kind.name == name);
        if !is_listed {
            events.push(Event::Unread { kind: json::plain(name).to_owned() });
        }
        is_listed
    }
}
