//! The id of the snapshot that a record is about: `id` in every record, and next to it the name of schema 1.

use schemars::JsonSchema;
use serde::Serialize;

/// The id, also as `commit`. `None` is `null`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct CommitId<T = String> {
    /// The snapshot.
    pub(crate) id: T,
    /// The same.
    #[schemars(skip)]
    pub(crate) commit: T,
}

/// The id, also as `head`. `None` is `null`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct HeadId<T = String> {
    /// The newest snapshot of the branch.
    pub(crate) id: T,
    /// The same.
    #[schemars(skip)]
    pub(crate) head: T,
}

impl<T: Clone> CommitId<T> {
    pub(crate) fn new(id: T) -> Self {
        Self { commit: id.clone(), id }
    }
}

impl<T: Clone> HeadId<T> {
    pub(crate) fn new(id: T) -> Self {
        Self { head: id.clone(), id }
    }
}
