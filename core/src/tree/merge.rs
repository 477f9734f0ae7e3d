//! Merges three versions of a map or a list: a base, and the changes of both sides.
//!
//! The merge uses differences with the base, so its cost follows the changes of both sides, not the
//! size of the trees. Items are equal if their ids are; the layer above merges their content.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

use super::diff::{ListChange, MapChange, diff_maps};
use super::{Item, Map};
use crate::error::Result;
use crate::object::ObjectSource;

/// The edits that apply the changes of `theirs` to `ours`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MapMerge {
    /// Keys that only `theirs` changed, with their items there; for [`Map::apply`].
    pub edits: BTreeMap<Bytes, Option<Item>>,
    /// Keys that both sides changed differently, in order.
    pub conflicts: Vec<MapConflict>,
}

/// A key that both sides changed differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MapConflict {
    /// The key.
    pub key: Bytes,
    /// The item in the base.
    pub base: Option<Item>,
    /// The item in `ours`.
    pub ours: Option<Item>,
    /// The item in `theirs`.
    pub theirs: Option<Item>,
}

/// Merges `theirs` into `ours`, both derived from `base`.
///
/// Reads the nodes that either side does not share with the base, and keeps the changes of `theirs`
/// in memory.
///
/// # Errors
/// `NotFound` or `Corrupt` if a node is missing or damaged.
pub(crate) fn merge_maps(
    base: &Map,
    ours: &Map,
    theirs: &Map,
    source: &dyn ObjectSource,
) -> Result<MapMerge> {
    let mut merge = MapMerge::default();
    if ours == theirs {
        return Ok(merge);
    }
    let mut own = diff_maps(base, ours, source).peekable();
    for change in diff_maps(base, theirs, source) {
        let MapChange { key, old: base, new: theirs } = change?;
        let is_before = |own: &Result<MapChange>| own.as_ref().is_ok_and(|own| own.key < key);
        while own.next_if(is_before).is_some() {}
        let is_here = |own: &Result<MapChange>| own.as_ref().map_or(true, |own| own.key == key);
        match own.next_if(is_here).transpose()? {
            None => {
                merge.edits.insert(key, theirs);
            }
            Some(MapChange { new: ours, .. }) if ours != theirs => {
                merge.conflicts.push(MapConflict { key, base, ours, theirs });
            }
            Some(_) => {}
        }
    }
    Ok(merge)
}

/// A range of the base that a side changed, and its positions in all three versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Region {
    /// Positions in the base.
    pub base: Range<u64>,
    /// Positions in `ours`.
    pub ours: Range<u64>,
    /// Positions in `theirs`.
    pub theirs: Range<u64>,
    /// True if `ours` changed it.
    pub ours_changed: bool,
    /// True if `theirs` changed it.
    pub theirs_changed: bool,
}

/// Combines the changes of two sides of a sequence against the base. Each side's changes are
/// sorted, with equal items between any two, as [`super::diff_lists`] returns them.
///
/// The regions are sorted, and all three versions are equal between any two of them. Changes that
/// overlap or touch are one region.
#[must_use]
pub(crate) fn regions(ours: &[ListChange], theirs: &[ListChange]) -> Vec<Region> {
    let (mut ours, mut theirs) = (Side::new(ours), Side::new(theirs));
    let mut regions = Vec::new();
    loop {
        let start = match (ours.next_start(), theirs.next_start()) {
            (None, None) => return regions,
            (Some(at), None) | (None, Some(at)) => at,
            (Some(a), Some(b)) => a.min(b),
        };
        let (before_ours, before_theirs) = (ours.shift, theirs.shift);
        let mut end = start;
        let (mut ours_changed, mut theirs_changed) = (false, false);
        // Each added change may overlap the next one of the other side.
        loop {
            let (by_ours, by_theirs) = (ours.take_until(&mut end), theirs.take_until(&mut end));
            ours_changed |= by_ours;
            theirs_changed |= by_theirs;
            if !by_ours && !by_theirs {
                break;
            }
        }
        regions.push(Region {
            base: start..end,
            ours: shift_position(start, before_ours)..shift_position(end, ours.shift),
            theirs: shift_position(start, before_theirs)..shift_position(end, theirs.shift),
            ours_changed,
            theirs_changed,
        });
    }
}

/// The remaining changes of one side.
struct Side<'a> {
    rest: &'a [ListChange],
    /// The offset of the side against the base, after the changes taken until now.
    shift: i64,
}

impl<'a> Side<'a> {
    fn new(changes: &'a [ListChange]) -> Self {
        Self { rest: changes, shift: 0 }
    }

    fn next_start(&self) -> Option<u64> {
        self.rest.first().map(|change| change.old.start)
    }

    /// Takes the changes that begin up to `end`, and extends `end` by each.
    fn take_until(&mut self, end: &mut u64) -> bool {
        let mut took = false;
        while let [change, rest @ ..] = self.rest
            && change.old.start.cmp(end) != Ordering::Greater
        {
            let length = |range: &Range<u64>| i64::try_from(range.end - range.start).unwrap_or(0);
            self.shift += length(&change.new) - length(&change.old);
            *end = change.old.end.max(*end);
            self.rest = rest;
            took = true;
        }
        took
    }
}

/// Converts a position in the base to one in a side.
fn shift_position(at: u64, shift: i64) -> u64 {
    at.saturating_add_signed(shift)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::object::{Kind, Memory, ObjectId};
    use crate::tree::{List, diff_lists};

    type Model = BTreeMap<u8, u8>;

    fn item(value: u8) -> Item {
        Item::new(Kind::Blob, ObjectId::of(Kind::Blob, &[value]))
    }

    fn map(objects: &mut Memory, model: &Model) -> Map {
        let mut map = Map::new();
        let edits = model.iter().map(|(k, v)| (Bytes::copy_from_slice(&[*k]), Some(item(*v))));
        map.apply(objects, edits.collect()).unwrap();
        map
    }

    fn applied(objects: &mut Memory, ours: &Map, merge: &MapMerge) -> Map {
        let mut merged = ours.clone();
        merged.apply(objects, merge.edits.clone()).unwrap();
        merged
    }

    fn models() -> impl Strategy<Value = [Model; 3]> {
        let edits = || prop::collection::btree_map(0_u8..60, prop::option::of(0_u8..3), 0..12);
        (prop::collection::btree_map(0_u8..60, 0_u8..3, 0..60), edits(), edits()).prop_map(
            |(base, ours, theirs)| {
                let edit = |edits: BTreeMap<u8, Option<u8>>| {
                    let mut model = base.clone();
                    for (key, value) in edits {
                        match value {
                            Some(value) => model.insert(key, value),
                            None => model.remove(&key),
                        };
                    }
                    model
                };
                [base.clone(), edit(ours), edit(theirs)]
            },
        )
    }

    turntree_properties::properties! {
        #[test]
        fn a_merge_is_that_of_the_plain_maps([base, ours, theirs] in models()) {
            let mut merged = ours.clone();
            let mut conflicts = Vec::new();
            for key in 0..60 {
                let [b, o, t] = [&base, &ours, &theirs].map(|model| model.get(&key).copied());
                if o == t || b == t {
                    continue;
                }
                if b != o {
                    conflicts.push(MapConflict {
                        key: Bytes::copy_from_slice(&[key]),
                        base: b.map(item),
                        ours: o.map(item),
                        theirs: t.map(item),
                    });
                } else if let Some(value) = t {
                    merged.insert(key, value);
                } else {
                    merged.remove(&key);
                }
            }
            let mut objects = Memory::new();
            let [b, o, t] = [&base, &ours, &theirs].map(|model| map(&mut objects, model));
            let merge = merge_maps(&b, &o, &t, &objects).unwrap();
            prop_assert_eq!(&merge.conflicts, &conflicts);
            prop_assert_eq!(applied(&mut objects, &o, &merge), map(&mut objects, &merged));

            // With one side unchanged the merge equals the other side, and sides can be swapped.
            for (ours, theirs) in [(&b, &t), (&t, &b), (&t, &t)] {
                let merge = merge_maps(&b, ours, theirs, &objects).unwrap();
                prop_assert!(merge.conflicts.is_empty());
                prop_assert_eq!(&applied(&mut objects, ours, &merge), &t);
            }
            let swapped = merge_maps(&b, &t, &o, &objects).unwrap();
            let sides = |c: &MapConflict| (c.key.clone(), c.ours.clone(), c.theirs.clone());
            let other = |c: &MapConflict| (c.key.clone(), c.theirs.clone(), c.ours.clone());
            prop_assert_eq!(
                merge.conflicts.iter().map(sides).collect::<Vec<_>>(),
                swapped.conflicts.iter().map(other).collect::<Vec<_>>()
            );
        }

        #[test]
        fn regions_cover_every_change_and_leave_what_all_have(
            base in prop::collection::vec(0_u8..6, 0..30),
            cuts in prop::array::uniform2(prop::collection::vec((0_usize..30, 0_usize..4, prop::collection::vec(0_u8..9, 0..3)), 0..4)),
        ) {
            let sides = cuts.map(|cuts| {
                let mut side = base.clone();
                for (at, remove, insert) in cuts {
                    let at = at.min(side.len());
                    let end = (at + remove).min(side.len());
                    side.splice(at..end, insert);
                }
                side
            });
            let mut objects = Memory::new();
            let mut list = |values: &[u8]| {
                let mut list = List::new();
                list.extend(&mut objects, values.iter().map(|v| item(*v)).collect()).unwrap();
                list
            };
            let lists = [list(&base), list(&sides[0]), list(&sides[1])];
            let changes = |side: usize| diff_lists(&lists[0], &lists[side], &objects).unwrap();
            let regions = regions(&changes(1), &changes(2));
            let place = |at: u64| usize::try_from(at).unwrap();
            let (mut at, mut ours_at, mut theirs_at) = (0, 0, 0);
            let end = Region {
                base: base.len() as u64..0,
                ours: sides[0].len() as u64..0,
                theirs: sides[1].len() as u64..0,
                ours_changed: true,
                theirs_changed: true,
            };
            for region in regions.iter().chain([&end]) {
                let common = &base[at..place(region.base.start)];
                prop_assert_eq!(common, &sides[0][ours_at..place(region.ours.start)]);
                prop_assert_eq!(common, &sides[1][theirs_at..place(region.theirs.start)]);
                prop_assert!(region.ours_changed || region.theirs_changed);
                at = place(region.base.end);
                ours_at = place(region.ours.end);
                theirs_at = place(region.theirs.end);
            }
        }
    }
}
