//! Signals.

use std::io;
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};
#[cfg(feature = "ui")]
use signal_hook::consts::{SIGCONT, SIGQUIT, SIGTSTP, SIGWINCH};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

#[cfg(feature = "ui")]
use crate::platform::ScreenSignal;

/// The signals that ask a process to end.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Keeps signals from ending this process, until this is dropped.
#[derive(Debug)]
pub(crate) struct SignalWatch {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl SignalWatch {
    /// Calls `on` with each signal that asks this process to end.
    pub(crate) fn begin(mut on: impl FnMut(i32) + Send + 'static) -> io::Result<Self> {
        let mut signals = Signals::new(ENDING)?;
        let handle = signals.handle();
        let thread = thread::spawn(move || signals.forever().for_each(&mut on));
        Ok(Self { handle, thread: Some(thread) })
    }
}

impl Drop for SignalWatch {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // The thread only calls `on`.
            let _ = thread.join();
        }
    }
}

/// Calls `work` on the first signal that asks this process to end. Signals from now on count.
pub(crate) fn on_request_to_end(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new(ENDING)?;
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            work();
        }
    });
    Ok(())
}

/// Sends a signal to a child process.
pub(crate) fn pass_on(child: u32, signal: i32) {
    let child = i32::try_from(child).ok().and_then(Pid::from_raw);
    if let (Some(child), Some(signal)) = (child, Signal::from_named_raw(signal)) {
        // The process may have ended already.
        let _ = kill_process(child, signal);
    }
}

/// Ends or stops this process as `signal` would have.
pub(crate) fn end_by(signal: i32) -> io::Result<()> {
    signal_hook::low_level::emulate_default_handler(signal)
}

/// Asks this process to stop.
#[cfg(feature = "ui")]
pub(crate) fn stop_this() {
    let _ = signal_hook::low_level::raise(SIGTSTP);
}

/// Starts a thread that calls `on` with each signal that concerns the screen, until it returns false.
#[cfg(feature = "ui")]
pub(crate) fn watch_screen(
    mut on: impl FnMut(ScreenSignal) -> bool + Send + 'static,
) -> io::Result<()> {
    let watched = [SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT];
    let mut signals = Signals::new(watched)?;
    thread::spawn(move || {
        for signal in signals.forever() {
            let signal = match signal {
                SIGWINCH => ScreenSignal::Resized,
                SIGCONT => ScreenSignal::Continued,
                SIGTSTP => ScreenSignal::Stopping(signal),
                signal => ScreenSignal::Ending(signal),
            };
            if !on(signal) {
                return;
            }
        }
    });
    Ok(())
}
