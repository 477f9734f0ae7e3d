//! Positions of many objects by their ids: one look, however many segments there are.
//!
//! A walk through everything asks where each link leads, tens of millions of times in a store of a hundred
//! thousand turns, and each segment has an index of its own. Here the beginnings of all ids lie together,
//! eight bytes an object; what is found is compared with the whole id, so the beginnings decide nothing.

use crate::object::ObjectId;

/// Positions by the first four bytes of ids, rising, in buckets by the first two.
#[derive(Debug, Default)]
pub(super) struct Positions {
    /// The beginning of an id, and the position.
    entries: Vec<(u32, u32)>,
    /// Where the entries of each bucket end; of few entries there are no buckets.
    ends: Vec<u32>,
}

/// Entries from which on there are buckets.
const MANY: usize = 1 << 12;

/// Buckets: one for each value of the first two bytes.
const BUCKETS: usize = 1 << 16;

impl Positions {
    /// The positions of ids. What lies beyond the reach of a number of four bytes is left out, which no store
    /// has: a walk refuses more objects.
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
        // A bucket without entries ends where the one before it does.
        let mut last = 0;
        for end in &mut ends {
            last = last.max(*end);
            *end = last;
        }
        Self { entries, ends }
    }

    /// The highest position of an id, of which `is_it` says whether a position has it.
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

    /// An id that begins and ends with these bytes.
    fn id(beginning: [u8; 4], last: u8) -> ObjectId {
        let mut bytes = [7; 32];
        bytes[..4].copy_from_slice(&beginning);
        bytes[31] = last;
        ObjectId::from_bytes(bytes)
    }

    #[test]
    fn the_last_copy_is_found_and_what_only_begins_alike_is_not() {
        // Few and many, as those that have buckets.
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
    fn of_no_ids_nothing_is_found() {
        let positions = Positions::new(std::iter::empty());
        assert_eq!(positions.find(&id([0; 4], 0), |_| true), None);
    }
}
