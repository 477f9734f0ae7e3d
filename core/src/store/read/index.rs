//! The index at the end of a sealed segment: its encoding, and the search for ids.
//!
//! ```text
//! payload of the index record
//!   fan-out  | 256 x 4: ids whose first byte is at most this |
//!   ids      | n x 32, rising                                |
//!   places   | n x 24: offset 8, raw 4, stored 4, kind 1, codec 1, zero 6 |
//! ```
//!
//! Specified in `format-spec/journal.md`.

use std::cmp::Reverse;
use std::io;

use bytes::Bytes;

use crate::object::{ID_BYTES, Kind, ObjectId};
use crate::store::format::codec::{Codec, is_plausible};
use crate::store::format::segment::{
    CHECKSUM_BYTES, FieldReader, HEADER_BYTES, Header, Location, RecordBuilder, RecordType,
    SegmentFile, StoredRecord, trailer_checksum,
};
use crate::store::medium::Medium;

const FAN_OUT: usize = 256;
const FAN_OUT_BYTES: usize = 4 * FAN_OUT;
const PLACE_BYTES: usize = 24;

/// Most ids with the same first byte to scan. With more, searching a verified index is faster.
const MAX_ALIKE: usize = 512;

/// The index of a segment, verified or rebuilt.
#[derive(Debug)]
pub(super) struct Index {
    fan_out: Bytes,
    ids: Bytes,
    places: Bytes,
    filter: Filter,
}

impl Index {
    /// Reads and verifies the index whose record is at `offset`. Reads all of it; returns `None` if
    /// it does not verify.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn read(
        medium: &Medium,
        segment: &SegmentFile,
        offset: u64,
    ) -> io::Result<Option<Self>> {
        let payload = index_payload(medium, segment, offset)?;
        Ok(payload.and_then(|(objects, payload)| Self::over(objects, &payload)))
    }

    /// Builds the index of these objects.
    pub(super) fn of(objects: Vec<(ObjectId, Location)>) -> Self {
        let (objects, payload) = payload_of(objects);
        let filled = Self::over(objects, &payload.into());
        filled.unwrap_or_else(|| Self {
            fan_out: Bytes::new(),
            ids: Bytes::new(),
            places: Bytes::new(),
            filter: Filter::new(&[]),
        })
    }

    fn over(objects: usize, payload: &Bytes) -> Option<Self> {
        (Some(payload.len()) == payload_bytes(objects)).then(|| {
            let places = FAN_OUT_BYTES + objects * ID_BYTES;
            let ids = payload.slice(FAN_OUT_BYTES..places);
            let (fan_out, places) = (payload.slice(..FAN_OUT_BYTES), payload.slice(places..));
            Self { filter: Filter::new(&ids), fan_out, ids, places }
        })
    }

    /// Returns the number of objects.
    pub(super) fn len(&self) -> usize {
        self.ids.len() / ID_BYTES
    }

    /// Returns the location of the object `id`.
    pub(super) fn find(&self, id: &ObjectId) -> Option<StoredRecord> {
        if !self.filter.may_hold(id) {
            return None;
        }
        let at = self.first_not_below(id);
        if self.id(at)? == *id { self.stored(at) } else { None }
    }

    /// Returns the id of the object with a number, in the order of ids.
    pub(super) fn id(&self, at: usize) -> Option<ObjectId> {
        let start = at.checked_mul(ID_BYTES)?;
        self.ids.get(start..start.checked_add(ID_BYTES)?).and_then(ObjectId::from_slice)
    }

    /// Returns the location of the object with a number.
    pub(super) fn stored(&self, at: usize) -> Option<StoredRecord> {
        stored_in(self.places.get(at * PLACE_BYTES..(at + 1) * PLACE_BYTES)?)
    }

    /// Returns the position of the first id that is not below `id`.
    pub(super) fn first_not_below(&self, id: &ObjectId) -> usize {
        let first = usize::from(id.as_bytes()[0]);
        let mut low = first.checked_sub(1).map_or(0, |before| fan_out(&self.fan_out, before));
        let mut high = fan_out(&self.fan_out, first).min(self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.id(middle).is_some_and(|found| found < *id) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// The beginning of an index with only its header verified: enough to look up a few ids.
#[derive(Debug)]
pub(super) struct IndexHead {
    offset: u64,
    objects: usize,
    fan_out: Vec<u8>,
}

/// The result of a look-up in an unverified index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndexLookup {
    /// The index has the id at this location. The reader verifies the object.
    Found(StoredRecord),
    /// The index does not have the id.
    Absent,
    /// The index is malformed, or has too many candidates to scan.
    Unsure,
}

impl IndexHead {
    /// Reads the beginning of the index at `offset`, if its header verifies and the index fits in
    /// the file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn read(
        segment: &SegmentFile,
        offset: u64,
        file_bytes: u64,
    ) -> io::Result<Option<Self>> {
        let mut head = [0; HEADER_BYTES + FAN_OUT_BYTES];
        let read = segment.file.read_at(&mut head, offset)?;
        let (header, fan_out) = head.split_at(HEADER_BYTES);
        let header = Header::decode(header, segment.id).filter(|header| {
            let (objects, payload) = (header.objects as usize, header.payload_bytes);
            let end = offset.checked_add(header.record_bytes());
            read == head.len()
                && header.record == RecordType::Index
                && payload_bytes(objects).map(|bytes| bytes as u64) == Some(payload)
                && end.is_some_and(|end| end <= file_bytes)
        });
        Ok(header.map(|header| Self {
            offset,
            objects: header.objects as usize,
            fan_out: fan_out.to_vec(),
        }))
    }

    /// The offset of the index in its file.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the number of objects that its header declares.
    pub(super) fn len(&self) -> usize {
        self.objects
    }

    /// Looks up an id. Reads the ids with the same first byte, and the location of a match.
    pub(super) fn look(&self, segment: &SegmentFile, id: &ObjectId) -> IndexLookup {
        self.try_look(segment, id).unwrap_or(IndexLookup::Unsure)
    }

    fn try_look(&self, segment: &SegmentFile, id: &ObjectId) -> Option<IndexLookup> {
        let first = usize::from(id.as_bytes()[0]);
        let start = first.checked_sub(1).map_or(0, |before| fan_out(&self.fan_out, before));
        let end = fan_out(&self.fan_out, first);
        let alike = end.checked_sub(start).filter(|alike| *alike <= MAX_ALIKE)?;
        if end > self.objects {
            return None;
        }
        let read = |bytes: &mut [u8], at: usize| {
            let offset = self.offset.checked_add((HEADER_BYTES + at) as u64)?;
            let read = segment.file.read_at(bytes, offset).ok()?;
            (read == bytes.len()).then_some(())
        };
        let mut ids = vec![0; alike * ID_BYTES];
        read(&mut ids, FAN_OUT_BYTES + start * ID_BYTES)?;
        let (ids, _) = ids.as_chunks::<ID_BYTES>();
        let Some(at) = ids.iter().position(|found| found == id.as_bytes()) else {
            return Some(IndexLookup::Absent);
        };
        let mut place = [0; PLACE_BYTES];
        read(&mut place, FAN_OUT_BYTES + self.objects * ID_BYTES + (start + at) * PLACE_BYTES)?;
        stored_in(&place).map(IndexLookup::Found)
    }
}

/// Returns the number of ids whose first byte is at most `byte`.
fn fan_out(fan_out: &[u8], byte: usize) -> usize {
    let count = fan_out.get(4 * byte..).and_then(|rest| FieldReader(rest).u32());
    count.map_or(0, |count| count as usize)
}

/// Decodes the location of an object, if it is plausible.
fn stored_in(place: &[u8]) -> Option<StoredRecord> {
    let mut fields = FieldReader(place);
    let (offset, raw_bytes, stored_bytes) = (fields.u64()?, fields.u32()?, fields.u32()?);
    let [kind, codec] = fields.take()?;
    let (kind, codec) = (Kind::from_code(kind)?, Codec::from_code(codec)?);
    is_plausible(codec, kind, stored_bytes, raw_bytes).then_some(StoredRecord {
        offset,
        stored_bytes,
        raw_bytes,
        kind,
        codec,
    })
}

/// Returns the payload size of an index of `objects` objects.
fn payload_bytes(objects: usize) -> Option<usize> {
    FAN_OUT_BYTES.checked_add(objects.checked_mul(ID_BYTES + PLACE_BYTES)?)
}

/// A bitmap of the prefixes of ids. A commit looks up each new object in every sealed segment, and
/// almost never finds it. The filter answers with one memory access, where a search accesses
/// several pages of the file.
#[derive(Debug)]
pub(in crate::store) struct Filter {
    words: Vec<u64>,
}

/// Bits for each object: about one look-up in this many is a false positive.
const FILTER_BITS: usize = 16;

impl Filter {
    /// Builds the filter of concatenated ids.
    pub(in crate::store) fn new(ids: &[u8]) -> Self {
        let mut filter = Self::empty(ids.len() / ID_BYTES);
        filter.add(ids);
        filter
    }

    /// Returns an empty filter for `ids` ids.
    pub(in crate::store) fn empty(ids: usize) -> Self {
        let words = (ids * FILTER_BITS).div_ceil(64).next_power_of_two();
        Self { words: vec![0; words] }
    }

    /// Adds concatenated ids.
    pub(in crate::store) fn add(&mut self, ids: &[u8]) {
        let (ids, _) = ids.as_chunks::<ID_BYTES>();
        for id in ids {
            let (word, bit) = self.position(id);
            if let Some(word) = self.words.get_mut(word) {
                *word |= bit;
            }
        }
    }

    /// Returns true if the id may exist; `false` is certain.
    pub(in crate::store) fn may_hold(&self, id: &ObjectId) -> bool {
        let (word, bit) = self.position(id.as_bytes());
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Returns the word and the bit of an id. Ids are already uniformly distributed.
    fn position(&self, id: &[u8; ID_BYTES]) -> (usize, u64) {
        let [a, b, c, d, e, ..] = *id;
        let word = u32::from_le_bytes([a, b, c, d]) as usize & (self.words.len() - 1);
        (word, 1 << (e % 64))
    }
}

/// Builds the index record of a segment with these objects.
pub(in crate::store) fn build(objects: Vec<(ObjectId, Location)>) -> RecordBuilder {
    let (objects, payload) = payload_of(objects);
    RecordBuilder::index(objects, &payload)
}

/// Returns the number of distinct objects, and the payload of their index.
fn payload_of(mut objects: Vec<(ObjectId, Location)>) -> (usize, Vec<u8>) {
    // An object occurs twice if its first copy was damaged and it was stored again: the last one
    // counts.
    objects.sort_unstable_by_key(|(id, at)| (*id, Reverse(at.stored.offset)));
    objects.dedup_by_key(|(id, _)| *id);
    let mut payload = Vec::new();
    let mut counted = 0_u32;
    for byte in 0..=u8::MAX {
        let rest = objects.iter().skip(counted as usize);
        let same = rest.take_while(|(id, _)| id.as_bytes()[0] == byte);
        counted += u32::try_from(same.count()).unwrap_or(u32::MAX);
        payload.extend_from_slice(&counted.to_le_bytes());
    }
    for (id, _) in &objects {
        payload.extend_from_slice(id.as_bytes());
    }
    for (_, Location { stored, .. }) in &objects {
        payload.extend_from_slice(&stored.offset.to_le_bytes());
        payload.extend_from_slice(&stored.raw_bytes.to_le_bytes());
        payload.extend_from_slice(&stored.stored_bytes.to_le_bytes());
        payload.extend_from_slice(&[stored.kind.code(), stored.codec.code(), 0, 0, 0, 0, 0, 0]);
    }
    (objects.len(), payload)
}

/// Reads and verifies the index record at `offset`; returns the number of objects and the payload.
fn index_payload(
    medium: &Medium,
    segment: &SegmentFile,
    offset: u64,
) -> io::Result<Option<(usize, Bytes)>> {
    let header = medium.get(offset, HEADER_BYTES)?;
    let header = header.and_then(|header| Header::decode(&header, segment.id));
    let Some(header) = header.filter(|header| header.record == RecordType::Index) else {
        return Ok(None);
    };
    let Ok(bytes) = usize::try_from(header.record_bytes()) else { return Ok(None) };
    let record = medium.get(offset, bytes)?;
    Ok(record.and_then(|record| {
        let (content, trailer) = record.split_last_chunk::<CHECKSUM_BYTES>()?;
        let verifies = trailer_checksum().update(content).finish() == *trailer;
        let end = HEADER_BYTES.checked_add(usize::try_from(header.payload_bytes).ok()?)?;
        (verifies && end <= content.len())
            .then(|| (header.objects as usize, record.slice(HEADER_BYTES..end)))
    }))
}
