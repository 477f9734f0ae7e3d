//! Forged files of a store: no reader returns wrong content from them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use turntree::ErrorKind;
use turntree::context::{Builder, FileMode};
use turntree::maintenance::{Pattern, Purpose, collect, fsck, plan_redaction, redact};
use turntree::object::{
    Commit, Kind, Memory, ObjectId, ObjectSink, ObjectSource, Operation, RefValue, Tag,
};
use turntree::repo::{BranchName, Repository, Resolver, SnapshotDraft, tag_ref};
use turntree::store::{Expected, FindingKind, Io, NewStore, Store, Thoroughness};
use turntree::tree::{Item, Link, List, Map};
use turntree_tests::checksums::mend_segment;
use turntree_tests::oracle::{DIR, Promise, Script, blob, options, set};
use turntree_tests::proof::{Effort, Programs, damage};
use turntree_tests::sample::{Sample, try_open, used};
use turntree_tests::sim::{Random, SimDisk};
use turntree_tests::stamp;

#[test]
fn changed_store_files_yield_no_wrong_data_and_no_silent_loss() {
    let programs = Programs { turntree: PathBuf::new(), prove: PathBuf::new() };
    let figures = damage::run(&Effort { scale: 1, seed: 1, programs });
    for (what, value) in figures.rows {
        println!("{what:<56} {value:>16}");
    }
}

#[test]
fn forged_checksums_do_not_hide_wrong_content() {
    let disk = SimDisk::new(Path::new("/disk"));
    let (io, dir): (Arc<dyn Io>, _) = (Arc::new(disk.clone()), Path::new(DIR));
    Store::create(&*io, dir, &NewStore { id: [5; 16] }).unwrap();
    let store = Store::open(Arc::clone(&io), dir, options(1)).unwrap();
    let (id, object) = blob(b"put salt into the soup".to_vec());
    store.commit(vec![(id, object)], &set("a", Expected::Any, id)).unwrap();
    drop(store);
    let (path, mut bytes) = segment(&disk);
    let at = bytes.windows(4).position(|part| part == b"salt").unwrap();
    bytes[at..at + 4].copy_from_slice(b"lime");
    mend_segment(&mut bytes);
    disk.damage(&path, bytes);
    let store = Store::open(io, dir, options(2)).unwrap();
    assert_eq!(store.refs().value("a"), Some(&RefValue::Object(id)), "the batch is good");
    assert_eq!(store.read(&id).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn storing_an_object_again_replaces_its_damaged_copy() {
    for sealed in [false, true] {
        let disk = SimDisk::new(Path::new("/disk"));
        let (io, dir): (Arc<dyn Io>, _) = (Arc::new(disk.clone()), Path::new(DIR));
        Store::create(&*io, dir, &NewStore { id: [5; 16] }).unwrap();
        let open = |seed| Store::open(Arc::clone(&io), dir, options(seed)).unwrap();
        let (id, object) = blob(b"put salt into the soup".to_vec());
        let commit = |store: &Store, number: u64| {
            let (other, filler) = blob(format!("{number} {}", "x".repeat(9 << 20)).into_bytes());
            let mut objects = vec![(id, object.clone())];
            objects.extend(sealed.then_some((other, filler)));
            let name = format!("ref-{number}");
            store.commit(objects, &set(&name, Expected::Any, id)).unwrap();
        };
        commit(&open(1), 1);
        let (path, mut bytes) = segment(&disk);
        let at = bytes.windows(4).position(|part| part == b"salt").unwrap();
        bytes[at..at + 4].copy_from_slice(b"lime");
        mend_segment(&mut bytes);
        disk.damage(&path, bytes);
        assert_eq!(open(2).read(&id).unwrap_err().kind(), ErrorKind::Corrupt);

        let store = open(3);
        commit(&store, 3);
        let check = |store: &Store| {
            assert_eq!(store.read(&id).unwrap(), Some(object.clone()), "sealed: {sealed}");
            let all = store.read_all(Kind::Blob, &[id]).unwrap();
            assert_eq!(all, vec![object.bytes.clone()], "sealed: {sealed}");
        };
        check(&store);
        for seed in 4..6 {
            check(&open(seed));
            commit(&open(10 + seed), seed);
        }
        check(&open(6));
    }
}

#[test]
fn reads_use_the_copy_that_verifies() {
    let disk = SimDisk::new(Path::new("/disk"));
    let (io, dir): (Arc<dyn Io>, _) = (Arc::new(disk.clone()), Path::new(DIR));
    Store::create(&*io, dir, &NewStore { id: [5; 16] }).unwrap();
    let open = |seed| Store::open(Arc::clone(&io), dir, options(seed)).unwrap();
    let (id, object) = blob(b"put salt into the soup".to_vec());
    // Neither writer has seen the objects of the other.
    let writers = [open(1), open(2)];
    for (number, writer) in writers.iter().enumerate() {
        let name = format!("ref-{number}");
        writer.commit(vec![(id, object.clone())], &set(&name, Expected::Any, id)).unwrap();
    }
    drop(writers);
    let segments: Vec<_> = disk.files().into_iter().filter(|(path, _)| is(path, "seg")).collect();
    assert_eq!(segments.len(), 2);
    for (path, bytes) in &segments {
        let mut damaged = bytes.clone();
        let at = damaged.windows(4).position(|part| part == b"salt").unwrap();
        damaged[at..at + 4].copy_from_slice(b"lime");
        mend_segment(&mut damaged);
        disk.damage(path, damaged);
        assert_eq!(open(3).read(&id).unwrap(), Some(object.clone()), "{}", path.display());
        let all = open(4).read_all(Kind::Blob, &[id]).unwrap();
        assert_eq!(all, vec![object.bytes.clone()], "{}", path.display());
        disk.damage(path, bytes.clone());
    }
}

#[test]
fn damage_before_a_valid_batch_is_reported_and_skipped() {
    let disk = SimDisk::new(Path::new("/disk"));
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    let promise = Script { phases: vec![1], commits: 5, seed: 4, ..Script::default() }
        .run(&io, Path::new(DIR));
    let (all, before) = read_everything(&disk, &promise);
    let (path, bytes) = segment(&disk);
    // The second batch, with its header and directory.
    let magic = &bytes[80..88];
    let second = (88..bytes.len()).step_by(8).find(|at| bytes[*at..].starts_with(magic)).unwrap();
    let mut damaged = bytes.clone();
    damaged[second..second + 64].fill(0);
    disk.damage(&path, damaged);
    let (readable, store) = read_everything(&disk, &promise);
    assert!(readable < all && readable + 4 >= all);
    assert_eq!(store.refs(), before.refs(), "the refs do not go back");
    let findings = store.findings();
    assert!(findings.iter().any(|finding| finding.kind == FindingKind::Damage), "{findings:?}");
}

#[test]
fn frames_of_a_wrong_decompressed_size_are_rejected() {
    let zeros = vec![0; 64 << 20];
    let bomb = zstd::bulk::compress(&zeros, 19).unwrap();
    assert!(bomb.len() < 8 << 10);
    // Claims 1000 bytes and a window of terabytes: magic, descriptor, window, size, one raw block.
    let mut window = b"\x28\xb5\x2f\xfd\x80\xf8\xe8\x03\0\0".to_vec();
    window.extend([(1000 << 3 | 1) as u8, (1000 >> 5) as u8, 0]);
    window.extend([b'w'; 1000]);
    // The header of a bomb that claims 1000 bytes: four bytes of size after the descriptor.
    let mut liar = bomb.clone();
    assert_eq!(liar[4] >> 6, 2, "the size has four bytes");
    let size_at = if liar[4] & 0x20 == 0 { 6 } else { 5 };
    liar[size_at..size_at + 4].copy_from_slice(&1000_u32.to_le_bytes());
    let short = zstd::bulk::compress(b"short", 1).unwrap();

    let right = ObjectId::of(Kind::Blob, &[b'w'; 1000]);
    let cases = [
        ("a directory that says less", 1000_u32, bomb.clone()),
        ("a directory that says the most", u32::MAX, bomb),
        ("a frame that says less", 1000, liar),
        ("a window of terabytes", 1000, window),
        ("a frame that says less than the directory", 1000, short),
    ];
    for (what, raw_bytes, stored) in cases {
        let (store, _) = store_with_record(&[(right, 1, raw_bytes, &stored)]);
        if let Ok(Some(object)) = store.read(&right) {
            assert_eq!(object.bytes, [b'w'; 1000].as_slice(), "{what}");
        }
    }
}

#[test]
fn messages_resembling_store_files_are_stored_as_messages() {
    let sample = Sample::small(6);
    let disk = sample.copy();
    let files = disk.files();
    let repo = try_open(&disk, 60).unwrap();
    let messages: Vec<Vec<u8>> = files.values().map(|file| file[..used(file)].to_vec()).collect();
    let ids = commit_files(&repo, &messages);
    drop(repo);
    let again = try_open(&disk, 61).unwrap();
    for (id, message) in ids.iter().zip(&messages) {
        assert!(again.read_as(Kind::Blob, id).unwrap() == *message);
    }
    let report = fsck(&again, Thoroughness::Full, stamp(61).time, &mut |_, _| {}).unwrap();
    assert_eq!(report.findings, []);
}

#[test]
fn batches_embedded_in_messages_are_never_applied() {
    let disk = SimDisk::new(Path::new("/disk"));
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    let script = Script { phases: vec![1], commits: 2, seed: 4, ..Script::default() };
    assert!(script.run(&io, Path::new(DIR)).errors.is_empty());
    let before = Store::open(Arc::clone(&io), Path::new(DIR), options(7)).unwrap().refs();
    // A whole segment of another store whose operation would be the next one. Its content does not
    // compress, so its bytes are stored unchanged.
    let evil = evil_segment(before.sequence + 1, before.operation);
    let (id, object) = blob(evil);
    let store = Store::open(Arc::clone(&io), Path::new(DIR), options(7)).unwrap();
    let empty = blob(Vec::new()).0;
    store.commit(vec![(id, object.clone())], &set("heads/9", Expected::Any, id)).unwrap();
    drop(store);
    let (path, bytes) = segment(&disk);
    let at = bytes.windows(64).position(|part| part == &object.bytes[..64]).unwrap();
    let end = used(&bytes);
    for from in (at.saturating_sub(600)..at).step_by(8).chain([at, end - 40]) {
        for len in [8, 600] {
            let mut damaged = bytes.clone();
            damaged[from..(from + len).min(end)].fill(0);
            disk.damage(&path, damaged);
            let store = Store::open(Arc::clone(&io), Path::new(DIR), options(8)).unwrap();
            assert_eq!(store.refs().value("heads/evil"), None, "from {from}, {len} bytes");
            assert_ne!(store.refs().value("heads/9"), Some(&RefValue::Object(empty)));
        }
    }
}

#[test]
fn deeply_nested_structures_are_refused() {
    for byte in [0x81, 0x9f, 0xa1, 0xc1, 0xd8] {
        let bytes = vec![byte; 1 << 20];
        assert!(Commit::decode(&bytes).is_err());
        assert!(Tag::decode(&bytes).is_err());
        assert!(Operation::decode(&bytes).is_err());
        let mut objects = Memory::new();
        let id = objects.write(Kind::Node, bytes.into()).unwrap();
        assert!(List::open(&objects, &id).is_err() && Map::open(&objects, &id).is_err());
    }
}

#[test]
fn nodes_with_invalid_children_are_rejected_or_terminate() {
    let mut objects = Memory::new();
    let item = |n: u32| {
        let id = ObjectId::of(Kind::Blob, &n.to_le_bytes());
        Item { link: Link { kind: Kind::Blob, id }, meta: Bytes::new() }
    };
    let mut list = List::new();
    list.extend(&mut objects, (0..3000).map(item).collect()).unwrap();
    let root = list.write(&mut objects).unwrap();
    let mut map = Map::new();
    let entries = (0..500_u32).map(|n| (Bytes::from(format!("{n:04}")), Some(item(n))));
    map.apply(&mut objects, entries.collect::<BTreeMap<_, _>>()).unwrap();
    let map_root = map.write(&mut objects).unwrap();
    let written = objects.clone().into_objects();
    let nodes: Vec<(ObjectId, Bytes)> =
        written.into_iter().map(|(id, object)| (id, object.bytes)).collect();
    let parents =
        nodes.iter().filter(|(id, _)| [root, map_root].contains(id) || id.as_bytes()[0] < 32);
    let mut tried = 0;
    for (_, bytes) in parents {
        for (child, _) in nodes.iter().filter(|(child, _)| position(bytes, child).is_some()) {
            for (other, _) in nodes.iter().filter(|(other, _)| other != child).step_by(7) {
                let at = position(bytes, child).unwrap();
                let mut changed = bytes.to_vec();
                changed[at..at + 32].copy_from_slice(other.as_bytes());
                let id = objects.write(Kind::Node, changed.into()).unwrap();
                if let Ok(list) = List::open(&objects, &id) {
                    let read: Result<Vec<_>, _> = list.iter(&objects, 0..list.len()).collect();
                    assert!(read.is_err() || read.unwrap().len() as u64 == list.len());
                }
                if let Ok(map) = Map::open(&objects, &id) {
                    let read: Result<Vec<_>, _> = map.iter(&objects).collect();
                    let keys =
                        read.map(|all| all.into_iter().map(|(key, _)| key).collect::<Vec<_>>());
                    assert!(keys.is_err() || keys.unwrap().is_sorted());
                }
                tried += 1;
            }
        }
    }
    assert!(tried > 500, "{tried}");
}

#[test]
fn long_chains_of_tags_are_handled() {
    let sample = Sample::small(6);
    let repo = try_open(&sample.disk, 60).unwrap();
    let commit = repo.resolve("one").unwrap().commit;
    for count in [10, 5000] {
        let mut change = repo.begin();
        let mut target = (commit, Kind::Commit);
        for _ in 0..count {
            let (name, text) = ("deep".to_owned(), String::new());
            let tag = Tag {
                target: target.0,
                target_kind: target.1,
                name,
                tagger: text.clone(),
                time_micros: 0,
                message: text,
                expires_micros: None,
            };
            target = (change.write(Kind::Tag, tag.encode().into()).unwrap(), Kind::Tag);
        }
        let name = format!("deep-{count}");
        let value = Some(RefValue::Object(target.0));
        change.set_ref(&tag_ref(&name).unwrap(), Expected::Absent, value);
        change.commit(&stamp(50), "tag").unwrap();
        match Resolver::new(&repo).resolve(&name) {
            Ok(revision) => assert_eq!(revision.commit, commit),
            Err(error) => assert!(count > 10, "{error}"),
        }
    }
    let report = fsck(&repo, Thoroughness::Full, stamp(61).time, &mut |_, _| {}).unwrap();
    assert_eq!(report.findings, []);
    collect(&repo, Purpose::Gc, &stamp(62), &mut |_| {}).unwrap();
    redact(&repo, &Pattern::literal("deep", "shallow").unwrap(), &stamp(63)).unwrap();
}

#[test]
fn words_in_operation_reasons_can_be_redacted() {
    let repo = try_open(&Sample::small(6).disk, 60).unwrap();
    let pattern = Pattern::regex("red|move", "-").unwrap();
    redact(&repo, &pattern, &stamp(63)).unwrap();
    assert!(plan_redaction(&repo, &pattern).unwrap().is_empty());
}

#[test]
fn unknown_files_in_a_store_are_only_noted() {
    let sample = Sample::small(6);
    let disk = sample.copy();
    let (path, bytes) = segment(&disk);
    let pack = disk.files().into_iter().find(|(path, _)| is(path, "pack")).unwrap();
    let (digits, hex) = ("9".repeat(32), "f".repeat(64));
    let journal = [&*digits, "-1", "", "00", &digits.repeat(9), "0X11", &hex, "../x", "\u{ff11}"];
    for name in journal.into_iter().filter(|name| !name.contains('/') && name.len() != 32) {
        put(&disk, &path.with_file_name(format!("{name}.seg")), &bytes);
        put(&disk, &pack.0.with_file_name(format!("{name}.pack")), &pack.1);
        put(&disk, &Path::new(DIR).join(format!("manifest-{name}")), b"odd");
    }
    let upper = path.file_stem().unwrap().to_string_lossy().to_uppercase();
    put(&disk, &path.with_file_name(format!("{upper}.seg")), &bytes);
    let repo = try_open(&disk, 60).unwrap();
    assert_eq!(sample.missing(&repo), []);
    assert_eq!(*repo.refs(), sample.refs);
    let report = fsck(&repo, Thoroughness::Full, stamp(61).time, &mut |_, _| {}).unwrap();
    assert!(report.is_ok(), "{:#?}", report.findings);
    assert!(report.findings.len() > 10, "each is noted");
}

/// Opens the store and reads everything. Wrong bytes fail the test, errors do not.
fn read_everything(disk: &SimDisk, promise: &Promise) -> (usize, Store) {
    let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), options(9)).unwrap();
    let objects: BTreeMap<ObjectId, Bytes> =
        promise.attempts.iter().flat_map(|attempt| attempt.objects.clone()).collect();
    let readable = objects.iter().filter(|(id, bytes)| match store.read(id) {
        Ok(Some(object)) => {
            assert_eq!(object.bytes, **bytes, "wrong bytes for {id}");
            true
        }
        Ok(None) | Err(_) => false,
    });
    (readable.count(), store)
}

fn is(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// The first segment of a store.
fn segment(disk: &SimDisk) -> (PathBuf, Vec<u8>) {
    disk.files().into_iter().find(|(path, _)| is(path, "seg")).unwrap()
}

fn put(disk: &SimDisk, path: &Path, bytes: &[u8]) {
    disk.create(path).unwrap().write_at(bytes, 0).unwrap();
}

fn position(bytes: &[u8], id: &ObjectId) -> Option<usize> {
    bytes.windows(32).position(|part| part == id.as_bytes())
}

/// Commits a turn with these contents as files. Returns their ids.
fn commit_files(repo: &Repository, contents: &[Vec<u8>]) -> Vec<ObjectId> {
    let (mut change, mut builder) = (repo.begin(), Builder::new());
    for (number, content) in contents.iter().enumerate() {
        let file = Some((FileMode::Regular, content.clone().into()));
        builder.set_file(&mut change, &format!("{number}"), file).unwrap();
    }
    let tree = builder.write(&mut change).unwrap();
    let branch = BranchName::main("imitations").unwrap();
    change.snapshot(&branch, SnapshotDraft::new(tree, "files", &stamp(60))).unwrap();
    change.commit(&stamp(60), "snapshot").unwrap();
    contents.iter().map(|content| ObjectId::of(Kind::Blob, content)).collect()
}

/// A store with a segment that ends in a batch of blobs: id, codec, bytes, and stored bytes.
fn store_with_record(entries: &[(ObjectId, u8, u32, &[u8])]) -> (Store, SimDisk) {
    let disk = SimDisk::new(Path::new("/disk"));
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    let script = Script { phases: vec![1], commits: 1, seed: 4, ..Script::default() };
    assert!(script.run(&io, Path::new(DIR)).errors.is_empty());
    let (path, mut bytes) = segment(&disk);
    let end = used(&bytes).next_multiple_of(8);
    let id: [u8; 16] = bytes[16..32].try_into().unwrap();
    let entries: Vec<_> =
        entries.iter().map(|(id, codec, raw, b)| (*id, 0, *codec, *raw, *b)).collect();
    let record = record(id, 2, &entries);
    bytes.truncate(end);
    bytes.extend(record);
    bytes.resize(bytes.len().max(64 << 10), 0);
    mend_segment(&mut bytes);
    disk.damage(&path, bytes);
    (Store::open(io, Path::new(DIR), options(9)).unwrap(), disk)
}

/// A batch without its checksums. An entry is id, kind, codec, bytes and stored bytes.
fn record(segment: [u8; 16], sequence: u64, entries: &[(ObjectId, u8, u8, u32, &[u8])]) -> Vec<u8> {
    let payload: Vec<u8> = entries.iter().flat_map(|entry| entry.4).copied().collect();
    let mut bytes = b"\x89TTR\r\n\x1a\n".to_vec();
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(u32::try_from(entries.len()).unwrap().to_le_bytes());
    bytes.extend(segment);
    bytes.extend(sequence.to_le_bytes());
    bytes.extend((44 * entries.len() as u64 + 32).to_le_bytes());
    bytes.extend((payload.len() as u64).to_le_bytes());
    bytes.extend([0; 64]);
    for (id, kind, codec, raw_bytes, stored) in entries {
        bytes.extend(id.as_bytes());
        bytes.extend([*kind, *codec, 0, 0]);
        bytes.extend(raw_bytes.to_le_bytes());
        bytes.extend(u32::try_from(stored.len()).unwrap().to_le_bytes());
    }
    bytes.extend([0; 32]);
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(8) + 32, 0);
    bytes
}

/// A whole segment with an operation that moves a ref and much incompressible content.
fn evil_segment(sequence: u64, parent: Option<ObjectId>) -> Vec<u8> {
    let mut random = Random(9);
    let noise: Vec<u8> = (0..500).flat_map(|_| random.draw().to_le_bytes()).collect();
    let noise_id = ObjectId::of(Kind::Blob, &noise);
    let change = turntree::object::RefChange {
        name: "heads/evil".into(),
        old: None,
        new: Some(RefValue::Object(noise_id)),
    };
    let operation = Operation {
        parents: parent.into_iter().collect(),
        sequence,
        time_micros: 1,
        actor: "evil".into(),
        reason: "evil".into(),
        changes: vec![change],
        undoes: None,
    };
    let operation = operation.encode();
    let operation_id = ObjectId::of(Kind::Operation, &operation);
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
    let entries: [(ObjectId, u8, u8, u32, &[u8]); 2] = [
        (noise_id, 0, 0, length(&noise), &noise),
        (operation_id, 4, 0, length(&operation), &operation),
    ];
    let mut bytes = b"\x89TTS\r\n\x1a\n\x01\0\0\0\0\0\0\0".to_vec();
    bytes.extend([0xee; 16]);
    bytes.extend([5; 16]);
    bytes.extend([0; 32]);
    bytes.extend(record([0xee; 16], 99, &entries));
    mend_segment(&mut bytes);
    bytes
}
