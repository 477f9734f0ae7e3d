//! Measures: the length, voice, age and session of each document, for ranking. A row holds many of
//! them, so that a search over many documents reads few rows.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

use rusqlite::{Connection, OptionalExtension, params};

use super::{IndexError, IndexResult};
use crate::search::voice::Voice;

/// Documents per row.
const MEASURES_PER_ROW: usize = 1024;

/// Size of a measure in bytes: three little-endian numbers.
const MEASURE_BYTES: usize = 12;
const MEASURE_STRIDE: i64 = 12;

/// The bits of the first number that hold the words. The voice is in the rest.
const WORD_BITS: u32 = 28;
const MAX_WORDS: u32 = (1 << WORD_BITS) - 1;

/// The length, voice, age and session of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measure {
    /// The number of words. 0 for a dropped document.
    pub(super) words: u32,
    /// The voice of its text.
    pub(super) voice: Voice,
    /// An upper bound of the time of the oldest turn that added the document, in seconds since
    /// 1970, rounded up. `u32::MAX` if unknown.
    pub(super) second: u32,
    /// The number of the session of that turn among the names. `u32::MAX` if unknown.
    pub(super) session: u32,
}

/// The measures of all documents, indexed by document number. Rows are read on demand.
#[derive(Debug)]
pub(super) struct Measures<'c> {
    connection: &'c Connection,
    rows: Vec<Option<Vec<u8>>>,
    changed: BTreeSet<usize>,
    len: u32,
    /// The unwritten changes of the number of documents of each session.
    sessions: HashMap<u32, i64>,
}

impl Measure {
    /// The measure of a dropped document.
    pub(super) const DROPPED: Self = Self::new(0, Voice::Client);

    /// Returns the measure of a document without a place.
    pub(super) const fn new(words: u32, voice: Voice) -> Self {
        let words = if words < MAX_WORDS { words } else { MAX_WORDS };
        Self { words, voice, second: u32::MAX, session: u32::MAX }
    }

    /// Returns the measure of a document whose oldest turn is at `micros`, in a session.
    pub(super) fn at(self, micros: i64, session: i64) -> Self {
        let second = second_of(micros);
        Self { second, session: u32::try_from(session).unwrap_or(u32::MAX), ..self }
    }

    /// Returns whether a turn at `micros` is older than the oldest known turn. `Equal` if only the
    /// index of places can tell.
    pub(super) fn compare(self, micros: i64) -> Ordering {
        second_of(micros).cmp(&self.second)
    }

    /// Returns an upper bound of the time of the oldest turn, in microseconds, if known.
    pub(super) fn micros(self) -> Option<i64> {
        (self.second < u32::MAX).then(|| i64::from(self.second) * 1_000_000)
    }
}

impl<'c> Measures<'c> {
    /// Opens the measures of an index.
    pub(super) fn open(connection: &'c Connection) -> IndexResult<Self> {
        let size = "SELECT count(*), coalesce(sum(length(measures)), 0) FROM measures";
        let (rows, bytes): (i64, i64) =
            connection.query_row(size, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let rows = usize::try_from(rows).map_err(|_| IndexError::Damaged)?;
        let len = u32::try_from(bytes / MEASURE_STRIDE).map_err(|_| IndexError::Damaged)?;
        if rows != (len as usize).div_ceil(MEASURES_PER_ROW) {
            return Err(IndexError::Damaged);
        }
        let rows = vec![None; rows];
        Ok(Self { connection, rows, changed: BTreeSet::new(), len, sessions: HashMap::new() })
    }

    /// Returns the number of the next document. Numbers of dropped documents are not reused.
    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn get(&mut self, document: u32) -> IndexResult<Measure> {
        let (row, at) = place_of(document);
        let measure = self.row(row)?.get(at..at + MEASURE_BYTES);
        let mut numbers = measure.ok_or(IndexError::Damaged)?.chunks_exact(4);
        let mut next = || numbers.next()?.try_into().ok().map(u32::from_le_bytes);
        let (Some(first), Some(second), Some(session)) = (next(), next(), next()) else {
            return Err(IndexError::Damaged);
        };
        let voice = Voice::from_code(first >> WORD_BITS);
        Ok(Measure { words: first & MAX_WORDS, voice, second, session })
    }

    pub(super) fn set(&mut self, document: u32, measure: Measure) -> IndexResult<()> {
        let known = self.get(document)?;
        if known == measure {
            return Ok(());
        }
        if known.session != measure.session {
            *self.sessions.entry(known.session).or_default() -= 1;
            *self.sessions.entry(measure.session).or_default() += 1;
        }
        let (row, at) = place_of(document);
        let place = self.row(row)?.get_mut(at..at + MEASURE_BYTES).ok_or(IndexError::Damaged)?;
        place.copy_from_slice(&bytes_of(measure));
        self.changed.insert(row);
        Ok(())
    }

    /// Adds the next document.
    pub(super) fn push(&mut self, measure: Measure) -> IndexResult<()> {
        let (row, _) = place_of(self.len);
        if row == self.rows.len() {
            self.rows.push(Some(Vec::new()));
        }
        self.row(row)?.extend_from_slice(&bytes_of(measure));
        self.changed.insert(row);
        self.len = self.len.checked_add(1).ok_or(IndexError::Damaged)?;
        Ok(())
    }

    /// Writes the changed rows, and the number of documents of each session.
    pub(super) fn write(&mut self) -> IndexResult<()> {
        let mut write =
            self.connection.prepare("INSERT OR REPLACE INTO measures VALUES (?1, ?2)")?;
        for row in std::mem::take(&mut self.changed) {
            let number = i64::try_from(row).unwrap_or(i64::MAX);
            write.execute(params![number, self.rows.get(row).cloned().flatten()])?;
        }
        let mut add = self.connection.prepare(
            "INSERT INTO sessions VALUES (?1, ?2)
                ON CONFLICT DO UPDATE SET documents = documents + ?2",
        )?;
        for (session, change) in std::mem::take(&mut self.sessions) {
            if session < u32::MAX && change != 0 {
                add.execute(params![session, change])?;
            }
        }
        Ok(())
    }

    fn row(&mut self, number: usize) -> IndexResult<&mut Vec<u8>> {
        let row = self.rows.get_mut(number).ok_or(IndexError::Damaged)?;
        if row.is_none() {
            let query = "SELECT measures FROM measures WHERE row = ?1";
            let read: Option<Vec<u8>> = self
                .connection
                .query_row(query, [i64::try_from(number).unwrap_or(i64::MAX)], |row| row.get(0))
                .optional()?;
            let left =
                (self.len as usize).saturating_sub(number * MEASURES_PER_ROW).min(MEASURES_PER_ROW);
            *row = Some(
                read.filter(|read| read.len() == left * MEASURE_BYTES)
                    .ok_or(IndexError::Damaged)?,
            );
        }
        row.as_mut().ok_or(IndexError::Damaged)
    }
}

/// Returns the row of a document and the offset of its measure in that row, in bytes.
const fn place_of(document: u32) -> (usize, usize) {
    let document = document as usize;
    (document / MEASURES_PER_ROW, document % MEASURES_PER_ROW * MEASURE_BYTES)
}

fn bytes_of(measure: Measure) -> [u8; MEASURE_BYTES] {
    let Measure { words, voice, second, session } = measure;
    let first = words.min(MAX_WORDS) | (voice.code() << WORD_BITS);
    let mut bytes = [0; MEASURE_BYTES];
    let numbers = [first, second, session].map(u32::to_le_bytes);
    for (place, byte) in bytes.iter_mut().zip(numbers.as_flattened()) {
        *place = *byte;
    }
    bytes
}

/// Returns a time in seconds since 1970, rounded up.
fn second_of(micros: i64) -> u32 {
    let seconds = micros.div_euclid(1_000_000) + i64::from(micros.rem_euclid(1_000_000) > 0);
    if seconds < 0 { 0 } else { u32::try_from(seconds).unwrap_or(u32::MAX) }
}

#[cfg(test)]
mod tests {
    use super::super::SCHEMA;
    use super::*;

    #[test]
    fn stored_times_are_upper_bounds() {
        let unknown = Measure::new(1, Voice::Person);
        assert_eq!(unknown.micros(), None);
        for micros in [i64::MIN, -1, 0, 1, 999_999, 1_000_000, 1_700_000_000_123_456] {
            let known = unknown.at(micros, 7);
            assert!(known.micros().is_some_and(|bound| bound >= micros), "{micros}");
            assert_eq!(known.compare(i64::MAX), Ordering::Greater);
            assert_eq!(known.compare(micros), Ordering::Equal);
        }
        assert_eq!(unknown.at(i64::MAX, 7).micros(), None);
    }

    #[test]
    fn measures_survive_storage() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(SCHEMA).unwrap();
        let all = [
            Measure::new(u32::MAX, Voice::Client).at(5_000_000, 3),
            Measure::new(12, Voice::Person).at(1, i64::MAX),
            Measure::DROPPED,
        ];
        let mut measures = Measures::open(&connection).unwrap();
        all.into_iter().for_each(|measure| measures.push(measure).unwrap());
        measures.write().unwrap();
        let mut again = Measures::open(&connection).unwrap();
        assert_eq!([0, 1, 2].map(|document| again.get(document).unwrap()), all);
    }
}
