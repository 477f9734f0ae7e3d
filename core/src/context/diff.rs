//! Differences of two contexts, section by section.
//!
//! Sections with equal roots are never opened, and the tree diff skips equal subtrees of a section,
//! so the cost follows the changes, not the size of the contexts.

use std::collections::{BTreeMap, BTreeSet};

use super::{Context, Section, Shape, text_key};
use crate::error::Result;
use crate::object::ObjectSource;
use crate::tree::{Item, List, Map, diff_lists, diff_maps};

/// The changes by section; unchanged sections are absent.
pub type ContextDiff = BTreeMap<String, SectionDiff>;

/// The change of one section.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SectionDiff {
    /// The changes: ordered by index for lists, by key for maps.
    pub changes: Vec<SectionChange>,
}

/// One entry that was added, removed or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionChange {
    /// The key; for lists the index in the new list, or in the old list for a removed entry; empty
    /// for a section that is one blob.
    pub key: String,
    /// The old entry; `None` if it was added.
    pub old: Option<Item>,
    /// The new entry; `None` if it was removed.
    pub new: Option<Item>,
}

/// Compares `old` with `new`.
///
/// In lists, entries that were replaced one for one in the same place count as changed.
///
/// # Errors
/// Errors of reading.
pub fn diff(source: &dyn ObjectSource, old: &Context, new: &Context) -> Result<ContextDiff> {
    let (old, new) = (old.sections(source)?, new.sections(source)?);
    let mut changed = ContextDiff::new();
    for (name, old, new) in changed_sections(&old, &new) {
        let changes = diff_section(source, old, new)?;
        changed.insert(name.to_owned(), SectionDiff { changes });
    }
    Ok(changed)
}

/// Iterates over the sections that differ between two contexts, ordered by name, with both sides.
pub fn changed_sections<'a>(
    old: &'a BTreeMap<String, Section>,
    new: &'a BTreeMap<String, Section>,
) -> impl Iterator<Item = (&'a str, Option<Section>, Option<Section>)> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let sides = |name: &'a String| (&**name, old.get(name).copied(), new.get(name).copied());
    names.into_iter().map(sides).filter(|(_, old, new)| old != new)
}

/// Compares one section, which may be missing on one side, as [`diff`] does.
///
/// # Errors
/// Errors of reading.
pub fn diff_section(
    source: &dyn ObjectSource,
    old: Option<Section>,
    new: Option<Section>,
) -> Result<Vec<SectionChange>> {
    let mut of_lists = |old: &List, new: &List, changes: &mut Vec<SectionChange>| {
        diff_lists_of(source, old, new, changes)
    };
    diff_section_with(source, old, new, &mut of_lists)
}

/// A function that adds the changes between two lists.
pub(super) type ListDiff<'d> = dyn FnMut(&List, &List, &mut Vec<SectionChange>) -> Result<()> + 'd;

/// Compares one section as [`diff_section`] does, but compares lists with `of_lists`.
pub(super) fn diff_section_with(
    source: &dyn ObjectSource,
    old: Option<Section>,
    new: Option<Section>,
    of_lists: &mut ListDiff<'_>,
) -> Result<Vec<SectionChange>> {
    let shape = |section: Option<Section>| section.map(|section| section.shape);
    match (shape(old), shape(new)) {
        (Some(a), Some(b)) if a != b => {
            let mut changes = diff_section_with(source, old, None, of_lists)?;
            changes.extend(diff_section_with(source, None, new, of_lists)?);
            Ok(changes)
        }
        (Some(Shape::List), _) | (_, Some(Shape::List)) => {
            let open = |section: Option<Section>| match section {
                Some(section) => List::open(source, &section.id),
                None => Ok(List::new()),
            };
            let mut changes = Vec::new();
            of_lists(&open(old)?, &open(new)?, &mut changes)?;
            Ok(changes)
        }
        (Some(Shape::Map), _) | (_, Some(Shape::Map)) => diff_map(source, old, new),
        _ => {
            let item = |section: Option<Section>| section.map(super::section_item);
            Ok(vec![SectionChange { key: String::new(), old: item(old), new: item(new) }])
        }
    }
}

/// Adds the changes between two lists by the ids of their items.
pub(super) fn diff_lists_of(
    source: &dyn ObjectSource,
    old: &List,
    new: &List,
    changes: &mut Vec<SectionChange>,
) -> Result<()> {
    for change in diff_lists(old, new, source)? {
        let mut before = old.iter(source, change.old.clone());
        let mut after = new.iter(source, change.new.clone());
        let (mut old_index, mut new_index) = (change.old.start, change.new.start);
        loop {
            let (old, new) = (before.next().transpose()?, after.next().transpose()?);
            let index = if new.is_some() { new_index } else { old_index };
            if old.is_none() && new.is_none() {
                break;
            }
            old_index += 1;
            new_index += 1;
            changes.push(SectionChange { key: index.to_string(), old, new });
        }
    }
    Ok(())
}

fn diff_map(
    source: &dyn ObjectSource,
    old: Option<Section>,
    new: Option<Section>,
) -> Result<Vec<SectionChange>> {
    let open = |section: Option<Section>| match section {
        Some(section) => Map::open(source, &section.id),
        None => Ok(Map::new()),
    };
    diff_maps(&open(old)?, &open(new)?, source)
        .map(|change| {
            let change = change?;
            let key = text_key(&change.key)?;
            Ok(SectionChange { key, old: change.old, new: change.new })
        })
        .collect()
}
