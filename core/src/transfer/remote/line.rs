//! How a branch of the store and one of a remote stand to each other.

use super::Remote;
use crate::error::Result;
use crate::object::{ObjectId, ObjectSource};

/// How a branch here stands to the branch of the remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// The remote has none of that name.
    New,
    /// It goes on from there.
    Ahead,
    /// They are at the same turn.
    Same,
    /// The remote goes on from here.
    Behind,
    /// Both have turns that the other one lacks.
    Apart,
}

impl Line {
    /// True if a push would bring something.
    #[must_use]
    pub const fn is_pushed(self) -> bool {
        matches!(self, Self::New | Self::Ahead)
    }
}

impl Remote<'_> {
    /// Returns how a turn of the store stands to one of the remote.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt`, naming a commit that cannot be read.
    pub fn line(&self, here: &ObjectId, there: &ObjectId) -> Result<Line> {
        if here == there {
            return Ok(Line::Same);
        }
        // What was dropped here since, nothing here can go on from.
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
