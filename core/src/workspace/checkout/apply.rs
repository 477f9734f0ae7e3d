//! Applies the plan of a checkout: each file is written completely or not at all.

use super::plan::{FileAction, FilesPlan, PlannedFile, clash_error};
use crate::error::{Error, Result};
use crate::object::ObjectSource;
use crate::workspace::disk::batch::{NewFile, put_all};
use crate::workspace::disk::target::TargetDir;

/// The counts of a checkout.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckoutReport {
    /// Files written.
    pub written: u64,
    /// Files that were already up to date.
    pub kept: u64,
    /// Bytes written.
    pub bytes: u64,
}

impl FilesPlan {
    /// Applies the plan. Files are written under temporary names, made durable together, and then
    /// renamed, so each exists completely or not at all. Folders become durable at the end.
    ///
    /// A file that changed since the plan stays untouched. Paths are opened name by name, and no
    /// link below the target is followed, even if another process creates one concurrently.
    ///
    /// # Errors
    /// `InvalidInput` if files would be overwritten and `overwrite` is false, or if two names are
    /// one on this file system: then nothing is written. Other errors report how many files were written before: `Conflict` if a file
    /// appeared or changed since the plan, `Locked` if another restore writes it, `InvalidInput` if
    /// a folder was replaced, `Io` if the system refuses.
    pub fn apply(
        &self,
        source: &(dyn ObjectSource + Sync),
        overwrite: bool,
    ) -> Result<CheckoutReport> {
        let mut in_the_way = self.files.iter().filter(|file| file.action == FileAction::Overwrite);
        if let (Some(first), false) = (in_the_way.next(), overwrite) {
            let files = match in_the_way.count() {
                0 => "1 file differs".to_owned(),
                more => format!("{} files differ", more + 1),
            };
            return Err(Error::invalid(format!(
                "{}: {files} from the snapshot, the first is {}: nothing was written",
                self.target.display(),
                first.path.display()
            )));
        }
        let mut restored = CheckoutReport::default();
        let written = self.write_files(source, &mut restored);
        written.map_err(|error| {
            let (written, files) = (restored.written, self.files.len() as u64 - restored.kept);
            error.at(format_args!("{written} of {files} files were written, then"))
        })?;
        Ok(restored)
    }

    fn write_files(
        &self,
        source: &(dyn ObjectSource + Sync),
        restored: &mut CheckoutReport,
    ) -> Result<()> {
        let mut target = TargetDir::open_or_create(&self.target)?;
        let paths = self.files.iter().map(|file| &*file.path);
        if let Some((file, other)) = target.clashes(paths)?.first() {
            return Err(clash_error(file, other));
        }
        let is_new = |file: &&PlannedFile| file.action != FileAction::Keep;
        let files: Vec<NewFile<'_>> =
            self.files.iter().filter(is_new).map(PlannedFile::as_new).collect();
        restored.kept = (self.files.len() - files.len()) as u64;
        put_all(source, &self.context, &mut target, &files, &mut |index, written| {
            let place = files.get(index).map(|file| self.target.join(file.path));
            let place = place.unwrap_or_default();
            restored.bytes += written.map_err(|error| error.at(place.display()))?;
            restored.written += 1;
            Ok(())
        })?;
        target.sync_changed()
    }
}

impl PlannedFile {
    fn as_new(&self) -> NewFile<'_> {
        NewFile {
            path: &self.path,
            mode: self.mode,
            content: self.content.clone(),
            size: self.size,
            before: self.found.as_ref(),
            replaces_hollow: false,
        }
    }
}
