//! Output: data to stdout or a pager, everything else to stderr, colour if requested.

use std::cell::OnceCell;
use std::fmt;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use turntree::repo::BranchName;
use turntree::store::RefTable;

use crate::platform;
use crate::view::render::{columns_of, harmless};
use crate::view::short_names::ShortNames;
use crate::view::terminal_text::TerminalText;

/// Colour of ids.
pub(crate) const ID: Style = AnsiColor::Yellow.on_default();
/// Colour of names of branches, sessions and sections.
pub(crate) const NAME: Style = AnsiColor::Cyan.on_default();
/// Colour of additions.
pub(crate) const ADDED: Style = AnsiColor::Green.on_default();
/// Colour of removals.
pub(crate) const REMOVED: Style = AnsiColor::Red.on_default();
/// Style of important text.
pub(crate) const STRONG: Style = Style::new().bold();
/// Style of less important text.
pub(crate) const FAINT: Style = Style::new().dimmed();

/// Minimum width of a text at the end of a line, however narrow the screen is.
pub(crate) const MIN_LEFT: usize = 20;

/// Maximum number of held lines for stderr.
const MAX_HELD: usize = 100;

/// A line for stderr: a style, the styled beginning, and the rest.
type HeldLine = (Style, String, String);

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` or `TERM=dumb` is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Stdout of a run: text or records, optionally through a pager.
#[derive(Debug)]
pub(crate) struct Output {
    /// Print records for programs instead of text for people.
    pub(crate) json: bool,
    /// The colours.
    pub(crate) paint: Palette,
    /// The width of the screen.
    pub(crate) width: Width,
    /// The short names of sessions, once a store is open.
    names: OnceCell<ShortNames>,
    pager_allowed: bool,
    /// Filters bytes for a terminal; `None` if stdout is a file or a pipe.
    terminal: Option<TerminalText>,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    Stdout(BufWriter<Heard<StdoutLock<'static>>>),
    Pager {
        child: Child,
        stdin: BufWriter<Heard<ChildStdin>>,
    },
    /// Another writer of this process uses stdout, so nothing else is written.
    HandedOver,
}

impl Output {
    /// Creates output to this process's stdout.
    pub(crate) fn new(json: bool, color: Color, pager: bool) -> Self {
        set_color(color);
        let stdout = io::stdout();
        let on = anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never && !json;
        Self {
            json,
            paint: Palette { on },
            width: Width::of_screen(&stdout),
            names: OnceCell::new(),
            pager_allowed: pager && !json && stdout.is_terminal(),
            terminal: stdout.is_terminal().then(|| TerminalText::new(on, json)),
            sink: Sink::Stdout(BufWriter::new(Heard(stdout.lock()))),
        }
    }

    /// Shortens the names of the sessions in `refs` from now on.
    pub(crate) fn know_names(&self, refs: Arc<RefTable>) {
        // A command may open its store twice.
        let _ = self.names.set(ShortNames::new(refs));
    }

    /// The short names of sessions.
    pub(crate) fn names(&self) -> &ShortNames {
        self.names.get_or_init(ShortNames::default)
    }

    /// The short name of a branch, in its colour.
    pub(crate) fn branch(&self, branch: &BranchName) -> String {
        self.paint.paint(NAME, self.names().branch(branch)).to_string()
    }

    /// Sends the following output through a pager if stdout is a terminal: `TURNTREE_PAGER`,
    /// `PAGER`, or `less -FRX`. `cat` or an empty value means no pager.
    pub(crate) fn page(&mut self) {
        if !self.pager_allowed {
            return;
        }
        let wanted = ["TURNTREE_PAGER", "PAGER"].iter().find_map(|name| std::env::var(name).ok());
        let wanted = wanted.unwrap_or_else(|| "less".to_owned());
        let mut words = wanted.split_whitespace();
        let Some(program) = words.next().filter(|program| *program != "cat") else { return };
        let mut pager = Command::new(program);
        pager.args(words).stdin(Stdio::piped());
        for (name, value) in [("LESS", "FRX"), ("LESSCHARSET", "utf-8")] {
            if std::env::var_os(name).is_none() {
                pager.env(name, value);
            }
        }
        match pager.spawn() {
            Ok(mut child) => {
                if let Some(stdin) = child.stdin.take() {
                    self.sink = Sink::Pager { child, stdin: BufWriter::new(Heard(stdin)) };
                }
            }
            Err(error) => warn(&format!("cannot start the pager '{wanted}': {error}")),
        }
    }

    /// Leaves stdout to another writer of this process, and discards further output here.
    pub(crate) fn hand_over(&mut self) {
        self.sink = Sink::HandedOver;
    }

    /// Writes a record as one line of JSON.
    pub(crate) fn record<T: Serialize>(&mut self, record: &T) -> io::Result<()> {
        serde_json::to_writer(&mut *self, record)?;
        self.write_all(b"\n")
    }

    /// Flushes the output, and waits for the pager.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if let Some(mut terminal) = self.terminal.take() {
            let mut shown = Vec::new();
            terminal.end(&mut shown);
            self.sink.write_all(&shown)?;
        }
        match self.sink {
            Sink::Stdout(mut stdout) => stdout.flush(),
            Sink::Pager { mut child, stdin } => {
                let flushed = stdin.into_inner().map(drop).map_err(io::IntoInnerError::into_error);
                child.wait()?;
                flushed
            }
            Sink::HandedOver => Ok(()),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(terminal) = &mut self.terminal else { return self.sink.write(bytes) };
        let mut shown = Vec::with_capacity(bytes.len());
        terminal.push(bytes, &mut shown);
        self.sink.write_all(&shown)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(stdout) => stdout.write(bytes),
            Self::Pager { stdin, .. } => stdin.write(bytes),
            Self::HandedOver => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => stdout.flush(),
            Self::Pager { stdin, .. } => stdin.flush(),
            Self::HandedOver => Ok(()),
        }
    }
}

/// An output of this run. If its reader closes it early, that is not a failure; a broken pipe to
/// any other process is. The error tells them apart.
#[derive(Debug)]
pub(crate) struct Heard<W>(pub(crate) W);

impl<W: Write> Write for Heard<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(heard)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(heard)
    }
}

fn heard(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => io::Error::new(io::ErrorKind::BrokenPipe, ReaderGone),
        _ => error,
    }
}

/// The error when the reader of an output has closed it.
#[derive(Debug)]
struct ReaderGone;

impl fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reader closed the output")
    }
}

impl std::error::Error for ReaderGone {}

/// Returns true if writing failed because the reader closed an output of this run.
pub(crate) fn is_reader_gone(error: &io::Error) -> bool {
    matches!(error.get_ref(), Some(cause) if cause.is::<ReaderGone>())
}

/// The width of the screen, or no limit if the output is not a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Width(Option<usize>);

impl Width {
    /// No limit.
    pub(crate) const UNLIMITED: Self = Self(None);

    /// A screen of this many columns.
    pub(crate) const fn of(columns: usize) -> Self {
        Self(Some(columns))
    }

    /// The terminal's width, otherwise `COLUMNS`, otherwise no limit.
    fn of_screen(stdout: &io::Stdout) -> Self {
        let terminal = platform::columns(stdout);
        let set = || std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let columns = terminal.filter(|columns| *columns > 0).or_else(set);
        columns.filter(|columns| *columns > 0).map_or(Self::UNLIMITED, Self::of)
    }

    /// Returns the width of the screen; `None` without a limit.
    pub(crate) const fn columns(self) -> Option<usize> {
        self.0
    }

    /// Returns the width left in a line after `used` columns, at least [`MIN_LEFT`].
    pub(crate) fn left(self, used: usize) -> usize {
        self.0.map_or(usize::MAX, |columns| columns.saturating_sub(used).max(MIN_LEFT))
    }

    /// Returns true if the screen is narrower than this.
    pub(crate) fn is_below(self, columns: usize) -> bool {
        self.0.is_some_and(|screen| screen < columns)
    }
}

/// Colours, or none.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Palette {
    on: bool,
}

impl Palette {
    /// Returns true if colours are on.
    #[cfg(feature = "ui")]
    pub(crate) const fn is_on(self) -> bool {
        self.on
    }

    /// `text` in `style`.
    pub(crate) fn paint<T: fmt::Display>(self, style: Style, text: T) -> Painted<T> {
        Painted { style: if self.on { style } else { Style::new() }, text }
    }
}

/// Text with a style around it.
#[derive(Debug)]
pub(crate) struct Painted<T> {
    style: Style,
    text: T,
}

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let style = self.style;
        let text = self.text.to_string();
        let text = harmless(&text);
        // Like `f.pad`, but by columns instead of characters.
        let rest = f.width().unwrap_or(0).saturating_sub(columns_of(&text));
        let (before, after) = match f.align() {
            Some(fmt::Alignment::Right) => (rest, 0),
            _ => (0, rest),
        };
        write!(f, "{style}{:before$}{text}{:after$}{style:#}", "", "")
    }
}

/// Prints a warning on stderr; the command continues.
pub(crate) fn warn(text: &str) {
    stderr_line(AnsiColor::Yellow.on_default().bold(), "warning: ", text);
}

/// Prints a note on stderr, for example about an empty answer, so that stdout stays empty for
/// scripts.
pub(crate) fn note(text: &str) {
    stderr_line(FAINT, "", text);
}

/// Prints a line on stderr, with `lead` in `style` if stderr shows colour. The text may contain
/// names from other users, so control characters are replaced.
pub(crate) fn stderr_line(style: Style, lead: &str, text: &str) {
    if let Some(held) = held_lines().as_mut() {
        let line = (style, lead.to_owned(), text.to_owned());
        if held.len() < MAX_HELD && !held.contains(&line) {
            held.push(line);
        }
        return;
    }
    let mut stderr = anstream::stderr().lock();
    // If stderr is closed, there is nowhere to report it.
    let _ = writeln!(stderr, "{style}{lead}{style:#}{}", harmless(text));
}

/// Holds lines for stderr until [`release_lines`], while the interface uses the screen.
#[cfg(feature = "ui")]
pub(crate) fn hold_lines() {
    held_lines().get_or_insert_default();
}

/// Writes the held lines, each once.
#[cfg(feature = "ui")]
pub(crate) fn release_lines() {
    let held = held_lines().take();
    for (style, lead, text) in held.into_iter().flatten() {
        stderr_line(style, &lead, &text);
    }
}

fn held_lines() -> MutexGuard<'static, Option<Vec<HeldLine>>> {
    static HELD: Mutex<Option<Vec<HeldLine>>> = Mutex::new(None);
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn set_color(color: Color) {
    match color {
        Color::Auto => {}
        Color::Always => anstream::ColorChoice::Always.write_global(),
        Color::Never => anstream::ColorChoice::Never.write_global(),
    }
}
