//! Restores a snapshot with its files: first returns a plan, then carries out exactly that plan.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turntree::repo::{BranchName, Repository};

use super::plan;
use super::snapshot::no_workspace;
use super::{Effect, Request, ServiceCall};
use crate::porcelain::read::revision::{known_branch_of, snapshot_and_parts};
use crate::porcelain::workspace::plans::{FILES_TOLD, is_destructive};
use crate::porcelain::workspace::rewind::{RestoreRequest, RewindRun, checked, end};
use crate::view::error::Result;
use crate::view::json;

/// Arguments of `restore`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RestoreArguments {
    /// The snapshot, or an entry of it
    revision: String,
    /// Restore only this: files, conversation, another section, or a path; all by default
    #[serde(default)]
    only: Vec<String>,
    /// Keep the lessons as they are now
    #[serde(default)]
    keep_lessons: bool,
    /// Return the plan without doing it; true by default, unless there is a plan_id
    dry_run: Option<bool>,
    /// Do the plan of a dry run: its plan_id, with the same arguments
    plan_id: Option<String>,
    /// Act on a branch of this session; main by default
    session: Option<String>,
    /// Act on this branch
    branch: Option<String>,
}

/// The plan of a restore, or its result.
#[derive(Serialize, JsonSchema)]
pub(super) struct RestoreAnswer {
    /// Names this plan and the state that it is for; null once done.
    plan_id: Option<String>,
    /// True if it takes a plan_id: files are overwritten or deleted.
    destructive: bool,
    /// The first 200 files are listed.
    #[serde(flatten)]
    restoration: json::Restoration,
    /// The number of files that are not listed.
    more_files: u64,
}

impl Request for RestoreArguments {
    type Answer = RestoreAnswer;
    const NAME: &'static str = "restore";
    const TITLE: &'static str = "Bring a snapshot back";
    const ABOUT: &'static str = "Restores a snapshot: adds a snapshot with its context to the \
        branch, and writes its files to the workspace. The first call changes nothing and \
        returns the plan with a plan_id; call again with that plan_id to do it. The plan_id is \
        refused when anything has changed since. The workspace is saved before: workspace.before \
        is the snapshot that restores it.";
    const EFFECT: Effect = Effect::MayReplace;

    fn answer(self, call: &ServiceCall<'_>) -> Result<RestoreAnswer> {
        let dry_run = self.dry_run.unwrap_or(self.plan_id.is_none());
        if !dry_run {
            call.check_may_change()?;
        }
        let repo = call.open()?;
        let bring_back = self.wanted(call, &repo, dry_run)?;
        let looked = bring_back.look(&repo)?;
        let changes = looked.plan();
        let (destructive, id) = (is_destructive(changes), bring_back.plan_id(&repo, changes));
        plan::check(self.plan_id.as_deref(), &id, destructive && !dry_run)?;
        let answer = |restoration: json::Restoration, plan_id| {
            let mut restoration = restoration;
            let files = restoration.workspace.as_mut().map(|workspace| &mut workspace.files);
            let more_files = files.map_or(0, |files| {
                let more = files.len().saturating_sub(FILES_TOLD) as u64;
                files.truncate(FILES_TOLD);
                more
            });
            RestoreAnswer { plan_id, destructive, restoration, more_files }
        };
        if dry_run || !changes.changes_anything() {
            return Ok(answer(bring_back.record(&repo, changes, None)?, Some(id)));
        }
        let done = bring_back.apply(&repo, looked)?;
        let arranged = done.arranged.as_ref();
        end(done.plan.files.as_ref(), arranged)?;
        let made = Some((done.committed.sequence, arranged));
        Ok(answer(bring_back.record(&repo, &done.plan, made)?, None))
    }
}

impl RestoreArguments {
    fn wanted(
        &self,
        call: &ServiceCall<'_>,
        repo: &Repository,
        dry_run: bool,
    ) -> Result<RewindRun> {
        let (from, only) = snapshot_and_parts(repo, &self.revision, &self.only)?;
        let request = RestoreRequest {
            branch: known_branch_of(repo, self.session.as_deref(), self.branch.as_deref())?,
            from,
            only: &only,
            keep_lessons: self.keep_lessons,
            dry_run,
        };
        // Only the directory given at the server's start is written to, even if a snapshot names
        // another.
        let directory =
            |_: &BranchName| call.workspace().map(|dir| checked(dir, false)).transpose();
        let without = "only = [\"conversation\"] restores everything except the files";
        request.bring_back(repo, directory, |_| no_workspace(without))
    }
}
