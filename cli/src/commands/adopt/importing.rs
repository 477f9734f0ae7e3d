//! The import of `adopt`: batch after batch, each packed before the next one, so that neither memory nor
//! the disk beside what stays grows with all of it; with `--reclaim=each` the files of a batch go behind it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use turntree::maintenance::auto;
use turntree::repo::Signature;
use turntree::store::RefTable;
use turntree::workspace::AdoptionCache;
use turntree_exchange::agents::{
    AdoptOptions, Adopted, FoundSession, Outcome, adopt, batch_bytes, batches, newest,
};

use super::reclaim::{Files, Reclaim};
use crate::program::invocation::{Invocation, stamp};
use crate::view::error::Result;
use crate::view::output::warn;
use crate::view::progress::Meter;

/// The journal that an adoption leaves unpacked, at most, in bytes.
const LEFT_BYTES: u64 = 1 << 20;

/// The most bytes of a batch whose files go behind it: the disk may have no room for more.
const MAX_EACH_BYTES: u64 = 64 << 20;

/// An import of the sessions that were found.
pub(super) struct Importing<'a> {
    /// Set when agents may be at work on what was found.
    pub(super) is_live: bool,
    /// What removes the files behind each batch, and where it says what became of them.
    pub(super) each: Option<(&'a Reclaim<'a>, &'a mut Files)>,
}

/// What a store has of files already.
pub(super) struct Known(Option<(AdoptionCache, Arc<RefTable>)>);

impl Known {
    /// Nothing where there is no store yet.
    pub(super) fn of(run: &Invocation) -> Result<Self> {
        let repo = if run.would_create()? { None } else { Some(run.open()?) };
        Ok(Self(repo.map(|repo| (AdoptionCache::peek(repo.store()), repo.refs()))))
    }

    /// Returns whether a file is as it was when it was adopted, and its branch, too.
    pub(super) fn has(&self, found: &FoundSession) -> bool {
        self.0.as_ref().is_some_and(|(seen, refs)| {
            seen.unchanged(refs, &found.path, found.entry.as_deref()).is_some()
        })
    }
}

impl Importing<'_> {
    /// Adopts with a bar, and keeps what was seen.
    pub(super) fn run(
        mut self,
        run: &Invocation,
        sessions: Vec<FoundSession>,
    ) -> Result<Vec<Adopted>> {
        let bytes = |sessions: &mut dyn Iterator<Item = &FoundSession>| {
            sessions.map(|found| found.bytes).sum::<u64>()
        };
        let all = bytes(&mut sessions.iter());
        let known = Known::of(run)?;
        let batch_bytes = batch_bytes(bytes(&mut sessions.iter().filter(|it| !known.has(it))));
        let of_each = if self.each.is_some() { MAX_EACH_BYTES } else { u64::MAX };
        let head = newest(&sessions).map(str::to_owned);
        let batches = batches(sessions, batch_bytes.min(of_each), |found| known.has(found));
        drop(known);

        let (meter, done) = (Mutex::new(Meter::new("adopt")), AtomicU64::new(0));
        let passed = |bytes: u64| {
            let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
            // Who shows it now shows enough.
            if let Ok(mut meter) = meter.try_lock() {
                meter.show(done.min(all), all);
            }
        };
        let options = AdoptOptions {
            stamp: stamp()?,
            adoption: Arc::default(),
            is_live: self.is_live,
            head: head.as_deref(),
            passed: &passed,
        };
        let mut adopted = Vec::new();
        let mut batches = batches.into_iter().peekable();
        while let Some(batch) = batches.next() {
            let repo = run.open_or_create()?;
            let mut seen = AdoptionCache::open(repo.store());
            let outcomes = adopt(&repo, batch, &options, &mut seen);
            if let Err(error) = seen.save() {
                warn(&format!("the next time reads all files again: {error}"));
            }
            drop(repo);
            let outcomes = outcomes?;
            let is_new = |it: &Adopted| matches!(it.outcome, Outcome::Imported(_));
            if run.may_maintain() && outcomes.iter().any(is_new) {
                match batches.peek() {
                    Some(_) => pack(run, &options.stamp, batch_bytes / 2),
                    // The watch imports a little at a time, and its store is packed beside it.
                    None if self.is_live => {}
                    None => pack(run, &options.stamp, LEFT_BYTES),
                }
            }
            if let Some((reclaim, files)) = &mut self.each {
                // A handle of its own: what is compared was read from the disk.
                let sessions = outcomes.iter().map(|it| it.found.clone()).collect();
                reclaim.take(&*run.open()?, sessions, files)?;
            }
            adopted.extend(outcomes);
        }
        drop(meter.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(adopted)
    }
}

/// Packs the journal if it has that many bytes. What is in it is durable, so a disk without room for a pack
/// is no reason to stop.
fn pack(run: &Invocation, stamp: &Signature, bytes: u64) {
    let packed = run.open().and_then(|repo| {
        while auto::pack(&repo, stamp, bytes)?.is_some() {}
        Ok(())
    });
    if let Err(error) = packed {
        warn(&format!("not packed: {}", error.message()));
    }
}
