//! The high-level API: sessions, turns and snapshots as handles that hold their store.
//!
//! [`Repo`] opens a store. A [`Session`] is one of its branches; a [`Turn`] adds a snapshot to it.
//! A [`Snapshot`] reads an agent's context at a turn. [`Session::rewind`] restores a session and
//! its workspace, [`Snapshot::checkout`] writes a snapshot into another directory. Both plan first,
//! and [`Repo::undo`] undoes them.
//!
//! A [`Change`] is for programs with their own records: it is buffered in memory, changes any
//! sections of any branches, and is applied on top of the newest snapshot at commit.
//!
//! All modules below this one take clock, randomness and disk as arguments; this one passes those
//! of the system. [`Repo::repository`] gives access to the lower level.
//!
//! ```
//! use turntree::context::Role;
//! use turntree::local::Repo;
//!
//! # let folder = tempfile::tempdir().map_err(|error| turntree::Error::io("make a folder", error))?;
//! # let dir = folder.path();
//! let repo = Repo::open_or_create(dir.join(".turntree"))?;
//! let session = repo.session("refactoring")?;
//!
//! let mut turn = session.turn()?; // continues the newest snapshot
//! turn.push_message("main", Role::User, r#"{"role":"user","content":"Split the parser"}"#)?;
//! turn.set("scratchpad/plan", "read the tests")?;
//! turn.set("files/src/parser.rs", "fn parse() {}\n")?;
//! let first = turn.commit("the task")?; // durable from here on
//!
//! let other = session.fork("plan-b", &first)?;
//! let mut turn = other.turn()?;
//! turn.set("scratchpad/plan", "rewrite it")?;
//! turn.commit("another way")?;
//!
//! session.merge(&other)?;
//! let newest = repo.snapshot("refactoring")?;
//! assert_eq!(newest.text("scratchpad/plan")?, "rewrite it");
//! for message in newest.messages("main")? {
//!     println!("{}", message?.text());
//! }
//! newest.checkout(dir.join("out")).plan()?.apply()?;
//!
//! session.rewind().to_turn(1).plan()?.apply()?;
//! assert_eq!(repo.snapshot("refactoring")?.text("scratchpad/plan")?, "read the tests");
//! repo.undo()?;
//! assert_eq!(repo.snapshot("refactoring")?.text("scratchpad/plan")?, "rewrite it");
//! # Ok::<(), turntree::Error>(())
//! ```

mod change;
mod checkout;
mod edit;
mod formats;
mod host;
mod notes;
mod preview;
mod process;
mod records;
mod rewind;
mod search;
mod session;
mod snapshot;
mod system;
mod turn;
mod upkeep;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::change::{BranchChange, Change};
pub use self::checkout::{Checkout, CheckoutPlan};
pub use self::formats::MessageFormats;
pub use self::host::{Closing, Host, HostOptions};
pub use self::process::in_this_process;
pub use self::records::{Contents, Scan};
pub use self::rewind::{Rewind, RewindPlan};
pub use self::search::Match;
pub use self::session::{MergeOutcome, Session};
pub use self::snapshot::{EntryChange, Message, Snapshot};
use self::system::check_free;
pub use self::system::{
    create_repository, git_places, is_free, open_encrypted, open_repository, open_with,
    random_bytes,
};
pub use self::turn::Turn;
pub use self::upkeep::Retention;
use crate::error::{Error, ErrorKind, Result};
use crate::object::ObjectId;
use crate::repo::{BranchName, OperationEntry, Repository, Signature};
use crate::store::StoreKeys;
use crate::workspace::{CaptureOptions, prepare_undo};

/// The default actor of a handle.
const ACTOR: &str = "turntree";

/// A store of sessions on this machine. Cloning a handle is cheap; threads and processes can use
/// one store concurrently.
#[derive(Debug, Clone)]
pub struct Repo {
    inner: Arc<Repository>,
    actor: String,
    formats: MessageFormats,
}

impl Repo {
    /// Opens the store in the directory `dir`.
    ///
    /// # Errors
    /// `NotFound` if it is missing, `Corrupt` if it cannot be read, `Io` if the system refuses.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        open_repository(dir.as_ref()).map(Self::from)
    }

    /// Opens the encrypted store in the directory `dir`.
    ///
    /// # Errors
    /// Errors of [`Repo::open`], and `Encrypted` for wrong keys.
    pub fn open_encrypted(dir: impl AsRef<Path>, keys: StoreKeys) -> Result<Self> {
        open_encrypted(dir.as_ref(), keys).map(Self::from)
    }

    /// Creates a store in the directory `dir`, including parent directories.
    ///
    /// # Errors
    /// `InvalidInput` if the directory has a store or other files, `Io` if the system refuses.
    pub fn create(dir: impl AsRef<Path>) -> Result<Self> {
        create_repository(dir.as_ref()).map(Self::from)
    }

    /// Opens the store in the directory `dir`, or creates it in a missing or empty directory. Never
    /// creates it among other files, such as those of a project, whose store needs its own
    /// directory.
    ///
    /// # Errors
    /// As for [`Repo::open`] and [`Repo::create`].
    pub fn open_or_create(dir: impl AsRef<Path>) -> Result<Self> {
        let dir = dir.as_ref();
        match Self::open(dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                match check_free(dir).and_then(|()| Self::create(dir)) {
                    Err(occupied) if occupied.kind() == ErrorKind::InvalidInput => {
                        // Another process may have created it concurrently.
                        Self::open(dir).map_err(|error| match error.kind() {
                            ErrorKind::NotFound => occupied,
                            _ => error,
                        })
                    }
                    created => created,
                }
            }
            opened => opened,
        }
    }

    /// Sets the actor of this handle: the author of snapshots and operations.
    #[must_use]
    pub fn acting_as(mut self, actor: impl Into<String>) -> Self {
        self.actor = actor.into();
        self
    }

    /// Reads messages with these formats, such as those of the crate `turntree-exchange`.
    #[must_use]
    pub fn reading(mut self, formats: MessageFormats) -> Self {
        self.formats = formats;
        self
    }

    /// Returns the underlying repository, for uses that this module does not cover.
    #[must_use]
    pub fn repository(&self) -> &Repository {
        &self.inner
    }

    /// Returns every session that has a snapshot, ordered by name, at its main branch if it has
    /// one.
    #[must_use]
    pub fn sessions(&self) -> Vec<Session> {
        let mut sessions: Vec<BranchName> = Vec::new();
        for (branch, _) in self.inner.branches() {
            match sessions.last_mut() {
                Some(last) if last.session() == branch.session() => {
                    if BranchName::main(branch.session()).is_ok_and(|main| main == branch) {
                        *last = branch;
                    }
                }
                _ => sessions.push(branch),
            }
        }
        sessions.into_iter().map(|branch| Session::new(self, branch)).collect()
    }

    /// Returns the session `name` at its main branch; `name/branch` names another branch. It need
    /// not exist: its first turn creates it.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid session name.
    pub fn session(&self, name: &str) -> Result<Session> {
        let branch = match name.contains('/') {
            true => name.parse()?,
            false => BranchName::main(name)?,
        };
        if self.inner.tip(&branch).is_none() {
            branch.check_new()?;
        }
        Ok(Session::new(self, branch))
    }

    /// Returns the snapshot at a revision, such as `refactoring`, `refactoring~1`,
    /// `refactoring^{turn:12}` or an id.
    ///
    /// # Errors
    /// `NotFound` if the revision does not exist, `InvalidInput` if it is ambiguous, malformed or
    /// has the path of an entry, `Expired` if retention dropped the snapshot.
    pub fn snapshot(&self, revision: &str) -> Result<Snapshot> {
        Snapshot::read(self, self.inner.resolve_snapshot(revision)?.commit)
    }

    /// Returns the commit at a revision, including commits of other handles and processes. An id
    /// that this handle already knows is returned without reading anything else.
    ///
    /// # Errors
    /// As for [`Repo::snapshot`] and [`Repo::refresh`], and `InvalidInput` for the path of an entry.
    pub fn resolve(&self, revision: &str) -> Result<ObjectId> {
        if let Ok(id) = revision.parse::<ObjectId>()
            && self.inner.commit(&id).is_ok()
        {
            return Ok(id);
        }
        self.refresh()?;
        Ok(self.inner.resolve_snapshot(revision)?.commit)
    }

    /// Undoes the newest operation of this handle's actor, including files that it moved in a
    /// workspace. Returns its description; `None` if there is nothing to undo.
    ///
    /// # Errors
    /// `Conflict` if a later operation changed the same branch, `Expired` if the previous snapshot
    /// was dropped, and errors of writing.
    pub fn undo(&self) -> Result<Option<String>> {
        let found = self.inner.undoable(Some(&self.actor))?;
        found.map(|entry| self.undo_entry(entry, "undo")).transpose()
    }

    /// Redoes the operation that this handle's actor undid last. Returns its description; `None` if
    /// there is nothing to redo.
    ///
    /// # Errors
    /// As for [`Repo::undo`].
    pub fn redo(&self) -> Result<Option<String>> {
        let found = self.inner.redoable(Some(&self.actor))?;
        found.map(|entry| self.undo_entry(entry, "redo")).transpose()
    }

    fn undo_entry(&self, entry: OperationEntry, verb: &str) -> Result<String> {
        let plan = self.inner.plan_undo(entry)?;
        let subject = self.inner.undo_subject(&plan.undone)?;
        let subject = if verb == "redo" { subject } else { plan.undone.clone() };
        let said = subject.operation.reason.clone();
        let (stamp, reason) =
            (self.stamp(), format!("{verb} {}: {said}", subject.operation.sequence));
        match &plan.moved {
            None => drop(self.inner.undo(&plan, &stamp, &reason)?),
            Some(moved) => {
                let never = self.excluded_folders();
                let git = git_places();
                let options =
                    CaptureOptions { never: &never, git: &git, ..CaptureOptions::default() };
                let prepared =
                    prepare_undo(&self.inner, &plan, moved, None, &options, &stamp, &reason)?;
                rewind::check(prepared.apply(&stamp, &reason)?)?;
            }
        }
        Ok(said)
    }

    /// Returns the signature for an operation of this handle's actor now.
    #[must_use]
    pub fn stamp(&self) -> Signature {
        Signature { time: system::now(), actor: self.actor.clone() }
    }

    /// Returns the folders that no capture enters: the store.
    fn excluded_folders(&self) -> [PathBuf; 1] {
        [self.inner.store().dir().to_owned()]
    }
}

impl From<Repository> for Repo {
    fn from(repository: Repository) -> Self {
        Self {
            inner: Arc::new(repository),
            actor: ACTOR.to_owned(),
            formats: MessageFormats::default(),
        }
    }
}

/// Returns the error for a path that names no entry.
fn path_error(path: &str) -> Error {
    Error::invalid(format!(
        "'{path}' is not the path of an entry: expected SECTION/KEY, as in files/a.rs"
    ))
}
