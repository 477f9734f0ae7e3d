//! The clock, randomness, the home directory and the real disk. No other file of the engine gets
//! these from the system.

use std::ffi::OsString;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::notes::StoreNotes;
use crate::error::{Error, ErrorKind, Result};
use crate::object::Time;
use crate::platform::{SYSTEM_CONFIG, private_folders};
use crate::repo::Repository;
use crate::store::{NewStore, OpenOptions, RealIo, StoreKeys};
use crate::workspace::GitPlaces;

/// Returns the current time in UTC.
pub(super) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { micros: i64::try_from(since.as_micros()).unwrap_or(i64::MAX), offset_minutes: 0 }
}

/// Returns the home directory of the user.
pub(super) fn home() -> Option<PathBuf> {
    std::env::home_dir()
}

/// Returns the locations of the git settings of the user and the machine, by git's own rules: from
/// `GIT_CONFIG_GLOBAL`, `GIT_CONFIG_SYSTEM`, `GIT_CONFIG_NOSYSTEM`, `XDG_CONFIG_HOME` and the home
/// directory.
#[must_use]
pub fn git_places() -> GitPlaces {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let home = home();
    let own = home.as_ref().map(|home| home.join(".config"));
    let folder = set("XDG_CONFIG_HOME").map(PathBuf::from).or(own).map(|dir| dir.join("git"));
    let is_on = |value: OsString| !["0", "false", "no", "off"].iter().any(|off| value == *off);
    let system = match set("GIT_CONFIG_NOSYSTEM").is_some_and(is_on) {
        true => None,
        false => set("GIT_CONFIG_SYSTEM").map(PathBuf::from).or(SYSTEM_CONFIG.map(PathBuf::from)),
    };
    let global = match std::env::var_os("GIT_CONFIG_GLOBAL") {
        Some(path) => vec![PathBuf::from(path)],
        None => {
            let files = [
                folder.as_ref().map(|dir| dir.join("config")),
                home.as_ref().map(|home| home.join(".gitconfig")),
            ];
            files.into_iter().flatten().collect()
        }
    };
    let config = system.into_iter().chain(global).filter(|path| !path.as_os_str().is_empty());
    GitPlaces { config: config.collect(), home, excludes: folder.map(|dir| dir.join("ignore")) }
}

/// Returns 16 unguessable and unique bytes: from the system, or else a keyed hash with keys that
/// the system gave this process.
#[must_use]
pub fn random_bytes() -> [u8; 16] {
    let mut drawn = [0; 16];
    if getrandom::getrandom(&mut drawn).is_ok() {
        return drawn;
    }
    let [high, low] =
        [RandomState::new(), RandomState::new()].map(|state| state.build_hasher().finish());
    let mut bytes = [0; 16];
    let (front, back) = bytes.split_at_mut(8);
    front.copy_from_slice(&high.to_le_bytes());
    back.copy_from_slice(&low.to_le_bytes());
    bytes
}

/// Opens the repository in the directory `dir` on the real disk.
///
/// # Errors
/// `NotFound` if it is missing, `Corrupt` or `Unsupported` if it cannot be read, `Io` if the system
/// refuses.
pub fn open_repository(dir: &Path) -> Result<Repository> {
    open(dir, OpenOptions::new(random_bytes()))
}

/// Opens the encrypted repository in the directory `dir` on the real disk.
///
/// # Errors
/// Errors of [`open_repository`], and `Encrypted` for wrong keys.
pub fn open_encrypted(dir: &Path, keys: StoreKeys) -> Result<Repository> {
    open_with(dir, Some(keys), OpenOptions::new(random_bytes()))
}

/// Opens the repository in the directory `dir` on the real disk, with these keys if it is encrypted.
///
/// # Errors
/// Errors of [`open_repository`], and `Encrypted` for wrong keys.
pub fn open_with(dir: &Path, keys: Option<StoreKeys>, options: OpenOptions) -> Result<Repository> {
    let Some(keys) = keys else { return open(dir, OpenOptions { keys: None, ..options }) };
    let mut refused = None;
    for keys in keys.candidates() {
        match open(dir, OpenOptions { keys: Some(keys), ..options }) {
            Err(error) if error.kind() == ErrorKind::Encrypted => refused = Some(error),
            opened => return opened,
        }
    }
    Err(refused.unwrap_or_else(|| Error::new(ErrorKind::Encrypted, "no key was found")))
}

fn open(dir: &Path, options: OpenOptions) -> Result<Repository> {
    let opened = Repository::open(Arc::new(RealIo), dir, options);
    let repo = opened.map_err(|error| match error.kind() == ErrorKind::Io && dir.is_file() {
        true => error.at(format!("{} is a file: expected the directory of a store", dir.display())),
        false => error,
    })?;
    Ok(repo.keeping_notes(Arc::new(StoreNotes)))
}

/// Returns true if a store can be created in the directory `dir` without mixing it with other
/// files: it is missing or empty, or has only remains of a killed store creation.
///
/// # Errors
/// Errors of the system; `NotADirectory` if `dir` is a file.
pub fn is_free(dir: &Path) -> io::Result<bool> {
    match fs::read_dir(dir) {
        Ok(entries) => {
            for entry in entries {
                if !is_creation_remainder(&entry?) {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

fn is_creation_remainder(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    let name = name.to_string_lossy();
    let is_empty = || fs::read_dir(entry.path()).is_ok_and(|mut inside| inside.next().is_none());
    name.starts_with("superblock-")
        || matches!(&*name, "journal" | "packs") && is_empty()
        || name == ".gitignore" && entry.metadata().is_ok_and(|found| found.len() <= 2)
}

/// Refuses to create a store in a directory `dir` with other files.
pub(super) fn check_free(dir: &Path) -> Result<()> {
    let shown = dir.display();
    let own = dir.join(".turntree");
    match is_free(dir) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::invalid(format!(
            "{shown} is not empty and has no store: name a directory for the store alone, such as {}",
            own.display()
        ))),
        Err(error) => Err(Error::io(format!("inspect {shown}"), error)),
    }
}

/// Creates a repository in the directory `dir` on the real disk, including parent directories.
///
/// # Errors
/// `InvalidInput` if `dir` has a store or other files, `Io` if the system refuses.
pub fn create_repository(dir: &Path) -> Result<Repository> {
    if let Some(parent) = dir.parent() {
        // They are accessible only to their owner, as the store is.
        let made = private_folders().recursive(true).create(parent);
        made.map_err(|error| Error::io(format!("make {}", parent.display()), error))?;
    }
    let new = NewStore { id: random_bytes() };
    let repo = Repository::init(Arc::new(RealIo), dir, &new, OpenOptions::new(random_bytes()))?;
    // The reserve is optional: a store without it is complete.
    let _ = repo.store().keep_reserve(None);
    Ok(repo)
}
