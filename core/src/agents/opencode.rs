//! Sessions as opencode stores them: one file a message and one a part, put together to its export.
//!
//! ```text
//! session/<project>/<session>.json     what the session is
//! message/<session>/<message>.json     what each message is; ids rise
//! part/<message>/<part>.json           what it says
//! ```
//!
//! The document that comes of it is the one that `opencode export` writes, each value with its own
//! bytes. A last message that is still being written is left for the next time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

use super::find::{FoundSession, modified, opencode_format};
use super::name::session_name;
use crate::error::{Error, ErrorKind, Result};

/// Largest session, in bytes of all its files.
const MAX_BYTES: u64 = 256 << 20;

/// Whether `folder` is a store of opencode.
pub(super) fn is_store(folder: &Path) -> bool {
    ["session", "message"].iter().all(|part| folder.join(part).is_dir())
}

/// Whether the file at `path` says what a session of a store is.
pub(super) fn is_part_of_store(path: &Path) -> bool {
    path.ancestors().nth(3).is_some_and(is_store)
}

/// The sessions of a store.
pub(super) fn sessions(store: &Path) -> Result<Vec<FoundSession>> {
    let mut found = Vec::new();
    for project in files(&store.join("session"))? {
        if !project.is_dir() {
            continue;
        }
        for path in files(&project)? {
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let bytes = pieces(store, &path)?.iter().map(|piece| size(piece)).sum();
            let modified = fs::metadata(&path).map_or(SystemTime::UNIX_EPOCH, |is| modified(&is));
            let (agent, session) = ("opencode".to_owned(), session_name(&path));
            let format = opencode_format()?;
            found.push(FoundSession { agent, path, format, session, bytes, modified });
        }
    }
    Ok(found)
}

/// The session that the file at `path` describes, as one document.
pub(super) fn document(path: &Path) -> Result<Vec<u8>> {
    let store = path.ancestors().nth(3).unwrap_or(path);
    let total: u64 = pieces(store, path)?.iter().map(|piece| size(piece)).sum();
    if total > MAX_BYTES {
        let message = format!("the session has {total} bytes: at most {MAX_BYTES} are read");
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    let (info, _) = read(path)?;
    let mut document = [b"{\"info\":", info.as_slice(), b",\"messages\":["].concat();
    let messages = messages(store, path)?;
    for (at, message) in messages.iter().enumerate() {
        let (info, facts) = read(message)?;
        if at + 1 == messages.len() && is_unfinished(&facts) {
            break;
        }
        if at > 0 {
            document.push(b',');
        }
        document.extend([b"\n{\"info\":", info.as_slice(), b",\"parts\":["].concat());
        for (at, part) in parts(store, message)?.iter().enumerate() {
            if at > 0 {
                document.push(b',');
            }
            document.extend(read(part)?.0);
        }
        document.extend(b"]}");
    }
    document.extend(b"\n]}\n");
    Ok(document)
}

/// Whether the model still writes this message.
fn is_unfinished(message: &Value) -> bool {
    message.get("role").and_then(Value::as_str) == Some("assistant")
        && message.pointer("/time/completed").is_none()
        && message.get("error").is_none()
}

/// The bytes of a file that is JSON, and what it says.
fn read(path: &Path) -> Result<(Vec<u8>, Value)> {
    let failed = |error| Error::io(format!("read {}", path.display()), error);
    let bytes = fs::read(path).map_err(failed)?;
    let value = serde_json::from_slice(&bytes);
    let value = value.map_err(|error| {
        Error::invalid(format!("{}: expected JSON", path.display())).with_source(error)
    })?;
    Ok((bytes.trim_ascii().to_vec(), value))
}

/// All files of a session.
fn pieces(store: &Path, session: &Path) -> Result<Vec<PathBuf>> {
    let mut all = vec![session.to_owned()];
    for message in messages(store, session)? {
        all.extend(parts(store, &message)?);
        all.push(message);
    }
    Ok(all)
}

fn messages(store: &Path, session: &Path) -> Result<Vec<PathBuf>> {
    files(&store.join("message").join(session.file_stem().unwrap_or_default()))
}

fn parts(store: &Path, message: &Path) -> Result<Vec<PathBuf>> {
    files(&store.join("part").join(message.file_stem().unwrap_or_default()))
}

/// What is in a folder, in order of names; nothing when it is not there.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| Error::io(format!("read the directory {}", folder.display()), error);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if !entry.file_type().map_err(failed)?.is_symlink() {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}
