//! The interface of all disk access, and its real implementation.
//!
//! Three implementations exist: [`RealIo`] here, and in the test kit one that produces crash images
//! and one that fails at the n-th call. The store accesses the disk only through this interface, so
//! tests see every access. Files are readable only by their owner: a session holds everything that
//! the agent has read.

use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::fs::OFlags;
use rustix::io::Errno;

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

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

/// A whole file in memory: mapped, or read.
#[derive(Debug, Clone)]
pub struct Mapping {
    bytes: Bytes,
    /// The mapping, if the file is mapped.
    map: Option<Arc<memmap2::Mmap>>,
}

impl Mapping {
    /// Returns the bytes of the file.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the memory of mapped pages to the system, which rereads them on the next access. So
    /// a scan of a large store does not keep all of it in memory. Costs a system call, and a page
    /// fault for each stretch that is accessed again.
    #[expect(unsafe_code, reason = "giving pages back is unsafe in Rust; see SAFETY")]
    pub fn release_pages(&self) {
        if let Some(map) = &self.map {
            // SAFETY: the mapping is private and was never written to, and its file does not
            // change, which is the condition of mapping it: rereading returns the same bytes. The
            // advice changes nothing else, so its failure only costs memory.
            let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
        }
    }
}

impl From<Bytes> for Mapping {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, map: None }
    }
}

/// A mapping that is kept alive by its bytes.
struct OwnedMap(Arc<memmap2::Mmap>);

impl AsRef<[u8]> for OwnedMap {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
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
        // Do not block on a pipe, and do not follow a symbolic link out of the store.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
        let mut options = OpenOptions::new();
        options.read(true).write(access == Access::Write).custom_flags(flags);
        let file = options.open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(Arc::new(RealFile(file)))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn IoFile>> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(FILE_MODE).open(path)?;
        Ok(Arc::new(RealFile(file)))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(DIRECTORY_MODE).create(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(io::Result::transpose).collect()
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        // A link refuses a taken name on every Unix; `rename` would replace it.
        fs::hard_link(from, to)?;
        match fs::remove_file(from) {
            // Another process has removed it since; `to` exists.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let system = rustix::fs::statvfs(dir)?;
        Ok(system.f_bavail.saturating_mul(system.f_frsize))
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        Ok(identity_of(&fs::symlink_metadata(path)?))
    }
}

#[derive(Debug)]
struct RealFile(File);

impl Drop for RealFile {
    fn drop(&mut self) {
        // Closing releases a lock only if no other process has the same open file. A process that
        // another thread starts has it between `fork` and `exec`, and the next process would find
        // the file locked in that time. If unlocking fails, the lock ends with this process.
        let _ = self.0.unlock();
    }
}

impl ReadAt for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match FileExt::read_at(self, rest, offset + filled as u64) {
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
        self.0.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn lock(&self, timeout: Duration) -> io::Result<bool> {
        let started = Instant::now();
        let mut pause = LOCK_PAUSE_MIN;
        loop {
            match self.0.try_lock() {
                Ok(()) => return Ok(true),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => {}
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
        self.0.unlock()
    }

    fn identity(&self) -> io::Result<Identity> {
        Ok(identity_of(&self.0.metadata()?))
    }

    #[expect(unsafe_code, reason = "mapping a file is unsafe in Rust; see SAFETY")]
    fn map(&self) -> io::Result<Mapping> {
        // SAFETY: callers map only sealed files. A store never writes to, truncates or reuses such
        // a file; it unlinks it, which leaves mappings intact. If another process modifies it, each
        // read still verifies the bytes against their id.
        let map = Arc::new(unsafe { memmap2::Mmap::map(&self.0)? });
        Ok(Mapping { bytes: Bytes::from_owner(OwnedMap(Arc::clone(&map))), map: Some(map) })
    }
}

/// Returns true for a temporary error, which does not indicate damage: too many open files, no
/// memory, no permission.
pub(super) fn is_temporary(error: &crate::Error) -> bool {
    let passing = [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOMEM,
        Errno::INTR,
        Errno::AGAIN,
        Errno::ACCESS,
        Errno::PERM,
    ];
    let source =
        std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    let code = source.and_then(io::Error::raw_os_error);
    code.is_some_and(|code| passing.iter().any(|errno| errno.raw_os_error() == code))
}

fn identity_of(metadata: &fs::Metadata) -> Identity {
    Identity { device: metadata.dev(), inode: metadata.ino() }
}

#[cfg(test)]
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
