//! Runs a program on a pseudo-terminal, and records the screen that it draws.
//!
//! Tests wait for a content of the screen, never for a time.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::ioctl::{Getter, Opcode, Setter, ioctl};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use unicode_width::UnicodeWidthChar;

/// How long to wait for a content of the screen.
const PATIENCE: Duration = Duration::from_secs(120);

/// Unlocks the other end of a pseudo-terminal, and returns its number: `TIOCSPTLCK` and `TIOCGPTN`
/// of Linux.
const UNLOCK: Opcode = 0x4004_5431;
const NUMBER: Opcode = 0x8004_5430;

/// A terminal and its program.
pub struct Terminal {
    ours: File,
    /// Kept open, so that the settings can be read after the program has ended.
    theirs: File,
    before: Termios,
    child: Child,
    screen: Arc<(Mutex<Screen>, Condvar)>,
}

/// The characters of each row.
type Rows = Vec<Vec<String>>;

/// The content of a terminal, from the bytes written to it.
#[derive(Debug)]
pub struct Screen {
    rows: Rows,
    place: (usize, usize),
    /// The first screen while the alternate screen is shown.
    first: Option<(Rows, (usize, usize))>,
    /// The beginning of a character or of an escape sequence.
    pending: Vec<u8>,
    /// True while a synchronized update is incomplete.
    is_partial: bool,
    /// True if the alternate screen is shown, which leaves the first one unchanged.
    pub is_other: bool,
    /// True if the cursor is visible.
    pub has_cursor: bool,
    /// True if a colour was used.
    pub has_colour: bool,
    /// The escape sequences that no interface should use.
    pub strange: Vec<String>,
}

impl Terminal {
    /// Starts a program on a terminal of `columns` and `rows`.
    ///
    /// # Panics
    /// If pseudo-terminals are missing, or the program does not start.
    #[must_use]
    pub fn start(mut command: Command, (columns, rows): (u16, u16)) -> Self {
        let (ours, theirs) = open();
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&ours, size).expect("a size");
        let before = tcgetattr(&theirs).expect("the settings");
        let end = || Stdio::from(theirs.try_clone().expect("a descriptor"));
        command.stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().expect("the program");
        let screen = Arc::new((Mutex::new(Screen::new((columns, rows))), Condvar::new()));
        let mut from = ours.try_clone().expect("a descriptor");
        let told = Arc::clone(&screen);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Ends when the last descriptor of the other end is closed.
            while let Ok(read @ 1..) = from.read(&mut bytes) {
                lock(&told.0).write(&bytes[..read]);
                told.1.notify_all();
            }
        });
        Self { ours, theirs, before, child, screen }
    }

    /// Types keys.
    ///
    /// # Panics
    /// If no process reads the terminal.
    pub fn press(&self, keys: &str) {
        (&self.ours).write_all(keys.as_bytes()).expect("the terminal");
    }

    /// Waits until the screen satisfies a condition, and returns its text.
    ///
    /// # Panics
    /// If it never does. The message has the screen.
    pub fn wait_until(&self, what: &str, is_wanted: impl Fn(&Screen) -> bool) -> String {
        let begun = Instant::now();
        let mut screen = lock(&self.screen.0);
        while screen.is_partial || !is_wanted(&screen) {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            assert!(!left.is_zero(), "no {what} on the screen:\n{}", screen.text());
            let waited = self.screen.1.wait_timeout(screen, left);
            screen = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        screen.text()
    }

    /// Waits until a text is on the screen, and returns the whole text.
    pub fn shows(&self, text: &str) -> String {
        self.wait_until(text, |screen| screen.text().contains(text))
    }

    /// Waits until the terminal is in its state before the program.
    pub fn is_given_back(&self) {
        self.wait_until("first screen with its cursor", |screen| {
            !screen.is_other && screen.has_cursor
        });
        let now = tcgetattr(&self.theirs).expect("the settings");
        assert_eq!(settings(&now), settings(&self.before));
    }

    /// Resizes the terminal, like a window.
    ///
    /// # Panics
    /// If the program has ended.
    pub fn resize(&self, (columns, rows): (u16, u16)) {
        lock(&self.screen.0).resize((columns, rows));
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.ours, size).expect("a size");
        // The program is not in a foreground process group of a shell, so the kernel does not send
        // this signal.
        self.send(Signal::WINCH);
    }

    /// Sends a signal to the program.
    ///
    /// # Panics
    /// If the program has ended.
    pub fn send(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("a signal");
    }

    /// Waits until the program is stopped.
    ///
    /// # Panics
    /// If the program ends instead.
    pub fn is_stopped(&self) {
        let status = waitpid(Some(self.pid()), WaitOptions::UNTRACED).expect("the program");
        assert!(status.is_some_and(|(_, status)| status.stopped()), "it has ended");
    }

    /// Waits for the end of the program.
    ///
    /// # Panics
    /// If the program does not end in time.
    pub fn end(&mut self) -> ExitStatus {
        let begun = Instant::now();
        // The last output fits into the terminal's buffer, so the program does not block on it.
        while begun.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().expect("the program") {
                return status;
            }
            thread::yield_now();
        }
        panic!("it does not end:\n{}", lock(&self.screen.0).text());
    }

    /// Reads the screen.
    pub fn look<T>(&self, look: impl FnOnce(&Screen) -> T) -> T {
        look(&lock(&self.screen.0))
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

/// Runs a program on a new terminal, and returns all its output, byte for byte.
///
/// # Panics
/// If pseudo-terminals are missing, or the program does not start.
#[must_use]
pub fn written_to_terminal(mut command: Command) -> Vec<u8> {
    let (mut ours, theirs) = open();
    command.stdin(Stdio::null()).stdout(theirs.try_clone().expect("a descriptor")).stderr(theirs);
    let mut child = command.spawn().expect("the program");
    // The command keeps the last descriptors of the other end in this process.
    drop(command);
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = ours.read(&mut piece) {
        all.extend_from_slice(&piece[..read]);
    }
    child.wait().expect("the program");
    all
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Screen {
    fn new((columns, rows): (u16, u16)) -> Self {
        let row = vec![" ".to_owned(); usize::from(columns)];
        Self {
            rows: vec![row; usize::from(rows)],
            place: (0, 0),
            first: None,
            pending: Vec::new(),
            is_partial: false,
            is_other: false,
            has_cursor: true,
            has_colour: false,
            strange: Vec::new(),
        }
    }

    fn resize(&mut self, size: (u16, u16)) {
        self.rows = Self::new(size).rows;
    }

    /// The lines without trailing spaces.
    #[must_use]
    pub fn text(&self) -> String {
        let lines = self.rows.iter().map(|row| row.concat().trim_end().to_owned() + "\n");
        lines.collect::<String>()
    }

    /// Applies written bytes to the screen.
    fn write(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        loop {
            let pending = std::mem::take(&mut self.pending);
            let Some(end) = end_of_unit(&pending) else {
                self.pending = pending;
                return;
            };
            self.pending = pending[end..].to_vec();
            self.take(&pending[..end]);
        }
    }

    fn take(&mut self, unit: &[u8]) {
        match unit {
            [0x1b, b'[', rest @ ..] => self.obey(&String::from_utf8_lossy(rest)),
            b"\r" => self.place.1 = 0,
            b"\n" => self.go_down(),
            [0x1b, ..] => self.strange.push(format!("{unit:?}")),
            _ => {
                let text = String::from_utf8_lossy(unit);
                let Some(c) = text.chars().next() else { return };
                if c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c) {
                    self.strange.push(format!("{c:?}"));
                    return;
                }
                self.put(c);
            }
        }
    }

    fn go_down(&mut self) {
        self.place.0 += 1;
        if self.place.0 >= self.rows.len() && !self.rows.is_empty() {
            let columns = self.rows.remove(0).len();
            self.rows.push(vec![" ".to_owned(); columns]);
            self.place.0 = self.rows.len() - 1;
        }
    }

    /// Shows the alternate screen, or the unchanged first one.
    fn change(&mut self, to_other: bool) {
        if to_other && self.first.is_none() {
            self.first = Some((self.rows.clone(), self.place));
        } else if !to_other && let Some((rows, place)) = self.first.take() {
            (self.rows, self.place) = (rows, place);
        }
        self.is_other = to_other;
    }

    fn put(&mut self, c: char) {
        let (row, column) = self.place;
        let wide = c.width().unwrap_or(0);
        let Some(cells) = self.rows.get_mut(row) else { return };
        if wide == 0 {
            if let Some(cell) = column.checked_sub(1).and_then(|at| cells.get_mut(at)) {
                cell.push(c);
            }
            return;
        }
        if let Some(cell) = cells.get_mut(column) {
            *cell = c.to_string();
        }
        for cell in cells.iter_mut().skip(column + 1).take(wide - 1) {
            cell.clear();
        }
        self.place.1 += wide;
    }

    fn obey(&mut self, order: &str) {
        let (numbers, what) = order.split_at(order.len() - 1);
        let number = |text: &str| text.parse::<usize>().unwrap_or(1);
        match (numbers, what) {
            (_, "H") => {
                let (row, column) = numbers.split_once(';').unwrap_or((numbers, ""));
                self.place = (number(row).saturating_sub(1), number(column).saturating_sub(1));
            }
            (_, "m") => {
                let is_colour = |code: &str| matches!(code.parse(), Ok(30..=49 | 90..=107_u32));
                self.has_colour |= numbers.split(';').any(is_colour);
            }
            ("2", "J") => {
                for cell in self.rows.iter_mut().flatten() {
                    " ".clone_into(cell);
                }
            }
            ("?1049", "h" | "l") => self.change(what == "h"),
            ("?2026", "h" | "l") => self.is_partial = what == "h",
            ("?25", "h" | "l") => self.has_cursor = what == "h",
            _ => self.strange.push(order.to_owned()),
        }
    }
}

/// The number of bytes of the first character or escape sequence, if it is complete.
fn end_of_unit(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [] | [0x1b] => None,
        [0x1b, b'[', rest @ ..] => {
            let end = rest.iter().position(|byte| (0x40..=0x7e).contains(byte));
            end.map(|at| at + 3)
        }
        [0x1b, ..] => Some(2),
        [first, ..] => {
            let length = match first {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => 1,
            };
            (bytes.len() >= length).then_some(length)
        }
    }
}

/// The settings of a terminal that programs change.
fn settings(of: &Termios) -> [u64; 4] {
    let bits = |bits: u32| u64::from(bits);
    [
        bits(of.input_modes.bits()),
        bits(of.output_modes.bits()),
        bits(of.control_modes.bits()),
        bits(of.local_modes.bits()),
    ]
}

/// Both ends of a new pseudo-terminal.
#[expect(unsafe_code, reason = "these calls have no safe name without another build of rustix")]
fn open() -> (File, File) {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(OFlags::NOCTTY.bits().cast_signed());
    let ours = options.open("/dev/ptmx").expect("a pseudo-terminal");
    // SAFETY: the kernel takes an int for the one and writes an int for the other.
    let number = unsafe {
        ioctl(&ours, Setter::<UNLOCK, i32>::new(0)).expect("the other end");
        ioctl(&ours, Getter::<NUMBER, i32>::new()).expect("its number")
    };
    let theirs = options.open(format!("/dev/pts/{number}")).expect("the other end");
    (ours, theirs)
}

fn lock(screen: &Mutex<Screen>) -> MutexGuard<'_, Screen> {
    screen.lock().unwrap_or_else(PoisonError::into_inner)
}
