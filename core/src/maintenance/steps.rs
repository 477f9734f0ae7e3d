//! Tests collections of several steps: each step continues the mark of the step before.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use tempfile::TempDir;

use super::collection_plan::Purpose;
use super::{collect, fsck};
use crate::context::Builder;
use crate::context::sections::SCRATCHPAD;
use crate::maintenance::collect::collection::Survey;
use crate::object::{Kind, Object, ObjectId, Time};
use crate::repo::{BranchName, Repository, Signature, SnapshotDraft};
use crate::store::{Durability, NewStore, OpenOptions, RealIo, Thoroughness, Tier};

const REPACK: Purpose = Purpose::Repack(Tier::Compacted);

/// One action: the number of a writer, the kind of action, a branch, and a note.
type Action = (usize, u8, u8, u8);

fn open(dir: &Path, seed: u8) -> Repository {
    let options = OpenOptions { durability: Durability::None, ..OpenOptions::new([seed; 16]) };
    Repository::open(Arc::new(RealIo), dir, options).unwrap()
}

fn stamp() -> Signature {
    Signature { time: Time { micros: 1, offset_minutes: 0 }, actor: "me".into() }
}

/// A note that several turns and garbage may share.
fn note(number: u8) -> String {
    format!("note {}", number % 5).repeat(40)
}

/// Adds a turn, deletes a branch, starts a branch at the tip of another branch, appends an unreachable
/// note, or collects all garbage.
fn act(repo: &Repository, (_, what, branch, number): Action) {
    repo.store().refresh().unwrap();
    let named = |number: u8| BranchName::new("s", &format!("b{}", number % 3)).unwrap();
    let branch = named(branch);
    let mut change = repo.begin();
    match (what % 8, change.tip(&branch), change.tip(&named(number))) {
        (0, Some(_), _) => change.delete_branch(&branch),
        (1, None, Some(tip)) => change.move_branch(&branch, Some(tip)),
        (2 | 3, ..) => {
            let bytes = note(number).into_bytes();
            let id = ObjectId::of(Kind::Blob, &bytes);
            let object = Object { kind: Kind::Blob, bytes: bytes.into() };
            repo.store().append(vec![(id, object)]).unwrap();
            return;
        }
        (4, ..) => {
            collect(repo, Purpose::GcNow, &stamp(), &mut |_| {}).unwrap();
            return;
        }
        (_, tip, _) => {
            let mut context = match tip {
                Some(tip) => Builder::from(repo.context(&tip).unwrap()),
                None => Builder::new(),
            };
            let (key, value) = (format!("key {}", what % 3), Some(note(number).into()));
            context.set_entry(&mut change, SCRATCHPAD, &key, value).unwrap();
            let tree = context.write(&mut change).unwrap();
            change.snapshot(&branch, SnapshotDraft::new(tree, "turn", &stamp())).unwrap();
        }
    }
    change.commit(&stamp(), "act").unwrap();
}

/// A store with a segment of each of several writers.
fn make(actions: &[Action]) -> (TempDir, Repository) {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let (io, new) = (Arc::new(RealIo), NewStore { id: [1; 16] });
    drop(Repository::init(io, &store, &new, OpenOptions::new([9; 16])).unwrap());
    let writers = [open(&store, 2), open(&store, 3), open(&store, 4)];
    for action in actions {
        act(&writers[action.0 % writers.len()], *action);
    }
    drop(writers);
    (dir, open(&store, 5))
}

turntree_properties::properties! {
    cases = 48;

    #[test]
    fn a_later_step_knows_all_that_a_mark_from_nothing_meets(
        before: Vec<Action>,
        actions in prop::collection::vec(prop::option::of(any::<Action>()), 0..4),
    ) {
        let (dir, repo) = make(&before);
        let store = dir.path().join("store");
        let now = stamp().time;
        let (mut known, mut is_alone) = (None, true);
        let mut actions = actions.into_iter().enumerate();
        loop {
            let collection = repo.store().collect().unwrap();
            let inventory = collection.inventory();
            let fresh = Survey::new(inventory, REPACK, now, None).unwrap();
            let mut survey = Survey::new(inventory, REPACK, now, known.take()).unwrap();
            for marked in fresh.marker.marked() {
                prop_assert!(survey.marker.is_marked(marked.position as usize), "{marked:?}");
            }
            if is_alone {
                prop_assert_eq!(survey.marker.marked(), fresh.marker.marked());
                prop_assert_eq!(&survey.plan, &fresh.plan);
            }
            let files = inventory.files().iter();
            let segment = files.clone().position(|file| file.replaceable && file.tier.is_none());
            let Some(segment) = segment else { break };
            survey.chosen = vec![segment];
            known = survey.apply(&repo, &collection).unwrap().1.into_previous();
            prop_assert!(known.is_some());
            drop(collection);
            if let Some((number, Some(action))) = actions.next() {
                act(&open(&store, u8::try_from(10 + number).unwrap()), action);
                is_alone = false;
            }
        }
        let report = fsck(&open(&store, 6), Thoroughness::Full, now, &mut |_, _| {}).unwrap();
        prop_assert!(report.is_ok(), "{:?}", report.findings);
    }
}
