//! Finds the parity of a file, even if the rest of the file is damaged.

use std::collections::HashMap;
use std::sync::Arc;

use memchr::memmem;

use super::code::GroupDecoder;
use super::shape::{ParityShare, Shape, UnitPlace, UnitRole};
use super::unit::{ContentSum, HEADER_BYTES, MAGIC, UnitHeader, verify_unit};
use super::write::unreadable;
use crate::error::Result;
use crate::store::io::ReadAt;

/// Bytes per step of the search.
const WINDOW_BYTES: u64 = 1 << 20;
/// Most bytes of candidates to hash, in addition to twice the file: a magic can be anywhere, and
/// may declare a shard of 1 MiB.
const SEARCH_BYTES: u64 = 64 << 20;

/// The parity of a file.
pub struct Parity {
    pub(super) shape: Shape,
    pub(super) content: ContentSum,
    pub(super) file: Arc<dyn ReadAt>,
    /// The offset of the first unit in the file.
    pub(super) start: u64,
    /// The position of each valid unit.
    pub(super) units: HashMap<UnitPlace, u64>,
    /// The checksums of the shards; `None` if too many units are lost.
    pub(super) table: Option<Vec<u8>>,
}

impl Parity {
    /// Finds the parity after the content in the same file. Returns `None` if there is none, or no
    /// unit of it is intact. Reads the end of the file and the parity, or the whole file if none is
    /// found.
    ///
    /// # Errors
    /// `Io` when the file cannot be read.
    pub fn find_appended(file: &Arc<dyn ReadAt>) -> Result<Option<Self>> {
        let Some(header) = any_unit(&**file)? else { return Ok(None) };
        Self::read(Arc::clone(file), header, header.shape.content_bytes).map(Some)
    }

    /// Finds the parity in a file of its own.
    ///
    /// # Errors
    /// `Io` when the file cannot be read.
    pub(in crate::store) fn find_separate(file: &Arc<dyn ReadAt>) -> Result<Option<Self>> {
        let Some(header) = any_unit(&**file)? else { return Ok(None) };
        Self::read(Arc::clone(file), header, 0).map(Some)
    }

    /// Returns the share of the parity, computed from its shape: with few shards, the least
    /// possible one.
    pub(in crate::store) fn share(&self) -> ParityShare {
        self.shape.share()
    }

    /// Returns true if parity of this share for `bytes` bytes has the same shape.
    pub(in crate::store) fn is_like(&self, share: ParityShare, bytes: u64) -> bool {
        Shape::choose(bytes, share).is_ok_and(|shape| shape == self.shape)
    }

    /// Returns the number of protected bytes, from the start of the file.
    #[must_use]
    pub fn content_bytes(&self) -> u64 {
        self.shape.content_bytes
    }

    /// Returns the size of the parity.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shape.units() * self.unit_bytes()
    }

    /// Returns true if no unit is damaged.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.units.len() as u64 == self.shape.units()
    }

    fn read(file: Arc<dyn ReadAt>, header: UnitHeader, start: u64) -> Result<Self> {
        let UnitHeader { shape, content, .. } = header;
        let (units, table) = (HashMap::new(), None);
        let mut parity = Self { shape, content, file, start, units, table };
        for (position, place) in (0..).zip(shape.places()) {
            if parity.unit_at(position, place)?.is_some() {
                parity.units.insert(place, position);
            }
        }
        parity.table = parity.read_table()?;
        Ok(parity)
    }

    pub(super) fn unit_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + u64::from(self.shape.shard_bytes)
    }

    /// Returns the shard of a unit, if it is intact.
    pub(super) fn shard_of(&self, place: UnitPlace) -> Result<Option<Vec<u8>>> {
        match self.units.get(&place) {
            Some(position) => self.unit_at(*position, place),
            None => Ok(None),
        }
    }

    fn unit_at(&self, position: u64, place: UnitPlace) -> Result<Option<Vec<u8>>> {
        let mut bytes = vec![0; HEADER_BYTES + self.shape.shard_bytes as usize];
        let offset = self.start.saturating_add(position * self.unit_bytes());
        let read = self.file.read_at(&mut bytes, offset).map_err(unreadable)?;
        let wanted = UnitHeader { shape: self.shape, content: self.content, place };
        let found = bytes.get(..read).and_then(verify_unit).filter(|(header, _)| *header == wanted);
        Ok(found.map(|(_, shard)| shard.to_vec()))
    }

    /// Reads the table from any half of its units.
    fn read_table(&self) -> Result<Option<Vec<u8>>> {
        let len = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let (shards, recovery) = (self.shape.table_shards(), self.shape.table_recovery());
        let shard_bytes = self.shape.shard_bytes as usize;
        let mut decoding = GroupDecoder::new(len(shards), len(recovery), shard_bytes)?;
        let mut table = vec![0; len(shards) * shard_bytes];
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(room) = table.chunks_mut(shard_bytes).nth(at) {
                room.copy_from_slice(bytes);
            }
        };
        let (mut whole, mut spare) = (0, 0);
        for index in 0..shards {
            if let Some(shard) = self.shard_of(UnitPlace { role: UnitRole::Table, index })? {
                put(len(index), &shard);
                decoding.shard(len(index), &shard)?;
                whole += 1;
            }
        }
        if whole == shards {
            return Ok(Some(table));
        }
        for index in 0..recovery {
            if let Some(shard) =
                self.shard_of(UnitPlace { role: UnitRole::TableRecovery, index })?
            {
                decoding.recovery(len(index), &shard)?;
                spare += 1;
            }
        }
        if whole + spare < shards {
            return Ok(None);
        }
        decoding.restore(|at, bytes| {
            put(at, bytes);
            Ok(())
        })?;
        Ok(Some(table))
    }
}

impl std::fmt::Debug for Parity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parity").field("shape", &self.shape).finish_non_exhaustive()
    }
}

/// Finds the last valid unit in a file.
fn any_unit(file: &dyn ReadAt) -> Result<Option<UnitHeader>> {
    let bytes = file.size().map_err(unreadable)?;
    let mut left = bytes.saturating_mul(2).saturating_add(SEARCH_BYTES);
    let mut end = bytes;
    while end > 0 {
        let start = end.saturating_sub(WINDOW_BYTES);
        // A magic may span the end of the window.
        let len = usize::try_from((end - start).saturating_add(MAGIC.len() as u64 - 1));
        let mut window = vec![0; len.unwrap_or_default()];
        let read = file.read_at(&mut window, start).map_err(unreadable)?;
        window.truncate(read);
        for at in memmem::rfind_iter(&window, &MAGIC) {
            let offset = start + at as u64;
            let mut head = [0; HEADER_BYTES];
            file.read_at(&mut head, offset).map_err(unreadable)?;
            let Some(header) = UnitHeader::decode(&head) else { continue };
            let mut unit = vec![0; HEADER_BYTES + header.shape.shard_bytes as usize];
            let Some(rest) = left.checked_sub(unit.len() as u64) else { return Ok(None) };
            left = rest;
            let read = file.read_at(&mut unit, offset).map_err(unreadable)?;
            if let Some((header, _)) = unit.get(..read).and_then(verify_unit) {
                return Ok(Some(header));
            }
        }
        end = start;
    }
    Ok(None)
}
