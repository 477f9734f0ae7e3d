//! Writes what was planned into a file that is whole or not there.

use std::io::ErrorKind as IoErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::check::Bundle;
use super::select::BundlePlan;
use crate::error::{Error, Result};
use crate::repo::Repository;
use crate::store::{BundleDraft, BundleWritten, Io, IoFile, Tier};

impl BundlePlan {
    /// Writes the bundle into an empty file, syncs it, and reads and verifies all of it.
    ///
    /// The same plan makes the same bytes. An archive of 33 MB takes some 10 s and 100 MB of memory.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt` when an object cannot be read, `Corrupt` when the file does not read
    /// back, `Io` when the disk refuses.
    pub fn write(
        &self,
        repo: &Repository,
        tier: Tier,
        file: &Arc<dyn IoFile>,
    ) -> Result<BundleWritten> {
        let front = self.manifest.encode()?;
        let draft = BundleDraft {
            front: &front,
            items: &self.items,
            outside: &self.outside,
            operations: &self.operations,
            source: repo.store(),
            tier,
        };
        let written = draft.write(file)?;
        Bundle::open(Arc::new(Arc::clone(file)))?.verify(Some(u64::MAX))?;
        Ok(written)
    }

    /// Makes the file `path`, which must not be there: first under the name `temporary` in the same
    /// directory. When this returns it is durable, and after an error nothing of it is left.
    ///
    /// # Errors
    /// `InvalidInput` when there is a file of this name, and those of [`BundlePlan::write`].
    pub fn create(
        &self,
        repo: &Repository,
        tier: Tier,
        io: &dyn Io,
        (path, temporary): (&Path, &Path),
    ) -> Result<BundleWritten> {
        let place = path.display();
        let failed = |source| Error::io(format!("write {place}"), source);
        let taken = || Error::invalid(format!("{place} exists already"));
        if io.identity(path).is_ok() {
            return Err(taken());
        }
        let file = io.create(temporary).map_err(failed)?;
        let written = self.write(repo, tier, &file).and_then(|written| {
            io.publish(temporary, path).map_err(|error| match error.kind() {
                IoErrorKind::AlreadyExists => taken(),
                _ => failed(error),
            })?;
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            io.sync_dir(parent.unwrap_or(Path::new("."))).map_err(failed)?;
            Ok(written)
        });
        if written.is_err() {
            // It may have its name already, and nobody may rely on that; a failure here cannot be helped.
            if io.identity(path).is_ok_and(|found| file.identity().is_ok_and(|own| own == found)) {
                let _ = io.remove(path);
            }
            let _ = io.remove(temporary);
        }
        written
    }
}
