//! Runs the unmodified program under `strace`, which makes its n-th system call of a kind fail or
//! sends it a signal there; and makes real partial writes by a limit on the size of files.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::invariants::check_restored;
use super::processes::{Ended, Started, turntree};
use super::site::Site;
use super::{Effort, Figures};
use crate::claude_code;
use crate::sim::Random;

/// The calls, and the faults of each.
const CALLS: [(&str, &[&str]); 10] = [
    ("pwrite64", &["error=EIO", "error=ENOSPC", "error=EINTR", "signal=SIGKILL"]),
    ("write", &["error=EIO", "error=ENOSPC", "error=EINTR"]),
    ("fdatasync", &["error=EIO", "error=ENOSPC", "error=EINTR", "signal=SIGINT"]),
    ("fsync", &["error=EIO", "error=EINTR", "signal=SIGTERM"]),
    ("openat", &["error=EIO", "error=EMFILE", "error=EINTR", "signal=SIGINT"]),
    ("linkat", &["error=EIO", "error=ENOSPC", "error=EINTR", "signal=SIGKILL"]),
    ("unlink", &["error=EIO", "error=EINTR", "signal=SIGTERM"]),
    ("flock", &["error=EINTR", "error=ENOLCK", "signal=SIGINT"]),
    ("pread64", &["error=EIO", "error=EINTR"]),
    ("mmap", &["error=ENOMEM"]),
];

/// The runs at scale 1, and between two checks.
const RUNS: usize = 320;
const CHECK_EVERY: u64 = 40;

/// Limits on the size of files, in blocks of the shell.
const LIMITS: [u32; 6] = [1, 3, 20, 127, 131, 150];

/// The exit codes of a failed command: it reports the error, meets a lock, or cannot even start.
const REFUSED: [i32; 3] = [5, 70, 127];

/// The exit codes of a command that cannot open a pack or a segment, with the required message.
const DAMAGED: ([i32; 2], &str) = ([4, 6], "the store is damaged");

/// The job of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Job {
    Snapshot,
    Gc,
    Repack,
    Import,
    Restore,
}

const JOBS: [Job; 5] = [Job::Snapshot, Job::Gc, Job::Repack, Job::Import, Job::Restore];

/// A fault in the n-th call of a process.
#[derive(Debug, Clone, Copy)]
struct Injection {
    job: Job,
    call: &'static str,
    what: &'static str,
    n: u64,
}

/// The number of trials and results.
#[derive(Debug, Default)]
struct Tally {
    runs: u64,
    injected: u64,
    done: u64,
    refused: u64,
    signalled: u64,
    limited: u64,
}

/// Makes system calls fail, one in each run of a command.
///
/// # Panics
/// If a promise is broken.
#[must_use]
pub fn run(effort: &Effort) -> Figures {
    if Command::new("strace").arg("--version").output().is_err() {
        return Figures::skipped("there is no strace");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (tally, promise) = (Tally::default(), Site::new(effort, &folder.path().join("store")));
    let mut bench = Bench {
        site: promise,
        folder: folder.path().to_owned(),
        tally,
        random: Random(effort.seed),
    };
    bench.site.fill("one", 12);
    let mut injections = bench.injections();
    if injections.is_empty() {
        return Figures::skipped("strace may not trace");
    }
    let wanted = RUNS.saturating_mul(usize::try_from(effort.scale).unwrap_or(usize::MAX));
    // A different subset in each run, and all of them at a large scale.
    while injections.len() > wanted {
        injections.swap_remove(bench.random.below(injections.len()));
    }
    for injection in injections {
        bench.inject(injection);
        if bench.tally.runs.is_multiple_of(CHECK_EVERY) {
            bench.site.check();
        }
    }
    bench.limits();
    bench.site.check();
    let Bench { tally, site, .. } = bench;
    let mut figures = Figures::default();
    figures.add("commands run", tally.runs);
    figures.add("system calls that failed or were interrupted", tally.injected);
    figures.add("commands that were done all the same", tally.done);
    figures.add("commands that said no", tally.refused);
    figures.add("commands ended by a signal", tally.signalled);
    figures.add("commands with partial writes", tally.limited);
    figures.add("commits acknowledged", site.promise.count());
    figures.add("of them lost", 0);
    figures
}

struct Bench<'e> {
    site: Site<'e>,
    folder: PathBuf,
    tally: Tally,
    random: Random,
}

impl Bench<'_> {
    /// All faults, from a run of each command without one.
    fn injections(&mut self) -> Vec<Injection> {
        let mut injections = Vec::new();
        for job in JOBS {
            let (words, number) = self.words(job);
            let log = self.folder.join("strace.log");
            let calls: Vec<&str> = CALLS.iter().map(|(call, _)| *call).collect();
            let ended = self.traced(&log, &[&format!("trace={}", calls.join(","))], &words);
            if ended.code() != Some(0) {
                return Vec::new();
            }
            self.note(job, &ended, number);
            for (call, count) in counts(&log) {
                let whats = CALLS.iter().find(|(name, _)| *name == call).map_or(&[][..], |c| c.1);
                for n in 1..=count {
                    injections.extend(whats.iter().map(|what| Injection { job, call, what, n }));
                }
            }
        }
        injections
    }

    /// The arguments of a command that has something to do, and the number of its turn if it
    /// commits one.
    fn words(&mut self, job: Job) -> (Vec<String>, u64) {
        let (seed, _) = self.site.serial();
        let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match job {
            Job::Snapshot => self.site.turn(),
            Job::Gc => (text(&["gc"]), 0),
            Job::Repack => (text(&["repack", "--tier", "hot"]), 0),
            Job::Import => {
                let path = self.folder.join("transcript");
                fs::write(&path, claude_code(1 + self.random.below(12))).expect("a transcript");
                let session = format!("imported-{seed}");
                (text(&["import", &path.to_string_lossy(), "--session", &session]), 0)
            }
            Job::Restore => {
                let to = self.restored();
                let _ = fs::remove_dir_all(&to);
                (text(&["restore", "one", "--to", &to.to_string_lossy()]), 0)
            }
        }
    }

    fn restored(&self) -> PathBuf {
        self.folder.join("restored")
    }

    /// Runs a command under `strace`.
    fn traced(&self, log: &Path, expressions: &[&str], words: &[String]) -> Ended {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o"]).arg(log);
        for expression in expressions {
            command.args(["-e", expression]);
        }
        command.arg(&self.site.effort.programs.turntree);
        let what = format!("{} with {}", words.join(" "), expressions.join(" "));
        Started::new(what, like_turntree(&self.site, &mut command, words)).end()
    }

    fn inject(&mut self, injection: Injection) {
        let Injection { job, call, what, n } = injection;
        let (words, number) = self.words(job);
        let log = self.folder.join("strace.log");
        let (trace, inject) = (format!("trace={call}"), format!("inject={call}:{what}:when={n}"));
        let ended = self.traced(&log, &[&trace, &inject], &words);
        self.tally.runs += 1;
        let said = fs::read_to_string(&log).unwrap_or_default();
        self.tally.injected += u64::from(said.contains("INJECTED") || said.contains("--- SIG"));
        // Without memory a process may die before it starts, and a library may fail to start a
        // thread.
        if call != "mmap" || ended.code().is_some_and(|code| code != 101) {
            self.settle(job, ended, number);
        }
    }

    /// Asserts that a failed command ended as expected, and records its effect.
    fn settle(&mut self, job: Job, ended: Ended, number: u64) {
        match (ended.code(), ended.status.signal()) {
            (Some(0), _) => self.tally.done += 1,
            (None, Some(_)) => self.tally.signalled += 1,
            _ => self.tally.refused += 1,
        }
        if ended.status.signal().is_none() {
            let code = ended.code().unwrap_or_default();
            let (damaged, said) = (DAMAGED.0.contains(&code), ended.stderr.contains(DAMAGED.1));
            let expected = code == 0 || REFUSED.contains(&code) || damaged && said;
            assert!(expected, "{}", ended.report());
        }
        if job == Job::Restore {
            self.check_restore(&ended);
        }
        self.note(job, &ended, number);
    }

    fn note(&mut self, job: Job, ended: &Ended, number: u64) {
        if job == Job::Snapshot {
            self.site.note(ended, number);
        }
    }

    /// Checks that every restored file is complete, and that a second run restores the rest.
    fn check_restore(&self, ended: &Ended) {
        let to = self.restored();
        if to.exists() && ended.code() != Some(0) {
            let text = to.to_string_lossy().into_owned();
            let _ = self.site.run(&["restore", "one", "--to", &text]).expect(&[0]);
        }
        if to.exists() {
            check_restored(&to);
        }
    }

    /// Partial writes: no file may grow beyond a limit, and the signal of the limit is ignored.
    fn limits(&mut self) {
        for limit in LIMITS {
            for job in JOBS {
                let (words, number) = self.words(job);
                let mut command = Command::new("sh");
                let script = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$0\" \"$@\"");
                command.args(["-c", &script]).arg(&self.site.effort.programs.turntree);
                let what = format!("{} with files of {limit} blocks", words.join(" "));
                let command = like_turntree(&self.site, &mut command, &words);
                let ended = Started::new(what, command).end();
                self.tally.runs += 1;
                self.tally.limited += 1;
                self.settle(job, ended, number);
            }
            self.site.check();
        }
    }
}

/// Runs a command in the environment of the program.
fn like_turntree<'c>(
    site: &Site<'_>,
    command: &'c mut Command,
    words: &[String],
) -> &'c mut Command {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let plain = turntree(site.effort, &site.dir, &words);
    command.args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(std::process::Stdio::null())
}

/// The highest number of calls of each kind by one process.
fn counts(log: &Path) -> BTreeMap<&'static str, u64> {
    let mut counts: BTreeMap<(&'static str, String), u64> = BTreeMap::new();
    for line in fs::read_to_string(log).unwrap_or_default().lines() {
        let Some((process, rest)) = line.split_once(' ') else { continue };
        let name = rest.trim_start().split('(').next().unwrap_or_default();
        if let Some((call, _)) = CALLS.iter().find(|(call, _)| *call == name) {
            *counts.entry((*call, process.to_owned())).or_default() += 1;
        }
    }
    let mut most: BTreeMap<&'static str, u64> = BTreeMap::new();
    for ((call, _), count) in counts {
        let known = most.entry(call).or_default();
        *known = count.max(*known);
    }
    most
}
