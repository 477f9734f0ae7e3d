//! Writes parity: one pass over the content for its checksums, one for the recovery shards.

use std::collections::HashMap;
use std::sync::Arc;

use super::code::encode;
use super::shape::{ParityShare, SUM_BYTES, Shape, UnitPlace, UnitRole};
use super::unit::{ContentSum, ContentSummer, HEADER_BYTES, UnitHeader, shard_sum};
use crate::error::{Error, Result};
use crate::store::io::{IoFile, ReadAt};

/// Writes the parity of a whole file after its content, and syncs it. Returns the size of the
/// parity.
///
/// Reads the file twice; memory holds a group, at most 70 MiB.
///
/// # Errors
/// `InvalidInput` when the file is empty, `LimitExceeded` when it has more than 8 TiB, `Io` when the
/// disk refuses.
pub fn append_parity(file: &Arc<dyn IoFile>, share: ParityShare) -> Result<u64> {
    let bytes = file.size().map_err(unreadable)?;
    let written = write_parity(file, bytes, share, &**file, bytes)?;
    file.sync_data().map_err(|error| Error::io("write parity", error))?;
    Ok(written)
}

/// Writes the parity of the first `bytes` of `content` to `out` at the offset `at`. Returns its
/// size. Does not sync.
pub(in crate::store) fn write_parity(
    content: &dyn ReadAt,
    bytes: u64,
    share: ParityShare,
    out: &dyn IoFile,
    at: u64,
) -> Result<u64> {
    rewrite_parity(content, &Shape::choose(bytes, share)?, out, at)
}

/// Writes the parity with this shape.
pub(super) fn rewrite_parity(
    content: &dyn ReadAt,
    shape: &Shape,
    out: &dyn IoFile,
    at: u64,
) -> Result<u64> {
    let (shape, (table, sum)) = (*shape, survey(content, shape)?);
    let places = shape.places().zip(0_u64..).collect();
    let writer = Writer { shape, content: sum, places, out, at };
    writer.table(&table)?;
    for group in 0..shape.groups() {
        writer.group(content, group)?;
    }
    Ok(shape.units() * unit_bytes(&shape))
}

impl ParityShare {
    /// Returns the size of the parity of a file of `content_bytes`; 0 if it can have none.
    #[must_use]
    pub fn parity_bytes(self, content_bytes: u64) -> u64 {
        let shape = Shape::choose(content_bytes, self).ok();
        shape.map_or(0, |shape| shape.units() * unit_bytes(&shape))
    }
}

fn unit_bytes(shape: &Shape) -> u64 {
    HEADER_BYTES as u64 + u64::from(shape.shard_bytes)
}

struct Writer<'a> {
    shape: Shape,
    content: ContentSum,
    /// The position of each unit.
    places: HashMap<UnitPlace, u64>,
    out: &'a dyn IoFile,
    at: u64,
}

impl Writer<'_> {
    fn table(&self, table: &[u8]) -> Result<()> {
        let shard_bytes = self.shape.shard_bytes as usize;
        let recovery = usize::try_from(self.shape.table_recovery()).unwrap_or(usize::MAX);
        let recovery = encode(table.chunks(shard_bytes), recovery, shard_bytes)?;
        for (index, shard) in (0..).zip(table.chunks(shard_bytes)) {
            self.unit(UnitPlace { role: UnitRole::Table, index }, shard)?;
        }
        for (index, shard) in (0..).zip(&recovery) {
            self.unit(UnitPlace { role: UnitRole::TableRecovery, index }, shard)?;
        }
        Ok(())
    }

    fn group(&self, content: &dyn ReadAt, group: u64) -> Result<()> {
        let shards = (0..self.shape.group_len(group)).map(|at| group + at * self.shape.groups());
        let shards = shards.map(|shard| read_shard(content, &self.shape, shard));
        let shards: Vec<Vec<u8>> = shards.collect::<Result<_>>()?;
        let (recovery, shard_bytes) =
            (self.shape.recovery as usize, self.shape.shard_bytes as usize);
        let recovery = encode(shards.iter().map(Vec::as_slice), recovery, shard_bytes)?;
        for (at, shard) in (0..).zip(&recovery) {
            let index = group + at * self.shape.groups();
            self.unit(UnitPlace { role: UnitRole::Recovery, index }, shard)?;
        }
        Ok(())
    }

    fn unit(&self, place: UnitPlace, shard: &[u8]) -> Result<()> {
        let header = UnitHeader { shape: self.shape, content: self.content, place };
        let position = self.places.get(&place).copied().unwrap_or_default();
        let offset = self.at + position * unit_bytes(&self.shape);
        let written = self.out.write_at(&header.encode(shard), offset);
        written.map_err(|error| Error::io("write parity", error))
    }
}

/// Returns the checksums of all shards, padded to whole shards, and the checksum of the content.
pub(super) fn survey(content: &dyn ReadAt, shape: &Shape) -> Result<(Vec<u8>, ContentSum)> {
    let whole = shape.table_shards() * u64::from(shape.shard_bytes);
    let whole = usize::try_from(whole).unwrap_or(usize::MAX);
    let (mut table, mut summer) = (Vec::with_capacity(whole), ContentSummer::new());
    for shard in 0..shape.shards() {
        let bytes = read_shard(content, shape, shard)?;
        let (_, len) = shape.shard(shard);
        summer.update(bytes.get(..len).unwrap_or_default());
        table.extend_from_slice(&shard_sum(&bytes));
    }
    debug_assert_eq!(table.len() as u64, shape.shards() * SUM_BYTES as u64);
    table.resize(whole, 0);
    Ok((table, summer.finish()))
}

/// Reads a shard of the content, padded with zeros, which also replace bytes missing at the end.
pub(super) fn read_shard(content: &dyn ReadAt, shape: &Shape, shard: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; shape.shard_bytes as usize];
    let (offset, len) = shape.shard(shard);
    if let Some(room) = bytes.get_mut(..len) {
        content.read_at(room, offset).map_err(unreadable)?;
    }
    Ok(bytes)
}

/// Converts an error of reading a file.
pub(super) fn unreadable(error: std::io::Error) -> Error {
    Error::io("read what parity protects", error)
}
