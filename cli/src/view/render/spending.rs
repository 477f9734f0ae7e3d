//! The usage of answers in words.

use turntree_exchange::Spending;

use super::short_number;

/// Shown for an unknown cost.
const UNKNOWN: &str = "-";

/// Shown after a partial cost.
const AND_MORE: &str = "+";

/// Columns of the longest bar.
const BAR_COLUMNS: u32 = 16;

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

/// A bar for a share from 0 to 1 of [`BAR_COLUMNS`], in eighths of a column.
pub(crate) fn bar(share: f64) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let all = BAR_COLUMNS * 8;
    let eighths = (1..=all).take_while(|at| f64::from(*at) <= share * f64::from(all)).count();
    "█".repeat(eighths / 8) + PARTS.get(eighths % 8).copied().unwrap_or_default()
}

/// An amount in dollars for people.
pub(crate) fn dollars(cost: f64) -> String {
    if cost > 0.0 && cost < CENT { format!("${cost:.4}") } else { format!("${cost:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!(bar(0.0), "");
        assert_eq!(bar(1.0 / 128.0), "▏");
        assert_eq!(bar(0.5), "█".repeat(8));
        assert_eq!(bar(0.55), format!("{}▊", "█".repeat(8)));
        assert_eq!(bar(1.0), "█".repeat(16));
    }
}
