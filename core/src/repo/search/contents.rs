//! Scans contents for blobs that may match, before any walk through history.
//!
//! A walk through history costs the changes of every turn; a scan of contents costs each stored
//! blob once. So if the query covers most of a store, its blobs are scanned in storage order, and
//! history only dates those that may match. If no blob may match and no reachable object can be
//! missing, the comparison of turns is skipped. If, in addition, no turn has expired that the
//! answer would have to report, the walk is skipped altogether.
//!
//! If many of the scanned blobs may match, the scan does not pay: it ends early, all of history is
//! compared, and the contents read until then are reused. This is the one place that chooses the
//! way of a search; both ways give the same answer.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use super::changes::GrepProgress;
use super::occurrences::{SearchFilter, SearchScope};
use crate::error::Result;
use crate::object::{Kind, Object, ObjectId};
use crate::repo::Repository;

/// Returns whether bytes may hold a match, raw or read as a message of any format. False is
/// certain.
pub type MayHold<'a> = &'a (dyn Fn(&[u8]) -> bool + Sync);

/// The maximum number of bytes of contents kept from the scan for the search.
const KEPT_BYTES: usize = 16 << 20;

/// The blobs of a store that may match.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// Blobs that may match, and unreadable blobs: history decides whether they are in the search.
    pub(super) ids: HashSet<ObjectId>,
    /// The contents of some of them.
    pub(super) kept: HashMap<ObjectId, Bytes>,
    /// True if so many blobs may match that the scan ended early.
    are_many: bool,
    /// True if a reachable object may be missing, which only a walk detects.
    is_doubtful: bool,
}

/// A query that a scan of contents may answer.
pub(super) struct ContentQuery<'a> {
    pub(super) wanted: &'a SearchFilter,
    pub(super) may_hold: Option<MayHold<'a>>,
    pub(super) scopes: &'a [SearchScope],
}

impl ContentQuery<'_> {
    /// Scans all contents, if that costs less than comparing turns.
    pub(super) fn candidates(
        &self,
        repo: &Repository,
        progress: GrepProgress<'_>,
    ) -> Option<Candidates> {
        let may_hold = self.may_hold.filter(|_| self.is_worth_it(repo))?;
        let blobs = repo.store().count(Kind::Blob);
        let (done, room) = (AtomicU64::new(0), AtomicUsize::new(KEPT_BYTES));
        let (seen, are_many) = (AtomicUsize::new(0), AtomicBool::new(false));
        let found = Mutex::new(Candidates::default());
        let look = |id, object: Result<Object>| {
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, blobs);
            let content = match object {
                Ok(object) => {
                    let seen = seen.fetch_add(object.bytes.len(), Ordering::Relaxed);
                    if !may_hold(&object.bytes) {
                        return;
                    }
                    let kept = copy_within(&object.bytes, &room);
                    if kept.is_none() && seen < 2 * KEPT_BYTES {
                        are_many.store(true, Ordering::Relaxed);
                    }
                    kept
                }
                Err(_) => None,
            };
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.ids.insert(id);
            found.kept.extend(content.map(|content| (id, content)));
        };
        repo.store().sweep(Kind::Blob, &look, &|| !are_many.load(Ordering::Relaxed));
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.are_many = are_many.into_inner();
        found.is_doubtful = found.ids.is_empty() && !repo.store().has_all_reachable();
        Some(found)
    }

    /// Returns true if a scan of contents pays: the query covers every section in most turns of the
    /// store.
    fn is_worth_it(&self, repo: &Repository) -> bool {
        self.wanted.paths.is_all()
            && self
                .turns(repo)
                .is_some_and(|turns| turns.saturating_mul(2) >= repo.store().count(Kind::Commit))
    }

    /// Estimates the number of turns in the query from the newest ones. `None` if one of these is
    /// unreadable: the walk reports the error.
    fn turns(&self, repo: &Repository) -> Option<u64> {
        let mut turns = 0_u64;
        for SearchScope { starts, hide } in self.scopes {
            let (mut newest, mut hidden) = (0, 0);
            for (id, _) in starts {
                newest = repo.commit(id).ok()?.turn.max(newest);
            }
            for id in hide {
                hidden = repo.commit(id).ok()?.turn.max(hidden);
            }
            turns = turns.saturating_add(newest.saturating_sub(hidden));
        }
        Some(turns)
    }
}

impl Candidates {
    /// Returns the blobs to look for in history; `None` for all blobs.
    pub(super) fn blobs_to_find(&self) -> Option<&HashSet<ObjectId>> {
        (!self.are_many).then_some(&self.ids)
    }

    /// Returns true if turns have to be compared.
    pub(super) fn needs_history(&self) -> bool {
        self.is_doubtful || !self.ids.is_empty()
    }

    /// Returns true if history has to be walked: to compare turns, or to report expired ones.
    pub(super) fn needs_turns(&self, repo: &Repository) -> bool {
        self.needs_history()
            || repo.store().has_tombstones_of(Kind::Node)
            || repo.grafts().map_or(true, |grafts| !grafts.0.is_empty())
    }
}

/// Copies a content if there is room: a slice of a block would keep the whole block in memory.
fn copy_within(content: &Bytes, room: &AtomicUsize) -> Option<Bytes> {
    let taken = room
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| room.checked_sub(content.len()));
    taken.ok().map(|_| Bytes::copy_from_slice(content))
}
