//! A directory that shows the files of one turn after another, to run a command on each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::apply::CheckoutReport;
use super::plan::plan_checkout;
use crate::context::sections::FILES;
use crate::context::{Context, text_key};
use crate::error::{Error, Result};
use crate::object::ObjectSource;
use crate::workspace::disk::folder::EntryKind;
use crate::workspace::disk::layout::entry_path;
use crate::workspace::disk::target::TargetDir;

/// A directory for the files of one context after another. Its creator owns and removes it.
#[derive(Debug)]
pub struct Scratch {
    dir: PathBuf,
    /// The files shown last.
    shown: BTreeSet<PathBuf>,
}

impl Scratch {
    /// Shows files in `dir`, which is empty.
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, shown: BTreeSet::new() }
    }

    /// Returns the directory of the files.
    #[must_use]
    pub fn files(&self) -> PathBuf {
        self.dir.join(FILES)
    }

    /// Updates the directory to the files of `context`. Skips files that are up to date, and
    /// removes files of the previous context that this one lacks. Other files stay.
    ///
    /// # Errors
    /// Errors of [`plan_checkout`] and of [`FilesPlan::apply`](crate::workspace::FilesPlan::apply).
    pub fn show(
        &mut self,
        source: &(dyn ObjectSource + Sync),
        context: &Context,
    ) -> Result<CheckoutReport> {
        let mut wanted = BTreeSet::new();
        for entry in context.map(source, FILES)?.iter(source) {
            wanted.insert(entry_path(FILES, &text_key(&entry?.0)?)?);
        }
        self.remove(&wanted)?;
        std::fs::create_dir_all(self.files()).map_err(|error| self.failed("make", FILES, error))?;
        self.shown.clone_from(&wanted);
        if wanted.is_empty() {
            return Ok(CheckoutReport::default());
        }
        plan_checkout(source, context, &self.dir, &[FILES.to_owned()])?.apply(source, true)
    }

    /// Removes shown files that are not wanted, and folders that become empty. If a shown file is
    /// now a folder, another process created it, and it stays.
    fn remove(&self, wanted: &BTreeSet<PathBuf>) -> Result<()> {
        let Some(target) = TargetDir::open(&self.dir)? else { return Ok(()) };
        for path in self.shown.difference(wanted) {
            let (parent, Some(name)) = (path.parent().unwrap_or(Path::new("")), path.file_name())
            else {
                continue;
            };
            let Some(folder) = target.enter(parent)? else { continue };
            let failed = |error| self.failed("remove", &path.to_string_lossy(), error);
            let found = folder.find(name).map_err(failed)?.map(|found| found.kind);
            if matches!(found, Some(EntryKind::File | EntryKind::Link)) {
                folder.remove(name).map_err(failed)?;
            }
            let above = parent.ancestors().take_while(|above| *above != Path::new(FILES));
            for empty in above {
                let (Some(above), Some(name)) = (empty.parent(), empty.file_name()) else { break };
                let Some(folder) = target.enter(above)? else { break };
                // The folder is not empty, or another process removed it first.
                if folder.remove_folder(name).is_err() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn failed(&self, action: &str, path: &str, error: std::io::Error) -> Error {
        Error::io(format!("{action} {}", self.dir.join(path).display()), error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Builder, FileMode};
    use crate::object::Memory;

    fn context(objects: &mut Memory, files: &[(&str, &str)]) -> Context {
        let mut builder = Builder::new();
        for (path, text) in files {
            let mode = if text.starts_with("->") { FileMode::Symlink } else { FileMode::Regular };
            let content = text.trim_start_matches("->").to_owned().into();
            builder.set_file(objects, path, Some((mode, content))).unwrap();
        }
        let tree = builder.write(objects).unwrap();
        Context::open(objects, &tree).unwrap()
    }

    #[test]
    fn a_directory_shows_one_context_after_another_and_nothing_outside_changes() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("b"), "mine").unwrap();
        let link = format!("->{}", outside.path().display());
        let dir = tempfile::tempdir().unwrap();
        let mut scratch = Scratch::new(dir.path().join("scratch"));
        let mut objects = Memory::new();
        let show = |scratch: &mut Scratch, objects: &mut Memory, files: &[(&str, &str)]| {
            let context = context(objects, files);
            let restored = scratch.show(objects, &context).unwrap();
            (restored.written, restored.kept)
        };
        assert_eq!(show(&mut scratch, &mut objects, &[("a/b", "1"), ("c", "2")]), (2, 0));
        let here = scratch.files();
        std::fs::write(here.join("made"), "by a command").unwrap();
        assert_eq!(show(&mut scratch, &mut objects, &[("a", &link), ("c", "2")]), (1, 1));
        assert_eq!(show(&mut scratch, &mut objects, &[("a/b", "3"), ("c", "2")]), (1, 1));
        assert_eq!(std::fs::read_to_string(here.join("a/b")).unwrap(), "3");
        std::fs::write(here.join("c"), "changed by a command").unwrap();
        assert_eq!(show(&mut scratch, &mut objects, &[("c", "2")]), (1, 0));
        assert!(!here.join("a").exists());
        assert_eq!(show(&mut scratch, &mut objects, &[]), (0, 0));
        let names: Vec<_> =
            std::fs::read_dir(&here).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["made"]);
        assert_eq!(std::fs::read_to_string(outside.path().join("b")).unwrap(), "mine");
    }
}
