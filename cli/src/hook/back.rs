//! Rollback prompts, which are answered before the agent sees them, and the first prompt after a
//! rollback.
//! ```text
//! 1 <- 2 <- 3 <- 4 (back to 1)      main: what the person went back to
//!           \
//!            5 <- 6                 main-client: 5 has the files of 4, and the client's own memory
//! ```
//!
//! No hook can shorten the conversation of a client, so the client's next prompt continues the
//! rolled-back turns. Its branch begins with the files at that time, so a rollback to before that
//! prompt restores them.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use turntree::Result;
use turntree::context::Builder;
use turntree::context::sections::FILES;
use turntree::object::Trigger;
use turntree::repo::{BranchName, SnapshotDraft, workspace_files};
use turntree::workspace::{ChangeKind, KeptWorkspace, RewindReport};
use turntree_exchange::agents::hook::{Dialect, EventKind, HookEvent};
use turntree_exchange::{
    FollowReport, RollbackIntent, client_branch, rollback_request, rolled_back_branch,
};

use super::lessons;
use super::turn::HookTurn;
use crate::porcelain::change::rollback::{RollbackRequest, prompts_at, question};
use crate::porcelain::workspace::rewind::{RewindRun, own_directory_from};
use crate::program::here::workspace_of;
use crate::program::live::HOOK;
use crate::view::error::{Failure, Result as Outcome};
use crate::view::render::effects::effect_lines;
use crate::view::render::restoration::kept_workspace;
use crate::view::render::{count, harmless};

/// Time limit of a rollback; clients wait a little longer for it.
pub(super) const BACK_TIME: Duration = Duration::from_secs(55);

/// Maximum number of files to list.
const MAX_NAMED: usize = 10;

/// Parses a rollback request from a prompt.
pub(super) fn asked_back(event: &HookEvent) -> Option<RollbackIntent> {
    rollback_request(event.prompt.as_deref()?)
}

/// The answer when the time limit ends a rollback before it changed anything.
pub(super) fn stopped(event: &HookEvent) -> Option<String> {
    event.refusal(
        "turntree: the rollback was stopped, and nothing was changed. 'turntree hook log' has the reason.",
    )
}

/// The answer when a rollback failed.
pub(super) fn refusal(event: &HookEvent, failure: &Failure) -> Option<String> {
    event.refusal(&told_failure(failure))
}

impl HookTurn<'_> {
    /// Rolls back, and returns the client's answer to the prompt. The agent never sees the prompt,
    /// even if the rollback fails.
    pub(super) fn go_back(&self) -> Option<String> {
        let reason = match self.went_back() {
            Ok(Some(reason)) => reason,
            Ok(None) => {
                "turntree: this session is not in the store, so nothing was done.".to_owned()
            }
            Err(failure) => told_failure(&failure),
        };
        self.event.refusal(&reason)
    }

    fn went_back(&self) -> Outcome<Option<String>> {
        let (Some(taken), Some(intent)) = (self.take()?, self.back) else { return Ok(None) };
        self.watch.doing("go back");
        let repo = self.repo;
        let branch = self.gone_back(&taken.branch)?.unwrap_or(taken.branch);
        let request = RollbackRequest {
            branch: branch.clone(),
            target: intent.into(),
            only: &[],
            keep_lessons: true,
            audit: false,
            dry_run: false,
        };
        let rewind = request.rewind(repo, |branch| {
            let Some(tip) = repo.tip(branch) else { return Ok(None) };
            let dir = workspace_of(repo, branch, &tip)?;
            let here = self.event.cwd.as_deref();
            dir.map(|dir| own_directory_from(repo, &dir, here, false)).transpose()
        })?;
        let turn = repo.commit(&rewind.restore.from)?.turn;
        let planned = rewind.look(repo)?;
        // The branch is rolled back before its files are.
        self.watch.say_at_end(self.event.refusal(&format!(
            "turntree: the rollback was interrupted: 'turntree restore {branch} --session {} \
             --branch {}' writes the other files.",
            branch.session(),
            branch.branch(),
        )));
        let given_up = repo.tip(&branch);
        let done = rewind.apply(repo, planned)?;
        if let Some(given_up) = given_up.filter(|_| self.lessons) {
            lessons::ask(self, &branch, &given_up);
        }
        let left: String = effect_lines(rewind.effects(repo))
            .map(|line| format!("Not undone: {line}\n"))
            .collect();
        Ok(Some(told(self.event, &rewind, turn, &done, &left, self.lessons)))
    }

    /// Returns true if the user continues with another prompt.
    pub(super) fn says_more(&self) -> bool {
        self.event.moment == EventKind::Prompt && self.back.is_none()
    }

    /// Returns true if the client still has the rolled-back turns of `branch`. Several agents may
    /// work on an agreed branch, so there the transcript decides.
    fn remembers(&self, branch: &BranchName, followed: Option<&FollowReport>) -> bool {
        self.onto.as_ref() != Some(branch) || followed.is_some_and(|followed| followed.was_longer)
    }

    /// Returns the rolled-back branch that the client continues as `line`, until one of the two
    /// gets a prompt of its own. The agreed branch of an agent continues no other branch.
    fn gone_back(&self, line: &BranchName) -> Result<Option<BranchName>> {
        if self.onto.as_ref() == Some(line) {
            return Ok(None);
        }
        let repo = self.repo;
        let Some(back) = rolled_back_branch(repo, line)?.filter(|back| !back.has_turns) else {
            return Ok(None);
        };
        let (Some(own), Some(other)) = (repo.tip(line), repo.tip(&back.branch)) else {
            return Ok(None);
        };
        let is_silent = prompts_at(repo, &own)? == prompts_at(repo, &other)?;
        Ok(is_silent.then_some(back.branch))
    }

    /// Begins the branch as which the client continues after a rollback, with the files of the
    /// rolled-back branch. Returns it with the rolled-back branch, for a warning to the user.
    pub(super) fn go_on(
        &self,
        branch: &BranchName,
        followed: Option<&FollowReport>,
    ) -> Result<(BranchName, Option<BranchName>)> {
        let repo = self.repo;
        let beside = followed.and_then(|followed| followed.rolled_back.clone());
        let line = client_branch(repo, branch)?.filter(|_| self.remembers(branch, followed));
        let (line, base, back) = match (self.gone_back(branch)?, line) {
            (Some(back), _) => (branch.clone(), repo.tip(branch), back),
            (None, Some(line)) => (line.branch, Some(line.base), branch.clone()),
            (None, None) => return Ok((branch.clone(), beside)),
        };
        let (Some(base), Some(tip)) = (base, repo.tip(&back)) else { return Ok((line, beside)) };
        let mut change = repo.begin();
        let mut builder = Builder::from(repo.context(&base)?);
        builder.set_as_in(&mut change, FILES, &repo.context(&tip)?)?;
        let tree = builder.write(&mut change)?;
        if repo.tip(&line).is_none() || repo.commit(&base)?.tree != tree {
            change.move_branch(&line, Some(base));
            let mut draft = SnapshotDraft::new(tree, "files after a rollback", &self.stamp);
            draft.trigger = Trigger::Manual;
            draft.metadata.extend(workspace_files(repo.whole_workspace(&tip)?.as_ref()));
            change.snapshot(&line, draft)?;
            change.commit(&self.stamp, HOOK)?;
        }
        Ok((line, Some(back)))
    }
}

/// The answer after a rollback: the turn, the written files, the effects that stay, and how to
/// continue.
fn told(
    event: &HookEvent,
    rewind: &RewindRun,
    turn: u64,
    done: &RewindReport,
    left: &str,
    keeps_answer: bool,
) -> String {
    let branch = &rewind.restore.branch;
    let mut text = match &rewind.before_prompt {
        Some(prompt) => format!(
            "turntree went back to before prompt {} of {branch}: {}\n",
            prompt.number,
            harmless(&prompt.words)
        ),
        None => format!("turntree went back to turn {turn} of {branch}.\n"),
    };
    write_files(&mut text, turn, done);
    text += left;
    text += "'turntree undo' takes this back. ";
    text += &match event.dialect {
        Dialect::ClaudeCode => format!(
            "This chat still has the rolled-back turns: '/rewind' removes them, or continue with \
             'turntree resume {branch}'."
        ),
        Dialect::Codex | Dialect::Gemini => format!(
            "This chat still has the rolled-back turns: 'turntree resume {branch}' continues \
             without them."
        ),
    };
    let question = question(event.prompt.as_deref());
    let kept = match keeps_answer {
        true => {
            "Say it in your next prompt: its first line becomes a lesson for the agent. 'turntree \
             lesson add --note TEXT' adds another one."
        }
        false => {
            "Say it in your next prompt. 'turntree lesson add --note TEXT' makes it a lesson, \
             which hooks with --lessons give to the agent."
        }
    };
    let _ = write!(text, "\n{question} {kept}");
    text
}

fn write_files(text: &mut String, turn: u64, done: &RewindReport) {
    let (Some(files), Some(arranged)) = (&done.plan.files, &done.arranged) else {
        let kept = done.plan.kept.unwrap_or(KeptWorkspace::NoDirectory);
        let why = kept_workspace(kept, &format!("turn {turn}"));
        let _ = writeln!(text, "No file was touched: {why}.");
        return;
    };
    let failed = |path: &Path| arranged.failed.iter().any(|(failed, _)| failed == path);
    let mut names: Vec<String> = Vec::new();
    for file in files.files.iter().filter(|file| !failed(&file.path)) {
        let what = if file.kind == ChangeKind::Delete { " (deleted)" } else { "" };
        names.push(format!("{}{what}", harmless(&file.path.display().to_string())));
    }
    let more = names.len().saturating_sub(MAX_NAMED);
    names.truncate(MAX_NAMED);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    let _ = match names.as_slice() {
        [] => writeln!(text, "All files are as they were then."),
        names => {
            let written = count(arranged.written, "file");
            let deleted = arranged.deleted;
            writeln!(text, "Wrote {written}, deleted {deleted}: {}", names.join(", "))
        }
    };
    for (path, error) in &arranged.failed {
        let (path, error) = (path.display().to_string(), error.to_string());
        let _ = writeln!(text, "Not restored: {}: {}", harmless(&path), harmless(&error));
    }
    for file in files.left.iter().take(MAX_NAMED) {
        let (path, why) = (file.path.display().to_string(), harmless(&file.reason));
        let _ = writeln!(text, "Left alone: {}: {why}", harmless(&path));
    }
}

fn told_failure(failure: &Failure) -> String {
    let (what, hint) = match failure {
        Failure::Library { error, hint, .. } => {
            let hint = hint.as_ref().and_then(|hint| hint.for_commands());
            (error.to_string(), hint.map(|hint| format!("; {hint}")).unwrap_or_default())
        }
        Failure::Output(error) => (error.to_string(), String::new()),
    };
    format!(
        "turntree did not go back, and nothing was changed: {}{}",
        harmless(&what),
        harmless(&hint)
    )
}
