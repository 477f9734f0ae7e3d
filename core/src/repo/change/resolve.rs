//! Resolves open conflicts, one or several, in a snapshot of their own.

use crate::context::{Builder, Context, Take, open_conflicts, resolve, write_resolved};
use crate::error::{Error, Result};
use crate::object::ObjectId;
use crate::repo::{BranchName, Signature, SnapshotDraft, Transaction};

/// The outcome of resolving conflicts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resolution {
    /// The new tip of the branch.
    pub commit: ObjectId,
    /// The paths of the conflicts that were closed.
    pub closed: Vec<String>,
    /// Files that were deleted because they blocked the chosen content.
    pub removed: Vec<String>,
    /// The paths of the remaining open conflicts.
    pub left: Vec<String>,
}

impl Transaction<'_> {
    /// Stages a snapshot that resolves open conflicts of a branch.
    ///
    /// # Errors
    /// `NotFound` when the branch has no snapshot or no open conflict at one of the paths;
    /// `InvalidInput` when there are no decisions, or for content that is not allowed at a path.
    pub fn resolve_conflicts(
        &mut self,
        branch: &BranchName,
        decisions: &[(String, Take)],
        message: Option<&str>,
        stamp: &Signature,
    ) -> Result<Resolution> {
        self.skip_filter();
        if decisions.is_empty() {
            return Err(Error::invalid("no decision was given: expected at least one"));
        }
        let tip = self.tip_of(branch)?;
        let mut context = self.context_of(&tip)?;
        let mut open = open_conflicts(self, &context)?;
        let (mut closed, mut removed) = (Vec::new(), Vec::new());
        let mut tree = self.read_commit(&tip)?.tree;
        for (path, take) in decisions {
            let at = open.iter().position(|conflict| conflict.path == *path);
            let missing = || Error::not_found(format!("'{path}' has no open conflict on {branch}"));
            let conflict = open.remove(at.ok_or_else(missing)?);
            // Each decision applies to the result of the previous one: they may affect the same
            // paths.
            let mut builder = Builder::from(context.clone());
            removed.extend(resolve(self, &mut builder, &context, &conflict, take)?);
            tree = write_resolved(self, &mut builder)?;
            context = Context::open(self, &tree)?;
            closed.push(conflict.path);
        }
        let message =
            message.map_or_else(|| format!("resolve {}", closed.join(", ")), str::to_owned);
        let commit = self.snapshot(branch, SnapshotDraft::new(tree, message, stamp))?;
        let left = open.into_iter().map(|conflict| conflict.path).collect();
        Ok(Resolution { commit, closed, removed, left })
    }
}
