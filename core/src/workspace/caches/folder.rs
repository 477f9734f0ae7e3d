//! The folder of the caches beside a store. Files in it may be deleted at any time, the oldest
//! first.

use std::ffi::{CString, OsStr};
use std::io::{self, Read};
use std::path::Path;

use bytes::Bytes;

use crate::store::WORKSPACES_DIR;
use crate::workspace::disk::folder::{EntryKind, Folder};
use crate::workspace::disk::stat::Stat;

/// The prefix of names of notes.
pub(in crate::workspace) const NOTES_PREFIX: &str = "notes-";

/// Largest file that is read, in bytes: some ten million files.
const MAX_BYTES: u64 = 1 << 30;

/// Only the owner of a store reads what is in it.
pub(in crate::workspace) const MODE: u32 = 0o600;

/// The folder of caches in a store, made if need be.
pub(in crate::workspace) fn open_folder(store: &Path) -> io::Result<Folder> {
    let store = Folder::open(store)?;
    let name = OsStr::new(WORKSPACES_DIR);
    match store.enter(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    match store.make_private(name) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => store.enter(name),
    }
}

/// The bytes of a file; nothing when there is none, or anything else.
pub(in crate::workspace) fn read(folder: &Folder, name: &str) -> Option<Bytes> {
    let mut file = folder.read(OsStr::new(name)).ok()?;
    let stat = Stat::from(&rustix::fs::fstat(&file).ok()?);
    if stat.kind() != EntryKind::File || stat.size > MAX_BYTES {
        return None;
    }
    let mut bytes = Vec::with_capacity(usize::try_from(stat.size).ok()?);
    file.read_to_end(&mut bytes).ok()?;
    Some(bytes.into())
}

/// Removes the oldest files that `is_one` is true of while there are more than `most`.
pub(in crate::workspace) fn bound(
    folder: &Folder,
    most: usize,
    is_one: &dyn Fn(&[u8]) -> bool,
) -> io::Result<()> {
    let mut files = Vec::new();
    for (name, _) in folder.names()?.into_iter().filter(|(name, _)| is_one(name.as_bytes())) {
        // One that is gone by now needs no removing.
        let Ok(stat) = folder.stat(&name) else { continue };
        files.push((Stat::from(&stat).changed(), name));
    }
    files.sort_unstable();
    let spare = files.len().saturating_sub(most);
    for (_, name) in files.iter().take(spare) {
        remove(folder, name)?;
    }
    Ok(())
}

fn remove(folder: &Folder, name: &CString) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    match folder.remove(OsStr::from_bytes(name.as_bytes())) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
