//! The turns that changed something: the content under a path, or the count of a text.

use std::collections::{BTreeSet, HashMap};

use super::changes::{
    Count, Lineage, ReadMessage, ReadableTurn, SOURCE_SECTION, TextKind, blob, sections, text_of,
};
use super::gaps::Gaps;
use crate::context::{Section, SectionChange, Selection, Shape, changed_sections, diff_section};
use crate::error::Result;
use crate::object::ObjectId;
use crate::repo::{LogEntry, Repository};
use crate::tree::{Item, List};

/// Counts that are remembered, at most: what one turn counts, the next one counts again.
const MAX_COUNTS: usize = 1 << 16;

/// The question to a turn.
#[expect(missing_debug_implementations, reason = "it holds the caller's functions")]
#[derive(Clone)]
pub struct PickaxeQuery<'a> {
    /// The path under which something must have changed.
    pub paths: Selection,
    /// The text whose count must differ, and the reader of messages. Entries of maps and whole
    /// lists are counted: a move inside a list does not count.
    pub text: Option<(Count<'a>, ReadMessage<'a>)>,
}

/// The answer of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PickaxeMatch {
    /// It changed something.
    Yes,
    /// It did not. A merge changes only what differs from all it joins.
    No,
    /// Nobody can say: its context is gone. What it changed counts for the next turn.
    Gone,
}

/// Asks one turn after another.
#[expect(missing_debug_implementations, reason = "it holds the caller's functions")]
pub struct Pickaxe<'r> {
    lineage: Lineage<'r>,
    what: PickaxeQuery<'r>,
    /// By blob, and the format that it is read as.
    counts: HashMap<(ObjectId, String), u64>,
}

/// Something of which a turn changes all or nothing: an entry of a map, a list, a blob.
type Unit = (String, String);

impl Repository {
    /// Asks turns whether they changed something.
    #[must_use]
    pub fn touches<'r>(&'r self, what: PickaxeQuery<'r>) -> Pickaxe<'r> {
        Pickaxe { lineage: Lineage::new(self), what, counts: HashMap::new() }
    }
}

impl Pickaxe<'_> {
    /// Returns whether a turn changed it. Costs the changes of the turn in the sections that
    /// matter.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming what cannot be read.
    pub fn of(&mut self, entry: &LogEntry) -> Result<PickaxeMatch> {
        if self.lineage.is_gone(&entry.commit) {
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

    /// The turns that were asked about and are gone.
    #[must_use]
    pub fn gaps(&self) -> &Gaps {
        &self.lineage.gaps
    }

    /// The changes between two turns.
    fn changed(
        &mut self,
        old: Option<&ReadableTurn>,
        new: &ReadableTurn,
    ) -> Result<BTreeSet<Unit>> {
        let repo = self.lineage.repo;
        if old.is_some_and(|old| old.tree == new.tree) {
            return Ok(BTreeSet::new());
        }
        let (old, new) = (sections(repo, old)?, sections(repo, Some(new))?);
        let mut units = BTreeSet::new();
        for (name, old, new) in changed_sections(&old, &new) {
            if self.wants(name) {
                self.add_section(name, old, new, &mut units)?;
            }
        }
        Ok(units)
    }

    fn wants(&self, section: &str) -> bool {
        let implied = self.what.paths.is_all() && section == SOURCE_SECTION;
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
        if is(old, Shape::List) && is(new, Shape::List) && !self.what.paths.has_all_of(name) {
            return self.add_items(name, old, new, units);
        }
        let changes = diff_section(self.lineage.repo.store(), old, new)?;
        let is_map = is(old, Shape::Map) && is(new, Shape::Map);
        if !is_map {
            let mut difference = (0, 0);
            for change in &changes {
                let (before, after) = self.count_both(name, change)?;
                difference = (difference.0 + before, difference.1 + after);
            }
            if self.what.text.is_none() || difference.0 != difference.1 {
                units.insert((name.to_owned(), String::new()));
            }
            return Ok(());
        }
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

    /// Single items of a list, which are what they are at their index.
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

    /// Returns the count of the text before and after; zeros when none is asked for.
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
