//! Updates local branches to the remote: creates, fast-forwards or merges them.

use super::Remote;
use super::line::Line;
use crate::context::{MessagePolicy, ReadToolUse, Selection};
use crate::error::Result;
use crate::object::{ObjectId, RefValue};
use crate::repo::{BranchName, MergeKind, MergeRequest, remote_branch_ref};
use crate::store::Expected;

/// A local branch that was updated from a remote.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Followed {
    /// The branch.
    pub branch: BranchName,
    /// The kind of update.
    pub how: HowFollowed,
    /// The snapshot that the branch points to now.
    pub id: ObjectId,
    /// Conflicting paths; both sides are kept until the user decides.
    pub conflicts: Vec<String>,
}

/// The kind of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HowFollowed {
    /// The branch was created.
    Made,
    /// The branch had no turns of its own and was fast-forwarded.
    Forward,
    /// Both sides had turns of their own and were merged.
    Merged,
}

impl Remote<'_> {
    /// Updates the branches of a session to the last known state of the remote, each in one
    /// operation. Omits branches that are equal or ahead.
    ///
    /// # Errors
    /// `Conflict` if another process moved a branch concurrently; errors of a merge.
    pub fn follow(
        &self,
        session: &str,
        messages: &MessagePolicy,
        tools: ReadToolUse<'_>,
    ) -> Result<Vec<Followed>> {
        let mut followed = Vec::new();
        for (branch, there) in self.repo.remote_branches(self.name, Some(session)) {
            let here = self.repo.tip(&branch);
            let line = match here {
                None => Line::Behind,
                Some(here) => self.line(&here, &there)?,
            };
            let mut change = self.repo.begin();
            let how = match (line, here) {
                (Line::Behind, here) => {
                    let expected = match here {
                        Some(here) => Expected::Value(RefValue::Object(here)),
                        None => Expected::Absent,
                    };
                    change.set_ref(&branch.full(), expected, Some(RefValue::Object(there)));
                    if here.is_some() { HowFollowed::Forward } else { HowFollowed::Made }
                }
                (Line::Apart, _) => HowFollowed::Merged,
                (Line::New | Line::Ahead | Line::Same, _) => continue,
            };
            let (mut id, mut conflicts) = (there, Vec::new());
            if how == HowFollowed::Merged {
                let label = remote_branch_ref(self.name, &branch)?;
                let request = MergeRequest {
                    into: branch.clone(),
                    theirs: there,
                    label: label.trim_start_matches("refs/remotes/").to_owned(),
                    messages: messages.clone(),
                    only: Selection::default(),
                    tools,
                    message: None,
                };
                let merged = change.merge(&request, self.stamp)?;
                if merged.kind == MergeKind::UpToDate {
                    continue;
                }
                id = merged.commit;
                let found = merged.report.map(|report| report.conflicts).unwrap_or_default();
                conflicts = found.into_iter().map(|conflict| conflict.path).collect();
            }
            change.commit(self.stamp, &format!("follow {} on {branch}", self.name))?;
            followed.push(Followed { branch, how, id, conflicts });
        }
        Ok(followed)
    }
}
