//! Encrypted remotes: members read everything, the bucket nothing, and changes by anyone else are
//! rejected.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use turntree::ErrorKind;
use turntree::maintenance::fsck;
use turntree::repo::BranchName;
use turntree::store::Thoroughness;
use turntree::transfer::remote::{
    Bucket, CollectOptions, Got, Hex, Key, Names, RemoteKeys, SealedBucket,
};
use turntree_tests::remote::{Fault, Machine, MemoryBucket, ORIGIN, Verb};
use turntree_tests::stamp;

/// Secrets that must not appear in the bucket, although every upload contains them.
const SESSION: &str = "a-secret-session";
const TEXT: &str = "a text that only holders of the key read";

static DRAWN: AtomicU64 = AtomicU64::new(1);

fn main_branch() -> BranchName {
    BranchName::main(SESSION).unwrap()
}

fn first_keys() -> RemoteKeys {
    RemoteKeys::new([1; 32])
}

fn later_keys() -> RemoteKeys {
    first_keys().with_epoch([2; 32]).unwrap()
}

fn sealed(bucket: &MemoryBucket, keys: RemoteKeys, takes_old_heads: bool) -> SealedBucket {
    let draw = || {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&DRAWN.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        bytes
    };
    SealedBucket::new(Arc::new(bucket.client()), keys, takes_old_heads, draw)
}

fn member(number: u64, bucket: &MemoryBucket) -> Machine<SealedBucket> {
    Machine::new(number, sealed(bucket, first_keys(), false))
}

/// A remote with some turns of a machine.
fn pushed(turns: usize) -> (MemoryBucket, Machine<SealedBucket>) {
    let bucket = MemoryBucket::new(1);
    let a = member(1, &bucket);
    a.make();
    for _ in 0..turns {
        a.turn(&main_branch(), TEXT);
        a.push(SESSION).unwrap();
    }
    (bucket, a)
}

fn heads_and_bundles(bucket: &MemoryBucket) -> BTreeMap<Key, Bytes> {
    let root = Key::new("turntree").unwrap();
    bucket.objects().into_iter().filter(|(key, _)| *key != root).collect()
}

/// Checks that a member refuses the bucket and imports nothing.
fn assert_refused(bucket: &MemoryBucket, what: &str) {
    let fresh = member(50, bucket);
    let error = fresh.fetch(SESSION).map(drop).unwrap_err();
    let kinds = [ErrorKind::Corrupt, ErrorKind::Encrypted, ErrorKind::NotFound];
    assert!(kinds.contains(&error.kind()), "{what}: {error}");
    assert!(fresh.repo.remote_branches(ORIGIN, Some(SESSION)).is_empty(), "{what}");
    let report = fsck(&fresh.repo, Thoroughness::Full, stamp(9).time, &mut |_, _| {}).unwrap();
    assert!(report.is_ok(), "{what}: {report:?}");
}

#[test]
fn sealed_buckets_reveal_only_sizes_and_times() {
    let (bucket, a) = pushed(12);
    for (key, bytes) in heads_and_bundles(&bucket) {
        let is_seen = |word: &str| bytes.windows(word.len()).any(|part| part == word.as_bytes());
        for word in [SESSION, TEXT, "refs/heads", "generation", "main", "turntree bundle"] {
            assert!(!is_seen(word) && !key.as_str().contains(SESSION), "{word} in {key}");
        }
    }
    let b = member(2, &bucket);
    b.fetch(SESSION).unwrap();
    b.follow(SESSION).unwrap();
    assert_eq!(b.repo.tip(&main_branch()), a.repo.tip(&main_branch()));
    b.turn(&main_branch(), "of the other one");
    b.push(SESSION).unwrap();
    assert_eq!(a.fetch_all().unwrap().len(), 1);
    assert!(a.knows(&main_branch(), &b.repo.tip(&main_branch()).unwrap()));
    assert!(a.collect(CollectOptions::default()).unwrap().unknown.is_empty());
    let checked = a.check().unwrap();
    assert_eq!((checked.missing.len(), checked.unlisted, checked.sessions), (0, 0, 1));
}

#[test]
fn damaged_swapped_or_replayed_sealed_objects_are_rejected() {
    let (bucket, _) = pushed(1);
    let early = heads_and_bundles(&bucket);
    let good = bucket.save();
    for (key, bytes) in &early {
        for at in (0..bytes.len()).step_by(41).chain([bytes.len() - 1]) {
            let mut bad = bytes.to_vec();
            bad[at] ^= 1;
            bucket.tamper(key, bad.into());
            assert_refused(&bucket, &format!("{key} at {at}"));
            bucket.restore(&good);
        }
        for length in [0, 10, 44, 60, bytes.len() - 16, bytes.len() - 1] {
            bucket.tamper(key, bytes.slice(..length));
            assert_refused(&bucket, &format!("{key} cut at {length}"));
            bucket.restore(&good);
        }
        for (other, of_other) in early.iter().filter(|(other, _)| *other != key) {
            bucket.tamper(key, of_other.clone());
            assert_refused(&bucket, &format!("{other} in the place of {key}"));
            bucket.restore(&good);
        }
        // Sealed with other secrets.
        let stranger = sealed(&bucket, RemoteKeys::new([9; 32]), false);
        bucket.remove(key);
        stranger.put_new(key, "forged".into()).unwrap();
        assert_refused(&bucket, &format!("{key} forged"));
        bucket.restore(&good);
    }
    // An earlier head, for a machine that saw a later one.
    let b = member(2, &bucket);
    b.fetch(SESSION).unwrap();
    b.follow(SESSION).unwrap();
    b.turn(&main_branch(), "later");
    b.push(SESSION).unwrap();
    let head = early.keys().find(|key| key.as_str().starts_with("heads/")).unwrap();
    bucket.tamper(head, early[head].clone());
    assert_eq!(b.fetch(SESSION).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn removed_members_cannot_read_or_forge_new_heads() {
    let (bucket, a) = pushed(2);
    let removed = member(2, &bucket);
    removed.fetch(SESSION).unwrap();
    removed.follow(SESSION).unwrap();
    let (old, early) = (heads_and_bundles(&bucket), bucket.save());
    let renewing = Machine::new(3, sealed(&bucket, later_keys(), true));
    // The renewal may die at any call, and is repeated.
    assert_eq!(renewing.renew_heads().unwrap(), 1);
    assert_eq!(renewing.renew_heads().unwrap(), 1);

    let later = Machine::new(4, sealed(&bucket, later_keys(), false));
    later.fetch(SESSION).unwrap();
    later.follow(SESSION).unwrap();
    assert_eq!(later.repo.tip(&main_branch()), a.repo.tip(&main_branch()), "all of before");
    later.turn(&main_branch(), "after the removal");
    later.push(SESSION).unwrap();
    let known = removed.repo.remote_branches(ORIGIN, Some(SESSION));
    assert_eq!(removed.fetch(SESSION).unwrap_err().kind(), ErrorKind::Encrypted);
    removed.turn(&main_branch(), "of the removed one");
    assert_eq!(removed.push(SESSION).unwrap_err().kind(), ErrorKind::Encrypted);
    assert_eq!(removed.repo.remote_branches(ORIGIN, Some(SESSION)), known);
    let fresh = Machine::new(5, sealed(&bucket, later_keys(), false));
    fresh.fetch(SESSION).unwrap();
    assert!(fresh.knows(&main_branch(), &later.repo.tip(&main_branch()).unwrap()));

    // An old head, and a head that the removed member makes now.
    let head = old.keys().find(|key| key.as_str().starts_with("heads/")).unwrap();
    let good = bucket.save();
    bucket.tamper(head, old[head].clone());
    for machine in [&later, &Machine::new(6, sealed(&bucket, later_keys(), false))] {
        assert_eq!(machine.fetch(SESSION).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    bucket.restore(&early);
    removed.push(SESSION).unwrap();
    let newcomer = Machine::new(7, sealed(&bucket, later_keys(), false));
    assert_eq!(newcomer.fetch(SESSION).unwrap_err().kind(), ErrorKind::Corrupt);
    bucket.restore(&good);
    newcomer.fetch(SESSION).unwrap();
}

#[test]
fn aggressive_collections_reseal_content_for_remaining_members() {
    let (bucket, a) = pushed(3);
    let renewing = Machine::new(3, sealed(&bucket, later_keys(), true));
    renewing.renew_heads().unwrap();
    let later = Machine::new(4, sealed(&bucket, later_keys(), false));
    later.fetch(SESSION).unwrap();
    later.follow(SESSION).unwrap();
    let readable = || {
        let removed = sealed(&bucket, first_keys(), false);
        let is_read = |key: &&Key| removed.get(key, None, None).is_ok();
        heads_and_bundles(&bucket).keys().filter(is_read).count()
    };
    assert!(readable() > 0, "until a collection removes it");
    let all = CollectOptions { is_dry: false, is_aggressive: true };
    assert_eq!(later.collect(all).unwrap().folded, 1, "though it is one bundle");
    assert_eq!(readable(), 0);
    assert_eq!(later.collect(all).unwrap().folded, 0, "once");
    let fresh = Machine::new(5, sealed(&bucket, later_keys(), false));
    fresh.fetch(SESSION).unwrap();
    assert!(fresh.knows(&main_branch(), &a.repo.tip(&main_branch()).unwrap()));
}

/// A file of `length` bytes.
fn file(length: usize) -> (Vec<u8>, std::fs::File) {
    let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + at / 251) as u8).collect();
    let named = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(named.path(), &bytes).unwrap();
    (bytes, named.into_file())
}

#[test]
fn sealed_ranges_read_like_plain_ranges() {
    const CHUNK: usize = 64 << 10;
    let bucket = MemoryBucket::new(1);
    let (writer, reader) =
        (sealed(&bucket, first_keys(), false), sealed(&bucket, later_keys(), false));
    let lengths = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 17];
    for (number, length) in lengths.into_iter().enumerate() {
        let key = Key::new(format!("bundles/x/{number}")).unwrap();
        let (plain, file) = file(length);
        writer.upload(&key, &file).unwrap();
        let whole = reader.get(&key, None, None).unwrap();
        let Got::Bytes { bytes, size, .. } = whole else { panic!("it is there") };
        assert_eq!((bytes.as_ref(), size), (&plain[..], length as u64), "{length}");
        let listed = reader.list("bundles/", None).unwrap().objects;
        assert_eq!(listed.iter().find(|object| object.key == key).unwrap().size, size);
        let edges = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, length, length + 9];
        for from in edges {
            for to in edges.into_iter().filter(|to| *to >= from) {
                // A reader that has read the object before, and a new reader.
                for reader in [&reader, &sealed(&bucket, later_keys(), false)] {
                    let got = reader.get(&key, Some(from as u64..to as u64), None).unwrap();
                    let Got::Bytes { bytes, size, .. } = got else { panic!("it is there") };
                    let expected = &plain[from.min(length)..to.min(length)];
                    assert_eq!((bytes.as_ref(), size), (expected, length as u64), "{from}..{to}");
                }
            }
        }
    }
}

#[test]
fn truncated_answers_yield_no_wrong_bytes() {
    let bucket = MemoryBucket::new(3);
    let (plain, file) = file(400_000);
    let key = Key::new("bundles/x/1").unwrap();
    let client = sealed(&bucket, first_keys(), false);
    client.upload(&key, &file).unwrap();
    bucket.choose(|call| (call.verb == Verb::Get).then_some(Fault::Short));
    for _ in 0..40 {
        match client.get(&key, Some(70_000..390_000), None) {
            Ok(Got::Bytes { bytes, size, .. }) => {
                assert!(!bytes.is_empty() && plain[70_000..390_000].starts_with(&bytes));
                assert_eq!(size, 400_000);
            }
            other => {
                assert!([ErrorKind::Io, ErrorKind::Corrupt].contains(&other.unwrap_err().kind()));
            }
        }
        let whole = client.get(&key, None, None);
        assert_eq!(whole.unwrap_err().kind(), ErrorKind::Io);
    }
}

#[test]
fn sealed_objects_match_the_format_vectors() {
    let text = include_str!("../../format-spec/vectors/remote-sealed.json");
    let vector: serde_json::Value = serde_json::from_str(text).unwrap();
    let word = |name: &str| vector[name].as_str().unwrap().to_owned();
    let keys = RemoteKeys::from_text(&word("keys")).unwrap();
    let bucket = MemoryBucket::new(1);
    let client = SealedBucket::new(Arc::new(bucket.client()), keys, false, || [5; 16]);
    let key = Key::new(word("key")).unwrap();
    client.put_new(&key, Bytes::from(word("plain"))).unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(&bucket.objects()[&key]), word("sealed"));
    let Names::Keyed(names) = client.names() else { panic!("names are keyed") };
    assert_eq!(Hex(names).to_string(), word("names"));
    let a = Machine::new(1, client);
    a.make();
    a.turn(&BranchName::main("task").unwrap(), "one");
    a.push("task").unwrap();
    assert!(bucket.objects().contains_key(&Key::new(word("head-of-task")).unwrap()));
}
