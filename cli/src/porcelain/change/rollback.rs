//! Rollbacks by prompts, turns or words, for commands and hooks: finds the turn to roll back to.

use std::path::PathBuf;

use turntree::context::Selection;
use turntree::object::{ObjectId, Trigger};
use turntree::repo::{BranchName, Repository};
use turntree::workspace::RewindRequest;
use turntree::{Error, ErrorKind};
use turntree_exchange::{Language, RollbackIntent, is_prompt, rollback_language};

use super::lessons::Add;
use super::lessons::fields::LessonFields;
use super::lessons::target::{LessonBranch, LessonChange};
use crate::porcelain::read::paths::Paths;
use crate::porcelain::workspace::rewind::{RewindRun, part, unknown_workspace};
use crate::view::error::{Failure, Result, SNAPSHOT_EXPIRED};
use crate::view::json;
use crate::view::render::{ID_DIGITS, count};

/// The name of a failure in open-codesign.
const NO_SNAPSHOT: &str = "no_snapshot";

/// The target of a rollback.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RollbackTarget {
    /// Before the last so many prompts; in a history without prompts, so many turns back.
    Steps(u64),
    Turns(u64),
    Turn(u64),
    BeforePrompt(i64),
}

impl From<RollbackIntent> for RollbackTarget {
    fn from(intent: RollbackIntent) -> Self {
        match intent {
            RollbackIntent::Steps(steps) => Self::Steps(steps),
            RollbackIntent::Turn(turn) => Self::Turn(turn),
        }
    }
}

/// A requested rollback.
pub(crate) struct RollbackRequest<'a> {
    pub(crate) branch: BranchName,
    pub(crate) target: RollbackTarget,
    /// Sections and paths; everything if empty.
    pub(crate) only: &'a [String],
    pub(crate) keep_lessons: bool,
    pub(crate) audit: bool,
    pub(crate) dry_run: bool,
}

impl RollbackRequest<'_> {
    /// Finds the turn, and the workspace with `directory` if the rollback includes files.
    ///
    /// # Errors
    /// `NotFound` and `Expired`, with the available targets.
    pub(crate) fn rewind(
        self,
        repo: &Repository,
        directory: impl FnOnce(&BranchName) -> Result<Option<PathBuf>>,
    ) -> Result<RewindRun> {
        let Self { branch, target, only: words, keep_lessons, audit, dry_run } = self;
        let Some(tip) = repo.tip(&branch) else {
            let error = Error::not_found(format!("{branch} has no snapshot yet"));
            return Err(Failure::from(error).named(NO_SNAPSHOT));
        };
        let parts = &*Paths::of(repo, &[tip]).parts_or_files(words);
        let only = Selection::parse(parts);
        let target = unit(repo, &tip, target)?;
        let from = find(repo, &tip, target, &only)?;
        Paths::of(repo, &[tip, from]).parts(words)?;
        let before_prompt = prompt_of(repo, &tip, target, &only)?;
        let workspace = match only.reaches_files() {
            true => directory(&branch)?,
            false => None,
        };
        if workspace.is_none() && !only.is_all() && only.reaches_files() {
            return Err(unknown_workspace(&branch));
        }
        let (turn, short) = (repo.commit(&from)?.turn, from.short(ID_DIGITS));
        let by = match target {
            RollbackTarget::Turn(_) => String::new(),
            RollbackTarget::Turns(turns) => format!(" {}", count(turns, "turn")),
            RollbackTarget::Steps(prompts) => format!(" {}", count(prompts, "prompt")),
            RollbackTarget::BeforePrompt(_) => before_prompt
                .as_ref()
                .map_or_else(String::new, |prompt| format!(" to before prompt {}", prompt.number)),
        };
        let message = format!("rolled back{by} to turn {turn} ({short}){}", part(parts));
        let restore = RewindRequest {
            branch,
            from,
            only,
            workspace,
            is_rollback: true,
            keep_lessons,
            audit,
            message,
        };
        let is_of_nothing = matches!(target, RollbackTarget::Turns(0)) && !audit;
        let run = RewindRun::new(restore, "rollback", dry_run, before_prompt);
        Ok(if is_of_nothing { run.of_no_turn() } else { run })
    }
}

/// The question what the agent should do differently, in the language of `said`, otherwise of the
/// environment.
pub(crate) fn question(said: Option<&str>) -> &'static str {
    let locale = || {
        let names = ["LC_ALL", "LC_MESSAGES", "LANG"].iter();
        names.filter_map(|name| std::env::var(name).ok()).find(|locale| !locale.is_empty())
    };
    let language = said.and_then(rollback_language);
    language
        .unwrap_or_else(|| Language::of_locale(&locale().unwrap_or_default()))
        .follow_up_question()
}

/// Keeps the user's answer as a lesson of `branch`, about the abandoned history that ended in
/// `given_up`.
pub(crate) fn learn(
    repo: &Repository,
    branch: &BranchName,
    given_up: &ObjectId,
    text: &str,
) -> Result<Option<LessonChange>> {
    let add = Add {
        fields: LessonFields { note: Some(text.to_owned()), ..LessonFields::default() },
        branch: Some(given_up.to_string()),
        target: LessonBranch {
            session: Some(branch.session().to_owned()),
            on: Some(branch.branch().to_owned()),
        },
        ..Add::default()
    };
    add.apply(repo)
}

/// The unit of steps: prompts, or turns in a history without prompts.
fn unit(repo: &Repository, tip: &ObjectId, target: RollbackTarget) -> Result<RollbackTarget> {
    match target {
        RollbackTarget::Steps(0) => Ok(RollbackTarget::Turns(0)),
        RollbackTarget::Steps(steps) => {
            // An agent that takes snapshots before tools has one for each tool to go back to.
            let newest = repo.commit(&repo.turns_before(tip, 0, &Selection::default())?)?;
            let by_turns = newest.trigger == Trigger::BeforeTool || prompts_at(repo, tip)? == 0;
            Ok(if by_turns { RollbackTarget::Turns(steps) } else { target })
        }
        _ => Ok(target),
    }
}

/// The prompt to roll back to, if the request was in prompts.
fn prompt_of(
    repo: &Repository,
    tip: &ObjectId,
    target: RollbackTarget,
    only: &Selection,
) -> Result<Option<json::RestoredPrompt>> {
    let number = match target {
        RollbackTarget::Steps(prompts) => -signed(prompts),
        RollbackTarget::BeforePrompt(prompt) => prompt,
        RollbackTarget::Turns(_) | RollbackTarget::Turn(_) => return Ok(None),
    };
    let mut prompts = repo.prompts(Some(&is_prompt))?;
    let id = prompts.find(tip, number, only)?;
    let (number, words) = (prompts.count(&id)?, repo.commit(&id)?.message);
    Ok(Some(json::RestoredPrompt { number, id: id.to_string(), words }))
}

/// The number of prompts in the history of `id`, including rolled-back ones.
pub(crate) fn prompts_at(repo: &Repository, id: &ObjectId) -> turntree::Result<u64> {
    repo.prompts(Some(&is_prompt))?.count(id)
}

/// The snapshot to roll back to. open-codesign calls every unavailable target expired, and adds the
/// oldest available one; the message says more.
fn find(
    repo: &Repository,
    tip: &ObjectId,
    target: RollbackTarget,
    only: &Selection,
) -> Result<ObjectId> {
    let found = match target {
        RollbackTarget::Turns(turns) => repo.turns_before(tip, turns, only),
        RollbackTarget::Steps(prompts) => {
            repo.prompts(Some(&is_prompt))?.before(tip, -signed(prompts), only)
        }
        RollbackTarget::BeforePrompt(prompt) => {
            repo.prompts(Some(&is_prompt))?.before(tip, prompt, only)
        }
        RollbackTarget::Turn(turn) => match repo.find_turn(tip, turn) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(error.with_source(repo.oldest_available(&repo.commit(tip)?.session)?))
            }
            found => found,
        },
    };
    found.map_err(|error| match (error.kind(), target) {
        (ErrorKind::NotFound, RollbackTarget::Steps(_) | RollbackTarget::BeforePrompt(_)) => {
            let hint = "'turntree rollback --turns 1' goes back by one turn, \
                'turntree log' lists prompts and turns";
            Failure::hinted(error, hint).named(SNAPSHOT_EXPIRED)
        }
        (ErrorKind::NotFound, _) => Failure::from(error).named(SNAPSHOT_EXPIRED),
        _ => error.into(),
    })
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
