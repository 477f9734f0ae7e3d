//! A folder as a bucket: every acknowledged change is complete and happened once, despite crashes,
//! failures and races.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use turntree::store::{Io, ReadAt, RealIo};
use turntree::transfer::remote::{
    Bucket, FolderBucket, Got, Key, Listed, MAX_CHANGEABLE_BYTES, Put, Version,
};
use turntree::{ErrorKind, Result};
use turntree_tests::schedule::{Moment, Policy, Processes, Schedule, Work};
use turntree_tests::sim::{Failure, Fault, Keep, SimDisk};

const ROOT: &str = "/disk/remote";

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn salt() -> [u8; 16] {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    [NEXT.fetch_add(1, Ordering::Relaxed); 16]
}

fn new_folder() -> (tempfile::TempDir, FolderBucket) {
    let dir = tempfile::tempdir().unwrap();
    let bucket = FolderBucket::create(Arc::new(RealIo), dir.path().join("remote"), salt()).unwrap();
    (dir, bucket)
}

fn done(put: Result<Put>) -> Version {
    match put.unwrap() {
        Put::Done(version) => version,
        other => panic!("{other:?}"),
    }
}

fn read(bucket: &dyn Bucket, name: &str) -> Option<(Vec<u8>, Version)> {
    match bucket.get(&key(name), None, None).unwrap() {
        Got::Bytes { bytes, version, size } => {
            assert_eq!(size, bytes.len() as u64);
            Some((bytes.to_vec(), version))
        }
        _ => None,
    }
}

fn names(objects: &[Listed]) -> Vec<&str> {
    objects.iter().map(|object| object.key.as_str()).collect()
}

/// Bytes to upload.
#[derive(Debug)]
struct Source(Vec<u8>);

impl ReadAt for Source {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let rest = &self.0[usize::try_from(offset).unwrap().min(self.0.len())..];
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn size(&self) -> std::io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

#[test]
fn folder_remotes_read_whole_ranged_and_conditionally() {
    let (_dir, bucket) = new_folder();
    let head = key("heads/a");
    assert_eq!(bucket.get(&head, None, None).unwrap(), Got::Missing);
    let version = done(bucket.put_new(&head, "0123456789".into()));
    assert_eq!(bucket.put_new(&head, "other".into()).unwrap(), Put::Lost);
    for (range, expected) in [(0..3, "012"), (8..20, "89"), (10..12, ""), (20..30, ""), (3..3, "")]
    {
        let got = bucket.get(&head, Some(range), None).unwrap();
        let bytes = Bytes::from(expected);
        assert_eq!(got, Got::Bytes { bytes, version: version.clone(), size: 10 });
    }
    assert_eq!(bucket.get(&head, Some(0..1), Some(&version)).unwrap(), Got::Same);
    let next = done(bucket.put_over(&head, "next".into(), &version));
    assert_eq!(bucket.put_over(&head, "lost".into(), &version).unwrap(), Put::Lost);
    assert_eq!(read(&bucket, "heads/a").unwrap(), (b"next".to_vec(), next.clone()));
    bucket.delete(&[head.clone(), key("heads/gone"), key("nowhere/gone")]).unwrap();
    assert_eq!(bucket.get(&head, None, Some(&next)).unwrap(), Got::Missing);
    assert_eq!(bucket.put_over(&head, "lost".into(), &next).unwrap(), Put::Lost);
    let large = Bytes::from(vec![0; MAX_CHANGEABLE_BYTES + 1]);
    assert_eq!(bucket.put_new(&head, large).unwrap_err().kind(), ErrorKind::LimitExceeded);
}

#[test]
fn uploads_of_any_size_are_complete_and_repeatable() {
    let (_dir, bucket) = new_folder();
    for size in [0, 1, MAX_CHANGEABLE_BYTES, MAX_CHANGEABLE_BYTES + 1, 3 << 20] {
        let bytes: Vec<u8> = (0..size).map(|at| ((at * 31) >> 3) as u8).collect();
        let source = Source(bytes);
        bucket.upload(&key("bundles/a/1"), &source).unwrap();
        let (found, version) = read(&bucket, "bundles/a/1").unwrap();
        assert!(found == source.0, "{size} bytes");
        bucket.upload(&key("bundles/a/1"), &source).unwrap();
        let again = bucket.get(&key("bundles/a/1"), None, Some(&version)).unwrap();
        assert_eq!(again, Got::Same);
        let page = bucket.list("bundles/", None).unwrap();
        assert_eq!(page.objects[0], Listed { key: key("bundles/a/1"), size: size as u64, version });
    }
}

#[test]
fn listings_are_sorted_by_key() {
    let (dir, bucket) = new_folder();
    let all = ["a%2Fb", "a-b", "a.b/c", "a/b", "a/b-c", "ab/0", "heads/a", "heads/b", "root"];
    for name in all.iter().rev() {
        bucket.upload(&key(name), &Source(name.as_bytes().to_vec())).unwrap();
    }
    let remote = dir.path().join("remote");
    for litter in [".DS_Store", "a/.hidden", "heads/two words", ".incoming/left"] {
        fs::write(remote.join(litter), "no object").unwrap();
    }
    let list = |prefix: &str, after: Option<&str>| {
        let page = bucket.list(prefix, after.map(key).as_ref()).unwrap();
        assert!(!page.has_more);
        names(&page.objects).join(" ")
    };
    assert_eq!(list("", None), all.join(" "));
    assert_eq!(list("", Some("a/b")), all[4..].join(" "));
    assert_eq!(list("heads/", None), "heads/a heads/b");
    assert_eq!(list("heads/", Some("heads/a")), "heads/b");
    assert_eq!(list("a", Some("a-b")), "a.b/c a/b a/b-c ab/0");
    assert_eq!(list("heads/b", None), "heads/b");
    assert_eq!(list("../", None) + &list("nothing/", None) + &list("/", None), "");
}

#[test]
fn missing_folders_are_not_empty_remotes() {
    let (dir, bucket) = new_folder();
    let root = dir.path().join("remote");
    let version = done(bucket.put_new(&key("heads/a"), "a".into()));
    fs::rename(&root, dir.path().join("unplugged")).unwrap();
    fs::create_dir(&root).unwrap();
    assert_eq!(bucket.get(&key("heads/a"), None, None).unwrap_err().kind(), ErrorKind::Io);
    bucket.list("", None).unwrap_err();
    bucket.put_new(&key("heads/b"), "b".into()).unwrap_err();
    bucket.put_over(&key("heads/a"), "b".into(), &version).unwrap_err();
    bucket.upload(&key("bundles/a"), &Source(vec![1])).unwrap_err();
    bucket.delete(&[key("heads/a")]).unwrap_err();
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0, "nothing is written beside the remote");
    let opened = FolderBucket::open(Arc::new(RealIo), &root, salt());
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::NotFound);
    let found = FolderBucket::open(Arc::new(RealIo), dir.path().join("unplugged"), salt()).unwrap();
    assert!(read(&found, "heads/a").is_some());
}

#[test]
fn folder_remotes_do_not_follow_links() {
    let (dir, bucket) = new_folder();
    let (root, outside) = (dir.path().join("remote"), dir.path().join("outside"));
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink(&outside, root.join("heads")).unwrap();
    std::os::unix::fs::symlink(outside.join("secret"), root.join("file")).unwrap();
    for name in ["heads/secret", "file"] {
        bucket.get(&key(name), None, None).unwrap_err();
        let version = Version(String::new());
        bucket.put_over(&key(name), "x".into(), &version).unwrap_err();
    }
    bucket.put_new(&key("heads/new"), "x".into()).unwrap_err();
    bucket.upload(&key("heads/secret"), &Source(vec![1])).unwrap_err();
    bucket.delete(&[key("heads/secret")]).unwrap();
    assert_eq!(bucket.list("", None).unwrap().objects, []);
    assert_eq!(fs::read(outside.join("secret")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn leftovers_of_killed_writers_are_removed_and_active_files_kept() {
    let (dir, bucket) = new_folder();
    bucket.upload(&key("a"), &Source(vec![1])).unwrap();
    let incoming = dir.path().join("remote/.incoming");
    assert_eq!(fs::read_dir(&incoming).unwrap().count(), 0);
    fs::write(incoming.join("of-a-killed-writer"), "half").unwrap();
    let busy = fs::File::create(incoming.join("of-a-busy-writer")).unwrap();
    busy.lock().unwrap();
    let other = FolderBucket::open(Arc::new(RealIo), dir.path().join("remote"), salt()).unwrap();
    other.upload(&key("b"), &Source(vec![1])).unwrap();
    let left: Vec<_> =
        fs::read_dir(&incoming).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["of-a-busy-writer"]);
}

#[test]
fn exactly_one_racing_writer_wins() {
    const ROUNDS: u64 = 40;
    let (dir, first) = new_folder();
    let root = dir.path().join("remote");
    let wins = Mutex::new(BTreeMap::<String, Vec<usize>>::new());
    std::thread::scope(|threads| {
        for writer in 0..4 {
            let (root, wins) = (&root, &wins);
            threads.spawn(move || {
                let bucket = FolderBucket::open(Arc::new(RealIo), root, salt()).unwrap();
                let won = |what: String| wins.lock().unwrap().entry(what).or_default().push(writer);
                loop {
                    let mine = |round: u64| Bytes::from(format!("{round} {writer}"));
                    let Some((bytes, version)) = read(&bucket, "heads/a") else {
                        if matches!(bucket.put_new(&key("heads/a"), mine(0)), Ok(Put::Done(_))) {
                            won("0".into());
                        }
                        continue;
                    };
                    let text = String::from_utf8(bytes).unwrap();
                    let round = text.split(' ').next().unwrap().parse::<u64>().unwrap() + 1;
                    if round > ROUNDS {
                        break;
                    }
                    let put = bucket.put_over(&key("heads/a"), mine(round), &version).unwrap();
                    match put {
                        Put::Done(_) => won(round.to_string()),
                        Put::Lost => {}
                        Put::Unknown => panic!("the disk works"),
                    }
                }
            });
        }
    });
    let wins = wins.into_inner().unwrap();
    assert_eq!(wins.len() as u64, ROUNDS + 1);
    assert!(wins.values().all(|winners| winners.len() == 1), "{wins:?}");
    assert!(read(&first, "heads/a").unwrap().0.starts_with(b"40 "));
}

/// The bytes of an object, if it exists.
type Content = Option<Vec<u8>>;

/// The allowed content of each object: the last acknowledged one, and a requested one since.
#[derive(Debug, Default, Clone)]
struct Promise(BTreeMap<&'static str, (Content, Option<Content>)>);

type Shared = Arc<Mutex<Promise>>;

impl Promise {
    /// Checks that a bucket keeps the promise and holds only promised objects.
    fn check(&self, bucket: &FolderBucket, moment: &str) {
        let mut there = Vec::new();
        for (name, (answered, asked)) in &self.0 {
            let found = read(bucket, name).map(|found| found.0);
            let is_kept = found == *answered || asked.as_ref() == Some(&found);
            assert!(
                is_kept,
                "{moment}: {name} is {found:?}, {answered:?} or {asked:?} is promised"
            );
            there.extend(found.map(|_| *name));
        }
        let page = bucket.list("", None).unwrap();
        assert_eq!(names(&page.objects), there, "{moment}");
    }
}

/// Requests a change. An acknowledged change is promised from then on.
fn ask(
    promise: &Shared,
    name: &'static str,
    bytes: Option<&str>,
    call: impl FnOnce() -> Result<Put>,
) {
    let bytes = bytes.map(|bytes| bytes.as_bytes().to_vec());
    let before = {
        let mut promise = promise.lock().unwrap();
        let entry = promise.0.entry(name).or_default();
        // After an unknown outcome, both contents are allowed.
        let before = entry.clone();
        entry.1 = Some(bytes.clone());
        before
    };
    let answer = call();
    let mut promise = promise.lock().unwrap();
    match answer {
        Ok(Put::Done(_)) => drop(promise.0.insert(name, (bytes, None))),
        Ok(Put::Unknown) => {}
        // The change was certainly not written.
        Ok(Put::Lost) | Err(_) => drop(promise.0.insert(name, before)),
    }
}

/// Makes every kind of change, including the creation of the folder. A missing object has no
/// version to get: that would be another call that may fail.
fn play(io: Arc<dyn Io>, promise: &Shared) {
    let Ok(bucket) = FolderBucket::create(io, ROOT, salt()) else { return };
    let version_of = |name: &str| match bucket.get(&key(name), None, None) {
        Ok(Got::Bytes { version, .. }) => version,
        _ => Version(String::new()),
    };
    // A failed upload or deletion may have been done.
    let unsure =
        |done: Result<()>| Ok(done.map_or(Put::Unknown, |()| Put::Done(Version(String::new()))));
    let upload = |name, text: &str| unsure(bucket.upload(&key(name), &Source(text.into())));
    ask(promise, "heads/a", Some("one"), || bucket.put_new(&key("heads/a"), "one".into()));
    ask(promise, "bundles/a/1", Some("whole"), || upload("bundles/a/1", "whole"));
    let seen = version_of("heads/a");
    ask(promise, "heads/a", Some("two"), || bucket.put_over(&key("heads/a"), "two".into(), &seen));
    ask(promise, "heads/a", Some("lost"), || {
        bucket.put_over(&key("heads/a"), "lost".into(), &seen)
    });
    ask(promise, "heads/b", Some("b"), || bucket.put_new(&key("heads/b"), "b".into()));
    ask(promise, "heads/b", Some("c"), || bucket.put_new(&key("heads/b"), "c".into()));
    ask(promise, "bundles/a/1", None, || unsure(bucket.delete(&[key("bundles/a/1")])));
    ask(promise, "bundles/a/2", Some("more"), || upload("bundles/a/2", "more"));
}

fn new_disk() -> SimDisk {
    SimDisk::new(Path::new("/disk"))
}

#[test]
fn acknowledged_writes_survive_crashes_and_others_are_atomic() {
    let (disk, promise) = (new_disk(), Shared::default());
    let (watched, promised) = (disk.clone(), Arc::clone(&promise));
    let images = Arc::new(Mutex::new(0));
    let count = Arc::clone(&images);
    disk.watch(move |call| {
        let keeps = (0..12).map(Keep::Some).chain([Keep::All, Keep::Nothing]);
        for keep in keeps {
            let image: Arc<dyn Io> = Arc::new(watched.crash(keep));
            let moment = format!("before call {call}, {keep:?}");
            let promise = promised.lock().unwrap().clone();
            match FolderBucket::open(Arc::clone(&image), ROOT, salt()) {
                Ok(bucket) => promise.check(&bucket, &moment),
                Err(_) => assert!(promise.0.is_empty(), "{moment}: the folder is missing"),
            }
            // The bucket still works, and nothing of the killed writer is left.
            let bucket = FolderBucket::create(Arc::clone(&image), ROOT, salt()).unwrap();
            bucket.upload(&key("later"), &Source(vec![1])).unwrap();
            let left = image.list(&Path::new(ROOT).join(".incoming")).unwrap();
            assert_eq!(left, Vec::<String>::new(), "{moment}");
            *count.lock().unwrap() += 1;
        }
    });
    play(Arc::new(disk.clone()), &promise);
    disk.unwatch();
    let bucket = FolderBucket::open(Arc::new(disk), ROOT, salt()).unwrap();
    let expected = [("bundles/a/1", None), ("bundles/a/2", Some("more"))];
    let expected = expected.into_iter().chain([("heads/a", Some("two")), ("heads/b", Some("b"))]);
    for (name, text) in expected {
        assert_eq!(read(&bucket, name).map(|found| found.0), text.map(Into::into));
    }
    assert!(*images.lock().unwrap() > 500);
}

#[test]
fn failed_calls_report_whether_they_took_effect() {
    let calls = {
        let disk = new_disk();
        play(Arc::new(disk.clone()), &Shared::default());
        disk.calls().0
    };
    assert!(calls > 100);
    for forgets in [false, true] {
        for call in 1..=calls {
            let (disk, promise) = (new_disk(), Shared::default());
            disk.arm(Fault::FailAt(call));
            disk.fail_with(Failure { forgets, ..Failure::default() });
            play(Arc::new(disk.clone()), &promise);
            assert!(disk.triggered());
            let promise = promise.lock().unwrap().clone();
            let Ok(bucket) = FolderBucket::open(Arc::new(disk), ROOT, salt()) else {
                assert!(promise.0.is_empty());
                continue;
            };
            promise.check(&bucket, &format!("call {call} failed"));
        }
    }
}

/// Two processes increment a head three times each, in one order of their calls.
fn count_up(schedule: &Schedule) {
    let disk = new_disk();
    let made = FolderBucket::create(Arc::new(disk.clone()), ROOT, salt()).unwrap();
    let processes = Processes::new(Arc::new(disk), 2, schedule, Box::new(|_| {}));
    let wins = [AtomicU8::new(0), AtomicU8::new(0)];
    let work = wins.iter().enumerate().map(|(process, wins)| -> Work<'_> {
        let io = processes.io(process);
        Box::new(move || {
            let Ok(bucket) = FolderBucket::open(io, ROOT, [process as u8; 16]) else { return };
            while wins.load(Ordering::Relaxed) < 3 {
                let put = match bucket.get(&key("heads/a"), None, None) {
                    Ok(Got::Bytes { bytes, version, .. }) => {
                        let next = [&bytes[..], &[process as u8]].concat();
                        bucket.put_over(&key("heads/a"), next.into(), &version)
                    }
                    Ok(_) => bucket.put_new(&key("heads/a"), vec![process as u8].into()),
                    Err(_) => return,
                };
                match put {
                    Ok(Put::Done(_)) => drop(wins.fetch_add(1, Ordering::Relaxed)),
                    Ok(Put::Lost) => {}
                    Ok(Put::Unknown) | Err(_) => return,
                }
            }
        })
    });
    let trace = processes.run(work.collect());
    let counted = read(&made, "heads/a").map(|found| found.0).unwrap_or_default();
    for (process, wins) in wins.iter().enumerate() {
        let counted = counted.iter().filter(|by| usize::from(**by) == process).count();
        let acknowledged = usize::from(wins.load(Ordering::Relaxed));
        // A killed process may have written once without an acknowledgement.
        let may_be = acknowledged..=acknowledged + usize::from(trace.killed);
        assert!(may_be.contains(&counted), "{schedule:?}: {counted} of {acknowledged}");
        let is_killed = trace.killed && schedule.kill.is_some_and(|kill| kill.process == process);
        assert!(is_killed || acknowledged == 3, "{schedule:?}: a process ended early");
    }
}

#[test]
fn interleaved_processes_lose_no_updates() {
    for seed in 0..150 {
        count_up(&Schedule { policy: Policy::Walk(seed), kill: None });
        let policy = Policy::Priorities { seed, changes: 3, calls: 300 };
        let kill = Some(Moment { process: seed as usize % 2, call: seed + 1 });
        count_up(&Schedule { policy, kill });
    }
}
