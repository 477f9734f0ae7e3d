//! Reports the results of pushes and fetches.

use std::io::Write;

use turntree::object::ObjectId;
use turntree::repo::{BranchName, Repository};
use turntree::transfer::remote::{Fetched, Followed, HowFollowed, Line, MovedBranch, Pushed};

use crate::view::error::Result;
use crate::view::json;
use crate::view::output::{FAINT, ID, NAME, Output};
use crate::view::render::{ID_DIGITS, count, size};

/// The pushed branches.
pub(super) fn pushed_branches(pushed: &Pushed) -> Vec<json::RemoteBranch> {
    let branches = pushed.branches.iter().map(|pushed| json::RemoteBranch {
        branch: pushed.branch.to_string(),
        change: match pushed.line {
            Line::New => "new",
            Line::Ahead => "forward",
            Line::Same => "same",
            Line::Behind | Line::Apart => "behind",
        },
        before: pushed.before.map(|id| id.to_string()),
        id: Some(pushed.id.to_string()),
        conflicts: Vec::new(),
    });
    branches.collect()
}

/// The moved branches of a remote.
pub(super) fn moved_branches(fetched: &Fetched) -> Vec<json::RemoteBranch> {
    let branches = fetched.moved.iter().map(|MovedBranch { branch, before, now }| {
        let change = match (before, now) {
            (None, _) => "new",
            (Some(_), None) => "gone",
            (Some(_), Some(_)) => "moved",
        };
        let text = |id: &Option<ObjectId>| id.map(|id| id.to_string());
        json::RemoteBranch {
            branch: branch.to_string(),
            change,
            before: text(before),
            id: text(now),
            conflicts: Vec::new(),
        }
    });
    branches.collect()
}

/// The branches of a session that was deleted on a remote.
pub(super) fn gone_branches(branches: &[(BranchName, ObjectId)]) -> Vec<json::RemoteBranch> {
    let gone = branches.iter().map(|(branch, id)| json::RemoteBranch {
        branch: branch.to_string(),
        change: "gone",
        before: Some(id.to_string()),
        id: None,
        conflicts: Vec::new(),
    });
    gone.collect()
}

/// The store's branches that follow a remote.
pub(super) fn followed_branches(followed: &[Followed]) -> Vec<json::RemoteBranch> {
    let branches = followed.iter().map(|followed| json::RemoteBranch {
        branch: followed.branch.to_string(),
        change: match followed.how {
            HowFollowed::Made => "new",
            HowFollowed::Forward => "forward",
            HowFollowed::Merged => "merged",
        },
        before: None,
        id: Some(followed.id.to_string()),
        conflicts: followed.conflicts.clone(),
    });
    branches.collect()
}

/// Writes the changed branches, one per line.
pub(super) fn write_branches(
    out: &mut Output,
    repo: &Repository,
    remote: &str,
    branches: &[json::RemoteBranch],
) -> Result<()> {
    for branch in branches.iter().filter(|branch| branch.change != "same") {
        let paint = out.paint;
        let name = paint.paint(NAME, format!("{remote}/{}", branch.branch));
        let id: Option<ObjectId> = branch.id.as_ref().and_then(|id| id.parse().ok());
        let Some(id) = id else {
            writeln!(out, "{name}  deleted")?;
            continue;
        };
        let turn = repo.commit(&id)?.turn;
        let (short, change) = (paint.paint(ID, id.short(ID_DIGITS)), branch.change);
        let change = paint.paint(FAINT, change);
        writeln!(out, "{name}  {short}  turn {turn}  {change}")?;
        for conflict in &branch.conflicts {
            writeln!(out, "  conflict: {conflict}")?;
        }
    }
    Ok(())
}

/// The cost of a transfer.
pub(super) fn cost(bundles: u64, bytes: u64) -> String {
    format!("{} in {}", size(bytes), count(bundles, "bundle"))
}
