//! A handle that was opened before a collection and commits after it hides nothing that others
//! committed; and a store in which an earlier version did so gets it all back.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turntree::ErrorKind;
use turntree::context::Builder;
use turntree::maintenance::{
    FsckReport, Loss, Purpose, collect, fsck, plan_collection, plan_repair, repair,
};
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Repository, Snapshot};
use turntree::store::{NewStore, OpenOptions, RealIo, Thoroughness, Tier};
use turntree_tests::stamp;

/// More idle segments than are left for others to take over: the rest is sealed by who comes next.
const LATE: u8 = 16;

/// Acknowledged branches, and what they led to.
type Acknowledged = BTreeMap<String, ObjectId>;

fn open(dir: &Path, seed: u8) -> Repository {
    Repository::open(Arc::new(RealIo), dir, OpenOptions::new([seed; 16])).unwrap()
}

/// A snapshot on a branch, as the handle sees the store.
fn note(repo: &Repository, acknowledged: &mut Acknowledged, branch: &str, second: i64) {
    let name: BranchName = branch.parse().unwrap();
    let mut change = repo.begin();
    let mut context = match change.tip(&name) {
        Some(tip) => Builder::from(repo.context(&tip).unwrap()),
        None => Builder::new(),
    };
    let text = format!("{branch} at {second}");
    context.set_entry(&mut change, "scratchpad", "note", Some(text.into())).unwrap();
    let tree = context.write(&mut change).unwrap();
    let id = change.snapshot(&name, Snapshot::new(tree, "a note", &stamp(second))).unwrap();
    change.finish(&stamp(second), "snapshot").unwrap();
    acknowledged.insert(branch.to_owned(), id);
}

/// Commits before a collection, commits of many others behind it, `rounds` each, and then one of a
/// handle that has seen neither.
fn work(dir: &Path, rounds: i64) -> Acknowledged {
    let new = NewStore { id: [0x22; 16] };
    let mut acknowledged = Acknowledged::new();
    let stale = Repository::init(Arc::new(RealIo), dir, &new, OpenOptions::new([1; 16])).unwrap();
    for seed in 2..6 {
        note(&open(dir, seed), &mut acknowledged, &format!("before/{seed}"), seed.into());
    }
    collect(&open(dir, 9), Purpose::Repack(Tier::Hot), &stamp(10), &mut |_| {}).unwrap();
    let late: Vec<Repository> = (0..LATE).map(|number| open(dir, 20 + number)).collect();
    for round in 0..rounds {
        for (number, repo) in late.iter().enumerate() {
            repo.store().refresh().unwrap();
            note(repo, &mut acknowledged, &format!("late/{number}"), 20 + round);
        }
    }
    drop(late);
    note(&stale, &mut acknowledged, "stale/main", 40);
    acknowledged
}

fn check(dir: &Path) -> FsckReport {
    let repo = open(dir, 70);
    fsck(repo.store(), Thoroughness::Full, stamp(60).time, &mut |_, _| {}).unwrap()
}

/// Asserts that every acknowledged branch is there, whole, and that nothing is wrong.
fn assert_all_there(dir: &Path, acknowledged: &Acknowledged) {
    let repo = open(dir, 71);
    for (name, id) in acknowledged {
        let branch: BranchName = name.parse().unwrap();
        let found = repo.branches().into_iter().find(|(there, _)| *there == branch);
        assert_eq!(found.map(|(_, id)| id), Some(*id), "{name}");
        let context = repo.context(id).unwrap();
        let notes = context.map(repo.store(), "scratchpad").unwrap();
        assert!(notes.iter(repo.store()).all(|entry| entry.is_ok()), "{name}");
    }
    assert_eq!(repo.store().findings(), []);
    let report = check(dir);
    assert!(report.is_ok(), "{:?}", report.findings);
}

#[test]
fn a_handle_from_before_a_collection_hides_nothing_of_others() {
    for rounds in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("store");
        let acknowledged = work(&dir, rounds);
        assert_all_there(&dir, &acknowledged);
        collect(&open(&dir, 72), Purpose::Gc, &stamp(50), &mut |_| {}).unwrap();
        assert_all_there(&dir, &acknowledged);
    }
}
