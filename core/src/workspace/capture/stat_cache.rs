//! The file in a store that keeps the stats of a capture of a directory for the next one.
//!
//! It is a cache: any problem with it only costs a capture that reads every file. It is written
//! under a temporary name and then renamed, never synced, and used only if it verifies. Of two
//! concurrent captures, the later one replaces the file.

use std::io;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use super::report::CaptureReport;
use super::table::{Table, TableDraft};
use crate::context::Context;
use crate::context::sections::FILES;
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Kind, ObjectId, ObjectSource};
use crate::platform::canonical;
use crate::repo::Repository;
use crate::store::{CAPTURED_FILE, DATABASE_PREFIX, WORKSPACES_DIR};
use crate::workspace::caches::{CacheFolder, NOTES_PREFIX, note_captured};
use crate::workspace::disk::stat::FileTime;

/// Maximum number of these files in a store; the oldest are deleted.
const MAX_FILES: usize = 16;

/// Approximate cache bytes per file.
const BYTES_PER_FILE: u64 = 60;

/// The table of an earlier capture of a directory, and the start time of this one.
pub struct StatCache {
    folder: CacheFolder,
    name: String,
    /// The directory of the store.
    store: PathBuf,
    /// The canonical path of the captured directory.
    path: PathBuf,
    /// The hash of that path.
    directory: ObjectId,
    moment: FileTime,
    table: Option<Table>,
}

impl fmt::Debug for StatCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.table.as_ref().map(|table| table.files);
        f.debug_struct("StatCache").field("files", &files).finish_non_exhaustive()
    }
}

impl StatCache {
    /// Opens the cache of `store` for the directory `dir`; empty if it is missing or damaged. Open
    /// it again before each capture: it reads the clock of the file system, and files that change
    /// later are not treated as unchanged.
    ///
    /// Reads about 60 bytes per file.
    ///
    /// # Errors
    /// `Io` if the store is read-only, or `dir` does not exist.
    pub fn open(repo: &Repository, dir: &Path) -> Result<Self> {
        let store = repo.store();
        let failed = |error| Error::io(format!("open the cache of {}", dir.display()), error);
        let path = canonical(dir).map_err(failed)?;
        let folder = CacheFolder::open(store).map_err(failed)?;
        let moment = folder.file_system_time().map_err(failed)?;
        let bytes = path.as_os_str().as_encoded_bytes();
        let (directory, name) = (ObjectId::of(Kind::Blob, bytes), folder.file_name("", bytes));
        let table = folder.read(&name).and_then(|bytes| Table::decode(&bytes, &directory));
        let store = store.dir().to_owned();
        Ok(Self { folder, name, store, path, directory, moment, table })
    }

    /// Records that the directory was captured on this machine, and saves the stats of `captured`
    /// for the next capture, which continues the context `tree`. Call it when `tree`, written by
    /// the builder right after the capture, is in the store. Does nothing if the cache is up to
    /// date.
    ///
    /// # Errors
    /// `Io` if writing fails; errors of reading `tree`. The cache is unchanged after an error.
    pub fn save(
        &self,
        captured: &CaptureReport,
        source: &dyn ObjectSource,
        tree: &ObjectId,
    ) -> Result<()> {
        note_captured(&self.folder, &self.store, &self.path);
        let Some(draft) = &captured.draft else { return Ok(()) };
        let context = Context::open(source, tree)?;
        let Some(section) = context.section(source, FILES)? else { return Ok(()) };
        if context.map(source, FILES)?.len() != draft.files() {
            return Err(Error::invalid("the files were changed after they were captured"));
        }
        match self.write(draft, &section.id) {
            // Another capture of the same directory finished first; its stats are as good.
            Err(error) if matches!(error.kind(), ErrorKind::Locked | ErrorKind::Conflict) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.remove_oldest().map_err(|error| Error::io("remove old caches", error)),
        }
    }

    /// Returns about how many files the cache of `dir` has, without reading it; 0 without a cache.
    #[must_use]
    pub fn known_files(repo: &Repository, dir: &Path) -> u64 {
        let store = repo.store();
        let Ok(path) = canonical(dir) else { return 0 };
        let Ok(folder) = CacheFolder::peek(store) else { return 0 };
        let name = folder.file_name("", path.as_os_str().as_encoded_bytes());
        fs::metadata(store.dir().join(WORKSPACES_DIR).join(name))
            .map_or(0, |found| found.len() / BYTES_PER_FILE)
    }

    /// Returns the table, if there is one.
    pub(in crate::workspace) fn table(&self) -> Option<&Table> {
        self.table.as_ref()
    }

    /// Returns the time of opening, by the clock of the file system.
    pub(in crate::workspace) fn file_system_time(&self) -> FileTime {
        self.moment
    }

    fn write(&self, draft: &TableDraft, root: &ObjectId) -> Result<()> {
        let [header, checksum] = draft.encode(root, &self.directory);
        self.folder.write(&self.name, &[&header[..], draft.blocks(), &checksum[..]]).map(drop)
    }

    /// Removes the oldest directory caches while there are too many.
    fn remove_oldest(&self) -> io::Result<()> {
        let others = [NOTES_PREFIX, DATABASE_PREFIX, CAPTURED_FILE];
        let is_one = |name: &[u8]| !others.iter().any(|it| name.starts_with(it.as_bytes()));
        self.folder.remove_oldest(MAX_FILES, &is_one)
    }
}
