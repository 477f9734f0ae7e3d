//! The changes of a turn, entry by entry, in the form of a history index.
//!
//! The changes must answer every query like a walk through both trees. Where a compact form cannot
//! guarantee that, the index records only that the section changed.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use crate::context::sections::is_transcript_section;
use crate::context::{Context, Section, SectionChange, Shape, changed_sections, diff_section};
use crate::error::Result;
use crate::object::{Kind, ObjectId, ObjectSource};
use crate::tree::{Item, Link, MultisetChanges, MultisetDiff};

/// The maximum number of recorded entries of one section: more are read as fast from the trees.
const MAX_TOLD: usize = 1 << 16;

/// The sections that differ between two contexts, in order of their names.
pub(super) type TurnChanges = Vec<(String, SectionDelta)>;

/// The change of one section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SectionDelta {
    /// The section differs; its changes have to be read from the trees.
    NotIndexed,
    /// Entries of a map that were set or removed, in order of their keys; for a section that is one
    /// blob, the one entry without a key.
    Entries(Shape, Vec<SectionChange>),
    /// Items that a list has more or less often.
    Items(MultisetChanges),
}

/// Compares contexts, and caches nodes and the sections read last.
pub(super) struct TurnComparison<'s> {
    source: &'s dyn ObjectSource,
    multiset: MultisetDiff<'s>,
    last: Option<(ObjectId, BTreeMap<String, Section>)>,
}

impl<'s> TurnComparison<'s> {
    pub(super) fn new(source: &'s dyn ObjectSource) -> Self {
        Self { source, multiset: MultisetDiff::new(source), last: None }
    }

    /// Compares a context with the previous one, or with an empty one.
    ///
    /// Leaves out the pieces of transcripts, which searches read only when they are named. A fork
    /// has every piece of its file up to there, so a file with n forks has n^2 / 2 such changes.
    ///
    /// # Errors
    /// Errors of reading.
    pub(super) fn between(
        &mut self,
        old: Option<&ObjectId>,
        new: &ObjectId,
    ) -> Result<TurnChanges> {
        let after = self.sections(new)?;
        let before = old.map(|old| self.sections(old)).transpose()?.unwrap_or_default();
        let mut changes = TurnChanges::new();
        for (name, before, after) in changed_sections(&before, &after) {
            let change = match is_transcript_section(name) {
                true => SectionDelta::NotIndexed,
                false => self.section(before, after)?,
            };
            changes.push((name.to_owned(), change));
        }
        // Packs store the newest turns first, so the previous context is compared next.
        self.last = old.map(|old| (*old, before));
        Ok(changes)
    }

    /// Returns true if indexed changes are those of the trees. A section without recorded changes
    /// only has to differ.
    ///
    /// # Errors
    /// Errors of reading.
    pub(super) fn confirms(
        &mut self,
        indexed: &TurnChanges,
        old: Option<&ObjectId>,
        new: &ObjectId,
    ) -> Result<bool> {
        let after = self.sections(new)?;
        let before = old.map(|old| self.sections(old)).transpose()?.unwrap_or_default();
        let mut indexed = indexed.iter();
        let mut is_same = true;
        for (name, before, after) in changed_sections(&before, &after) {
            is_same &= match indexed.next() {
                Some((indexed, SectionDelta::NotIndexed)) => indexed == name,
                Some((indexed, change)) => {
                    indexed == name && self.section(before, after)? == *change
                }
                None => false,
            };
        }
        self.last = old.map(|old| (*old, before));
        Ok(is_same && indexed.next().is_none())
    }

    fn sections(&mut self, tree: &ObjectId) -> Result<BTreeMap<String, Section>> {
        match self.last.take_if(|(last, _)| last == tree) {
            Some((_, sections)) => Ok(sections),
            None => Context::open(self.source, tree)?.sections(self.source),
        }
    }

    fn section(&mut self, old: Option<Section>, new: Option<Section>) -> Result<SectionDelta> {
        let shape = |side: Option<Section>| side.map(|section| section.shape);
        let Some(shape) = shape(old).or(shape(new)).filter(|of| {
            shape(old).is_none_or(|old| old == *of) && shape(new).is_none_or(|new| new == *of)
        }) else {
            return Ok(SectionDelta::NotIndexed);
        };
        let changes = diff_section(self.source, old, new)?;
        let items = || changes.iter().flat_map(|change| change.old.iter().chain(&change.new));
        if changes.len() > MAX_TOLD || items().any(|item| item.link.kind != Kind::Blob) {
            return Ok(SectionDelta::NotIndexed);
        }
        if shape != Shape::List {
            return Ok(SectionDelta::Entries(shape, changes));
        }
        let [old, new] = [&old, &new].map(|side| side.as_ref().map(|section| &section.id));
        let moved = self.multiset.lists(old, new)?;
        match has_same_changes(&moved, &changes) {
            true => Ok(SectionDelta::Items(moved)),
            false => Ok(SectionDelta::NotIndexed),
        }
    }
}

/// Returns true if the changes of a list as a multiset equal its changes by index, meta included.
/// They differ if an item only got another meta.
fn has_same_changes(moved: &MultisetChanges, changes: &[SectionChange]) -> bool {
    let mut balance: HashMap<(&Link, &Bytes), i64> = HashMap::new();
    for change in changes {
        for (item, by) in [(&change.new, 1), (&change.old, -1)] {
            if let Some(Item { link, meta }) = item {
                *balance.entry((link, meta)).or_default() += by;
            }
        }
    }
    for (side, by) in [(&moved.come, -1), (&moved.gone, 1)] {
        for change in side {
            *balance.entry((&change.item.link, &change.item.meta)).or_default() += by;
        }
    }
    balance.values().all(|left| *left == 0)
}
