//! Searches history: the turns that wrote the parts of an entry, and the entries that match a
//! pattern.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use pyo3::prelude::*;
use turntree::context::{MessageEntry, Selection, sections::is_conversation, split};
use turntree::local::Repo;
use turntree::object::{Commit, Kind, ObjectId, ObjectSource};
use turntree::repo::{
    BlameKind, BlamedPart, GrepQuery, LinePattern, PatternOptions, SearchFilter, SearchScope,
};
use turntree::{Error, Result};

use crate::values::{Answer, datetime_of, named};

/// A part of an entry, and its author.
pub(crate) struct Line {
    part: BlamedPart,
    commit: Commit,
    text: Option<String>,
}

/// Returns the parts of the entry or section at a path, each with the turn that wrote it.
pub(crate) fn blame(repo: &Repo, revision: &str, path: &str) -> Result<Vec<Line>> {
    let commit = repo.resolve(revision)?;
    let repository = repo.repository();
    let blamed = repository.blame(&commit, path, false)?;
    let section = split(path).0;
    let mut commits: HashMap<ObjectId, Commit> = HashMap::new();
    let mut lines = Vec::with_capacity(blamed.parts.len());
    for part in blamed.parts {
        let commit = match commits.entry(part.commit) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(repository.commit(&part.commit)?),
        };
        let commit = commit.clone();
        let text = text_of(repo, section, blamed.kind, &part)?;
        lines.push(Line { part, commit, text });
    }
    Ok(lines)
}

/// Returns the text of a part; `None` if it is not text.
fn text_of(
    repo: &Repo,
    section: &str,
    kind: BlameKind,
    part: &BlamedPart,
) -> Result<Option<String>> {
    let store = repo.repository().store();
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    match &part.item {
        None => Ok(text(part.text.strip_suffix(b"\n").unwrap_or(&part.text))),
        Some(item) if kind == BlameKind::Items && is_conversation(section) => {
            let entry = MessageEntry::from_item(item)?;
            let record = store.read_as(Kind::Blob, &entry.blob)?;
            Ok((crate::formats().text)(&entry.media, &record).or_else(|| text(&record)))
        }
        Some(item) if item.link.kind == Kind::Blob => {
            Ok(text(&store.read_as(Kind::Blob, &item.link.id)?))
        }
        Some(_) => Ok(None),
    }
}

impl Answer for Line {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let Self { part, commit, text } = self;
        let time = datetime_of(py, commit.time.micros)?;
        let author = (commit.author.agent, commit.author.model);
        let about = (part.turn, part.commit.to_string(), commit.session, time);
        let fields =
            (part.name, text, about.0, about.1, about.2, about.3, author.0, author.1, part.gap);
        named(py, "Blamed", fields)
    }
}

/// A search of history.
pub(crate) struct Search {
    pub(crate) pattern: String,
    pub(crate) options: PatternOptions,
    pub(crate) session: Option<String>,
    pub(crate) revision: Option<String>,
    pub(crate) paths: Vec<String>,
}

/// An entry with matching lines.
pub(crate) struct Match {
    commit: ObjectId,
    branch: Option<String>,
    session: String,
    turn: u64,
    path: String,
    role: Option<&'static str>,
    lines: Vec<(u64, String)>,
}

impl Search {
    /// Returns the entries that match: each distinct one once, in the first turn that has it.
    pub(crate) fn run(&self, repo: &Repo) -> Result<Vec<Match>> {
        let pattern = LinePattern::new(&self.pattern, self.options)?;
        let repository = repo.repository();
        repo.refresh()?;
        let starts = match (&self.revision, &self.session) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid("grep searches a session or a revision: name one"));
            }
            (Some(revision), None) => vec![(repo.resolve(revision)?, None)],
            (None, Some(session)) => {
                let branches = repository.branches_of(session);
                if branches.is_empty() {
                    return Err(Error::not_found(format!("there is no session '{session}'")));
                }
                branches.into_iter().map(|(branch, tip)| (tip, Some(branch))).collect()
            }
            (None, None) => {
                let branches = repository.branches().into_iter();
                branches.map(|(branch, tip)| (tip, Some(branch))).collect()
            }
        };
        let formats = crate::formats();
        // A record without a text in its format is searched as raw bytes.
        let read = move |media: &str, record: &[u8]| {
            let text = (formats.text)(media, record);
            Some(text.unwrap_or_else(|| String::from_utf8_lossy(record).into_owned()))
        };
        let query = GrepQuery {
            pattern: &pattern,
            wanted: SearchFilter { paths: Selection::parse(&self.paths), roles: Vec::new() },
            lines: Some(0),
            read: &read,
            may_hold: None,
        };
        let scope = SearchScope { starts, hide: Vec::new() };
        let found = repository.grep(&[scope], query, &|_, _| {})?;
        let matches = found.places().iter().map(|place| {
            let lines = found.found(place)?.lines.into_iter();
            Ok(Match {
                commit: place.commit,
                branch: place.branch.as_ref().map(ToString::to_string),
                session: place.session.clone(),
                turn: place.turn,
                path: match place.key.is_empty() {
                    true => place.section.clone(),
                    false => format!("{}/{}", place.section, place.key),
                },
                role: place.role.map(turntree::context::Role::name),
                lines: lines.map(|line| (line.number, line.text)).collect(),
            })
        });
        matches.collect()
    }
}

impl Answer for Match {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let line = |(number, text): (u64, String)| named(py, "MatchedLine", (number, text));
        let lines = self.lines.into_iter().map(line).collect::<PyResult<Vec<_>>>()?;
        let id = self.commit.to_string();
        let fields = (self.session, self.branch, self.turn, id, self.path, self.role, lines);
        named(py, "Match", fields)
    }
}
