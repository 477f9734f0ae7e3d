//! The ids of a pack and their ordinals: a column of ids, and a hash table to search it.
//!
//! ```text
//! ids    | n x 32, in the order of their ordinals |
//! slots  | m x w bits: an ordinal + 1, or 0 |          w: bits of n
//! ```
//!
//! The slot of an id is `m` times its first eight bytes, as a fraction of 2^64, or the first empty
//! one after it, with wrap-around. So ids with a common prefix are close together, and an
//! abbreviation can be looked up.

use bytes::Bytes;

use crate::object::{ID_BYTES, IdPrefix, ObjectId};
use crate::store::read::index::Filter;

/// The placeholder of an unknown id: no object has it.
pub(in crate::store::pack) const UNKNOWN: [u8; ID_BYTES] = [0; ID_BYTES];

/// Ids by ordinal, and ordinals by id.
#[derive(Debug)]
pub(in crate::store::pack) struct IdIndex {
    column: Bytes,
    slots: PackedOrdinals,
    /// Rejects most absent ids. Set once all ids were read.
    filter: Option<Filter>,
}

impl IdIndex {
    /// Builds the index of the concatenated ids in `column`. Unknown ids are not indexed.
    ///
    /// # Errors
    /// An id that occurs twice.
    pub(in crate::store::pack) fn build(column: Bytes) -> Result<Self, ObjectId> {
        let len = u32::try_from(column.len() / ID_BYTES).unwrap_or(u32::MAX);
        // Four of five slots are used; one is always empty, which ends every search.
        let count = len.saturating_add(len / 4).saturating_add(1);
        let mut slots = PackedOrdinals::empty(count, len);
        for ordinal in 0..len {
            let Some(id) = id_in(&column, ordinal) else { break };
            if *id.as_bytes() == UNKNOWN {
                continue;
            }
            let mut place = slots.home(&id);
            while let Some(taken) = slots.ordinal(place) {
                if id_in(&column, taken) == Some(id) {
                    return Err(id);
                }
                place = slots.next(place);
            }
            slots.fill(place, ordinal);
        }
        let PackedOrdinals { bytes, count, width } = slots;
        let slots = PackedOrdinals { bytes: bytes.into(), count, width };
        Ok(Self { filter: Some(Filter::new(&column)), slots, column })
    }

    /// Returns an index of `len` ids, none of which is known.
    pub(in crate::store::pack) fn unknown(len: u32) -> Self {
        let column = Bytes::from(vec![0; len as usize * ID_BYTES]);
        let slots = PackedOrdinals { bytes: Bytes::new(), count: 1, width: 1 };
        Self { filter: Some(Filter::new(&column)), slots, column }
    }

    /// Opens the stored index of a pack, without a filter; returns `None` if the counts do not fit.
    pub(in crate::store::pack) fn open(column: Bytes, slots: Bytes, count: u32) -> Option<Self> {
        let len = u32::try_from(column.len() / ID_BYTES).ok()?;
        let slots = PackedOrdinals { bytes: slots, count, width: width(len) };
        // More than twice as many slots as ids only serve an attacker who wants slow searches.
        let fits = count > len
            && count <= 2 * len + 1
            && Some(slots.bytes.len()) == slots_bytes(count, len);
        fits.then_some(Self { filter: None, slots, column })
    }

    /// Returns the same ids with a filter of all of them.
    pub(in crate::store::pack) fn with(&self, filter: Filter) -> Self {
        let Self { column, slots: PackedOrdinals { bytes, count, width }, .. } = self;
        let slots = PackedOrdinals { bytes: bytes.clone(), count: *count, width: *width };
        Self { column: column.clone(), slots, filter: Some(filter) }
    }

    pub(in crate::store::pack) fn len(&self) -> u32 {
        u32::try_from(self.column.len() / ID_BYTES).unwrap_or(u32::MAX)
    }

    pub(in crate::store::pack) fn id_at(&self, ordinal: u32) -> Option<ObjectId> {
        id_in(&self.column, ordinal).filter(|id| *id.as_bytes() != UNKNOWN)
    }

    /// Returns the ordinal of an id. For most absent ids this costs one memory access, without a
    /// filter a dozen.
    pub(in crate::store::pack) fn find(&self, id: &ObjectId) -> Option<u32> {
        if self.filter.as_ref().is_some_and(|filter| !filter.may_hold(id)) {
            return None;
        }
        let mut place = self.slots.home(id);
        // Bounded by the number of slots: a hostile table may have no empty one.
        for _ in 0..self.slots.count {
            let ordinal = self.slots.ordinal(place)?;
            if self.id_at(ordinal) == Some(*id) {
                return Some(ordinal);
            }
            place = self.slots.next(place);
        }
        None
    }

    /// Returns the ids that start with `prefix` and their ordinals, in the order of the ids.
    pub(in crate::store::pack) fn starting_with(&self, prefix: &IdPrefix) -> Vec<(ObjectId, u32)> {
        let mut place = self.slots.home(&prefix.first());
        let homes = self.slots.home(&prefix.last()) - place;
        let mut found = Vec::new();
        for passed in 0..self.slots.count {
            match self.slots.ordinal(place) {
                Some(ordinal) => {
                    let id = self.id_at(ordinal).filter(|id| prefix.matches(id));
                    found.extend(id.map(|id| (id, ordinal)));
                }
                None if passed >= homes => break,
                None => {}
            }
            place = self.slots.next(place);
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns the column, the slots and the number of slots, as a pack stores them.
    pub(in crate::store::pack) fn stored(&self) -> (&Bytes, &Bytes, u32) {
        (&self.column, &self.slots.bytes, self.slots.count)
    }
}

/// Recently found ordinals, so that [`IdIndex`] searches only for new ones. Versions of a node are
/// stored together and link to nearly the same objects, and a search costs several cache misses.
#[derive(Debug)]
pub(in crate::store::pack) struct RecentOrdinals(Vec<Option<(ObjectId, u32)>>);

/// Most entries, some 36 bytes each.
const RECENT: usize = 1 << 12;

impl RecentOrdinals {
    /// Creates an empty table.
    pub(in crate::store::pack) fn new() -> Self {
        Self(vec![None; RECENT])
    }

    /// Returns the ordinal of an id, from the table or from `search`.
    pub(in crate::store::pack) fn find(
        &mut self,
        id: &ObjectId,
        search: impl FnOnce() -> Option<u32>,
    ) -> Option<u32> {
        let [.., low, high] = *id.as_bytes();
        let slot = self.0.get_mut(usize::from(u16::from_le_bytes([low, high])) % RECENT);
        match slot {
            Some(Some((known, ordinal))) if known == id => Some(*ordinal),
            slot => {
                let ordinal = search()?;
                if let Some(slot) = slot {
                    *slot = Some((*id, ordinal));
                }
                Some(ordinal)
            }
        }
    }
}

/// Returns the size of the slots of a pack with `len` ids.
pub(in crate::store::pack) fn slots_bytes(count: u32, len: u32) -> Option<usize> {
    let bits = u64::from(count).checked_mul(u64::from(width(len)))?;
    usize::try_from(bits.div_ceil(8)).ok()
}

/// Ordinals, bit-packed.
#[derive(Debug)]
struct PackedOrdinals<B = Bytes> {
    bytes: B,
    count: u32,
    width: u32,
}

impl<B: AsRef<[u8]>> PackedOrdinals<B> {
    /// Returns the first slot to search for an id. Monotonic in the id.
    fn home(&self, id: &ObjectId) -> u32 {
        let fraction = id.as_bytes().first_chunk().map_or(0, |first| u64::from_be_bytes(*first));
        let place = (u128::from(fraction) * u128::from(self.count)) >> 64;
        u32::try_from(place).unwrap_or(0)
    }

    fn next(&self, place: u32) -> u32 {
        if place + 1 < self.count { place + 1 } else { 0 }
    }

    /// Returns the ordinal in a slot, or `None` if it is empty.
    fn ordinal(&self, place: u32) -> Option<u32> {
        let (start, shift) = self.position(place);
        let rest = self.bytes.as_ref().get(start..).unwrap_or_default();
        let word = rest.first_chunk().map_or_else(
            || {
                let mut word = [0; 8];
                word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
                u64::from_le_bytes(word)
            },
            |word| u64::from_le_bytes(*word),
        );
        let value = (word >> shift) & ((1 << self.width) - 1);
        u32::try_from(value).ok()?.checked_sub(1)
    }

    /// Returns the first byte of a slot, and the bit in it.
    fn position(&self, place: u32) -> (usize, u32) {
        let bit = u64::from(place) * u64::from(self.width);
        (usize::try_from(bit / 8).unwrap_or(usize::MAX), (bit % 8) as u32)
    }
}

impl PackedOrdinals<Vec<u8>> {
    fn empty(count: u32, len: u32) -> Self {
        let bytes = vec![0; slots_bytes(count, len).unwrap_or(0)];
        Self { bytes, count, width: width(len) }
    }

    /// Writes an ordinal into an empty slot.
    fn fill(&mut self, place: u32, ordinal: u32) {
        let (start, shift) = self.position(place);
        let value = (u64::from(ordinal) + 1) << shift;
        let bytes = self.bytes.get_mut(start..).unwrap_or_default();
        bytes.iter_mut().zip(value.to_le_bytes()).for_each(|(to, from)| *to |= from);
    }
}

/// Returns the bits of a slot of a pack with `len` ids.
fn width(len: u32) -> u32 {
    u32::BITS - len.leading_zeros()
}

fn id_in(column: &[u8], ordinal: u32) -> Option<ObjectId> {
    let start = (ordinal as usize).checked_mul(ID_BYTES)?;
    column.get(start..start.checked_add(ID_BYTES)?).and_then(ObjectId::from_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Kind;

    #[test]
    fn every_id_and_every_abbreviation_is_found_and_nothing_else() {
        for len in [0_u32, 1, 2, 3, 7, 8, 500] {
            let id = |n: u32| ObjectId::of(Kind::Blob, &n.to_le_bytes());
            let column: Vec<u8> = (0..len).flat_map(|n| *id(n).as_bytes()).collect();
            let built = IdIndex::build(column.into()).unwrap();
            let (column, slots, count) = built.stored();
            let ids = IdIndex::open(column.clone(), slots.clone(), count).unwrap();
            for n in 0..len {
                assert_eq!((ids.find(&id(n)), ids.id_at(n)), (Some(n), Some(id(n))));
                for digits in 4..8 {
                    let prefix: IdPrefix = id(n).short(digits).parse().unwrap();
                    let mut expected: Vec<_> =
                        (0..len).map(|n| (id(n), n)).filter(|(id, _)| prefix.matches(id)).collect();
                    expected.sort_unstable();
                    assert_eq!(ids.starting_with(&prefix), expected);
                }
            }
            assert!((len..2000).all(|n| ids.find(&id(n)).is_none()));
        }
    }

    #[test]
    fn an_id_that_is_not_known_is_nowhere() {
        let id = ObjectId::of(Kind::Blob, b"x");
        let ids = IdIndex::build([UNKNOWN, *id.as_bytes(), UNKNOWN].concat().into()).unwrap();
        assert_eq!([ids.id_at(0), ids.id_at(1), ids.id_at(2)], [None, Some(id), None]);
        assert_eq!((ids.find(&id), ids.find(&ObjectId::from_bytes(UNKNOWN))), (Some(1), None));
        assert_eq!(ids.starting_with(&"0000".parse().unwrap()), []);
    }

    #[test]
    fn a_recent_ordinal_is_that_of_the_very_id() {
        let mut recent = RecentOrdinals::new();
        let id = |first: u8, last: u8| {
            let mut bytes = [0; ID_BYTES];
            (bytes[0], bytes[31]) = (first, last);
            ObjectId::from_bytes(bytes)
        };
        // A zeroed table must not match an id of zeros.
        assert_eq!(recent.find(&id(0, 0), || None), None);
        assert_eq!(recent.find(&id(1, 0), || Some(7)), Some(7));
        assert_eq!(recent.find(&id(1, 0), || None), Some(7));
        // All of these ids use one slot.
        assert_eq!(recent.find(&id(2, 0), || None), None);
        assert_eq!(recent.find(&id(2, 0), || Some(8)), Some(8));
        assert_eq!(recent.find(&id(1, 0), || Some(9)), Some(9));
    }

    #[test]
    fn an_id_that_is_there_twice_is_named() {
        let id = ObjectId::of(Kind::Blob, b"x");
        let column = [*id.as_bytes(), [7; 32], *id.as_bytes()].concat();
        assert_eq!(IdIndex::build(column.into()).unwrap_err(), id);
    }
}
