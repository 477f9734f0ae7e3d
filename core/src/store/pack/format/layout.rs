//! The fixed parts of a pack: its header, the headers of its frames, its table of blocks and its
//! footer.
//!
//! ```text
//! header   | magic 8 | version 4 | tier 4 | store id 16 | salt 16 | objects 4 | gone 4 | slots 4 |
//!          | zero 4 | checksum of the ids 32 | checksum 32 |
//!
//! frame    | header 120 | stored bytes, one zstd frame |
//!  header  | magic 8 | salt 16 | block 4 | kind 1 | zero 3 | first 4 | objects 4 | base + 1 4 |
//!          | raw bytes 4 | stored bytes 4 | zero 4 | checksum of the stored bytes 32 | checksum 32 |
//!
//! table    | kind 1 | zero 3 | objects 4 | base + 1 4 | raw bytes 4 | stored bytes 4 |  a block
//!
//! footer   | magic 8 | version 4 | objects 4 | gone 4 | slots 4 | parts 4 | blocks 4 | salt 16 |
//!          | offset of the table 8 | checksum of the ids 32 | checksum of the table 32 |
//!          | checksum of the header 32 | checksum of the checksums of all frame headers 32 |
//!          | checksum 32 |
//! ```
//!
//! The last checksum is the name of the pack. Through the other checksums it covers everything.
//! Specified in `format-spec/pack.md`.

use std::sync::LazyLock;

use super::index::slots_bytes;
use crate::object::{Checksum, ID_BYTES, Kind};
use crate::store::format::codec::is_plausible_block;
use crate::store::format::id::StoreId;
use crate::store::format::segment::{CHECKSUM_BYTES, Digest, FieldReader};
use crate::store::pack::{PackId, Tier, Tombstone};

/// Bytes of the header; the ids follow.
pub(in crate::store::pack) const HEADER_BYTES: usize = 128;
/// Bytes of the header of a frame.
pub(in crate::store::pack) const FRAME_HEADER_BYTES: usize = 120;
/// Bytes after the table.
pub(in crate::store::pack) const FOOTER_BYTES: usize = 216;
/// Bytes of a block in the table.
pub(in crate::store::pack) const TABLE_ENTRY_BYTES: usize = 20;
/// Bytes of a gone id in its block: kind, reason, id.
pub(in crate::store::pack) const GONE_ENTRY_BYTES: usize = 2 + ID_BYTES;
/// Bytes of the note on a gone id, stored separately from the ids: kind, reason.
pub(in crate::store::pack) const GONE_NOTE_BYTES: usize = 2;

/// The magic of a frame; alone it means nothing.
pub(in crate::store::pack) const FRAME_MAGIC: [u8; 8] = *b"\x89TTB\r\n\x1a\n";

/// Most raw bytes of a block.
pub(super) const MAX_BLOCK_BYTES: u32 = 16 << 20;
/// Most entries of a block.
pub(in crate::store::pack) const MAX_BLOCK_OBJECTS: u32 = 1 << 16;
/// Most successive bases of a block: its base, and the base of that.
pub(in crate::store::pack) const MAX_BASES: usize = 2;
/// Most objects of a pack, gone ones included; most parts, and most blocks.
pub(in crate::store::pack) const MAX_OBJECTS: u32 = 1 << 30;

/// Most objects of a file without their ids: a fixed number, and a number for each of its bytes.
/// Bounds the memory of a reader, which keeps the id of each. A writer needs some bytes for each
/// object.
pub(in crate::store::pack) const OBJECTS_OF_ANY: u64 = 1 << 16;
const OBJECTS_PER_BYTE: u64 = 4;

const HEADER_MAGIC: [u8; 8] = *b"\x89TTP\r\n\x1a\n";
const FOOTER_MAGIC: [u8; 8] = *b"\x89TTF\r\n\x1a\n";
/// The version of a pack that lists its ids, and of one without ids.
const WITH_IDS_VERSION: u32 = 1;
const WITHOUT_IDS_VERSION: u32 = 2;
const HEADER_CONTEXT: &str = "turntree v1 pack header";
pub(in crate::store::pack) const IDS_CONTEXT: &str = "turntree v1 pack ids";
const TABLE_CONTEXT: &str = "turntree v1 pack table";
const FRAMES_CONTEXT: &str = "turntree v1 pack frames";
const FOOTER_CONTEXT: &str = "turntree v1 pack footer";

/// The codes of blocks that hold no objects; the other codes are those of the kind.
const GONE_CODE: u8 = 254;
const PARTS_CODE: u8 = 255;

static FRAME_CHECKSUM: LazyLock<Checksum> =
    LazyLock::new(|| Checksum::new("turntree v1 pack frame header"));
static STORED_CHECKSUM: LazyLock<Checksum> =
    LazyLock::new(|| Checksum::new("turntree v1 pack frame"));

/// Random bytes of a pack, unpredictable when its payloads were written.
pub(in crate::store::pack) type Salt = [u8; 16];

/// The content of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::pack) enum BlockKind {
    /// Objects of one kind.
    Objects(Kind),
    /// Ids without content.
    Tombstone,
    /// Parts of large blobs.
    Parts,
}

impl BlockKind {
    pub(in crate::store::pack) fn code(self) -> u8 {
        match self {
            Self::Objects(kind) => kind.code(),
            Self::Tombstone => GONE_CODE,
            Self::Parts => PARTS_CODE,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        match code {
            GONE_CODE => Some(Self::Tombstone),
            PARTS_CODE => Some(Self::Parts),
            code => Kind::from_code(code).map(Self::Objects),
        }
    }
}

/// The description of a block in the table of a pack and in the header of its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::pack) struct BlockInfo {
    pub(in crate::store::pack) kind: BlockKind,
    /// The first ordinal in the block; for parts, the number of the first part.
    pub(in crate::store::pack) first: u32,
    pub(in crate::store::pack) objects: u32,
    /// The block that is the dictionary of its frame.
    pub(in crate::store::pack) base: Option<u32>,
    pub(in crate::store::pack) raw_bytes: u32,
    pub(in crate::store::pack) stored_bytes: u32,
    /// The offset of its frame in the file.
    pub(in crate::store::pack) offset: u64,
}

impl BlockInfo {
    /// Returns the stored bytes for each object of the block.
    pub(in crate::store::pack) fn share(&self) -> u64 {
        u64::from(self.stored_bytes) / u64::from(self.objects.max(1))
    }

    /// Returns true if the sizes and counts are possible for a block of this number. Checked before
    /// anything is allocated.
    fn is_consistent(&self, number: u32) -> bool {
        (1..=MAX_BLOCK_OBJECTS).contains(&self.objects)
            && self.first.checked_add(self.objects).is_some_and(|end| end <= MAX_OBJECTS)
            && (self.objects..=MAX_BLOCK_BYTES).contains(&self.raw_bytes)
            && is_plausible_block(self.stored_bytes, self.raw_bytes)
            && self.base.is_none_or(|base| base < number)
            && (self.kind != BlockKind::Tombstone
                || self.raw_bytes as usize == self.objects as usize * GONE_ENTRY_BYTES)
    }

    /// Returns the offset of the next frame. The limits rule out an overflow.
    pub(in crate::store::pack) fn end(&self) -> u64 {
        self.offset + FRAME_HEADER_BYTES as u64 + u64::from(self.stored_bytes)
    }
}

/// The number of ids in a pack, and their checksum. Both header and footer contain them, in case
/// one is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::pack) struct IdsInfo {
    pub(in crate::store::pack) objects: u32,
    pub(in crate::store::pack) gone: u32,
    /// Zero in a pack that does not list its ids.
    pub(in crate::store::pack) slots: u32,
    pub(in crate::store::pack) checksum: Digest,
}

impl IdsInfo {
    /// Returns the number of objects and gone ids. The limits rule out an overflow.
    pub(in crate::store::pack) fn len(&self) -> u32 {
        self.objects + self.gone
    }

    /// Returns true if the pack lists its ids; otherwise they are computed from its frames.
    pub(in crate::store::pack) fn is_listed(&self) -> bool {
        self.slots > 0
    }

    /// Returns the version of a pack with such ids.
    fn version(&self) -> u32 {
        if self.is_listed() { WITH_IDS_VERSION } else { WITHOUT_IDS_VERSION }
    }

    /// Returns the bytes of the ids: column, notes on gone ones, slots.
    pub(in crate::store::pack) fn bytes(&self) -> Option<[usize; 3]> {
        if !self.is_listed() {
            return Some([0; 3]);
        }
        let column = (self.len() as usize).checked_mul(ID_BYTES)?;
        let notes = (self.gone as usize).checked_mul(GONE_NOTE_BYTES)?;
        Some([column, notes, slots_bytes(self.slots, self.len())?])
    }

    /// Returns the offset of the first frame.
    pub(in crate::store::pack) fn end(&self) -> Option<usize> {
        self.bytes()?.into_iter().try_fold(HEADER_BYTES, usize::checked_add)
    }

    fn is_consistent(&self) -> bool {
        self.objects.checked_add(self.gone).is_some_and(|ids| ids <= MAX_OBJECTS)
    }
}

/// The header of a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store::pack) struct PackHeader {
    pub(in crate::store::pack) tier: Tier,
    pub(in crate::store::pack) store: StoreId,
    pub(in crate::store::pack) salt: Salt,
    pub(in crate::store::pack) ids: IdsInfo,
}

impl PackHeader {
    /// Encodes the header; returns its bytes and their checksum.
    pub(in crate::store::pack) fn encode(&self) -> (Vec<u8>, Digest) {
        let mut bytes = HEADER_MAGIC.to_vec();
        bytes.extend_from_slice(&self.ids.version().to_le_bytes());
        bytes.extend_from_slice(&self.tier.code().to_le_bytes());
        bytes.extend_from_slice(&self.store.0);
        bytes.extend_from_slice(&self.salt);
        for word in [self.ids.objects, self.ids.gone, self.ids.slots, 0] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&self.ids.checksum);
        seal(bytes, &Checksum::new(HEADER_CONTEXT))
    }

    /// Decodes and verifies the header at the start of `bytes`; returns it with its checksum.
    pub(in crate::store::pack) fn decode(bytes: &[u8]) -> Option<(Self, Digest)> {
        let (content, header) =
            verify_checksum::<HEADER_BYTES>(bytes.first_chunk()?, &Checksum::new(HEADER_CONTEXT))?;
        let mut fields = FieldReader(content.strip_prefix(&HEADER_MAGIC)?);
        let version = fields.u32()?;
        let tier = Tier::from_code(fields.u32()?)?;
        let (store, salt) = (StoreId(fields.take()?), fields.take()?);
        let (objects, gone, slots, 0) =
            (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?)
        else {
            return None;
        };
        let ids = IdsInfo { objects, gone, slots, checksum: fields.take()? };
        let known = version == ids.version();
        (known && ids.is_consistent()).then_some((Self { tier, store, salt, ids }, header))
    }
}

/// The header of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store::pack) struct FrameHeader {
    pub(in crate::store::pack) number: u32,
    pub(in crate::store::pack) block: BlockInfo,
    /// Checksum of the stored bytes.
    pub(in crate::store::pack) stored: Digest,
}

impl FrameHeader {
    /// Encodes the header; returns its bytes and their checksum.
    pub(in crate::store::pack) fn encode(&self, salt: &Salt) -> (Vec<u8>, Digest) {
        let block = &self.block;
        let mut bytes = FRAME_MAGIC.to_vec();
        bytes.extend_from_slice(salt);
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&[block.kind.code(), 0, 0, 0]);
        let base = block.base.map_or(0, |base| base + 1);
        for word in [block.first, block.objects, base, block.raw_bytes, block.stored_bytes, 0] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&self.stored);
        seal(bytes, &FRAME_CHECKSUM)
    }

    /// Decodes and verifies the header at the start of `bytes`, which are at `offset` in the file.
    /// Returns it with its checksum; `None` if it has another salt.
    pub(in crate::store::pack) fn decode(
        bytes: &[u8],
        offset: u64,
        salt: &Salt,
    ) -> Option<(Self, Digest)> {
        let bytes = bytes.first_chunk::<FRAME_HEADER_BYTES>()?;
        let mut fields = FieldReader(bytes.strip_prefix(&FRAME_MAGIC)?);
        if fields.take()? != *salt {
            return None;
        }
        let (_, checksum) = verify_checksum(bytes, &FRAME_CHECKSUM)?;
        let number = fields.u32()?;
        let [kind, 0, 0, 0] = fields.take()? else { return None };
        let kind = BlockKind::from_code(kind)?;
        let (first, objects, base) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let (raw_bytes, stored_bytes, 0) = (fields.u32()?, fields.u32()?, fields.u32()?) else {
            return None;
        };
        let base = base.checked_sub(1);
        let block = BlockInfo { kind, first, objects, base, raw_bytes, stored_bytes, offset };
        let header = Self { number, block, stored: fields.take()? };
        // Each of the `number` earlier blocks has a frame before this one.
        let reachable = u64::from(number) <= offset / FRAME_HEADER_BYTES as u64;
        (reachable && block.is_consistent(number)).then_some((header, checksum))
    }
}

/// Returns the checksum of the stored bytes of a frame.
pub(in crate::store::pack) fn stored_checksum(stored: &[u8]) -> Digest {
    STORED_CHECKSUM.clone().update(stored).finish()
}

/// Returns the checksum of the ids, whose bytes may be split into parts.
pub(in crate::store::pack) fn ids_checksum<'b>(
    parts: impl IntoIterator<Item = &'b [u8]>,
) -> Digest {
    let mut checksum = Checksum::new(IDS_CONTEXT);
    for part in parts {
        checksum.update(part);
    }
    checksum.finish()
}

/// Returns the checksum of the table of blocks.
pub(in crate::store::pack) fn table_checksum(table: &[u8]) -> Digest {
    Checksum::new(TABLE_CONTEXT).update(table).finish()
}

/// Returns a hasher for the checksums of all frame headers, in order.
pub(in crate::store::pack) fn frames_checksum() -> Checksum {
    Checksum::new(FRAMES_CONTEXT)
}

/// The footer of a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store::pack) struct Footer {
    pub(in crate::store::pack) ids: IdsInfo,
    pub(in crate::store::pack) parts: u32,
    pub(in crate::store::pack) blocks: u32,
    pub(in crate::store::pack) salt: Salt,
    pub(in crate::store::pack) table_offset: u64,
    pub(in crate::store::pack) table: Digest,
    pub(in crate::store::pack) header: Digest,
    pub(in crate::store::pack) frames: Digest,
}

impl Footer {
    /// Encodes the footer; returns its bytes and the name of the pack.
    pub(in crate::store::pack) fn encode(&self) -> (Vec<u8>, PackId) {
        let mut bytes = FOOTER_MAGIC.to_vec();
        let IdsInfo { objects, gone, slots, checksum } = self.ids;
        for word in [self.ids.version(), objects, gone, slots, self.parts, self.blocks] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&self.salt);
        bytes.extend_from_slice(&self.table_offset.to_le_bytes());
        for checksum in [checksum, self.table, self.header, self.frames] {
            bytes.extend_from_slice(&checksum);
        }
        let (bytes, checksum) = seal(bytes, &Checksum::new(FOOTER_CONTEXT));
        (bytes, PackId(checksum))
    }

    /// Returns the sums over all blocks.
    pub(in crate::store::pack) fn totals(&self) -> Option<Totals> {
        let IdsInfo { objects, gone, .. } = self.ids;
        let start = self.ids.end()? as u64;
        Some(Totals { start, objects, gone, parts: self.parts, end: self.table_offset })
    }

    /// Decodes and verifies the footer at the end of a pack; returns it with the name of the pack.
    pub(in crate::store::pack) fn decode(pack: &[u8]) -> Option<(Self, PackId)> {
        let bytes = pack.last_chunk::<FOOTER_BYTES>()?;
        let (content, name) = verify_checksum(bytes, &Checksum::new(FOOTER_CONTEXT))?;
        let mut fields = FieldReader(content.strip_prefix(&FOOTER_MAGIC)?);
        let version = fields.u32()?;
        let (objects, gone, slots) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let (parts, blocks, salt) = (fields.u32()?, fields.u32()?, fields.take()?);
        let table_offset = fields.u64()?;
        let ids = IdsInfo { objects, gone, slots, checksum: fields.take()? };
        let (table, header, frames) = (fields.take()?, fields.take()?, fields.take()?);
        let footer = Self { ids, parts, blocks, salt, table_offset, table, header, frames };
        let known = version == ids.version();
        let fits = known && ids.is_consistent() && parts.max(blocks) <= MAX_OBJECTS;
        fits.then_some((footer, PackId(name)))
    }
}

/// Returns the reason and kind of the gone id at this position.
pub(in crate::store::pack) fn note(notes: &[u8], at: u32) -> Option<(Tombstone, Kind)> {
    let start = (at as usize).checked_mul(GONE_NOTE_BYTES)?;
    let [kind, gone] = *notes.get(start..)?.first_chunk()?;
    Some((Tombstone::from_code(gone)?, Kind::from_code(kind)?))
}

/// Returns the version in an intact footer, if it is newer than this build can read.
pub(in crate::store::pack) fn newer_version(footer: &[u8], id: PackId) -> Option<u32> {
    let (content, name) =
        verify_checksum::<FOOTER_BYTES>(footer.try_into().ok()?, &Checksum::new(FOOTER_CONTEXT))?;
    let mut fields = FieldReader(content.strip_prefix(&FOOTER_MAGIC)?);
    fields.u32().filter(|version| *version > WITHOUT_IDS_VERSION && name == id.0)
}

/// Returns the most objects of a file of `file_bytes` that does not list their ids.
pub(in crate::store::pack) fn max_unlisted_objects(file_bytes: u64) -> u64 {
    OBJECTS_OF_ANY.saturating_add(file_bytes.saturating_mul(OBJECTS_PER_BYTE))
}

/// The sums over all blocks of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::pack) struct Totals {
    /// The offset of the first frame.
    pub(in crate::store::pack) start: u64,
    pub(in crate::store::pack) objects: u32,
    /// Gone ids in blocks.
    pub(in crate::store::pack) gone: u32,
    pub(in crate::store::pack) parts: u32,
    /// The end of the last frame.
    pub(in crate::store::pack) end: u64,
}

/// Encodes the table of blocks.
pub(in crate::store::pack) fn encode_table(blocks: &[BlockInfo]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(blocks.len() * TABLE_ENTRY_BYTES);
    for block in blocks {
        bytes.extend_from_slice(&[block.kind.code(), 0, 0, 0]);
        let base = block.base.map_or(0, |base| base + 1);
        for word in [block.objects, base, block.raw_bytes, block.stored_bytes] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
    }
    bytes
}

/// Decodes a table of blocks, if the blocks add up to these totals.
pub(in crate::store::pack) fn decode_table(
    table: &[u8],
    totals: &Totals,
) -> Option<Vec<BlockInfo>> {
    let mut blocks: Vec<BlockInfo> = Vec::new();
    // The number of successive bases of each block.
    let mut bases_of: Vec<usize> = Vec::new();
    let mut offset = totals.start;
    let (mut objects, mut gone, mut parts) = (0, totals.objects, 0);
    for (number, entry) in (0..).zip(table.chunks(TABLE_ENTRY_BYTES)) {
        let mut fields = FieldReader(entry);
        let [kind, 0, 0, 0] = fields.take()? else { return None };
        let kind = BlockKind::from_code(kind)?;
        let next = match kind {
            BlockKind::Objects(_) => &mut objects,
            BlockKind::Tombstone => &mut gone,
            BlockKind::Parts => &mut parts,
        };
        let first = *next;
        let (count, base) = (fields.u32()?, fields.u32()?.checked_sub(1));
        let (raw_bytes, stored_bytes) = (fields.u32()?, fields.u32()?);
        let block =
            BlockInfo { kind, first, objects: count, base, raw_bytes, stored_bytes, offset };
        let bases = base.map_or(Some(0), |base| Some(bases_of.get(base as usize)? + 1))?;
        if !block.is_consistent(number) || bases > MAX_BASES {
            return None;
        }
        bases_of.push(bases);
        *next = first.checked_add(count)?;
        offset = block.end();
        blocks.push(block);
    }
    let all = objects == totals.objects
        && gone == totals.objects.checked_add(totals.gone)?
        && parts == totals.parts
        && offset == totals.end;
    all.then_some(blocks)
}

/// Appends the checksum of `bytes` to them; returns both.
pub(in crate::store::pack) fn seal(mut bytes: Vec<u8>, checksum: &Checksum) -> (Vec<u8>, Digest) {
    let checksum = checksum.clone().update(&bytes).finish();
    bytes.extend_from_slice(&checksum);
    (bytes, checksum)
}

/// Splits off the checksum at the end of `bytes`, if it verifies.
pub(in crate::store::pack) fn verify_checksum<'a, const N: usize>(
    bytes: &'a [u8; N],
    checksum: &Checksum,
) -> Option<(&'a [u8], Digest)> {
    let (content, expected) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
    (checksum.clone().update(content).finish() == *expected).then_some((content, *expected))
}
