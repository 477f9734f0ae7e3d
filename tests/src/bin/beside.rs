//! Measures the latency of snapshots during maintenance, and prints a table: `just beside STORE`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use turntree_benches::beside::{Beside, Plan, STEPS, measure};

/// Commits turns to a copy of a store while the program collects or packs another copy, and then
/// the same copy. Prints the latency of the snapshots.
///
/// Runs the program in `TURNTREE_MEASURED`, or the program in the folder of this binary.
#[derive(Debug, Parser)]
struct Arguments {
    /// The store: each step gets a copy
    store: PathBuf,
    /// The folder for the copies: it selects the disk
    #[arg(long, default_value = ".")]
    scratch: PathBuf,
    /// Milliseconds between two snapshots
    #[arg(long, default_value_t = 5)]
    pause: u64,
    /// Snapshots before each step
    #[arg(long, default_value_t = 300)]
    alone: usize,
    /// Only steps whose name begins with this
    #[arg(long, default_value = "")]
    only: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let program = match std::env::var_os("TURNTREE_MEASURED") {
        Some(program) => fs::canonicalize(program)?,
        None => std::env::current_exe()?.with_file_name("turntree"),
    };
    let scratch = tempfile::tempdir_in(&arguments.scratch)?;
    let plan = Plan {
        program,
        store: arguments.store,
        scratch: fs::canonicalize(scratch.path())?,
        pause: Duration::from_millis(arguments.pause),
        alone: arguments.alone,
    };
    let steps = STEPS.iter().copied().filter(|(name, _)| name.starts_with(&arguments.only));
    print!("{}", Beside::HEAD);
    measure(&plan, &steps.collect::<Vec<_>>(), |found| print!("{}", found.row()))?;
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    eprintln!("load {}", load.split(' ').next().unwrap_or("unknown"));
    Ok(())
}
