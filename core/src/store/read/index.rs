//! Sealed segments: mapped into memory, and searched through the index at their end.
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
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::object::{ID_BYTES, IdPrefix, Kind, ObjectId};
use crate::store::format::codec::{Codec, plausible};
use crate::store::format::segment::{
    CHECKSUM_BYTES, FieldReader, HEADER_BYTES, Header, Location, RecordBuilder, RecordType,
    SegmentFile, StoredRecord, trailer_checksum,
};
use crate::store::medium::Medium;

const FAN_OUT: usize = 256;
const FAN_OUT_BYTES: usize = 4 * FAN_OUT;
const PLACE_BYTES: usize = 24;

/// A sealed segment.
#[derive(Debug)]
pub(in crate::store) struct Sealed {
    segment: Arc<SegmentFile>,
    medium: Medium,
    file_bytes: u64,
    fan_out: Bytes,
    ids: Bytes,
    places: Bytes,
    filter: Filter,
    /// Set when something was read since its memory was given back.
    is_touched: AtomicBool,
}

impl Sealed {
    /// Opens the segment whose index record is at `offset`, and verifies the index.
    pub(in crate::store) fn open(segment: Arc<SegmentFile>, offset: u64) -> Result<Self> {
        let failed = |e| Error::io(format!("map {}", segment.place(0)), e);
        let medium = Medium::of(&segment.file).map_err(failed)?;
        let file_bytes = medium.size();
        let payload = index_payload(&medium, &segment, offset).map_err(failed)?;
        let payload = payload.and_then(|(objects, payload)| {
            let ids = objects.checked_mul(ID_BYTES)?;
            let places = objects.checked_mul(PLACE_BYTES)?;
            let whole = FAN_OUT_BYTES.checked_add(ids)?.checked_add(places)?;
            (payload.len() == whole).then_some((payload, FAN_OUT_BYTES + ids))
        });
        let Some((payload, places)) = payload else {
            return Err(Error::malformed(segment.place(offset), "an index"));
        };
        let fan_out = payload.slice(..FAN_OUT_BYTES);
        let ids = payload.slice(FAN_OUT_BYTES..places);
        let filter = Filter::new(&ids);
        let places = payload.slice(places..);
        // All of the index was read to verify it, and of most segments little is asked.
        medium.let_pages_go();
        let is_touched = AtomicBool::new(false);
        Ok(Self { segment, medium, file_bytes, fan_out, ids, places, filter, is_touched })
    }

    /// Gives back the memory of what was read of it.
    pub(in crate::store) fn let_pages_go(&self) {
        self.is_touched.store(false, Ordering::Relaxed);
        self.medium.let_pages_go();
    }

    /// The same, if an object was found in it or read from it since the last time.
    pub(in crate::store) fn let_touched_pages_go(&self) {
        if self.is_touched.load(Ordering::Relaxed) {
            self.let_pages_go();
        }
    }

    /// Notes that something is read. Many threads do, so it is written only when it changes.
    fn touch(&self) {
        if !self.is_touched.load(Ordering::Relaxed) {
            self.is_touched.store(true, Ordering::Relaxed);
        }
    }

    pub(in crate::store) fn segment(&self) -> &SegmentFile {
        &self.segment
    }

    pub(in crate::store) fn file(&self) -> &Arc<SegmentFile> {
        &self.segment
    }

    /// Number of objects.
    pub(in crate::store) fn len(&self) -> usize {
        self.ids.len() / ID_BYTES
    }

    /// Bytes of the file.
    pub(in crate::store) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Returns the location of the object `id`.
    pub(in crate::store) fn find(&self, id: &ObjectId) -> Option<StoredRecord> {
        self.stored(self.position(id)?)
    }

    /// The number of the object `id` in the order of ids.
    pub(in crate::store) fn position(&self, id: &ObjectId) -> Option<usize> {
        if !self.filter.may_hold(id) {
            return None;
        }
        let at = self.first_not_below(id);
        (self.id(at)? == *id).then_some(at)
    }

    /// The object with a number: its id, and where it lies.
    pub(in crate::store) fn entry(&self, at: usize) -> Option<(ObjectId, StoredRecord)> {
        Some((self.id(at)?, self.stored(at)?))
    }

    fn stored(&self, at: usize) -> Option<StoredRecord> {
        self.touch();
        let mut fields = FieldReader(self.places.get(at * PLACE_BYTES..(at + 1) * PLACE_BYTES)?);
        let (offset, raw_bytes, stored_bytes) = (fields.u64()?, fields.u32()?, fields.u32()?);
        let [kind, codec] = fields.take()?;
        let (kind, codec) = (Kind::from_code(kind)?, Codec::from_code(codec)?);
        plausible(codec, kind, stored_bytes, raw_bytes).then_some(StoredRecord {
            offset,
            stored_bytes,
            raw_bytes,
            kind,
            codec,
        })
    }

    /// The `len` bytes from `offset` on; not copied where the file is mapped. Nothing when the file ends
    /// before them.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(in crate::store) fn bytes(&self, offset: u64, len: usize) -> io::Result<Option<Bytes>> {
        self.touch();
        self.medium.get(offset, len)
    }

    /// The objects whose ids start with `prefix`, in order.
    pub(in crate::store) fn starting_with(
        &self,
        prefix: &IdPrefix,
    ) -> impl Iterator<Item = (ObjectId, Kind)> {
        (self.first_not_below(&prefix.first())..self.len())
            .map_while(|at| self.id(at).filter(|id| prefix.matches(id)))
            .filter_map(|id| Some((id, self.find(&id)?.kind)))
    }

    /// The position of the first id that is not below `id`.
    fn first_not_below(&self, id: &ObjectId) -> usize {
        let first = usize::from(id.as_bytes()[0]);
        let mut low = first.checked_sub(1).map_or(0, |before| self.fan_out(before));
        let mut high = self.fan_out(first).min(self.len());
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

    fn fan_out(&self, byte: usize) -> usize {
        let count = self.fan_out.get(4 * byte..).and_then(|rest| FieldReader(rest).u32());
        count.map_or(0, |count| count as usize)
    }

    /// The id of the object with a number.
    pub(in crate::store) fn id(&self, at: usize) -> Option<ObjectId> {
        let start = at.checked_mul(ID_BYTES)?;
        self.ids.get(start..start.checked_add(ID_BYTES)?).and_then(ObjectId::from_slice)
    }
}

/// Bits of the beginnings of ids, one for each that is there. A commit asks every sealed segment for
/// each new object, and nearly every answer is no: this one costs one look at memory, where a search
/// costs several at pages of the file.
#[derive(Debug)]
pub(in crate::store) struct Filter {
    words: Vec<u64>,
}

/// Bits for each object: about one question in so many is let through in vain.
const FILTER_BITS: usize = 16;

impl Filter {
    /// The filter of ids that lie back to back.
    pub(in crate::store) fn new(ids: &[u8]) -> Self {
        let (ids, _) = ids.as_chunks::<ID_BYTES>();
        let words = (ids.len() * FILTER_BITS).div_ceil(64).next_power_of_two();
        let mut filter = Self { words: vec![0; words] };
        for id in ids {
            let (word, bit) = filter.position(id);
            if let Some(word) = filter.words.get_mut(word) {
                *word |= bit;
            }
        }
        filter
    }

    /// Returns true if the id may be there; `false` is certain.
    pub(in crate::store) fn may_hold(&self, id: &ObjectId) -> bool {
        let (word, bit) = self.position(id.as_bytes());
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// The word and the bit for an id, which is evenly spread already.
    fn position(&self, id: &[u8; ID_BYTES]) -> (usize, u64) {
        let [a, b, c, d, e, ..] = *id;
        let word = u32::from_le_bytes([a, b, c, d]) as usize & (self.words.len() - 1);
        (word, 1 << (e % 64))
    }
}

/// The index record of a segment with these objects.
pub(in crate::store) fn build(mut objects: Vec<(ObjectId, Location)>) -> RecordBuilder {
    // What is there twice was stored again because the first copy is damaged: the last one counts.
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
    RecordBuilder::index(objects.len(), &payload)
}

/// The number of objects and the payload of the index record at `offset`, if it verifies.
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
