//! The file that keeps a store out of the git repository around it: sessions hold whatever an agent
//! has seen, and `git add -A` must not publish them.

use std::path::Path;

use crate::error::Result;
use crate::store::dir::failed;
use crate::store::io::{Access, Io};

/// The name of the file.
pub(in crate::store) const FILE_NAME: &str = ".gitignore";

/// Every name in the directory, its own too.
const EVERYTHING: &[u8] = b"*\n";

/// Makes the file in a new store, durable but for its name. One that says something else is left as
/// it is; an empty one is that of a process that ended before it was done.
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
    // A crash may leave a file as long as it was and empty.
    let is_own = |(found, own): (&u8, &u8)| found == own || *found == 0;
    if found.into_iter().all(is_own) {
        file.write_at(EVERYTHING, 0).map_err(&failed)?;
        file.sync_data().map_err(&failed)?;
    }
    Ok(())
}
