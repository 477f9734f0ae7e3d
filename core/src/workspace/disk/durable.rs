//! Makes many files durable at once: by one call for their file system where that is as good as one
//! for each file, and otherwise by several calls at a time.
//!
//! `syncfs` writes everything of a file system, so it replaces the sync of a file only where three
//! things hold, and each file is synced on its own everywhere else:
//!
//! - The file system is one of the kernel's own. Those of other programs (FUSE, 9p), and layers
//!   over others, may pass on the sync of a file but not that of the whole.
//! - The kernel reports failed writes of file content to `syncfs`: Linux does since 5.8.
//! - There are many files: it also waits for the unwritten files of other programs.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

use super::folder::Folder;
use crate::error::{Error, Result};
use crate::platform::handle_limit;

/// Files from which one call for all is used.
const MANY: usize = 32;

/// Syncs at a time. They wait for the disk, not for a processor, and file systems join those that
/// wait at the same time.
const THREADS: usize = 16;

/// Files for which a further thread starts.
const FILES_PER_THREAD: usize = 4;

/// Most handles of files, or of folders, that are open at a time.
const MOST_OPEN: u64 = 1024;

/// The share of the handles of a process that files may use; their folders may use as many.
const SHARE_OF_HANDLES: u64 = 4;

/// Returns how many files, or folders, may be open at a time.
pub(in crate::workspace) fn most_open() -> usize {
    let handles = handle_limit().unwrap_or(u64::MAX);
    let most = (handles / SHARE_OF_HANDLES).clamp(1, MOST_OPEN);
    usize::try_from(most).unwrap_or(usize::MAX)
}

/// The file systems below a directory, by device.
#[derive(Debug, Default)]
pub(in crate::workspace) struct FileSystems(BTreeMap<i128, FileSystem>);

impl FileSystems {
    /// Returns the device of a folder, and remembers its file system. To be called before a file is
    /// written into it.
    pub(in crate::workspace) fn note(&mut self, folder: &Folder) -> io::Result<i128> {
        let device = folder.own_stat()?.st_dev.into();
        if let Entry::Vacant(unknown) = self.0.entry(device) {
            unknown.insert(FileSystem::of(folder)?);
        }
        Ok(device)
    }

    /// Returns the file system of a device that was noted.
    pub(in crate::workspace) fn get(&self, device: i128) -> Option<&FileSystem> {
        self.0.get(&device)
    }

    /// Makes the files durable that [`FileSystem::defers`] left.
    ///
    /// # Errors
    /// `Io` if any of them may not be durable.
    pub(in crate::workspace) fn sync_deferred(&self) -> Result<()> {
        for file_system in self.0.values().filter(|it| it.owes.load(Ordering::Relaxed)) {
            let synced = file_system.folder.sync_file_system().ok_or_else(no_longer_whole)?;
            synced.map_err(whole_error)?;
        }
        Ok(())
    }
}

fn whole_error(number: i32) -> Error {
    Error::io("sync the files", io::Error::from_raw_os_error(number))
}

fn no_longer_whole() -> Error {
    Error::io("sync the files", io::ErrorKind::Unsupported.into())
}

/// A file system with files that are about to be written.
#[derive(Debug)]
pub(in crate::workspace) struct FileSystem {
    /// A folder in it. A failed write is reported to handles opened before it.
    folder: Folder,
    /// True if it is one of the kernel's own, on a disk of this machine or in memory.
    is_of_kernel: bool,
    /// True once it was synced as a whole.
    was_synced: AtomicBool,
    /// True if files were written to it that are to be synced at the end.
    owes: AtomicBool,
}

impl FileSystem {
    /// Inspects the file system of a folder, before a file is written into it.
    pub(in crate::workspace) fn of(folder: &Folder) -> io::Result<Self> {
        Ok(Self {
            folder: folder.duplicate()?,
            is_of_kernel: folder.is_of_kernel()?,
            was_synced: AtomicBool::new(false),
            owes: AtomicBool::new(false),
        })
    }

    /// Returns true if reading a file gives the bytes that are in memory since they were written.
    /// Reading it back would compare memory with memory.
    pub(in crate::workspace) const fn answers_from_memory(&self) -> bool {
        self.is_of_kernel
    }

    /// Leaves files that were just written to [`FileSystems::sync_deferred`]. Returns false if that
    /// could not sync them.
    pub(in crate::workspace) fn defers(&self) -> bool {
        let may = self.was_synced.load(Ordering::Relaxed);
        self.owes.fetch_or(may, Ordering::Relaxed);
        may
    }

    /// Makes files of this file system durable: all by one call, or each by `sync`. Returns the
    /// result of each.
    pub(in crate::workspace) fn sync_all<T: Sync>(
        &self,
        files: &[T],
        sync: impl Fn(&T) -> Result<()> + Sync,
    ) -> Vec<Result<()>> {
        if self.is_of_kernel
            && files.len() >= MANY
            && let Some(synced) = self.folder.sync_file_system()
        {
            self.was_synced.store(synced.is_ok(), Ordering::Relaxed);
            return files.iter().map(|_| synced.map_err(whole_error)).collect();
        }
        let threads = THREADS.min(files.len() / FILES_PER_THREAD);
        let pool = (threads > 1).then(|| ThreadPoolBuilder::new().num_threads(threads).build());
        match pool {
            Some(Ok(pool)) => pool.install(|| files.par_iter().map(&sync).collect()),
            // A process that may start no threads syncs one file after another.
            Some(Err(_)) | None => files.iter().map(&sync).collect(),
        }
    }
}
