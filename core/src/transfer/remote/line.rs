//! Compares a local branch with a branch of a remote.

use super::Remote;
use crate::error::Result;
use crate::object::{ObjectId, ObjectSource};

/// The relation of a local branch to the branch of the remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// The remote has no branch of that name.
    New,
    /// The local branch is a descendant.
    Ahead,
    /// Both are at the same commit.
    Same,
    /// The branch of the remote is a descendant.
    Behind,
    /// The branches have diverged.
    Apart,
}

impl Line {
    /// Returns true if a push would send something.
    #[must_use]
    pub const fn is_pushed(self) -> bool {
        matches!(self, Self::New | Self::Ahead)
    }
}

impl Remote<'_> {
    /// Returns the relation of a local commit to a commit of the remote.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming a commit that cannot be read.
    pub fn line(&self, here: &ObjectId, there: &ObjectId) -> Result<Line> {
        if here == there {
            return Ok(Line::Same);
        }
        // A commit that was deleted here is no ancestor of anything here.
        if !self.repo.store().contains(there)? {
            return Ok(Line::Apart);
        }
        let base = self.repo.merge_base(here, there)?;
        Ok(match base {
            Some(base) if base == *there => Line::Ahead,
            Some(base) if base == *here => Line::Behind,
            _ => Line::Apart,
        })
    }
}
