//! The ways to change a file, and the ways that are tried on each kind of file.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turntree::store::Io;

use super::FileKind;
use crate::checksums::{
    derived_parts, forged_derived, mend_ids, mend_manifest, mend_segment, mend_superblock,
    replace_pack,
};
use crate::proof::Effort;
use crate::sample::used;
use crate::sim::{Random, SimDisk};

/// The used bytes of a superblock.
pub(super) const SUPERBLOCK_BYTES: usize = 96;

/// The position of the store id in a superblock.
const STORE_ID: Range<usize> = 48..64;

/// The number of zeros after the used bytes that are changed too.
const ZEROS: usize = 64;

/// At scale 1, one of this many bytes of a history index's content is changed.
const HISTORY_STEP: usize = 8;

/// The sector sizes of disks.
const SECTORS: [usize; 2] = [512, 4096];

/// A way to change a file.
#[derive(Debug, Clone)]
pub enum Change {
    /// One byte changes.
    Flip {
        /// The position.
        at: usize,
        /// The bits that change.
        mask: u8,
    },
    /// The file ends here.
    Cut {
        /// The new length.
        len: usize,
    },
    /// A lost sector.
    Zero {
        /// The position.
        at: usize,
        /// The length.
        len: usize,
    },
    /// A part that appears twice in a row.
    Repeat {
        /// The position.
        at: usize,
        /// The length.
        len: usize,
    },
    /// Bytes replaced by new ones.
    Splice {
        /// The position of the replacement.
        at: usize,
        /// The new bytes.
        content: Content,
    },
    /// More bytes after the end.
    Append(Content),
    /// Another file under this name.
    Replace(Content),
    /// Two files swap names.
    Swap(PathBuf),
    /// The file is removed.
    Remove,
    /// Another change, after which all checksums are recomputed.
    Mended(Box<Change>),
}

/// Bytes. Messages show only their number.
#[derive(Clone)]
pub struct Content(Arc<[u8]>);

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl From<&[u8]> for Content {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl Change {
    /// Applies the change to the file at `path`.
    pub(super) fn apply(&self, path: &Path, disk: &SimDisk) {
        let mut files = disk.files();
        if let Self::Swap(other) = self {
            disk.damage(path, files[other].clone());
            disk.damage(other, files[path].clone());
            return;
        }
        if matches!(self, Self::Remove) {
            return disk.remove(path).expect("the file of a trial");
        }
        let mut bytes = files.remove(path).expect("the file of a trial");
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let extension = name.rsplit_once('.').map(|(_, extension)| extension);
        let store = || *files[&superblock(path)][STORE_ID].first_chunk().unwrap();
        if let (Self::Mended(change), Some("changes")) = (self, extension) {
            let mut raw = derived_parts(&bytes).concat();
            change.edit(&mut raw);
            return disk.damage(path, forged_derived(&bytes, &raw, store(), &name));
        }
        self.edit(&mut bytes);
        if !matches!(self, Self::Mended(_)) {
            return disk.damage(path, bytes);
        }
        match extension {
            Some("pack") => return replace_pack(disk, path, bytes),
            Some("ids") => mend_ids(&mut bytes, store(), &name),
            Some(_) => mend_segment(&mut bytes),
            None if name.starts_with("manifest-") => mend_manifest(&mut bytes),
            None => mend_superblock(&mut bytes),
        }
        disk.damage(path, bytes);
    }

    fn edit(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Flip { at, mask } => bytes[*at] ^= mask,
            Self::Cut { len } => bytes.truncate(*len),
            Self::Zero { at, len } => bytes.iter_mut().skip(*at).take(*len).for_each(|b| *b = 0),
            Self::Repeat { at, len } => {
                let part = bytes[*at..(*at + *len).min(bytes.len())].to_vec();
                bytes.splice(*at..*at, part);
            }
            Self::Splice { at, content } => {
                let room = bytes.iter_mut().skip(*at);
                room.zip(&*content.0).for_each(|(byte, new)| *byte = *new);
            }
            Self::Append(content) => bytes.extend_from_slice(&content.0),
            Self::Replace(content) => *bytes = content.0.to_vec(),
            Self::Swap(_) | Self::Remove => {}
            Self::Mended(change) => change.edit(bytes),
        }
    }

    /// The first position that the change touches, if it has one.
    pub(super) fn touches(&self) -> Option<usize> {
        match self {
            Self::Flip { at, .. }
            | Self::Cut { len: at }
            | Self::Zero { at, .. }
            | Self::Repeat { at, .. }
            | Self::Splice { at, .. } => Some(*at),
            Self::Append(_) | Self::Replace(_) | Self::Swap(_) | Self::Remove => None,
            Self::Mended(change) => change.touches(),
        }
    }
}

/// Every change of a file that is tried with this effort.
pub(super) fn all(
    effort: &Effort,
    kind: FileKind,
    path: &Path,
    disk: &SimDisk,
    foreign: &SimDisk,
) -> Vec<Change> {
    let files = disk.files();
    let bytes = &files[path];
    let end = match kind {
        FileKind::Superblock => SUPERBLOCK_BYTES + ZEROS,
        _ => (used(bytes) + ZEROS).min(bytes.len()),
    };
    let mut random = Random(effort.seed ^ end as u64);
    let scale = usize::try_from(effort.scale).unwrap_or(usize::MAX);
    // Every position at some scale. At a smaller scale, the seed selects the first position.
    let every = |step: usize, random: &mut Random| {
        let step = (step / scale).max(1);
        (random.below(step)..end).step_by(step)
    };
    let masks: &[u8] = if scale >= 10 { &[1, 2, 4, 8, 16, 32, 64, 128] } else { &[0x41] };
    let mut changes: Vec<Change> = every(4, &mut random)
        .flat_map(|at| masks.iter().map(move |mask| Change::Flip { at, mask: *mask }))
        .collect();
    changes.extend(every(16, &mut random).map(|len| Change::Cut { len }));
    for sector in SECTORS {
        let from = (0..end).step_by(sector);
        changes.extend(from.map(|at| Change::Zero { at, len: sector }));
    }
    changes.extend(every(256, &mut random).map(|at| Change::Repeat { at, len: 8 << (at % 6) }));
    match kind {
        // In the uncompressed content.
        FileKind::HistoryIndex => {
            let raw = derived_parts(bytes).concat();
            let step = (HISTORY_STEP / scale).max(1);
            changes.extend((0..raw.len()).step_by(step).map(|at| mended(at, &raw)));
        }
        _ => changes.extend(every(48, &mut random).map(|at| mended(at, bytes))),
    }
    for (other, theirs) in files.iter().chain(&foreign.files()) {
        changes.extend(with_another(path, end, other, theirs, &mut random));
    }
    changes.extend(files.keys().filter(|other| is_alike(path, other)).cloned().map(Change::Swap));
    changes.push(Change::Remove);
    let garbage: Vec<u8> = (0..100).map(|_| random.draw().to_le_bytes()[0]).collect();
    changes.push(Change::Append((&*garbage).into()));
    changes.push(Change::Append((&**bytes).into()));
    changes
}

/// The changes that combine two files.
fn with_another(
    path: &Path,
    end: usize,
    other: &Path,
    theirs: &[u8],
    random: &mut Random,
) -> Vec<Change> {
    let theirs = &theirs[..used(theirs)];
    if theirs.is_empty() || end == 0 {
        return Vec::new();
    }
    let start = random.below(theirs.len());
    let part = &theirs[start..(start + 1 + random.below(2048)).min(theirs.len())];
    let mut changes = vec![Change::Splice { at: random.below(end), content: part.into() }];
    if is_alike(path, other) || path.file_name() == other.file_name() {
        changes.push(Change::Replace(theirs.into()));
    }
    changes
}

/// A change after which the checksums are recomputed: of one byte, or of a number that becomes too
/// large.
fn mended(at: usize, bytes: &[u8]) -> Change {
    let inner = match at % 3 {
        0 => Change::Flip { at, mask: 0x41 },
        1 => Change::Splice { at: at & !3, content: [0xff; 4].as_slice().into() },
        _ => Change::Splice { at: at & !7, content: bytes[..at.min(8)].into() },
    };
    Change::Mended(Box::new(inner))
}

/// The superblock of the store that has a file in one of its folders.
fn superblock(path: &Path) -> PathBuf {
    path.parent().and_then(Path::parent).expect("a file in a folder").join("superblock")
}

/// True if two paths are different files of the same kind.
fn is_alike(path: &Path, other: &Path) -> bool {
    let is_manifest = |path: &Path| path.to_string_lossy().contains("/manifest-");
    path != other
        && path.parent() == other.parent()
        && path.extension() == other.extension()
        && is_manifest(path) == is_manifest(other)
        && (path.extension().is_some() || is_manifest(path))
}
