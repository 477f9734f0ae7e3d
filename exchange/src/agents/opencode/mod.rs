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

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

pub(super) use self::database::{Databases, sessions as database_sessions};
pub(super) use self::document::Failure;
use self::document::{DocumentReader, Parts};
pub(super) use self::storage::{
    is_part_of_store, is_store, message_folder, sessions as store_sessions,
};
use turntree::error::Result;
use turntree::workspace::open_regular;

use super::found::FoundSession;
use crate::formats::named;
use crate::model::format::Format;
use crate::text::unpack::DATABASE_MAGIC;

/// The name of the agent.
pub(super) const AGENT: &str = "opencode";

/// The folder of the files, in the folder of the database.
pub(super) const STORAGE: &str = "storage";

/// Returns true if the name of the database at `path` is one of opencode's: `opencode.db`, or
/// `opencode-<channel>.db`.
pub(super) fn is_database_name(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let channel = name.strip_prefix(AGENT).and_then(|rest| rest.strip_suffix(".db"));
    channel.is_some_and(|channel| channel.is_empty() || channel.starts_with('-'))
}

/// Returns true if the file at `path` begins as a database.
pub(super) fn is_database(path: &Path) -> bool {
    let mut head = [0; DATABASE_MAGIC.len()];
    let read = open_regular(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == DATABASE_MAGIC
}

/// Returns the databases of a folder, by name; none if the folder cannot be listed.
pub(super) fn databases_in(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let is_file = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|is| is.is_file());
    let paths = entries.filter(is_file).map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| is_database_name(path)).collect();
    paths.sort();
    paths
}

/// Returns the document of a session, if it is one of opencode. Errors of reading are left in
/// `failure`.
pub(super) fn document(
    found: &FoundSession,
    databases: &Databases,
    failure: &Failure,
) -> Result<Option<Box<dyn BufRead>>> {
    let parts: Box<dyn Parts> = match &found.entry {
        Some(id) => databases.session(&found.path, id)?,
        None if is_part_of_store(&found.path) => {
            Box::new(storage::StoredSession::open(&found.path)?)
        }
        None => return Ok(None),
    };
    let reader: Box<dyn io::Read> = Box::new(DocumentReader::new(parts, failure.clone()));
    Ok(Some(Box::new(BufReader::new(reader))))
}

/// Returns the format of opencode's sessions.
pub(super) fn opencode_format() -> Result<&'static Format> {
    named(AGENT)
}
