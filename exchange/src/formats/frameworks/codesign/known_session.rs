//! Reads a design from the store: its session, its snapshots, the length of its chat.

use std::collections::{HashMap, HashSet};

use turntree::context::Context;
use turntree::context::sections::{META, SOURCE};
use turntree::error::Result;
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{BranchName, LogEntry, MAIN_BRANCH, Repository};

use super::{META_CHAT, META_ID, SNAPSHOT};

use crate::text::unique_name::unique_name;

/// Longest part of a session's name that is taken from a design's name, in characters.
const MAX_SLUG_CHARS: usize = 40;

/// A session that a design is.
#[derive(Debug)]
pub(super) struct KnownSession {
    pub(super) session: String,
    /// Its main branch, which may be empty.
    pub(super) main: BranchName,
    /// Branches by the last snapshot on them.
    pub(super) heads: HashMap<String, BranchName>,
    /// The last snapshot on the main branch.
    pub(super) main_head: Option<String>,
    /// Commits of snapshots, by their keys.
    pub(super) commits: HashMap<String, ObjectId>,
    /// The place where the chat was taken from, and the number of its rows.
    pub(super) chat: (String, usize),
    /// Roots of the sources on the main branch.
    pub(super) sources: HashSet<ObjectId>,
}

impl KnownSession {
    /// Reads `session` from the store.
    ///
    /// # Errors
    /// As for reading.
    pub(super) fn load(repo: &Repository, session: String) -> Result<Self> {
        let mut known = Self {
            main: BranchName::main(&session)?,
            session,
            heads: HashMap::new(),
            main_head: None,
            commits: HashMap::new(),
            chat: (String::new(), 0),
            sources: HashSet::new(),
        };
        for (branch, tip) in repo.branches_of(&known.session) {
            known.branch(repo, &branch, tip)?;
        }
        Ok(known)
    }

    fn branch(&mut self, repo: &Repository, branch: &BranchName, tip: ObjectId) -> Result<()> {
        let is_main = branch.branch() == MAIN_BRANCH;
        let mut ended = false;
        for entry in repo.history(&[tip], &[])?.first_parent() {
            let LogEntry { id, commit, .. } = entry?;
            if is_main && repo.tombstone(&commit.tree).is_none() {
                let source = repo.context(&id)?.section(repo, SOURCE)?;
                self.sources.extend(source.map(|section| section.id));
            }
            let Some(key) = commit.metadata.get(SNAPSHOT) else { continue };
            if !std::mem::replace(&mut ended, true) {
                // Of two branches with the same head, the main one continues.
                if is_main || !self.heads.contains_key(key) {
                    self.heads.insert(key.clone(), branch.clone());
                }
                self.main_head = self.main_head.take().or(is_main.then(|| key.clone()));
            }
            self.commits.insert(key.clone(), id);
        }
        if is_main {
            self.chat = chat_of(&text(repo, &repo.context(&tip)?, META_CHAT)?);
        }
        Ok(())
    }

    /// Records that `branch` now ends with the snapshot `key`, and removes its previous head.
    pub(super) fn put(
        &mut self,
        branch: &BranchName,
        parent: Option<&str>,
        key: &str,
        commit: ObjectId,
    ) {
        let is_main = *branch == self.main;
        let before = if is_main { self.main_head.as_deref() } else { parent };
        let before = before.filter(|before| self.heads.get(*before) == Some(branch));
        if let Some(before) = before.map(str::to_owned) {
            self.heads.remove(&before);
        }
        if is_main {
            self.main_head = Some(key.to_owned());
        }
        self.heads.insert(key.to_owned(), branch.clone());
        self.commits.insert(key.to_owned(), commit);
    }
}

/// Returns the sessions of designs, by the designs' ids: those called `name`, alone or with a
/// suffix.
///
/// # Errors
/// As for reading.
pub(super) fn sessions(repo: &Repository, name: &str) -> Result<HashMap<String, String>> {
    let mut sessions = HashMap::new();
    for (branch, tip) in repo.branches() {
        let session = branch.session();
        let is_ours =
            session.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        let commit = repo.commit(&tip)?;
        let is_there = repo.tombstone(&commit.tree).is_none();
        if !is_ours || !is_there || branch.branch() != MAIN_BRANCH {
            continue;
        }
        let id = text(repo, &repo.context(&tip)?, META_ID)?;
        if let Some(id) = id {
            sessions.insert(id, session.to_owned());
        }
    }
    Ok(sessions)
}

/// Returns a name for the session of a design: `stem` and the valid characters of `name`, not among
/// the `taken` names.
pub(super) fn free_session(stem: &str, name: &str, id: &str, taken: &HashSet<String>) -> String {
    let slug = [name, id].map(slug).into_iter().find(|slug| !slug.is_empty());
    let stem = format!("{stem}-{}", slug.as_deref().unwrap_or("design"));
    unique_name(&stem, |name| taken.contains(name))
}

/// Returns the letters and digits of `name`, with a hyphen for anything else.
fn slug(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars().flat_map(char::to_lowercase).take(MAX_SLUG_CHARS) {
        match c {
            c if c.is_alphanumeric() => slug.push(c),
            _ if slug.ends_with('-') || slug.is_empty() => {}
            _ => slug.push('-'),
        }
    }
    slug.trim_end_matches('-').to_owned()
}

fn chat_of(value: &Option<String>) -> (String, usize) {
    let parts = value.as_deref().and_then(|value| value.split_once(' '));
    let (origin, count) = parts.unwrap_or_default();
    (origin.to_owned(), count.parse().unwrap_or_default())
}

/// A fact of the section `meta`.
pub(super) fn text(repo: &Repository, context: &Context, key: &str) -> Result<Option<String>> {
    let store = repo.store();
    let Some(item) = context.map(store, META)?.get(store, key.as_bytes())? else { return Ok(None) };
    let bytes = store.read_as(Kind::Blob, &item.link.id)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
