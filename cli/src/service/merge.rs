//! Merges a branch into another.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Request, ServiceCall};
use crate::porcelain::change::merge::{MergeOptions, MergeOutcome, MessageRule, merge};
use crate::view::error::Result;
use crate::view::json;

/// Maximum number of conflicts to list.
const TOLD: usize = 100;

/// Arguments of `merge`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MergeArguments {
    /// The branch or revision to merge
    revision: String,
    /// Target branch; the one that calls act on by default
    into: Option<String>,
    /// Rule for a conversation that both continued: append (messages of both, by time), ours,
    /// theirs, or summary (ours, then a message with the summary); append by default
    #[serde(default)]
    messages: MessageRule,
    /// A summary of their messages, for messages = summary
    summary: Option<String>,
    /// Only these: files, conversation, another section, or a path
    #[serde(default)]
    only: Vec<String>,
    /// Message of the snapshot
    message: Option<String>,
    /// Return the outcome without changing anything
    #[serde(default)]
    dry_run: bool,
}

/// The result of a merge.
#[derive(Serialize, JsonSchema)]
pub(super) struct MergeAnswer {
    /// The first 100 conflicts are listed.
    #[serde(flatten)]
    merged: json::Merged,
    /// The number of conflicts that are not listed.
    more_conflicts: u64,
}

impl Request for MergeArguments {
    type Answer = MergeAnswer;
    const NAME: &'static str = "merge";
    const TITLE: &'static str = "Merge a branch";
    const ABOUT: &'static str = "Merges a branch or any snapshot into the branch that calls act \
        on, section by section. It never stops half way: an entry that both changed differently \
        is a conflict, whose versions are kept in the section conflicts until resolve decides. \
        It touches no files: restore HEAD writes them to the workspace.";
    const EFFECT: Effect = Effect::MayAdd;

    fn answer(self, call: &ServiceCall<'_>) -> Result<MergeAnswer> {
        if !self.dry_run {
            call.check_may_change()?;
        }
        let Self { revision, into, messages, summary, only, message, dry_run } = self;
        let how =
            MergeOptions { into, messages, summary, summary_file: None, only, message, dry_run };
        let repo = call.open()?;
        let (request, staged, turn) = merge(&repo, &revision, &how)?;
        let shown = MergeOutcome { staged: &staged, request: &request, turn, dry_run };
        let mut merged = shown.record();
        let more_conflicts = merged.conflicts.len().saturating_sub(TOLD) as u64;
        merged.conflicts.truncate(TOLD);
        Ok(MergeAnswer { merged, more_conflicts })
    }
}
