//! A store with trouble, and the acknowledgements on it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use turntree::object::ObjectId;
use turntree::repo::{BranchName, Repository};
use turntree::store::{NewStore, RealIo, Store};

use super::Effort;
use super::content::{commit, open, state};
use super::invariants::Promise;
use super::processes::{Ended, Started, turntree};
use super::worker::Acknowledged;

/// The bits of turn numbers reserved for one process.
const NUMBERS: u32 = 20;

/// A store and its users.
#[derive(Debug)]
pub struct Site<'e> {
    /// The programs to start processes from.
    pub effort: &'e Effort,
    /// The directory.
    pub dir: PathBuf,
    /// The acknowledged changes.
    pub promise: Promise,
    /// Input documents of commands. They are not next to the store, where the disk may be full.
    documents: tempfile::TempDir,
    serial: u64,
}

impl<'e> Site<'e> {
    /// Creates a store in `dir`.
    ///
    /// # Panics
    /// If it cannot be created.
    #[must_use]
    pub fn new(effort: &'e Effort, dir: &Path) -> Self {
        Store::create(&RealIo, dir, &NewStore { id: [1; 16] }).expect("a new store");
        // The workers of `stops` have the seeds below.
        let documents = tempfile::tempdir().expect("a temporary folder");
        let (dir, promise) = (dir.to_owned(), Promise::default());
        Self { effort, dir, promise, documents, serial: 100 }
    }

    /// A unique seed, and the first number of its turns.
    pub fn serial(&mut self) -> (u64, u64) {
        self.serial += 1;
        (self.serial, self.serial << NUMBERS)
    }

    /// Opens the store like another process.
    ///
    /// # Panics
    /// If the store does not open.
    pub fn open(&mut self) -> Repository {
        let (seed, _) = self.serial();
        open(&self.dir, seed).expect("the store opens")
    }

    /// Commits a turn through a handle, to the main branch of a session.
    ///
    /// # Errors
    /// Errors of committing.
    ///
    /// # Panics
    /// For a bad name.
    pub fn commit(&mut self, repo: &Repository, session: &str) -> turntree::Result<ObjectId> {
        let (_, number) = self.serial();
        let branch = BranchName::main(session).expect("a name");
        repo.refresh()?;
        let id = commit(repo, &branch, number)?;
        self.promise.add(Acknowledged { branch: branch.to_string(), id, number });
        Ok(id)
    }

    /// Commits some turns to a session.
    ///
    /// # Panics
    /// If a turn is refused.
    pub fn fill(&mut self, session: &str, turns: u64) {
        let repo = self.open();
        for _ in 0..turns {
            self.commit(&repo, session).expect("a commit");
        }
    }

    /// Starts the program.
    #[must_use]
    pub fn start(&self, arguments: &[&str]) -> Started {
        Started::new(arguments.join(" "), &mut turntree(self.effort, &self.dir, arguments))
    }

    /// Runs the program.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Ended {
        self.start(arguments).end()
    }

    /// The arguments of a `snapshot` of a new turn in the session `cli`, and the number of the turn.
    ///
    /// # Panics
    /// If the document with the turn cannot be written.
    pub fn turn(&mut self) -> (Vec<String>, u64) {
        let (seed, number) = self.serial();
        let path = self.documents.path().join(format!("turn-{seed}"));
        std::fs::write(&path, state(number)).expect("a state document");
        let (path, message) = (path.to_string_lossy().into_owned(), format!("{number:016x}"));
        let words = ["snapshot", "-m", &message, "--state", &path, "--session", "cli", "--json"];
        (words.map(str::to_owned).to_vec(), number)
    }

    /// Starts a `snapshot` of a new turn. Returns the number of the turn too.
    pub fn start_snapshot(&mut self) -> (Started, u64) {
        let (words, number) = self.turn();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        (self.start(&words), number)
    }

    /// Records the acknowledgement of a `snapshot`.
    ///
    /// # Panics
    /// If it succeeded without printing an id.
    pub fn note(&mut self, ended: &Ended, number: u64) {
        if ended.code() == Some(0) {
            let id = ended.field("id").parse().expect("an id");
            self.promise.add(Acknowledged { branch: "cli/main".into(), id, number });
        }
    }

    /// Runs a `snapshot` of a new turn.
    pub fn snapshot(&mut self) -> Ended {
        let (started, number) = self.start_snapshot();
        let ended = started.end();
        self.note(&ended, number);
        ended
    }

    /// Asserts that all acknowledged changes exist, and that the store accepts commits.
    ///
    /// # Panics
    /// If not.
    pub fn check(&mut self) {
        let _ = self.snapshot().expect(&[0]);
        let (_, seed) = self.serial();
        self.promise.check(self.effort, &self.dir, seed, true);
    }

    /// A handle with the lock timeout `patience`.
    ///
    /// # Panics
    /// If the store does not open.
    pub fn open_impatient(&mut self, patience: std::time::Duration) -> Repository {
        let (seed, _) = self.serial();
        let mut options = crate::oracle::options(seed);
        options.lock_timeout = patience;
        Repository::open(Arc::new(RealIo), &self.dir, options).expect("the store opens")
    }
}
