//! Processes and their owners.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, kill_process_group, test_kill_process, test_kill_process_group,
};
use rustix::time::{ClockId, clock_gettime};

/// Starts a command apart from this process: signals to this process do not reach it.
pub(crate) fn apart(command: &mut Command) -> &mut Command {
    command.process_group(0)
}

/// Asks the group of a command that was started [`apart`] to end, or ends it.
pub(crate) fn end_group(child: &mut Child, forced: bool) {
    let signal = if forced { Signal::KILL } else { Signal::TERM };
    if let Some(group) = group_of(child) {
        // The group may have ended already.
        let _ = kill_process_group(group, signal);
    }
}

/// Returns true while the group of a command that was started [`apart`] has a process. Its id stays
/// taken as long as it has one, also after the command itself was waited for.
pub(crate) fn is_group_running(child: &Child) -> bool {
    group_of(child).is_some_and(|group| test_kill_process_group(group).is_ok())
}

fn group_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Returns a command that lets the shell read a line.
pub(crate) fn shell_command(line: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", line]);
    command
}

/// Returns the locked file as the input of a command, which then shares the lock.
pub(crate) fn lock_as_input(lock: &File) -> io::Result<Stdio> {
    lock.try_clone().map(Stdio::from)
}

/// Returns a directory that keeps no file system busy.
pub(crate) fn root_folder() -> &'static Path {
    Path::new("/")
}

/// Takes over the lock of the file that is the input of this process. It belongs to the open file,
/// so this process has it since the start.
pub(crate) fn inherited_lock() -> io::Result<File> {
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

/// Returns true if a process with this id is running.
pub(crate) fn is_running(id: u32) -> bool {
    let id = i32::try_from(id).ok().filter(|id| *id > 1).and_then(Pid::from_raw);
    id.is_some_and(|id| test_kill_process(id).is_ok())
}

/// Replaces this process; returns the error if that fails.
pub(crate) fn replace_this(command: &mut Command) -> io::Error {
    command.exec()
}

/// The processor time used by this process.
pub(crate) fn busy_time() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(spent).unwrap_or_default()
}

/// Returns the owner of a file and the user of this process, if they differ.
pub(crate) fn check_owner(path: &Path) -> io::Result<Option<(u32, u32)>> {
    let owner = fs::metadata(path)?.uid();
    let user = rustix::process::geteuid().as_raw();
    Ok((owner != user).then_some((owner, user)))
}

/// The name of this user in `/etc/passwd`, for services and containers that set no variable.
pub(crate) fn user_name() -> Option<String> {
    let user = rustix::process::geteuid().as_raw();
    let list = fs::read_to_string("/etc/passwd").ok()?;
    let name_of = |line: &str| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        (id.parse() == Ok(user)).then(|| name.to_owned()).filter(|name| !name.is_empty())
    };
    list.lines().find_map(name_of)
}

/// Returns the number of the user who started this process.
pub(crate) fn real_user() -> u32 {
    rustix::process::getuid().as_raw()
}
