//! `rollback`: goes back by prompts or turns, with the context and the files of the workspace.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::Error;
use turntree_exchange::{MAX_ROLLBACK_STEPS, RollbackIntent, rollback_intent};

use super::Verb;
use crate::porcelain::change::lessons::target::show;
use crate::porcelain::change::rollback::{RollbackRequest, RollbackTarget, learn, question};
use crate::porcelain::workspace::rewind::RewindPlace;
use crate::program::complete::paths;
use crate::program::invocation::Invocation;
use crate::program::live::client_session;
use crate::view::error::{Answer, Failure, Result};
use crate::view::json;
use crate::view::render::{count, harmless};

/// The name of the error in open-codesign.
const INVALID_ARGS: &str = "invalid_args";

/// Longest lesson to read from the terminal, in bytes.
const MAX_LESSON_BYTES: u64 = 4096;

/// Go back to before the newest prompt: the conversation, everything else, and the files
///
/// Adds a snapshot with the context of the earlier turn to the branch, so nothing is lost, and
/// 'turntree log' shows the rollback. The workspace is saved before a file is written or deleted:
/// 'turntree undo' restores the files and the branch. Files that are ignored, too large or
/// otherwise not captured are never changed.
///
/// N counts prompts of the user, each with all turns of the agent that follow. In a history without
/// prompts, such as snapshots of a workspace only, and if the newest turn is a snapshot from before
/// a tool ran, N counts turns. --turns N always counts turns. Rolled-back prompts do not count, so
/// two rollbacks by one equal one by two.
///
/// A snapshot taken before a tool ran counts as part of the turn that the tool changed: if it is
/// the newest, one turn back is that snapshot. Changes of lessons alone do not count as turns.
///
/// If retention has dropped the turn, nothing changes, the exit code is 6, and the error names the
/// oldest available turn.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree rollback
  turntree rollback 3 --dry-run
  turntree rollback --turns 1         the last step of the agent alone
  turntree rollback --before-prompt 12
  turntree rollback --to-turn 40 --only conversation
  turntree rollback 0 --only files    back to the newest snapshot
  turntree rollback --said 'undo that' --audit --keep-lessons
  turntree rollback --lesson 'keep the tests as they are'
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
    /// Go back to before this prompt; -1 is the newest
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
    /// Go back as requested in a chat message: 'undo that', 'revert the last 3', '/rollback',
    /// '/rollback 2', '/rollback to 42'
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    said: Option<String>,
    /// Only print the request in the message; null in --json if it does not ask to go back
    #[arg(long, requires = "said")]
    parse: bool,
    /// Restore only this: files, conversation, another section, or a path; may be given several
    /// times
    #[arg(long, value_name = "PART", add = ArgValueCompleter::new(paths))]
    only: Vec<String>,
    /// Keep the current lessons, including those of rolled-back turns
    #[arg(long)]
    keep_lessons: bool,
    /// Keep this lesson: what the agent should do differently. On a terminal, asks for one
    /// afterwards
    #[arg(long, value_name = "TEXT", conflicts_with = "no_lesson")]
    lesson: Option<String>,
    /// Do not ask for a lesson
    #[arg(long)]
    no_lesson: bool,
    /// Append a record of type rollback to the conversation
    #[arg(long)]
    audit: bool,
    #[command(flatten)]
    place: RewindPlace,
    /// Print the changes without making them
    #[arg(short = 'n', long)]
    dry_run: bool,
}

impl Verb for Rollback {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        if let Some(said) = self.said.as_deref().filter(|_| self.parse) {
            return write_intent(run, rollback_intent(said));
        }
        let target = self.target()?;
        let repo = run.open()?;
        let request = RollbackRequest {
            branch: self.place.branch(&repo)?,
            target,
            only: &self.only,
            keep_lessons: self.keep_lessons || self.lesson.is_some(),
            audit: self.audit,
            dry_run: self.dry_run,
        };
        let rewind = request.rewind(&repo, |branch| self.place.directory(&repo, branch))?;
        let branch = rewind.restore.branch.clone();
        let tip = repo.tip(&branch);
        // The lesson is added before the rollback, so that an undo of the rollback keeps it.
        if let Some((lesson, tip)) = self.lesson.as_ref().zip(tip).filter(|_| !self.dry_run) {
            learn(&repo, &branch, &tip, lesson)?;
        }
        let answer = rewind.run(run, &repo)?;
        if let Some(tip) = tip.filter(|_| self.asks(run)) {
            run.out.flush()?;
            let lesson = ask(question(self.said.as_deref()))?;
            if let Some(lesson) = lesson
                && let Some(changed) = learn(&repo, &branch, &tip, &lesson)?
            {
                show(run, changed)?;
            }
        }
        Ok(answer)
    }
}

/// Asks the user on the terminal; `None` for an empty line.
fn ask(question: &str) -> Result<Option<String>> {
    let failed = |error| Error::io("ask for a lesson", error);
    write!(io::stderr(), "{} (Enter: -) ", harmless(question)).map_err(failed)?;
    let mut line = String::new();
    io::stdin().lock().take(MAX_LESSON_BYTES).read_line(&mut line).map_err(failed)?;
    let line = line.trim();
    Ok((!line.is_empty()).then(|| line.to_owned()))
}

impl Rollback {
    /// Returns true if the user can be asked: on a terminal, and not if an agent has started this
    /// process.
    fn asks(&self, run: &Invocation) -> bool {
        let is_asked_for = self.lesson.is_none() && !self.no_lesson && !self.dry_run;
        let is_person = io::stdin().is_terminal() && io::stderr().is_terminal();
        is_asked_for && is_person && !run.out.json && client_session().is_none()
    }

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
                Some(intent) => Ok(intent.into()),
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

fn invalid(message: String, hint: Option<&str>) -> Failure {
    let error = Error::invalid(message);
    let failure = match hint {
        Some(hint) => Failure::hinted(error, hint),
        None => error.into(),
    };
    failure.named(INVALID_ARGS)
}

fn write_intent(run: &mut Invocation, intent: Option<RollbackIntent>) -> Result<Answer> {
    if run.out.json {
        run.out.record(&intent.map(|intent| match intent {
            // The parsed request is reported as open-codesign does; a rollback carries out the
            // exact number or fails.
            RollbackIntent::Steps(steps) => {
                json::Intent::Steps { steps: steps.min(MAX_ROLLBACK_STEPS) }
            }
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
