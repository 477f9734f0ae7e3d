//! Requests to end: Ctrl-C, and those of the C library. Windows has no other signals.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};

#[cfg(feature = "ui")]
use super::terminal::size;
#[cfg(feature = "ui")]
use crate::platform::ScreenSignal;

/// The requests to end.
const ENDING: [i32; 2] = [SIGINT, SIGTERM];

/// The pause between two looks for a request.
const PAUSE: Duration = Duration::from_millis(50);

/// A flag of each request that arrived.
fn flags() -> io::Result<Vec<(i32, Arc<AtomicBool>)>> {
    let flag = |signal: &i32| {
        let flag = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(*signal, Arc::clone(&flag))?;
        Ok((*signal, flag))
    };
    ENDING.iter().map(flag).collect()
}

/// Keeps requests from ending this process, until this is dropped.
#[derive(Debug)]
pub(crate) struct SignalWatch {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SignalWatch {
    /// Calls `on` with each request to end.
    pub(crate) fn begin(mut on: impl FnMut(i32) + Send + 'static) -> io::Result<Self> {
        let (flags, is_over) = (flags()?, Arc::new(AtomicBool::new(false)));
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                for (signal, flag) in &flags {
                    if flag.swap(false, Ordering::Relaxed) {
                        on(*signal);
                    }
                }
                thread::sleep(PAUSE);
            }
        });
        Ok(Self { is_over, thread: Some(thread) })
    }
}

impl Drop for SignalWatch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread only calls `on`.
            let _ = thread.join();
        }
    }
}

/// Calls `work` on the first request to end. Requests from now on count.
pub(crate) fn on_request_to_end(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let flags = flags()?;
    thread::spawn(move || {
        while !flags.iter().any(|(_, flag)| flag.load(Ordering::Relaxed)) {
            thread::sleep(PAUSE);
        }
        work();
    });
    Ok(())
}

/// Does nothing: Ctrl-C reaches all processes of a console.
pub(crate) fn pass_on(_child: u32, _signal: i32) {}

/// Ends this process as `signal` would have.
pub(crate) fn end_by(signal: i32) -> io::Result<()> {
    signal_hook::low_level::emulate_default_handler(signal)
}

/// Does nothing: no process of Windows is stopped by its terminal.
#[cfg(feature = "ui")]
pub(crate) fn stop_this() {}

/// Starts a thread that calls `on` with each change of the screen size and each request to end, until
/// it returns false.
#[cfg(feature = "ui")]
pub(crate) fn watch_screen(
    mut on: impl FnMut(ScreenSignal) -> bool + Send + 'static,
) -> io::Result<()> {
    let flags = flags()?;
    thread::spawn(move || {
        let mut last = size();
        loop {
            let ended = flags.iter().find(|(_, flag)| flag.swap(false, Ordering::Relaxed));
            if ended.is_some_and(|(signal, _)| !on(ScreenSignal::Ending(*signal))) {
                return;
            }
            let now = size();
            if now != last && !on(ScreenSignal::Resized) {
                return;
            }
            last = now;
            thread::sleep(PAUSE);
        }
    });
    Ok(())
}
