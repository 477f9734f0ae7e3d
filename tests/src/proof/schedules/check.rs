//! The invariants after a schedule, and after a crash during it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use turntree::maintenance::{FsckKind, Purpose, collect, fsck};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::Repository;
use turntree::store::{Expected, FindingKind, Thoroughness};

use super::actor::{Record, notes, same};
use super::script::{Script, Step};
use crate::oracle::{DIR, blob, options, set};
use crate::proof::linear::history::Witness;
use crate::schedule::Trace;
use crate::sim::{Keep, SimDisk};
use crate::stamp;

/// The disk after a crash, and the number of acknowledgements by then.
pub struct Image {
    disk: SimDisk,
    turns: usize,
    blobs: usize,
}

impl Image {
    /// Stores the numbers of acknowledgements in `record`.
    #[must_use]
    pub fn new(disk: SimDisk, record: &Record) -> Self {
        Self { disk, turns: record.turns.len(), blobs: record.blobs.len() }
    }

    /// Asserts that every change acknowledged by then exists, and that the store accepts commits.
    ///
    /// # Panics
    /// If not.
    pub fn check(&self, record: &Record, redacts: bool) {
        let Some(repo) = try_open(&self.disk, 1 << 50) else {
            assert_eq!((self.turns, self.blobs), (0, 0), "the store is lost");
            return;
        };
        let promised = (&record.turns[..self.turns], &record.blobs[..self.blobs]);
        check_promised(&repo, record, promised, redacts);
        check_goes_on(&repo, true);
        check_promised(&repo, record, promised, redacts);
    }
}

/// Asserts that all acknowledged changes exist, and that the processes leave nothing that blocks
/// others.
///
/// # Panics
/// If not.
pub fn check(disk: &SimDisk, record: &Record, script: &Script, trace: &Trace) {
    let redacts = script.processes.concat().iter().any(|step| matches!(step, Step::Redact));
    let Some(repo) = try_open(disk, 1 << 51) else {
        assert!(trace.killed && record.turns.is_empty() && record.blobs.is_empty());
        return;
    };
    let promised = (&*record.turns, &*record.blobs);
    check_promised(&repo, record, promised, redacts);
    if !redacts {
        let witness = Witness::of(repo.store());
        let _ = witness.check(&record.history);
    }
    check_goes_on(&repo, trace.killed);
    check_promised(&repo, record, promised, redacts);
    // All acknowledged changes survive the next crash too.
    let crashed = try_open(&disk.crash(Keep::Nothing), 1 << 52).expect("the store opens");
    check_promised(&crashed, record, promised, redacts);
}

fn try_open(disk: &SimDisk, seed: u64) -> Option<Repository> {
    Repository::open(Arc::new(disk.clone()), Path::new(DIR), options(seed)).ok()
}

fn check_promised(
    repo: &Repository,
    record: &Record,
    (turns, blobs): (&[String], &[ObjectId]),
    redacts: bool,
) {
    let findings = repo.findings();
    let damage = findings.iter().find(|finding| finding.kind == FindingKind::Damage);
    assert_eq!(damage, None, "nothing was damaged");
    for id in blobs {
        assert!(repo.read(id).expect("a blob").is_some(), "blob {id} is lost");
    }
    let found = lines(repo);
    for message in turns {
        let turn = &record.tried[message];
        // A redaction changes the ids of commits. Otherwise even commits of deleted branches stay,
        // for undo.
        let commit = if redacts { found.get(message).copied() } else { Some(turn.commit) };
        let commit = commit.unwrap_or_else(|| panic!("lost: {message}, {turn:?}"));
        let found = notes(repo, &commit);
        assert!(
            found.as_ref().is_ok_and(|found| same(found, &turn.notes)),
            "{message}: {found:?} instead of {turn:?}"
        );
    }
}

/// The commit of each message on every branch.
fn lines(repo: &Repository) -> BTreeMap<String, ObjectId> {
    let mut found = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (_, tip) in repo.branches() {
        let mut next = Some(tip);
        while let Some(id) = next.filter(|id| seen.insert(*id)) {
            let commit = repo.commit(&id).expect("a commit reachable from a branch");
            notes(repo, &id).expect("the notes of a commit reachable from a branch");
            next = commit.parents.first().copied();
            let before = found.insert(commit.message.clone(), id);
            assert_eq!(before, None, "{} is listed twice", commit.message);
        }
    }
    found
}

/// Checks that the next process can commit and collect, and finds no damage.
fn check_goes_on(repo: &Repository, killed: bool) {
    let (id, object) = blob(b"the commit after".to_vec());
    let committed =
        repo.store().commit(vec![(id, object)], &set("refs/x/after", Expected::Any, id));
    committed.expect("the store accepts a commit");
    collect(repo, Purpose::Gc, &stamp(4), &mut |_| {}).expect("nothing is in the way");
    assert!(repo.read_as(Kind::Blob, &id).is_ok());
    let report = fsck(repo, Thoroughness::Full, stamp(4).time, &mut |_, _| {});
    let report = report.expect("the store can be examined");
    let left = |kind| killed && matches!(kind, FsckKind::TornTail | FsckKind::Leftover);
    let wrong = report.findings.iter().find(|finding| !left(finding.kind));
    assert!(wrong.is_none(), "{wrong:?}");
}
