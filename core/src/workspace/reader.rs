//! Reads files that may change meanwhile, many at a time and never more than some bytes at once.
//!
//! A file counts as read when the system says the same of the open file before and after, and it had
//! as many bytes as it said. Otherwise it is read again, and after some tries left as it is known.

use std::ffi::{CString, OsStr};
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use rayon::prelude::*;

use super::folder::Folder;
use super::scan::too_large;
use super::stat::Stat;
use crate::context::{FileEntry, FileMode};
use crate::object::{Kind, ObjectId};

/// Bytes of files that are in memory at once, unless a single one has more.
pub(super) const WINDOW_BYTES: u64 = 32 << 20;

/// Files that are read before anybody is told.
const WINDOW_FILES: usize = 4096;

/// How often a file is read that changes meanwhile.
const MAX_TRIES: usize = 3;

const CHANGES: &str = "it changes while it is read";

/// A file to read.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    /// The path of its folder, empty or with a slash at its end.
    pub(super) prefix: &'a str,
    pub(super) name: &'a str,
    /// Bytes that it has, as far as is known.
    pub(super) size: u64,
    /// Its last known content.
    pub(super) known: Option<FileEntry>,
}

/// What came of a file.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It has its last known content.
    Same(Stat),
    /// It has another one.
    Changed(Stat, FileMode, Bytes),
    /// It is not there any more.
    Gone,
    /// It cannot be read.
    Skipped(String),
    /// The time was up before.
    Late,
}

/// How files are read.
pub(super) struct Reader<'a> {
    pub(super) root: &'a Folder,
    /// Largest file, in bytes.
    pub(super) max_bytes: u64,
    pub(super) over_budget: &'a (dyn Fn() -> bool + Sync),
}

/// How many of the first of `wanted` are read in one go.
pub(super) fn window(wanted: &[Wanted<'_>]) -> usize {
    let mut bytes = 0_u64;
    let fits = |file: &&Wanted<'_>| {
        bytes = bytes.saturating_add(file.size);
        bytes <= WINDOW_BYTES
    };
    wanted.iter().take(WINDOW_FILES).take_while(fits).count().max(1)
}

impl Reader<'_> {
    /// Reads files, on all processors. When the time is up, the first one is read all the same if
    /// `insist` says so: whoever never has time for anything would never be done.
    pub(super) fn read(&self, wanted: &[Wanted<'_>], insist: bool) -> Vec<Outcome> {
        let is_over = AtomicBool::new(false);
        let read = |open: &mut OpenFolder, (at, file): (usize, &Wanted<'_>)| {
            if !is_over.load(Ordering::Relaxed) && (self.over_budget)() {
                is_over.store(true, Ordering::Relaxed);
            }
            if is_over.load(Ordering::Relaxed) && !(insist && at == 0) {
                return Outcome::Late;
            }
            match self.read_file(open, file) {
                Ok(outcome) => outcome,
                Err(error) if error.kind() == io::ErrorKind::NotFound => Outcome::Gone,
                Err(error) => Outcome::Skipped(error.to_string()),
            }
        };
        wanted.par_iter().enumerate().map_init(|| None, read).collect()
    }

    fn read_file(&self, open: &mut OpenFolder, wanted: &Wanted<'_>) -> io::Result<Outcome> {
        let folder = match open {
            Some((prefix, folder)) if prefix == wanted.prefix => folder,
            _ => {
                let path = Path::new(wanted.prefix.trim_end_matches('/'));
                &mut open.insert((wanted.prefix.to_owned(), self.root.descend(path)?)).1
            }
        };
        for _ in 0..MAX_TRIES {
            let (stat, content) = match self.read_once(folder, wanted.name)? {
                Once::Read(stat, content) => (stat, content),
                Once::TooLarge => return Ok(Outcome::Skipped(too_large(self.max_bytes))),
                Once::NotAFile => return Ok(Outcome::Skipped("it is no file any more".to_owned())),
                Once::Changed => continue,
            };
            let Some(mode) = stat.file_mode() else { continue };
            let is_same = wanted.known.as_ref().is_some_and(|known| {
                known.mode == mode
                    && known.size == content.len() as u64
                    && known.blob == ObjectId::of(Kind::Blob, &content)
            });
            if is_same {
                return Ok(Outcome::Same(stat));
            }
            return Ok(Outcome::Changed(stat, mode, content.into()));
        }
        Ok(Outcome::Skipped(CHANGES.to_owned()))
    }

    fn read_once(&self, folder: &Folder, name: &str) -> io::Result<Once> {
        let c_name = CString::new(name)?;
        let before = Stat::from(&folder.stat(&c_name)?);
        let content = match before.file_mode() {
            None => return Ok(Once::NotAFile),
            Some(_) if before.size > self.max_bytes => return Ok(Once::TooLarge),
            Some(FileMode::Symlink) => folder.read_link(OsStr::new(name))?,
            Some(FileMode::Regular | FileMode::Executable) => {
                let file = folder.read(OsStr::new(name))?;
                // What was opened is what was looked at, or it is not read: a pipe could have come.
                if Stat::from(&rustix::fs::fstat(&file)?) != before {
                    return Ok(Once::Changed);
                }
                let mut content = Vec::with_capacity(usize::try_from(before.size).unwrap_or(0));
                (&file).take(before.size + 1).read_to_end(&mut content)?;
                if Stat::from(&rustix::fs::fstat(&file)?) != before {
                    return Ok(Once::Changed);
                }
                content
            }
        };
        let is_link = before.file_mode() == Some(FileMode::Symlink);
        let is_still = !is_link || Stat::from(&folder.stat(&c_name)?) == before;
        if is_still && content.len() as u64 == before.size {
            return Ok(Once::Read(before, content));
        }
        Ok(Once::Changed)
    }
}

/// The folder that a thread has read a file in last.
type OpenFolder = Option<(String, Folder)>;

/// What came of one try.
enum Once {
    Read(Stat, Vec<u8>),
    Changed,
    TooLarge,
    NotAFile,
}
