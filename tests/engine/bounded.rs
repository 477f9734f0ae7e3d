//! Policies reach their planned result: the ten cases of the audit, with the turns that stay and
//! why.

use std::fs;

use turntree::ErrorKind;
use turntree::maintenance::{Keep, plan_collection};
use turntree::maintenance::{Policy, Purpose, Scope, collect, fsck, plan_policies, set_policy};
use turntree::repo::BranchName;
use turntree::store::{Thoroughness, Tier};
use turntree_tests::bounded::{Before, Bounded, BoundedCase, play, ten_policies};
use turntree_tests::{Sandbox, commit_note, open_store, stamp};

/// The tests play one turn in `SCALE` of the audit.
const SCALE: u64 = 20;

fn played(case: &BoundedCase, before: Before) -> Bounded {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    let bounded = play(&dir, case, before);
    let report =
        fsck(&open_store(&dir, 9), Thoroughness::Full, stamp(1 << 30).time, &mut |_, _| {});
    let report = report.unwrap();
    assert!(report.is_ok(), "{}: {:#?}", case.name, report.findings);
    bounded
}

#[test]
fn ten_retention_policies_keep_their_promise() {
    for case in ten_policies(SCALE) {
        let found = played(&case, Before::Written);
        let what = format!("{}: {found:?}", case.name);
        match case.policy.as_ref().and_then(|policy| policy.budget_bytes) {
            None => assert_eq!(found.kept, case.promised(), "{what}"),
            Some(budget) => {
                let said = found.said_bytes.unwrap();
                // The manifest and the superblock are part of no session's size.
                assert!(found.bytes.abs_diff(said) < said / 20 + 3000, "{what}");
                let is_over = found.said.iter().any(|line| line.contains("more than its budget"));
                assert_eq!(is_over, said > budget, "{what}");
                // Blocks this small compress a tenth better below 256 KiB than above.
                let per_turn = said / found.kept.len() as u64;
                assert!(is_over || said + per_turn.max(budget / 8) > budget, "{what}");
            }
        }
    }
}

#[test]
fn budgets_keep_the_same_turns_regardless_of_earlier_packing() {
    let budget = Policy { budget_bytes: Some(102_000), ..Policy::default() };
    let case = BoundedCase { window: 40, ..BoundedCase::new("budget", 120, 1500) };
    let case = case.with(budget, 2, 1);
    let written = played(&case, Before::Written);
    assert!(written.kept.len() > 25 && written.kept.len() < 110, "{written:?}");
    assert!(written.bytes < 105_000, "{written:?}");
    let packed = [Tier::Hot, Tier::Compacted].map(Before::Packed);
    for before in packed.into_iter().chain([Before::Steps]) {
        let other = played(&case, before);
        assert_eq!((&other.kept, other.beside), (&written.kept, written.beside), "{before:?}");
        assert!(other.bytes.abs_diff(written.bytes) < 1000, "{before:?}: {other:?}");
    }
}

/// Thirty turns in a session that keeps its newest five.
fn thirty(policy: &Policy) -> Sandbox {
    let sandbox = Sandbox::new();
    let main = BranchName::main("s").unwrap();
    let mut change = sandbox.repo.begin();
    set_policy(&mut change, Scope::Session("s"), policy).unwrap();
    change.commit(&stamp(0), "retention").unwrap();
    for second in 1..=30 {
        commit_note(&sandbox.repo, &main, ("a", &second.to_string()), &stamp(second));
    }
    sandbox
}

fn kept(sandbox: &Sandbox) -> Vec<u64> {
    let repo = sandbox.reopened();
    let tip = repo.tip(&BranchName::main("s").unwrap()).unwrap();
    let turns = repo.history(&[tip], &[]).unwrap().map(|entry| entry.unwrap());
    let has_content = turns.filter(|entry| repo.context(&entry.id).is_ok());
    let mut kept: Vec<u64> = has_content.map(|entry| entry.commit.turn).collect();
    kept.reverse();
    kept
}

#[test]
fn turns_protected_by_recent_operations_are_reported_unless_strict() {
    let sandbox = thirty(&Policy { keep_last: Some(5), ..Policy::default() });
    let (repo, now) = (&sandbox.repo, stamp(40));
    let plan = plan_collection(repo, Purpose::Gc, now.time).unwrap().retention;
    let [session] = plan.sessions.as_slice() else { panic!("{plan:?}") };
    assert_eq!(session.spared.get(&Keep::Undo), Some(&16), "{session:?}");
    assert_eq!(
        session.to_string(),
        "session s: 9 of 30 turns expire, turns 1 to 9; 16 turns for undo also stay"
    );
    collect(repo, Purpose::Gc, &now, &mut |_| {}).unwrap();
    assert_eq!(kept(&sandbox), (10..=30).collect::<Vec<_>>());

    let strict = plan_collection(repo, Purpose::StrictGc, now.time).unwrap().retention;
    assert_eq!(strict.sessions[0].expiring, 16);
    collect(repo, Purpose::StrictGc, &now, &mut |_| {}).unwrap();
    assert_eq!(kept(&sandbox), [26, 27, 28, 29, 30]);
    // An undo to a collected state is refused with an error.
    let entry = repo.operations().nth(7).unwrap().unwrap();
    let error = repo.plan_undo(entry).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Expired), "{error}");
    let newest = repo.undoable(None).unwrap().unwrap();
    repo.plan_undo(newest).unwrap();
}

#[test]
fn strict_policies_ignore_undone_and_lost_turns() {
    let policy = Policy { keep_last: Some(5), strict: true, ..Policy::default() };
    let sandbox = thirty(&policy);
    let (repo, main) = (&sandbox.repo, BranchName::main("s").unwrap());
    // Rewinds ten turns and continues: only an undo references the abandoned line.
    let tip = repo.tip(&main).unwrap();
    let mut change = repo.begin();
    change.move_branch(&main, Some(repo.find_turn(&tip, 20).unwrap()));
    change.commit(&stamp(31), "back").unwrap();
    for second in 32..=34 {
        commit_note(repo, &main, ("b", &second.to_string()), &stamp(second));
    }
    collect(repo, Purpose::Gc, &stamp(40), &mut |_| {}).unwrap();
    assert_eq!(kept(&sandbox), [19, 20, 21, 22, 23]);
    let error = sandbox.reopened().context(&tip).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Expired, "{error}");
    let report = fsck(repo, Thoroughness::Full, stamp(41).time, &mut |_, _| {}).unwrap();
    assert!(report.is_ok(), "{:#?}", report.findings);
}

#[test]
fn retention_by_age_is_exact_to_the_microsecond() {
    const HOUR: i64 = 3600 * 1_000_000;
    let policy = Policy { keep_within: Some(HOUR), strict: true, ..Policy::default() };
    let sandbox = thirty(&policy);
    collect(&sandbox.repo, Purpose::Gc, &stamp(3620), &mut |_| {}).unwrap();
    assert_eq!(kept(&sandbox), (20..=30).collect::<Vec<_>>());
    // The newest turn always stays.
    collect(&sandbox.repo, Purpose::Gc, &stamp(1 << 25), &mut |_| {}).unwrap();
    assert_eq!(kept(&sandbox), [30]);
}

#[test]
fn policies_are_previewed_before_they_are_set() {
    let sandbox = thirty(&Policy::default());
    let repo = &sandbox.repo;
    let policy = Policy { budget_bytes: Some(1), strict: true, ..Policy::default() };
    let mut change = repo.begin();
    set_policy(&mut change, Scope::Session("s"), &policy).unwrap();
    let plan = plan_policies(&change, &stamp(40), "retention set s").unwrap();
    let bytes = plan.sessions[0].bytes.unwrap();
    assert_eq!(plan.sessions[0].expiring, 29);
    assert!(bytes > 1 && plan.notes[0].contains("more than its budget of 1"), "{plan:?}");
}

#[test]
fn previewed_expirations_equal_actual_expirations() {
    // The operation that sets the policy pushes one operation out of those kept for undo, and adds
    // bytes.
    let rules = [5_u64, 12].map(|turns| Policy { keep_last: Some(turns), ..Policy::default() });
    let budgets = (0..12).map(|step| Policy {
        budget_bytes: Some(5_000 + 97 * step),
        strict: true,
        ..Policy::default()
    });
    for policy in rules.into_iter().chain(budgets) {
        let sandbox = thirty(&Policy::default());
        let repo = &sandbox.repo;
        let before =
            (repo.refs(), fs::read_dir(sandbox.store_dir().join("journal")).unwrap().count());
        let mut change = repo.begin();
        set_policy(&mut change, Scope::Session("s"), &policy).unwrap();
        let planned = plan_policies(&change, &stamp(40), "retention set s").unwrap();
        let after =
            (repo.refs(), fs::read_dir(sandbox.store_dir().join("journal")).unwrap().count());
        assert_eq!(before, after);
        change.commit(&stamp(40), "retention set s").unwrap();
        let plan = plan_collection(repo, Purpose::Gc, stamp(40).time).unwrap().retention;
        assert_eq!(planned.kept, plan.kept, "{policy:?}");
        assert_eq!(planned.elided, plan.elided, "{policy:?}");
    }
}
