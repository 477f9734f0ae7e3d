//! Compresses blocks on low-priority threads, while the caller builds the next ones.
//!
//! Blocks are returned in the order in which they were given. Which call returns a block depends
//! only on its number, never on the speed of a thread: so a pack is always written by the same
//! calls.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, sync_channel};

use bytes::Bytes;
use rayon::ThreadPool;

use super::thread_priority;
use crate::error::{Error, Result};
use crate::store::format::codec::{Effort, compress_block};
use crate::store::format::segment::Digest;
use crate::store::pack::format::layout::stored_checksum;

/// A block as it is stored.
pub(in crate::store::pack) struct CompressedBlock {
    pub(in crate::store::pack) number: u32,
    pub(in crate::store::pack) stored: Vec<u8>,
    pub(in crate::store::pack) checksum: Digest,
}

/// Compression threads, and the blocks that they have.
pub(in crate::store::pack) struct Compressors {
    effort: Effort,
    /// Blocks to compress concurrently.
    jobs: usize,
    /// Started with the first block.
    threads: Option<ThreadPool>,
    /// In the order in which they were given.
    blocks: VecDeque<PendingBlock>,
}

/// A block that was given and not taken yet.
struct PendingBlock {
    number: u32,
    raw: Bytes,
    compressed: Receiver<Result<CompressedBlock>>,
}

impl Compressors {
    /// Creates compressors that will start `jobs` threads.
    pub(in crate::store::pack) fn new(effort: Effort, jobs: usize) -> Self {
        Self { effort, jobs, threads: None, blocks: VecDeque::new() }
    }

    /// Returns true if a block must be taken before the next is given.
    pub(super) fn is_full(&self) -> bool {
        // Half as many blocks more than threads, so that no thread waits while the caller writes a
        // block.
        self.blocks.len() >= self.jobs + self.jobs / 2
    }

    /// Returns the raw bytes of a block that was given and not taken yet.
    pub(in crate::store::pack) fn raw(&self, number: u32) -> Option<Bytes> {
        let block = self.blocks.iter().find(|block| block.number == number)?;
        Some(block.raw.clone())
    }

    /// Gives a block to compress with its base.
    pub(super) fn submit(&mut self, number: u32, raw: Bytes, base: Bytes) {
        let (send, compressed) = sync_channel(1);
        let (effort, bytes) = (self.effort, raw.clone());
        let compress = move || {
            // Sending fails if the caller has dropped the block.
            let _ = send.send(compress(number, &bytes, &base, effort));
        };
        if self.threads.is_none() {
            self.threads = thread_priority::threads(self.jobs);
        }
        match &self.threads {
            Some(threads) => threads.spawn(compress),
            // If no thread can be started, compress on this one.
            None => compress(),
        }
        self.blocks.push_back(PendingBlock { number, raw, compressed });
    }

    /// Takes the block that was given first, and waits until it is compressed; returns `None` if
    /// there is none.
    ///
    /// # Errors
    /// `Io` when compression failed.
    pub(in crate::store::pack) fn take(&mut self) -> Result<Option<CompressedBlock>> {
        let Some(block) = self.blocks.pop_front() else { return Ok(None) };
        let lost = |_| Error::io("compress a block", std::io::Error::other("a thread ended"));
        block.compressed.recv().map_err(lost)?.map(Some)
    }
}

fn compress(number: u32, raw: &[u8], base: &[u8], effort: Effort) -> Result<CompressedBlock> {
    let stored = compress_block(raw, base, effort);
    let stored = stored.map_err(|source| Error::io("compress a block", source))?;
    let checksum = stored_checksum(&stored);
    Ok(CompressedBlock { number, stored, checksum })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EFFORT: Effort = Effort { level: 1, long_distance: false, table_log: None };

    #[test]
    fn blocks_come_back_as_they_were_given_however_long_each_takes() {
        let mut compressors = Compressors::new(EFFORT, 2);
        let raw = |number: u32| {
            let long = if number.is_multiple_of(3) { 200_000 } else { 10 };
            Bytes::from(format!("block {number} ").repeat(long))
        };
        let (mut taken, mut most) = (Vec::new(), 0);
        for number in 0..20_u32 {
            while compressors.is_full() {
                taken.extend(compressors.take().unwrap());
            }
            let base = number.checked_sub(1).and_then(|before| compressors.raw(before));
            compressors.submit(number, raw(number), base.unwrap_or_default());
            assert_eq!(compressors.raw(number), Some(raw(number)));
            most = most.max(number as usize + 1 - taken.len());
        }
        while let Some(compressed) = compressors.take().unwrap() {
            taken.push(compressed);
        }
        assert_eq!(most, 3);
        assert!(taken.iter().map(|block| block.number).eq(0..20));
        assert_eq!(compressors.raw(19), None);
    }
}
