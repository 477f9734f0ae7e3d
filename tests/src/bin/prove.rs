//! Runs the layers of proof and prints their figures.

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use turntree_tests::proof::{Effort, LAYERS, Layer, Programs, work};

/// Tries to make turntree lose data in many ways, and prints the number of trials.
#[derive(Debug, Parser)]
#[command(after_help = layers())]
struct Arguments {
    /// Layers to run; all of them by default
    layers: Vec<String>,
    /// The effort; 1 is that of `cargo test`
    #[arg(long, default_value_t = 10)]
    scale: u64,
    /// The seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn layers() -> String {
    let lines = LAYERS.iter().map(|layer| format!("  {:<12} {}\n", layer.name, layer.about));
    format!("Layers:\n{}", lines.collect::<String>())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(done) = work(&words) {
        return done;
    }
    let arguments = Arguments::parse();
    let unknown = |name: &&String| LAYERS.iter().all(|layer| layer.name != **name);
    if let Some(name) = arguments.layers.iter().find(unknown) {
        eprintln!("there is no layer {name}\n\n{}", layers());
        return ExitCode::from(2);
    }
    let prove = std::env::current_exe().expect("this program has a path");
    let turntree = prove.with_file_name("turntree-under-test");
    if !turntree.exists() {
        eprintln!("{} is not built: cargo build -p turntree-tests --bins", turntree.display());
        return ExitCode::from(2);
    }
    let programs = Programs { turntree, prove };
    let effort = Effort { scale: arguments.scale, seed: arguments.seed, programs };
    let chosen = |layer: &&Layer| {
        arguments.layers.is_empty() || arguments.layers.iter().any(|name| name == layer.name)
    };
    let broken = LAYERS.iter().filter(chosen).filter(|layer| !run(layer, &effort)).count();
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a layer and prints its figures. Returns false if a promise was broken.
fn run(layer: &Layer, effort: &Effort) -> bool {
    println!("{}: {}", layer.name, layer.about);
    let started = Instant::now();
    let effort = effort.clone();
    let Ok(figures) = catch_unwind(|| (layer.run)(&effort)) else {
        println!("  BROKEN after {:.0?}; repeat with --seed {}\n", started.elapsed(), effort.seed);
        return false;
    };
    if let Some(why) = &figures.skipped {
        println!("  skipped: {why}");
    }
    for (what, value) in &figures.rows {
        println!("  {what:<48} {value:>16}");
    }
    println!("  {:<48} {:>16}\n", "time", format!("{:.1?}", started.elapsed()));
    true
}
