//! Pages of mapped files: what was read of them is given back now and then, so that who walks through a
//! large store holds a part of it in memory, not all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::view::OpenFiles;

/// The bytes that the system brings into memory around each one that is read.
const STRETCH_BYTES: usize = 64 << 10;

/// Stretches that are read before what is in memory is given back.
const STRETCHES_IN_MEMORY: usize = 1 << 10;

/// Files of no more bytes altogether may stay in memory.
const FEW_BYTES: u64 = (STRETCHES_IN_MEMORY * STRETCH_BYTES) as u64;

/// Stretches of an object that is read alone: where it lies, and two of the index that says so.
pub(in crate::store) const STRETCHES_OF_ONE: usize = 3;

/// Stretches of a unit of reading, which is a part of a segment of 128 KiB or a block.
const STRETCHES_OF_UNIT: usize = 2;

/// Counts what is read of maps.
#[derive(Debug, Default)]
pub(in crate::store) struct PageCounter(AtomicUsize);

impl PageCounter {
    /// Notes that so many stretches of these files were read, and now and then gives back what is in
    /// memory of them. Costs a system call for each file that was read then.
    pub(in crate::store) fn note(&self, stretches: usize, files: impl FnOnce() -> Arc<OpenFiles>) {
        let before = self.0.fetch_add(stretches, Ordering::Relaxed);
        let after = before.wrapping_add(stretches);
        if before / STRETCHES_IN_MEMORY != after / STRETCHES_IN_MEMORY {
            files().let_pages_go_if_many();
        }
    }
}

impl OpenFiles {
    /// Gives back the memory of what was read of the files. Costs a system call for each that was read.
    pub(in crate::store) fn let_pages_go(&self) {
        self.sealed.iter().for_each(|sealed| sealed.let_touched_pages_go());
        self.packs.iter().for_each(|pack| pack.let_pages_go());
    }

    /// The same, if all files have too many bytes to stay.
    fn let_pages_go_if_many(&self) {
        let sealed = self.sealed.iter().map(|sealed| sealed.file_bytes());
        let packs = self.packs.iter().map(|pack| pack.file_bytes());
        if sealed.chain(packs).sum::<u64>() > FEW_BYTES {
            self.let_pages_go();
        }
    }
}

/// The stretches of so many objects whose places are known, which lie in so many units of reading.
pub(in crate::store) fn stretches_in(objects: usize, units: usize) -> usize {
    objects.min(units * STRETCHES_OF_UNIT)
}

/// The stretches of so many objects that lie together and of what was read for them: each object may lie
/// in one of its own, as far as there are so many, and so may its place in the index.
pub(in crate::store) fn stretches_of(objects: usize, bytes: usize) -> usize {
    bytes / STRETCH_BYTES + STRETCHES_OF_ONE.min(objects + 1)
}
