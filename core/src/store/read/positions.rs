//! Finds positions of many objects by id, in one look-up for all segments.
//!
//! A walk of a whole store looks up every link, tens of millions of times in a store of a hundred
//! thousand turns, and each segment has an index of its own. This table holds the prefixes of all
//! ids, eight bytes an object. A match is compared with the whole id, so equal prefixes are
//! harmless.

use std::sync::Mutex;

use crate::object::ObjectId;

/// Positions by the first four bytes of ids, ascending, in buckets by the first two.
#[derive(Debug, Default)]
pub(super) struct Positions {
    /// The first four bytes of an id, and the position.
    entries: Vec<(u32, u32)>,
    /// The end of each bucket in the entries; empty if there are few entries.
    ends: Vec<u32>,
}

/// The number of entries from which buckets are used.
const MANY: usize = 1 << 12;

/// The number of buckets: one for each value of the first two bytes.
const BUCKETS: usize = 1 << 16;

impl Positions {
    /// Builds the table of these ids. Leaves out positions above `u32::MAX`, which no store has: a
    /// walk refuses so many objects.
    pub(super) fn new(ids: impl Iterator<Item = (ObjectId, usize)>) -> Self {
        let entry = |(id, at): (ObjectId, usize)| Some((beginning(&id), u32::try_from(at).ok()?));
        let mut entries: Vec<(u32, u32)> = ids.filter_map(entry).collect();
        entries.shrink_to_fit();
        entries.sort_unstable();
        if entries.len() < MANY {
            return Self { entries, ends: Vec::new() };
        }
        let mut ends = vec![0; BUCKETS];
        for ((start, _), end) in entries.iter().zip(1..) {
            if let Some(slot) = ends.get_mut(bucket(*start)) {
                *slot = end;
            }
        }
        // A bucket without entries ends at the end of the previous one.
        let mut last = 0;
        for end in &mut ends {
            last = last.max(*end);
            *end = last;
        }
        Self { entries, ends }
    }

    /// Returns the highest position of an id. `is_it` must return whether a position has the id.
    pub(super) fn find(&self, id: &ObjectId, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let wanted = beginning(id);
        let number = bucket(wanted);
        let end = self.ends.get(number).map_or(self.entries.len(), |end| *end as usize);
        let start = number.checked_sub(1).and_then(|before| self.ends.get(before));
        let entries = self.entries.get(start.map_or(0, |start| *start as usize)..end)?;
        let first = entries.partition_point(|(start, _)| *start < wanted);
        let alike = entries.get(first..)?.iter().take_while(|(start, _)| *start == wanted);
        alike.map(|(_, at)| *at as usize).filter(|at| is_it(*at)).last()
    }
}

/// Recently found positions. Versions of a node link to nearly the same objects, so almost every
/// look-up of a walk repeats a recent one, and is answered without a search or a page of a file.
#[derive(Debug)]
pub(super) struct RecentPositions {
    /// Each position is in the only slot that its id may use. A slot locked by another thread
    /// counts as empty.
    slots: Vec<Mutex<Option<(ObjectId, u32)>>>,
}

/// Most slots, some 44 bytes each.
const MAX_RECENT: usize = 1 << 15;

impl RecentPositions {
    /// Creates an empty table for a store of `objects` objects.
    pub(super) fn new(objects: usize) -> Self {
        let slots = objects.next_power_of_two().min(MAX_RECENT);
        Self { slots: std::iter::repeat_with(Mutex::default).take(slots).collect() }
    }

    /// Returns the position of an id, from the table or from `search`.
    pub(super) fn find(
        &self,
        id: &ObjectId,
        search: impl FnOnce() -> Option<usize>,
    ) -> Option<usize> {
        // Access the slot only once, since it is rarely in the processor's cache.
        let mut slot = self.slot(id).and_then(|slot| slot.try_lock().ok());
        if let Some((known, at)) = slot.as_deref().and_then(Option::as_ref)
            && known == id
        {
            return Some(*at as usize);
        }
        let found = search()?;
        if let Some(slot) = &mut slot
            && let Ok(at) = u32::try_from(found)
        {
            **slot = Some((*id, at));
        }
        Some(found)
    }

    fn slot(&self, id: &ObjectId) -> Option<&Mutex<Option<(ObjectId, u32)>>> {
        let [.., a, b, c, d] = *id.as_bytes();
        let at = u32::from_le_bytes([a, b, c, d]) as usize & (self.slots.len() - 1);
        self.slots.get(at)
    }
}

fn beginning(id: &ObjectId) -> u32 {
    let [a, b, c, d, ..] = *id.as_bytes();
    u32::from_be_bytes([a, b, c, d])
}

fn bucket(beginning: u32) -> usize {
    (beginning >> 16) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an id that begins and ends with these bytes.
    fn id(beginning: [u8; 4], last: u8) -> ObjectId {
        let mut bytes = [7; 32];
        bytes[..4].copy_from_slice(&beginning);
        bytes[31] = last;
        ObjectId::from_bytes(bytes)
    }

    #[test]
    fn the_last_copy_is_found_and_what_only_begins_alike_is_not() {
        // Few ids, and enough for buckets.
        for more in [0, MANY] {
            let mut ids = vec![
                id([0, 0, 0, 0], 1),
                id([0, 0, 0, 0], 2),
                id([255; 4], 1),
                id([0, 0, 0, 0], 1),
                id([9, 0, 0, 1], 1),
            ];
            ids.extend(
                (0..more)
                    .map(|number| id(u32::try_from(number << 18).unwrap_or(5).to_be_bytes(), 9)),
            );
            let positions = Positions::new(ids.iter().copied().zip(10..));
            let find = |id: ObjectId| positions.find(&id, |at| ids.get(at - 10) == Some(&id));
            let found = [0, 1, 2, 4].map(|number: usize| find(ids[number]));
            assert_eq!(found, [Some(13), Some(11), Some(12), Some(14)]);
            for absent in [id([0, 0, 0, 0], 3), id([0, 0, 0, 1], 1), id([9, 0, 0, 0], 1)] {
                assert_eq!(find(absent), None);
            }
        }
    }

    #[test]
    fn an_answer_is_that_of_the_last_search_for_this_very_id() {
        let recent = RecentPositions::new(2);
        let (one, other) = (id([1; 4], 4), id([2; 4], 6));
        assert_eq!(recent.find(&one, || Some(7)), Some(7));
        assert_eq!(recent.find(&one, || None), Some(7));
        // Both ids use the same slot.
        assert_eq!(recent.find(&other, || None), None);
        assert_eq!(recent.find(&other, || Some(8)), Some(8));
        assert_eq!(recent.find(&one, || Some(9)), Some(9));
        assert_eq!(RecentPositions::new(0).find(&one, || Some(1)), Some(1));
    }

    #[test]
    fn of_no_ids_nothing_is_found() {
        let positions = Positions::new(std::iter::empty());
        assert_eq!(positions.find(&id([0; 4], 0), |_| true), None);
    }
}
