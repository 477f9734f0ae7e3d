//! The terminal: its size, and its settings.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
#[cfg(feature = "ui")]
use std::os::fd::AsFd;

#[cfg(feature = "ui")]
use rustix::termios::Termios;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcgetwinsize, tcsetattr};

/// True if a terminal must name itself in `TERM`.
#[cfg(feature = "ui")]
pub(crate) const NEEDS_TERM: bool = true;

/// Returns the columns of the terminal that output goes to, if it is one.
pub(crate) fn columns(stdout: &io::Stdout) -> Option<usize> {
    tcgetwinsize(stdout).ok().map(|size| usize::from(size.ws_col))
}

/// Returns the columns and rows of the screen, if they are known.
#[cfg(feature = "ui")]
pub(crate) fn size() -> Option<(u16, u16)> {
    tcgetwinsize(io::stdout()).ok().map(|size| (size.ws_col, size.ws_row))
}

/// Asks at the terminal of this process, without echo, and returns the line; `None` without a
/// terminal.
pub(crate) fn ask_hidden(question: &str) -> io::Result<Option<String>> {
    let Ok(terminal) = File::options().read(true).write(true).open("/dev/tty") else {
        return Ok(None);
    };
    let shown = tcgetattr(&terminal)?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    (&terminal).write_all(question.as_bytes())?;
    tcsetattr(&terminal, OptionalActions::Flush, &hidden)?;
    let mut line = String::new();
    let read = BufReader::new(&terminal).read_line(&mut line);
    tcsetattr(&terminal, OptionalActions::Flush, &shown)?;
    read.and_then(|_| (&terminal).write_all(b"\n"))?;
    Ok(Some(line))
}

/// The terminal in raw mode: each key arrives at once, and none is shown.
#[cfg(feature = "ui")]
pub(crate) struct RawTerminal {
    saved: Termios,
    /// Writes to the screen.
    pub(crate) screen: File,
}

#[cfg(feature = "ui")]
impl RawTerminal {
    /// Sets the terminal to raw mode.
    pub(crate) fn take() -> io::Result<Self> {
        let saved = tcgetattr(io::stdin())?;
        let screen = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let mut raw = saved.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self { saved, screen })
    }

    /// Restores the settings of before.
    pub(crate) fn give_back(&self) {
        // A closed terminal needs no restoring.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.saved);
    }
}
