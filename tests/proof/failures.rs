//! Any call to the disk may fail: the error is reported, and no acknowledged change is lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use turntree::ErrorKind;
use turntree::maintenance::{FsckFinding, fsck};
use turntree::object::{Kind, ObjectSource, RefValue, Time};
use turntree::repo::Repository;
use turntree::store::{Expected, Io, NewStore, Store, Thoroughness};
use turntree_tests::oracle::{DIR, Script, Witness, blob, commit_after, options, pack, set};
use turntree_tests::proof::{Effort, Programs, failures};
use turntree_tests::sim::{Failure, Fault, Keep, SimDisk};

/// The files in the folder of the packs.
fn in_packs(disk: &SimDisk) -> Vec<PathBuf> {
    let folder = Path::new(DIR).join("packs");
    disk.files().into_keys().filter(|path| path.starts_with(&folder)).collect()
}

#[test]
fn whichever_call_fails_every_acknowledged_commit_is_there() {
    let programs = Programs { turntree: PathBuf::new(), prove: PathBuf::new() };
    let figures = failures::run(&Effort { scale: 1, seed: 1, programs });
    for (what, value) in figures.rows {
        println!("{what}: {value}");
    }
}

#[test]
fn on_a_full_disk_nothing_is_replaced_and_the_system_is_to_blame() {
    let disk = SimDisk::new(Path::new("/disk"));
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    let script = Script { phases: vec![1], commits: 3, seed: 5, packs: false };
    let promise = script.run(&io, Path::new(DIR));
    let before = disk.files();
    disk.arm(Fault::DiskFull);
    let store = Store::open(io, Path::new(DIR), options(9)).unwrap();
    let error = pack(&store, |_| true).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "no argument is wrong: {error}");
    assert!(error.to_string().contains(DIR), "{error}");
    drop(store);
    assert!(disk.files() == before, "something changed");
    disk.arm(Fault::None);
    promise.check(&disk);
}

#[test]
fn a_pack_that_does_not_read_back_replaces_nothing() {
    let begin = SimDisk::new(Path::new("/disk"));
    let io: Arc<dyn Io> = Arc::new(begin.clone());
    let promise =
        Script { phases: vec![1], commits: 3, seed: 5, packs: false }.run(&io, Path::new(DIR));
    let mut refused = 0;
    for at in 1.. {
        let disk = begin.crash(Keep::All);
        let repo = Repository::open(Arc::new(disk.clone()), Path::new(DIR), options(9)).unwrap();
        disk.arm(Fault::FlipAt(at));
        let packed = pack(repo.store(), |_| true);
        if !disk.triggered() {
            break;
        }
        disk.arm(Fault::None);
        match packed {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                refused += 1;
                drop(repo);
                assert_eq!(in_packs(&disk), Vec::<PathBuf>::new());
                promise.check(&disk);
            }
            Ok(_) => {
                // Damage of a manifest is found when it is read.
                let report = fsck(&repo, Thoroughness::Full, Time::default(), &mut |_, _| {});
                let findings = report.unwrap().findings;
                let is_manifest = |finding: &FsckFinding| finding.place.starts_with("manifest");
                assert!(findings.is_empty() || findings.iter().any(is_manifest), "{findings:?}");
            }
        }
    }
    assert!(refused > 2, "{refused}");
}

#[test]
fn a_refused_call_leaves_no_unfinished_pack_and_packing_can_be_repeated() {
    let begin = SimDisk::new(Path::new("/disk"));
    let io: Arc<dyn Io> = Arc::new(begin.clone());
    let promise =
        Script { phases: vec![1], commits: 3, seed: 5, packs: false }.run(&io, Path::new(DIR));
    let mut refused = 0;
    for at in 1.. {
        let disk = begin.crash(Keep::All);
        let open =
            |seed| Store::open(Arc::new(disk.clone()), Path::new(DIR), options(seed)).unwrap();
        let store = open(9);
        disk.arm(Fault::FailAt(at));
        let packed = pack(&store, |_| true);
        if !disk.triggered() {
            packed.unwrap();
            break;
        }
        disk.arm(Fault::None);
        let unfinished = in_packs(&disk)
            .into_iter()
            .find(|path| path.extension().is_none_or(|extension| extension != "pack"));
        assert_eq!(unfinished, None, "call {at}");
        if packed.is_err() {
            refused += 1;
            drop(store);
            pack(&open(10), |_| true).unwrap();
        }
        promise.check(&disk);
    }
    assert!(refused > 10, "{refused} calls were refused");
}

#[test]
fn after_a_sync_that_failed_and_lost_the_bytes_for_readers_too_a_new_handle_goes_on() {
    let disk = SimDisk::new(Path::new("/disk"));
    let (io, dir): (Arc<dyn Io>, _) = (Arc::new(disk.clone()), Path::new(DIR));
    Store::create(&*io, dir, &NewStore { id: [1; 16] }).unwrap();
    let open = |seed| Store::open(Arc::clone(&io), dir, options(seed)).unwrap();
    let commit = |store: &Store, text: &str| {
        let (id, object) = blob(text.into());
        (id, store.commit(vec![(id, object)], &set("a", Expected::Any, id)).is_ok())
    };
    let mut tried = vec![commit(&open(1), "one")];
    disk.fail_with(Failure { forgets: true, ..Failure::default() });
    for at in 1..=40 {
        let store = open(100 + at);
        disk.arm(Fault::FailAt(at));
        tried.push(commit(&store, &format!("with call {at} failing")));
        disk.arm(Fault::None);
        // The handle may look for lost data, and report the error.
        tried.push(commit(&store, &format!("after call {at} failed")));
        drop(store);
        let store = open(200 + at);
        let last = tried.iter().rposition(|(_, acknowledged)| *acknowledged).unwrap();
        let value = store.refs().value("a").cloned();
        let newer = tried[last..].iter().map(|(id, _)| Some(RefValue::Object(*id)));
        assert!(newer.collect::<Vec<_>>().contains(&value), "call {at}: back to {value:?}");
        let (id, acknowledged) = commit(&store, &format!("by a new handle {at}"));
        assert!(acknowledged, "call {at}");
        tried = vec![(id, true)];
    }
}

#[test]
fn a_full_disk_leaves_the_store_readable_and_usable_again() {
    let disk = SimDisk::new(Path::new("/disk"));
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    let dir = Path::new(DIR);
    Store::create(&*io, dir, &NewStore { id: [1; 16] }).unwrap();
    let store = Store::open(Arc::clone(&io), dir, options(1)).unwrap();
    let (before, object) = blob(b"before".to_vec());
    store.commit(vec![(before, object)], &set("a", Expected::Any, before)).unwrap();

    disk.arm(Fault::DiskFull);
    let noise = (0..300_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes());
    let (large, object) = blob(noise.collect());
    for _ in 0..3 {
        let error = store
            .commit(vec![(large, object.clone())], &set("a", Expected::Any, large))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
    }
    assert_eq!(store.read_as(Kind::Blob, &before).unwrap(), "before");
    let reader = Store::open(Arc::clone(&io), dir, options(2)).unwrap();
    assert_eq!(reader.read_as(Kind::Blob, &before).unwrap(), "before");

    disk.arm(Fault::None);
    store.commit(vec![(large, object.clone())], &set("a", Expected::Any, large)).unwrap();
    let after = Arc::new(disk.crash(Keep::Nothing));
    let reader = Store::open(after, dir, options(3)).unwrap();
    assert_eq!(reader.read_as(Kind::Blob, &large).unwrap(), object.bytes);
}

/// A handle is killed between a batch and its sync. A second commits, and just before its call `at`
/// a third takes over the segment of the first and commits. Then that call fails. Returns false if
/// there was no such call.
fn fails_after_others_went_on(at: u64) -> bool {
    let (disk, dir) = (SimDisk::new(Path::new("/disk")), Path::new(DIR));
    Store::create(&disk, dir, &NewStore { id: [5; 16] }).unwrap();
    let witness = Witness::default();
    witness.tell(|promise| promise.created = true);
    let open = |process: u32| {
        let io: Arc<dyn Io> = Arc::new(disk.process(process));
        Store::open(io, dir, options(u64::from(process))).unwrap()
    };
    let (first, second) = (open(1), open(2));
    commit_after(&first, &witness).unwrap();
    commit_after(&second, &witness).unwrap();
    disk.arm(Fault::StopAt(2));
    assert!(commit_after(&first, &witness).is_none());
    drop(first);
    disk.arm(Fault::None);
    let (same, known) = (disk.clone(), witness.clone());
    disk.interrupt(at, move || {
        let (call, _) = same.calls();
        let third = Store::open(Arc::new(same.process(3)), dir, options(3)).unwrap();
        // It fails while the second holds the ref lock.
        let _ = commit_after(&third, &known);
        drop(third);
        same.arm(Fault::FailAt(call));
    });
    let committed = commit_after(&second, &witness);
    let failed = disk.triggered();
    assert!(failed || committed.is_some(), "call {at}");
    disk.arm(Fault::None);
    witness.promise().check(&disk.crash(Keep::All));
    failed
}

#[test]
fn a_call_that_fails_takes_nothing_from_others_who_went_on_meanwhile() {
    assert!((1..).take_while(|at| fails_after_others_went_on(*at)).count() > 2);
}
