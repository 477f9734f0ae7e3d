//! Offloads old large outputs of a conversation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turntree::repo::HEAD;

use super::{Effect, Request, ServiceCall};
use crate::porcelain::change::conversation_edits::{
    CompactOptions, KEEP_RECENT, OFFLOAD_OVER, compact,
};
use crate::view::error::Result;

/// Arguments of `compact`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CompactArguments {
    /// A session, branch or snapshot; HEAD by default
    revision: Option<String>,
    /// Offload outputs with more bytes; 5000 by default
    offload_over: Option<u64>,
    /// Number of newest messages to leave alone; 10 by default
    keep_recent: Option<u64>,
    /// Name of a new branch for it
    name: Option<String>,
    /// Return the outcome without changing anything
    #[serde(default)]
    dry_run: bool,
}

/// The result.
#[derive(Serialize, JsonSchema)]
pub(super) struct CompactAnswer {
    session: String,
    branch: String,
    /// The new snapshot; null if there is none.
    id: Option<String>,
    turn: u64,
    /// Offloaded outputs.
    shortened: u64,
    /// Estimated tokens.
    tokens_before: u64,
    tokens_after: u64,
}

impl Request for CompactArguments {
    type Answer = CompactAnswer;
    const NAME: &'static str = "compact";
    const TITLE: &'static str = "Put old outputs away";
    const ABOUT: &'static str = "Puts old large outputs of tools away in a new snapshot: short texts \
        cite them, and read_vfs reads them. A session that a client records gets a branch.";
    const EFFECT: Effect = Effect::MayAdd;

    fn answer(self, call: &ServiceCall<'_>) -> Result<CompactAnswer> {
        let Self { revision, offload_over, keep_recent, name, dry_run } = self;
        if !dry_run {
            call.check_may_change()?;
        }
        let offload_over = offload_over.unwrap_or(OFFLOAD_OVER);
        let keep_recent = keep_recent.unwrap_or(KEEP_RECENT);
        let how = CompactOptions { offload_over, keep_recent, name, dry_run };
        let repo = call.open()?;
        let told = compact(&repo, revision.as_deref().unwrap_or(HEAD), &how)?;
        Ok(CompactAnswer {
            session: told.session,
            branch: told.branch,
            id: told.id,
            turn: told.turn,
            shortened: told.shortened,
            tokens_before: told.tokens_before,
            tokens_after: told.tokens_after,
        })
    }
}
