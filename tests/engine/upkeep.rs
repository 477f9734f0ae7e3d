//! Automatic maintenance: when a step is due, how steps keep budgets, and how they handle a full
//! disk.

use std::path::Path;

use turntree::maintenance::{Fullness, Policy, Scope, auto, collect, fsck, set_policy};
use turntree::maintenance::{LastStep, PROTECTED_OPERATIONS, Purpose, StepOutcome};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{BranchName, Repository};
use turntree::store::Thoroughness;
use turntree_tests::sim::Random;
use turntree_tests::{commit_turn, new_store, open_store, stamp};

const BUDGET: u64 = 1 << 20;

fn main_branch() -> BranchName {
    BranchName::main("long").unwrap()
}

/// Commits a turn with some 6 KB that compress to half.
fn turn(repo: &Repository, number: u64) -> ObjectId {
    let mut random = Random(number);
    let text: String = (0..1200).map(|_| format!("{:04x} ", random.below(1 << 16))).collect();
    let second = i64::try_from(number).unwrap();
    commit_turn(repo, &main_branch(), "turn", &stamp(second), |context, change| {
        let key = (number % 3).to_string();
        context.set_entry(change, "scratchpad", &key, Some(text.into())).unwrap();
    })
}

fn with_budget(dir: &Path) -> Repository {
    let repo = new_store(dir);
    let mut change = repo.begin();
    let policy = Policy { budget_bytes: Some(BUDGET), ..Policy::default() };
    set_policy(&mut change, Scope::Default, &policy).unwrap();
    change.commit(&stamp(0), "retention set").unwrap();
    repo
}

fn many_objects(repo: &Repository, first: u64) {
    let objects = (first..first + 8200).map(|number| {
        let bytes = number.to_le_bytes().to_vec();
        let id = ObjectId::of(Kind::Blob, &bytes);
        (id, turntree::object::Object { kind: Kind::Blob, bytes: bytes.into() })
    });
    repo.store().append(objects.collect()).unwrap();
}

#[test]
fn segments_of_live_writers_make_no_collection_due() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    let writer = new_store(&dir);
    many_objects(&writer, 0);
    let other = open_store(&dir, 2);
    assert!(!auto::is_due(&other).unwrap());
    assert!(auto::is_due(&writer).unwrap(), "it can take its own");
    drop(writer);
    assert!(auto::is_due(&other).unwrap());
}

#[test]
fn collections_are_due_again_after_enough_new_data() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    let repo = new_store(&dir);
    turn(&repo, 1);
    many_objects(&repo, 0);
    assert!(auto::step(&repo, &stamp(2)).unwrap().is_some());
    let last = LastStep::of(&repo).unwrap();
    assert_eq!((last.outcome, last.failures, last.left_objects), (StepOutcome::Done, 0, 0));
    turn(&repo, 3);
    assert!(!auto::is_due(&repo).unwrap());
    assert!(auto::step(&repo, &stamp(4)).unwrap().is_none());
    assert_eq!(LastStep::of(&repo).unwrap(), last, "nothing was tried");
    many_objects(&repo, 0);
    assert!(auto::is_due(&repo).unwrap());
}

#[test]
fn concurrent_collections_stop_an_incremental_collection_early() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    let (repo, other) = (new_store(&dir), open_store(&dir, 2));
    many_objects(&repo, 0);
    let lock = other.store().lock_collector().unwrap();
    assert!(repo.store().is_collected().unwrap());
    assert!(repo.store().try_lock_collector().unwrap().is_none());
    assert!(auto::step(&repo, &stamp(1)).unwrap().is_none());
    assert!(auto::settle(&repo, &stamp(1)).unwrap().is_none());
    assert_eq!(LastStep::of(&repo), None);
    let before = repo.refs().sequence;
    let refused = collect(&repo, Purpose::GcNow, &stamp(1), &mut |_| ()).unwrap_err();
    assert_eq!(refused.kind(), turntree::ErrorKind::Locked);
    assert_eq!(repo.refs().sequence, before, "nothing was forgotten before it had the lock");
    drop(lock);
    assert!(auto::step(&repo, &stamp(1)).unwrap().is_some());
}

#[test]
fn incremental_collections_keep_a_store_within_twice_its_budget() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    let repo = with_budget(&dir);
    let (mut fullest, mut steps) = (0, 0);
    for number in 1..=1200 {
        turn(&repo, number);
        let second = i64::try_from(number).unwrap();
        steps += u64::from(auto::step(&repo, &stamp(second)).unwrap().is_some());
        fullest = Fullness::of(&repo).unwrap().file_bytes.max(fullest);
    }
    assert!(fullest <= 2 * BUDGET, "{fullest} bytes after {steps} steps");
    assert!(steps < 120, "{steps} steps");
    for number in 1201..1260 {
        turn(&repo, number);
    }
    assert!(auto::is_over(&repo).unwrap());
    assert!(auto::settle(&repo, &stamp(2000)).unwrap().is_some());
    let fullness = Fullness::of(&repo).unwrap();
    // History indexes count towards no session.
    assert!(fullness.file_bytes <= BUDGET + BUDGET / 50, "{fullness:?}");
    assert!(fullness.file_bytes >= BUDGET / 5 * 4, "as much stays as fits: {fullness:?}");
    assert!(!auto::is_over(&repo).unwrap(), "it does no more by itself");
    let report = fsck(&repo, Thoroughness::Full, stamp(2001).time, &mut |_, _| {});
    assert!(report.unwrap().is_ok());
}

#[test]
fn unreachable_budgets_are_not_retried_until_enough_new_data() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    let repo = with_budget(&dir);
    for number in 1..=260 {
        let id = turn(&repo, number);
        let mut change = repo.begin();
        change.pin(&id, turntree::repo::NewPin::default(), &stamp(1)).unwrap();
        change.commit(&stamp(1), "pin").unwrap();
    }
    for number in 261..=400 {
        let id = turn(&repo, number);
        let mut change = repo.begin();
        change.pin(&id, turntree::repo::NewPin::default(), &stamp(1)).unwrap();
        change.commit(&stamp(1), "pin").unwrap();
    }
    assert!(auto::is_over(&repo).unwrap());
    let _ = auto::settle(&repo, &stamp(1000)).unwrap();
    assert!(Fullness::of(&repo).unwrap().is_over(), "pins stay");
    assert!(!auto::is_over(&repo).unwrap());
    turn(&repo, 1001);
    assert!(!auto::is_over(&repo).unwrap());
}

#[test]
fn the_reserve_is_used_only_on_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    let repo = new_store(&dir);
    let reserve = dir.join("reserve");
    assert!(!reserve.exists());
    repo.store().keep_reserve(None).unwrap();
    let size = || std::fs::metadata(&reserve).unwrap().len();
    assert_eq!(size(), 128 << 10);
    assert_eq!(repo.store().with_reserve(None, size), 128 << 10, "there is room");
    let files = repo.summary().unwrap().file_bytes;
    for content in ["", "torn"] {
        std::fs::write(&reserve, content).unwrap();
        let report = fsck(&repo, Thoroughness::Full, stamp(1).time, &mut |_, _| {});
        assert!(report.unwrap().is_ok());
        repo.store().keep_reserve(None).unwrap();
        assert_eq!(size(), 128 << 10);
        assert_eq!(repo.summary().unwrap().file_bytes, files);
    }
    let mut random = Random(7);
    let content: Vec<u8> = (0..1 << 20).flat_map(|_| random.draw().to_le_bytes()).collect();
    let object = turntree::object::Object { kind: Kind::Blob, bytes: content.into() };
    let id = ObjectId::of(Kind::Blob, &object.bytes);
    repo.store().append(vec![(id, object)]).unwrap();
    repo.store().keep_reserve(None).unwrap();
    assert_eq!(size(), 256 << 10, "a larger store has a larger one");
    let budget = 32 << 10;
    repo.store().keep_reserve(Some(budget)).unwrap();
    assert_eq!(size(), budget / 32, "a small budget has a small one");
    assert_eq!(repo.store().reserve_bytes(), size());
}

#[test]
fn large_records_are_followed_by_no_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    let repo = new_store(&dir);
    let mut random = Random(9);
    let mut append = |bytes: usize| {
        let content: Vec<u8> = (0..bytes / 8).flat_map(|_| random.draw().to_le_bytes()).collect();
        let object = turntree::object::Object { kind: Kind::Blob, bytes: content.into() };
        let id = ObjectId::of(Kind::Blob, &object.bytes);
        let before = repo.summary().unwrap().file_bytes;
        repo.store().append(vec![(id, object)]).unwrap();
        repo.summary().unwrap().file_bytes - before
    };
    for _ in 0..3 {
        let written = append(1 << 20);
        assert!(written <= (1 << 20) + 8192, "{written} bytes");
    }
    assert!(append(4096) > 128 << 10, "a small record is followed by the zeros of the next ones");
    assert_eq!(append(4096), 0);
    let report = fsck(&repo, Thoroughness::Full, stamp(1).time, &mut |_, _| {}).unwrap();
    assert!(report.is_ok());
}

/// Commits a turn with 500 new entries.
fn large_turn(repo: &Repository, number: u64) {
    let second = i64::try_from(number).unwrap();
    commit_turn(repo, &main_branch(), "turn", &stamp(second), |context, change| {
        for entry in 0..500 {
            let (key, text) = (format!("{number}/{entry}"), format!("{number} and {entry}"));
            context.set_entry(change, "scratchpad", &key, Some(text.into())).unwrap();
        }
    });
}

/// Commits turns from `first` on until a step is due, and runs it.
fn turns_and_a_step(repo: &Repository, first: u64) -> u64 {
    let mut number = first;
    while !auto::is_due(repo).unwrap() {
        large_turn(repo, number);
        number += 1;
    }
    let second = i64::try_from(number).unwrap();
    assert!(auto::step(repo, &stamp(second)).unwrap().is_some());
    number
}

#[test]
fn steps_mark_the_store_only_when_something_may_be_gone() {
    let folder = tempfile::tempdir().unwrap();
    let repo = new_store(&folder.path().join("store"));
    let marked = || LastStep::of(&repo).unwrap().marked.unwrap();
    let mut number = turns_and_a_step(&repo, 1);
    let (mut marks, mut last) = (1, marked());
    for _ in 0..24 {
        number = turns_and_a_step(&repo, number);
        marks += u32::from(marked() != last);
        last = marked();
    }
    assert!((5..=17).contains(&marks), "one for each growth by a quarter: {marks} of 25 steps");
    let report = fsck(&repo, Thoroughness::Full, stamp(1).time, &mut |_, _| {}).unwrap();
    assert!(report.is_ok());

    let mut change = repo.begin();
    let plan = BranchName::new("long", "plan").unwrap();
    let tip = repo.tip(&main_branch()).unwrap();
    change.move_branch(&plan, Some(tip));
    change.commit(&stamp(1), "fork").unwrap();
    // Just marked, so that no growth makes the next steps mark.
    let mut last = marked();
    while marked() == last {
        number = turns_and_a_step(&repo, number);
    }
    last = marked();
    let mut change = repo.begin();
    change.delete_branch(&plan);
    change.commit(&stamp(1), "delete").unwrap();
    for _ in 0..PROTECTED_OPERATIONS {
        large_turn(&repo, number);
        number += 1;
    }
    turns_and_a_step(&repo, number);
    assert_ne!(marked(), last, "the content of the deleted branch has become free");
}

#[test]
fn steps_mark_a_store_that_grows_after_a_collection_made_it_smaller() {
    let folder = tempfile::tempdir().unwrap();
    let repo = new_store(&folder.path().join("store"));
    let marked = || LastStep::of(&repo).unwrap().marked.unwrap();
    let large = BranchName::new("long", "large").unwrap();
    let mut random = Random(3);
    let noise: Vec<u8> = (0..3 << 20).flat_map(|_| random.draw().to_le_bytes()).collect();
    commit_turn(&repo, &large, "turn", &stamp(1), |context, change| {
        context.set_entry(change, "scratchpad", "noise", Some(noise.into())).unwrap();
    });
    let mut number = turns_and_a_step(&repo, 1);
    let before = marked();
    let mut change = repo.begin();
    change.delete_branch(&large);
    change.commit(&stamp(2), "delete").unwrap();
    collect(&repo, Purpose::GcNow, &stamp(3), &mut |_| ()).unwrap();
    for _ in 0..6 {
        number = turns_and_a_step(&repo, number);
    }
    assert!(Fullness::of(&repo).unwrap().file_bytes < before.bytes, "it is still smaller");
    assert_ne!(marked().operation, before.operation);
}

#[test]
fn packing_the_journal_loses_nothing_that_no_ref_reaches() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    let repo = new_store(&dir);
    let bytes = b"not yet reachable".to_vec();
    let id = ObjectId::of(Kind::Blob, &bytes);
    let object = turntree::object::Object { kind: Kind::Blob, bytes: bytes.into() };
    for number in 1..=50 {
        turn(&repo, number);
    }
    let tips: Vec<ObjectId> = repo.branches().into_iter().map(|(_, tip)| tip).collect();
    repo.store().append(vec![(id, object)]).unwrap();
    drop(repo);
    let repo = open_store(&dir, 2);
    let packed = auto::pack(&repo, 1).unwrap().unwrap();
    assert_eq!(packed.steps, 1);
    assert_eq!(repo.summary().unwrap().journal_objects, 0);
    assert!(repo.read(&id).unwrap().is_some());
    let turns = repo.history(&tips, &[]).unwrap().filter(Result::is_ok).count();
    assert_eq!(turns, 50);
    let report = fsck(&repo, Thoroughness::Full, stamp(1).time, &mut |_, _| {}).unwrap();
    assert!(report.is_ok());
    collect(&repo, Purpose::Gc, &stamp(60), &mut |_| ()).unwrap();
    assert!(repo.read(&id).unwrap().is_none(), "a collection that marks frees it");
}
