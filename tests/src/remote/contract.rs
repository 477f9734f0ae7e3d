//! The contract of every bucket: in memory, in a folder, in object storage, or on another machine.

use std::io;
use std::sync::Barrier;

use bytes::Bytes;
use turntree::Result;
use turntree::store::ReadAt;
use turntree::transfer::remote::{Bucket, Got, Key, Listed, Put, Version};

/// Opens a client of the bucket. All clients have the same bucket.
pub type Open<'a> = &'a (dyn Fn() -> Box<dyn Bucket> + Sync);

/// Bytes to upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source(pub Vec<u8>);

impl ReadAt for Source {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let length = buffer.len().min(self.0.len() - start);
        buffer[..length].copy_from_slice(&self.0[start..start + length]);
        Ok(length)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

/// Checks the whole contract on an empty bucket, with `listed` objects in the longest listing.
///
/// # Panics
/// If an answer is wrong.
pub fn expect_bucket(open: Open<'_>, listed: usize) {
    let bucket = open();
    one_object(&*bucket);
    uploads(&*bucket);
    listings(&*bucket, listed);
    races(open);
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn done(put: Result<Put>) -> Version {
    match put.unwrap() {
        Put::Done(version) => version,
        other => panic!("{other:?}"),
    }
}

fn read(bucket: &dyn Bucket, name: &str) -> Option<(Bytes, Version)> {
    match bucket.get(&key(name), None, None).unwrap() {
        Got::Bytes { bytes, version, size } => {
            assert_eq!(size, bytes.len() as u64, "{name}");
            Some((bytes, version))
        }
        _ => None,
    }
}

fn one_object(bucket: &dyn Bucket) {
    let head = key("heads/a%2Fb");
    assert_eq!(bucket.get(&head, None, None).unwrap(), Got::Missing);
    assert_eq!(bucket.get(&head, Some(0..1), None).unwrap(), Got::Missing);
    let version = done(bucket.put_new(&head, "0123456789".into()));
    assert_eq!(bucket.put_new(&head, "other".into()).unwrap(), Put::Lost);
    for (range, expected) in [(0..3, "012"), (8..20, "89"), (10..12, ""), (20..30, ""), (3..3, "")]
    {
        let got = bucket.get(&head, Some(range.clone()), None).unwrap();
        let expected = Got::Bytes { bytes: expected.into(), version: version.clone(), size: 10 };
        assert_eq!(got, expected, "{range:?}");
    }
    assert_eq!(bucket.get(&head, None, Some(&version)).unwrap(), Got::Same);
    assert_eq!(bucket.get(&head, Some(0..1), Some(&version)).unwrap(), Got::Same);
    let next = done(bucket.put_over(&head, "next".into(), &version));
    assert_ne!(next, version);
    assert_eq!(bucket.put_over(&head, "lost".into(), &version).unwrap(), Put::Lost);
    assert_eq!(read(bucket, "heads/a%2Fb"), Some(("next".into(), next.clone())));
    let changed = bucket.get(&head, None, Some(&version)).unwrap();
    assert!(matches!(changed, Got::Bytes { .. }), "{changed:?}");
    bucket.delete(std::slice::from_ref(&head)).unwrap();
    bucket.delete(&[head.clone(), key("heads/gone"), key("nowhere/gone")]).unwrap();
    assert_eq!(bucket.get(&head, None, Some(&next)).unwrap(), Got::Missing);
    assert_eq!(bucket.put_over(&head, "lost".into(), &next).unwrap(), Put::Lost);
    assert_eq!(read(bucket, "heads/a%2Fb"), None);
}

fn uploads(bucket: &dyn Bucket) {
    for size in [0, 1, (4 << 20) + 1, (16 << 20) + 1] {
        let source = Source((0..size).map(|at: usize| ((at * 31) >> 3) as u8).collect());
        let name = "bundles/a/1-00ff";
        for _ in 0..2 {
            bucket.upload(&key(name), &source).unwrap();
        }
        let (found, version) = read(bucket, name).unwrap();
        assert!(found == source.0, "{size} bytes");
        assert_eq!(bucket.get(&key(name), None, Some(&version)).unwrap(), Got::Same);
        let end = size as u64;
        let got = bucket.get(&key(name), Some(end.saturating_sub(9)..end + 9), None).unwrap();
        let bytes = Bytes::copy_from_slice(&source.0[size.saturating_sub(9)..]);
        assert_eq!(got, Got::Bytes { bytes, version, size: end });
    }
    bucket.delete(&[key("bundles/a/1-00ff")]).unwrap();
}

fn listings(bucket: &dyn Bucket, listed: usize) {
    let all = ["a%2Fb", "a-b", "a.b/c", "a/b", "a/b-c", "ab/0", "heads/a", "heads/b", "root"];
    for name in all.iter().rev() {
        bucket.upload(&key(name), &Source(name.as_bytes().to_vec())).unwrap();
    }
    let list = |prefix: &str, after: Option<&str>| {
        let page = bucket.list(prefix, after.map(key).as_ref()).unwrap();
        page.objects.iter().map(|object| object.key.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(list("", None), all);
    assert_eq!(list("a", None), all[..6]);
    assert_eq!(list("a/", None), ["a/b", "a/b-c"]);
    assert_eq!(list("a/b", None), ["a/b", "a/b-c"]);
    assert_eq!(list("heads/", Some("heads/a")), ["heads/b"]);
    assert_eq!(list("", Some("a/b")), all[4..]);
    assert_eq!(list("nowhere/", None), [""; 0]);
    let page = bucket.list("heads/", None).unwrap();
    for Listed { key, size, version } in page.objects {
        assert_eq!(size, key.as_str().len() as u64);
        let got = bucket.get(&key, None, Some(&version)).unwrap();
        assert_eq!(got, Got::Same, "the state of a listing is that of the object");
    }
    bucket.delete(&all.map(key)).unwrap();
    let many: Vec<String> = (0..listed).map(|number| format!("many/{number:05}")).collect();
    for name in &many {
        done(bucket.put_new(&key(name), Bytes::copy_from_slice(name.as_bytes())));
    }
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = bucket.list("many/", after.as_ref()).unwrap();
        found.extend(page.objects.iter().map(|object| object.key.to_string()));
        after = page.objects.last().map(|object| object.key.clone()).or(after);
        if !page.has_more {
            break;
        }
    }
    assert_eq!(found, many);
    let many: Vec<Key> = many.iter().map(|name| key(name)).collect();
    bucket.delete(&many).unwrap();
    assert_eq!(list("", None), [""; 0]);
}

/// Of several writers that saw the same version, exactly one wins each time.
fn races(open: Open<'_>) {
    const WRITERS: usize = 4;
    let buckets: Vec<_> = (0..WRITERS).map(|_| open()).collect();
    let (head, barrier) = (key("heads/race"), Barrier::new(WRITERS));
    let mut seen: Option<Version> = None;
    for round in 0..5 {
        let write = |writer: usize| {
            let bytes = Bytes::from(format!("{writer} in round {round}"));
            barrier.wait();
            match &seen {
                None => buckets[writer].put_new(&head, bytes).unwrap(),
                Some(seen) => buckets[writer].put_over(&head, bytes, seen).unwrap(),
            }
        };
        let puts: Vec<Put> = std::thread::scope(|scope| {
            let writers: Vec<_> =
                (0..WRITERS).map(|writer| scope.spawn(move || write(writer))).collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let won: Vec<_> = puts.iter().filter(|put| matches!(put, Put::Done(_))).collect();
        assert!(won.len() <= 1, "{puts:?}");
        // A client without an answer reads the object. One of the writers won.
        let (bytes, version) = read(&*buckets[0], "heads/race").unwrap();
        assert!(bytes.ends_with(format!("in round {round}").as_bytes()), "{bytes:?}");
        if let [Put::Done(done)] = won.as_slice() {
            assert_eq!(*done, version);
        }
        seen = Some(version);
    }
    buckets[0].delete(&[head]).unwrap();
}
