//! The note of sessions without secrets next to a store, so that the next scan skips them.
//!
//! ```text
//! version, id of the rules, epoch of the store, the marks of the sessions in order
//! ```
//!
//! A mark is computed from the name, the branches and the tips of a session, so a session that
//! changed has another mark. A collection starts a new epoch, because it may remove turns, which a
//! scan reports. The note may disappear at any time.

use std::collections::{BTreeMap, BTreeSet};

use turntree::error::Result;
use turntree::object::{Kind, ObjectId, Reader, Writer};
use turntree::repo::{BranchName, Repository, ScopeScan, SearchScope};
use turntree::workspace::{read_note, write_note};

use crate::secrets::rules_id;

/// The name of the note.
const NOTE: &str = "sessions without secrets";

/// The version of the note. A change of the scanner within one package version must raise it.
const VERSION: &str = concat!("1 ", env!("CARGO_PKG_VERSION"));

const MARK_BYTES: usize = 16;

/// The largest number of sessions of a note.
const MAX_SESSIONS: usize = 1 << 20;

type Mark = [u8; MARK_BYTES];

/// The sessions without secrets, and the marks of all sessions.
pub(super) struct CleanSessions {
    known: BTreeSet<Mark>,
    current: BTreeMap<String, (Mark, BTreeSet<ObjectId>)>,
}

impl CleanSessions {
    /// Reads the note of a store, and the refs.
    pub(super) fn read(repo: &Repository) -> Self {
        let mut sessions: BTreeMap<String, Vec<(BranchName, ObjectId)>> = BTreeMap::new();
        for (branch, tip) in repo.branches() {
            sessions.entry(branch.session().to_owned()).or_default().push((branch, tip));
        }
        let current = sessions.into_iter().map(|(session, branches)| {
            let mark = mark_of(&session, &branches);
            (session, (mark, branches.into_iter().map(|(_, tip)| tip).collect()))
        });
        let note = read_note(repo, NOTE);
        let known = note.and_then(|note| decode(repo, &note).ok().flatten()).unwrap_or_default();
        Self { known, current: current.collect() }
    }

    /// Returns the scopes without the starts that are branches of known sessions, and the number of
    /// these sessions.
    pub(super) fn without_known(&self, scopes: &[SearchScope]) -> (Vec<SearchScope>, u64) {
        let mut skipped = BTreeSet::new();
        let mut left = Vec::new();
        for scope in scopes {
            let mut scope = scope.clone();
            scope.starts.retain(|(tip, branch)| {
                let session = branch.as_ref().map(BranchName::session);
                let known = session.filter(|session| self.has(session, tip));
                skipped.extend(known.map(str::to_owned));
                known.is_none()
            });
            if !scope.starts.is_empty() {
                left.push(scope);
            }
        }
        (left, skipped.len() as u64)
    }

    /// Returns the sessions all of whose branches are the starts of a scope.
    pub(super) fn covered(&self, scopes: &[SearchScope]) -> BTreeSet<String> {
        let whole = scopes
            .iter()
            .filter(|scope| scope.hide.is_empty() && self.whole_session(scope).is_some());
        let branches = whole.filter_map(|scope| scope.starts.first()?.1.as_ref());
        branches.map(|branch| branch.session().to_owned()).collect()
    }

    fn has(&self, session: &str, tip: &ObjectId) -> bool {
        self.current
            .get(session)
            .is_some_and(|(mark, tips)| tips.contains(tip) && self.known.contains(mark))
    }

    /// Adds the sessions that `scopes` cover and whose `results` are without findings, and writes
    /// the note if it changes.
    pub(super) fn learn(
        mut self,
        repo: &Repository,
        scopes: &[SearchScope],
        results: &[ScopeScan],
    ) {
        if repo.is_past() {
            return;
        }
        let mut is_clean: Vec<bool> = Vec::new();
        let mut new = Vec::new();
        for (scope, result) in scopes.iter().zip(results) {
            let has = |earlier: &usize| is_clean.get(*earlier).copied().unwrap_or(false);
            let clean =
                !result.is_remarkable && scope.hide.is_empty() && result.continues.iter().all(has);
            is_clean.push(clean);
            new.extend(self.whole_session(scope).filter(|_| clean));
        }
        let current: BTreeSet<Mark> = self.current.values().map(|(mark, _)| *mark).collect();
        let known = self.known.len();
        self.known.retain(|mark| current.contains(mark));
        let is_changed =
            self.known.len() < known || new.iter().any(|mark| !self.known.contains(mark));
        self.known.extend(new);
        if is_changed && self.known.len() <= MAX_SESSIONS {
            let _ = write_note(repo, NOTE, &self.encode(repo));
        }
    }

    /// Returns the mark of the session whose branches are the starts of a scope.
    fn whole_session(&self, scope: &SearchScope) -> Option<Mark> {
        let session = scope.starts.first()?.1.as_ref()?.session();
        let is_its = |branch: &Option<BranchName>| {
            branch.as_ref().is_some_and(|branch| branch.session() == session)
        };
        if !scope.starts.iter().all(|(_, branch)| is_its(branch)) {
            return None;
        }
        let (mark, tips) = self.current.get(session)?;
        let starts: BTreeSet<ObjectId> = scope.starts.iter().map(|(tip, _)| *tip).collect();
        (starts == *tips).then_some(*mark)
    }

    fn encode(&self, repo: &Repository) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.text(VERSION).bytes(rules_id().as_bytes()).uint(repo.epoch());
        writer.array(self.known.len());
        for mark in &self.known {
            writer.bytes(mark);
        }
        writer.finish()
    }
}

/// Returns the marks of a note; `None` for a note of another version, rules or epoch.
fn decode(repo: &Repository, note: &[u8]) -> Result<Option<BTreeSet<Mark>>> {
    let mut reader = Reader::new("the note of sessions without secrets", note);
    if reader.text()? != VERSION
        || reader.bytes()? != rules_id().as_bytes()
        || reader.uint()? != repo.epoch()
    {
        return Ok(None);
    }
    let mut marks = BTreeSet::new();
    for _ in 0..reader.array_up_to(MAX_SESSIONS as u64)? {
        let Ok(mark) = reader.bytes()?.try_into() else { return Ok(None) };
        marks.insert(mark);
    }
    reader.finish()?;
    Ok(Some(marks))
}

/// Returns the mark of a session with these branches, which are in order of names.
fn mark_of(session: &str, branches: &[(BranchName, ObjectId)]) -> Mark {
    let mut writer = Writer::new();
    writer.text(session).array(branches.len());
    for (branch, tip) in branches {
        writer.text(branch.branch()).bytes(tip.as_bytes());
    }
    let id = ObjectId::of(Kind::Blob, &writer.finish());
    id.as_bytes().first_chunk().copied().unwrap_or_default()
}
