//! The small interface all disk access goes through, and its real implementation.
//!
//! Three implementations exist: [`RealIo`] here, and in the test kit one that produces crash images
//! and one that fails at the n-th call. The store uses nothing else, so what the tests see is what
//! happens. Files are created for their owner alone: a session holds whatever the agent has seen.

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

/// First and longest pause between two attempts to get a lock; locks are held for microseconds.
const LOCK_PAUSE_MIN: Duration = Duration::from_micros(20);
const LOCK_PAUSE_MAX: Duration = Duration::from_millis(2);

/// A file system, as far as a store needs one.
pub trait Io: Debug + Send + Sync {
    /// Opens an existing regular file to read, or to read and write. Links are not followed, and
    /// nothing is waited for.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn IoFile>>;

    /// Makes a new empty file, open to read and write.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn IoFile>>;

    /// Makes a directory.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, in no order; names that are not UTF-8 are not the store's.
    ///
    /// # Errors
    /// `NotFound` when there is no such directory.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Gives the file `from` the name `to`, never replacing what has that name.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken; then `from` is untouched. `NotFound` when there is no
    /// file `from`.
    fn publish(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives the file `from` a second name `to`, never replacing what has that name.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken, `NotFound` when there is no file `from`.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives the file `from` the name `to`, in one step, and takes it from what has it. Whoever has
    /// that file open or mapped keeps it.
    ///
    /// # Errors
    /// `NotFound` when there is no file `from`.
    fn replace(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name. Whoever has the file open or mapped keeps it.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// When the disk refuses.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Bytes that may still be written to the file system of `dir`.
    ///
    /// # Errors
    /// When the system does not say.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;

    /// Returns the identity of the file with this name.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    fn identity(&self, path: &Path) -> io::Result<Identity>;
}

/// A whole file as memory: mapped, or bytes that were read.
#[derive(Debug, Clone)]
pub struct Mapping {
    bytes: Bytes,
    /// The map, if it is one.
    map: Option<Arc<memmap2::Mmap>>,
}

impl Mapping {
    /// The bytes of the file.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Gives the memory of what was read of a map back to the system, which reads it again when it is asked
    /// for. So who looks at all of a large store does not hold all of it. Costs a system call, and a fault
    /// for each stretch that is read again.
    #[expect(unsafe_code, reason = "giving pages back is unsafe in Rust; see SAFETY")]
    pub fn let_pages_go(&self) {
        if let Some(map) = &self.map {
            // SAFETY: the map is of a file, is private and was never written to, and the file does not
            // change, as it was mapped on that condition: what is read anew are the same bytes. The advice
            // changes nothing else, so its failure costs memory alone.
            let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
        }
    }
}

impl From<Bytes> for Mapping {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, map: None }
    }
}

/// A map that its bytes keep.
struct OwnedMap(Arc<memmap2::Mmap>);

impl AsRef<[u8]> for OwnedMap {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// An open file. Dropping it releases its lock.
pub trait IoFile: Debug + Send + Sync {
    /// Reads from `offset` until `buffer` is full or the file ends; returns how many bytes.
    ///
    /// # Errors
    /// When the disk refuses.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`, and extends the file when they reach beyond its end.
    ///
    /// # Errors
    /// When the disk refuses; any part of the bytes may have been written then.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes the bytes of the file durable, and the length needed to read them.
    ///
    /// # Errors
    /// When the disk refuses; what was written since the last success may be lost even if a later
    /// call succeeds.
    fn sync_data(&self) -> io::Result<()>;

    /// The length in bytes.
    ///
    /// # Errors
    /// When the disk refuses.
    fn size(&self) -> io::Result<u64>;

    /// Takes the exclusive lock within `timeout`; `false` when somebody else kept it. The lock ends
    /// with the process, however that ends.
    ///
    /// # Errors
    /// When the file system has no locks.
    fn lock(&self, timeout: Duration) -> io::Result<bool>;

    /// Gives the lock back.
    ///
    /// # Errors
    /// When the file system has no locks.
    fn unlock(&self) -> io::Result<()>;

    /// Returns the identity of the file.
    ///
    /// # Errors
    /// When the disk refuses.
    fn identity(&self) -> io::Result<Identity>;

    /// The whole file as memory. Only for files that nobody writes to or truncates any more.
    ///
    /// # Errors
    /// When the system refuses.
    fn map(&self) -> io::Result<Mapping>;

    /// Returns whether something may be written behind what is there: not to a file that lies as it did
    /// before the key of its store changed.
    ///
    /// # Errors
    /// When the disk refuses.
    fn may_append(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// Returns whether a map costs no reading. Of a file whose bytes are made on reading, what is
    /// needed is better read.
    fn is_mappable(&self) -> bool {
        true
    }
}

/// Bytes that can be read at any place: a file, or what a decryption makes of one.
pub trait ReadAt: Debug + Send + Sync {
    /// Reads from `offset` until `buffer` is full or the bytes end; returns how many.
    ///
    /// # Errors
    /// When they cannot be read; `InvalidData` when they are not those that were written.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Their number.
    ///
    /// # Errors
    /// Those of reading.
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

/// A file, whatever its name: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The device the file is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

/// The file system of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealIo;

impl Io for RealIo {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn IoFile>> {
        // Not waiting for whoever has the other end of a pipe, nor led out of the store by a link.
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
            // Somebody has swept it away since: it has its name.
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
        // Closing gives a lock back only when nobody else has the open file, and a process that
        // another thread starts has it until it becomes another program: for that moment, whoever
        // came next would find the file locked. A lock that cannot be given back goes with this
        // process.
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
        // SAFETY: the caller maps sealed files only. A store never writes to, truncates or reuses
        // one; it unlinks it, which leaves mappings intact. Someone who damages it from outside
        // changes bytes that are verified against their id on every read.
        let map = Arc::new(unsafe { memmap2::Mmap::map(&self.0)? });
        Ok(Mapping { bytes: Bytes::from_owner(OwnedMap(Arc::clone(&map))), map: Some(map) })
    }
}

/// Tells an error of the moment from one of the file: too many open files, no memory, no
/// permission. What cannot be read for such a reason is not damaged.
pub(super) fn is_passing(error: &crate::Error) -> bool {
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
        // What a process has between `fork` and `exec`.
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
