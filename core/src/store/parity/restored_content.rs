//! A content with its damaged shards replaced by restored ones.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use crate::store::io::ReadAt;

/// A file with restored pieces. It ends at the end of its content.
#[derive(Debug)]
pub struct RestoredContent {
    content: Arc<dyn ReadAt>,
    bytes: u64,
    /// Restored pieces, by offset; they do not overlap.
    pieces: BTreeMap<u64, Vec<u8>>,
}

impl RestoredContent {
    /// Returns the first `bytes` of a content, with these pieces replaced.
    pub(super) fn new(content: Arc<dyn ReadAt>, bytes: u64, pieces: Vec<(u64, Vec<u8>)>) -> Self {
        Self { content, bytes, pieces: pieces.into_iter().collect() }
    }

    /// Returns the restored pieces, with their offsets.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.pieces.iter().map(|(offset, piece)| (*offset, piece.as_slice()))
    }

    /// Returns the number of restored bytes.
    #[must_use]
    pub fn restored_bytes(&self) -> u64 {
        self.pieces.values().map(|piece| piece.len() as u64).sum()
    }
}

impl ReadAt for RestoredContent {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = left.min(buffer.len());
        let Some(room) = buffer.get_mut(..wanted) else { return Ok(0) };
        let read = self.content.read_at(room, offset)?;
        // Bytes missing at the end of a torn file count as zeros. Either their checksum matches
        // zeros, or they are restored.
        room.get_mut(read..).unwrap_or_default().fill(0);
        let end = offset + wanted as u64;
        let before = self.pieces.range(..offset).next_back();
        for (at, piece) in before.into_iter().chain(self.pieces.range(offset..end)) {
            let from = offset.max(*at);
            let to = end.min(at + piece.len() as u64);
            if from >= to {
                continue;
            }
            let [skip, start, stop] = [from - at, from - offset, to - offset]
                .map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
            let piece = piece.get(skip..).unwrap_or_default();
            if let Some(room) = room.get_mut(start..stop) {
                room.copy_from_slice(piece.get(..room.len()).unwrap_or_default());
            }
        }
        Ok(wanted)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }
}
