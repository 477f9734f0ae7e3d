//! What answers took, in words.

use turntree_exchange::Spending;

use super::short_number;

/// Stands where a cost is unknown.
const UNKNOWN: &str = "-";

/// Stands behind a cost that is not all.
const AND_MORE: &str = "+";

/// Dollars below which a cost has four digits.
const CENT: f64 = 0.01;

/// A cost for people: `-` where nothing is known, and `+` behind one that is not all.
pub(crate) fn cost(spending: &Spending) -> String {
    let more = if spending.is_whole() { "" } else { AND_MORE };
    spending.cost().map_or_else(|| UNKNOWN.to_owned(), |cost| format!("{}{more}", dollars(cost)))
}

/// A cost, else the number of tokens.
pub(crate) fn short_spending(spending: &Spending) -> String {
    match spending.cost() {
        Some(_) => cost(spending),
        None => format!("{} tokens", short_number(spending.tokens.total())),
    }
}

/// An amount for people.
pub(crate) fn dollars(cost: f64) -> String {
    if cost > 0.0 && cost < CENT { format!("${cost:.4}") } else { format!("${cost:.2}") }
}
