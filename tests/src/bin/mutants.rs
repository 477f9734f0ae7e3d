//! Makes the seeded mutants one after the other, and finds out whether the tests notice.

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

/// Takes promises out of a copy of the code, one at a time, and runs the tests that must notice
#[derive(Debug, Parser)]
struct Arguments {
    /// Names of mutants; all of them by default
    names: Vec<String>,
    /// Prints the list and makes none
    #[arg(long)]
    list: bool,
    /// Seconds that the tests of a mutant may take: one that hangs has been noticed
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Where the copy is built; kept, so that the next run only builds what changed
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// What became of a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    /// Noticed by a test, by its name, or by its arguments where it does not say.
    Caught(String),
    /// Noticed by never coming to an end.
    Hung(String),
    /// By no test.
    Survived,
    /// It does not build, or a test to run is not there: the list is wrong.
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

/// Makes mutants and prints what became of each; false when one was not caught.
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

/// Makes `copy` what git knows of the project; what is the same already is left alone.
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

/// Removes every file that is not wanted: what has moved would be there twice.
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

/// The first test that failed, of what `cargo test` printed.
fn failed_test(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("test ") && line.ends_with("FAILED"))?;
    Some(line.trim_start_matches("test ").trim_end_matches(" ... FAILED").to_owned())
}

fn is_run(line: &str) -> bool {
    line.starts_with("test ") && line.ends_with("ok")
}

/// How a command ended.
struct Ended {
    /// Whether well; `None` when it was stopped.
    status: Option<bool>,
    text: String,
}

/// Runs `cargo test`, for so long at most.
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
            // The tests are children of cargo, and would go on without it.
            Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status()?;
            child.wait()?;
            break None;
        }
        thread::sleep(Duration::from_millis(20));
    };
    let text = readers.into_iter().map(|reader| reader.join().unwrap_or_default()).collect();
    Ok(Ended { status, text })
}
