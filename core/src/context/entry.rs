//! The meta of entries: roles and media types, file modes, separators.
//!
//! A tree keeps a few opaque bytes with every link (its `meta`). Only this file interprets them.
//! Specified in `format-spec/context.md`.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId};
use crate::tree::{Item, Link};

/// Maximum bytes of the separator after a source record.
pub const MAX_SUFFIX_BYTES: usize = 64;

/// Maximum bytes of a media type.
pub(super) const MAX_MEDIA_BYTES: usize = 127;

/// Maximum bytes of the origin of a message: enough for a session, a slash and a branch.
pub(super) const MAX_ORIGIN_BYTES: usize = 511;

/// Ends the media type if an origin follows.
const ORIGIN_MARK: u8 = 0;

/// The speaker of a message. The codes are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Role {
    /// Instructions of the operator of the agent.
    System = 0,
    /// The user, or another prompter.
    User = 1,
    /// The model.
    Assistant = 2,
    /// The result of a tool call.
    Tool = 3,
    /// Any other entry of a conversation.
    Other = 4,
}

impl Role {
    const ALL: [Self; 5] = [Self::System, Self::User, Self::Assistant, Self::Tool, Self::Other];

    /// Returns the name in JSON and for display.
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

    /// Returns the role that chat formats call `name`; [`Role::Other`] for an unknown name.
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

/// An entry of a conversation: the speaker, the format, and the blob of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageEntry {
    /// The record, byte for byte.
    pub blob: ObjectId,
    /// The speaker.
    pub role: Role,
    /// The format of the record: a transcript format's name, or `json`.
    pub media: String,
    /// The source of a message that a merge or cherry-pick took: a branch, or the prefix of an id.
    /// `None` for a message of this branch.
    pub origin: Option<String>,
}

impl MessageEntry {
    /// Creates a message of `role` with the record `blob`, of this branch.
    #[must_use]
    pub fn new(blob: ObjectId, role: Role, media: impl Into<String>) -> Self {
        Self { blob, role, media: media.into(), origin: None }
    }

    /// Encodes the list item: the role's code, the media type, and, if there is an origin, a zero
    /// byte and the origin.
    ///
    /// # Errors
    /// `LimitExceeded` for a media type over `MAX_MEDIA_BYTES` or an origin over
    /// `MAX_ORIGIN_BYTES`; `InvalidInput` for a media type with a zero byte or an empty origin.
    pub fn to_item(&self) -> Result<Item> {
        if self.media.len() > MAX_MEDIA_BYTES {
            let (limit, found) = (MAX_MEDIA_BYTES as u64, self.media.len() as u64);
            return Err(Error::limit("bytes of a media type", limit, found));
        }
        if self.media.as_bytes().contains(&ORIGIN_MARK) {
            return Err(Error::invalid("a media type must not contain a zero byte"));
        }
        let mut meta = vec![self.role as u8];
        meta.extend_from_slice(self.media.as_bytes());
        if let Some(origin) = &self.origin {
            add_origin(&mut meta, origin)?;
        }
        Ok(blob_item(self.blob, meta))
    }

    /// Decodes the entry in a list item.
    ///
    /// # Errors
    /// `Corrupt` if the item is not a message.
    pub fn from_item(item: &Item) -> Result<Self> {
        let damaged = || Error::malformed(item.link.id, "an entry of a conversation");
        let (code, rest) = item.meta.split_first().ok_or_else(damaged)?;
        let role = Role::ALL.into_iter().find(|role| *role as u8 == *code).ok_or_else(damaged)?;
        let rest = std::str::from_utf8(rest).map_err(|_| damaged())?;
        let (media, origin) = match rest.split_once(char::from(ORIGIN_MARK)) {
            Some((_, "")) => return Err(damaged()),
            Some((media, origin)) => (media.to_owned(), Some(origin.to_owned())),
            None => (rest.to_owned(), None),
        };
        Ok(Self { blob: item.link.id, role, media, origin })
    }
}

/// Returns the item of a message without its origin, as on its own branch.
pub(super) fn without_origin(item: &Item) -> Item {
    // The first byte is the code of the role, which may be zero.
    match item.meta.iter().skip(1).position(|byte| *byte == ORIGIN_MARK) {
        Some(media) => Item { link: item.link, meta: item.meta.slice(..=media) },
        None => item.clone(),
    }
}

/// Returns the item of a message from `origin`; an existing origin stays.
pub(super) fn with_origin(item: &Item, origin: &str) -> Result<Item> {
    if without_origin(item) != *item || origin.is_empty() {
        return Ok(item.clone());
    }
    let mut meta = item.meta.to_vec();
    add_origin(&mut meta, origin)?;
    Ok(Item { link: item.link, meta: meta.into() })
}

fn add_origin(meta: &mut Vec<u8>, origin: &str) -> Result<()> {
    if origin.is_empty() {
        return Err(Error::invalid("the origin of a message must not be empty"));
    }
    if origin.len() > MAX_ORIGIN_BYTES {
        let (limit, found) = (MAX_ORIGIN_BYTES as u64, origin.len() as u64);
        return Err(Error::limit("bytes of the origin of a message", limit, found));
    }
    meta.push(ORIGIN_MARK);
    meta.extend_from_slice(origin.as_bytes());
    Ok(())
}

/// The type and mode of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FileMode {
    /// A regular file.
    Regular = 0,
    /// An executable file.
    Executable = 1,
    /// A symbolic link; the blob is its target.
    Symlink = 2,
}

impl FromStr for FileMode {
    type Err = Error;

    /// Parses `regular`, `executable` or `link`.
    fn from_str(name: &str) -> Result<Self> {
        match name {
            "regular" => Ok(Self::Regular),
            "executable" => Ok(Self::Executable),
            "link" => Ok(Self::Symlink),
            _ => Err(Error::invalid(format!(
                "unknown mode '{name}': expected regular, executable or link"
            ))),
        }
    }
}

/// An entry of the `files` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// The content, or the target of a link.
    pub blob: ObjectId,
    /// The type and mode.
    pub mode: FileMode,
    /// Size of the content in bytes.
    pub size: u64,
}

impl FileEntry {
    /// Encodes the map value: the mode's code, then the size as eight bytes, little-endian.
    #[must_use]
    pub fn to_item(&self) -> Item {
        let mut meta = vec![self.mode as u8];
        meta.extend_from_slice(&self.size.to_le_bytes());
        blob_item(self.blob, meta)
    }

    /// Decodes the entry in a map value.
    ///
    /// # Errors
    /// `Corrupt` if the value is not a file.
    pub fn from_item(item: &Item) -> Result<Self> {
        let modes = [FileMode::Regular, FileMode::Executable, FileMode::Symlink];
        let parsed = item.meta.split_first().and_then(|(code, size)| {
            let mode = modes.into_iter().find(|mode| *mode as u8 == *code)?;
            Some((mode, u64::from_le_bytes(size.try_into().ok()?)))
        });
        let (mode, size) =
            parsed.ok_or_else(|| Error::malformed(item.link.id, "an entry of files"))?;
        Ok(Self { blob: item.link.id, mode, size })
    }
}

/// The kind of a piece of an imported transcript. The codes are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SourceKind {
    /// A parsed record.
    Record = 0,
    /// Bytes between records.
    Glue = 1,
    /// Bytes that violate the format.
    Damaged = 2,
}

impl SourceKind {
    /// Returns the kind with this code.
    pub(super) fn from_code(code: u8) -> Option<Self> {
        [Self::Record, Self::Glue, Self::Damaged].into_iter().find(|kind| *kind as u8 == code)
    }
}

/// An entry of the `source` section: a piece of the transcript, and the separator after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceEntry {
    /// The piece.
    pub blob: ObjectId,
    /// The kind of the piece.
    pub kind: SourceKind,
    /// The separator after it, at most [`MAX_SUFFIX_BYTES`].
    pub suffix: Bytes,
}

impl SourceEntry {
    /// Encodes the list item: the kind's code, then the separator.
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

    /// Decodes the entry in a list item.
    ///
    /// # Errors
    /// `Corrupt` if the item is not a source entry.
    pub fn from_item(item: &Item) -> Result<Self> {
        let kind = item.meta.first().and_then(|code| SourceKind::from_code(*code));
        let kind = kind.ok_or_else(|| Error::malformed(item.link.id, "a source entry"))?;
        Ok(Self { blob: item.link.id, kind, suffix: item.meta.slice(1..) })
    }
}

/// Creates an item that links to a blob.
pub(crate) fn blob_item(blob: ObjectId, meta: impl Into<Bytes>) -> Item {
    Item { link: Link { kind: Kind::Blob, id: blob }, meta: meta.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip_and_each_refuses_the_others() {
        let blob = ObjectId::of(Kind::Blob, b"x");
        let message = MessageEntry::new(blob, Role::Tool, "codex");
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
    fn a_mode_is_read_by_its_name_alone() {
        assert_eq!("executable".parse::<FileMode>().unwrap(), FileMode::Executable);
        assert_eq!("link".parse::<FileMode>().unwrap(), FileMode::Symlink);
        assert!("Regular".parse::<FileMode>().is_err());
    }

    #[test]
    fn an_origin_stands_behind_what_a_message_has_without_one() {
        let blob = ObjectId::of(Kind::Blob, b"x");
        for (role, media) in [(Role::System, "json"), (Role::Other, "")] {
            let plain = MessageEntry::new(blob, role, media).to_item().unwrap();
            assert_eq!(plain.meta, [&[role as u8], media.as_bytes()].concat());
            let marked = with_origin(&plain, "task/plan-b").unwrap();
            let entry = MessageEntry::from_item(&marked).unwrap();
            assert_eq!(entry.origin.as_deref(), Some("task/plan-b"));
            assert_eq!((entry.role, entry.media.as_str()), (role, media));
            assert_eq!(entry.to_item().unwrap(), marked);
            assert_eq!(with_origin(&marked, "other").unwrap(), marked, "the first one counts");
            assert_eq!(without_origin(&marked), plain);
            assert_eq!(without_origin(&plain), plain);
        }
        let item = |meta: &'static [u8]| blob_item(blob, meta);
        assert!(MessageEntry::from_item(&item(b"\x01json\0")).is_err(), "an empty origin");
        let mut entry = MessageEntry::new(blob, Role::User, "a\0b");
        assert!(entry.to_item().is_err());
        entry.media = "json".into();
        entry.origin = Some("o".repeat(MAX_ORIGIN_BYTES));
        assert!(entry.to_item().is_ok());
        entry.origin = Some("o".repeat(MAX_ORIGIN_BYTES + 1));
        assert!(entry.to_item().is_err());
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
