//! The cache of adopted transcripts: the branch of each file, its tip, and the stat of the file then.
//!
//! A database holds many transcripts: each has its own entry, with how the database was and the log
//! beside it, where new rows are first. One file among the caches of a store. It is a cache:
//! without it every transcript is read again, and found to be known. It holds paths, stats and
//! names of branches, and no content.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::folder::CacheFolder;
use crate::error::{Error, ErrorKind, Result};
use crate::object::{ObjectId, RefValue};
use crate::repo::BranchName;
use crate::store::{ADOPTIONS_FILE, RefTable, Store};
use crate::workspace::disk::stat::{FileTime, STAT_BYTES, Stat};

const VERSION: u32 = 2;

/// Transcripts that were adopted.
#[derive(Debug, Default)]
pub struct AdoptionCache {
    /// By path, and by the transcript in it for a database.
    files: BTreeMap<String, AdoptedFile>,
    /// The folder of the cache, and the clock of that file system when it was opened.
    place: Option<(CacheFolder, FileTime)>,
    is_changed: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct AdoptedFile {
    /// A [`Stat`], as numbers; for a database also that of its log.
    stat: Vec<u8>,
    branch: String,
    /// The id of the tip of that branch when it had the file.
    tip: String,
}

/// The state of a file when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMark(Vec<u8>);

/// Separates a path from the transcript in that file; no path has it.
const ENTRY: char = '\0';

/// The suffix of the log beside a database.
const LOG: &str = "-wal";

#[derive(Serialize, Deserialize)]
struct StoredCache<F> {
    version: u32,
    files: F,
}

impl AdoptionCache {
    /// Opens the cache of `store`: empty when it cannot be read, and never saved when the store
    /// cannot be written to.
    #[must_use]
    pub fn open(store: &Store) -> Self {
        let place = CacheFolder::open(store).and_then(|folder| {
            let moment = folder.moment()?;
            Ok((folder, moment))
        });
        let Ok((folder, moment)) = place else { return Self::peek(store) };
        let files = stored(&folder);
        Self { files, place: Some((folder, moment)), is_changed: false }
    }

    /// Opens the cache of `store` for reading only.
    #[must_use]
    pub fn peek(store: &Store) -> Self {
        let folder = CacheFolder::peek(store);
        let files = folder.map(|folder| stored(&folder)).unwrap_or_default();
        Self { files, place: None, is_changed: false }
    }

    /// The branch that has the file at `path`, or the transcript `entry` in that database, if the
    /// file is as it was and the branch at the tip that it had: an undo may have taken that away.
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

    /// The files that were adopted, also those that have changed since; a database once.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let files = self.files.keys().map(|key| key.split(ENTRY).next().unwrap_or(key));
        let mut last = None;
        files.filter(move |file| last.replace(*file) != Some(*file)).map(Path::new)
    }

    /// Returns the state of the file at `path`, or of the database with `entry`. `None` when a
    /// later write might not change that state, as for a file that was changed a moment ago.
    #[must_use]
    pub fn mark(&self, path: &Path, entry: Option<&str>) -> Option<FileMark> {
        let (_, moment) = self.place.as_ref()?;
        stats_of(path, entry, &|stat| stat.lasts(moment)).map(FileMark)
    }

    /// Remembers that `branch`, with this tip, has the file at `path`, or the transcript `entry` in
    /// it, as it was at `mark`.
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

    /// Keeps it for the next time, without the files that are gone.
    ///
    /// # Errors
    /// `Io` when it cannot be written. What was kept before stays then.
    pub fn save(mut self) -> Result<()> {
        let Some((folder, _)) = self.place.as_ref().filter(|_| self.is_changed) else {
            return Ok(());
        };
        self.files.retain(|key, _| Path::new(key.split(ENTRY).next().unwrap_or(key)).exists());
        let failed = |error| Error::io("write which transcripts were adopted", error);
        let stored = StoredCache { version: VERSION, files: &self.files };
        let bytes = serde_json::to_vec(&stored).map_err(|error| failed(error.into()))?;
        match folder.write(ADOPTIONS_FILE, &[&bytes]) {
            // Another process keeps what it saw, which is as good.
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

fn key(path: &Path, entry: Option<&str>) -> Option<String> {
    let path = path.to_str()?;
    Some(entry.map_or_else(|| path.to_owned(), |entry| format!("{path}{ENTRY}{entry}")))
}

/// Returns the stat of a file, and of a database's log, if `counts` accepts each that exists.
fn stats_of(path: &Path, entry: Option<&str>, counts: &dyn Fn(&Stat) -> bool) -> Option<Vec<u8>> {
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

fn stat_of(path: &Path) -> Option<Stat> {
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
    Some(Stat::from(&rustix::fs::stat(&*name).ok()?))
}
