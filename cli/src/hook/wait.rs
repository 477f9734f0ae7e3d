//! Waits for records that a client has not written yet: the record of a call, and the end of a
//! transcript.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use turntree::workspace::open_regular;
use turntree_exchange::has_call;

/// The longest time that an agent waits for the record of its call.
const FOR_CALL: Duration = Duration::from_millis(200);

/// The interval between two checks for it.
const STEP: Duration = Duration::from_millis(5);

/// A transcript has settled when it has not grown for this time.
const QUIET: Duration = Duration::from_secs(1);

/// The longest wait for a transcript to settle.
const TO_SETTLE: Duration = Duration::from_secs(5);

/// The interval between two checks of it.
const SLOW_STEP: Duration = Duration::from_millis(50);

/// Waits until the transcript has the call `call`, for a fifth of a second at most. Returns
/// immediately if it already has it.
pub(super) fn for_call(transcript: &Path, call: &str) {
    let (began, mut looked_at) = (Instant::now(), None);
    loop {
        let found = length(transcript);
        if found != looked_at {
            looked_at = found;
            let held = open_regular(transcript).map(|file| has_call(file, call));
            if matches!(held, Ok(Ok(true))) {
                return;
            }
        }
        if began.elapsed() + STEP > FOR_CALL {
            return;
        }
        sleep(STEP);
    }
}

/// Waits until the transcript has not grown for a second, for five seconds at most.
pub(super) fn to_settle(transcript: &Path) {
    let began = Instant::now();
    let (mut known, mut since) = (length(transcript), began);
    while since.elapsed() < QUIET && began.elapsed() < TO_SETTLE {
        sleep(SLOW_STEP);
        let found = length(transcript);
        if found != known {
            (known, since) = (found, Instant::now());
        }
    }
}

/// The size of a file; `None` if it is missing.
fn length(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|found| found.len())
}
