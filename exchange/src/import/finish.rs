//! Finishes an import: moves HEAD if wanted, commits all changes in one operation, and reports.

use turntree::error::{Error, Result};
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Repository, Transaction};

use crate::model::format::ImportOptions;
use crate::model::report::ImportReport;

/// Commits `change` as the operation `reason`, or as part of its adoption, and adds the stored
/// bytes to the report.
///
/// HEAD moves to the branch of the report if the options ask for it, or if the import `is_new` and
/// the branch of HEAD has no snapshot. An import that adds no turns and does not move HEAD commits
/// nothing.
///
/// # Errors
/// The errors of a transaction: `Conflict` if another process moved a branch concurrently.
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

/// Returns the tip of a branch after an import.
///
/// # Errors
/// `InvalidInput` if the branch has no tip, because the transcript has no record.
pub(crate) fn imported_tip(change: &Transaction<'_>, branch: &BranchName) -> Result<ObjectId> {
    change.tip(branch).ok_or_else(|| Error::invalid("the transcript holds no record"))
}
