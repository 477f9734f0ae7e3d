//! `rollback`: goes back by prompts or turns, the context and the files of the workspace together.

use std::io::Write;

use clap::Args;
use turntree::context::Selection;
use turntree::object::{ObjectId, Trigger};
use turntree::repo::Repository;
use turntree::workspace::RewindRequest;
use turntree::{Error, ErrorKind};
use turntree_exchange::{RollbackIntent, is_prompt, rollback_intent};

use super::Verb;
use crate::porcelain::rewind::{RewindPlace, RewindRun, part, unknown_workspace};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Failure, Result};
use crate::view::json;
use crate::view::render::{ID_DIGITS, count};

/// Names of failures in open-codesign.
const NO_SNAPSHOT: &str = "no_snapshot";
const SNAPSHOT_EXPIRED: &str = "snapshot_expired";
const INVALID_ARGS: &str = "invalid_args";

/// Go back to before the newest prompt: the conversation, everything else, and the files
///
/// Adds a snapshot with the context of the earlier turn to the branch, so nothing is lost, and
/// 'turntree log' shows the rollback. The workspace is saved before a file is written or deleted:
/// 'turntree undo' restores the files and the branch. Files that are ignored, too large or
/// otherwise not captured are never touched.
///
/// N counts prompts: what a person asked for, with all turns that the agent then took. Where nobody
/// asked for anything, as in snapshots of a workspace alone, and where the newest turn is a snapshot
/// from before a tool ran, N counts turns. --turns N counts turns in any case. Prompts that were rolled back do not count, so two rollbacks by one equal one by
/// two.
///
/// A snapshot taken before a tool ran counts as part of
/// the turn that the tool changed: if it is the newest, one turn back is that snapshot. Changes of
/// lessons alone do not count as turns.
///
/// When retention has dropped the turn, nothing is changed, the exit code is 6, and the error names
/// the oldest turn that is available.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree rollback
  turntree rollback 3 --dry-run
  turntree rollback --turns 1         the last step of the agent alone
  turntree rollback --before-prompt 12
  turntree rollback --to-turn 40 --only conversation
  turntree rollback 0 --only files    back to the newest snapshot
  turntree rollback --said 'undo that' --audit --keep-lessons
  turntree rollback --said '/rollback to 42' --parse --json")]
pub(crate) struct Rollback {
    /// Number of prompts; 1 by default
    #[arg(
        value_name = "N",
        conflicts_with_all = ["turns", "to_turn", "before_prompt", "said"],
        allow_negative_numbers = true
    )]
    prompts: Option<String>,
    /// Go back by turns: steps of the agent, of which a prompt has many
    #[arg(
        long,
        value_name = "N",
        conflicts_with_all = ["to_turn", "before_prompt", "said"],
        allow_negative_numbers = true
    )]
    turns: Option<String>,
    /// Go back to before this prompt was said; -1 is the newest
    #[arg(
        long,
        value_name = "PROMPT",
        conflicts_with_all = ["to_turn", "said"],
        allow_negative_numbers = true
    )]
    before_prompt: Option<String>,
    /// Go back to this turn of the branch
    #[arg(long, value_name = "TURN", conflicts_with = "said", allow_negative_numbers = true)]
    to_turn: Option<String>,
    /// Go back as a chat message asks for: 'undo that', 'revert the last 3', '/rollback',
    /// '/rollback 2', '/rollback to 42'
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    said: Option<String>,
    /// Only print what the message asks for; null in --json when it does not ask to go back
    #[arg(long, requires = "said")]
    parse: bool,
    /// Restore only this: files, conversation, another section, or a path; may be given several
    /// times
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// Keep the lessons as they are now, with those of the turns that are rolled back
    #[arg(long)]
    keep_lessons: bool,
    /// Append a record of type rollback to the conversation
    #[arg(long)]
    audit: bool,
    #[command(flatten)]
    place: RewindPlace,
    /// Print the changes without making them
    #[arg(short = 'n', long)]
    dry_run: bool,
}

/// The turn to go back to.
#[derive(Debug, Clone, Copy)]
enum RollbackTarget {
    /// Before so many prompts; so many turns before where there is none.
    Steps(u64),
    Turns(u64),
    Turn(u64),
    BeforePrompt(i64),
}

impl Verb for Rollback {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        if let Some(said) = self.said.as_deref().filter(|_| self.parse) {
            return write_intent(run, rollback_intent(said));
        }
        let target = self.target()?;
        let repo = run.open()?;
        let branch = self.place.branch(&repo)?;
        let only = Selection::parse(&self.only);
        let Some(tip) = repo.tip(&branch) else {
            let error = Error::not_found(format!("{branch} has no snapshot yet"));
            return Err(Failure::from(error).named(NO_SNAPSHOT));
        };
        let target = unit(&repo, &tip, target)?;
        let from = find(&repo, &tip, target, &only)?;
        let before_prompt = prompt_of(&repo, &tip, target, &only)?;
        let workspace = match only.reaches_files() {
            true => self.place.directory(&repo, &branch)?,
            false => None,
        };
        let asked = !only.is_all() && only.reaches_files();
        if workspace.is_none() && asked {
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
        let message = format!("rolled back{by} to turn {turn} ({short}){}", part(&self.only));
        let (keep_lessons, audit) = (self.keep_lessons, self.audit);
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
        let dry_run = self.dry_run;
        RewindRun { restore, verb: "rollback", dry_run, before_prompt }.run(run, &repo)
    }
}

impl Rollback {
    /// Returns the target of the arguments.
    fn target(&self) -> Result<RollbackTarget> {
        let number = |text: &str, least: u64| {
            let number = text.parse().ok().filter(|number| *number >= least);
            number.ok_or_else(|| {
                invalid(format!("'{text}': expected a number from {least} on"), None)
            })
        };
        if let Some(turns) = &self.turns {
            return Ok(RollbackTarget::Turns(number(turns, 0)?));
        }
        if let Some(prompt) = &self.before_prompt {
            let number = prompt.parse().ok().filter(|number| *number != 0);
            return number.map(RollbackTarget::BeforePrompt).ok_or_else(|| {
                invalid(format!("'{prompt}': expected a number, as in 3 or -1"), None)
            });
        }
        match (&self.said, &self.to_turn, &self.prompts) {
            (Some(said), ..) => match rollback_intent(said) {
                Some(RollbackIntent::Steps(steps)) => Ok(RollbackTarget::Steps(steps)),
                Some(RollbackIntent::Turn(turn)) => Ok(RollbackTarget::Turn(turn)),
                None => {
                    let hint = "'undo that', '/rollback 3' and '/rollback to 42' do";
                    Err(invalid("the message does not ask for a rollback".to_owned(), Some(hint)))
                }
            },
            (None, Some(turn), _) => Ok(RollbackTarget::Turn(number(turn, 1)?)),
            (None, None, Some(prompts)) => Ok(RollbackTarget::Steps(number(prompts, 0)?)),
            (None, None, None) => Ok(RollbackTarget::Steps(1)),
        }
    }
}

/// The unit in which steps are counted: prompts, or turns where nobody asked for anything.
fn unit(repo: &Repository, tip: &ObjectId, target: RollbackTarget) -> Result<RollbackTarget> {
    match target {
        RollbackTarget::Steps(0) => Ok(RollbackTarget::Turns(0)),
        RollbackTarget::Steps(steps) => {
            // Who takes snapshots before tools run has one for each of them to go back to.
            let newest = repo.commit(&repo.turns_before(tip, 0, &Selection::default())?)?;
            let by_turns = newest.trigger == Trigger::BeforeTool || prompts_at(repo, tip)? == 0;
            Ok(if by_turns { RollbackTarget::Turns(steps) } else { target })
        }
        _ => Ok(target),
    }
}

/// The prompt that is gone back to before, if prompts were asked for.
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

fn prompts_at(repo: &Repository, id: &ObjectId) -> Result<u64> {
    Ok(repo.prompts(Some(&is_prompt))?.count(id)?)
}

fn invalid(message: String, hint: Option<&str>) -> Failure {
    let error = Error::invalid(message);
    let failure = match hint {
        Some(hint) => Failure::hinted(error, hint),
        None => error.into(),
    };
    failure.named(INVALID_ARGS)
}

/// The snapshot to go back to. Whatever cannot be gone back to is an expired one in the words of
/// open-codesign, with the oldest that can; the message says more.
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

fn write_intent(run: &mut Invocation, intent: Option<RollbackIntent>) -> Result<Answer> {
    if run.out.json {
        run.out.record(&intent.map(|intent| match intent {
            RollbackIntent::Steps(steps) => json::Intent::Steps { steps },
            RollbackIntent::Turn(turn_id) => json::Intent::TurnId { turn_id },
        }))?;
        return Ok(Answer::Yes);
    }
    match intent {
        Some(RollbackIntent::Steps(steps)) => writeln!(run.out, "{} back", count(steps, "prompt"))?,
        Some(RollbackIntent::Turn(turn)) => writeln!(run.out, "back to turn {turn}")?,
        None => writeln!(run.out, "does not ask for a rollback")?,
    }
    Ok(Answer::Yes)
}
