//! Reads the steps of a line, turn by turn, while it is compared.

use std::collections::HashMap;

use turntree::context::sections::FILES;
use turntree::context::{Context, ContextDiff, FileEntry, SectionChange};
use turntree::error::{ErrorKind, Result};
use turntree::object::ObjectId;
use turntree::repo::{LogEntry, ONLY, ROLLED_BACK_TO, Repository};

use super::{AlignedRun, StepReader};
use crate::import::turns::{ROOT, fact};
use crate::model::view::MessageView;

/// Reads a run from its turns, oldest first. Steps that a rollback abandoned are left out.
#[derive(Debug)]
pub(crate) struct RunReader {
    directory: Option<String>,
    files: Option<ObjectId>,
    steps: StepReader,
    /// The number of steps up to each turn, for rollbacks to it.
    lengths: HashMap<ObjectId, usize>,
}

impl RunReader {
    /// Begins the run that ends in `tip`, since the snapshot with the context `base`.
    ///
    /// # Errors
    /// Errors of reading the store.
    pub(crate) fn begin(repo: &Repository, tip: &ObjectId, base: Option<&Context>) -> Result<Self> {
        let files = base.map(|base| base.section(repo.store(), FILES)).transpose()?.flatten();
        Ok(Self {
            directory: directory_of(repo, tip)?,
            files: files.map(|files| files.id),
            steps: StepReader::default(),
            lengths: HashMap::new(),
        })
    }

    /// Adds a message of the turn that ends next.
    pub(crate) fn message(&mut self, turn: u64, message: &MessageView) {
        self.steps.message(turn, message, self.directory.as_deref());
    }

    /// Ends a turn, with its context and its changes.
    ///
    /// # Errors
    /// Errors of reading the store.
    pub(crate) fn end_turn(
        &mut self,
        repo: &Repository,
        entry: &LogEntry,
        after: &Context,
        changed: &ContextDiff,
    ) -> Result<()> {
        let metadata = &entry.commit.metadata;
        let target = metadata.get(ROLLED_BACK_TO).filter(|_| !metadata.contains_key(ONLY));
        match target.and_then(|target| target.parse::<ObjectId>().ok()) {
            Some(target) => {
                self.steps.go_back(self.lengths.get(&target).copied().unwrap_or(0));
            }
            None => {
                let files = after.section(repo.store(), FILES)?.map(|files| files.id);
                let changes = changed.get(FILES).map(|changed| &*changed.changes);
                let changes = changes.unwrap_or_default();
                self.steps.end_turn(entry.commit.turn, files, || changed_files(changes))?;
            }
        }
        self.lengths.insert(entry.id, self.steps.len());
        Ok(())
    }

    /// The run, with the outcome of its checks.
    pub(crate) fn finish(self, passed: Option<bool>) -> AlignedRun {
        AlignedRun { steps: self.steps.finish(), files: self.files, passed }
    }
}

fn changed_files(changes: &[SectionChange]) -> Result<Vec<(String, Option<ObjectId>)>> {
    let changed = changes.iter().map(|change| {
        let content = change.new.as_ref().map(FileEntry::from_item).transpose()?;
        Ok((change.key.clone(), content.map(|file| file.blob)))
    });
    changed.collect()
}

/// The directory in which a run worked.
fn directory_of(repo: &Repository, tip: &ObjectId) -> Result<Option<String>> {
    if let Some(dir) = repo.workspace_of(tip)? {
        return Ok(Some(dir));
    }
    let context = match repo.context(tip) {
        Ok(context) => context,
        Err(error) if error.kind() == ErrorKind::Expired => return Ok(None),
        Err(error) => return Err(error),
    };
    match fact(repo.store(), &context, ROOT)? {
        Some(root) => Ok(Some(root)),
        None => fact(repo.store(), &context, "cwd"),
    }
}
