//! Findings of an examination: damage, loss, and notes.

use std::fmt;

use crate::object::ObjectId;

/// Something that `fsck` found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsckFinding {
    /// Its kind.
    pub kind: FsckKind,
    /// A file and offset, a ref, or a session with turn and section.
    pub place: String,
    /// A description, for people.
    pub message: String,
    /// The object it is about, if it is about one.
    pub object: Option<ObjectId>,
}

/// The kind of a finding. The first three are notes: nothing that was acknowledged is affected by
/// the first two, and the third was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FsckKind {
    /// A batch that was never acknowledged.
    TornTail,
    /// A file, or part of an expired turn, that belongs to nobody.
    Leftover,
    /// An object that was given up with [`Loss::Accept`](super::Loss::Accept).
    Hole,
    /// Bytes of a file are not what was written.
    Damaged,
    /// An object that must be there is not, or does not verify.
    Lost,
    /// An object that verifies is not what its kind says.
    Malformed,
    /// The operations have a gap, do not explain the refs, or one is not followed by the newest.
    Operations,
    /// A ref holds what its name does not allow.
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

    /// Returns true if the store is not as it should be.
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
