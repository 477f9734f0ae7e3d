//! `op forget`: forgets old operations, so that their content can be freed.

use std::io::Write;

use clap::{ArgGroup, Args};
use turntree::Error;
use turntree::maintenance::Purpose;
use turntree::object::Time;
use turntree::repo::{OperationEntry, Repository};

use super::head;
use crate::porcelain::change::forget_operations::{Forgetting, write};
use crate::program::invocation::{Invocation, stamp};
use crate::view::error::{Answer, Result};
use crate::view::moment::parse_moment;

/// Forget operations, and free content that only they reference
///
/// Prints the operations and the space that the next collection could then free; --yes forgets
/// them. A forgotten operation cannot be undone, 'op log' and --at-op end after it, and 'turntree
/// gc' frees content that only it referenced, such as the turns of a branch that it deleted. By
/// default, operations are kept for 30 days, at most 1,000 and at least 100.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["before", "keep"]))]
#[command(after_long_help = "Examples:
  turntree op forget --before 7d
  turntree op forget --before 2026-11-01 --yes
  turntree op forget --keep 10 --yes && turntree gc")]
pub(super) struct Forget {
    /// Forget operations older than this time or age, such as 7d
    #[arg(long, value_name = "TIME")]
    before: Option<String>,
    /// Forget all but this many of the newest
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// Do it
    #[arg(long)]
    yes: bool,
    /// Only print the operations to forget (the default)
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

impl Forget {
    /// Returns true without --yes.
    pub(super) fn reads_only(&self) -> bool {
        !self.yes
    }

    pub(super) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let (repo, stamp) = (run.open()?, stamp()?);
        let newest = self.newest(&repo, stamp.time)?;
        let plan = match &newest {
            Some(newest) => Forgetting::plan(&repo, newest, Purpose::Gc, stamp.time)?,
            None => Forgetting::default(),
        };
        let mut operation = None;
        if let Some(newest) = newest.as_ref().filter(|_| self.yes) {
            let mut change = repo.begin();
            change.forget_operations(newest.operation.sequence)?;
            let reason = format!("forget {} operations", plan.operations);
            operation = Some(change.commit(&stamp, &reason)?.sequence);
        }
        if run.out.json {
            run.out.record(&plan.record(operation))?;
            return Ok(Answer::Yes);
        }
        let Some(newest) = newest else {
            writeln!(run.out, "no operation is that old")?;
            return Ok(Answer::Yes);
        };
        let line = head(&run.out, &newest, true, stamp.time);
        write(&mut run.out, &plan, self.yes)?;
        writeln!(run.out, "the newest of them:\n{line}")?;
        if !self.yes {
            writeln!(run.out, "nothing was done: --yes forgets them, and no undo restores them")?;
        }
        Ok(Answer::Yes)
    }

    /// The newest operation to forget, if any.
    fn newest(&self, repo: &Repository, now: Time) -> Result<Option<OperationEntry>> {
        let before = self.before.as_deref().map(|text| moment(text, now)).transpose()?;
        for (number, entry) in repo.operations().enumerate() {
            let entry = entry?;
            let is_old = before.is_none_or(|before| entry.operation.time_micros < before);
            if is_old && self.keep.is_none_or(|keep| number >= keep) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}

/// Parses a time, or an age.
fn moment(text: &str, now: Time) -> Result<i64> {
    parse_moment(text, now).ok_or_else(|| {
        let message = format!("'{text}': expected a duration such as 30d, or a time");
        Error::invalid(message).into()
    })
}
