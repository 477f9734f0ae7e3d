//! Archives that survive damage: damage within the parity of a pack is restored byte for byte, and
//! the rest is reported.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turntree::ErrorKind;
use turntree::context::{Builder, FileMode};
use turntree::maintenance::{
    Loss, Pattern, Purpose, Repaired, auto, collect, fsck, plan_repair, redact, repair,
    set_parity_policy, stats,
};
use turntree::object::{Kind, ObjectSink, RefValue};
use turntree::repo::{BranchName, Repository, SnapshotDraft};
use turntree::store::{
    Expected, NewStore, OpenOptions, PARITY_POLICY_REF, ParityShare, RealIo, SalvageFate, Store,
    Thoroughness, Tier,
};
use turntree_tests::sample::{Sample, open};
use turntree_tests::sim::{Fault, Keep, Random, SimDisk};
use turntree_tests::stamp;

/// Bytes of a disk that are lost together.
const SECTOR_BYTES: usize = 4096;

/// A store on a simulated disk, archived, with content that does not compress.
fn archive() -> Sample {
    Sample::archived(&journal(12_000))
}

/// The same store before it is packed, with `numbers` random numbers in each of 24 turns.
fn journal(numbers: usize) -> SimDisk {
    let disk = SimDisk::new(Path::new("/disk"));
    let dir = Path::new("/disk/store");
    let io = Arc::new(disk.clone());
    let repo =
        Repository::init(io, dir, &NewStore { id: [3; 16] }, OpenOptions::new([1; 16])).unwrap();
    for turn in 1..=24 {
        let (mut change, mut random) = (repo.begin(), Random(turn));
        let mut builder = Builder::new();
        let noise: Vec<u8> = (0..numbers).flat_map(|_| random.draw().to_le_bytes()).collect();
        let file = Some((FileMode::Regular, noise.into()));
        builder.set_file(&mut change, "noise", file).unwrap();
        let tree = builder.write(&mut change).unwrap();
        let branch = BranchName::main(&format!("session-{}", turn % 4)).unwrap();
        let stamp = stamp(i64::try_from(turn).unwrap());
        change.snapshot(&branch, SnapshotDraft::new(tree, "noise", &stamp)).unwrap();
        change.commit(&stamp, "snapshot").unwrap();
    }
    drop(repo);
    disk
}

fn files_of(disk: &SimDisk, extension: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = disk.files();
    files.retain(|path, _| path.extension().is_some_and(|found| found == extension));
    files
}

fn the_file(disk: &SimDisk, extension: &str) -> (PathBuf, Vec<u8>) {
    let mut files = files_of(disk, extension).into_iter();
    let first = files.next().unwrap();
    assert!(files.next().is_none(), "one {extension}");
    first
}

/// Fills `per_thousand` of every thousand sectors of a file with noise, drawn at random.
fn destroy(disk: &SimDisk, path: &Path, per_thousand: usize, seed: u64) -> usize {
    let mut random = Random(seed);
    let mut bytes = disk.files()[path].clone();
    let mut sectors: Vec<&mut [u8]> = bytes.chunks_mut(SECTOR_BYTES).collect();
    let destroyed = (sectors.len() * per_thousand / 1000).max(1);
    for _ in 0..destroyed {
        let sector = sectors.swap_remove(random.below(sectors.len()));
        sector.iter_mut().for_each(|byte| *byte = random.draw().to_le_bytes()[0]);
    }
    disk.damage(path, bytes);
    destroyed
}

fn mend(disk: &SimDisk) -> Repaired {
    repair(&open(disk, 70), Loss::Refuse, &stamp(90), &mut |_, _| {}).unwrap()
}

fn is_ok(disk: &SimDisk) -> bool {
    let repo = open(disk, 71);
    fsck(&repo, Thoroughness::Full, stamp(90).time, &mut |_, _| {}).unwrap().is_ok()
}

#[test]
fn parity_restores_an_archive_with_three_percent_destroyed_sectors() {
    let sample = archive();
    let (pack, bytes) = the_file(&sample.disk, "pack");
    let (parity, parity_bytes) = the_file(&sample.disk, "parity");
    assert!(parity_bytes.len() * 12 < bytes.len(), "{} of {}", parity_bytes.len(), bytes.len());
    for seed in 1..=12 {
        let disk = sample.copy();
        let destroyed = destroy(&disk, &pack, 30, seed) + destroy(&disk, &parity, 30, seed + 100);
        assert!(destroyed > 0, "seed {seed}");
        assert!(!is_ok(&disk), "seed {seed}: the damage is reported");
        let Repaired { plan, report } = mend(&disk);
        assert!(report.is_ok() && plan.lost.is_empty(), "seed {seed}: {report:?}");
        assert!(plan.files.iter().all(|file| file.fate == SalvageFate::Restored), "seed {seed}");
        assert_eq!(disk.files()[&pack], bytes, "seed {seed}");
        assert_eq!(disk.files()[&parity], parity_bytes, "seed {seed}");
        assert!(sample.missing(&open(&disk, 72)).is_empty(), "seed {seed}");
        assert!(mend(&disk).plan.is_empty(Loss::Accept), "seed {seed}: once is enough");
    }
}

#[test]
fn parity_restores_runs_of_sectors_and_both_ends() {
    let sample = archive();
    let (pack, bytes) = the_file(&sample.disk, "pack");
    let run = bytes.len() * 45 / 1000;
    for start in [0, bytes.len() / 3, bytes.len() - run] {
        let disk = sample.copy();
        let mut damaged = bytes.clone();
        damaged[start..start + run].fill(0x55);
        disk.damage(&pack, damaged);
        assert!(mend(&disk).report.is_ok(), "a run from {start}");
        assert_eq!(disk.files()[&pack], bytes);
    }
    let disk = sample.copy();
    disk.damage(&pack, bytes[..bytes.len() - run].to_vec());
    assert!(mend(&disk).report.is_ok(), "torn");
    assert_eq!(disk.files()[&pack], bytes);
}

#[test]
fn parity_restores_archives_without_manifest_and_superblock() {
    let sample = archive();
    let (pack, bytes) = the_file(&sample.disk, "pack");
    let disk = sample.copy();
    destroy(&disk, &pack, 20, 5);
    for path in disk.files().into_keys() {
        if path.file_name().unwrap().to_string_lossy().starts_with("manifest-") {
            disk.damage(&path, b"nothing".to_vec());
        }
    }
    let Repaired { report, .. } = mend(&disk);
    assert!(report.is_ok(), "{report:?}");
    assert_eq!(disk.files()[&pack], bytes);
    let repaired = open(&disk, 72);
    assert_eq!(repaired.refs().values, sample.refs.values);
    assert!(sample.missing(&repaired).is_empty());
    drop(repaired);

    // The journal is packed, so no other file records the store id.
    let dir = Path::new("/disk/store");
    disk.damage(&dir.join("superblock"), Vec::new());
    for path in disk.files().into_keys().filter(|path| path.parent() == Some(dir)) {
        if path.file_name().unwrap().to_string_lossy().starts_with("manifest-") {
            disk.damage(&path, Vec::new());
        }
    }
    assert!(Store::has_lost_superblock(&disk, dir).unwrap());
    Store::remake_superblock(&disk, dir, None).unwrap();
    assert!(mend(&disk).report.is_ok());
    assert!(sample.missing(&open(&disk, 72)).is_empty());
}

#[test]
fn damage_beyond_parity_is_salvaged_and_quarantined() {
    let sample = archive();
    let (pack, bytes) = the_file(&sample.disk, "pack");
    let (parity, parity_bytes) = the_file(&sample.disk, "parity");
    let disk = sample.copy();
    destroy(&disk, &pack, 200, 9);
    let damaged = disk.files()[&pack].clone();
    assert_ne!(damaged, bytes);
    let Repaired { plan, report } = mend(&disk);
    assert!(!report.is_ok());
    assert_eq!(plan.files[0].fate, SalvageFate::Quarantined);
    let kept: Vec<Vec<u8>> = disk.files().into_values().collect();
    assert!(kept.contains(&damaged) && kept.contains(&parity_bytes), "both are in quarantine");
    assert!(!disk.files().contains_key(&parity));
}

#[test]
fn damaged_parity_is_reported_and_rebuilt() {
    let sample = archive();
    let (parity, bytes) = the_file(&sample.disk, "parity");
    let other = vec![0x11; bytes.len()];
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    for damaged in [flipped, other, b"x".to_vec(), Vec::new()] {
        let disk = sample.copy();
        disk.damage(&parity, damaged);
        assert!(!is_ok(&disk));
        let plan = plan_repair(&open(&disk, 70), &stamp(90), &mut |_, _| {}).unwrap();
        assert_eq!(plan.files.len(), 1, "{plan:?}");
        assert!(mend(&disk).report.is_ok());
        assert_eq!(disk.files()[&parity], bytes);
    }
}

#[test]
fn interrupted_parity_repairs_can_be_repeated() {
    let sample = archive();
    let (pack, bytes) = the_file(&sample.disk, "pack");
    let damaged = sample.copy();
    destroy(&damaged, &pack, 20, 3);
    let disk = damaged.crash(Keep::All);
    mend(&disk);
    let changes = disk.calls().1;
    for change in (1..=changes).step_by(usize::try_from(changes / 24).unwrap().max(1)) {
        let disk = damaged.crash(Keep::All);
        disk.arm(Fault::CrashAt(change));
        let store = turntree_tests::sample::try_open(&disk, 70);
        if let Ok(repo) = store {
            let _ = repair(&repo, Loss::Refuse, &stamp(90), &mut |_, _| {});
        }
        for keep in [Keep::Nothing, Keep::All, Keep::Some(change)] {
            let disk = disk.crash(keep);
            assert!(mend(&disk).report.is_ok(), "change {change}, {keep:?}");
            assert_eq!(disk.files()[&pack], bytes);
            let strays = disk.files().into_keys().filter(|path| path.ends_with("tmp")).count();
            assert_eq!(strays, 0);
        }
    }
}

#[test]
fn collections_keep_the_parity_share_and_delete_parity_with_its_pack() {
    let sample = archive();
    let disk = sample.copy();
    let before = the_file(&disk, "parity");
    let repo = open(&disk, 72);
    // Changing the share of existing parity recompresses nothing.
    repo.store().choose_pack_parity(Some(ParityShare::new(20).unwrap()));
    let done = collect(&repo, Purpose::Repack(Tier::Archive), &stamp(91), &mut |_| {}).unwrap();
    assert_eq!((done.steps, done.protected_packs), (0, 1));
    let larger = the_file(&disk, "parity");
    assert_eq!(larger.0, before.0);
    assert!(larger.1.len() > before.1.len() * 3);
    drop(repo);

    let repo = open(&disk, 73);
    let pattern = Pattern::literal("noise", "[gone]").unwrap();
    redact(&repo, &pattern, &stamp(92)).unwrap();
    drop(repo);
    collect(&open(&disk, 74), Purpose::Repack(Tier::Archive), &stamp(93), &mut |_| {}).unwrap();
    let (path, again) = the_file(&disk, "parity");
    assert_ne!(path, before.0, "it goes with its pack");
    assert!(again.len() > before.1.len() * 3, "the share stays");

    let repo = open(&disk, 75);
    repo.store().choose_pack_parity(None);
    collect(&repo, Purpose::Repack(Tier::Archive), &stamp(94), &mut |_| {}).unwrap();
    assert!(files_of(&disk, "parity").is_empty());
    drop(repo);
    assert!(is_ok(&disk));
}

/// Sets the parity policy of the store.
fn promise(disk: &SimDisk, seed: u8, percent: Option<u8>) {
    let repo = open(disk, seed);
    let mut change = repo.begin();
    let share = percent.map(|percent| ParityShare::new(percent).unwrap());
    set_parity_policy(&mut change, share).unwrap();
    change.commit(&stamp(80), "set the parity").unwrap();
}

/// Checks that every pack has at least the parity of the policy. Returns the number of packs.
fn promised(disk: &SimDisk) -> usize {
    let report = fsck(&open(disk, 71), Thoroughness::Full, stamp(90).time, &mut |_, _| {});
    let report = report.unwrap();
    assert!(report.is_ok(), "{:?}", report.findings);
    let policy = report.parity_policy.unwrap();
    assert_eq!(policy.packs_below, 0);
    assert_eq!(files_of(disk, "parity").len(), policy.packs);
    assert_eq!(stats(&open(disk, 76), None, stamp(90).time).unwrap().parity_policy, Some(policy));
    policy.packs
}

#[test]
fn every_writer_applies_the_parity_policy() {
    let disk = journal(48_000);
    promise(&disk, 77, Some(7));
    assert_eq!(promised(&disk), 0, "unpacked content has none");
    let repo = open(&disk, 78);
    // As a host does between turns, and the command line after a command.
    assert!(auto::step(&repo, &stamp(91)).unwrap().is_some());
    drop(repo);
    assert_eq!(promised(&disk), 1);
    let (pack, bytes) = the_file(&disk, "pack");
    let sectors = destroy(&disk, &pack, 40, 5);
    assert!(sectors > 10 && !is_ok(&disk));
    assert!(mend(&disk).report.is_ok());
    assert_eq!(disk.files()[&pack], bytes, "a pack that is no archive is restored");

    let pattern = Pattern::literal("noise", "[gone]").unwrap();
    redact(&open(&disk, 79), &pattern, &stamp(92)).unwrap();
    assert_eq!(promised(&disk), 1, "after a redaction");
    let repo = open(&disk, 80);
    collect(&repo, Purpose::Repack(Tier::Archive), &stamp(93), &mut |_| {}).unwrap();
    drop(repo);
    assert_eq!(promised(&disk), 1, "an archive has more than is usual");

    // Beyond the parity: the packs that a repair writes have the parity of the policy too.
    let (pack, _) = the_file(&disk, "pack");
    destroy(&disk, &pack, 400, 6);
    repair(&open(&disk, 81), Loss::Accept, &stamp(94), &mut |_, _| {}).unwrap();
    let written = files_of(&disk, "pack").len();
    assert!(written > 0 && files_of(&disk, "parity").len() == written);
}

#[test]
fn repacking_applies_a_changed_parity_policy() {
    let disk = journal(12_000);
    let repack = |seed| {
        let repo = open(&disk, seed);
        collect(&repo, Purpose::Repack(Tier::Compacted), &stamp(91), &mut |_| {}).unwrap()
    };
    repack(77);
    assert!(files_of(&disk, "parity").is_empty(), "no archive, no parity");
    promise(&disk, 78, Some(5));
    let report = fsck(&open(&disk, 79), Thoroughness::Quick, stamp(90).time, &mut |_, _| {});
    assert_eq!(report.unwrap().parity_policy.unwrap().packs_below, 1);
    repack(80);
    promised(&disk);

    promise(&disk, 81, None);
    let mut change = open(&disk, 82);
    change.store().choose_pack_parity(None);
    collect(&change, Purpose::Repack(Tier::Compacted), &stamp(92), &mut |_| {}).unwrap();
    assert!(files_of(&disk, "parity").is_empty(), "taken off as it is asked for");
    change = open(&disk, 83);
    collect(&change, Purpose::Repack(Tier::Archive), &stamp(93), &mut |_| {}).unwrap();
    assert_eq!(files_of(&disk, "parity").len(), 1, "an archive has the default share");
}

#[test]
fn invalid_parity_policies_stop_collections_but_not_repairs() {
    let sample = archive();
    let disk = sample.copy();
    let repo = open(&disk, 77);
    let mut change = repo.begin();
    let blob = change.write(Kind::Blob, "percent 500\n".into()).unwrap();
    change.set_ref(PARITY_POLICY_REF, Expected::Any, Some(RefValue::Object(blob)));
    change.commit(&stamp(80), "set the parity").unwrap();
    let repack = Purpose::Repack(Tier::Archive);
    let failed = collect(&repo, repack, &stamp(91), &mut |_| {}).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Corrupt);
    assert!(failed.to_string().contains(PARITY_POLICY_REF), "{failed}");
    drop(repo);
    let (pack, bytes) = the_file(&disk, "pack");
    destroy(&disk, &pack, 400, 6);
    assert_ne!(disk.files()[&pack], bytes);
    repair(&open(&disk, 81), Loss::Accept, &stamp(94), &mut |_, _| {}).unwrap();
    assert!(!files_of(&disk, "parity").is_empty(), "a saved pack has the default share");
}

#[test]
fn forged_parity_does_no_harm() {
    let sample = archive();
    let (parity, _) = the_file(&sample.disk, "parity");
    let (pack, bytes) = the_file(&sample.disk, "pack");
    let made = tempfile::tempdir().unwrap();
    // Valid parity files of other content: one byte, three times the length, and the same length.
    let contents = [vec![0; 1], vec![0; bytes.len() * 3], vec![7; bytes.len()]];
    for content in contents {
        let path = made.path().join(format!("{}", content.len()));
        let file = turntree::store::Io::create(&RealIo, &path).unwrap();
        file.write_at(&content, 0).unwrap();
        turntree::store::append_parity(&file, ParityShare::new(100).unwrap()).unwrap();
        let theirs = std::fs::read(&path).unwrap().split_off(content.len());
        let disk = sample.copy();
        disk.damage(&parity, theirs);
        let mut damaged = bytes.clone();
        damaged[bytes.len() / 2] ^= 1;
        disk.damage(&pack, damaged.clone());
        let Repaired { report, .. } = mend(&disk);
        assert!(!report.is_ok(), "a byte is lost");
        let kept: Vec<Vec<u8>> = disk.files().into_values().collect();
        assert!(kept.contains(&damaged), "the pack is kept as it is");
        let lost = sample.missing(&open(&disk, 76));
        assert!(lost.len() < sample.objects.len(), "verified objects are present");
    }
}

#[test]
fn parity_repair_on_a_full_disk_keeps_existing_files() {
    let sample = archive();
    let (pack, _) = the_file(&sample.disk, "pack");
    let disk = sample.copy();
    destroy(&disk, &pack, 20, 4);
    let before = disk.files();
    let repo = open(&disk, 77);
    disk.arm(Fault::DiskFull);
    let failed = repair(&repo, Loss::Refuse, &stamp(90), &mut |_, _| {}).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Io, "{failed}");
    assert!(disk.files() == before);
}
