//! The log of hook errors: a bounded file in the store with times and locations, never content.

use std::path::Path;

use turntree::store::HOOK_LOG;
use turntree::workspace::read_regular;
use turntree::{Error, Result};

use crate::program::store_log::append;

/// Maximum bytes to read; the file is kept shorter.
const MAX_READ_BYTES: u64 = 16 << 20;

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HookError {
    pub(crate) time: String,
    pub(crate) dialect: String,
    pub(crate) event: String,
    /// The step that failed.
    pub(crate) doing: String,
    /// The error.
    pub(crate) what: String,
}

/// Appends a line to the log of the store in `dir`, if the store exists. Errors are ignored: there
/// is nowhere to report them.
pub(crate) fn note(dir: &Path, dialect: &str, event: &str, doing: &str, what: &str) {
    let _ = append(&dir.join(HOOK_LOG), &format!("{dialect} {event}: {doing}: {what}"));
}

/// Returns the lines of the log, oldest first.
pub(crate) fn entries(dir: &Path) -> Result<Vec<HookError>> {
    let text = match read_regular(&dir.join(HOOK_LOG), MAX_READ_BYTES) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Error::io("read the log of hooks", error)),
    };
    Ok(text.lines().filter_map(entry).collect())
}

fn entry(line: &str) -> Option<HookError> {
    let (time, rest) = line.split_once(' ')?;
    let (dialect, rest) = rest.split_once(' ')?;
    let (event, rest) = rest.split_once(": ")?;
    let (doing, what) = rest.split_once(": ")?;
    let [time, dialect, event, doing, what] =
        [time, dialect, event, doing, what].map(str::to_owned);
    Some(HookError { time, dialect, event, doing, what })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::program::store_log::MAX_LOG_BYTES;

    #[test]
    fn the_log_stays_small_and_keeps_what_is_newest() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(entries(dir.path()).unwrap(), []);
        for number in 0..6000 {
            note(dir.path(), "codex", "Stop", "read the event", &format!("n{number}"));
        }
        assert!(fs::metadata(dir.path().join(HOOK_LOG)).unwrap().len() <= MAX_LOG_BYTES as u64);
        let entries = entries(dir.path()).unwrap();
        assert_eq!(entries.last().unwrap().what, "n5999");
        assert!(
            entries.iter().all(|entry| entry.dialect == "codex" && entry.what.starts_with('n'))
        );
    }
}
