//! Measures snapshots during maintenance: their times while another process works on the same
//! store.
//!
//! One process commits turn after turn, with a pause in between. Another process runs one command
//! of the program: first on a copy of the store, which uses the same processors and the same disk,
//! and then on the store itself. The additional time of snapshots in the second case is the time
//! that they wait for the store. Each snapshot records its waiting times, which explain a long one:
//! the disk, a lock, a busy processor, or its own work.

mod timed_io;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use turntree::repo::{BranchName, Repository};
use turntree::store::OpenOptions;

pub use self::timed_io::{TimedIo, Waits};
use crate::session::{Agent, Turn};
use crate::store::Recorder;

/// Number of initial snapshots to ignore, during which files are opened and created.
const FIRST_SNAPSHOTS: usize = 20;

/// The default steps: a name, and the arguments of the program.
pub const STEPS: &[(&str, &[&str])] = &[
    ("gc", &["gc"]),
    ("repack", &["repack"]),
    ("repack --archive", &["repack", "--archive"]),
    ("retention", &["retention", "set", "--default", "--keep-last", "1000"]),
    ("gc behind it", &["gc"]),
];

/// The measurements of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The measured program.
    pub program: PathBuf,
    /// The store. Each step works on a copy of it.
    pub store: PathBuf,
    /// A folder for the copies.
    pub scratch: PathBuf,
    /// The pause between two snapshots.
    pub pause: Duration,
    /// Number of snapshots before each step, without concurrent work.
    pub alone: usize,
}

/// One snapshot.
#[derive(Debug, Clone, Copy, Default)]
pub struct Snapshot {
    /// The time from its start until it was durable.
    pub took: Duration,
    /// The part of the time in system calls.
    pub waits: Waits,
    /// Processor time of the thread.
    pub processor: Duration,
    /// The time that the thread was ready but had no processor.
    pub queued: Duration,
}

/// The distribution of the times of some snapshots.
#[derive(Debug, Clone, Default)]
pub struct Spread {
    /// The number of snapshots.
    pub count: usize,
    /// The median.
    pub median: Duration,
    /// The 99th percentile.
    pub late: Duration,
    /// The longest time, and the longest wait of each kind.
    pub longest: Snapshot,
}

/// The snapshots without and with a concurrent step.
#[derive(Debug, Clone)]
pub struct Beside {
    /// The name of the step.
    pub step: String,
    /// The duration of the step.
    pub took: Duration,
    /// The snapshots before the step.
    pub alone: Spread,
    /// The snapshots that began while the step ran on a copy of the store.
    pub elsewhere: Spread,
    /// The snapshots that began while the step ran on the store.
    pub beside: Spread,
}

/// Measures steps, each on new copies of the store, except that a step "behind it" uses the copies
/// of the previous step.
///
/// # Errors
/// If the store cannot be copied or written to, or the program fails.
pub fn measure(
    plan: &Plan,
    steps: &[(&str, &[&str])],
    mut told: impl FnMut(&Beside),
) -> Result<(), Box<dyn Error>> {
    let (store, copy) = (plan.scratch.join("store"), plan.scratch.join("copy"));
    for (name, arguments) in steps {
        if !name.ends_with(" behind it") {
            for folder in [&store, &copy] {
                let _ = fs::remove_dir_all(folder);
                copy_folder(&plan.store, folder)?;
            }
        }
        told(&beside(plan, &store, &copy, name, arguments)?);
    }
    fs::remove_dir_all(&copy)?;
    fs::remove_dir_all(&store)?;
    Ok(())
}

/// Takes snapshots alone, then while the program works on the copy, and then while it works on the
/// store.
fn beside(
    plan: &Plan,
    store: &Path,
    copy: &Path,
    name: &str,
    arguments: &[&str],
) -> Result<Beside, Box<dyn Error>> {
    let io = TimedIo::default();
    // Each step needs a unique name of the handle, which only distinguishes files of the journal.
    let options = OpenOptions::new([u8::try_from(name.len())?; 16]);
    let repo = Repository::open(Arc::new(io.clone()), store, options)?;
    let mut agent = Agent::with_workspace(7, 20, 50);
    let mut recorder = Recorder::of_branch(&repo, BranchName::main("beside")?);
    let mut next = || -> turntree::Result<Snapshot> {
        thread::sleep(plan.pause);
        snapshot(&io, &mut recorder, &agent.next_turn())
    };
    for _ in 0..FIRST_SNAPSHOTS {
        next()?;
    }
    let alone = (0..plan.alone).map(|_| next()).collect::<turntree::Result<Vec<_>>>()?;
    let elsewhere = while_it_runs(&mut plan.command(copy, arguments), &mut next)?;
    let start = Instant::now();
    let beside = while_it_runs(&mut plan.command(store, arguments), &mut next)?;
    Ok(Beside {
        step: name.to_owned(),
        took: start.elapsed(),
        alone: spread(alone),
        elsewhere: spread(elsewhere),
        beside: spread(beside),
    })
}

/// Takes snapshots until a command has ended.
fn while_it_runs(
    command: &mut Command,
    next: &mut impl FnMut() -> turntree::Result<Snapshot>,
) -> Result<Vec<Snapshot>, Box<dyn Error>> {
    let mut snapshots = Vec::new();
    let mut child = Running(command.spawn()?);
    let ended = loop {
        if let Some(ended) = child.0.try_wait()? {
            break ended;
        }
        snapshots.push(next()?);
    };
    if !ended.success() {
        return Err(format!("{command:?} ended with {ended}").into());
    }
    Ok(snapshots)
}

impl Plan {
    /// Returns the command of the program on one of the copies.
    fn command(&self, store: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("TURNTREE_STORE", store).env("HOME", &self.scratch);
        command.env("TURNTREE_MAINTENANCE", "off").current_dir(&self.scratch);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }
}

/// A process that is killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The process has ended, or its folder is discarded.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn snapshot(io: &TimedIo, recorder: &mut Recorder<'_>, turn: &Turn) -> turntree::Result<Snapshot> {
    let _ = io.take();
    let (processor, queued) = schedule();
    let start = Instant::now();
    recorder.record(turn)?;
    let took = start.elapsed();
    let (processor_after, queued_after) = schedule();
    Ok(Snapshot {
        took,
        waits: io.take(),
        processor: processor_after.saturating_sub(processor),
        queued: queued_after.saturating_sub(queued),
    })
}

/// Returns the time that this thread ran, and the time that it waited for a processor. Zero if the
/// system does not report them.
fn schedule() -> (Duration, Duration) {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut numbers = text.split(' ').map(|number| number.parse().unwrap_or_default());
    let mut next = || Duration::from_nanos(numbers.next().unwrap_or_default());
    (next(), next())
}

fn spread(mut snapshots: Vec<Snapshot>) -> Spread {
    snapshots.sort_unstable_by_key(|snapshot| snapshot.took);
    let at = |part: usize| snapshots.get(snapshots.len() * part / 100).or(snapshots.last());
    let took = |part| at(part).map(|snapshot| snapshot.took).unwrap_or_default();
    let longest = snapshots.iter().fold(Snapshot::default(), |most, snapshot| most.most(snapshot));
    Spread { count: snapshots.len(), median: took(50), late: took(99), longest }
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

impl Snapshot {
    /// Returns the longer of each time.
    fn most(&self, other: &Self) -> Self {
        let (one, two) = (&self.waits, &other.waits);
        Self {
            took: self.took.max(other.took),
            waits: Waits {
                locks: one.locks.max(two.locks),
                syncs: one.syncs.max(two.syncs),
                calls: one.calls.max(two.calls),
            },
            processor: self.processor.max(other.processor),
            queued: self.queued.max(other.queued),
        }
    }
}

impl Beside {
    /// The head of the table.
    pub const HEAD: &'static str = "\
| step | goes on | alone: snapshots; median, p99, longest | beside it on a copy | beside it | \
the longest of each: sync; locks; other calls; no processor; its own work, alone, beside a copy, beside it |
|---|---|---|---|---|---|
";

    /// Returns a row of the table, in milliseconds.
    #[must_use]
    pub fn row(&self) -> String {
        let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
        let times = |of: &Spread| {
            let Spread { count, median, late, longest } = of;
            format!("{count}; {}, {}, **{}**", ms(*median), ms(*late), ms(longest.took))
        };
        let parts = |of: &Spread| {
            let Snapshot { waits, processor, queued, .. } = of.longest;
            [waits.syncs, waits.locks, waits.calls, queued, processor].map(ms).join("; ")
        };
        let spreads = [&self.alone, &self.elsewhere, &self.beside];
        format!(
            "| {} | {:.1} s | {} | {} |\n",
            self.step,
            self.took.as_secs_f64(),
            spreads.map(times).join(" | "),
            spreads.map(parts).join(", ")
        )
    }
}
