//! Decides which stores are used without being named: the user's own stores, not stores that came
//! with a folder.
//!
//! A store below a project is found, not named. It may have come with a git clone or an archive.
//! Then its author decides where the content written to it goes: to its remotes, or into files that
//! git tracks. So a record in the user's data directory lists the trusted stores: by path, store
//! id, and the remotes that the store may use automatically. Without a record:
//!
//! | store | result |
//! |---|---|
//! | no remotes, and not tracked by git | used: the first command that writes records it |
//! | a remote, tracked by git, or behind a link out of its project | read, but not written to |
//!
//! Hooks use the user's own store in place of an untrusted one.
//!
//! A record whose directory was deleted applies to the store with that id, wherever it was moved. A
//! pointer to a store, [`ELSEWHERE`](super::invocation::ELSEWHERE), has its own record.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use turntree::Error;
use turntree::object::{Kind, ObjectId};
use turntree::platform::{canonical, private_folders};
use turntree::repo::{RemoteEntry, Repository};
use turntree::workspace::{read_regular, tracking_repository};

use crate::platform::data_folder;
use crate::program::here::place_key;
use crate::program::private_file::write_durably;
use crate::view::advice::Advice;
use crate::view::error::{Failure, Result};
use crate::view::output::warn;

/// The directory of the program below the user's data directory, and the directory of records in
/// it.
const OWN: &str = "turntree";
const RECORDS: &str = "trust";

/// Largest record to read, in bytes: about a thousand remotes.
const MAX_RECORD_BYTES: u64 = 4 << 20;

/// The record of a trusted store or pointer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TrustRecord {
    /// The directory `.turntree`, with all links resolved.
    pub(crate) path: PathBuf,
    /// The id of the store there, in hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) store: Option<String>,
    /// Its remotes, by name.
    #[serde(default)]
    pub(crate) remotes: BTreeMap<String, TrustedRemote>,
    /// The store named by a pointer there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) elsewhere: Option<PathBuf>,
}

/// A remote to which a store may send turns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TrustedRemote {
    pub(crate) url: String,
    pub(crate) id: String,
    /// Turns are pushed automatically.
    pub(crate) auto: bool,
}

/// Whether a store is used without asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The user's own store, or a recorded one.
    Trusted,
    /// It has no record, and nothing can leave it, except to remotes that were trusted before it
    /// was moved.
    Harmless,
    /// It is only read.
    Untrusted(Doubt),
}

/// Why a store is not trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// Git tracks its files, or the pointer to it, in this repository.
    Tracked(PathBuf),
    /// It has this remote, which is in no record.
    Remote { name: String, url: String },
    /// A pointer file in the project names it.
    Pointer(PathBuf),
    /// The `.turntree` of the project is a link out of this directory.
    Link(PathBuf),
}

impl std::fmt::Display for Doubt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tracked(top) => write!(f, "git tracks it in {}", top.display()),
            Self::Remote { name, url } => write!(f, "its remote {name} at {url} is not known here"),
            Self::Pointer(folder) => write!(f, "{} names it", folder.join("elsewhere").display()),
            Self::Link(folder) => write!(f, "a link in {} points to it", folder.display()),
        }
    }
}

impl Standing {
    /// Returns why the store is not trusted.
    pub(crate) fn doubt(self) -> Option<Doubt> {
        match self {
            Self::Untrusted(doubt) => Some(doubt),
            Self::Trusted | Self::Harmless => None,
        }
    }
}

/// Judges a store that was found, or that a pointer in the directory `pointer` names.
pub(crate) fn standing(repo: &Repository, pointer: Option<&Path>) -> Standing {
    let dir = whole(repo.dir());
    let of_store = standing_of_store(repo, &dir);
    let Some(pointer) = pointer.map(whole) else { return of_store };
    if matches!(of_store, Standing::Untrusted(_)) || is_recorded_pointer(&pointer, &dir) {
        return of_store;
    }
    // The store knows its worktrees, also if the record of one is missing.
    let is_worktree =
        pointer.parent().is_some_and(|place| repo.worktree_at(&place_key(place)).is_some());
    match tracking_repository(&pointer) {
        Some(top) => Standing::Untrusted(Doubt::Tracked(top)),
        None if is_worktree => Standing::Harmless,
        None => Standing::Untrusted(Doubt::Pointer(pointer)),
    }
}

/// Judges a place where a store would be created: `dir`, named by a pointer or not.
pub(crate) fn standing_of_absent(dir: &Path, pointer: Option<&Path>) -> Standing {
    let (named, dir, pointer) = (dir, whole(dir), pointer.map(whole));
    match pointer {
        Some(pointer) if is_recorded_pointer(&pointer, &dir) => Standing::Trusted,
        Some(pointer) => Standing::Untrusted(Doubt::Pointer(pointer)),
        None => standing_of_unrecorded(named, &dir),
    }
}

fn standing_of_store(repo: &Repository, dir: &Path) -> Standing {
    if is_own(dir) {
        return Standing::Trusted;
    }
    let record = read(dir).filter(|record| record.store == Some(id_of(repo)));
    // An unreadable list means no remotes; commands that use remotes report it.
    let remotes = repo.remotes().unwrap_or_default();
    let moved = match record.is_none() && !remotes.is_empty() {
        true => record_of_moved(&id_of(repo)),
        false => None,
    };
    let known = record.as_ref().or(moved.as_ref()).map(|record| &record.remotes);
    let is_unknown = |(name, entry): &(&String, &RemoteEntry)| {
        let known = known.and_then(|known| known.get(*name));
        !known.is_some_and(|known| known.covers(entry))
    };
    if let Some((name, entry)) = remotes.iter().find(is_unknown) {
        let (name, url) = (name.clone(), entry.url.clone());
        return Standing::Untrusted(Doubt::Remote { name, url });
    }
    match record {
        Some(_) => Standing::Trusted,
        None => standing_of_unrecorded(repo.dir(), dir),
    }
}

/// Judges a store whose remotes are known: `named` is the path by which it was found, and `dir` is
/// that path with links resolved.
fn standing_of_unrecorded(named: &Path, dir: &Path) -> Standing {
    let folder = named.parent().map(whole).unwrap_or_default();
    let is_link = fs::symlink_metadata(named).is_ok_and(|found| found.is_symlink());
    match tracking_repository(dir) {
        Some(top) => Standing::Untrusted(Doubt::Tracked(top)),
        // The author of the link would choose where its files are.
        None if is_link && !dir.starts_with(&folder) => Standing::Untrusted(Doubt::Link(folder)),
        None => Standing::Harmless,
    }
}

/// The record of a moved store: the directory of its record does not exist.
fn record_of_moved(id: &str) -> Option<TrustRecord> {
    let is_moved = |record: &TrustRecord| {
        record.store.as_deref() == Some(id) && fs::symlink_metadata(&record.path).is_err()
    };
    records().ok()?.into_iter().find(is_moved)
}

impl TrustedRemote {
    /// Returns true if a remote has no more rights than were trusted.
    fn covers(&self, entry: &RemoteEntry) -> bool {
        self.url == entry.url && self.id == entry.id && (self.auto || !entry.auto)
    }
}

/// Returns true if turntree may use the remotes of a store automatically: to push new turns, and to
/// read remote-only objects. This needs a record, however the store was found.
pub(crate) fn may_reach_remotes(repo: &Repository) -> bool {
    standing_of_store(repo, &whole(repo.dir())) == Standing::Trusted
}

/// Refuses a store that came with its folder, and records one from which nothing can leave.
pub(crate) fn expect_trusted(repo: &Repository, pointer: Option<&Path>) -> Result<()> {
    match standing(repo, pointer) {
        Standing::Trusted => Ok(()),
        Standing::Harmless => {
            // Without the record it is judged the same way the next time.
            let _ = record(repo, pointer);
            Ok(())
        }
        Standing::Untrusted(doubt) => Err(refusal(repo.dir(), pointer, &doubt)),
    }
}

/// Records a new store, if it is of the kind that is found. A missing record does not matter until
/// the store has remotes.
pub(crate) fn note_made(repo: &Repository) {
    if repo.dir().ends_with(super::global::STORE_DIR) {
        let _ = record(repo, None);
    }
}

/// Records the remotes of a store after the user has changed them, unless the store was untrusted
/// before.
pub(crate) fn note_remotes(repo: &Repository, before: &Standing) {
    let noted = match before {
        Standing::Trusted | Standing::Harmless => record(repo, None),
        Standing::Untrusted(doubt) => Err(refusal(repo.dir(), None, doubt)),
    };
    if let Err(failure) = noted {
        let advice =
            "nothing is pushed automatically before 'turntree trust' has recorded the store";
        warn(&format!("{}: {advice}", failure.message()));
    }
}

/// The error of using an untrusted store.
pub(crate) fn refusal(dir: &Path, pointer: Option<&Path>, doubt: &Doubt) -> Failure {
    let message = format!("the store {} is not trusted: {doubt}", dir.display());
    let folder = pointer.unwrap_or(dir);
    let folder = folder.parent().filter(|_| folder.ends_with(super::global::STORE_DIR));
    let folder = folder.unwrap_or(dir).display();
    let hint = Advice::new(
        format!(
            "run 'turntree trust {folder}' if you know who created it, or name another store with \
             --store"
        ),
        "a person has to trust the store first",
    );
    Failure::hinted(Error::invalid(message), hint)
}

/// Records that a store is trusted with its current remotes, and the pointer to it.
///
/// # Errors
/// `NotFound` without a home directory, `Io` if the record cannot be written.
pub(crate) fn record(repo: &Repository, pointer: Option<&Path>) -> Result<()> {
    let path = whole(repo.dir());
    if let Some(pointer) = pointer {
        record_pointer(pointer, &path)?;
    }
    if is_own(&path) {
        return Ok(());
    }
    let remotes = repo.remotes()?.into_iter();
    let trusted =
        |(name, RemoteEntry { url, id, auto, .. })| (name, TrustedRemote { url, id, auto });
    let (remotes, id) = (remotes.map(trusted).collect(), id_of(repo));
    let record = TrustRecord { path, store: Some(id.clone()), remotes, elsewhere: None };
    if read(&record.path).as_ref() == Some(&record) {
        return Ok(());
    }
    write(&record)?;
    // The record of its old path must not apply to another store there.
    record_of_moved(&id).map_or(Ok(()), |moved| forget(&moved.path).map(drop))
}

/// Records that the pointer in the directory `pointer` to `store` is trusted.
///
/// # Errors
/// The errors of [`record`].
pub(crate) fn record_pointer(pointer: &Path, store: &Path) -> Result<()> {
    let (path, elsewhere) = (whole(pointer), Some(whole(store)));
    write(&TrustRecord { path, store: None, remotes: BTreeMap::new(), elsewhere })
}

/// Deletes the record of a directory; returns true if there was one.
///
/// # Errors
/// `Io` if it cannot be deleted.
pub(crate) fn forget(dir: &Path) -> Result<bool> {
    let path = record_path(&whole(dir))?;
    match fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io(format!("remove {}", path.display()), error).into()),
    }
}

/// Returns all records, by path. Unreadable records are skipped.
///
/// # Errors
/// `NotFound` without a home directory, `Io` if the directory of the records cannot be
/// read.
pub(crate) fn records() -> Result<Vec<TrustRecord>> {
    let folder = folder()?;
    let failed = |error| Error::io(format!("inspect {}", folder.display()), error);
    let mut found = Vec::new();
    match fs::read_dir(&folder) {
        Ok(entries) => {
            for entry in entries {
                let path = entry.map_err(failed)?.path();
                let record = parse(&path);
                // A temporary file of a process that died has the same content under another name.
                found.extend(
                    record.filter(|record| record_path(&record.path).is_ok_and(|own| own == path)),
                );
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error).into()),
    }
    found.sort_by(|one: &TrustRecord, other| one.path.cmp(&other.path));
    Ok(found)
}

/// The path with links resolved, or the absolute path if it does not exist.
fn whole(dir: &Path) -> PathBuf {
    let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    canonical(dir).unwrap_or(absolute)
}

fn id_of(repo: &Repository) -> String {
    repo.store_id().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns true if a directory is the user's own store.
fn is_own(dir: &Path) -> bool {
    user_store().is_ok_and(|own| whole(&own) == dir)
}

fn is_recorded_pointer(pointer: &Path, store: &Path) -> bool {
    read(pointer).is_some_and(|record| record.elsewhere.as_deref() == Some(store))
}

/// The directory of the user's own store.
///
/// # Errors
/// When there is no home directory.
pub(crate) fn user_store() -> turntree::Result<PathBuf> {
    Ok(own_folder()?.join("store"))
}

fn own_folder() -> turntree::Result<PathBuf> {
    let data = data_folder()
        .map_err(|error| Error::not_found("there is no home directory").with_source(error))?;
    Ok(data.join(OWN))
}

fn folder() -> turntree::Result<PathBuf> {
    Ok(own_folder()?.join(RECORDS))
}

/// The file of the record of a directory.
fn record_path(dir: &Path) -> turntree::Result<PathBuf> {
    let name = ObjectId::of(Kind::Blob, dir.as_os_str().as_encoded_bytes());
    Ok(folder()?.join(name.to_string()))
}

fn read(dir: &Path) -> Option<TrustRecord> {
    parse(&record_path(dir).ok()?).filter(|record| record.path == dir)
}

fn parse(path: &Path) -> Option<TrustRecord> {
    serde_json::from_slice(&read_regular(path, MAX_RECORD_BYTES).ok()?).ok()
}

/// Writes a record, and replaces an existing one. Writes are atomic: with concurrent writers the
/// last record stays.
fn write(record: &TrustRecord) -> Result<()> {
    let path = record_path(&record.path)?;
    let failed = |error| Error::io(format!("write {}", path.display()), error);
    let folder = folder()?;
    let made = private_folders().recursive(true).create(&folder);
    made.map_err(|error| Error::io(format!("make {}", folder.display()), error))?;
    let bytes = serde_json::to_vec(record).map_err(|error| failed(error.into()))?;
    write_durably(&path, &bytes)
}
