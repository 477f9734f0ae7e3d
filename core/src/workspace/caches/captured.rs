//! The directories that this store captured on this machine, beside the store.
//!
//! A snapshot says which directory its files are from, and that goes along with it: by a bundle, a remote, a
//! clone. What came that way must not choose where files are written here. So captures are noted beside the
//! store, in a file that does not travel, and that names the directory of the store by its inode and the time
//! at which the disk made it: of a store that was copied or unpacked no note counts.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::folder::CacheFolder;
use crate::object::{Kind, ObjectId};
use crate::store::{CAPTURED_FILE, Store};

const VERSION: u32 = 1;

/// Directories that are kept; the oldest go.
const MAX_DIRECTORIES: usize = 1024;

/// The file whose change tells a store from a copy, where the disk does not say when it made a directory.
const SUPERBLOCK: &str = "superblock";

#[derive(Debug, Default, Serialize, Deserialize)]
struct CapturedDirectories {
    version: u32,
    /// The store on this disk.
    place: Vec<i128>,
    /// The hash of the path of each, the newest last.
    directories: Vec<String>,
}

/// Returns whether `store` captured the directory `dir` on this machine. A capture that went on before this
/// was noted is not known.
#[must_use]
pub fn was_captured_here(store: &Store, dir: &Path) -> bool {
    let Ok(dir) = fs::canonicalize(dir) else { return false };
    let noted = CacheFolder::peek(store).ok().and_then(|folder| noted(&folder, store.dir()));
    noted.is_some_and(|noted| noted.directories.contains(&key(&dir)))
}

/// Notes that `store` captured the directory `dir`.
pub(in crate::workspace) fn note_capture(store: &Store, dir: &Path) {
    if let (Ok(folder), Ok(dir)) = (CacheFolder::open(store), fs::canonicalize(dir)) {
        note_captured(&folder, store.dir(), &dir);
    }
}

/// Notes that the store in the directory `store` captured the directory whose whole path is `dir`.
pub(in crate::workspace) fn note_captured(folder: &CacheFolder, store: &Path, dir: &Path) {
    let key = key(dir);
    let mut noted = noted(folder, store).unwrap_or_default();
    if noted.directories.contains(&key) {
        return;
    }
    let Ok(place) = place_of(store) else { return };
    noted.directories.push(key);
    let spare = noted.directories.len().saturating_sub(MAX_DIRECTORIES);
    noted.directories.drain(..spare);
    let noted = CapturedDirectories { version: VERSION, place, ..noted };
    if let Ok(bytes) = serde_json::to_vec(&noted) {
        // Without it the directory has to be named, and the next capture notes it.
        let _ = folder.write(CAPTURED_FILE, &[&bytes]);
    }
}

fn noted(folder: &CacheFolder, store: &Path) -> Option<CapturedDirectories> {
    let noted: CapturedDirectories = serde_json::from_slice(&folder.read(CAPTURED_FILE)?).ok()?;
    let place = place_of(store).ok()?;
    (noted.version == VERSION && noted.place == place).then_some(noted)
}

fn key(dir: &Path) -> String {
    ObjectId::of(Kind::Blob, dir.as_os_str().as_encoded_bytes()).to_string()
}

/// The directory of a store as no copy has it: nobody chooses an inode, or the time of its making.
fn place_of(store: &Path) -> io::Result<Vec<i128>> {
    let found = fs::metadata(store)?;
    let made = found.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    if let Some(made) = made {
        return Ok(vec![
            i128::from(found.ino()),
            i128::try_from(made.as_nanos()).unwrap_or_default(),
        ]);
    }
    let found = fs::metadata(store.join(SUPERBLOCK))?;
    Ok([found.ino().into(), found.ctime().into(), found.ctime_nsec().into()].into())
}
