//! Ahead and behind counts of branches equal those of a naive walk.

use std::collections::HashSet;

use proptest::prelude::*;
use turntree::context::Builder;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Divergence, Repository, SnapshotDraft};
use turntree_tests::{Sandbox, stamp};

/// A branch, and the branch that it is moved to before its next turn, if any.
type Step = (usize, Option<usize>);

const NAMES: [&str; 4] = ["main", "a", "b", "c"];

fn branch(at: usize) -> BranchName {
    BranchName::new("s", NAMES[at]).unwrap()
}

fn work(repo: &Repository, (at, from): Step, number: usize) {
    let mut change = repo.begin();
    let mut context = Builder::new();
    let text = Some(number.to_string().into());
    context.set_entry(&mut change, "scratchpad", "note", text).unwrap();
    let tree = context.write(&mut change).unwrap();
    if let Some(tip) = from.and_then(|from| repo.tip(&branch(from))) {
        change.move_branch(&branch(at), Some(tip));
    }
    change.snapshot(&branch(at), SnapshotDraft::new(tree, "turn", &stamp(1))).unwrap();
    change.commit(&stamp(1), "turn").unwrap();
}

fn line(repo: &Repository, tip: ObjectId) -> Vec<ObjectId> {
    let mut line = vec![tip];
    while let Some(parent) = repo.commit(&line[line.len() - 1]).unwrap().parents.first() {
        line.push(*parent);
    }
    line
}

turntree_properties::properties! {
    cases = 32;

    #[test]
    fn divergence_equals_a_naive_walk(
        steps in prop::collection::vec((0..4_usize, prop::option::weighted(0.3, 0..4_usize)), 1..40),
    ) {
        let sandbox = Sandbox::new();
        let repo = &sandbox.repo;
        work(repo, (0, None), 1000);
        for (number, step) in steps.into_iter().enumerate() {
            work(repo, step, number);
        }
        let main = repo.tip(&branch(0)).unwrap();
        let known: HashSet<ObjectId> = line(repo, main).into_iter().collect();
        let mut compared = repo.line(&main).unwrap();
        for (_, tip) in repo.branches() {
            let own: Vec<ObjectId> = line(repo, tip);
            let fork = own.iter().position(|id| known.contains(id));
            let turn = |at: usize| (own[at], repo.commit(&own[at]).unwrap().turn);
            let expected =
                Divergence { fork: fork.map(turn), own: fork.unwrap_or(own.len()) as u64 };
            prop_assert_eq!(compared.divergence(&tip).unwrap(), expected);
        }
    }
}
