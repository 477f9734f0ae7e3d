//! Events of the loop, and the threads that send them: keys, signals, changes of the store.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use turntree::Error;

use super::content::{Answer, Question};
use super::device;
use crate::platform::{ScreenSignal, end_by, watch_screen};
use crate::program::held_store::HeldStore;
use crate::program::store_watch::StoreWatch;
use crate::view::error::Result;

/// Bytes of keys that are read at a time.
const BYTES: usize = 1024;

/// The minimum time between two reported changes.
const REST: Duration = Duration::from_millis(100);

/// An event of the loop.
#[derive(Debug)]
pub(super) enum Event {
    /// The terminal has sent bytes.
    Bytes(Vec<u8>),
    /// The terminal was closed.
    Gone,
    /// The size or the content of the screen may have changed.
    Screen,
    /// The store has changed.
    Changed,
    /// A question has its answer.
    Answer { screen: u64, question: Question, answer: Box<Result<Answer, String>> },
}

/// Starts a thread that reports input of the terminal until the process ends.
pub(super) fn read_keys(events: Sender<Event>) {
    thread::spawn(move || {
        let mut bytes = [0; BYTES];
        loop {
            let event = match io::stdin().lock().read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => Event::Gone,
                Ok(read) => Event::Bytes(bytes.get(..read).unwrap_or_default().to_vec()),
            };
            let is_gone = matches!(event, Event::Gone);
            if events.send(event).is_err() || is_gone {
                return;
            }
        }
    });
}

/// Starts a thread that reports changes of the screen size. A signal that ends or stops this
/// process takes effect after the terminal was restored.
///
/// # Errors
/// `Io` when signals cannot be watched.
pub(super) fn watch_signals(events: Sender<Event>) -> Result<()> {
    let watch = watch_screen(move |signal| {
        match signal {
            ScreenSignal::Resized => {}
            ScreenSignal::Continued => drop(device::take()),
            ScreenSignal::Stopping(signal) => {
                device::give_back();
                // Returns when the process is continued.
                let _ = end_by(signal);
                drop(device::take());
            }
            ScreenSignal::Ending(signal) => {
                device::give_back();
                let _ = end_by(signal);
            }
        }
        events.send(Event::Screen).is_ok()
    });
    Ok(watch.map_err(|error| Error::io("watch for signals", error))?)
}

/// Starts a thread that reports changes of a store until the process ends.
pub(super) fn watch_store(store: Arc<HeldStore>, events: Sender<Event>) {
    let watch = StoreWatch::of(&store.location().dir);
    let look = move || store.repo(Ok).ok().map(|repo| (repo.store_id(), repo.refs().operation));
    // The state is read before anything is shown, so that later changes are noticed.
    let mut seen = look();
    thread::spawn(move || {
        loop {
            watch.wait();
            let now = look();
            if now == seen {
                continue;
            }
            seen = now;
            if events.send(Event::Changed).is_err() {
                return;
            }
            // Limits how often a list is reread while other processes commit continuously.
            thread::sleep(REST);
        }
    });
}
