//! How many of the newest turns fit into a budget, by few measurements.
//!
//! What turns take together is known only when they are compressed together, and that takes time. So
//! the number is looked for between one that fits and one that does not: where the budget should be
//! met if the bytes between the two grew with the weights of the turns.

use crate::error::Result;
use crate::object::ObjectId;

/// Measurements in a row that may end on the same side before the middle is tried.
const MAX_SAME_SIDE: u32 = 2;

/// What a session takes. Asked only for sessions with a budget.
pub trait Cost {
    /// Begins a session; returns false to leave its budget alone for now, when these turns are all
    /// that the rules keep.
    ///
    /// # Errors
    /// Those of reading the content.
    fn begin(&mut self, session: &str, kept: &[PricedTurn], budget: u64) -> Result<bool>;

    /// The bytes that the session takes when these turns and no others keep their content.
    ///
    /// # Errors
    /// Those of reading the content.
    fn bytes(&mut self, kept: &[PricedTurn]) -> Result<u64>;

    /// What keeping each of these turns adds to those before it, by any measure: only where the turns
    /// are looked for that fit follows from it.
    ///
    /// # Errors
    /// Those of reading the content.
    fn weights(&mut self, kept: &[PricedTurn]) -> Result<Vec<u64>>;

    /// The bytes that a session over its budget is fitted into.
    fn target(&self, budget: u64) -> u64 {
        budget
    }

    /// How far below its budget a session may end, in bytes.
    fn tolerance(&self, budget: u64) -> u64;
}

/// A turn that may keep its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PricedTurn {
    /// Its commit.
    pub commit: ObjectId,
    /// The root of its content.
    pub tree: ObjectId,
}

/// What fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fitted {
    /// The number of turns.
    pub(super) kept: usize,
    /// What they take.
    pub(super) bytes: u64,
}

/// A number of turns with their bytes and the sum of their weights.
#[derive(Debug, Clone, Copy)]
struct Point {
    turns: usize,
    bytes: u64,
    weight: u64,
}

/// Finds how many of `turns` fit, of which the first `fixed` stay whatever they take.
///
/// # Errors
/// Those of `cost`.
pub(super) fn fit(
    turns: &[PricedTurn],
    fixed: usize,
    budget: u64,
    cost: &mut dyn Cost,
) -> Result<Fitted> {
    let all = cost.bytes(turns)?;
    if all <= budget || fixed >= turns.len() {
        return Ok(Fitted { kept: turns.len(), bytes: all });
    }
    let least = cost.bytes(turns.get(..fixed).unwrap_or_default())?;
    if least > budget {
        return Ok(Fitted { kept: fixed, bytes: least });
    }
    // The weight of so many turns, by their number.
    let mut sums = vec![0_u64];
    for weight in cost.weights(turns)? {
        sums.push(sums.last().copied().unwrap_or_default().saturating_add(weight.max(1)));
    }
    let weight = |turns: usize| sums.get(turns).copied().unwrap_or(u64::MAX);
    let mut fits = Point { turns: fixed, bytes: least, weight: weight(fixed) };
    let mut over = Point { turns: turns.len(), bytes: all, weight: weight(turns.len()) };
    let (near, mut same_side, mut was_over) = (cost.tolerance(budget), 0_u32, false);
    while over.turns - fits.turns > 1 && budget - fits.bytes > near {
        let wanted = match same_side > MAX_SAME_SIDE {
            true => fits.weight.midpoint(over.weight),
            false => crossing(&fits, &over, budget - near / 2),
        };
        let found = sums.partition_point(|sum| *sum <= wanted).saturating_sub(1);
        let next = found.clamp(fits.turns + 1, over.turns - 1);
        let bytes = cost.bytes(turns.get(..next).unwrap_or_default())?;
        let point = Point { turns: next, bytes, weight: weight(next) };
        let is_over = bytes > budget;
        same_side = if is_over == was_over { same_side + 1 } else { 0 };
        was_over = is_over;
        if is_over { over = point } else { fits = point }
    }
    Ok(Fitted { kept: fits.turns, bytes: fits.bytes })
}

/// The weight at which the bytes would be `wanted` on the line between two points.
fn crossing(fits: &Point, over: &Point, wanted: u64) -> u64 {
    let rise = u128::from(over.bytes.saturating_sub(fits.bytes)).max(1);
    let part = u128::from(wanted.saturating_sub(fits.bytes));
    let run = u128::from(over.weight.saturating_sub(fits.weight));
    fits.weight.saturating_add(u64::try_from(run * part / rise).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Kind;

    /// Turns that take what a function of their number says.
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
                let Fitted { kept, bytes } = fit(&turns, 3, 50_000, &mut cost).unwrap();
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
        assert_eq!(fit(&turns, 4, 35, &mut cost).unwrap(), Fitted { kept: 4, bytes: 40 });
        assert_eq!(fit(&turns, 4, 90, &mut cost).unwrap(), Fitted { kept: 9, bytes: 90 });
        assert_eq!(fit(&[], 0, 1, &mut cost).unwrap(), Fitted { kept: 0, bytes: 0 });
    }
}
