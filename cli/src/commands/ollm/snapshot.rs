//! `ollm snapshot`: takes a snapshot only if context usage has crossed a threshold.

use std::io::Write;

use clap::Args;
use turntree::repo::{BranchName, Repository};

use crate::porcelain::change::snapshot::{NewSnapshot, Racing, SnapshotTarget};
use crate::porcelain::change::thresholds::{ContextUsage, DueCheck, Thresholds, parse_usage};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::json;

/// Take a snapshot if usage of the context has crossed a threshold
///
/// The thresholds are 0.85, 0.95 and 1: a snapshot is taken if usage has crossed one from below
/// since the last call. Otherwise none is taken, and the reason is printed.
#[derive(Debug, Args)]
pub(super) struct WhenDue {
    /// Usage of the context: a share such as 0.87, or tokens such as 7000/8192
    #[arg(value_name = "USAGE", value_parser = parse_usage)]
    usage: ContextUsage,
    #[command(flatten)]
    thresholds: Thresholds,
    #[command(flatten)]
    new: NewSnapshot,
}

impl WhenDue {
    /// Takes a snapshot if one is due at this usage, otherwise reports the reason.
    pub(super) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let SnapshotTarget { repo, at, input } = self.new.open(run)?;
        let is_empty = !input.has_user_message(&repo, &at.branch)?;
        let due = self.thresholds.check(self.usage, &repo, &at.branch, is_empty, &at.stamp)?;
        if due.level.is_none() {
            due.keep(&repo, &at.branch, &at.stamp)?;
            return not_due(run, &repo, &due, &at.branch);
        }
        self.new.take(&repo, at, &input, Some(&due), &Racing::default())?.print(&mut run.out)?;
        Ok(Answer::Yes)
    }
}

/// Reports why no snapshot was taken, and the position of the branch.
fn not_due(
    run: &mut Invocation,
    repo: &Repository,
    due: &DueCheck,
    branch: &BranchName,
) -> Result<Answer> {
    if run.out.json {
        let tip = repo.tip(branch);
        let tip = tip.map(|tip| Ok::<_, turntree::Error>((tip, repo.commit(&tip)?.turn)));
        let moved = json::Moved::new(tip.transpose()?, branch);
        run.out.record(&json::Moved { watch: Some(due.told.clone()), ..moved })?;
    } else {
        writeln!(run.out, "{}", due.words())?;
    }
    Ok(Answer::Yes)
}
