//! Stores the last known head of each session of a remote.
//!
//! A head is recorded in the same operation as the remote-tracking refs, so both have the same
//! state. It lets a push skip reading the remote, and reveals a remote that rolls back or forks its
//! history.

use serde::{Deserialize, Serialize};

use super::bucket::Version;
use super::head::SessionHead;
use super::hex::Hex;
use super::names::hash;
use super::{Remote, rollback_error};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId, ObjectSink, ObjectSource, RefValue};
use crate::repo::{
    BranchName, Repository, Transaction, decode_versioned, remote_branch_ref, remote_head_ref,
};
use crate::store::Expected;

const VERSION: u64 = 1;
const WHAT: &str = "the known head of a remote";

/// A head that this store has read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownHead {
    pub(super) head: SessionHead,
    /// The version of the head in the bucket.
    pub(super) version: Version,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredHead {
    version: u64,
    state: String,
    head: SessionHead,
}

impl KnownHead {
    /// Returns the hash of its bytes, which the next head names.
    pub(super) fn hash(&self) -> Result<Hex<32>> {
        Ok(hash(&self.head.encode()?))
    }

    /// Loads the last known head of a session, if there is one.
    pub(super) fn load(repo: &Repository, remote: &str, session: &str) -> Result<Option<Self>> {
        let name = remote_head_ref(remote, session)?;
        let Some(RefValue::Object(id)) = repo.refs().value(&name).cloned() else { return Ok(None) };
        let bytes = repo.store().read_as(Kind::Blob, &id)?;
        let stored: StoredHead = decode_versioned(WHAT, VERSION, &bytes)?;
        Ok(Some(Self { head: stored.head, version: Version(stored.state) }))
    }

    /// Refuses a head that cannot be a successor of this one.
    ///
    /// # Errors
    /// `Corrupt` if it is older, differs in the same generation, or has another predecessor.
    pub(super) fn check_after(&self, next: &SessionHead) -> Result<()> {
        let (known, found) = (self.head.generation, next.generation);
        let place = &next.session;
        if found < known {
            let expected = format_args!("generation {known}, as seen before, or later");
            return Err(rollback_error(place, expected, format_args!("generation {found}")));
        }
        if found == known && *next != self.head {
            return Err(rollback_error(
                place,
                "the head that was seen before",
                "another head of the same generation",
            ));
        }
        if next.session != self.head.session && !self.head.session.is_empty() {
            let session = &self.head.session;
            return Err(rollback_error(
                session,
                "a head of this session",
                "a head without a session",
            ));
        }
        if found > known && next.before.is_none() {
            return Err(rollback_error(place, "a head with a predecessor", "a first head"));
        }
        if found == known + 1 && next.before != Some(self.hash()?) {
            return Err(rollback_error(place, "a successor of the known head", "another history"));
        }
        Ok(())
    }

    fn encode(&self) -> Result<Vec<u8>> {
        let Self { head, version } = self.clone();
        let stored = StoredHead { version: VERSION, state: version.0, head };
        let json = serde_json::to_vec(&stored);
        json.map_err(|error| Error::invalid(format!("{WHAT} is not JSON")).with_source(error))
    }

    /// Stages the head, and remote-tracking refs with the values of its branches.
    ///
    /// # Errors
    /// `NotFound` if the store lacks the commit of a branch.
    pub(super) fn stage(
        &self,
        repo: &Repository,
        remote: &Remote<'_>,
        change: &mut Transaction<'_>,
    ) -> Result<()> {
        let refs = repo.refs();
        let expected = |name: &str| match refs.value(name) {
            Some(value) => Expected::Value(value.clone()),
            None => Expected::Absent,
        };
        for (branch, id) in self.head.branches() {
            let name = remote_branch_ref(remote.name, &branch)?;
            let value = RefValue::Object(id);
            if refs.value(&name) != Some(&value) {
                change.set_ref(&name, expected(&name), Some(value));
            }
        }
        let there: Vec<(BranchName, ObjectId)> = self.head.branches().collect();
        for (branch, _) in repo.remote_branches(remote.name, Some(&self.head.session)) {
            if !there.iter().any(|(known, _)| *known == branch) {
                let name = remote_branch_ref(remote.name, &branch)?;
                change.set_ref(&name, expected(&name), None);
            }
        }
        let name = remote_head_ref(remote.name, &self.head.session)?;
        let blob = change.write(Kind::Blob, self.encode()?.into())?;
        change.set_ref(&name, expected(&name), Some(RefValue::Object(blob)));
        Ok(())
    }
}
