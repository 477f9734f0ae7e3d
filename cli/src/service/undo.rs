//! Undoes and redoes operations: first returns a plan, then carries it out.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turntree::platform::canonical;
use turntree::{Error, ErrorKind};

use super::plan;
use super::snapshot::no_workspace;
use super::{Effect, Request, ServiceCall};
use crate::porcelain::change::undo::{UndoDirection, UndoRequest, Undone};
use crate::porcelain::workspace::plans::{FILES_TOLD, is_destructive};
use crate::porcelain::workspace::rewind::{checked, end};
use crate::view::advice::Advice;
use crate::view::error::{Failure, Result};
use crate::view::json;

/// Arguments of `undo`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UndoArguments {
    /// This operation, by number or id; the newest of this actor by default
    operation: Option<String>,
    /// Redo the newest undone operation instead
    #[serde(default)]
    redo: bool,
    /// The newest of any actor
    #[serde(default)]
    any_actor: bool,
    /// False leaves the files of the workspace as they are
    files: Option<bool>,
    /// Return the plan; true by default, unless there is a plan_id
    dry_run: Option<bool>,
    /// Do the plan of a dry run, with the same arguments
    plan_id: Option<String>,
}

/// The plan of an undo, or its result.
#[derive(Serialize, JsonSchema)]
pub(super) struct UndoAnswer {
    /// Names this plan and the state that it is for; null once done.
    plan_id: Option<String>,
    /// True if it takes a plan_id: files are overwritten or deleted.
    destructive: bool,
    /// The first 200 files are listed.
    #[serde(flatten)]
    undo: json::Undo,
    /// The number of files that are not listed.
    more_files: u64,
}

impl Request for UndoArguments {
    type Answer = UndoAnswer;
    const NAME: &'static str = "undo";
    const TITLE: &'static str = "Take back a change";
    const ABOUT: &'static str = "Takes back the newest change of branches, tags and pins, or with \
        redo makes it again; after a restore the files go back too. The first call returns the \
        plan with a plan_id; call again with it, as for restore.";
    const EFFECT: Effect = Effect::MayReplace;

    fn answer(self, call: &ServiceCall<'_>) -> Result<UndoAnswer> {
        let dry_run = self.dry_run.unwrap_or(self.plan_id.is_none());
        if !dry_run {
            call.check_may_change()?;
        }
        let repo = call.open()?;
        let directory = |known: Option<PathBuf>| directory(call, known);
        let direction = if self.redo { UndoDirection::Redo } else { UndoDirection::Undo };
        let request = UndoRequest {
            direction,
            operation: self.operation.as_deref().filter(|_| !self.redo),
            any_actor: self.any_actor,
            no_files: self.files == Some(false),
        };
        let planned = request.look(&repo, &directory)?;
        let destructive = planned.rewind().is_some_and(is_destructive);
        let id = planned.plan_id(&repo);
        plan::check(self.plan_id.as_deref(), &id, destructive && !dry_run)?;
        let answer = |undone: &Undone, plan_id| {
            let mut undo = undone.record();
            let files = undo.workspace.as_mut().map(|workspace| &mut workspace.files);
            let more_files = files.map_or(0, |files| {
                let more = files.len().saturating_sub(FILES_TOLD) as u64;
                files.truncate(FILES_TOLD);
                more
            });
            UndoAnswer { plan_id, destructive, undo, more_files }
        };
        if dry_run {
            return Ok(answer(&planned.shown(), Some(id)));
        }
        let undone = planned.apply(&repo)?;
        end(undone.files.as_ref(), undone.arranged.as_ref())?;
        Ok(answer(&undone, None))
    }
}

/// Only the directory given at the server's start is written to.
fn directory(call: &ServiceCall<'_>, known: Option<PathBuf>) -> Result<Option<PathBuf>> {
    const WITHOUT: &str = "files = false takes back the branch alone";
    let Some(own) = call.workspace() else { return Err(no_workspace(WITHOUT)) };
    let own = checked(own, false)?;
    let is_other = |known: PathBuf| canonical(&known).ok().as_ref() != Some(&own);
    if known.is_some_and(is_other) {
        let message = "the operation moved files of another directory than this server's workspace";
        let error = Error::new(ErrorKind::Unsupported, message);
        return Err(Failure::hinted(error, Advice::calls(WITHOUT)));
    }
    Ok(Some(own))
}
