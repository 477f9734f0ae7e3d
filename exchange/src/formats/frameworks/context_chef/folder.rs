//! Reads the folders of ContextChef: `.context_vfs` and `.context_memory`, and those of 4.2.
//!
//! ```text
//! up to 3.9   .context_vfs/vfs_<hash>.txt           payloads, as they are
//!             .context_memory/<base64url of key>.mem, _index.json
//! 4.2         vfs/..., archive/...                  payloads, as they are
//!             memory/<key>, notes/<path>            {"content": text, "meta": {...}}
//! ```
//!
//! Payloads go into the pool and into the section `vfs` of one new snapshot, entries of memory into
//! its section `memory`, notes into its scratchpad. Unreadable files are left out and reported.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use turntree::context::sections::{MEMORY, META, SCRATCHPAD, STATE, VFS};
use turntree::context::{Builder, Context, JSON_MEDIA, MAIN_AGENT, Shape, agent_section};
use turntree::error::{Error, Result};
use turntree::object::{Author, Kind, ObjectSink, Trigger};
use turntree::repo::vfs::{NewPayload, VfsUri, payload_item};
use turntree::repo::{BranchName, Repository, SnapshotDraft, Transaction};
use turntree::tree::{Item, Link, MAX_KEY_BYTES};

use super::{MEMORY_ORDER, MEMORY_TURN, META_ERA, NAME};
use crate::formats::frameworks::read_tree::{FolderFile, FolderNote};
use crate::import::finish::finish_import;
use crate::model::format::ImportOptions;
use crate::model::payload_name::{NameCheck, check_name};
use crate::model::report::ImportReport;
use crate::text::json::Text;

const VFS_FOLDER: &str = ".context_vfs";
const MEMORY_FOLDER: &str = ".context_memory";
const INDEX: &str = "_index.json";
const TITLE: &str = "ContextChef store";

/// The report of an import of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderReport {
    /// As for a document; its notes are empty.
    pub report: ImportReport,
    /// Payloads found.
    pub payloads: u64,
    /// Entries of memory found.
    pub memories: u64,
    /// Notes found.
    pub notes: u64,
    /// Files that were left out, or look wrong.
    pub odd: Vec<FolderNote>,
}

/// Returns the folders to read in a folder called `name`: all of it, those of 3.9, or those of 4.2
/// if there are none of 3.9 next to them.
#[must_use]
pub fn folders_of(name: &str, has: &dyn Fn(&str) -> bool) -> Vec<&'static str> {
    if matches!(name, VFS_FOLDER | MEMORY_FOLDER) {
        return vec![""];
    }
    let there = |folders: &[&'static str]| {
        folders.iter().copied().filter(|folder| has(folder)).collect::<Vec<_>>()
    };
    let old = there(&[VFS_FOLDER, MEMORY_FOLDER]);
    if old.is_empty() { there(&["vfs", "archive", "memory", "notes"]) } else { old }
}

/// Imports the files of a folder called `name` as one snapshot, on top of the session's main
/// branch, and their payloads into the pool. A folder that is known adds nothing.
///
/// # Errors
/// `NotFound` when the folder has no file of ContextChef, `InvalidInput` when two payloads have the
/// same URI, `Conflict` when another process moved the branch concurrently. After an error the
/// store is unchanged.
pub fn import_folder(
    repo: &Repository,
    name: &str,
    files: &[FolderFile],
    options: &ImportOptions,
) -> Result<FolderReport> {
    let found = FolderContent::in_files(name, files);
    if found.payloads.is_empty() && found.memory.is_none() && found.notes.is_empty() {
        let expected = "expected .context_vfs, .context_memory, or vfs, archive, memory and notes";
        return Err(Error::not_found(format!("it has no files of ContextChef: {expected}")));
    }
    let branch = BranchName::main(&options.session)?;
    let mut change = repo.begin();
    let tip = change.tip(&branch);
    let parent = tip.map_or_else(|| Ok(Context::default()), |tip| repo.context(&tip))?;
    let mut builder = Builder::from(parent);
    found.write(&mut change, &mut builder)?;
    let tree = builder.write(&mut change)?;
    let known = tip.map(|tip| repo.commit(&tip)).transpose()?.is_some_and(|tip| tip.tree == tree);
    let (payloads, memories) =
        (found.payloads.len(), found.memory.map_or(0, |memory| memory.len()));
    let (head, turns) = match tip.filter(|_| known) {
        Some(tip) => (tip, 0),
        None => {
            let exactly = |(uri, content)| NewPayload { content, uri, otherwise: None };
            let payloads: Vec<_> = found.payloads.into_iter().map(exactly).collect();
            change.put_payloads(&payloads, options.stamp.time.micros)?;
            let author = Author { agent: NAME.to_owned(), model: String::new() };
            let (time, message) = (options.stamp.time, TITLE.to_owned());
            let (trigger, metadata) = (Trigger::Manual, BTreeMap::new());
            let snapshot = SnapshotDraft { tree, author, time, trigger, message, metadata };
            (change.snapshot(&branch, snapshot)?, 1)
        }
    };
    let report = ImportReport {
        turns,
        input_bytes: files.iter().map(|file| file.bytes.len() as u64).sum(),
        ..ImportReport::unchanged(branch, head, NAME)
    };
    let reason = format!("import {}", options.session);
    Ok(FolderReport {
        report: finish_import(repo, change, options, &reason, !known, report)?,
        payloads: payloads as u64,
        memories: memories as u64,
        notes: found.notes.len() as u64,
        odd: found.odd,
    })
}

/// The content of the files.
#[derive(Default)]
struct FolderContent {
    payloads: BTreeMap<VfsUri, Bytes>,
    /// Entries as JSON, in their order.
    memory: Option<Vec<(String, String)>>,
    notes: BTreeMap<String, Bytes>,
    is_new: bool,
    odd: Vec<FolderNote>,
}

/// The JSON that 4.2 writes into a file of a name space with facts.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
    #[serde(borrow)]
    meta: Option<&'a RawValue>,
}

impl FolderContent {
    fn in_files(name: &str, files: &[FolderFile]) -> Self {
        let mut found = Self::default();
        let mut old_memory: BTreeMap<&str, &FolderFile> = BTreeMap::new();
        let mut new_memory = Vec::new();
        for file in files {
            // The folder itself may be one of them.
            let path = match name {
                VFS_FOLDER | MEMORY_FOLDER => format!("{name}/{}", file.path),
                _ => file.path.clone(),
            };
            let Some((folder, rest)) = path.split_once('/') else { continue };
            let is_hidden = rest.split('/').any(|part| part.starts_with('.'));
            match folder {
                _ if is_hidden => {}
                VFS_FOLDER if rest.starts_with("vfs_") => found.payload("vfs", rest, file),
                MEMORY_FOLDER => {
                    old_memory.insert(file.path.rsplit('/').next().unwrap_or_default(), file);
                }
                "vfs" | "archive" => found.payload(folder, rest, file),
                "memory" => new_memory.push((rest.to_owned(), file)),
                "notes" => found.note(rest, file),
                _ => {}
            }
        }
        if !old_memory.is_empty() {
            found.old_memory(&old_memory);
        }
        if !new_memory.is_empty() {
            found.new_memory(new_memory);
        }
        found
    }

    fn odd(&mut self, file: &FolderFile, what: impl Into<String>) {
        self.odd.push(FolderNote { path: file.path.clone(), what: what.into() });
    }

    fn payload(&mut self, namespace: &str, path: &str, file: &FolderFile) {
        self.is_new |= namespace != "vfs" || !file.path.contains(VFS_FOLDER);
        match VfsUri::new(namespace, path) {
            Ok(uri) => {
                if check_name(&uri, &file.bytes) == NameCheck::Differs {
                    self.odd(file, "its name is not the hash of its content; kept unchanged");
                }
                self.payloads.insert(uri, file.bytes.clone());
            }
            Err(error) => self.odd(file, format!("left out: {error}")),
        }
    }

    fn note(&mut self, path: &str, file: &FolderFile) {
        self.is_new = true;
        match envelope(&file.bytes) {
            Some(_) if path.len() < MAX_KEY_BYTES => {
                self.notes.insert(path.to_owned(), file.bytes.clone());
            }
            _ => self.odd(file, "left out: expected an object with content and meta"),
        }
    }

    /// Entries by file name, in the order of the index; those that it does not name follow.
    fn old_memory(&mut self, files: &BTreeMap<&str, &FolderFile>) {
        let mut entries = Vec::new();
        let mut seen = BTreeSet::new();
        let index = files.get(INDEX);
        let keys: Option<Vec<String>> =
            index.and_then(|file| Text::new(&file.bytes).and_then(|text| text.parse().ok()));
        if let (Some(file), None) = (index, &keys) {
            self.odd(file, "expected an array of keys; the order of the file names is used");
        }
        for key in keys.unwrap_or_default() {
            let name = format!("{}.mem", base64_of(&key));
            match files.get(name.as_str()) {
                Some(file) if seen.insert(name.clone()) => self.entry(key, file, &mut entries),
                Some(_) => {}
                None => {
                    if let Some(index) = index {
                        self.odd(index, format!("names {name}, which is missing"));
                    }
                }
            }
        }
        for (name, file) in files.iter().filter(|(name, _)| !seen.contains(**name)) {
            let Some(stem) = name.strip_suffix(".mem") else { continue };
            match key_of(stem) {
                Some(key) => {
                    if index.is_some() {
                        self.odd(file, "is not in _index.json; imported anyway");
                    }
                    self.entry(key, file, &mut entries);
                }
                None => self.odd(file, "left out: its name is not a key in base64url"),
            }
        }
        self.memory.get_or_insert_default().append(&mut entries);
    }

    fn entry(&mut self, key: String, file: &FolderFile, entries: &mut Vec<(String, String)>) {
        #[derive(Deserialize)]
        struct Entry {
            #[serde(rename = "value")]
            _value: String,
        }
        let text = Text::new(&file.bytes);
        let is_entry = text.is_some_and(|text| text.parse::<Entry>().is_ok());
        match std::str::from_utf8(&file.bytes) {
            Ok(json) if is_entry && (1..=MAX_KEY_BYTES).contains(&key.len()) => {
                entries.push((key, json.to_owned()));
            }
            _ => self.odd(file, "left out: expected an entry of memory"),
        }
    }

    /// Adds entries of 4.2 in the order in which they were made; the facts next to the content are
    /// those of an entry.
    fn new_memory(&mut self, files: Vec<(String, &FolderFile)>) {
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase")]
        struct Facts {
            created_at: Option<f64>,
        }
        self.is_new = true;
        let mut entries = Vec::new();
        for (key, file) in files {
            let Some((content, meta)) = envelope(&file.bytes) else {
                self.odd(file, "left out: expected an object with content and meta");
                continue;
            };
            let facts: Facts = serde_json::from_str(&meta).unwrap_or_default();
            let rest = meta.trim().strip_prefix('{').unwrap_or("}");
            let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
            let json = format!("{{\"value\":{content}{comma}{rest}");
            entries.push((facts.created_at.unwrap_or(f64::MAX), key, json));
        }
        entries.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        let entries = entries.into_iter().map(|(_, key, json)| (key, json));
        self.memory.get_or_insert_default().extend(entries);
    }

    fn write(&self, change: &mut Transaction<'_>, builder: &mut Builder) -> Result<()> {
        for (uri, content) in &self.payloads {
            let blob = change.write(Kind::Blob, content.clone())?;
            builder.set(change, VFS, uri.as_str(), Some(payload_item(blob)))?;
        }
        for (path, bytes) in &self.notes {
            json_entry(change, builder, SCRATCHPAD, &format!("notes/{path}"), bytes.clone())?;
        }
        if let Some(memory) = &self.memory {
            builder.set_empty(change, MEMORY, Shape::Map)?;
            for (key, json) in memory {
                json_entry(change, builder, MEMORY, key, json.clone().into())?;
            }
            let keys: Vec<&str> = memory.iter().map(|(key, _)| key.as_str()).collect();
            let order = serde_json::to_vec(&keys)
                .map_err(|source| Error::invalid("keys of memory as JSON").with_source(source))?;
            let state = agent_section(MAIN_AGENT, STATE)?;
            json_entry(change, builder, &state, MEMORY_ORDER, order.into())?;
            // The folder does not record the number of turns.
            json_entry(change, builder, &state, MEMORY_TURN, Bytes::from_static(b"0"))?;
        }
        let era = if self.is_new { "4.x" } else { "3.x" };
        builder.set_entry(change, META, META_ERA, Some(Bytes::from_static(era.as_bytes())))?;
        builder.set_entry(change, META, "format", Some(Bytes::from_static(NAME.as_bytes())))
    }
}

fn json_entry(
    change: &mut Transaction<'_>,
    builder: &mut Builder,
    section: &str,
    key: &str,
    json: Bytes,
) -> Result<()> {
    let id = change.write(Kind::Blob, json)?;
    let meta = Bytes::from_static(JSON_MEDIA.as_bytes());
    builder.set(change, section, key, Some(Item { link: Link { kind: Kind::Blob, id }, meta }))
}

/// Content, which is text, and facts of a file of 4.2, as JSON.
fn envelope(bytes: &Bytes) -> Option<(String, String)> {
    let json = std::str::from_utf8(bytes).ok()?;
    let text = Text::new(bytes)?;
    let Envelope { content, meta } = text.parse().ok()?;
    let own = |value: &RawValue| Some(json.get(text.range_of(value)?)?.to_owned());
    let content = own(content).filter(|content| content.starts_with('"'))?;
    let meta = match meta {
        Some(meta) => own(meta).filter(|meta| meta.starts_with('{'))?,
        None => "{}".to_owned(),
    };
    Some((content, meta))
}

/// A key as the name of its file: base64url without padding.
fn base64_of(key: &str) -> String {
    URL_SAFE_NO_PAD.encode(key)
}

/// Returns the key in the name of a file, if it is in the canonical form of [`base64_of`].
fn key_of(name: &str) -> Option<String> {
    String::from_utf8(URL_SAFE_NO_PAD.decode(name).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_has_the_file_name_that_upstream_gives_it() {
        assert_eq!(base64_of("deploy_target"), "ZGVwbG95X3RhcmdldA");
        assert_eq!(base64_of("café/key"), "Y2Fmw6kva2V5");
        for name in ["Y2Fmw6kva2V", "Z", "ZGVwbG95X3RhcmdldB", "a+b", "_w"] {
            assert_eq!(key_of(name), None, "{name}");
        }
    }

    turntree_properties::properties! {
        #[test]
        fn every_key_comes_back_from_its_file_name(key: String) {
            prop_assert_eq!(key_of(&base64_of(&key)), Some(key));
        }
    }
}
