//! Folds bundles of a session into one, so that a head lists few and a clone reads little more than
//! an archive.
//!
//! ```text
//! by a push                    the newest ones, of 8 KiB in all: the push waits for it
//! by who is waited for by none all, when those behind the first one have a tenth of its bytes;
//!                              else the newest ones, when there are more than seven
//! by a push, of 24 bundles     the same, if no other process has folded them
//! ```
//!
//! So a pushed byte is rewritten about 20 times at most, however long a session gets, and a clone
//! reads a tenth more than a single bundle would have. Only a store with every turn of these
//! bundles complete folds them. No head lists the replaced bundles, and they are deleted.

use std::collections::HashSet;

use super::Remote;
use super::head::{PushedBundle, SessionHead};
use super::known::KnownHead;
use super::push::{PushDraft, PushedBranch, SwapOutcome};
use crate::error::Result;
use crate::object::ObjectId;
use crate::transfer::bundle::{BundleRequest, plan_increment};

/// Bytes of the newest bundles that a push folds into its own bundle.
const PUSHED_BYTES: u64 = 8 << 10;

/// Maximum number of bundles of a session after background folding.
const MAX_BUNDLES: usize = 7;

/// Number of bundles of a session from which a push folds as background folding does.
const MAX_UNFOLDED: usize = 24;

/// All bundles are folded into one if the first is less than this many times as large as the others
/// together.
const FIRST_TO_OTHERS: u64 = 10;

impl Remote<'_> {
    /// Returns true if folding bundles of a session is worth it, according to the last known head.
    ///
    /// # Errors
    /// `Corrupt` if the record of the remote cannot be read.
    pub fn is_fold_due(&self, session: &str) -> Result<bool> {
        let known = KnownHead::load(self.repo, self.name, session)?;
        Ok(known.is_some_and(|known| !self.fold_candidates(&known.head).is_empty()))
    }

    /// Folds bundles of a session, if it is worth it, this store has all their content, and no
    /// other client pushes first. Then deletes bundles that no head can list, if permitted, except
    /// replaced bundles with an index, because a lazy clone may be reading them. Costs two requests
    /// with a bundle, and two more.
    ///
    /// # Errors
    /// Errors of [`Remote::push`].
    pub fn fold(&self, session: &str) -> Result<bool> {
        let Some(known) = KnownHead::load(self.repo, self.name, session)? else {
            return Ok(false);
        };
        for kept in self.fold_candidates(&known.head) {
            if let Some(draft) = self.plan_fold(&known.head, &[], kept) {
                let Some(folded) = self.replace(&known, draft)? else { return Ok(false) };
                let replaced = known.head.bundles.iter();
                let spared = replaced.filter(|bundle| bundle.index.is_some());
                let spared = spared.map(|bundle| &*bundle.name).collect();
                // A collection deletes them if this client may not.
                let _ = self.collect_unlisted(&folded.head, &spared);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Folds all bundles of a session into one. A bundle that was sealed before a member was
    /// removed is sealed again.
    pub(super) fn fold_all(&self, known: &KnownHead) -> Result<bool> {
        let kept = self.skip_distant(&known.head, 0);
        let is_due = match known.head.bundles.get(kept..).unwrap_or_default() {
            [] => false,
            [one] => {
                let key = known.head.bundle_key(self.bucket.names(), &one.name)?;
                self.bucket.is_sealed_before(&key)?
            }
            _ => true,
        };
        if !is_due {
            return Ok(false);
        }
        let Some(draft) = self.plan_fold(&known.head, &[], kept) else { return Ok(false) };
        Ok(self.replace(known, draft)?.is_some())
    }

    /// Returns the bundle into which a push folds others with its own content, if this store has
    /// all of it. The bundle stays if the push is large; otherwise the next push folds it again.
    pub(super) fn plan_push_fold(
        &self,
        base: &SessionHead,
        branches: &[PushedBranch],
        brings_much: bool,
    ) -> Option<PushDraft> {
        let all = base.bundles.len();
        let worth = if all < MAX_UNFOLDED { Vec::new() } else { self.fold_candidates(base) };
        let small = self.skip_distant(base, count_before_small(&base.bundles));
        let kept = worth.into_iter().map(|kept| (kept, true)).chain([(small, brings_much)]);
        let mut kept = kept.filter(|(kept, _)| *kept < all);
        kept.find_map(|(kept, stays)| {
            Some(PushDraft { stays, ..self.plan_fold(base, branches, kept)? })
        })
    }

    /// Returns how many leading bundles to keep when folding the others: candidates, the best
    /// first.
    fn fold_candidates(&self, base: &SessionHead) -> Vec<usize> {
        let from = self.first_foldable(base);
        let foldable = base.bundles.get(from..).unwrap_or_default();
        candidates(foldable).into_iter().map(|kept| from + kept).collect()
    }

    /// Returns the index of the first bundle that can be folded: after all bundles that were not
    /// fetched, and after the last bundle with a tip that is expired here.
    fn first_foldable(&self, base: &SessionHead) -> usize {
        let is_expired = |id: &ObjectId| {
            let tree = self.repo.commit(id).map(|commit| commit.tree);
            tree.is_ok_and(|tree| self.repo.store().tombstone(&tree).is_some())
        };
        let expired = base.bundles.iter().rposition(|bundle| {
            let mut tips = bundle.tips.iter();
            tips.any(|tip| is_expired(&tip.0))
        });
        self.skip_distant(base, expired.map_or(0, |last| last + 1))
    }

    /// Returns the index, at least `kept`, of the first bundle after all remote-only bundles.
    fn skip_distant(&self, base: &SessionHead, kept: usize) -> usize {
        let distant = self.repo.distant_bundles(self.name);
        let is_distant = |name: &str| {
            distant.iter().any(|(session, bundle)| *session == base.session && bundle == name)
        };
        let last = base.bundles.iter().rposition(|bundle| is_distant(&bundle.name));
        last.map_or(kept, |last| kept.max(last + 1))
    }

    /// Plans the bundle that replaces all but the first `kept` ones; `None` if this store lacks
    /// some of their content.
    fn plan_fold(
        &self,
        base: &SessionHead,
        branches: &[PushedBranch],
        kept: usize,
    ) -> Option<PushDraft> {
        // A branch that is not pushed keeps its value on the remote.
        let there = base.branches().map(|(branch, id)| BundleRequest::BranchAt(branch, id));
        let pushed = branches.iter().filter(|own| own.line.is_pushed());
        let pushed = pushed.map(|own| BundleRequest::Branch(own.branch.clone()));
        let wanted: Vec<_> = there.chain(pushed).collect();
        let front = base.bundles.get(..kept)?;
        let mut without: Vec<ObjectId> =
            front.iter().flat_map(|bundle| bundle.tips.iter().map(|tip| tip.0)).collect();
        without.sort_unstable();
        without.dedup();
        let tips: HashSet<ObjectId> = without.iter().copied().collect();
        let behind = base.branches().filter(|(_, id)| !tips.contains(id));
        let moved = branches.iter().filter(|own| own.line.is_pushed());
        let named = behind.map(|(branch, _)| branch).chain(moved.map(|own| own.branch.clone()));
        let told = self.sent_operations(named, tips.clone()).ok()?;
        let plan = plan_increment(self.repo, &wanted, &without, Some(&told)).ok()?;
        // The remote may have turns that retention has expired here.
        let is_whole = plan.manifest.sessions.iter().all(|session| session.elided == 0);
        (is_whole && plan.manifest.grafts.is_empty()).then(|| PushDraft::standalone(plan, kept))
    }

    /// Writes a head that lists the bundle instead of others, unless another client writes first.
    fn replace(&self, known: &KnownHead, draft: PushDraft) -> Result<Option<KnownHead>> {
        let (next, _) = self.upload(&known.head, Some(known), Some(draft), &[])?;
        match self.swap(
            &SessionHead::key(self.bucket.names(), &next.session)?,
            Some(known),
            &next,
        )? {
            SwapOutcome::Done(version) => {
                let folded = KnownHead { head: next, version };
                self.record_head(&folded, &format!("merge bundles on {}", self.name))?;
                Ok(Some(folded))
            }
            SwapOutcome::Moved(found) => {
                self.delete_lost_bundle(&next, &found)?;
                Ok(None)
            }
        }
    }
}

/// Returns how many bundles precede the newest ones that are small.
fn count_before_small(bundles: &[PushedBundle]) -> usize {
    let mut left = PUSHED_BYTES;
    let newest = bundles.iter().rev();
    let small = newest.take_while(|bundle| match left.checked_sub(bundle.bytes) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    });
    bundles.len() - small.count()
}

/// Returns how many leading bundles to keep when folding the others: candidates, the best first.
fn candidates(bundles: &[PushedBundle]) -> Vec<usize> {
    let Some((first, others)) = bundles.split_first() else { return Vec::new() };
    let mut worth = Vec::new();
    if bytes(others).saturating_mul(FIRST_TO_OTHERS) > first.bytes {
        worth.push(0);
    }
    if bundles.len() > MAX_BUNDLES {
        worth.push(count_before_newest(bundles));
    }
    worth
}

/// Returns how many leading bundles to keep when folding the newest of many: those with at least
/// twice the bytes of all bundles after them, so that each byte is rewritten about log n times.
fn count_before_newest(bundles: &[PushedBundle]) -> usize {
    let mut kept = (bundles.len() - MAX_BUNDLES / 2).min(MAX_BUNDLES - 2);
    let mut behind = bytes(bundles.get(kept..).unwrap_or_default());
    while let Some(last) = kept.checked_sub(1).and_then(|at| bundles.get(at)) {
        if last.bytes >= behind.saturating_mul(2) {
            break;
        }
        behind = behind.saturating_add(last.bytes);
        kept -= 1;
    }
    kept
}

fn bytes(bundles: &[PushedBundle]) -> u64 {
    bundles.iter().fold(0, |sum, bundle| bundle.bytes.saturating_add(sum))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::hex::Hex;
    use super::*;

    fn bundle(bytes: u64) -> PushedBundle {
        PushedBundle {
            name: String::new(),
            bytes,
            hash: Hex([0; 32]),
            tips: Vec::new(),
            index: None,
        }
    }

    /// Bundles of a session on a remote, by size only, and the bytes sent.
    #[derive(Default)]
    struct Sizes {
        bundles: Vec<PushedBundle>,
        pushed: u64,
        /// Bytes rewritten by pushes.
        again: u64,
        /// Bytes written by background folding.
        folded: u64,
    }

    impl Sizes {
        fn make_one(&mut self, kept: usize, more: u64) -> u64 {
            let again = bytes(&self.bundles[kept..]);
            self.bundles.truncate(kept);
            self.bundles.push(bundle(again + more));
            again
        }

        fn push(&mut self, turn: u64) {
            let all = self.bundles.len();
            let due = candidates(&self.bundles).first().copied().filter(|_| all >= MAX_UNFOLDED);
            let again = self.make_one(due.unwrap_or(count_before_small(&self.bundles)), turn);
            assert!(again <= PUSHED_BYTES || due.is_some(), "a push waits for {again} bytes");
            (self.pushed, self.again) = (self.pushed + turn, self.again + again);
            assert!(self.bundles.len() <= MAX_UNFOLDED);
        }

        fn fold(&mut self) {
            if let Some(&kept) = candidates(&self.bundles).first() {
                self.folded += self.make_one(kept, 0);
            }
            let (first, others) = self.bundles.split_first().unwrap();
            assert!(bytes(others) * FIRST_TO_OTHERS <= first.bytes, "a clone reads a tenth more");
            assert!(self.bundles.len() <= MAX_BUNDLES);
        }
    }

    /// Bytes per push: similar sizes, or anything between a sentence and 4 MiB.
    fn turns() -> impl Strategy<Value = Vec<u64>> {
        let alike = (6..18_u32).prop_map(|power| (power, power + 1));
        let bounds = prop_oneof![3 => alike, 1 => Just((6, 22))];
        bounds.prop_flat_map(|(least, most)| {
            let turn = (least..most, 0..1_u64 << 22);
            prop::collection::vec(turn, 10_000).prop_map(|turns| {
                turns.iter().map(|(at, more)| (1 << at) + more % (1 << at)).collect()
            })
        })
    }

    turntree_properties::properties! {
        cases = 12;

        #[test]
        fn ten_thousand_pushes_leave_few_bundles_and_each_byte_is_written_some_times_only(
            turns in turns(),
            // Background folding runs after every push, after some, or never.
            fold_after in prop_oneof![Just(1), 2..40_usize, Just(usize::MAX)],
        ) {
            let mut sizes = Sizes::default();
            let pushes = turns.len() as u64;
            for (number, turn) in turns.into_iter().enumerate() {
                sizes.push(turn);
                if number % fold_after == fold_after - 1 {
                    sizes.fold();
                }
            }
            let Sizes { bundles, pushed, again, folded } = sizes;
            prop_assert_eq!(bytes(&bundles), pushed);
            let by_small = pushes * PUSHED_BYTES;
            prop_assert!(again.saturating_sub(by_small) + folded <= 20 * pushed, "{again} {folded} of {pushed}");
            if fold_after == 1 {
                prop_assert!(again <= by_small, "a push never waits for more");
            }
        }
    }
}
