//! `rollback`: goes back by turns, the context and the files of the workspace together.

use clap::Args;
use turntree::Error;
use turntree::context::Selection;
use turntree::workspace::Restore;

use crate::error::{Answer, Result};
use crate::invocation::Invocation;
use crate::render::{ID_DIGITS, count};
use crate::restoration::{BringBack, Place, part, unknown_workspace};

/// Go back by turns: the conversation, everything else, and the files of the workspace
///
/// The branch goes on with a new snapshot whose context is that of the turn, so nothing is lost, and
/// 'turntree log' shows that it went back. Before a file is written or deleted, all that is in the
/// workspace is saved: 'turntree undo' brings back files and branch as they were. Files that are
/// ignored, too large or otherwise not captured are never touched.
///
/// Two rollbacks by one turn are one by two. When a turn was dropped by retention the exit code is 6,
/// and the answer says which is the oldest one available; nothing is changed then.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree rollback
  turntree rollback 3 --dry-run
  turntree rollback --to-turn 40 --only conversation
  turntree rollback 0 --only files    back to the newest snapshot")]
pub(crate) struct Rollback {
    /// How many turns
    #[arg(value_name = "N", default_value_t = 1, conflicts_with = "to_turn")]
    turns: u64,
    /// Back to this turn of the branch
    #[arg(long, value_name = "TURN")]
    to_turn: Option<u64>,
    /// Only this: files, conversation, another section, or a path; may be given several times
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    #[command(flatten)]
    place: Place,
    /// Print what would be done, and do nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
}

impl Rollback {
    pub(crate) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let branch = self.place.branch(&repo)?;
        let only = Selection::parse(&self.only);
        let Some(tip) = repo.tip(&branch) else {
            return Err(Error::not_found(format!("{branch} has no snapshot yet")).into());
        };
        let from = match self.to_turn {
            Some(turn) => repo.find_turn(&tip, turn)?,
            None => repo.turns_before(&tip, self.turns, &only)?,
        };
        let workspace = self.place.directory(&repo, &branch)?;
        let asked = !only.is_all() && only.reaches_files();
        if workspace.is_none() && asked {
            return Err(unknown_workspace(&branch));
        }
        let (turn, short) = (repo.commit(&from)?.turn, from.short(ID_DIGITS));
        let by = match self.to_turn {
            Some(_) => String::new(),
            None => format!(" {}", count(self.turns, "turn")),
        };
        let message = format!("rolled back{by} to turn {turn} ({short}){}", part(&self.only));
        let restore = Restore { branch, from, only, workspace, is_rollback: true, message };
        BringBack { restore, verb: "rollback", dry_run: self.dry_run }.run(run, &repo)
    }
}
