//! What another branch explored comes into this one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Call, Effect, Request};
use crate::porcelain::merge::{How, Messages, Shown, merge};
use crate::view::error::Result;
use crate::view::json;

/// Conflicts that are told.
const TOLD: usize = 100;

/// What to merge, and how.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Merge {
    /// What to merge, a branch or any revision
    revision: String,
    /// Into this branch; the one that calls act on by default
    into: Option<String>,
    /// What becomes of a conversation that both continued: append (messages of both, in the order of
    /// time), ours, theirs, or summary (ours, and then a message with the summary); append by default
    #[serde(default)]
    messages: Messages,
    /// What theirs said, in short, for messages = summary
    summary: Option<String>,
    /// Take only these: files, conversation, another section, or a path
    #[serde(default)]
    only: Vec<String>,
    /// What the snapshot says
    message: Option<String>,
    /// Only say what would come of it
    #[serde(default)]
    dry_run: bool,
}

/// What came of it.
#[derive(Serialize, JsonSchema)]
pub(super) struct MergeAnswer {
    /// The first 100 conflicts are listed.
    #[serde(flatten)]
    merged: json::Merged,
    /// How many more there are.
    more_conflicts: u64,
}

impl Request for Merge {
    type Answer = MergeAnswer;
    const NAME: &'static str = "merge";
    const TITLE: &'static str = "Merge a branch";
    const ABOUT: &'static str = "Merges a branch or any snapshot into the branch that calls act on, \
        section by section. It is always made: what both changed to something else is a conflict, of \
        which all versions are kept in the section conflicts. It touches no files: restore HEAD brings \
        those into the workspace.";
    const EFFECT: Effect = Effect::MayAdd;

    fn answer(self, call: &Call<'_>) -> Result<MergeAnswer> {
        if !self.dry_run {
            call.check_may_change()?;
        }
        let Self { revision, into, messages, summary, only, message, dry_run } = self;
        let how = How { into, messages, summary, summary_file: None, only, message, dry_run };
        let repo = call.open()?;
        let (request, staged, turn) = merge(&repo, &revision, &how)?;
        let shown = Shown { staged: &staged, request: &request, turn, dry_run };
        let mut merged = shown.record();
        let more_conflicts = merged.conflicts.len().saturating_sub(TOLD) as u64;
        merged.conflicts.truncate(TOLD);
        Ok(MergeAnswer { merged, more_conflicts })
    }
}
