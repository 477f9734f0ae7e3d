//! Undo and redo: undone operations can be redone, no other user's work is undone by accident, and
//! nothing is lost.

use std::collections::BTreeMap;

use proptest::prelude::*;
use turntree::ErrorKind;
use turntree::context::Builder;
use turntree::maintenance::{Policy, Purpose, Scope, collect, set_policy};
use turntree::object::{ObjectId, RefValue};
use turntree::repo::{BranchName, Repository, Signature, SnapshotDraft};
use turntree_tests::{Sandbox, commit_note, stamp};

fn by(actor: &str) -> Signature {
    Signature { actor: actor.into(), ..stamp(1) }
}

fn branch(name: &str) -> BranchName {
    BranchName::new("s", name).unwrap()
}

/// Commits a turn with the note `text`.
fn turn(repo: &Repository, name: &str, text: &str, stamp: &Signature) -> ObjectId {
    commit_note(repo, &branch(name), ("note", text), stamp)
}

/// Undoes the operation that [`Repository::undoable`] names, or redoes that of
/// [`Repository::redoable`] if `again`.
fn take_back(repo: &Repository, again: bool, stamp: &Signature) -> Option<turntree::Result<()>> {
    let actor = Some(&*stamp.actor);
    let found = if again { repo.redoable(actor) } else { repo.undoable(actor) };
    let plan = repo.plan_undo(found.unwrap()?);
    Some(plan.and_then(|plan| repo.undo(&plan, stamp, "take back").map(drop)))
}

fn refs(repo: &Repository) -> BTreeMap<String, RefValue> {
    (&repo.refs().values).into()
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Turn(usize),
    Fork(usize, usize),
    Delete(usize),
    Switch(usize),
    Undo,
    Redo,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..3_usize).prop_map(Step::Turn),
        2 => (0..3_usize, 0..3_usize).prop_map(|(from, to)| Step::Fork(from, to)),
        1 => (0..3_usize).prop_map(Step::Delete),
        1 => (0..3_usize).prop_map(Step::Switch),
        3 => Just(Step::Undo),
        3 => Just(Step::Redo),
    ]
}

const NAMES: [&str; 3] = ["main", "a", "b"];

/// Does a step. Undo and redo apply to the newest operation only.
fn step(repo: &Repository, step: Step, number: usize, stamp: &Signature) {
    let mut change = repo.begin();
    match step {
        Step::Turn(name) => {
            turn(repo, NAMES[name], &number.to_string(), stamp);
            return;
        }
        Step::Fork(from, to) => {
            change.move_branch(&branch(NAMES[to]), repo.tip(&branch(NAMES[from])));
        }
        Step::Delete(name) => change.move_branch(&branch(NAMES[name]), None),
        Step::Switch(name) => change.switch(&branch(NAMES[name])),
        Step::Undo | Step::Redo => {
            let before = refs(repo);
            let outcome = take_back(repo, matches!(step, Step::Redo), stamp);
            if let Some(Err(error)) = outcome {
                assert!(matches!(step, Step::Redo), "an undo of one's own newest works: {error}");
                assert_eq!(error.kind(), ErrorKind::Conflict);
                assert_eq!(refs(repo), before, "a refusal changes nothing");
            }
            return;
        }
    }
    change.commit(stamp, "step").unwrap();
}

turntree_properties::properties! {
    cases = 48;

    #[test]
    fn undos_and_redos_are_symmetric(
        steps in prop::collection::vec(any_step(), 1..24), undos in 1..12_usize,
    ) {
        let (sandbox, me) = (Sandbox::new(), by("me"));
        let repo = &sandbox.repo;
        for (number, next) in steps.into_iter().enumerate() {
            step(repo, next, number, &me);
        }
        let before = refs(repo);
        let mut done = 0;
        while done < undos && take_back(repo, false, &me).is_some_and(|outcome| outcome.is_ok()) {
            done += 1;
        }
        for _ in 0..done {
            take_back(repo, true, &me).unwrap().unwrap();
        }
        prop_assert_eq!(refs(repo), before);
        while let Some(outcome) = take_back(repo, false, &me) {
            outcome.unwrap();
        }
        prop_assert_eq!(refs(repo), BTreeMap::new());
    }
}

#[test]
fn the_last_redo_is_undone_first() {
    let sandbox = Sandbox::new();
    let (repo, me) = (&sandbox.repo, by("me"));
    let put = |from: ObjectId| {
        let mut change = repo.begin();
        change.move_branch(&branch("main"), Some(from));
        change.commit(&me, "put").unwrap();
    };
    let first = turn(repo, "main", "first", &me);
    let second = turn(repo, "side", "second", &me);
    put(second);
    take_back(repo, false, &me).unwrap().unwrap();
    // Forth and back by separate operations.
    put(second);
    put(first);
    take_back(repo, true, &me).unwrap().unwrap();
    assert_eq!(repo.tip(&branch("main")), Some(second), "the first change was made again");
    for expected in [first, second, first] {
        take_back(repo, false, &me).unwrap().unwrap();
        assert_eq!(repo.tip(&branch("main")), Some(expected));
    }
}

#[test]
fn undo_does_not_revert_operations_of_others() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let (me, other) = (by("me"), by("other"));
    let mine = turn(repo, "main", "mine", &me);
    let theirs = turn(repo, "main", "theirs", &other);
    let error = take_back(repo, false, &me).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("operation 2"), "it is named: {error}");
    assert_eq!(repo.tip(&branch("main")), Some(theirs));
    take_back(repo, false, &other).unwrap().unwrap();
    assert_eq!(repo.tip(&branch("main")), Some(mine));
    assert!(take_back(repo, false, &other).is_none(), "the rest is not theirs");
    take_back(repo, false, &me).unwrap().unwrap();
    assert_eq!(repo.tip(&branch("main")), None);
    // A plan is refused if another writer commits first.
    let plan = repo.plan_undo(repo.redoable(None).unwrap().unwrap()).unwrap();
    turn(repo, "main", "overtaken", &other);
    let error = repo.undo(&plan, &me, "redo").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

#[test]
fn undone_turns_survive_collections() {
    let sandbox = Sandbox::new();
    let (repo, me) = (&sandbox.repo, by("me"));
    let mut change = repo.begin();
    set_policy(
        &mut change,
        Scope::Session("s"),
        &Policy { keep_last: Some(1), ..Policy::default() },
    )
    .unwrap();
    change.commit(&me, "retention").unwrap();
    turn(repo, "main", "first", &me);
    let second = turn(repo, "main", "second", &me);
    take_back(repo, false, &me).unwrap().unwrap();
    turn(repo, "side", "elsewhere", &me);
    collect(repo, Purpose::Gc, &stamp(2), &mut |_| {}).unwrap();

    let plan = repo.plan_undo(repo.redoable(Some("me")).unwrap().unwrap()).unwrap();
    let then = sandbox.reopened().at_operation(&plan.undone.operation.parents[0]).unwrap();
    assert_eq!(then.tip(&branch("main")), Some(second));
    assert_eq!(then.tip(&branch("side")), None);
    let mut change = then.begin();
    change.move_branch(&branch("side"), Some(second));
    let error = change.commit(&me, "no").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);

    repo.undo(&plan, &me, "redo").unwrap();
    assert_eq!(repo.tip(&branch("main")), Some(second));
    let entry = repo.context(&second).unwrap();
    let notes = entry.map(repo, "scratchpad").unwrap();
    assert!(notes.get(repo, b"note").unwrap().is_some());
}

#[test]
fn maintenance_operations_are_not_undone() {
    let sandbox = Sandbox::new();
    let (repo, me) = (&sandbox.repo, by("me"));
    let mut change = repo.begin();
    set_policy(
        &mut change,
        Scope::Session("s"),
        &Policy { keep_last: Some(1), ..Policy::default() },
    )
    .unwrap();
    change.commit(&me, "retention").unwrap();
    let mut change = repo.begin();
    let mut context = Builder::new();
    for turn in 0..700 {
        let text = Some(turn.to_string().into());
        context.set_entry(&mut change, "scratchpad", "a", text).unwrap();
        let tree = context.write(&mut change).unwrap();
        change.snapshot(&branch("main"), SnapshotDraft::new(tree, "turn", &stamp(turn))).unwrap();
    }
    change.commit(&me, "import").unwrap();
    let count = repo.operations().count();
    collect(repo, Purpose::Gc, &Signature { actor: "me".into(), ..stamp(701) }, &mut |_| {})
        .unwrap();
    assert!(repo.operations().count() > count, "the collection has forgotten some turns");
    let undone = repo.undoable(Some("me")).unwrap().unwrap();
    assert_eq!(undone.operation.reason, "import");
}
