//! Logs in a store: lines of text for people, about background work.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use turntree::Error;
use turntree::platform::{private, without_links};
use turntree::workspace::read_regular;

use crate::view::clock;
use crate::view::error::Result;

/// Maximum bytes to read of a log; it is kept shorter.
const MOST_READ: u64 = 16 << 20;

/// The size of a log above which its older half is dropped.
pub(crate) const MAX_LOG_BYTES: usize = 64 << 10;

/// Appends a line with the time to a log. A log is never encrypted, and drops its older half when
/// it gets too long.
pub(crate) fn append(log: &Path, message: &str) -> Result<()> {
    let failed = |error| Error::io(format!("write {}", log.display()), error);
    let line = format!("{} {}\n", clock::rfc3339(clock::now()?), message.replace('\n', " "));
    // The store may be untrusted: does not follow a link in place of the file, and does not block
    // on a pipe.
    let open = |how: &dyn Fn(&mut OpenOptions) -> &mut OpenOptions| {
        let mut options = OpenOptions::new();
        without_links(private(how(&mut options).create(true))).open(log).map_err(failed)
    };
    let is_file = fs::symlink_metadata(log).is_ok_and(|found| found.is_file());
    let known = is_file.then(|| read_regular(log, MOST_READ).ok()).flatten().unwrap_or_default();
    if known.len() + line.len() <= MAX_LOG_BYTES {
        return Ok(open(&|options| options.append(true))?
            .write_all(line.as_bytes())
            .map_err(failed)?);
    }
    let kept = known.get(known.len().saturating_sub(MAX_LOG_BYTES / 2)..).unwrap_or_default();
    let begin = kept.iter().position(|byte| *byte == b'\n').map_or(kept.len(), |at| at + 1);
    let kept = kept.get(begin..).unwrap_or_default();
    let kept = [kept, line.as_bytes()].concat();
    Ok(open(&|options| options.write(true).truncate(true))?.write_all(&kept).map_err(failed)?)
}
