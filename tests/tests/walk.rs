//! Whatever is done to a repository in whatever order, it holds what a naive model says.

use turntree_tests::proof::{Effort, Programs, walk};

#[test]
fn a_repository_is_what_a_naive_model_says_wherever_a_walk_leads() {
    let programs = Programs { turntree: "".into(), prove: "".into() };
    for (what, value) in walk::run(&Effort { scale: 1, seed: 1, programs }).rows {
        println!("{what}: {value}");
    }
}
