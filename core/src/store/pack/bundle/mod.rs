//! The objects of a bundle: the frames of a pack in a file of their own, without ids.
//!
//! ```text
//! bundle   | front: text | outside | operations | frame | frame | ... | table of blocks | footer |
//!
//! front    what the layer above says of the bundle; ends with an empty line
//! outside  ids that objects in here name and that are not in here: kind, why, id
//! operations  what the layer above says of how the refs came about, compressed
//! footer   counts and checksums; its own checksum covers every byte of the file
//! ```
//!
//! A pack lists the ids of its objects, which are the larger part of a small compressed session. A
//! bundle omits them, since they can be computed: an object only links to earlier objects or
//! outside ones, so a sequential reader knows the id of every link target. So objects cannot form a
//! cycle, and nothing is trusted: a changed object has another id, and so has every object that
//! references it.
//!
//! The same objects give the same bytes: the salt of the frames is the checksum of the front.
//! Specified in `format-spec/bundle.md`.

mod by_id;
mod read;
mod salvage;
mod write;

use std::io::{self, ErrorKind};
use std::sync::LazyLock;

pub(in crate::store) use self::by_id::IndexedBundle;
pub use self::read::BundleFile;
pub use self::write::{BundleDraft, BundleWritten};
use super::Tombstone;
use crate::error::Error;
use crate::object::{Checksum, ID_BYTES, Kind, ObjectId};
use crate::store::format::segment::{Digest, FieldReader};
use crate::store::pack::format::layout::{Salt, Totals, seal, verify_checksum};

/// Most bytes of the front.
pub(super) const MAX_FRONT_BYTES: u64 = 64 << 20;

/// Most bytes of the operations: some hundred thousand of them.
pub(super) const MAX_OPERATIONS_BYTES: u64 = 16 << 20;

/// Bytes of an id outside: kind, why, id.
const OUTSIDE_BYTES: usize = 2 + ID_BYTES;
/// Bytes after the table.
const FOOTER_BYTES: usize = 192;

const MAGIC: [u8; 8] = *b"\x89TTE\r\n\x1a\n";
const VERSION: u32 = 1;

static FRONT_CHECKSUM: LazyLock<Checksum> =
    LazyLock::new(|| Checksum::new("turntree v1 bundle front"));
static FOOTER_CHECKSUM: LazyLock<Checksum> =
    LazyLock::new(|| Checksum::new("turntree v1 bundle footer"));

/// The reason why a referenced object is not in a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outside {
    /// A prerequisite: the importing store must have it.
    Required,
    /// A tombstone: the exporting store lacked its content, for this reason.
    Tombstone(Tombstone),
    /// A forgotten commit: history before it is not included.
    Forgotten,
}

impl Outside {
    const ALL: [Self; 4] = [
        Self::Required,
        Self::Tombstone(Tombstone::Elided),
        Self::Tombstone(Tombstone::Redacted),
        Self::Forgotten,
    ];

    const fn code(self) -> u8 {
        match self {
            Self::Required => 0,
            Self::Tombstone(gone) => gone.code(),
            Self::Forgotten => 3,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|outside| outside.code() == code)
    }
}

/// The end of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Footer {
    objects: u32,
    outside: u32,
    parts: u32,
    blocks: u32,
    /// Stored bytes of the operations.
    operations: u32,
    /// Bytes of the text at the front.
    front_bytes: u64,
    /// Bytes of all objects.
    raw_bytes: u64,
    table_offset: u64,
    /// Raw bytes of the operations.
    operations_bytes: u64,
    /// The checksum of text, outside ids and operations.
    front: Digest,
    table: Digest,
    frames: Digest,
}

impl Footer {
    /// Encodes the footer; returns its bytes and the name of the bundle.
    fn encode(&self) -> (Vec<u8>, Digest) {
        let mut bytes = MAGIC.to_vec();
        let (blocks, operations) = (self.blocks, self.operations);
        for word in [VERSION, self.objects, self.outside, self.parts, blocks, operations] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let (table_offset, operations_bytes) = (self.table_offset, self.operations_bytes);
        for word in [self.front_bytes, self.raw_bytes, table_offset, operations_bytes] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for checksum in [self.front, self.table, self.frames] {
            bytes.extend_from_slice(&checksum);
        }
        seal(bytes, &FOOTER_CHECKSUM)
    }

    /// Decodes and verifies a footer; returns it with the name of the bundle.
    fn decode(bytes: &[u8; FOOTER_BYTES]) -> Option<(Self, Digest)> {
        let (content, name) = verify_checksum(bytes, &FOOTER_CHECKSUM)?;
        let mut fields = FieldReader(content.strip_prefix(&MAGIC)?);
        let (VERSION, objects, outside) = (fields.u32()?, fields.u32()?, fields.u32()?) else {
            return None;
        };
        let (parts, blocks, operations) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let (front_bytes, raw_bytes) = (fields.u64()?, fields.u64()?);
        let (table_offset, operations_bytes) = (fields.u64()?, fields.u64()?);
        let (front, table, frames) = (fields.take()?, fields.take()?, fields.take()?);
        let footer = Self {
            objects,
            outside,
            parts,
            blocks,
            operations,
            front_bytes,
            raw_bytes,
            table_offset,
            operations_bytes,
            front,
            table,
            frames,
        };
        Some((footer, name))
    }

    /// Returns the sums over all blocks.
    fn totals(&self) -> Option<Totals> {
        let outside = u64::from(self.outside) * OUTSIDE_BYTES as u64;
        let start = self.front_bytes.checked_add(outside)?.checked_add(self.operations.into())?;
        let (objects, parts, end) = (self.objects, self.parts, self.table_offset);
        Some(Totals { start, objects, gone: 0, parts, end })
    }
}

/// Converts an error of reading a bundle.
pub(super) fn unreadable(error: io::Error) -> Error {
    match error.kind() {
        ErrorKind::InvalidData => {
            Error::new(crate::ErrorKind::Corrupt, "the bundle is damaged").with_source(error)
        }
        _ => Error::io("read the bundle", error),
    }
}

/// Returns the checksum of the bytes before the frames.
fn front_checksum(front: &[u8]) -> Digest {
    FRONT_CHECKSUM.clone().update(front).finish()
}

/// Returns the salt of the frames after such a front.
fn salt(front: &Digest) -> Salt {
    front.first_chunk().copied().unwrap_or_default()
}

/// Appends an encoded outside id.
fn push_outside(bytes: &mut Vec<u8>, (id, kind, why): &(ObjectId, Kind, Outside)) {
    bytes.extend_from_slice(&[kind.code(), why.code()]);
    bytes.extend_from_slice(id.as_bytes());
}

/// Decodes an outside id.
fn read_outside(bytes: &[u8]) -> Option<(ObjectId, Kind, Outside)> {
    let (note, id) = bytes.split_first_chunk()?;
    let [kind, why] = *note;
    Some((ObjectId::from_slice(id)?, Kind::from_code(kind)?, Outside::from_code(why)?))
}
