//! `fsck`: whole stores are clean, and no damage that makes a difference escapes it.

use std::path::{Path, PathBuf};

use std::sync::Arc;
use std::sync::atomic::Ordering;

use turntree::maintenance::{FsckKind, FsckReport, Purpose, collect, fsck};
use turntree::repo::Repository;
use turntree::store::{Io, OpenOptions, RealIo, Thoroughness};
use turntree_tests::sample::{Sample, open, try_open};
use turntree_tests::sim::SimDisk;
use turntree_tests::stamp;

/// The report on a store, unless it does not open.
fn check(disk: &SimDisk) -> Option<FsckReport> {
    check_with(disk, Thoroughness::Full)
}

fn check_with(disk: &SimDisk, thoroughness: Thoroughness) -> Option<FsckReport> {
    let repo = try_open(disk, 90).ok()?;
    Some(fsck(repo.store(), thoroughness, stamp(60).time, &mut |_, _| {}).unwrap())
}

fn has(report: &FsckReport, kind: FsckKind) -> bool {
    report.findings.iter().any(|finding| finding.kind == kind)
}

/// Every file with how much of it is in use: zeros at the end are all the same.
fn files(disk: &SimDisk) -> Vec<(PathBuf, Vec<u8>, usize)> {
    let used = |bytes: &Vec<u8>| bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    disk.files()
        .into_iter()
        .map(|(path, bytes)| (path, used(&bytes), bytes))
        .map(|(p, u, b)| (p, b, u))
        .collect()
}

/// Offsets worth damaging: the fixed parts at both ends, and some of all between.
fn offsets(used: usize, step: usize) -> impl Iterator<Item = usize> {
    let ends = (0..used.min(96)).chain(used.saturating_sub(184)..used);
    ends.chain((0..used).step_by(step))
}

/// A report is clean only if nothing is missing: of what a torn batch holds, nothing was ever
/// acknowledged as far as anybody can tell.
fn assert_honest(sample: &Sample, disk: &SimDisk, what: &str) {
    let Some(report) = check(disk) else { return };
    if !report.is_ok() {
        return;
    }
    let repo = open(disk, 91);
    let whole = sample.missing(repo.store()).is_empty() && *repo.refs() == sample.refs;
    let told = has(&report, FsckKind::TornTail);
    assert!(whole || told, "{what}: {:#?}", report.findings);
}

#[test]
fn a_whole_store_is_clean_and_its_parts_are_counted() {
    let sample = Sample::new();
    for thoroughness in [Thoroughness::Full, Thoroughness::Quick] {
        let report = check_with(&sample.disk, thoroughness).unwrap();
        assert_eq!(report.findings, []);
        assert!(report.objects >= sample.objects.len() as u64);
        assert_eq!((report.commits, report.operations), (45, 46));
        assert_eq!(report.elided, 2);
    }
    let summary = open(&sample.disk, 1).store().summary().unwrap();
    assert_eq!(summary.packs, 2, "{summary:?}");
    assert!(summary.sealed_segments > 0 && summary.active_segments > 0, "{summary:?}");
}

#[test]
fn no_flipped_byte_that_makes_a_difference_is_called_ok() {
    let sample = Sample::new();
    let sealed = sealed_names(&sample);
    // The active segments are alike, so two of them get all of it.
    let mut active = 0;
    for (path, bytes, used) in files(&sample.disk) {
        let dense = is_sealed_or_listed(&path, &sealed) || active < 2;
        active += usize::from(!is_sealed_or_listed(&path, &sealed));
        for at in offsets(used, 64).filter(|at| dense || at % 448 == 0) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x41;
            sample.disk.damage(&path, damaged);
            assert_honest(&sample, &sample.disk, &format!("{} at {at}", path.display()));
        }
        sample.disk.damage(&path, bytes);
    }
}

#[test]
fn every_byte_of_packs_and_sealed_segments_counts() {
    let sample = Sample::new();
    let sealed = sealed_names(&sample);
    for (path, bytes, used) in files(&sample.disk) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !sealed.contains(&name) && !name.ends_with(".pack") {
            continue;
        }
        for at in offsets(used, 211) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            sample.disk.damage(&path, damaged);
            let report = check(&sample.disk).unwrap();
            assert!(!report.is_ok(), "{name} at {at}");
        }
        sample.disk.damage(&path, bytes);
    }
}

fn is_sealed_or_listed(path: &Path, sealed: &[String]) -> bool {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    sealed.contains(&name) || !name.ends_with(".seg")
}

/// Names of the segments that the newest manifest lists.
fn sealed_names(sample: &Sample) -> Vec<String> {
    let names = files(&sample.disk).into_iter().filter_map(|(path, bytes, _)| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        let id = name.strip_suffix(".seg")?;
        let raw: Vec<u8> =
            (0..16).map(|n| u8::from_str_radix(&id[2 * n..2 * n + 2], 16).unwrap()).collect();
        let manifest = newest_manifest(&sample.disk).1;
        let listed = manifest.windows(16).any(|window| window == raw);
        (listed && !bytes.is_empty()).then_some(name)
    });
    names.collect()
}

fn newest_manifest(disk: &SimDisk) -> (PathBuf, Vec<u8>) {
    let is_manifest =
        |path: &Path| path.file_name().unwrap().to_string_lossy().starts_with("manifest-");
    disk.files().into_iter().rfind(|(path, _)| is_manifest(path)).unwrap()
}

#[test]
fn a_file_that_is_cut_or_gone_or_another_one_is_noticed() {
    let sample = Sample::new();
    let all = files(&sample.disk);
    for (path, bytes, used) in &all {
        for len in (0..*used).step_by(used.div_ceil(12).max(1)) {
            sample.disk.damage(path, bytes[..len].to_vec());
            assert_honest(&sample, &sample.disk, &format!("{} cut at {len}", path.display()));
        }
        for (other, theirs, _) in all.iter().filter(|(other, ..)| other != path) {
            if other.parent() == path.parent() {
                sample.disk.damage(path, theirs.clone());
                let what = format!("{} instead of {}", other.display(), path.display());
                assert_honest(&sample, &sample.disk, &what);
                break;
            }
        }
        sample.disk.damage(path, bytes.clone());
        let copy = sample.copy();
        copy.remove(path).unwrap();
        assert_honest(&sample, &copy, &format!("without {}", path.display()));
    }
}

#[test]
fn a_lost_object_is_named_with_the_place_that_needs_it() {
    let sample = Sample::new();
    let (path, bytes, _) = files(&sample.disk)
        .into_iter()
        .find(|(path, ..)| path.to_string_lossy().ends_with(".pack"))
        .unwrap();
    let mut damaged = bytes;
    damaged[96 + 120 + 5] ^= 1;
    sample.disk.damage(&path, damaged);
    let report = check(&sample.disk).unwrap();
    let lost: Vec<_> = report.findings.iter().filter(|f| f.kind == FsckKind::Lost).collect();
    assert!(!lost.is_empty(), "{:#?}", report.findings);
    for finding in lost {
        assert!(finding.object.is_some(), "{finding}");
        assert!(
            ["turn ", "refs/", "operation ", "before turn", "branch ", "pin ", "HEAD", "retention"]
                .iter()
                .any(|lead| finding.place.starts_with(lead)),
            "{finding}"
        );
    }
}

#[test]
fn a_store_in_use_is_clean_at_every_moment() {
    let sandbox = turntree_tests::Sandbox::new();
    let (dir, done) = (sandbox.store(), std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let options = OpenOptions::new([9; 16]);
            let writer = Repository::open(Arc::new(RealIo), &dir, options).unwrap();
            for turn in 1..=40_u8 {
                let transcript = turntree_tests::claude_code(usize::from(turn));
                sandbox.import("busy", transcript.as_bytes()).unwrap();
                if turn % 8 == 0 {
                    let purpose = if turn % 16 == 0 { Purpose::Gc } else { Purpose::Step };
                    collect(&writer, purpose, &stamp(1), &mut |_| {}).unwrap();
                }
            }
            done.store(true, Ordering::Release);
        });
        let mut reports = 0;
        while reports == 0 || !done.load(Ordering::Acquire) {
            let store = sandbox.reopened();
            let report =
                fsck(store.store(), Thoroughness::Full, stamp(1).time, &mut |_, _| {}).unwrap();
            assert!(report.is_ok(), "{:#?}", report.findings);
            reports += 1;
        }
    });
}
