//! Finds sessions in places: which files are transcripts, and of which format.
//!
//! Only names, sizes and the beginning of files are read. No link below a place is followed, so
//! nothing is found twice, and nothing outside of the place.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use turntree::error::{Error, ErrorKind, Result};
use turntree::workspace::open_regular;

use super::found::{FoundSession, SessionSource, modified};
use super::name::{EXTENSIONS, session_name};
use super::places::SessionPlace;
use super::table::{Agent, agent, source_of, sources};
use crate::formats::detect::detect;
use crate::model::format::FormatReader;
use crate::{HEAD_BYTES, read_head};

/// Most folders in folders.
const MAX_DEPTH: usize = 16;

/// Folders that are never searched: they are large, and no agent keeps sessions there.
const PASSED_OVER: [&str; 4] = [".git", "node_modules", ".turntree", "target"];

/// The suffixes of compressed transcripts.
const COMPRESSED: (&str, &str) = (".jsonl", ".zst");

/// The sessions found in some places.
#[derive(Debug, Default)]
pub struct FoundSessions {
    /// The sessions, in order of agents, names and paths.
    pub sessions: Vec<FoundSession>,
    /// Files that may be transcripts by their name and are not.
    pub others: u64,
    /// Files and directories that could not be read.
    pub odd: Vec<Odd>,
}

/// A file or directory that could not be read.
#[derive(Debug)]
pub struct Odd {
    /// The path.
    pub path: PathBuf,
    /// Why.
    pub error: Error,
}

/// The listing of a place, before anything is opened.
#[derive(Default)]
struct Listing {
    /// Files by name, with their metadata.
    files: Vec<(PathBuf, Metadata)>,
    /// Files and folders that hold sessions of a source.
    held: Vec<(&'static dyn SessionSource, PathBuf)>,
    odd: Vec<Odd>,
}

/// Finds the sessions in `places`; missing places are empty. A file that is a place itself must be
/// a transcript, otherwise it is reported in `odd`.
///
/// Cost: one `stat` of every file, a read of at most 64 KiB of each that may be a transcript, and
/// of a database one read of all its rows, without long texts.
#[must_use]
pub fn find(places: &[SessionPlace]) -> FoundSessions {
    let mut found = FoundSessions::default();
    for place in places {
        match fs::metadata(&place.path) {
            Ok(is) if is.is_dir() => found.look_into(place),
            Ok(is) if is.is_file() => found.look_at(&place.path, &is),
            Ok(_) => {
                let error = Error::invalid("expected a file or a directory");
                found.odd.push(Odd { path: place.path.clone(), error });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let error = Error::io("inspect it", error);
                found.odd.push(Odd { path: place.path.clone(), error });
            }
        }
    }
    let order = |a: &FoundSession, b: &FoundSession| {
        (&a.agent, &a.session, &a.path, &a.entry).cmp(&(&b.agent, &b.session, &b.path, &b.entry))
    };
    found.sessions.sort_by(order);
    // A place may be inside another place.
    found.sessions.dedup_by(|a, b| (&a.path, &a.entry) == (&b.path, &b.entry));
    found.drop_what_a_database_took_over();
    found
}

impl FoundSessions {
    /// Looks at a file that is a place of its own.
    fn look_at(&mut self, path: &Path, is: &Metadata) {
        let mut sources = sources().filter(|source| source.may_be(path));
        if sources.any(|source| self.held(source, path)) {
            return;
        }
        match session(path, is, None) {
            Ok(session) => self.sessions.push(session),
            Err(error) => self.odd.push(Odd { path: path.to_owned(), error }),
        }
    }

    /// Adds the sessions that a file or folder holds; returns false when it holds none in this way.
    fn held(&mut self, source: &dyn SessionSource, path: &Path) -> bool {
        match source.sessions(path) {
            Ok(Some(held)) => {
                self.sessions.extend(held.sessions);
                let odd = held.odd.map(|error| Odd { path: path.to_owned(), error });
                self.odd.extend(odd);
            }
            Ok(None) => return false,
            Err(error) => self.odd.push(Odd { path: path.to_owned(), error }),
        }
        true
    }

    /// Leaves out the files of sessions that an agent moved into its database: the sessions
    /// continue there.
    fn drop_what_a_database_took_over(&mut self) {
        let in_databases = self.sessions.iter().filter(|found| found.entry.is_some());
        let moved: HashSet<(String, String)> =
            in_databases.map(|found| (found.agent.clone(), found.session.clone())).collect();
        self.sessions.retain(|found| {
            let is_moved = || moved.contains(&(found.agent.clone(), found.session.clone()));
            found.entry.is_some() || !is_moved() || source_of(found).is_none()
        });
    }

    fn look_into(&mut self, place: &SessionPlace) {
        let mut seen = Listing::default();
        match agent(&place.agent).filter(|agent| agent.has_other_files) {
            Some(agent) => seen.only_sources(agent, &place.path),
            None => seen.folder(&place.path, 0),
        }
        self.odd.append(&mut seen.odd);
        let named = Some(place.agent.as_str()).filter(|agent| !agent.is_empty());
        let looked: Vec<(PathBuf, Result<FoundSession>)> = seen
            .files
            .into_par_iter()
            .map(|(path, is)| {
                let session = session(&path, &is, named);
                (path, session)
            })
            .collect();
        for (path, session) in looked {
            match session {
                Ok(session) => self.sessions.push(session),
                Err(error) if error.kind() == turntree::ErrorKind::InvalidInput => self.others += 1,
                Err(error) => self.odd.push(Odd { path, error }),
            }
        }
        for (source, path) in seen.held {
            self.held(source, &path);
        }
    }
}

impl Listing {
    /// Lists only the databases and folders of sessions in a folder: the agent keeps secrets next
    /// to them.
    fn only_sources(&mut self, agent: &Agent, folder: &Path) {
        for source in agent.sources {
            self.held.extend(source.within(folder).into_iter().map(|path| (*source, path)));
        }
    }

    fn folder(&mut self, folder: &Path, depth: usize) {
        if let Err(error) = self.entries(folder, depth) {
            let error = Error::io("read the directory", error);
            self.odd.push(Odd { path: folder.to_owned(), error });
        }
    }

    fn entries(&mut self, folder: &Path, depth: usize) -> io::Result<()> {
        if let Some(source) = sources().find(|source| source.is_folder(folder)) {
            self.held.push((source, folder.to_owned()));
            return Ok(());
        }
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() {
                let name = entry.file_name();
                if depth < MAX_DEPTH && !PASSED_OVER.iter().any(|passed| name == *passed) {
                    self.folder(&path, depth + 1);
                }
                continue;
            }
            if !kind.is_file() {
                continue;
            }
            if let Some(source) = sources().find(|source| source.is_named(&path)) {
                self.held.push((source, path));
            } else if may_be_transcript(&path) {
                // A file that was deleted since is no session.
                if let Ok(is) = entry.metadata() {
                    self.files.push((path, is));
                }
            }
        }
        Ok(())
    }
}

/// Returns whether a session has one file, and the file no other session.
#[must_use]
pub fn has_own_file(found: &FoundSession) -> bool {
    source_of(found).is_none()
}

/// Returns true if a file name is that of a transcript. A compressed file next to its uncompressed
/// original does not count: Codex has both while it compresses.
fn may_be_transcript(path: &Path) -> bool {
    let (end, compressed) = COMPRESSED;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if let Some(plain) = name.strip_suffix(compressed).filter(|plain| plain.ends_with(end)) {
        return !path.with_file_name(plain).exists();
    }
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
}

/// The session in the file at `path`; `InvalidInput` when it is no transcript, `Corrupt` when it is a
/// compressed one that is damaged.
fn session(path: &Path, is: &Metadata, agent: Option<&str>) -> Result<FoundSession> {
    let file = open_regular(path).map_err(|error| Error::io("open it", error))?;
    let head = read_head(BufReader::with_capacity(HEAD_BYTES, file));
    let head = head.map_err(|error| match error.kind() {
        // Its name is that of a transcript, so it is damaged rather than a file of another kind.
        ErrorKind::InvalidInput => Error::new(ErrorKind::Corrupt, "unpack it").with_source(error),
        _ => error,
    })?;
    let format = detect(&head)?;
    if matches!(format.reader, FormatReader::Document(_)) {
        let what = format!("it is a state of {}, not a session: import it", format.name);
        return Err(Error::invalid(what));
    }
    let agent = agent.unwrap_or(format.name).to_owned();
    let (path, session) = (path.to_owned(), session_name(path));
    let (bytes, modified) = (is.len(), modified(is));
    Ok(FoundSession { agent, path, entry: None, format, session, bytes, modified })
}
