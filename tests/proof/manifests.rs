//! The rules of manifests, sealing and collection keep every operation, and each rule is needed.

use turntree_tests::model::{Rules, Sizes, explore};
use turntree_tests::proof::{Effort, Programs, manifests};

/// The smallest store in which each missing rule loses something.
const SMALL: Sizes =
    Sizes { handles: 2, segments: 3, operations: 2, collections: 1, ends: 1, opens: 0 };

/// Every rule, its name, and whether its absence alone loses something.
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
        // Either of these two suffices: without the lock an overtaken manifest is not linked, and
        // with it no seal can overtake a manifest.
        seal_under_ref_lock: false,
        generations_are_taken_once: false,
        refs_are_max: true,
        collection_locks: true,
        announced_before: true,
        // An epoch that stays odd makes every process wait for the lock forever, but loses nothing.
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
    // Sealing before it checked the epoch.
    let rules = Rules { seal_checks_epoch: false, seal_under_ref_lock: false, ..Rules::ALL };
    let lost = explore(&SMALL, &rules).expect_err("the lost operations");
    println!("{lost}");
    assert!(lost.what.contains("is in a file that the manifest lists"), "{lost}");
    let packed = lost
        .steps
        .iter()
        .position(|step| step.to_string().contains("links a manifest with the pack"));
    let sealed =
        lost.steps.iter().position(|step| step.to_string().contains("looks at the refs to seal"));
    assert!(packed.is_some() && packed < sealed, "{lost}");
}
