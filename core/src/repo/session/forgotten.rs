//! Forgotten sessions: the record that the store keeps of them, and the time at which their content
//! may be freed.
//!
//! ```text
//! refs/forgotten/<session>
//! {"version":1,"through":41,"free_micros":1800000000000000,"time_micros":1800000000000000}
//! ```
//!
//! Forgetting a session deletes its branches in one operation. Undo restores them until a
//! collection frees the content. The first collection after `free_micros` rewrites the ref without
//! that field. From then on, operations up to `through` do not keep the content of the session
//! alive, whatever the clock says later, and a collection frees it unless a branch of another
//! session, a tag or a pin references it. The ref stays, even through an undo: an import that finds
//! the transcript again must know that the session was forgotten, and older values of its branches
//! may be incomplete.
//!
//! A session that was imported again and whose branch is deleted later is not forgotten:
//! `refs/returned/<session>` records this, until the session is forgotten again. A session that a
//! policy expired is not forgotten either: continuing it imports it again.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use super::exploration::EXPLORATIONS;
use super::sessions::SESSION_REFS;
use crate::error::{Error, ErrorKind, Result};
use crate::object::{
    Commit, Kind, Object, ObjectId, ObjectSink, ObjectSource, Operation, RefValue, Tag,
};
use crate::repo::history::earlier_turns::BEFORE;
use crate::repo::links::links;
use crate::repo::refs::branch::BRANCHES;
use crate::repo::refs::remote_refs::remote_branch;
use crate::repo::versioned_json::decode_versioned;
use crate::repo::watch::WATCHES;
use crate::repo::{HEAD, Repository, Signature, Transaction};
use crate::store::{Expected, RefTable};
use crate::tree::Link;

/// The prefix of the refs of forgotten sessions.
pub(in crate::repo) const FORGOTTEN: &str = "refs/forgotten/";

/// The prefix of the refs of sessions that were imported again after they were forgotten.
const RETURNED: &str = "refs/returned/";

/// Other refs of a session, which are deleted with it.
const BESIDE: [&str; 8] = [
    BEFORE,
    WATCHES,
    EXPLORATIONS,
    SESSION_REFS,
    RETURNED,
    "refs/captures/",
    "refs/retention/",
    "refs/bisect/",
];

/// The longest chain of tags that is followed to a turn.
const MAX_TAGS: usize = 16;

/// The newest version of the blob. A blob without the fields of version 2 is written as version 1.
const VERSION: u64 = 2;

/// A forgotten or expired session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgottenSession {
    /// The name of the session.
    pub session: String,
    /// The time at which it was forgotten, in microseconds since the Unix epoch.
    pub time_micros: i64,
    /// The time from which a collection may free the content; `None` if it may already.
    pub free_micros: Option<i64>,
    /// True if a policy or the budget of the store forgot the session, false if a user forgot it by
    /// name.
    pub expired: bool,
    /// The sequence of the operation that forgot the session, unless another process committed one
    /// first.
    through: u64,
}

/// The blob of a ref, its fields in this order.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSession {
    version: u64,
    through: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    free_micros: Option<i64>,
    time_micros: i64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    expired: bool,
}

impl StoredSession {
    fn new(through: u64, free_micros: Option<i64>, time_micros: i64, expired: bool) -> Self {
        let version = if expired { VERSION } else { 1 };
        Self { version, through, free_micros, time_micros, expired }
    }
}

impl ForgottenSession {
    /// Loads the forgotten sessions of a store with these refs.
    ///
    /// # Errors
    /// `NotFound`, `Corrupt` or `Unsupported`, naming the ref.
    pub fn load(source: &dyn ObjectSource, refs: &RefTable) -> Result<Vec<Self>> {
        let named = refs.values.iter().filter_map(|(name, value)| {
            let session = name.strip_prefix(FORGOTTEN)?;
            Some(Self::read(source, session, value).map_err(|error| error.at(name)))
        });
        named.collect()
    }

    fn read(source: &dyn ObjectSource, session: &str, value: &RefValue) -> Result<Self> {
        const WHAT: &str = "a forgotten session";
        let RefValue::Object(id) = value else {
            return Err(Error::corrupt(WHAT, "a blob", "a symbolic ref"));
        };
        let bytes = source.read_as(Kind::Blob, id)?;
        let StoredSession { through, free_micros, time_micros, expired, .. } =
            decode_versioned(WHAT, VERSION, &bytes)?;
        Ok(Self { session: session.to_owned(), time_micros, free_micros, expired, through })
    }

    /// Returns a record as if the session was forgotten after every operation and its content could
    /// be freed.
    pub(crate) fn forgotten_always(session: String) -> Self {
        Self { session, time_micros: 0, free_micros: None, expired: false, through: u64::MAX }
    }

    /// Marks the content as free to collect if its time has passed.
    pub(crate) fn update_expiry(&mut self, now: i64) {
        self.free_micros = self.free_micros.filter(|free| now < *free);
    }

    /// Returns the session that a ref belongs to.
    pub(crate) fn session_of_ref(name: &str) -> Option<&str> {
        session_of(name)
    }

    /// Returns true if an operation does not keep the session alive once its content may be freed.
    fn may_ignore_operation(&self, operation: &Operation) -> bool {
        operation.sequence <= self.through
            || operation.changes.iter().any(|change| change.name == self.ref_name())
    }

    /// Returns true if an operation does not keep the value `id` of the ref `name` alive: the ref
    /// belongs to one of these sessions, or it is not a branch and the value is a turn of one. Only
    /// sessions whose content may be freed count.
    ///
    /// # Errors
    /// `Corrupt` when the value does not verify.
    pub(crate) fn has_forgotten_value(
        gone: &[Self],
        source: &dyn ObjectSource,
        operation: &Operation,
        (name, id): (&str, &ObjectId),
    ) -> Result<bool> {
        let is_free = |it: &&Self| it.free_micros.is_none() && it.may_ignore_operation(operation);
        let gone: Vec<&Self> = gone.iter().filter(is_free).collect();
        if gone.is_empty() {
            return Ok(false);
        }
        let session = match session_of(name) {
            Some(session) => Owner::Session(session.to_owned()),
            None => owner_of(source, id)?,
        };
        Ok(match session {
            Owner::Session(session) => gone.iter().any(|it| it.session == session),
            Owner::Freed => true,
            Owner::Unknown => false,
        })
    }

    fn ref_name(&self) -> String {
        format!("{FORGOTTEN}{}", self.session)
    }
}

/// The session of the turn that a value references.
enum Owner {
    Session(String),
    /// The turn was collected, but a crash restored a file with its tag.
    Freed,
    Unknown,
}

/// Follows a value through tags.
fn owner_of(source: &dyn ObjectSource, id: &ObjectId) -> Result<Owner> {
    let (mut at, mut gone) = (*id, Owner::Unknown);
    for _ in 0..MAX_TAGS {
        let read = match source.read(&at) {
            Err(error) if matches!(error.kind(), ErrorKind::Expired | ErrorKind::Redacted) => None,
            read => read?,
        };
        let Some(Object { kind, bytes }) = read else { return Ok(gone) };
        match kind {
            Kind::Commit => {
                let commit = Commit::decode(&bytes).map_err(|error| error.at(at))?;
                return Ok(Owner::Session(commit.session));
            }
            Kind::Tag => {
                at = Tag::decode(&bytes).map_err(|error| error.at(at))?.target;
                gone = Owner::Freed;
            }
            _ => return Ok(Owner::Unknown),
        }
    }
    Ok(Owner::Unknown)
}

/// Returns the session that a ref belongs to.
fn session_of(name: &str) -> Option<&str> {
    let beside = || BESIDE.iter().find_map(|prefix| name.strip_prefix(prefix));
    let rest = name.strip_prefix(BRANCHES).or_else(beside)?;
    rest.split('/').next()
}

impl Transaction<'_> {
    /// Forgets a session: deletes its branches and its other refs. Operations keep the content
    /// alive until the first collection after `free_micros`, or not at all if it is `None`. Names
    /// that the session had before a rename are forgotten too.
    ///
    /// # Errors
    /// `NotFound` when the session does not exist, `InvalidInput` when a tag or a pin keeps a turn
    /// of it.
    pub fn forget_session(
        &mut self,
        repo: &Repository,
        session: &str,
        stamp: &Signature,
        free_micros: Option<i64>,
    ) -> Result<()> {
        self.remove_session(repo, session, stamp, (free_micros, false))
    }

    /// Forgets a session on behalf of a policy or a budget: continuing the session imports it
    /// again.
    ///
    /// # Errors
    /// Errors of [`Transaction::forget_session`].
    pub(crate) fn expire_session(
        &mut self,
        repo: &Repository,
        session: &str,
        stamp: &Signature,
        free_micros: Option<i64>,
    ) -> Result<()> {
        self.remove_session(repo, session, stamp, (free_micros, true))
    }

    fn remove_session(
        &mut self,
        repo: &Repository,
        session: &str,
        stamp: &Signature,
        (free_micros, expired): (Option<i64>, bool),
    ) -> Result<()> {
        let branches = self.branches_of(session);
        if branches.is_empty() {
            return Err(Error::not_found(format!("there is no session '{session}'")));
        }
        let kept = repo.names_that_keep(session, stamp.time.micros)?;
        if let Some(first) = kept.first() {
            return Err(Error::invalid(format!(
                "session {session} is kept by {} tags and pins, the first is {first}: remove these first",
                kept.len()
            )));
        }
        let names = repo.names_of_session(session)?;
        let through = self.base_sequence() + 1;
        let stored = StoredSession::new(through, free_micros, stamp.time.micros, expired);
        let shared = repo.shared_head()?;
        for (branch, _) in branches {
            self.remove_branch(&branch);
            if branch == shared {
                self.set_ref(HEAD, Expected::Any, None);
            }
        }
        let refs = repo.refs();
        let beside = refs.values.keys().filter(|name| !name.starts_with(BRANCHES));
        let is_own = |name: &&str| session_of(name).is_some_and(|of| names.contains(of));
        for name in beside.filter(is_own) {
            self.set_ref(name, Expected::Any, None);
        }
        for name in &names {
            self.record_forgotten(name, &stored)?;
        }
        if free_micros.is_none() {
            self.drop_remote_branches(&refs, &names);
        }
        Ok(())
    }

    /// Deletes the remote-tracking branches of sessions, which would keep their content alive here.
    /// The record of the remote heads stays, so that a fetch does not download unchanged branches
    /// again.
    fn drop_remote_branches(&mut self, refs: &RefTable, sessions: &BTreeSet<String>) {
        for name in refs.values.keys() {
            let of = remote_branch(name).map(|(_, branch)| branch.session().to_owned());
            if of.is_some_and(|of| sessions.contains(&of)) {
                self.set_ref(name, Expected::Any, None);
            }
        }
    }

    /// Records that a forgotten session was imported again.
    pub(in crate::repo) fn record_return(&mut self, session: &str) {
        if let Some(forgotten) = self.initial_value(&format!("{FORGOTTEN}{session}")).cloned() {
            self.set_ref(&format!("{RETURNED}{session}"), Expected::Any, Some(forgotten));
        }
    }

    fn record_forgotten(&mut self, session: &str, stored: &StoredSession) -> Result<()> {
        let bytes = serde_json::to_vec(stored)
            .map_err(|error| Error::invalid("a forgotten session").with_source(error))?;
        let value = Some(RefValue::Object(self.write(Kind::Blob, bytes.into())?));
        self.set_ref(&format!("{FORGOTTEN}{session}"), Expected::Any, value);
        Ok(())
    }
}

impl Repository {
    /// Returns the sessions that this store has forgotten.
    ///
    /// # Errors
    /// Errors of [`ForgottenSession::load`].
    pub fn forgotten_sessions(&self) -> Result<Vec<ForgottenSession>> {
        ForgottenSession::load(self.store(), &self.refs())
    }

    /// Marks sessions whose grace period has passed as free to collect, in one operation.
    ///
    /// # Errors
    /// Errors of reading the forgotten sessions, and of a commit.
    pub(crate) fn free_forgotten(&self, stamp: &Signature) -> Result<()> {
        let now = stamp.time.micros;
        let in_grace = self.forgotten_sessions()?.into_iter();
        let in_grace = in_grace.filter(|gone| gone.free_micros.is_some());
        let (mut change, mut freed) = (self.begin(), 0_u64);
        for mut gone in in_grace {
            gone.update_expiry(now);
            if gone.free_micros.is_some() {
                continue;
            }
            let ForgottenSession { session, time_micros, expired, through, .. } = gone;
            let stored = StoredSession::new(through, None, time_micros, expired);
            change.record_forgotten(&session, &stored)?;
            change.drop_remote_branches(&self.refs(), &BTreeSet::from([session]));
            freed += 1;
        }
        if freed > 0 {
            change.commit(stamp, "free forgotten sessions")?;
        }
        Ok(())
    }

    /// Returns true if a session was forgotten by name and was not imported again.
    #[must_use]
    pub fn is_forgotten(&self, session: &str) -> bool {
        self.forgotten_session(session).is_some_and(|gone| !gone.expired)
    }

    /// Returns the time at which a policy expired a session, in microseconds since the Unix epoch;
    /// `None` if the session was imported again.
    #[must_use]
    pub fn expired_at(&self, session: &str) -> Option<i64> {
        self.forgotten_session(session).filter(|gone| gone.expired).map(|gone| gone.time_micros)
    }

    /// Returns the record of a forgotten session; `None` if it was not forgotten or was imported
    /// again.
    fn forgotten_session(&self, session: &str) -> Option<ForgottenSession> {
        let refs = self.refs();
        let value = refs.value(&format!("{FORGOTTEN}{session}"))?;
        if refs.value(&format!("{RETURNED}{session}")).is_some() || self.has_session(session) {
            return None;
        }
        // An unreadable record counts as forgotten by name.
        let read = ForgottenSession::read(self.store(), session, value);
        Some(read.unwrap_or_else(|_| ForgottenSession::forgotten_always(session.to_owned())))
    }

    /// Returns the name of a session, and the names that its newest commits record and no branch
    /// has: the names before a rename.
    ///
    /// # Errors
    /// Errors of reading the newest turns.
    pub fn names_of_session(&self, session: &str) -> Result<BTreeSet<String>> {
        let mut names = BTreeSet::from([session.to_owned()]);
        for (_, tip) in self.branches_of(session) {
            let named = self.commit(&tip)?.session;
            if !self.has_session(&named) {
                names.insert(named);
            }
        }
        Ok(names)
    }

    /// Returns the tags and the unexpired pins on turns of a session.
    ///
    /// # Errors
    /// Errors of reading them.
    pub fn names_that_keep(&self, session: &str, now: i64) -> Result<Vec<String>> {
        let (names, mut kept) = (self.names_of_session(session)?, self.kept_sessions(now)?);
        Ok(names.iter().filter_map(|name| kept.remove(name)).flatten().collect())
    }

    /// Returns the tags and the unexpired pins, grouped by the session that their commit names.
    ///
    /// # Errors
    /// Errors of reading them.
    pub fn kept_sessions(&self, now: i64) -> Result<BTreeMap<String, Vec<String>>> {
        let mut kept: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut add = |id: Result<ObjectId>, name: String| {
            // The target of a tag may be missing.
            if let Ok(commit) = id.and_then(|id| self.commit(&id)) {
                kept.entry(commit.session).or_default().push(name);
            }
        };
        for tag in self.tags()? {
            add(self.peel(&tag.tag.target), format!("tag {}", tag.name));
        }
        for pin in self.pins()?.into_iter().filter(|pin| !pin.has_expired(now)) {
            add(Ok(pin.commit), format!("pin {}", pin.name));
        }
        Ok(kept)
    }

    /// Refuses to restore a value that a collection may have freed in part: a turn of a session
    /// that was forgotten after the operation `past`.
    ///
    /// # Errors
    /// `NotFound` when an object of it is missing.
    pub(in crate::repo) fn check_not_freed(
        &self,
        past: &Operation,
        (name, id): (&str, &ObjectId),
    ) -> Result<()> {
        let mut gone = self.forgotten_sessions()?;
        // Another process may free it concurrently, so the grace period is ignored.
        gone.iter_mut().for_each(|gone| gone.free_micros = None);
        if ForgottenSession::has_forgotten_value(&gone, self.store(), past, (name, id))? {
            self.check_complete(name, id)?;
        }
        Ok(())
    }

    /// Follows everything reachable from `id`. Expired content may be missing.
    fn check_complete(&self, name: &str, id: &ObjectId) -> Result<()> {
        let (store, grafts) = (self.store(), self.grafts()?);
        let (mut open, mut seen) = (vec![*id], HashSet::new());
        while let Some(at) = open.pop() {
            if grafts.is_forgotten(&at) || store.tombstone(&at).is_some() || !seen.insert(at) {
                continue;
            }
            let freed = || {
                Error::not_found(format!(
                    "{name} belonged to a forgotten session, and its content is freed"
                ))
            };
            let object = store.read(&at)?.ok_or_else(freed)?;
            for Link { kind, id } in links(&object)? {
                match kind {
                    Kind::Blob if store.contains(&id)? || store.tombstone(&id).is_some() => {}
                    Kind::Blob => return Err(freed()),
                    _ => open.push(id),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ref_belongs_to_its_session() {
        for (name, session) in [
            ("refs/heads/s/main", Some("s")),
            ("refs/heads/s/a/b", Some("s")),
            ("refs/before/s/main", Some("s")),
            ("refs/retention/s", Some("s")),
            ("refs/tags/s", None),
            ("HEAD", None),
        ] {
            assert_eq!(session_of(name), session, "{name}");
        }
    }
}
