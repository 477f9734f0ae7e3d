//! The differences of operating systems for a program: processes, signals, users and the
//! terminal. Files are in `turntree::platform`.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;
mod words;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

pub(crate) use system::IS_WINDOWS;
pub(crate) use system::folders::{data_folder, make_executable, path_of_address};
pub(crate) use system::process::{
    apart, busy_time, check_owner, end_group, inherited_lock, is_group_running, is_running,
    lock_as_input, real_user, replace_this, root_folder, shell_command, user_name,
};
pub(crate) use system::signals::{SignalWatch, end_by, on_request_to_end, pass_on};
#[cfg(feature = "ui")]
pub(crate) use system::signals::{stop_this, watch_screen};
#[cfg(feature = "ui")]
pub(crate) use system::terminal::{NEEDS_TERM, RawTerminal, size};
pub(crate) use system::terminal::{ask_hidden, columns};

pub(crate) use words::{commands_in, hook_word, shell_word};

/// A signal that concerns the screen.
#[cfg(feature = "ui")]
#[cfg_attr(windows, expect(dead_code, reason = "a process of Windows is not stopped there"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScreenSignal {
    /// The size changed.
    Resized,
    /// This process continues after it was stopped.
    Continued,
    /// This process is asked to stop; [`end_by`] does it, and returns when it continues.
    Stopping(i32),
    /// This process is asked to end; [`end_by`] does it.
    Ending(i32),
}
