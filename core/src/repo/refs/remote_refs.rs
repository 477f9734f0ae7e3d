//! The local state of remotes: their URLs, and their branches when they were last seen.
//!
//! ```text
//! refs/maintenance/remotes                     {"version":1,"remotes":{"origin":{"url":...,"id":...}}}
//! refs/remotes/<remote>/<session>/<branch>     where a branch was there
//! refs/remote-heads/<remote>/<session>         the head that said so, as bytes of the protocol
//! refs/distant/<remote>/<session>/<bundle>     the index of a bundle that was not fetched whole
//! ```
//!
//! The engine does not access remotes: URLs are opaque texts to it. An undo leaves all of these
//! refs as they are, since it does not change the remotes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::branch::check_remote_name;
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId, ObjectSink, ObjectSource, RefValue};
use crate::repo::{BranchName, Repository, Transaction, decode_versioned};
use crate::store::{DISTANT_REFS, Expected};

/// The ref of the remotes.
pub(crate) const REMOTES_REF: &str = "refs/maintenance/remotes";

/// The prefix of remote-tracking refs.
pub(in crate::repo) const REMOTE_BRANCHES: &str = "refs/remotes/";

/// Returns the prefix of the refs of a remote with indexes of bundles that were fetched only in
/// part.
fn distant_prefix(remote: &str) -> String {
    format!("{DISTANT_REFS}{remote}/")
}

/// The prefix of refs with heads of remotes.
pub(in crate::repo) const REMOTE_HEADS: &str = "refs/remote-heads/";

const VERSION: u64 = 1;
const WHAT: &str = "the list of remotes";

/// The longest URL, in bytes.
const MAX_URL_BYTES: usize = 2048;

/// A remote of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteEntry {
    /// The URL, without secrets.
    pub url: String,
    /// The id as hex digits, which tells it from another remote at the same URL.
    pub id: String,
    /// True for a lazy clone: large objects are not fetched, but read from the remote on demand.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lazy: bool,
    /// True if new turns are pushed automatically.
    #[serde(default, skip_serializing_if = "is_false")]
    pub auto: bool,
    /// The last seen keys of an encrypted remote, wrapped, as bytes of the protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredRemotes {
    version: u64,
    remotes: BTreeMap<String, RemoteEntry>,
}

/// Returns the full name of the remote-tracking ref of a branch.
///
/// # Errors
/// `InvalidInput` for an invalid name of a remote.
pub(crate) fn remote_branch_ref(remote: &str, branch: &BranchName) -> Result<String> {
    check_remote_name(remote)?;
    Ok(format!("{REMOTE_BRANCHES}{remote}/{branch}"))
}

/// Parses the name of a remote-tracking ref into the remote and the branch.
#[must_use]
pub fn remote_branch(full: &str) -> Option<(&str, BranchName)> {
    let (remote, branch) = full.strip_prefix(REMOTE_BRANCHES)?.split_once('/')?;
    check_remote_name(remote).ok()?;
    Some((remote, branch.parse().ok()?))
}

/// Returns the full name of the ref for the head of a session on a remote.
///
/// # Errors
/// `InvalidInput` for an invalid name of a remote or a session.
pub(crate) fn remote_head_ref(remote: &str, session: &str) -> Result<String> {
    check_remote_name(remote)?;
    BranchName::main(session)?;
    Ok(format!("{REMOTE_HEADS}{remote}/{session}"))
}

/// Returns the full name of the ref for the index of a bundle that was fetched only in part.
///
/// # Errors
/// `InvalidInput` for an invalid name of a remote or a session.
pub(crate) fn distant_ref(remote: &str, session: &str, bundle: &str) -> Result<String> {
    check_remote_name(remote)?;
    BranchName::main(session)?;
    Ok(format!("{}{session}/{bundle}", distant_prefix(remote)))
}

/// Parses the name of a ref for the index of a bundle into the remote, the session and the bundle.
#[must_use]
pub(crate) fn distant_bundle(full: &str) -> Option<(&str, &str, &str)> {
    let (remote, rest) = full.strip_prefix(DISTANT_REFS)?.split_once('/')?;
    let (session, bundle) = rest.rsplit_once('/')?;
    Some((remote, session, bundle))
}

impl Repository {
    /// Returns the bundles of a remote that were fetched only in part, each by its session and its
    /// name.
    #[must_use]
    pub fn distant_bundles(&self, remote: &str) -> Vec<(String, String)> {
        let prefix = distant_prefix(remote);
        let refs = self.refs();
        let own = refs.values.starting_with(&prefix);
        let split = own.filter_map(|(name, _)| distant_bundle(name));
        split.map(|(_, session, bundle)| (session.to_owned(), bundle.to_owned())).collect()
    }

    /// Returns the remotes by name.
    ///
    /// # Errors
    /// `Corrupt` for an unreadable list, `Unsupported` for one of a later version.
    pub fn remotes(&self) -> Result<BTreeMap<String, RemoteEntry>> {
        let Some(RefValue::Object(id)) = self.refs().value(REMOTES_REF).cloned() else {
            return Ok(BTreeMap::new());
        };
        let bytes = self.store().read_as(Kind::Blob, &id)?;
        Ok(decode_versioned::<StoredRemotes>(WHAT, VERSION, &bytes)?.remotes)
    }

    /// Returns the remote-tracking branches of a session, or of all sessions, with their last seen
    /// values, in order of names.
    #[must_use]
    pub fn remote_branches(
        &self,
        remote: &str,
        session: Option<&str>,
    ) -> Vec<(BranchName, ObjectId)> {
        let prefix = match session {
            Some(session) => format!("{REMOTE_BRANCHES}{remote}/{session}/"),
            None => format!("{REMOTE_BRANCHES}{remote}/"),
        };
        let refs = self.refs();
        let own = refs.values.starting_with(&prefix).filter_map(|(name, value)| match value {
            RefValue::Object(id) => Some((remote_branch(name)?.1, *id)),
            RefValue::Symbolic(_) => None,
        });
        own.collect()
    }

    /// Returns the branches that differ from the last seen state of a remote, without branches of
    /// sessions that were deleted there.
    #[must_use]
    pub fn unpushed(&self, remote: &str) -> Vec<(BranchName, ObjectId)> {
        let there = self.remote_branches(remote, None);
        let is_wanted = |own: &(BranchName, ObjectId)| {
            there.binary_search(own).is_err() && !self.is_deleted_on(remote, own.0.session())
        };
        self.branches().into_iter().filter(is_wanted).collect()
    }

    /// Returns true if a remote with automatic pushes lacks something, according to its last seen
    /// state.
    ///
    /// # Errors
    /// Errors of [`Repository::remotes`].
    pub fn is_push_due(&self) -> Result<bool> {
        let remotes = self.remotes()?;
        let mut auto = remotes.iter().filter(|(_, entry)| entry.auto);
        Ok(auto.any(|(name, _)| !self.unpushed(name).is_empty()))
    }

    /// Returns true if a session was deleted on a remote, according to its last seen state.
    #[must_use]
    pub fn is_deleted_on(&self, remote: &str, session: &str) -> bool {
        let is_known =
            remote_head_ref(remote, session).is_ok_and(|head| self.refs().value(&head).is_some());
        is_known && self.remote_branches(remote, Some(session)).is_empty()
    }

    /// Returns the sessions in the last seen state of a remote, including those deleted there.
    #[must_use]
    pub fn remote_sessions(&self, remote: &str) -> Vec<String> {
        let prefix = format!("{REMOTE_HEADS}{remote}/");
        let refs = self.refs();
        let names = refs.values.starting_with(&prefix);
        names.filter_map(|(name, _)| name.strip_prefix(&prefix)).map(str::to_owned).collect()
    }
}

impl Transaction<'_> {
    /// Stages the list of remotes. Deletes the refs of remotes that are not in it.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid name or URL.
    pub fn set_remotes(&mut self, remotes: &BTreeMap<String, RemoteEntry>) -> Result<()> {
        for (name, RemoteEntry { url, .. }) in remotes {
            check_remote_name(name)?;
            if url.is_empty() || url.len() > MAX_URL_BYTES || url.contains(char::is_control) {
                let message = format!("the URL of {name}: expected 1 to {MAX_URL_BYTES} bytes");
                return Err(Error::invalid(message));
            }
        }
        let known = |name: &str| {
            let prefixes = [REMOTE_BRANCHES, REMOTE_HEADS, DISTANT_REFS];
            let rest = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix))?;
            rest.split('/').next().map(|remote| remotes.contains_key(remote))
        };
        let refs = self.repo().refs();
        let gone = refs.values.iter().filter(|(name, _)| known(name) == Some(false));
        for (name, value) in gone {
            self.set_ref(name, Expected::Value(value.clone()), None);
        }
        let stored = StoredRemotes { version: VERSION, remotes: remotes.clone() };
        let bytes = serde_json::to_vec(&stored)
            .map_err(|error| Error::invalid(format!("{WHAT} is not JSON")).with_source(error))?;
        let blob = self.write(Kind::Blob, bytes.into())?;
        let expected = match self.initial_value(REMOTES_REF) {
            Some(value) => Expected::Value(value.clone()),
            None => Expected::Absent,
        };
        self.set_ref(REMOTES_REF, expected, Some(RefValue::Object(blob)));
        Ok(())
    }
}
