//! `cherry-pick`: applies the changes of single snapshots to a branch.

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::object::ObjectId;
use turntree::repo::{MergeKind, Repository, split_range};
use turntree::{Error, ErrorKind};

use super::Verb;
use crate::porcelain::change::merge::{
    MergeOptions, MergeOutcome, answer, part_of_one, snapshot_of,
};
use crate::porcelain::read::revision::resolve_range;
use crate::program::complete::revisions;
use crate::program::invocation::{Invocation, stamp};
use crate::view::error::{Answer, Hint, Result};
use crate::view::json;
use crate::view::render::ID_DIGITS;

/// Apply the changes of single snapshots to HEAD's branch
///
/// The changes of each snapshot to its parent are merged like 'turntree merge' does, into a new
/// snapshot with the same message. A..B are the snapshots of B that A does not have, oldest first;
/// all of them are one operation, and one undo.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree cherry-pick plan-b~2
  turntree cherry-pick main..plan-b --only files
  turntree cherry-pick 3f2a91c0 --into main --dry-run")]
pub(crate) struct CherryPick {
    /// Snapshots, or ranges of them
    #[arg(value_name = "REV", required = true, num_args = 1.., add = ArgValueCompleter::new(revisions))]
    revisions: Vec<String>,
    #[command(flatten)]
    how: MergeOptions,
}

impl Verb for CherryPick {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let mut ids = Vec::new();
        for revision in &self.revisions {
            ids.extend(snapshots_of(&repo, revision)?);
        }
        let (stamp, mut change) = (stamp()?, repo.begin());
        let mut picks = Vec::new();
        for id in &ids {
            let request = self.how.request(&repo, *id, id.short(ID_DIGITS))?;
            let staged = change
                .cherry_pick(&request, &stamp)
                .hint(ErrorKind::NotFound, "'turntree ls REV' lists the content of a snapshot")?;
            let turn = change.read_commit(&staged.commit)?.turn;
            picks.push((staged, request, turn));
        }
        let is_changed = picks.iter().any(|(staged, ..)| staged.kind != MergeKind::UpToDate);
        self.how.finish(
            change,
            is_changed,
            &format!("cherry-pick {}", self.revisions.join(" ")),
        )?;
        let dry_run = self.how.dry_run();
        let shown = picks.iter().map(|(staged, request, turn)| MergeOutcome {
            staged,
            request,
            turn: *turn,
            dry_run,
        });
        if run.out.json {
            let picks = shown.map(|shown| shown.record()).collect();
            run.out.record(&json::Picks { picks })?;
        } else {
            for shown in shown {
                shown.write(&mut run.out, "picked")?;
            }
        }
        Ok(answer(picks.iter().map(|(staged, ..)| staged)))
    }
}

/// The commits of a revision or a range, oldest first.
fn snapshots_of(repo: &Repository, revision: &str) -> Result<Vec<ObjectId>> {
    if split_range(revision).is_none() {
        return Ok(vec![snapshot_of(repo, revision)?.0]);
    }
    let range = resolve_range(repo, revision, &part_of_one())?;
    let history = repo.history(&range.include, &range.exclude)?.first_parent();
    let mut ids = history.map(|entry| Ok(entry?.id)).collect::<Result<Vec<ObjectId>>>()?;
    if ids.is_empty() {
        return Err(Error::not_found(format!("there is no snapshot in '{revision}'")).into());
    }
    ids.reverse();
    Ok(ids)
}
