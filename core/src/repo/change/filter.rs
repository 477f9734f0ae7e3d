//! Filters that inspect content before it is stored, and may replace it.
//!
//! The engine knows no secrets; the caller supplies the filter. Transactions pass the contents and
//! the commit messages that they write through it. Merges, redactions and imports of bundles skip
//! the filter, because they write content that was stored before.

use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::object::ObjectId;
use crate::repo::Repository;

/// Inspects content before it is stored.
pub trait ContentFilter: fmt::Debug + Send + Sync {
    /// Returns the replacement of a content; `None` to store the content itself. The filter must
    /// return `None` for its own replacements.
    ///
    /// # Errors
    /// When the filter cannot decide.
    fn instead(&self, repo: &Repository, content: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Returns the ids that the same content may have in the store, imported under other settings.
    ///
    /// # Errors
    /// When the filter cannot determine them.
    fn others(&self, repo: &Repository, content: &[u8]) -> Result<Vec<ObjectId>>;

    /// Called for content that is new to the store, just before it is stored.
    ///
    /// # Errors
    /// When the settings cannot be read.
    fn stored(&self, repo: &Repository, content: &[u8]) -> Result<()>;
}

impl Repository {
    /// Filters everything that is written to the store through `filter`.
    #[must_use]
    pub fn filtering(mut self, filter: Arc<dyn ContentFilter>) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Returns the replacement of a content; `None` to store the content itself.
    ///
    /// # Errors
    /// Errors of the filter.
    pub fn instead(&self, content: &[u8]) -> Result<Option<Vec<u8>>> {
        self.filter.as_ref().map_or(Ok(None), |filter| filter.instead(self, content))
    }

    /// Returns the ids that the same content may have in the store, imported under other settings
    /// of the filter.
    ///
    /// # Errors
    /// Errors of the filter.
    pub fn other_ids(&self, content: &[u8]) -> Result<Vec<ObjectId>> {
        self.filter.as_ref().map_or(Ok(Vec::new()), |filter| filter.others(self, content))
    }
}
