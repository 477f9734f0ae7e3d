//! Writes a large file in pieces and syncs each before the next, so that no commit waits for all of
//! it.
//!
//! A disk processes requests in order, and a file system syncs related data together. A commit that
//! syncs a few kilobytes while a pack of a hundred megabytes is being written waits for much of the
//! pack. With pieces it waits for one.

use std::io;

use super::io::IoFile;

/// Bytes written between two syncs: the disk takes some milliseconds for them. Smaller pieces did
/// not speed up concurrent commits, and cost more syncs.
const PIECE_BYTES: usize = 4 << 20;

/// The progress of syncing a file while it is written.
#[derive(Debug, Default)]
pub(in crate::store) struct Pace {
    /// Bytes written since the last sync.
    waiting: usize,
}

impl Pace {
    /// Writes bytes, and syncs the file after each piece. The last piece is not synced yet.
    ///
    /// # Errors
    /// The errors of the file. After one, no part of the file is reliable.
    pub(in crate::store) fn write_at(
        &mut self,
        file: &dyn IoFile,
        bytes: &[u8],
        mut offset: u64,
    ) -> io::Result<()> {
        for piece in bytes.chunks(PIECE_BYTES) {
            file.write_at(piece, offset)?;
            offset += piece.len() as u64;
            self.waiting += piece.len();
            if self.waiting >= PIECE_BYTES {
                file.sync_data()?;
                self.waiting = 0;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::super::io::{Identity, Mapping};
    use super::*;

    /// The bytes written, those not synced yet, and the most bytes that were ever not synced.
    #[derive(Debug, Default)]
    struct Memory(Mutex<(Vec<u8>, usize, usize)>);

    impl IoFile for Memory {
        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            Ok(0)
        }

        fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
            let (all, waiting, most) = &mut *self.0.lock().unwrap();
            assert_eq!(offset, all.len() as u64);
            all.extend_from_slice(bytes);
            *waiting += bytes.len();
            *most = *waiting.max(most);
            Ok(())
        }

        fn sync_data(&self) -> io::Result<()> {
            self.0.lock().unwrap().1 = 0;
            Ok(())
        }

        fn size(&self) -> io::Result<u64> {
            Ok(0)
        }

        fn lock(&self, _: Duration) -> io::Result<bool> {
            Ok(true)
        }

        fn unlock(&self) -> io::Result<()> {
            Ok(())
        }

        fn identity(&self) -> io::Result<Identity> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn map(&self) -> io::Result<Mapping> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    #[test]
    fn two_pieces_at_most_are_on_their_way_whatever_is_written_at_once() {
        let (file, mut pace, mut expected) = (Memory::default(), Pace::default(), Vec::new());
        for length in [10, PIECE_BYTES - 1, 5 * PIECE_BYTES + 3, 0, 300, PIECE_BYTES] {
            let bytes: Vec<u8> = (0..=250).cycle().take(length).collect();
            pace.write_at(&file, &bytes, expected.len() as u64).unwrap();
            expected.extend_from_slice(&bytes);
        }
        let (all, _, most) = file.0.into_inner().unwrap();
        assert!(all == expected);
        assert!(most <= 2 * PIECE_BYTES, "{most}");
    }
}
