//! The import of `adopt`: batch after batch, each packed before the next one, so that neither
//! memory nor the temporary disk space grows with the total; with `--reclaim=each` the originals of
//! a batch are removed after it.

use std::sync::Arc;

use turntree::maintenance::auto;
use turntree::platform::free_bytes;
use turntree::store::RefTable;
use turntree::workspace::AdoptionCache;
use turntree_exchange::agents::{
    AdoptOptions, Adopted, FoundSession, Outcome, adopt, batch_bytes, batches, newest,
};

use super::reclaim::{Files, Reclaim};
use crate::program::invocation::{Invocation, stamp};
use crate::view::error::Result;
use crate::view::output::warn;
use crate::view::progress::SharedMeter;

/// The journal that an adoption leaves unpacked, at most, in bytes.
const LEFT_BYTES: u64 = 1 << 20;

/// The most bytes of a batch whose originals are removed after it: the disk may have no room for
/// more.
const MAX_EACH_BYTES: u64 = 64 << 20;

/// A batch whose originals are removed after it takes one part in so many of the free space: its
/// journal may be larger than the batch, and exists until its pack is written.
const FREE_PARTS: u64 = 8;

/// An adoption of at least so many bytes leaves the search index to the maintenance process: filling
/// it takes longer than a search should.
const INDEXED_BYTES: u64 = 4 << 20;

/// An import of the sessions that were found.
pub(super) struct Importing<'a> {
    /// Set when agents may be writing to the sessions.
    pub(super) is_live: bool,
    /// Removes the originals after each batch, and collects the outcomes.
    pub(super) each: Option<(&'a Reclaim<'a>, &'a mut Files)>,
}

/// The files that a store has already.
pub(super) struct Known(Option<(AdoptionCache, Arc<RefTable>)>);

impl Known {
    /// Empty if there is no store yet.
    pub(super) fn of(run: &Invocation) -> Result<Self> {
        let repo = if run.would_create()? { None } else { Some(run.open()?) };
        Ok(Self(repo.map(|repo| (AdoptionCache::peek(&repo), repo.refs()))))
    }

    /// Returns whether a file is as it was when it was adopted, and its branch, too.
    pub(super) fn has(&self, found: &FoundSession) -> bool {
        self.0.as_ref().is_some_and(|(seen, refs)| {
            seen.unchanged(refs, &found.path, found.entry.as_deref()).is_some()
        })
    }
}

impl Importing<'_> {
    /// Adopts with a progress bar, and saves the adoption cache.
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
        // With removal after each batch, the size of a batch is decided when it begins.
        let parts = if self.each.is_some() { 1 } else { batch_bytes };
        let head = newest(&sessions).map(str::to_owned);
        let batches = batches(sessions, parts, |found| known.has(found));
        drop(known);

        let meter = SharedMeter::new("adopt", all);
        let passed = |bytes: u64| meter.pass(bytes);
        let options = AdoptOptions {
            stamp: stamp()?,
            adoption: Arc::default(),
            is_live: self.is_live,
            head: head.as_deref(),
            passed: &passed,
        };
        // The run keeps its first handle to the end. Data that a handle has written is not packed
        // before the handle is closed, so the first handle writes nothing.
        drop(run.open_or_create()?);
        let mut adopted = Vec::new();
        let mut batches = batches.into_iter().peekable();
        while let Some(mut batch) = batches.next() {
            let mut journal_bytes = batch_bytes / 2;
            if self.each.is_some() {
                let room = room(run)?;
                journal_bytes = journal_bytes.min(room);
                let most = batch_bytes.min(MAX_EACH_BYTES).min(room);
                let mut taken = bytes(&mut batch.iter());
                while let Some(more) = batches.next_if(|more| {
                    taken += bytes(&mut more.iter());
                    taken <= most
                }) {
                    batch.extend(more);
                }
            }
            let repo = run.open_or_create()?;
            let mut seen = AdoptionCache::open(&repo);
            let outcomes = adopt(&repo, batch, &options, &mut seen);
            if let Err(error) = seen.save() {
                warn(&format!("the next time reads all files again: {error}"));
            }
            drop(repo);
            let outcomes = outcomes?;
            let is_new = |it: &Adopted| matches!(it.outcome, Outcome::Imported(_));
            let packs = run.may_maintain() && outcomes.iter().any(is_new);
            let left = match batches.peek() {
                Some(_) => Some(journal_bytes),
                // The watch imports a little at a time, and a concurrent process packs its store.
                None if self.is_live => None,
                None => Some(LEFT_BYTES),
            };
            let mut packed = Ok(());
            if let Some(left) = left.filter(|_| packs) {
                packed = pack(run, left);
            }
            if let Some((reclaim, files)) = &mut self.each {
                // A new handle compares with the data on the disk.
                let sessions = outcomes.iter().map(|it| it.found.clone()).collect();
                reclaim.take(&*run.open()?, sessions, files)?;
                if packed.is_err() {
                    // There is more room now.
                    packed = pack(run, 1);
                }
            }
            // Unpacked data is durable all the same.
            if let Err(error) = packed {
                warn(&format!("not packed: {}", error.message()));
            }
            adopted.extend(outcomes);
        }
        drop(meter);
        let is_new = |it: &&Adopted| matches!(&it.outcome, Outcome::Imported(new) if new.turns > 0);
        let new: u64 = adopted.iter().filter(is_new).map(|it| it.found.bytes).sum();
        if !self.is_live && new >= INDEXED_BYTES {
            run.do_later(|later| later.indexes = true);
        }
        Ok(adopted)
    }
}

/// Packs the journal if it has that many bytes.
fn pack(run: &Invocation, bytes: u64) -> Result<()> {
    let repo = run.open()?;
    while auto::pack(&repo, bytes)?.is_some() {}
    Ok(())
}

/// Returns the most bytes of a batch whose originals are removed after it, by the free space on the
/// disk of the store.
fn room(run: &Invocation) -> Result<u64> {
    let dir = run.locate()?.dir;
    let dir = std::path::absolute(&dir).unwrap_or(dir);
    let free = dir.ancestors().find_map(|dir| free_bytes(dir).ok());
    Ok(free.unwrap_or(u64::MAX) / FREE_PARTS)
}
