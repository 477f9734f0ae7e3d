//! Finds the turns that changed the content under a path, or the count of a text.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use super::changes::{
    Count, Lineage, ReadMessage, ReadableTurn, TextKind, blob, sections, text_of,
};
use super::gaps::Gaps;
use super::history_index::HistoryIndex;
use super::turn_changes::{SectionDelta, TurnChanges};
use crate::context::sections::is_transcript_section;
use crate::context::{Section, SectionChange, Selection, Shape, changed_sections, diff_section};
use crate::error::Result;
use crate::object::{Kind, Object, ObjectId};
use crate::repo::{LogEntry, Repository};
use crate::tree::{Item, List};

/// The maximum number of counts remembered: the counts of one turn are needed again for the next.
const MAX_COUNTS: usize = 1 << 16;

/// Turns whose contents are read ahead together: few at first, since the caller may want the first
/// match only.
const LEAST_AHEAD: usize = 8;
const MOST_AHEAD: usize = 512;

/// The query: a path, a text, or both.
#[expect(missing_debug_implementations, reason = "it holds the caller's functions")]
#[derive(Clone)]
pub struct PickaxeQuery<'a> {
    /// The path under which something must have changed.
    pub paths: Selection,
    /// The text whose count must differ, and the reader of messages. Entries of maps and whole
    /// lists are counted: a move inside a list does not count.
    pub text: Option<(Count<'a>, ReadMessage<'a>)>,
}

/// The answer for a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PickaxeMatch {
    /// The turn changed something.
    Yes,
    /// The turn changed nothing. A merge changes only content that differs from all of its parents.
    No,
    /// Unknown, because the context expired. The changes count as changes of the next turn.
    Gone,
}

/// Evaluates a query for one turn after another.
#[expect(missing_debug_implementations, reason = "it holds the caller's functions")]
pub struct Pickaxe<'r> {
    lineage: Lineage<'r>,
    index: HistoryIndex,
    what: PickaxeQuery<'r>,
    /// Counts by blob and the format to read it as.
    counts: HashMap<(ObjectId, String), u64>,
    /// The number of turns to read ahead next time.
    ahead: usize,
}

/// The unit of a change: an entry of a map, a list, or a blob.
type Unit = (String, String);

impl Repository {
    /// Starts a query for the turns that changed something.
    #[must_use]
    pub fn touches<'r>(&'r self, what: PickaxeQuery<'r>) -> Pickaxe<'r> {
        let index = HistoryIndex::open(self.store());
        let (lineage, counts) = (Lineage::new(self), HashMap::new());
        Pickaxe { lineage, index, what, counts, ahead: LEAST_AHEAD }
    }
}

impl Pickaxe<'_> {
    /// Returns whether a turn changed it. Costs the changes of the turn in the selected sections.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming the unreadable object.
    pub fn of(&mut self, entry: &LogEntry) -> Result<PickaxeMatch> {
        if self.lineage.is_expired(&entry.commit) {
            return Ok(PickaxeMatch::Gone);
        }
        let before = self.lineage.before(entry)?;
        let LogEntry { id, commit, .. } = entry;
        let now = ReadableTurn { id: *id, turn: commit.turn, tree: commit.tree };
        let mut parents = before.kept.iter().map(Some);
        let first = self.changed(parents.next().flatten(), &now)?;
        let units = parents.try_fold(first, |units, parent| {
            if units.is_empty() {
                return Ok(units);
            }
            let others = self.changed(parent, &now)?;
            Ok::<_, crate::Error>(units.intersection(&others).cloned().collect())
        })?;
        Ok(if units.is_empty() { PickaxeMatch::No } else { PickaxeMatch::Yes })
    }

    /// Returns the queried turns whose contexts expired.
    #[must_use]
    pub fn gaps(&self) -> &Gaps {
        &self.lineage.gaps
    }

    /// Returns the changes between two turns.
    fn changed(
        &mut self,
        old: Option<&ReadableTurn>,
        new: &ReadableTurn,
    ) -> Result<BTreeSet<Unit>> {
        let repo = self.lineage.repo;
        if old.is_some_and(|old| old.tree == new.tree) {
            return Ok(BTreeSet::new());
        }
        let mut units = BTreeSet::new();
        let indexed = self.index.find(old.map(|old| &old.tree), &new.tree);
        if let Some(indexed) = &indexed {
            self.read_ahead(old, new, indexed);
        }
        let not_indexed =
            indexed.map(|indexed| self.add_indexed(indexed, &mut units)).transpose()?;
        if not_indexed.as_ref().is_some_and(BTreeSet::is_empty) {
            return Ok(units);
        }
        let (old, new) = (sections(repo, old)?, sections(repo, Some(new))?);
        for (name, old, new) in changed_sections(&old, &new) {
            let is_untold =
                not_indexed.as_ref().is_none_or(|not_indexed| not_indexed.contains(name));
            if is_untold && self.includes_section(name) {
                self.add_section(name, old, new, &mut units)?;
            }
        }
        Ok(units)
    }

    /// Counts the text in the contents of a turn and of the turns next to it in the index, if a
    /// content of the turn is not counted yet. Each block is decompressed once, and all processors
    /// count.
    fn read_ahead(
        &mut self,
        old: Option<&ReadableTurn>,
        new: &ReadableTurn,
        indexed: &TurnChanges,
    ) {
        let Some((count, read)) = self.what.text else { return };
        let mut targets = self.uncounted_contents(indexed);
        if targets.is_empty() {
            return;
        }
        for indexed in self.index.neighbors(old.map(|old| &old.tree), &new.tree, self.ahead) {
            targets.extend(self.uncounted_contents(&indexed));
        }
        self.ahead = (self.ahead * 2).min(MOST_AHEAD);
        let store = self.lineage.repo.store();
        targets.retain(|(id, _)| store.is_here(id));
        targets.sort_unstable();
        targets.dedup();
        let counted = Mutex::new(Vec::with_capacity(targets.len()));
        let ids: Vec<ObjectId> = targets.iter().map(|(id, _)| *id).collect();
        store.visit(&ids, &|at, object: Result<Object>| {
            // Unreadable content is skipped here; reading it later returns the error.
            let (Ok(Object { kind: Kind::Blob, bytes }), Some(target)) = (object, targets.get(at))
            else {
                return;
            };
            let text = match &*target.1 {
                "" => Some(bytes),
                media => read(media, &bytes).map(Bytes::from),
            };
            let found = text.map_or(0, |text| count(&text));
            counted.lock().unwrap_or_else(PoisonError::into_inner).push((target.clone(), found));
        });
        let counted = counted.into_inner().unwrap_or_else(PoisonError::into_inner);
        if self.counts.len() + counted.len() > MAX_COUNTS {
            self.counts.clear();
        }
        self.counts.extend(counted);
    }

    /// Returns the selected contents in the changes of a turn that are not counted yet, each with
    /// its format.
    fn uncounted_contents(&self, indexed: &TurnChanges) -> Vec<(ObjectId, String)> {
        let mut found = Vec::new();
        for (name, moved) in indexed.iter().filter(|(name, _)| self.includes_section(name)) {
            let mut add = |item: &Item| {
                let target = (item.link.id, TextKind::of(name, item).media().to_owned());
                found.extend((!self.counts.contains_key(&target)).then_some(target));
            };
            match moved {
                SectionDelta::Items(moved) => {
                    moved.gone.iter().chain(&moved.come).for_each(|change| add(&change.item));
                }
                SectionDelta::Entries(shape, changes) => {
                    let is_map = *shape == Shape::Map;
                    let is_wanted = |key: &String| !is_map || self.what.paths.has(name, key);
                    let wanted = changes.iter().filter(|change| is_wanted(&change.key));
                    wanted.flat_map(|change| change.old.iter().chain(&change.new)).for_each(add);
                }
                SectionDelta::NotIndexed => {}
            }
        }
        found
    }

    /// Adds changes from an index; returns the sections that have to be compared in the trees.
    fn add_indexed(
        &mut self,
        indexed: TurnChanges,
        units: &mut BTreeSet<Unit>,
    ) -> Result<BTreeSet<String>> {
        let mut not_indexed = BTreeSet::new();
        for (name, moved) in indexed {
            match moved {
                _ if !self.includes_section(&name) => {}
                SectionDelta::Entries(Shape::Map, changes) => {
                    self.add_entries(&name, changes, units)?;
                }
                SectionDelta::Entries(_, changes) => {
                    let sides = changes.iter().map(|change| (&change.old, &change.new));
                    let (old, new): (Vec<_>, Vec<_>) = sides.unzip();
                    let [old, new] = [old, new].map(|side| side.into_iter().flatten());
                    self.add_whole(&name, old, new, units)?;
                }
                SectionDelta::Items(moved) if self.what.paths.has_whole_section(&name) => {
                    let [old, new] = [&moved.gone, &moved.come]
                        .map(|side| side.iter().map(|change| &change.item));
                    self.add_whole(&name, old, new, units)?;
                }
                SectionDelta::Items(_) | SectionDelta::NotIndexed => drop(not_indexed.insert(name)),
            }
        }
        Ok(not_indexed)
    }

    fn includes_section(&self, section: &str) -> bool {
        let implied = self.what.paths.is_all() && is_transcript_section(section);
        self.what.paths.reaches(section) && !implied
    }

    fn add_section(
        &mut self,
        name: &str,
        old: Option<Section>,
        new: Option<Section>,
        units: &mut BTreeSet<Unit>,
    ) -> Result<()> {
        let is = |side: Option<Section>, shape| side.is_none_or(|side| side.shape == shape);
        if is(old, Shape::List) && is(new, Shape::List) && !self.what.paths.has_whole_section(name)
        {
            return self.add_items(name, old, new, units);
        }
        let changes = diff_section(self.lineage.repo.store(), old, new)?;
        if is(old, Shape::Map) && is(new, Shape::Map) {
            return self.add_entries(name, changes, units);
        }
        let old = changes.iter().filter_map(|change| change.old.as_ref());
        let new = changes.iter().filter_map(|change| change.new.as_ref());
        self.add_whole(name, old, new, units)
    }

    /// Adds a section that changes as a whole.
    fn add_whole<'i>(
        &mut self,
        name: &str,
        old: impl Iterator<Item = &'i Item>,
        new: impl Iterator<Item = &'i Item>,
        units: &mut BTreeSet<Unit>,
    ) -> Result<()> {
        let (mut before, mut after) = (0, 0);
        for item in old {
            before += self.count(name, Some(item))?;
        }
        for item in new {
            after += self.count(name, Some(item))?;
        }
        if self.what.text.is_none() || before != after {
            units.insert((name.to_owned(), String::new()));
        }
        Ok(())
    }

    /// Adds entries of a map.
    fn add_entries(
        &mut self,
        name: &str,
        changes: Vec<SectionChange>,
        units: &mut BTreeSet<Unit>,
    ) -> Result<()> {
        for change in changes {
            if self.what.paths.has(name, &change.key) {
                let (before, after) = self.count_both(name, &change)?;
                if self.what.text.is_none() || before != after {
                    units.insert((name.to_owned(), change.key));
                }
            }
        }
        Ok(())
    }

    /// Adds single items of a list, identified by their index.
    fn add_items(
        &mut self,
        name: &str,
        old: Option<Section>,
        new: Option<Section>,
        units: &mut BTreeSet<Unit>,
    ) -> Result<()> {
        let source = self.lineage.repo.store();
        let open = |side: Option<Section>| match side {
            Some(section) => List::open(source, &section.id),
            None => Ok(List::new()),
        };
        let (before, after) = (open(old)?, open(new)?);
        for key in self.what.paths.keys_of(name) {
            let Ok(index) = key.parse::<u64>() else { continue };
            let (old, new) = (before.get(source, index)?, after.get(source, index)?);
            let change = SectionChange { key, old, new };
            if change.old == change.new {
                continue;
            }
            let (before, after) = self.count_both(name, &change)?;
            if self.what.text.is_none() || before != after {
                units.insert((name.to_owned(), change.key));
            }
        }
        Ok(())
    }

    /// Returns the count of the text before and after; zeros for a query without a text.
    fn count_both(&mut self, section: &str, change: &SectionChange) -> Result<(u64, u64)> {
        Ok((self.count(section, change.old.as_ref())?, self.count(section, change.new.as_ref())?))
    }

    fn count(&mut self, section: &str, item: Option<&Item>) -> Result<u64> {
        let (Some(item), Some((count, read))) = (item, self.what.text) else { return Ok(0) };
        let reading = TextKind::of(section, item);
        let key = (item.link.id, reading.media().to_owned());
        if let Some(known) = self.counts.get(&key) {
            return Ok(*known);
        }
        let bytes = blob(self.lineage.repo.store(), item)?;
        let found = text_of(read, &reading, bytes).map_or(0, |text| count(&text));
        if self.counts.len() >= MAX_COUNTS {
            self.counts.clear();
        }
        self.counts.insert(key, found);
        Ok(found)
    }
}
