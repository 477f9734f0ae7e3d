//! The operations on branches are pushed with their turns: each operation once, for any order of
//! pushes.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use turntree::object::ObjectId;
use turntree::repo::BranchName;
use turntree::store::{Io, Tier};
use turntree::transfer::bundle::{Bundle, BundleRequest, BundledOperation, Held, plan_bundle};
use turntree::transfer::remote::Key;
use turntree_tests::remote::{Machine, MemoryBucket, MemoryClient};
use turntree_tests::sim::{Random, SimDisk};
use turntree_tests::stamp;

fn branch(name: &str) -> BranchName {
    BranchName::new("s", name).unwrap()
}

/// The operations in a bundle.
fn operations(bytes: &[u8]) -> Vec<BundledOperation> {
    let disk = SimDisk::new(Path::new("/out"));
    let file = disk.create(Path::new("/out/b")).unwrap();
    file.write_at(bytes, 0).unwrap();
    let bundle = Bundle::open(Arc::new(file)).unwrap();
    bundle.operations(&bundle.verify(None).unwrap()).unwrap()
}

/// The changes of refs by operation: number, branch and new value.
fn told(operations: &[BundledOperation]) -> Vec<(u64, String, Option<String>)> {
    let each = operations.iter().flat_map(|operation| {
        operation.changes.iter().map(|change| {
            // One bundle may name an abandoned turn by the prefix of its id, and another by the
            // whole id.
            let new = change.new.as_ref().map(|new: &Held| new.to_string()[..16].to_owned());
            (operation.sequence, change.name.clone(), new)
        })
    });
    each.collect()
}

/// The bundles that the head of the session lists.
fn listed(bucket: &MemoryBucket) -> Vec<Vec<u8>> {
    let objects = bucket.objects();
    let head: serde_json::Value =
        serde_json::from_slice(&objects[&Key::new("heads/s").unwrap()]).unwrap();
    let bundles = head["bundles"].as_array().unwrap().iter();
    let bytes = bundles.map(|bundle| {
        let key = format!("bundles/s/{}", bundle["name"].as_str().unwrap());
        let size = usize::try_from(bundle["bytes"].as_u64().unwrap()).unwrap();
        objects[&Key::new(key).unwrap()][..size].to_vec()
    });
    bytes.collect()
}

/// Makes turns, forks and rewinds of branches, with occasional pushes.
fn work(machine: &Machine<MemoryClient>, random: &mut Random, steps: usize) {
    let mut turns: Vec<ObjectId> = vec![machine.turn(&branch("main"), "first")];
    for step in 0..steps {
        let name = branch(["main", "main", "plan", "other"][random.below(4)]);
        let move_to = |to: ObjectId, reason: &str| {
            let mut change = machine.repo.begin();
            change.move_branch(&name, Some(to));
            change.commit(&stamp(50), reason).unwrap();
        };
        match random.below(8) {
            0 if machine.repo.tip(&name).is_none() => {
                move_to(turns[random.below(turns.len())], &format!("fork {name}"));
            }
            1 => turns.push(machine.large_turn(&name)),
            // A turn that is abandoned before it is pushed.
            2 if machine.repo.tip(&name).is_some() => {
                let before = machine.repo.tip(&name).unwrap();
                machine.turn(&name, "abandoned");
                move_to(before, "undo");
            }
            3 | 4 => drop(machine.push("s").unwrap()),
            5 => drop(machine.fold("s").unwrap()),
            _ => turns.push(machine.turn(&name, &format!("turn {step}"))),
        }
    }
    // The next turn's push reports the undo.
    for (name, _) in machine.repo.branches() {
        machine.turn(&name, "last");
    }
    machine.push("s").unwrap();
    machine.fold("s").unwrap();
}

#[test]
fn pushed_bundles_have_every_branch_operation_with_few_repeats() {
    let (mut all_told, mut all_distinct) = (0, 0);
    for seed in 0..60 {
        let bucket = MemoryBucket::new(seed);
        let machine = Machine::new(1, bucket.client());
        machine.make();
        work(&machine, &mut Random(seed), 60);
        let disk = SimDisk::new(Path::new("/out"));
        let file = disk.create(Path::new("/out/all")).unwrap();
        let all = plan_bundle(&machine.repo, &[BundleRequest::Session("s".into())], &[]).unwrap();
        all.write(&machine.repo, Tier::Compacted, &file).unwrap();
        let whole = Bundle::open(Arc::new(file)).unwrap();
        let whole = whole.operations(&whole.verify(None).unwrap()).unwrap();
        let expected: BTreeSet<_> = told(&whole).into_iter().collect();
        let pushed: Vec<_> =
            listed(&bucket).iter().flat_map(|bytes| told(&operations(bytes))).collect();
        let distinct: BTreeSet<_> = pushed.iter().cloned().collect();
        assert_eq!(distinct, expected, "seed {seed}");
        (all_told, all_distinct) = (all_told + pushed.len(), all_distinct + distinct.len());
    }
    let twice = all_told - all_distinct;
    assert!(twice * 20 < all_distinct, "{twice} of {all_distinct} are reported twice");
}
