//! Archives without ids: whether a store may have them, and whether a handle writes them.
//!
//! Programs from before such archives take one for damaged. So a store says in its superblock that it
//! may have them, before the first is written: then those programs say that they are too old. The
//! superblock is never written to, so another one takes its place, and who has the store open opens it
//! again, as when keys change.

use crate::error::{Error, Result};
use crate::store::Store;
use crate::store::format::superblock::{self, SuperblockContent};

impl Store {
    /// Lets the store have archives without ids; programs from before these do not open it from then
    /// on. Returns true if its superblock was replaced for that: then this handle commits nothing any
    /// more, and neither does any other that was opened before.
    ///
    /// # Errors
    /// `Locked` while others replace files or commit, `Unsupported` when a newer program has to write to
    /// the store, `Io` when the disk refuses.
    pub fn allow_archives_without_ids(&self) -> Result<bool> {
        if self.superblock.allows_without_ids {
            return Ok(false);
        }
        self.superblock.check_writable()?;
        let collector = self.lock_collector()?.0;
        let _ref_lock = self.superblock.lock(&*self.disk, self.lock_timeout)?;
        self.check_collector(&*collector)?;
        let content = SuperblockContent { allows_without_ids: true, ..self.superblock.content() };
        superblock::replace(&*self.disk, &self.dir, &content, false)?;
        Ok(true)
    }

    /// Lets the archives that this handle writes leave out the ids of their objects, which follow from
    /// their bytes. That takes a third less disk; but who needs one of the objects first reads all of
    /// an archive, and a block that is lost beyond its parity costs what names something in it, too.
    ///
    /// None is written before the store [allows](Self::allow_archives_without_ids) it.
    pub fn leave_ids_out(&self) {
        let _ = self.without_ids.set(());
    }

    /// Returns true if archives that this handle writes leave out ids.
    pub(in crate::store) fn leaves_ids_out(&self) -> bool {
        self.without_ids.get().is_some()
    }

    /// Fails if an archive without ids would be one that the superblock says nothing of.
    pub(in crate::store) fn check_allows_without_ids(&self) -> Result<()> {
        if self.superblock.allows_without_ids {
            return Ok(());
        }
        let dir = self.dir.display();
        Err(Error::invalid(format!(
            "{dir}: the superblock does not allow archives without ids yet"
        )))
    }
}
