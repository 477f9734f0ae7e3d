//! A branch as a task folder: the files at its start and end, the task, and the check.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use turntree::context::sections::FILES;
use turntree::context::{Context, FileEntry};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{BranchName, Repository};
use turntree::workspace::{entry_path, plan_checkout, save};
use turntree::{Error, ErrorKind};
use turntree_exchange::render::TaskFolder;

use super::training::{TrainingChoice, TrialFacts};
use crate::platform::make_executable;
use crate::porcelain::read::revision::resolve;
use crate::view::error::{Failure, Hint, Result};

/// The folders of the two trees.
const START: &str = "environment";
const END: &str = "solution";

/// A task folder ready to be written.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    folder: TaskFolder,
    start: Context,
    end: Context,
}

impl Environment {
    /// Prepares the folder of the branch or snapshot `end`.
    ///
    /// # Errors
    /// `NotFound` without files, a check or a prompt, with the option that gives it.
    pub(super) fn of(
        repo: &Repository,
        (name, branch): (&str, Option<&BranchName>),
        end: &ObjectId,
        choice: &TrainingChoice,
    ) -> Result<Self> {
        let trial = TrialFacts::of(repo, branch)?;
        let start = match (&choice.from, trial.start) {
            (Some(from), _) => resolve(repo, from)?.commit,
            (None, Some(start)) => start,
            (None, None) => first_with_files(repo, end)?,
        };
        let check = choice.check.clone().or(trial.check).ok_or_else(|| {
            let error = Error::not_found(format!("no check of {name} is recorded"));
            Failure::hinted(error, "--check gives the line that checks the files")
        })?;
        let (before, after) = (repo.context(&start)?, repo.context(end)?);
        let found = match trial.prompt {
            Some(prompt) => Some(prompt),
            None => TaskFolder::prompt_between(repo, &before, &after)?,
        };
        let instruction = found.ok_or_else(|| {
            let error = Error::not_found(format!("{name} has no prompt after its start"));
            Failure::hinted(error, "--from names an earlier snapshot")
        })?;
        let (start_files, end_files) = (files(repo, &before)?, files(repo, &after)?);
        let changed = |(path, entry): (&String, &FileEntry)| {
            end_files.get(path).is_some_and(|end| end != entry).then(|| path.clone())
        };
        let folder = TaskFolder {
            branch: branch.map_or_else(|| name.to_owned(), ToString::to_string),
            instruction,
            check,
            check_seconds: trial.check_seconds,
            start,
            end: *end,
            changed: start_files.iter().filter_map(changed).collect(),
            start_paths: start_files.into_keys().collect(),
            end_paths: end_files.into_keys().collect(),
        };
        Ok(Self { folder, start: before, end: after })
    }

    /// The same folder with the files of a scrubbed copy, whose commits `copied` names, and with
    /// texts that `mask` changes.
    ///
    /// # Errors
    /// Errors of reading the copy and of `mask`.
    pub(crate) fn masked(
        &self,
        copy: &Repository,
        copied: &dyn Fn(&ObjectId) -> ObjectId,
        mask: &dyn Fn(&str) -> Result<String>,
    ) -> Result<Self> {
        let folder = TaskFolder {
            branch: mask(&self.folder.branch)?,
            instruction: mask(&self.folder.instruction)?,
            check: mask(&self.folder.check)?,
            ..self.folder.clone()
        };
        let context = |id: &ObjectId| copy.context(&copied(id));
        let (start, end) = (context(&self.folder.start)?, context(&self.folder.end)?);
        let mut masked = Self { folder, start, end };
        let (before, after) = (files(copy, &masked.start)?, files(copy, &masked.end)?);
        masked.folder.changed = before
            .iter()
            .filter(|(path, entry)| after.get(*path).is_some_and(|end| end != *entry))
            .map(|(path, _)| path.clone())
            .collect();
        masked.folder.start_paths = before.into_keys().collect();
        masked.folder.end_paths = after.into_keys().collect();
        Ok(masked)
    }

    /// The snapshots whose files it has.
    pub(crate) const fn snapshots(&self) -> [ObjectId; 2] {
        [self.folder.start, self.folder.end]
    }

    /// Every content of the folder, for a scan: each file once, and the texts.
    ///
    /// # Errors
    /// Errors of reading.
    pub(crate) fn contents<'r>(
        &self,
        repo: &'r Repository,
    ) -> Result<impl Iterator<Item = turntree::Result<Bytes>> + use<'r>> {
        let mut blobs = BTreeSet::new();
        for context in [&self.start, &self.end] {
            blobs.extend(files(repo, context)?.into_values().map(|entry| entry.blob));
        }
        let names: Vec<&str> = [&self.folder.start_paths, &self.folder.end_paths]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        let texts = self.folder.files().into_iter().map(|file| file.text);
        let texts: Vec<String> = texts.chain([names.join("\n")]).collect();
        let blobs = blobs.into_iter().map(|id| repo.read_as(Kind::Blob, &id));
        Ok(texts.into_iter().map(|text| Ok(Bytes::from(text))).chain(blobs))
    }

    /// Writes the folder `to`, which must not exist. Returns the number of files and their bytes.
    ///
    /// # Errors
    /// `InvalidInput` if `to` exists, `Io` if the system refuses.
    pub(crate) fn write(&self, repo: &Repository, to: &Path) -> Result<(u64, u64)> {
        let failed = |error| Error::io(format!("write {}", to.display()), error);
        if fs::symlink_metadata(to).is_ok() {
            let error = Error::invalid(format!("{} exists already", to.display()));
            return Err(Failure::hinted(error, "name a folder that does not exist yet"));
        }
        let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or_else(|| Path::new("."));
        // The folder gets its name when it is complete.
        let made =
            tempfile::Builder::new().prefix(".turntree-").tempdir_in(parent).map_err(failed)?;
        let root = made.path().join("task");
        fs::create_dir(&root).map_err(failed)?;
        let (mut number, mut bytes) = (0, 0);
        for (place, context) in [(START, &self.start), (END, &self.end)] {
            let place = root.join(place);
            fs::create_dir(&place).map_err(failed)?;
            if context.map(repo, FILES)?.is_empty() {
                fs::create_dir(place.join(FILES)).map_err(failed)?;
                continue;
            }
            let plan = plan_checkout(repo, context, &place, &[FILES.to_owned()])?;
            let written = plan.apply(repo, false)?;
            number += plan.files.len() as u64;
            bytes += written.bytes;
        }
        fs::create_dir(root.join("tests")).map_err(failed)?;
        for file in self.folder.files() {
            let path = root.join(file.path);
            let write = |out: &mut dyn Write| {
                let written = out.write_all(file.text.as_bytes());
                written.map_err(|error| Error::io("write the text", error))
            };
            bytes += save(&path, false, write)?;
            number += 1;
            if file.is_executable {
                make_executable(&path).map_err(failed)?;
            }
        }
        if fs::symlink_metadata(to).is_ok() {
            return Err(
                Error::new(ErrorKind::Conflict, format!("{} exists now", to.display())).into()
            );
        }
        fs::rename(&root, to).map_err(failed)?;
        Ok((number, bytes))
    }
}

/// The first snapshot of the line of `end` that has files.
fn first_with_files(repo: &Repository, end: &ObjectId) -> Result<ObjectId> {
    let mut first = None;
    for entry in repo.history(&[*end], &[])?.first_parent() {
        let id = entry?.id;
        match repo.context(&id) {
            Ok(context) if !context.map(repo, FILES)?.is_empty() => first = Some(id),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Expired => break,
            Err(error) => return Err(error.into()),
        }
    }
    let none = || Error::not_found("no snapshot of this line has files");
    first
        .ok_or_else(none)
        .hint(ErrorKind::NotFound, "'turntree snapshot --workspace .' captures files")
}

/// The files of a context by their paths below a folder, with `/` between names.
fn files(repo: &Repository, context: &Context) -> Result<BTreeMap<String, FileEntry>> {
    let mut files = BTreeMap::new();
    for entry in context.map(repo, FILES)?.iter(repo) {
        let (key, item) = entry?;
        let key = String::from_utf8_lossy(&key).into_owned();
        let path: PathBuf = entry_path(FILES, &key)?.iter().skip(1).collect();
        let names: Vec<_> = path.iter().map(|name| name.to_string_lossy()).collect();
        files.insert(names.join("/"), FileEntry::from_item(&item)?);
    }
    Ok(files)
}
