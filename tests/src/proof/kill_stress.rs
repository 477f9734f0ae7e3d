//! Kill stress: waves of processes write, read and collect one store. Most are killed at a random
//! instant, some before they begin, some all together. Also stops long captures while other
//! processes collect, see `overtaken.rs`.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use turntree::object::ObjectId;

use super::content::{prove, state};
use super::invariants::{Promise, check_restored};
use super::processes::{Ended, PATIENCE, Started, field, turntree, worker};
use super::worker::{Acknowledged, IMPORTED, SECRETS};
use super::{Effort, Figures, overtaken};
use crate::claude_code;
use crate::sim::Random;

/// The number of processes that are killed on a store.
const KILLS: u64 = 1000;

/// The kills between two checks.
const CHECK_EVERY: u64 = 100;

/// Waves between two redactions.
const REDACT_EVERY: u64 = 32;

/// The most microseconds from the start of a wave to the start of a process, and from there to its
/// kill.
const MAX_START: usize = 8_000;
const MAX_LIFE: usize = 50_000;

/// The turns of a worker that is not killed.
const TURNS: &str = "60";

/// The task of a process.
#[derive(Debug, Clone)]
enum Role {
    /// Commits turns, and prints a line for each acknowledgement.
    Commits,
    /// `snapshot`: commits a turn to a branch.
    Snapshot {
        branch: String,
        number: u64,
    },
    Fork {
        name: String,
    },
    Pin {
        name: String,
    },
    Import {
        session: String,
        path: PathBuf,
    },
    /// Reads, and verifies the content.
    Reads,
    /// Prints an entry.
    Cat,
    Restore {
        dir: PathBuf,
    },
    /// A command that must succeed.
    Looks,
    /// `gc` and `repack`.
    Collects,
    Redact,
}

/// A process of a wave.
struct Job {
    role: Role,
    command: Command,
    /// The time after the start of the wave.
    starts: Duration,
    /// The time after its start when it is killed. `None` if it is not.
    lives: Option<Duration>,
    started: Option<Started>,
}

/// The number of trials and results.
#[derive(Debug, Default)]
struct Tally {
    kills: u64,
    processes: u64,
    acknowledged: u64,
    conflicts: u64,
    locked: u64,
    reads: u64,
    collections: u64,
    collections_killed: u64,
    redactions: u64,
    redactions_killed: u64,
    checks: u64,
    longest: Duration,
    longest_collection: Duration,
}

/// The stress on one store.
struct KillStress<'e> {
    effort: &'e Effort,
    folder: tempfile::TempDir,
    store: PathBuf,
    random: Random,
    /// The number of the next process, which gives it a unique seed.
    serial: u64,
    promise: Promise,
    tally: Tally,
}

/// Runs a stress of a thousand kills for each unit of scale, each on a new store.
///
/// # Panics
/// If a promise is broken.
#[must_use]
pub fn run(effort: &Effort) -> Figures {
    let mut figures = Figures::default();
    overtaken::run(effort, &mut figures);
    let mut sum = Tally::default();
    for round in 0..effort.scale {
        KillStress::new(effort, effort.seed.wrapping_add(round)).run(&mut sum);
    }
    figures.add("processes started", sum.processes);
    figures.add("of them killed", sum.kills);
    figures.add("commits acknowledged", sum.acknowledged);
    figures.add("of them lost", 0);
    figures.add("reads by readers that ended", sum.reads);
    figures.add("of them wrong", 0);
    figures.add("races lost, with an error", sum.conflicts);
    figures.add("held locks, with an error", sum.locked);
    figures.add("collections that finished", sum.collections);
    figures.add("collections that were killed", sum.collections_killed);
    figures.add("redactions that finished", sum.redactions);
    figures.add("redactions that were killed", sum.redactions_killed);
    figures.add("checks of everything", sum.checks);
    figures.add("longest life of a writer or reader", format!("{:.1?}", sum.longest));
    figures.add("longest life of a collection", format!("{:.1?}", sum.longest_collection));
    figures
}

impl<'e> KillStress<'e> {
    fn new(effort: &'e Effort, seed: u64) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = folder.path().join("store");
        let (random, promise) = (Random(seed), Promise::default());
        Self { effort, folder, store, random, serial: 0, promise, tally: Tally::default() }
    }

    fn run(mut self, sum: &mut Tally) {
        self.init();
        let mut checked = 0;
        for wave in 1_u64.. {
            if wave.is_multiple_of(REDACT_EVERY) {
                self.redaction();
            } else {
                self.wave();
            }
            if self.tally.kills >= checked + CHECK_EVERY {
                checked = self.tally.kills;
                self.check(false);
            }
            if self.tally.kills >= KILLS {
                break;
            }
        }
        self.check(true);
        let log = std::fs::read_to_string(self.store.join("maintenance.log")).unwrap_or_default();
        assert_eq!(log, "", "what gc --auto complained about");
        self.tally.acknowledged = self.promise.count();
        sum.add(&self.tally);
    }

    /// Creates the store. A store left by a process killed while creating it can be created again.
    fn init(&mut self) {
        for _ in 0..10 {
            let mut job = self.job(Role::Looks, &["init"]);
            job.lives = Some(Duration::from_micros(self.random.below(4_000) as u64));
            let _ = std::fs::remove_dir_all(&self.store);
            self.play(vec![job], false);
            let ended = Started::new("init", &mut turntree(self.effort, &self.store, &["init"]));
            // It exists, or is created now.
            let _ = ended.end().expect(&[0, 2]);
            let ended = Started::new("fsck", &mut turntree(self.effort, &self.store, &["fsck"]));
            let _ = ended.end().expect(&[0]);
        }
    }

    fn serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn draw(&mut self, limit: usize) -> Duration {
        Duration::from_micros(self.random.below(limit) as u64)
    }

    /// A process of the program.
    fn job(&mut self, role: Role, arguments: &[&str]) -> Job {
        let command = turntree(self.effort, &self.store, arguments);
        self.timed(role, command)
    }

    fn timed(&mut self, role: Role, command: Command) -> Job {
        let starts = self.draw(MAX_START);
        let lives = match self.random.below(8) {
            0 => None,
            1 => Some(Duration::ZERO),
            _ => Some(self.draw(MAX_LIFE)),
        };
        Job { role, command, starts, lives, started: None }
    }

    /// Two to eight writers, one or two readers, and collectors.
    fn wave(&mut self) {
        let writers = [2, 2, 3, 3, 4, 4, 6, 8][self.random.below(8)];
        let mut jobs = Vec::new();
        for slot in 0..writers {
            jobs.push(self.writer(slot));
        }
        for _ in 0..=self.random.below(2) {
            jobs.push(self.reader());
        }
        for _ in 0..self.random.below(3) {
            jobs.push(self.collector());
        }
        let together = self.random.below(5) == 0;
        self.play(jobs, together);
    }

    fn writer(&mut self, slot: usize) -> Job {
        let serial = self.serial();
        let number = serial << 20;
        let known = self.known_branch();
        match (self.random.below(12), known) {
            (0, Some(branch)) => {
                let name = format!("fork-{serial}");
                self.job(Role::Fork { name: name.clone() }, &["fork", &name, &branch, "--json"])
            }
            (1, Some(branch)) => {
                let name = format!("pin-{serial}");
                let role = Role::Pin { name: name.clone() };
                self.job(role, &["pin", &branch, "--name", &name, "--json"])
            }
            (2, _) => {
                let session = format!("{IMPORTED}{serial}");
                let path = self.folder.path().join(&session);
                let turns = 1 + self.random.below(20);
                std::fs::write(&path, claude_code(turns)).expect("a transcript");
                let role = Role::Import { session: session.clone(), path: path.clone() };
                let path = path.to_string_lossy().into_owned();
                self.job(role, &["import", &path, "--session", &session, "--json"])
            }
            (3 | 4, _) => {
                let session = ["cli".to_owned(), format!("w{slot}")][self.random.below(2)].clone();
                let branch = format!("{session}/main");
                self.snapshot(&session, &branch, number, "")
            }
            _ => {
                let (seed, own) = (serial.to_string(), format!("w{slot}/main"));
                let branches: [&str; 5] = [&seed, TURNS, &own, &own, "shared/main"];
                let command = worker(self.effort, &self.store, "commits", &branches);
                self.timed(Role::Commits, command)
            }
        }
    }

    fn snapshot(&mut self, session: &str, branch: &str, number: u64, more: &str) -> Job {
        let path = self.folder.path().join(format!("state-{number:x}"));
        std::fs::write(&path, state(number).replace(r#""}}}"#, &format!(r#"{more}"}}}}}}"#)))
            .expect("a state document");
        let (path, message) = (path.to_string_lossy().into_owned(), format!("{number:016x}{more}"));
        let role = Role::Snapshot { branch: branch.to_owned(), number };
        let state = ["--state", &path, "--session", session, "--json"];
        self.job(role, &[&["snapshot", "-m", &message], &state[..]].concat())
    }

    fn reader(&mut self) -> Job {
        let serial = self.serial().to_string();
        let Some(branch) = self.known_branch() else { return self.job(Role::Looks, &["status"]) };
        match self.random.below(8) {
            0 => self.job(Role::Cat, &["cat", &format!("{branch}:scratchpad/turn")]),
            1 => {
                let dir = self.folder.path().join(format!("restored-{serial}"));
                let to = dir.to_string_lossy().into_owned();
                self.job(Role::Restore { dir }, &["restore", &branch, "--to", &to])
            }
            2 => self.job(Role::Looks, &["log", "-n", "20", &branch]),
            3 => self.job(Role::Looks, &["fsck"]),
            _ => {
                let command = worker(self.effort, &self.store, "reads", &[&serial, "20"]);
                self.timed(Role::Reads, command)
            }
        }
    }

    fn collector(&mut self) -> Job {
        let arguments: &[&str] = match self.random.below(12) {
            0..4 => &["gc"],
            4..8 => &["gc", "--auto"],
            8 | 9 => &["repack", "--tier", "hot"],
            10 => &["repack"],
            _ => &["repack", "--archive"],
        };
        self.job(Role::Collects, arguments)
    }

    /// A branch with an acknowledged commit.
    fn known_branch(&mut self) -> Option<String> {
        let branches: Vec<_> = self.promise.commits.keys().cloned().collect();
        let known = branches.into_iter().filter(|name| !name.starts_with(SECRETS));
        let known: Vec<_> = known.collect();
        (!known.is_empty()).then(|| known[self.random.below(known.len())].clone())
    }

    /// Writes a secret into a store and redacts it while other processes read. The first redactions
    /// are killed.
    fn redaction(&mut self) {
        let number = self.serial() << 20;
        let secret = format!("SECRET-{:016x}", Random(number).draw());
        let mut put = self.snapshot(SECRETS, "secrets/main", number, &format!(" {secret}"));
        put.lives = None;
        self.play(vec![put], false);
        for last in [false, false, true] {
            let mut redact = self.job(Role::Redact, &["redact", &secret, "--yes"]);
            if last {
                redact.lives = None;
            }
            let (one, other) = (self.reader(), self.reader());
            self.play(vec![redact, one, other], false);
        }
        let seed = self.serial() << 20;
        self.promise.check_redacted(self.effort, &self.store, seed, &secret);
    }

    /// Runs the processes of a wave to their end.
    fn play(&mut self, mut jobs: Vec<Job>, together: bool) {
        let began = Instant::now();
        let all_die = together.then(|| self.draw(MAX_START + MAX_LIFE));
        let mut group: Option<Pid> = None;
        while !jobs.is_empty() {
            let now = began.elapsed();
            // A process group ends with its last process, and no process can join it then.
            if jobs.iter().all(|job| job.started.is_none()) {
                group = None;
            }
            if let Some(group) = group.filter(|_| all_die.is_some_and(|at| at <= now)) {
                // Processes that have ended are not in the group.
                let _ = kill_process_group(group, Signal::KILL);
                jobs.retain(|job| job.started.is_some());
            }
            for job in &mut jobs {
                if job.started.is_none() && job.starts <= now {
                    if together {
                        job.command.process_group(group.map_or(0, Pid::as_raw_pid));
                    }
                    let started = Started::new(format!("{:?}", job.role), &mut job.command);
                    self.tally.processes += 1;
                    group = group.or(together.then(|| started.pid()));
                    job.started = Some(started);
                }
                if let Some(started) = &mut job.started
                    && all_die.is_none()
                    && job.lives.is_some_and(|lives| lives <= started.since.elapsed())
                {
                    started.signal(Signal::KILL);
                }
            }
            for index in (0..jobs.len()).rev() {
                if jobs[index].started.as_mut().is_some_and(Started::has_ended)
                    && let Job { role, started: Some(started), .. } = jobs.swap_remove(index)
                {
                    self.settle(role, started.end());
                }
            }
            let late = jobs.iter().filter_map(|job| job.started.as_ref());
            let late = late.into_iter().find(|started| started.since.elapsed() > PATIENCE);
            assert!(late.is_none(), "it was not killed, but did not end: {late:?}");
            thread::sleep(Duration::from_micros(300));
        }
    }

    /// Records the acknowledgements of a process, and asserts that its exit status is allowed.
    fn settle(&mut self, role: Role, ended: Ended) {
        let killed = ended.status.signal() == Some(9);
        if killed {
            self.tally.kills += 1;
        } else {
            let collects = matches!(role, Role::Collects | Role::Redact);
            let Tally { longest, longest_collection, .. } = &mut self.tally;
            let longest = if collects { longest_collection } else { longest };
            *longest = ended.took.max(*longest);
        }
        // A process may be killed after it has printed acknowledgements.
        let stdout = String::from_utf8_lossy(&ended.stdout).into_owned();
        let lines: Vec<&str> = stdout.split_inclusive('\n').filter(|l| l.ends_with('\n')).collect();
        let lines = lines.into_iter().map(str::trim_end);
        let allowed: &[i32] = match role {
            Role::Commits => {
                lines.for_each(|line| self.promise.add(line.parse().expect("a line of a worker")));
                &[0, 5]
            }
            Role::Snapshot { branch, number } => {
                for line in lines {
                    let id = id(line);
                    self.promise.add(Acknowledged { branch: branch.clone(), id, number });
                }
                &[0, 3, 5]
            }
            Role::Fork { name } => {
                for line in lines {
                    let name = format!("{}/{name}", field(line, "session"));
                    self.promise.forks.insert(name, id(line));
                }
                &[0, 5]
            }
            Role::Pin { name } => {
                self.promise.pins.extend(lines.map(|line| (name.clone(), id(line))));
                &[0, 5]
            }
            Role::Import { session, path } => {
                if ended.status.success() {
                    self.promise.imports.insert(session, path);
                }
                &[0, 5]
            }
            Role::Restore { dir } => {
                if ended.status.success() {
                    check_restored(&dir);
                    self.tally.reads += 1;
                }
                let _ = std::fs::remove_dir_all(dir);
                &[0]
            }
            Role::Cat => {
                if ended.status.success() {
                    prove(&ended.stdout).unwrap_or_else(|wrong| panic!("{wrong}"));
                    self.tally.reads += 1;
                }
                &[0]
            }
            Role::Reads | Role::Looks => {
                self.tally.reads += u64::from(ended.status.success());
                &[0]
            }
            Role::Collects => {
                self.tally.collections += u64::from(ended.status.success());
                self.tally.collections_killed += u64::from(killed);
                &[0, 5]
            }
            Role::Redact => {
                self.tally.redactions += u64::from(ended.status.success());
                self.tally.redactions_killed += u64::from(killed);
                // A killed redaction may have completed.
                &[0, 1]
            }
        };
        self.tally.conflicts += u64::from(ended.code() == Some(3));
        self.tally.locked += u64::from(ended.code() == Some(5));
        if !killed {
            let _ = ended.expect(allowed);
        }
    }

    fn check(&mut self, reread: bool) {
        let seed = self.serial() << 20;
        self.tally.checks += 1;
        self.promise.check(self.effort, &self.store, seed, reread);
    }
}

/// The id in a record of the command line.
fn id(record: &str) -> ObjectId {
    field(record, "id").parse().unwrap_or_else(|_| panic!("no id in {record}"))
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.kills += other.kills;
        self.processes += other.processes;
        self.acknowledged += other.acknowledged;
        self.conflicts += other.conflicts;
        self.locked += other.locked;
        self.reads += other.reads;
        self.collections += other.collections;
        self.collections_killed += other.collections_killed;
        self.redactions += other.redactions;
        self.redactions_killed += other.redactions_killed;
        self.checks += other.checks;
        self.longest = self.longest.max(other.longest);
        self.longest_collection = self.longest_collection.max(other.longest_collection);
    }
}
