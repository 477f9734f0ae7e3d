//! Repositories: sessions, branches and snapshots over a store. Most programs use them through
//! [`local`](crate::local).
//!
//! A [`Repository`] reads, and is a source of the objects in its store; a [`Transaction`] stages
//! objects and ref changes and makes them durable as one operation. Any number of repositories, in
//! any number of processes, may be open on one store.
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

mod change;
mod history;
mod links;
mod objects;
mod refs;
mod revision;
mod search;
mod session;
mod transaction;
mod versioned_json;
pub mod vfs;

use std::path::Path;
use std::sync::{Arc, Mutex};

pub use change::adoption::Adoption;
pub use change::filter::ContentFilter;
pub(crate) use change::forgotten_operations::forgotten_through;
pub use change::merge::{MERGED_FROM, MergeKind, MergeReport, MergeRequest};
pub use change::redactions::{REDACTIONS_REF, Redactions};
pub use change::resolve::Resolution;
pub use change::secret_settings::{SECRET_SETTINGS_REF, SecretMode, SecretSettings};
pub use change::undo::{LastUndo, MovedFiles, UndoPlan};
pub(crate) use change::whole_workspace::{PART_OF_FILES, WORKSPACE_FILES};
pub use change::whole_workspace::{WholeWorkspace, workspace_files};
pub use history::availability::{Availability, AvailableTurn};
pub use history::bisect::{Bisect, BisectNote, BisectStatus, BisectVerdict, Candidate, SkipReason};
pub use history::divergence::{BranchLine, Divergence};
pub(crate) use history::earlier_turns::audit_record;
pub use history::earlier_turns::{
    LESSONS_CHANGED, ONLY, RESTORED_FROM, ROLLED_BACK_TO, RollbackTarget, WORKSPACE, before_ref,
};
pub use history::grafts::{GRAFTS_REF, Grafts};
pub use history::operations::OperationEntry;
pub use history::prompt_cache::NoteKeeper;
pub use history::prompts::{IsPrompt, PROMPT, Prompts};
pub use history::walk::{History, KnownTip, LogEntry};
pub use links::links;
use refs::branch::BRANCHES;
pub(crate) use refs::branch::is_session_ref;
pub use refs::branch::{
    BranchName, DEFAULT_SESSION, HEAD, MAIN_BRANCH, MAX_NAME_BYTES, check_full_name,
    check_remote_name, pin_ref, tag_ref,
};
pub(crate) use refs::branch::{pin_name, tag_name};
pub use refs::pin::{NewPin, Pin};
pub use refs::place::{ChooseBranch, is_place, is_worktree};
pub use refs::remote_refs::{RemoteEntry, remote_branch};
pub(crate) use refs::remote_refs::{
    distant_bundle, distant_ref, remote_branch_ref, remote_head_ref,
};
pub use refs::tag::NamedTag;
pub use revision::{
    FindSession, ParseTime, Range, Resolver, Revision, SnapshotRevision, split_path, split_range,
};
pub use search::{
    Arrival, Arrivals, ArrivedAt, Blame, BlameKind, BlamedPart, Count, FindIn, Gap, Gaps, Grep,
    GrepPlace, GrepProgress, GrepQuery, GrepSteps, LinePattern, LoosePattern, MAX_LINE_BYTES,
    MatchedLine, MayHold, PatternOptions, Pickaxe, PickaxeMatch, PickaxeQuery, ReadMessage, Scan,
    ScanPart, ScanPlace, ScopeScan, SearchFilter, SearchScope, TextMatches,
};
pub(crate) use search::{complete_history_index, wrong_history_indexes};
pub use session::exploration::{
    Exploration, ExplorationBudget, ExplorationPlan, ExplorationStrategy, MAX_STRATEGIES,
    SearchKind, Trial, TrialEnd, TrialOutcome, TrialStart,
};
pub use session::forgotten::ForgottenSession;
pub use session::sessions::{NewestBranch, SESSION_REFS, SessionLabels};
pub use session::watch;
pub use transaction::{SnapshotDraft, Transaction};
pub(crate) use versioned_json::decode_versioned;

use self::transaction::KnownIds;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Commit, Kind, Object, ObjectId, ObjectSource, RefValue, Tag, Time};
use crate::store::{Io, NewStore, OpenOptions, RefTable, Store};

/// The longest chain of tags and symbolic refs that is followed.
const MAX_INDIRECTIONS: usize = 16;

/// The maximum number of retries of a change after conflicts: every conflict means that another
/// process made progress.
const MAX_ATTEMPTS: usize = 1000;

/// The actor and the time of an operation: the library reads no clock and no environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The present moment.
    pub time: Time,
    /// The user, agent or tool.
    pub actor: String,
}

/// A store with sessions.
#[derive(Debug)]
pub struct Repository {
    store: Store,
    known: Mutex<KnownIds>,
    redactions: Mutex<change::redactions::CachedRedactions>,
    /// Counts of prompts, valid for the function that recognizes them.
    prompts: Mutex<history::prompts::KnownPrompts>,
    /// The refs of a past moment, for a handle on that moment.
    past: Option<Arc<RefTable>>,
    /// The branch that this handle acts on, regardless of HEAD.
    acting_on: Option<BranchName>,
    /// The place of the caller.
    place: Option<refs::place::Place>,
    /// The filter for new content.
    filter: Option<Arc<dyn ContentFilter>>,
    /// The cache for the results of long computations.
    notes: Option<Arc<dyn NoteKeeper>>,
}

/// The branch of HEAD, and its newest commit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Head {
    /// The branch commands act on.
    pub branch: BranchName,
    /// The newest commit; `None` while the branch has no snapshot.
    pub commit: Option<ObjectId>,
}

impl Repository {
    /// Creates a store in `dir`, which must not hold one. Its HEAD is at `default/main`, which has
    /// no snapshot yet.
    ///
    /// # Errors
    /// `InvalidInput` when a store exists already, `Io` when it cannot be created.
    pub fn init(io: Arc<dyn Io>, dir: &Path, new: &NewStore, options: OpenOptions) -> Result<Self> {
        Store::create(&*io, dir, new)?;
        Self::open(io, dir, options)
    }

    /// Opens the store in `dir`.
    ///
    /// # Errors
    /// `NotFound` when there is no store, `Unsupported` for a newer format, `Corrupt` when it
    /// cannot be read at all.
    pub fn open(io: Arc<dyn Io>, dir: &Path, options: OpenOptions) -> Result<Self> {
        let (known, redactions, prompts) = (Mutex::default(), Mutex::default(), Mutex::default());
        let store = Store::open(io, dir, options)?;
        let (past, acting_on, place, filter, notes) = (None, None, None, None, None);
        Ok(Self { store, known, redactions, prompts, past, acting_on, place, filter, notes })
    }

    /// Acts on `branch` regardless of HEAD. All users of a store share HEAD, so each of several
    /// concurrent agents acts on a branch of its own.
    #[must_use]
    pub fn acting_on(mut self, branch: BranchName) -> Self {
        self.acting_on = Some(branch);
        self
    }

    /// Returns the underlying store, for its files: collections, encryption, parity. Objects are read
    /// through the repository itself.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the refs as this handle last saw them, or as of [`Repository::at_operation`].
    /// [`Repository::refresh`] reads the changes of other processes.
    #[must_use]
    pub fn refs(&self) -> Arc<RefTable> {
        self.past.clone().unwrap_or_else(|| self.store.refs())
    }

    /// Begins a change.
    #[must_use]
    pub fn begin(&self) -> Transaction<'_> {
        Transaction::new(self)
    }

    /// Makes a change, and retries while other processes commit first. A conflict without a
    /// concurrent commit is returned immediately.
    pub(crate) fn retry_conflicts<T>(
        &self,
        mut change: impl FnMut(&Self) -> Result<T>,
    ) -> Result<T> {
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

    /// Returns the branch that commands act on: that of [`Repository::acting_on`], else that of
    /// [`Repository::at_place`], else HEAD.
    ///
    /// # Errors
    /// `Corrupt` when HEAD is not a symbolic ref to a branch, `NotFound` when a place has no
    /// branch.
    pub fn head(&self) -> Result<Head> {
        let branch = match (&self.acting_on, &self.place) {
            (Some(branch), _) => branch.clone(),
            (None, Some(place)) => place.branch(self)?,
            (None, None) => self.shared_head()?,
        };
        let commit = self.tip(&branch);
        Ok(Head { branch, commit })
    }

    /// Returns HEAD as stored, regardless of a branch chosen for this handle.
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

    /// Returns the newest commit of a branch, if the branch exists.
    #[must_use]
    pub fn tip(&self, branch: &BranchName) -> Option<ObjectId> {
        match self.refs().value(&branch.full()) {
            Some(RefValue::Object(id)) => Some(*id),
            _ => None,
        }
    }

    /// Returns every branch with its newest commit, in order of names.
    #[must_use]
    pub fn branches(&self) -> Vec<(BranchName, ObjectId)> {
        let refs = self.refs();
        refs.values
            .starting_with(BRANCHES)
            .filter_map(|(name, value)| match value {
                RefValue::Object(id) => Some((BranchName::from_full(name)?, *id)),
                RefValue::Symbolic(_) => None,
            })
            .collect()
    }

    /// Returns every branch of a session with its newest commit, ordered by name. Reads only the
    /// refs of that session.
    #[must_use]
    pub fn branches_of(&self, session: &str) -> Vec<(BranchName, ObjectId)> {
        let refs = self.refs();
        let (main, below) = (format!("{BRANCHES}{session}"), format!("{BRANCHES}{session}/"));
        let own = refs.values.get(&main).map(|value| (main.as_str(), value));
        let named = own.into_iter().chain(refs.values.starting_with(&below));
        let branch = |(name, value): (&str, &RefValue)| match value {
            RefValue::Object(id) => Some((BranchName::from_full(name)?, *id)),
            RefValue::Symbolic(_) => None,
        };
        // The names before could be those of branches, such as `session/branch`.
        named.filter_map(branch).filter(|(branch, _)| branch.session() == session).collect()
    }

    /// Returns the commit `id`.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming the id.
    pub fn commit(&self, id: &ObjectId) -> Result<Commit> {
        Commit::decode(&self.store.read_as(Kind::Commit, id)?).map_err(|error| error.at(id))
    }

    /// Returns branches with their commits. Reads these in the order of their places in the files, which
    /// is many times faster than one after the other.
    ///
    /// # Errors
    /// Those of [`Repository::commit`], for one of the failing commits.
    pub fn with_commits(
        &self,
        branches: Vec<(BranchName, ObjectId)>,
    ) -> Result<Vec<(BranchName, ObjectId, Commit)>> {
        let ids: Vec<ObjectId> = branches.iter().map(|(_, id)| *id).collect();
        let read = branches.into_iter().zip(self.store.read_all(Kind::Commit, &ids)?);
        let decode = |((name, id), bytes): ((BranchName, ObjectId), bytes::Bytes)| {
            let commit = Commit::decode(&bytes).map_err(|error| error.at(id))?;
            Ok((name, id, commit))
        };
        read.map(decode).collect()
    }

    /// Returns the context of the commit `id`.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming the id. `Expired` when it has expired: the error names the
    /// turn, and its source is [`Availability`].
    pub fn context(&self, id: &ObjectId) -> Result<Context> {
        let commit = self.commit(id)?;
        Context::open(&self.store, &commit.tree).map_err(|error| self.explain(&commit, error))
    }

    /// Returns the commit that `id` names: itself, or the target at the end of a chain of tags.
    ///
    /// # Errors
    /// `InvalidInput` when the target is not a commit.
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
    /// `NotFound`, naming the ref, when it or its target is missing.
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

    /// Resolves a revision without `@{time}`, see [`Resolver`].
    ///
    /// # Errors
    /// `InvalidInput`, `NotFound` or `Ambiguous`, naming the revision.
    pub fn resolve(&self, revision: &str) -> Result<Revision> {
        Resolver::new(self).resolve(revision)
    }

    /// Resolves a revision to a snapshot, see [`Repository::resolve`].
    ///
    /// # Errors
    /// Errors of [`Repository::resolve`], and `InvalidInput` for the path of an entry.
    pub fn resolve_snapshot(&self, revision: &str) -> Result<SnapshotRevision> {
        Resolver::new(self).resolve_snapshot(revision)
    }
}
