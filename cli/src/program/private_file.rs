//! Files readable by their owner only, which get their names once they are durable.

use std::io::{ErrorKind as IoErrorKind, Write};
use std::path::Path;

use tempfile::NamedTempFile;
use turntree::Error;
use turntree::platform::sync_names;

use crate::view::error::Result;

/// Writes a file, and replaces an existing one.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |error| Error::io(format!("write {}", path.display()), error);
    let temporary = temporary(path, bytes)?;
    temporary.persist(path).map_err(|error| failed(error.error))?;
    sync(path.parent().unwrap_or(Path::new(".")))
}

/// Writes a new file; returns false if it exists.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<bool> {
    match temporary(path, bytes)?.persist_noclobber(path) {
        Ok(_) => sync(path.parent().unwrap_or(Path::new("."))).map(|()| true),
        Err(error) if error.error.kind() == IoErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(Error::io(format!("write {}", path.display()), error.error).into()),
    }
}

/// Writes a durable temporary file next to `path`, readable by its owner only.
fn temporary(path: &Path, bytes: &[u8]) -> Result<NamedTempFile> {
    let failed = |error| Error::io(format!("write {}", path.display()), error);
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    Ok(file)
}

/// Makes the entries of a directory durable.
pub(crate) fn sync(folder: &Path) -> Result<()> {
    Ok(sync_names(folder)
        .map_err(|error| Error::io(format!("sync {}", folder.display()), error))?)
}
