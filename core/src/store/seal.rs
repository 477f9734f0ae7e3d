//! Sealing: a segment that is full, or one idle segment too many, gets an index and is mapped.
//!
//! Everything happens in an order that a crash may end anywhere: the index is a record like any
//! other; the manifest that names it is a new file; and a segment with an index that no manifest
//! names is read like any other, until somebody seals it again.

use std::sync::Arc;

use super::index::{Sealed, build};
use super::journal::Undurable;
use super::manifest::Manifest;
use super::ownership::Owned;
use super::refs::RefTable;
use super::scan::{Depth, End, Found, Tail, scan};
use super::{Store, lock, read, write};
use crate::error::{Error, ErrorKind, Result};

/// Times that a manifest is tried before giving way to the others that publish.
const MAX_ATTEMPTS: usize = 16;

impl Store {
    /// Seals a segment this handle owns, and gives it up, also when sealing fails.
    ///
    /// Its lock ends here, unless a transaction is open that may have put objects into it to which
    /// no ref leads yet.
    pub(super) fn seal(&self, owned: Owned) -> Result<()> {
        let index = self.write_index(&owned);
        if let Some(segment) = lock(&self.journal).segment(&owned.segment) {
            segment.owned = false;
        }
        let index = index?;
        let refs = self.durable_refs()?;
        if !self.publish(&owned, index, &refs)? {
            return Ok(());
        }
        let sealed = Arc::new(Sealed::open(Arc::clone(&owned.segment), index)?);
        {
            let mut journal = lock(&self.journal);
            let mut view = write(&self.view);
            let files = Arc::make_mut(&mut view.files);
            // Another thread may have read the new manifest in between.
            if !files.sealed.iter().any(|known| known.segment().id == owned.segment.id) {
                files.sealed.push(sealed);
            }
            view.release(|id| id == owned.segment.id);
            journal.seal(&owned.segment);
        }
        self.keep_locked(owned);
        Ok(())
    }

    /// Appends the index, unless it is there, and returns its offset.
    fn write_index(&self, owned: &Owned) -> Result<u64> {
        let mut found = Found::default();
        let mut tail = Tail::default();
        scan(&owned.segment, &mut tail, Depth::Next, &mut found)?;
        if tail.end != End::Index {
            let record = build(found.objects).finish(
                owned.segment.id,
                tail.sequence + 1,
                tail.trailer,
                tail.offset,
            );
            let failed =
                |source| Error::io(format!("write {}", owned.segment.place(tail.offset)), source);
            owned.file.write_at(&record.bytes, tail.offset).map_err(failed)?;
            tail = Tail { last: tail.offset, sequence: tail.sequence + 1, ..tail };
        }
        let Tail { last: offset, sequence, .. } = tail;
        let segment = Arc::clone(&owned.segment);
        self.sync(&Undurable { segment, offset, sequence }, &*owned.file)?;
        Ok(offset)
    }

    /// The refs after everything that is in the journal now, all of it durable.
    pub(super) fn durable_refs(&self) -> Result<Arc<RefTable>> {
        let (refs, others) = {
            let _ref_lock = self.superblock.lock(&*self.io, self.lock_timeout)?;
            let mut journal = lock(&self.journal);
            journal.catch_up(&*self.io, &self.view, Depth::Next)?;
            (Arc::clone(&read(&self.view).refs), journal.all_not_durable())
        };
        for other in others {
            self.sync(&other, &*other.segment.file)?;
        }
        Ok(refs)
    }

    /// Publishes a manifest that names the segment; `false` when packs have replaced it.
    fn publish(&self, owned: &Owned, index: u64, refs: &RefTable) -> Result<bool> {
        let store = self.superblock.store;
        for _ in 0..MAX_ATTEMPTS {
            let (mut manifest, _) = Manifest::load(&*self.io, &self.dir, store)?;
            if manifest.retired.contains(&owned.segment.id) {
                return Ok(false);
            }
            if manifest.sealed.iter().any(|(id, _)| *id == owned.segment.id) {
                return Ok(true);
            }
            manifest.generation += 1;
            manifest.sealed.push((owned.segment.id, index));
            if manifest.refs.sequence < refs.sequence {
                manifest.refs = refs.clone();
            }
            if manifest.publish(&*self.io, &self.dir, store)? {
                return Ok(true);
            }
        }
        let message = format!("{}: others keep publishing manifests", self.dir.display());
        Err(Error::new(ErrorKind::Locked, message))
    }
}
