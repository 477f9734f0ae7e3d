//! The layers of proof without other tests, each at scale 1.

use std::path::PathBuf;

use turntree_tests::proof::site::Site;
use turntree_tests::proof::{
    Effort, Figures, Programs, external_interference, full_disk, going_back, kill_stress,
    paused_process, recovery, strangers, syscalls, walk,
};

/// Runs a layer and prints its figures.
fn prove(layer: fn(&Effort) -> Figures) {
    let figures = layer(&effort());
    if let Some(why) = figures.skipped {
        println!("skipped: {why}");
    }
    for (what, value) in figures.rows {
        println!("{what:<48} {value:>16}");
    }
}

fn effort() -> Effort {
    let programs = Programs {
        turntree: PathBuf::from(env!("CARGO_BIN_EXE_turntree-under-test")),
        prove: PathBuf::from(env!("CARGO_BIN_EXE_prove")),
    };
    Effort { scale: 1, seed: 1, programs }
}

#[test]
fn killed_processes_lose_nothing_that_was_acknowledged() {
    prove(kill_stress::run);
}

#[test]
fn a_stopped_process_keeps_nobody_waiting_for_ever_and_harms_nobody_when_it_goes_on() {
    prove(paused_process::run);
}

#[test]
fn files_that_vanish_or_are_replaced_under_processes_cost_no_acknowledged_commit() {
    prove(external_interference::run);
}

#[test]
fn a_full_or_read_only_disk_is_told_and_costs_no_acknowledged_commit() {
    prove(full_disk::run);
}

#[test]
fn failing_system_calls_are_told_and_cost_no_acknowledged_commit() {
    prove(syscalls::run);
}

#[test]
fn a_repository_is_what_a_naive_model_says_wherever_a_walk_leads() {
    prove(walk::run);
}

#[test]
fn going_back_touches_no_more_than_the_rule_allows() {
    prove(going_back::run);
}

#[test]
fn what_came_from_others_gets_and_sends_nothing_before_it_is_trusted() {
    prove(strangers::run);
}

#[test]
fn a_crashed_store_opens_and_a_snapshot_is_one_sync() {
    prove(recovery::run);
}

#[test]
fn a_store_without_its_superblock_is_damaged_and_no_place_for_a_new_one() {
    let effort = effort();
    let folder = tempfile::tempdir().unwrap();
    for packed in [false, true] {
        let mut site = Site::new(&effort, &folder.path().join(format!("store-{packed}")));
        site.fill("one", 3);
        if packed {
            site.run(&["repack"]).expect(&[0]);
            site.fill("one", 1);
        }
        let (superblock, kept) = (site.dir.join("superblock"), site.dir.join("kept"));
        std::fs::rename(&superblock, &kept).unwrap();
        for words in [&["log", "one"][..], &["gc"], &["repack"], &["init"], &["fsck"]] {
            let ended = site.run(words).expect(&[4]);
            assert!(ended.stderr.contains("superblock"), "{}", ended.report());
        }
        site.snapshot().expect(&[4]);
        assert!(!superblock.exists(), "a second store was made on top of the first one");
        std::fs::rename(&kept, &superblock).unwrap();
        site.check();
    }
}
