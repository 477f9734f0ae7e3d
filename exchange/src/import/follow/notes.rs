//! The notes on a followed transcript: the position, and the state of its parser.

use serde::{Deserialize, Serialize};
use turntree::object::ObjectId;
use turntree::repo::BranchName;

use super::OpenTurn;

const VERSION: u32 = 1;

/// The notes on a followed file.
pub(super) struct Notes {
    pub(super) session: String,
    pub(super) format: String,
    pub(super) branch: BranchName,
    /// The tip of the branch.
    pub(super) head: ObjectId,
    /// Number of bytes of the file that the source has.
    pub(super) offset: u64,
    /// The turn of that commit, if it is unfinished.
    pub(super) open: Option<OpenTurn>,
    /// The state of the parser.
    pub(super) parser: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct NotesRecord {
    version: u32,
    session: String,
    format: String,
    branch: String,
    head: String,
    offset: u64,
    open: Option<OpenTurn>,
    parser: String,
}

impl Notes {
    pub(super) fn encode(self) -> Vec<u8> {
        let written = NotesRecord {
            version: VERSION,
            session: self.session,
            format: self.format,
            branch: self.branch.to_string(),
            head: self.head.to_string(),
            offset: self.offset,
            open: self.open,
            parser: String::from_utf8(self.parser).unwrap_or_default(),
        };
        serde_json::to_vec(&written).unwrap_or_default()
    }

    /// Decodes notes of this version. Returns `None` for other data.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let written: NotesRecord = serde_json::from_slice(bytes).ok()?;
        if written.version != VERSION {
            return None;
        }
        Some(Self {
            session: written.session,
            format: written.format,
            branch: written.branch.parse().ok()?,
            head: written.head.parse().ok()?,
            offset: written.offset,
            open: written.open,
            parser: written.parser.into_bytes(),
        })
    }
}

/// Returns the number of imported bytes of a transcript, according to `notes`. `None` for invalid
/// notes.
#[must_use]
pub fn followed_bytes(notes: &[u8]) -> Option<u64> {
    Notes::decode(notes).map(|notes| notes.offset)
}

/// Returns the branch of a followed transcript, according to `notes`. `None` for invalid notes.
#[must_use]
pub fn followed_branch(notes: &[u8]) -> Option<BranchName> {
    Notes::decode(notes).map(|notes| notes.branch)
}
