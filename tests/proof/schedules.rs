//! Several processes on one store keep every promise in every tested order.

use turntree_tests::proof::schedules::{replay, run, script::SCRIPTS};
use turntree_tests::proof::{Effort, Programs};
use turntree_tests::schedule::{Policy, Schedule};

fn effort() -> Effort {
    let programs = Programs { turntree: "".into(), prove: "".into() };
    Effort { scale: 1, seed: 1, programs }
}

#[test]
fn processes_keep_every_promise_in_whatever_order_they_run() {
    for (what, value) in run(&effort()).rows {
        println!("{what}: {value}");
    }
}

#[test]
fn the_same_schedule_gives_the_same_trace() {
    for script in SCRIPTS {
        for seed in 0..3 {
            let schedule = Schedule { policy: Policy::Walk(seed), kill: None };
            let first = replay(script.name, &schedule);
            assert_eq!(replay(script.name, &schedule), first, "{}", script.name);
        }
    }
}
