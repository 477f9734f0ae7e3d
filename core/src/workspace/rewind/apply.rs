//! Applies the file changes of a rewind. A file that fails stays unchanged, and the rewind
//! continues with the others.
//!
//! Deletions come first, because a file may replace a folder and vice versa. A folder that becomes
//! empty is removed, unless a file is written into it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::changes::{ChangeKind, FileChange, FileChanges};
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::object::ObjectSource;
use crate::workspace::disk::batch::{NewFile, put_all};
use crate::workspace::disk::content::Content;
use crate::workspace::disk::folder::FolderEntry;
use crate::workspace::disk::target::TargetDir;

/// The files that a rewind wrote and deleted, and the errors of the others.
#[derive(Debug, Default)]
pub struct AppliedFiles {
    /// Files written.
    pub written: u64,
    /// Files deleted.
    pub deleted: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Unchanged files with their errors; an empty path means the directory.
    pub failed: Vec<(PathBuf, Error)>,
}

impl AppliedFiles {
    /// Returns the most serious error: the first one of the system, or else the first one.
    #[must_use]
    pub fn worst(&self) -> Option<&(PathBuf, Error)> {
        let system = self.failed.iter().find(|(_, error)| error.kind() == ErrorKind::Io);
        system.or_else(|| self.failed.first())
    }
}

impl FileChanges {
    /// Applies the changes. A file that changed since the plan stays unchanged. Files are written
    /// under temporary names, made durable together, and then renamed; folders become durable at
    /// the end. In a directory that was made for the files, all of it becomes durable at the end.
    ///
    /// After an interruption, planning and applying the same changes again completes them.
    pub(in crate::workspace) fn apply(&self, source: &(dyn ObjectSource + Sync)) -> AppliedFiles {
        let mut done = AppliedFiles::default();
        let mut target = match TargetDir::open(&self.dir) {
            Ok(Some(target)) if self.is_made => target.made(),
            Ok(Some(target)) => target,
            Ok(None) => {
                let gone = Error::not_found("the directory was deleted since the check");
                done.failed.push((PathBuf::new(), gone));
                return done;
            }
            Err(error) => {
                done.failed.push((PathBuf::new(), error));
                return done;
            }
        };
        self.delete_files(&mut target, &mut done);
        self.write_files(&mut target, source, &mut done);
        if let Err(error) = target.sync_changed() {
            done.failed.push((PathBuf::new(), error));
        }
        done
    }

    fn delete_files(&self, target: &mut TargetDir<'_>, done: &mut AppliedFiles) {
        let (deletes, writes): (Vec<&FileChange>, Vec<&FileChange>) =
            self.files.iter().partition(|file| file.kind == ChangeKind::Delete);
        let mut emptied: BTreeSet<&Path> = BTreeSet::new();
        for file in deletes {
            let parent = file.path.parent().unwrap_or(Path::new(""));
            match delete(target, parent, file) {
                Ok(()) => {
                    done.deleted += 1;
                    emptied.extend(parent.ancestors().filter(|path| *path != Path::new("")));
                }
                Err(error) => done.failed.push((file.path.clone(), error)),
            }
        }
        let needed: BTreeSet<&Path> =
            writes.iter().flat_map(|file| file.path.ancestors().skip(1)).collect();
        // Subfolders come after their parent, so go backwards.
        for folder in emptied.into_iter().rev().filter(|folder| !needed.contains(folder)) {
            target.remove_if_empty(folder);
        }
    }

    fn write_files(
        &self,
        target: &mut TargetDir<'_>,
        source: &(dyn ObjectSource + Sync),
        done: &mut AppliedFiles,
    ) {
        let mut files: Vec<NewFile<'_>> = self.files.iter().filter_map(as_new).collect();
        match target.clashes(files.iter().map(|file| file.path)) {
            Ok(clashes) => {
                for (file, other) in clashes {
                    let message = format!(
                        "this file system treats its name as equal to that of {}: one of them \
                         cannot be written",
                        file.display()
                    );
                    files.retain(|file| file.path != other);
                    done.failed.push((other.to_owned(), Error::new(ErrorKind::Conflict, message)));
                }
            }
            Err(error) => return done.failed.push((PathBuf::new(), error)),
        }
        let every = put_all(source, &Context::default(), target, &files, &mut |index, written| {
            match written {
                Ok(bytes) => {
                    done.written += 1;
                    done.bytes += bytes;
                }
                Err(error) => {
                    let path = files.get(index).map(|file| file.path.to_owned());
                    done.failed.push((path.unwrap_or_default(), error));
                }
            }
            Ok(())
        });
        done.failed.extend(every.err().map(|error| (PathBuf::new(), error)));
    }
}

/// Returns the file to write; `None` for a deletion.
fn as_new(file: &FileChange) -> Option<NewFile<'_>> {
    let wanted = file.wanted.as_ref()?;
    Some(NewFile {
        path: &file.path,
        mode: wanted.mode,
        content: Content::Blob(wanted.blob),
        size: Some(wanted.size),
        before: file.found.as_ref(),
        replaces_hollow: file.kind == ChangeKind::Create,
    })
}

fn delete(target: &mut TargetDir<'_>, parent: &Path, file: &FileChange) -> Result<()> {
    let Some(folder) = target.enter(parent)? else { return Ok(()) };
    let name = file.path.file_name().unwrap_or_default();
    let failed = |error| Error::io("delete it", error);
    let now = folder.find(name).map_err(failed)?;
    let is_as_planned =
        |now: &FolderEntry| file.found.as_ref().is_some_and(|found| now.is_unchanged_since(found));
    match now {
        None => Ok(()),
        Some(now) if is_as_planned(&now) => {
            folder.remove(name).map_err(failed)?;
            target.note_removed(parent);
            Ok(())
        }
        Some(_) => {
            let message = "it changed since the check, and was left unchanged";
            Err(Error::new(ErrorKind::Conflict, message))
        }
    }
}
