//! Live sessions: the session of the client that started this process, and sessions that hooks
//! write now.

use std::collections::{HashMap, HashSet};

use turntree::object::Time;
use turntree::repo::{BranchName, HEAD, Repository};
use turntree::workspace::{read_note, write_note};

/// Variables with which clients pass their session to the shells and servers that they start.
const CLIENT_SESSIONS: [&str; 2] = ["CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID"];

/// The reason of hook operations that add no turns of a transcript.
pub(crate) const HOOK: &str = "hook";

/// The beginning of the reason of hook operations that add turns.
const FOLLOW: &str = "follow ";

/// The prefix of the actors of hooks.
const HOOK_ACTOR: &str = "hook/";

/// How long a session counts as live after a hook has added turns to it: 10 minutes.
const LIVE_MICROS: i64 = 10 * 60 * 1_000_000;

/// The note of recently ended sessions, with the times.
const ENDED: &str = "ended sessions";

/// The session of the client that started this process, by the client's id.
pub(crate) fn client_session() -> Option<String> {
    let named = |name: &&str| std::env::var(name).ok().filter(|id| !id.is_empty());
    CLIENT_SESSIONS.iter().find_map(named)
}

/// The session of the client that started this process, in the store.
pub(crate) enum LiveSession {
    /// Its name in the store.
    Known(String),
    /// It is not in the store yet: it begins with its first snapshot, unless the user has switched
    /// elsewhere.
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

/// Returns true if a hook made the last change of HEAD. Reads the operations since then.
pub(crate) fn is_head_of_hook(repo: &Repository) -> turntree::Result<bool> {
    let moved = repo.last_change(HEAD)?;
    Ok(moved.is_some_and(|entry| {
        let reason = &entry.operation.reason;
        reason == HOOK || reason.starts_with(FOLLOW)
    }))
}

/// Records that the client has reported the end of a session.
pub(crate) fn note_end(repo: &Repository, session: &str, now: Time) -> turntree::Result<()> {
    let mut ended = read_ended(repo);
    ended.retain(|_, at| now.micros.saturating_sub(*at) < LIVE_MICROS);
    ended.insert(session.to_owned(), now.micros);
    write_note(repo, ENDED, &serde_json::to_vec(&ended).unwrap_or_default())
}

fn read_ended(repo: &Repository) -> HashMap<String, i64> {
    let ended = read_note(repo, ENDED);
    ended.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Returns the sessions that clients probably write now: a hook has added turns within the last ten
/// minutes, and the client has not reported the end since. Reads the operations of that time.
pub(crate) fn live_sessions(repo: &Repository, now: Time) -> turntree::Result<HashSet<String>> {
    let (ended, mut live) = (read_ended(repo), HashSet::new());
    for entry in repo.operations() {
        let operation = entry?.operation;
        if now.micros.saturating_sub(operation.time_micros) >= LIVE_MICROS {
            break;
        }
        if !operation.actor.starts_with(HOOK_ACTOR) {
            continue;
        }
        let branches = operation.changes.iter().filter_map(|it| BranchName::from_full(&it.name));
        for branch in branches {
            let end = ended.get(branch.session());
            if end.is_none_or(|end| *end < operation.time_micros) {
                live.insert(branch.session().to_owned());
            }
        }
    }
    Ok(live)
}
