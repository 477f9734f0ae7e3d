//! Derived files: data computed from a pack and stored next to it, to answer queries faster.
//!
//! ```text
//! packs/<name>.pack          the objects
//! derived/<name>.changes     what follows from them: parts, each one zstd frame, and a checksum
//! derived/<name>.ids         their ids, if the pack lists none: see `derived_ids.rs`
//! ```
//!
//! A file is created after a manifest lists its pack, and removed after the pack was removed; both
//! only under the collector's lock. The files are optional: one that is missing, torn, damaged, or
//! of another pack is ignored. So they are never synced, and a failure to write one is not an
//! error. The layer above defines the content of the parts. Specified in `format-spec/changes.md`.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::derived_ids;
use super::dir::failed;
use super::format::codec::{Effort, compress_block, decompress_block, is_plausible_block};
use super::format::id::{StoreId, hex};
use super::format::segment::{CHECKSUM_BYTES, Digest, FieldReader};
use super::io::Access;
use super::pack::{Pack, PackId, PackLookup};
use super::replace::collect::Collection;
use super::{DERIVED_DIR, Store, read};
use crate::error::{Error, Result};
use crate::object::{Checksum, Kind, ObjectId};

const EXTENSION: &str = ".changes";
const TEMPORARY: &str = ".tmp";

const MAGIC: [u8; 8] = *b"\x89TTD\r\n\x1a\n";
const VERSION: u32 = 1;
const CONTEXT: &str = "turntree v1 derived file";

/// Magic, version, number of parts.
const HEADER_BYTES: usize = 16;
/// Stored and raw bytes of a part. These entries precede all parts.
const PART_ENTRY_BYTES: usize = 8;

/// Most raw bytes of a part.
const MAX_PART_BYTES: u32 = 16 << 20;

/// A derived file may be larger than its pack by this much. Bounds the bytes read into memory.
const SPARE_BYTES: u64 = 64 << 10;

/// Files are small and written during collections: a higher level gains little on parts that are
/// mostly small numbers.
const EFFORT: Effort = Effort { level: 9, long_distance: false, table_log: None };

/// A pack, for code that derives data from it.
#[derive(Debug, Clone)]
pub(crate) struct PackHandle(Arc<Pack>);

/// A derived file with a valid checksum.
#[derive(Debug)]
pub(crate) struct DerivedFile {
    bytes: Bytes,
    parts: Vec<DerivedPart>,
}

/// The place of a part, and its size.
#[derive(Debug)]
struct DerivedPart {
    start: usize,
    stored_bytes: u32,
    raw_bytes: u32,
}

impl PackHandle {
    /// Returns the ordinal of an object in the pack.
    pub(crate) fn ordinal(&self, id: &ObjectId) -> Option<u32> {
        match self.0.find(id)? {
            PackLookup::Object { ordinal, .. } => Some(ordinal),
            PackLookup::Tombstone(..) => None,
        }
    }

    /// Returns the id of the object with an ordinal.
    pub(crate) fn id_at(&self, ordinal: u32) -> Option<ObjectId> {
        self.0.id_at(ordinal)
    }

    /// Returns the objects of a kind, in storage order.
    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = ObjectId> {
        self.0.of_kind(kind).map(|(_, id)| id)
    }

    /// Returns the number of objects of a kind. Visits each block.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.0.ordinals_of(kind).map(|block| block.len()).sum()
    }

    /// Returns the path of its derived file in the store.
    pub(crate) fn derived_name(&self) -> String {
        format!("{DERIVED_DIR}/{}", file_name(self.0.id()))
    }
}

impl DerivedFile {
    /// Decodes a file, if it is complete and belongs to this pack.
    fn decode(bytes: Bytes, store: StoreId, pack: PackId) -> Option<Self> {
        let end = bytes.len().checked_sub(CHECKSUM_BYTES)?;
        let (content, found) = bytes.split_at_checked(end)?;
        if checksum(content, store, pack) != *found {
            return None;
        }
        let mut fields = FieldReader(content);
        let is_known = fields.take()? == MAGIC && fields.u32()? == VERSION;
        let count = fields.u32().filter(|_| is_known)? as usize;
        let mut start = count.checked_mul(PART_ENTRY_BYTES)?.checked_add(HEADER_BYTES)?;
        let mut parts = Vec::new();
        for _ in 0..count {
            let (stored_bytes, raw_bytes) = (fields.u32()?, fields.u32()?);
            parts.push(DerivedPart { start, stored_bytes, raw_bytes });
            start = start.checked_add(stored_bytes as usize)?;
        }
        (start == end).then_some(Self { bytes, parts })
    }

    /// Encodes parts as a derived file.
    ///
    /// # Errors
    /// `LimitExceeded` for a part that is too large, `Io` when compression fails.
    fn encode(parts: &[Vec<u8>], store: StoreId, pack: PackId) -> Result<Vec<u8>> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&u32::try_from(parts.len()).unwrap_or(u32::MAX).to_le_bytes());
        let mut frames = Vec::new();
        for part in parts {
            let raw_bytes = u32::try_from(part.len()).unwrap_or(u32::MAX);
            if raw_bytes > MAX_PART_BYTES {
                let (most, found) = (MAX_PART_BYTES.into(), part.len() as u64);
                return Err(Error::limit("bytes of a part of a derived file", most, found));
            }
            let frame = compress_block(part, &[], EFFORT);
            let frame = frame.map_err(|error| Error::io("compress a derived file", error))?;
            let stored_bytes = u32::try_from(frame.len()).unwrap_or(u32::MAX);
            bytes.extend_from_slice(&stored_bytes.to_le_bytes());
            bytes.extend_from_slice(&raw_bytes.to_le_bytes());
            frames.push(frame);
        }
        frames.iter().for_each(|frame| bytes.extend_from_slice(frame));
        let checksum = checksum(&bytes, store, pack);
        bytes.extend_from_slice(&checksum);
        Ok(bytes)
    }

    /// Returns the number of parts.
    pub(crate) fn len(&self) -> usize {
        self.parts.len()
    }

    /// Decompresses a part; returns `None` if it does not exist or is damaged.
    pub(crate) fn part(&self, number: usize) -> Option<Bytes> {
        let DerivedPart { start, stored_bytes, raw_bytes } = *self.parts.get(number)?;
        let stored = self.bytes.get(start..start.checked_add(stored_bytes as usize)?)?;
        let fits = raw_bytes <= MAX_PART_BYTES && is_plausible_block(stored_bytes, raw_bytes);
        let raw = fits.then(|| decompress_block(stored, &[], raw_bytes))?;
        raw.ok().map(Bytes::from)
    }
}

/// Returns the checksum of the content of a file. It covers the pack and the store.
fn checksum(content: &[u8], store: StoreId, pack: PackId) -> Digest {
    Checksum::new(CONTEXT).update(&store.0).update(&pack.0).update(content).finish()
}

fn file_name(pack: PackId) -> String {
    format!("{}{EXTENSION}", hex(&pack.0))
}

/// Returns the pack in the name of a derived file.
pub(in crate::store) fn pack_of(name: &str) -> Option<PackId> {
    let stem = name.strip_suffix(EXTENSION)?;
    PackId::from_file_name(&format!("{stem}.pack"))
}

impl Store {
    /// Returns the packs of this view, oldest first.
    pub(crate) fn packs(&self) -> Vec<PackHandle> {
        read(&self.view).files.packs.iter().map(|pack| PackHandle(Arc::clone(pack))).collect()
    }

    /// Reads and verifies the derived file of a pack. Returns `None` if it is missing or damaged.
    pub(crate) fn derived(&self, pack: &PackHandle) -> Option<DerivedFile> {
        let path = self.derived_folder().join(file_name(pack.0.id()));
        let file = self.io.open_if_exists(&path, Access::Read).ok()??;
        let most = pack.0.file_bytes().saturating_add(SPARE_BYTES);
        let bytes = file.size().ok().filter(|bytes| *bytes <= most)?;
        let mut content = vec![0; usize::try_from(bytes).ok()?];
        let read = file.read_at(&mut content, 0).ok()?;
        content.truncate(read);
        DerivedFile::decode(content.into(), self.superblock.store, pack.0.id())
    }

    /// Returns the bytes of all derived files, and those of the ids among them.
    ///
    /// # Errors
    /// `Io` when the disk refuses.
    pub(in crate::store) fn derived_bytes(&self) -> Result<(u64, u64)> {
        let folder = self.derived_folder();
        let (mut all, mut ids) = (0, 0);
        for name in self.io.list_or_empty(&folder)? {
            let path = folder.join(&name);
            // A collection may have removed it since the folder was listed.
            let Some(file) = self.io.open_if_exists(&path, Access::Read)? else { continue };
            let bytes = file.size().map_err(failed("inspect", &path))?;
            all += bytes;
            ids += derived_ids::pack_of(&name).map_or(0, |_| bytes);
        }
        Ok((all, ids))
    }

    fn derived_folder(&self) -> PathBuf {
        self.dir.join(DERIVED_DIR)
    }
}

impl Collection<'_> {
    /// Completes the derived files of packs for which `wants` returns true. A file that is not
    /// `is_current` is rebuilt by `make`, unless that returns no parts. Derived files of other
    /// packs are removed.
    ///
    /// # Errors
    /// `Io` when the disk refuses: then some files are missing, which is harmless.
    pub(crate) fn complete_derived(
        &self,
        wants: &dyn Fn(&PackHandle) -> bool,
        is_current: &dyn Fn(&PackHandle, DerivedFile) -> bool,
        make: &dyn Fn(&PackHandle) -> Vec<Vec<u8>>,
    ) -> Result<()> {
        let store = self.store;
        let packs: Vec<PackHandle> = store.packs().into_iter().filter(wants).collect();
        let folder = store.derived_folder();
        let mut present = store.io.list_or_empty(&folder)?;
        if packs.is_empty() && present.is_empty() {
            return Ok(());
        }
        let all = store.packs();
        let is_kept = |name: &String| {
            packs.iter().any(|pack| file_name(pack.0.id()) == *name)
                || all.iter().any(|pack| derived_ids::is_of(name, pack.0.id()))
        };
        store.check_collector(&*self.collector)?;
        for name in present.iter().filter(|name| !is_kept(name)) {
            store.io.remove_if_exists(&folder.join(name))?;
        }
        present.retain(is_kept);
        for pack in &packs {
            let name = file_name(pack.0.id());
            let is_there = present.contains(&name);
            let found = if is_there { store.derived(pack) } else { None };
            if found.is_some_and(|found| is_current(pack, found)) {
                continue;
            }
            if is_there {
                store.io.remove_if_exists(&folder.join(&name))?;
            }
            let parts = make(pack);
            if !parts.is_empty() {
                self.write_derived(pack, &parts)?;
            }
        }
        Ok(())
    }

    fn write_derived(&self, pack: &PackHandle, parts: &[Vec<u8>]) -> Result<()> {
        let store = self.store;
        let bytes = DerivedFile::encode(parts, store.superblock.store, pack.0.id())?;
        if bytes.len() as u64 > pack.0.file_bytes().saturating_add(SPARE_BYTES) {
            // Readers reject such a file, and it would save no time.
            return Ok(());
        }
        let folder = store.derived_folder();
        store.io.create_dir_if_missing(&folder)?;
        let path = folder.join(file_name(pack.0.id()));
        let temporary = folder.join(file_name(pack.0.id()) + TEMPORARY);
        store.io.remove_if_exists(&temporary)?;
        let file = store.io.create(&temporary).map_err(failed("write", &temporary))?;
        let written = file.write_at(&bytes, 0).map_err(failed("write", &temporary));
        let written = written.and_then(|()| {
            store.check_collector(&*self.collector)?;
            store.io.replace(&temporary, &path).map_err(failed("publish", &path))
        });
        written.inspect_err(|_| {
            let _ = store.io.remove(&temporary);
        })
    }

    /// Removes all derived files: they may name content that is about to be removed.
    ///
    /// # Errors
    /// `Io`, naming the file that cannot be removed.
    pub(crate) fn remove_derived(&self) -> Result<()> {
        let store = self.store;
        let folder = store.derived_folder();
        let names = store.io.list_or_empty(&folder)?;
        store.check_collector(&*self.collector)?;
        for name in &names {
            store.io.remove_if_exists(&folder.join(name))?;
        }
        match names.is_empty() {
            true => Ok(()),
            false => store.io.sync_names(&folder),
        }
    }
}
