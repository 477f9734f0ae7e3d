//! Progress of long work: a bar on stderr, only on a terminal and after half a second.

use std::io::{self, BufRead, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use turntree::store::Steps;

use crate::view::render::harmless;

/// A command that ends sooner shows no progress.
const PATIENCE: Duration = Duration::from_millis(500);

/// The time between two frames of a spinner.
const FRAME: Duration = Duration::from_millis(100);

/// A reader that shows how many of `total` bytes it has read.
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
    /// Shows the reading of `inner`, called `name`; `total` is its size, if known.
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

/// Shows how many bytes are done, for work other than reading.
#[derive(Debug)]
pub(crate) struct Meter {
    name: &'static str,
    start: Instant,
    bar: Option<ProgressBar>,
}

impl Meter {
    /// Shows work called `name`.
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, start: Instant::now(), bar: None }
    }

    /// Shows `done` of `all` bytes.
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

/// Shows how many of `all` bytes are done, by any thread.
#[derive(Debug)]
pub(crate) struct SharedMeter {
    meter: Mutex<Meter>,
    done: AtomicU64,
    all: u64,
}

impl SharedMeter {
    /// Shows work called `name`.
    pub(crate) fn new(name: &'static str, all: u64) -> Self {
        Self { meter: Mutex::new(Meter::new(name)), done: AtomicU64::new(0), all }
    }

    /// Adds bytes that are done.
    pub(crate) fn pass(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // If another thread shows the meter now, this one need not.
        if let Ok(mut meter) = self.meter.try_lock() {
            meter.show(done.min(self.all), self.all);
        }
    }
}

/// Hidden automatically if stderr is not a terminal.
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

/// A message about work of unknown duration, and a bar once its steps are known.
#[derive(Debug)]
pub(crate) struct Working {
    message: Arc<Mutex<String>>,
    /// Dropping it ends the thread that shows the message.
    alive: Option<Sender<()>>,
    shown: Option<JoinHandle<()>>,
}

impl Working {
    /// Shows `message`, if the work takes longer than a moment.
    pub(crate) fn new(message: &str) -> Self {
        Self::counting(message, "", &Arc::default())
    }

    /// Shows `message` and how many of the steps are done; `unit` names steps.
    pub(crate) fn counting(message: &str, unit: &'static str, steps: &Arc<Steps>) -> Self {
        let message = Arc::new(Mutex::new(message.to_owned()));
        let (alive, ended) = mpsc::channel();
        let (text, steps) = (Arc::clone(&message), Arc::clone(steps));
        let shown = thread::spawn(move || show(&text, (&steps, unit), &ended));
        Self { message, alive: Some(alive), shown: Some(shown) }
    }

    /// Changes the message.
    pub(crate) fn say(&self, message: String) {
        *self.message.lock().unwrap_or_else(PoisonError::into_inner) = message;
    }
}

/// A bar of `all` steps.
fn steps_bar(all: u64, unit: &str) -> ProgressBar {
    let template = format!(
        "{{msg}} {{wide_bar:.cyan}} {{percent:>3}}%  {{human_pos}} of {{human_len}} {unit}  {{per_sec}}  {{eta}} left"
    );
    let style = ProgressStyle::with_template(&template);
    ProgressBar::new(all).with_style(style.unwrap_or(ProgressStyle::default_bar()))
}

/// Shows `message` until the sender of `ended` is dropped.
fn show(message: &Mutex<String>, (steps, unit): (&Steps, &str), ended: &Receiver<()>) {
    let mut pause = PATIENCE;
    let mut bar: Option<ProgressBar> = None;
    let mut is_counted = false;
    while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        pause = FRAME;
        let (done, all) = steps.count();
        if all > 0 && !is_counted {
            is_counted = true;
            if let Some(spinner) = bar.take() {
                spinner.finish_and_clear();
            }
            bar = Some(steps_bar(all, unit));
        }
        let bar = bar.get_or_insert_with(ProgressBar::new_spinner);
        if is_counted {
            bar.set_length(all);
            bar.set_position(done);
        }
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
            // The thread only draws, and a panic in it has already ended the program.
            let _ = shown.join();
        }
    }
}
