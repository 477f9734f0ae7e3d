//! Packs: immutable files of many objects, compressed together. Reading an object decodes at most
//! three blocks.
//!
//! ```text
//! pack    | header | ids | frame | frame | ... | table of blocks | footer |
//!
//! ids     by ordinal | kinds of gone ones | slots: ordinals by id; in some archives none
//! frame   a block: objects of one kind, compressed as one, perhaps with another block as base
//! footer  counts and checksums; its own checksum is the name of the pack
//! ```
//!
//! An object has an ordinal, its position among all in the pack, and blocks hold consecutive ones.
//! Common content is stored once: similar objects share a block; older versions are compressed with
//! the block of newer ones as their base; in nodes and commits an id of an object in the pack is
//! replaced by its ordinal; and large blobs are cut into parts that they share.
//!
//! A base has at most one further base, and blocks are small, so reading an object costs one to
//! three decompressions and those of its parts. The [`Tier`] sets the size of blocks and the effort
//! of compression.
//!
//! The frames alone contain everything, so the rest can be rebuilt from them (`read/rebuild.rs`). The
//! ids are at the start, so that a pack that lost its end is still readable as far as it goes. An
//! archive may omit them: then the first read of an object reads and hashes the whole archive
//! (`read/identify.rs`). Nothing in a pack is trusted: checksums find and locate damage, and the caller
//! verifies every object against its id. Specified in `format-spec/pack.md`.

mod bundle;
mod format;
mod parity_file;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

pub(in crate::store) use self::bundle::IndexedBundle;
pub use self::bundle::{BundleDraft, BundleFile, BundleWritten, Outside};
use self::format::block::Block;
use self::format::layout::{
    BlockInfo, FOOTER_BYTES, Footer, HEADER_BYTES, PackHeader, TABLE_ENTRY_BYTES, decode_table,
    max_unlisted_objects, newer_version, note, table_checksum,
};
pub use self::format::pack_draft::PackItem;
pub(in crate::store) use self::format::pack_draft::{PackDraft, PackFileSize};
pub(in crate::store) use self::parity_file::{ParityFile, RestoredPack};
pub(in crate::store) use self::read::cache::BlockCache;
use self::read::frames::{FrameContainer, Frames};
pub(in crate::store) use self::read::ids::IdsCache;
use self::read::ids::PackIds;
use self::read::open_ids::OpenIds;
pub(in crate::store) use self::read::rebuild::RecoveredObjects;
pub use self::write::measure::PackSize;
pub(crate) use self::write::thread_priority::with_low_priority;
use super::format::codec::Effort;
use super::format::id::{StoreId, hex};
use super::format::segment::Digest;
use super::io::IoFile;
use super::medium::Medium;
use super::parity::ParityShare;
use super::{Finding, FindingKind};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{IdPrefix, Kind, ObjectId};

/// The size of blocks and the effort of compression: a smaller pack costs more of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Written during normal operation: quick to write.
    Hot,
    /// Written by compaction.
    Compacted,
    /// Written once for long-term storage: as small as possible.
    Archive,
}

impl Tier {
    /// Every tier, the largest packs first.
    pub const ALL: [Self; 3] = [Self::Hot, Self::Compacted, Self::Archive];

    /// Returns the name in commands and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Compacted => "compacted",
            Self::Archive => "archive",
        }
    }

    pub(super) const fn code(self) -> u32 {
        match self {
            Self::Hot => 1,
            Self::Compacted => 2,
            Self::Archive => 3,
        }
    }

    pub(super) fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.code() == code)
    }

    /// Returns the default parity of packs of this tier: archives are for long-term storage and
    /// have some.
    pub(super) fn parity(self) -> Option<ParityShare> {
        (self == Self::Archive).then(ParityShare::default)
    }

    /// Returns the parameters of a writer of this tier.
    ///
    /// A workload of 33 MB in a thousand turns becomes 3.74 MB in 0.2 s, 2.65 MB in 0.5 s, and
    /// undivided 2.09 MB in 7 s (full tables: 2 percent less in 15 s and twice the memory).
    /// Compacted blocks of 2 MiB at level 9 make 2.55 MB in 0.4 s, but reading the last 50 messages
    /// then takes 5.7 ms, not 3.1. These figures of compacted packs are for level 12: level 9 makes
    /// 0.9 percent more of recorded sessions, 1.1 of a session of 10,000 turns and 1.3 of 10,000
    /// sessions, in 0.84, 0.72 and 0.73 of the processor time.
    const fn parameters(self) -> Parameters {
        let (block_bytes, jobs, level) = match self {
            Self::Hot => (128 << 10, 4, 3),
            Self::Compacted => (1 << 20, 2, 9),
            Self::Archive => (8 << 20, 1, 19),
        };
        let archive = matches!(self, Self::Archive);
        let table_log = if archive { Some(22) } else { None };
        Parameters {
            block_bytes,
            grows: archive,
            max_dependent: if archive { Some(32 << 20) } else { None },
            jobs,
            effort: Effort { level, long_distance: archive, table_log },
        }
    }
}

/// The parameters of a writer; a reader needs none of them.
#[derive(Debug, Clone, Copy)]
struct Parameters {
    /// Most bytes of a block, unless a single object is larger.
    block_bytes: usize,
    /// True if the first blocks of a kind are smaller, each bounded by the size of the blocks
    /// before it.
    grows: bool,
    /// Most bytes of blocks that depend on a single base, if limited.
    max_dependent: Option<usize>,
    /// Most blocks to compress concurrently: some 20 MiB of memory for each, 50 in an archive.
    jobs: usize,
    effort: Effort,
}

/// The reason why an id has no content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tombstone {
    /// Elided by retention.
    Elided,
    /// Removed because it should never have been stored.
    Redacted,
}

impl Tombstone {
    const fn code(self) -> u8 {
        match self {
            Self::Elided => 1,
            Self::Redacted => 2,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        [Self::Elided, Self::Redacted].into_iter().find(|gone| gone.code() == code)
    }
}

/// The extension of the name of a parity file.
pub(in crate::store) const PARITY_EXTENSION: &str = "parity";

/// The name of a pack: the checksum of its footer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::store) struct PackId(pub(in crate::store) Digest);

impl PackId {
    /// Returns the id in a file name `<64 hex digits>.pack`.
    pub(in crate::store) fn from_file_name(name: &str) -> Option<Self> {
        let id: ObjectId = name.strip_suffix(".pack")?.parse().ok()?;
        Some(Self(*id.as_bytes())).filter(|id| id.file_name() == name)
    }

    pub(in crate::store) fn file_name(self) -> String {
        format!("{}.pack", hex(&self.0))
    }

    /// Returns the id in the name of a parity file, `<64 hex digits>.parity`.
    pub(in crate::store) fn from_parity_name(name: &str) -> Option<Self> {
        let stem = name.strip_suffix(PARITY_EXTENSION)?.strip_suffix('.')?;
        Self::from_file_name(&format!("{stem}.pack"))
    }

    /// Returns the name of the parity file.
    pub(in crate::store) fn parity_name(self) -> String {
        format!("{}.{PARITY_EXTENSION}", hex(&self.0))
    }
}

impl fmt::Debug for PackId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// The result of looking up an id in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum PackLookup {
    /// The pack has the object.
    Object { ordinal: u32, kind: Kind },
    /// The object was removed.
    Tombstone(Tombstone, Kind),
}

/// A pack, open to read.
#[derive(Debug)]
pub(in crate::store) struct Pack {
    id: PackId,
    tier: Tier,
    footer: Footer,
    file_bytes: u64,
    frames: Frames,
    ids: OpenIds,
}

impl Pack {
    /// Opens a pack of the store and verifies header, ids, table and footer. The frames are
    /// verified when they are read. Costs hashing some 36 bytes for each object. If the pack lists
    /// no ids, the first look-up of one reads all objects; an unreadable object is not found then,
    /// and [`Pack::problem`] reports it.
    ///
    /// # Errors
    /// `Corrupt` when it does not match its name, `Unsupported` when a newer version wrote it, `Io`
    /// when it cannot be read.
    pub(in crate::store) fn open(
        file: &Arc<dyn IoFile>,
        id: PackId,
        store: StoreId,
    ) -> Result<Self> {
        let pack = Self::over(medium_of(file, id)?, id, store)?;
        pack.check_ids()?;
        Ok(pack)
    }

    /// Opens a pack for a few look-ups, as [`Pack::open`] does, but does not verify the ids of a
    /// mapped file until needed, see [`Pack::problem`]. If the pack lists no ids, they are read
    /// from and stored in `beside`, and trusted like listed ones: with wrong ids, objects do not
    /// verify.
    ///
    /// # Errors
    /// The errors of [`Pack::open`].
    pub(in crate::store) fn open_with_cache(
        file: &Arc<dyn IoFile>,
        id: PackId,
        store: StoreId,
        beside: Box<dyn IdsCache>,
    ) -> Result<Self> {
        let medium = medium_of(file, id)?;
        // If not mapped, all ids were just read into memory, so verify them immediately.
        let is_mapped = medium.is_in_memory();
        let mut pack = Self::over(medium, id, store)?;
        if !is_mapped {
            pack.check_ids()?;
        }
        pack.ids.set_cache(beside);
        Ok(pack)
    }

    /// Returns the store of a pack, and whether it lists its ids, if its header and its footer are
    /// intact.
    ///
    /// # Errors
    /// `Io` when it cannot be mapped.
    pub(in crate::store) fn store_of(
        file: &Arc<dyn IoFile>,
        id: PackId,
    ) -> Result<Option<(StoreId, bool)>> {
        let map = map(&**file, id)?;
        let footer = Footer::decode(&map).filter(|(_, name)| *name == id);
        let header = PackHeader::decode(&map);
        let agree = header.zip(footer).filter(|((_, sum), (footer, _))| *sum == footer.header);
        Ok(agree.map(|((header, _), _)| (header.store, header.ids.is_listed())))
    }

    /// Opens a pack in memory, as [`Pack::open`] does.
    pub(in crate::store) fn in_memory(bytes: Bytes, id: PackId, store: StoreId) -> Result<Self> {
        let pack = Self::over(Medium::Memory(bytes.into()), id, store)?;
        pack.check_ids()?;
        Ok(pack)
    }

    /// Verifies the listed ids. Hashes some 36 bytes for each object, once.
    ///
    /// # Errors
    /// `Corrupt` when they differ from those written.
    pub(in crate::store) fn check_ids(&self) -> Result<()> {
        let are_damaged = self.ids.are_damaged();
        // All ids were read to verify them, and usually few are looked up.
        self.frames.release_pages();
        if are_damaged { Err(damaged_ids_error(self.id)) } else { Ok(()) }
    }

    fn over(medium: Medium, id: PackId, store: StoreId) -> Result<Self> {
        let place = || format!("packs/{}", id.file_name());
        let failed = |source| Error::io(format!("read {}", place()), source);
        let get = |offset: u64, len: usize| medium.get(offset, len).map_err(failed);
        let file_bytes = medium.size();
        let footer_at = file_bytes.saturating_sub(FOOTER_BYTES as u64);
        let end = get(footer_at, FOOTER_BYTES)?.unwrap_or_default();
        let footer = Footer::decode(&end).filter(|(_, found)| *found == id);
        let Some((footer, _)) = footer else {
            return Err(match newer_version(&end, id) {
                Some(version) => version_error(&place(), version),
                None => Error::malformed(place(), "the footer of that pack"),
            });
        };
        let header = get(0, HEADER_BYTES)?.and_then(|bytes| PackHeader::decode(&bytes));
        let agree = |header: &PackHeader| (header.salt, header.ids) == (footer.salt, footer.ids);
        let header = header.filter(|(header, sum)| *sum == footer.header && agree(header));
        let Some((header, _)) = header else {
            return Err(Error::malformed(place(), "the header of that pack"));
        };
        if header.store != store {
            return Err(Error::corrupt(place(), "a pack of this store", "a pack of another store"));
        }
        let front = footer.ids.end().filter(|end| *end as u64 <= footer_at);
        let front = front.map(|end| get(HEADER_BYTES as u64, end - HEADER_BYTES)).transpose()?;
        let front = front.flatten().ok_or_else(|| damaged_ids_error(id))?;
        let table = footer_at.checked_sub(footer.table_offset).and_then(|len| len.try_into().ok());
        let table = table.map(|len| get(footer.table_offset, len)).transpose()?.flatten();
        let Some(table) = table.and_then(|table| read_table(&table, &footer)) else {
            let place = format!("{} at {}", place(), footer.table_offset);
            return Err(Error::malformed(place, "a table of blocks"));
        };
        let table = table.into_iter().map(Some).collect();
        let frames = Frames::new(id, FrameContainer::Pack, medium, footer.salt, table);
        let info = &footer.ids;
        let ids = match info.is_listed() {
            true => OpenIds::listed(front, info).ok_or_else(|| damaged_ids_error(id))?,
            false if u64::from(info.len()) <= max_unlisted_objects(file_bytes) => {
                OpenIds::unlisted(info)
            }
            false => return Err(damaged_ids_error(id)),
        };
        Ok(Self { id, tier: header.tier, footer, file_bytes, frames, ids })
    }

    /// Returns the verified ids: the listed ones, the ones stored next to the pack, or computed
    /// ones.
    fn ids(&self) -> &PackIds {
        self.ids.verified(&self.frames)
    }

    /// Returns true if look-ups need no further verification. A pack that lists no ids computes
    /// them, or reads them completely, before its first look-up.
    pub(in crate::store) fn is_verified(&self) -> bool {
        self.ids.is_verified() || !self.lists_ids()
    }

    /// Releases the memory of all pages that were read.
    pub(in crate::store) fn release_pages(&self) {
        self.frames.release_pages();
    }

    pub(in crate::store) fn id(&self) -> PackId {
        self.id
    }

    pub(in crate::store) fn tier(&self) -> Tier {
        self.tier
    }

    /// Returns true if it lists the ids of its objects; otherwise they are computed from the
    /// objects.
    pub(in crate::store) fn lists_ids(&self) -> bool {
        self.footer.ids.is_listed()
    }

    /// Returns the size of the file.
    pub(in crate::store) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Returns the number of objects with content. Their ordinals are below this.
    pub(in crate::store) fn len(&self) -> u32 {
        self.footer.ids.objects
    }

    /// Returns the number of ids without content.
    pub(in crate::store) fn tombstone_count(&self) -> u32 {
        self.footer.ids.gone
    }

    /// Looks up `id`. For most absent ids this costs one memory access, once the ids are verified.
    /// `None` is certain once they [are](Self::is_verified).
    pub(in crate::store) fn find(&self, id: &ObjectId) -> Option<PackLookup> {
        self.ids.find(id, &self.frames).and_then(|ordinal| self.lookup_at(ordinal))
    }

    /// Returns the ids that start with `prefix`, in order.
    pub(in crate::store) fn starting_with<'a>(
        &'a self,
        prefix: &IdPrefix,
    ) -> impl Iterator<Item = (ObjectId, PackLookup)> + use<'a> {
        let found = self.ids().index.starting_with(prefix).into_iter();
        found.filter_map(|(id, ordinal)| Some((id, self.lookup_at(ordinal)?)))
    }

    /// Returns the id of the object with this ordinal.
    pub(in crate::store) fn id_at(&self, ordinal: u32) -> Option<ObjectId> {
        self.ids().index.id_at(ordinal).filter(|_| ordinal < self.len())
    }

    /// Returns the kind of the object with this ordinal.
    pub(in crate::store) fn kind_at(&self, ordinal: u32) -> Option<Kind> {
        self.frames.kind_at(ordinal)
    }

    /// Returns the ids without content.
    pub(in crate::store) fn tombstones(&self) -> impl Iterator<Item = (ObjectId, Kind, Tombstone)> {
        // The number of tombstones is known without reading the ids.
        let ids = (self.tombstone_count() > 0).then(|| self.ids());
        ids.into_iter().flat_map(PackIds::tombstones)
    }

    /// Returns the number of the block that holds an object.
    pub(in crate::store) fn block_of(&self, ordinal: u32) -> Option<u32> {
        self.frames.locate(ordinal).map(|(number, ..)| number)
    }

    /// Describes the place of an object, for errors.
    pub(in crate::store) fn place(&self, ordinal: u32) -> String {
        self.frames.place_of(ordinal)
    }

    /// Returns the bytes of an object, unverified. Costs at most three decompressions, except for
    /// large blobs, and none when the block is in the cache.
    ///
    /// # Errors
    /// `Corrupt` when the block does not verify.
    pub(in crate::store) fn read(&self, ordinal: u32, cache: &BlockCache) -> Result<Bytes> {
        self.frames.read(ordinal, cache, |link| self.ids.unverified(&self.frames).id_at(link))
    }

    /// Decodes the block with this number. Read objects of one block from it while it is held: with
    /// several threads, the cache cannot hold enough large blocks.
    ///
    /// # Errors
    /// `Corrupt` when the block does not verify.
    pub(in crate::store) fn block(&self, number: u32, cache: &BlockCache) -> Result<OpenBlock<'_>> {
        Ok(OpenBlock { pack: self, number, block: self.frames.decode(number, cache)? })
    }

    /// Returns the share of an object in the file: an equal share of its block, and those of its
    /// parts. Decodes blocks only if the pack has parts.
    ///
    /// # Errors
    /// `Corrupt` when a block does not verify.
    pub(in crate::store) fn stored_share(&self, ordinal: u32, cache: &BlockCache) -> Result<u64> {
        self.frames.stored_share(ordinal, cache)
    }

    /// Returns the raw bytes of an object, and its bytes in the file, including a share of the
    /// index. Decodes its block.
    ///
    /// # Errors
    /// `Corrupt` when the block does not verify.
    pub(in crate::store) fn sizes(&self, ordinal: u32, cache: &BlockCache) -> Result<(u32, u64)> {
        let (raw, stored) = self.frames.sizes(ordinal, cache)?;
        // Everything except the frames: ids, slots, the table of blocks.
        let front = self.footer.ids.end().map_or(0, |end| end as u64);
        let index = front + self.file_bytes().saturating_sub(self.footer.table_offset);
        Ok((raw, stored + index / u64::from(self.len().max(1))))
    }

    /// Verifies the frames: the only part of a pack that opening it does not verify.
    /// Reads the whole file.
    pub(in crate::store) fn verify_frames(&self) -> Vec<Finding> {
        let place = format!("packs/{}", self.id.file_name());
        let (errors, headers) = self.frames.verify();
        let mut messages: Vec<_> = errors.iter().map(ToString::to_string).collect();
        if messages.is_empty() && headers != self.footer.frames {
            messages.push("the frames do not match the footer".into());
        }
        let kind = FindingKind::Damage;
        let findings = messages.into_iter();
        findings.map(|message| Finding { kind, place: place.clone(), message }).collect()
    }

    fn lookup_at(&self, ordinal: u32) -> Option<PackLookup> {
        match ordinal.checked_sub(self.len()) {
            None => self.kind_at(ordinal).map(|kind| PackLookup::Object { ordinal, kind }),
            Some(at) => {
                note(&self.ids().notes, at).map(|(gone, kind)| PackLookup::Tombstone(gone, kind))
            }
        }
    }
}

/// A decoded block of a pack.
#[derive(Debug)]
pub(in crate::store) struct OpenBlock<'a> {
    pack: &'a Pack,
    number: u32,
    block: Arc<Block>,
}

impl OpenBlock<'_> {
    /// Returns the bytes that stay in memory while any object of the block is shared.
    pub(in crate::store) fn raw_bytes(&self) -> usize {
        self.block.raw().len()
    }

    /// Returns the bytes of an object in this block, unverified. They may share the memory of the
    /// block.
    ///
    /// # Errors
    /// `Corrupt` when the object is in another block, or the block is damaged.
    pub(in crate::store) fn read(&self, ordinal: u32, cache: &BlockCache) -> Result<Bytes> {
        let frames = &self.pack.frames;
        if self.pack.block_of(ordinal) != Some(self.number) {
            let here = format_args!("object {ordinal} in block {}", self.number);
            return Err(Error::corrupt(self.pack.place(ordinal), here, "it in another block"));
        }
        let id_at = |link| self.pack.ids.unverified(frames).id_at(link);
        frames.read_in(&self.block, ordinal, cache, id_at)
    }
}

/// Decodes the table of blocks that the footer describes, if it verifies.
fn read_table(table: &[u8], footer: &Footer) -> Option<Vec<BlockInfo>> {
    let whole = Some(table.len()) == (footer.blocks as usize).checked_mul(TABLE_ENTRY_BYTES)
        && table_checksum(table) == footer.table;
    if whole { decode_table(table, &footer.totals()?) } else { None }
}

/// Opens the bytes of the file of a pack.
fn medium_of(file: &Arc<dyn IoFile>, id: PackId) -> Result<Medium> {
    let failed = |source| Error::io(format!("map packs/{}", id.file_name()), source);
    Medium::of(file).map_err(failed)
}

/// Returns the error of a pack whose ids are damaged.
fn damaged_ids_error(id: PackId) -> Error {
    Error::malformed(format!("packs/{}", id.file_name()), "the ids of that pack")
}

/// Returns the error of a pack with a version that this build cannot read.
fn version_error(place: &str, version: u32) -> Error {
    let message = format!(
        "{place}: version {version} of packs is newer than this build: use a newer turntree"
    );
    Error::new(ErrorKind::Unsupported, message)
}

/// Maps the bytes of a pack.
fn map(file: &dyn IoFile, id: PackId) -> Result<Bytes> {
    let failed = |source| Error::io(format!("map packs/{}", id.file_name()), source);
    // An empty file cannot be mapped.
    match file.size().map_err(failed)? {
        0 => Ok(Bytes::new()),
        _ => file.map().map(|map| map.bytes().clone()).map_err(failed),
    }
}
