//! Sessions that were let go: what the store remembers of them, and when their content may go.
//!
//! ```text
//! refs/forgotten/<session>
//! {"version":1,"through":41,"free_micros":1800000000000000,"time_micros":1800000000000000}
//! ```
//!
//! Letting a session go removes its branches in one operation, which an undo takes back as long as
//! all of it is there. The first collection after `free_micros` writes the ref again without it: from
//! then on the operations up to that one hold the content of the session no longer, whatever the
//! clock says later, and a collection frees it, unless a branch of another session, a tag or a pin
//! leads to it. The ref stays, through an undo too, so that whoever finds the transcript again knows,
//! and since older values may be there in part only. A session that came back and whose branch is
//! deleted afterwards is not forgotten: `refs/returned/<session>` says so, until it is let go again.
//! One that a policy let go is not forgotten either: whoever goes on in it has it again.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use super::links::links;
use super::remote_refs::remote_branch;
use super::rollback::BEFORE;
use super::session::SESSION_REFS;
use super::versioned_json::decode_versioned;
use super::watch::WATCHES;
use super::{HEAD, Repository, Signature, Transaction};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{
    Commit, Kind, Object, ObjectId, ObjectSink, ObjectSource, Operation, RefValue, Tag,
};
use crate::store::{Expected, RefTable};
use crate::tree::Link;

/// Where the refs of forgotten sessions are.
pub(super) const FORGOTTEN: &str = "refs/forgotten/";

/// Where the refs of sessions are that came back, and were deleted as any other.
const RETURNED: &str = "refs/returned/";

const BRANCHES: &str = "refs/heads/";

/// Other refs of a session, which go with it.
const BESIDE: [&str; 7] =
    [BEFORE, WATCHES, SESSION_REFS, RETURNED, "refs/captures/", "refs/retention/", "refs/bisect/"];

/// Tags on the way to a turn that are followed.
const MAX_TAGS: usize = 16;

/// The newest version of the blob; one without what it brought is written as the first.
const VERSION: u64 = 2;

/// A session that was let go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgottenSession {
    /// Its name.
    pub session: String,
    /// When it was let go, in microseconds since the Unix epoch.
    pub time_micros: i64,
    /// From when on a collection may free its content; nothing when it may already.
    pub free_micros: Option<i64>,
    /// Whether a policy let it go, and nobody who named it.
    pub expired: bool,
    /// The operation that let it go, by its sequence, if no other process was faster.
    through: u64,
}

/// The blob behind a ref, its fields in this order.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u64,
    through: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    free_micros: Option<i64>,
    time_micros: i64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    expired: bool,
}

impl Stored {
    fn new(through: u64, free_micros: Option<i64>, time_micros: i64, expired: bool) -> Self {
        let version = if expired { VERSION } else { 1 };
        Self { version, through, free_micros, time_micros, expired }
    }
}

impl ForgottenSession {
    /// The sessions that a store with these refs has let go.
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
            return Err(Error::corrupt(WHAT, "a blob", "the name of another ref"));
        };
        let bytes = source.read_as(Kind::Blob, id)?;
        let Stored { through, free_micros, time_micros, expired, .. } =
            decode_versioned(WHAT, VERSION, &bytes)?;
        Ok(Self { session: session.to_owned(), time_micros, free_micros, expired, through })
    }

    /// A session as if it had been let go after every operation, and its content could be freed.
    pub(crate) fn of_all_time(session: String) -> Self {
        Self { session, time_micros: 0, free_micros: None, expired: false, through: u64::MAX }
    }

    /// Its content may be freed if its time has come.
    pub(crate) fn come(&mut self, now: i64) {
        self.free_micros = self.free_micros.filter(|free| now < *free);
    }

    /// The session that a ref belongs to.
    pub(crate) fn of_ref(name: &str) -> Option<&str> {
        session_of(name)
    }

    /// Returns whether an operation is one of those that hold the session no longer, in the end.
    fn is_past(&self, operation: &Operation) -> bool {
        operation.sequence <= self.through
            || operation.changes.iter().any(|change| change.name == self.ref_name())
    }

    /// Returns whether an operation holds the value `id` of the ref `name` no longer: that ref is one
    /// of these sessions', or no branch and the value is a turn of one. Only those count whose content
    /// may be freed.
    ///
    /// # Errors
    /// `Corrupt` when the value does not verify.
    pub(crate) fn lets_go(
        gone: &[Self],
        source: &dyn ObjectSource,
        operation: &Operation,
        (name, id): (&str, &ObjectId),
    ) -> Result<bool> {
        let is_free = |it: &&Self| it.free_micros.is_none() && it.is_past(operation);
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
            Owner::Nobody => false,
        })
    }

    fn ref_name(&self) -> String {
        format!("{FORGOTTEN}{}", self.session)
    }
}

/// Whose turn a value leads to.
enum Owner {
    Session(String),
    /// A turn that was dropped, while its tag is in a file that a crash has brought back.
    Freed,
    Nobody,
}

/// Follows a value through tags.
fn owner_of(source: &dyn ObjectSource, id: &ObjectId) -> Result<Owner> {
    let (mut at, mut gone) = (*id, Owner::Nobody);
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
            _ => return Ok(Owner::Nobody),
        }
    }
    Ok(Owner::Nobody)
}

/// The session that a ref belongs to.
fn session_of(name: &str) -> Option<&str> {
    let beside = || BESIDE.iter().find_map(|prefix| name.strip_prefix(prefix));
    let rest = name.strip_prefix(BRANCHES).or_else(beside)?;
    rest.split('/').next()
}

impl Transaction<'_> {
    /// Lets a session go: its branches are removed, and what is beside them. Operations hold its
    /// content no longer, or until the first collection after `free_micros`. What the session was
    /// called before its branches were renamed is forgotten with it.
    ///
    /// # Errors
    /// `NotFound` when there is no such session, `InvalidInput` when a tag or a pin keeps a turn of it.
    pub fn forget_session(
        &mut self,
        repo: &Repository,
        session: &str,
        stamp: &Signature,
        free_micros: Option<i64>,
    ) -> Result<()> {
        self.let_session_go(repo, session, stamp, (free_micros, false))
    }

    /// The same for a session that a policy lets go: whoever goes on in it has it again.
    ///
    /// # Errors
    /// Those of [`Transaction::forget_session`].
    pub(crate) fn expire_session(
        &mut self,
        repo: &Repository,
        session: &str,
        stamp: &Signature,
        free_micros: Option<i64>,
    ) -> Result<()> {
        self.let_session_go(repo, session, stamp, (free_micros, true))
    }

    fn let_session_go(
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
        let stored = Stored::new(through, free_micros, stamp.time.micros, expired);
        let shared = repo.shared_head()?;
        for (branch, _) in branches {
            self.remove_branch(&branch);
            if branch == shared {
                self.set_ref(HEAD, Expected::Any, None);
            }
        }
        let refs = repo.refs();
        let beside = refs.values.keys().filter(|name| !name.starts_with(BRANCHES));
        let is_own = |name: &&String| session_of(name).is_some_and(|of| names.contains(of));
        for name in beside.filter(is_own) {
            self.set_ref(name, Expected::Any, None);
        }
        for name in &names {
            self.note_forgotten(name, &stored)?;
        }
        if free_micros.is_none() {
            self.drop_remote_branches(&refs, &names);
        }
        Ok(())
    }

    /// Removes where the branches of sessions were on remotes, which would keep all of them here. What is
    /// known of the heads stays, so that a fetch does not bring back what has not changed.
    fn drop_remote_branches(&mut self, refs: &RefTable, sessions: &BTreeSet<String>) {
        for name in refs.values.keys() {
            let of = remote_branch(name).map(|(_, branch)| branch.session().to_owned());
            if of.is_some_and(|of| sessions.contains(&of)) {
                self.set_ref(name, Expected::Any, None);
            }
        }
    }

    /// Says of a session that was forgotten that it has come back since.
    pub(super) fn note_return(&mut self, session: &str) {
        if let Some(forgotten) = self.begun_with(&format!("{FORGOTTEN}{session}")).cloned() {
            self.set_ref(&format!("{RETURNED}{session}"), Expected::Any, Some(forgotten));
        }
    }

    fn note_forgotten(&mut self, session: &str, stored: &Stored) -> Result<()> {
        let bytes = serde_json::to_vec(stored)
            .map_err(|error| Error::invalid("a forgotten session").with_source(error))?;
        let value = Some(RefValue::Object(self.write(Kind::Blob, bytes.into())?));
        self.set_ref(&format!("{FORGOTTEN}{session}"), Expected::Any, value);
        Ok(())
    }
}

impl Repository {
    /// The sessions that this store has let go.
    ///
    /// # Errors
    /// Those of [`ForgottenSession::load`].
    pub fn forgotten_sessions(&self) -> Result<Vec<ForgottenSession>> {
        ForgottenSession::load(self.store(), &self.refs())
    }

    /// Lets the content be freed of sessions whose time has come, as one operation.
    ///
    /// # Errors
    /// Those of reading what was let go, and of a commit.
    pub(crate) fn free_forgotten(&self, stamp: &Signature) -> Result<()> {
        let now = stamp.time.micros;
        let in_grace = self.forgotten_sessions()?.into_iter();
        let in_grace = in_grace.filter(|gone| gone.free_micros.is_some());
        let (mut change, mut freed) = (self.begin(), 0_u64);
        for mut gone in in_grace {
            gone.come(now);
            if gone.free_micros.is_some() {
                continue;
            }
            let ForgottenSession { session, time_micros, expired, through, .. } = gone;
            let stored = Stored::new(through, None, time_micros, expired);
            change.note_forgotten(&session, &stored)?;
            change.drop_remote_branches(&self.refs(), &BTreeSet::from([session]));
            freed += 1;
        }
        if freed > 0 {
            change.commit(stamp, "free what was forgotten")?;
        }
        Ok(())
    }

    /// Returns whether somebody let a session go, and it has not come back.
    #[must_use]
    pub fn is_forgotten(&self, session: &str) -> bool {
        self.let_go(session).is_some_and(|gone| !gone.expired)
    }

    /// When a policy let a session go that has not come back, in microseconds since the Unix epoch.
    #[must_use]
    pub fn expired_at(&self, session: &str) -> Option<i64> {
        self.let_go(session).filter(|gone| gone.expired).map(|gone| gone.time_micros)
    }

    /// How a session was let go, if it was and has not come back.
    fn let_go(&self, session: &str) -> Option<ForgottenSession> {
        let refs = self.refs();
        let value = refs.value(&format!("{FORGOTTEN}{session}"))?;
        if refs.value(&format!("{RETURNED}{session}")).is_some()
            || self.branches().iter().any(|(branch, _)| branch.session() == session)
        {
            return None;
        }
        // One that cannot be read is one that somebody named.
        let read = ForgottenSession::read(self.store(), session, value);
        Some(read.unwrap_or_else(|_| ForgottenSession::of_all_time(session.to_owned())))
    }

    /// A session's name, and those that its newest turns have in their commits and that no branch
    /// has: what it was called before it was renamed.
    ///
    /// # Errors
    /// Those of reading the newest turns.
    pub fn names_of_session(&self, session: &str) -> Result<BTreeSet<String>> {
        let branches = self.branches();
        let mut names = BTreeSet::from([session.to_owned()]);
        for (_, tip) in branches.iter().filter(|(branch, _)| branch.session() == session) {
            let named = self.commit(tip)?.session;
            if !branches.iter().any(|(branch, _)| branch.session() == named) {
                names.insert(named);
            }
        }
        Ok(names)
    }

    /// The tags, and the pins that have not expired, on turns of a session.
    ///
    /// # Errors
    /// Those of reading them.
    pub fn names_that_keep(&self, session: &str, now: i64) -> Result<Vec<String>> {
        let (names, mut kept) = (self.names_of_session(session)?, self.kept_sessions(now)?);
        Ok(names.iter().filter_map(|name| kept.remove(name)).flatten().collect())
    }

    /// The tags, and the pins that have not expired, by the session that the turn names that they
    /// are on.
    ///
    /// # Errors
    /// Those of reading them.
    pub fn kept_sessions(&self, now: i64) -> Result<BTreeMap<String, Vec<String>>> {
        let mut kept: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut add = |id: Result<ObjectId>, name: String| {
            // What a tag was on may be gone.
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

    /// Refuses to go back to a value that a collection may have taken a part of: a turn of a session
    /// that was let go after the operation `past`.
    ///
    /// # Errors
    /// `NotFound` when something of it is not there any more.
    pub(super) fn check_not_freed(
        &self,
        past: &Operation,
        (name, id): (&str, &ObjectId),
    ) -> Result<()> {
        let mut gone = self.forgotten_sessions()?;
        // Another process may free it meanwhile.
        gone.iter_mut().for_each(|gone| gone.free_micros = None);
        if ForgottenSession::lets_go(&gone, self.store(), past, (name, id))? {
            self.check_whole(name, id)?;
        }
        Ok(())
    }

    /// Follows everything that `id` leads to. What had expired need not be there.
    fn check_whole(&self, name: &str, id: &ObjectId) -> Result<()> {
        let (store, grafts) = (self.store(), self.grafts()?);
        let (mut open, mut seen) = (vec![*id], HashSet::new());
        while let Some(at) = open.pop() {
            if grafts.is_forgotten(&at) || store.tombstone(&at).is_some() || !seen.insert(at) {
                continue;
            }
            let freed = || {
                Error::not_found(format!(
                    "{name} held a session that was forgotten, and its content is freed"
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
