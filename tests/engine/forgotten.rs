//! Forgotten sessions: the content that is freed or stays, and the undo of a forget.

use bytes::Bytes;
use turntree::ErrorKind;
use turntree::context::Builder;
use turntree::maintenance::{
    Purpose, apply_store_budget, auto, collect, fsck, measure_sessions, plan_store_budget,
    set_store_budget,
};
use turntree::object::{ObjectId, ObjectSource, Time};
use turntree::repo::{BranchName, NewPin, Repository, SnapshotDraft};
use turntree::store::{Thoroughness, Tier};
use turntree_tests::sim::Random;
use turntree_tests::{Sandbox, commit_note, open_store, stamp};

const DAY: i64 = 24 * 60 * 60;

/// Commits a turn with a unique text that compresses badly.
fn turn(repo: &Repository, branch: &BranchName, second: i64) -> ObjectId {
    let mut random = Random(u64::try_from(second).unwrap() + 77);
    let text: String = (0..1000).map(|_| format!("{:x}", random.draw())).collect();
    let mut change = repo.begin();
    let mut context = match change.tip(branch) {
        Some(tip) => Builder::from(repo.context(&tip).unwrap()),
        None => Builder::new(),
    };
    let key = second.to_string();
    context.set_entry(&mut change, "scratchpad", &key, Some(Bytes::from(text))).unwrap();
    let tree = context.write(&mut change).unwrap();
    let id = change.snapshot(branch, SnapshotDraft::new(tree, "turn", &stamp(second))).unwrap();
    change.commit(&stamp(second), "snapshot").unwrap();
    id
}

fn forget(repo: &Repository, session: &str, second: i64, grace: i64) {
    let mut change = repo.begin();
    let free = (grace > 0).then(|| stamp(second + grace).time.micros);
    change.forget_session(repo, session, &stamp(second), free).unwrap();
    change.commit(&stamp(second), "forget").unwrap();
}

/// Collects with a new handle, as another process. Returns the bytes of the store.
fn gc(sandbox: &Sandbox, seed: u8, second: i64) -> u64 {
    let repo = open_store(&sandbox.store_dir(), seed);
    collect(&repo, Purpose::Gc, &stamp(second), &mut |_| ()).unwrap();
    let report = fsck(&repo, Thoroughness::Full, stamp(second).time, &mut |_, _| {});
    let report = report.unwrap();
    assert!(report.is_ok(), "{:#?}", report.findings);
    report.bytes
}

fn branch(name: &str) -> BranchName {
    name.parse().unwrap()
}

/// A sandbox with sessions of ten turns and no open writer.
fn with_sessions(names: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    let writer = open_store(&sandbox.store_dir(), 50);
    for (number, name) in (0..).zip(names) {
        for second in 0..10 {
            turn(&writer, &branch(name), number * 100 + second);
        }
    }
    sandbox
}

#[test]
fn refs_and_operations_do_not_keep_forgotten_sessions() {
    let sandbox = with_sessions(&["a", "b"]);
    let repo = open_store(&sandbox.store_dir(), 2);
    let (a, tip) = (branch("a"), repo.tip(&branch("a")).unwrap());
    let mut change = repo.begin();
    change.pin(&tip, NewPin { name: Some("p".into()), ..NewPin::default() }, &stamp(300)).unwrap();
    change.commit(&stamp(300), "pin").unwrap();
    let mut change = repo.begin();
    change.tag("t", &tip, String::new(), &stamp(301)).unwrap();
    change.commit(&stamp(301), "tag").unwrap();
    // A rewound line and a deleted branch.
    let first = repo.find_turn(&tip, 3).unwrap();
    let mut change = repo.begin();
    change.move_branch(&a, Some(first));
    change.move_branch(&branch("a/other"), Some(tip));
    change.commit(&stamp(302), "back").unwrap();
    let mut change = repo.begin();
    change.delete_branch(&branch("a/other"));
    change.unpin("p").unwrap();
    change.commit(&stamp(303), "unpin").unwrap();
    let refused = repo.begin().forget_session(&repo, "a", &stamp(304), None).unwrap_err();
    assert!(refused.to_string().contains("tag t"), "{refused}");
    let mut change = repo.begin();
    change.untag("t").unwrap();
    change.commit(&stamp(304), "untag").unwrap();

    let sizes = measure_sessions(&repo, &["a".into()], stamp(305).time).unwrap();
    let (own, rest) = (sizes.sessions[0].size.bytes, sizes.rest.bytes);
    assert!(own.abs_diff(rest) < rest / 4, "{own} of a, {rest} of b");
    let before = gc(&sandbox, 3, 305);
    forget(&repo, "a", 306, 0);
    drop(repo);
    let after = gc(&sandbox, 4, 306);
    assert!(after < before * 6 / 10, "{before} to {after}");
    let repo = open_store(&sandbox.store_dir(), 5);
    assert!(!repo.contains(&tip).unwrap());
    assert!(repo.is_forgotten("a") && !repo.is_forgotten("b"));
    // The old values of refs were collected, and an undo reports it.
    for _ in 0..2 {
        let entry = repo.undoable(None).unwrap().unwrap();
        let refused = repo.plan_undo(entry).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
    }
}

#[test]
fn removed_pins_in_live_segments_may_outlive_their_turn() {
    let sandbox = with_sessions(&["a", "b"]);
    let writing = open_store(&sandbox.store_dir(), 2);
    let tip = writing.tip(&branch("a")).unwrap();
    let mut change = writing.begin();
    let pin = NewPin { name: Some("p".into()), reason: "why".into(), ..NewPin::default() };
    change.pin(&tip, pin, &stamp(300)).unwrap();
    change.commit(&stamp(300), "pin").unwrap();
    let mut change = writing.begin();
    change.unpin("p").unwrap();
    change.commit(&stamp(301), "unpin").unwrap();
    let other = open_store(&sandbox.store_dir(), 3);
    forget(&other, "a", 302, 0);
    drop(other);
    // The pin is in the segment of its writer.
    gc(&sandbox, 4, 303);
    gc(&sandbox, 5, 304);
    drop(writing);
    gc(&sandbox, 6, 305);
}

#[test]
fn undo_restores_forgotten_sessions_until_a_collection() {
    let sandbox = with_sessions(&["a", "b"]);
    let repo = open_store(&sandbox.store_dir(), 2);
    let tip = repo.tip(&branch("a")).unwrap();
    forget(&repo, "a", 300, 7 * DAY);
    assert_eq!(repo.tip(&branch("a")), None);
    let before = gc(&sandbox, 3, 301);
    repo.refresh().unwrap();
    let entry = repo.undoable(None).unwrap().unwrap();
    repo.undo(&repo.plan_undo(entry).unwrap(), &stamp(302), "undo").unwrap();
    assert_eq!(repo.tip(&branch("a")), Some(tip));
    assert!(!repo.is_forgotten("a"), "it is stored again");
    // The session stays whole after the time when its content would have been freed.
    gc(&sandbox, 4, 8 * DAY);
    repo.refresh().unwrap();
    repo.context(&repo.find_turn(&tip, 1).unwrap()).unwrap();

    forget(&repo, "a", 9 * DAY, DAY);
    drop(repo);
    let kept = gc(&sandbox, 5, 9 * DAY + 1);
    assert!(kept > before * 9 / 10, "{before} to {kept}");
    let freed = gc(&sandbox, 6, 10 * DAY + 1);
    assert!(freed < before * 8 / 10, "{before} to {freed}");
}

#[test]
fn restored_sessions_deleted_later_are_not_forgotten() {
    let sandbox = with_sessions(&["a"]);
    let repo = open_store(&sandbox.store_dir(), 2);
    let undo_newest = |second: i64| {
        let newest = repo.operations().next().unwrap().unwrap();
        repo.undo(&repo.plan_undo(newest).unwrap(), &stamp(second), "undo").unwrap();
    };
    let delete = |second: i64| {
        let mut change = repo.begin();
        change.delete_branch(&branch("a"));
        change.commit(&stamp(second), "delete").unwrap();
    };
    forget(&repo, "a", 300, 1000);
    assert!(repo.is_forgotten("a"));
    undo_newest(301);
    // Undoing the undo forgets the session again.
    undo_newest(302);
    assert!(repo.is_forgotten("a"));
    undo_newest(303);
    delete(304);
    assert!(!repo.is_forgotten("a"), "it was deleted");
    undo_newest(305);
    // A deleted session is kept like every deleted branch, even after the grace of the forget.
    delete(306);
    gc(&sandbox, 3, 5000);
    repo.refresh().unwrap();
    assert!(!repo.is_forgotten("a"));
    let mut operations = repo.operations().map(Result::unwrap);
    let deleted = operations.find(|entry| entry.operation.reason == "delete").unwrap();
    repo.undo(&repo.plan_undo(deleted).unwrap(), &stamp(5001), "undo").unwrap();
    let tip = repo.tip(&branch("a")).unwrap();
    repo.context(&tip).unwrap();
    forget(&repo, "a", 5002, 0);
    assert!(repo.is_forgotten("a"), "and forgotten again");
}

#[test]
fn forgetting_a_renamed_session_covers_both_names() {
    let sandbox = with_sessions(&["a", "b"]);
    let repo = open_store(&sandbox.store_dir(), 2);
    let mut change = repo.begin();
    change.rename_branch(&branch("a"), &branch("the-parser")).unwrap();
    change.commit(&stamp(300), "rename").unwrap();
    let before = gc(&sandbox, 3, 301);
    repo.refresh().unwrap();
    let error = repo.begin().forget_session(&repo, "a", &stamp(302), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    forget(&repo, "the-parser", 302, 0);
    assert!(repo.is_forgotten("a") && repo.is_forgotten("the-parser"));
    drop(repo);
    let after = gc(&sandbox, 4, 303);
    assert!(after < before * 6 / 10, "{before} to {after}");
}

#[test]
fn turns_shared_with_another_session_are_kept() {
    let sandbox = with_sessions(&["a"]);
    let repo = open_store(&sandbox.store_dir(), 2);
    let tip = repo.tip(&branch("a")).unwrap();
    let mut change = repo.begin();
    change.move_branch(&branch("fork"), Some(repo.find_turn(&tip, 6).unwrap()));
    change.switch(&branch("a"));
    change.commit(&stamp(300), "fork").unwrap();
    let forked = turn(&repo, &branch("fork"), 301);
    forget(&repo, "a", 302, 0);
    drop(repo);
    gc(&sandbox, 3, 303);
    let repo = open_store(&sandbox.store_dir(), 4);
    assert!(!repo.contains(&tip).unwrap());
    for number in 1..=7 {
        repo.context(&repo.find_turn(&forked, number).unwrap()).unwrap();
    }
    // HEAD leaves a forgotten session.
    assert_eq!(repo.head().unwrap().branch.session(), "default");
    // Its transcript can be imported again; old operations do not prevent it.
    turn(&repo, &branch("a"), 0);
    assert!(!repo.is_forgotten("a"));
    drop(repo);
    gc(&sandbox, 5, 400);
}

#[test]
fn incremental_collections_leave_no_dangling_references() {
    let sandbox = with_sessions(&["a", "b", "c"]);
    let repo = open_store(&sandbox.store_dir(), 2);
    collect(&repo, Purpose::Step, &stamp(300), &mut |_| ()).unwrap();
    for number in 0..10 {
        turn(&repo, &branch("a"), 310 + number);
    }
    drop(repo);
    let repo = open_store(&sandbox.store_dir(), 3);
    forget(&repo, "a", 330, 0);
    collect(&repo, Purpose::Step, &stamp(331), &mut |_| ()).unwrap();
    let entry = repo.undoable(None).unwrap().unwrap();
    if let Ok(plan) = repo.plan_undo(entry) {
        repo.undo(&plan, &stamp(332), "undo").unwrap();
    }
    let report = fsck(&repo, Thoroughness::Full, Time::default(), &mut |_, _| {}).unwrap();
    assert!(report.is_ok(), "{:#?}", report.findings);
    gc(&sandbox, 4, 333);
}

#[test]
fn budgets_forget_the_oldest_unprotected_sessions() {
    let sandbox = with_sessions(&["oldest", "pinned", "middle", "newest"]);
    let repo = open_store(&sandbox.store_dir(), 2);
    let tip = repo.tip(&branch("pinned")).unwrap();
    let mut change = repo.begin();
    change.pin(&tip, NewPin::default(), &stamp(500)).unwrap();
    change.switch(&branch("newest"));
    change.commit(&stamp(500), "pin").unwrap();
    let now = stamp(3 * DAY);
    let full = plan_store_budget(&repo, u64::MAX, now.time).unwrap();
    assert_eq!(full.going().count(), 0);
    let each = full.sessions[0].own.size.bytes;
    // A pinned session counts as rest. Of the other three, one always stays, and the budget has
    // room for one more.
    let budget = full.rest.bytes + each * 5 / 2;
    let plan = plan_store_budget(&repo, budget, now.time).unwrap();
    let going: Vec<&str> = plan.going().map(|it| it.own.session.as_str()).collect();
    assert_eq!(going, ["oldest"]);
    assert!(plan.staying_bytes() <= budget, "{plan:?}");
    let least = plan_store_budget(&repo, 1, now.time).unwrap();
    let going: Vec<&str> = least.going().map(|it| it.own.session.as_str()).collect();
    assert_eq!(going, ["middle", "oldest"]);

    // A session that another writer continues after the plan stays.
    commit_note(&repo, &branch("oldest"), ("a", "later"), &now);
    let error = apply_store_budget(&repo, &plan, &now).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let entry = repo.undoable(None).unwrap().unwrap();
    repo.undo(&repo.plan_undo(entry).unwrap(), &now, "undo").unwrap();

    apply_store_budget(&repo, &plan, &now).unwrap().unwrap();
    let again = plan_store_budget(&repo, budget, now.time).unwrap();
    assert_eq!(again.going().count(), 0, "what leaves already counts no more");
    assert!(again.leaving.bytes > each / 2, "{again:?}");
    drop(repo);
    let before = gc(&sandbox, 3, 3 * DAY + 1);
    let after = gc(&sandbox, 4, 4 * DAY + 1);
    assert!(after + each / 2 < before, "{before} to {after}");
}

#[test]
fn every_maintenance_entry_point_enforces_the_budget() {
    for steps in [true, false] {
        let sandbox = Sandbox::new();
        let writer = open_store(&sandbox.store_dir(), 2);
        for (second, name) in (0..).zip(["oldest", "of-p", "newest"]) {
            let mut random = Random(second + 7);
            let noise: Vec<u8> = (0..600_000).flat_map(|_| random.draw().to_le_bytes()).collect();
            let mut change = writer.begin();
            let mut context = Builder::new();
            context.set_entry(&mut change, "scratchpad", "n", Some(Bytes::from(noise))).unwrap();
            if name == "of-p" {
                context.set_entry(&mut change, "meta", "cwd", Some("/p".into())).unwrap();
            }
            let tree = context.write(&mut change).unwrap();
            let at = stamp(i64::try_from(second).unwrap());
            change.snapshot(&branch(name), SnapshotDraft::new(tree, "turn", &at)).unwrap();
            set_store_budget(&mut change, Some(1 << 20)).unwrap();
            change.commit(&at, "snapshot").unwrap();
        }
        drop(writer);
        let repo = open_store(&sandbox.store_dir(), 3);
        let now = stamp(3 * DAY);
        if steps {
            // As a host that embeds the library does between turns.
            auto::step(&repo, &now).unwrap();
        } else {
            let collected = collect(&repo, Purpose::Gc, &now, &mut |_| ()).unwrap();
            assert!(collected.budget.is_some());
        }
        let left: Vec<String> = repo.branches().into_iter().map(|(it, _)| it.to_string()).collect();
        assert_eq!(left, ["newest/main", "of-p/main"], "the newest of a directory stays");
        assert!(repo.expired_at("oldest").is_some());
        let undone = repo.undoable(None).unwrap().unwrap();
        repo.undo(&repo.plan_undo(undone).unwrap(), &stamp(3 * DAY + 1), "undo").unwrap();
        assert!(repo.tip(&branch("oldest")).is_some(), "an undo brings it back");
    }
}

#[test]
fn damaged_garbage_commits_do_not_stop_collections() {
    let sandbox = with_sessions(&["a"]);
    let repo = open_store(&sandbox.store_dir(), 2);
    let tip = repo.tip(&branch("a")).unwrap();
    let gone: Vec<ObjectId> = (1..=10).map(|turn| repo.find_turn(&tip, turn).unwrap()).collect();
    drop(repo);
    let repo = open_store(&sandbox.store_dir(), 3);
    collect(&repo, Purpose::Repack(Tier::Compacted), &stamp(200), &mut |_| ()).unwrap();
    drop(repo);
    let writer = open_store(&sandbox.store_dir(), 4);
    turn(&writer, &branch("b"), 300);
    forget(&writer, "a", 301, 0);
    drop(writer);
    let packs = std::fs::read_dir(sandbox.store_dir().join("packs")).unwrap();
    let mut packs = packs.map(|entry| entry.unwrap().path());
    let pack = packs.find(|path| path.extension().is_some_and(|it| it == "pack")).unwrap();
    let whole = std::fs::read(&pack).unwrap();
    let mut damage = (96..whole.len()).step_by(211).filter(|at| {
        let mut damaged = whole.clone();
        damaged[*at] ^= 0x20;
        std::fs::write(&pack, damaged).unwrap();
        let repo = open_store(&sandbox.store_dir(), 5);
        let is_damaged = gone.iter().any(|id| repo.read(id).is_err());
        is_damaged && repo.operations().all(|entry| entry.is_ok())
    });
    damage.next().expect("a place where commits of the session lie, and nothing that stays");
    let repo = open_store(&sandbox.store_dir(), 6);
    collect(&repo, Purpose::Gc, &stamp(302), &mut |_| ()).unwrap();
    drop(repo);
    let repo = open_store(&sandbox.store_dir(), 7);
    assert!(gone.iter().all(|id| !repo.contains(id).unwrap_or(true)));
    let report = fsck(&repo, Thoroughness::Full, stamp(303).time, &mut |_, _| {}).unwrap();
    assert!(report.is_ok(), "{:#?}", report.findings);
}
