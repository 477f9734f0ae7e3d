//! `repair` restores everything that verifies, deletes nothing, and has nothing to do the second
//! time.

use std::collections::BTreeSet;
use std::path::Path;

use turntree::ErrorKind;
use turntree::maintenance::{
    FsckKind, FsckReport, Loss, Purpose, Repaired, collect, fsck, plan_repair, repair,
};
use turntree::object::{ObjectId, ObjectSource};
use turntree::store::{Expected, Io, Thoroughness, Tier};
use turntree_tests::oracle::{blob, set};
use turntree_tests::sample::{Sample, open, try_open};
use turntree_tests::sim::{Fault, Keep, SimDisk};
use turntree_tests::stamp;

fn mend(disk: &SimDisk, loss: Loss) -> Repaired {
    repair(&open(disk, 70), loss, &stamp(61), &mut |_, _| {}).unwrap()
}

fn check(disk: &SimDisk) -> FsckReport {
    let repo = open(disk, 71);
    fsck(&repo, Thoroughness::Full, stamp(61).time, &mut |_, _| {}).unwrap()
}

/// The readable objects of the sample.
fn readable(sample: &Sample, disk: &SimDisk) -> BTreeSet<ObjectId> {
    let Ok(repo) = try_open(disk, 72) else { return BTreeSet::new() };
    let there = sample.objects.keys().filter(|id| repo.read(id).is_ok_and(|o| o.is_some()));
    there.copied().collect()
}

fn is_pack(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "pack")
}

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "seg")
}

fn is_manifest(path: &Path) -> bool {
    path.file_name().unwrap().to_string_lossy().starts_with("manifest-")
}

/// Repairs, and checks the invariants of every repair. Returns the report.
fn assert_repaired(sample: &Sample, disk: &SimDisk, what: &str) -> FsckReport {
    let before = check(disk);
    let (readable_before, bytes) = (readable(sample, disk), disk.files());
    let Repaired { report, .. } = mend(disk, Loss::Refuse);
    let readable_after = readable(sample, disk);
    assert!(readable_after.is_superset(&readable_before), "{what}: something is lost");
    let kept: BTreeSet<Vec<u8>> = disk.files().into_values().collect();
    if !before.is_ok() {
        for (path, bytes) in bytes.into_iter().filter(|(path, _)| is_pack(path) || is_segment(path))
        {
            assert!(kept.contains(&bytes), "{what}: {} was deleted", path.display());
        }
    }
    let only_lost = report.findings.iter().filter(|f| f.kind.is_damage());
    for finding in only_lost {
        assert_eq!(finding.kind, FsckKind::Lost, "{what}: {finding}");
    }
    let files = disk.files();
    let again = mend(disk, Loss::Refuse);
    assert!(again.plan.is_empty(Loss::Refuse), "{what}: {:?}", again.plan);
    assert_eq!(disk.files().len(), files.len(), "{what}: nothing more was to be done");
    report
}

#[test]
fn collections_without_a_manifest_lose_nothing() {
    let sample = Sample::new();
    for is_gone in [true, false] {
        for all in [true, false] {
            let disk = sample.copy();
            let is_manifest = |path: &Path| path.to_string_lossy().contains("/manifest-");
            let manifests = disk.files().into_iter().filter(|(path, _)| is_manifest(path));
            for (path, mut bytes) in manifests.rev().take(if all { 9 } else { 1 }) {
                if is_gone {
                    disk.remove(&path).unwrap();
                } else {
                    bytes[100] ^= 1;
                    disk.damage(&path, bytes);
                }
            }
            let before = disk.files();
            let (id, object) = blob(b"on the rest".to_vec());
            let committed = {
                let repo = open(&disk, 68);
                let knows_all = *repo.refs() == sample.refs;
                let draft = set("after", Expected::Any, id);
                let committed = repo.store().commit(vec![(id, object)], &draft);
                assert!(knows_all || committed.is_err(), "a commit forgets the state before it");
                committed
            };
            if committed.is_ok() {
                continue;
            }
            assert_eq!(committed.unwrap_err().kind(), ErrorKind::Corrupt);
            assert!(disk.files() == before, "something was written");
            let purposes = [Purpose::Gc, Purpose::Repack(Tier::Compacted), Purpose::Step];
            let refused = purposes.into_iter().all(|purpose| {
                let collected = collect(&open(&disk, 69), purpose, &stamp(61), &mut |_| {});
                collected.is_err_and(|error| error.kind() == ErrorKind::Corrupt)
            });
            // If only the newest manifest is missing, the one before it may be complete enough.
            assert!(refused || is_gone && !all, "a collection trusts the rest");
            let after = disk.files();
            assert!(!refused || before.keys().all(|path| after.contains_key(path)));
            mend(&disk, Loss::Refuse);
            assert!(check(&disk).is_ok());
            let repaired = open(&disk, 73);
            assert_eq!(repaired.refs().values, sample.refs.values);
            assert!(!refused || sample.missing(&repaired).is_empty());
        }
    }
}

#[test]
fn intact_stores_need_no_repair() {
    let sample = Sample::new();
    let plan = plan_repair(&open(&sample.disk, 70), &stamp(61), &mut |_, _| {}).unwrap();
    assert!(plan.is_empty(Loss::Accept) && plan.lost.is_empty(), "{plan:?}");
    let before = sample.disk.files();
    mend(&sample.disk, Loss::Accept);
    let after = sample.disk.files();
    assert_eq!(before, after);
}

#[test]
fn packs_with_damaged_indexes_or_ends_are_restored() {
    let sample = Sample::new();
    let packs: Vec<_> = sample.disk.files().into_iter().filter(|(path, _)| is_pack(path)).collect();
    for (path, bytes) in packs {
        let len = bytes.len();
        for at in [0, 20, 95, 130, 200, len - 1, len - 60, len - 100] {
            let disk = sample.copy();
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x20;
            disk.damage(&path, damaged);
            let what = format!("{} at {at} of {len}", path.display());
            let report = assert_repaired(&sample, &disk, &what);
            assert!(report.is_ok(), "{what}: {:#?}", report.findings);
            assert_eq!(report.elided, 2, "{what}: expired turns are still known as expired");
            assert!(sample.missing(&open(&disk, 73)).is_empty(), "{what}");
            assert_eq!(*open(&disk, 73).refs(), sample.refs);
        }
    }
}

#[test]
fn damaged_frames_lose_only_their_own_objects() {
    let sample = Sample::new();
    let packs: Vec<_> = sample.disk.files().into_iter().filter(|(path, _)| is_pack(path)).collect();
    for (path, bytes) in packs {
        for at in (96..bytes.len()).step_by(977) {
            let disk = sample.copy();
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x20;
            disk.damage(&path, damaged);
            assert_repaired(&sample, &disk, &format!("{} at {at}", path.display()));
        }
    }
}

#[test]
fn damaged_segments_yield_their_valid_batches() {
    let sample = Sample::new();
    let segments: Vec<_> =
        sample.disk.files().into_iter().filter(|(path, _)| is_segment(path)).collect();
    for (number, (path, bytes)) in segments.into_iter().enumerate() {
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        for at in (0..used).step_by(733).map(|at| (at + number * 61) % used) {
            let disk = sample.copy();
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x20;
            disk.damage(&path, damaged);
            assert_repaired(&sample, &disk, &format!("{} at {at}", path.display()));
        }
    }
}

#[test]
fn truncated_or_missing_files_leave_reported_losses() {
    let sample = Sample::new();
    let files: Vec<_> = sample
        .disk
        .files()
        .into_iter()
        .filter(|(path, _)| is_pack(path) || is_segment(path))
        .collect();
    for (path, bytes) in files {
        let disk = sample.copy();
        disk.damage(&path, bytes[..bytes.len() / 2].to_vec());
        assert_repaired(&sample, &disk, &format!("{} cut", path.display()));
        let disk = sample.copy();
        disk.remove(&path).unwrap();
        assert_repaired(&sample, &disk, &format!("without {}", path.display()));
    }
}

#[test]
fn lost_manifests_are_rebuilt() {
    let sample = Sample::new();
    let manifests: Vec<_> =
        sample.disk.files().into_iter().filter(|(path, _)| is_manifest(path)).collect();
    assert_eq!(manifests.len(), 2);
    let (newest, bytes) = manifests.last().unwrap();
    let mut damaged = bytes.clone();
    damaged[40] ^= 1;
    let disk = sample.copy();
    disk.damage(newest, damaged);
    let report = assert_repaired(&sample, &disk, "the newest manifest is damaged");
    assert!(report.is_ok(), "{:#?}", report.findings);
    assert_eq!(*open(&disk, 73).refs(), sample.refs);

    let disk = sample.copy();
    for (path, _) in &manifests {
        disk.remove(path).unwrap();
    }
    assert!(!check(&disk).is_ok(), "a store that has lost its packs is not whole");
    assert_repaired(&sample, &disk, "no manifest is left");
    let repo = open(&disk, 73);
    assert!(sample.missing(&repo).is_empty(), "every pack is listed again");
    assert_eq!(repo.refs().operation, sample.refs.operation);
}

#[test]
fn refs_move_to_intact_turns_only_if_losses_are_accepted() {
    let sample = Sample::new();
    // The newest turn of a session whose root is in a sealed segment, uncompressed.
    let tip = open(&sample.disk, 70).resolve("two").unwrap().commit;
    let tree = open(&sample.disk, 70).commit(&tip).unwrap().tree;
    let root = sample.objects[&tree].clone();
    let place = |bytes: &[u8]| bytes.windows(root.len()).position(|window| window == &root[..]);
    for (path, mut bytes) in sample.disk.files() {
        if let Some(at) = place(&bytes) {
            assert!(is_segment(&path));
            bytes[at + 9] ^= 1;
            sample.disk.damage(&path, bytes);
        }
    }
    assert!(!check(&sample.disk).is_ok());
    let before = open(&sample.disk, 70).refs();
    let refused = mend(&sample.disk, Loss::Refuse);
    assert_eq!(open(&sample.disk, 70).refs(), before, "refs stay");
    let [change] = &*refused.plan.refs else { panic!("{:?}", refused.plan.refs) };
    assert_eq!((change.name.as_str(), change.old), ("refs/heads/two/main", tip));
    mend(&sample.disk, Loss::Accept);
    let repo = open(&sample.disk, 74);
    assert_eq!(repo.resolve("two").unwrap().commit, change.new.unwrap());
    assert!(repo.context(&change.new.unwrap()).is_ok());
    let newest = repo.operations().next().unwrap().unwrap().operation;
    assert!(newest.reason.starts_with("repair"), "{}", newest.reason);
}

#[test]
fn repairs_leave_active_segments_alone() {
    let sample = Sample::new();
    let repo = open(&sample.disk, 80);
    let mut change = repo.begin();
    change.move_branch(&"one/held".parse().unwrap(), Some(repo.resolve("one").unwrap().commit));
    change.commit(&stamp(62), "hold a segment").unwrap();
    let held: Vec<_> =
        sample.disk.files().into_iter().filter(|(path, _)| is_segment(path)).collect();
    for (path, bytes) in held {
        let mut damaged = bytes.clone();
        damaged[100] ^= 1;
        sample.disk.damage(&path, damaged);
    }
    let other = sample.disk.clone();
    let repaired = mend(&other, Loss::Refuse);
    let in_use =
        |file: &&turntree::store::SalvagedFile| file.fate == turntree::store::SalvageFate::InUse;
    assert_eq!(repaired.plan.files.iter().filter(in_use).count(), 1, "{:?}", repaired.plan.files);
    drop(repo);
}

#[test]
fn killed_repairs_are_finished_by_the_next() {
    let sample = Sample::new();
    let damaged: Vec<_> = sample
        .disk
        .files()
        .into_iter()
        .filter(|(path, _)| is_pack(path) || is_segment(path))
        .map(|(path, mut bytes)| {
            let at = if is_pack(&path) { bytes.len() - 20 } else { 0 };
            bytes[at] ^= 1;
            sample.disk.damage(&path, bytes.clone());
            bytes
        })
        .collect();
    for call in 1.. {
        let disk = sample.copy();
        disk.arm(Fault::CrashAt(call));
        let finished = try_open(&disk, 75)
            .is_ok_and(|repo| repair(&repo, Loss::Refuse, &stamp(61), &mut |_, _| {}).is_ok());
        if finished && !disk.triggered() {
            assert!(call > 10, "a repair of every file takes some calls");
            return;
        }
        for keep in [Keep::All, Keep::Nothing, Keep::Some(call)] {
            let crashed = disk.crash(keep);
            let Repaired { report, .. } = mend(&crashed, Loss::Refuse);
            assert!(report.is_ok(), "call {call}, {keep:?}: {:#?}", report.findings);
            let repo = open(&crashed, 73);
            assert_eq!(sample.missing(&repo), [], "call {call}, {keep:?}");
            assert_eq!(*repo.refs(), sample.refs, "call {call}, {keep:?}");
            let kept: BTreeSet<Vec<u8>> = crashed.files().into_values().collect();
            for bytes in &damaged {
                assert!(kept.contains(bytes), "call {call}, {keep:?}: a file was deleted");
            }
        }
    }
}
