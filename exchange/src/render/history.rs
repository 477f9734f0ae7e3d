//! Iterates over the snapshots of branches, oldest first, with the changes of each.
//!
//! The changes of a snapshot are relative to the nearest ancestor on its first-parent line whose
//! content is kept. Applying all changes from the first one on gives every context.

use std::collections::HashMap;
use std::ops::Range;

use turntree::context::sections::{Shown, facts};
use turntree::context::{Context, Section, Shape, changed_sections, diff_section};
use turntree::error::{ErrorKind, Result};
use turntree::object::{ObjectId, ObjectSource};
use turntree::repo::{LogEntry, Repository};
use turntree::tree::{Item, List, diff_lists};

/// A snapshot with its changes.
#[derive(Debug)]
pub(super) struct TurnChange {
    /// The commit.
    pub(super) entry: LogEntry,
    /// The changes. `None` if the content expired.
    pub(super) changes: Option<Changes>,
}

/// The changes of a snapshot, without bookkeeping sections.
#[derive(Debug)]
pub(super) struct Changes {
    /// The snapshot that the changes are relative to. `None` for an empty context.
    pub(super) base: Option<ObjectId>,
    /// The changed lists, by section, each with stretches in ascending order.
    pub(super) lists: Vec<(String, Vec<Splice>)>,
    /// The changed entries of maps, and the changed sections that are one blob, with an empty key.
    pub(super) entries: Vec<ChangedEntry>,
}

/// A replaced stretch of a list.
#[derive(Debug)]
pub(super) struct Splice {
    /// The positions in the old list.
    pub(super) old: Range<u64>,
    /// The new items.
    pub(super) new: Vec<Item>,
}

/// A changed entry of a map.
#[derive(Debug)]
pub(super) struct ChangedEntry {
    /// The section.
    pub(super) section: String,
    /// The key in the section.
    pub(super) key: String,
    /// The old value. `None` for a new entry.
    pub(super) old: Option<Item>,
    /// The new value. `None` for a deleted entry.
    pub(super) new: Option<Item>,
}

/// Iterates over all ancestors of some snapshots, oldest first.
///
/// Keeps the commits in memory, and the changes of one snapshot at a time.
#[derive(Debug)]
pub(super) struct History<'r> {
    repo: &'r Repository,
    /// The remaining snapshots, newest first.
    left: Vec<LogEntry>,
    /// The nearest snapshot at or before each visited one whose content is kept.
    kept: HashMap<ObjectId, Option<ObjectId>>,
}

impl<'r> History<'r> {
    /// Returns the history of all ancestors of `tips`.
    pub(super) fn of(repo: &'r Repository, tips: &[ObjectId]) -> Result<Self> {
        let left = repo.history(tips, &[])?.collect::<Result<_>>()?;
        Ok(Self { repo, left, kept: HashMap::new() })
    }

    /// Returns the history of one line: `tip` and its first parents.
    pub(super) fn of_line(repo: &'r Repository, tip: &ObjectId) -> Result<Self> {
        let left = repo.history(&[*tip], &[])?.first_parent().collect::<Result<_>>()?;
        Ok(Self { repo, left, kept: HashMap::new() })
    }

    /// Returns the number of remaining snapshots.
    pub(super) fn len(&self) -> usize {
        self.left.len()
    }

    /// Returns the nearest snapshot at or before `id` whose content is kept. Caches the result for
    /// all snapshots in between.
    fn nearest_kept(&mut self, id: &ObjectId) -> Result<Option<ObjectId>> {
        if let Some(kept) = self.kept.get(id) {
            return Ok(*kept);
        }
        let (mut found, mut passed) = (None, Vec::new());
        for entry in self.repo.history(&[*id], &[])?.first_parent() {
            let entry = entry?;
            if let Some(kept) = self.kept.get(&entry.id) {
                found = *kept;
                break;
            }
            passed.push(entry.id);
            match self.repo.context(&entry.id) {
                Ok(_) => {
                    found = Some(entry.id);
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Expired => {}
                Err(error) => return Err(error),
            }
        }
        self.kept.extend(passed.into_iter().map(|id| (id, found)));
        Ok(found)
    }

    fn turn_change(&mut self, entry: LogEntry) -> Result<TurnChange> {
        let before = match entry.parents.first() {
            Some(parent) => self.nearest_kept(parent)?,
            None => None,
        };
        let changes = match self.repo.context(&entry.id) {
            Ok(after) => {
                let context = before.map(|id| self.repo.context(&id)).transpose()?;
                Some(changes(self.repo, before, &context.unwrap_or_default(), &after)?)
            }
            Err(error) if error.kind() == ErrorKind::Expired => None,
            Err(error) => return Err(error),
        };
        self.kept.insert(entry.id, if changes.is_some() { Some(entry.id) } else { before });
        Ok(TurnChange { entry, changes })
    }
}

/// Iterates over the ancestors of some snapshots, newest first. Reads each snapshot on demand.
#[derive(Debug)]
pub(super) struct ReverseHistory<'r> {
    walk: turntree::repo::History<'r>,
    changes: History<'r>,
}

impl<'r> ReverseHistory<'r> {
    /// Returns the history of all ancestors of `starts` that are not ancestors of `known`.
    pub(super) fn of(
        repo: &'r Repository,
        starts: &[ObjectId],
        known: &[ObjectId],
    ) -> Result<Self> {
        let changes = History { repo, left: Vec::new(), kept: HashMap::new() };
        Ok(Self { walk: repo.history(starts, known)?, changes })
    }

    /// Returns the snapshots to continue the walk from. Empty at the end.
    pub(super) fn rest(&self) -> Vec<ObjectId> {
        self.walk.frontier()
    }
}

impl Iterator for ReverseHistory<'_> {
    type Item = Result<TurnChange>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.walk.next()?;
        Some(entry.and_then(|entry| self.changes.turn_change(entry)))
    }
}

impl Iterator for History<'_> {
    type Item = Result<TurnChange>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.left.pop()?;
        Some(self.turn_change(entry))
    }
}

fn changes(
    source: &dyn ObjectSource,
    base: Option<ObjectId>,
    before: &Context,
    after: &Context,
) -> Result<Changes> {
    let mut changes = Changes { base, lists: Vec::new(), entries: Vec::new() };
    let (before, after) = (before.sections(source)?, after.sections(source)?);
    for (section, old, new) in changed_sections(&before, &after) {
        if facts(section).shown == Shown::Count {
            continue;
        }
        let is_list = |side: &Section| side.shape == Shape::List;
        if old.as_ref().is_some_and(is_list) || new.as_ref().is_some_and(is_list) {
            let splices = splices(source, old.filter(is_list), new.filter(is_list))?;
            changes.lists.push((section.to_owned(), splices));
        }
        let (old, new) = (old.filter(|old| !is_list(old)), new.filter(|new| !is_list(new)));
        if old.is_none() && new.is_none() {
            continue;
        }
        for change in diff_section(source, old, new)? {
            let (section, key) = (section.to_owned(), change.key);
            changes.entries.push(ChangedEntry { section, key, old: change.old, new: change.new });
        }
    }
    Ok(changes)
}

fn splices(
    source: &dyn ObjectSource,
    old: Option<Section>,
    new: Option<Section>,
) -> Result<Vec<Splice>> {
    let open = |side: Option<Section>| match side {
        Some(section) => List::open(source, &section.id),
        None => Ok(List::new()),
    };
    let (old, new) = (open(old)?, open(new)?);
    diff_lists(&old, &new, source)?
        .into_iter()
        .map(|change| {
            let new = new.iter(source, change.new).collect::<Result<_>>()?;
            Ok(Splice { old: change.old, new })
        })
        .collect()
}
