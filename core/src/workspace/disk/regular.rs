//! Opens files at untrusted paths: regular files of a bounded size, without blocking on a pipe or
//! device.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::Path;

use crate::platform;

/// Opens the regular file at `path` for reading, following links. Never waits for the other end of
/// a pipe, and never opens a device or socket.
///
/// # Errors
/// Errors of the system; `IsADirectory` for a directory, and `InvalidInput` with the kind for any
/// other non-regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Check the kind first, because opening some devices has side effects. Check it again after
    // opening, because the name may have been reused.
    expect_regular(&fs::metadata(path)?)?;
    let mut options = fs::OpenOptions::new();
    let file = platform::waiting_for_nothing(options.read(true)).open(path)?;
    expect_regular(&file.metadata()?)?;
    Ok(file)
}

/// Reads the regular file at `path`, of at most `limit` bytes.
///
/// # Errors
/// Errors of [`open_regular`], and `FileTooLarge` for a larger file.
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let message = format!("it has more than {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Reads the regular file at `path` as text, of at most `limit` bytes.
///
/// # Errors
/// Errors of [`read_regular`], and `InvalidData` for bytes that are not UTF-8.
pub fn read_regular_text(path: &Path, limit: u64) -> io::Result<String> {
    let text = String::from_utf8(read_regular(path, limit)?);
    text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

fn expect_regular(found: &Metadata) -> io::Result<()> {
    let kind = found.file_type();
    if kind.is_file() {
        return Ok(());
    }
    let (error, name) = match () {
        () if kind.is_dir() => (io::ErrorKind::IsADirectory, "directory"),
        () => (io::ErrorKind::InvalidInput, platform::kind_of_special(found)),
    };
    Err(io::Error::new(error, format!("it is a {name}: expected a regular file")))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_regular_files_of_a_bounded_size_are_read_and_nothing_waits() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "text").unwrap();
        symlink(at("file"), at("link")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap();
        assert!(made.success());
        symlink(at("pipe"), at("link-to-pipe")).unwrap();
        let _listener = UnixListener::bind(at("socket")).unwrap();
        assert_eq!(read_regular_text(&at("file"), 4).unwrap(), "text");
        assert_eq!(read_regular(&at("link"), 4).unwrap(), b"text");
        assert_eq!(read_regular(&at("file"), 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(open_regular(&at("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(open_regular(&at("folder")).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        for (name, kind) in [
            ("pipe", "named pipe"),
            ("link-to-pipe", "named pipe"),
            ("socket", "socket"),
            ("/dev/tty", "device"),
            ("/dev/null", "device"),
        ] {
            let refused = open_regular(&at(name)).unwrap_err();
            assert_eq!(refused.to_string(), format!("it is a {kind}: expected a regular file"));
        }
    }
}
