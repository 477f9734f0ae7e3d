//! A directory becomes the `files` section of a context.
//!
//! The rules of `.gitignore` and `.turntreeignore` hold; `.git`, stores under any name, and what a
//! killed restore left are never captured.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, FileType};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use ignore::{DirEntry, WalkBuilder};
use rustix::fs::{Mode, OFlags};

use super::part;
use super::target::is_store;
use crate::context::{Builder, Context, FileMode};
use crate::error::{Error, Result};
use crate::object::ObjectSink;

/// Largest file that is captured, in bytes.
pub const MAX_FILE_BYTES: u64 = 100 << 20;

/// Folders that are never captured.
const NEVER: [&str; 2] = [".git", ".turntree"];

const NOT_A_FILE: &str = "it is neither a file nor a link";

/// How a capture is made. [`CaptureOptions::default`] is a whole one.
#[derive(Clone, Copy)]
pub struct CaptureOptions<'a> {
    /// Largest file that is captured, in bytes; [`MAX_FILE_BYTES`] by default.
    pub max_file_bytes: u64,
    /// Whether the time for it is up. Asked now and then; never by default, for the library knows no
    /// clock. What was not looked at by then keeps its last known content.
    pub over_budget: &'a (dyn Fn() -> bool + Sync),
    /// Folders that are never entered under any name, such as that of the store.
    pub never: &'a [PathBuf],
}

impl Default for CaptureOptions<'_> {
    fn default() -> Self {
        Self { max_file_bytes: MAX_FILE_BYTES, over_budget: &|| false, never: &[] }
    }
}

impl fmt::Debug for CaptureOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { max_file_bytes, never, .. } = self;
        let mut shown = f.debug_struct("CaptureOptions");
        shown.field("max_file_bytes", max_file_bytes).field("never", never).finish_non_exhaustive()
    }
}

/// What a capture found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// Files and links captured.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What was left out, and why.
    pub skipped: Vec<Skipped>,
    /// Whether the time was up before everything was looked at: another capture goes on.
    pub unfinished: bool,
}

/// A path that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The path, below the directory.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

/// Makes the `files` section of `builder`, which continues `parent`, what `dir` holds.
///
/// Reads every file that is not ignored; one file is in memory at a time, beside the sink.
///
/// # Errors
/// `NotFound` when `dir` is not a directory, and what the sink reports. What cannot be read in it is
/// skipped and keeps its last known content.
pub fn capture(
    sink: &mut dyn ObjectSink,
    parent: &Context,
    builder: &mut Builder,
    dir: &Path,
    options: &CaptureOptions<'_>,
) -> Result<Captured> {
    if !dir.is_dir() {
        return Err(Error::not_found(format!("{} is not a directory", dir.display())));
    }
    let mut captured = Captured::default();
    let mut gone = BTreeSet::new();
    for entry in parent.map(sink, "files")?.iter(sink) {
        gone.insert(crate::context::text_key(&entry?.0)?);
    }
    for entry in walk(dir, options.never) {
        if (options.over_budget)() {
            captured.unfinished = true;
            return Ok(captured);
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                captured.skipped.push(unreadable(dir, &error, &mut gone));
                continue;
            }
        };
        let Some(kind) = entry.file_type().filter(|kind| !kind.is_dir()) else { continue };
        let relative = entry.path().strip_prefix(dir).unwrap_or(entry.path());
        match read(entry.path(), relative, kind, options.max_file_bytes) {
            Ok((key, mode, content)) => {
                captured.files += 1;
                captured.bytes += content.len() as u64;
                gone.remove(&key);
                builder.set_file(sink, &key, Some((mode, content)))?;
            }
            Err(reason) => {
                // What cannot be read now is not gone: its last known content stays.
                gone.remove(&*relative.to_string_lossy());
                captured.skipped.push(Skipped { path: relative.to_owned(), reason });
            }
        }
    }
    for key in gone {
        builder.set_file(sink, &key, None)?;
    }
    Ok(captured)
}

/// A folder that cannot be read, or is gone since it was listed: what is known below it stays.
fn unreadable(dir: &Path, error: &ignore::Error, gone: &mut BTreeSet<String>) -> Skipped {
    let path = match error {
        ignore::Error::WithPath { path, .. } => path.strip_prefix(dir).unwrap_or(path).to_owned(),
        _ => PathBuf::new(),
    };
    gone.retain(|key| !Path::new(key).starts_with(&path));
    Skipped { path, reason: error.to_string() }
}

fn walk(dir: &Path, never: &[PathBuf]) -> ignore::Walk {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    let never: Vec<_> =
        never.iter().filter_map(|path| fs::metadata(path).ok()).map(identity).collect();
    WalkBuilder::new(dir)
        .hidden(false)
        .require_git(false)
        .git_global(false)
        .git_exclude(false)
        .parents(false)
        .add_custom_ignore_filename(".turntreeignore")
        .filter_entry(move |entry| {
            let is_never = || entry.metadata().is_ok_and(|found| never.contains(&identity(found)));
            !is_left_out(entry) && (never.is_empty() || !is_never())
        })
        .sort_by_file_name(Ord::cmp)
        .build()
}

/// Whether an entry is never captured: folders of git, stores, and what a killed restore left.
fn is_left_out(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
    NEVER.iter().any(|never| name == *never)
        || name.as_encoded_bytes().starts_with(part::PREFIX.as_bytes())
        || (is_folder && is_store(entry.path()))
}

/// The key, mode and content of a file, or why it is left out.
fn read(
    path: &Path,
    relative: &Path,
    kind: FileType,
    max_bytes: u64,
) -> Result<(String, FileMode, Bytes), String> {
    let key = relative.to_str().ok_or("its name is not UTF-8")?.to_owned();
    let failed = |error: std::io::Error| error.to_string();
    if kind.is_symlink() {
        let target = fs::read_link(path).map_err(failed)?;
        let target = Bytes::copy_from_slice(target.as_os_str().as_encoded_bytes());
        return Ok((key, FileMode::Symlink, target));
    }
    if !kind.is_file() {
        return Err(NOT_A_FILE.to_owned());
    }
    // It may have become a link or a pipe since it was listed: neither is followed or waited for.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = fs::File::from(opened.map_err(|error| failed(error.into()))?);
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(NOT_A_FILE.to_owned());
    }
    let mut content = Vec::new();
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 > max_bytes {
        return Err(format!("it has more bytes than the limit of {max_bytes}"));
    }
    Ok((key, mode_of(&found), content.into()))
}

#[cfg(unix)]
fn mode_of(found: &fs::Metadata) -> FileMode {
    use std::os::unix::fs::PermissionsExt;
    if found.permissions().mode() & 0o111 == 0 { FileMode::Regular } else { FileMode::Executable }
}
