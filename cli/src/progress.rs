//! How far a long reading has come: a bar on stderr, on a terminal and after half a second only.

use std::io::{self, BufRead, Read};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// A command that ends before this says nothing of its progress.
const PATIENCE: Duration = Duration::from_millis(500);

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
        let (name, start) = (name.to_owned(), Instant::now());
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

/// How much of some bytes is done, for work that is no reading.
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
        Some(total) => (ProgressBar::new(total), "{msg} {wide_bar} {bytes} of {total_bytes}"),
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
