//! Histories: the calls with their times, and a check that one order of the refs explains all of
//! them.
//!
//! A history is *linear* if every call can be assigned a moment between its start and its end such
//! that the calls, run one after the other in the order of these moments, have the same results. In
//! general that takes a search over all orders. Here it does not, because the store records the
//! order in which it changed refs: operations are numbered. That order is the *witness*.
//!
//! - A commit has the place of its number, so its order is given. It must have found its expected
//!   values in the state before it, and made the requested changes.
//! - A read has the place of the state that it saw, and must have seen all of it.
//! - A refused commit may have any place where one of its expectations did not hold.
//! - A call that ended before another began has the earlier place.
//!
//! Only the places of refused commits are open. Calls that ended before they began bound them from
//! below, and commits, whose places are given, from above. Each takes the earliest allowed place,
//! in the order in which they ended. If that fails no other choice succeeds, since an earlier place
//! never blocks another call. The check is therefore exact for the witness. An alternative order
//! that would explain the history is irrelevant: users see the numbers.

use std::collections::{BTreeMap, BTreeSet};

use turntree::object::{Kind, ObjectId, ObjectSource, Operation, RefValue};
use turntree::store::{Committed, Expected, RefUpdate, Store};

/// The values of the refs.
pub type Values = BTreeMap<String, RefValue>;

/// A call with its start and end, on a clock that all callers share.
#[derive(Debug, Clone)]
pub struct Event {
    /// The start.
    pub began: u64,
    /// The end.
    pub ended: u64,
    /// The call.
    pub call: Call,
}

/// The arguments and the result of a call.
#[derive(Debug, Clone)]
pub enum Call {
    /// An acknowledged commit.
    Committed(Vec<RefUpdate>, Committed),
    /// A commit that lost a race.
    Refused(Vec<RefUpdate>),
    /// A read: the number of the newest operation, and the refs.
    Read(u64, Values),
}

/// The order in which the store records that its refs changed.
#[derive(Debug)]
pub struct Witness {
    /// The operations, oldest first.
    operations: Vec<(ObjectId, Operation)>,
    /// The refs before the first operation, and after each.
    states: Vec<Values>,
}

/// The number of calls in a history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    /// Acknowledged commits.
    pub committed: u64,
    /// Commits that lost a race.
    pub refused: u64,
    /// Reads.
    pub reads: u64,
}

impl Witness {
    /// Reads the order that `store` has recorded, from the first operation on.
    ///
    /// # Panics
    /// If operations are missing, or one does not follow from its predecessor.
    #[must_use]
    pub fn of(store: &Store) -> Self {
        let refs = store.refs();
        let mut operations = Vec::new();
        let mut next = refs.operation;
        while let Some(id) = next {
            let bytes = store.read_as(Kind::Operation, &id).expect("every operation is recorded");
            let operation = Operation::decode(&bytes).expect("an operation");
            next = operation.parents.first().copied();
            operations.push((id, operation));
        }
        operations.reverse();
        let mut states = vec![Values::new()];
        for ((id, operation), sequence) in operations.iter().zip(1..) {
            assert_eq!(operation.sequence, sequence, "the number of operation {id}");
            let mut values = states.last().cloned().unwrap_or_default();
            for change in &operation.changes {
                let old = values.get(&change.name);
                assert_eq!(old, change.old.as_ref(), "{} before operation {sequence}", change.name);
                match &change.new {
                    Some(value) => values.insert(change.name.clone(), value.clone()),
                    None => values.remove(&change.name),
                };
            }
            states.push(values);
        }
        assert_eq!(
            states.last(),
            Some(&BTreeMap::from(&refs.values)),
            "the operations explain the refs"
        );
        Self { operations, states }
    }

    /// Asserts that this order explains a history.
    ///
    /// # Panics
    /// If the order does not explain it.
    #[must_use]
    pub fn check(&self, history: &[Event]) -> Calls {
        let mut calls = Calls::default();
        let mut claimed = BTreeSet::new();
        for event in history {
            match &event.call {
                Call::Committed(changes, committed) => {
                    calls.committed += 1;
                    self.check_commit(changes, committed);
                    assert!(claimed.insert(committed.sequence), "acknowledged twice: {event:?}");
                }
                Call::Refused(_) => calls.refused += 1,
                Call::Read(sequence, values) => {
                    calls.reads += 1;
                    let state = usize::try_from(*sequence).ok().and_then(|at| self.states.get(at));
                    assert_eq!(state, Some(values), "a read of the state after {sequence}");
                }
            }
        }
        self.check_times(history);
        calls
    }

    /// The operations that belong to no acknowledged commit of a history.
    #[must_use]
    pub fn unclaimed(&self, history: &[Event]) -> Vec<&Operation> {
        let claimed = history.iter().filter_map(|event| match &event.call {
            Call::Committed(_, committed) => Some(committed.sequence),
            _ => None,
        });
        let claimed: BTreeSet<u64> = claimed.collect();
        let operations = self.operations.iter().map(|(_, operation)| operation);
        operations.filter(|operation| !claimed.contains(&operation.sequence)).collect()
    }

    /// Checks that an acknowledged commit made its changes at its number.
    fn check_commit(&self, changes: &[RefUpdate], committed: &Committed) {
        let at = usize::try_from(committed.sequence).expect("a number that fits");
        let (id, operation) = at
            .checked_sub(1)
            .and_then(|at| self.operations.get(at))
            .unwrap_or_else(|| panic!("lost: {committed:?}"));
        assert_eq!(*id, committed.operation, "lost: another operation has its number");
        assert!(holds(changes, &self.states[at - 1]), "{changes:?} succeeded on another value");
        let wanted: BTreeMap<_, _> = changes.iter().map(|c| (&c.name, &c.new)).collect();
        let made: BTreeMap<_, _> = operation.changes.iter().map(|c| (&c.name, &c.new)).collect();
        assert_eq!(made, wanted, "what operation {at} changed");
    }

    /// Checks that every call has a place, and that a call that ended before another began has the
    /// earlier one.
    fn check_times(&self, history: &[Event]) {
        let mut by_end: Vec<&Event> = history.iter().collect();
        by_end.sort_by_key(|event| event.ended);
        let commits = history.iter().filter_map(|event| match &event.call {
            Call::Committed(_, committed) => Some((event.began, committed.sequence)),
            _ => None,
        });
        let last = Limits::new(commits.collect());
        // End times, each with the highest place of all calls that ended by then.
        let mut first: Vec<(u64, u64)> = Vec::new();
        for event in by_end {
            let before = first.partition_point(|(ended, _)| *ended < event.began);
            let least = before.checked_sub(1).and_then(|at| first.get(at)).map_or(0, |(_, at)| *at);
            let most = last.after(event.ended).map_or(self.operations.len() as u64, |at| at - 1);
            let place = match &event.call {
                Call::Committed(_, committed) => {
                    assert!(committed.sequence > least, "{least} had ended before {event:?}");
                    committed.sequence
                }
                Call::Read(sequence, _) => {
                    assert!(
                        (least..=most).contains(sequence),
                        "between {least} and {most} would be right: {event:?}"
                    );
                    *sequence
                }
                Call::Refused(changes) => (least..=most)
                    .find(|at| {
                        !usize::try_from(*at).is_ok_and(|at| holds(changes, &self.states[at]))
                    })
                    .unwrap_or_else(|| panic!("from {least} to {most} nothing refuses {event:?}")),
            };
            let highest = first.last().map_or(0, |(_, at)| *at).max(place);
            first.push((event.ended, highest));
        }
    }
}

/// The lowest number of all commits that began after a moment.
struct Limits(Vec<(u64, u64)>);

impl Limits {
    fn new(mut commits: Vec<(u64, u64)>) -> Self {
        commits.sort_unstable();
        let mut lowest = u64::MAX;
        for (_, sequence) in commits.iter_mut().rev() {
            lowest = lowest.min(*sequence);
            *sequence = lowest;
        }
        Self(commits)
    }

    fn after(&self, moment: u64) -> Option<u64> {
        let at = self.0.partition_point(|(began, _)| *began <= moment);
        self.0.get(at).map(|(_, lowest)| *lowest)
    }
}

/// True if every ref has its expected value.
fn holds(changes: &[RefUpdate], values: &Values) -> bool {
    changes.iter().all(|change| match &change.expected {
        Expected::Any => true,
        Expected::Absent => !values.contains_key(&change.name),
        Expected::Value(value) => values.get(&change.name) == Some(value),
    })
}
