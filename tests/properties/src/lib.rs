//! The one way to state a property: the same cases in every run, other ones only in a search.
//!
//! Whether `cargo test` passes depends on the code alone, so what the cases are drawn from is a number
//! here. A search for what the fixed cases miss is a job of its own, `just fuzz`: it sets the variable
//! [`SEED`] to a fresh number for each round, and prints it. The tests stand in a module `properties`,
//! so that a search runs these alone.

use proptest::test_runner::{Config, RngAlgorithm, RngSeed};

#[doc(hidden)]
pub use proptest::proptest;

/// The variable that a search sets to a number, from which cases are drawn instead.
pub const SEED: &str = "TURNTREE_TEST_SEED";

/// How many cases a property has when it does not say so.
pub const CASES: u32 = 256;

/// How properties are run: `cases` of them, drawn from a fixed number or from the one in [`SEED`].
///
/// What fails leaves no file behind: the next run draws the same cases anyway, and a case that is
/// worth keeping becomes a test that shows it.
///
/// # Panics
/// When [`SEED`] is set and is no number.
#[must_use]
pub fn config(cases: u32) -> Config {
    let seed = std::env::var(SEED).map_or(1, |seed| seed.parse().expect(SEED));
    Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        rng_algorithm: RngAlgorithm::ChaCha,
        failure_persistence: None,
        ..Config::default()
    }
}

/// States properties, as `proptest!` does, after how many cases each has if these are not [`CASES`].
///
/// ```text
/// use proptest::prelude::*;
///
/// turntree_properties::properties! {
///     cases = 40;
///
///     #[test]
///     fn a_word_twice_is_twice_as_long(word in "[a-z]{0,9}") {
///         prop_assert_eq!(word.repeat(2).len(), 2 * word.len());
///     }
/// }
/// ```
#[macro_export]
macro_rules! properties {
    (cases = $cases:expr; $($tests:tt)*) => {
        mod properties {
            use super::*;

            $crate::proptest! {
                #![proptest_config($crate::config($cases))]
                $($tests)*
            }
        }
    };
    ($($tests:tt)*) => {
        $crate::properties! { cases = $crate::CASES; $($tests)* }
    };
}
