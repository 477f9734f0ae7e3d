//! Sessions expire, operations are forgotten, and the content that only they referenced is freed.

use turntree::ErrorKind;
use turntree::maintenance::Policies;
use turntree::maintenance::{
    GRACE_MICROS, Policy, Purpose, Scope, auto, collect, fsck, plan_collection,
    plan_collection_after, plan_expired_sessions, plan_expiring, set_policy,
};
use turntree::object::ObjectSource;
use turntree::repo::{BranchName, NewPin, Repository};
use turntree::store::Thoroughness;
use turntree_tests::{Sandbox, commit_note, stamp};

const DAY: i64 = 24 * 60 * 60;

fn branch(name: &str) -> BranchName {
    name.parse().unwrap()
}

/// Commits turns to a session, a second apart, each with a unique text.
fn turns(repo: &Repository, name: &str, first: i64, count: i64) {
    for second in first..first + count {
        let text = format!("{name} {second} ").repeat(40);
        commit_note(repo, &branch(name), ("a", &text), &stamp(second));
    }
}

fn policy(repo: &Repository, scope: Scope<'_>, policy: &Policy) {
    let mut change = repo.begin();
    set_policy(&mut change, scope, policy).unwrap();
    change.commit(&stamp(0), "retention").unwrap();
}

fn expire(days: i64) -> Policy {
    Policy { expire_session: Some(days * DAY * 1_000_000), ..Policy::default() }
}

fn gc(repo: &Repository, second: i64) {
    collect(repo, Purpose::Gc, &stamp(second), &mut |_| {}).unwrap();
    assert_whole(repo, second);
}

fn assert_whole(repo: &Repository, second: i64) {
    let report = fsck(repo, Thoroughness::Full, stamp(second).time, &mut |_, _| {}).unwrap();
    assert!(report.is_ok(), "{:#?}", report.findings);
}

fn sessions(repo: &Repository) -> Vec<String> {
    repo.branches().iter().map(|(branch, _)| branch.session().to_owned()).collect()
}

#[test]
fn sessions_expire_completely_and_undo_restores_them_for_a_day() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    policy(repo, Scope::Default, &expire(30));
    policy(repo, Scope::Session("kept"), &Policy::default());
    for name in ["old", "pinned", "kept"] {
        turns(repo, name, 1, 4);
    }
    let mut change = repo.begin();
    change.pin(&repo.tip(&branch("pinned")).unwrap(), NewPin::default(), &stamp(9)).unwrap();
    change.commit(&stamp(9), "pin").unwrap();
    turns(repo, "new", 20 * DAY, 4);
    gc(repo, 30 * DAY);
    assert_eq!(sessions(repo), ["kept", "new", "old", "pinned"]);

    let (late, tip) = (31 * DAY, repo.tip(&branch("old")).unwrap());
    let policies = Policies::load(repo, &repo.refs()).unwrap();
    let plan = plan_expired_sessions(repo, &policies, stamp(late).time).unwrap();
    assert_eq!(plan.iter().map(|it| &*it.session).collect::<Vec<_>>(), ["old"]);
    gc(repo, late);
    assert_eq!(sessions(repo), ["kept", "new", "pinned"]);
    let entry = repo.undoable(None).unwrap().unwrap();
    assert_eq!(entry.operation.reason, "expire 1 session");
    repo.undo(&repo.plan_undo(entry).unwrap(), &stamp(late + 1), "undo").unwrap();
    assert_eq!(repo.tip(&branch("old")), Some(tip));
    // The undo changed its branches, so its time to live starts again.
    gc(repo, late + 2);
    assert!(sessions(repo).contains(&"old".to_owned()));

    let later = late + 31 * DAY;
    gc(repo, later);
    assert_eq!(sessions(repo), ["kept", "pinned"]);
    assert!(repo.contains(&tip).unwrap());
    gc(repo, later + GRACE_MICROS / 1_000_000);
    assert!(!repo.contains(&tip).unwrap());
    // The session expired without being forgotten by name: a new turn restores it.
    assert!(!repo.is_forgotten("old"));
    assert_eq!(repo.expired_at("old"), Some(stamp(later).time.micros));
    turns(repo, "old", later + 1, 1);
    assert_eq!((repo.is_forgotten("old"), repo.expired_at("old")), (false, None));
    let again = repo.tip(&branch("old")).unwrap();
    gc(repo, later + 2 * DAY);
    assert_eq!(repo.tip(&branch("old")), Some(again));
    assert_whole(repo, later + 2 * DAY);
}

/// Writes a cache of each kind into the store. Returns the caches that exist after `change`.
fn caches_after(sandbox: &Sandbox, change: impl FnOnce()) -> Vec<String> {
    let folder = sandbox.store_dir().join("workspaces");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["adopted", "derived-search", "notes-ab", "0123"] {
        std::fs::write(folder.join(name), "words").unwrap();
    }
    change();
    let names = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn caches_are_deleted_with_the_content_they_may_name() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    turns(repo, "cut", 1, 4);
    turns(repo, "old", 1, 4);
    turns(repo, "gone", 1, 4);
    let all = ["0123", "adopted", "derived-search", "notes-ab"];
    assert_eq!(caches_after(&sandbox, || gc(repo, 10)), all);

    policy(
        repo,
        Scope::Session("cut"),
        &Policy { keep_last: Some(1), strict: true, ..Policy::default() },
    );
    let left = caches_after(&sandbox, || gc(repo, 11));
    assert_eq!(left, ["0123", "adopted", "notes-ab"], "turns expired");

    let mut change = repo.begin();
    let grace = Some(stamp(100).time.micros);
    change.forget_session(repo, "gone", &stamp(20), grace).unwrap();
    change.commit(&stamp(20), "forget").unwrap();
    assert_eq!(caches_after(&sandbox, || gc(repo, 30)), all, "an undo can bring it back");
    assert_eq!(caches_after(&sandbox, || gc(repo, 100)), ["adopted"], "a session was freed");

    policy(repo, Scope::Session("old"), &expire(30));
    assert_eq!(caches_after(&sandbox, || gc(repo, 40 * DAY)), all, "an undo can bring it back");
    let later = 40 * DAY + GRACE_MICROS / 1_000_000;
    assert_eq!(caches_after(&sandbox, || gc(repo, later)), ["adopted"], "a session expired");
}

#[test]
fn strictly_expired_content_is_freed_immediately() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let hour = Policy { expire_session: Some(3600 * 1_000_000), strict: true, ..Policy::default() };
    policy(repo, Scope::Default, &hour);
    turns(repo, "cache", 1, 4);
    let tip = repo.tip(&branch("cache")).unwrap();
    gc(repo, 3604);
    assert_eq!(sessions(repo), ["cache"]);
    gc(repo, 3605);
    assert!(sessions(repo).is_empty());
    assert!(!sandbox.reopened().contains(&tip).unwrap());
    let entry = repo.undoable(None).unwrap().unwrap();
    assert_eq!(repo.plan_undo(entry).unwrap_err().kind(), ErrorKind::NotFound);
    // A new turn starts the session from nothing.
    turns(repo, "cache", 4000, 1);
    gc(repo, 4001);
    assert_eq!(sessions(repo), ["cache"]);
}

#[test]
fn recently_imported_sessions_stay_when_their_operation_is_forgotten() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    policy(repo, Scope::Default, &expire(30));
    turns(repo, "old", 1, 2);
    // Its turns are two months old, but the import is recent: its branch dates from today.
    turns(repo, "imported", 1, 2);
    let (tip, today) = (repo.tip(&branch("imported")).unwrap(), 60 * DAY);
    for to in [None, Some(tip)] {
        let mut change = repo.begin();
        change.move_branch(&branch("imported"), to);
        change.commit(&stamp(today), "import").unwrap();
    }
    let now = stamp(today + 1);
    let expired = plan_expiring(repo, Purpose::GcNow, now.time).unwrap();
    assert_eq!(expired.iter().map(|it| &*it.session).collect::<Vec<_>>(), ["old"]);
    let planned = plan_collection(repo, Purpose::GcNow, now.time).unwrap().garbage;
    let done = collect(repo, Purpose::GcNow, &now, &mut |_| {}).unwrap();
    assert_eq!(sessions(repo), ["imported"]);
    assert!(done.forgot_operations.is_some());
    assert_eq!(repo.operations().count(), 1, "the one that forgot the others");
    // The plan includes what expires immediately. The operations of the collection are new garbage.
    let missing = done.freed.objects.abs_diff(planned.objects);
    assert!(planned.objects > 4 && missing <= 2, "{planned:?}: {:?}", done.freed);
    assert_whole(repo, today + 2);
}

#[test]
fn due_incremental_collections_expire_sessions() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    policy(repo, Scope::Default, &expire(1));
    turns(repo, "old", 1, 2);
    collect(repo, Purpose::Step, &stamp(2 * DAY), &mut |_| {}).unwrap();
    assert!(sessions(repo).is_empty());
    assert!(!auto::is_due(repo).unwrap());
}

#[test]
fn a_deleted_branch_is_freed_when_its_operations_are_forgotten() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    turns(repo, "kept", 1, 5);
    turns(repo, "gone", 10, 40);
    let tip = repo.tip(&branch("gone")).unwrap();
    let mut change = repo.begin();
    change.delete_branch(&branch("gone"));
    let deleted = change.commit(&stamp(60), "delete").unwrap().sequence;
    turns(repo, "kept", 70, 1);
    gc(repo, 80);
    assert!(repo.contains(&tip).unwrap());

    let now = stamp(80).time;
    let before = plan_collection(repo, Purpose::Gc, now).unwrap().garbage;
    let after = plan_collection_after(repo, Purpose::Gc, now, deleted).unwrap().garbage;
    assert!(after.objects > before.objects + 100, "{before:?} {after:?}");
    let mut change = repo.begin();
    assert!(change.forget_operations(deleted + 7).is_err());
    change.forget_operations(deleted).unwrap();
    change.commit(&stamp(81), "op forget").unwrap();
    // The log now begins after the deletion.
    let kept: Vec<u64> = repo.operations().map(|entry| entry.unwrap().operation.sequence).collect();
    assert_eq!(kept, [deleted + 2, deleted + 1]);
    let number = deleted.to_string();
    assert_eq!(repo.find_operation(&number).unwrap_err().kind(), ErrorKind::NotFound);
    assert_whole(repo, 81);
    gc(repo, 82);
    let repo = sandbox.reopened();
    assert!(!repo.contains(&tip).unwrap());
    assert_eq!(repo.operations().count(), 2);
    assert_whole(&repo, 83);
    // Nothing restores the deleted branches, neither the log nor an undo.
    let forgetting = repo.operations().next().unwrap().unwrap();
    assert_eq!(repo.plan_undo(forgetting).unwrap_err().kind(), ErrorKind::InvalidInput);
    turns(&repo, "kept", 90, 3);
    gc(&repo, 99);
    assert_eq!(repo.operations().count(), 5);
}
