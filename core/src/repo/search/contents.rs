//! Contents first: which blobs may hold what is searched, found without asking history.
//!
//! History costs what every turn changed, contents cost what there is once. So where most of a store is
//! asked about, its blobs are looked at as they lie, and history only says when those came that may
//! match. Where none may, and nothing that it leads to can be missing, it is not asked at all, and where
//! no turn is gone either, which would have to be said, it is not even walked through.
//! Where much of what is read may match, to look at contents first was for nothing, so it ends early: history
//! is asked for all then, and what was read till then is kept.
//! This is the one place that decides which way a search goes; both give the same answer.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use super::changes::GrepProgress;
use super::occurrences::{SearchFilter, SearchScope};
use crate::error::Result;
use crate::object::{Kind, Object, ObjectId};
use crate::repo::Repository;

/// Returns whether bytes may hold a match, as they are or read as a message of any format; false is
/// certain.
pub type MayHold<'a> = &'a (dyn Fn(&[u8]) -> bool + Sync);

/// Most bytes of contents that are kept from the first look to the second.
const KEPT_BYTES: usize = 16 << 20;

/// The blobs of a store that may match.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// Those that may, and those that cannot be read: history says whether they are asked about.
    pub(super) ids: HashSet<ObjectId>,
    /// The contents of some of them.
    pub(super) kept: HashMap<ObjectId, Bytes>,
    /// Set when so many may match that not all contents were looked at.
    are_many: bool,
    /// Set when something that history leads to may be missing, which only a walk notices.
    is_doubtful: bool,
}

/// A question that contents may answer.
pub(super) struct ContentQuestion<'a> {
    pub(super) wanted: &'a SearchFilter,
    pub(super) may_hold: Option<MayHold<'a>>,
    pub(super) scopes: &'a [SearchScope],
}

impl ContentQuestion<'_> {
    /// Looks at all contents, if that costs less than asking history.
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
                    let kept = keep(&object.bytes, &room);
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
        found.is_doubtful = found.ids.is_empty() && !repo.store().leads_everywhere();
        Some(found)
    }

    /// Returns true if contents are to be looked at first: everything in most turns of the store is
    /// asked about.
    fn is_worth_it(&self, repo: &Repository) -> bool {
        self.wanted.paths.is_all()
            && self
                .turns(repo)
                .is_some_and(|turns| turns.saturating_mul(2) >= repo.store().count(Kind::Commit))
    }

    /// About the turns that are asked about, by the numbers of the newest ones. Nothing where one of
    /// these cannot be read: history says what is wrong with it.
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
    /// The blobs that history is asked about; all of them without these.
    pub(super) fn looked_for(&self) -> Option<&HashSet<ObjectId>> {
        (!self.are_many).then_some(&self.ids)
    }

    /// Returns true if history has to be asked what contexts had.
    pub(super) fn needs_history(&self) -> bool {
        self.is_doubtful || !self.ids.is_empty()
    }

    /// Returns true if history has to be walked through: to ask it, or to say which turns are gone.
    pub(super) fn needs_turns(&self, repo: &Repository) -> bool {
        self.needs_history()
            || repo.store().has_gone(Kind::Node)
            || repo.grafts().map_or(true, |grafts| !grafts.0.is_empty())
    }
}

/// A copy of a content, as long as there is room: a part of a block would keep all of it in memory.
fn keep(content: &Bytes, room: &AtomicUsize) -> Option<Bytes> {
    let taken = room
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| room.checked_sub(content.len()));
    taken.ok().map(|_| Bytes::copy_from_slice(content))
}
