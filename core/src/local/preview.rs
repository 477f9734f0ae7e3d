//! Reads a branch as a change will leave it: its snapshot with the edits of the change, in memory.

use bytes::Bytes;

use super::Repo;
use super::edit::Edit;
use super::records::Contents;
use crate::context::{Builder, Context};
use crate::error::{Error, Result};
use crate::object::{Kind, Memory, Object, ObjectId, ObjectSink, ObjectSource};

/// A branch with the edits of a change.
#[derive(Debug, Clone)]
pub(super) struct Preview {
    objects: StagedObjects,
    builder: Builder,
    context: Context,
    /// The number of edits that the context includes.
    applied: usize,
}

/// Objects in memory in front of those of a store.
#[derive(Debug, Clone)]
struct StagedObjects {
    repo: Repo,
    staged: Memory,
}

impl Preview {
    /// Begins at the snapshot `base`, or at an empty context.
    pub(super) fn begin(repo: &Repo, base: Option<ObjectId>) -> Result<Self> {
        let context = base.map(|id| repo.inner.context(&id)).transpose()?.unwrap_or_default();
        let objects = StagedObjects { repo: repo.clone(), staged: Memory::new() };
        Ok(Self { objects, builder: Builder::from(context.clone()), context, applied: 0 })
    }

    /// Applies those of `edits` that are not applied yet. After an error the preview is incomplete:
    /// drop it.
    pub(super) fn advance(&mut self, edits: &[Edit]) -> Result<()> {
        if self.applied == edits.len() {
            return Ok(());
        }
        for edit in edits.iter().skip(self.applied) {
            edit.apply(&mut self.objects, &mut self.builder)?;
        }
        let tree = self.builder.write(&mut self.objects)?;
        self.context = Context::open(&self.objects, &tree)?;
        self.applied = edits.len();
        Ok(())
    }

    pub(super) fn contents(&self) -> Contents<'_> {
        Contents::new(&self.objects, &self.context)
    }
}

impl ObjectSource for StagedObjects {
    fn read(&self, id: &ObjectId) -> Result<Option<Object>> {
        match self.staged.read(id)? {
            Some(object) => Ok(Some(object)),
            None => self.repo.inner.store().read(id),
        }
    }

    fn contains(&self, id: &ObjectId) -> Result<bool> {
        Ok(self.staged.contains(id)? || self.repo.inner.store().contains(id)?)
    }

    fn missing(&self, kind: Kind, id: &ObjectId) -> Error {
        self.repo.inner.store().missing(kind, id)
    }
}

impl ObjectSink for StagedObjects {
    fn write(&mut self, kind: Kind, bytes: Bytes) -> Result<ObjectId> {
        self.staged.write(kind, bytes)
    }
}
