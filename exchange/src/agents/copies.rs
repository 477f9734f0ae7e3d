//! Measures how many of the agents' records are copies: records that are in several files, except
//! for values that a client rewrites in each copy.
//!
//! Forks and sub-agents of some clients begin with the whole history of their parent, with other
//! times and other ids of the session. Such records are found by a hash of each line without these
//! values.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::io::{BufRead, BufReader};

use memchr::{memchr, memchr2};
use serde_json::Value;
use turntree::error::{Error, Result};
use turntree::workspace::open_regular;

use super::beside::working_directory;
use super::find::has_own_file;
use super::found::FoundSession;
use crate::text::unpack::{HEAD_BYTES, decompress};
use crate::text::zstd::PackedSize;

/// Keys of a record whose values depend on the file and not on the conversation.
const VOLATILE: [&[u8]; 5] =
    [b"timestamp", b"sessionId", b"session_id", b"requestSessionId", b"version"];

/// Longest of these, in bytes.
const MAX_KEY: usize = 16;

/// Most records that are remembered, some 150 MB of memory. With more records only every second is
/// remembered, then every fourth, and so on, and each represents as many.
const MAX_RECORDS: usize = 7 << 20;

/// Shorter records are no sign of a copy.
const MIN_RECORD: usize = 64;

/// The beginning of a record that is compressed for the estimate; the rest is assumed to compress
/// like it.
const MAX_COMPRESSED: usize = 1 << 20;

/// Size of new text in a compacted store, in percent of its size under zstd: ids, trees and commits
/// are a third of the store of recorded sessions.
const STORED_PERCENT: u64 = 160;

/// A copied record takes one part in so many of its bytes.
const COPY_PARTS: u64 = 64;

/// Stored size of a session that was not read: one part in so many of its bytes.
const UNREAD_PARTS: u64 = 4;

/// The paths of `cwd` in the records of the formats.
const DIRECTORIES: [&str; 4] = ["/cwd", "/payload/cwd", "/context/cwd", "/data/context/cwd"];

/// The measurements of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionCopies {
    /// The working directory; `None` if the first records do not name it.
    pub directory: Option<String>,
    /// Bytes of records that another file had already, with their line ends.
    pub copied_bytes: u64,
    /// Estimated size of the session in a packed store.
    pub stored_bytes: u64,
}

/// The records of files that were measured.
///
/// Memory: up to 150 MB, twice that while it grows, and 40 MB to compress.
pub struct Copies {
    /// The first file of each record.
    seen: HashMap<u64, u32>,
    /// Records whose hash ends in fewer zeros are skipped.
    zeros: u32,
    most: usize,
    files: u32,
    packed: PackedSize,
}

impl Copies {
    /// Begins with no file.
    ///
    /// # Errors
    /// `Io` when zstd cannot be started.
    pub fn new() -> Result<Self> {
        Self::of_at_most(MAX_RECORDS)
    }

    fn of_at_most(most: usize) -> Result<Self> {
        let packed = PackedSize::new().map_err(|error| Error::io("start to compress", error))?;
        Ok(Self { seen: HashMap::new(), zeros: 0, most, files: 0, packed })
    }

    /// Reads the file of a session, and measures how much of it earlier files had. `passed`
    /// receives the number of bytes read. A session without a file of its own is not read.
    ///
    /// Cost: reads all bytes of the file, parses each record up to its keys, and compresses the
    /// records that are not copies; some 200 MB/s.
    ///
    /// # Errors
    /// `Io` when the file cannot be read, `InvalidInput` when it is compressed and damaged.
    pub fn measure(&mut self, found: &FoundSession, passed: &dyn Fn(u64)) -> Result<SessionCopies> {
        if !has_own_file(found) {
            passed(found.bytes);
            let stored_bytes = found.bytes / UNREAD_PARTS;
            return Ok(SessionCopies { stored_bytes, ..SessionCopies::default() });
        }
        let file = open_regular(&found.path).map_err(|error| Error::io("open it", error))?;
        let input = BufReader::with_capacity(HEAD_BYTES, file);
        let (head, mut rest) = decompress(Box::new(input))?;
        let directory = working_directory(&found.path).or_else(|| directory_in(&head));
        let is_records = found.format.records().is_ok();
        self.files = self.files.saturating_add(1);
        let mut reading = Reading { record: Record::default(), sums: Sums::default() };
        reading.take(self, &head, is_records)?;
        passed(head.len() as u64);
        loop {
            let bytes = rest.fill_buf().map_err(|error| Error::io("read it", error))?;
            if bytes.is_empty() {
                break;
            }
            reading.take(self, bytes, is_records)?;
            let read = bytes.len();
            rest.consume(read);
            passed(read as u64);
        }
        reading.end(self, is_records)?;
        let Sums { copied, new, compressed } = reading.sums;
        let packed = self.packed.take().map_err(failed)?;
        // The rest is estimated to compress as well as the sample.
        let packed = u128::from(packed) * u128::from(new) / u128::from(compressed.max(1));
        let stored = u64::try_from(packed * u128::from(STORED_PERCENT) / 100).unwrap_or(u64::MAX);
        let stored_bytes = stored.saturating_add(copied / COPY_PARTS);
        Ok(SessionCopies { directory, copied_bytes: copied, stored_bytes })
    }

    /// Returns how many records this one represents, and whether an earlier file had it; `None` for
    /// a record that is not sampled.
    fn meet(&mut self, hash: u64) -> Option<(u64, bool)> {
        if hash.trailing_zeros() < self.zeros {
            return None;
        }
        let of = 1_u64.checked_shl(self.zeros).unwrap_or(u64::MAX);
        let first = *self.seen.entry(hash).or_insert(self.files);
        if self.seen.len() > self.most {
            self.zeros += 1;
            let zeros = self.zeros;
            self.seen.retain(|hash, _| hash.trailing_zeros() >= zeros);
        }
        Some((of, first != self.files))
    }
}

impl std::fmt::Debug for Copies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copies").field("records", &self.seen.len()).finish_non_exhaustive()
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::io("compress it", error)
}

/// The directory that the first records of a file name.
fn directory_in(head: &[u8]) -> Option<String> {
    head.split(|byte| *byte == b'\n').find_map(|line| {
        let record: Value = serde_json::from_slice(line).ok()?;
        let named = DIRECTORIES.iter().find_map(|at| record.pointer(at)?.as_str());
        named.map(str::to_owned)
    })
}

/// A file that is read.
struct Reading {
    record: Record,
    sums: Sums,
}

/// Bytes of a file.
#[derive(Default)]
struct Sums {
    copied: u64,
    new: u64,
    /// What of the new ones was compressed.
    compressed: u64,
}

impl Reading {
    /// Takes the next bytes of the file.
    fn take(&mut self, copies: &mut Copies, mut bytes: &[u8], is_records: bool) -> Result<()> {
        while let Some((line, rest)) =
            memchr(b'\n', bytes).and_then(|at| bytes.split_at_checked(at + 1))
        {
            self.record.take(line);
            self.end(copies, is_records)?;
            bytes = rest;
        }
        self.record.take(bytes);
        Ok(())
    }

    /// The record ends here.
    fn end(&mut self, copies: &mut Copies, is_records: bool) -> Result<()> {
        let Record { bytes, hash, begin, .. } = std::mem::take(&mut self.record);
        if bytes == 0 {
            return Ok(());
        }
        let is_told = is_records && bytes >= MIN_RECORD as u64;
        match if is_told { copies.meet(hash.finish()) } else { Some((1, false)) } {
            None => {}
            Some((of, true)) => self.sums.copied += bytes.saturating_mul(of),
            Some((of, false)) => {
                copies.packed.add(&begin).map_err(failed)?;
                self.sums.new += bytes.saturating_mul(of);
                self.sums.compressed += begin.len() as u64;
            }
        }
        // Its memory is for the next one.
        self.record.begin = begin;
        self.record.begin.clear();
        Ok(())
    }
}

/// A record, as far as it was read: JSON or not, only its beginning is kept.
#[derive(Default)]
struct Record {
    bytes: u64,
    begin: Vec<u8>,
    /// Of everything but the values of volatile keys.
    hash: DefaultHasher,
    depth: u32,
    place: Place,
    /// The current key at depth 1, or the key of the current value.
    key: Vec<u8>,
    is_passed_over: bool,
}

/// The state of the scanner at the next byte.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    #[default]
    Value,
    /// At depth 1, where a key may begin.
    BeforeKey,
    Key,
    Text,
    /// Behind a backslash in a text.
    Escaped,
}

impl Record {
    fn take(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let room = MAX_COMPRESSED.saturating_sub(self.begin.len());
        self.begin.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        let mut rest = bytes;
        while !rest.is_empty() {
            let was_passed_over = self.is_passed_over;
            let (part, behind) = rest.split_at(self.step(rest).clamp(1, rest.len()));
            // The comma after a skipped value is hashed again.
            if !(was_passed_over && self.is_passed_over) {
                self.hash.write(part);
            }
            rest = behind;
        }
    }

    /// Goes on to the next place; returns how many bytes belong to this one.
    fn step(&mut self, bytes: &[u8]) -> usize {
        let first = bytes.first().copied().unwrap_or_default();
        match self.place {
            Place::Escaped => {
                self.place = Place::Text;
                1
            }
            Place::Text => match memchr2(b'"', b'\\', bytes) {
                None => bytes.len(),
                Some(0) => {
                    self.place = if first == b'"' { Place::Value } else { Place::Escaped };
                    1
                }
                Some(at) => at,
            },
            Place::Key => match memchr(b'"', bytes) {
                Some(0) => {
                    self.place = Place::Value;
                    self.is_passed_over = VOLATILE.contains(&self.key.as_slice());
                    1
                }
                at => {
                    let part = bytes.get(..at.unwrap_or(bytes.len())).unwrap_or_default();
                    let room = MAX_KEY.saturating_add(1).saturating_sub(self.key.len());
                    self.key.extend_from_slice(part.get(..room.min(part.len())).unwrap_or(part));
                    part.len()
                }
            },
            Place::Value | Place::BeforeKey => {
                match first {
                    b'"' if self.place == Place::BeforeKey => {
                        self.key.clear();
                        self.place = Place::Key;
                    }
                    b'"' => self.place = Place::Text,
                    b'{' | b'[' => {
                        self.depth = self.depth.saturating_add(1);
                        let is_record = self.depth == 1 && first == b'{';
                        self.place = if is_record { Place::BeforeKey } else { Place::Value };
                    }
                    b'}' | b']' => {
                        self.depth = self.depth.saturating_sub(1);
                        self.is_passed_over &= self.depth > 0;
                    }
                    b',' if self.depth == 1 => {
                        self.is_passed_over = false;
                        self.place = Place::BeforeKey;
                    }
                    _ => {}
                }
                1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::agents::find;
    use crate::agents::places::SessionPlace;

    fn hash(text: &str, part: usize) -> u64 {
        let mut record = Record::default();
        text.as_bytes().chunks(part).for_each(|part| record.take(part));
        record.hash.finish()
    }

    #[test]
    fn a_record_is_the_same_with_other_values_of_its_file() {
        let record = |time: &str, id: &str, said: &str| {
            format!(
                r#"{{"timestamp":"{time}","sessionId": {id},"message":{{"timestamp":"a","x":["{said}"]}},"version":"{time}"}}"#
            )
        };
        let first = record("2026-01-01", r#""a\"},b""#, "hello \\\" {");
        for part in [1, 2, 7, 1000] {
            let same = record("2027", r#"{"a":[1,2],"b":","}"#, "hello \\\" {");
            assert_eq!(hash(&first, 1000), hash(&same, part), "{part}");
            let other = record("2026-01-01", r#""a\"},b""#, "hello \\\" [");
            assert_ne!(hash(&first, 1000), hash(&other, part), "{part}");
        }
        // A volatile key below the top of a record is not left out.
        assert_ne!(
            hash(&first, 1000),
            hash(&first.replace(r#""timestamp":"a""#, r#""timestamp":"b""#), 9)
        );
        assert_ne!(hash(r#"{"timestamps":1}"#, 99), hash(r#"{"timestamps":2}"#, 99));
        assert_eq!(hash("not { json \"", 3), hash("not { json \"", 99));
    }

    fn transcript(session: &str, prompts: std::ops::Range<u32>) -> String {
        let line = |number: u32| {
            let id = number.wrapping_mul(2_654_435_761);
            format!(
                r#"{{"type":"user","uuid":"u{id}","parentUuid":null,"sessionId":"{session}","cwd":"/p","timestamp":"2026-01-01T00:00:00Z","message":{{"role":"user","content":"prompt {id}"}}}}"#
            ) + "\n"
        };
        prompts.map(line).collect()
    }

    /// Returns the copied and all bytes of the files in `folder`, with a memory for so many
    /// records.
    fn measured(folder: &Path, most: usize) -> (u64, u64, u64) {
        let place = SessionPlace { agent: String::new(), path: folder.to_owned() };
        let mut copies = Copies::of_at_most(most).unwrap();
        let mut sums = (0, 0, 0);
        for found in find(&[place]).sessions {
            let of = copies.measure(&found, &|_| {}).unwrap();
            assert_eq!(of.directory.as_deref(), Some("/p"));
            sums = (sums.0 + of.copied_bytes, sums.1 + found.bytes, sums.2 + of.stored_bytes);
        }
        sums
    }

    #[test]
    fn records_of_another_file_are_copies_and_repeated_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| {
            fs::write(folder.path().join(format!("{name}.jsonl")), text).unwrap();
        };
        let text = transcript("a", 0..200);
        write("a", format!("{text}{text}"));
        let (copied, all, alone) = measured(folder.path(), MAX_RECORDS);
        assert_eq!((copied, all), (0, 2 * text.len() as u64));
        write("b", transcript("b", 0..250));
        let (copied, _, both) = measured(folder.path(), MAX_RECORDS);
        assert_eq!(copied, text.len() as u64);
        assert!(alone > 0 && both > alone && both < 2 * alone, "{alone} {both}");
    }

    #[test]
    fn of_more_records_than_are_remembered_some_stand_for_all() {
        let folder = tempfile::tempdir().unwrap();
        for session in ["a", "b"] {
            let text = transcript(session, 0..4000);
            fs::write(folder.path().join(format!("{session}.jsonl")), text).unwrap();
        }
        let (copied, all, _) = measured(folder.path(), 1000);
        let percent = copied * 100 / all;
        assert!((40..60).contains(&percent), "{percent}");
    }
}
