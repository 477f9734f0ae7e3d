//! Finds occurrences: the turns in which entries appear, and the turns until which they stay.
//!
//! An entry is a blob under a key of a map, somewhere in a list, or as a section of its own. It
//! appears in a turn that has it, or has it more often in a list, compared to each of its parents.
//! A search reports the first turn in which an entry appears. If no tip has the entry, it also
//! reports the last turn that had it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use rayon::prelude::*;

use super::changes::{Baseline, Lineage, ReadableTurn, TextKind};
use super::history_index::HistoryIndex;
use super::turn_changes::{SectionDelta, TurnChanges};
use crate::context::sections::{is_conversation, is_transcript_section};
use crate::context::{
    Context, Role, Section, SectionChange, Selection, Shape, changed_sections, text_key,
};
use crate::error::{ErrorKind, Result};
use crate::object::{Kind, ObjectId, ObjectSource, Time};
use crate::repo::{BranchName, History, LogEntry, Repository};
use crate::tree::{Item, List, Map, MultisetChange, MultisetChanges, MultisetDiff};

/// Turns that are compared together, and the run of turns per thread: each turn of a run is read
/// once and used as the new and as the old side.
const TURNS_AT_ONCE: usize = 512;
const TURNS_IN_A_ROW: usize = 64;

/// Contexts whose sections one thread caches.
const CONTEXTS: usize = 64;

/// The history to search, and the names of its turns.
#[derive(Debug, Clone, Default)]
pub struct SearchScope {
    /// The starts of the walks, each with the branch that its turns are reported under. A turn
    /// reachable from several starts belongs to the first.
    pub starts: Vec<(ObjectId, Option<BranchName>)>,
    /// Commits that are left out with all their ancestors.
    pub hide: Vec<ObjectId>,
}

/// The part of each context to search.
#[derive(Debug, Clone, Default)]
pub struct SearchFilter {
    /// The entries at or below these paths. The pieces of imported transcripts, which messages are
    /// made of, are searched only when they are named.
    pub paths: Selection,
    /// Messages of these roles only; any entry when there are none.
    pub roles: Vec<Role>,
}

/// A turn of a scope.
#[derive(Debug, Clone)]
pub(super) struct ScopeTurn {
    pub(super) id: ObjectId,
    pub(super) turn: u64,
    pub(super) session: u32,
    /// The start from which it is reachable, by its number in the scope.
    pub(super) start: usize,
    pub(super) time: Time,
    tree: ObjectId,
    pub(super) before: Vec<ReadableTurn>,
}

/// An entry, by the numbers of its section and key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct EntryKey {
    pub(super) section: u32,
    /// `None` in lists, where an entry has no fixed position.
    pub(super) key: Option<u32>,
    pub(super) blob: ObjectId,
}

/// The place where an entry appeared.
#[derive(Debug, Clone)]
pub(super) struct Occurrence {
    /// The first turn that has it, by its number in the scope.
    pub(super) first: usize,
    /// The key or index in that turn.
    pub(super) key: u32,
    pub(super) reading: TextKind,
    /// The last turn that has it, among the turns before a removal.
    last: Option<usize>,
}

/// Maps names to numbers, so that the record of each of many entries stays small.
#[derive(Debug, Default)]
pub(super) struct NameTable {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl NameTable {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    pub(super) fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", String::as_str)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (u32, &str)> {
        (0..).zip(self.names.iter().map(String::as_str))
    }
}

/// The occurrences in one scope, and the turns in which they were found.
#[derive(Debug, Default)]
pub(super) struct Occurrences {
    /// The turns, oldest first.
    pub(super) turns: Vec<ScopeTurn>,
    pub(super) found: HashMap<EntryKey, Occurrence>,
    /// The tips of the scope.
    tips: Vec<ObjectId>,
}

/// An entry that was added or removed.
pub(super) struct ChangedEntry {
    pub(super) section: String,
    pub(super) key: String,
    pub(super) item: Item,
    /// True in a list, where the same blob may occur again.
    in_list: bool,
    /// The turn before, for a removed entry.
    pub(super) gone_behind: Option<ObjectId>,
}

/// Finds occurrences, scope after scope.
pub(super) struct OccurrenceCollector<'r> {
    pub(super) lineage: Lineage<'r>,
    /// The walk through the scopes searched until now.
    history: Option<History<'r>>,
    /// The history indexes; `None` if the answer must not rely on them.
    index: Option<HistoryIndex>,
    wanted: SearchFilter,
    /// True if the pieces of transcripts are searched without being named.
    with_source: bool,
    pub(super) names: NameTable,
    /// Errors about unreadable content.
    pub(super) damage: BTreeSet<String>,
}

impl<'r> OccurrenceCollector<'r> {
    pub(super) fn new(repo: &'r Repository, wanted: SearchFilter) -> Self {
        let index = Some(HistoryIndex::open(repo.store()));
        Self { index, ..Self::for_trees(repo, wanted) }
    }

    /// Creates a collector for everything, including the pieces of transcripts, that reads the
    /// trees only: the caller may rely on the absence of a finding.
    pub(super) fn for_everything(repo: &'r Repository) -> Self {
        Self { with_source: true, ..Self::for_trees(repo, SearchFilter::default()) }
    }

    /// Creates a collector that reads the trees only.
    pub(super) fn for_trees(repo: &'r Repository, wanted: SearchFilter) -> Self {
        let (names, damage) = (NameTable::default(), BTreeSet::new());
        let (lineage, history) = (Lineage::new(repo), None);
        Self { lineage, history, index: None, wanted, with_source: false, names, damage }
    }

    /// Finds the entries that appear in the turns of a scope: those whose blob is in
    /// `blobs_to_find` or is remote-only, or all without `blobs_to_find`. Records damage and
    /// continues.
    pub(super) fn collect(
        &mut self,
        scope: &SearchScope,
        turns: Vec<ScopeTurn>,
        looked_for: Option<&HashSet<ObjectId>>,
    ) -> Occurrences {
        let numbers: HashMap<ObjectId, usize> =
            turns.iter().enumerate().map(|(number, turn)| (turn.id, number)).collect();
        let mut found = HashMap::new();
        for (first, turns) in (0..).step_by(TURNS_AT_ONCE).zip(turns.chunks(TURNS_AT_ONCE)) {
            let compared = self.compare(turns, looked_for);
            for (number, (changes, damage)) in (first..).zip(compared) {
                self.damage.extend(damage);
                for change in changes {
                    self.add(&change, number, &numbers, &mut found);
                }
            }
        }
        let tips = scope.starts.iter().map(|(id, _)| *id).collect();
        Occurrences { turns, found, tips }
    }

    /// Returns the changes of each turn, and errors about unreadable parts, on all processors.
    pub(super) fn compare(
        &self,
        turns: &[ScopeTurn],
        looked_for: Option<&HashSet<ObjectId>>,
    ) -> Vec<(Vec<ChangedEntry>, Vec<String>)> {
        let in_a_row = |turns: &[ScopeTurn]| -> Vec<_> {
            let mut comparing = SectionComparison::new(self, looked_for);
            turns.iter().map(|turn| comparing.turn(turn)).collect()
        };
        let compared: Vec<_> = turns.par_chunks(TURNS_IN_A_ROW).map(in_a_row).collect();
        compared.into_iter().flatten().collect()
    }

    /// Returns the turns of a scope whose contexts exist, oldest first, without the turns of
    /// earlier scopes.
    pub(super) fn turns(&mut self, scope: &SearchScope) -> Result<Vec<ScopeTurn>> {
        let repo = self.lineage.repo;
        let starts: Vec<ObjectId> = scope.starts.iter().map(|(id, _)| *id).collect();
        let mut along: HashMap<ObjectId, usize> = HashMap::new();
        for (number, id) in starts.iter().enumerate() {
            along.entry(*id).or_insert(number);
        }
        let mut history = match self.history.take() {
            Some(history) => history,
            None => repo.history(&[], &[])?,
        };
        history.continue_from(&starts, &scope.hide)?;
        let mut turns = Vec::new();
        for entry in &mut history {
            let Some(entry) = self.skip_damage(entry)? else { continue };
            let start = along.get(&entry.id).copied().unwrap_or_default();
            for parent in &entry.parents {
                let known = along.entry(*parent).or_insert(start);
                *known = start.min(*known);
            }
            if self.lineage.is_expired(&entry.commit) {
                continue;
            }
            let before = self.lineage.before(&entry);
            let Baseline { kept: before, .. } = self.skip_damage(before)?.unwrap_or_default();
            let LogEntry { id, commit, .. } = entry;
            let session = self.names.number(&commit.session);
            turns.push(ScopeTurn {
                id,
                turn: commit.turn,
                session,
                start,
                time: commit.time,
                tree: commit.tree,
                before,
            });
        }
        turns.reverse();
        self.history = Some(history);
        Ok(turns)
    }

    /// Records damage and returns `None` for it; returns other errors.
    fn skip_damage<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                self.damage.insert(error.to_string());
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    fn add(
        &mut self,
        change: &ChangedEntry,
        number: usize,
        numbers: &HashMap<ObjectId, usize>,
        found: &mut HashMap<EntryKey, Occurrence>,
    ) {
        let section = self.names.number(&change.section);
        let key = self.names.number(&change.key);
        let blob = change.item.link.id;
        let entry = EntryKey { section, key: (!change.in_list).then_some(key), blob };
        if let Some(behind) = change.gone_behind {
            // The removal of an entry counts only if its appearance is in the search.
            if let (Some(appearance), Some(last)) = (found.get_mut(&entry), numbers.get(&behind)) {
                appearance.last = appearance.last.max(Some(*last));
            }
            return;
        }
        let reading = TextKind::of(&change.section, &change.item);
        let is_wanted = match &reading {
            _ if self.wanted.roles.is_empty() => true,
            TextKind::Message(role, _) => self.wanted.roles.contains(role),
            TextKind::Plain => false,
        };
        if is_wanted && self.wanted.paths.has(&change.section, &change.key) {
            let appearance = Occurrence { first: number, key, reading, last: None };
            found.entry(entry).or_insert(appearance);
        }
    }

    /// Returns, for each removed entry, the last turn that has it, unless a tip of the scope still
    /// has it.
    pub(super) fn find_removed<'e>(
        &mut self,
        appearances: &Occurrences,
        entries: impl Iterator<Item = &'e EntryKey>,
    ) -> Result<HashMap<EntryKey, usize>> {
        let last = |entry: &EntryKey| Some((*entry, appearances.found.get(entry)?.last?));
        let mut gone: HashMap<EntryKey, usize> = entries.filter_map(last).collect();
        for tip in &appearances.tips {
            if gone.is_empty() {
                break;
            }
            let still = self.find_remaining(tip, &gone);
            for entry in self.skip_damage(still)?.unwrap_or_default() {
                gone.remove(&entry);
            }
        }
        Ok(gone)
    }

    /// Returns the entries among `entries` that the turn `id` has.
    fn find_remaining(
        &mut self,
        id: &ObjectId,
        gone: &HashMap<EntryKey, usize>,
    ) -> Result<Vec<EntryKey>> {
        let repo = self.lineage.repo;
        let commit = repo.commit(id)?;
        if self.lineage.is_expired(&commit) {
            return Ok(Vec::new());
        }
        let (source, mut still) = (repo.store(), Vec::new());
        let sections: BTreeSet<u32> = gone.keys().map(|entry| entry.section).collect();
        let context = Context::open(source, &commit.tree)?;
        for number in sections {
            let Some(section) = context.section(source, self.names.name(number))? else { continue };
            let mut here = gone.keys().filter(|entry| entry.section == number).copied();
            match section.shape {
                Shape::Blob => still.extend(here.find(|entry| entry.blob == section.id)),
                Shape::Map => {
                    let map = Map::open(source, &section.id)?;
                    for entry in here {
                        let Some(key) = entry.key else { continue };
                        let item = map.get(source, self.names.name(key).as_bytes())?;
                        still.extend(item.filter(|item| item.link.id == entry.blob).map(|_| entry));
                    }
                }
                Shape::List => {
                    let list = List::open(source, &section.id)?;
                    for item in list.iter(source, 0..list.len()) {
                        let blob = item?.link.id;
                        let entry = EntryKey { section: number, key: None, blob };
                        still.extend(gone.contains_key(&entry).then_some(entry));
                    }
                }
            }
        }
        Ok(still)
    }
}

/// Compares turns with their parents.
struct SectionComparison<'a> {
    repo: &'a Repository,
    index: Option<&'a HistoryIndex>,
    wanted: &'a SearchFilter,
    with_source: bool,
    looked_for: Option<&'a HashSet<ObjectId>>,
    net: MultisetDiff<'a>,
    /// The sections of the contexts read last, by their trees.
    sections: HashMap<ObjectId, Arc<Sections>>,
    /// The transcripts of the row and their lengths, by the names of their sections.
    transcripts: HashMap<String, Vec<(u64, Section)>>,
}

type Sections = BTreeMap<String, Section>;

impl<'a> SectionComparison<'a> {
    fn new(of: &'a OccurrenceCollector<'_>, looked_for: Option<&'a HashSet<ObjectId>>) -> Self {
        let OccurrenceCollector { lineage, index, wanted, with_source, .. } = of;
        let (repo, index, with_source) = (lineage.repo, index.as_ref(), *with_source);
        let net = MultisetDiff::new(repo.store());
        let (sections, transcripts) = (HashMap::new(), HashMap::new());
        Self { repo, index, wanted, with_source, looked_for, net, sections, transcripts }
    }

    /// Returns the entries that a turn added and removed, and errors.
    fn turn(&mut self, turn: &ScopeTurn) -> (Vec<ChangedEntry>, Vec<String>) {
        let (mut changes, mut damage): (Vec<ChangedEntry>, Vec<String>) = (Vec::new(), Vec::new());
        let mut parents = turn.before.iter().map(Some).collect::<Vec<_>>();
        if parents.is_empty() {
            parents.push(None);
        }
        // Added entries are new to all parents; a removed entry is removed from each parent that
        // had it.
        let mut came: Option<Vec<ChangedEntry>> = None;
        for parent in parents {
            let compared = self.compare_pair(parent, turn, &mut damage);
            let (gone, new): (Vec<_>, Vec<_>) =
                compared.into_iter().partition(|change| change.gone_behind.is_some());
            changes.extend(gone);
            came = Some(match came {
                None => new,
                Some(known) => {
                    let is_new = |change: &ChangedEntry| new.iter().any(|new| new.is_same(change));
                    known.into_iter().filter(is_new).collect()
                }
            });
        }
        changes.extend(came.into_iter().flatten());
        (changes, damage)
    }

    fn compare_pair(
        &mut self,
        old: Option<&ReadableTurn>,
        new: &ScopeTurn,
        damage: &mut Vec<String>,
    ) -> Vec<ChangedEntry> {
        if old.is_some_and(|old| old.tree == new.tree) {
            return Vec::new();
        }
        let (mut changes, behind) = (Vec::new(), old.map(|old| old.id));
        let indexed = self.index.and_then(|index| index.find(old.map(|old| &old.tree), &new.tree));
        let not_indexed = indexed.map(|indexed| self.add_indexed(indexed, behind, &mut changes));
        if not_indexed.as_ref().is_some_and(BTreeSet::is_empty) {
            return changes;
        }
        let mut read = |tree: Option<ObjectId>| {
            let sections = tree.map_or_else(|| Ok(Arc::default()), |tree| self.sections(&tree));
            sections.unwrap_or_else(|error| {
                damage.push(error.to_string());
                Arc::default()
            })
        };
        let (before, after) = (read(old.map(|old| old.tree)), read(Some(new.tree)));
        for (name, before, after) in changed_sections(&before, &after) {
            let is_untold =
                not_indexed.as_ref().is_none_or(|not_indexed| not_indexed.contains(name));
            if !is_untold || !self.includes_section(name) {
                continue;
            }
            let compared = match self.nearer_transcript(name, before, after) {
                None => self.section(name, before, after, behind, &mut changes),
                Some(near) => {
                    let known = changes.len();
                    let compared = self.section(name, Some(near), after, behind, &mut changes);
                    let come = changes.split_off(known).into_iter();
                    changes.extend(come.filter(|change| change.gone_behind.is_none()));
                    compared
                }
            };
            if let Err(error) = compared {
                damage.push(error.to_string());
                // Adds the readable part of the current section.
                let rest = after.map_or(Ok(()), |after| self.readable(name, after, &mut changes));
                damage.extend(rest.err().map(|error| error.to_string()));
            }
        }
        changes
    }

    /// Returns a transcript of an earlier turn of the row that is nearer in length to `after` than
    /// the transcript of the parent is: a fork has every piece of its file up to there, most of
    /// which another fork has, too.
    ///
    /// What `after` has more than an earlier turn includes everything that appears in it first.
    /// Pieces that the parent has and `after` lacks are then not found; a fork only adds pieces.
    fn nearer_transcript(
        &mut self,
        name: &str,
        before: Option<Section>,
        after: Option<Section>,
    ) -> Option<Section> {
        let after =
            after.filter(|section| section.shape == Shape::List && is_transcript_section(name))?;
        let source = self.repo.store();
        let length = |section: &Section| List::open(source, &section.id).ok().map(|it| it.len());
        let pieces = length(&after)?;
        let distance = before.as_ref().and_then(length).unwrap_or_default().abs_diff(pieces);
        let known = self.transcripts.entry(name.to_owned()).or_default();
        let nearest = known.iter().min_by_key(|(length, _)| length.abs_diff(pieces));
        let nearer = nearest.filter(|(length, _)| length.abs_diff(pieces) < distance);
        let nearer = nearer.map(|(_, section)| *section);
        known.push((pieces, after));
        nearer
    }

    /// Adds changes from an index; returns the sections that have to be compared in the trees.
    fn add_indexed(
        &self,
        indexed: TurnChanges,
        behind: Option<ObjectId>,
        changes: &mut Vec<ChangedEntry>,
    ) -> BTreeSet<String> {
        let mut not_indexed = BTreeSet::new();
        for (name, moved) in indexed {
            let (shape, net) = match moved {
                _ if !self.includes_section(&name) => continue,
                SectionDelta::Items(net) => (Shape::List, net),
                SectionDelta::Entries(shape, entries) => (shape, net_map_changes(entries)),
                SectionDelta::NotIndexed => {
                    not_indexed.insert(name);
                    continue;
                }
            };
            if self.add_net(&name, shape, net, behind, changes).is_err() {
                not_indexed.insert(name);
            }
        }
        not_indexed
    }

    fn sections(&mut self, tree: &ObjectId) -> Result<Arc<Sections>> {
        if let Some(known) = self.sections.get(tree) {
            return Ok(Arc::clone(known));
        }
        let source = self.repo.store();
        let sections = Arc::new(Context::open(source, tree)?.sections(source)?);
        if self.sections.len() >= CONTEXTS {
            self.sections.clear();
        }
        self.sections.insert(*tree, Arc::clone(&sections));
        Ok(sections)
    }

    fn includes_section(&self, section: &str) -> bool {
        let SearchFilter { paths, roles } = self.wanted;
        let implied = paths.is_all() && is_transcript_section(section) && !self.with_source;
        paths.reaches(section) && !implied && (roles.is_empty() || is_conversation(section))
    }

    /// Includes remote-only blobs, so that the search reports them as unreadable.
    fn includes_blob(&self, blob: &ObjectId) -> bool {
        let is_among = |blobs: &HashSet<ObjectId>| blobs.contains(blob);
        self.looked_for.is_none_or(is_among) || !self.repo.store().is_here(blob)
    }

    fn section(
        &mut self,
        name: &str,
        before: Option<Section>,
        after: Option<Section>,
        behind: Option<ObjectId>,
        changes: &mut Vec<ChangedEntry>,
    ) -> Result<()> {
        // An entry of another shape is another entry, even with the same blob.
        let pairs = match (before, after) {
            (Some(old), Some(new)) if old.shape != new.shape => vec![(before, None), (None, after)],
            _ => vec![(before, after)],
        };
        for (before, after) in pairs {
            let Some(Section { shape, .. }) = before.or(after) else { continue };
            let net = self.net_changes(shape, before, after)?;
            self.add_net(name, shape, net, behind, changes)?;
        }
        Ok(())
    }

    /// Adds the entries that a section has more or less often.
    fn add_net(
        &self,
        name: &str,
        shape: Shape,
        net: MultisetChanges,
        behind: Option<ObjectId>,
        changes: &mut Vec<ChangedEntry>,
    ) -> Result<()> {
        for (found, gone_behind) in [(net.gone, behind), (net.come, None)] {
            for MultisetChange { key, index, item } in found {
                if !is_blob(&item) || !self.includes_blob(&item.link.id) {
                    continue;
                }
                let in_list = shape == Shape::List;
                let key = if in_list { index.to_string() } else { text_key(&key)? };
                let section = name.to_owned();
                changes.push(ChangedEntry { section, key, item, in_list, gone_behind });
            }
        }
        Ok(())
    }

    /// Returns the entries that one of two sections has more often than the other.
    fn net_changes(
        &mut self,
        shape: Shape,
        before: Option<Section>,
        after: Option<Section>,
    ) -> Result<MultisetChanges> {
        let [old, new] = [&before, &after].map(|side| side.as_ref().map(|section| &section.id));
        match shape {
            Shape::List => self.net.lists(old, new),
            Shape::Map => self.net.maps(old, new),
            Shape::Blob => {
                let changes = |side: Option<&ObjectId>| {
                    let item = side.map(|id| Item::new(Kind::Blob, *id));
                    let change = |item| MultisetChange { key: Bytes::new(), index: 0, item };
                    item.map(change).into_iter().collect()
                };
                Ok(MultisetChanges { gone: changes(old), come: changes(new) })
            }
        }
    }

    /// Adds the entries of a section up to the first unreadable one.
    fn readable(
        &self,
        name: &str,
        section: Section,
        changes: &mut Vec<ChangedEntry>,
    ) -> Result<()> {
        let source = self.repo.store();
        let mut add = |key: String, item: Item, in_list| {
            let section = name.to_owned();
            changes.push(ChangedEntry { section, key, item, in_list, gone_behind: None });
        };
        match section.shape {
            Shape::Blob => add(String::new(), Item::new(Kind::Blob, section.id), false),
            Shape::Map => {
                for entry in Map::open(source, &section.id)?.iter(source) {
                    let (key, item) = entry?;
                    add(text_key(&key)?, item, false);
                }
            }
            Shape::List => {
                let list = List::open(source, &section.id)?;
                for (index, item) in (0_u64..).zip(list.iter(source, 0..list.len())) {
                    add(index.to_string(), item?, true);
                }
            }
        }
        Ok(())
    }
}

impl ChangedEntry {
    /// Returns true if both are changes of the same entry.
    fn is_same(&self, other: &Self) -> bool {
        self.item.link == other.item.link
            && self.section == other.section
            && self.in_list == other.in_list
            && (self.in_list || self.key == other.key)
    }
}

/// Returns the entries of a map that one side has and the other lacks, or has with another blob.
fn net_map_changes(entries: Vec<SectionChange>) -> MultisetChanges {
    let mut net = MultisetChanges::default();
    for SectionChange { key, old, new } in entries {
        if old.as_ref().map(|item| item.link) == new.as_ref().map(|item| item.link) {
            continue;
        }
        let key = Bytes::from(key);
        let change = |item| MultisetChange { key: key.clone(), index: 0, item };
        net.gone.extend(old.map(&change));
        net.come.extend(new.map(&change));
    }
    net
}

fn is_blob(item: &Item) -> bool {
    item.link.kind == Kind::Blob
}

/// Reads the blob of an entry again.
pub(super) fn read_blob(repo: &Repository, blob: &ObjectId) -> Result<Bytes> {
    repo.store().read_as(Kind::Blob, blob)
}
