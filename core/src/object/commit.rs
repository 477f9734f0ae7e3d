//! Commits: a snapshot of a context, and its origin.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::codec::{Reader, Writer};
use super::{ID_BYTES, ObjectId};
use crate::error::{Error, Result};

const VERSION: u64 = 1;
const MAX_PARENTS: usize = 1024;
/// Maximum number of fields of a structure of any version.
const MAX_FIELDS: u64 = 64;
const MAX_METADATA_ENTRIES: u64 = 4096;

/// One snapshot: the tree of a context, its parents, and the circumstances of the snapshot.
///
/// Facts that vary between runs (time, model, machine) are in the commit and not in the tree, so
/// equal contexts have equal trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The root of the context: a map of sections.
    pub tree: ObjectId,
    /// The parent commits: none for a first one, two or more for a merge.
    pub parents: Vec<ObjectId>,
    /// The session of the commit.
    pub session: String,
    /// The turn in the session: one more than the highest of its parents', 1 for a first commit. So
    /// a commit's turn is greater than those of all its ancestors.
    pub turn: u64,
    /// The author.
    pub author: Author,
    /// The time of the snapshot, taken from the source if it records one.
    pub time: Time,
    /// The reason for the snapshot.
    pub trigger: Trigger,
    /// One line, or more, for people.
    pub message: String,
    /// Other facts, by name.
    pub metadata: BTreeMap<String, String>,
}

/// The author of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Author {
    /// The agent, tool or person; empty when unknown.
    pub agent: String,
    /// The model; empty if unknown or not a model.
    pub model: String,
}

/// A time: microseconds since 1970-01-01 00:00 UTC, and the UTC offset of the clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Microseconds since the Unix epoch, UTC.
    pub micros: i64,
    /// Minutes east of UTC.
    pub offset_minutes: i16,
}

/// The reason for a snapshot. The codes are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Trigger {
    /// A user asked for it.
    #[default]
    Manual,
    /// A turn ended.
    Turn,
    /// A tool is about to run.
    BeforeTool,
    /// A share of the context window is used.
    Threshold,
    /// The context window is nearly full.
    Emergency,
    /// The context is about to be compacted.
    BeforeCompaction,
    /// The context was compacted; the first parent has the full history.
    Compaction,
    /// The agent changed its mode.
    ModeChange,
    /// A restore is about to write.
    BeforeRestore,
    /// Histories were merged.
    Merge,
    /// The branch was rewound to an earlier turn.
    Rollback,
}

impl Trigger {
    const NAMES: [(Self, &'static str); 11] = [
        (Self::Manual, "manual"),
        (Self::Turn, "turn"),
        (Self::BeforeTool, "before-tool"),
        (Self::Threshold, "threshold"),
        (Self::Emergency, "emergency"),
        (Self::BeforeCompaction, "before-compaction"),
        (Self::Compaction, "compaction"),
        (Self::ModeChange, "mode-change"),
        (Self::BeforeRestore, "before-restore"),
        (Self::Merge, "merge"),
        (Self::Rollback, "rollback"),
    ];

    /// Returns the name in formats, commands and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(trigger, _)| *trigger == self).map_or("manual", |(_, name)| name)
    }
}

impl FromStr for Trigger {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::NAMES.iter().find(|(_, name)| *name == text).map(|(trigger, _)| *trigger).ok_or_else(
            || {
                let names = Self::NAMES.map(|(_, name)| name).join(", ");
                Error::invalid(format!("'{text}' is not a trigger: expected one of {names}"))
            },
        )
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Commit {
    /// Encodes the bytes that are hashed and stored.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.array(10).uint(VERSION).bytes(self.tree.as_bytes());
        write_ids(&mut writer, &self.parents);
        writer.text(&self.session).uint(self.turn);
        writer.array(2).text(&self.author.agent).text(&self.author.model);
        writer.array(2).int(self.time.micros).int(self.time.offset_minutes.into());
        writer.text(self.trigger.name()).text(&self.message);
        writer.array(2 * self.metadata.len());
        for (name, value) in &self.metadata {
            writer.text(name).text(value);
        }
        writer.finish()
    }

    /// Decodes a commit.
    ///
    /// # Errors
    /// `Corrupt` unless the bytes are exactly what [`Commit::encode`] writes; `Unsupported` for a
    /// newer version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new("commit", bytes);
        open_structure(&mut reader, "commit", &[10])?;
        let commit = Self {
            tree: read_id(&mut reader)?,
            parents: read_ids(&mut reader, MAX_PARENTS)?,
            session: reader.text()?.to_owned(),
            turn: reader.uint()?,
            author: {
                reader.array(2)?;
                Author { agent: reader.text()?.to_owned(), model: reader.text()?.to_owned() }
            },
            time: read_time(&mut reader)?,
            trigger: {
                let name = reader.text()?;
                name.parse().map_err(|_| reader.malformed("a known trigger"))?
            },
            message: reader.text()?.to_owned(),
            metadata: read_metadata(&mut reader)?,
        };
        reader.finish()?;
        Ok(commit)
    }
}

fn read_time(reader: &mut Reader<'_>) -> Result<Time> {
    reader.array(2)?;
    let micros = reader.int()?;
    let offset = reader.int()?;
    let offset_minutes = i16::try_from(offset)
        .map_err(|_| reader.refuse("an offset in minutes", &offset.to_string()))?;
    Ok(Time { micros, offset_minutes })
}

fn read_metadata(reader: &mut Reader<'_>) -> Result<BTreeMap<String, String>> {
    let items = reader.array_up_to(2 * MAX_METADATA_ENTRIES)?;
    if items % 2 != 0 {
        return Err(reader.refuse("pairs of names and values", &format!("{items} items")));
    }
    let mut metadata = BTreeMap::new();
    for _ in 0..items / 2 {
        let (name, value) = (reader.text()?, reader.text()?);
        if metadata.last_key_value().is_some_and(|(last, _): (&String, _)| last.as_str() >= name) {
            return Err(reader.malformed("names in ascending order"));
        }
        metadata.insert(name.to_owned(), value.to_owned());
    }
    Ok(metadata)
}

/// Reads the head of a structure whose first item is its version, and returns the version. `fields`
/// has the number of items of each version, beginning with version 1. A newer version is
/// unsupported, whatever its number of items.
pub(super) fn open_structure(
    reader: &mut Reader<'_>,
    what: &'static str,
    fields: &[u64],
) -> Result<usize> {
    let found_fields = reader.array_up_to(MAX_FIELDS)?;
    let found = reader.uint()?;
    let version = usize::try_from(found).unwrap_or(usize::MAX);
    if version > fields.len() {
        let newest = fields.len();
        return Err(Error::new(
            crate::ErrorKind::Unsupported,
            format!("{what} has version {found}: this build knows versions up to {newest}"),
        ));
    }
    match version.checked_sub(1).and_then(|index| fields.get(index)) {
        Some(expected) if *expected == found_fields => Ok(version),
        Some(expected) => Err(reader.refuse(
            &format!("version {found} with {expected} fields"),
            &format!("version {found} with {found_fields}"),
        )),
        None => Err(reader.refuse("a version of 1 or more", &found.to_string())),
    }
}

/// Reads one id.
pub(super) fn read_id(reader: &mut Reader<'_>) -> Result<ObjectId> {
    let bytes = reader.bytes()?;
    ObjectId::from_slice(bytes)
        .ok_or_else(|| reader.refuse("an id of 32 bytes", &format!("{} bytes", bytes.len())))
}

/// Writes ids as one byte string.
pub(super) fn write_ids(writer: &mut Writer, ids: &[ObjectId]) {
    writer.bytes(&ids.iter().flat_map(|id| *id.as_bytes()).collect::<Vec<u8>>());
}

/// Reads ids from one byte string.
pub(super) fn read_ids(reader: &mut Reader<'_>, max: usize) -> Result<Vec<ObjectId>> {
    let bytes = reader.bytes()?;
    let (ids, rest) = bytes.as_chunks::<ID_BYTES>();
    if !rest.is_empty() || ids.len() > max {
        let found = format!("{} bytes", bytes.len());
        return Err(reader.refuse(&format!("at most {max} ids of {ID_BYTES} bytes"), &found));
    }
    Ok(ids.iter().map(|id| ObjectId::from_bytes(*id)).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::object::Kind;

    fn any_commit() -> impl Strategy<Value = Commit> {
        let texts = (any::<String>(), any::<String>(), any::<String>(), any::<String>());
        let numbers = (any::<u64>(), any::<i64>(), any::<i16>(), 0..Trigger::NAMES.len());
        let metadata = prop::collection::btree_map(any::<String>(), any::<String>(), 0..4);
        let parents = prop::collection::vec(any::<[u8; 32]>(), 0..4);
        (texts, numbers, metadata, parents, any::<[u8; 32]>()).prop_map(
            |(
                (session, agent, model, message),
                (turn, micros, offset, trigger),
                metadata,
                parents,
                tree,
            )| {
                Commit {
                    tree: ObjectId::from_bytes(tree),
                    parents: parents.into_iter().map(ObjectId::from_bytes).collect(),
                    session,
                    turn,
                    author: Author { agent, model },
                    time: Time { micros, offset_minutes: offset },
                    trigger: Trigger::NAMES[trigger].0,
                    message,
                    metadata,
                }
            },
        )
    }

    turntree_properties::properties! {
        #[test]
        fn a_commit_round_trips(commit in any_commit()) {
            prop_assert_eq!(Commit::decode(&commit.encode()).unwrap(), commit);
        }

        #[test]
        fn accepted_bytes_are_the_ones_that_would_be_written(
            commit in any_commit(), at: prop::sample::Index, byte: u8,
        ) {
            let mut bytes = commit.encode();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(decoded) = Commit::decode(&bytes) {
                prop_assert_eq!(decoded.encode(), bytes);
            }
        }

        #[test]
        fn a_cut_commit_is_an_error(commit in any_commit(), at: prop::sample::Index) {
            let bytes = commit.encode();
            prop_assert!(Commit::decode(&bytes[..at.index(bytes.len())]).is_err());
        }
    }

    #[test]
    fn every_name_in_metadata_is_there_once_and_in_order() {
        for (names, accepted) in [(["a", "b"], true), (["b", "a"], false), (["a", "a"], false)] {
            let mut writer = Writer::new();
            writer.array(4);
            for name in names {
                writer.text(name).text("value");
            }
            let bytes = writer.finish();
            let decoded = read_metadata(&mut Reader::new("commit", &bytes));
            assert_eq!(decoded.is_ok(), accepted, "{names:?}");
        }
    }

    #[test]
    fn the_id_of_a_commit_is_pinned() {
        let commit = Commit {
            tree: ObjectId::of(Kind::Node, b"root"),
            parents: vec![],
            session: "s".into(),
            turn: 1,
            author: Author::default(),
            time: Time::default(),
            trigger: Trigger::Turn,
            message: "first".into(),
            metadata: BTreeMap::new(),
        };
        assert_eq!(ObjectId::of(Kind::Commit, &commit.encode()).short(16), "353e56f492a591a9");
    }

    #[test]
    fn a_newer_version_is_unsupported_not_corrupt() {
        let mut writer = Writer::new();
        writer.array(11).uint(2);
        let error = Commit::decode(&writer.finish()).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Unsupported);
    }
}
