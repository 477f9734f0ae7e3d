//! Keeps files that were captured after a tool call whose record is not in the transcript yet, and
//! adds them to the turn that contains the call.
//!
//! A client reports that a tool has run before it writes the record. The state of the workspace at
//! that time belongs to the turn with the call, not to an earlier turn.
//!
//! ```text
//! refs/captures/<session> ── capture of call 2 ── capture of call 1 ── the snapshot that was the newest
//! ```
//!
//! A capture is a commit. Its context has the files. Its metadata names the call (`call`) and the
//! commit that the oldest capture is compared with (`since`). A turn gets only the difference, so
//! files that only the transcript mentions stay. The captures of a session are ordered: once a turn
//! contains the call of one, all older captures belong to that turn, even if their calls never
//! appear.

use std::collections::BTreeMap;

use memchr::memmem::Finder;
use turntree::context::sections::FILES;
use turntree::context::{Builder, Context};
use turntree::error::Result;
use turntree::object::{Author, Commit, Kind, ObjectId, ObjectSink, RefValue, Time, Trigger};
use turntree::repo::{Repository, Signature, Transaction};
use turntree::store::Expected;
use turntree::tree::diff_maps;

/// Prefix of the refs that point to the newest capture of a session.
const CAPTURES: &str = "refs/captures/";

/// Metadata key of a capture: the call.
const CALL: &str = "call";

/// Metadata key of a capture: the commit whose files the oldest capture is compared with.
const SINCE: &str = "since";

/// Maximum number of pending captures of a session. Above it, the next capture replaces the oldest.
const MAX_PENDING: usize = 64;

/// The pending captures of a session.
pub(crate) struct Captures {
    name: String,
    session: String,
    /// The old value of the ref.
    old_value: Option<RefValue>,
    /// The commit whose files the oldest capture is compared with.
    since: Option<ObjectId>,
    /// The pending captures, oldest first.
    pending: Vec<PendingCapture>,
    /// The number of captures that belong to the current turn.
    assigned: usize,
    is_changed: bool,
}

struct PendingCapture {
    call: String,
    micros: i64,
    commit: ObjectId,
}

impl Captures {
    /// Reads the pending captures of a session. Reads one object per capture.
    pub(crate) fn load(repo: &Repository, session: &str) -> Result<Self> {
        let name = format!("{CAPTURES}{session}");
        let old_value = repo.refs().value(&name).cloned();
        let mut next = match &old_value {
            Some(RefValue::Object(id)) => Some(*id),
            _ => None,
        };
        let (mut pending, mut since) = (Vec::new(), None);
        while let Some(id) = next.filter(|id| Some(*id) != since && pending.len() < MAX_PENDING) {
            let mut commit = repo.commit(&id)?;
            let Some(call) = commit.metadata.remove(CALL) else { break };
            let recorded = commit.metadata.get(SINCE).and_then(|id| id.parse().ok());
            since = since.or(recorded);
            pending.push(PendingCapture { call, micros: commit.time.micros, commit: id });
            next = commit.parents.first().copied();
        }
        pending.reverse();
        let session = session.to_owned();
        Ok(Self { name, session, old_value, since: next, pending, assigned: 0, is_changed: false })
    }

    /// Looks for pending calls in a record of the current turn.
    pub(crate) fn scan_record(&mut self, record: &[u8]) {
        for (at, pending) in self.pending.iter().enumerate().skip(self.assigned) {
            if contains_call(record, &pending.call) {
                self.assigned = at + 1;
            }
        }
    }

    /// Assigns the captures up to `moment` to the current turn: their calls will not appear any
    /// later.
    pub(crate) fn assign_until(&mut self, moment: Time) {
        let is_later = |pending: &PendingCapture| pending.micros > moment.micros;
        let older = self.pending.iter().position(is_later).unwrap_or(self.pending.len());
        self.assigned = self.assigned.max(older);
    }

    /// Assigns all captures to the current turn.
    pub(crate) fn assign_all(&mut self) {
        self.assigned = self.pending.len();
    }

    /// Forgets the newest capture, whose call will never appear.
    pub(crate) fn forget_newest(&mut self) {
        self.pending.pop();
        self.assigned = self.assigned.min(self.pending.len());
    }

    /// Returns true if a capture still waits for its call.
    pub(crate) fn has_pending(&self) -> bool {
        self.assigned < self.pending.len()
    }

    /// Returns the newest capture: the last known state of the workspace.
    pub(crate) fn newest(&self) -> Option<ObjectId> {
        self.pending.last().map(|pending| pending.commit)
    }

    /// Adds the files of the captures of the current turn to `builder`. Returns the metadata about
    /// the files for the commit of the turn.
    pub(crate) fn take_files(
        &mut self,
        change: &mut Transaction<'_>,
        builder: &mut Builder,
    ) -> Result<BTreeMap<String, String>> {
        let Some(last) = self.pending.drain(..self.assigned).next_back() else {
            return Ok(BTreeMap::new());
        };
        self.assigned = 0;
        let mut commit = change.read_commit(&last.commit)?;
        let captured = Context::open(change, &commit.tree)?;
        match self.context_since(change)? {
            Some(since) => {
                let (old, new) = (since.map(change, FILES)?, captured.map(change, FILES)?);
                for changed in diff_maps(&old, &new, change) {
                    let changed = changed?;
                    let key = String::from_utf8_lossy(&changed.key);
                    builder.set(change, FILES, &key, changed.new)?;
                }
            }
            None => builder.set_as_in(change, FILES, &captured)?,
        }
        (self.since, self.is_changed) = (Some(last.commit), true);
        commit.metadata.retain(|key, _| key != CALL && key != SINCE);
        Ok(commit.metadata)
    }

    /// Returns the context that the oldest capture is compared with, or `None` if it was deleted.
    fn context_since(&self, change: &Transaction<'_>) -> Result<Option<Context>> {
        let Some(since) = self.since else { return Ok(Some(Context::default())) };
        let tree = change.read_commit(&since).map(|commit| commit.tree);
        Ok(tree.and_then(|tree| Context::open(change, &tree)).ok())
    }

    /// Stores the context `tree` as a capture that waits for `call`. `tip` is the tip of the
    /// branch.
    pub(crate) fn store(
        &mut self,
        change: &mut Transaction<'_>,
        call: &str,
        tree: ObjectId,
        tip: ObjectId,
        mut metadata: BTreeMap<String, String>,
        stamp: &Signature,
    ) -> Result<()> {
        if self.pending.is_empty() {
            self.since = Some(tip);
        }
        if self.pending.len() == MAX_PENDING {
            self.since = Some(self.pending.remove(0).commit);
        }
        let parent = self.newest().unwrap_or(tip);
        let turn = change.read_commit(&parent)?.turn.saturating_add(1);
        metadata.insert(CALL.to_owned(), call.to_owned());
        metadata.extend(self.since.map(|id| (SINCE.to_owned(), id.to_string())));
        let commit = Commit {
            tree,
            parents: vec![parent],
            session: self.session.clone(),
            turn,
            author: Author { agent: stamp.actor.clone(), model: String::new() },
            time: stamp.time,
            trigger: Trigger::Turn,
            message: "files after a call that is not written down yet".to_owned(),
            metadata,
        };
        let commit = change.write(Kind::Commit, commit.encode().into())?;
        let micros = stamp.time.micros;
        self.pending.push(PendingCapture { call: call.to_owned(), micros, commit });
        self.is_changed = true;
        Ok(())
    }

    /// Points the ref to the pending captures. Returns true if the ref changes.
    pub(crate) fn save(&mut self, change: &mut Transaction<'_>) -> Result<bool> {
        if !self.is_changed {
            return Ok(false);
        }
        let newest = match self.newest() {
            Some(newest) => {
                let mut commit = change.read_commit(&newest)?;
                let since = self.since.map(|id| (SINCE.to_owned(), id.to_string()));
                commit.metadata.extend(since);
                Some(RefValue::Object(change.write(Kind::Commit, commit.encode().into())?))
            }
            None => None,
        };
        if self.old_value == newest {
            return Ok(false);
        }
        let expected = self.old_value.clone().map_or(Expected::Absent, Expected::Value);
        change.set_ref(&self.name, expected, newest);
        Ok(true)
    }
}

/// Returns true if a record contains the id of a call as a JSON string.
pub(crate) fn contains_call(record: &[u8], call: &str) -> bool {
    !call.is_empty() && Finder::new(&format!("\"{call}\"")).find(record).is_some()
}
