//! Detects a store that lost its superblock, never creates a new store over it, and rebuilds the
//! superblock.
//!
//! Without a superblock a directory is not a store, so a new store could be created in it. Existing
//! files of the old store would then belong to another store, and a repair would quarantine them.
//! Every manifest, segment and pack contains the id of its store, so the superblock can be rebuilt
//! if they agree.

use std::path::Path;

use super::orphaned_files::file_of_store;
use super::quarantine;
use crate::error::{Error, ErrorKind, Result};
use crate::store::dir::failed;
use crate::store::encryption::EncryptedIo;
use crate::store::format::id::{SegmentId, StoreId};
use crate::store::format::manifest::{self, Manifest};
use crate::store::format::segment::{SEGMENT_HEADER_BYTES, encode_segment_header};
use crate::store::format::superblock::{self, Superblock, SuperblockContent};
use crate::store::io::{Access, Io};
use crate::store::pack::{Pack, PackId};
use crate::store::{JOURNAL_DIR, PACKS_DIR, SUPERBLOCK_FILE, Store, StoreKeys};

/// Offsets of the store id in a manifest and in a segment.
const ID_IN_MANIFEST: usize = 24;
const ID_IN_SEGMENT: usize = 32;

impl Store {
    /// Returns true if `dir` has files of a store, and a missing or damaged superblock.
    ///
    /// # Errors
    /// `Io` when it cannot be read.
    pub fn has_lost_superblock(io: &dyn Io, dir: &Path) -> Result<bool> {
        match Superblock::open(io, dir) {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                Ok(file_of_store(io, dir)?.is_some())
            }
            Err(error) if error.kind() == ErrorKind::Io => Err(error),
            _ => Ok(false),
        }
    }

    /// Rebuilds the superblock of the store in `dir` from its files. An encrypted store needs its
    /// `keys`. A damaged superblock is quarantined.
    ///
    /// # Errors
    /// `Corrupt` when the files do not identify a single store; `InvalidInput` when the superblock
    /// is intact; `Io` when it cannot be written. Nothing is changed then.
    pub fn remake_superblock(io: &dyn Io, dir: &Path, keys: Option<StoreKeys>) -> Result<()> {
        // No enciphered file is written here, so no seed is needed.
        let deciphered = keys.map(|keys| EncryptedIo::new(io, keys, [0; 16]));
        let io = deciphered.as_ref().map_or(io, |io| io as &dyn Io);
        let packs = stores_of_packs(io, dir)?;
        let allows_without_ids = packs.iter().any(|(_, lists_ids)| !lists_ids);
        let mut ids = stores_of_manifests(io, dir)?;
        ids.extend(stores_of_segments(io, dir)?);
        ids.extend(packs.into_iter().map(|(store, _)| store));
        ids.sort_unstable_by_key(|id| id.0);
        ids.dedup();
        match *ids {
            [store] => {
                let path = dir.join(SUPERBLOCK_FILE);
                if Self::has_lost_superblock(io, dir)? {
                    quarantine::move_files(io, dir, &[path])?;
                }
                let keys = keys.map(|keys| keys.names());
                let content = SuperblockContent { store, keys, allows_without_ids };
                superblock::create(io, dir, &content)
            }
            [] => Err(Error::corrupt(dir.display(), "files with the id of their store", "none")),
            _ => Err(Error::corrupt(dir.display(), "files of one store", "files of several")),
        }
    }
}

fn stores_of_manifests(io: &dyn Io, dir: &Path) -> Result<Vec<StoreId>> {
    let mut ids = Vec::new();
    for name in io.list_or_empty(dir)? {
        let Some(generation) = manifest::generation(&name) else { continue };
        let Some(bytes) = manifest::read(io, &dir.join(name))? else { continue };
        let id = bytes.get(ID_IN_MANIFEST..).and_then(|rest| rest.first_chunk().copied());
        let id = id.map(StoreId);
        ids.extend(id.filter(|id| Manifest::decode(&bytes, *id, generation).is_some()));
    }
    Ok(ids)
}

/// Returns the store of each pack, and whether the pack lists its ids.
fn stores_of_packs(io: &dyn Io, dir: &Path) -> Result<Vec<(StoreId, bool)>> {
    let folder = dir.join(PACKS_DIR);
    let mut stores = Vec::new();
    for name in io.list_or_empty(&folder)? {
        let Some(pack) = PackId::from_file_name(&name) else { continue };
        let file = io.open_named(&folder.join(name), Access::Read)?;
        stores.extend(Pack::store_of(&file, pack)?);
    }
    Ok(stores)
}

fn stores_of_segments(io: &dyn Io, dir: &Path) -> Result<Vec<StoreId>> {
    let folder = dir.join(JOURNAL_DIR);
    let mut ids = Vec::new();
    for name in io.list_or_empty(&folder)? {
        let Some(segment) = SegmentId::from_file_name(&name) else { continue };
        let path = folder.join(name);
        let mut header = [0; SEGMENT_HEADER_BYTES];
        let file = io.open_named(&path, Access::Read)?;
        file.read_at(&mut header, 0).map_err(failed("read", &path))?;
        let id = header.get(ID_IN_SEGMENT..).and_then(|rest| rest.first_chunk().copied());
        let id = id.map(StoreId);
        ids.extend(id.filter(|id| encode_segment_header(segment, *id) == header));
    }
    Ok(ids)
}
