//! Checks the operation log against the attempts: no acknowledged operation is missing, and no
//! other exists.

use std::collections::{BTreeMap, BTreeSet};

use turntree::maintenance::{MIN_OPERATIONS, Policy};
use turntree::object::{Kind, ObjectId, ObjectSource, Operation, RefChange, RefValue};
use turntree::repo::Repository;
use turntree::store::{BatchReport, Committed, Tombstone};

use super::{Attempt, Promise, REASON, Redaction, Target};

/// The kept operations by number.
struct Log {
    operations: BTreeMap<u64, (ObjectId, Operation)>,
    /// The attempts in the log with the numbers of their operations.
    attempts: BTreeMap<usize, u64>,
}

impl Log {
    /// Reads the log from the newest operation back to the first kept one. Fails on a gap.
    fn read(repo: &Repository) -> Self {
        let refs = repo.refs();
        let (mut next, mut sequence) = (refs.operation, refs.sequence);
        let mut operations = BTreeMap::new();
        // Forgotten operations may exist in part.
        let forgotten = repo.forgotten_operations().unwrap();
        while let Some(id) = next.filter(|_| sequence > forgotten || operations.is_empty()) {
            if repo.tombstone(&id) == Some(Tombstone::Elided) && !operations.is_empty() {
                break;
            }
            let bytes = repo.read_as(Kind::Operation, &id);
            let operation = Operation::decode(&bytes.unwrap_or_else(|error| {
                panic!("operation {sequence} of {}: {error:?}", refs.sequence)
            }));
            let operation = operation.unwrap();
            assert_eq!(operation.sequence, sequence);
            next = operation.parents.first().copied();
            operations.insert(sequence, (id, operation));
            sequence -= 1;
        }
        assert!(next.is_some() || sequence == 0, "the log reaches the first operation");
        let number = |operation: &Operation| operation.reason.strip_prefix(REASON)?.parse().ok();
        let numbered = operations.iter();
        let attempts: Vec<(usize, u64)> = numbered
            .filter_map(|(sequence, (_, operation))| Some((number(operation)?, *sequence)))
            .collect();
        let known: BTreeSet<usize> = attempts.iter().map(|(number, _)| *number).collect();
        assert_eq!(known.len(), attempts.len(), "an attempt happened twice");
        Self { operations, attempts: attempts.into_iter().collect() }
    }

    /// The number of the first kept operation.
    fn first(&self) -> u64 {
        self.operations.keys().next().copied().unwrap_or(1)
    }
}

impl Promise {
    /// Points 1 and 2: the operations and the refs.
    pub(super) fn check_log(&self, repo: &Repository) {
        let log = Log::read(repo);
        let may_begin_late = self.redaction > Redaction::None
            || self.forgot_operations
            || (self.collected && log.operations.len() >= MIN_OPERATIONS);
        assert!(log.first() == 1 || may_begin_late, "the log begins at {}", log.first());
        for (number, attempt) in self.attempts.iter().enumerate() {
            let found = log.attempts.get(&number);
            match attempt.acknowledged {
                Some(Committed { sequence, .. }) if sequence < log.first() => {}
                Some(Committed { operation, sequence, .. }) => {
                    let there = log.operations.get(&sequence);
                    let there = there.is_some_and(|(id, _)| *id == operation);
                    assert!(there, "lost: operation {sequence}, {attempt:?}");
                }
                None => assert!(!attempt.refused || found.is_none(), "refused: {attempt:?}"),
            }
        }
        for (number, sequence) in &log.attempts {
            let attempt = self.attempts.get(*number);
            let attempt = attempt.unwrap_or_else(|| panic!("{number} was never tried"));
            let (_, operation) = &log.operations[sequence];
            let names: Vec<&String> = operation.changes.iter().map(|change| &change.name).collect();
            assert!(names.iter().all(|name| attempt.changes.contains_key(*name)), "{names:?}");
            for RefChange { name, new, .. } in &operation.changes {
                let wanted = attempt.changes[name].is_some();
                assert_eq!(new.is_some(), wanted, "{name} of {attempt:?}");
            }
        }
        self.check_refs(repo, &log);
    }

    /// Checks that every ref is at the value of the newest attempt on it that happened.
    fn check_refs(&self, repo: &Repository, log: &Log) {
        let names: BTreeSet<&String> =
            self.attempts.iter().flat_map(|a| a.changes.keys()).collect();
        for name in names {
            let value = repo.refs().value(name).cloned();
            let numbered = self.attempts.iter().enumerate();
            let of_name = numbered.filter_map(|(n, a)| Some((n, a, a.changes.get(name)?)));
            let of_name: Vec<(usize, &Attempt, &Option<Target>)> = of_name.collect();
            let happened = |number: &usize, attempt: &Attempt| {
                let acknowledged = attempt.acknowledged.map(|committed| committed.sequence);
                acknowledged.or_else(|| log.attempts.get(number).copied())
            };
            let newest = of_name.iter().filter_map(|(n, a, to)| Some((happened(n, a)?, *to)));
            let newest = newest.max_by_key(|(sequence, _)| *sequence);
            let expected = newest.map_or(&None, |(_, to)| to);
            // Whether attempts from before the first kept operation happened is unknown.
            let doubtful = of_name
                .iter()
                .filter(|(n, a, _)| log.first() > 1 && !a.refused && happened(n, a).is_none());
            let mut allowed = std::iter::once(expected).chain(doubtful.map(|(.., to)| *to));
            let kept = allowed.any(|target| holds(repo, value.as_ref(), target.as_ref()));
            assert!(kept, "{name} holds {value:?} and should hold {expected:?}");
        }
    }

    /// Sets the outcome of each attempt from the log after a crash. Only correct if all of the log
    /// is durable.
    pub fn settle(&mut self, repo: &Repository) {
        let log = Log::read(repo);
        for (number, attempt) in self.attempts.iter_mut().enumerate() {
            if attempt.acknowledged.is_some() || attempt.refused {
                continue;
            }
            let found = log.attempts.get(&number).map(|sequence| &log.operations[sequence]);
            let committed = found.map(|(id, operation)| Committed {
                operation: *id,
                sequence: operation.sequence,
                written: BatchReport::default(),
            });
            // An attempt older than the log may have happened. Every other one has not, and will
            // not.
            attempt.refused = committed.is_none() && log.first() == 1;
            attempt.acknowledged = committed;
        }
    }
}

/// True if a ref holds the expected target.
fn holds(repo: &Repository, value: Option<&RefValue>, target: Option<&Target>) -> bool {
    match (value, target) {
        (None, None) => true,
        (Some(RefValue::Object(id)), Some(Target::Object(wanted))) => id == wanted,
        (Some(RefValue::Object(id)), Some(Target::Turn(message))) => {
            let commit = repo.peel(id).and_then(|id| repo.commit(&id));
            commit.unwrap().message == *message
        }
        (Some(RefValue::Object(id)), Some(Target::KeepLast(turns))) => {
            let bytes = repo.read_as(Kind::Blob, id).unwrap();
            Policy::decode(&bytes).unwrap().keep_last == Some(*turns)
        }
        (Some(RefValue::Object(_)), Some(Target::Forgotten)) => true,
        _ => false,
    }
}
