//! Processes and their owners.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::os::windows::io::AsHandle;
use std::os::windows::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::SIGINT;
use turntree::platform::{Lock, try_lock};

/// A process without the console of this one, and one that Ctrl-C does not reach.
const DETACHED_PROCESS: u32 = 0x8;
const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;

/// How long a started process waits for the lock that the process before still has, and the pause
/// between two attempts.
const MOST_WAITING: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

/// Starts a command apart from this process: Ctrl-C does not reach it, and it has no window.
pub(crate) fn apart(command: &mut Command) -> &mut Command {
    command.creation_flags(DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP)
}

/// Asks a command that was started [`apart`] and its children to end, or ends them.
pub(crate) fn end_group(child: &mut Child, forced: bool) {
    let id = child.id().to_string();
    let mut end = Command::new("taskkill");
    end.args(["/T", "/PID", &id]).args(forced.then_some("/F"));
    end.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // A program without a window cannot be asked. The command may have ended already.
    let _ = end.status();
    if forced {
        let _ = child.kill();
    }
}

/// Returns false: the children of a command that has ended are not known here.
pub(crate) const fn is_group_running(_child: &Child) -> bool {
    false
}

/// Returns a command that lets the shell read a line.
pub(crate) fn shell_command(line: &str) -> Command {
    let mut command = Command::new("cmd");
    command.arg("/C").raw_arg(line);
    command
}

/// Returns an empty input: a locked file cannot be read here, and locks are not inherited.
pub(crate) fn lock_as_input(_lock: &File) -> io::Result<Stdio> {
    Ok(Stdio::null())
}

/// Returns a directory that keeps no directory of the user from being renamed: that of the system.
pub(crate) fn root_folder() -> &'static Path {
    Path::new("C:\\")
}

/// Takes the lock of the file that is the input of this process. Locks are not inherited: the process
/// before releases it when it closes the file, and another process may be faster.
pub(crate) fn inherited_lock() -> io::Result<File> {
    let file: File = io::stdin().as_handle().try_clone_to_owned()?.into();
    let began = Instant::now();
    while try_lock(&file)? == Lock::Busy {
        if began.elapsed() >= MOST_WAITING {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        thread::sleep(PAUSE);
    }
    Ok(file)
}

/// Returns false: a process that released its lock is not waited for.
pub(crate) fn is_running(_id: u32) -> bool {
    false
}

/// Runs a command in place of this process, which ends with its exit code; returns the error if it
/// cannot be started. Ctrl-C is for the command alone.
pub(crate) fn replace_this(command: &mut Command) -> io::Error {
    let mut run = || -> io::Result<Infallible> {
        let _ = signal_hook::flag::register(SIGINT, Arc::new(AtomicBool::new(false)));
        let status = command.status()?;
        std::process::exit(status.code().unwrap_or(1))
    };
    match run() {
        Err(error) => error,
    }
}

/// The time since the first call: Windows has no processor time without further calls, so background
/// work rests as if the processor were its own.
pub(crate) fn busy_time() -> Duration {
    static BEGAN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    BEGAN.get_or_init(Instant::now).elapsed()
}

/// Returns `None`: the access lists of the system protect a store.
pub(crate) fn check_owner(_path: &Path) -> io::Result<Option<(u32, u32)>> {
    Ok(None)
}

/// Returns `None`: the system sets `USERNAME` for every process.
pub(crate) fn user_name() -> Option<String> {
    None
}

/// Returns zero: users of Windows have no numbers.
pub(crate) fn real_user() -> u32 {
    0
}
