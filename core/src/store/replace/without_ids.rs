//! Archives without ids: whether a store may have them, and whether a handle writes them.
//!
//! Older programs report such an archive as damage. So the superblock allows them before the first
//! one is written: older programs then report that they are too old. The superblock is never
//! modified in place, so a new one replaces it. Open handles must be opened again, as after a
//! change of keys.

use crate::error::{Error, Result};
use crate::store::Store;
use crate::store::format::superblock::{self, SuperblockContent};

impl Store {
    /// Allows archives without ids in the store. Older programs cannot open it from then on.
    /// Returns true if the superblock was replaced. Then this handle, and every other one opened
    /// before, can commit nothing until it is opened again.
    ///
    /// # Errors
    /// `Locked` while other processes replace files or commit, `Unsupported` when writing to the
    /// store needs a newer program, `Io` when the disk refuses.
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

    /// Makes this handle write archives without the ids of their objects, which can be computed
    /// from their content. That takes a third less disk. But the first read of an object reads the
    /// whole archive, and when a block is lost beyond its parity, objects that reference its
    /// content are lost as well.
    ///
    /// The store must [allow](Self::allow_archives_without_ids) such archives first.
    pub fn leave_ids_out(&self) {
        let _ = self.without_ids.set(());
    }

    /// Returns true if this handle writes archives without ids.
    pub(in crate::store) fn leaves_ids_out(&self) -> bool {
        self.without_ids.get().is_some()
    }

    /// Fails if the superblock does not allow archives without ids.
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
