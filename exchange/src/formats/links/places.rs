//! The places of records by their ids, of which the newest are kept when they are saved.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use turntree::object::{Kind, ObjectId};

/// Records that are saved between two reads of a file: a rewind further back rereads the whole
/// file.
const KEPT: usize = 64;

/// The hash of an id, which may have any length.
pub(super) type RecordKey = [u8; 16];

/// The position of a record.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(in crate::formats) struct RecordPlace {
    pub(super) piece: u64,
    pub(super) line: u32,
    /// The turn that it belongs to.
    pub(super) turn: u64,
    /// Messages of its line up to and with it.
    pub(super) messages: u64,
    pub(super) is_message: bool,
    pub(super) sign: RecordSign,
}

/// The fields that identify a record together with its id.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::formats) struct RecordSign {
    /// The hash of its subject, such as its call.
    pub(super) about: u64,
    /// Its recorded time, in microseconds.
    pub(super) time: Option<i64>,
}

impl RecordSign {
    /// The sign of a record with a subject.
    pub(in crate::formats) fn of(about: &str, time: Option<i64>) -> Self {
        let about = key_of(about).first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        Self { about, time }
    }
}

/// The places of records.
#[derive(Debug, Default)]
pub(super) struct Places {
    by_key: HashMap<RecordKey, RecordPlace>,
    newest: Vec<RecordKey>,
    /// True if older records were dropped.
    pub(super) is_part: bool,
    /// The earliest time of the saved records, if older ones were dropped.
    since: Option<i64>,
}

pub(super) fn key_of(id: &str) -> RecordKey {
    let whole = ObjectId::of(Kind::Blob, id.as_bytes());
    whole.as_bytes().first_chunk().copied().unwrap_or_default()
}

impl Places {
    pub(super) fn insert(&mut self, id: &str, place: RecordPlace) {
        let key = key_of(id);
        if self.by_key.insert(key, place).is_some() {
            return;
        }
        self.newest.push(key);
        if self.newest.len() >= 2 * KEPT {
            self.newest.drain(..KEPT);
        }
    }

    /// Changes the place of a known record.
    pub(super) fn set(&mut self, key: RecordKey, place: RecordPlace) {
        self.by_key.insert(key, place);
    }

    /// The places of all known records, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = (RecordKey, RecordPlace)> {
        self.by_key.iter().map(|(key, place)| (*key, *place))
    }

    pub(super) fn get(&self, id: &str) -> Option<RecordPlace> {
        self.by_key.get(&key_of(id)).copied()
    }

    /// Returns true if an unknown record of this time may be one that was dropped.
    pub(super) fn may_be_forgotten(&self, time: Option<i64>) -> bool {
        let is_new = time.zip(self.since).is_some_and(|(time, since)| time >= since);
        self.is_part && !is_new
    }

    /// The newest records, which are saved.
    fn kept(&self) -> impl Iterator<Item = (RecordKey, RecordPlace)> {
        let from = self.newest.len().saturating_sub(KEPT);
        let newest = self.newest.iter().skip(from);
        newest.filter_map(|key| Some((*key, *self.by_key.get(key)?)))
    }

    /// The lines that these are on.
    pub(super) fn kept_lines(&self) -> BTreeSet<u32> {
        self.kept().map(|(_, place)| place.line).collect()
    }
}

impl Serialize for Places {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let places: Vec<(RecordKey, RecordPlace)> = self.kept().collect();
        let is_part = self.is_part || places.len() < self.by_key.len();
        let since = places.iter().filter_map(|(_, place)| place.sign.time).min();
        (is_part, since, places).serialize(to)
    }
}

impl<'d> Deserialize<'d> for Places {
    fn deserialize<D: Deserializer<'d>>(from: D) -> Result<Self, D::Error> {
        type Saved = (bool, Option<i64>, Vec<(RecordKey, RecordPlace)>);
        let (is_part, since, places) = Saved::deserialize(from)?;
        let newest = places.iter().map(|(key, _)| *key).collect();
        Ok(Self { by_key: places.into_iter().collect(), newest, is_part, since })
    }
}
