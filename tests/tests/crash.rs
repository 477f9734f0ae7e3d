//! A crash at any moment loses nothing that was acknowledged.

use std::path::Path;
use std::sync::Arc;

use turntree::store::Io;
use turntree_tests::oracle::{DIR, Script};
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
    crash_everywhere(&Script { phases: vec![1, 1], commits: 4, seed: 1 }, 24);
}

#[test]
fn two_writers_that_build_on_each_other_crash_anywhere() {
    for seed in 0..3 {
        crash_everywhere(&Script { phases: vec![2, 2], commits: 3, seed }, 16);
    }
}

#[test]
fn a_crash_while_surplus_segments_are_sealed_loses_nothing() {
    crash_everywhere(&Script { phases: vec![8, 1, 2], commits: 1, seed: 9 }, 4);
}
