//! Operations as a graph: the line that leads to the refs, and acknowledged ones that lie beside it.
//!
//! A commit appends its operation under the ref lock, on top of the newest one. So the operations of
//! a store are one line. An operation whose parents lead to this line, and which is not on it, was
//! committed as well: the store has lost sight of it, and it is called detached. That is damage, and
//! `repair` joins it to the line again by an operation with several parents.
//!
//! An operation whose parent is nowhere is no proof of anything: it may never have been
//! acknowledged, or its parents may have been dropped by a collection.

use std::collections::{HashMap, HashSet};

use crate::object::{Kind, ObjectId, ObjectSource, Operation};

/// The operations that can be read, by their ids.
#[derive(Debug, Default)]
pub(in crate::store) struct Operations(HashMap<ObjectId, Operation>);

impl Operations {
    /// The operations `ids`, as far as `source` can read them.
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

    /// Adds the operation `id`, if `source` can read it; says whether it is known now.
    pub(in crate::store) fn add(&mut self, source: &dyn ObjectSource, id: ObjectId) -> bool {
        if self.0.contains_key(&id) {
            return true;
        }
        let read = source.read_as(Kind::Operation, &id);
        let Ok(operation) = read.and_then(|bytes| Operation::decode(&bytes)) else { return false };
        self.0.insert(id, operation);
        true
    }

    /// The operation `id`.
    pub(in crate::store) fn get(&self, id: &ObjectId) -> Option<&Operation> {
        self.0.get(id)
    }

    /// Every operation.
    pub(in crate::store) fn iter(&self) -> impl Iterator<Item = (&ObjectId, &Operation)> {
        self.0.iter()
    }

    /// The newest operation on the line that goes on from `tip` by first parents.
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

    /// The operations that lead to `tip` and are newer than the sequence `after`, oldest first.
    ///
    /// If one is missing, the newest one before it is taken for the end of the line: the
    /// operations in between are not known, and those before it still are.
    pub(in crate::store) fn line(&self, tip: ObjectId, after: u64) -> Vec<(ObjectId, &Operation)> {
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

    /// An operation and all that it follows, through every parent.
    pub(in crate::store) fn followed_by(&self, newest: Option<ObjectId>) -> HashSet<ObjectId> {
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

    /// Operations that were committed and that `newest` does not follow, oldest first.
    pub(in crate::store) fn detached(&self, newest: Option<ObjectId>) -> Vec<ObjectId> {
        let mut included = self.followed_by(newest);
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

    /// Those of `ids` that no other one of them follows.
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

    /// Operations by number, each with its parents and its sequence.
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
            let line = lines.line(id(tip), after);
            line.iter().map(|(_, operation)| operation.sequence).collect::<Vec<_>>()
        };
        assert_eq!(numbers(5, 0), [1, 2, 3, 4, 5]);
        assert_eq!(numbers(2, 0), [1, 2]);
        assert_eq!(numbers(5, 3), [4, 5]);
    }
}
