//! Plays the ten policies of the audit, and prints what each says and what the disk holds then.

use clap::Parser;
use turntree_tests::bounded::{Before, play, ten_policies};

/// Takes long sessions through policies, and prints a table.
#[derive(Debug, Parser)]
struct Arguments {
    /// The part of the turns and of the budgets: 1 for up to 10,000 turns and 5 MB
    #[arg(long, default_value_t = 1)]
    scale: u64,
    /// Only policies whose name holds this
    #[arg(long, default_value = "")]
    only: String,
}

fn main() {
    let Arguments { scale, only } = Arguments::parse();
    println!("| policy | turns | says, bytes | before gc | after gc | kept turns, of the rules |");
    println!("|---|---|---|---|---|---|");
    for case in ten_policies(scale).into_iter().filter(|case| case.name.contains(&only)) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let found = play(&folder.path().join("store"), &case, Before::Steps);
        let budget = case.policy.as_ref().and_then(|policy| policy.budget_bytes);
        let says = match (budget, found.said_bytes) {
            (Some(budget), Some(said)) if said > budget => {
                format!("{budget}, and that {said} must stay")
            }
            (Some(budget), _) => budget.to_string(),
            _ => String::new(),
        };
        let (kept, promised) = (found.kept.len(), case.promised().len());
        let rules = if budget.is_some() { String::new() } else { format!(", {promised}") };
        println!(
            "| {} | {} | {says} | {} | {} | {kept}{rules} |",
            case.name, case.turns, found.bytes_before, found.bytes
        );
    }
}
