//! A crash at any moment loses nothing that was acknowledged.

use std::path::Path;
use std::sync::Arc;

use turntree::store::{Io, NewStore, Store};
use turntree_tests::oracle::{DIR, Promise, Script};
use turntree_tests::sim::{Fault, Keep, SimDisk};

/// Runs the script once for every call that changes something, crashes there, and checks images.
fn crash_everywhere(script: &Script, images: u64) {
    for at in 1.. {
        let disk = SimDisk::new(Path::new("/disk"));
        disk.arm(Fault::CrashAt(at));
        let io: Arc<dyn Io> = Arc::new(disk.clone());
        let promise = script.run(&io, Path::new(DIR));
        for keep in [Keep::All, Keep::Nothing].into_iter().chain((0..images).map(Keep::Some)) {
            promise.check(&disk.crash(keep));
        }
        if !disk.triggered() {
            assert!(promise.errors.is_empty(), "{:?}", promise.errors);
            assert!(at > 20, "the script does something");
            return;
        }
    }
}

#[test]
fn one_writer_crashes_anywhere() {
    crash_everywhere(&Script { phases: vec![1, 1], commits: 4, seed: 1, ..Script::default() }, 24);
}

#[test]
fn two_writers_that_build_on_each_other_crash_anywhere() {
    for seed in 0..3 {
        crash_everywhere(&Script { phases: vec![2, 2], commits: 3, seed, ..Script::default() }, 16);
    }
}

#[test]
fn a_crash_while_surplus_segments_are_sealed_loses_nothing() {
    crash_everywhere(
        &Script { phases: vec![8, 1, 2], commits: 1, seed: 9, ..Script::default() },
        4,
    );
}

/// One process stops anywhere, stalled or killed; another one goes on; then the machine crashes in
/// any call of that one.
fn stop_and_crash_everywhere(killed: bool, go_on: &Script) {
    let dir = Path::new(DIR);
    for stop_at in 1.. {
        let mut stopped = false;
        for crash_at in 1.. {
            let disk = SimDisk::new(Path::new("/disk"));
            let first: Arc<dyn Io> = Arc::new(disk.clone());
            let mut promise = Promise::default();
            Store::create(&*first, dir, &NewStore { id: [5; 16] }).unwrap();
            promise.created = true;
            disk.arm(Fault::StopFirstAt(stop_at));
            let begin = Script { phases: vec![1], commits: 2, seed: 1, ..Script::default() };
            let mut stalled = begin.go_on(&first, dir, &mut promise);
            stopped |= disk.triggered();
            if killed {
                stalled.clear();
            }
            disk.arm(Fault::CrashAt(crash_at));
            let second: Arc<dyn Io> = Arc::new(disk.other_process());
            go_on.go_on(&second, dir, &mut promise);
            for keep in [Keep::Nothing, Keep::Some(crash_at), Keep::Some(!crash_at)] {
                promise.check(&disk.crash(keep));
            }
            if !disk.triggered() {
                break;
            }
        }
        if !stopped {
            assert!(stop_at > 5, "the first process does something");
            return;
        }
    }
}

#[test]
fn another_process_takes_over_from_a_killed_one_and_loses_nothing() {
    stop_and_crash_everywhere(
        true,
        &Script { phases: vec![1], commits: 2, seed: 2, ..Script::default() },
    );
}

#[test]
fn another_process_builds_on_a_stalled_one_and_loses_nothing() {
    stop_and_crash_everywhere(
        false,
        &Script { phases: vec![1], commits: 2, seed: 3, ..Script::default() },
    );
}

#[test]
fn segments_are_sealed_beside_a_stalled_process_and_nothing_is_lost() {
    stop_and_crash_everywhere(
        false,
        &Script { phases: vec![6, 1], commits: 1, seed: 4, ..Script::default() },
    );
}

#[test]
fn a_crash_while_files_are_replaced_by_packs_loses_nothing() {
    crash_everywhere(&Script { phases: vec![1, 1], commits: 2, seed: 5, packs: true }, 8);
    crash_everywhere(&Script { phases: vec![2, 1], commits: 2, seed: 6, packs: true }, 4);
}

#[test]
fn files_are_replaced_beside_a_stalled_process_and_nothing_is_lost() {
    stop_and_crash_everywhere(false, &Script { phases: vec![1], commits: 2, seed: 7, packs: true });
}

#[test]
fn files_are_replaced_after_a_killed_process_and_nothing_is_lost() {
    stop_and_crash_everywhere(true, &Script { phases: vec![1], commits: 1, seed: 8, packs: true });
}
