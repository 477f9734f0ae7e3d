//! A consistent snapshot of a database, including the committed part of its log, readable at any
//! offset.
//!
//! SQLite itself would take locks next to a database to read it, and create files for them. An
//! image only reads the database and its log. Other processes may write concurrently: new commits
//! are appended to the log after the part that the image reads, and only a checkpoint changes bytes
//! that the image already read. A checkpoint changes the file times, so a reader must check
//! [`Image::is_intact`] before it uses results.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use turntree::error::{Error, ErrorKind, Result};
use turntree::platform::FileFacts;
use turntree::workspace::open_regular;

use super::log::{HEADER_BYTES, WriteAheadLog};
use super::source::Source;

/// Minimum number of virtual machine steps for all queries, and additional steps per byte.
const MIN_STEPS: u64 = 20_000_000;
const STEPS_PER_BYTE: u64 = 8;

/// Size of the database header, which has the change counter.
const DATABASE_HEADER_BYTES: usize = 100;

/// The first bytes of a hot journal.
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// A database at one point in time.
#[derive(Debug)]
pub(crate) struct Image {
    database: Source,
    log: Option<(Source, WriteAheadLog)>,
    /// Size of the database including the log, in bytes.
    len: u64,
    steps: AtomicU64,
    /// The paths of the files, and their state before they were read.
    files: Option<DatabaseFiles>,
}

#[derive(Debug)]
struct DatabaseFiles {
    database: PathBuf,
    log: PathBuf,
    before: (FileFacts, Option<FileFacts>),
    heads: FileHeaders,
}

/// The headers of the log, with the checkpoint number, and of the database, with the change
/// counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileHeaders {
    log: [u8; HEADER_BYTES],
    database: [u8; DATABASE_HEADER_BYTES],
}

impl Image {
    /// Opens the database in `database`, with its log.
    ///
    /// # Errors
    /// `InvalidInput` for a log of another database.
    pub(crate) fn of_bytes(database: Bytes, log: Option<Bytes>) -> Result<Self> {
        Self::new(Source::Bytes(database), log.map(Source::Bytes))
    }

    /// Opens the database at `path`, with its log. Writes nothing and takes no lock. Memory: some
    /// bytes for each page in the log.
    ///
    /// # Errors
    /// `Io` if the file cannot be opened; `Conflict` if another process is in the middle of a
    /// change, as a hot journal shows; `InvalidInput` for a log of another database.
    pub(crate) fn of_file(path: &Path) -> Result<Self> {
        let failed = |error| Error::io("read the database", error);
        let [log_path, journal] = ["-wal", "-journal"].map(|end| sibling_path(path, end));
        let database = open_regular(path).map_err(failed)?;
        let before = FileFacts::of(&database).map_err(failed)?;
        let log = match open_regular(&log_path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            log => Some(log.map_err(failed)?),
        };
        let log_before = log.as_ref().map(FileFacts::of).transpose().map_err(failed)?;
        if is_hot(&journal).map_err(failed)? {
            let message = "the database is in the middle of a change, as its journal shows";
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let mut image = Self::new(Source::File(database), log.map(Source::File))?;
        let heads = image.read_headers().map_err(failed)?;
        let before = (before, log_before);
        image.files =
            Some(DatabaseFiles { database: path.to_owned(), log: log_path, before, heads });
        Ok(image)
    }

    fn new(database: Source, log: Option<Source>) -> Result<Self> {
        let mut len = database.len().map_err(|error| Error::io("read the database", error))?;
        let read =
            log.map(|log| Ok::<_, Error>(WriteAheadLog::read(&log, len)?.map(|read| (log, read))));
        let log = read.transpose()?.flatten();
        if let Some((_, log)) = &log {
            len = log.pages * log.page_bytes;
        }
        let steps = AtomicU64::new(MIN_STEPS.saturating_add(len.saturating_mul(STEPS_PER_BYTE)));
        Ok(Self { database, log, len, steps, files: None })
    }

    /// Returns the size of the database including the log, in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Reads bytes from `at` on. Returns fewer at the end of the database.
    pub(crate) fn read_at(&self, mut at: u64, mut buffer: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while !buffer.is_empty() && at < self.len {
            let (source, from, room) = self.place(at);
            let room = usize::try_from(room).unwrap_or(usize::MAX).min(buffer.len());
            let (part, rest) = buffer.split_at_mut(room);
            part.fill(0);
            // Pages that exist only in the log are zero in the database file.
            source.fill_at(from, part)?;
            (buffer, at, count) = (rest, at + room as u64, count + room);
        }
        Ok(count)
    }

    /// Returns the source of the bytes at `at`, their offset in it, and the number of contiguous
    /// bytes.
    fn place(&self, at: u64) -> (&Source, u64, u64) {
        let left = self.len - at;
        let Some((source, log)) = &self.log else { return (&self.database, at, left) };
        let (page, within) = (at / log.page_bytes, at % log.page_bytes);
        let room = (log.page_bytes - within).min(left);
        let newest = u32::try_from(page + 1).ok().and_then(|page| log.newest.get(&page));
        match newest {
            Some(start) => (source, start + within, room),
            None => (&self.database, at, room),
        }
    }

    /// Takes `steps` from the budget of all queries. Returns false if it is used up.
    pub(super) fn take_steps(&self, steps: u64) -> bool {
        let take = |left: u64| left.checked_sub(steps);
        self.steps.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Returns true if all bytes read so far are consistent.
    pub(crate) fn is_intact(&self) -> bool {
        let Some(files) = &self.files else { return true };
        let (database, log) = files.now();
        let (before, log_before) = files.before;
        if database != Some(before) || log.map(|is| is.identity) != log_before.map(|is| is.identity)
        {
            return false;
        }
        // After a checkpoint the log restarts with another header.
        if self.read_headers().ok() != Some(files.heads) {
            return false;
        }
        // File system clocks are coarse: a checkpoint in the same clock tick as the previous one
        // leaves the time of the database unchanged. That tick was over before the image was read
        // if the log was modified after the database.
        log == log_before || log_before.is_some_and(|log| before.modified < log.modified)
    }

    fn read_headers(&self) -> io::Result<FileHeaders> {
        let mut heads =
            FileHeaders { log: [0; HEADER_BYTES], database: [0; DATABASE_HEADER_BYTES] };
        if let Some((log, _)) = &self.log {
            log.fill_at(0, &mut heads.log)?;
        }
        self.database.fill_at(0, &mut heads.database)?;
        Ok(heads)
    }

    /// Returns true if the files have not changed since the image was opened.
    pub(crate) fn is_current(&self) -> bool {
        self.files.as_ref().is_none_or(|files| {
            let (database, log) = files.now();
            (database, log) == (Some(files.before.0), files.before.1)
        })
    }
}

impl DatabaseFiles {
    fn now(&self) -> (Option<FileFacts>, Option<FileFacts>) {
        let state = |path: &Path| FileFacts::at(path).ok();
        (state(&self.database), state(&self.log))
    }
}

/// Returns the path of the file next to a database with the suffix `end`.
fn sibling_path(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Returns true if a journal shows that the database is in the middle of a change.
fn is_hot(journal: &Path) -> io::Result<bool> {
    let mut magic = [0; JOURNAL_MAGIC.len()];
    match open_regular(journal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        file => Ok(Source::File(file?).fill_at(0, &mut magic)? && magic == JOURNAL_MAGIC),
    }
}
