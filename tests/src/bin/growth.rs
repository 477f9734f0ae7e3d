//! Measures how costs grow with the size of a store, and writes tables, JSON and pictures: `just
//! growth`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use turntree_benches::growth::{Axis, Plan, Result, make_store, measure, write_pictures};

/// Runs the program on stores of growing numbers of turns and sessions, and measures its cost.
///
/// Runs the program in `TURNTREE_MEASURED`, or the program in the folder of this binary.
#[derive(Debug, Parser)]
struct Arguments {
    /// The folder for growth.json, table.md and the pictures; with --make, the store to make
    folder: PathBuf,
    /// Turns of the session in each store
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000")]
    turns: Vec<usize>,
    /// Sessions in each store
    #[arg(long, value_delimiter = ',', default_value = "1,100,10000")]
    sessions: Vec<usize>,
    /// 100,000 turns too, which takes some minutes and 2 GB of disk
    #[arg(long)]
    long: bool,
    /// Runs of each repeatable step; the best counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only make a store, along an axis and of a size
    #[arg(long, num_args = 2, value_names = ["AXIS", "SIZE"], hide = true)]
    make: Option<Vec<String>>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match arguments.make.as_deref() {
        Some([axis, size]) => {
            let axis = Axis::ALL.into_iter().find(|known| known.name() == axis);
            make_store(&arguments.folder, axis.ok_or("no such axis")?, size.parse()?)
        }
        _ => measured(&arguments),
    }
}

/// Measures all steps, prints each figure as it is found, and writes the files.
fn measured(arguments: &Arguments) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let this = std::env::current_exe()?;
    let program = match std::env::var_os("TURNTREE_MEASURED") {
        Some(program) => fs::canonicalize(program)?,
        None => this.with_file_name("turntree"),
    };
    let long = arguments.long.then_some(100_000);
    let turns = arguments.turns.iter().copied().chain(long).map(|size| (Axis::Turns, size));
    let sessions = arguments.sessions.iter().map(|size| (Axis::Sessions, *size));
    let plan = Plan {
        program,
        maker: this,
        scratch: scratch.path().to_owned(),
        points: turns.chain(sessions).collect(),
        rounds: arguments.rounds,
    };
    let before = load();
    let figures = measure(&plan, |point, found| {
        let (axis, size, cost) = (point.axis.name(), point.size, found.cost);
        eprintln!(
            "{size} {axis}, {}, {}: {:.1} ms, {:.1} MiB",
            found.state.name(),
            found.step,
            cost.processor_ms,
            cost.peak_mib
        );
    })?;
    let folder = &arguments.folder;
    write_pictures(&figures, folder)?;
    fs::write(folder.join("growth.json"), format!("{:#}\n", figures.to_json()))?;
    let tables = figures.to_tables();
    print!("{tables}");
    let page = format!(
        "{HEAD}{}, load {before} before and {} after.\n\n{tables}",
        about(&plan.program)?,
        load()
    );
    fs::write(folder.join("table.md"), page)?;
    Ok(())
}

/// The text above the tables.
const HEAD: &str = "# How costs grow

`just growth` writes this page and the pictures. A figure is the processor time of a whole process, its start
included, and the most memory that it had; of steps that can be repeated it is the run that took least time.
A turn has three or four messages of 0.3 to 5 KB, a note and an edit of a file of 2 KB. Each session of many
has five turns.

";

/// The program, the processors and the day.
fn about(program: &Path) -> Result<String> {
    let said = |command: &mut Command| -> Result<String> {
        Ok(String::from_utf8(command.output()?.stdout)?.trim().to_owned())
    };
    let version = said(Command::new(program).arg("--version"))?;
    let megabytes = fs::metadata(program)?.len() / 1_000_000;
    let day = said(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
    let processors = std::thread::available_parallelism()?;
    Ok(format!("{day}: {version}, a program of {megabytes} MB, on {processors} processors"))
}

/// The load average of the last minute.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}
