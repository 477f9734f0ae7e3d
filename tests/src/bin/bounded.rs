//! Plays the ten policies of the audit, and prints the plan of each and the final size of the
//! store.

use clap::Parser;
use turntree::maintenance::Policy;
use turntree_tests::bounded::{Before, Bounded, BoundedCase, play, ten_policies};

/// Plays long sessions under policies, and prints a table.
#[derive(Debug, Parser)]
struct Arguments {
    /// The part of the turns and of the budgets: 1 for up to 10,000 turns and 5 MB
    #[arg(long, default_value_t = 1)]
    scale: u64,
    /// Only policies whose name contains this
    #[arg(long, default_value = "")]
    only: String,
}

fn main() {
    let Arguments { scale, only } = Arguments::parse();
    println!(
        "| policy | turns | says, bytes | before gc | after gc | kept turns, of the rules | with one turn more |"
    );
    println!("|---|---|---|---|---|---|---|");
    for case in ten_policies(scale).into_iter().filter(|case| case.name.contains(&only)) {
        let found = played(&case);
        let budget = case.policy.as_ref().and_then(|policy| policy.budget_bytes);
        let is_over = found.said_bytes > budget;
        let says = match (budget, found.said_bytes) {
            (Some(budget), Some(said)) if is_over => format!("{budget}, and that {said} must stay"),
            (Some(budget), _) => budget.to_string(),
            _ => String::new(),
        };
        let (kept, promised) = (found.kept.len(), case.promised().len());
        let rules = if budget.is_some() { String::new() } else { format!(", {promised}") };
        let more = match budget {
            Some(_) if !is_over => played(&with_last(&case, kept + 1)).bytes.to_string(),
            _ => String::new(),
        };
        println!(
            "| {} | {} | {says} | {} | {} | {kept}{rules} | {more} |",
            case.name, case.turns, found.bytes_before, found.bytes
        );
    }
}

fn played(case: &BoundedCase) -> Bounded {
    let folder = tempfile::tempdir().expect("a temporary folder");
    play(&folder.path().join("store"), case, Before::Steps)
}

/// Keeps the newest turns of the session instead of a budget: gives the size that a budget would
/// need.
fn with_last(case: &BoundedCase, turns: usize) -> BoundedCase {
    let keep_last = u64::try_from(turns).ok();
    let policy = Policy { keep_last, strict: true, ..Policy::default() };
    BoundedCase { policy: Some(policy), ..case.clone() }
}
