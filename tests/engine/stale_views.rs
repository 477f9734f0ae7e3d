//! A commit by a handle that was opened before a collection hides no operation of other writers. A
//! store in which this happened is fully restored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turntree::ErrorKind;
use turntree::maintenance::{
    FsckReport, Loss, Purpose, collect, fsck, plan_collection, plan_repair, repair,
};
use turntree::object::{Commit, Kind, ObjectId, ObjectSource as _};
use turntree::repo::{BranchName, Repository};
use turntree::store::{NewStore, OpenOptions, RealIo, Thoroughness, Tier};
use turntree_tests::{commit_note, open_store, stamp};

/// More idle segments than stay for reuse: the next writer seals the rest.
const LATE: u8 = 16;

/// Acknowledged branches and their tips.
type Acknowledged = BTreeMap<String, ObjectId>;

/// Commits a snapshot on a branch, based on the handle's view of the store.
fn note(repo: &Repository, acknowledged: &mut Acknowledged, branch: &str, second: i64) {
    let (name, text) = (branch.parse().unwrap(), format!("{branch} at {second}"));
    let id = commit_note(repo, &name, ("note", &text), &stamp(second));
    acknowledged.insert(branch.to_owned(), id);
}

/// Commits before a collection, then `rounds` commits of many other handles after it, then a commit
/// by a handle that has seen neither.
fn work(dir: &Path, rounds: i64) -> Acknowledged {
    let new = NewStore { id: [0x22; 16] };
    let mut acknowledged = Acknowledged::new();
    let stale = Repository::init(Arc::new(RealIo), dir, &new, OpenOptions::new([1; 16])).unwrap();
    for seed in 2..6 {
        note(&open_store(dir, seed), &mut acknowledged, &format!("before/{seed}"), seed.into());
    }
    collect(&open_store(dir, 9), Purpose::Repack(Tier::Hot), &stamp(10), &mut |_| {}).unwrap();
    let late: Vec<Repository> = (0..LATE).map(|number| open_store(dir, 20 + number)).collect();
    for round in 0..rounds {
        for (number, repo) in late.iter().enumerate() {
            repo.refresh().unwrap();
            note(repo, &mut acknowledged, &format!("late/{number}"), 20 + round);
        }
    }
    drop(late);
    note(&stale, &mut acknowledged, "stale/main", 40);
    acknowledged
}

fn check(dir: &Path) -> FsckReport {
    let repo = open_store(dir, 70);
    fsck(&repo, Thoroughness::Full, stamp(60).time, &mut |_, _| {}).unwrap()
}

/// Checks that every acknowledged branch exists and is whole, and that the store is sound.
fn assert_all_there(dir: &Path, acknowledged: &Acknowledged) {
    let repo = open_store(dir, 71);
    for (name, id) in acknowledged {
        let branch: BranchName = name.parse().unwrap();
        let found = repo.branches().into_iter().find(|(there, _)| *there == branch);
        assert_eq!(found.map(|(_, id)| id), Some(*id), "{name}");
        let context = repo.context(id).unwrap();
        let notes = context.map(&repo, "scratchpad").unwrap();
        assert!(notes.iter(&repo).all(|entry| entry.is_ok()), "{name}");
    }
    assert_eq!(repo.findings(), []);
    let report = check(dir);
    assert!(report.is_ok(), "{:?}", report.findings);
}

#[test]
fn handles_from_before_a_collection_hide_no_operations() {
    for rounds in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("store");
        let acknowledged = work(&dir, rounds);
        assert_all_there(&dir, &acknowledged);
        collect(&open_store(&dir, 72), Purpose::Gc, &stamp(50), &mut |_| {}).unwrap();
        assert_all_there(&dir, &acknowledged);
    }
}

/// Stores in which a writer hid operations of other writers, with the acknowledged
/// branches: `silent`, where nothing shows it; `gap`, where commits follow the hidden ones; and
/// `forked`, where more was committed on the visible rest.
fn damaged(name: &str) -> (tempfile::TempDir, PathBuf, Vec<(String, ObjectId)>) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR"));
    let golden = golden.join("../format-spec/vectors/hidden-operations").join(name);
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    copy(&golden.join("store"), &dir);
    let text = fs::read_to_string(golden.join("acknowledged")).unwrap();
    let lines = text.lines().map(|line| line.split_once(' ').unwrap());
    let acknowledged = lines.map(|(name, id)| (name.to_owned(), id.parse().unwrap()));
    let acknowledged = acknowledged.collect();
    (folder, dir, acknowledged)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, name) = {
            let entry = entry.unwrap();
            (entry.path(), entry.file_name())
        };
        match path.is_dir() {
            true => copy(&path, &to.join(name)),
            false => fs::copy(&path, to.join(name)).map(drop).unwrap(),
        }
    }
}

/// The snapshots reachable from a branch, each read whole.
fn reached(dir: &Path) -> BTreeSet<ObjectId> {
    let repo = open_store(dir, 73);
    let mut reached = BTreeSet::new();
    let mut open: Vec<ObjectId> = repo.branches().into_iter().map(|(_, id)| id).collect();
    while let Some(id) = open.pop().filter(|id| !reached.contains(id)) {
        let commit = repo.read_as(Kind::Commit, &id).unwrap();
        open.extend(Commit::decode(&commit).unwrap().parents);
        let notes = repo.context(&id).unwrap().map(&repo, "scratchpad").unwrap();
        assert!(notes.iter(&repo).all(|entry| entry.is_ok()));
        reached.insert(id);
    }
    reached
}

fn missing(dir: &Path, acknowledged: &[(String, ObjectId)]) -> Vec<String> {
    let reached = reached(dir);
    let missing = acknowledged.iter().filter(|(_, id)| !reached.contains(id));
    missing.map(|(name, _)| name.clone()).collect()
}

const DAMAGED: [&str; 3] = ["silent", "gap", "forked"];

#[test]
fn hidden_operations_are_reported_and_block_collections() {
    for name in DAMAGED {
        let (_folder, dir, _) = damaged(name);
        assert!(!check(&dir).is_ok(), "{name}");
        let repo = open_store(&dir, 74);
        let refused = plan_collection(&repo, Purpose::Gc, stamp(60).time).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{name}: {refused}");
        assert!(refused.to_string().contains("turntree repair"), "{refused}");
    }
}

#[test]
fn repair_restores_hidden_operations() {
    for name in DAMAGED {
        let (_folder, dir, acknowledged) = damaged(name);
        // The store accepts commits before the repair.
        note(&open_store(&dir, 75), &mut Acknowledged::new(), "new/before", 61);
        let planned = plan_repair(&open_store(&dir, 76), &stamp(62), &mut |_, _| {}).unwrap();
        assert!(!planned.is_empty(Loss::Refuse) && planned.lost.is_empty(), "{name}");
        let repaired =
            repair(&open_store(&dir, 76), Loss::Refuse, &stamp(62), &mut |_, _| {}).unwrap();
        assert!(repaired.report.is_ok(), "{name}: {:?}", repaired.report.findings);
        assert_eq!(missing(&dir, &acknowledged), Vec::<String>::new(), "{name}");
        let again =
            repair(&open_store(&dir, 77), Loss::Refuse, &stamp(63), &mut |_, _| {}).unwrap();
        assert!(again.plan.is_empty(Loss::Refuse), "{name}: {:?}", again.plan);
        // And after it: a commit, and a collection.
        note(&open_store(&dir, 78), &mut Acknowledged::new(), "new/after", 64);
        collect(&open_store(&dir, 79), Purpose::Gc, &stamp(65), &mut |_| {}).unwrap();
        assert_eq!(missing(&dir, &acknowledged), Vec::<String>::new(), "{name}");
        let report = check(&dir);
        assert!(report.is_ok(), "{name}: {:?}", report.findings);
    }
}

#[test]
fn hidden_turns_of_a_continued_branch_are_recovered_to_another() {
    let (_folder, dir, acknowledged) = damaged("forked");
    let tip = |dir: &Path, branch: &str| {
        let branch: BranchName = branch.parse().unwrap();
        open_store(dir, 80)
            .branches()
            .into_iter()
            .find(|(name, _)| *name == branch)
            .map(|(_, id)| id)
    };
    let before = tip(&dir, "late/3");
    repair(&open_store(&dir, 76), Loss::Refuse, &stamp(62), &mut |_, _| {}).unwrap();
    assert_eq!(tip(&dir, "late/3"), before);
    let hidden = acknowledged.iter().find(|(name, _)| name == "late/3").unwrap().1;
    assert_eq!(tip(&dir, "late/3-recovered"), Some(hidden));
    // The repair is the newest operation, so it can be undone.
    let repo = open_store(&dir, 81);
    let newest = repo.operations().next().unwrap().unwrap().operation;
    assert!(newest.reason.starts_with("repair: "), "{}", newest.reason);
}
