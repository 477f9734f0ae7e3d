//! Sessions of opencode, as it stores them: a file a message and part, or rows of a database.
//!
//! | file | job |
//! |---|---|
//! | `storage` | the files that earlier versions wrote: one a message and one a part |
//! | `database` | the database of versions since 1.2, which took these files over |
//! | `document` | the document that `opencode export` writes, made of either |
//!
//! Both give the same document for the same session, so a session that was adopted from files
//! continues when it is in the database.

#[cfg(feature = "sqlite")]
mod database;
#[cfg(not(feature = "sqlite"))]
#[path = "no_database.rs"]
mod database;
mod document;
mod storage;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use turntree::error::{Error, Result};
use turntree::workspace::open_regular;

use self::database::OpenDatabases;
use self::document::{DocumentReader, Parts};
use super::found::{Failure, FoundSession, HeldSessions, SessionReader, SessionSource};
use super::watched::WatchedFolder;
use crate::formats::named;
use crate::model::format::Format;
use crate::text::unpack::DATABASE_MAGIC;

/// The name of the agent.
const AGENT: &str = "opencode";

/// The folder of the files, in the folder of the database.
const STORAGE: &str = "storage";

/// Returns true if the name of the database at `path` is one of opencode's: `opencode.db`, or
/// `opencode-<channel>.db`.
fn is_database_name(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let channel = name.strip_prefix(AGENT).and_then(|rest| rest.strip_suffix(".db"));
    channel.is_some_and(|channel| channel.is_empty() || channel.starts_with('-'))
}

/// Returns true if the file at `path` begins as a database.
fn is_database(path: &Path) -> bool {
    let mut head = [0; DATABASE_MAGIC.len()];
    let read = open_regular(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == DATABASE_MAGIC
}

/// Returns the databases of a folder, by name; none if the folder cannot be listed.
fn databases_in(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let is_file = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|is| is.is_file());
    let paths = entries.filter(is_file).map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| is_database_name(path)).collect();
    paths.sort();
    paths
}

/// The databases of opencode.
pub(super) struct Databases;

impl SessionSource for Databases {
    fn is_named(&self, file: &Path) -> bool {
        is_database_name(file)
    }

    fn may_be(&self, file: &Path) -> bool {
        is_database(file)
    }

    fn within(&self, place: &Path) -> Vec<PathBuf> {
        databases_in(place)
    }

    fn watched(&self, place: &Path) -> WatchedFolder {
        WatchedFolder { path: place.to_owned(), is_deep: false }
    }

    fn sessions(&self, holder: &Path) -> Result<Option<HeldSessions>> {
        match database::sessions(holder)? {
            None if is_database_name(holder) => {
                let message = "expected the tables of opencode: session, message and part";
                Err(Error::invalid(message))
            }
            found => Ok(found),
        }
    }

    fn has(&self, found: &FoundSession) -> bool {
        found.entry.is_some()
    }

    fn reader(&self) -> Box<dyn SessionReader> {
        Box::<OpenDatabases>::default()
    }
}

impl SessionReader for OpenDatabases {
    fn document(
        &self,
        found: &FoundSession,
        failure: &Failure,
    ) -> Result<Option<Box<dyn BufRead>>> {
        let Some(id) = &found.entry else { return Ok(None) };
        Ok(Some(document(self.session(&found.path, id)?, failure)))
    }
}

/// The files of earlier versions of opencode.
pub(super) struct Storage;

impl SessionSource for Storage {
    fn is_folder(&self, folder: &Path) -> bool {
        storage::is_store(folder)
    }

    fn within(&self, place: &Path) -> Vec<PathBuf> {
        let store = place.join(STORAGE);
        if storage::is_store(&store) { vec![store] } else { Vec::new() }
    }

    fn watched(&self, place: &Path) -> WatchedFolder {
        WatchedFolder { path: place.join(STORAGE), is_deep: true }
    }

    fn sessions(&self, holder: &Path) -> Result<Option<HeldSessions>> {
        Ok(Some(HeldSessions { sessions: storage::sessions(holder)?, odd: None }))
    }

    fn has(&self, found: &FoundSession) -> bool {
        found.entry.is_none() && storage::is_part_of_store(&found.path)
    }

    fn other_sign(&self, found: &FoundSession) -> Option<PathBuf> {
        storage::message_folder(&found.path)
    }

    fn reader(&self) -> Box<dyn SessionReader> {
        Box::new(Self)
    }
}

impl SessionReader for Storage {
    fn document(
        &self,
        found: &FoundSession,
        failure: &Failure,
    ) -> Result<Option<Box<dyn BufRead>>> {
        if !self.has(found) {
            return Ok(None);
        }
        let session = storage::StoredSession::open(&found.path)?;
        Ok(Some(document(Box::new(session), failure)))
    }
}

/// Returns the document of a session. Errors of reading are left in `failure`.
fn document(parts: Box<dyn Parts>, failure: &Failure) -> Box<dyn BufRead> {
    Box::new(BufReader::new(DocumentReader::new(parts, failure.clone())))
}

/// Returns the format of opencode's sessions.
fn opencode_format() -> Result<&'static Format> {
    named(AGENT)
}
