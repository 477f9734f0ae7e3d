//! Finds the changes of a turn: the contexts to compare it with, and the text of its entries.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use super::gaps::Gaps;
use crate::context::sections::is_conversation;
use crate::context::{Context, MessageEntry, Role, Section};
use crate::error::{Error, Result};
use crate::object::{Commit, Kind, ObjectId, ObjectSource};
use crate::repo::{LogEntry, Repository};
use crate::tree::Item;

/// Returns the text of a message, given the format of its record and its bytes; `None` if the
/// message cannot match the search. The caller supplies it, because this layer knows no transcript
/// formats.
pub type ReadMessage<'a> = &'a (dyn Fn(&str, &[u8]) -> Option<String> + Sync);

/// Returns the number of occurrences of a pattern in a text.
pub type Count<'a> = &'a (dyn Fn(&[u8]) -> u64 + Sync);

/// Called from any thread with the number of blobs searched and the total.
pub type GrepProgress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// A turn whose context exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadableTurn {
    pub(super) id: ObjectId,
    pub(super) turn: u64,
    pub(super) tree: ObjectId,
}

/// Finds the baselines of turns, skipping turns whose contexts expired.
#[derive(Debug)]
pub(super) struct Lineage<'r> {
    pub(super) repo: &'r Repository,
    pub(super) gaps: Gaps,
    /// The baselines of commits whose contexts expired.
    behind: HashMap<ObjectId, Vec<ReadableTurn>>,
    /// The commit read last: a walk from turn to turn asks for it next.
    last: Option<(ObjectId, Commit)>,
}

/// The contexts that a turn is compared with.
#[derive(Debug, Clone, Default)]
pub(super) struct Baseline {
    /// The nearest earlier turns whose contexts exist; none for a first turn.
    pub(super) kept: Vec<ReadableTurn>,
    /// True if contexts of turns in between expired: their changes count as changes of this turn.
    pub(super) gap: bool,
}

impl<'r> Lineage<'r> {
    pub(super) fn new(repo: &'r Repository) -> Self {
        Self { repo, gaps: Gaps::default(), behind: HashMap::new(), last: None }
    }

    /// Returns true if the context of a commit expired, and records the gap.
    pub(super) fn is_expired(&mut self, commit: &Commit) -> bool {
        let gone = self.repo.store().tombstone(&commit.tree).is_some();
        if gone {
            self.gaps.add(&commit.session, commit.turn, commit.turn);
        }
        gone
    }

    /// Returns the contexts to compare a turn with. Costs one commit per parent, and one per
    /// expired turn before it.
    pub(super) fn before(&mut self, entry: &LogEntry) -> Result<Baseline> {
        let mut gap = self.note_forgotten(entry)?;
        let mut kept: Vec<ReadableTurn> = Vec::new();
        for parent in &entry.parents {
            let commit = self.repo.commit(parent)?;
            let found = if self.is_expired(&commit) {
                gap = true;
                self.readable_ancestors(parent, commit)?
            } else {
                let kept = ReadableTurn { id: *parent, turn: commit.turn, tree: commit.tree };
                self.last = Some((*parent, commit));
                vec![kept]
            };
            kept.extend(
                found.into_iter().filter(|found| !kept.contains(found)).collect::<Vec<_>>(),
            );
        }
        Ok(Baseline { kept, gap })
    }

    /// Returns the commit of a turn, without another read if [`Lineage::before`] just read it.
    pub(super) fn commit(&mut self, id: &ObjectId) -> Result<Commit> {
        match self.last.take_if(|(last, _)| last == id) {
            Some((_, commit)) => Ok(commit),
            None => self.repo.commit(id),
        }
    }

    /// Returns the nearest ancestors of an expired turn whose contexts exist.
    fn readable_ancestors(&mut self, id: &ObjectId, commit: Commit) -> Result<Vec<ReadableTurn>> {
        if let Some(known) = self.behind.get(id) {
            return Ok(known.clone());
        }
        let grafts = self.repo.grafts()?;
        let (mut kept, mut seen, mut open) = (Vec::new(), HashSet::new(), vec![(*id, commit)]);
        while let Some((at, commit)) = open.pop() {
            if !self.is_expired(&commit) {
                kept.push(ReadableTurn { id: at, turn: commit.turn, tree: commit.tree });
                continue;
            }
            let parents = grafts.parents(&commit);
            let entry = LogEntry { id: at, commit, parents };
            self.note_forgotten(&entry)?;
            for parent in entry.parents.into_iter().rev() {
                if seen.insert(parent) {
                    open.push((parent, self.repo.commit(&parent)?));
                }
            }
        }
        self.behind.insert(*id, kept.clone());
        Ok(kept)
    }

    /// Records a gap for earlier turns whose commits were forgotten as well.
    fn note_forgotten(&mut self, entry: &LogEntry) -> Result<bool> {
        let LogEntry { commit, parents, .. } = entry;
        if *parents == commit.parents {
            return Ok(false);
        }
        let mut newest = 0;
        for parent in parents {
            newest = newest.max(self.repo.commit(parent)?.turn);
        }
        self.gaps.add(&commit.session, newest + 1, commit.turn.saturating_sub(1));
        Ok(true)
    }
}

/// The kind of text in an entry of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TextKind {
    /// Plain text.
    Plain,
    /// A message, with its role and format.
    Message(Role, String),
}

impl TextKind {
    /// Returns the kind of text in an item of `section`.
    pub(super) fn of(section: &str, item: &Item) -> Self {
        let entry = is_conversation(section).then(|| MessageEntry::from_item(item).ok()).flatten();
        entry.map_or(Self::Plain, |entry| Self::Message(entry.role, entry.media))
    }

    /// Returns the format of a message; empty for plain text.
    pub(super) fn media(&self) -> &str {
        match self {
            Self::Plain => "",
            Self::Message(_, media) => media,
        }
    }
}

/// Returns the text of an entry for a search; `None` if the entry cannot match.
pub(super) fn text_of(read: ReadMessage<'_>, reading: &TextKind, bytes: Bytes) -> Option<Bytes> {
    match reading {
        TextKind::Plain => Some(bytes),
        TextKind::Message(_, media) => read(media, &bytes).map(Bytes::from),
    }
}

/// Returns the sections of a context; none before the first turn.
pub(super) fn sections(
    repo: &Repository,
    before: Option<&ReadableTurn>,
) -> Result<std::collections::BTreeMap<String, Section>> {
    match before {
        Some(kept) => Context::open(repo.store(), &kept.tree)?.sections(repo.store()),
        None => Ok(std::collections::BTreeMap::new()),
    }
}

/// Returns the bytes of the blob that an item links to.
pub(super) fn blob(source: &dyn ObjectSource, item: &Item) -> Result<Bytes> {
    match item.link.kind {
        Kind::Blob => source.read_as(Kind::Blob, &item.link.id),
        kind => Err(Error::corrupt(item.link.id, "a blob in a section", kind)),
    }
}
