//! Records the directories that this store captured on this machine, in a file next to the store.
//!
//! A snapshot records the directory of its files, and that travels by bundles, remotes and clones.
//! A received path must not decide where files are written here. So captures are recorded in a file
//! that does not travel. It identifies the store's directory by inode and creation time, so it is
//! ignored in a copied or unpacked store.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::folder::CacheFolder;
use crate::object::{Kind, ObjectId};
use crate::platform::{canonical, store_identity};
use crate::repo::Repository;
use crate::store::{CAPTURED_FILE, Store};

const VERSION: u32 = 1;

/// Maximum number of recorded directories; the oldest are dropped.
const MAX_DIRECTORIES: usize = 1024;

#[derive(Debug, Default, Serialize, Deserialize)]
struct CapturedDirectories {
    version: u32,
    /// The identity of the store's directory on this disk.
    place: Vec<i128>,
    /// The hash of the path of each directory, newest last.
    directories: Vec<String>,
}

/// Returns true if `store` captured the directory `dir` on this machine. False if the record of
/// its captures is missing.
#[must_use]
pub(crate) fn was_captured_here(repo: &Repository, dir: &Path) -> bool {
    let store = repo.store();
    let Ok(dir) = canonical(dir) else { return false };
    let noted =
        CacheFolder::peek(store).ok().and_then(|folder| read_directories(&folder, store.dir()));
    noted.is_some_and(|noted| noted.directories.contains(&key(&dir)))
}

/// Records that `store` captured the directory `dir`.
pub(in crate::workspace) fn note_capture(store: &Store, dir: &Path) {
    if let (Ok(folder), Ok(dir)) = (CacheFolder::open(store), canonical(dir)) {
        note_captured(&folder, store.dir(), &dir);
    }
}

/// Records that the store at `store` captured the directory with the canonical path `dir`.
pub(in crate::workspace) fn note_captured(folder: &CacheFolder, store: &Path, dir: &Path) {
    let key = key(dir);
    let mut noted = read_directories(folder, store).unwrap_or_default();
    if noted.directories.contains(&key) {
        return;
    }
    let Ok(place) = store_identity(store) else { return };
    noted.directories.push(key);
    let spare = noted.directories.len().saturating_sub(MAX_DIRECTORIES);
    noted.directories.drain(..spare);
    let noted = CapturedDirectories { version: VERSION, place, ..noted };
    if let Ok(bytes) = serde_json::to_vec(&noted) {
        // On failure the user has to name the directory, and the next capture records it.
        let _ = folder.write(CAPTURED_FILE, &[&bytes]);
    }
}

fn read_directories(folder: &CacheFolder, store: &Path) -> Option<CapturedDirectories> {
    let noted: CapturedDirectories = serde_json::from_slice(&folder.read(CAPTURED_FILE)?).ok()?;
    let place = store_identity(store).ok()?;
    (noted.version == VERSION && noted.place == place).then_some(noted)
}

fn key(dir: &Path) -> String {
    ObjectId::of(Kind::Blob, dir.as_os_str().as_encoded_bytes()).to_string()
}
