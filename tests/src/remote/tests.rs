//! Tests that the faults of the bucket in memory have their documented effects.

use std::sync::{Arc, Mutex};

use turntree::transfer::remote::{Bucket, Got, Key, Put, Version};

use super::*;
use crate::sim::Random;

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// Reads an object through a client.
fn read(client: &MemoryClient, name: &str) -> Option<(Vec<u8>, Version)> {
    match client.get(&key(name), None, None).unwrap() {
        Got::Bytes { bytes, version, .. } => Some((bytes.to_vec(), version)),
        _ => None,
    }
}

fn done(put: Put) -> Version {
    match put {
        Put::Done(version) => version,
        other => panic!("{other:?}"),
    }
}

fn names(page: &turntree::transfer::remote::Page) -> Vec<&str> {
    page.objects.iter().map(|object| object.key.as_str()).collect()
}

/// A bucket whose client 0 has one fault in its n-th call.
fn failing(call: u64, fault: Fault) -> (MemoryBucket, MemoryClient) {
    let bucket = MemoryBucket::new(1);
    bucket.choose(move |asked| (asked.client == 0 && asked.number == call).then_some(fault));
    let client = bucket.client();
    (bucket, client)
}

#[test]
fn what_is_written_is_read_whole_by_range_and_unless_it_is_the_same() {
    let client = MemoryBucket::new(1).client();
    let head = key("heads/a");
    assert_eq!(client.get(&head, None, None).unwrap(), Got::Missing);
    let version = done(client.put_new(&head, "0123456789".into()).unwrap());
    assert_eq!(client.put_new(&head, "other".into()).unwrap(), Put::Lost);
    for (range, expected) in [(0..3, "012"), (8..20, "89"), (10..12, ""), (20..30, ""), (3..3, "")]
    {
        let got = client.get(&head, Some(range), None).unwrap();
        let bytes = expected.into();
        assert_eq!(got, Got::Bytes { bytes, version: version.clone(), size: 10 });
    }
    assert_eq!(client.get(&head, None, Some(&version)).unwrap(), Got::Same);
    let next = done(client.put_over(&head, "next".into(), &version).unwrap());
    assert_eq!(client.put_over(&head, "lost".into(), &version).unwrap(), Put::Lost);
    assert_eq!(read(&client, "heads/a").unwrap(), (b"next".to_vec(), next));
    let requests = client.requests();
    assert_eq!((requests.gets, requests.puts, requests.total()), (8, 4, 12));
    assert_eq!((requests.bytes_read, requests.bytes_written), (3 + 2 + 4, 10 + 5 + 4 + 4));
}

#[test]
fn a_version_never_comes_back() {
    let bucket = MemoryBucket::new(1);
    let client = bucket.client();
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(done(client.put_new(&key("a"), "same".into()).unwrap()));
        client.delete(&[key("a"), key("gone")]).unwrap();
    }
    let saved = bucket.save();
    seen.push(done(client.put_new(&key("a"), "same".into()).unwrap()));
    bucket.restore(&saved);
    assert!(bucket.objects().is_empty());
    seen.push(done(client.put_new(&key("a"), "same".into()).unwrap()));
    let before = seen.len();
    seen.sort_by(|a, b| a.0.cmp(&b.0));
    seen.dedup();
    assert_eq!(seen.len(), before);
    assert_eq!(client.put_over(&key("b"), "b".into(), &seen[0]).unwrap(), Put::Lost);
}

#[test]
fn an_answer_that_is_lost_says_nothing_of_what_was_written() {
    let written = |fault| {
        let (bucket, client) = failing(1, fault);
        (client.put_new(&key("a"), "a".into()).map_err(|_| ()), bucket.objects().len())
    };
    assert_eq!(written(Fault::Refused), (Err(()), 0));
    assert_eq!(written(Fault::RequestLost), (Ok(Put::Unknown), 0));
    assert_eq!(written(Fault::AnswerLost), (Ok(Put::Unknown), 1));
    assert_eq!(written(Fault::SentTwice), (Ok(Put::Lost), 1));
    assert_eq!(written(Fault::LostForNothing), (Ok(Put::Lost), 0));
}

#[test]
fn a_late_write_comes_before_a_later_call_if_its_condition_holds_then() {
    let (bucket, client) = failing(1, Fault::Late(2));
    assert_eq!(client.put_new(&key("a"), "late".into()).unwrap(), Put::Unknown);
    assert_eq!(read(&client, "a"), None);
    assert_eq!(read(&client, "a").unwrap().0, b"late");

    let (other_bucket, client) = failing(1, Fault::Late(2));
    assert_eq!(client.put_new(&key("a"), "late".into()).unwrap(), Put::Unknown);
    done(client.put_new(&key("a"), "first".into()).unwrap());
    other_bucket.settle();
    assert_eq!(read(&client, "a").unwrap().0, b"first");
    assert_eq!(bucket.objects().len(), 1);
}

#[test]
fn an_upload_that_fails_leaves_nothing_or_the_whole() {
    let left = |fault| {
        let (bucket, client) = failing(1, fault);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "the whole").unwrap();
        let uploaded = client.upload(&key("bundles/a"), file.as_file()).is_ok();
        bucket.settle();
        (uploaded, bucket.objects().into_values().map(|bytes| bytes.to_vec()).collect::<Vec<_>>())
    };
    let whole = vec![b"the whole".to_vec()];
    assert_eq!(left(Fault::Stale(1)), (true, whole.clone()));
    assert_eq!(left(Fault::Refused), (false, vec![]));
    assert_eq!(left(Fault::RequestLost), (false, vec![]));
    assert_eq!(left(Fault::AnswerLost), (false, whole.clone()));
    assert_eq!(left(Fault::Late(5)), (false, whole));
}

#[test]
fn a_listing_has_pages_in_order_of_keys() {
    let bucket = MemoryBucket::new(1);
    let client = bucket.client();
    bucket.set_page(2);
    for name in ["heads/b", "heads/a", "other", "heads/c"] {
        done(client.put_new(&key(name), name.into()).unwrap());
    }
    let first = client.list("heads/", None).unwrap();
    assert_eq!((names(&first), first.has_more), (vec!["heads/a", "heads/b"], true));
    let rest = client.list("heads/", Some(&first.objects[1].key)).unwrap();
    assert_eq!((names(&rest), rest.has_more), (vec!["heads/c"], false));
    assert_eq!(rest.objects[0].size, 7);
    assert_eq!(rest.objects[0].version, read(&client, "heads/c").unwrap().1);
}

#[test]
fn a_stale_listing_misses_what_is_new_and_shows_what_is_gone() {
    let (mut missed, mut shown) = (false, false);
    for seed in 0..20 {
        let bucket = MemoryBucket::new(seed);
        let client = bucket.client();
        done(client.put_new(&key("gone"), "".into()).unwrap());
        done(client.put_new(&key("old"), "".into()).unwrap());
        client.delete(&[key("gone")]).unwrap();
        done(client.put_new(&key("new"), "".into()).unwrap());
        bucket.choose(|call| (call.verb == Verb::List).then_some(Fault::Stale(2)));
        let page = client.list("", None).unwrap();
        missed |= !names(&page).contains(&"new");
        shown |= names(&page).contains(&"gone");
        assert!(names(&page).contains(&"old"), "it is older than the lag");
    }
    assert!(missed && shown);
}

#[test]
fn what_is_short_ends_early_and_says_how_much_there_is() {
    let bucket = MemoryBucket::new(7);
    let client = bucket.client();
    for name in ["a", "b", "c"] {
        done(client.put_new(&key(name), "0123456789".into()).unwrap());
    }
    bucket.choose(|_| Some(Fault::Short));
    let Got::Bytes { bytes, size, .. } = client.get(&key("a"), Some(2..8), None).unwrap() else {
        panic!("it is there")
    };
    assert!(bytes.len() < 6 && b"234567".starts_with(&bytes) && size == 10);
    let page = client.list("", None).unwrap();
    assert_eq!((names(&page), page.has_more), (vec!["a"], true));
    client.delete(&[key("a"), key("b")]).unwrap_err();
    assert!(bucket.objects().contains_key(&key("c")));
}

#[test]
fn a_client_that_is_killed_says_nothing_more() {
    let bucket = MemoryBucket::new(1);
    let (before, within, other) = (bucket.client(), bucket.client(), bucket.client());
    before.kill_before(1);
    before.put_new(&key("a"), "a".into()).unwrap_err();
    assert!(before.is_dead() && before.requests().total() == 0);
    within.kill_in(1);
    within.put_new(&key("b"), "b".into()).unwrap_err();
    within.put_new(&key("c"), "c".into()).unwrap_err();
    assert_eq!(bucket.objects().into_keys().collect::<Vec<_>>(), [key("b")]);
    assert!(read(&other, "b").is_some() && !other.is_dead());
    assert_eq!((within.calls(), within.requests().total(), bucket.requests().total()), (2, 1, 2));
}

#[test]
fn other_clients_come_between_any_two_calls() {
    let bucket = MemoryBucket::new(1);
    let (slow, quick) = (bucket.client(), bucket.client());
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    slow.before_each(move |call| {
        seen.lock().unwrap().push((call.number, call.verb, call.key.clone()));
        let name = format!("quick/{}", call.number);
        done(quick.put_new(&key(&name), "".into()).unwrap());
    });
    assert!(read(&slow, "quick/1").is_some());
    assert!(read(&slow, "quick/2").is_some());
    slow.unhook();
    assert_eq!(read(&slow, "quick/3"), None);
    let expected = [1, 2].map(|number| (number, Verb::Get, format!("quick/{number}")));
    assert_eq!(*calls.lock().unwrap(), expected);
}

/// Makes a few hundred calls of two clients with drawn faults. Returns all answers.
fn in_trouble(seed: u64) -> String {
    let bucket = MemoryBucket::new(seed);
    bucket.trouble(3);
    bucket.set_page(2);
    let clients = [bucket.client(), bucket.client()];
    let (mut random, mut said) = (Random(seed), String::new());
    for _ in 0..300 {
        let client = &clients[random.below(2)];
        let object = key(&format!("a/{}", random.below(4)));
        let seen = Version(format!("v{}", random.below(20)));
        let answer = match random.below(5) {
            0 => format!("{:?}", client.get(&object, Some(0..1), Some(&seen)).ok()),
            1 => format!("{:?}", client.put_new(&object, "abc".into()).ok()),
            2 => format!("{:?}", client.put_over(&object, "abcd".into(), &seen).ok()),
            3 => format!("{:?}", client.list("a/", None).ok()),
            _ => format!("{:?}", client.delete(&[object]).ok()),
        };
        said.push_str(&answer);
    }
    said
}

#[test]
fn equal_seeds_give_equal_answers() {
    for seed in 0..10 {
        let said = in_trouble(seed);
        assert_eq!(said, in_trouble(seed));
        assert!(["None", "Unknown", "Lost", "Done"].iter().all(|word| said.contains(word)));
    }
    assert_ne!(in_trouble(0), in_trouble(1));
}
