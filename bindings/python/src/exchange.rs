//! Imports and exports conversations, and finds them by words.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use jiff::Timestamp;
use jiff::tz::Offset;
use pyo3::prelude::*;
use turntree::context::{Selection, export_messages, export_source};
use turntree::local::Repo;
use turntree::object::Time;
use turntree::repo::BranchName;
use turntree::{Error, Result};
use turntree_exchange::agents::session_name;
use turntree_exchange::formats::FORMATS;
use turntree_exchange::render::{
    ContentDetail, Trajectory, export_anthropic, export_atif, export_document, export_markdown,
    export_openai,
};
use turntree_exchange::{
    Format, HEAD_BYTES, ImportOptions, ImportReport, SearchHit, SearchQuery, SecretFinding, detect,
    find_secrets, import_from, read_head,
};

use crate::values::{Answer, datetime_of, named};

/// The formats of an export.
const EXPORTS: [&str; 7] = ["source", "jsonl", "markdown", "json", "openai", "anthropic", "atif"];

/// Returns a snapshot, or the conversation of an agent in it, in a format.
pub(crate) fn export(
    repo: &Repo,
    revision: &str,
    format: &str,
    agent: &str,
    allow_secrets: bool,
) -> Result<Vec<u8>> {
    let id = repo.resolve(revision)?;
    let repository = repo.repository();
    let (commit, context) = (repository.commit(&id)?, repository.context(&id)?);
    let (source, mut out) = (repository.store(), Vec::new());
    match format {
        "source" => drop(export_source(source, &context, &mut out)?),
        "jsonl" => drop(export_messages(source, &context, agent, &|_| true, &mut out)?),
        "markdown" => export_markdown(repository, &id, &rfc3339, None, &mut out)?,
        "json" => {
            let (snapshot, detail) = ((&id, &commit), ContentDetail::Whole);
            export_document(source, snapshot, &context, detail, &rfc3339, &mut out)?;
        }
        "openai" => export_openai(source, &context, agent, &mut out)?,
        "anthropic" => export_anthropic(source, &context, agent, &mut out)?,
        "atif" => {
            let trajectory = Trajectory { commit: &commit, agent, show_time: &rfc3339 };
            export_atif(source, &context, &trajectory, &mut out)?;
        }
        _ => {
            let known = EXPORTS.join(", ");
            return Err(Error::invalid(format!("'{format}' is no format: expected {known}")));
        }
    }
    if !allow_secrets {
        refuse_secrets(repo, &open_secrets(repo, &out)?, "the export")?;
    }
    Ok(out)
}

/// Returns the secrets in some bytes that the store does not allow.
pub(crate) fn open_secrets(repo: &Repo, bytes: &[u8]) -> Result<Vec<SecretFinding>> {
    let secrets = find_secrets(bytes);
    if secrets.is_empty() {
        return Ok(Vec::new());
    }
    let repository = repo.repository();
    let settings = repository.secret_settings()?;
    let findings = secrets.iter().map(|found| SecretFinding::new(repository, &settings, found));
    Ok(findings.filter(|finding| !finding.is_allowed).collect())
}

/// Refuses to give out secrets.
pub(crate) fn refuse_secrets(repo: &Repo, found: &[SecretFinding], what: &str) -> Result<()> {
    if found.is_empty() {
        return Ok(());
    }
    let mut rules: Vec<&str> = found.iter().map(|finding| finding.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    let (count, rules, dir) = (found.len(), rules.join(", "), repo.repository().dir().display());
    Err(Error::invalid(format!(
        "{what} would give out {count} secrets ({rules}): 'turntree --store {dir} secrets' shows \
         them, and allow_secrets=True includes them"
    )))
}

/// Imports the new part of a transcript into a session.
pub(crate) fn import(
    repo: &Repo,
    path: &Path,
    session: Option<&str>,
    format: Option<&str>,
) -> Result<ImportReport> {
    repo.refresh()?;
    let format = format.map(format_named).transpose()?;
    let open = || {
        let opened = File::open(path);
        opened.map_err(|error| Error::io(format!("open {}", path.display()), error))
    };
    let format = match format {
        Some(format) => format,
        None => detect(&read_head(BufReader::new(open()?))?)
            .map_err(|error| error.at(path.display()))?,
    };
    let session = session.map_or_else(|| session_name(path), str::to_owned);
    let is_document = format.is_document();
    let options = ImportOptions {
        format: Some(format),
        branch: is_document.then(|| BranchName::main(&session)).transpose()?,
        session,
        stamp: repo.stamp(),
        switch: false,
        adoption: None,
    };
    let input = BufReader::with_capacity(HEAD_BYTES, open()?);
    let imported = import_from(repo.repository(), input, &options, None);
    imported.map_err(|error| error.at(path.display()))
}

fn format_named(name: &str) -> Result<&'static Format> {
    FORMATS.iter().find(|format| format.name == name).ok_or_else(|| {
        let known: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
        Error::invalid(format!("'{name}' is no format: expected {}", known.join(", ")))
    })
}

impl Answer for ImportReport {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let note =
            |note: turntree_exchange::ImportNote| format!("line {}: {}", note.line, note.what);
        let notes: Vec<String> = self.notes.into_iter().map(note).collect();
        let (branch, id) = (self.branch.to_string(), self.head.to_string());
        let counts = (self.turns, self.messages, self.new_bytes);
        named(py, "Imported", (branch, id, self.format, counts.0, counts.1, counts.2, notes))
    }
}

/// A search by words.
pub(crate) struct WordSearch {
    pub(crate) text: String,
    pub(crate) session: Option<String>,
    pub(crate) all_words: bool,
    pub(crate) paths: Vec<String>,
    pub(crate) limit: u64,
}

impl WordSearch {
    /// Returns the best hits.
    pub(crate) fn run(&self, repo: &Repo) -> Result<Vec<SearchHit>> {
        repo.refresh()?;
        let query = SearchQuery {
            text: &self.text,
            all_words: self.all_words,
            session: self.session.as_deref(),
            roles: &[],
            tool: None,
            since: None,
            paths: Selection::parse(&self.paths),
            offset: 0,
            limit: self.limit,
            per_session: 0,
            rebuild: false,
        };
        Ok(turntree_exchange::search(repo.repository(), &query, &|_, _| ())?.hits)
    }
}

impl Answer for SearchHit {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let path = match self.key.is_empty() {
            true => self.section,
            false => format!("{}/{}", self.section, self.key),
        };
        let (id, time) = (self.commit.to_string(), datetime_of(py, self.time.micros)?);
        let role = self.role.map(turntree::context::Role::name);
        named(
            py,
            "Hit",
            (self.session, self.turn, id, time, path, role, self.snippet.text, self.missing),
        )
    }
}

/// Returns a time in RFC 3339.
fn rfc3339(time: Time) -> String {
    let Ok(timestamp) = Timestamp::from_microsecond(time.micros) else {
        return format!("{} microseconds after 1970", time.micros);
    };
    match Offset::from_seconds(i32::from(time.offset_minutes) * 60) {
        Ok(offset) if time.offset_minutes != 0 => timestamp.display_with_offset(offset).to_string(),
        _ => timestamp.to_string(),
    }
}
