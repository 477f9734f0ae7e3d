//! The live session: which one the client is that has started this process.

use turntree::repo::{HEAD, Repository};

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

/// The session of the client that has started this process, as far as a store knows it.
pub(crate) enum LiveSession {
    /// Its name in the store.
    Known(String),
    /// It has none yet: it begins with its first snapshot, unless a person has switched elsewhere.
    New(String),
}

impl LiveSession {
    /// Finds the session that the client calls `id`.
    pub(crate) fn find(repo: &Repository, id: &str) -> Self {
        let is_of_client = |session: &str| {
            session == id || session.strip_suffix(id).is_some_and(|rest| rest.ends_with('-'))
        };
        let branches = repo.branches();
        let found = branches.iter().map(|(branch, _)| branch.session()).find(|s| is_of_client(s));
        found.map_or(Self::New(id.to_owned()), |session| Self::Known(session.to_owned()))
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
