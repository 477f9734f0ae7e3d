//! Finds files of a store in a directory whose superblock is lost.

use std::path::Path;

use crate::error::{Error, Result};
use crate::store::format::id::SegmentId;
use crate::store::format::manifest;
use crate::store::io::Io;
use crate::store::pack::PackId;
use crate::store::{JOURNAL_DIR, PACKS_DIR, SUPERBLOCK_FILE};

/// Fails if a directory contains files of a store without a superblock.
pub(in crate::store) fn check_not_lost(io: &dyn Io, dir: &Path) -> Result<()> {
    let Some(file) = file_without_superblock(io, dir)? else { return Ok(()) };
    let place = dir.join(SUPERBLOCK_FILE);
    let found = format_args!("{file} without it: run 'turntree repair'");
    Err(Error::corrupt(place.display(), "the superblock of a store", found))
}

/// Returns a file of a store, if there is no superblock.
fn file_without_superblock(io: &dyn Io, dir: &Path) -> Result<Option<String>> {
    let Some(file) = file_of_store(io, dir)? else { return Ok(None) };
    // Another process may have created the store since, and written to it.
    let superblock = io.identity_if_exists(&dir.join(SUPERBLOCK_FILE))?;
    Ok(superblock.is_none().then_some(file))
}

/// Returns a file that only a store has.
pub(in crate::store) fn file_of_store(io: &dyn Io, dir: &Path) -> Result<Option<String>> {
    let named = |folder: &str, is_own: &dyn Fn(&str) -> bool| {
        let names = io.list_or_empty(&dir.join(folder))?;
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
