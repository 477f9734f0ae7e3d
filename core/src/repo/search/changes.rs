//! The changes of a turn: the contexts it is compared with, and the text of its entries.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use super::gaps::Gaps;
use crate::context::{Context, MessageEntry, Role, Section};
use crate::error::{Error, Result};
use crate::object::{Commit, Kind, ObjectId, ObjectSource};
use crate::repo::{LogEntry, Repository};
use crate::tree::Item;

/// The text of a message, from the format of its record and its bytes, or nothing when it surely
/// does not hold what is searched: which formats there are is not for this layer to know.
pub type ReadMessage<'a> = &'a (dyn Fn(&str, &[u8]) -> Option<String> + Sync);

/// The number of occurrences of a pattern in a text.
pub type Count<'a> = &'a (dyn Fn(&[u8]) -> u64 + Sync);

/// Is told, from any thread, how many of how many blobs are searched.
pub type GrepProgress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// A turn whose context is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadableTurn {
    pub(super) id: ObjectId,
    pub(super) turn: u64,
    pub(super) tree: ObjectId,
}

/// The baselines of turns, found over turns whose contexts are gone.
#[derive(Debug)]
pub(super) struct Lineage<'r> {
    pub(super) repo: &'r Repository,
    pub(super) gaps: Gaps,
    /// The baseline behind commits that are gone.
    behind: HashMap<ObjectId, Vec<ReadableTurn>>,
    /// The commit that was read last: who goes back turn by turn asks for it next.
    last: Option<(ObjectId, Commit)>,
}

/// The contexts that a turn is compared with.
#[derive(Debug, Clone, Default)]
pub(super) struct Baseline {
    /// The nearest turns before it that are there; none for a first one.
    pub(super) kept: Vec<ReadableTurn>,
    /// True when turns between are gone: their changes count as those of this turn.
    pub(super) gap: bool,
}

impl<'r> Lineage<'r> {
    pub(super) fn new(repo: &'r Repository) -> Self {
        Self { repo, gaps: Gaps::default(), behind: HashMap::new(), last: None }
    }

    /// Returns whether the context of a commit is gone, and notes it.
    pub(super) fn is_gone(&mut self, commit: &Commit) -> bool {
        let gone = self.repo.store().tombstone(&commit.tree).is_some();
        if gone {
            self.gaps.add(&commit.session, commit.turn, commit.turn);
        }
        gone
    }

    /// Returns the contexts that a turn is compared with. Costs one commit for each parent, and for
    /// each turn behind it that is gone.
    pub(super) fn before(&mut self, entry: &LogEntry) -> Result<Baseline> {
        let mut gap = self.note_forgotten(entry)?;
        let mut kept: Vec<ReadableTurn> = Vec::new();
        for parent in &entry.parents {
            let commit = self.repo.commit(parent)?;
            let found = if self.is_gone(&commit) {
                gap = true;
                self.behind(parent, commit)?
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

    /// The commit of a turn, read once if it is the one that [`Lineage::before`] read last.
    pub(super) fn commit(&mut self, id: &ObjectId) -> Result<Commit> {
        match self.last.take_if(|(last, _)| last == id) {
            Some((_, commit)) => Ok(commit),
            None => self.repo.commit(id),
        }
    }

    /// The nearest turns behind one that is gone which are there.
    fn behind(&mut self, id: &ObjectId, commit: Commit) -> Result<Vec<ReadableTurn>> {
        if let Some(known) = self.behind.get(id) {
            return Ok(known.clone());
        }
        let grafts = self.repo.grafts()?;
        let (mut kept, mut seen, mut open) = (Vec::new(), HashSet::new(), vec![(*id, commit)]);
        while let Some((at, commit)) = open.pop() {
            if !self.is_gone(&commit) {
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

    /// Notes the turns behind a commit of which not even commits are left.
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
    /// As it is.
    Plain,
    /// As a message.
    Message(Role, String),
}

impl TextKind {
    /// Returns how an item of `section` is read.
    pub(super) fn of(section: &str, item: &Item) -> Self {
        let entry = is_conversation(section).then(|| MessageEntry::from_item(item).ok()).flatten();
        entry.map_or(Self::Plain, |entry| Self::Message(entry.role, entry.media))
    }

    /// The format of a message; empty for what is none.
    pub(super) fn media(&self) -> &str {
        match self {
            Self::Plain => "",
            Self::Message(_, media) => media,
        }
    }
}

/// Returns whether a section is the conversation of an agent.
pub(super) fn is_conversation(section: &str) -> bool {
    section.starts_with("agents/") && section.ends_with("/messages")
}

/// The text that an entry is searched as; nothing when it surely does not hold what is searched.
pub(super) fn text_of(read: ReadMessage<'_>, reading: &TextKind, bytes: Bytes) -> Option<Bytes> {
    match reading {
        TextKind::Plain => Some(bytes),
        TextKind::Message(_, media) => read(media, &bytes).map(Bytes::from),
    }
}

/// The sections of a context; none before the first turn.
pub(super) fn sections(
    repo: &Repository,
    before: Option<&ReadableTurn>,
) -> Result<std::collections::BTreeMap<String, Section>> {
    match before {
        Some(kept) => Context::open(repo.store(), &kept.tree)?.sections(repo.store()),
        None => Ok(std::collections::BTreeMap::new()),
    }
}

/// The bytes of a blob that an item links to.
pub(super) fn blob(source: &dyn ObjectSource, item: &Item) -> Result<Bytes> {
    match item.link.kind {
        Kind::Blob => source.read_as(Kind::Blob, &item.link.id),
        kind => Err(Error::corrupt(item.link.id, "a blob in a section", kind)),
    }
}
