//! The library's front door: sessions, branches and snapshots over a store.
//!
//! A [`Repository`] reads; a [`Transaction`] stages objects and ref changes and makes them durable
//! as one operation. Any number of repositories, in any number of processes, may be open on one
//! store.
//!
//! ```
//! # use std::sync::Arc;
//! use turntree::object::{Author, Time, Trigger};
//! use turntree::repo::{BranchName, Repository, SnapshotDraft, Signature};
//! use turntree::store::{NewStore, OpenOptions, RealIo};
//!
//! # let folder = tempfile::tempdir().map_err(|error| turntree::Error::io("make a folder", error))?;
//! # let dir = folder.path().join("store");
//! # let random = || [7; 16];
//! let stamp = Signature { time: Time::default(), actor: "me".into() };
//! let options = OpenOptions::new(random());
//! let repo = Repository::init(Arc::new(RealIo), &dir, &NewStore { id: random() }, options)?;
//!
//! let branch = BranchName::main("session")?;
//! let mut turn = repo.begin();
//! let mut context = turntree::context::Builder::new();
//! context.set_entry(&mut turn, "scratchpad", "plan", Some("read the tests".into()))?;
//! let tree = context.write(&mut turn)?;
//! let id = turn.snapshot(&branch, SnapshotDraft::new(tree, "first turn", &stamp))?;
//! turn.commit(&stamp, "snapshot")?;
//!
//! assert_eq!(repo.resolve("session")?.commit, id);
//! # Ok::<(), turntree::Error>(())
//! ```

mod adoption;
mod availability;
mod bisect;
mod branch;
mod divergence;
mod filter;
mod forgotten;
mod forgotten_operations;
mod grafts;
mod history;
mod kept_prompts;
mod links;
mod merge;
mod merge_base;
mod named_branch;
mod operations;
mod pick;
mod pin;
mod place;
mod prompts;
mod provenance;
mod redactions;
mod remote_refs;
mod resolve;
mod revision;
mod rollback;
mod search;
mod secret_settings;
mod session;
mod tag;
mod transaction;
mod undo;
mod versioned_json;
pub mod vfs;
pub mod watch;
mod whole_workspace;

use std::path::Path;
use std::sync::{Arc, Mutex};

pub use adoption::Adoption;
pub use availability::{Availability, AvailableTurn};
pub use bisect::{Bisect, BisectNote, BisectStatus, BisectVerdict, Candidate, SkipReason};
pub use branch::{
    BranchName, DEFAULT_SESSION, HEAD, MAIN_BRANCH, MAX_NAME_BYTES, check_full_name,
    check_remote_name, pin_name, pin_ref, tag_name, tag_ref,
};
pub use divergence::{BranchLine, Divergence};
pub use filter::ContentFilter;
pub use forgotten::ForgottenSession;
pub(crate) use forgotten_operations::forgotten_through;
pub use grafts::{GRAFTS_REF, Grafts};
pub use history::{History, LogEntry};
pub use kept_prompts::NoteKeeper;
pub use links::links;
pub use merge::{MergeKind, MergeReport, MergeRequest};
pub use operations::OperationEntry;
pub use pin::{NewPin, Pin};
pub use place::{ChooseBranch, is_place, is_worktree};
pub use prompts::{IsPrompt, PROMPT, PROMPTS, Prompts};
pub use redactions::{REDACTIONS_REF, Redactions};
pub use remote_refs::{
    REMOTES_REF, RemoteEntry, distant_bundle, distant_ref, remote_branch, remote_branch_ref,
    remote_head_ref,
};
pub use resolve::Resolution;
pub use revision::{
    FindSession, ParseTime, Range, Resolver, Revision, SnapshotRevision, split_path, split_range,
};
pub(crate) use rollback::audit_record;
pub use rollback::{
    LESSONS_CHANGED, ONLY, RESTORED_FROM, ROLLED_BACK_TO, RollbackTarget, WORKSPACE, before_ref,
};
pub use search::{
    Arrival, Arrivals, ArrivedAt, Blame, BlameKind, BlamedPart, Count, FindIn, Gap, Gaps, Grep,
    GrepPlace, GrepProgress, GrepQuery, GrepSteps, LinePattern, LoosePattern, MAX_LINE_BYTES,
    MAX_PATTERN_BYTES, MatchedLine, MayHold, PatternOptions, Pickaxe, PickaxeMatch, PickaxeQuery,
    ReadMessage, Scan, ScanPart, ScanPlace, SearchFilter, SearchScope, TextMatches,
};
pub(crate) use search::{complete_history_index, wrong_history_indexes};
pub use secret_settings::{SECRET_SETTINGS_REF, SecretMode, SecretSettings};
pub use session::{
    MAX_LABEL_BYTES, MAX_LABELS, MAX_TITLE_BYTES, NewestBranch, SESSION_REFS, SessionLabels,
};
pub use tag::NamedTag;
pub use transaction::{SnapshotDraft, Transaction};
pub use undo::{LastUndo, MovedFiles, UndoPlan};
pub(crate) use versioned_json::decode_versioned;
pub use whole_workspace::{
    ALL_FILES, PART_OF_FILES, WORKSPACE_FILES, WORKSPACE_SKIPPED, WholeWorkspace, workspace_files,
};

use self::transaction::KnownIds;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Commit, Kind, Object, ObjectId, ObjectSource, RefValue, Tag, Time};
use crate::store::{Io, NewStore, OpenOptions, RefTable, Store};

/// Longest chain of tags and symbolic refs that is followed.
const MAX_INDIRECTIONS: usize = 16;

/// Most times that a change is made again because others were faster: each time another one got
/// through.
const MAX_ATTEMPTS: usize = 1000;

/// The actor and the time of an operation: the library reads no clock and no environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The present moment.
    pub time: Time,
    /// The user, agent or tool.
    pub actor: String,
}

/// A store with sessions in it.
#[derive(Debug)]
pub struct Repository {
    store: Store,
    known: Mutex<KnownIds>,
    redactions: Mutex<redactions::CachedRedactions>,
    /// Prompts that were counted, by the function that tells them.
    prompts: Mutex<prompts::KnownPrompts>,
    /// The refs of a moment in the past, when it is looked at as it was then.
    past: Option<Arc<RefTable>>,
    /// The branch that this handle acts on, whatever HEAD says.
    acting_on: Option<BranchName>,
    /// Where its caller stands.
    place: Option<place::Place>,
    /// What looks at content that comes in.
    filter: Option<Arc<dyn ContentFilter>>,
    /// What keeps what was found out at length.
    notes: Option<Arc<dyn NoteKeeper>>,
}

/// The branch of HEAD, and its newest commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The branch commands act on.
    pub branch: BranchName,
    /// Its newest commit; `None` while nothing was snapshotted on it.
    pub commit: Option<ObjectId>,
}

impl Repository {
    /// Makes a store in `dir`, which must not hold one. Its HEAD is at `default/main`, which has no
    /// snapshot yet.
    ///
    /// # Errors
    /// `InvalidInput` when a store is there already, `Io` when it cannot be made.
    pub fn init(io: Arc<dyn Io>, dir: &Path, new: &NewStore, options: OpenOptions) -> Result<Self> {
        Store::create(&*io, dir, new)?;
        Self::open(io, dir, options)
    }

    /// Opens the store in `dir`.
    ///
    /// # Errors
    /// `NotFound` when there is none, `Unsupported` for a newer format, `Corrupt` when it cannot be
    /// read at all.
    pub fn open(io: Arc<dyn Io>, dir: &Path, options: OpenOptions) -> Result<Self> {
        let (known, redactions, prompts) = (Mutex::default(), Mutex::default(), Mutex::default());
        let store = Store::open(io, dir, options)?;
        let (past, acting_on, place, filter, notes) = (None, None, None, None, None);
        Ok(Self { store, known, redactions, prompts, past, acting_on, place, filter, notes })
    }

    /// Acts on `branch`, whatever HEAD says: HEAD belongs to everybody who uses the store, and each
    /// of several agents that use it at once has a branch of its own.
    #[must_use]
    pub fn acting_on(mut self, branch: BranchName) -> Self {
        self.acting_on = Some(branch);
        self
    }

    /// The store below.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Refs as this handle last saw them, or as they were at [`Repository::at_operation`].
    /// [`Store::refresh`] looks for what others did.
    #[must_use]
    pub fn refs(&self) -> Arc<RefTable> {
        self.past.clone().unwrap_or_else(|| self.store.refs())
    }

    /// Begins a change.
    #[must_use]
    pub fn begin(&self) -> Transaction<'_> {
        Transaction::new(self)
    }

    /// Makes a change, again and again as long as others are faster. A conflict with what was there
    /// when it began is told at once.
    pub(crate) fn retried<T>(&self, mut change: impl FnMut(&Self) -> Result<T>) -> Result<T> {
        let mut attempts = 0;
        loop {
            let begun = self.refs().operation;
            match change(self) {
                Err(error) if error.kind() == ErrorKind::Conflict && attempts < MAX_ATTEMPTS => {
                    attempts += 1;
                    self.store.refresh()?;
                    if self.refs().operation == begun {
                        return Err(error);
                    }
                }
                changed => return changed,
            }
        }
    }

    /// The branch that commands act on: [`Repository::acting_on`], else what is chosen at
    /// [`Repository::at_place`], else what HEAD says.
    ///
    /// # Errors
    /// `Corrupt` when HEAD is not a symbolic ref to a branch, `NotFound` when none is chosen.
    pub fn head(&self) -> Result<Head> {
        let branch = match (&self.acting_on, &self.place) {
            (Some(branch), _) => branch.clone(),
            (None, Some(place)) => place.branch(self)?,
            (None, None) => self.shared_head()?,
        };
        let commit = self.tip(&branch);
        Ok(Head { branch, commit })
    }

    /// Returns HEAD as the store has it, without a branch chosen by this handle.
    ///
    /// # Errors
    /// `Corrupt` when HEAD is not a symbolic ref to a branch.
    pub fn shared_head(&self) -> Result<BranchName> {
        let branch = match self.refs().value(HEAD) {
            None => BranchName::main(DEFAULT_SESSION).ok(),
            Some(RefValue::Symbolic(full)) => BranchName::from_full(full),
            Some(RefValue::Object(_)) => None,
        };
        branch.ok_or_else(|| Error::malformed("HEAD", "the name of a branch"))
    }

    /// The newest commit of a branch, if the branch is there.
    #[must_use]
    pub fn tip(&self, branch: &BranchName) -> Option<ObjectId> {
        match self.refs().value(&branch.full()) {
            Some(RefValue::Object(id)) => Some(*id),
            _ => None,
        }
    }

    /// Every branch with its newest commit, in order of names.
    #[must_use]
    pub fn branches(&self) -> Vec<(BranchName, ObjectId)> {
        let refs = self.refs();
        refs.values
            .iter()
            .filter_map(|(name, value)| match value {
                RefValue::Object(id) => Some((BranchName::from_full(name)?, *id)),
                RefValue::Symbolic(_) => None,
            })
            .collect()
    }

    /// The commit `id`.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming the id.
    pub fn commit(&self, id: &ObjectId) -> Result<Commit> {
        Commit::decode(&self.store.read_as(Kind::Commit, id)?).map_err(|error| error.at(id))
    }

    /// The context under the commit `id`.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming the id. `Expired` when retention has dropped it: the error
    /// names the turn, and its source is [`Availability`].
    pub fn context(&self, id: &ObjectId) -> Result<Context> {
        let commit = self.commit(id)?;
        Context::open(&self.store, &commit.tree).map_err(|error| self.explain(&commit, error))
    }

    /// The commit that `id` names: itself, or what a tag points to in the end.
    ///
    /// # Errors
    /// `InvalidInput` when it names something that is no commit.
    pub fn peel(&self, id: &ObjectId) -> Result<ObjectId> {
        let mut at = *id;
        for _ in 0..MAX_INDIRECTIONS {
            match self.store.read(&at)? {
                None => return Err(self.store.missing(Kind::Commit, &at)),
                Some(Object { kind: Kind::Commit, .. }) => return Ok(at),
                Some(Object { kind: Kind::Tag, bytes }) => at = Tag::decode(&bytes)?.target,
                Some(Object { kind, .. }) => {
                    return Err(Error::invalid(format!("{at} is a {kind}, not a commit")));
                }
            }
        }
        Err(Error::limit(
            format_args!("tags behind {id}"),
            MAX_INDIRECTIONS as u64,
            MAX_INDIRECTIONS as u64 + 1,
        ))
    }

    /// Follows symbolic refs, and returns the id at the end.
    ///
    /// # Errors
    /// `NotFound`, naming the ref, when it or what it names is not there.
    pub fn read_ref(&self, name: &str) -> Result<ObjectId> {
        let refs = self.refs();
        let mut at = if name == HEAD { self.head()?.branch.full() } else { name.to_owned() };
        for _ in 0..MAX_INDIRECTIONS {
            match refs.value(&at) {
                Some(RefValue::Object(id)) => return Ok(*id),
                Some(RefValue::Symbolic(next)) => at.clone_from(next),
                None if at == name => {
                    return Err(Error::not_found(format!("ref {name} does not exist")));
                }
                None => {
                    let branch = BranchName::from_full(&at).map_or(at, |branch| branch.to_string());
                    return Err(Error::not_found(format!(
                        "{name} is at {branch}, which has no snapshot yet"
                    )));
                }
            }
        }
        Err(Error::corrupt(name, "an end to symbolic refs", "a circle"))
    }

    /// Resolves a revision without `@{time}`: see [`Resolver`].
    ///
    /// # Errors
    /// `InvalidInput`, `NotFound` or `Ambiguous`, naming the revision.
    pub fn resolve(&self, revision: &str) -> Result<Revision> {
        Resolver::new(self).resolve(revision)
    }

    /// Resolves a revision to a snapshot, as [`Repository::resolve`].
    ///
    /// # Errors
    /// As there, and `InvalidInput` for the path of an entry.
    pub fn resolve_snapshot(&self, revision: &str) -> Result<SnapshotRevision> {
        Resolver::new(self).resolve_snapshot(revision)
    }
}
