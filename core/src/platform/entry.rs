//! An entry of a directory, described by its stat.

use std::fs::File;
use std::io;

use super::{HAS_EXECUTABLE_BIT, RawStat, stat_of};

/// The type bits of a mode, which have the same values on every system.
pub(crate) const TYPE_BITS: u32 = 0o170_000;

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FolderEntry {
    pub(crate) kind: EntryKind,
    /// The permissions.
    pub(crate) mode: u32,
    /// The identity: device and inode.
    pub(crate) identity: (i128, i128),
    /// The number of hard links.
    pub(crate) names: i128,
    /// The size, and the modification time.
    content: [i128; 3],
    /// The change time.
    changed: [i128; 2],
}

/// The kinds of an existing entry that a write distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Link,
    Folder,
    /// A pipe, a socket or a device.
    Special,
}

impl FolderEntry {
    /// Describes an open file.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        Ok(Self::from(&stat_of(file)?))
    }

    /// Returns its size in bytes.
    pub(crate) const fn size(&self) -> i128 {
        let [size, ..] = self.content;
        size
    }

    /// Narrows the permissions `wanted` for a file that replaces this one: users who could not read
    /// or write this file cannot read or write the new one.
    pub(crate) fn narrow_permissions(&self, wanted: u32) -> u32 {
        let readers = self.mode & 0o444;
        match self.kind {
            EntryKind::File => wanted & (0o700 | self.mode & 0o066 | readers >> 2),
            _ => wanted,
        }
    }

    /// Returns true if the file is as executable as `wanted`: one of these bits is set, or none.
    /// True for every file of a system without such bits.
    pub(crate) const fn agrees_on_executable(&self, bits: u32, wanted: bool) -> bool {
        !HAS_EXECUTABLE_BIT || (self.mode & bits != 0) == wanted
    }

    /// Returns true if this is the same entry as `before`, unchanged.
    pub(crate) fn is_unchanged_since(&self, before: &Self) -> bool {
        // Replacing one name of a file changes the file behind its other names.
        let is_unchanged = self.changed == before.changed || before.names > 1;
        self.identity == before.identity && self.content == before.content && is_unchanged
    }
}

/// Returns the kind of an entry with this type and these permissions.
pub(crate) const fn kind_of_mode(mode: u32) -> EntryKind {
    match mode & TYPE_BITS {
        0o100_000 => EntryKind::File,
        0o120_000 => EntryKind::Link,
        0o040_000 => EntryKind::Folder,
        _ => EntryKind::Special,
    }
}

/// Field widths differ between systems; 128 bits hold all of them.
impl From<&RawStat> for FolderEntry {
    fn from(stat: &RawStat) -> Self {
        let mode = u32::try_from(i128::from(stat.st_mode)).unwrap_or_default();
        Self {
            kind: kind_of_mode(mode),
            mode: mode & !TYPE_BITS,
            identity: (stat.st_dev.into(), stat.st_ino.into()),
            names: stat.st_nlink.into(),
            content: [stat.st_size.into(), stat.st_mtime.into(), stat.st_mtime_nsec.into()],
            changed: [stat.st_ctime.into(), stat.st_ctime_nsec.into()],
        }
    }
}
