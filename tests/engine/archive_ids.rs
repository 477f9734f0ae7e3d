//! The `.ids` files of archives that list no ids: when they exist, and that they are optional.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use turntree::ErrorKind;
use turntree::context::{Builder, FileMode};
use turntree::maintenance::{Pattern, Purpose, collect, fsck, redact};
use turntree::object::{Kind, ObjectSink, RefValue};
use turntree::repo::{BranchName, Repository, SnapshotDraft};
use turntree::store::{Expected, Io, NewStore, OpenOptions, Store, Thoroughness, Tier};
use turntree_tests::sample::{archive_without_ids, open, try_open};
use turntree_tests::sim::{Failure, Fault, Keep, SimDisk};
use turntree_tests::stamp;

/// An archive without ids, of a turn with some files.
fn archive() -> SimDisk {
    let disk = SimDisk::new(Path::new("/disk"));
    let (io, dir) = (Arc::new(disk.clone()), Path::new("/disk/store"));
    let options = OpenOptions::new([1; 16]);
    let repo = Repository::init(io, dir, &NewStore { id: [4; 16] }, options).unwrap();
    let (mut change, mut builder) = (repo.begin(), Builder::new());
    for number in 0..20_u8 {
        let file = Some((FileMode::Regular, Bytes::from(vec![number; 1 << 12])));
        builder.set_file(&mut change, &format!("file-{number}"), file).unwrap();
    }
    builder.set_entry(&mut change, "goals", "word", Some("xyzzy".into())).unwrap();
    let tree = builder.write(&mut change).unwrap();
    let branch = BranchName::main("one").unwrap();
    change.snapshot(&branch, SnapshotDraft::new(tree, "a turn", &stamp(1))).unwrap();
    change.commit(&stamp(1), "snapshot").unwrap();
    drop(repo);
    archive_without_ids(&disk, &stamp(2));
    disk
}

/// The `.ids` files of the store.
fn ids(disk: &SimDisk) -> Vec<PathBuf> {
    let paths = disk.files().into_keys();
    paths.filter(|path| path.extension().is_some_and(|it| it == "ids")).collect()
}

fn findings(repo: &Repository) -> Vec<String> {
    let report = fsck(repo, Thoroughness::Full, stamp(9).time, &mut |_, _| {}).unwrap();
    report.findings.into_iter().map(|finding| finding.message).collect()
}

/// Reads an object of the archive.
fn use_archive(disk: &SimDisk, seed: u8) {
    let repo = open(disk, seed);
    assert!(repo.context(&repo.resolve("one").unwrap().commit).is_ok());
}

#[test]
fn the_first_reader_of_an_archive_caches_its_ids() {
    let disk = archive();
    assert_eq!(ids(&disk), Vec::<PathBuf>::new(), "it is not used yet");
    drop(open(&disk, 3));
    assert_eq!(ids(&disk), Vec::<PathBuf>::new(), "opening a store is no use of it");
    use_archive(&disk, 3);
    let kept = ids(&disk);
    assert_eq!(kept.len(), 1);
    assert_eq!(findings(&open(&disk, 4)), Vec::<String>::new());
    let before = disk.files();
    use_archive(&disk, 5);
    assert!(disk.files() == before, "they are read, and nothing is written");
    collect(&open(&disk, 6), Purpose::Gc, &stamp(5), &mut |_| {}).unwrap();
    assert_eq!(ids(&disk), kept);

    // Damage to the `.ids` file loses no object.
    let found = |disk: &SimDisk, seed| -> Vec<String> {
        let repo = open(disk, seed);
        let inventory = repo.store().inventory().unwrap();
        let entries = (0..inventory.positions()).filter_map(|at| inventory.entry(at));
        entries.map(|entry| format!("{} {}", entry.id, entry.kind)).collect()
    };
    let whole = found(&disk, 7);
    for bytes in [Vec::new(), b"nonsense".to_vec(), before[&kept[0]][1..].to_vec()] {
        disk.damage(&kept[0], bytes);
        assert_eq!(findings(&open(&disk, 8)), ["not the ids of its pack: remove the file"]);
        assert_eq!(found(&disk, 9), whole);
        assert!(disk.files()[&kept[0]] == before[&kept[0]], "it is made again");
    }
    disk.remove(&kept[0]).unwrap();
    assert_eq!(found(&disk, 10), whole);
}

#[test]
fn cached_ids_are_deleted_with_their_pack_and_by_redactions() {
    let disk = archive();
    use_archive(&disk, 3);
    let before = ids(&disk);
    let repo = open(&disk, 4);
    redact(&repo, &Pattern::literal("xyzzy", "[redacted]").unwrap(), &stamp(5)).unwrap();
    assert!(!ids(&disk).contains(&before[0]), "those of the pack of before");
    drop(repo);
    let now = ids(&disk);
    let orphan = before[0].with_file_name(format!("{}.ids", "0".repeat(64)));
    disk.create(&orphan).unwrap();
    let told = findings(&open(&disk, 6));
    assert_eq!(told, ["derived from a deleted pack; 'gc' removes it"]);
    collect(&open(&disk, 7), Purpose::Gc, &stamp(8), &mut |_| {}).unwrap();
    assert_eq!(ids(&disk), now);
}

#[test]
fn the_feature_flag_precedes_the_first_archive_without_ids() {
    let disk = SimDisk::new(Path::new("/disk"));
    let (io, dir) = (Arc::new(disk.clone()), Path::new("/disk/store"));
    let options = OpenOptions::new([1; 16]);
    let early = Repository::init(io, dir, &NewStore { id: [4; 16] }, options).unwrap();
    let begin = |repo: &Repository| {
        let mut change = repo.begin();
        let blob = change.write(Kind::Blob, "a note".into()).unwrap();
        change.set_ref("refs/notes/one", Expected::Any, Some(RefValue::Object(blob)));
        change.commit(&stamp(1), "note")
    };
    begin(&early).unwrap();
    let features = |disk: &SimDisk| disk.files()[&dir.join("superblock")][40];

    early.store().leave_ids_out();
    let archive = Purpose::Repack(Tier::Archive);
    let refused = collect(&early, archive, &stamp(2), &mut |_| {}).unwrap_err();
    assert!(refused.to_string().contains("does not allow archives without ids"), "{refused}");
    assert_eq!(features(&disk), 0);

    assert!(early.store().allow_archives_without_ids().unwrap());
    assert_eq!(features(&disk), 4);
    let stale = begin(&early).unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::Conflict, "{stale}");
    let late = open(&disk, 2);
    assert!(!late.store().allow_archives_without_ids().unwrap(), "it does already");
    begin(&late).unwrap();
    late.store().leave_ids_out();
    assert_eq!(collect(&late, archive, &stamp(3), &mut |_| {}).unwrap().steps, 1);

    // A rebuilt superblock records the feature again.
    drop((early, late));
    disk.remove(&dir.join("superblock")).unwrap();
    Store::remake_superblock(&disk, dir, None).unwrap();
    assert_eq!(features(&disk), 4);
    assert_eq!(findings(&open(&disk, 3)), Vec::<String>::new());
}

#[test]
fn open_readers_do_not_cache_ids_of_redacted_packs() {
    let disk = archive();
    let reader = open(&disk, 5);
    redact(&open(&disk, 6), &Pattern::literal("xyzzy", "[redacted]").unwrap(), &stamp(5)).unwrap();
    let before = ids(&disk);
    let tip = reader.resolve("one").unwrap().commit;
    assert!(reader.context(&tip).is_ok(), "it reads its open files");
    assert_eq!(ids(&disk), before);
}

#[test]
fn concurrent_readers_can_both_read_an_archive() {
    let disk = archive();
    let readers = [open(&disk, 5), open(&disk, 6)];
    for repo in &readers {
        assert!(repo.context(&repo.resolve("one").unwrap().commit).is_ok());
    }
    assert_eq!(ids(&disk).len(), 1);
    let before = disk.files();
    use_archive(&disk, 7);
    assert!(disk.files() == before, "the file is whole");
}

#[test]
fn archives_are_readable_on_a_full_disk() {
    let disk = archive();
    disk.arm(Fault::DiskFull);
    use_archive(&disk, 5);
    use_archive(&disk, 6);
    disk.arm(Fault::None);
    assert_eq!(ids(&disk), Vec::<PathBuf>::new());
    use_archive(&disk, 7);
    assert_eq!(ids(&disk).len(), 1);
}

#[test]
fn failed_calls_while_caching_ids_lose_only_the_cache() {
    let disk = archive();
    let calls = {
        let copy = disk.crash(Keep::All);
        use_archive(&copy, 5);
        copy.calls().0
    };
    assert!(calls > 0);
    for call in 1..=calls {
        for error in [std::io::ErrorKind::Other, std::io::ErrorKind::StorageFull] {
            let copy = disk.crash(Keep::All);
            copy.fail_with(Failure { error, written: 100, forgets: false });
            copy.arm(Fault::FailAt(call));
            // Opening may fail because of the fault. A second attempt finds everything.
            let first = try_open(&copy, 5).and_then(|repo| {
                let tip = repo.resolve("one")?.commit;
                repo.context(&tip).map(drop)
            });
            copy.arm(Fault::None);
            if let Err(error) = first {
                assert_ne!(error.kind(), ErrorKind::NotFound, "call {call}: {error}");
            }
            use_archive(&copy, 6);
            assert_eq!(findings(&open(&copy, 7)), Vec::<String>::new(), "call {call}");
        }
    }
}
