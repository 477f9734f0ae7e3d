//! Publishes manifests: the only code that links a generation of the manifest to its name.
//!
//! ```text
//! look at the refs ── make them durable ── newest manifest + change ── write it, sync it
//! └ ref lock ┘
//!      ── nothing newer? same epoch? may it hold? ── link ── sync the directory
//!         └──────────────── ref lock ─────────────┘
//! ```
//!
//! No process reads the operations in a file that a manifest lists: a pack and a sealed segment are
//! only searched through their index, and a retired segment is not read. So every generation must
//! keep this invariant, or acknowledged operations are lost:
//!
//! > Every operation in a file that a generation lists, sealed, packed or retired, is in its refs,
//! > and everything that its refs include is durable.
//!
//! It holds by induction. A generation is its predecessor with one change, and its refs never move
//! back. The owner of each added file has locked it and read it to the end before the refs are
//! read. And these refs include every committed operation, because they come from a complete view:
//!
//! - the ref lock is held, so no process commits concurrently;
//! - the epoch of the store is that of the view, so no segment was removed with operations that
//!   this handle has not read;
//! - every existing segment that the view's manifest does not list has been read.
//!
//! A view of an older epoch misses the operations in the removed segments. Later operations wait
//! for parents that it never sees, so its refs end before them. Such a view publishes nothing.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::store::format::manifest::{self, Manifest, PreparedManifest};
use crate::store::io::IoFile;
use crate::store::read::refs::RefTable;
use crate::store::read::scan::ScanDepth;
use crate::store::{Store, lock, read};

/// Attempts to publish. An attempt fails if another process published first.
const MAX_ATTEMPTS: usize = 64;

/// A change to the newest manifest.
pub(in crate::store) trait ManifestEdit {
    /// Applies the change to the next generation. `refs` are durable and those of a complete view;
    /// the generation gets them, unless it has newer ones. Returns `false` if there is nothing to
    /// change.
    fn edit(&mut self, manifest: &mut Manifest, refs: &RefTable) -> Result<bool>;

    /// Returns whether the change still seems valid. Called after the generation is written, before
    /// the ref lock delays any writer.
    fn look_ahead(&mut self) -> Result<bool> {
        Ok(true)
    }

    /// Returns whether the change is valid. Called under the ref lock, when nothing can change.
    fn may_hold(&mut self) -> Result<bool> {
        Ok(true)
    }

    /// Returns the collector's lock, if the change removes files. Such a change is announced.
    fn collector(&self) -> Option<&dyn IoFile> {
        None
    }

    /// Returns true if the change may follow manifests that do not verify. Only a repair knows
    /// their content.
    fn replaces_damaged(&self) -> bool {
        false
    }
}

/// The outcome of an attempt to publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum PublishOutcome {
    /// The change was published.
    Done,
    /// There was nothing to change.
    Unchanged,
    /// The change rejected itself. Nothing was published.
    Withheld,
    /// A collection has removed files since this handle read the store: reload and try again.
    Stale,
}

impl Store {
    /// Publishes the newest manifest with a change.
    ///
    /// # Errors
    /// `Locked` when other processes keep publishing, `Corrupt` when a newer manifest is damaged,
    /// `Io` when the disk refuses. After an error nothing was published, as far as the disk
    /// reports.
    pub(in crate::store) fn publish(
        &self,
        change: &mut dyn ManifestEdit,
    ) -> Result<PublishOutcome> {
        for _ in 0..MAX_ATTEMPTS {
            let Some(refs) = self.complete_refs()? else { return Ok(PublishOutcome::Stale) };
            if let Some(published) = self.try_publish(change, &refs)? {
                return Ok(published);
            }
        }
        let message =
            format!("{}: other processes keep publishing manifests: try again", self.dir.display());
        Err(Error::new(ErrorKind::Locked, message))
    }

    /// Returns the refs after every committed operation, all of them durable; `None` if the view is
    /// not of the newest epoch.
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
            journal.catch_up(&*self.io, &self.view, ScanDepth::Next)?;
            journal.resolve_orphans(&self.view);
            if let Some(lost) = journal.failed_syncs().first() {
                // The refs include it, and a crash would lose it: the next commit stores it again.
                let place = lost.segment.place(lost.offset);
                let message =
                    format!("{place}: a sync failed: commit again to store the operation again");
                return Err(Error::new(ErrorKind::Io, message));
            }
            (Arc::clone(&read(&self.view).refs), journal.all_unsynced())
        };
        // A manifest outlives the segments it retires. If a crash took an operation from its
        // segment, it would be in the refs of the manifest and nowhere else.
        for other in others {
            self.sync(&other, &*other.segment.file)?;
        }
        Ok(Some(refs))
    }

    /// Makes one attempt; returns `None` if another process published first.
    fn try_publish(
        &self,
        change: &mut dyn ManifestEdit,
        refs: &RefTable,
    ) -> Result<Option<PublishOutcome>> {
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
            return Ok(Some(PublishOutcome::Unchanged));
        }
        manifest.advance(refs);
        let Some(prepared) = manifest.prepare(io, dir, self.superblock.store)? else {
            return Ok(None);
        };
        if !change.look_ahead()? {
            prepared.discard(io)?;
            return Ok(Some(PublishOutcome::Withheld));
        }
        match self.link_if_newest(change, &prepared, newest)? {
            LinkOutcome::Linked => {
                self.io.sync_names(dir)?;
                // A repair still needs the damaged ones.
                if !change.replaces_damaged() {
                    manifest.sweep(io, dir)?;
                }
                Ok(Some(PublishOutcome::Done))
            }
            LinkOutcome::Overtaken => prepared.discard(io).map(|()| None),
            LinkOutcome::Refused(published) => prepared.discard(io).map(|()| Some(published)),
        }
    }

    /// Links a generation to its name, if its predecessor is still the newest. Holds the ref lock,
    /// so no process commits, publishes, or removes files.
    fn link_if_newest(
        &self,
        change: &mut dyn ManifestEdit,
        prepared: &PreparedManifest,
        newest: u64,
    ) -> Result<LinkOutcome> {
        let io = &*self.io;
        let _ref_lock = self.superblock.lock(io, self.lock_timeout)?;
        if let Some(collector) = change.collector() {
            // Without the lock another collection may have deleted the new pack as a leftover.
            self.check_collector(collector)?;
        }
        // Since the refs were read, a collection may have removed segments whose operations this
        // view has not read: its refs would end before them.
        if self.superblock.epoch()? != read(&self.view).epoch {
            return Ok(LinkOutcome::Refused(PublishOutcome::Stale));
        }
        if manifest::newest_generation(io, &self.dir)? != newest {
            return Ok(LinkOutcome::Overtaken);
        }
        if !change.may_hold()? {
            return Ok(LinkOutcome::Refused(PublishOutcome::Withheld));
        }
        let linked = match change.collector() {
            Some(_) => self.link_and_announce(prepared)?,
            None => prepared.link(io)?,
        };
        Ok(if linked { LinkOutcome::Linked } else { LinkOutcome::Overtaken })
    }

    /// [`PreparedManifest::link`] for a generation that removes files: announces the change, so
    /// that every process with the store open reloads. Only under the ref lock.
    fn link_and_announce(&self, prepared: &PreparedManifest) -> Result<bool> {
        let io = &*self.io;
        self.superblock.begin_change(io)?;
        let linked = prepared.link(io);
        self.superblock.end_change(io)?;
        linked
    }
}

/// The outcome of linking a generation.
enum LinkOutcome {
    Linked,
    /// Another process has published since it was prepared.
    Overtaken,
    Refused(PublishOutcome),
}
