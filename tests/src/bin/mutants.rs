//! Builds the seeded mutants one at a time, and reports whether the tests detect them.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use turntree_tests::mutants::{Mutant, list, project};

/// Removes guarantees from a copy of the code, one at a time, and runs the tests that must fail
#[derive(Debug, Parser)]
struct Arguments {
    /// Names of mutants; all of them by default
    names: Vec<String>,
    /// Prints the list and makes none
    #[arg(long)]
    list: bool,
    /// Seconds that the tests of a mutant may take: a hang counts as detected
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Where the copy is built; kept, so that the next run rebuilds only changes
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// The outcome of a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    /// A test failed: its name, or its arguments if cargo does not print the name.
    Caught(String),
    /// A test did not end in time.
    Hung(String),
    /// No test failed.
    Survived,
    /// The mutant does not build, or one of its tests does not exist: the list is wrong.
    Broken(String),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mutants = list();
    if let Some(name) = arguments.names.iter().find(|name| mutants.iter().all(|m| m.name != **name))
    {
        eprintln!("there is no mutant {name}");
        return ExitCode::from(2);
    }
    let chosen =
        |mutant: &&Mutant| arguments.names.is_empty() || arguments.names.contains(&mutant.name);
    let chosen: Vec<&Mutant> = mutants.iter().filter(chosen).collect();
    if arguments.list {
        for mutant in chosen {
            println!("{:<32} {}", mutant.name, mutant.removed);
        }
        return ExitCode::SUCCESS;
    }
    let folder = arguments.folder.unwrap_or_else(|| std::env::temp_dir().join("turntree-mutants"));
    let limit = Duration::from_secs(arguments.seconds);
    match run(&chosen, &folder, limit) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{}: {error}", folder.display());
            ExitCode::from(2)
        }
    }
}

/// Builds mutants and prints the outcome of each. Returns false if a mutant was not detected.
fn run(mutants: &[&Mutant], folder: &Path, limit: Duration) -> io::Result<bool> {
    let (copy, target) = (folder.join("project"), folder.join("target"));
    copy_project(&copy)?;
    let started = Instant::now();
    let mut caught = 0;
    for mutant in mutants {
        let begun = Instant::now();
        let path = copy.join(&mutant.file);
        let whole = fs::read_to_string(&path)?;
        fs::write(&path, whole.replacen(&mutant.find, &mutant.replace, 1))?;
        let fate = fate(mutant, &copy, &target, limit);
        fs::write(&path, whole)?;
        let fate = fate?;
        caught += usize::from(matches!(fate, Fate::Caught(_) | Fate::Hung(_)));
        let text = match &fate {
            Fate::Caught(by) => format!("caught by {by}"),
            Fate::Hung(by) => format!("caught: {by} never ended"),
            Fate::Survived => format!("SURVIVED: {}", mutant.removed),
            Fate::Broken(why) => format!("BROKEN: {why}"),
        };
        println!("{:<32} {:>4} s  {text}", mutant.name, begun.elapsed().as_secs());
        io::stdout().flush()?;
    }
    let minutes = started.elapsed().as_secs().div_ceil(60);
    println!("\n{caught} of {} caught, in {minutes} minutes", mutants.len());
    Ok(caught == mutants.len())
}

/// Copies every file of the project that git lists to `copy`. Leaves equal files alone.
fn copy_project(copy: &Path) -> io::Result<()> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(project())
        .output()?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut wanted = HashSet::new();
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (project().join(name), copy.join(name));
        let Ok(bytes) = fs::read(from) else { continue };
        wanted.insert(to.clone());
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        fs::create_dir_all(to.parent().unwrap_or(copy))?;
        fs::write(to, bytes)?;
    }
    remove_others(copy, &wanted)
}

/// Removes every file that is not wanted: a moved file would exist twice.
fn remove_others(folder: &Path, wanted: &HashSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_others(&entry.path(), wanted)?;
        } else if !wanted.contains(&entry.path()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Runs the tests of a mutant until one fails.
fn fate(mutant: &Mutant, copy: &Path, target: &Path, limit: Duration) -> io::Result<Fate> {
    for test in &mutant.tests {
        let arguments: Vec<&str> = test.split(' ').collect();
        let built = cargo(&[&arguments[..], &["--no-run"]].concat(), copy, target, None)?;
        if built.status != Some(true) {
            let line = built.text.lines().find(|line| line.starts_with("error"));
            return Ok(Fate::Broken(line.unwrap_or("it does not build").to_owned()));
        }
        let tested = cargo(&arguments, copy, target, Some(limit))?;
        match tested.status {
            None => return Ok(Fate::Hung(test.clone())),
            Some(false) => {
                return Ok(Fate::Caught(failed_test(&tested.text).unwrap_or(test.clone())));
            }
            Some(true) if !tested.text.lines().any(is_run) => {
                return Ok(Fate::Broken(format!("there is no test `{test}`")));
            }
            Some(true) => {}
        }
    }
    Ok(Fate::Survived)
}

/// The first failed test in the output of `cargo test`.
fn failed_test(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("test ") && line.ends_with("FAILED"))?;
    Some(line.trim_start_matches("test ").trim_end_matches(" ... FAILED").to_owned())
}

fn is_run(line: &str) -> bool {
    line.starts_with("test ") && line.ends_with("ok")
}

/// The result of a command.
struct Ended {
    /// True for success. `None` if the command was killed.
    status: Option<bool>,
    text: String,
}

/// Runs `cargo test` with a time limit.
fn cargo(
    arguments: &[&str],
    copy: &Path,
    target: &Path,
    limit: Option<Duration>,
) -> io::Result<Ended> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.arg("test").arg("--offline").args(arguments).process_group(0);
    command.current_dir(copy).env("CARGO_TARGET_DIR", target).env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let streams: [Option<Box<dyn Read + Send>>; 2] = [
        child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
        child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
    ];
    let readers = streams.into_iter().flatten().map(|mut pipe| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    });
    let readers: Vec<_> = readers.collect();
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status.success());
        }
        if limit.is_some_and(|limit| started.elapsed() > limit) {
            // Kills the process group: the tests are children of cargo, and would keep running.
            Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status()?;
            child.wait()?;
            break None;
        }
        thread::sleep(Duration::from_millis(20));
    };
    let text = readers.into_iter().map(|reader| reader.join().unwrap_or_default()).collect();
    Ok(Ended { status, text })
}
