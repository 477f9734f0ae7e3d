//! Merges another branch into this one.
//!
//! | merge base of both | result |
//! |---|---|
//! | theirs | nothing: ours has it all |
//! | ours, in one session and workspace, with everything selected | fast-forward to theirs, unless a client of ours would lose its transcript or not notice |
//! | another snapshot, or none | a snapshot with both as parents |
//! | any, with only a part selected | a snapshot with one parent, to merge the rest later |
//!
//! A merge is staged in a transaction; dropping the transaction makes it a dry run. Conflicts are
//! stored in the context as [`conflicts`](crate::context::sections::CONFLICTS).

use std::fmt;

use crate::context::{
    Context, ContextMerge, Labels, MergeOptions, MergeSide, MessagePolicy, ReadToolUse, Selection,
    continues_transcript, merge,
};
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Commit, ObjectId, Trigger};
use crate::repo::{BranchName, Signature, SnapshotDraft, Transaction, WORKSPACE};

/// The metadata key of a merge or cherry-pick: their branch, or a prefix of their id.
pub const MERGED_FROM: &str = "merged-from";
/// The metadata key of their commit, if it is not a parent.
pub(super) const MERGED_COMMIT: &str = "merged-commit";
/// The metadata key of the selected part of theirs, if it was not everything.
pub(super) const MERGED_ONLY: &str = "merged-only";

/// A request to merge.
#[derive(Clone)]
pub struct MergeRequest<'a> {
    /// The target branch.
    pub into: BranchName,
    /// The commit to merge.
    pub theirs: ObjectId,
    /// The name of theirs in conflict markers, in the origin of messages and in the snapshot: a
    /// branch, or a prefix of the id.
    pub label: String,
    /// The policy for conversations that both sides continued.
    pub messages: MessagePolicy,
    /// The sections and paths to take from theirs; empty for everything.
    pub only: Selection,
    /// The pairing of messages with tool calls.
    pub tools: ReadToolUse<'a>,
    /// The message of the snapshot; by default a sentence about the merge.
    pub message: Option<String>,
}

impl fmt::Debug for MergeRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MergeRequest")
            .field("into", &self.into)
            .field("theirs", &self.theirs)
            .field("label", &self.label)
            .field("only", &self.only)
            .finish_non_exhaustive()
    }
}

/// The kinds of results of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeKind {
    /// Ours has everything already: nothing changes.
    UpToDate,
    /// The branch moves to theirs.
    FastForward,
    /// A new snapshot.
    Merged,
}

impl MergeKind {
    /// Returns the name, in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::UpToDate => "up-to-date",
            Self::FastForward => "fast-forward",
            Self::Merged => "merged",
        }
    }
}

/// A staged merge or pick.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MergeReport {
    /// The kind of the result.
    pub kind: MergeKind,
    /// The merge base; `None` without one.
    pub base: Option<ObjectId>,
    /// The commit of the branch before the merge.
    pub ours: ObjectId,
    /// The commit that was merged.
    pub theirs: ObjectId,
    /// The commit of the branch after the merge.
    pub commit: ObjectId,
    /// The changes of ours, section by section, and the conflicts; `None` if no snapshot was made.
    pub report: Option<ContextMerge>,
}

impl Transaction<'_> {
    /// Stages a merge of a stored commit into a branch. Conflicts do not prevent it.
    ///
    /// Costs the changes of both sides since their base.
    ///
    /// # Errors
    /// `NotFound` when the branch has no snapshot, or theirs has nothing at a path of `only`;
    /// `Expired` when a required context has expired. Nothing is staged then.
    pub fn merge(&mut self, request: &MergeRequest<'_>, stamp: &Signature) -> Result<MergeReport> {
        self.skip_filter();
        let (ours, theirs) = (self.tip_of(&request.into)?, request.theirs);
        let repo = self.repo();
        let mut bases = repo.merge_bases(&ours, &theirs)?.into_iter();
        let base = bases.next();
        let mut found = MergeReport {
            kind: MergeKind::UpToDate,
            base,
            ours,
            theirs,
            commit: ours,
            report: None,
        };
        let other = self.context_of(&theirs)?;
        if base == Some(theirs) {
            return Ok(found);
        }
        let is_own = self.read_commit(&theirs)?.session == request.into.session();
        let is_summed_up = matches!(request.messages, MessagePolicy::Summary(_));
        let may_move = base == Some(ours) && is_own && request.only.is_all() && !is_summed_up;
        if may_move
            && !self.is_other_workspace(&ours, &theirs)?
            && continues_transcript(self, &self.context_of(&ours)?, &other)?
        {
            self.move_branch(&request.into, Some(theirs));
            return Ok(MergeReport { kind: MergeKind::FastForward, commit: theirs, ..found });
        }
        let (base_context, until) = match &base {
            Some(base) => (self.context_of(base)?, self.read_commit(base)?.turn),
            None => (Context::default(), 0),
        };
        let own = self.context_of(&ours)?;
        let added = |version: MergeSide, section: &str| match version {
            MergeSide::Theirs => repo.added(&theirs, until, section),
            MergeSide::Base | MergeSide::Ours => repo.added(&ours, until, section),
        };
        let mut also = Vec::new();
        for id in bases {
            match self.context_of(&id) {
                Ok(context) => also.push(context),
                Err(error) if error.kind() == ErrorKind::Expired => {}
                Err(error) => return Err(error),
            }
        }
        let options = MergeOptions {
            labels: Labels { ours: &request.into.to_string(), theirs: &request.label },
            messages: &request.messages,
            only: &request.only,
            tools: request.tools,
            added: &added,
            also: &also,
        };
        let report = merge(self, &base_context, &own, &other, options)?;
        if !request.only.is_all() && report.tree == self.read_commit(&ours)?.tree {
            return Ok(found);
        }
        found.commit = self.record_merge(request, report.tree, stamp)?;
        Ok(MergeReport { kind: MergeKind::Merged, report: Some(report), ..found })
    }

    /// Returns true if theirs continued in another workspace than ours: a fast-forward would give
    /// the branch that workspace.
    fn is_other_workspace(&self, ours: &ObjectId, theirs: &ObjectId) -> Result<bool> {
        let repo = self.repo();
        for entry in repo.history(&[*theirs], &[*ours])?.first_parent() {
            if let Some(dir) = entry?.commit.metadata.remove(WORKSPACE) {
                return Ok(repo.workspace_of(ours)?.is_some_and(|own| own != dir));
            }
        }
        Ok(false)
    }

    /// Adds the merged context to the branch.
    fn record_merge(
        &mut self,
        request: &MergeRequest<'_>,
        tree: ObjectId,
        stamp: &Signature,
    ) -> Result<ObjectId> {
        let MergeRequest { into, theirs, label, only, message, .. } = request;
        let paths = only.to_text().replace('\n', ", ");
        let of = if only.is_all() { String::new() } else { format!("{paths} of ") };
        let message = message.clone().unwrap_or_else(|| format!("merge {of}{label} into {into}"));
        let mut snapshot = SnapshotDraft::new(tree, message, stamp);
        snapshot.trigger = Trigger::Merge;
        snapshot.metadata.insert(MERGED_FROM.to_owned(), label.clone());
        if only.is_all() {
            return self.join(into, &[*theirs], snapshot);
        }
        snapshot.metadata.insert(MERGED_COMMIT.to_owned(), theirs.to_string());
        snapshot.metadata.insert(MERGED_ONLY.to_owned(), only.to_text());
        self.snapshot(into, snapshot)
    }

    /// Returns the newest commit of a branch, or an error if it has none.
    pub(super) fn tip_of(&self, branch: &BranchName) -> Result<ObjectId> {
        self.tip(branch)
            .ok_or_else(|| Error::not_found(format!("branch {branch} has no snapshot yet")))
    }

    /// Returns the context of a commit, staged or stored.
    pub(super) fn context_of(&self, id: &ObjectId) -> Result<Context> {
        let Commit { tree, .. } = self.read_commit(id)?;
        if self.has_staged(&tree)? { Context::open(self, &tree) } else { self.repo().context(id) }
    }
}
