//! Captures a directory into the `files` section of a context.
//!
//! Reads every name and stat, then the content of files whose stat differs from the baseline, and
//! stores only files whose content or mode differs from the parent context. Omits files ignored by
//! git or by `.turntreeignore`. Never captures `.git`, stores of any name and temporary files.

mod baseline;
mod options;
mod reader;
mod report;
mod rule_scope;
mod rules;
mod scan;
mod sides;
mod stat_cache;
mod table;

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use self::baseline::Baseline;
pub use self::options::{CaptureOptions, CaptureProgress, MAX_FILE_BYTES};
use self::reader::{FileReader, ReadOutcome, ReadRequest, batch_len};
pub(in crate::workspace) use self::report::IGNORED;
pub use self::report::{CaptureReport, SkippedFile, workspace_metadata};
use self::scan::{FileFate, ScanInput, ScanResult, ScannedFile, TIME_IS_UP, UNKNOWN_RULES, scan};
pub(in crate::workspace) use self::sides::OtherState;
use self::sides::Side;
pub use self::stat_cache::StatCache;
use self::table::TableDraft;
use super::disk::folder::Folder;
use super::disk::stat::FileTime;
use super::disk::target::store_above;
use crate::context::sections::FILES;
use crate::context::{Builder, Context, FileEntry};
use crate::error::{Error, Result};
use crate::object::{MAX_BLOB_BYTES, ObjectSink};

/// Sets the `files` section of `builder`, which continues `parent`, to the content of `dir`,
/// whatever the builder had there.
///
/// Stats every file that is not ignored; with a [`StatCache`] it reads only changed files. If
/// nothing changed, the section is that of `parent` and no tree is read or written. At most 32 MiB
/// of files, or one larger file, are in memory at a time, besides the memory of the sink, which is
/// asked to make room regularly.
///
/// # Errors
/// `NotFound` if `dir` is not a directory, `InvalidInput` if it belongs to a store, `Io` if it
/// cannot be opened; errors of the sink. An unreadable file is skipped and keeps its last known
/// content.
pub fn capture(
    sink: &mut dyn ObjectSink,
    parent: &Context,
    builder: &mut Builder,
    dir: &Path,
    options: &CaptureOptions<'_>,
) -> Result<CaptureReport> {
    capture_with_others(sink, parent, builder, dir, options, &[])
}

/// Captures a directory before it is changed: also omits paths ignored by the rules of `others`,
/// and keeps their last known content from the parent context.
///
/// # Errors
/// As [`capture`].
pub(in crate::workspace) fn capture_with_others(
    sink: &mut dyn ObjectSink,
    parent: &Context,
    builder: &mut Builder,
    dir: &Path,
    options: &CaptureOptions<'_>,
    others: &[OtherState<'_>],
) -> Result<CaptureReport> {
    if options.max_file_bytes > MAX_BLOB_BYTES as u64 {
        let (limit, found) = (MAX_BLOB_BYTES as u64, options.max_file_bytes);
        return Err(Error::limit("bytes of a captured file", limit, found));
    }
    let root = open(dir)?;
    let known = Baseline::new(sink, parent, options.cache.and_then(StatCache::table))?;
    let sides = others.iter().map(|other| Side::new(sink, parent, &known, other));
    let sides = sides.collect::<Result<Vec<_>>>()?;
    let input = ScanInput { dir, root: &root, known: &known, options, sides: &sides };
    let scan = scan(&input);
    builder.set_as_in(sink, FILES, parent)?;
    let mut capture =
        Capture { root: &root, options, known: &known, scan, found: CaptureReport::default() };
    capture.read(sink, parent, builder)?;
    capture.remove(sink, builder)?;
    Ok(capture.finish())
}

fn open(dir: &Path) -> Result<Folder> {
    let failed = |error| Error::io(format!("open {}", dir.display()), error);
    let root = Folder::open(dir).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            Error::not_found(format!("{} is not a directory", dir.display()))
        }
        _ => failed(error),
    })?;
    match store_above(dir).map_err(failed)? {
        None => Ok(root),
        Some(store) => Err(Error::invalid(format!(
            "{} belongs to the store {}: files of a store are not captured",
            dir.display(),
            store.display()
        ))),
    }
}

/// A capture after the scan.
struct Capture<'a> {
    root: &'a Folder,
    options: &'a CaptureOptions<'a>,
    known: &'a Baseline<'a>,
    scan: ScanResult,
    found: CaptureReport,
}

/// A file to read: its key, the length of the folder part, and its index in the folder.
struct FileToRead {
    key: String,
    prefix: usize,
    at: usize,
    size: u64,
}

impl FileToRead {
    fn prefix(&self) -> &str {
        self.key.get(..self.prefix).unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.key.get(self.prefix..).unwrap_or_default()
    }
}

impl Capture<'_> {
    /// Reads differing files, and stores changed ones.
    fn read(
        &mut self,
        sink: &mut dyn ObjectSink,
        parent: &Context,
        builder: &mut Builder,
    ) -> Result<()> {
        let files = self.files_to_read();
        let keys = files.iter().map(|file| file.key.as_bytes());
        let known = parent.map(sink, FILES)?.get_sorted(sink, keys)?;
        let mut wanted = Vec::with_capacity(files.len());
        for (file, known) in files.iter().zip(known) {
            let known = known.as_ref().map(FileEntry::from_item).transpose()?;
            wanted.push(ReadRequest {
                prefix: file.prefix(),
                name: file.name(),
                size: file.size,
                known,
            });
        }
        let reader = FileReader {
            root: self.root,
            max_bytes: self.options.max_file_bytes,
            over_budget: self.options.over_budget,
        };
        let mut done = 0;
        while let Some(rest) = wanted.get(done..).filter(|rest| !rest.is_empty()) {
            let next = rest.get(..batch_len(rest)).unwrap_or(rest);
            let outcomes = reader.read(next, done == 0);
            for ((file, wanted), outcome) in files.iter().skip(done).zip(next).zip(outcomes) {
                self.put(sink, builder, file, wanted.known.is_some(), outcome)?;
            }
            done += next.len();
            sink.make_room()?;
            (self.options.progress)(CaptureProgress::Read(done as u64, wanted.len() as u64));
        }
        Ok(())
    }

    /// Returns the files to read, ordered by key.
    fn files_to_read(&self) -> Vec<FileToRead> {
        let mut files = Vec::new();
        for (prefix, folder) in &self.scan.folders {
            for (at, file) in folder.files.iter().flatten().enumerate() {
                if file.fate == FileFate::Read {
                    let key = format!("{prefix}{}", file.name);
                    let size = file.stat.map_or(0, |stat| stat.size);
                    files.push(FileToRead { key, prefix: prefix.len(), at, size });
                }
            }
        }
        files.sort_unstable_by(|before, after| before.key.cmp(&after.key));
        files
    }

    fn put(
        &mut self,
        sink: &mut dyn ObjectSink,
        builder: &mut Builder,
        file: &FileToRead,
        is_known: bool,
        outcome: ReadOutcome,
    ) -> Result<()> {
        let mut skip = |reason| {
            self.found.skipped.push(SkippedFile { path: PathBuf::from(&file.key), reason });
            (if is_known { FileFate::Keep } else { FileFate::Drop }, None)
        };
        let (fate, stat) = match outcome {
            ReadOutcome::Late => {
                self.found.unfinished = true;
                skip(TIME_IS_UP.to_owned())
            }
            ReadOutcome::Skipped(reason) => skip(reason),
            ReadOutcome::Gone => {
                if is_known {
                    builder.set_file(sink, &file.key, None)?;
                    self.found.removed += 1;
                }
                (FileFate::Drop, None)
            }
            ReadOutcome::Same(stat) => {
                self.found.read += 1;
                (FileFate::Keep, Some(stat))
            }
            ReadOutcome::Changed(stat, mode, content) => match sink.refuses(&content)? {
                Some(reason) => skip(reason.to_string()),
                None => {
                    self.found.read += 1;
                    self.found.changed += 1;
                    builder.set_file(sink, &file.key, Some((mode, content)))?;
                    (FileFate::Keep, Some(stat))
                }
            },
        };
        self.found.bytes += stat.map_or(0, |stat| stat.size);
        let moment = self.options.cache.map(StatCache::file_system_time);
        let lasts = |moment: &FileTime| stat.is_some_and(|stat| stat.is_stable_after(moment));
        let stat = stat.filter(|_| moment.as_ref().is_some_and(lasts));
        let folder = self.scan.folders.get_mut(file.prefix());
        let files = folder.and_then(|folder| folder.files.as_mut());
        if let Some(seen) = files.and_then(|files| files.get_mut(file.at)) {
            *seen = ScannedFile { name: std::mem::take(&mut seen.name), stat, fate };
        }
        Ok(())
    }

    /// Removes deleted files, also of deleted folders.
    fn remove(&mut self, sink: &mut dyn ObjectSink, builder: &mut Builder) -> Result<()> {
        for (prefix, folder) in &self.scan.folders {
            for name in &folder.gone {
                builder.set_file(sink, &format!("{prefix}{name}"), None)?;
                self.found.removed += 1;
            }
        }
        let closed: HashSet<&str> = self.scan.closed.iter().map(String::as_str).collect();
        for prefix in self.known.folders() {
            if self.scan.folders.contains_key(prefix) || is_below_skipped(&closed, prefix) {
                continue;
            }
            for file in self.known.folder(prefix) {
                builder.set_file(sink, &format!("{prefix}{}", file.name), None)?;
                self.found.removed += 1;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> CaptureReport {
        self.found.draft = self.draft();
        self.found.files = self.scan.same_files + self.found.read;
        self.found.bytes += self.scan.same_bytes;
        self.found.unfinished |= self.scan.unfinished;
        self.found.warnings = std::mem::take(&mut self.scan.warnings);
        self.found.beside = std::mem::take(&mut self.scan.beside);
        self.found.skipped.append(&mut self.scan.skipped);
        self.found.skipped.sort_by(|before, after| before.path.cmp(&after.path));
        self.found
    }

    /// Returns the table for the next capture, if there is a cache and the table changed.
    fn draft(&self) -> Option<TableDraft> {
        self.options.cache?;
        let is_same = self.scan.folders.values().all(|folder| folder.files.is_none());
        if is_same && self.found.removed == 0 && self.known.is_table_complete() {
            return None;
        }
        let closed: HashSet<&str> = self.scan.closed.iter().map(String::as_str).collect();
        let seen = self.scan.folders.keys().map(String::as_str);
        let folders: BTreeSet<&str> = self.known.folders().into_iter().chain(seen).collect();
        let mut draft = TableDraft::default();
        for prefix in folders {
            let folder = self.scan.folders.get(prefix);
            match (folder.and_then(|folder| Some((folder, folder.files.as_ref()?))), folder) {
                (Some((folder, files)), _) => {
                    let files = files.iter().filter(|file| file.fate != FileFate::Drop);
                    let files = files.map(|file| (file.name.as_str(), file.stat));
                    draft.add(prefix, &folder.rules, files);
                }
                // Unchanged, or not entered.
                (None, folder) if folder.is_some() || is_below_skipped(&closed, prefix) => {
                    self.copy(&mut draft, prefix);
                }
                (None, _) => {}
            }
        }
        Some(draft)
    }

    fn copy(&self, draft: &mut TableDraft, prefix: &str) {
        match self.known.block(prefix) {
            Some((table, block)) => draft.copy(table, block),
            // The rules of the capture that stored these are unknown.
            None => {
                let files = self.known.folder(prefix);
                let files = files.iter().map(|file| (file.name, file.stat));
                draft.add(prefix, &UNKNOWN_RULES, files);
            }
        }
    }
}

/// Returns true if a folder or one of its ancestors was skipped.
fn is_below_skipped(closed: &HashSet<&str>, prefix: &str) -> bool {
    let mut ends = prefix.match_indices('/').map(|(at, _)| prefix.get(..=at).unwrap_or_default());
    closed.contains("") || ends.any(|above| closed.contains(above))
}
