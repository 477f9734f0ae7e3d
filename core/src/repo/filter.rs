//! Filters: content is looked at before it is stored, and may come in as something else.
//!
//! The engine knows no secret; a filter of its caller does. What a transaction writes is given to it:
//! contents, and the words of commits. What was stored before is not: a merge, a redaction or a bundle
//! writes what it is made of, so these pass it by.

use std::fmt;
use std::sync::Arc;

use super::Repository;
use crate::error::Result;
use crate::object::ObjectId;

/// Looks at content on its way into a store.
pub trait ContentFilter: fmt::Debug + Send + Sync {
    /// Returns what is stored in the place of a content; `None` for that itself. It is stored as it is
    /// when it comes in again.
    ///
    /// # Errors
    /// When that cannot be told.
    fn instead(&self, repo: &Repository, content: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Returns the ids that the same content may have in the store, since it came in under other
    /// settings.
    ///
    /// # Errors
    /// When that cannot be told.
    fn others(&self, repo: &Repository, content: &[u8]) -> Result<Vec<ObjectId>>;

    /// Is told of content that the store did not have and now has.
    ///
    /// # Errors
    /// When the settings cannot be read.
    fn stored(&self, repo: &Repository, content: &[u8]) -> Result<()>;
}

impl Repository {
    /// Gives what comes in to `filter`.
    #[must_use]
    pub fn filtering(mut self, filter: Arc<dyn ContentFilter>) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Returns what is stored in the place of a content; `None` for that itself.
    ///
    /// # Errors
    /// Those of the filter.
    pub fn instead(&self, content: &[u8]) -> Result<Option<Vec<u8>>> {
        self.filter.as_ref().map_or(Ok(None), |filter| filter.instead(self, content))
    }

    /// Returns the ids that the same content may have in the store, since it came in under other
    /// settings of the filter.
    ///
    /// # Errors
    /// Those of the filter.
    pub fn other_ids(&self, content: &[u8]) -> Result<Vec<ObjectId>> {
        self.filter.as_ref().map_or(Ok(Vec::new()), |filter| filter.others(self, content))
    }
}
