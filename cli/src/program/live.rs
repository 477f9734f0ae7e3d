//! Live sessions: the session of the client that started this process, and sessions that hooks
//! write now.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use turntree::object::{ObjectId, Time};
use turntree::repo::{BranchName, HEAD, OperationEntry, Repository};
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

/// The note of the turns that hooks have added.
const TURNS: &str = "turns of hooks";

/// The note of turns is written after reading this many operations.
const MANY_OPERATIONS: usize = 256;

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
/// minutes, and the client has not reported the end since. Reads the operations of that time that
/// an earlier call has not read.
pub(crate) fn live_sessions(repo: &Repository, now: Time) -> turntree::Result<HashSet<String>> {
    let is_recent = |micros: i64| now.micros.saturating_sub(micros) < LIVE_MICROS;
    let known = KnownTurns::read(repo);
    let known_until: Option<ObjectId> = known.until.as_deref().and_then(|id| id.parse().ok());
    let mut turns = KnownTurns {
        until: repo.refs().operation.map(|id| id.to_string()),
        ..KnownTurns::default()
    };
    let mut read = 0;
    for entry in repo.operations() {
        let OperationEntry { id, operation } = entry?;
        if known_until == Some(id) {
            for (session, at) in known.turns {
                let newest = turns.turns.entry(session).or_insert(at);
                *newest = at.max(*newest);
            }
            break;
        }
        if !is_recent(operation.time_micros) {
            break;
        }
        read += 1;
        if !operation.actor.starts_with(HOOK_ACTOR) {
            continue;
        }
        let branches = operation.changes.iter().filter_map(|it| BranchName::from_full(&it.name));
        for branch in branches {
            let newest = turns.turns.entry(branch.session().to_owned()).or_default();
            *newest = operation.time_micros.max(*newest);
        }
    }
    turns.turns.retain(|_, at| is_recent(*at));
    if read > MANY_OPERATIONS && !repo.is_past() {
        turns.write(repo);
    }
    let ended = read_ended(repo);
    let is_open = |(session, at): &(String, i64)| ended.get(session).is_none_or(|end| end < at);
    Ok(turns.turns.into_iter().filter(is_open).map(|(session, _)| session).collect())
}

/// The turns that hooks have added lately: an adoption makes many operations, which each list would
/// read again.
#[derive(Debug, Default, Serialize, Deserialize)]
struct KnownTurns {
    /// The newest operation that was read.
    until: Option<String>,
    /// The time of the newest turn by session, in microseconds.
    turns: HashMap<String, i64>,
}

impl KnownTurns {
    fn read(repo: &Repository) -> Self {
        let known = read_note(repo, TURNS);
        known.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Writes the note. If the write fails, the next list reads the operations again.
    fn write(&self, repo: &Repository) {
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        let _ = write_note(repo, TURNS, &bytes);
    }
}
