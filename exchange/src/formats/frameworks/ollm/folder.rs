//! Reads the folders of OLLM CLI: `.ollm`, or one of the folders in it.
//!
//! ```text
//! context-snapshots/snapshot-map.json                      snapshot to session
//! context-snapshots/<session>/snapshots/snapshots-index.json, snapshot-<id>.json
//! session-data/<session>/snapshots/...                     the same, before the move
//! snapshots/session-<id>/transition-<ms>.json
//! intent-snapshots/<id>.json
//! ```
//!
//! Snapshots of a session become commits of one session in the order of time, transitions those of the
//! session beside it. What index and map say is compared with the files, which count.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use bytes::Bytes;
use serde::Deserialize;
use turntree::error::{Error, Result};
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Repository, Transaction};

use super::{CONTEXT_NAME, INTENT_NAME, MODE_NAME, SESSION};
use crate::formats::frameworks::read_tree::{FolderFile, FolderNote};
use crate::formats::named;
use crate::import::document_import::ValidatedDocument;
use crate::import::finish::finish_import;
use crate::import::source::sources_of;
use crate::model::format::ImportOptions;
use crate::model::report::ImportReport;
use crate::text::json::Text;

const FOLDERS: [&str; 4] = ["context-snapshots", "session-data", "snapshots", "intent-snapshots"];
const IN_PROJECT: [&str; 4] =
    [".ollm/context-snapshots", ".ollm/session-data", ".ollm/snapshots", ".ollm/intent-snapshots"];
const INDEX: &str = "snapshots-index.json";
const MAP: &str = "snapshot-map.json";
const INTENTS: &str = "intent-snapshots";
const SESSION_PREFIX: &str = "session-";

/// The session of intents, which do not name their session.
const DEFAULT_SESSION: &str = "ollm";

/// The report of an import of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OllmReport {
    /// The reports of the branches, by name.
    pub branches: Vec<ImportReport>,
    /// Sessions that were left out, since they were forgotten.
    pub forgotten: BTreeSet<String>,
    /// Files that were left out, or look wrong.
    pub odd: Vec<FolderNote>,
}

/// Returns the folders to read in a folder called `name`.
#[must_use]
pub fn folders_of(name: &str, has: &dyn Fn(&str) -> bool) -> Vec<&'static str> {
    let there = |folders: [&'static str; 4]| {
        folders.into_iter().filter(|folder| has(folder)).collect::<Vec<_>>()
    };
    let (inside, hidden) = (there(FOLDERS), there(IN_PROJECT));
    match (hidden.is_empty(), inside.is_empty()) {
        (false, _) => hidden,
        (true, false) => inside,
        (true, true) if FOLDERS.contains(&name) || name.starts_with(SESSION_PREFIX) => vec![""],
        (true, true) => Vec::new(),
    }
}

/// Imports the files of a folder called `name`, in one operation. Known files add nothing.
/// `session` names the session. Without it the documents name their sessions, and documents of
/// forgotten sessions are skipped unless `again` is set.
///
/// # Errors
/// `NotFound` when the folder has no file of OLLM CLI, `InvalidInput` when none of its documents
/// can be read, or when `session` is given for documents of several sessions, `Conflict` when
/// another process moved a branch concurrently. After an error the store is unchanged.
pub fn import_folder(
    repo: &Repository,
    name: &str,
    files: &[FolderFile],
    session: Option<&str>,
    again: bool,
    options: &ImportOptions,
) -> Result<OllmReport> {
    let mut found = FolderContent::default();
    for file in files {
        if options
            .format
            .is_none_or(|format| kind_of(name, &file.path).is_none_or(|kind| kind == format.name))
        {
            found.file(name, file);
        }
    }
    found.compare();
    if found.documents.is_empty() && found.odd.is_empty() {
        let expected =
            "expected context-snapshots, snapshots with transitions, or intent-snapshots";
        return Err(Error::not_found(format!("it has no files of OLLM CLI: {expected}")));
    }
    if let (true, Some(first)) = (found.documents.is_empty(), found.odd.first()) {
        let (path, what, files) = (&first.path, &first.what, found.odd.len());
        let message = format!("none of its files can be read: {files} are invalid, {path}: {what}");
        return Err(Error::invalid(message));
    }
    let mut lines: BTreeMap<BranchName, Vec<FolderDocument>> = BTreeMap::new();
    let names: BTreeSet<&str> =
        found.documents.iter().map(|document| document.session.as_str()).collect();
    if let (Some(session), true) = (session, names.len() > 1) {
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        let message = format!(
            "the documents are of the sessions {names}: expected one of them to become {session}"
        );
        return Err(Error::invalid(message));
    }
    let mut report =
        OllmReport { branches: Vec::new(), forgotten: BTreeSet::new(), odd: found.odd };
    for document in found.documents {
        let branch = document.checked.branch(session.unwrap_or(&document.session))?;
        if session.is_none() && !again && repo.is_forgotten(branch.session()) {
            report.forgotten.insert(branch.session().to_owned());
            continue;
        }
        lines.entry(branch).or_default().push(document);
    }
    let mut change = repo.begin();
    for (branch, documents) in lines {
        report.branches.push(add(repo, &mut change, branch, documents, options)?);
    }
    let is_new = report.branches.iter().any(|branch| branch.turns > 0);
    if let Some(first) = report.branches.first_mut() {
        // One operation writes all branches: the first branch reports the size.
        let imported = finish_import(repo, change, options, "import", is_new, first.clone())?;
        first.new_bytes = imported.new_bytes;
    }
    Ok(report)
}

/// Puts the documents of one branch on it, oldest first.
fn add(
    repo: &Repository,
    change: &mut Transaction<'_>,
    branch: BranchName,
    mut documents: Vec<FolderDocument>,
    options: &ImportOptions,
) -> Result<ImportReport> {
    // Documents of one moment stay in the order of their names.
    documents.sort_by_key(|document| document.checked.facts.time);
    let tip = change.tip(&branch);
    let mut known: HashSet<ObjectId> = match tip {
        Some(tip) => sources_of(repo, &tip)?,
        None => HashSet::new(),
    };
    let (mut head, mut turns, mut messages) = (tip, 0, 0);
    for FolderDocument { checked, .. } in &documents {
        if known.insert(checked.source) {
            head = Some(checked.add(change, &branch, &options.stamp)?);
            turns += 1;
            messages += checked.facts.messages;
        }
    }
    let head = head.ok_or_else(|| Error::not_found(format!("{branch} has no document")))?;
    let format = documents.first().map_or(CONTEXT_NAME, |document| document.format);
    Ok(ImportReport {
        turns,
        messages,
        input_bytes: documents.iter().map(|document| document.bytes).sum(),
        ..ImportReport::unchanged(branch, head, format)
    })
}

/// A document of the folder.
struct FolderDocument {
    checked: ValidatedDocument,
    format: &'static str,
    session: String,
    bytes: u64,
}

#[derive(Default)]
struct FolderContent {
    documents: Vec<FolderDocument>,
    /// Indexes by their folder, with the ids that each names; `None` for an invalid index.
    indexes: BTreeMap<String, (String, Option<BTreeSet<String>>)>,
    map: Option<(String, BTreeMap<String, String>)>,
    /// Known snapshots, by folder and id, with their sessions.
    snapshots: BTreeMap<(String, String), (String, String)>,
    odd: Vec<FolderNote>,
}

/// Returns the kind of a file, by its name.
fn kind_of(root: &str, path: &str) -> Option<&'static str> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let parent = folder.rsplit('/').next().filter(|folder| !folder.is_empty()).unwrap_or(root);
    match name {
        INDEX | MAP => None,
        _ if !name.ends_with(".json") || name.starts_with('.') => None,
        _ if name.starts_with("snapshot-") => Some(CONTEXT_NAME),
        _ if name.starts_with("transition-") => Some(MODE_NAME),
        _ if parent == INTENTS => Some(INTENT_NAME),
        _ => None,
    }
}

impl FolderContent {
    fn odd(&mut self, path: &str, what: impl Into<String>) {
        self.odd.push(FolderNote { path: path.to_owned(), what: what.into() });
    }

    fn file(&mut self, root: &str, file: &FolderFile) {
        let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        match kind_of(root, &file.path) {
            Some(kind) => self.document(kind, root, folder, name, file),
            None if name == INDEX => {
                let ids = index_ids(&file.bytes);
                if ids.is_none() {
                    self.odd(&file.path, "is not an index: rebuilt from the files next to it");
                }
                self.indexes.insert(folder.to_owned(), (file.path.clone(), ids));
            }
            None if name == MAP => {
                match Text::new(&file.bytes).and_then(|text| text.parse().ok()) {
                    Some(map) => self.map = Some((file.path.clone(), map)),
                    None => self.odd(
                        &file.path,
                        "is not a map of snapshots: the documents name their sessions",
                    ),
                }
            }
            None => {}
        }
    }

    fn document(
        &mut self,
        kind: &'static str,
        root: &str,
        folder: &str,
        name: &str,
        file: &FolderFile,
    ) {
        let checked =
            named(kind).and_then(|format| ValidatedDocument::new(format, file.bytes.clone()));
        let checked = match checked {
            Ok(checked) => checked,
            Err(error) => return self.odd(&file.path, format!("left out: {error}")),
        };
        let session = match kind {
            CONTEXT_NAME => session_of(&checked),
            MODE_NAME => {
                let own = folder.rsplit('/').next().filter(|name| name.starts_with(SESSION_PREFIX));
                let root = Some(root).filter(|root| root.starts_with(SESSION_PREFIX));
                own.or(root).unwrap_or("session-default").to_owned()
            }
            _ => DEFAULT_SESSION.to_owned(),
        };
        if let Err(error) = checked.branch(&session) {
            return self.odd(&file.path, format!("left out: {error}"));
        }
        for note in &checked.facts.notes {
            let what = format!("line {}: {}", note.line, note.what);
            self.odd.push(FolderNote { path: file.path.clone(), what });
        }
        if kind == CONTEXT_NAME {
            let id = name.strip_prefix("snapshot-").and_then(|rest| rest.strip_suffix(".json"));
            let key = (folder.to_owned(), id.unwrap_or_default().to_owned());
            self.snapshots.insert(key, (file.path.clone(), session.clone()));
        }
        let bytes = file.bytes.len() as u64;
        self.documents.push(FolderDocument { checked, format: kind, session, bytes });
    }

    /// Tells where index and map differ from the files.
    fn compare(&mut self) {
        let mut odd = Vec::new();
        let mut tell = |path: &str, what: String| {
            odd.push(FolderNote { path: path.to_owned(), what });
        };
        for (folder, (path, ids)) in &self.indexes {
            let Some(ids) = ids else { continue };
            for id in ids {
                if !self.snapshots.contains_key(&(folder.clone(), id.clone())) {
                    tell(path, format!("names {}, which is missing or cannot be read", shown(id)));
                }
            }
            for ((of, id), (file, _)) in &self.snapshots {
                if of == folder && !ids.contains(id) {
                    tell(file, "is not in the index; imported anyway".to_owned());
                }
            }
        }
        if let Some((path, map)) = &self.map {
            let sessions: BTreeMap<&str, (&str, &str)> = self
                .snapshots
                .iter()
                .map(|((_, id), (file, session))| (id.as_str(), (file.as_str(), session.as_str())))
                .collect();
            for (id, session) in map {
                match sessions.get(id.as_str()) {
                    None => tell(
                        path,
                        format!("names {}, which is missing or cannot be read", shown(id)),
                    ),
                    Some((file, own)) if own != session => {
                        tell(
                            file,
                            "the map names a different session than the document, which is used"
                                .to_owned(),
                        );
                    }
                    Some(_) => {}
                }
            }
        }
        self.odd.append(&mut odd);
    }
}

/// Returns the session that a snapshot names.
fn session_of(checked: &ValidatedDocument) -> String {
    let told = checked.facts.metadata.get(SESSION).map(String::as_bytes).unwrap_or_default();
    Text::new(told).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Returns the session that a snapshot document names, if it is a valid session name.
#[must_use]
pub fn session_of_document(bytes: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Told {
        #[serde(rename = "sessionId")]
        session: String,
    }
    let Told { session } = Text::new(bytes)?.parse().ok()?;
    BranchName::main(&session).is_ok().then_some(session)
}

/// The ids that an index names.
fn index_ids(bytes: &Bytes) -> Option<BTreeSet<String>> {
    #[derive(Deserialize)]
    struct Index {
        snapshots: Vec<IndexEntry>,
    }
    #[derive(Deserialize)]
    struct IndexEntry {
        id: String,
    }
    let index: Index = Text::new(bytes)?.parse().ok()?;
    Some(index.snapshots.into_iter().map(|entry| entry.id).collect())
}

/// An id, as far as it is like those that upstream makes.
fn shown(id: &str) -> &str {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if id.len() <= 60 && id.chars().all(is_plain) { id } else { "a snapshot" }
}
