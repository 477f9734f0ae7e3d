//! Imports a transcript that grows: with the notes of its last import, it reads only the new part.
//!
//! A store keeps notes for few sessions ([`write_note`]). A first import therefore leaves them only
//! for a file that is large and may still be written.

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use turntree::context::MAIN_AGENT;
use turntree::error::{Error, ErrorKind, Result};
use turntree::object::{ObjectId, RefValue};
use turntree::repo::Repository;
use turntree::store::RefTable;
use turntree::workspace::{open_regular, read_note, write_note};

use crate::formats::any::follow_beside;
use crate::formats::detect::detect;
use crate::import::follow::{FollowOptions, FollowReport, followed_bytes};
use crate::import::fork::Origins;
use crate::model::format::{FormatReader, ImportOptions};
use crate::{HEAD_BYTES, ImportReport};

/// Attempts for a session when other processes are faster.
const ATTEMPTS: usize = 5;

/// A file of fewer bytes is read whole in the time that notes would save.
const LARGE_BYTES: u64 = 1 << 20;

/// A file that has not changed for this time is unlikely to grow.
const RECENT: Duration = Duration::from_secs(24 * 60 * 60);

/// The import of a file, as far as it was complete.
pub(super) struct Grown {
    pub(super) report: ImportReport,
    /// True if the session has the whole file. A client may have added to it during the import.
    pub(super) is_whole: bool,
}

/// Imports the transcript at `path` like [`import`](crate::import()), but reads only its new part if
/// an earlier import left notes, and leaves notes if the file is large and may grow. Without the
/// notes it costs as much as an import.
///
/// `passed` receives the number of bytes of the file that were read, or were known already.
///
/// Returns `None`, and changes nothing, if the file must be imported whole: it is small and has no
/// notes, is compressed, is no file of lines, or its last line has no end yet.
///
/// # Errors
/// The errors of [`import`](crate::import()).
pub fn import_growing(
    repo: &Repository,
    path: &Path,
    options: &ImportOptions,
    directory: Option<&str>,
    passed: &(dyn Fn(u64) + Sync),
) -> Result<Option<ImportReport>> {
    let origins = Arc::default();
    let source = GrowingFile { path, directory, passed, origins: &origins };
    let imported = import_large(repo, &source, options)?;
    origins.save(repo);
    Ok(imported.map(|it| it.report))
}

/// A transcript file that may grow.
pub(super) struct GrowingFile<'a> {
    pub(super) path: &'a Path,
    /// The working directory of its session, for formats that do not record it.
    pub(super) directory: Option<&'a str>,
    /// Receives the number of bytes that were read, or were known already.
    pub(super) passed: &'a (dyn Fn(u64) + Sync),
    /// The origins that it shares with other transcripts.
    pub(super) origins: &'a Arc<Origins>,
}

/// Imports a transcript as [`import_growing`] does.
pub(super) fn import_large(
    repo: &Repository,
    source: &GrowingFile<'_>,
    options: &ImportOptions,
) -> Result<Option<Grown>> {
    // Only an import without a session that HEAD could be on moves HEAD as a follower does.
    let moves_head = options.switch && repo.tip(&repo.shared_head()?).is_some();
    if moves_head || options.branch.is_some() || !is_worth_notes(repo, source.path, options)? {
        return Ok(None);
    }
    follow_file(repo, source, options, false)
}

/// Imports the complete records of a transcript that a client may be writing. Returns `None` if
/// there are none yet.
pub(super) fn follow_file(
    repo: &Repository,
    source: &GrowingFile<'_>,
    options: &ImportOptions,
    is_live: bool,
) -> Result<Option<Grown>> {
    let GrowingFile { path, directory, passed, origins } = *source;
    retrying(repo, || {
        let file = open_regular(path).map_err(|error| Error::io("open it", error))?;
        let bytes = file.metadata().map_err(|error| Error::io("open it", error))?.len();
        let notes = read_note(repo, &options.session);
        let following = FollowOptions {
            directory: directory.map(str::to_owned),
            adoption: options.adoption.clone(),
            is_live,
            ..FollowOptions::new(&options.session, options.stamp.clone())
        };
        let before = repo.refs();
        let read = Cell::new(0);
        let count = |bytes| {
            read.set(read.get() + bytes);
            passed(bytes);
        };
        let file = Counted { inner: file, passed: &count };
        let Some(followed) = follow_beside(repo, file, notes.as_deref(), following, origins)?
        else {
            return Ok(None);
        };
        if let Some(new) = followed.notes.as_deref().filter(|new| Some(*new) != notes.as_deref()) {
            // Without them the next import reads the whole file.
            let _ = write_note(repo, &options.session, new);
        }
        passed(bytes.saturating_sub(read.get()));
        let taken = followed.notes.as_deref().and_then(followed_bytes);
        let report = report(repo, followed, &before, bytes)?;
        Ok(Some(Grown { report, is_whole: taken == Some(bytes) }))
    })
}

/// A reader that reports the number of bytes it has read.
pub(super) struct Counted<'a, R> {
    pub(super) inner: R,
    pub(super) passed: &'a dyn Fn(u64),
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        (self.passed)(read as u64);
        Ok(read)
    }
}

impl<R: Seek> Seek for Counted<'_, R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

/// Tries again when another process was faster.
pub(super) fn retrying<T>(repo: &Repository, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(error) if error.kind() == ErrorKind::Conflict => repo.refresh()?,
            done => return done,
        }
    }
    attempt()
}

/// Returns true if the file has lines, all of them complete, and either has notes or is large and
/// may get them.
fn is_worth_notes(repo: &Repository, path: &Path, options: &ImportOptions) -> Result<bool> {
    let failed = |error| Error::io("open it", error);
    let mut file = open_regular(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    if read_note(repo, &options.session).is_none() {
        let is_known = repo.branch_of_session(&options.session)?.is_some();
        let now = u64::try_from(options.stamp.time.micros).unwrap_or_default();
        let now = SystemTime::UNIX_EPOCH + Duration::from_micros(now);
        let age = found.modified().ok().and_then(|at| now.duration_since(at).ok());
        let is_recent = age.is_none_or(|age| age < RECENT);
        if found.len() < LARGE_BYTES || !(is_known || is_recent) {
            return Ok(false);
        }
    }
    has_whole_lines(&mut file, found.len(), options)
}

/// Returns true if the file is of a format of lines, not compressed, and ends with a line end.
fn has_whole_lines(
    file: &mut (impl Read + Seek),
    len: u64,
    options: &ImportOptions,
) -> Result<bool> {
    let failed = |error| Error::io("read the transcript", error);
    let mut last = Vec::new();
    file.seek(SeekFrom::Start(len.saturating_sub(1))).map_err(failed)?;
    file.take(1).read_to_end(&mut last).map_err(failed)?;
    if last != b"\n" {
        return Ok(false);
    }
    let mut head = Vec::new();
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    file.take(HEAD_BYTES as u64).read_to_end(&mut head).map_err(failed)?;
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_record = serde_json::from_slice::<serde::de::IgnoredAny>(first).is_ok();
    Ok(is_record
        && detect(&head).is_ok_and(|format| {
            matches!(format.reader, FormatReader::Records(_))
                && options.format.is_none_or(|named| named.name == format.name)
        }))
}

/// Returns the report of an import, by what its branch had before.
fn report(
    repo: &Repository,
    followed: FollowReport,
    refs: &RefTable,
    input_bytes: u64,
) -> Result<ImportReport> {
    let before = match refs.value(&followed.branch.full()) {
        Some(RefValue::Object(tip)) => Some(*tip),
        _ => None,
    };
    let (mut turns, mut messages) = (followed.turns, followed.messages);
    if before.is_some() {
        let (then, now) = (size(repo, before)?, size(repo, Some(followed.head))?);
        // A turn that grew was rebuilt in its place.
        let grown = u64::from(followed.moved);
        turns = now.0.saturating_sub(then.0).max(grown);
        messages = now.1.saturating_sub(then.1);
    }
    Ok(ImportReport {
        turns,
        messages,
        input_bytes,
        new_bytes: followed.new_bytes,
        notes: followed.odd,
        unread: followed.unread,
        others: followed.others,
        ..ImportReport::unchanged(followed.branch, followed.head, followed.format)
    })
}

/// Returns the turns of a branch, and the messages of its main conversation.
fn size(repo: &Repository, tip: Option<ObjectId>) -> Result<(u64, u64)> {
    let Some(tip) = tip else { return Ok((0, 0)) };
    let turns = repo.commit(&tip)?.turn;
    Ok((turns, repo.context(&tip)?.messages(repo, MAIN_AGENT)?.len()))
}
