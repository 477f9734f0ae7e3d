//! Cherry-picks: applies the changes of one snapshot to a branch.

use super::merge::MERGED_FROM;
use crate::context::{Added, Context, Labels, MergeOptions, MergeSide, merge};
use crate::error::Result;
use crate::object::{Author, Commit, ObjectId};
use crate::repo::{MergeKind, MergeReport, MergeRequest, Signature, SnapshotDraft, Transaction};

/// The metadata key with the id of the picked commit.
pub(super) const PICKED_FROM: &str = "cherry-picked-from";

impl Transaction<'_> {
    /// Stages the changes of the commit `request.theirs` against its first parent as a snapshot on
    /// a branch. Several picks in one transaction make one operation, each on top of the previous.
    ///
    /// The message and the author come from the commit, unless the request has a message. If a
    /// picked tool result's call is missing on the branch, the pick includes the call.
    ///
    /// # Errors
    /// Errors of [`Transaction::merge`]; `Expired` too when the parent of the commit has expired.
    pub fn cherry_pick(
        &mut self,
        request: &MergeRequest<'_>,
        stamp: &Signature,
    ) -> Result<MergeReport> {
        self.skip_filter();
        let (ours, theirs) = (self.tip_of(&request.into)?, request.theirs);
        let picked = self.read_commit(&theirs)?;
        let other = self.context_of(&theirs)?;
        let base = self.pick_parent(&picked)?;
        let base_context = match &base {
            Some(base) => self.context_of(base)?,
            None => Context::default(),
        };
        let own = self.context_of(&ours)?;
        // Picked messages go last, whatever their time.
        let added = |version: MergeSide, _: &str| {
            let time = picked.time;
            let all = Added { messages: u64::MAX, time };
            Ok(if version == MergeSide::Theirs { vec![all] } else { Vec::new() })
        };
        let options = MergeOptions {
            labels: Labels { ours: &request.into.to_string(), theirs: &request.label },
            messages: &request.messages,
            only: &request.only,
            tools: request.tools,
            added: &added,
            also: &[],
        };
        let report = merge(self, &base_context, &own, &other, options)?;
        let found = MergeReport {
            kind: MergeKind::UpToDate,
            base,
            ours,
            theirs,
            commit: ours,
            report: None,
        };
        if report.tree == self.read_commit(&ours)?.tree {
            return Ok(found);
        }
        let commit = self.record_pick(request, &picked, report.tree, stamp)?;
        Ok(MergeReport { kind: MergeKind::Merged, commit, report: Some(report), ..found })
    }

    fn record_pick(
        &mut self,
        request: &MergeRequest<'_>,
        picked: &Commit,
        tree: ObjectId,
        stamp: &Signature,
    ) -> Result<ObjectId> {
        let message = request.message.as_ref().unwrap_or(&picked.message);
        let mut snapshot = SnapshotDraft::new(tree, message, stamp);
        let Author { agent, model } = &picked.author;
        snapshot.author = Author { agent: agent.clone(), model: model.clone() };
        snapshot.metadata.insert(MERGED_FROM.to_owned(), request.label.clone());
        snapshot.metadata.insert(PICKED_FROM.to_owned(), request.theirs.to_string());
        self.snapshot(&request.into, snapshot)
    }

    /// Returns the parent that a commit continues; `None` for a first commit.
    fn pick_parent(&self, commit: &Commit) -> Result<Option<ObjectId>> {
        let Some(parent) = commit.parents.first() else { return Ok(None) };
        if self.repo().grafts()?.is_forgotten(parent) {
            let (turn, session) = (commit.turn.saturating_sub(1), &commit.session);
            return Err(self.repo().expired(turn, session));
        }
        Ok(Some(*parent))
    }
}
