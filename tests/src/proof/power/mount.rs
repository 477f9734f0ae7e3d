//! File systems of the kernel, made in a file and mounted where nobody else sees them.
//!
//! The thread that mounts has a mount namespace of its own. So nothing is left behind, however the
//! process ends: with its last thread the namespace goes, with it the mounts, and with them the
//! loop devices.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// How long the images of one recording may take. They take some seconds.
const LIMIT: Duration = Duration::from_secs(300);

/// A file system to mount, and how.
#[derive(Debug, Clone, Copy)]
pub struct FileSystem {
    /// Its name and mode, for people.
    pub name: &'static str,
    /// The name that `mount` and `mkfs` know.
    command: &'static str,
    /// Options of `mkfs`. Nothing is to be left to do after it, which would be recorded too.
    make: &'static [&'static str],
    /// Options of `mount`, all of which keep what was synced.
    options: &'static str,
    /// Least MiB that it likes to have.
    mebibytes: u64,
    /// Whether several handles may write at once.
    ///
    /// Not on btrfs. There, when two handles sync one file at once, the call of the second can return
    /// success before what the first one wrote is durable (seen with Linux 6.18: nothing reaches the
    /// disk during the call, and an image of that moment lacks the bytes). Who builds on the commit
    /// of another handle relies on such a call.
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

/// What is tried.
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
    /// In words; most often its tools are not installed.
    pub fn make(&self, file: &Path) -> Result<(), String> {
        let made = File::create(file).and_then(|made| made.set_len(self.mebibytes << 20));
        made.map_err(|error| format!("{}: {error}", file.display()))?;
        let mut command = Command::new(format!("mkfs.{}", self.command));
        run(command.args(self.make).arg(file))
    }

    /// Mounts the file system in `file` at `dir`, through a loop device that goes with the mount.
    ///
    /// # Errors
    /// In words; this machine may have no loop devices, or not this file system.
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
    /// Where.
    pub dir: PathBuf,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Somebody has a file open still, after a panic: it goes when that is closed.
        if unmount(&self.dir, UnmountFlags::empty()).is_err() {
            let _ = unmount(&self.dir, UnmountFlags::DETACH);
        }
    }
}

/// Does something in a thread that has its own mount namespace; `Err` says why there can be none, or that
/// nothing came of it for so long: a disk of FUSE may hang where memory is short. Then nobody waits for
/// the thread, and the process takes it along when it ends.
///
/// # Panics
/// When the work panics.
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
            Ok(()) => Err("the thread has gone".to_owned()),
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
