//! Damaged ids of packs, which opening a store does not verify: every object is still found,
//! tombstones stay, the damage is reported, and nothing is removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use turntree::ErrorKind;
use turntree::context::{Builder, FileMode};
use turntree::maintenance::{Purpose, collect, fsck};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{BranchName, Repository, SnapshotDraft};
use turntree::store::{FindingKind, NewStore, OpenOptions, Store, Thoroughness, Tier, Tombstone};
use turntree_tests::sample::{Sample, open};
use turntree_tests::sim::SimDisk;
use turntree_tests::stamp;

/// The bytes of the header of a pack, and of an id.
const HEADER_BYTES: usize = 128;
const ID_BYTES: usize = 32;

/// The answers of a store on an object: its bytes, its tombstone, and whether it exists.
type Said = (Result<Option<Vec<u8>>, ErrorKind>, Option<Tombstone>, bool);

fn said(store: &Store, id: &ObjectId) -> Said {
    let read = store.read(id).map(|found| found.map(|object| object.bytes.to_vec()));
    let is_there = store.contains(id).unwrap();
    (read.map_err(|error| error.kind()), store.tombstone(id), is_there)
}

/// The packs of a disk that list ids.
fn packs(disk: &SimDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let files = disk.files().into_iter();
    files.filter(|(path, _)| path.extension().is_some_and(|it| it == "pack")).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn number(pack: &[u8], at: usize) -> usize {
    u32::from_le_bytes(pack[at..at + 4].try_into().unwrap()) as usize
}

/// The ids of a pack, tombstones last.
fn ids_of(pack: &[u8]) -> Vec<ObjectId> {
    let ids = pack[HEADER_BYTES..].chunks_exact(ID_BYTES);
    ids.take(number(pack, 48) + number(pack, 52)).filter_map(ObjectId::from_slice).collect()
}

/// A pack with more ids than one query verifies.
fn many_files() -> SimDisk {
    let disk = SimDisk::new(Path::new("/disk"));
    let (io, dir) = (Arc::new(disk.clone()), Path::new("/disk/store"));
    let options = OpenOptions::new([1; 16]);
    let repo = Repository::init(io, dir, &NewStore { id: [4; 16] }, options).unwrap();
    let (mut change, mut builder) = (repo.begin(), Builder::new());
    for number in 0..3000_u32 {
        let file = Some((FileMode::Regular, number.to_le_bytes().to_vec().into()));
        builder.set_file(&mut change, &format!("file-{number}"), file).unwrap();
    }
    let tree = builder.write(&mut change).unwrap();
    let branch = BranchName::main("one").unwrap();
    change.snapshot(&branch, SnapshotDraft::new(tree, "a turn", &stamp(1))).unwrap();
    change.commit(&stamp(1), "snapshot").unwrap();
    collect(&repo, Purpose::Repack(Tier::Compacted), &stamp(2), &mut |_| {}).unwrap();
    disk
}

/// Offsets of an id, of a tombstone's note, and of the hash table, in several parts of each.
fn places(pack: &[u8]) -> Vec<usize> {
    let (objects, gone, slots) = (number(pack, 48), number(pack, 52), number(pack, 56));
    assert!(objects > 0 && slots > 0, "the pack lists its ids");
    let ids = objects + gone;
    let notes = HEADER_BYTES + ids * ID_BYTES;
    let table = notes + gone * 2;
    let step = (ids / 3).max(1);
    let column = (0..ids).step_by(step).map(|id| HEADER_BYTES + id * ID_BYTES + id % ID_BYTES);
    let end = table + slots * (usize::BITS - ids.leading_zeros()) as usize / 8;
    let slots = (table..end).step_by(((end - table) / 3).max(1));
    column.chain(notes..table.min(notes + 2)).chain(slots).collect()
}

#[test]
fn damaged_pack_ids_are_reported_and_hide_no_objects() {
    let sample = Sample::new();
    let absent = ObjectId::of(Kind::Blob, b"absent");
    let gone = packs(&sample.disk).into_iter().flat_map(|(_, pack)| {
        let objects = number(&pack, 48);
        ids_of(&pack).into_iter().skip(objects)
    });
    let ids = sample.objects.keys().copied().chain(gone).chain([absent]);
    let ids: Vec<ObjectId> = ids.collect();
    let whole: Vec<Said> = {
        let repo = open(&sample.disk, 50);
        ids.iter().map(|id| said(repo.store(), id)).collect()
    };
    assert!(whole.iter().any(|(_, gone, _)| gone.is_some()) && !whole.last().unwrap().2);
    for (path, pack) in packs(&sample.disk) {
        for at in places(&pack) {
            let mut damaged = pack.clone();
            damaged[at] ^= 0x11;
            sample.disk.damage(&path, damaged);
            // The result does not depend on which query comes first.
            for (nth, (id, expected)) in ids.iter().zip(&whole).enumerate().step_by(97) {
                let repo = open(&sample.disk, 51);
                assert_eq!(said(repo.store(), id), *expected, "byte {at}, object {nth}");
            }
            let repo = open(&sample.disk, 52);
            let store = repo.store();
            for (id, expected) in ids.iter().zip(&whole) {
                assert_eq!(said(store, id), *expected, "byte {at}");
            }
            let told = store.findings();
            let told: Vec<_> = told.iter().map(|found| (found.kind, found.place.clone())).collect();
            assert_eq!(told, [(FindingKind::Damage, name(&path))], "byte {at}");
            let report = fsck(&repo, Thoroughness::Quick, stamp(60).time, &mut |_, _| {}).unwrap();
            let named = report.findings.iter().any(|found| found.place.contains(&name(&path)));
            assert!(named, "byte {at}: {:?}", report.findings);
            let collected = collect(&repo, Purpose::Gc, &stamp(61), &mut |_| {});
            assert_eq!(collected.unwrap_err().kind(), ErrorKind::Corrupt, "byte {at}");
            // A new handle that has not read anything.
            let repo = open(&sample.disk, 53);
            let collected = collect(&repo, Purpose::Gc, &stamp(61), &mut |_| {});
            assert_eq!(collected.unwrap_err().kind(), ErrorKind::Corrupt, "byte {at}");
        }
        sample.disk.damage(&path, pack);
    }
}

#[test]
fn objects_behind_damaged_ids_are_found_on_the_first_lookup() {
    let disk = many_files();
    let [(path, pack)] = <[_; 1]>::try_from(packs(&disk)).unwrap();
    for (nth, id) in ids_of(&pack).into_iter().enumerate().skip(7).step_by(450) {
        let expected = said(open(&disk, 50).store(), &id);
        let mut damaged = pack.clone();
        damaged[HEADER_BYTES + nth * ID_BYTES + 9] ^= 0x11;
        disk.damage(&path, damaged);
        // By a read, by an existence check, and by a lookup of its tombstone.
        let repo = open(&disk, 51);
        assert_eq!(said(repo.store(), &id), expected, "{nth}");
        let repo = open(&disk, 52);
        assert!(repo.contains(&id).unwrap(), "{nth}");
        assert_eq!(repo.findings().len(), 1, "{nth}");
        let repo = open(&disk, 53);
        assert_eq!(repo.tombstone(&id), None, "{nth}");
        assert!(repo.context(&repo.resolve("one").unwrap().commit).is_ok(), "{nth}");
        disk.damage(&path, pack.clone());
    }
}
