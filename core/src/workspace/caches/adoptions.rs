//! The cache of adopted transcripts: the branch of each file, its tip, and the stat of the file
//! then.
//!
//! A transcript may be a folder of files. Its own stat does not change with them, so those of its
//! files count. A database holds many transcripts. Each has its own entry, with the stat of the database and of
//! its write-ahead log, where new rows appear first. All entries are one file in the cache folder
//! of a store. Without the cache every transcript is read again and found unchanged. The cache
//! holds paths, stats and branch names, but no content.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::folder::CacheFolder;
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Kind, ObjectId, RefValue};
use crate::platform::stat_of_path;
use crate::repo::{BranchName, Repository};
use crate::store::{ADOPTIONS_FILE, RefTable};
use crate::workspace::disk::stat::{FileTime, STAT_BYTES, Stat};

const VERSION: u32 = 2;

/// Transcripts that were adopted.
#[derive(Debug, Default)]
pub struct AdoptionCache {
    /// By path; for a database, by path and transcript.
    files: BTreeMap<String, AdoptedFile>,
    /// The cache folder, and the time of its file system when the cache was opened.
    place: Option<(CacheFolder, FileTime)>,
    is_changed: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct AdoptedFile {
    /// A [`Stat`], as numbers; for a database also the stat of its log.
    stat: Vec<u8>,
    branch: String,
    /// The tip of the branch when the file was adopted.
    tip: String,
}

/// The state of a file when it was read.
///
/// The default is a state that no file has: the file is read again the next time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileMark(Vec<u8>);

/// Separates a path from a transcript in that file; no path contains it.
const ENTRY: char = '\0';

/// The number of files above which deleted ones are dropped.
const MAX_FILES: usize = 1 << 17;

/// Most folders in folders of a transcript.
const MAX_DEPTH: usize = 4;

/// The suffix of the write-ahead log of a database.
const LOG: &str = "-wal";

#[derive(Serialize, Deserialize)]
struct StoredCache<F> {
    version: u32,
    files: F,
}

impl AdoptionCache {
    /// Opens the cache of `store`. It is empty if it cannot be read, and never saved if the store
    /// is read-only.
    #[must_use]
    pub fn open(repo: &Repository) -> Self {
        let store = repo.store();
        let place = CacheFolder::open(store).and_then(|folder| {
            let moment = folder.file_system_time()?;
            Ok((folder, moment))
        });
        let Ok((folder, moment)) = place else { return Self::peek(repo) };
        let files = stored(&folder);
        Self { files, place: Some((folder, moment)), is_changed: false }
    }

    /// Opens the cache of `store` for reading only.
    #[must_use]
    pub fn peek(repo: &Repository) -> Self {
        let store = repo.store();
        let folder = CacheFolder::peek(store);
        let files = folder.map(|folder| stored(&folder)).unwrap_or_default();
        Self { files, place: None, is_changed: false }
    }

    /// Returns the branch of the file at `path`, or of the transcript `entry` in that database, if
    /// the file is unchanged and the branch still has the recorded tip (an undo may have moved it).
    #[must_use]
    pub fn unchanged(
        &self,
        refs: &RefTable,
        path: &Path,
        entry: Option<&str>,
    ) -> Option<BranchName> {
        let known = self.files.get(&key(path, entry)?)?;
        let branch: BranchName = known.branch.parse().ok()?;
        let tip = refs.value(&branch.full())?;
        let is_there = matches!(tip, RefValue::Object(id) if id.to_string() == known.tip);
        (is_there && stats_of(path, entry, &|_| true)? == known.stat).then_some(branch)
    }

    /// Returns the adopted files, including changed and deleted ones; a database once.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let mut last = None;
        self.files
            .keys()
            .map(|key| path_of(key))
            .filter(move |file| last.replace(*file) != Some(*file))
    }

    /// Returns the adopted files that no longer exist, with their branches that still do. Looks for
    /// each file.
    pub fn missing<'c>(
        &'c self,
        refs: &'c RefTable,
    ) -> impl Iterator<Item = (&'c Path, BranchName)> {
        self.files.iter().filter_map(|(key, known)| {
            let path = path_of(key);
            let branch: BranchName = known.branch.parse().ok()?;
            let is_missing = !path.exists() && refs.value(&branch.full()).is_some();
            is_missing.then_some((path, branch))
        })
    }

    /// Returns the state of the file at `path`, or of the database with `entry`. Returns `None` for
    /// a file changed so recently that a later write might not change its stat.
    #[must_use]
    pub fn mark(&self, path: &Path, entry: Option<&str>) -> Option<FileMark> {
        let (_, moment) = self.place.as_ref()?;
        stats_of(path, entry, &|stat| stat.is_stable_after(moment)).map(FileMark)
    }

    /// Records that `branch` with this tip has the file at `path`, or the transcript `entry` in it,
    /// in the state `mark`.
    pub fn insert(
        &mut self,
        path: &Path,
        entry: Option<&str>,
        mark: FileMark,
        (branch, tip): (&BranchName, &ObjectId),
    ) {
        let Some(key) = key(path, entry) else { return };
        let (branch, tip) = (branch.to_string(), tip.to_string());
        self.files.insert(key, AdoptedFile { stat: mark.0, branch, tip });
        self.is_changed = true;
    }

    /// Saves the cache. Keeps deleted files, up to a number.
    ///
    /// # Errors
    /// `Io` if writing fails. The previous file stays then.
    pub fn save(mut self) -> Result<()> {
        let Some((folder, _)) = self.place.as_ref().filter(|_| self.is_changed) else {
            return Ok(());
        };
        if self.files.len() > MAX_FILES {
            self.files.retain(|key, _| path_of(key).exists());
        }
        let failed = |error| Error::io("record the adopted transcripts", error);
        let stored = StoredCache { version: VERSION, files: &self.files };
        let bytes = serde_json::to_vec(&stored).map_err(|error| failed(error.into()))?;
        match folder.write(ADOPTIONS_FILE, &[&bytes]) {
            // The file of another process is as good.
            Err(error) if matches!(error.kind(), ErrorKind::Locked | ErrorKind::Conflict) => Ok(()),
            written => written.map(drop),
        }
    }
}

fn stored(folder: &CacheFolder) -> BTreeMap<String, AdoptedFile> {
    let stored = folder.read(ADOPTIONS_FILE).and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let stored = stored.filter(|stored: &StoredCache<_>| stored.version == VERSION);
    stored.map(|stored| stored.files).unwrap_or_default()
}

/// Returns the path in a key.
fn path_of(key: &str) -> &Path {
    Path::new(key.split(ENTRY).next().unwrap_or(key))
}

fn key(path: &Path, entry: Option<&str>) -> Option<String> {
    let path = path.to_str()?;
    Some(entry.map_or_else(|| path.to_owned(), |entry| format!("{path}{ENTRY}{entry}")))
}

/// Returns the stat of a file, and of a database's log, if `counts` accepts each that exists. A
/// transcript may be a folder: then returns the hash of the stats of all files in it.
fn stats_of(path: &Path, entry: Option<&str>, counts: &dyn Fn(&Stat) -> bool) -> Option<Vec<u8>> {
    if path.is_dir() {
        let mut bytes = Vec::new();
        add_folder(path, MAX_DEPTH, counts, &mut bytes)?;
        return Some(ObjectId::of(Kind::Blob, &bytes).to_string().into_bytes());
    }
    let mut stats = vec![Some(stat_of(path)?)];
    if entry.is_some() {
        let mut log = path.as_os_str().to_owned();
        log.push(LOG);
        stats.push(stat_of(Path::new(&log)));
    }
    let mut bytes = Vec::with_capacity(2 * STAT_BYTES);
    for stat in &stats {
        if !stat.as_ref().is_none_or(counts) {
            return None;
        }
        Stat::encode(stat.as_ref(), &mut bytes);
    }
    Some(bytes)
}

/// Adds the names and stats of the files in a folder. Returns `None` if one cannot be read, or
/// `counts` does not accept it.
fn add_folder(
    folder: &Path,
    depth: usize,
    counts: &dyn Fn(&Stat) -> bool,
    bytes: &mut Vec<u8>,
) -> Option<()> {
    let mut paths = Vec::new();
    for entry in folder.read_dir().ok()? {
        paths.push(entry.ok()?.path());
    }
    paths.sort();
    for path in paths {
        if path.is_dir() {
            add_folder(&path, depth.checked_sub(1)?, counts, bytes)?;
            continue;
        }
        let stat = stat_of(&path).filter(counts)?;
        bytes.extend_from_slice(path.as_os_str().as_encoded_bytes());
        bytes.push(0);
        Stat::encode(Some(&stat), bytes);
    }
    Some(())
}

fn stat_of(path: &Path) -> Option<Stat> {
    Some(Stat::from(&stat_of_path(path).ok()?))
}
