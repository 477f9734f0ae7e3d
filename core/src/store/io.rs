//! The interface of all disk access, and its real implementation.
//!
//! The store accesses the disk only through this interface. So tests see every access: on a simulated
//! disk that crashes and fails, on one whose processes take turns, and by watching the calls of
//! either disk. Files are readable only by their owner: a session holds everything that the agent
//! has read.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::platform::{self, Lock};

pub use crate::platform::Mapping;

/// First and longest pause between two attempts at a lock; locks are held for microseconds.
const LOCK_PAUSE_MIN: Duration = Duration::from_micros(20);
const LOCK_PAUSE_MAX: Duration = Duration::from_millis(2);

/// The file system operations that a store needs.
pub trait Io: Debug + Send + Sync {
    /// Opens an existing regular file to read, or to read and write. Does not follow symbolic
    /// links, and does not block.
    ///
    /// # Errors
    /// `NotFound` when the file does not exist.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn IoFile>>;

    /// Creates a new empty file, open to read and write.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn IoFile>>;

    /// Creates a directory.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Returns the names in a directory, in no order. Skips names that are not UTF-8: a store has
    /// none.
    ///
    /// # Errors
    /// `NotFound` when there is no such directory.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Renames the file `from` to `to`. Never replaces an existing file.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken; then `from` is unchanged. `NotFound` when `from`
    /// does not exist.
    fn publish(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives the file `from` a second name `to`. Never replaces an existing file.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken, `NotFound` when `from` does not exist.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Renames the file `from` to `to` in one step, and replaces an existing file. Processes that
    /// have the replaced file open or mapped keep it.
    ///
    /// # Errors
    /// `NotFound` when `from` does not exist.
    fn replace(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name. Processes that have the file open or mapped keep it.
    ///
    /// # Errors
    /// `NotFound` when the file does not exist.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// When the disk refuses.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Returns the free bytes of the file system of `dir`.
    ///
    /// # Errors
    /// When the system call fails.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;

    /// Returns the identity of the file with this name.
    ///
    /// # Errors
    /// `NotFound` when the file does not exist.
    fn identity(&self, path: &Path) -> io::Result<Identity>;
}

/// An open file. Dropping it releases its lock.
pub trait IoFile: Debug + Send + Sync {
    /// Reads from `offset` until `buffer` is full or the file ends. Returns the number of bytes
    /// read.
    ///
    /// # Errors
    /// When the disk refuses.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`, and extends the file if they end after its end.
    ///
    /// # Errors
    /// When the disk refuses; any part of the bytes may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes the bytes of the file durable, and the length needed to read them.
    ///
    /// # Errors
    /// When the disk refuses. Bytes written since the last success may be lost even if a later call
    /// succeeds.
    fn sync_data(&self) -> io::Result<()>;

    /// Returns the length in bytes.
    ///
    /// # Errors
    /// When the disk refuses.
    fn size(&self) -> io::Result<u64>;

    /// Takes the exclusive lock within `timeout`. Returns `false` if another process kept it. The
    /// lock ends with the process, even after a crash.
    ///
    /// # Errors
    /// When the file system has no locks.
    fn lock(&self, timeout: Duration) -> io::Result<bool>;

    /// Releases the lock.
    ///
    /// # Errors
    /// When the file system has no locks.
    fn unlock(&self) -> io::Result<()>;

    /// Returns the identity of the file.
    ///
    /// # Errors
    /// When the disk refuses.
    fn identity(&self) -> io::Result<Identity>;

    /// Returns the whole file in memory. Only for files that no process writes to or truncates.
    ///
    /// # Errors
    /// When the system refuses.
    fn map(&self) -> io::Result<Mapping>;

    /// Returns whether the file may be appended to. A file with an old key of its store may not.
    ///
    /// # Errors
    /// When the disk refuses.
    fn may_append(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// Returns whether mapping the file reads nothing. For a file that is decrypted on reading, it
    /// is cheaper to read only the needed bytes.
    fn is_mappable(&self) -> bool {
        true
    }
}

/// Bytes that can be read at any offset: a file, or the decrypted content of one.
pub trait ReadAt: Debug + Send + Sync {
    /// Reads from `offset` until `buffer` is full or the bytes end. Returns the number of bytes
    /// read.
    ///
    /// # Errors
    /// When the bytes cannot be read; `InvalidData` when they differ from those written.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Returns the number of bytes.
    ///
    /// # Errors
    /// The errors of reading.
    fn size(&self) -> io::Result<u64>;

    /// Reads exactly `length` bytes from `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` when the bytes end before, and the errors of reading.
    fn read_part(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut part = vec![0; length];
        let read = self.read_at(&mut part, offset)?;
        if read < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(part) }
    }
}

impl ReadAt for Arc<dyn IoFile> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buffer, offset)
    }

    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }
}

/// The access that a file is opened with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
}

/// The identity of a file, independent of its name: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The device the file is on.
    pub device: u64,
    /// The inode number on that device.
    pub inode: u64,
}

/// The file system of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealIo;

impl Io for RealIo {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn IoFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(access == Access::Write);
        // Do not block on a pipe, and do not follow a symbolic link out of the store.
        let file = platform::without_links(&mut options).open(path)?;
        if !platform::is_plain_file(&file)? {
            return Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(Arc::new(RealFile(file)))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn IoFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        Ok(Arc::new(RealFile(platform::private(&mut options).open(path)?)))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        platform::private_folders().create(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(io::Result::transpose).collect()
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        platform::rename_to_free(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        platform::replace(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        platform::remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        platform::sync_names(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        platform::free_bytes(dir)
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        platform::own_identity(path).map(Identity::from)
    }
}

#[derive(Debug)]
struct RealFile(File);

impl Drop for RealFile {
    fn drop(&mut self) {
        // Closing releases a lock only if no other process has the same open file. A process that
        // another thread starts has it between `fork` and `exec`, and the next process would find
        // the file locked in that time. If unlocking fails, the lock ends with this process.
        let _ = platform::unlock(&self.0);
    }
}

impl ReadAt for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match platform::read_at(self, rest, offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl IoFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        ReadAt::read_at(&self.0, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        platform::write_all_at(&self.0, bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        platform::sync_data(&self.0)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn lock(&self, timeout: Duration) -> io::Result<bool> {
        let started = Instant::now();
        let mut pause = LOCK_PAUSE_MIN;
        loop {
            if platform::try_lock(&self.0)? == Lock::Taken {
                return Ok(true);
            }
            let Some(left) = timeout.checked_sub(started.elapsed()).filter(|left| !left.is_zero())
            else {
                return Ok(false);
            };
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(LOCK_PAUSE_MAX);
        }
    }

    fn unlock(&self) -> io::Result<()> {
        platform::unlock(&self.0)
    }

    fn identity(&self) -> io::Result<Identity> {
        platform::file_identity(&self.0).map(Identity::from)
    }

    fn map(&self) -> io::Result<Mapping> {
        Mapping::of(&self.0)
    }

    fn is_mappable(&self) -> bool {
        platform::MAPS_FILES
    }
}

/// Returns true for a temporary error, which does not indicate damage: too many open files, no
/// memory, no permission.
pub(super) fn is_temporary(error: &crate::Error) -> bool {
    let source =
        std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    let code = source.and_then(io::Error::raw_os_error);
    code.is_some_and(|code| platform::PASSING.contains(&code))
}

impl From<(u64, u64)> for Identity {
    fn from((device, inode): (u64, u64)) -> Self {
        Self { device, inode }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_with_its_file_also_while_a_new_process_has_that_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = File::create_new(&path).unwrap();
        // The handle that a child process has between `fork` and `exec`.
        let inherited = file.try_clone().unwrap();
        let locked = RealFile(file);
        assert!(locked.lock(Duration::ZERO).unwrap());
        let next = RealIo.open(&path, Access::Write).unwrap();
        assert!(!next.lock(Duration::ZERO).unwrap());
        drop(locked);
        assert!(next.lock(Duration::ZERO).unwrap());
        drop(inherited);
    }
}
