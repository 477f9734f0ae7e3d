//! What stands beside a blob in a section: roles and media types, file modes, separators.
//!
//! A tree keeps a few opaque bytes with every link (its `meta`). This file is the one place that
//! gives them meaning. Specified in `format-spec/context.md`.

use std::fmt;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId};
use crate::tree::{Item, Link};

/// Most bytes of a separator kept beside a source record.
pub const MAX_SUFFIX_BYTES: usize = 64;

/// Most bytes of a media type.
pub const MAX_MEDIA_BYTES: usize = 127;

/// Who speaks in a message. The codes are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Role {
    /// Instructions from whoever runs the agent.
    System = 0,
    /// A person, or whoever prompts.
    User = 1,
    /// The model.
    Assistant = 2,
    /// The result of a tool call.
    Tool = 3,
    /// Anything else that stands in the conversation.
    Other = 4,
}

impl Role {
    const ALL: [Self; 5] = [Self::System, Self::User, Self::Assistant, Self::Tool, Self::Other];

    /// The name in JSON and for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::Other => "other",
        }
    }

    /// The role that chat formats call `name`; [`Role::Other`] for any they do not.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "developer" => Self::System,
            "human" => Self::User,
            "model" | "ai" => Self::Assistant,
            "toolResult" | "function" => Self::Tool,
            _ => Self::ALL.into_iter().find(|role| role.name() == name).unwrap_or(Self::Other),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An entry of a conversation: who speaks, in which format, and the blob with the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageEntry {
    /// The record, exactly as it came in.
    pub blob: ObjectId,
    /// Who speaks.
    pub role: Role,
    /// The format of the record: a transcript format's name, or `json`.
    pub media: String,
}

impl MessageEntry {
    /// The list item: the role's code, then the media type.
    ///
    /// # Errors
    /// `LimitExceeded` for a media type over [`MAX_MEDIA_BYTES`].
    pub fn to_item(&self) -> Result<Item> {
        if self.media.len() > MAX_MEDIA_BYTES {
            let (limit, found) = (MAX_MEDIA_BYTES as u64, self.media.len() as u64);
            return Err(Error::limit("bytes of a media type", limit, found));
        }
        let mut meta = vec![self.role as u8];
        meta.extend_from_slice(self.media.as_bytes());
        Ok(blob_item(self.blob, meta))
    }

    /// The entry in a list item.
    ///
    /// # Errors
    /// `Corrupt` when the item is not a message.
    pub fn from_item(item: &Item) -> Result<Self> {
        let damaged = || Error::corrupt(item.link.id, "an entry of a conversation", "another one");
        let (code, media) = item.meta.split_first().ok_or_else(damaged)?;
        let role = Role::ALL.into_iter().find(|role| *role as u8 == *code).ok_or_else(damaged)?;
        let media = std::str::from_utf8(media).map_err(|_| damaged())?.to_owned();
        Ok(Self { blob: item.link.id, role, media })
    }
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FileMode {
    /// An ordinary file.
    Regular = 0,
    /// A file that may be executed.
    Executable = 1,
    /// A symbolic link; the blob is its target.
    Symlink = 2,
}

/// An entry of the `files` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// The content, or the target of a link.
    pub blob: ObjectId,
    /// What the file is.
    pub mode: FileMode,
    /// Bytes of the content.
    pub size: u64,
}

impl FileEntry {
    /// The map value: the mode's code, then the size as eight bytes, little-endian.
    #[must_use]
    pub fn to_item(&self) -> Item {
        let mut meta = vec![self.mode as u8];
        meta.extend_from_slice(&self.size.to_le_bytes());
        blob_item(self.blob, meta)
    }

    /// The entry in a map value.
    ///
    /// # Errors
    /// `Corrupt` when the value is not a file.
    pub fn from_item(item: &Item) -> Result<Self> {
        let modes = [FileMode::Regular, FileMode::Executable, FileMode::Symlink];
        let parsed = item.meta.split_first().and_then(|(code, size)| {
            let mode = modes.into_iter().find(|mode| *mode as u8 == *code)?;
            Some((mode, u64::from_le_bytes(size.try_into().ok()?)))
        });
        let (mode, size) =
            parsed.ok_or_else(|| Error::corrupt(item.link.id, "an entry of files", "another"))?;
        Ok(Self { blob: item.link.id, mode, size })
    }
}

/// What a piece of an imported transcript was. The codes are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SourceKind {
    /// A record that was understood.
    Record = 0,
    /// What stands between records.
    Glue = 1,
    /// Bytes that were not what the format allows.
    Damaged = 2,
}

/// An entry of the `source` section: a piece of the transcript, and the separator after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceEntry {
    /// The piece.
    pub blob: ObjectId,
    /// What it was.
    pub kind: SourceKind,
    /// The separator after it, at most [`MAX_SUFFIX_BYTES`].
    pub suffix: Bytes,
}

impl SourceEntry {
    /// The list item: the kind's code, then the separator.
    ///
    /// # Errors
    /// `LimitExceeded` for a separator over [`MAX_SUFFIX_BYTES`].
    pub fn to_item(&self) -> Result<Item> {
        if self.suffix.len() > MAX_SUFFIX_BYTES {
            let (limit, found) = (MAX_SUFFIX_BYTES as u64, self.suffix.len() as u64);
            return Err(Error::limit("bytes of a separator", limit, found));
        }
        let mut meta = vec![self.kind as u8];
        meta.extend_from_slice(&self.suffix);
        Ok(blob_item(self.blob, meta))
    }

    /// The entry in a list item.
    ///
    /// # Errors
    /// `Corrupt` when the item is not a source entry.
    pub fn from_item(item: &Item) -> Result<Self> {
        let kinds = [SourceKind::Record, SourceKind::Glue, SourceKind::Damaged];
        let kind = item.meta.first().and_then(|code| kinds.into_iter().find(|k| *k as u8 == *code));
        let kind = kind.ok_or_else(|| Error::corrupt(item.link.id, "a source entry", "another"))?;
        Ok(Self { blob: item.link.id, kind, suffix: item.meta.slice(1..) })
    }
}

/// An item that links to a blob.
pub(crate) fn blob_item(blob: ObjectId, meta: impl Into<Bytes>) -> Item {
    Item { link: Link { kind: Kind::Blob, id: blob }, meta: meta.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip_and_each_refuses_the_others() {
        let blob = ObjectId::of(Kind::Blob, b"x");
        let message = MessageEntry { blob, role: Role::Tool, media: "codex".into() };
        let file = FileEntry { blob, mode: FileMode::Executable, size: 7 };
        let source =
            SourceEntry { blob, kind: SourceKind::Glue, suffix: Bytes::from_static(b",\n  ") };
        assert_eq!(MessageEntry::from_item(&message.to_item().unwrap()).unwrap(), message);
        assert_eq!(FileEntry::from_item(&file.to_item()).unwrap(), file);
        assert_eq!(SourceEntry::from_item(&source.to_item().unwrap()).unwrap(), source);

        assert!(FileEntry::from_item(&message.to_item().unwrap()).is_err());
        assert!(MessageEntry::from_item(&blob_item(blob, vec![])).is_err());
        assert!(SourceEntry::from_item(&blob_item(blob, vec![9])).is_err());
    }

    #[test]
    fn limits_hold_at_the_limit_and_refuse_one_more() {
        let blob = ObjectId::of(Kind::Blob, b"x");
        let source = |len| SourceEntry {
            blob,
            kind: SourceKind::Record,
            suffix: Bytes::from(vec![b' '; len]),
        };
        assert!(source(MAX_SUFFIX_BYTES).to_item().is_ok());
        assert!(source(MAX_SUFFIX_BYTES + 1).to_item().is_err());
    }
}
