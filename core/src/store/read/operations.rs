//! Operations as a graph: the line that ends in the refs, and acknowledged operations outside of
//! it.
//!
//! A commit appends its operation under the ref lock, on top of the newest one. So the operations
//! of a store are one line. An operation outside this line with an ancestor on it was committed as
//! well. The store has lost track of it, and it is called detached. That is damage, and `repair`
//! joins it to the line again by an operation with several parents.
//!
//! An operation without a known parent proves nothing: it may never have been acknowledged, or a
//! collection may have dropped its parents.

use std::collections::{HashMap, HashSet};

use crate::object::{Kind, ObjectId, ObjectSource, Operation};

/// The readable operations, by their ids.
#[derive(Debug, Default)]
pub(in crate::store) struct Operations(HashMap<ObjectId, Operation>);

impl Operations {
    /// Reads the operations `ids`. Skips those that `source` cannot read.
    pub(in crate::store) fn read(
        source: &dyn ObjectSource,
        ids: impl IntoIterator<Item = ObjectId>,
    ) -> Self {
        let mut operations = Self::default();
        for id in ids {
            operations.add(source, id);
        }
        operations
    }

    /// Adds the operation `id`, if `source` can read it. Returns true if it is known afterwards.
    pub(in crate::store) fn add(&mut self, source: &dyn ObjectSource, id: ObjectId) -> bool {
        if self.0.contains_key(&id) {
            return true;
        }
        let read = source.read_as(Kind::Operation, &id);
        let Ok(operation) = read.and_then(|bytes| Operation::decode(&bytes)) else { return false };
        self.0.insert(id, operation);
        true
    }

    /// Returns the operation `id`.
    pub(in crate::store) fn get(&self, id: &ObjectId) -> Option<&Operation> {
        self.0.get(id)
    }

    /// Returns every operation.
    pub(in crate::store) fn iter(&self) -> impl Iterator<Item = (&ObjectId, &Operation)> {
        self.0.iter()
    }

    /// Returns the newest descendant of `tip` by first parents, or `tip` itself.
    pub(in crate::store) fn newest_after(&self, tip: ObjectId) -> ObjectId {
        let mut children: HashMap<&ObjectId, Vec<&ObjectId>> = HashMap::new();
        for (id, operation) in &self.0 {
            if let Some(parent) = operation.parents.first() {
                children.entry(parent).or_default().push(id);
            }
        }
        let (mut newest, mut open) = (tip, vec![tip]);
        while let Some(id) = open.pop() {
            if self.rank(&id) > self.rank(&newest) {
                newest = id;
            }
            open.extend(children.remove(&id).into_iter().flatten().copied());
        }
        newest
    }

    /// Returns the ancestors of `tip`, itself included, that are newer than the sequence `after`,
    /// oldest first.
    ///
    /// If an ancestor is missing, continues with the newest older operation: the operations in
    /// between are unknown, but those before are still known.
    pub(in crate::store) fn lineage(
        &self,
        tip: ObjectId,
        after: u64,
    ) -> Vec<(ObjectId, &Operation)> {
        let mut line: Vec<(ObjectId, &Operation)> = Vec::new();
        let mut next = Some(tip);
        while let Some((id, operation)) = next.and_then(|id| Some((id, self.0.get(&id)?))) {
            if operation.sequence <= after {
                break;
            }
            line.push((id, operation));
            next = operation.parents.first().copied();
            if next.is_some_and(|parent| !self.0.contains_key(&parent)) {
                next = self.newest_before(operation.sequence);
            }
        }
        line.reverse();
        line
    }

    /// Returns an operation and all of its ancestors, through every parent.
    pub(in crate::store) fn ancestors(&self, newest: Option<ObjectId>) -> HashSet<ObjectId> {
        let mut followed = HashSet::new();
        let mut open: Vec<ObjectId> = newest.into_iter().collect();
        while let Some(id) = open.pop() {
            if let Some(operation) = self.0.get(&id)
                && followed.insert(id)
            {
                open.extend(&operation.parents);
            }
        }
        followed
    }

    /// Returns the committed operations that are not ancestors of `newest`, oldest first.
    pub(in crate::store) fn detached(&self, newest: Option<ObjectId>) -> Vec<ObjectId> {
        let mut included = self.ancestors(newest);
        let mut others: Vec<_> = self.0.iter().filter(|(id, _)| !included.contains(id)).collect();
        // A parent comes before its children.
        others.sort_unstable_by_key(|(id, operation)| (operation.sequence, **id));
        let mut detached = Vec::new();
        for (id, operation) in others {
            if operation.parents.iter().any(|parent| included.contains(parent)) {
                included.insert(*id);
                detached.push(*id);
            }
        }
        detached
    }

    /// Returns the operations among `ids` that are not parents of any of them.
    pub(in crate::store) fn heads(&self, ids: &[ObjectId]) -> Vec<ObjectId> {
        let followed: HashSet<&ObjectId> =
            ids.iter().filter_map(|id| self.0.get(id)).flat_map(|op| &op.parents).collect();
        ids.iter().filter(|id| !followed.contains(id)).copied().collect()
    }

    fn newest_before(&self, sequence: u64) -> Option<ObjectId> {
        let before = self.0.iter().filter(|(_, operation)| operation.sequence < sequence);
        before.max_by_key(|(id, operation)| (operation.sequence, **id)).map(|(id, _)| *id)
    }

    fn rank(&self, id: &ObjectId) -> (u64, ObjectId) {
        (self.0.get(id).map_or(0, |operation| operation.sequence), *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds operations by number, each with its parents and its sequence.
    fn operations(lines: &[(u8, &[u8], u64)]) -> Operations {
        let made = lines.iter().map(|(number, parents, sequence)| {
            let operation = Operation {
                parents: parents.iter().map(|parent| id(*parent)).collect(),
                sequence: *sequence,
                time_micros: 0,
                actor: String::new(),
                reason: String::new(),
                changes: Vec::new(),
                undoes: None,
            };
            (id(*number), operation)
        });
        Operations(made.collect())
    }

    fn id(number: u8) -> ObjectId {
        ObjectId::from_bytes([number; 32])
    }

    fn ids(numbers: &[u8]) -> Vec<ObjectId> {
        numbers.iter().copied().map(id).collect()
    }

    #[test]
    fn what_the_newest_follows_is_not_detached() {
        let line = operations(&[(1, &[], 1), (2, &[1], 2), (3, &[2], 3)]);
        assert_eq!(line.detached(Some(id(3))), []);
        assert_eq!(line.detached(Some(id(1))), ids(&[2, 3]), "lost at the end");
        assert_eq!(line.newest_after(id(1)), id(3));
    }

    #[test]
    fn a_line_beside_the_newest_is_detached_until_it_is_joined() {
        let forked = [(1, &[][..], 1), (2, &[1], 2), (3, &[2], 3), (4, &[1], 2), (5, &[4], 3)];
        let mut lines = forked.to_vec();
        assert_eq!(operations(&lines).detached(Some(id(5))), ids(&[2, 3]));
        assert_eq!(operations(&lines).heads(&ids(&[2, 3])), ids(&[3]));
        lines.push((6, &[5, 3], 4));
        assert_eq!(operations(&lines).detached(Some(id(6))), []);
    }

    #[test]
    fn what_follows_nothing_that_is_known_is_not_detached() {
        // Dropped by a collection, or never acknowledged.
        let lines = operations(&[(5, &[4], 5), (6, &[5], 6), (2, &[1], 2), (9, &[8], 9)]);
        assert_eq!(lines.detached(Some(id(6))), []);
        assert_eq!(lines.detached(None), []);
    }

    #[test]
    fn a_line_goes_on_behind_a_gap_with_the_newest_that_is_known() {
        let lines =
            operations(&[(1, &[], 1), (2, &[1], 2), (4, &[3], 4), (5, &[4], 5), (7, &[2], 3)]);
        let numbers = |tip, after| {
            let line = lines.lineage(id(tip), after);
            line.iter().map(|(_, operation)| operation.sequence).collect::<Vec<_>>()
        };
        assert_eq!(numbers(5, 0), [1, 2, 3, 4, 5]);
        assert_eq!(numbers(2, 0), [1, 2]);
        assert_eq!(numbers(5, 3), [4, 5]);
    }
}
