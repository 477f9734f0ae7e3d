//! The macro for properties: the same cases in every run, and other cases only in a search.
//!
//! `cargo test` must depend on the code alone, so the seed of the cases is a constant here. A
//! separate job, `just fuzz`, searches beyond the fixed cases: it sets the variable [`SEED`] to a
//! new number for each round, and prints it. The tests are in a module `properties`, so that a
//! search can run only these.

use proptest::test_runner::{Config, RngAlgorithm, RngSeed};

#[doc(hidden)]
pub use proptest::proptest;

/// The variable with the seed of a search.
pub const SEED: &str = "TURNTREE_TEST_SEED";

/// The default number of cases of a property.
pub const CASES: u32 = 256;

/// The configuration of properties: `cases` of them, drawn from a fixed seed or from that in
/// [`SEED`].
///
/// A failure leaves no file: the next run draws the same cases anyway, and a case worth keeping
/// becomes a test.
///
/// # Panics
/// If [`SEED`] is set and is not a number.
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

/// Defines properties like `proptest!`. `cases` sets the number of cases of each, by default
/// [`CASES`].
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
