//! The proof that nothing acknowledged is lost, layer by layer.
//!
//! Every layer causes another kind of failure and asserts the same promise (see [`crate::oracle`]):
//! acknowledged changes exist and verify, unacknowledged ones exist completely or not at all, and
//! the store accepts commits. If a promise is broken, the layer panics with the seed and the step
//! to repeat it. Otherwise it returns the number of trials.
//!
//! `cargo test` runs each layer at scale 1. The program `prove` runs them at any scale and prints
//! the figures of `tests/README.md`.

mod content;
pub mod crashes;
pub mod damage;
pub mod external_interference;
pub mod failures;
pub mod full_disk;
pub mod going_back;
mod invariants;
pub mod kill_stress;
pub mod linear;
pub mod manifests;
mod overtaken;
pub mod paused_process;
#[cfg(target_os = "linux")]
pub mod power;
mod processes;
pub mod recovery;
pub mod schedules;
pub mod site;
mod stopping;
pub mod strangers;
pub mod syscalls;
pub mod walk;
pub mod worker;

use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

/// The effort of a layer, and its inputs.
#[derive(Debug, Clone)]
pub struct Effort {
    /// Multiplies the number of trials; 1 is that of `cargo test`.
    pub scale: u64,
    /// The seed of all random choices.
    pub seed: u64,
    /// The programs to start processes from.
    pub programs: Programs,
}

/// Programs that layers start as processes.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The command line of turntree.
    pub turntree: PathBuf,
    /// The program `prove`, which also runs the workers of the layers.
    pub prove: PathBuf,
}

/// The number of trials of a layer.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Each figure: its name, and its value with the unit.
    pub rows: Vec<(String, String)>,
    /// Why the layer was skipped, if the machine does not allow it.
    pub skipped: Option<String>,
}

impl Figures {
    /// Adds a figure.
    pub fn add(&mut self, what: &str, value: impl Display) {
        self.rows.push((what.to_owned(), value.to_string()));
    }

    /// A layer that this machine does not allow.
    #[must_use]
    pub fn skipped(why: impl Display) -> Self {
        Self { rows: Vec::new(), skipped: Some(why.to_string()) }
    }
}

/// Prints how to repeat a trial if it panics while this value is alive.
pub(crate) struct Repeat(pub String);

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("to repeat it: {}", self.0);
        }
    }
}

/// A kind of failure.
#[derive(Debug, Clone, Copy)]
pub struct Layer {
    /// The name at the command line.
    pub name: &'static str,
    /// The effect on a store, in a line.
    pub about: &'static str,
    /// Runs it; panics when a promise is broken.
    pub run: fn(&Effort) -> Figures,
}

/// Runs a worker process of a layer, if the arguments name one.
#[must_use]
pub fn work(arguments: &[String]) -> Option<ExitCode> {
    let (name, job) = arguments.split_first()?;
    match &**name {
        worker::WORKER => Some(worker::run(job)),
        linear::WORKER => {
            linear::main(job);
            Some(ExitCode::SUCCESS)
        }
        #[cfg(target_os = "linux")]
        power::device::WORKER => Some(power::device::serve(job)),
        _ => None,
    }
}

/// Every layer, from the disk upwards.
pub const LAYERS: &[Layer] = &[
    Layer {
        name: "manifests",
        about: "every order of openings, commits, sealings and collections, in a model",
        run: manifests::run,
    },
    Layer {
        name: "crashes",
        about: "the machine crashes in any call, keeps any part of the unsynced bytes, and again",
        run: crashes::run,
    },
    Layer {
        name: "failures",
        about: "any call to the disk fails, after any part of a write, or the disk is full for a while",
        run: failures::run,
    },
    Layer {
        name: "schedules",
        about: "processes on one store in every order, stopped, killed and crashed",
        run: schedules::run,
    },
    Layer {
        name: "linear",
        about: "compare-and-swap by threads and processes, checked against a model",
        run: linear::run,
    },
    Layer {
        name: "kill-stress",
        about: "processes on one store are killed at random instants",
        run: kill_stress::run,
    },
    Layer {
        name: "going-back",
        about: "a person edits files and rules; snapshots, restores, rollbacks, merges, undo and redo",
        run: going_back::run,
    },
    Layer {
        name: "strangers",
        about: "foreign stores, bundles and remotes, and runs of the program in them",
        run: strangers::run,
    },
    Layer {
        name: "walk",
        about: "all that changes a repository, at random, beside a naive model",
        run: walk::run,
    },
    Layer {
        name: "paused-process",
        about: "a process stops in every call, and continues later or is killed",
        run: paused_process::run,
    },
    Layer {
        name: "external-interference",
        about: "files vanish or are replaced under processes, and the clock jumps",
        run: external_interference::run,
    },
    Layer {
        name: "full-disk",
        about: "a file system has no room or no inodes, or turns read-only",
        run: full_disk::run,
    },
    Layer {
        name: "syscalls",
        about: "system calls of the command line fail, are interrupted or write a part",
        run: syscalls::run,
    },
    #[cfg(target_os = "linux")]
    Layer {
        name: "power-cut",
        about: "cuts the power of file systems of the kernel",
        run: power::run,
    },
    Layer {
        name: "damage",
        about: "changes files of a store in every way: no wrong bytes, and no silence",
        run: damage::run,
    },
    Layer {
        name: "recovery",
        about: "opens stores after a crash, and counts the disk calls of a snapshot",
        run: recovery::run,
    },
];
