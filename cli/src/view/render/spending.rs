//! The usage of answers in words.

use turntree_exchange::Spending;

use super::short_number;

/// Shown for an unknown cost.
const UNKNOWN: &str = "-";

/// Shown after a partial cost.
const AND_MORE: &str = "+";

/// Dollars below which a cost has four digits.
const CENT: f64 = 0.01;

/// A cost for people: `-` if unknown, and with `+` if partial.
pub(crate) fn cost(spending: &Spending) -> String {
    let more = if spending.is_whole() { "" } else { AND_MORE };
    spending.cost().map_or_else(|| UNKNOWN.to_owned(), |cost| format!("{}{more}", dollars(cost)))
}

/// A cost, or the number of tokens if it is unknown.
pub(crate) fn short_spending(spending: &Spending) -> String {
    match spending.cost() {
        Some(_) => cost(spending),
        None => format!("{} tokens", short_number(spending.tokens.total())),
    }
}

/// An amount in dollars for people.
pub(crate) fn dollars(cost: f64) -> String {
    if cost > 0.0 && cost < CENT { format!("${cost:.4}") } else { format!("${cost:.2}") }
}
