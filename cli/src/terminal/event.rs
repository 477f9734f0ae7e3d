//! What the loop waits for, and the threads that tell it: keys, signals, changes of the store.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use turntree::Error;

use super::content::{Answer, Question};
use super::device;
use crate::program::held_store::HeldStore;
use crate::program::store_watch::StoreWatch;
use crate::view::error::Result;

/// Bytes of keys that are read at once.
const BYTES: usize = 1024;

/// The time from one change that is told to the next.
const REST: Duration = Duration::from_millis(100);

/// What has happened.
#[derive(Debug)]
pub(super) enum Event {
    /// The terminal has sent bytes.
    Bytes(Vec<u8>),
    /// The terminal is gone.
    Gone,
    /// The screen may have another size, or other things on it.
    Screen,
    /// The store is not as it was.
    Changed,
    /// A question has its answer.
    Answer { screen: u64, question: Question, answer: Box<Result<Answer, String>> },
}

/// Tells of what the terminal sends, for as long as this process lives.
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

/// Tells of another size of the screen; a signal that ends or stops this process does so after the
/// terminal was given back.
///
/// # Errors
/// `Io` when signals cannot be watched for.
pub(super) fn watch_signals(events: Sender<Event>) -> Result<()> {
    let watched = [SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT];
    let mut signals =
        Signals::new(watched).map_err(|error| Error::io("watch for signals", error))?;
    thread::spawn(move || {
        for signal in signals.forever() {
            match signal {
                SIGWINCH => {}
                SIGCONT => drop(device::take()),
                SIGTSTP => {
                    device::give_back();
                    // Comes back when the process is let go on.
                    let _ = emulate_default_handler(signal);
                    drop(device::take());
                }
                signal => {
                    device::give_back();
                    let _ = emulate_default_handler(signal);
                }
            }
            if events.send(Event::Screen).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Tells of changes of a store from now on, for as long as this process lives.
pub(super) fn watch_store(store: Arc<HeldStore>, events: Sender<Event>) {
    let watch = StoreWatch::of(&store.location().dir);
    let look = move || store.repo(Ok).ok().map(|repo| (repo.store().id(), repo.refs().operation));
    // Before anything is shown: what comes after that is noticed.
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
            // While others commit all the time, a list is not read all the time.
            thread::sleep(REST);
        }
    });
}
