//! Looks for sessions in places: which files there are transcripts, and of what.
//!
//! Only names, sizes and the beginning of files are read. No link is followed below a place, so
//! nothing is found twice, and nothing outside it.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rayon::prelude::*;

use super::name::session_name;
use super::opencode;
use super::places::Place;
use crate::error::{Error, Result};
use crate::exchange::formats::named;
use crate::exchange::{Format, HEAD_BYTES, detect};

/// Most folders in folders.
const MAX_DEPTH: usize = 16;

/// Folders that are never looked into: they are large, and no agent keeps sessions there.
const PASSED_OVER: [&str; 4] = [".git", "node_modules", ".turntree", "target"];

/// How files end that may be transcripts.
const EXTENSIONS: [&str; 3] = ["jsonl", "json", "traj"];

/// What is in some places.
#[derive(Debug, Default)]
pub struct Found {
    /// The sessions, in order of agents, names and paths.
    pub sessions: Vec<FoundSession>,
    /// Files that may be transcripts by their name and are not.
    pub others: u64,
    /// What could not be looked at.
    pub odd: Vec<Odd>,
}

/// A session of an agent.
#[derive(Debug, Clone)]
pub struct FoundSession {
    /// The agent: that of the place, or the format of a file that somebody named.
    pub agent: String,
    /// The file: of opencode, the one that says what the session is.
    pub path: PathBuf,
    /// What it is.
    pub format: &'static Format,
    /// What it is called.
    pub session: String,
    /// Its bytes, in all its files.
    pub bytes: u64,
    /// When its file was written to last, as far as the system says.
    pub modified: SystemTime,
}

/// A file or directory that could not be looked at.
#[derive(Debug)]
pub struct Odd {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub error: Error,
}

/// What a place holds, before anything is opened.
#[derive(Debug, Default)]
struct Seen {
    /// Files by name, with what the system says of them.
    files: Vec<(PathBuf, Metadata)>,
    /// Stores of opencode.
    stores: Vec<PathBuf>,
    odd: Vec<Odd>,
}

/// Looks at `places`; those that are not there hold nothing. A file that is a place of its own must be
/// a transcript, else it is odd.
///
/// Cost: one look at every file, and a read of 64 KiB at most of each that may be a transcript.
#[must_use]
pub fn find(places: &[Place]) -> Found {
    let mut found = Found::default();
    for place in places {
        match fs::metadata(&place.path) {
            Ok(is) if is.is_dir() => found.look_into(place),
            Ok(is) if is.is_file() => match session(&place.path, &is, None) {
                Ok(session) => found.sessions.push(session),
                Err(error) => found.odd.push(Odd { path: place.path.clone(), error }),
            },
            Ok(_) => {
                let error = Error::invalid("expected a file or a directory");
                found.odd.push(Odd { path: place.path.clone(), error });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let error = Error::io("look at it", error);
                found.odd.push(Odd { path: place.path.clone(), error });
            }
        }
    }
    let order = |a: &FoundSession, b: &FoundSession| {
        (&a.agent, &a.session, &a.path).cmp(&(&b.agent, &b.session, &b.path))
    };
    found.sessions.sort_by(order);
    // A place may lie inside another one.
    found.sessions.dedup_by(|a, b| a.path == b.path);
    found
}

impl Found {
    fn look_into(&mut self, place: &Place) {
        let mut seen = Seen::default();
        seen.folder(&place.path, 0);
        self.odd.append(&mut seen.odd);
        let agent = Some(place.agent.as_str()).filter(|agent| !agent.is_empty());
        let looked: Vec<(PathBuf, Result<FoundSession>)> = seen
            .files
            .into_par_iter()
            .map(|(path, is)| {
                let session = session(&path, &is, agent);
                (path, session)
            })
            .collect();
        for (path, session) in looked {
            match session {
                Ok(session) => self.sessions.push(session),
                Err(error) if error.kind() == crate::ErrorKind::InvalidInput => self.others += 1,
                Err(error) => self.odd.push(Odd { path, error }),
            }
        }
        for store in seen.stores {
            match opencode::sessions(&store) {
                Ok(sessions) => self.sessions.extend(sessions),
                Err(error) => self.odd.push(Odd { path: store, error }),
            }
        }
    }
}

impl Seen {
    fn folder(&mut self, folder: &Path, depth: usize) {
        if let Err(error) = self.entries(folder, depth) {
            let error = Error::io("read the directory", error);
            self.odd.push(Odd { path: folder.to_owned(), error });
        }
    }

    fn entries(&mut self, folder: &Path, depth: usize) -> io::Result<()> {
        if opencode::is_store(folder) {
            self.stores.push(folder.to_owned());
            return Ok(());
        }
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            let is_candidate = || {
                let extension = path.extension().and_then(|extension| extension.to_str());
                extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
            };
            if kind.is_dir() {
                let name = entry.file_name();
                if depth < MAX_DEPTH && !PASSED_OVER.iter().any(|passed| name == *passed) {
                    self.folder(&path, depth + 1);
                }
            } else if kind.is_file() && is_candidate() {
                // One that is gone by now is no session.
                if let Ok(is) = entry.metadata() {
                    self.files.push((path, is));
                }
            }
        }
        Ok(())
    }
}

/// The session in the file at `path`; `InvalidInput` when it is no transcript.
fn session(path: &Path, is: &Metadata, agent: Option<&str>) -> Result<FoundSession> {
    let mut head = Vec::new();
    let file = File::open(path).map_err(|error| Error::io("open it", error))?;
    let read = file.take(HEAD_BYTES as u64).read_to_end(&mut head);
    read.map_err(|error| Error::io("read it", error))?;
    let format = detect(&head)?;
    if format.whole.is_some() {
        let what = format!("it is a state of {} and no session: import it", format.name);
        return Err(Error::invalid(what));
    }
    let agent = agent.unwrap_or(format.name).to_owned();
    let (path, session) = (path.to_owned(), session_name(path));
    Ok(FoundSession { agent, path, format, session, bytes: is.len(), modified: modified(is) })
}

/// When a file was written to last; long ago where nobody knows.
pub(super) fn modified(is: &Metadata) -> SystemTime {
    is.modified().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// The format of a store of opencode.
pub(super) fn opencode_format() -> Result<&'static Format> {
    named("opencode")
}
