//! The stat of a file, and the rule by which an equal stat proves that the file is unchanged.
//!
//! A file with the same [`Stat`] was not written to, with one exception: clocks of file systems
//! advance in steps, and a file written twice within one step keeps its times. So a stat is valid
//! for a later comparison only if the clock had advanced since the change of the file
//! ([`Stat::is_stable_after`]).

use super::folder::EntryKind;
use crate::context::FileMode;
use crate::platform::{RawStat, kind_of_mode};

/// Bytes of a stat in a table.
pub(in crate::workspace) const STAT_BYTES: usize = 44;

const NANOS: i64 = 1_000_000_000;

/// Clock steps of file systems: most use the step of the kernel's clock; some count seconds, or two
/// seconds.
const FINE_STEP: i64 = NANOS / 50;
const COARSE_STEP: i64 = 2 * NANOS;

/// A time that is a multiple of this may come from a file system with coarse steps.
const COARSE_UNIT: i64 = NANOS / 100;

/// The maximum expected difference between the clocks of two devices.
const OTHER_CLOCK: i64 = 60 * NANOS;

/// The fields that distinguish states of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::workspace) struct Stat {
    pub(in crate::workspace) size: u64,
    /// The modification time, in nanoseconds since 1970. Users can set it.
    modified: i64,
    /// The change time, in nanoseconds since 1970. Only the system sets it.
    changed: i64,
    pub(in crate::workspace) inode: u64,
    pub(in crate::workspace) device: u64,
    /// Type and permissions.
    mode: u32,
}

/// A time of the clock of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::workspace) struct FileTime {
    nanos: i64,
    device: u64,
}

impl FileTime {
    /// Returns the change time of a stat.
    pub(in crate::workspace) fn change_time(stat: &Stat) -> Self {
        Self { nanos: stat.changed, device: stat.device }
    }
}

/// Field widths differ between systems. Larger values are folded, since they are only compared for
/// equality.
impl From<&RawStat> for Stat {
    fn from(stat: &RawStat) -> Self {
        let nanos = |seconds: i128, rest: i128| fold(seconds * i128::from(NANOS) + rest);
        Self {
            size: fold(stat.st_size.into()),
            modified: nanos(stat.st_mtime.into(), stat.st_mtime_nsec.into()).cast_signed(),
            changed: nanos(stat.st_ctime.into(), stat.st_ctime_nsec.into()).cast_signed(),
            inode: fold(stat.st_ino.into()),
            device: fold(stat.st_dev.into()),
            mode: u32::try_from(fold(stat.st_mode.into())).unwrap_or_default(),
        }
    }
}

fn fold(number: i128) -> u64 {
    let [low, ..] = *number.to_le_bytes().as_chunks::<8>().0 else { return 0 };
    u64::from_le_bytes(low)
}

impl Stat {
    /// Returns the mode of a file in a context; `None` for a folder, pipe, socket or device.
    pub(in crate::workspace) fn file_mode(&self) -> Option<FileMode> {
        match self.kind() {
            EntryKind::File if self.mode & 0o111 != 0 => Some(FileMode::Executable),
            EntryKind::File => Some(FileMode::Regular),
            EntryKind::Link => Some(FileMode::Symlink),
            EntryKind::Folder | EntryKind::Special => None,
        }
    }

    /// Returns the kind of the entry.
    pub(in crate::workspace) fn kind(&self) -> EntryKind {
        kind_of_mode(self.mode)
    }

    /// Returns the change time, in nanoseconds since 1970.
    pub(in crate::workspace) fn changed(&self) -> i64 {
        self.changed
    }

    /// Returns the identity of the file.
    pub(in crate::workspace) fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Returns true if every change of the file after `file_system_time` gives it a different stat.
    pub(in crate::workspace) fn is_stable_after(&self, moment: &FileTime) -> bool {
        let step = match self.changed % COARSE_UNIT {
            _ if self.device != moment.device => OTHER_CLOCK,
            0 => COARSE_STEP,
            _ => FINE_STEP,
        };
        // A user can set a modification time in the future; git does not trust it either.
        self.changed.max(self.modified) < moment.nanos.saturating_sub(step)
    }

    /// Appends a stat to a table; [`Stat::decode`] reads it.
    pub(in crate::workspace) fn encode(stat: Option<&Self>, out: &mut Vec<u8>) {
        let Some(Self { size, modified, changed, inode, device, mode }) = stat else {
            out.extend_from_slice(&[0; STAT_BYTES]);
            return;
        };
        for field in [*size, modified.cast_unsigned(), changed.cast_unsigned(), *inode, *device] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&mode.to_le_bytes());
    }

    /// Decodes a stat of a table. Returns `None` if the inode is zero: only the name of the file is
    /// known.
    pub(in crate::workspace) fn decode(bytes: &[u8; STAT_BYTES]) -> Option<Self> {
        let (numbers, mode) = bytes.as_chunks::<8>();
        let [size, modified, changed, inode, device] = numbers else { return None };
        let number = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        let stat = Self {
            size: number(size),
            modified: number(modified).cast_signed(),
            changed: number(changed).cast_signed(),
            inode: number(inode),
            device: number(device),
            mode: u32::from_le_bytes(mode.try_into().ok()?),
        };
        (stat.inode != 0).then_some(stat)
    }
}

#[cfg(test)]
impl Stat {
    /// Returns an artificial stat, changed and modified at these times.
    pub(in crate::workspace) fn artificial(inode: u64, modified: i64, changed: i64) -> Self {
        Self { size: 3, modified, changed, inode, device: 7, mode: 0o100_644 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_comes_back_from_a_table() {
        for stat in [None, Some(Stat::artificial(5, -1, i64::MAX))] {
            let mut bytes = Vec::new();
            Stat::encode(stat.as_ref(), &mut bytes);
            assert_eq!(Stat::decode(bytes.as_slice().try_into().unwrap()), stat);
        }
    }

    #[test]
    fn a_stat_lasts_only_if_the_clock_has_gone_on() {
        let at = |nanos| FileTime { nanos, device: 7 };
        let fine = Stat::artificial(1, 0, 100 * NANOS + 1);
        assert!(!fine.is_stable_after(&at(100 * NANOS)));
        assert!(!fine.is_stable_after(&at(100 * NANOS + FINE_STEP)));
        assert!(fine.is_stable_after(&at(100 * NANOS + FINE_STEP + 2)));
        let coarse = Stat::artificial(1, 0, 100 * NANOS);
        assert!(!coarse.is_stable_after(&at(101 * NANOS)));
        assert!(coarse.is_stable_after(&at(103 * NANOS)));
        let elsewhere = FileTime { nanos: 103 * NANOS, device: 8 };
        assert!(!coarse.is_stable_after(&elsewhere));
        // The modification time is in the future, or was set back.
        assert!(!Stat::artificial(1, 900 * NANOS, 1).is_stable_after(&at(500 * NANOS)));
        assert!(!Stat::artificial(1, 0, 500 * NANOS).is_stable_after(&at(500 * NANOS)));
    }
}
