//! Reads files that may change concurrently, many in parallel, and only a bounded number of bytes
//! at a time.
//!
//! A read succeeds if the stat of the open file is the same before and after, and matches the
//! number of bytes. Otherwise it is repeated, and after some attempts the file keeps its last known
//! content.

use std::ffi::{CString, OsStr};
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use rayon::prelude::*;

use super::scan::too_large;
use crate::context::{FileEntry, FileMode};
use crate::object::{Kind, ObjectId};
use crate::platform::{HAS_EXECUTABLE_BIT, stat_of};
use crate::workspace::disk::folder::Folder;
use crate::workspace::disk::stat::Stat;

/// Maximum bytes of files in memory, unless a single file is larger.
pub(in crate::workspace) const WINDOW_BYTES: u64 = 32 << 20;

/// Maximum number of files read between progress reports.
const WINDOW_FILES: usize = 4096;

/// Maximum number of attempts to read a changing file.
const MAX_TRIES: usize = 3;

const CHANGES: &str = "it changed while it was read";

/// A file to read.
#[derive(Debug)]
pub(in crate::workspace) struct ReadRequest<'a> {
    /// The path of its folder, empty or with a trailing slash.
    pub(in crate::workspace) prefix: &'a str,
    pub(in crate::workspace) name: &'a str,
    /// The expected size in bytes.
    pub(in crate::workspace) size: u64,
    /// The last known content.
    pub(in crate::workspace) known: Option<FileEntry>,
}

/// The outcome of reading a file.
#[derive(Debug)]
pub(in crate::workspace) enum ReadOutcome {
    /// The content is the last known one.
    Same(Stat),
    /// The content differs.
    Changed(Stat, FileMode, Bytes),
    /// The file was deleted.
    Gone,
    /// The file cannot be read.
    Skipped(String),
    /// The deadline passed before.
    Late,
}

/// Limits of reading.
pub(in crate::workspace) struct FileReader<'a> {
    pub(in crate::workspace) root: &'a Folder,
    /// Maximum file size, in bytes.
    pub(in crate::workspace) max_bytes: u64,
    pub(in crate::workspace) over_budget: &'a (dyn Fn() -> bool + Sync),
}

/// Returns how many of the first `wanted` files are read in one batch.
pub(in crate::workspace) fn batch_len(wanted: &[ReadRequest<'_>]) -> usize {
    let mut bytes = 0_u64;
    let fits = |file: &&ReadRequest<'_>| {
        bytes = bytes.saturating_add(file.size);
        bytes <= WINDOW_BYTES
    };
    wanted.iter().take(WINDOW_FILES).take_while(fits).count().max(1)
}

impl FileReader<'_> {
    /// Reads files on all processors. After the deadline it still reads the first file if `insist`
    /// is set, so that repeated captures with too little time make progress.
    pub(in crate::workspace) fn read(
        &self,
        wanted: &[ReadRequest<'_>],
        insist: bool,
    ) -> Vec<ReadOutcome> {
        let is_over = AtomicBool::new(false);
        let read = |open: &mut OpenFolder, (at, file): (usize, &ReadRequest<'_>)| {
            if !is_over.load(Ordering::Relaxed) && (self.over_budget)() {
                is_over.store(true, Ordering::Relaxed);
            }
            if is_over.load(Ordering::Relaxed) && !(insist && at == 0) {
                return ReadOutcome::Late;
            }
            match self.read_file(open, file) {
                Ok(outcome) => outcome,
                Err(error) if error.kind() == io::ErrorKind::NotFound => ReadOutcome::Gone,
                Err(error) => ReadOutcome::Skipped(error.to_string()),
            }
        };
        wanted.par_iter().enumerate().map_init(|| None, read).collect()
    }

    fn read_file(
        &self,
        open: &mut OpenFolder,
        wanted: &ReadRequest<'_>,
    ) -> io::Result<ReadOutcome> {
        let folder = match open {
            Some((prefix, folder)) if prefix == wanted.prefix => folder,
            _ => {
                let path = Path::new(wanted.prefix.trim_end_matches('/'));
                &mut open.insert((wanted.prefix.to_owned(), self.root.descend(path)?)).1
            }
        };
        for _ in 0..MAX_TRIES {
            let (stat, content) = match self.read_once(folder, wanted.name)? {
                ReadAttempt::Read(stat, content) => (stat, content),
                ReadAttempt::TooLarge => {
                    return Ok(ReadOutcome::Skipped(too_large(self.max_bytes)));
                }
                ReadAttempt::NotAFile => {
                    return Ok(ReadOutcome::Skipped("it is not a file now".to_owned()));
                }
                ReadAttempt::Changed => continue,
            };
            let Some(mode) = stat.file_mode() else { continue };
            let mode = kept_mode(mode, wanted.known.as_ref(), HAS_EXECUTABLE_BIT);
            let is_same = wanted.known.as_ref().is_some_and(|known| {
                known.mode == mode
                    && known.size == content.len() as u64
                    && known.blob == ObjectId::of(Kind::Blob, &content)
            });
            if is_same {
                return Ok(ReadOutcome::Same(stat));
            }
            return Ok(ReadOutcome::Changed(stat, mode, content.into()));
        }
        Ok(ReadOutcome::Skipped(CHANGES.to_owned()))
    }

    fn read_once(&self, folder: &Folder, name: &str) -> io::Result<ReadAttempt> {
        let c_name = CString::new(name)?;
        let before = Stat::from(&folder.stat(&c_name)?);
        let content = match before.file_mode() {
            None => return Ok(ReadAttempt::NotAFile),
            Some(_) if before.size > self.max_bytes => return Ok(ReadAttempt::TooLarge),
            Some(FileMode::Symlink) => folder.read_link(OsStr::new(name))?,
            Some(FileMode::Regular | FileMode::Executable) => {
                let file = folder.read(OsStr::new(name))?;
                // Skip the file if the opened one differs from the examined one: it could be a
                // pipe.
                if Stat::from(&stat_of(&file)?) != before {
                    return Ok(ReadAttempt::Changed);
                }
                let mut content = Vec::with_capacity(usize::try_from(before.size).unwrap_or(0));
                (&file).take(before.size + 1).read_to_end(&mut content)?;
                if Stat::from(&stat_of(&file)?) != before {
                    return Ok(ReadAttempt::Changed);
                }
                content
            }
        };
        let is_link = before.file_mode() == Some(FileMode::Symlink);
        let is_still = !is_link || Stat::from(&folder.stat(&c_name)?) == before;
        if is_still && content.len() as u64 == before.size {
            return Ok(ReadAttempt::Read(before, content));
        }
        Ok(ReadAttempt::Changed)
    }
}

/// Returns the mode of a file that was found: on a system without executable bits, an executable
/// stays one.
fn kept_mode(found: FileMode, known: Option<&FileEntry>, has_bit: bool) -> FileMode {
    match known {
        Some(known) if !has_bit && found == FileMode::Regular => match known.mode {
            FileMode::Executable => FileMode::Executable,
            FileMode::Regular | FileMode::Symlink => found,
        },
        _ => found,
    }
}

/// The folder of the file that a thread read last.
type OpenFolder = Option<(String, Folder)>;

/// The outcome of one attempt.
enum ReadAttempt {
    Read(Stat, Vec<u8>),
    Changed,
    TooLarge,
    NotAFile,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executable_stays_one_where_files_have_no_such_bit() {
        use FileMode::{Executable, Regular, Symlink};
        let blob = ObjectId::of(Kind::Blob, b"");
        for (found, known, has_bit, expected) in [
            (Regular, Some(Executable), false, Executable),
            (Regular, Some(Executable), true, Regular),
            (Regular, Some(Symlink), false, Regular),
            (Symlink, Some(Executable), false, Symlink),
            (Regular, None, false, Regular),
        ] {
            let known = known.map(|mode| FileEntry { mode, size: 0, blob });
            assert_eq!(kept_mode(found, known.as_ref(), has_bit), expected);
        }
    }
}
