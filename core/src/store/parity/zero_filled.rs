//! Reads past sectors that the disk fails to read: their bytes are zeros, and count as damaged.

use std::io;
use std::sync::Arc;

use crate::store::io::ReadAt;

/// The unit in which a disk succeeds or fails to read.
const SECTOR_BYTES: u64 = 512;

/// The error number of a failed disk read, on every Unix.
const EIO: i32 = 5;

/// A file with sectors that the disk may fail to read.
#[derive(Debug)]
pub(in crate::store) struct ZeroFilledReads(pub(in crate::store) Arc<dyn ReadAt>);

impl ReadAt for ZeroFilledReads {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.0.read_at(buffer, offset) {
            Err(error) if is_refusal(&error) => {}
            read => return read,
        }
        let left = self.0.size()?.saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let (mut rest, mut at) = (buffer.get_mut(..len).unwrap_or_default(), offset);
        while !rest.is_empty() {
            let to_end = usize::try_from(SECTOR_BYTES - at % SECTOR_BYTES).unwrap_or(usize::MAX);
            let (sector, others) = rest.split_at_mut(to_end.min(rest.len()));
            match self.0.read_at(sector, at) {
                Ok(read) if read == sector.len() => {}
                Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if is_refusal(&error) => sector.fill(0),
                Err(error) => return Err(error),
            }
            at += sector.len() as u64;
            rest = others;
        }
        Ok(len)
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
}

/// Returns true if the disk failed to read.
pub(in crate::store) fn is_refusal(error: &io::Error) -> bool {
    error.raw_os_error() == Some(EIO)
}
