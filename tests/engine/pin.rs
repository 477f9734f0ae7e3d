//! Pins from the caller's view: named, renewed, raced for, undone.

use turntree::ErrorKind;
use turntree::context::Builder;
use turntree::maintenance::{Reason, Roots};
use turntree::object::{ObjectId, RefValue};
use turntree::repo::{BranchName, NewPin, Repository, SnapshotDraft, pin_ref};
use turntree::store::Expected;
use turntree_tests::{Sandbox, stamp};

/// A session of some turns in one operation.
fn session(turns: i64) -> (Sandbox, Vec<ObjectId>) {
    let sandbox = Sandbox::new();
    let mut change = sandbox.repo.begin();
    let mut ids = Vec::new();
    for turn in 1..=turns {
        let mut builder = Builder::new();
        let note = Some(turn.to_string().into());
        builder.set_entry(&mut change, "scratchpad", "note", note).unwrap();
        let tree = builder.write(&mut change).unwrap();
        let snapshot = SnapshotDraft::new(tree, "note", &stamp(turn));
        ids.push(change.snapshot(&BranchName::main("task").unwrap(), snapshot).unwrap());
    }
    change.commit(&stamp(turns), "snapshots").unwrap();
    (sandbox, ids)
}

fn named(name: &str) -> NewPin {
    NewPin { name: Some(name.to_owned()), ..NewPin::default() }
}

fn pin(repo: &Repository, commit: &ObjectId, new: NewPin) -> turntree::Result<String> {
    let mut change = repo.begin();
    let name = change.pin(commit, new, &stamp(50))?.name;
    change.commit(&stamp(50), "pin").map(|_| name)
}

#[test]
fn pins_default_to_their_commit_as_name_and_are_renewed_in_place() {
    let (sandbox, ids) = session(3);
    let repo = &sandbox.repo;
    assert_eq!(pin(repo, &ids[0], NewPin::default()).unwrap(), ids[0].short(12));
    pin(repo, &ids[1], named("good")).unwrap();
    let renewed = NewPin { reason: "still good".into(), expires_micros: Some(7), ..named("good") };
    pin(repo, &ids[1], renewed).unwrap();
    let error = pin(repo, &ids[2], named("good")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);

    let pins = sandbox.reopened().pins().unwrap();
    assert_eq!(pins.len(), 2);
    let good = pins.iter().find(|pin| pin.name == "good").unwrap();
    assert_eq!(
        (good.commit, good.reason.as_str(), good.expires_micros),
        (ids[1], "still good", Some(7))
    );
    assert!(good.has_expired(7) && !good.has_expired(6));
}

#[test]
fn concurrent_pins_of_one_name_conflict() {
    let (sandbox, ids) = session(2);
    let mut change = sandbox.repo.begin();
    change.pin(&ids[0], named("good"), &stamp(50)).unwrap();
    pin(&sandbox.reopened(), &ids[1], named("good")).unwrap();
    let lost = change.commit(&stamp(51), "pin").unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Conflict);
    assert_eq!(sandbox.repo.pins().unwrap()[0].commit, ids[1]);
}

#[test]
fn pins_created_by_update_ref_protect_turns() {
    let (sandbox, ids) = session(2);
    let mut change = sandbox.repo.begin();
    change.set_ref(&pin_ref("bare").unwrap(), Expected::Absent, Some(RefValue::Object(ids[0])));
    change.commit(&stamp(50), "update-ref").unwrap();
    let pins = sandbox.repo.pins().unwrap();
    assert_eq!((pins[0].commit, pins[0].reason.as_str()), (ids[0], ""));
    let roots = Roots::find(&sandbox.repo, &sandbox.repo.refs(), 0).unwrap();
    assert!(roots.commits[&ids[0]].contains(&Reason::Pin("bare".into())));
}

#[test]
fn removed_or_expired_pins_protect_nothing() {
    let (sandbox, ids) = session(3);
    let repo = &sandbox.repo;
    pin(repo, &ids[0], NewPin { expires_micros: Some(100), ..named("short") }).unwrap();
    pin(repo, &ids[1], named("long")).unwrap();
    let why = |now: i64, id: &ObjectId| {
        let roots = Roots::find(repo, &repo.refs(), now).unwrap();
        let reasons = roots.commits.get(id).into_iter().flatten();
        reasons
            .filter(|why| matches!(why, Reason::Pin(_)))
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(why(99, &ids[0]), ["pin short"]);
    assert_eq!(why(100, &ids[0]), [""; 0]);
    assert_eq!(why(100, &ids[1]), ["pin long"]);

    let mut change = repo.begin();
    change.unpin("long").unwrap();
    assert_eq!(change.unpin("wrong").unwrap_err().kind(), ErrorKind::NotFound);
    change.commit(&stamp(60), "unpin").unwrap();
    assert_eq!(why(100, &ids[1]), [""; 0]);
    // For some time the turn is still kept for undo.
    let roots = Roots::find(repo, &repo.refs(), 100).unwrap();
    assert!(roots.commits.contains_key(&ids[1]));
}

#[test]
fn missing_commits_cannot_be_pinned() {
    let (sandbox, _) = session(1);
    let missing = ObjectId::from_bytes([9; 32]);
    let error = pin(&sandbox.repo, &missing, named("x")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(sandbox.repo.pins().unwrap(), []);
}
