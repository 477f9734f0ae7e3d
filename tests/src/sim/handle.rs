//! Open files of a simulated disk.

use std::io::{self, ErrorKind};
use std::time::Duration;

use bytes::Bytes;
use turntree::store::{Identity, IoFile, Mapping};

use super::{Fault, SimDisk, Turn};

#[derive(Debug)]
pub(super) struct SimHandle {
    pub(super) disk: SimDisk,
    /// The file.
    pub(super) number: u64,
    /// The id of the handle, which may hold the lock of the file.
    pub(super) handle: u64,
}

impl IoFile for SimHandle {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.look()?;
        let live = &state.file(self.number).live;
        let start = usize::try_from(offset).unwrap().min(live.len());
        let end = (start + buffer.len()).min(live.len());
        buffer[..end - start].copy_from_slice(&live[start..end]);
        Ok(end - start)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (mut state, turn) = self.disk.begin(true);
        let start = usize::try_from(offset).unwrap();
        let (full, part) = (state.fault == Fault::DiskFull, usize::from(state.failure.written));
        let file = state.file(self.number);
        let written = match turn {
            Turn::Gone => 0,
            _ if full => file.live.len().saturating_sub(start).min(bytes.len()),
            Turn::Go | Turn::Flip | Turn::CrashAfter => bytes.len(),
            // An error after any part was written.
            Turn::Fail(_) => bytes.len() * part / 256,
        };
        file.write(&bytes[..written], start);
        if matches!(turn, Turn::Flip) {
            file.live[start + written / 2] ^= 0x10;
        }
        if written < bytes.len() && full {
            return Err(ErrorKind::StorageFull.into());
        }
        turn.end()
    }

    fn sync_data(&self) -> io::Result<()> {
        let (mut state, turn) = self.disk.begin(true);
        let forgets = state.failure.forgets;
        let file = state.file(self.number);
        match turn {
            Turn::Go | Turn::Flip if file.sync(self.handle) => Ok(()),
            Turn::Go | Turn::Flip => Err(io::Error::other("an earlier sync of this file failed")),
            Turn::CrashAfter | Turn::Gone => turn.end(),
            Turn::Fail(error) => {
                file.fail_sync(self.handle, forgets);
                Err(error)
            }
        }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.look()?.file(self.number).live.len() as u64)
    }

    fn lock(&self, _: Duration) -> io::Result<bool> {
        let mut state = self.disk.look()?;
        Ok(*state.locks.entry(self.number).or_insert(self.handle) == self.handle)
    }

    fn unlock(&self) -> io::Result<()> {
        let mut state = self.disk.lock();
        if state.locks.get(&self.number) == Some(&self.handle) {
            state.locks.remove(&self.number);
        }
        Ok(())
    }

    fn identity(&self) -> io::Result<Identity> {
        drop(self.disk.look()?);
        Ok(Identity { device: 0, inode: self.number })
    }

    fn map(&self) -> io::Result<Mapping> {
        Ok(Bytes::copy_from_slice(&self.disk.look()?.file(self.number).live).into())
    }
}

impl Drop for SimHandle {
    fn drop(&mut self) {
        let _ = self.unlock();
        self.disk.lock().file(self.number).handles.remove(&self.handle);
    }
}
