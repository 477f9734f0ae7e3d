//! File systems of the kernel, made in a file and mounted in a private namespace.
//!
//! The thread that mounts has its own mount namespace. So nothing is left when the process ends:
//! the namespace ends with its last thread, and with it the mounts and the loop devices.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// How long the images of one recording may take. Usually they take some seconds.
const LIMIT: Duration = Duration::from_secs(300);

/// A file system with its mount options.
#[derive(Debug, Clone, Copy)]
pub struct FileSystem {
    /// The name and mode in reports.
    pub name: &'static str,
    /// The name for `mount` and `mkfs`.
    command: &'static str,
    /// Options of `mkfs`. It must leave no work for later, which would be recorded too.
    make: &'static [&'static str],
    /// Options of `mount`. All of them keep synced data.
    options: &'static str,
    /// The minimum size in MiB.
    mebibytes: u64,
    /// True if several handles may write at the same time.
    ///
    /// Not on btrfs. If two handles sync one file at the same time there, the second call can
    /// return success before the first handle's writes are durable (seen with Linux 6.18: nothing
    /// reaches the disk during the call, and an image of that moment lacks the bytes). A handle
    /// that builds on another handle's commit relies on such a call.
    pub(super) concurrent: bool,
}

const EXT4: FileSystem = FileSystem {
    name: "ext4",
    command: "ext4",
    make: &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
    options: "loop",
    mebibytes: 96,
    concurrent: true,
};

/// The tested file systems.
pub const FILE_SYSTEMS: &[FileSystem] = &[
    EXT4,
    FileSystem { name: "ext4, data=writeback", options: "loop,data=writeback", ..EXT4 },
    FileSystem { name: "ext4, data=journal", options: "loop,data=journal", ..EXT4 },
    FileSystem {
        name: "xfs",
        command: "xfs",
        make: &["-q", "-f"],
        options: "loop",
        mebibytes: 300,
        concurrent: true,
    },
    FileSystem {
        name: "btrfs",
        command: "btrfs",
        make: &["-q", "-f"],
        options: "loop",
        mebibytes: 128,
        concurrent: false,
    },
];

impl FileSystem {
    /// Makes an empty file system in a new file.
    ///
    /// # Errors
    /// In words. Usually its tools are not installed.
    pub fn make(&self, file: &Path) -> Result<(), String> {
        let made = File::create(file).and_then(|made| made.set_len(self.mebibytes << 20));
        made.map_err(|error| format!("{}: {error}", file.display()))?;
        let mut command = Command::new(format!("mkfs.{}", self.command));
        run(command.args(self.make).arg(file))
    }

    /// Mounts the file system in `file` at `dir` through a loop device that is removed with the
    /// mount.
    ///
    /// # Errors
    /// In words. This machine may lack loop devices or this file system.
    pub fn mount(&self, file: &Path, dir: &Path) -> Result<Mounted, String> {
        let mut command = Command::new("mount");
        run(command.args(["-t", self.command, "-o", self.options]).arg(file).arg(dir))?;
        Ok(Mounted { dir: dir.to_owned() })
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// A mounted file system.
#[derive(Debug)]
pub struct Mounted {
    /// The mount point.
    pub dir: PathBuf,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // After a panic, a file may still be open: the mount is removed when it is closed.
        if unmount(&self.dir, UnmountFlags::empty()).is_err() {
            let _ = unmount(&self.dir, UnmountFlags::DETACH);
        }
    }
}

/// Runs work in a thread with its own mount namespace. `Err` is the reason why that is impossible,
/// or that there was no result in time: a FUSE disk may hang if memory is short. Then nothing waits
/// for the thread, and it ends with the process.
///
/// # Panics
/// If the work panics.
pub fn isolated<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (sender, receiver) = sync_channel(1);
    let thread = std::thread::spawn(move || {
        let done = isolate().and_then(|()| work());
        let _ = sender.send(done);
    });
    match receiver.recv_timeout(LIMIT) {
        Ok(done) => done,
        Err(RecvTimeoutError::Timeout) => {
            Err(format!("the file system hangs: nothing came of it in {LIMIT:?}"))
        }
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => Err("the thread has ended".to_owned()),
        },
    }
}

#[expect(unsafe_code, reason = "unsharing may be unsafe in Rust; see SAFETY")]
fn isolate() -> Result<(), String> {
    // SAFETY: only the table of file descriptors must stay shared, and only mounts are unshared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }
        .map_err(|error| format!("no mount namespace of its own: {error}"))?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(|error| format!("no private mounts: {error}"))
}
