//! Walks that start at tips whose turns are known: they yield what other walks yield, and read only
//! the tips that they reach.

use std::collections::HashSet;
use std::sync::Arc;

use turntree::object::ObjectId;
use turntree::repo::{BranchName, KnownTip, Repository};
use turntree::store::OpenOptions;
use turntree_tests::counting::CountingIo;
use turntree_tests::{Sandbox, commit_note, stamp};

/// A store with sessions of 1, 2, 3 ... turns, and the tips of their branches.
fn store_of(sessions: u64) -> (Sandbox, Vec<KnownTip>) {
    let sandbox = Sandbox::new();
    let mut tips = Vec::new();
    for session in 1..=sessions {
        let branch = BranchName::main(&format!("s{session}")).unwrap();
        for turn in 0..session {
            commit_note(&sandbox.repo, &branch, ("a", &format!("{session} {turn}")), &stamp(9));
        }
        let id = sandbox.repo.tip(&branch).unwrap();
        let commit = sandbox.repo.commit(&id).unwrap();
        tips.push(KnownTip { id, turn: commit.turn, time: commit.time });
    }
    (sandbox, tips)
}

fn walk(repo: &Repository, starts: &[ObjectId], known: &[KnownTip], most: usize) -> Vec<ObjectId> {
    let history = repo.history(starts, &[]).unwrap().with_known(known);
    history.take(most).map(|entry| entry.unwrap().id).collect()
}

#[test]
fn a_walk_from_known_tips_is_the_same_walk() {
    let (sandbox, tips) = store_of(12);
    let starts: Vec<ObjectId> = tips.iter().map(|tip| tip.id).collect();
    let expected = walk(&sandbox.repo, &starts, &[], usize::MAX);
    assert_eq!(walk(&sandbox.repo, &[], &tips, usize::MAX), expected);
    let (first, last) = (&starts[..5], &tips[3..]);
    assert_eq!(walk(&sandbox.repo, first, last, usize::MAX), expected);
    let hidden = sandbox.repo.history(&[], &starts[5..]).unwrap().with_known(&tips);
    let hidden: HashSet<ObjectId> = hidden.map(|entry| entry.unwrap().id).collect();
    assert_eq!(hidden.len(), 15);
}

#[test]
fn what_is_wrongly_known_changes_no_entry() {
    let (sandbox, tips) = store_of(6);
    let starts: Vec<ObjectId> = tips.iter().map(|tip| tip.id).collect();
    let expected: HashSet<ObjectId> =
        walk(&sandbox.repo, &starts, &[], usize::MAX).into_iter().collect();
    for turn in [0, 3, 1000] {
        let wrong: Vec<KnownTip> = tips.iter().map(|tip| KnownTip { turn, ..*tip }).collect();
        let found = walk(&sandbox.repo, &[], &wrong, usize::MAX);
        assert_eq!(found.len(), expected.len());
        assert_eq!(found.into_iter().collect::<HashSet<_>>(), expected);
    }
}

#[test]
fn a_missing_tip_is_an_error_of_its_own_and_the_walk_goes_on() {
    let (sandbox, mut tips) = store_of(3);
    let missing = ObjectId::of(turntree::object::Kind::Commit, b"missing");
    tips.push(KnownTip { id: missing, turn: 2, time: tips[0].time });
    let history = sandbox.repo.history(&[], &[]).unwrap().with_known(&tips);
    let (found, failed): (Vec<_>, Vec<_>) = history.partition(Result::is_ok);
    assert_eq!((found.len(), failed.len()), (6, 1));
}

#[test]
fn a_walk_that_ends_early_reads_only_the_tips_that_it_reached() {
    let (sandbox, tips) = store_of(30);
    let reads = |most: usize| {
        let io = CountingIo::default();
        let options = OpenOptions::new([9; 16]);
        let repo = Repository::open(Arc::new(io.clone()), &sandbox.store_dir(), options).unwrap();
        let before = io.reads();
        assert_eq!(walk(&repo, &[], &tips, most).len(), most);
        io.reads() - before
    };
    let few = reads(5);
    assert!(few > 0 && few < 30, "{few} reads of 5 commits");
}
