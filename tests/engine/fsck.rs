//! `fsck` finds nothing in intact stores and names every loss. That it detects all damage is proved
//! by `proof::damage`.

use std::sync::atomic::Ordering;

use turntree::maintenance::{FsckKind, FsckReport, Purpose, collect, fsck};
use turntree::store::Thoroughness;
use turntree_tests::sample::{Sample, open, try_open};
use turntree_tests::sim::SimDisk;
use turntree_tests::{open_store, stamp};

/// The report on a store. `None` if the store does not open.
fn check(disk: &SimDisk) -> Option<FsckReport> {
    check_with(disk, Thoroughness::Full)
}

fn check_with(disk: &SimDisk, thoroughness: Thoroughness) -> Option<FsckReport> {
    let repo = try_open(disk, 90).ok()?;
    Some(fsck(&repo, thoroughness, stamp(60).time, &mut |_, _| {}).unwrap())
}

#[test]
fn intact_stores_are_clean_and_counted() {
    let sample = Sample::new();
    for thoroughness in [Thoroughness::Full, Thoroughness::Quick] {
        let report = check_with(&sample.disk, thoroughness).unwrap();
        assert_eq!(report.findings, []);
        assert!(report.objects >= sample.objects.len() as u64);
        assert_eq!((report.commits, report.operations), (45, 46));
        assert_eq!(report.elided, 2);
    }
    let summary = open(&sample.disk, 1).summary().unwrap();
    assert_eq!(summary.packs, 2, "{summary:?}");
    assert!(summary.sealed_segments > 0 && summary.active_segments > 0, "{summary:?}");
}

#[test]
fn lost_objects_are_reported_with_their_references() {
    let sample = Sample::new();
    let mut files = sample.disk.files().into_iter();
    let (path, bytes) = files.find(|(path, _)| path.to_string_lossy().ends_with(".pack")).unwrap();
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
fn stores_in_use_are_always_clean() {
    let sandbox = turntree_tests::Sandbox::new();
    let (dir, done) = (sandbox.store_dir(), std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let writer = open_store(&dir, 9);
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
            let report = fsck(&store, Thoroughness::Full, stamp(1).time, &mut |_, _| {}).unwrap();
            assert!(report.is_ok(), "{:#?}", report.findings);
            reports += 1;
        }
    });
}
