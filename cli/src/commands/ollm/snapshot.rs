//! `ollm snapshot`: takes a snapshot only if context usage has crossed a threshold.

use std::io::Write;

use turntree::repo::{BranchName, Repository};

use crate::porcelain::change::snapshot::{NewSnapshot, Racing, SnapshotTarget};
use crate::porcelain::change::thresholds::{ContextUsage, DueCheck, Thresholds};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::json;

/// Takes a snapshot if one is due at this usage, otherwise reports the reason.
pub(crate) fn snapshot_when_due(
    run: &mut Invocation,
    usage: ContextUsage,
    thresholds: &Thresholds,
    new: &NewSnapshot,
    target: SnapshotTarget,
) -> Result<Answer> {
    let SnapshotTarget { repo, at, input } = target;
    let is_empty = !input.has_user_message(&repo, &at.branch)?;
    let due = thresholds.check(usage, &repo, &at.branch, is_empty, &at.stamp)?;
    if due.level.is_none() {
        due.keep(&repo, &at.branch, &at.stamp)?;
        return not_due(run, &repo, &due, &at.branch);
    }
    new.take(&repo, at, &input, Some(&due), &Racing::default())?.print(&mut run.out)?;
    Ok(Answer::Yes)
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
