//! Takes a snapshot of a context on a branch.

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use turntree::{Error, ErrorKind};

use super::{Effect, Request, ServiceCall};
use crate::porcelain::change::snapshot::{ContextInput, NewSnapshot, Racing, SnapshotBasics};
use crate::view::advice::Advice;
use crate::view::error::{Failure, Result};
use crate::view::json;

/// Maximum number of omitted paths to list.
const TOLD: usize = 100;

/// Arguments of `snapshot`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotArguments {
    /// Message of the snapshot
    message: String,
    /// Messages of agents to append, as in {"agents": {"main": [{"role": "user", "content":
    /// "..."}]}}; other keys name lists
    append: Option<Map<String, Value>>,
    /// Entries to set, as in {"scratchpad/todo": "...", "memory/x": {"n": 1}}
    set: Option<Map<String, Value>>,
    /// Entries to remove, as in ["scratchpad/todo"]
    #[serde(default)]
    unset: Vec<String>,
    /// Sections to replace whole, null to drop one, as in {"scratchpad": {"note": {"content":
    /// "..."}}, "agents": {"main": {"messages": [...]}}}
    state: Option<Map<String, Value>>,
    /// Capture the files of the server's workspace; by default if it has one
    files: Option<bool>,
    /// Reason for it: manual, turn, before-tool, threshold, emergency, before-compaction,
    /// compaction, mode-change, before-restore, merge or rollback; manual by default
    trigger: Option<String>,
    /// Pin it, so that retention never drops it
    #[serde(default)]
    pin: bool,
    /// Fail unless this is the newest snapshot of the branch
    expect: Option<String>,
    /// If another process commits first, put it on top
    #[serde(default)]
    retry: bool,
    /// Put it on a branch of this session; main by default
    session: Option<String>,
    /// Put it on this branch
    branch: Option<String>,
    /// Name of the actor
    agent: Option<String>,
    /// Name of the model that produced the turn
    model: Option<String>,
}

impl Request for SnapshotArguments {
    type Answer = json::Moved;
    const NAME: &'static str = "snapshot";
    const TITLE: &'static str = "Take a snapshot";
    const ABOUT: &'static str = "Takes a snapshot of the context, and of the files of the \
        workspace if the server has one. It continues the newest snapshot, and what is not named \
        stays: append and set what is new. Take one before anything risky, and at the end of each \
        turn.";
    const EFFECT: Effect = Effect::Adds;

    fn answer(self, call: &ServiceCall<'_>) -> Result<json::Moved> {
        call.check_may_change()?;
        if self.retry && self.expect.is_some() {
            return Err(Error::invalid("expect and retry exclude each other").into());
        }
        let workspace = call.workspace().filter(|_| self.files != Some(false));
        if workspace.is_none() && self.files == Some(true) {
            return Err(no_workspace("call it without files = true"));
        }
        let new = NewSnapshot {
            basics: SnapshotBasics {
                message: Some(self.message),
                session: self.session,
                branch: self.branch,
                agent: self.agent,
                model: self.model,
                ..SnapshotBasics::default()
            },
            workspace: workspace.map(ToOwned::to_owned),
            trigger: self.trigger.map(|word| word.parse()).transpose()?.unwrap_or_default(),
            pin: self.pin,
            ..NewSnapshot::default()
        };
        let state = self.state.map(|state| Value::Object(state).to_string().into());
        let edits = edits(self.append.as_ref(), self.set.as_ref(), &self.unset);
        let input = ContextInput::of_call(state, edits);
        if call.would_create()? {
            input.check()?;
        }
        let repo = call.open_or_create()?;
        let racing = Racing { expect: self.expect, retry: self.retry };
        let at = new.basics.at(&repo, new.workspace.as_deref())?;
        let mut moved = new.take(&repo, at, &input, None, &racing)?.record();
        if let Some(workspace) = &mut moved.workspace {
            keep_first(&mut workspace.skipped);
        }
        Ok(moved)
    }
}

/// The document of edits; `None` if there are no edits.
fn edits(
    append: Option<&Map<String, Value>>,
    set: Option<&Map<String, Value>>,
    unset: &[String],
) -> Option<Bytes> {
    let has_edits = append.is_some() || set.is_some() || !unset.is_empty();
    let document = json!({"append": append, "set": set, "unset": unset});
    has_edits.then(|| document.to_string().into())
}

/// Keeps the first omitted paths, and adds the number of further ones.
fn keep_first(skipped: &mut Vec<json::Skipped>) {
    let more = skipped.len().saturating_sub(TOLD);
    if more > 0 {
        skipped.truncate(TOLD);
        let reason = format!("{more} more paths are left out");
        skipped.push(json::Skipped { path: String::new(), reason });
    }
}

/// The error of a call that needs a workspace on a server without one; `without` is the
/// alternative.
pub(super) fn no_workspace(without: &str) -> Failure {
    let error = Error::new(ErrorKind::Unsupported, "this server has no workspace");
    Failure::hinted(error, Advice::calls(without))
}
