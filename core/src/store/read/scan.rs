//! Reads the records of one segment, from the end of the previous scan.
//!
//! Only directories are read. Payloads are skipped, since every object is verified against its id
//! when it is read. The next batch attests that a batch is whole: it repeats the trailer of the
//! batch, and was written after that batch had been synced. The last batch has no successor, so its
//! trailer is verified. After it, there may be a mark of its owner that it is synced.
//!
//! | what follows the last good record | means | is |
//! |---|---|---|
//! | zeros to the end, or the mark and zeros | a clean end | the place of the next batch |
//! | anything else, and no good record in it | a torn batch, never acknowledged | ignored |
//! | anything else, then a good record | damage | a finding; reading continues after it |

use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId, Operation, verify};
use crate::store::format::codec;
use crate::store::format::segment::{
    ALIGNMENT, CHECKSUM_BYTES, Digest, HEADER_BYTES, Header, NEW_SEGMENT_BYTES, RECORD_MAGIC,
    RecordType, SEGMENT_HEADER_BYTES, SYNCED_MARK, SegmentFile, StoredRecord, decode_directory,
    trailer_checksum,
};
use crate::store::{Finding, FindingKind, Location};

/// Bytes per read when only records are read: more than most directories, and still cheap.
const WINDOW_BYTES: usize = 2 << 10;
/// Bytes per read when a segment is searched.
const SEARCH_BYTES: usize = 64 << 10;
/// The bytes of a clean end.
static ZEROS: [u8; SEARCH_BYTES] = [0; SEARCH_BYTES];

/// The position up to which a segment was read.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct Tail {
    /// The offset of the next record.
    pub(in crate::store) offset: u64,
    /// The sequence of the last good record; 0 when there is none.
    pub(in crate::store) sequence: u64,
    /// The offset of the last good record.
    pub(in crate::store) last: u64,
    /// The trailer of the last good record.
    pub(in crate::store) trailer: Digest,
    /// True if the mark follows it: the record is durable, and so is everything before it.
    pub(in crate::store) marked: bool,
    /// The classification of the bytes after the last good record.
    pub(in crate::store) end: SegmentEnd,
    /// True if something before it is damaged. Such a segment is not appended to: records after
    /// damage are found by searching, and must stay where the search found them.
    pub(in crate::store) damaged: bool,
}

/// The end of a segment, after the last good record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum SegmentEnd {
    /// Not scanned.
    Unknown,
    /// Zeros to the end of the file, or no bytes; a mark may precede them.
    Clean,
    /// Bytes that are not a valid record.
    Torn,
    /// The last record is the index; nothing follows it.
    Index,
}

impl Default for Tail {
    fn default() -> Self {
        let (offset, trailer) = (SEGMENT_HEADER_BYTES as u64, [0; CHECKSUM_BYTES]);
        let (sequence, marked, end, damaged) = (0, false, SegmentEnd::Unknown, false);
        Self { offset, sequence, last: offset, trailer, marked, end, damaged }
    }
}

/// The depth of a scan after the last good record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum ScanDepth {
    /// Only up to the next record: reads records that other processes have appended.
    Next,
    /// Everything, to distinguish a clean end, a torn batch and damage.
    Whole,
    /// Everything, and every byte of every record.
    Bytes,
}

/// The result of a scan.
#[derive(Debug, Default)]
pub(in crate::store) struct ScanFindings {
    pub(in crate::store) objects: Vec<(ObjectId, Location)>,
    pub(in crate::store) operations: Vec<FoundOperation>,
    pub(in crate::store) findings: Vec<Finding>,
}

/// An operation, and the batch it is in.
#[derive(Debug)]
pub(in crate::store) struct FoundOperation {
    pub(in crate::store) id: ObjectId,
    pub(in crate::store) operation: Operation,
    pub(in crate::store) segment: Arc<SegmentFile>,
    /// The sequence of its batch in the segment.
    pub(in crate::store) batch: u64,
}

/// Continues to read at `tail`, and moves it to the end of the last good record.
pub(in crate::store) fn scan(
    segment: &Arc<SegmentFile>,
    tail: &mut Tail,
    depth: ScanDepth,
    found: &mut ScanFindings,
) -> Result<()> {
    SegmentScan { segment, window: Window::new(segment), tail, found, last: None, depth }.run()
}

/// Returns the objects of the batch at `offset`, which must be whole, with their stored bytes.
pub(in crate::store) fn read_batch(
    segment: &Arc<SegmentFile>,
    offset: u64,
) -> Result<Vec<(ObjectId, StoredRecord, Bytes)>> {
    let mut window = Window::new(segment);
    let damaged = || Error::malformed(segment.place(offset), "a whole batch");
    let ScanStep::Record(batch) = read_record(segment, &mut window, offset, 0)? else {
        return Err(damaged());
    };
    if !trailer_verifies(&mut window, &batch)? {
        return Err(damaged());
    }
    let objects = batch.objects.into_iter().map(|(id, stored)| {
        let bytes = window.slice(stored.offset, stored.stored_bytes as usize)?;
        Ok((id, stored, Bytes::copy_from_slice(bytes.ok_or_else(damaged)?)))
    });
    objects.collect()
}

/// Returns the objects of the batch after the last good record, even if its trailer does not
/// verify; an empty list if there is no such batch.
pub(in crate::store) fn torn_batch(
    segment: &Arc<SegmentFile>,
    tail: &Tail,
) -> Result<Vec<(ObjectId, Location)>> {
    let mut window = Window::new(segment);
    let ScanStep::Record(batch) = read_record(segment, &mut window, tail.offset, tail.sequence)?
    else {
        return Ok(Vec::new());
    };
    let located = |(id, stored)| (id, Location { segment: Arc::clone(segment), stored });
    Ok(batch.objects.into_iter().map(located).collect())
}

struct SegmentScan<'a> {
    segment: &'a Arc<SegmentFile>,
    window: Window<'a>,
    tail: &'a mut Tail,
    found: &'a mut ScanFindings,
    /// The last record read. No later record attests it yet.
    last: Option<Record>,
    depth: ScanDepth,
}

impl SegmentScan<'_> {
    fn run(mut self) -> Result<()> {
        let mut suspect = None;
        let mut damaged = false;
        self.tail.end = SegmentEnd::Unknown;
        loop {
            let (at, sequence) = self.next();
            match read_record(self.segment, &mut self.window, at, sequence)? {
                ScanStep::Record(record) => {
                    self.follow(record, damaged)?;
                    damaged = false;
                }
                ScanStep::Nothing { search_from } => {
                    let marked = sequence > 0 && self.is_marked(at)?;
                    if self.depth == ScanDepth::Next {
                        return self.finish(SegmentEnd::Unknown, marked);
                    }
                    let from = if marked { at + SYNCED_MARK.len() as u64 } else { search_from };
                    match self.search(from, sequence)? {
                        Search::Record(_) if suspect != Some(at) => {
                            // Its owner may have written both records since the first was read.
                            // Then rereading finds the first one too.
                            suspect = Some(at);
                            self.window.forget();
                        }
                        Search::Record(next) => {
                            self.report_damage(at, next);
                            self.verify_last()?;
                            self.accept_last();
                            self.tail.offset = next;
                            damaged = true;
                        }
                        Search::Zeros if marked || search_from == at => {
                            return self.finish(SegmentEnd::Clean, marked);
                        }
                        Search::Zeros | Search::Rubbish => {
                            return self.finish(SegmentEnd::Torn, marked);
                        }
                    }
                }
            }
        }
    }

    /// Returns true if the mark is at `at`.
    fn is_marked(&mut self, at: u64) -> Result<bool> {
        Ok(self.window.slice(at, SYNCED_MARK.len())? == Some(SYNCED_MARK.as_slice()))
    }

    /// Returns the offset of the next record, and the sequence of the one before.
    fn next(&self) -> (u64, u64) {
        match &self.last {
            Some(record) => (record.end(), record.header.sequence),
            None => (self.tail.offset, self.tail.sequence),
        }
    }

    /// Adds a record, which attests the previous one.
    fn follow(&mut self, record: Record, after_damage: bool) -> Result<()> {
        let (trailer, sequence) = match &self.last {
            Some(last) => (last.trailer, last.header.sequence),
            None => (self.tail.trailer, self.tail.sequence),
        };
        let linked = record.header.previous == trailer && record.header.sequence == sequence + 1;
        if !linked && !after_damage {
            self.report_damage(self.tail.last, record.offset);
        }
        self.verify_last()?;
        self.accept_last();
        self.last = Some(record);
        Ok(())
    }

    /// Verifies every byte of the last record, if the depth requires it.
    fn verify_last(&mut self) -> Result<()> {
        if self.depth == ScanDepth::Bytes
            && let Some(record) = &self.last
            && !trailer_verifies(&mut self.window, record)?
        {
            let (from, to) = (record.offset, record.end());
            let message = format!("bytes of the batch up to {to} have changed");
            self.report(from, message);
        }
        Ok(())
    }

    fn accept_last(&mut self) {
        let Some(record) = self.last.take() else { return };
        let end = record.end();
        let Record { offset, header, objects, operations, trailer } = record;
        *self.tail = Tail {
            offset: end,
            sequence: header.sequence,
            last: offset,
            trailer,
            marked: false,
            end: if header.record == RecordType::Index {
                SegmentEnd::Index
            } else {
                SegmentEnd::Unknown
            },
            damaged: self.tail.damaged,
        };
        let segment = self.segment;
        self.found.objects.extend(
            objects
                .into_iter()
                .map(|(id, stored)| (id, Location { segment: Arc::clone(segment), stored })),
        );
        self.found.operations.extend(operations.into_iter().map(|(id, operation)| {
            let batch = header.sequence;
            FoundOperation { id, operation, segment: Arc::clone(segment), batch }
        }));
    }

    /// Ends the scan. Accepts the last record if its trailer verifies.
    fn finish(mut self, end: SegmentEnd, marked: bool) -> Result<()> {
        let mut torn = self.torn_record()?;
        if torn.is_some() && marked {
            // The record was whole before the mark was written, so the buffered bytes are outdated.
            self.window.forget();
            torn = self.torn_record()?;
        }
        if torn.is_none() {
            self.accept_last();
            // A durable record stays durable, also when a record overwrites the mark.
            self.tail.marked |= marked;
            if self.tail.end != SegmentEnd::Index {
                self.tail.end = end;
                self.check_length()?;
            }
        } else if end != SegmentEnd::Unknown {
            self.tail.end = SegmentEnd::Torn;
        }
        if let Some(at) = torn.filter(|_| marked && self.tail.end == SegmentEnd::Torn) {
            self.report(at, "the last batch has changed since it was durable".into());
        } else if self.tail.end == SegmentEnd::Torn {
            let place = self.segment.place(torn.unwrap_or(self.tail.offset));
            let message = "an unacknowledged batch is incomplete; it is ignored";
            self.found.findings.push(Finding {
                kind: FindingKind::TornTail,
                place,
                message: message.into(),
            });
        }
        Ok(())
    }

    /// Returns the offset of the last record, if its trailer does not verify.
    fn torn_record(&mut self) -> Result<Option<u64>> {
        Ok(match &self.last {
            Some(record) if !trailer_verifies(&mut self.window, record)? => Some(record.offset),
            _ => None,
        })
    }

    /// Reports a file that is shorter than any segment with a record can be: the cut may be exactly
    /// at the end of a record.
    fn check_length(&mut self) -> Result<()> {
        if self.depth != ScanDepth::Next && self.tail.sequence > 0 {
            let size = self.window.size()?;
            if size < NEW_SEGMENT_BYTES as u64 {
                let message = format!("cut here: a segment has at least {NEW_SEGMENT_BYTES} bytes");
                self.report(size, message);
            }
        }
        Ok(())
    }

    fn report_damage(&mut self, from: u64, next: u64) {
        self.report(from, format!("damaged up to {next}, where a good record follows"));
    }

    fn report(&mut self, from: u64, message: String) {
        self.tail.damaged = true;
        self.found.findings.push(Finding {
            kind: FindingKind::Damage,
            place: self.segment.place(from),
            message,
        });
    }

    /// Searches for a good record of this segment from `from`.
    fn search(&mut self, from: u64, sequence: u64) -> Result<Search> {
        let mut at = from;
        let mut rubbish = false;
        loop {
            let Some(bytes) = self.window.read_up_to(at, SEARCH_BYTES)? else {
                return Ok(if rubbish { Search::Rubbish } else { Search::Zeros });
            };
            // A partial word at the end of the file holds no record. Zeros that were cut there do
            // not decipher to zeros.
            let words = bytes.len() - bytes.len() % ALIGNMENT;
            rubbish |= !bytes.get(..words).is_some_and(|words| ZEROS.starts_with(words));
            let len = bytes.len() as u64;
            let candidates: Vec<u64> = if rubbish {
                let places = (at..).step_by(ALIGNMENT).zip(bytes.chunks(ALIGNMENT));
                places.filter(|(_, word)| **word == RECORD_MAGIC).map(|(place, _)| place).collect()
            } else {
                Vec::new()
            };
            for candidate in candidates {
                if let ScanStep::Record(record) =
                    read_record(self.segment, &mut self.window, candidate, sequence)?
                    && trailer_verifies(&mut self.window, &record)?
                {
                    return Ok(Search::Record(candidate));
                }
            }
            at += len;
        }
    }
}

/// The classification of the bytes after the last good record.
enum Search {
    Record(u64),
    Zeros,
    Rubbish,
}

/// A record whose header and directory verify.
#[derive(Debug)]
struct Record {
    offset: u64,
    header: Header,
    objects: Vec<(ObjectId, StoredRecord)>,
    operations: Vec<(ObjectId, Operation)>,
    trailer: Digest,
}

impl Record {
    fn end(&self) -> u64 {
        self.offset + self.header.record_bytes()
    }
}

enum ScanStep {
    Record(Record),
    /// No good record; the next one can only be at or after this offset.
    Nothing {
        search_from: u64,
    },
}

/// Reads the record at `offset`, if it is good and its sequence is above `after`.
fn read_record(
    segment: &SegmentFile,
    window: &mut Window<'_>,
    offset: u64,
    after: u64,
) -> Result<ScanStep> {
    let head = window.slice(offset, HEADER_BYTES)?.and_then(|head| head.first_chunk().copied());
    let Some(head): Option<[u8; HEADER_BYTES]> = head else {
        return Ok(ScanStep::Nothing { search_from: offset });
    };
    let Some(header) = Header::decode(&head, segment.id).filter(|h| h.sequence > after) else {
        // Zeros here may have records after them; other bytes are searched only once.
        return Ok(ScanStep::Nothing { search_from: offset });
    };
    let end = offset + header.record_bytes();
    if end > window.size()? {
        return Ok(ScanStep::Nothing { search_from: offset + ALIGNMENT as u64 });
    }
    // The length is known from here on, so the payload is not searched for records.
    let beyond = ScanStep::Nothing { search_from: end };
    let mut objects = Vec::new();
    if header.record == RecordType::Batch {
        let len = usize::try_from(header.directory_bytes).unwrap_or(usize::MAX);
        let Some(directory) = window.slice(offset + HEADER_BYTES as u64, len)? else {
            return Ok(beyond);
        };
        let payload = offset + header.payload_offset();
        let decoded = decode_directory(&head, directory, payload, header.payload_bytes);
        let Some(decoded) = decoded else { return Ok(beyond) };
        objects = decoded;
    }
    let Some(operations) = read_operations(window, &objects)? else { return Ok(beyond) };
    let at = offset + header.trailer_offset();
    let trailer = window.slice(at, CHECKSUM_BYTES)?.and_then(|bytes| bytes.try_into().ok());
    let Some(trailer) = trailer else { return Ok(beyond) };
    Ok(ScanStep::Record(Record { offset, header, objects, operations, trailer }))
}

/// Reads the operations among `objects`; returns `None` if one of them does not verify.
fn read_operations(
    window: &mut Window<'_>,
    objects: &[(ObjectId, StoredRecord)],
) -> Result<Option<Vec<(ObjectId, Operation)>>> {
    let mut operations = Vec::new();
    for (id, stored) in objects.iter().filter(|(_, stored)| stored.kind == Kind::Operation) {
        let Some(bytes) = window.slice(stored.offset, stored.stored_bytes as usize)? else {
            return Ok(None);
        };
        let bytes = Bytes::copy_from_slice(bytes);
        let operation = codec::decode(stored.codec, bytes, stored.raw_bytes)
            .ok()
            .filter(|bytes| verify(Kind::Operation, bytes, id).is_ok())
            .and_then(|bytes| Operation::decode(&bytes).ok());
        match operation {
            Some(operation) => operations.push((*id, operation)),
            None => return Ok(None),
        }
    }
    Ok(Some(operations))
}

fn trailer_verifies(window: &mut Window<'_>, record: &Record) -> Result<bool> {
    let mut checksum = trailer_checksum();
    let mut at = record.offset;
    let end = record.offset + record.header.trailer_offset();
    while at < end {
        let want = usize::try_from(end - at).unwrap_or(usize::MAX).min(SEARCH_BYTES);
        let Some(bytes) = window.slice(at, want)? else { return Ok(false) };
        checksum.update(bytes);
        at += want as u64;
    }
    Ok(checksum.finish() == record.trailer)
}

/// Reads a file in pieces and buffers the last one.
struct Window<'a> {
    segment: &'a SegmentFile,
    offset: u64,
    buffer: Vec<u8>,
    /// Bytes at the beginning of the buffer that were read from the file.
    filled: usize,
    size: Option<u64>,
}

impl<'a> Window<'a> {
    fn new(segment: &'a SegmentFile) -> Self {
        Self { segment, offset: 0, buffer: Vec::new(), filled: 0, size: None }
    }

    fn forget(&mut self) {
        self.filled = 0;
        self.size = None;
    }

    /// Returns the size of the file.
    fn size(&mut self) -> Result<u64> {
        if let Some(size) = self.size {
            return Ok(size);
        }
        let size = self.segment.file.size().map_err(|source| self.failed(0, source))?;
        self.size = Some(size);
        Ok(size)
    }

    /// Returns `len` bytes at `offset`, or `None` if the file is shorter.
    fn slice(&mut self, offset: u64, len: usize) -> Result<Option<&[u8]>> {
        if self.buffered(offset, len).is_none() {
            // Never allocate more than the file has, whatever length a record declares.
            if len > WINDOW_BYTES && offset.saturating_add(len as u64) > self.size()? {
                return Ok(None);
            }
            self.fill(offset, len.max(WINDOW_BYTES))?;
        }
        Ok(self.buffered(offset, len))
    }

    /// Returns up to `len` bytes at `offset`, or `None` at the end of the file.
    fn read_up_to(&mut self, offset: u64, len: usize) -> Result<Option<&[u8]>> {
        self.fill(offset, len)?;
        Ok(self.buffer.get(..self.filled).filter(|bytes| !bytes.is_empty()))
    }

    fn buffered(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        self.buffer.get(..self.filled)?.get(start..start.checked_add(len)?)
    }

    fn fill(&mut self, offset: u64, len: usize) -> Result<()> {
        if self.buffer.len() < len {
            self.buffer = vec![0; len];
        }
        (self.offset, self.filled) = (offset, 0);
        let room = self.buffer.get_mut(..len).unwrap_or_default();
        let read = self.segment.file.read_at(room, offset);
        self.filled = read.map_err(|source| self.failed(offset, source))?;
        Ok(())
    }

    fn failed(&self, offset: u64, source: std::io::Error) -> Error {
        Error::io(format!("read {}", self.segment.place(offset)), source)
    }
}
