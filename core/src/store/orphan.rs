//! A store that lost its superblock: noticed, never built over, and given its superblock again.
//!
//! Without a superblock a directory is no store, and a new one could be made in it. That would end in
//! loss when files of an older one are there: they belong to another store then, and a repair would
//! put them aside. Every manifest and every segment says which store it is of, so the superblock can
//! be made again from what they agree on.

use std::io::ErrorKind as IoErrorKind;
use std::path::Path;

use super::io::{Access, Io};
use super::manifest::{self, Manifest};
use super::pack::PackId;
use super::segment::{SEGMENT_HEADER_BYTES, SegmentId, encode_segment_header};
use super::superblock::{self, StoreId, Superblock};
use super::{JOURNAL_DIR, PACKS_DIR, Store, quarantine};
use crate::error::{Error, ErrorKind, Result};

/// Where a manifest and a segment say which store they are of.
const ID_IN_MANIFEST: usize = 24;
const ID_IN_SEGMENT: usize = 32;

impl Store {
    /// Whether there are files of a store in `dir`, and no superblock or a damaged one.
    ///
    /// # Errors
    /// `Io` when it cannot be looked at.
    pub fn has_lost_superblock(io: &dyn Io, dir: &Path) -> Result<bool> {
        match Superblock::open(io, dir) {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                Ok(file_of_store(io, dir)?.is_some())
            }
            Err(error) if error.kind() == ErrorKind::Io => Err(error),
            _ => Ok(false),
        }
    }

    /// Makes the superblock of the store in `dir` again, from what its files say. A damaged one goes
    /// into quarantine.
    ///
    /// # Errors
    /// `Corrupt` when they do not say which store they are of, or are of several; `InvalidInput` when
    /// there is a good superblock; `Io` when it cannot be made. Nothing is changed then.
    pub fn remake_superblock(io: &dyn Io, dir: &Path) -> Result<()> {
        let mut ids = stores_of_manifests(io, dir)?;
        ids.extend(stores_of_segments(io, dir)?);
        ids.sort_unstable_by_key(|id| id.0);
        ids.dedup();
        match *ids {
            [id] => {
                let path = dir.join(superblock::FILE_NAME);
                if Self::has_lost_superblock(io, dir)? {
                    quarantine::move_files(io, dir, &[path])?;
                }
                superblock::create(io, dir, id)
            }
            [] => {
                Err(Error::corrupt(dir.display(), "files that say which store they are of", "none"))
            }
            _ => Err(Error::corrupt(dir.display(), "files of one store", "files of several")),
        }
    }
}

/// Refuses a directory in which a store was, whose superblock is lost.
pub(super) fn check_not_lost(io: &dyn Io, dir: &Path) -> Result<()> {
    let Some(file) = file_without_superblock(io, dir)? else { return Ok(()) };
    let place = dir.join(superblock::FILE_NAME);
    let found = format_args!("nothing, though {file} is there: run 'turntree repair'");
    Err(Error::corrupt(place.display(), "the superblock of a store", found))
}

/// A file of a store, when there is no superblock.
fn file_without_superblock(io: &dyn Io, dir: &Path) -> Result<Option<String>> {
    let Some(file) = file_of_store(io, dir)? else { return Ok(None) };
    // Somebody may have made the store since it was not found, and have written to it already.
    match io.identity(&dir.join(superblock::FILE_NAME)) {
        Err(source) if source.kind() == IoErrorKind::NotFound => Ok(Some(file)),
        Err(source) => Err(Error::io(format!("look at {}", dir.display()), source)),
        Ok(_) => Ok(None),
    }
}

fn file_of_store(io: &dyn Io, dir: &Path) -> Result<Option<String>> {
    let named = |folder: &str, is_own: &dyn Fn(&str) -> bool| {
        let names = names(io, &dir.join(folder))?;
        Ok::<_, Error>(names.into_iter().find(|name| is_own(name)))
    };
    if let Some(name) = named("", &|name| manifest::generation(name).is_some())? {
        return Ok(Some(name));
    }
    if let Some(name) = named(JOURNAL_DIR, &|name| SegmentId::from_file_name(name).is_some())? {
        return Ok(Some(format!("{JOURNAL_DIR}/{name}")));
    }
    let pack = named(PACKS_DIR, &|name| PackId::from_file_name(name).is_some())?;
    Ok(pack.map(|name| format!("{PACKS_DIR}/{name}")))
}

fn stores_of_manifests(io: &dyn Io, dir: &Path) -> Result<Vec<StoreId>> {
    let mut ids = Vec::new();
    for name in names(io, dir)? {
        let Some(generation) = manifest::generation(&name) else { continue };
        let Some(bytes) = manifest::read(io, &dir.join(name))? else { continue };
        let id = bytes.get(ID_IN_MANIFEST..).and_then(|rest| rest.first_chunk().copied());
        let id = id.map(StoreId);
        ids.extend(id.filter(|id| Manifest::decode(&bytes, *id, generation).is_some()));
    }
    Ok(ids)
}

fn stores_of_segments(io: &dyn Io, dir: &Path) -> Result<Vec<StoreId>> {
    let folder = dir.join(JOURNAL_DIR);
    let mut ids = Vec::new();
    for name in names(io, &folder)? {
        let Some(segment) = SegmentId::from_file_name(&name) else { continue };
        let path = folder.join(name);
        let failed = |source| Error::io(format!("read {}", path.display()), source);
        let mut header = [0; SEGMENT_HEADER_BYTES];
        let file = io.open(&path, Access::Read).map_err(failed)?;
        file.read_at(&mut header, 0).map_err(failed)?;
        let id = header.get(ID_IN_SEGMENT..).and_then(|rest| rest.first_chunk().copied());
        let id = id.map(StoreId);
        ids.extend(id.filter(|id| encode_segment_header(segment, *id) == header));
    }
    Ok(ids)
}

fn names(io: &dyn Io, folder: &Path) -> Result<Vec<String>> {
    match io.list(folder) {
        Err(source) if source.kind() == IoErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(|e| Error::io(format!("list {}", folder.display()), e)),
    }
}
