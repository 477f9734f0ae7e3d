//! Reads files of git: regular files of a bounded size, without blocking on a pipe.

use std::io;
use std::path::Path;

use crate::workspace::disk::read_regular;

/// Reads a file of at most `limit` bytes, following links; `None` if it is missing.
///
/// # Errors
/// A sentence naming the file, if it is unreadable, too large, or not a regular file.
pub(super) fn read_file(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, String> {
    match read_regular(path, limit) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
            io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory => {
                Err(format!("{} is not a regular file", path.display()))
            }
            io::ErrorKind::FileTooLarge => {
                Err(format!("{} has more than {limit} bytes", path.display()))
            }
            _ => Err(format!("{} cannot be read: {error}", path.display())),
        },
    }
}

/// Reads a file of one line, without the line ending.
pub(super) fn read_line(path: &Path) -> Result<Option<String>, String> {
    const LIMIT: u64 = 1 << 16;
    let Some(bytes) = read_file(path, LIMIT)? else { return Ok(None) };
    let text = String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8", path.display()))?;
    Ok(Some(text.trim_end_matches(['\n', '\r']).to_owned()))
}
