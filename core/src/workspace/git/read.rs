//! Reads files of git: regular ones of a bounded size, without waiting for a pipe.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Reads a file of at most `limit` bytes, through links; `None` when there is none.
///
/// # Errors
/// A sentence that names the file, when it cannot be read, is larger, or is no regular file.
pub(super) fn read_file(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, String> {
    let failed = |error: io::Error| format!("{} cannot be read: {error}", path.display());
    let file = match open(path) {
        Ok(file) => file,
        Err(error) => {
            return match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
                _ => Err(failed(error)),
            };
        }
    };
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(format!("{} is no regular file", path.display()));
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limit {
        return Err(format!("{} has more than {limit} bytes", path.display()));
    }
    Ok(Some(bytes))
}

/// Reads a file of one line, without the end of the line.
pub(super) fn read_line(path: &Path) -> Result<Option<String>, String> {
    const LIMIT: u64 = 1 << 16;
    let Some(bytes) = read_file(path, LIMIT)? else { return Ok(None) };
    let text = String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8", path.display()))?;
    Ok(Some(text.trim_end_matches(['\n', '\r']).to_owned()))
}

fn open(path: &Path) -> io::Result<File> {
    // The flag has no effect on a regular file, and opening a pipe does not wait with it.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}
