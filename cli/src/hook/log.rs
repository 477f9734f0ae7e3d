//! What went wrong in hooks: a bounded file in the store, with times and places and never content.

use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use turntree::store::HOOK_LOG;
use turntree::{Error, Result};

use crate::clock;

/// Bytes of the file after which its older half goes.
const MAX_BYTES: u64 = 128 << 10;

/// One line of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) time: String,
    pub(crate) dialect: String,
    pub(crate) event: String,
    /// What was being done.
    pub(crate) doing: String,
    /// What came of it.
    pub(crate) what: String,
}

/// Adds a line to the log of the store in `dir`, if that is there. Nobody is told when it fails:
/// there is nobody left to tell.
pub(crate) fn note(dir: &Path, dialect: &str, event: &str, doing: &str, what: &str) {
    let Ok(now) = clock::now() else { return };
    let time = clock::rfc3339(now);
    let line = format!("{time}\t{dialect}\t{event}\t{doing}\t{what}\n");
    let path = dir.join(HOOK_LOG);
    let _ = trim(&path);
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}

/// Keeps the newer half of a log that is too long.
fn trim(path: &Path) -> std::io::Result<()> {
    let len = fs::metadata(path)?.len();
    if len < MAX_BYTES {
        return Ok(());
    }
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    file.seek(SeekFrom::Start(len - MAX_BYTES / 2))?;
    let mut newer = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut newer)?;
    let start = newer.iter().position(|byte| *byte == b'\n').map_or(newer.len(), |at| at + 1);
    let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
    file.write_all(newer.get(start..).unwrap_or_default())
}

/// The lines of the log, oldest first.
pub(crate) fn entries(dir: &Path) -> Result<Vec<Entry>> {
    let text = match fs::read(dir.join(HOOK_LOG)) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Error::io("read the log of hooks", error)),
    };
    Ok(text.lines().filter_map(entry).collect())
}

fn entry(line: &str) -> Option<Entry> {
    let mut parts = line.split('\t').map(str::to_owned);
    let mut next = || parts.next();
    Some(Entry { time: next()?, dialect: next()?, event: next()?, doing: next()?, what: next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_stays_small_and_keeps_what_is_newest() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(entries(dir.path()).unwrap(), []);
        for number in 0..6000 {
            note(dir.path(), "codex", "Stop", "read the event", &format!("n{number}"));
        }
        assert!(fs::metadata(dir.path().join(HOOK_LOG)).unwrap().len() <= MAX_BYTES + 100);
        let entries = entries(dir.path()).unwrap();
        assert_eq!(entries.last().unwrap().what, "n5999");
        assert!(
            entries.iter().all(|entry| entry.dialect == "codex" && entry.what.starts_with('n'))
        );
    }
}
