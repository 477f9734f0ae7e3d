//! Refs change in one order that all processes see, and a lost race is reported.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use turntree::context::Builder;
use turntree::object::{ObjectId, RefValue};
use turntree::repo::{BranchName, SnapshotDraft};
use turntree::store::{Expected, NewStore, RealIo, RefUpdate, Store};
use turntree_tests::oracle::{blob, options, set};
use turntree_tests::proof::linear::history::{Call, Event, Values, Witness};
use turntree_tests::proof::linear::run;
use turntree_tests::proof::{Effort, Programs};
use turntree_tests::{Sandbox, stamp};

const TURNTREE: &str = env!("CARGO_BIN_EXE_turntree-under-test");

#[test]
fn what_threads_and_processes_do_to_refs_has_one_order() {
    let prove = env!("CARGO_BIN_EXE_prove").into();
    let programs = Programs { turntree: TURNTREE.into(), prove };
    for (what, value) in run(&Effort { scale: 1, seed: 1, programs }).rows {
        println!("{what}: {value}");
    }
}

/// A ref that was 1, then 2, then 3.
fn counted() -> (Witness, [ObjectId; 3], Vec<Event>) {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    Store::create(&RealIo, &dir, &NewStore { id: [4; 16] }).unwrap();
    let store = Store::open(Arc::new(RealIo), &dir, options(1)).unwrap();
    let blobs = ["1", "2", "3"].map(|text| blob(text.into()));
    let ids = [blobs[0].0, blobs[1].0, blobs[2].0];
    let history = (0..).zip(blobs).map(|(n, (id, object))| {
        let draft = set("refs/x/n", Expected::Any, id);
        let committed = store.commit(vec![(id, object)], &draft).unwrap();
        let call = Call::Committed(draft.changes, committed);
        Event { began: 10 * n + 1, ended: 10 * n + 9, call }
    });
    let history = history.collect();
    (Witness::of(&store), ids, history)
}

fn refused(began: u64, ended: u64, expected: ObjectId) -> Event {
    let (expected, new) = (Expected::Value(RefValue::Object(expected)), None);
    let changes = vec![RefUpdate { name: "refs/x/n".into(), expected, new }];
    Event { began, ended, call: Call::Refused(changes) }
}

fn read(began: u64, ended: u64, sequence: u64, value: ObjectId) -> Event {
    let values = Values::from([("refs/x/n".to_owned(), RefValue::Object(value))]);
    Event { began, ended, call: Call::Read(sequence, values) }
}

#[test]
fn a_history_is_linear_only_if_every_call_has_a_place_in_its_time() {
    let (witness, [one, two, three], history) = counted();
    let is_linear = |events: &[Event]| {
        let all: Vec<Event> = history.iter().chain(events).cloned().collect();
        catch_unwind(AssertUnwindSafe(|| witness.check(&all))).is_ok()
    };
    assert!(is_linear(&[]));
    assert!(is_linear(&[read(11, 12, 1, one), read(11, 18, 2, two)]));
    assert!(!is_linear(&[read(20, 25, 1, one)]), "it was 2 before the read began");
    assert!(!is_linear(&[read(11, 13, 3, three)]), "3 came only later");
    assert!(!is_linear(&[read(11, 12, 2, two), read(13, 14, 1, one)]), "reads go back");
    assert!(!is_linear(&[read(11, 12, 2, one)]), "that was never so");
    assert!(is_linear(&[refused(11, 12, one), refused(11, 12, two)]), "while 1 becomes 2");
    assert!(!is_linear(&[refused(20, 20, two)]), "nothing is wrong with it");
    assert!(is_linear(&[refused(11, 12, two), refused(13, 14, one)]));
    assert!(!is_linear(&[refused(11, 12, one), refused(13, 14, two)]), "refusals go back");

    let mut swapped = history.clone();
    (swapped[0].began, swapped[0].ended) = (41, 42);
    let swapped = catch_unwind(AssertUnwindSafe(|| witness.check(&swapped)));
    assert!(swapped.is_err(), "a commit that came last has the first number");
}

/// Adds a commit, and returns its id.
fn commit(sandbox: &Sandbox, second: i64) -> String {
    let mut change = sandbox.repo.begin();
    let tree = Builder::new().write(&mut change).unwrap();
    let branch = BranchName::new("s", &format!("b{second}")).unwrap();
    let id = change.snapshot(&branch, SnapshotDraft::new(tree, "turn", &stamp(second))).unwrap();
    change.commit(&stamp(second), "snapshot").unwrap();
    id.to_string()
}

/// A command of the program on a store.
fn turntree(store: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(TURNTREE);
    command.arg("--store").arg(store).args(arguments).env("TURNTREE_MAINTENANCE", "off");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn of_commands_that_change_one_ref_at_once_one_wins_and_the_others_may_try_again() {
    let sandbox = Sandbox::new();
    let store = sandbox.store_dir();
    let mut holds = "0".repeat(64);
    for round in 0..8 {
        let ids: Vec<String> = (0..4).map(|n| commit(&sandbox, 4 * round + n)).collect();
        let race = |id: &String| -> Child {
            turntree(&store, &["update-ref", "refs/heads/race/main", id, &holds]).spawn().unwrap()
        };
        let racing: Vec<Child> = ids.iter().map(race).collect();
        let codes: Vec<Option<i32>> = racing
            .into_iter()
            .map(|child| child.wait_with_output().unwrap().status.code())
            .collect();
        let won: Vec<&String> = ids
            .iter()
            .zip(&codes)
            .filter(|(_, code)| **code == Some(0))
            .map(|(id, _)| id)
            .collect();
        assert_eq!(won.len(), 1, "{codes:?}");
        assert_eq!(codes.iter().filter(|code| **code == Some(3)).count(), 3, "{codes:?}");
        // The losers see the winner's value, and retry.
        let again = ids.iter().find(|id| *id != won[0]).unwrap();
        let retried = turntree(&store, &["update-ref", "refs/heads/race/main", again, won[0]])
            .status()
            .unwrap();
        assert!(retried.success());
        holds.clone_from(again);
    }
}
