//! Releases pages of mapped files from time to time, so that a process that reads all of a large
//! store keeps only a part of it in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::view::OpenFiles;

/// The bytes that the system reads into memory around each access.
const STRETCH_BYTES: usize = 64 << 10;

/// Stretches to read before the memory is released.
const STRETCHES_IN_MEMORY: usize = 1 << 10;

/// Files up to this total size may stay in memory.
const FEW_BYTES: u64 = (STRETCHES_IN_MEMORY * STRETCH_BYTES) as u64;

/// Stretches that reading a single object touches: its own, and two of the index.
pub(in crate::store) const STRETCHES_OF_ONE: usize = 3;

/// Stretches of a unit of reading, which is a part of a segment of 128 KiB or a block.
const STRETCHES_OF_UNIT: usize = 2;

/// Counts the stretches read of mappings.
#[derive(Debug, Default)]
pub(in crate::store) struct PageCounter(AtomicUsize);

impl PageCounter {
    /// Counts `stretches` that were read of these files, and from time to time releases their
    /// memory. A release costs a system call for each file that was read.
    pub(in crate::store) fn note(&self, stretches: usize, files: impl FnOnce() -> Arc<OpenFiles>) {
        let before = self.0.fetch_add(stretches, Ordering::Relaxed);
        let after = before.wrapping_add(stretches);
        if before / STRETCHES_IN_MEMORY != after / STRETCHES_IN_MEMORY {
            files().release_pages_if_many();
        }
    }
}

impl OpenFiles {
    /// Releases the memory of all pages that were read. Costs a system call for each file that was
    /// read.
    pub(in crate::store) fn release_pages(&self) {
        self.sealed.iter().for_each(|sealed| sealed.release_touched_pages());
        self.packs.iter().for_each(|pack| pack.release_pages());
    }

    /// Releases the memory if the files are too large to stay.
    fn release_pages_if_many(&self) {
        let sealed = self.sealed.iter().map(|sealed| sealed.file_bytes());
        let packs = self.packs.iter().map(|pack| pack.file_bytes());
        if sealed.chain(packs).sum::<u64>() > FEW_BYTES {
            self.release_pages();
        }
    }
}

/// Returns the stretches that `objects` objects with known places in `units` units of reading
/// touch.
pub(in crate::store) fn stretches_in(objects: usize, units: usize) -> usize {
    objects.min(units * STRETCHES_OF_UNIT)
}

/// Returns the stretches of objects that are stored together, and of the `bytes` read for them.
/// Each object may touch a stretch of its own, up to a bound, and so may its index entry.
pub(in crate::store) fn stretches_of(objects: usize, bytes: usize) -> usize {
    bytes / STRETCH_BYTES + STRETCHES_OF_ONE.min(objects + 1)
}
