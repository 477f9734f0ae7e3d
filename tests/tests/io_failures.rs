//! Any call to the disk may fail: the error is reported, and nothing acknowledged is lost.

use std::path::Path;
use std::sync::Arc;

use turntree::ErrorKind;
use turntree::object::{Kind, ObjectSource};
use turntree::store::{Expected, Io, NewStore, Store};
use turntree_tests::oracle::{DIR, Script, blob, options, pack, set};
use turntree_tests::sim::{Fault, Keep, SimDisk};

fn fail_everywhere(script: &Script) {
    let mut reported = 0;
    for at in 1.. {
        let disk = SimDisk::new(Path::new("/disk"));
        disk.arm(Fault::FailAt(at));
        let io: Arc<dyn Io> = Arc::new(disk.clone());
        let promise = script.run(&io, Path::new(DIR));
        let triggered = disk.triggered();
        disk.arm(Fault::None);
        for keep in [Keep::All, Keep::Nothing, Keep::Some(at), Keep::Some(at + 1000)] {
            promise.check(&disk.crash(keep));
        }
        reported += usize::from(!promise.errors.is_empty());
        assert!(promise.errors.len() <= 2, "later calls work: {:?}", promise.errors);
        if !triggered {
            assert!(promise.errors.is_empty());
            assert!(reported > 50, "failures are reported");
            return;
        }
    }
}

#[test]
fn any_call_of_a_single_writer_may_fail() {
    fail_everywhere(&Script { phases: vec![1, 1], commits: 4, seed: 1, ..Script::default() });
}

#[test]
fn any_call_of_two_writers_may_fail() {
    fail_everywhere(&Script { phases: vec![2, 1], commits: 4, seed: 2, ..Script::default() });
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
fn any_call_may_fail_while_surplus_segments_are_sealed() {
    fail_everywhere(&Script { phases: vec![8, 1, 2], commits: 1, seed: 3, ..Script::default() });
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

#[test]
fn any_call_may_fail_while_files_are_replaced_by_packs() {
    fail_everywhere(&Script { phases: vec![1, 1], commits: 3, seed: 4, packs: true });
}
