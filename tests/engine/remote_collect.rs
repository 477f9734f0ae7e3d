//! Collections of a remote delete exactly the unreachable bundles, even if other machines push or
//! die concurrently.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex};

use turntree::ErrorKind;
use turntree::object::ObjectId;
use turntree::repo::BranchName;
use turntree::transfer::remote::{CollectOptions, Key};
use turntree_tests::remote::{Fault, Machine, MemoryBucket, MemoryClient, ORIGIN, Verb};

type Client = Machine<MemoryClient>;

const LOOK: CollectOptions = CollectOptions { is_dry: true, is_aggressive: false };

fn branch(name: &str) -> BranchName {
    BranchName::new("s", name).unwrap()
}

fn machines<const N: usize>(bucket: &MemoryBucket) -> [Client; N] {
    let machines: [_; N] =
        std::array::from_fn(|number| Machine::new(number as u64 + 1, bucket.client()));
    machines[0].make();
    machines
}

fn head_of(bucket: &MemoryBucket, session: &str) -> Option<serde_json::Value> {
    let head = bucket.objects().get(&Key::new(format!("heads/{session}")).unwrap()).cloned()?;
    Some(serde_json::from_slice(&head).unwrap())
}

/// Returns the bundles in the bucket, and those that the head lists.
fn bundles(bucket: &MemoryBucket) -> (BTreeSet<String>, BTreeSet<String>) {
    let lying = bucket.objects().into_keys();
    let lying = lying.filter_map(|key| key.as_str().strip_prefix("bundles/s/").map(str::to_owned));
    let head = head_of(bucket, "s").unwrap_or_default();
    let listed = head["bundles"].as_array().cloned().unwrap_or_default();
    let listed = listed.iter().map(|bundle| bundle["name"].as_str().unwrap().to_owned());
    (lying.collect(), listed.collect())
}

/// Uploads a bundle and dies before it writes the head.
fn die_after_an_upload(machine: &Client) {
    machine.turn(&branch("main"), "of one that dies");
    let (calls, before) = (machine.bucket.calls(), machine.bucket.requests());
    let client = machine.bucket.clone();
    machine.bucket.before_each(move |call| {
        if matches!(call.verb, Verb::PutNew | Verb::PutOver) {
            client.kill_before(call.number);
        }
    });
    machine.push("s").unwrap_err();
    machine.bucket.unhook();
    assert!(machine.bucket.calls() > calls && before.puts <= machine.bucket.requests().puts);
}

#[test]
fn remote_collections_keep_exactly_the_listed_bundles() {
    let bucket = MemoryBucket::new(1);
    let [a, dying, other] = machines(&bucket);
    for turn in 0..20 {
        a.turn(&branch("main"), &format!("turn {turn}"));
        a.push("s").unwrap();
    }
    dying.fetch("s").unwrap();
    dying.follow("s").unwrap();
    die_after_an_upload(&dying);
    let (lying, listed) = bundles(&bucket);
    assert!(lying.len() > listed.len() + 1, "bundles that were made one, and that of the dead");
    let saved = bucket.objects();
    let planned = a.collect(LOOK).unwrap();
    assert_eq!(bucket.objects(), saved, "a look changes nothing");
    let collected = a.collect(CollectOptions::default()).unwrap();
    assert_eq!((collected.bundles, collected.bytes), (planned.bundles, planned.bytes));
    assert_eq!(collected.bundles as usize, lying.len() - listed.len());
    assert_eq!((collected.rewritten, collected.sessions), (1, 1));
    let (lying, now) = bundles(&bucket);
    assert_eq!((&lying, &now), (&listed, &listed));

    let before = a.bucket.requests();
    let again = a.collect(CollectOptions::default()).unwrap();
    let cost = a.bucket.requests() - before;
    assert_eq!((again.bundles, again.rewritten), (0, 0));
    assert_eq!((cost.gets, cost.total()), (1, 2), "the root, and one listing");
    assert_eq!(head_of(&bucket, "s").unwrap()["generation"], 21);
    // A machine that knows no head reads it, and gets the same result.
    assert_eq!(other.collect(CollectOptions::default()).unwrap().rewritten, 0);
    assert_eq!(bundles(&bucket).0, listed);
    other.fetch("s").unwrap();
    a.turn(&branch("main"), "later");
    let before = a.bucket.requests();
    a.push("s").unwrap();
    assert_eq!((a.bucket.requests() - before).total(), 2, "it knows the head that it wrote");
}

#[test]
fn aggressive_collections_leave_one_complete_bundle() {
    let bucket = MemoryBucket::new(1);
    let [a, fresh] = machines(&bucket);
    for turn in 0..10 {
        a.large_turn(&branch(["main", "plan"][turn % 2]));
        a.push("s").unwrap();
    }
    let all = CollectOptions { is_dry: false, is_aggressive: true };
    assert_eq!(a.collect(all).unwrap().folded, 1);
    assert_eq!(bundles(&bucket).0.len(), 1);
    let generation = head_of(&bucket, "s").unwrap()["generation"].clone();
    assert_eq!(a.collect(all).unwrap().folded, 0);
    assert_eq!(head_of(&bucket, "s").unwrap()["generation"], generation, "nothing to do");
    fresh.fetch("s").unwrap();
    for name in ["main", "plan"] {
        assert!(fresh.knows(&branch(name), &a.repo.tip(&branch(name)).unwrap()));
    }
}

#[test]
fn folding_bundles_leaves_no_files_and_blocks_no_push() {
    let bucket = MemoryBucket::new(1);
    let [a, b] = machines(&bucket);
    a.large_turn(&branch("main"));
    a.push("s").unwrap();
    assert!(!a.fold("s").unwrap(), "there is one");
    a.large_turn(&branch("main"));
    a.push("s").unwrap();
    b.fetch("s").unwrap();
    let pushed = a.repo.tip(&branch("main")).unwrap();
    a.turn(&branch("main"), "not pushed yet");
    let before = a.bucket.requests();
    assert!(a.fold("s").unwrap());
    assert_eq!(
        (a.bucket.requests() - before).total(),
        4,
        "a bundle, a head, a listing, a deletion"
    );
    let (lying, listed) = bundles(&bucket);
    assert_eq!((&lying, lying.len()), (&listed, 1));
    assert!(!a.fold("s").unwrap());
    let other = Machine::new(8, bucket.client());
    other.fetch("s").unwrap();
    assert_eq!(other.repo.remote_branches(ORIGIN, Some("s")), [(branch("main"), pushed)]);
    // A machine that knows an older head, and a machine that may not delete.
    b.follow("s").unwrap();
    b.large_turn(&branch("main"));
    assert!(!b.fold("s").unwrap(), "others were faster");
    assert_eq!(bundles(&bucket).0, listed, "nothing of it is left");
    b.push("s").unwrap();
    bucket.choose(|call| (call.verb == Verb::Delete).then_some(Fault::Refused));
    assert!(b.fold("s").unwrap());
    bucket.choose(|_| None);
    assert_eq!((bundles(&bucket).0.len(), bundles(&bucket).1.len()), (3, 1));
    let fresh = Machine::new(9, bucket.client());
    fresh.fetch("s").unwrap();
    assert!(fresh.knows(&branch("main"), &b.repo.tip(&branch("main")).unwrap()));
}

#[test]
fn machines_with_separate_branches_keep_few_bundles() {
    let bucket = MemoryBucket::new(1);
    let all: [Client; 4] = machines(&bucket);
    let mut most = 0;
    for turn in 0..32 {
        let own = turn % all.len();
        all[own].large_turn(&branch(&format!("plan-{own}")));
        all[own].push("s").unwrap();
        most = most.max(bundles(&bucket).1.len());
    }
    assert_eq!(most, 24);
    assert!(bundles(&bucket).1.len() < 10);
    let fresh = Machine::new(9, bucket.client());
    fresh.fetch("s").unwrap();
    assert!(fresh.fold("s").unwrap() || bundles(&bucket).1.len() <= 7, "as it was fetched");
    fresh.fetch("s").unwrap();
    for (own, machine) in all.iter().enumerate() {
        let name = branch(&format!("plan-{own}"));
        assert!(fresh.knows(&name, &machine.repo.tip(&name).unwrap()), "{name}");
    }
}

#[test]
fn pushes_fold_bundles_if_needed() {
    let bucket = MemoryBucket::new(1);
    let [a] = machines(&bucket);
    let (mut most, mut fewest) = (0, usize::MAX);
    for turn in 0..60 {
        a.large_turn(&branch("main"));
        a.push("s").unwrap();
        let listed = bundles(&bucket).1.len();
        most = most.max(listed);
        fewest = if turn >= 24 { fewest.min(listed) } else { fewest };
    }
    assert_eq!((most, fewest), (24, 1));
}

#[test]
fn interrupted_first_pushes_are_collected() {
    let bucket = MemoryBucket::new(1);
    let [collector, dying, next, again] = machines(&bucket);
    die_after_an_upload(&dying);
    assert_eq!(bundles(&bucket).0.len(), 1);
    collector.collect(CollectOptions::default()).unwrap();
    assert!(bundles(&bucket).0.is_empty());
    // Nothing was pushed: there is nothing to fetch, and no deletion to report.
    assert!(next.fetch_all().unwrap().is_empty());
    assert!(next.fetch("s").unwrap().is_none());
    die_after_an_upload(&again);
    collector.collect(CollectOptions::default()).unwrap();
    next.turn(&branch("main"), "of the next one");
    next.push("s").unwrap();
    assert_eq!(next.fetch_all().unwrap().len(), 0);
    let dying = dying.again(bucket.client());
    dying.push("s").unwrap_err();
    dying.follow("s").unwrap();
    dying.push("s").unwrap();
    next.fetch("s").unwrap();
    assert!(next.knows(&branch("main"), &dying.repo.tip(&branch("main")).unwrap()));
}

#[test]
fn foreign_remote_objects_are_kept_and_reported() {
    let bucket = MemoryBucket::new(1);
    let [a] = machines(&bucket);
    a.turn(&branch("main"), "one");
    a.push("s").unwrap();
    let salt = "00".repeat(16);
    let foreign = ["README", "bundles/s/notes.txt", "bundles/s/1-00", "other/a/b"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("bundles/s/9-{salt}"), format!("bundles/t/2-{salt}")]);
    let foreign: BTreeSet<String> = foreign.collect();
    for name in &foreign {
        bucket.tamper(&Key::new(name.as_str()).unwrap(), "foreign bytes".into());
    }
    let collected = a.collect(CollectOptions::default()).unwrap();
    assert_eq!(collected.unknown.into_iter().collect::<BTreeSet<_>>(), foreign);
    for name in &foreign {
        assert!(bucket.objects().contains_key(&Key::new(name.as_str()).unwrap()), "{name}");
    }
    assert_eq!((collected.bundles, collected.rewritten), (0, 0));
}

#[test]
fn rolled_back_remotes_are_not_collected() {
    let bucket = MemoryBucket::new(1);
    let [a] = machines(&bucket);
    a.turn(&branch("main"), "one");
    a.push("s").unwrap();
    let early = bucket.save();
    a.turn(&branch("main"), "two");
    a.push("s").unwrap();
    bucket.restore(&early);
    let salt = "00".repeat(16);
    let key = Key::new(format!("bundles/s/1-{salt}")).unwrap();
    bucket.tamper(&key, "a bundle".into());
    let error = a.collect(CollectOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(bucket.objects().contains_key(&key));
}

#[test]
fn keys_without_delete_permission_can_push() {
    let bucket = MemoryBucket::new(1);
    let [a, b] = machines(&bucket);
    bucket.choose(|call| (call.verb == Verb::Delete).then_some(Fault::Refused));
    a.large_turn(&branch("main"));
    a.push("s").unwrap();
    b.large_turn(&branch("plan"));
    let rival = Mutex::new(Some(a));
    b.bucket.before_each(move |call| {
        if call.verb == Verb::PutOver
            && let Some(a) = rival.lock().unwrap().take()
        {
            a.large_turn(&branch("main"));
            a.push("s").unwrap();
        }
    });
    b.push("s").unwrap();
    b.bucket.unhook();
    let (lying, listed) = bundles(&bucket);
    assert_eq!(lying.difference(&listed).count(), 1, "what lost the race");
    assert_eq!(b.collect(CollectOptions::default()).unwrap_err().kind(), ErrorKind::Io);
    bucket.choose(|_| None);
    b.collect(CollectOptions::default()).unwrap();
    assert_eq!(bundles(&bucket).0, listed);
}

#[test]
fn remotely_deleted_sessions_are_reported_and_can_be_revived() {
    let bucket = MemoryBucket::new(1);
    let [a, b, c, stranger] = machines(&bucket);
    let main = branch("main");
    a.turn(&main, "one");
    a.push("s").unwrap();
    for machine in [&b, &c] {
        machine.fetch("s").unwrap();
        machine.follow("s").unwrap();
    }
    assert_eq!(stranger.delete("s").unwrap_err().kind(), ErrorKind::NotFound);
    // A delete does not remove what another machine pushed concurrently.
    b.turn(&main, "two");
    b.push("s").unwrap();
    assert_eq!(a.delete("s").unwrap_err().kind(), ErrorKind::Conflict);
    a.fetch("s").unwrap();
    let deleted = a.delete("s").unwrap();
    assert_eq!(deleted.branches, [(main.clone(), b.repo.tip(&main).unwrap())]);
    assert_eq!(a.delete("s").unwrap_err().kind(), ErrorKind::NotFound);
    // The collecting machine knows an earlier head.
    c.collect(CollectOptions::default()).unwrap();
    assert!(bundles(&bucket).0.is_empty() && head_of(&bucket, "s").is_some());

    let fetched = b.fetch("s").unwrap().unwrap();
    assert!(fetched.is_deleted && fetched.moved[0].now.is_none());
    assert!(b.repo.remote_branches(ORIGIN, Some("s")).is_empty());
    assert!(b.repo.is_deleted_on(ORIGIN, "s"));
    assert!(b.repo.tip(&main).is_some(), "here it stays");
    for (machine, what) in [(&b, "who fetched"), (&c, "who comes late")] {
        machine.turn(&main, "late");
        for _ in 0..2 {
            let error = machine.push("s").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{what}: {error}");
            assert!(error.to_string().contains("deleted"), "{what}: {error}");
        }
    }
    assert!(stranger.fetch_all().unwrap().is_empty());
    let revived = c.revive("s").unwrap();
    assert_eq!(revived.generation, 4);
    b.fetch("s").unwrap();
    assert!(b.knows(&main, &c.repo.tip(&main).unwrap()) && !b.repo.is_deleted_on(ORIGIN, "s"));
}

/// Runs one actor at a time, each for the number of calls in a schedule.
#[derive(Clone)]
struct Baton(Arc<(Mutex<Turns>, Condvar)>);

struct Turns {
    /// The next actors and the number of calls of each, the last first.
    schedule: Vec<(usize, u64)>,
    is_done: [bool; 3],
}

impl Baton {
    /// `schedule` lists actors with a number of calls each. After its end, the unfinished actors
    /// run to completion.
    fn new(mut schedule: Vec<(usize, u64)>) -> Self {
        schedule.reverse();
        Self(Arc::new((Mutex::new(Turns { schedule, is_done: [false; 3] }), Condvar::new())))
    }

    /// Waits until it is this actor's turn, and counts one call.
    fn call(&self, actor: usize) {
        let (turns, changed) = &*self.0;
        let mut turns = turns.lock().unwrap();
        loop {
            let done = turns.is_done;
            while turns.schedule.last().is_some_and(|(who, calls)| *calls == 0 || done[*who]) {
                turns.schedule.pop();
                changed.notify_all();
            }
            let next = done.iter().position(|done| !done);
            match turns.schedule.last_mut() {
                Some((who, calls)) if *who == actor => {
                    *calls -= 1;
                    return;
                }
                None if next == Some(actor) => return,
                _ => turns = changed.wait(turns).unwrap(),
            }
        }
    }

    fn done(&self, actor: usize) {
        let (turns, changed) = &*self.0;
        turns.lock().unwrap().is_done[actor] = true;
        changed.notify_all();
    }
}

/// The state before each order of calls.
#[derive(Clone, Copy, PartialEq)]
enum Start {
    /// Only an upload by a machine that died.
    Nothing,
    /// Some turns, and an upload by a machine that died.
    Turns,
    /// Bundles that are due to be folded: the third machine folds them and collects the old ones.
    Bundles,
}

const STARTS: [Start; 3] = [Start::Nothing, Start::Turns, Start::Bundles];

/// Two machines about to push, and a machine about to collect.
fn stage(bucket: &MemoryBucket, start: Start) -> [Client; 3] {
    let [a, b, collector, dying] = machines(bucket);
    let before = match start {
        Start::Nothing => 0,
        Start::Turns => 1,
        Start::Bundles => 2,
    };
    for turn in 0..before {
        match start {
            Start::Bundles => a.large_turn(&branch("main")),
            _ => a.turn(&branch("main"), &format!("turn {turn}")),
        };
        a.push("s").unwrap();
    }
    if before > 0 {
        for machine in [&b, &collector, &dying] {
            machine.fetch("s").unwrap();
            machine.follow("s").unwrap();
        }
    }
    die_after_an_upload(&dying);
    a.turn(&branch("main"), "of a");
    b.turn(&branch("plan"), "of b");
    [a, b, collector]
}

/// Pushes, collects or folds. Returns the acknowledged push.
fn act(machines: &[Client; 3], actor: usize, start: Start) -> Option<(BranchName, ObjectId)> {
    let fair = |error: &turntree::Error| {
        assert!(
            [ErrorKind::Io, ErrorKind::Conflict].contains(&error.kind()),
            "actor {actor}: {error}"
        );
    };
    let machine = &machines[actor];
    if actor == 2 {
        let _ = match start {
            Start::Bundles => machine.fold("s").map(drop),
            _ => machine.collect(CollectOptions::default()).map(drop),
        }
        .inspect_err(fair);
        return None;
    }
    machine.push("s").inspect_err(fair).ok()?;
    let name = branch(["main", "plan"][actor]);
    Some((name.clone(), machine.repo.tip(&name).unwrap()))
}

/// Checks the end state: acknowledged pushes exist, a quiet collection leaves exactly the bundles
/// that the head lists, and every machine can continue.
fn check(bucket: &MemoryBucket, acknowledged: &[(BranchName, ObjectId)], trace: &str) {
    bucket.trouble(0);
    bucket.choose(|_| None);
    bucket.settle();
    let fresh = Machine::new(99, bucket.client());
    let fetch = |what: &str| {
        fresh.fetch("s").unwrap_or_else(|error| panic!("{trace}, {what}: {error}"));
        for (name, id) in acknowledged {
            assert!(fresh.knows(name, id), "{trace}, {what}: {id} was acknowledged on {name}");
        }
    };
    fetch("before");
    fresh.collect(CollectOptions::default()).unwrap_or_else(|error| panic!("{trace}: {error}"));
    let (lying, listed) = bundles(bucket);
    assert_eq!(lying, listed, "{trace}");
    fetch("after");
    let last = Machine::new(98, bucket.client());
    last.fetch("s").unwrap_or_else(|error| panic!("{trace}: {error}"));
    last.turn(&branch("last"), "of the last one");
    last.push("s").unwrap_or_else(|error| panic!("{trace}: {error}"));
}

/// Runs the three actors in the order of a schedule.
fn play(start: Start, schedule: &[(usize, u64)]) {
    let bucket = MemoryBucket::new(1);
    let machines = stage(&bucket, start);
    let baton = Baton::new(schedule.to_vec());
    for (actor, machine) in machines.iter().enumerate() {
        let baton = baton.clone();
        machine.bucket.before_each(move |_| baton.call(actor));
    }
    let acknowledged: Vec<_> = std::thread::scope(|scope| {
        let run = |actor| {
            let (machines, baton) = (&machines, baton.clone());
            scope.spawn(move || {
                let acknowledged = act(machines, actor, start);
                baton.done(actor);
                acknowledged
            })
        };
        let threads = [0, 1, 2].map(run);
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    machines.iter().for_each(|machine| machine.bucket.unhook());
    check(&bucket, &acknowledged, &format!("schedule {schedule:?}"));
}

/// The maximum number of calls of a push or a collection that matter. Later calls change nothing.
const CALLS: u64 = 6;

#[test]
fn two_pushes_and_a_collection_interleave_safely() {
    for start in STARTS {
        for first in 0..3 {
            for second in (0..3).filter(|second| *second != first) {
                let third = 3 - first - second;
                // Every schedule of the usual case; every second one of the others, whose setup is
                // slow.
                let step = if start == Start::Turns { 1 } else { 2 };
                for calls in (1..CALLS).step_by(step) {
                    // One switch, then two.
                    play(start, &[(first, calls), (second, u64::MAX), (third, u64::MAX)]);
                    for more in (1..CALLS).step_by(step) {
                        play(start, &[(first, calls), (second, more), (third, u64::MAX)]);
                    }
                }
            }
        }
    }
}

#[test]
fn faults_in_any_call_of_a_push_or_collection_lose_nothing() {
    let faults = [
        Fault::Refused,
        Fault::RequestLost,
        Fault::AnswerLost,
        Fault::Late(1),
        Fault::Late(3),
        Fault::SentTwice,
        Fault::LostForNothing,
        Fault::Short,
        Fault::Stale(3),
    ];
    for start in STARTS {
        for order in [[0, 2, 1], [2, 0, 1]] {
            for (number, fault) in (0..).zip(faults) {
                // With the longest setup, every second call in turn.
                let calls = 1..=CALLS;
                let is_played =
                    |call: &u64| start != Start::Bundles || (call + number).is_multiple_of(2);
                for call in calls.filter(is_played) {
                    let bucket = MemoryBucket::new(call);
                    let machines = stage(&bucket, start);
                    let (client, so_far) =
                        (machines[order[0]].bucket.number(), machines[order[0]].bucket.calls());
                    bucket.choose(move |asked| {
                        let is_it = asked.client == client && asked.number == so_far + call;
                        is_it.then_some(fault)
                    });
                    let acknowledged: Vec<_> = order
                        .into_iter()
                        .filter_map(|actor| act(&machines, actor, start))
                        .collect();
                    let trace = format!("{order:?}, {fault:?} in call {call}");
                    check(&bucket, &acknowledged, &trace);
                }
            }
        }
    }
}

#[test]
fn crashes_in_any_call_block_no_other_machine() {
    for start in STARTS {
        for dies in [0, 2] {
            for call in 1..=CALLS {
                for is_sent in [false, true] {
                    let bucket = MemoryBucket::new(call);
                    let machines = stage(&bucket, start);
                    let client = &machines[dies].bucket;
                    match is_sent {
                        true => client.kill_in(client.calls() + call),
                        false => client.kill_before(client.calls() + call),
                    }
                    let order = [dies, 1, 2 - dies];
                    let acknowledged: Vec<_> = order
                        .into_iter()
                        .filter_map(|actor| act(&machines, actor, start))
                        .collect();
                    check(&bucket, &acknowledged, &format!("{dies} died in {call}, {is_sent}"));
                }
            }
        }
    }
}

#[test]
fn checks_during_a_fold_report_no_damage() {
    let bucket = MemoryBucket::new(1);
    let [folding, checking] = machines(&bucket);
    for _ in 0..4 {
        folding.large_turn(&branch("main"));
        folding.push("s").unwrap();
    }
    assert!(bundles(&bucket).1.len() > 1);
    let mut folding = Some(folding);
    checking.bucket.before_each(move |call| {
        if call.verb == Verb::Get && call.key.starts_with("bundles/") {
            let folded = folding.take().map(|folding| folding.fold("s").unwrap());
            assert_ne!(folded, Some(false), "bundles are made one");
        }
    });
    let checked = checking.check().unwrap();
    checking.bucket.unhook();
    assert_eq!(bundles(&bucket).0.len(), 1);
    assert_eq!((checked.damaged, checked.missing), (Vec::new(), Vec::new()));
    // Real damage is still named.
    let (key, mut bytes) = bucket
        .objects()
        .into_iter()
        .find(|(key, _)| key.as_str().starts_with("bundles/s/"))
        .map(|(key, bytes)| (key, bytes.to_vec()))
        .unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    bucket.tamper(&key, bytes.into());
    assert_eq!(checking.check().unwrap().damaged.len(), 1);
}
