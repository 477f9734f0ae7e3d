//! The console: its size, and its settings.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
#[cfg(feature = "ui")]
use std::os::windows::io::AsHandle;

use winapi_util::HandleRef;
use winapi_util::console::{mode, screen_buffer_info, set_mode};

/// Settings of input: whole lines, which the console edits and shows; Ctrl-C as a request to end;
/// keys as the sequences of other terminals.
#[cfg(feature = "ui")]
const PROCESSED_INPUT: u32 = 0x1;
#[cfg(feature = "ui")]
const LINE_INPUT: u32 = 0x2;
const ECHO_INPUT: u32 = 0x4;
#[cfg(feature = "ui")]
const VIRTUAL_INPUT: u32 = 0x200;

/// Settings of output: sequences of other terminals are understood, and a full line does not wrap at
/// once.
#[cfg(feature = "ui")]
const VIRTUAL_OUTPUT: u32 = 0x4 | 0x8;

/// False: a console does not name itself.
#[cfg(feature = "ui")]
pub(crate) const NEEDS_TERM: bool = false;

/// Returns the columns of the console that output goes to, if it is one.
pub(crate) fn columns(_stdout: &io::Stdout) -> Option<usize> {
    window().map(|(columns, _)| usize::from(columns))
}

/// Returns the columns and rows of the screen, if they are known.
#[cfg(feature = "ui")]
pub(crate) fn size() -> Option<(u16, u16)> {
    window()
}

fn window() -> Option<(u16, u16)> {
    let window = screen_buffer_info(HandleRef::stdout()).ok()?.window_rect();
    let length = |from: i16, to: i16| u16::try_from(i32::from(to) - i32::from(from) + 1).ok();
    Some((length(window.left, window.right)?, length(window.top, window.bottom)?))
}

/// Asks at the console of this process, without echo, and returns the line; `None` without a console.
pub(crate) fn ask_hidden(question: &str) -> io::Result<Option<String>> {
    let open = |name: &str| File::options().read(true).write(true).open(name);
    let (Ok(input), Ok(mut output)) = (open("CONIN$"), open("CONOUT$")) else { return Ok(None) };
    let shown = mode(&input)?;
    output.write_all(question.as_bytes())?;
    set_mode(&input, shown & !ECHO_INPUT)?;
    let mut line = String::new();
    let read = BufReader::new(&input).read_line(&mut line);
    set_mode(&input, shown)?;
    read.and_then(|_| output.write_all(b"\n"))?;
    Ok(Some(line))
}

/// The console in raw mode: each key arrives at once, and none is shown.
#[cfg(feature = "ui")]
pub(crate) struct RawTerminal {
    /// The settings of input and output.
    saved: (u32, u32),
    /// Writes to the screen.
    pub(crate) screen: File,
}

#[cfg(feature = "ui")]
impl RawTerminal {
    /// Sets the console to raw mode.
    pub(crate) fn take() -> io::Result<Self> {
        let saved = (mode(HandleRef::stdin())?, mode(HandleRef::stdout())?);
        let screen = File::from(io::stdout().as_handle().try_clone_to_owned()?);
        let cooked = PROCESSED_INPUT | LINE_INPUT | ECHO_INPUT;
        set_mode(HandleRef::stdin(), (saved.0 & !cooked) | VIRTUAL_INPUT)?;
        set_mode(HandleRef::stdout(), saved.1 | VIRTUAL_OUTPUT)?;
        Ok(Self { saved, screen })
    }

    /// Restores the settings of before.
    pub(crate) fn give_back(&self) {
        // A closed console needs no restoring.
        let _ = set_mode(HandleRef::stdin(), self.saved.0);
        let _ = set_mode(HandleRef::stdout(), self.saved.1);
    }
}
