//! Applies the plan of a checkout: each file is written completely or not at all.

use std::path::Path;

use super::plan::{FileAction, FilesPlan, PlannedFile};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::object::ObjectSource;
use crate::workspace::disk::folder::Folder;
use crate::workspace::disk::target::TargetDir;
use crate::workspace::disk::write::put;

/// The counts of a checkout.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckoutReport {
    /// Files written.
    pub written: u64,
    /// Files that were already up to date.
    pub kept: u64,
    /// Bytes written.
    pub bytes: u64,
}

impl FilesPlan {
    /// Applies the plan. Each file is written under a temporary name, synced, read back and then
    /// renamed, so it exists completely or not at all. Each folder is synced once at the end.
    ///
    /// A file that changed since the plan stays untouched. Paths are opened name by name, and no
    /// link below the target is followed, even if another process creates one concurrently.
    ///
    /// # Errors
    /// `InvalidInput` if files would be overwritten and `overwrite` is false: then nothing is
    /// written. Other errors report how many files were written before: `Conflict` if a file
    /// appeared or changed since the plan, `Locked` if another restore writes it, `InvalidInput` if
    /// a folder was replaced, `Io` if the system refuses.
    pub fn apply(&self, source: &dyn ObjectSource, overwrite: bool) -> Result<CheckoutReport> {
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

    fn write_files(&self, source: &dyn ObjectSource, restored: &mut CheckoutReport) -> Result<()> {
        let mut target = TargetDir::open_or_create(&self.target)?;
        let mut current: Option<(&Path, Folder)> = None;
        restored.kept =
            self.files.iter().filter(|file| file.action == FileAction::Keep).count() as u64;
        for file in self.files.iter().filter(|file| file.action != FileAction::Keep) {
            let parent = file.path.parent().unwrap_or(Path::new(""));
            let folder = match current.take().filter(|(path, _)| *path == parent) {
                Some((_, folder)) => folder,
                None => target.enter_or_create(parent)?,
            };
            let place = || self.target.join(&file.path);
            let written = file.write(source, &self.context, &folder);
            restored.bytes += written.map_err(|error| error.at(place().display()))?;
            restored.written += 1;
            current = Some((parent, folder));
        }
        target.sync_changed()
    }
}

impl PlannedFile {
    fn write(&self, source: &dyn ObjectSource, context: &Context, folder: &Folder) -> Result<u64> {
        let name = self.path.file_name().unwrap_or_default();
        put(source, context, folder, name, self.mode, &self.content, self.found.as_ref())
    }
}
