//! Lazy machines: history is available immediately, contents are read from the remote, and no
//! result is ever wrong.

use std::sync::Arc;

use turntree::ErrorKind;
use turntree::context::Context;
use turntree::maintenance::{Purpose, collect, fsck};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{BranchName, Repository};
use turntree::store::Thoroughness;
use turntree::transfer::remote::{Bucket, RemoteRanges};
use turntree_tests::remote::{Fault, Machine, MemoryBucket, MemoryClient, ORIGIN, Verb};
use turntree_tests::sim::Random;
use turntree_tests::{commit_turn, stamp};

use crate::search_contents::expect_same_of;

const TURNS: u64 = 60;

fn main_branch() -> BranchName {
    BranchName::main("s").unwrap()
}

/// Commits a turn with some kilobytes that do not compress, under one of eight keys.
fn turn(repo: &Repository, number: u64) -> ObjectId {
    let mut random = Random(number + 1);
    let text: String = (0..3_200).map(|_| format!("{:016x}", random.draw())).collect();
    note(repo, &format!("k{}", number % 8), &text, i64::try_from(number).unwrap())
}

/// Commits a turn with a note.
fn note(repo: &Repository, key: &str, text: &str, second: i64) -> ObjectId {
    commit_turn(repo, &main_branch(), "a turn", &stamp(second), |context, change| {
        context.set_entry(change, "scratchpad", key, Some(text.to_owned().into())).unwrap();
    })
}

/// The content of a snapshot under every key.
fn notes(repo: &Repository, id: &ObjectId) -> turntree::Result<Vec<Option<String>>> {
    let tree = repo.commit(id)?.tree;
    let context = Context::open(repo, &tree)?;
    let entries = context.map(repo, "scratchpad")?;
    let found = (0..8).map(|key| entries.get(repo, format!("k{key}").as_bytes()));
    let links: Vec<_> = found.collect::<turntree::Result<_>>()?;
    let ids: Vec<ObjectId> = links.iter().flatten().map(|item| item.link.id).collect();
    let mut texts = repo.read_all(Kind::Blob, &ids)?.into_iter();
    let text = |link: &Option<_>| {
        link.as_ref()
            .and_then(|_| texts.next())
            .map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    };
    Ok(links.iter().map(text).collect())
}

/// A machine that has pushed a large session in one push, a lazy clone, and all snapshots.
fn pushed(bucket: &MemoryBucket) -> ([Machine<MemoryClient>; 2], Vec<ObjectId>) {
    let a = Machine::new(1, bucket.client());
    a.make();
    let ids: Vec<ObjectId> = (0..TURNS).map(|number| turn(&a.repo, number)).collect();
    a.push("s").unwrap();
    ([a, lazy(bucket, 2)], ids)
}

fn lazy(bucket: &MemoryBucket, number: u64) -> Machine<MemoryClient> {
    let mut machine = Machine::new(number, bucket.client());
    machine.lazy = true;
    attach(&machine);
    machine
}

fn attach(machine: &Machine<MemoryClient>) {
    let client = machine.bucket.clone();
    let open = move |remote: &str| {
        assert_eq!(remote, ORIGIN);
        Ok(Arc::new(client.clone()) as Arc<dyn Bucket>)
    };
    machine.repo.store().set_range_source(Arc::new(RemoteRanges::new(open)));
}

fn assert_whole(repo: &Repository) {
    let report = fsck(repo, Thoroughness::Full, stamp(99).time, &mut |_, _| {}).unwrap();
    assert!(report.is_ok(), "{report:?}");
}

#[test]
fn lazy_clones_fetch_history_first_and_read_turns_remotely() {
    let bucket = MemoryBucket::new(1);
    let ([a, b], ids) = pushed(&bucket);
    let before = b.bucket.requests();
    let fetched = b.fetch("s").unwrap().unwrap();
    // Root, head, and both ends of the bundle.
    let cost = b.bucket.requests() - before;
    assert!(cost.total() <= 4, "{cost:?}");
    assert!(fetched.bytes < 250_000, "{} bytes", fetched.bytes);
    let log: Vec<ObjectId> =
        b.repo.history(&[ids[59]], &[]).unwrap().map(|entry| entry.unwrap().id).collect();
    assert_eq!(log.len(), ids.len());

    // The fetch included the content of the newest turn.
    let before = b.bucket.requests();
    let newest = format!("k{}", (TURNS - 1) % 8);
    let text = |repo: &Repository| {
        let context = Context::open(repo, &repo.commit(&ids[59]).unwrap().tree).unwrap();
        let entries = context.map(repo, "scratchpad").unwrap();
        let item = entries.get(repo, newest.as_bytes()).unwrap().unwrap();
        repo.read_as(Kind::Blob, &item.link.id).unwrap()
    };
    assert_eq!(text(&b.repo), text(&a.repo));
    assert_eq!((b.bucket.requests() - before).total(), 0);

    let before = b.bucket.requests();
    assert_eq!(notes(&b.repo, &ids[59]).unwrap(), notes(&a.repo, &ids[59]).unwrap());
    let newest = b.bucket.requests() - before;
    assert!(newest.total() <= 2, "{newest:?}");
    for id in &ids {
        assert_eq!(notes(&b.repo, id).unwrap(), notes(&a.repo, id).unwrap());
    }
    assert_whole(&b.repo);
}

#[test]
fn lazy_clones_without_the_remote_keep_read_content_and_report_the_rest() {
    let bucket = MemoryBucket::new(1);
    let ([a, b], ids) = pushed(&bucket);
    b.fetch("s").unwrap();
    let newest = notes(&b.repo, &ids[59]).unwrap();
    bucket.choose(|call| (call.verb == Verb::Get).then_some(Fault::Refused));
    let b = b.again(bucket.client());
    attach(&b);
    assert_eq!(notes(&b.repo, &ids[59]).unwrap(), newest, "the folder has it");
    let error = notes(&b.repo, &ids[5]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(error.to_string().contains("only on remote origin"), "{error}");
    // Nothing is damaged, and maintenance needs no remote.
    assert_whole(&b.repo);
    collect(&b.repo, Purpose::Gc, &stamp(100), &mut |_| {}).unwrap();
    assert_whole(&b.repo);
    // The same without an attached remote.
    let b = b.again(bucket.client());
    let error = notes(&b.repo, &ids[5]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("on a remote"), "{error}");
    bucket.choose(|_| None);
    let b = b.again(bucket.client());
    attach(&b);
    assert_eq!(notes(&b.repo, &ids[5]).unwrap(), notes(&a.repo, &ids[5]).unwrap());
}

#[test]
fn new_turns_of_lazy_clones_are_self_contained() {
    let bucket = MemoryBucket::new(1);
    let ([a, b], ids) = pushed(&bucket);
    b.fetch("s").unwrap();
    b.follow("s").unwrap();
    let old = notes(&b.repo, &ids[3]).unwrap();
    let text = old[3].clone().unwrap();
    // The content is remote-only, but is stored locally too.
    note(&b.repo, "mine", &text, 70);
    assert!(b.repo.store().is_here(&ObjectId::of(Kind::Blob, text.as_bytes())));
    for number in 60..75 {
        turn(&b.repo, number);
        b.push("s").unwrap();
    }
    let tip = b.repo.tip(&main_branch()).unwrap();
    a.fetch("s").unwrap();
    assert_eq!(notes(&a.repo, &tip).unwrap(), notes(&b.repo, &tip).unwrap());
    for machine in [&a, &b] {
        assert_whole(&machine.repo);
    }
    let bytes = b.fetch_whole().unwrap();
    assert!(bytes > 300_000);
    assert!(!b.repo.store().has_distant());
    bucket.choose(|_| Some(Fault::Refused));
    for id in &ids {
        assert_eq!(notes(&b.repo, id).unwrap(), notes(&a.repo, id).unwrap());
    }
    assert_whole(&b.repo);
}

#[test]
fn lazy_reads_use_folded_bundles() {
    let bucket = MemoryBucket::new(1);
    let ([a, b], ids) = pushed(&bucket);
    b.fetch("s").unwrap();
    // As large again, so that the first bundle is folded.
    let gone = b.repo.distant_bundles(ORIGIN);
    for (numbers, other) in [(60..80, 8), (80..100, 58)] {
        // `b` does not fetch between the folds. Its old bundle exists until the second one.
        notes(&b.repo, &ids[other]).unwrap();
        for number in numbers {
            turn(&a.repo, number);
        }
        a.push("s").unwrap();
        assert!(a.fold("s").unwrap());
    }
    let error = notes(&b.repo, &ids[30]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    b.fetch("s").unwrap();
    assert_ne!(b.repo.distant_bundles(ORIGIN), gone, "the first one is listed no more");
    for id in &ids {
        assert_eq!(notes(&b.repo, id).unwrap(), notes(&a.repo, id).unwrap());
    }
    assert_whole(&b.repo);
    b.fetch_whole().unwrap();
    assert!(!b.repo.store().has_distant());
    assert_whole(&b.repo);
}

#[test]
fn lazy_reads_reject_changed_bytes() {
    let bucket = MemoryBucket::new(1);
    let ([_a, b], ids) = pushed(&bucket);
    b.fetch("s").unwrap();
    let mut objects = bucket.objects().into_iter();
    let (key, whole) = objects.find(|(key, _)| key.as_str().starts_with("bundles/")).unwrap();
    let mut refused = 0;
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let mut bytes = whole.to_vec();
        bytes[at] ^= 0x10;
        bucket.tamper(&key, bytes.into());
        let c = lazy(&bucket, 3);
        let read =
            c.fetch("s").and_then(|_| ids.iter().try_for_each(|id| notes(&c.repo, id).map(drop)));
        if let Err(error) = read {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {at}: {error}");
            refused += 1;
        }
    }
    assert!(refused >= 38, "{refused}");
    // A reader that has verified both ends detects changes between them.
    bucket.tamper(&key, vec![0; whole.len()].into());
    assert_eq!(notes(&b.repo, &ids[20]).unwrap_err().kind(), ErrorKind::Corrupt);
    bucket.tamper(&key, whole.slice(..whole.len() / 2));
    assert_eq!(notes(&b.repo, &ids[30]).unwrap_err().kind(), ErrorKind::Corrupt);
    bucket.tamper(&key, whole);
    notes(&b.repo, &ids[30]).unwrap();
}

#[test]
fn searches_report_remote_only_content_consistently() {
    let bucket = MemoryBucket::new(1);
    let ([_a, b], ids) = pushed(&bucket);
    b.fetch("s").unwrap();
    // If the remote is unreachable, both ways name the same objects; if it is reachable, both find
    // the same.
    bucket.choose(|call| (call.verb == Verb::Get).then_some(Fault::Refused));
    let refused = expect_same_of(&b.repo, ids[59], "quizzical");
    assert!(refused.is_none_or(|(_, damage)| !damage.is_empty()));
    bucket.choose(|_| None);
    assert!(expect_same_of(&b.repo, ids[59], "01234").is_some_and(|(found, _)| found > 0));
    assert_eq!(expect_same_of(&b.repo, ids[59], "quizzical"), Some((0, Vec::new())));
}
