//! Remotes from the user's view: pushed branches reach other machines, and nothing else does.

use std::sync::Mutex;

use turntree::ErrorKind;
use turntree::maintenance::{Policy, Purpose, Scope, collect, fsck, set_policy};
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Repository};
use turntree::store::Thoroughness;
use turntree::transfer::remote::{Bucket, Got, Key, Line};
use turntree_tests::remote::{Fault, Machine, MemoryBucket, MemoryClient, ORIGIN, Verb};
use turntree_tests::stamp;

fn branch(name: &str) -> BranchName {
    BranchName::new("s", name).unwrap()
}

fn machines<const N: usize>(bucket: &MemoryBucket) -> [Machine<MemoryClient>; N] {
    let machines: [_; N] =
        std::array::from_fn(|number| Machine::new(number as u64 + 1, bucket.client()));
    machines[0].make();
    machines
}

fn assert_whole(repo: &Repository) {
    let report = fsck(repo, Thoroughness::Full, stamp(9).time, &mut |_, _| {}).unwrap();
    assert!(report.is_ok(), "{report:?}");
}

/// The tip of a branch on the remote, as far as a machine knows.
fn there(machine: &Machine<MemoryClient>, name: &str) -> Option<ObjectId> {
    let all = machine.repo.remote_branches(ORIGIN, Some("s"));
    all.into_iter().find(|(known, _)| *known == branch(name)).map(|(_, id)| id)
}

#[test]
fn another_machine_continues_pushed_sessions() {
    let bucket = MemoryBucket::new(1);
    let [a, b] = machines(&bucket);
    for turn in 0..20 {
        a.turn(&branch("main"), &format!("turn {turn}"));
        let pushed = a.push("s").unwrap();
        assert_eq!(pushed.generation, turn + 1);
    }
    assert!(b.fetch("other").unwrap().is_none());
    let fetched = b.fetch("s").unwrap().unwrap();
    let tip = a.repo.tip(&branch("main")).unwrap();
    assert_eq!(fetched.moved.len(), 1);
    assert_eq!(there(&b, "main"), Some(tip));
    assert_eq!(b.repo.tip(&branch("main")), None, "branches of its own are its own");
    for (revision, back) in [("origin/s", 0), ("origin/s/main", 0), ("origin/s~3", 3)] {
        let found = b.repo.resolve(revision).unwrap().commit;
        assert_eq!(found, a.repo.resolve(&format!("s~{back}")).unwrap().commit, "{revision}");
    }
    b.follow("s").unwrap();
    let next = b.turn(&branch("main"), "of the other machine");
    assert_eq!(b.push("s").unwrap().branches[0].line, Line::Ahead);
    a.fetch("s").unwrap();
    assert_eq!(there(&a, "main"), Some(next));
    a.follow("s").unwrap();
    assert_eq!(a.repo.tip(&branch("main")), Some(next));
    for machine in [&a, &b] {
        assert_whole(&machine.repo);
    }
}

#[test]
fn branches_of_known_turns_are_pushed_without_a_bundle() {
    let bucket = MemoryBucket::new(1);
    let [a, b] = machines(&bucket);
    let first = a.large_turn(&branch("main"));
    a.large_turn(&branch("main"));
    a.push("s").unwrap();
    let mut change = a.repo.begin();
    change.move_branch(&branch("plan"), Some(first));
    change.commit(&stamp(5), "fork s/plan").unwrap();
    let before = a.bucket.requests();
    let pushed = a.push("s").unwrap();
    assert_eq!((pushed.bytes, pushed.branches[1].line), (0, Line::New));
    assert_eq!((a.bucket.requests() - before).total(), 1);
    b.fetch("s").unwrap();
    assert_eq!(there(&b, "plan"), Some(first));
    let next = a.turn(&branch("plan"), "goes on");
    a.push("s").unwrap();
    b.fetch("s").unwrap();
    assert_eq!(there(&b, "plan"), Some(next));
    assert_whole(&b.repo);
}

#[test]
fn pushing_a_turn_takes_two_requests_and_16_kilobytes() {
    let bucket = MemoryBucket::new(1);
    let [a, b] = machines(&bucket);
    let main = branch("main");
    for turn in 0..300 {
        a.turn(&main, &format!("turn {turn}"));
        let before = a.bucket.requests();
        let pushed = a.push("s").unwrap();
        let cost = a.bucket.requests() - before;
        // The first push also checks that the remote and the session exist.
        assert_eq!(cost.total(), if turn == 0 { 4 } else { 2 }, "turn {turn}");
        assert!(pushed.bytes > 0 && cost.bytes_written <= 16_000, "turn {turn}: {cost:?}");
        // A background process folds the bundles when they are due.
        if turn % 20 == 19 {
            a.fold("s").unwrap();
        }
    }
    let before = a.bucket.requests();
    assert_eq!(a.push("s").unwrap().bytes, 0);
    assert_eq!((a.bucket.requests() - before).total(), 1);
    let before = b.bucket.requests();
    b.fetch("s").unwrap();
    let cost = b.bucket.requests() - before;
    assert!(cost.total() <= 9, "{cost:?}");
    let before = b.bucket.requests();
    b.fetch_all().unwrap();
    assert_eq!((b.bucket.requests() - before).total(), 1);
    assert_whole(&b.repo);
}

#[test]
fn diverged_pushes_are_rejected_until_merged() {
    let bucket = MemoryBucket::new(1);
    let [a, b] = machines(&bucket);
    let main = branch("main");
    a.turn(&main, "shared");
    a.push("s").unwrap();
    b.fetch("s").unwrap();
    b.follow("s").unwrap();
    let (of_a, of_b) = (a.turn(&main, "of a"), b.turn(&main, "of b"));
    b.push("s").unwrap();
    let refused = a.push("s").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    assert_eq!(there(&a, "main"), Some(of_b), "it knows the new head");
    a.follow("s").unwrap();
    a.push("s").unwrap();
    b.fetch("s").unwrap();
    for id in [of_a, of_b] {
        assert!(b.knows(&main, &id));
    }
    // Branches of one session do not conflict.
    a.turn(&branch("plan-a"), "a plan");
    b.turn(&branch("plan-b"), "another plan");
    b.follow("s").unwrap();
    a.push("s").unwrap();
    b.push("s").unwrap();
    a.fetch("s").unwrap();
    assert!(there(&a, "plan-a").is_some() && there(&a, "plan-b").is_some());
    let (bundles, head) = bucket_keys(&bucket);
    assert!(head.iter().all(|name| bundles.contains(name)), "{head:?}");
}

/// Returns the bundles in the bucket, and those that the head lists.
fn bucket_keys(bucket: &MemoryBucket) -> (Vec<String>, Vec<String>) {
    let name = |key: &Key| key.as_str().rsplit('/').next().unwrap().to_owned();
    let objects = bucket.objects();
    let bundles = objects.keys().filter(|key| key.as_str().starts_with("bundles/"));
    let head = &objects[&Key::new("heads/s").unwrap()];
    let head: serde_json::Value = serde_json::from_slice(head).unwrap();
    let listed = head["bundles"].as_array().unwrap().iter();
    let listed = listed.map(|bundle| bundle["name"].as_str().unwrap().to_owned());
    (bundles.map(name).collect(), listed.collect())
}

#[test]
fn rolled_back_or_forked_remotes_are_detected() {
    let bucket = MemoryBucket::new(1);
    let [a, b, c] = machines(&bucket);
    let main = branch("main");
    a.turn(&main, "one");
    a.push("s").unwrap();
    let early = bucket.save();
    a.turn(&main, "two");
    a.push("s").unwrap();
    b.fetch("s").unwrap();
    let known = there(&b, "main");
    bucket.restore(&early);
    let check = |machine: &Machine<MemoryClient>, story: &str| {
        for error in
            [machine.fetch("s").map(drop).unwrap_err(), machine.fetch_all().map(drop).unwrap_err()]
        {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{story}: {error}");
        }
        assert_eq!(there(machine, "main"), known, "{story}");
    };
    check(&b, "an older head");
    b.follow("s").unwrap();
    b.turn(&main, "of b");
    assert_eq!(b.push("s").unwrap_err().kind(), ErrorKind::Corrupt);
    // A machine that never saw the later head continues from the old one.
    c.fetch("s").unwrap();
    c.follow("s").unwrap();
    c.turn(&main, "of c");
    c.push("s").unwrap();
    check(&b, "another head of the same generation");
    c.turn(&main, "of c, too");
    c.push("s").unwrap();
    check(&b, "a head with a predecessor");
    let head = Key::new("heads/s").unwrap();
    bucket.remove(&head);
    check(&b, "the session was deleted");
    assert_whole(&b.repo);
    // A remote that was emptied, and another remote at the same address.
    for key in bucket.objects().keys() {
        bucket.remove(key);
    }
    check(&b, "everything is gone");
    let other = BranchName::main("other").unwrap();
    b.turn(&other, "of a session that was never pushed");
    for bytes in
        [None, Some(r#"{"version":1,"remote":"00000000000000000000000000000000","made":""}"#)]
    {
        if let Some(bytes) = bytes {
            bucket.tamper(&Key::new("turntree").unwrap(), bytes.into());
        }
        assert_eq!(b.push("other").unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn damaged_or_forged_remote_objects_are_rejected() {
    let bucket = MemoryBucket::new(1);
    let [a] = machines(&bucket);
    let main = branch("main");
    for _ in 0..3 {
        a.large_turn(&main);
        a.push("s").unwrap();
    }
    let good = bucket.save();
    let root = Key::new("turntree").unwrap();
    for (key, bytes) in bucket.objects().into_iter().filter(|(key, _)| *key != root) {
        for at in (0..bytes.len()).step_by((bytes.len() / 40).max(41)).chain([bytes.len() - 1]) {
            let mut bad = bytes.to_vec();
            bad[at] ^= 0x20;
            bucket.tamper(&key, bad.into());
            let [b] = machines(&bucket);
            let tip = a.repo.tip(&main);
            match b.fetch("s") {
                // Without a key, the push's author and time are not authenticated. They are not
                // content.
                Ok(_) => assert_eq!(there(&b, "main"), tip, "{key} at {at}"),
                Err(error) => {
                    let kinds =
                        [ErrorKind::Corrupt, ErrorKind::Unsupported, ErrorKind::LimitExceeded];
                    assert!(kinds.contains(&error.kind()), "{key} at {at}: {error}");
                }
            }
            assert_whole(&b.repo);
            bucket.restore(&good);
        }
        bucket.tamper(&key, bytes.slice(..bytes.len() / 2));
        let [b] = machines(&bucket);
        assert_eq!(b.fetch("s").unwrap_err().kind(), ErrorKind::Corrupt, "{key} cut");
        bucket.restore(&good);
        if key.as_str() != "heads/s" {
            bucket.remove(&key);
            let [b] = machines(&bucket);
            let error = b.fetch("s").unwrap_err();
            assert!([ErrorKind::NotFound, ErrorKind::Corrupt].contains(&error.kind()), "{error}");
            bucket.restore(&good);
        }
    }
    let [b] = machines(&bucket);
    b.fetch("s").unwrap();
    assert!(matches!(
        b.bucket.get(&Key::new("heads/s").unwrap(), None, None),
        Ok(Got::Bytes { .. })
    ));
}

#[test]
fn undo_keeps_the_known_state_of_a_remote() {
    let bucket = MemoryBucket::new(1);
    let [a, b] = machines(&bucket);
    let main = branch("main");
    a.turn(&main, "one");
    a.push("s").unwrap();
    b.turn(&BranchName::main("own").unwrap(), "its own");
    b.fetch("s").unwrap();
    let own = BranchName::main("own").unwrap();
    let entry = b.repo.undoable(None).unwrap().unwrap();
    b.repo.undo(&b.repo.plan_undo(entry).unwrap(), &stamp(1), "undo").unwrap();
    assert_eq!(b.repo.tip(&own), None, "the last push of this machine");
    assert_eq!(there(&b, "main"), a.repo.tip(&main));
    a.turn(&main, "two");
    assert_eq!(a.push("s").unwrap().generation, 2);
}

#[test]
fn locally_expired_turns_stay_complete_on_the_remote() {
    let bucket = MemoryBucket::new(1);
    let [a, b] = machines(&bucket);
    let main = branch("main");
    let mut turns = Vec::new();
    for turn in 0..4 {
        turns.push(a.turn(&main, &format!("turn {turn}")));
        a.push("s").unwrap();
    }
    let mut change = a.repo.begin();
    let policy = Policy { keep_last: Some(1), ..Policy::default() };
    set_policy(&mut change, Scope::Session("s"), &policy).unwrap();
    change.commit(&stamp(1), "policy").unwrap();
    // More operations than undo keeps, and repeated folding of bundles.
    for turn in 0..40 {
        a.turn(&branch("other"), &format!("later {turn}"));
        let other = BranchName::main("elsewhere").unwrap();
        a.turn(&other, "of another session");
        collect(&a.repo, Purpose::Gc, &stamp(1), &mut |_| {}).unwrap();
        a.push("s").unwrap();
        a.fold("s").unwrap();
    }
    let expired = a.repo.commit(&turns[1]).unwrap().tree;
    assert!(a.repo.tombstone(&expired).is_some(), "it expired here");
    b.fetch("s").unwrap();
    for id in &turns {
        assert!(b.repo.context(id).is_ok(), "{id}");
    }
    assert_whole(&b.repo);
}

#[test]
fn pushes_with_a_lost_answer_are_recognized_in_later_heads() {
    let bucket = MemoryBucket::new(1);
    let [a, b, c] = machines(&bucket);
    let main = branch("main");
    a.turn(&main, "one");
    a.push("s").unwrap();
    let two = a.turn(&main, "two");
    let own = a.bucket.number();
    bucket.choose(move |call| {
        (call.client == own && call.verb == Verb::PutOver).then_some(Fault::AnswerLost)
    });
    // Before the push asks for its outcome, another machine pushes on top of it.
    let other = Mutex::new(Some(b));
    a.bucket.before_each(move |call| {
        if call.verb == Verb::Get
            && let Some(b) = other.lock().unwrap().take()
        {
            b.fetch("s").unwrap();
            b.follow("s").unwrap();
            b.turn(&main, "three");
            b.push("s").unwrap();
        }
    });
    a.push("s").unwrap();
    a.bucket.unhook();
    bucket.choose(|_| None);
    c.fetch("s").unwrap();
    assert!(c.knows(&branch("main"), &two));
    assert_whole(&c.repo);
}
