//! Progress of long work: a bar on stderr, on a terminal and after half a second only.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::view::render::harmless;

/// A command that ends before this says nothing of its progress.
const PATIENCE: Duration = Duration::from_millis(500);

/// The time between two frames of a spinner.
const FRAME: Duration = Duration::from_millis(100);

/// A reader that shows how much of `total` bytes has passed.
#[derive(Debug)]
pub(crate) struct Progress<R> {
    inner: R,
    name: String,
    total: Option<u64>,
    passed: u64,
    start: Instant,
    bar: Option<ProgressBar>,
}

impl<R> Progress<R> {
    /// Shows the reading of `inner`, called `name`; `total` is its size, where that is known.
    pub(crate) fn new(inner: R, name: &str, total: Option<u64>) -> Self {
        let (name, start) = (harmless(name), Instant::now());
        Self { inner, name, total, passed: 0, start, bar: None }
    }

    fn pass(&mut self, bytes: u64) {
        self.passed += bytes;
        if self.bar.is_none() && self.start.elapsed() >= PATIENCE {
            self.bar = Some(bar(&self.name, self.total));
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.passed);
        }
    }
}

/// Shows how many of some bytes are done, for work that is no reading.
#[derive(Debug)]
pub(crate) struct Meter {
    name: &'static str,
    start: Instant,
    bar: Option<ProgressBar>,
}

impl Meter {
    /// Shows work that is called `name`.
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, start: Instant::now(), bar: None }
    }

    /// Shows that `done` bytes of `all` are done.
    pub(crate) fn show(&mut self, done: u64, all: u64) {
        if self.bar.is_none() && self.start.elapsed() >= PATIENCE {
            self.bar = Some(bar(self.name, Some(all)));
        }
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Hidden by itself when stderr is no terminal.
fn bar(name: &str, total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (
            ProgressBar::new(total),
            "{msg} {wide_bar:.cyan} {percent:>3}%  {bytes} of {total_bytes}  {bytes_per_sec}  {eta} left",
        ),
        None => (ProgressBar::new_spinner(), "{msg} {spinner} {bytes}"),
    };
    let style = ProgressStyle::with_template(template);
    bar.with_message(name.to_owned()).with_style(style.unwrap_or(ProgressStyle::default_bar()))
}

impl<R: BufRead> BufRead for Progress<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.inner.consume(amount);
        self.pass(amount as u64);
    }
}

impl<R: Read> Read for Progress<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.pass(read as u64);
        Ok(read)
    }
}

impl<R> Drop for Progress<R> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A word about what goes on, while nobody knows how long it takes.
#[derive(Debug)]
pub(crate) struct Working {
    message: Arc<Mutex<String>>,
    /// Dropped to end the thread that shows it.
    alive: Option<Sender<()>>,
    shown: Option<JoinHandle<()>>,
}

impl Working {
    /// Shows `message`, if this is still there after a moment.
    pub(crate) fn new(message: &str) -> Self {
        let message = Arc::new(Mutex::new(message.to_owned()));
        let (alive, ended) = mpsc::channel();
        let text = Arc::clone(&message);
        let shown = thread::spawn(move || show(&text, &ended));
        Self { message, alive: Some(alive), shown: Some(shown) }
    }

    /// Shows another message from now on.
    pub(crate) fn say(&self, message: String) {
        *self.message.lock().unwrap_or_else(PoisonError::into_inner) = message;
    }
}

/// Shows `message` until the sender of `ended` is gone.
fn show(message: &Mutex<String>, ended: &Receiver<()>) {
    let mut pause = PATIENCE;
    let mut bar: Option<ProgressBar> = None;
    while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        pause = FRAME;
        let bar = bar.get_or_insert_with(ProgressBar::new_spinner);
        bar.set_message(harmless(&message.lock().unwrap_or_else(PoisonError::into_inner)));
        bar.tick();
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.alive = None;
        if let Some(shown) = self.shown.take() {
            // It only draws: a panic there has ended the program already.
            let _ = shown.join();
        }
    }
}
