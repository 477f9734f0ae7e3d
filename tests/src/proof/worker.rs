//! The workers of the layers: the processes `prove worker JOB STORE ...`.
//!
//! | job | task | output |
//! |---|---|---|
//! | `commits SEED COUNT BRANCH...` | commits turns as fast as it can | each acknowledged turn |
//! | `reads SEED COUNT` | reads everything reachable from branches | nothing |
//! | `stays SEED BRANCH` | commits one turn, and stops itself before it ends | the turn |
//! | `stops SEED CALL commit\|gc\|repack` | commits or collects, and stops in a call | the turn |
//!
//! A job exits with 0 when it is done, with 5 if it met a lock, and with 1 and a message on stderr
//! for everything that must not happen.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;

use rustix::process::{Signal, getpid, kill_process};
use turntree::ErrorKind;
use turntree::maintenance::{Purpose, collect};
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Repository};
use turntree::store::Tier;

use super::content::{Prover, commit, full, open};
use super::stopping::Stopper;
use crate::oracle::options;
use crate::sim::Random;
use crate::stamp;
use crate::watched::WatchedIo;

/// Sessions with secrets: redactions change their content.
pub const SECRETS: &str = "secrets";

/// The prefix of sessions with imported transcripts.
pub const IMPORTED: &str = "imported-";

/// The number of turns that one worker can number.
const TURNS: u64 = 1 << 20;

/// The most commits of a branch that the job `reads` reads at a time.
const DEPTH: usize = 6;

/// A commit that was acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acknowledged {
    /// The branch it is on, as `session/branch`.
    pub branch: String,
    /// The id.
    pub id: ObjectId,
    /// The number of its turn.
    pub number: u64,
}

impl fmt::Display for Acknowledged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {:016x}", self.branch, self.id, self.number)
    }
}

impl FromStr for Acknowledged {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let wrong = || format!("expected a commit that was acknowledged, found {line:?}");
        let [branch, id, number] =
            <[&str; 3]>::try_from(line.split(' ').collect::<Vec<_>>()).map_err(|_| wrong())?;
        let number = u64::from_str_radix(number, 16).map_err(|_| wrong())?;
        Ok(Self { branch: branch.into(), id: id.parse().map_err(|_| wrong())?, number })
    }
}

/// Why a job failed.
enum Stopped {
    /// Another process held a lock for too long.
    Locked(String),
    /// A broken promise.
    Wrong(String),
}

impl From<turntree::Error> for Stopped {
    fn from(error: turntree::Error) -> Self {
        match error.kind() {
            ErrorKind::Locked => Self::Locked(full(&error)),
            _ => Self::Wrong(full(&error)),
        }
    }
}

/// The first argument of a worker process.
pub const WORKER: &str = "worker";

/// Runs a job.
#[must_use]
pub fn run(arguments: &[String]) -> ExitCode {
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["commits", store, seed, count, ref branches @ ..] => {
            commits(Path::new(store), number(seed), number(count), branches)
        }
        ["reads", store, seed, count] => reads(Path::new(store), number(seed), number(count)),
        ["stays", store, seed, branch] => stays(Path::new(store), number(seed), branch),
        ["stops", store, seed, call, job] => {
            stops(Path::new(store), number(seed), number(call), job)
        }
        _ => Err(Stopped::Wrong(format!("no job: {arguments:?}"))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stopped::Locked(why)) => {
            eprintln!("{why}");
            ExitCode::from(5)
        }
        Err(Stopped::Wrong(why)) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn commits(store: &Path, seed: u64, count: u64, branches: &[&str]) -> Result<(), Stopped> {
    let repo = open(store, seed)?;
    for (turn, name) in (0..count).zip(branches.iter().cycle()) {
        let branch = branch(name)?;
        let number = seed * TURNS + turn;
        let id = loop {
            match commit(&repo, &branch, number) {
                Err(error) if error.kind() == ErrorKind::Conflict => repo.refresh()?,
                committed => break committed?,
            }
        };
        println!("{}", Acknowledged { branch: (*name).to_owned(), id, number });
        if turn % 8 == 7 {
            // Garbage for collections.
            let garbage = BranchName::new("garbage", &format!("{number:x}"))?;
            commit(&repo, &garbage, number + TURNS / 2)?;
            let mut change = repo.begin();
            change.move_branch(&garbage, None);
            change.commit(&stamp(1), "delete")?;
        }
    }
    Ok(())
}

fn reads(store: &Path, seed: u64, count: u64) -> Result<(), Stopped> {
    let repo = open(store, seed)?;
    let mut random = Random(seed);
    for _ in 0..count {
        repo.refresh()?;
        let mut branches = repo.branches();
        branches.retain(|(branch, _)| {
            let session = branch.session();
            session != SECRETS && !session.starts_with(IMPORTED)
        });
        if branches.is_empty() {
            continue;
        }
        let (_, tip) = branches[random.below(branches.len())];
        let mut prover = Prover::new(&repo);
        for entry in repo.history(&[tip], &[])?.first_parent().take(1 + random.below(DEPTH)) {
            let entry = entry?;
            prover.turn(&entry.id, &entry.commit).map_err(Stopped::Wrong)?;
        }
    }
    Ok(())
}

/// Commits a turn, stops, and keeps its segment until it is continued.
fn stays(store: &Path, seed: u64, name: &str) -> Result<(), Stopped> {
    let repo = open(store, seed)?;
    let number = seed * TURNS;
    let id = commit(&repo, &branch(name)?, number)?;
    println!("{}", Acknowledged { branch: name.to_owned(), id, number });
    kill_process(getpid(), Signal::STOP).expect("a process may stop itself");
    Ok(())
}

/// Does one job, and stops itself in one of its calls to the file system.
fn stops(store: &Path, seed: u64, call: u64, job: &str) -> Result<(), Stopped> {
    let repo =
        Repository::open(Arc::new(WatchedIo::real(Stopper::new(call))), store, options(seed))?;
    match job {
        "commit" | "first-commit" => {
            let (name, number) = (format!("stopped-{seed}/main"), seed * TURNS);
            let id = commit(&repo, &branch(&name)?, number)?;
            println!("{}", Acknowledged { branch: name, id, number });
        }
        job => {
            let purpose = if job == "gc" { Purpose::Gc } else { Purpose::Repack(Tier::Hot) };
            collect(&repo, purpose, &stamp(1), &mut |_| {})?;
        }
    }
    Ok(())
}

fn branch(name: &str) -> Result<BranchName, Stopped> {
    let (session, branch) = name.split_once('/').unwrap_or((name, "main"));
    Ok(BranchName::new(session, branch)?)
}
