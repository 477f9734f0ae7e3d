//! The protocol of remotes against every behaviour of a bucket and its clients: no acknowledged
//! push is lost, no head has a hole, and every machine can continue.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use turntree::ErrorKind;
use turntree::maintenance::fsck;
use turntree::object::ObjectId;
use turntree::repo::BranchName;
use turntree::store::Thoroughness;
use turntree::transfer::remote::CollectOptions;
use turntree_tests::remote::{Machine, MemoryBucket, MemoryClient};
use turntree_tests::sim::Random;
use turntree_tests::stamp;

/// The retries of a step before the remote counts as stuck.
const PATIENCE: usize = 200;

/// A machine that does one thing at a time, even if it is interrupted.
struct Actor {
    machine: Machine<MemoryClient>,
    is_busy: AtomicBool,
}

/// The acknowledged pushes of all machines.
type Acknowledged = Arc<Mutex<Vec<(BranchName, ObjectId)>>>;

fn branch(name: &str) -> BranchName {
    BranchName::new("s", name).unwrap()
}

/// Does one thing: a turn, a push, a fetch and follow, a collection, or a fold. Errors come from
/// the bucket's faults or from lost races.
fn step(machine: &Machine<MemoryClient>, random: &mut Random, acknowledged: &Acknowledged) {
    let name = ["main", "main", "plan"][random.below(3)];
    let done = match random.below(7) {
        0 => {
            machine.turn(&branch(name), "a turn");
            Ok(())
        }
        1 => {
            machine.large_turn(&branch(name));
            Ok(())
        }
        2 => machine.fetch("s").and_then(|_| machine.follow("s").map(drop)),
        5 => machine.collect(CollectOptions::default()).map(drop),
        6 => machine.fold("s").map(drop),
        _ if machine.repo.branches().is_empty() => Ok(()),
        _ => push(machine, acknowledged),
    };
    if let Err(error) = done {
        let fair = [ErrorKind::Io, ErrorKind::Conflict];
        assert!(fair.contains(&error.kind()), "{error}");
    }
}

fn push(machine: &Machine<MemoryClient>, acknowledged: &Acknowledged) -> turntree::Result<()> {
    let pushed = machine.push("s")?;
    let own = pushed.branches.into_iter().filter(|branch| branch.line.is_pushed());
    acknowledged.lock().unwrap().extend(own.map(|branch| (branch.branch, branch.id)));
    Ok(())
}

/// Fetches, follows and pushes until it succeeds.
fn settle(machine: &Machine<MemoryClient>, acknowledged: &Acknowledged) {
    for _ in 0..PATIENCE {
        let followed = machine.fetch("s").and_then(|_| machine.follow("s"));
        let has_turns = !machine.repo.branches().is_empty();
        let done = followed.and_then(|_| match has_turns {
            true => push(machine, acknowledged),
            false => Ok(()),
        });
        match done {
            Ok(()) => return,
            Err(error) => {
                let fair = [ErrorKind::Io, ErrorKind::Conflict];
                assert!(fair.contains(&error.kind()), "{error}");
            }
        }
    }
    panic!("no process can continue");
}

/// Checks that a new machine finds every acknowledged push.
fn check(bucket: &MemoryBucket, acknowledged: &Acknowledged, trace: &str) {
    bucket.trouble(0);
    bucket.settle();
    let fresh = Machine::new(99, bucket.client());
    fresh.fetch_all().unwrap_or_else(|error| panic!("{trace}: {error}"));
    for (name, id) in &*acknowledged.lock().unwrap() {
        assert!(fresh.knows(name, id), "{trace}: {id} was acknowledged on {name}");
    }
    let report = fsck(&fresh.repo, Thoroughness::Full, stamp(9).time, &mut |_, _| {}).unwrap();
    assert!(report.is_ok(), "{trace}: {report:?}");
}

#[test]
fn acknowledged_pushes_survive_any_network_fault() {
    for seed in 0..60 {
        let bucket = MemoryBucket::new(seed);
        bucket.trouble([0, 12, 5, 3][usize::try_from(seed % 4).unwrap()]);
        let acknowledged = Acknowledged::default();
        let actors: Vec<Arc<Actor>> = (1..=3)
            .map(|number| {
                let machine = Machine::new(number, bucket.client());
                Arc::new(Actor { machine, is_busy: AtomicBool::new(false) })
            })
            .collect();
        actors[0].machine.make();
        // Before some calls of a machine, another machine does a whole step.
        for actor in &actors {
            let (others, known) = (actors.clone(), Arc::clone(&acknowledged));
            let mut random = Random(seed << 8 | actor.machine.bucket.number() as u64);
            actor.machine.bucket.before_each(move |_| {
                if random.below(4) == 0 {
                    act(&others[random.below(others.len())], &mut random, &known);
                }
            });
        }
        let mut random = Random(seed);
        for _ in 0..40 {
            act(&actors[random.below(actors.len())], &mut random, &acknowledged);
        }
        for actor in &actors {
            actor.machine.bucket.unhook();
        }
        for actor in &actors {
            settle(&actor.machine, &acknowledged);
        }
        check(&bucket, &acknowledged, &format!("seed {seed}"));
    }
}

fn act(actor: &Actor, random: &mut Random, acknowledged: &Acknowledged) {
    if !actor.is_busy.swap(true, Ordering::Relaxed) {
        step(&actor.machine, random, acknowledged);
        actor.is_busy.store(false, Ordering::Relaxed);
    }
}

/// Makes some turns and pushes each, and folds as in the background.
fn work(machine: &Machine<MemoryClient>, acknowledged: &Acknowledged) {
    for turn in 0..8 {
        let branch = branch(["main", "plan"][turn % 2]);
        match turn % 4 {
            3 => machine.large_turn(&branch),
            _ => machine.turn(&branch, "a turn"),
        };
        let _ = push(machine, acknowledged);
    }
    let _ = machine.fold("s");
}

#[test]
fn crashed_machines_lose_nothing_and_block_no_other() {
    let calls = {
        let machine = Machine::new(1, MemoryBucket::new(1).client());
        machine.make();
        work(&machine, &Acknowledged::default());
        machine.bucket.calls()
    };
    // The first two calls create the remote.
    for call in 3..=calls {
        for is_sent in [false, true] {
            let bucket = MemoryBucket::new(call);
            let acknowledged = Acknowledged::default();
            let first = Machine::new(1, bucket.client());
            first.make();
            match is_sent {
                true => first.bucket.kill_in(call),
                false => first.bucket.kill_before(call),
            }
            work(&first, &acknowledged);
            let other = Machine::new(2, bucket.client());
            other.turn(&branch("main"), "of the other");
            settle(&other, &acknowledged);
            let first = first.again(bucket.client());
            settle(&first, &acknowledged);
            settle(&other, &acknowledged);
            check(&bucket, &acknowledged, &format!("died in call {call}, sent: {is_sent}"));
        }
    }
}
