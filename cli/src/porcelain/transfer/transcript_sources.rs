//! Transcripts outside of the store with content to redact: finds them in the directories of agents
//! and in the sources of adopted sessions, and rewrites them.
//!
//! A file is rewritten as a temporary file and renamed over the original, with its permissions and
//! times; no copy is kept. A file that would become invalid JSON, or that another process has open
//! for writing (as far as the system reports), is left as it is.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, FileTimes};
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;
use turntree::maintenance::Pattern;
use turntree::platform::{FileFacts, identity, sync_names};
use turntree::workspace::open_regular;
use turntree::{Error, Result};
use turntree_exchange::agents::places;
use turntree_exchange::{HEAD_BYTES, decompress};

/// Maximum number of files to read.
const MAX_FILES: usize = 1 << 20;

/// Maximum bytes of a file to read.
const MAX_BYTES: u64 = 2 << 30;

/// Maximum depth of directories.
const MAX_DEPTH: usize = 16;

/// A file outside of the store with content to redact.
#[derive(Debug)]
pub(crate) struct SourceFile {
    path: PathBuf,
    /// The path with redacted content masked, since a name may contain it too.
    pub(crate) shown: String,
    pub(crate) matches: u64,
    /// True once the file was rewritten without it.
    pub(crate) is_redacted: bool,
    /// The reason why it cannot be rewritten.
    pub(crate) obstacle: Option<String>,
}

/// The files of agents, and of `others`, in which `pattern` matches.
pub(crate) fn holding(pattern: &Pattern, others: Vec<PathBuf>) -> Vec<SourceFile> {
    let mut files = BTreeSet::new();
    for place in places(&|name| std::env::var_os(name)) {
        list(&place.path, MAX_DEPTH, &mut files);
    }
    for path in others {
        list(&path, 0, &mut files);
    }
    files.into_iter().filter_map(|path| look(pattern, path)).collect()
}

/// Collects all files at or below `path`; does not follow links.
fn list(path: &Path, depth: usize, files: &mut BTreeSet<PathBuf>) {
    let Ok(found) = fs::symlink_metadata(path) else { return };
    if found.is_file() && files.len() < MAX_FILES {
        files.insert(path.to_owned());
    } else if found.is_dir() && depth > 0 {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            list(&entry.path(), depth - 1, files);
        }
    }
}

fn look(pattern: &Pattern, path: PathBuf) -> Option<SourceFile> {
    // Unreadable files are not transcripts of this user.
    let (bytes, is_packed) = read(&path).ok()?;
    let matches = pattern.count(&bytes);
    (matches > 0).then(|| {
        let obstacle = is_packed.then(|| "it is compressed".to_owned());
        let obstacle = obstacle.or_else(|| changed(pattern, &bytes).err());
        SourceFile { shown: shown(pattern, &path), path, matches, is_redacted: false, obstacle }
    })
}

/// A path with redacted content masked.
pub(crate) fn shown(pattern: &Pattern, path: &Path) -> String {
    let name = pattern.replace(path.as_os_str().as_encoded_bytes()).unwrap_or_default();
    String::from_utf8_lossy(&name).into_owned()
}

/// Reads a file, and decompresses it; also returns whether it was compressed.
fn read(path: &Path) -> std::io::Result<(Vec<u8>, bool)> {
    let file = open_regular(path)?;
    let is_packed = path.extension().is_some_and(|end| end == "zst");
    let mut bytes = Vec::new();
    if is_packed {
        let input = Box::new(BufReader::with_capacity(HEAD_BYTES, file));
        let (head, rest) = decompress(input).map_err(std::io::Error::other)?;
        bytes = head;
        rest.take(MAX_BYTES).read_to_end(&mut bytes)?;
    } else {
        file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    }
    Ok((bytes, is_packed))
}

/// The bytes with the content redacted, or the reason why a client could not read them.
fn changed(pattern: &Pattern, bytes: &[u8]) -> std::result::Result<Vec<u8>, String> {
    if bytes.len() as u64 >= MAX_BYTES {
        return Err("it is too large".to_owned());
    }
    let new = pattern.replace(bytes).map_err(|error| error.to_string())?;
    let is_json = |bytes: &[u8]| serde_json::from_slice::<IgnoredAny>(bytes).is_ok();
    let broken = || Err("it would not be valid JSON".to_owned());
    if is_json(bytes) {
        return if is_json(&new) { Ok(new) } else { broken() };
    }
    let lines = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
    let (old_lines, new_lines) =
        (bytes.split(|byte| *byte == b'\n'), new.split(|byte| *byte == b'\n'));
    let mut has_record = false;
    for (old, new) in old_lines.zip(new_lines) {
        if !old.is_empty() && is_json(old) {
            has_record = true;
            if old != new && !is_json(new) {
                return broken();
            }
        }
    }
    match has_record && lines(bytes) == lines(&new) {
        true => Ok(new),
        false => Err("it is not JSON, such as a database".to_owned()),
    }
}

/// Rewrites each file without it, if possible.
pub(crate) fn redact_all(pattern: &Pattern, files: &mut [SourceFile]) {
    for file in files.iter_mut().filter(|file| file.obstacle.is_none()) {
        match redact(pattern, &file.path) {
            Ok(()) => file.is_redacted = true,
            Err(error) => file.obstacle = Some(error.to_string()),
        }
    }
}

fn redact(pattern: &Pattern, path: &Path) -> Result<()> {
    let failed = |error| Error::io("rewrite it", error);
    let before = fs::symlink_metadata(path).map_err(failed)?;
    let facts = FileFacts::at(path).map_err(failed)?;
    if facts.links > 1 {
        return Err(Error::invalid("it has another hard link, which would keep the old content"));
    }
    let (bytes, _) = read(path).map_err(failed)?;
    let new = changed(pattern, &bytes).map_err(Error::invalid)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut part = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    part.write_all(&new).map_err(failed)?;
    part.as_file().set_permissions(before.permissions()).map_err(failed)?;
    let times = before.modified().map(|time| FileTimes::new().set_modified(time));
    part.as_file().set_times(times.map_err(failed)?).map_err(failed)?;
    part.as_file().sync_all().map_err(failed)?;
    if is_open_for_writing(facts.identity) {
        return Err(Error::invalid("a process has it open for writing: end it first"));
    }
    let now = FileFacts::at(path).map_err(failed)?;
    let state = |facts: &FileFacts| (facts.identity, facts.bytes, facts.modified);
    if state(&now) != state(&facts) {
        return Err(Error::invalid("it changed during the redaction: run it again"));
    }
    part.persist(path).map_err(|error| failed(error.error))?;
    sync_names(folder).map_err(failed)?;
    let (written, _) = read(path).map_err(failed)?;
    if pattern.count(&written) > 0 {
        return Err(Error::invalid("a process has written it there again: end it first"));
    }
    Ok(())
}

/// Returns true if a process of this user has a file open for writing, as far as the system
/// reports.
pub(crate) fn is_open_for_writing(identity: (u64, u64)) -> bool {
    open_for_writing(|found| found == identity).next().is_some()
}

/// The files that processes of this user have open for writing, as far as the system reports:
/// device and inode of each.
pub(crate) fn all_open_for_writing() -> HashSet<(u64, u64)> {
    open_for_writing(|_| true).collect()
}

fn open_for_writing(is_asked: impl Fn((u64, u64)) -> bool) -> impl Iterator<Item = (u64, u64)> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let open = processes.flat_map(|process| {
        let process = process.path();
        let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        descriptors.map(move |entry| (process.join("fdinfo").join(entry.file_name()), entry.path()))
    });
    open.filter_map(move |(information, descriptor)| {
        fs::metadata(&descriptor).ok().filter(fs::Metadata::is_file)?;
        let file = identity(&descriptor).ok()?;
        if !is_asked(file) {
            return None;
        }
        let text = fs::read_to_string(information).unwrap_or_default();
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        // Files open for reading only do not count.
        flags.is_some_and(|flags| flags & 0o3 != 0).then_some(file)
    })
}
