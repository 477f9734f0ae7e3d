//! Tool calls that have begun and whose end the client has not reported; after an interruption it
//! never does.
//!
//! The hooks of a session share a note: the hook before a tool adds the call, the hook after it
//! removes it, and a stop removes all calls. A call that is still there at a prompt, a session
//! start or a session end was interrupted. Without the note an interrupted call would be unknown,
//! and its files would become a separate snapshot.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use turntree::object::Time;
use turntree::repo::Repository;
use turntree::workspace::{Claim, read_note, write_note};
use turntree_exchange::agents::hook::{Effect, EventKind, HookEvent};
use turntree_exchange::agents::session_name;

/// The longest wait for another hook of the session that changes the note.
const FOR_OTHERS: Duration = Duration::from_millis(100);

/// The interval between two attempts.
const STEP: Duration = Duration::from_millis(2);

/// Maximum number of calls to remember.
const MAX_CALLS: usize = 64;

/// A call that has begun.
#[derive(Debug, Serialize, Deserialize)]
struct RunningCall {
    /// Its start, in microseconds.
    micros: i64,
    /// Its id, if the transcript of the session has one.
    id: String,
}

/// The running calls of a session, by the key that the events before and after a call share.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RunningCalls(BTreeMap<String, RunningCall>);

impl RunningCalls {
    /// Reads the calls of the session of `event`.
    pub(super) fn read(repo: &Repository, event: &HookEvent) -> Self {
        let note = name(event).and_then(|name| read_note(repo, &name));
        note.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// The id of the newest call, empty if the transcript has none; `None` if no call runs.
    pub(super) fn newest(&self) -> Option<&str> {
        self.0.values().max_by_key(|call| call.micros).map(|call| call.id.as_str())
    }

    /// Returns true if a call has begun after `moment`.
    pub(super) fn has_begun_after(&self, moment: Time) -> bool {
        self.0.values().any(|call| call.micros > moment.micros)
    }
}

/// Updates the note from `event`: a call has begun, a call has ended, or all have ended.
pub(super) fn note(repo: &Repository, event: &HookEvent, now: Time) {
    let tool = event.tool.as_ref();
    match (event.moment, tool) {
        (EventKind::BeforeTool, Some(tool)) if tool.effect == Effect::Anything => {
            let id = tool.call.clone().filter(|_| event.main.is_none()).unwrap_or_default();
            let call = RunningCall { micros: now.micros, id };
            change(repo, event, |calls| {
                calls.insert(tool.key.clone(), call);
                while calls.len() > MAX_CALLS {
                    calls.pop_first();
                }
            });
        }
        (EventKind::AfterTool, Some(tool)) => change(repo, event, |calls| {
            calls.remove(&tool.key);
        }),
        (EventKind::Stop, _) => forget(repo, event),
        _ => {}
    }
}

/// Removes all calls, once their files are stored.
pub(super) fn forget(repo: &Repository, event: &HookEvent) {
    change(repo, event, BTreeMap::clear);
}

fn change(
    repo: &Repository,
    event: &HookEvent,
    change: impl FnOnce(&mut BTreeMap<String, RunningCall>),
) {
    let Some(name) = name(event) else { return };
    let _claim = wait_for(repo.dir(), &name);
    let mut calls = RunningCalls::read(repo, event);
    let known = serde_json::to_vec(&calls).unwrap_or_default();
    change(&mut calls.0);
    let new = serde_json::to_vec(&calls).unwrap_or_default();
    if new != known {
        let _ = write_note(repo, &name, &new);
    }
}

/// Claims the note for a change. If the claim times out, a concurrent change of the note may be
/// lost, and nothing else.
fn wait_for(dir: &Path, name: &str) -> Option<Claim> {
    let until = Instant::now() + FOR_OTHERS;
    loop {
        match Claim::ask(dir, &format!("{name}: changed")) {
            Ok(None) if Instant::now() < until => sleep(STEP),
            claim => return claim.ok().flatten(),
        }
    }
}

/// The name of the note, by the main session.
fn name(event: &HookEvent) -> Option<String> {
    let main = event.main.as_deref().or(event.transcript.as_deref());
    let session = main.map(session_name).or_else(|| event.session.clone())?;
    Some(format!("calls of {session}"))
}
