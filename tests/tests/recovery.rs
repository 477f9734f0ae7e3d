//! Opening after a crash finds what was acknowledged, and a snapshot is one sync.

use std::path::PathBuf;

use turntree_tests::proof::{Effort, Programs, recovery};

#[test]
fn a_crashed_store_opens_and_a_snapshot_is_one_sync() {
    let programs = Programs { turntree: PathBuf::new(), prove: PathBuf::new() };
    let figures = recovery::run(&Effort { scale: 1, seed: 1, programs });
    println!("{figures:#?}");
}
