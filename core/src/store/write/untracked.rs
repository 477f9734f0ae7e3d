//! Creates the file that keeps a store out of the git repository around it: sessions hold
//! everything that an agent has read, and `git add -A` must not publish them.

use std::path::Path;

use crate::error::Result;
use crate::store::dir::failed;
use crate::store::io::{Access, Io};

/// The name of the file.
pub(in crate::store) const FILE_NAME: &str = ".gitignore";

/// Ignores every name in the directory, including itself.
const EVERYTHING: &[u8] = b"*\n";

/// Creates the file in a new store. Its content is durable, its name is not yet. A file with other
/// content is left unchanged. An empty one was left by a process that died before writing it.
///
/// # Errors
/// `Io`, naming it.
pub(in crate::store) fn create(io: &dyn Io, dir: &Path) -> Result<()> {
    let path = dir.join(FILE_NAME);
    let failed = failed("create", &path);
    let file = match io.create_if_free(&path)? {
        Some(file) => file,
        None => io.open_named(&path, Access::Write)?,
    };
    let mut begin = [0; EVERYTHING.len()];
    let read = file.read_at(&mut begin, 0).map_err(&failed)?;
    let found = begin.iter().take(read).zip(EVERYTHING);
    // After a crash, a file may have its length but contain zeros.
    let is_own = |(found, own): (&u8, &u8)| found == own || *found == 0;
    if found.into_iter().all(is_own) {
        file.write_at(EVERYTHING, 0).map_err(&failed)?;
        file.sync_data().map_err(&failed)?;
    }
    Ok(())
}
