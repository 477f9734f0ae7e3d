//! The shape of a parity: the length of shards, the group of each, and the number of units.

use std::fmt;

use crate::error::{Error, Result};

/// Most shards of a group: at most 32 MiB of content with shards of 4 KiB, and some 80 MiB of
/// memory to restore it.
const GROUP_SHARDS: u64 = 1 << 13;
/// Most shards of a content.
const MAX_SHARDS: u64 = 1 << 23;
/// Most shards of the table of checksums.
const MAX_TABLE_SHARDS: u64 = 1 << 14;
/// Least and most bytes of a shard; a power of two.
const SHARD_BYTES: std::ops::RangeInclusive<u32> = 512..=1 << 20;
/// Bytes of the checksum of a shard in the table.
pub(super) const SUM_BYTES: usize = 8;
/// Fewest recovery shards of a group.
const MIN_RECOVERY: u64 = 2;
/// Recovery shards of the table in addition to the number of its shards.
const SPARE_TABLE_SHARDS: u64 = 3;

/// The share of a file that may be lost. Its parity takes as much space, and some kilobytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ParityShare(u8);

impl ParityShare {
    /// Returns a share in percent of the content.
    ///
    /// # Errors
    /// `InvalidInput` unless it is from 1 to 100.
    pub fn new(percent: u8) -> Result<Self> {
        match percent {
            1..=100 => Ok(Self(percent)),
            _ => {
                let message = format!("parity of {percent} %: expected 1 to 100 percent");
                Err(Error::invalid(message))
            }
        }
    }

    /// Returns the share in percent.
    #[must_use]
    pub fn percent(self) -> u8 {
        self.0
    }
}

/// Five percent.
impl Default for ParityShare {
    fn default() -> Self {
        Self(5)
    }
}

impl fmt::Display for ParityShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.0)
    }
}

/// The parameters of a parity, which determine everything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) content_bytes: u64,
    pub(super) shard_bytes: u32,
    /// Recovery shards of each group.
    pub(super) recovery: u32,
}

impl Shape {
    /// Chooses the shape for a content: short shards for a small one, otherwise 4 KiB, and longer
    /// ones if there would be too many.
    ///
    /// # Errors
    /// `InvalidInput` when the content is empty, `LimitExceeded` when it is too large.
    pub(super) fn choose(content_bytes: u64, share: ParityShare) -> Result<Self> {
        let mut shard_bytes: u32 = match content_bytes {
            0 => return Err(Error::invalid("parity of an empty file: it protects nothing")),
            1..0x4_0000 => 512,
            0x4_0000..0x10_0000 => 1 << 10,
            _ => 1 << 12,
        };
        while content_bytes.div_ceil(shard_bytes.into()) > MAX_SHARDS {
            shard_bytes *= 2;
        }
        let shape = Self { content_bytes, shard_bytes, recovery: 0 };
        let of_group = shape.group_len(0) * u64::from(share.0);
        let recovery = of_group.div_ceil(100).max(MIN_RECOVERY);
        let shape = Self { recovery: u32::try_from(recovery).unwrap_or(u32::MAX), ..shape };
        let most = MAX_SHARDS * u64::from(*SHARD_BYTES.end());
        shape
            .if_valid()
            .ok_or_else(|| Error::limit("bytes of a file with parity", most, content_bytes))
    }

    /// Returns the shape, if a writer may choose it. This bounds the work of a reader.
    pub(super) fn if_valid(self) -> Option<Self> {
        let good = SHARD_BYTES.contains(&self.shard_bytes)
            && self.shard_bytes.is_power_of_two()
            && (1..=MAX_SHARDS).contains(&self.shards())
            && self.table_shards() <= MAX_TABLE_SHARDS
            && (1..=GROUP_SHARDS).contains(&u64::from(self.recovery));
        good.then_some(self)
    }

    /// Returns the least share with this shape.
    pub(super) fn share(&self) -> ParityShare {
        let recovery = u64::from(self.recovery).saturating_sub(1);
        let percent = recovery * 100 / self.group_len(0).max(1) + 1;
        ParityShare(u8::try_from(percent.min(100)).unwrap_or(100))
    }

    /// Returns the number of shards of the content.
    pub(super) fn shards(&self) -> u64 {
        self.content_bytes.div_ceil(self.shard_bytes.into())
    }

    /// Returns the number of groups.
    pub(super) fn groups(&self) -> u64 {
        self.shards().div_ceil(GROUP_SHARDS)
    }

    /// Returns the number of shards of a group: the shards `group`, `group + groups`, and so on.
    pub(super) fn group_len(&self, group: u64) -> u64 {
        self.shards().saturating_sub(group).div_ceil(self.groups())
    }

    /// Returns the offset and length of a shard in the content; the last one may be short.
    pub(super) fn shard(&self, shard: u64) -> (u64, usize) {
        let offset = shard * u64::from(self.shard_bytes);
        let left = self.content_bytes.saturating_sub(offset).min(self.shard_bytes.into());
        (offset, usize::try_from(left).unwrap_or(usize::MAX))
    }

    /// Returns the number of shards of the table of checksums.
    pub(super) fn table_shards(&self) -> u64 {
        (self.shards() * SUM_BYTES as u64).div_ceil(self.shard_bytes.into())
    }

    /// Returns the number of recovery shards of the table: half of all may be lost, and more of a
    /// small table.
    pub(super) fn table_recovery(&self) -> u64 {
        self.table_shards() + SPARE_TABLE_SHARDS
    }

    /// Returns the number of units of the table.
    fn table_units(&self) -> u64 {
        self.table_shards() + self.table_recovery()
    }

    /// Returns the number of recovery units of the content.
    pub(super) fn recovery_units(&self) -> u64 {
        self.groups() * u64::from(self.recovery)
    }

    /// Returns the number of all units.
    pub(super) fn units(&self) -> u64 {
        self.table_units() + self.recovery_units()
    }

    /// Returns the unit at each position, front to back. Units of the table are spread evenly, so
    /// that no run of lost sectors destroys many of them.
    pub(super) fn places(&self) -> impl Iterator<Item = UnitPlace> + use<> {
        let (table, all, shards) = (self.table_units(), self.units(), self.table_shards());
        let (mut next_table, mut next_recovery) = (0, 0);
        (0..all).map(move |at| {
            // Unit `i` of the table is at position `floor(i * all / table)`.
            if next_table < table && next_table * all / table <= at {
                let index = next_table;
                next_table += 1;
                return match index.checked_sub(shards) {
                    None => UnitPlace { role: UnitRole::Table, index },
                    Some(index) => UnitPlace { role: UnitRole::TableRecovery, index },
                };
            }
            let index = next_recovery;
            next_recovery += 1;
            UnitPlace { role: UnitRole::Recovery, index }
        })
    }
}

/// The identity of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct UnitPlace {
    pub(super) role: UnitRole,
    /// The number of the unit among those of its role.
    pub(super) index: u64,
}

/// The role of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum UnitRole {
    /// A shard of the table of checksums.
    Table,
    /// A recovery shard of the table.
    TableRecovery,
    /// A recovery shard of the content: number n is of group n modulo the groups.
    Recovery,
}

impl UnitRole {
    const ALL: [Self; 3] = [Self::Table, Self::TableRecovery, Self::Recovery];

    pub(super) const fn code(self) -> u32 {
        match self {
            Self::Table => 1,
            Self::TableRecovery => 2,
            Self::Recovery => 3,
        }
    }

    pub(super) fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.code() == code)
    }
}
