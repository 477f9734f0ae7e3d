//! Identifies the damaged shards of a content, and restores them.

use std::collections::HashSet;
use std::sync::Arc;

use super::RestoredContent;
use super::code::GroupDecoder;
use super::read::Parity;
use super::shape::{SUM_BYTES, UnitPlace, UnitRole};
use super::unit::shard_sum;
use super::write::{read_shard, survey};
use crate::error::{Error, Result};
use crate::store::io::ReadAt;

/// The damage of a file with parity.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParityDamage {
    /// Shards of the content.
    pub shards: u64,
    /// The numbers of the damaged shards; empty if the parity lost its checksums.
    pub damaged: Vec<u64>,
    /// Units of the parity.
    pub units: u64,
    /// Damaged units of the parity.
    pub lost_units: u64,
    /// True if every damaged shard can be restored.
    pub can_restore: bool,
}

impl ParityDamage {
    /// Returns true if neither content nor parity is damaged.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.damaged.is_empty() && self.lost_units == 0
    }
}

impl Parity {
    /// Compares the content with the checksums of its shards. Reads all of it.
    ///
    /// # Errors
    /// `Io` when it cannot be read.
    pub fn examine(&self, content: &dyn ReadAt) -> Result<ParityDamage> {
        let (shards, units) = (self.shape.shards(), self.shape.units());
        let lost_units = units - self.units.len() as u64;
        let Some(table) = &self.table else {
            // Without the table, only the checksum of the whole content can be compared.
            let can_restore = survey(content, &self.shape)?.1 == self.content;
            let damaged = Vec::new();
            return Ok(ParityDamage { shards, damaged, units, lost_units, can_restore });
        };
        let mut damaged = Vec::new();
        for (shard, sum) in (0..shards).zip(table.chunks(SUM_BYTES)) {
            if shard_sum(&read_shard(content, &self.shape, shard)?) != *sum {
                damaged.push(shard);
            }
        }
        let groups = self.shape.groups();
        let can_restore = (0..groups).all(|group| {
            let lost = damaged.iter().filter(|shard| **shard % groups == group).count();
            let spare = self.units.keys();
            let spare = spare.filter(|p| p.role == UnitRole::Recovery && p.index % groups == group);
            lost == 0 || lost <= spare.count()
        });
        Ok(ParityDamage { shards, damaged, units, lost_units, can_restore })
    }

    /// Returns the content with its damaged shards restored. Does not change the file. Memory holds
    /// the restored shards.
    ///
    /// # Errors
    /// `Corrupt` when the parity cannot restore the damage, `Io` when the content cannot be read.
    pub fn restore_content(
        &self,
        content: Arc<dyn ReadAt>,
        damage: &ParityDamage,
    ) -> Result<RestoredContent> {
        let mut patches = Vec::new();
        self.restore(&*content, damage, &mut |offset, bytes| {
            patches.push((offset, bytes.to_vec()));
            Ok(())
        })?;
        Ok(RestoredContent::new(content, self.content_bytes(), patches))
    }

    /// Passes each restored shard to `give` with its offset. Memory holds a group, at most 100 MiB.
    ///
    /// # Errors
    /// The errors of [`Parity::restore_content`] and of `give`.
    pub fn restore(
        &self,
        content: &dyn ReadAt,
        damage: &ParityDamage,
        give: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        if !damage.can_restore {
            return Err(beyond_repair_error(damage));
        }
        let table = self.table.as_deref().unwrap_or_default();
        let damaged: HashSet<u64> = damage.damaged.iter().copied().collect();
        let groups = self.shape.groups();
        for group in (0..groups).filter(|group| damaged.iter().any(|at| at % groups == *group)) {
            self.restore_group(content, group, &damaged, &mut |shard, bytes| {
                let start = usize::try_from(shard).unwrap_or(usize::MAX).saturating_mul(SUM_BYTES);
                let sum = table.get(start..).and_then(|rest| rest.first_chunk());
                if sum != Some(&shard_sum(bytes)) {
                    return Err(beyond_repair_error(damage));
                }
                let (offset, len) = self.shape.shard(shard);
                give(offset, bytes.get(..len).unwrap_or_default())
            })?;
        }
        Ok(())
    }

    fn restore_group(
        &self,
        content: &dyn ReadAt,
        group: u64,
        damaged: &HashSet<u64>,
        give: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let (groups, len) = (self.shape.groups(), self.shape.group_len(group));
        let shards = usize::try_from(len).unwrap_or(usize::MAX);
        let (recovery, shard_bytes) =
            (self.shape.recovery as usize, self.shape.shard_bytes as usize);
        let mut decoding = GroupDecoder::new(shards, recovery, shard_bytes)?;
        let mut lost = 0;
        for (at, shard) in (0..shards).zip((group..).step_by(group_step(groups))) {
            match damaged.contains(&shard) {
                true => lost += 1,
                false => decoding.shard(at, &read_shard(content, &self.shape, shard)?)?,
            }
        }
        for (at, index) in (0..recovery).zip((group..).step_by(group_step(groups))) {
            if lost == 0 {
                break;
            }
            if let Some(shard) = self.shard_of(UnitPlace { role: UnitRole::Recovery, index })? {
                decoding.recovery(at, &shard)?;
                lost -= 1;
            }
        }
        decoding.restore(|at, bytes| give(group + at as u64 * groups, bytes))
    }
}

fn group_step(groups: u64) -> usize {
    usize::try_from(groups).unwrap_or(usize::MAX)
}

fn beyond_repair_error(damage: &ParityDamage) -> Error {
    let found = match damage.damaged.len() {
        0 => format!("{} of {} units of parity damaged", damage.lost_units, damage.units),
        shards => format!("{shards} of {} shards damaged", damage.shards),
    };
    Error::corrupt("the parity", "no more damage than it can restore", found)
}
