//! The records of `lesson`. The fields of a lesson follow open-codesign's proposal.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use turntree_exchange::lessons::Lesson;

use super::CommitId;

/// `lesson list`.
#[derive(Serialize)]
pub(crate) struct Lessons {
    /// The turn of the snapshot.
    pub(crate) turn: u64,
    pub(crate) lessons: Vec<ListedLesson>,
    /// Keys of entries of the section that are not lessons.
    pub(crate) unrecognized: Vec<String>,
}

/// A lesson.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ListedLesson {
    pub(crate) id: String,
    /// True if it is live in that turn.
    pub(crate) live: bool,
    #[serde(flatten)]
    #[schemars(with = "Map<String, Value>")]
    pub(crate) lesson: Lesson,
}

/// A command that changes lessons.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LessonsChanged {
    pub(crate) session: String,
    pub(crate) branch: String,
    /// The new snapshot of the branch; `null` if nothing changed.
    #[serde(flatten)]
    pub(crate) at: CommitId<Option<String>>,
    pub(crate) turn: Option<u64>,
    /// Ids of new, of changed and of deprecated lessons.
    pub(crate) added: Vec<String>,
    pub(crate) changed: Vec<String>,
    pub(crate) deprecated: Vec<String>,
}

impl LessonsChanged {
    /// The record of an unchanged branch.
    pub(crate) fn nothing(session: String, branch: String) -> Self {
        let (added, changed, deprecated) = (Vec::new(), Vec::new(), Vec::new());
        Self { session, branch, at: CommitId::new(None), turn: None, added, changed, deprecated }
    }
}

/// `lesson inject`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct InjectedLessons {
    /// The block; empty without lessons.
    pub(crate) prompt: String,
    /// Ids of the lessons in it, in order.
    pub(crate) lessons: Vec<String>,
    /// Ids of those that did not fit.
    pub(crate) left_out: Vec<String>,
}
