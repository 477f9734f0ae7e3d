//! The rules of manifests, sealing and collection keep every operation, and each is there for a
//! reason.

use turntree_tests::model::{Rules, Sizes, explore};
use turntree_tests::proof::{Effort, Programs, manifests};

/// The smallest store in which each rule that is missing loses something.
const SMALL: Sizes =
    Sizes { handles: 2, segments: 3, operations: 2, collections: 1, ends: 1, opens: 0 };

/// Every rule, its name, and whether something is lost without it alone.
fn rules() -> Vec<(&'static str, Rules, bool)> {
    macro_rules! without {
        ($($rule:ident: $needed:expr,)*) => {
            vec![$((stringify!($rule), Rules { $rule: false, ..Rules::ALL }, $needed),)*]
        };
    }
    without! {
        place_checks_epoch: true,
        place_under_ref_lock: true,
        retired_are_refused: true,
        seal_checks_epoch: true,
        seal_reads_everything: true,
        // These two stand in for each other: without the lock a manifest that was overtaken is not
        // linked, and with it none is overtaken by one that seals.
        seal_under_ref_lock: false,
        generations_are_taken_once: false,
        refs_are_max: true,
        collection_locks: true,
        announced_before: true,
        // An epoch that stays odd makes everybody wait for the lock for ever, and loses nothing.
        announced_after: false,
        odd_epoch_waits: true,
    }
}

#[test]
fn all_rules_together_keep_every_operation() {
    let programs = Programs { turntree: "".into(), prove: "".into() };
    for (what, value) in manifests::run(&Effort { scale: 1, seed: 1, programs }).rows {
        println!("{what}: {value}");
    }
    explore(&SMALL, &Rules::ALL).unwrap_or_else(|lost| panic!("{lost}"));
}

#[test]
fn without_a_rule_that_is_needed_something_is_lost() {
    for (name, rules, needed) in rules() {
        match explore(&SMALL, &rules) {
            Ok(explored) => assert!(!needed, "nothing is lost without {name}: {explored:?}"),
            Err(lost) => {
                println!("without {name}\n{lost}");
                assert!(needed, "without {name}\n{lost}");
            }
        }
    }
}

#[test]
fn a_seal_that_was_overtaken_is_stopped_by_the_lock_or_by_its_generation() {
    let rules =
        Rules { seal_under_ref_lock: false, generations_are_taken_once: false, ..Rules::ALL };
    let lost = explore(&SMALL, &rules).expect_err("something is lost without both");
    println!("{lost}");
}

#[test]
fn sealing_from_an_old_view_loses_what_others_committed_after_a_collection() {
    // As sealing was before it was told to look at the epoch.
    let rules = Rules { seal_checks_epoch: false, seal_under_ref_lock: false, ..Rules::ALL };
    let lost = explore(&SMALL, &rules).expect_err("what was lost then");
    println!("{lost}");
    assert!(lost.what.contains("lies in a file that the manifest lists"), "{lost}");
    let packed = lost
        .steps
        .iter()
        .position(|step| step.to_string().contains("links a manifest with the pack"));
    let sealed =
        lost.steps.iter().position(|step| step.to_string().contains("looks at the refs to seal"));
    assert!(packed.is_some() && packed < sealed, "{lost}");
}
