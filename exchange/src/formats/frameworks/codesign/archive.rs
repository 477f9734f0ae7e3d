//! The content of a store, whichever file it came from: designs, their snapshots, and their chats.

use std::ops::Range;

use bytes::Bytes;
use turntree::context::Role;
use turntree::object::Time;

/// A store that was read and found good.
#[derive(Debug, Default)]
pub(super) struct Archive {
    /// Designs in the order of the file; designs that only a snapshot names are last.
    pub(super) designs: Vec<Design>,
    /// Events in their order, as JSON.
    pub(super) diagnostics: Vec<Bytes>,
    /// Unknown fields of the store: a JSON object.
    pub(super) other: Option<Bytes>,
    /// Facts of a database: name and value.
    pub(super) facts: Vec<(String, Bytes)>,
    /// The file. `None` when the designs came from chats alone.
    pub(super) source: Option<Bytes>,
    /// The log next to a database.
    pub(super) log: Option<Bytes>,
    /// The ranges of snapshots in the file, in order.
    pub(super) records: Vec<Range<usize>>,
    /// Tolerated oddities, with their places in the file.
    pub(super) notes: Vec<(usize, String)>,
}

/// A design and everything of it.
#[derive(Debug, Default)]
pub(super) struct Design {
    pub(super) id: String,
    pub(super) name: String,
    /// The design as JSON. `None` when only snapshots or chats name it.
    pub(super) record: Option<Bytes>,
    /// When it was deleted: such designs are only hidden.
    pub(super) deleted: Option<String>,
    /// Snapshots in the order of the file.
    pub(super) versions: Vec<DesignSnapshot>,
    pub(super) chat: Chat,
    /// Comments by id, as JSON.
    pub(super) comments: Vec<(String, Bytes)>,
    /// Files of the design as it was left, by their paths.
    pub(super) files: Vec<(String, Bytes)>,
    /// The messages of the time before chats, when there is a chat, too: as JSON.
    pub(super) old_messages: Vec<Bytes>,
}

/// The chat of a design.
#[derive(Debug, Default)]
pub(super) struct Chat {
    /// The place where the chat is kept: the rows of one place have no relation to those of
    /// another.
    pub(super) origin: &'static str,
    pub(super) rows: Vec<ChatRow>,
    /// Entries of the agent's state: name and JSON.
    pub(super) state: Vec<(String, Bytes)>,
    /// The file of the chat, when it has one.
    pub(super) source: Option<Bytes>,
}

/// A row of a chat.
#[derive(Debug)]
pub(super) struct ChatRow {
    /// The record as it was read.
    pub(super) bytes: Bytes,
    pub(super) role: Role,
    pub(super) time: Option<Time>,
    /// One line for readers.
    pub(super) summary: String,
    /// The snapshot that was delivered with it.
    pub(super) snapshot: Option<String>,
    pub(super) starts_turn: bool,
}

/// The origin of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Initial,
    Edit,
    Fork,
}

impl Origin {
    const ALL: [Self; 3] = [Self::Initial, Self::Edit, Self::Fork];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Edit => "edit",
            Self::Fork => "fork",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|origin| origin.name() == name)
    }
}

/// The content of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Artifact {
    Html,
    React,
    Svg,
}

impl Artifact {
    pub(super) const ALL: [Self; 3] = [Self::Html, Self::React, Self::Svg];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::React => "react",
            Self::Svg => "svg",
        }
    }

    /// The file that it is in the section `files`.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Html => "index.html",
            Self::React => "index.jsx",
            Self::Svg => "index.svg",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|artifact| artifact.name() == name)
    }
}

/// A snapshot of a design.
#[derive(Debug)]
pub(super) struct DesignSnapshot {
    /// The id; a second snapshot with the same id has `#2` appended.
    pub(super) key: String,
    pub(super) parent: Option<String>,
    pub(super) origin: Origin,
    pub(super) prompt: Option<String>,
    pub(super) artifact: Artifact,
    pub(super) content: Bytes,
    /// The snapshot as JSON, with `null` for a content that is written in no special way.
    pub(super) record: Bytes,
    pub(super) created: Option<Time>,
    /// The moment as JSON.
    pub(super) created_json: String,
    pub(super) message: Option<String>,
    /// The offset in the file.
    pub(super) at: usize,
}
