//! Finds how many of the newest turns fit into a budget, with few measurements.
//!
//! The size of a set of turns is known only after compressing them together, which takes time. So
//! the search narrows the number between one that fits and one that does not, by interpolation: it
//! assumes that the bytes between the two grow with the weights of the turns.

use crate::error::Result;
use crate::object::ObjectId;

/// Measurements in a row that may end on the same side before the search bisects.
const MAX_SAME_SIDE: u32 = 2;

/// The size of a session. Used only for sessions with a budget.
pub trait Cost {
    /// Begins a session with all turns that the rules keep. Returns false to ignore its budget for
    /// now.
    ///
    /// # Errors
    /// Errors of reading the content.
    fn begin(&mut self, session: &str, kept: &[PricedTurn], budget: u64) -> Result<bool>;

    /// Returns the size of the session in bytes if exactly these turns keep their content.
    ///
    /// # Errors
    /// Errors of reading the content.
    fn bytes(&mut self, kept: &[PricedTurn]) -> Result<u64>;

    /// Returns the weight that each of these turns adds to those before it, in any unit. Only the
    /// search for the number of turns uses it.
    ///
    /// # Errors
    /// Errors of reading the content.
    fn weights(&mut self, kept: &[PricedTurn]) -> Result<Vec<u64>>;

    /// Returns the bytes into which a session over its budget is fitted.
    fn target(&self, budget: u64) -> u64 {
        budget
    }

    /// Returns how far below its budget a session may end, in bytes.
    fn tolerance(&self, budget: u64) -> u64;
}

/// A turn that may keep its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PricedTurn {
    /// The commit of the turn.
    pub commit: ObjectId,
    /// The root of the content.
    pub tree: ObjectId,
}

/// The turns that fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::maintenance) struct FittingTurns {
    /// The number of turns.
    pub(in crate::maintenance) kept: usize,
    /// The size of these turns.
    pub(in crate::maintenance) bytes: u64,
}

/// A number of turns with their bytes and the sum of their weights.
#[derive(Debug, Clone, Copy)]
struct Measurement {
    turns: usize,
    bytes: u64,
    weight: u64,
}

/// Finds how many of `turns` fit. The first `fixed` stay at any size.
///
/// # Errors
/// Errors of `cost`.
pub(super) fn find_fitting(
    turns: &[PricedTurn],
    fixed: usize,
    budget: u64,
    cost: &mut dyn Cost,
) -> Result<FittingTurns> {
    let all = cost.bytes(turns)?;
    if all <= budget || fixed >= turns.len() {
        return Ok(FittingTurns { kept: turns.len(), bytes: all });
    }
    let least = cost.bytes(turns.get(..fixed).unwrap_or_default())?;
    if least > budget {
        return Ok(FittingTurns { kept: fixed, bytes: least });
    }
    // The cumulative weights by number of turns.
    let mut sums = vec![0_u64];
    for weight in cost.weights(turns)? {
        sums.push(sums.last().copied().unwrap_or_default().saturating_add(weight.max(1)));
    }
    let weight = |turns: usize| sums.get(turns).copied().unwrap_or(u64::MAX);
    let mut fits = Measurement { turns: fixed, bytes: least, weight: weight(fixed) };
    let mut over = Measurement { turns: turns.len(), bytes: all, weight: weight(turns.len()) };
    let (near, mut same_side, mut was_over) = (cost.tolerance(budget), 0_u32, false);
    while over.turns - fits.turns > 1 && budget - fits.bytes > near {
        let wanted = match same_side > MAX_SAME_SIDE {
            true => fits.weight.midpoint(over.weight),
            false => crossing(&fits, &over, budget - near / 2),
        };
        let found = sums.partition_point(|sum| *sum <= wanted).saturating_sub(1);
        let next = found.clamp(fits.turns + 1, over.turns - 1);
        let bytes = cost.bytes(turns.get(..next).unwrap_or_default())?;
        let point = Measurement { turns: next, bytes, weight: weight(next) };
        let is_over = bytes > budget;
        same_side = if is_over == was_over { same_side + 1 } else { 0 };
        was_over = is_over;
        if is_over { over = point } else { fits = point }
    }
    Ok(FittingTurns { kept: fits.turns, bytes: fits.bytes })
}

/// Returns the weight at which the line between two points reaches `wanted` bytes.
fn crossing(fits: &Measurement, over: &Measurement, wanted: u64) -> u64 {
    let rise = u128::from(over.bytes.saturating_sub(fits.bytes)).max(1);
    let part = u128::from(wanted.saturating_sub(fits.bytes));
    let run = u128::from(over.weight.saturating_sub(fits.weight));
    fits.weight.saturating_add(u64::try_from(run * part / rise).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Kind;

    /// Turns whose size is a function of their number.
    struct ByNumber<F>(F, u32, u64);

    impl<F: Fn(usize) -> u64> Cost for ByNumber<F> {
        fn begin(&mut self, _: &str, _: &[PricedTurn], _: u64) -> Result<bool> {
            Ok(true)
        }

        fn bytes(&mut self, kept: &[PricedTurn]) -> Result<u64> {
            self.1 += 1;
            Ok((self.0)(kept.len()))
        }

        fn weights(&mut self, kept: &[PricedTurn]) -> Result<Vec<u64>> {
            Ok(vec![1; kept.len()])
        }

        fn tolerance(&self, _: u64) -> u64 {
            self.2
        }
    }

    #[test]
    fn few_measurements_find_what_fits_however_the_bytes_grow() {
        let id = ObjectId::of(Kind::Commit, b"");
        let turns = vec![PricedTurn { commit: id, tree: id }; 1000];
        let grows: [fn(usize) -> u64; 4] = [
            |n| 5000 + n as u64 * 100,
            |n| (n * n) as u64 / 3,
            |n| (n as u64).isqrt() * 3000,
            |n| if n > 700 { 90_000 } else { n as u64 * 9 },
        ];
        for grow in grows {
            for tolerance in [0, 500] {
                let mut cost = ByNumber(grow, 0, tolerance);
                let FittingTurns { kept, bytes } =
                    find_fitting(&turns, 3, 50_000, &mut cost).unwrap();
                let best = (3..=1000).rev().find(|n| grow(*n) <= 50_000).unwrap();
                assert_eq!(bytes, grow(kept));
                assert!(kept == best || grow(best) - grow(kept) <= tolerance && tolerance > 0);
                assert!(cost.1 <= 20, "{} measurements", cost.1);
            }
        }
    }

    #[test]
    fn what_must_stay_stays_over_the_budget() {
        let id = ObjectId::of(Kind::Commit, b"");
        let turns = vec![PricedTurn { commit: id, tree: id }; 9];
        let mut cost = ByNumber(|n| n as u64 * 10, 0, 0);
        assert_eq!(
            find_fitting(&turns, 4, 35, &mut cost).unwrap(),
            FittingTurns { kept: 4, bytes: 40 }
        );
        assert_eq!(
            find_fitting(&turns, 4, 90, &mut cost).unwrap(),
            FittingTurns { kept: 9, bytes: 90 }
        );
        assert_eq!(find_fitting(&[], 0, 1, &mut cost).unwrap(), FittingTurns { kept: 0, bytes: 0 });
    }
}
