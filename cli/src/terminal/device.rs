//! The terminal: taken when the interface begins, and restored whenever it ends.
//!
//! Several threads can end the program and restore the terminal: the loop, a thread that panics,
//! and the signal thread. So the saved settings are in one place, [`TERMINAL`]. All output goes
//! through it, so nothing is drawn after the terminal was restored.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::panic;
use std::sync::{Mutex, MutexGuard, Once, TryLockError};
use std::thread;
use std::time::Duration;

use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::style::{Color, Modifier};
use turntree::Error;

use crate::platform::{self, NEEDS_TERM, RawTerminal};
use crate::view::error::{Failure, Result};
use crate::view::output::{hold_lines, release_lines};

/// Switches to the alternate screen, hides the cursor, resets colours and clears.
const BEGIN: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[0m\x1b[2J";

/// Resets colours, shows the cursor and switches back to the main screen.
const END: &[u8] = b"\x1b[?2026l\x1b[0m\x1b[?25h\x1b[?1049l";

/// Begins and ends a synchronized update.
const FRAME: &str = "\x1b[?2026h";
const FRAME_END: &str = "\x1b[?2026l";

/// The size of a screen that does not report one.
const USUAL: (u16, u16) = (80, 24);

/// How often a thread that ends the program tries to lock the terminal, and the time between. A
/// terminal that accepts no bytes must not keep the program from ending.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// The terminal, while this program holds it.
static TERMINAL: Mutex<Option<RawTerminal>> = Mutex::new(None);

/// The screen of the interface, until this is dropped.
#[derive(Debug)]
pub(super) struct Device {
    /// The cells on the screen, if known.
    shown: Option<Buffer>,
}

/// Refuses input or output that is not a terminal, and a terminal that cannot show a screen.
///
/// # Errors
/// `InvalidInput`, with the commands to use instead.
pub(crate) fn check() -> Result<()> {
    let instead = "'turntree sessions', 'outline', 'log', 'diff', 'search' and 'op log' print the \
        same, and take --json";
    let refuse = |what: &str| Err(Failure::hinted(Error::invalid(what), instead));
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return refuse("ui needs a terminal, but its input or output is not one");
    }
    match std::env::var("TERM").as_deref() {
        Ok("dumb") => refuse("ui needs a terminal that can move its cursor, but TERM is dumb"),
        Ok("") | Err(_) if NEEDS_TERM => {
            refuse("ui needs a terminal that can move its cursor, but TERM is not set")
        }
        _ => Ok(()),
    }
}

impl Device {
    /// Takes the terminal of this process.
    ///
    /// # Errors
    /// `Io` when the terminal cannot be set to raw mode.
    pub(super) fn take() -> Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                give_back();
                before(info);
            }));
        });
        take()?;
        Ok(Self { shown: None })
    }

    /// Draws cells: writes those that differ from the cells on the screen.
    ///
    /// # Errors
    /// `Io` when writing to the terminal fails.
    pub(super) fn show(&mut self, next: Buffer) -> Result<()> {
        let mut text = String::new();
        let last = self.shown.take().filter(|last| last.area == next.area);
        let last = last.unwrap_or_else(|| {
            text.push_str("\x1b[0m\x1b[2J");
            Buffer::empty(next.area)
        });
        write_cells(&mut text, last.diff_iter(&next));
        if !text.is_empty()
            && let Some(terminal) = lock().as_mut()
        {
            // Terminals that support synchronized updates show the frame at once; others ignore the
            // sequences.
            let frame = format!("{FRAME}{text}{FRAME_END}");
            let written = terminal.screen.write_all(frame.as_bytes());
            written.map_err(|error| Error::io("write to the terminal", error))?;
        }
        self.shown = Some(next);
        Ok(())
    }

    /// Discards the known cells, because something else may have written to the screen.
    pub(super) fn forget(&mut self) {
        self.shown = None;
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        give_back();
    }
}

/// The columns and rows of the screen.
pub(super) fn size() -> (u16, u16) {
    match platform::size() {
        Some((columns, rows)) if columns > 0 && rows > 0 => (columns, rows),
        _ => USUAL,
    }
}

/// Takes the terminal, unless this program already holds it.
///
/// # Errors
/// `Io` when the terminal cannot be set to raw mode.
pub(super) fn take() -> Result<()> {
    let mut held = lock();
    if held.is_some() {
        return Ok(());
    }
    let taken = RawTerminal::take().map_err(|error| Error::io("set the terminal", error))?;
    hold_lines();
    let terminal = held.insert(taken);
    let begun = terminal.screen.write_all(BEGIN);
    Ok(begun.map_err(|error| Error::io("write to the terminal", error))?)
}

/// Restores the terminal, unless that was done already.
pub(super) fn give_back() {
    let Some(mut held) = lock_in_time() else { return };
    if let Some(mut terminal) = held.take() {
        // Errors are ignored: a closed terminal needs no restoring.
        let _ = terminal.screen.write_all(END);
        terminal.give_back();
        release_lines();
    }
}

fn lock() -> MutexGuard<'static, Option<RawTerminal>> {
    TERMINAL.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn lock_in_time() -> Option<MutexGuard<'static, Option<RawTerminal>>> {
    for _ in 0..TRIES {
        match TERMINAL.try_lock() {
            Ok(held) => return Some(held),
            Err(TryLockError::Poisoned(held)) => return Some(held.into_inner()),
            Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
        }
    }
    None
}

/// Writes cells with their places and styles.
fn write_cells<'c>(text: &mut String, cells: impl Iterator<Item = (u16, u16, &'c Cell)>) {
    let (mut place, mut style) = (None, String::new());
    for (x, y, cell) in cells {
        if place != Some((x, y)) {
            // Writing to a string does not fail.
            let _ = write!(text, "\x1b[{};{}H", u32::from(y) + 1, u32::from(x) + 1);
        }
        let next = style_of(cell);
        if next != style {
            text.push_str(&next);
            style = next;
        }
        text.push_str(cell.symbol());
        // Moves the cursor after a non-ASCII cell, because terminals differ in which characters
        // they draw wide.
        place = cell.symbol().is_ascii().then(|| (x.saturating_add(1), y));
    }
    if !style.is_empty() {
        text.push_str("\x1b[0m");
    }
}

/// The escape sequence that sets the style of a cell.
fn style_of(cell: &Cell) -> String {
    let mut codes = String::from("\x1b[0");
    let modifiers = [(Modifier::BOLD, ";1"), (Modifier::DIM, ";2"), (Modifier::REVERSED, ";7")];
    for (modifier, code) in modifiers {
        if cell.modifier.contains(modifier) {
            codes.push_str(code);
        }
    }
    codes.push_str(match cell.fg {
        Color::Red => ";31",
        Color::Green => ";32",
        Color::Yellow => ";33",
        Color::Cyan => ";36",
        _ => "",
    });
    codes.push('m');
    codes
}

#[cfg(test)]
mod tests {
    use ratatui_core::layout::Rect;
    use ratatui_core::style::Style;

    use super::*;

    #[test]
    fn only_what_differs_is_written() {
        let area = Rect::new(0, 0, 20, 2);
        let mut first = Buffer::empty(area);
        first.set_string(0, 0, "one two", Style::new());
        let mut second = first.clone();
        second.set_string(4, 0, "six", Style::new().fg(Color::Red));
        second.set_string(0, 1, "修ab", Style::new());
        let mut text = String::new();
        write_cells(&mut text, first.diff_iter(&second));
        let expected = "\x1b[1;5H\x1b[0;31msix\x1b[2;1H\x1b[0m修\x1b[2;3Hab\x1b[0m";
        assert_eq!(text, expected);
        text.clear();
        write_cells(&mut text, second.diff_iter(&second));
        assert_eq!(text, "");
    }
}
