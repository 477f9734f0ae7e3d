//! The live session: which one the client is that has started this process, and whether HEAD is there.

use turntree::repo::{BranchName, HEAD, Repository};
use turntree::workspace::read_note;
use turntree_exchange::followed_branch;

use crate::view::error::Result;

/// Variables in which clients name their session to the shells and servers that they start.
const CLIENT_SESSIONS: [&str; 2] = ["CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID"];

/// The reason of operations of hooks that put in no turns of a transcript.
pub(crate) const HOOK: &str = "hook";

/// The beginning of the reason of those that do.
const FOLLOW: &str = "follow ";

/// The session of the client that has started this process, as the client calls it.
pub(crate) fn client_session() -> Option<String> {
    let named = |name: &&str| std::env::var(name).ok().filter(|id| !id.is_empty());
    CLIENT_SESSIONS.iter().find_map(named)
}

/// The branch on which the client that has started this process works, when HEAD is not there. A
/// session that is not in the store begins with its first snapshot, if it was a hook that put HEAD
/// where it is; where a person did, that holds.
pub(crate) fn live_branch(repo: &Repository) -> Result<Option<BranchName>> {
    let Some(id) = client_session() else { return Ok(None) };
    let is_of_client = |session: &str| {
        session == id || session.strip_suffix(&*id).is_some_and(|rest| rest.ends_with('-'))
    };
    let branches = repo.branches();
    let found = branches.iter().map(|(branch, _)| branch.session()).find(|s| is_of_client(s));
    let Some(session) = found else {
        let begins = is_head_of_hook(repo)?;
        return Ok(BranchName::main(&id).ok().filter(|_| begins));
    };
    let head = repo.shared_head()?;
    if head.session() == session && repo.tip(&head).is_some() {
        return Ok(None);
    }
    let followed = read_note(repo.store(), session).and_then(|notes| followed_branch(&notes));
    match followed.filter(|branch| repo.tip(branch).is_some()) {
        Some(branch) => Ok(Some(branch)),
        None => Ok(Some(BranchName::main(session)?)),
    }
}

/// Returns whether a hook has put HEAD where it is. Reads the operations since.
pub(crate) fn is_head_of_hook(repo: &Repository) -> turntree::Result<bool> {
    let moved = repo.last_change(HEAD)?;
    Ok(moved.is_some_and(|entry| {
        let reason = &entry.operation.reason;
        reason == HOOK || reason.starts_with(FOLLOW)
    }))
}
