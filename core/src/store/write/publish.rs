//! Publishing: the one place where a generation of the manifest gets its name.
//!
//! ```text
//! look at the refs ── make them durable ── newest manifest + change ── write it, sync it
//! └ ref lock ┘
//!      ── nothing newer? same epoch? may it hold? ── link ── sync the directory
//!         └──────────────── ref lock ─────────────┘
//! ```
//!
//! Nobody reads the operations in a file that a manifest lists: a pack and a sealed segment are only
//! looked into by their index, and a retired segment not at all. So this must hold of every
//! generation, and what is acknowledged is lost where it does not:
//!
//! > Every operation that lies in a file it lists, sealed, packed or retired, is in its refs, and all
//! > that its refs include is durable.
//!
//! It holds by induction. A generation is the newest one before it with one change, and its refs never
//! go back. What the change adds, its owner has locked and read to the end before the refs are looked
//! at. And these refs include all that was committed, because they are those of a complete view:
//!
//! - the ref lock is held, so nobody commits meanwhile;
//! - the epoch of the store is that of the view, so no segment went away with operations that this
//!   handle has not read;
//! - every segment that is there, and that the view's manifest does not list, has been read.
//!
//! A view of an older epoch misses what lay in the segments that were taken away. Operations behind
//! that wait for parents that it will never see, and its refs end before them. It publishes nothing.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::store::format::manifest::{self, Manifest, Prepared};
use crate::store::io::IoFile;
use crate::store::read::refs::RefTable;
use crate::store::read::scan::Depth;
use crate::store::{Store, lock, read};

/// Times that a change is made again on top of what others have published.
const MAX_ATTEMPTS: usize = 64;

/// A change of what the newest manifest lists.
pub(in crate::store) trait ManifestEdit {
    /// Makes it in the next generation. `refs` are those of a complete view and durable; the
    /// generation gets them, unless it has newer ones. `false` when there is nothing to change.
    fn edit(&mut self, manifest: &mut Manifest, refs: &RefTable) -> Result<bool>;

    /// Asked when the generation is written, before anybody waits for the ref lock: whether it still
    /// may hold, as far as that can be told now.
    fn look_ahead(&mut self) -> Result<bool> {
        Ok(true)
    }

    /// Asked under the ref lock, when nothing can change any more: whether it may hold.
    fn may_hold(&mut self) -> Result<bool> {
        Ok(true)
    }

    /// The lock of the collector, held by whoever takes files away: then the change is announced.
    fn collector(&self) -> Option<&dyn IoFile> {
        None
    }

    /// Returns true if it may follow on manifests that do not verify: only a repair knows what
    /// they had.
    fn replaces_damaged(&self) -> bool {
        false
    }
}

/// The outcome of an attempt to publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Published {
    /// It holds.
    Done,
    /// There was nothing to change.
    Unchanged,
    /// The change itself did not want it any more. Nothing was published.
    Withheld,
    /// A collection has taken files away since this handle looked: it must reload, and look again.
    Stale,
}

impl Store {
    /// Publishes the newest manifest with a change.
    ///
    /// # Errors
    /// `Locked` when others publish all the time, `Corrupt` when a newer manifest is damaged, `Io` when
    /// the disk refuses. Nothing was published then, as far as the disk can tell.
    pub(in crate::store) fn publish(&self, change: &mut dyn ManifestEdit) -> Result<Published> {
        for _ in 0..MAX_ATTEMPTS {
            let Some(refs) = self.complete_refs()? else { return Ok(Published::Stale) };
            if let Some(published) = self.try_publish(change, &refs)? {
                return Ok(published);
            }
        }
        let message = format!("{}: others keep publishing manifests", self.dir.display());
        Err(Error::new(ErrorKind::Locked, message))
    }

    /// The refs after every operation that was committed, all of them durable; `None` from a view that
    /// is not of the newest epoch.
    ///
    /// # Errors
    /// `Io` when a segment cannot be read or made durable.
    pub(in crate::store) fn complete_refs(&self) -> Result<Option<Arc<RefTable>>> {
        let (refs, others) = {
            let _ref_lock = self.superblock.lock(&*self.io, self.lock_timeout)?;
            let mut journal = lock(&self.journal);
            if self.superblock.epoch()? != read(&self.view).epoch {
                return Ok(None);
            }
            journal.catch_up(&*self.io, &self.view, Depth::Next)?;
            journal.resolve_orphans(&self.view);
            if let Some(lost) = journal.lost().first() {
                // The refs include it, and a crash would take it: the next commit stores it again.
                let place = lost.segment.place(lost.offset);
                let message = format!("{place}: a sync failed: commit again, which stores it anew");
                return Err(Error::new(ErrorKind::Io, message));
            }
            (Arc::clone(&read(&self.view).refs), journal.all_unsynced())
        };
        // A manifest outlives the segments it retires: an operation in its refs that a crash takes
        // from its segment would be in the refs and nowhere else.
        for other in others {
            self.sync(&other, &*other.segment.file)?;
        }
        Ok(Some(refs))
    }

    /// One attempt; `None` when others were faster to publish something else.
    fn try_publish(
        &self,
        change: &mut dyn ManifestEdit,
        refs: &RefTable,
    ) -> Result<Option<Published>> {
        let (io, dir) = (&*self.io, &*self.dir);
        let (mut manifest, damaged) = Manifest::load(io, dir, self.superblock.store)?;
        if let Some(damage) = damaged.first().filter(|_| !change.replaces_damaged()) {
            return Err(Error::malformed(&damage.place, "a valid manifest"));
        }
        // Above the damaged ones too: a generation with the number of one that exists is never linked.
        let taken = damaged.iter().filter_map(|finding| manifest::generation(&finding.place));
        let newest = taken.chain([manifest.generation]).max().unwrap_or_default();
        manifest.generation = newest + 1;
        if !change.edit(&mut manifest, refs)? {
            return Ok(Some(Published::Unchanged));
        }
        manifest.advance(refs);
        let Some(prepared) = manifest.prepare(io, dir, self.superblock.store)? else {
            return Ok(None);
        };
        if !change.look_ahead()? {
            prepared.discard(io)?;
            return Ok(Some(Published::Withheld));
        }
        match self.link_last(change, &prepared, newest)? {
            Verdict::Linked => {
                self.io.sync_names(dir)?;
                // A repair still needs the damaged ones.
                if !change.replaces_damaged() {
                    manifest.sweep(io, dir)?;
                }
                Ok(Some(Published::Done))
            }
            Verdict::Overtaken => prepared.discard(io).map(|()| None),
            Verdict::Refused(published) => prepared.discard(io).map(|()| Some(published)),
        }
    }

    /// Gives a generation its name under the ref lock, where nobody commits, publishes, or takes files
    /// away, if what it was made from is still the newest.
    fn link_last(
        &self,
        change: &mut dyn ManifestEdit,
        prepared: &Prepared,
        newest: u64,
    ) -> Result<Verdict> {
        let io = &*self.io;
        let _ref_lock = self.superblock.lock(io, self.lock_timeout)?;
        if let Some(collector) = change.collector() {
            // Without the lock another collection may have taken the new pack for a leftover.
            self.check_collector(collector)?;
        }
        // Since the refs were looked at, a collection may have taken away segments whose operations
        // this view has not read: its refs would end before them.
        if self.superblock.epoch()? != read(&self.view).epoch {
            return Ok(Verdict::Refused(Published::Stale));
        }
        if manifest::newest_generation(io, &self.dir)? != newest {
            return Ok(Verdict::Overtaken);
        }
        if !change.may_hold()? {
            return Ok(Verdict::Refused(Published::Withheld));
        }
        let linked = match change.collector() {
            Some(_) => self.link_announced(prepared)?,
            None => prepared.link(io)?,
        };
        Ok(if linked { Verdict::Linked } else { Verdict::Overtaken })
    }

    /// [`Prepared::link`] for a generation that takes files away: everybody who has the store open
    /// will look again. Only under the ref lock.
    fn link_announced(&self, prepared: &Prepared) -> Result<bool> {
        let io = &*self.io;
        self.superblock.begin_change(io)?;
        let linked = prepared.link(io);
        self.superblock.end_change(io)?;
        linked
    }
}

/// The outcome of linking a generation.
enum Verdict {
    Linked,
    /// Others have published since it was made.
    Overtaken,
    Refused(Published),
}
