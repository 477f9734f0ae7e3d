//! Sessions as earlier versions of opencode store them: one file a message and one a part.
//!
//! ```text
//! session/<project>/<session>.json     what the session is
//! message/<session>/<message>.json     what each message is; ids rise
//! part/<message>/<part>.json           what it says
//! ```

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use turntree::error::{Error, Result};
use turntree::workspace::read_regular;

use super::document::{Members, Parts};
use super::{AGENT, opencode_format};
use crate::agents::found::{FoundSession, modified};
use crate::agents::name::session_name;

/// Largest file that is read.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Returns true if `folder` is a store of opencode.
pub(super) fn is_store(folder: &Path) -> bool {
    ["session", "message"].iter().all(|part| folder.join(part).is_dir())
}

/// Returns true if the file at `path` is the session record of a store.
pub(super) fn is_part_of_store(path: &Path) -> bool {
    path.ancestors().nth(3).is_some_and(is_store)
}

/// Returns the folder with the messages of the session at `path`, if that is the record of a session
/// of a store. The record does not change with them.
pub(super) fn message_folder(path: &Path) -> Option<PathBuf> {
    let store = path.ancestors().nth(3).filter(|store| is_store(store))?;
    Some(store.join("message").join(path.file_stem().unwrap_or_default()))
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
            let (agent, session) = (AGENT.to_owned(), session_name(&path));
            let (format, entry) = (opencode_format()?, None);
            found.push(FoundSession { agent, path, entry, format, session, bytes, modified });
        }
    }
    Ok(found)
}

/// A session in files.
pub(super) struct StoredSession {
    store: PathBuf,
    path: PathBuf,
    messages: Vec<PathBuf>,
}

impl StoredSession {
    /// The session that the file at `path` describes.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let store = path.ancestors().nth(3).unwrap_or(path).to_owned();
        let messages = messages(&store, path)?;
        Ok(Self { store, path: path.to_owned(), messages })
    }
}

impl Parts for StoredSession {
    fn info(&mut self) -> Result<Members> {
        read(&self.path)
    }

    fn messages(&self) -> usize {
        self.messages.len()
    }

    fn message(&mut self, at: usize) -> Result<(Members, Vec<Members>)> {
        let Some(path) = self.messages.get(at) else { return Ok(Default::default()) };
        let [message, session] = [path, &self.path].map(|path| id(path));
        let mut info = read(path)?;
        info.put_text("id", &message);
        info.put_text("sessionID", &session);
        let part = |path: &PathBuf| {
            let mut part = read(path)?;
            part.put_text("id", &id(path));
            part.put_text("sessionID", &session);
            part.put_text("messageID", &message);
            Ok(part)
        };
        let parts = parts(&self.store, path)?.iter().map(part).collect::<Result<_>>()?;
        Ok((info, parts))
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Reads a file, by its name.
fn id(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Reads a file, which is JSON.
fn read(path: &Path) -> Result<Members> {
    let bytes = size(path);
    if bytes > MAX_FILE_BYTES {
        let what = format!("bytes of {}", path.display());
        return Err(Error::limit(what, MAX_FILE_BYTES, bytes));
    }
    let json = read_regular(path, MAX_FILE_BYTES)
        .map_err(|error| Error::io(format!("read {}", path.display()), error))?;
    Members::read(&json, path.display())
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

/// Lists a folder, in order of names; empty when it does not exist.
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
