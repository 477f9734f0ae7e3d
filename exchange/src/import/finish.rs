//! Finishes an import: moves HEAD if wanted, commits everything in one operation, and reports.

use turntree::error::{Error, Result};
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Repository, Transaction};

use crate::model::format::ImportOptions;
use crate::model::report::ImportReport;

/// Commits `change` as the operation `reason`, or as one of its adoption, and completes the report with the bytes that it took.
///
/// HEAD moves to the branch of the report when the options ask for it, and when the import `is_new`
/// while the branch of HEAD has no snapshot. An import that adds nothing and moves nothing is not
/// committed.
///
/// # Errors
/// As for a transaction: `Conflict` when another process moved a branch meanwhile.
pub(crate) fn finish_import(
    repo: &Repository,
    mut change: Transaction<'_>,
    options: &ImportOptions,
    reason: &str,
    is_new: bool,
    mut report: ImportReport,
) -> Result<ImportReport> {
    let head = repo.shared_head()?;
    let moves_head = match is_new {
        true => options.switch || repo.tip(&head).is_none(),
        false => options.switch && head != report.branch,
    };
    if moves_head {
        change.switch(&report.branch);
    }
    if is_new || moves_head {
        let switch = format!("switch {}", report.branch);
        let reason = if is_new { reason } else { &switch };
        let committed = match options.adoption.as_ref().filter(|_| is_new) {
            Some(adoption) => adoption.commit(change, &options.stamp, &options.session)?,
            None => change.commit(&options.stamp, reason)?,
        };
        report.new_bytes = committed.written.stored_bytes;
    }
    Ok(report)
}

/// The tip of a branch after an import.
///
/// # Errors
/// `InvalidInput` when the branch has none: nothing was read that could be committed.
pub(crate) fn imported_tip(change: &Transaction<'_>, branch: &BranchName) -> Result<ObjectId> {
    change.tip(branch).ok_or_else(|| Error::invalid("the transcript holds no record"))
}
