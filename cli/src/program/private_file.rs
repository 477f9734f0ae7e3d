//! Files for their owner alone, which have their names when they are durable.

use std::fs::File;
use std::io::{ErrorKind as IoErrorKind, Write};
use std::path::Path;

use tempfile::NamedTempFile;
use turntree::Error;

use crate::view::error::Result;

/// Writes a file, in place of what is there.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |error| Error::io(format!("write {}", path.display()), error);
    let temporary = temporary(path, bytes)?;
    temporary.persist(path).map_err(|error| failed(error.error))?;
    sync(path.parent().unwrap_or(Path::new(".")))
}

/// Writes a file that is not there yet; returns whether it was not.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<bool> {
    match temporary(path, bytes)?.persist_noclobber(path) {
        Ok(_) => sync(path.parent().unwrap_or(Path::new("."))).map(|()| true),
        Err(error) if error.error.kind() == IoErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(Error::io(format!("write {}", path.display()), error.error).into()),
    }
}

/// A durable file beside `path`, for its owner alone, with a name that no other process gives.
fn temporary(path: &Path, bytes: &[u8]) -> Result<NamedTempFile> {
    let failed = |error| Error::io(format!("write {}", path.display()), error);
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    Ok(file)
}

/// Makes the names in a folder durable.
pub(crate) fn sync(folder: &Path) -> Result<()> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(synced.map_err(|error| Error::io(format!("sync {}", folder.display()), error))?)
}
