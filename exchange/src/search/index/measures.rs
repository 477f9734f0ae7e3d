//! Measures: the length and age of each document, for ranking. A row holds many of them, so that a
//! search over many documents reads few rows.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, params};

use super::{IndexError, IndexResult};

/// Documents per row.
const MEASURES_PER_ROW: usize = 1024;

/// Size of a measure in bytes: two little-endian numbers.
const MEASURE_BYTES: usize = 8;
const MEASURE_STRIDE: i64 = 8;

/// The length and age of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measure {
    /// The number of words. 0 for a dropped document.
    pub(super) words: u32,
    /// An upper bound of the time of the oldest turn that added the document, in seconds since
    /// 1970, rounded up. `u32::MAX` if unknown.
    pub(super) second: u32,
}

/// The measures of all documents, indexed by document number. Rows are read on demand.
#[derive(Debug)]
pub(super) struct Measures<'c> {
    connection: &'c Connection,
    rows: Vec<Option<Vec<u8>>>,
    changed: BTreeSet<usize>,
    len: u32,
}

impl Measure {
    /// The measure of a dropped document.
    pub(super) const DROPPED: Self = Self { words: 0, second: u32::MAX };

    /// Returns the measure after a turn at `micros` added the document, too.
    pub(super) fn with_turn_at(self, micros: i64) -> Self {
        let seconds = micros.div_euclid(1_000_000) + i64::from(micros.rem_euclid(1_000_000) > 0);
        let second = if seconds < 0 { 0 } else { u32::try_from(seconds).unwrap_or(u32::MAX) };
        Self { second: self.second.min(second), ..self }
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
        Ok(Self { connection, rows: vec![None; rows], changed: BTreeSet::new(), len })
    }

    /// Returns the number of the next document. Numbers of dropped documents are not reused.
    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn get(&mut self, document: u32) -> IndexResult<Measure> {
        let (row, at) = place_of(document);
        let measure = self.row(row)?.get(at..at + MEASURE_BYTES);
        let (words, second) =
            measure.and_then(|it| it.split_at_checked(4)).ok_or(IndexError::Damaged)?;
        let number = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes);
        match (number(words), number(second)) {
            (Ok(words), Ok(second)) => Ok(Measure { words, second }),
            _ => Err(IndexError::Damaged),
        }
    }

    pub(super) fn set(&mut self, document: u32, measure: Measure) -> IndexResult<()> {
        if self.get(document)? == measure {
            return Ok(());
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

    /// Writes the changed rows.
    pub(super) fn write(&mut self) -> IndexResult<()> {
        let mut write =
            self.connection.prepare("INSERT OR REPLACE INTO measures VALUES (?1, ?2)")?;
        for row in std::mem::take(&mut self.changed) {
            let number = i64::try_from(row).unwrap_or(i64::MAX);
            write.execute(params![number, self.rows.get(row).cloned().flatten()])?;
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
    let Measure { words, second } = measure;
    let [a, b, c, d] = words.to_le_bytes();
    let [e, f, g, h] = second.to_le_bytes();
    [a, b, c, d, e, f, g, h]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_times_are_upper_bounds() {
        let unknown = Measure { words: 1, second: u32::MAX };
        assert_eq!(unknown.micros(), None);
        for micros in [i64::MIN, -1, 0, 1, 999_999, 1_000_000, 1_700_000_000_123_456] {
            let known = unknown.with_turn_at(micros);
            assert!(known.micros().is_some_and(|bound| bound >= micros), "{micros}");
            assert_eq!(known.with_turn_at(i64::MAX), known, "only an older turn changes it");
        }
        assert_eq!(unknown.with_turn_at(i64::MAX).micros(), None);
    }
}
