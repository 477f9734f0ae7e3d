//! The findings of an examination: damage, loss, and notes.

use std::fmt;

use crate::object::ObjectId;

/// A finding of `fsck`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsckFinding {
    /// The kind of the finding.
    pub kind: FsckKind,
    /// A file and offset, a ref, or a session with turn and section.
    pub place: String,
    /// A description for users.
    pub message: String,
    /// The object concerned, if there is one.
    pub object: Option<ObjectId>,
}

/// The kind of a finding. The first three are notes: the first two affect nothing that was
/// acknowledged, and the third was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FsckKind {
    /// A batch that was never acknowledged.
    TornTail,
    /// An unreferenced file, or a remaining part of an expired turn.
    Leftover,
    /// An object that was accepted as lost with [`Loss::Accept`](crate::maintenance::Loss::Accept).
    Hole,
    /// Bytes of a file differ from the written ones.
    Damaged,
    /// A required object is missing or does not verify.
    Lost,
    /// An object verifies but has no valid format for its kind.
    Malformed,
    /// The operations have a gap, do not explain the refs, or one is not an ancestor of the newest.
    Operations,
    /// A ref holds a value that its name does not allow.
    Ref,
}

impl FsckKind {
    /// The name in `--json`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TornTail => "torn-tail",
            Self::Leftover => "leftover",
            Self::Hole => "accepted-loss",
            Self::Damaged => "damaged",
            Self::Lost => "lost",
            Self::Malformed => "malformed",
            Self::Operations => "operations",
            Self::Ref => "ref",
        }
    }

    /// Returns true if the finding is damage, false if it is a note.
    #[must_use]
    pub const fn is_damage(self) -> bool {
        !matches!(self, Self::TornTail | Self::Leftover | Self::Hole)
    }
}

impl fmt::Display for FsckFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}
