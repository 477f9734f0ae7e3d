//! A store with a retention policy stays whole after collections at any time.

use turntree::ErrorKind;
use turntree::context::Builder;
use turntree::maintenance::{Policy, Purpose, Scope, collect, fsck, set_policy};
use turntree::repo::{BranchName, NewPin, Repository, Signature, SnapshotDraft};
use turntree::store::{Thoroughness, Tier};
use turntree_tests::sim::Random;
use turntree_tests::{Sandbox, open_store, stamp};

const DAY: i64 = 24 * 60 * 60;

/// Commits a turn that changes a few of many entries.
fn turn(repo: &Repository, session: &str, stamp: &Signature, random: &mut Random) {
    let branch = BranchName::main(session).unwrap();
    let mut change = repo.begin();
    let mut builder = match change.tip(&branch) {
        Some(tip) => Builder::from(repo.context(&tip).unwrap()),
        None => Builder::new(),
    };
    for _ in 0..4 {
        // Few distinct values, so that elided content appears again.
        let key = random.below(60).to_string();
        let value = random.below(9).to_string().repeat(20).into();
        builder.set_entry(&mut change, "scratchpad", &key, Some(value)).unwrap();
    }
    let tree = builder.write(&mut change).unwrap();
    let id = change.snapshot(&branch, SnapshotDraft::new(tree, "turn", stamp)).unwrap();
    if random.below(12) == 0 {
        change.move_branch(&BranchName::new(session, "side").unwrap(), Some(id));
    }
    if random.below(20) == 0 {
        change.pin(&id, NewPin::default(), stamp).unwrap();
    }
    change.commit(stamp, "snapshot").unwrap();
}

fn assert_whole(repo: &Repository, stamp: &Signature, what: &str) {
    let report = fsck(repo, Thoroughness::Full, stamp.time, &mut |_, _| {}).unwrap();
    assert!(report.is_ok(), "{what}: {:#?}", report.findings);
    for operation in repo.operations() {
        operation.unwrap_or_else(|error| panic!("{what}: the operation log: {error}"));
    }
    let tips: Vec<_> = repo.branches().into_iter().map(|(_, tip)| tip).collect();
    for entry in repo.history(&tips, &[]).unwrap() {
        let entry = entry.unwrap();
        let read = repo.context(&entry.id).and_then(|context| {
            let map = context.map(repo, "scratchpad")?;
            map.iter(repo).try_for_each(|item| item.map(drop))
        });
        if let Err(error) = read {
            assert_eq!(error.kind(), ErrorKind::Expired, "{what}: {error}");
        }
    }
}

#[test]
fn collections_at_any_time_keep_the_retention_promise() {
    for seed in 1..=3 {
        let sandbox = Sandbox::new();
        let mut random = Random(seed);
        let repo = open_store(&sandbox.store_dir(), 3);
        let mut change = repo.begin();
        let policy = Policy { keep_last: Some(5), ..Policy::default() };
        set_policy(&mut change, Scope::Session("one"), &policy).unwrap();
        change.commit(&stamp(0), "policy").unwrap();
        for step in 1..=260_i64 {
            let stamp = stamp(step * DAY);
            let session = ["one", "two"][random.below(2)];
            turn(&repo, session, &stamp, &mut random);
            if random.below(20) == 0 {
                let purpose = [
                    Purpose::Gc,
                    Purpose::Step,
                    Purpose::Step,
                    Purpose::Repack(Tier::Hot),
                    Purpose::Repack(Tier::Compacted),
                ][random.below(5)];
                collect(&repo, purpose, &stamp, &mut |_| {}).unwrap();
                assert_whole(
                    &sandbox.reopened(),
                    &stamp,
                    &format!("seed {seed}, step {step}, {purpose:?}"),
                );
            }
        }
    }
}
