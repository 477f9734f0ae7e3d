//! The format of a journal segment: its header, and the records in it.
//!
//! ```text
//! segment   | header 80 | record | record | ... | mark 8, or nothing | zeros, written ahead of use |
//!
//! header    | magic 8 | version 4 | zero 4 | segment id 16 | store id 16 | checksum 32 |
//!
//! record    | header 120 | directory | payload | zeros to a multiple of 8 | trailer 32 |
//!  header   | magic 8 | type 4 | objects 4 | segment id 16 | sequence 8 | directory bytes 8 |
//!           | payload bytes 8 | trailer of the record before 32 | checksum 32 |
//!  directory| entry 44 ... | checksum 32 |
//!  entry    | id 32 | kind 1 | codec 1 | zero 2 | raw bytes 4 | stored bytes 4 |
//!  payload  | stored objects, back to back, in the order of the directory |
//!  trailer  | checksum of everything before it in the record |
//! ```
//!
//! A batch is one record: the objects of one commit with its operation, or objects alone. It is
//! whole if and only if its trailer verifies. An index (see `index.rs`) is a record too, and the
//! last one of a sealed segment.
//!
//! Agents and tools write the payloads, so they may contain bytes that look like a record. The
//! magic therefore proves nothing: a header must have the segment's random id, the expected
//! sequence, its checksum, and the checksum of the bytes that it describes. Specified in
//! `format-spec/journal.md`.

use std::sync::{Arc, LazyLock};

use super::codec::{Codec, Encoder, is_plausible};
use super::id::{SegmentId, StoreId};
use crate::object::{Checksum, ID_BYTES, Kind, ObjectId};
use crate::store::io::IoFile;

/// Bytes before the first record.
pub(in crate::store) const SEGMENT_HEADER_BYTES: usize = 80;
/// Bytes of a new segment, all of them written and synced before the first record.
pub(in crate::store) const NEW_SEGMENT_BYTES: usize = 64 << 10;
/// Bytes of the header of a record.
pub(in crate::store) const HEADER_BYTES: usize = 120;
/// Bytes of a trailer, and of every checksum.
pub(in crate::store) const CHECKSUM_BYTES: usize = 32;
/// Records start at multiples of this.
pub(in crate::store) const ALIGNMENT: usize = 8;
/// The magic of a record; alone it means nothing.
pub(in crate::store) const RECORD_MAGIC: [u8; 8] = *b"\x89TTR\r\n\x1a\n";

/// The bytes after the last record of a segment once that record is durable. The next record
/// overwrites them. Eight aligned bytes never span two sectors, and only a magic overwrites them.
/// So writing this place twice in an enciphered file reveals no content.
pub(in crate::store) const SYNCED_MARK: [u8; 8] = *b"synced\0\0";

/// Most objects in one batch.
pub(in crate::store) const MAX_BATCH_OBJECTS: usize = 1 << 20;
/// Most payload bytes in one record.
pub(in crate::store) const MAX_PAYLOAD_BYTES: u64 = 4 << 30;

const SEGMENT_MAGIC: [u8; 8] = *b"\x89TTS\r\n\x1a\n";
const SEGMENT_VERSION: u32 = 1;
const SEGMENT_CONTEXT: &str = "turntree v1 segment header";

// Hashers that every record needs, initialized once: that costs as much as hashing a header.
static HEADER_CHECKSUM: LazyLock<Checksum> =
    LazyLock::new(|| Checksum::new("turntree v1 record header"));
static DIRECTORY_CHECKSUM: LazyLock<Checksum> =
    LazyLock::new(|| Checksum::new("turntree v1 batch directory"));
static TRAILER_CHECKSUM: LazyLock<Checksum> =
    LazyLock::new(|| Checksum::new("turntree v1 record trailer"));
/// Bytes of an object in the directory of its batch.
pub(in crate::store) const ENTRY_BYTES: usize = 44;

/// A checksum of this format.
pub(in crate::store) type Digest = [u8; CHECKSUM_BYTES];

/// A segment file, open to read.
#[derive(Debug)]
pub(in crate::store) struct SegmentFile {
    pub(in crate::store) id: SegmentId,
    pub(in crate::store) file: Arc<dyn IoFile>,
}

impl SegmentFile {
    /// Returns a description of `offset` in this segment, for errors and findings.
    pub(in crate::store) fn place(&self, offset: u64) -> String {
        format!("journal/{} at {offset}", self.id.file_name())
    }
}

/// The location of an object in a segment that is not sealed.
#[derive(Debug, Clone)]
pub(in crate::store) struct Location {
    pub(in crate::store) segment: Arc<SegmentFile>,
    pub(in crate::store) stored: StoredRecord,
}

/// Encodes the header of a segment.
pub(in crate::store) fn encode_segment_header(segment: SegmentId, store: StoreId) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&SEGMENT_MAGIC);
    bytes.extend_from_slice(&SEGMENT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&segment.0);
    bytes.extend_from_slice(&store.0);
    let checksum = Checksum::new(SEGMENT_CONTEXT).update(&bytes).finish();
    bytes.extend_from_slice(&checksum);
    bytes
}

/// The type of a record. The codes are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum RecordType {
    /// Objects, and the operation that made them reachable.
    Batch,
    /// The index of the whole segment; nothing follows it.
    Index,
}

/// The header of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Header {
    pub(in crate::store) record: RecordType,
    pub(in crate::store) objects: u32,
    pub(in crate::store) segment: SegmentId,
    /// The number of the record in the segment, from 1, without gaps.
    pub(in crate::store) sequence: u64,
    pub(in crate::store) directory_bytes: u64,
    pub(in crate::store) payload_bytes: u64,
    /// The trailer of the previous record; zeros for the first.
    pub(in crate::store) previous: Digest,
}

impl Header {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(&RECORD_MAGIC);
        let code: u32 = match self.record {
            RecordType::Batch => 1,
            RecordType::Index => 2,
        };
        bytes.extend_from_slice(&code.to_le_bytes());
        bytes.extend_from_slice(&self.objects.to_le_bytes());
        bytes.extend_from_slice(&self.segment.0);
        for word in [self.sequence, self.directory_bytes, self.payload_bytes] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&self.previous);
        let checksum = HEADER_CHECKSUM.clone().update(&bytes).finish();
        bytes.extend_from_slice(&checksum);
        bytes
    }

    /// Decodes and verifies a header of `segment`.
    pub(in crate::store) fn decode(bytes: &[u8], segment: SegmentId) -> Option<Self> {
        let bytes = bytes.first_chunk::<HEADER_BYTES>()?;
        let (content, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
        if !content.starts_with(&RECORD_MAGIC)
            || HEADER_CHECKSUM.clone().update(content).finish() != *checksum
        {
            return None;
        }
        let mut fields = FieldReader(content.get(RECORD_MAGIC.len()..)?);
        let record = match fields.u32()? {
            1 => RecordType::Batch,
            2 => RecordType::Index,
            _ => return None,
        };
        let header = Self {
            record,
            objects: fields.u32()?,
            segment: SegmentId(fields.take()?),
            sequence: fields.u64()?,
            directory_bytes: fields.u64()?,
            payload_bytes: fields.u64()?,
            previous: fields.take()?,
        };
        (header.segment == segment && header.is_consistent()).then_some(header)
    }

    fn is_consistent(&self) -> bool {
        let directory = match self.record {
            RecordType::Batch => directory_bytes(self.objects as usize) as u64,
            RecordType::Index => 0,
        };
        self.directory_bytes == directory
            && (self.objects as usize <= MAX_BATCH_OBJECTS || self.record == RecordType::Index)
            && self.payload_bytes <= MAX_PAYLOAD_BYTES
            // Below the maximum, so that a next sequence exists.
            && (1..u64::MAX).contains(&self.sequence)
    }

    /// Returns the offset of the payload from the start of the record.
    pub(in crate::store) fn payload_offset(&self) -> u64 {
        HEADER_BYTES as u64 + self.directory_bytes
    }

    /// Returns the offset of the trailer from the start of the record. The limits rule out an
    /// overflow.
    pub(in crate::store) fn trailer_offset(&self) -> u64 {
        (self.payload_offset() + self.payload_bytes).next_multiple_of(ALIGNMENT as u64)
    }

    /// Returns the size of the whole record.
    pub(in crate::store) fn record_bytes(&self) -> u64 {
        self.trailer_offset() + CHECKSUM_BYTES as u64
    }
}

/// The location and encoding of an object in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct StoredRecord {
    pub(in crate::store) offset: u64,
    pub(in crate::store) stored_bytes: u32,
    pub(in crate::store) raw_bytes: u32,
    pub(in crate::store) kind: Kind,
    pub(in crate::store) codec: Codec,
}

/// Decodes and verifies the directory of a batch. Returns its objects in payload order.
///
/// `header` are the bytes of the header, which the directory's checksum also covers. `payload` is
/// the offset of the payload in the file.
pub(in crate::store) fn decode_directory(
    header: &[u8],
    directory: &[u8],
    payload: u64,
    payload_bytes: u64,
) -> Option<Vec<(ObjectId, StoredRecord)>> {
    let (entries, checksum) = directory.split_last_chunk::<CHECKSUM_BYTES>()?;
    if directory_checksum(header, entries) != *checksum {
        return None;
    }
    let mut offset = payload;
    let mut objects = Vec::with_capacity(entries.len() / ENTRY_BYTES);
    for entry in entries.chunks(ENTRY_BYTES) {
        let mut fields = FieldReader(entry);
        let id = ObjectId::from_bytes(fields.take::<ID_BYTES>()?);
        let [kind, codec, 0, 0] = fields.take()? else { return None };
        let (kind, codec) = (Kind::from_code(kind)?, Codec::from_code(codec)?);
        let (raw_bytes, stored_bytes) = (fields.u32()?, fields.u32()?);
        if !is_plausible(codec, kind, stored_bytes, raw_bytes) {
            return None;
        }
        objects.push((id, StoredRecord { offset, stored_bytes, raw_bytes, kind, codec }));
        offset += u64::from(stored_bytes);
    }
    (offset - payload == payload_bytes).then_some(objects)
}

/// A record under construction: space for header and directory, then the payload, in one buffer.
#[derive(Debug)]
pub(in crate::store) struct RecordBuilder {
    record: RecordType,
    objects: usize,
    buffer: Vec<u8>,
    head_bytes: usize,
    entries: Vec<(ObjectId, StoredRecord)>,
}

impl RecordBuilder {
    /// Starts a batch of exactly `objects` objects.
    pub(in crate::store) fn batch(objects: usize) -> Self {
        let head_bytes = HEADER_BYTES + directory_bytes(objects);
        let entries = Vec::with_capacity(objects);
        let buffer = vec![0; head_bytes];
        Self { record: RecordType::Batch, objects, buffer, head_bytes, entries }
    }

    /// Starts an index of `objects` objects with this payload.
    pub(in crate::store) fn index(objects: usize, payload: &[u8]) -> Self {
        let mut buffer = vec![0; HEADER_BYTES];
        buffer.extend_from_slice(payload);
        let (head_bytes, entries) = (HEADER_BYTES, Vec::new());
        Self { record: RecordType::Index, objects, buffer, head_bytes, entries }
    }

    /// Encodes an object and adds it.
    pub(in crate::store) fn push(
        &mut self,
        id: ObjectId,
        kind: Kind,
        raw: &[u8],
        encoder: &mut Encoder,
    ) {
        let offset = self.buffer.len();
        let codec = encoder.encode(kind, raw, &mut self.buffer);
        self.push_entry(id, offset, raw.len(), kind, codec);
    }

    /// Adds an object in the encoding of another batch.
    pub(in crate::store) fn push_stored(
        &mut self,
        id: ObjectId,
        stored: &StoredRecord,
        bytes: &[u8],
    ) {
        let offset = self.buffer.len();
        self.buffer.extend_from_slice(bytes);
        self.push_entry(id, offset, stored.raw_bytes as usize, stored.kind, stored.codec);
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "objects are at most 2 GiB, and stored in no more bytes than they have"
    )]
    fn push_entry(&mut self, id: ObjectId, offset: usize, raw: usize, kind: Kind, codec: Codec) {
        let stored_bytes = (self.buffer.len() - offset) as u32;
        let (offset, raw_bytes) = (offset as u64, raw as u32);
        self.entries.push((id, StoredRecord { offset, stored_bytes, raw_bytes, kind, codec }));
    }

    /// Returns true if the record was started for no objects.
    pub(in crate::store) fn is_empty(&self) -> bool {
        self.objects == 0
    }

    /// Finishes the record for `offset` of `segment`, with the final locations of its objects.
    pub(in crate::store) fn finish(
        mut self,
        segment: SegmentId,
        sequence: u64,
        previous: Digest,
        offset: u64,
    ) -> Record {
        let header = Header {
            record: self.record,
            objects: u32::try_from(self.objects).unwrap_or(u32::MAX),
            segment,
            sequence,
            directory_bytes: (self.head_bytes - HEADER_BYTES) as u64,
            payload_bytes: (self.buffer.len() - self.head_bytes) as u64,
            previous,
        };
        let mut head = header.encode();
        if self.record == RecordType::Batch {
            let directory = encode_directory(&self.entries);
            let checksum = directory_checksum(&head, &directory);
            head.extend_from_slice(&directory);
            head.extend_from_slice(&checksum);
        }
        debug_assert_eq!(head.len(), self.head_bytes, "the announced number of objects");
        for (room, byte) in self.buffer.iter_mut().zip(&head) {
            *room = *byte;
        }
        self.buffer.resize(self.buffer.len().next_multiple_of(ALIGNMENT), 0);
        let trailer = TRAILER_CHECKSUM.clone().update(&self.buffer).finish();
        self.buffer.extend_from_slice(&trailer);
        for (_, stored) in &mut self.entries {
            stored.offset += offset;
        }
        Record { bytes: self.buffer, entries: self.entries, sequence, trailer }
    }
}

/// A finished record.
#[derive(Debug)]
pub(in crate::store) struct Record {
    pub(in crate::store) bytes: Vec<u8>,
    pub(in crate::store) entries: Vec<(ObjectId, StoredRecord)>,
    pub(in crate::store) sequence: u64,
    pub(in crate::store) trailer: Digest,
}

/// Returns the hasher of a trailer, to be updated with all previous bytes of the record.
pub(in crate::store) fn trailer_checksum() -> Checksum {
    TRAILER_CHECKSUM.clone()
}

/// Reads fixed-width little-endian fields off the front of a slice.
pub(in crate::store) struct FieldReader<'a>(pub(in crate::store) &'a [u8]);

impl FieldReader<'_> {
    pub(in crate::store) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    pub(in crate::store) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(in crate::store) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

fn directory_bytes(objects: usize) -> usize {
    objects * ENTRY_BYTES + CHECKSUM_BYTES
}

fn encode_directory(entries: &[(ObjectId, StoredRecord)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * ENTRY_BYTES);
    for (id, stored) in entries {
        bytes.extend_from_slice(id.as_bytes());
        bytes.extend_from_slice(&[stored.kind.code(), stored.codec.code(), 0, 0]);
        bytes.extend_from_slice(&stored.raw_bytes.to_le_bytes());
        bytes.extend_from_slice(&stored.stored_bytes.to_le_bytes());
    }
    bytes
}

fn directory_checksum(header: &[u8], entries: &[u8]) -> Digest {
    DIRECTORY_CHECKSUM.clone().update(header).update(entries).finish()
}
