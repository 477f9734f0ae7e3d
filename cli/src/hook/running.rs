//! Calls that have begun and of whose end the client has not told: after an interruption it never does.
//!
//! A note, kept by hooks of one session: the hook before a tool adds the call, the one after it takes it
//! out, and a stop takes out all. What is left at a prompt, a beginning or an end was interrupted. Without
//! the note an interrupted call is none, and its files become a snapshot of their own.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use turntree::object::Time;
use turntree::store::Store;
use turntree::workspace::{Claim, read_note, write_note};
use turntree_exchange::agents::hook::{Effect, EventKind, HookEvent};
use turntree_exchange::agents::session_name;

/// The longest time that a hook waits for others of its session that change the note.
const FOR_OTHERS: Duration = Duration::from_millis(100);

/// The time between two tries.
const STEP: Duration = Duration::from_millis(2);

/// Most calls that are kept in mind.
const MAX_CALLS: usize = 64;

/// A call that has begun.
#[derive(Debug, Serialize, Deserialize)]
struct RunningCall {
    /// When, in microseconds.
    micros: i64,
    /// Its id, where the transcript of the session has that.
    id: String,
}

/// The calls of a session that run, by what the events before and after them have in common.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RunningCalls(BTreeMap<String, RunningCall>);

impl RunningCalls {
    /// Reads those of the session of `event`.
    pub(super) fn read(store: &Store, event: &HookEvent) -> Self {
        let note = name(event).and_then(|name| read_note(store, &name));
        note.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// The id of the newest call, which is empty where the transcript has none; nothing when none runs.
    pub(super) fn newest(&self) -> Option<&str> {
        self.0.values().max_by_key(|call| call.micros).map(|call| call.id.as_str())
    }

    /// Returns true if one has begun after `moment`.
    pub(super) fn has_begun_after(&self, moment: Time) -> bool {
        self.0.values().any(|call| call.micros > moment.micros)
    }
}

/// Notes what `event` tells of calls: that one begins, has ended, or that none runs any more.
pub(super) fn note(store: &Store, event: &HookEvent, now: Time) {
    let tool = event.tool.as_ref();
    match (event.moment, tool) {
        (EventKind::BeforeTool, Some(tool)) if tool.effect == Effect::Anything => {
            let id = tool.call.clone().filter(|_| event.main.is_none()).unwrap_or_default();
            let call = RunningCall { micros: now.micros, id };
            change(store, event, |calls| {
                calls.insert(tool.key.clone(), call);
                while calls.len() > MAX_CALLS {
                    calls.pop_first();
                }
            });
        }
        (EventKind::AfterTool, Some(tool)) => change(store, event, |calls| {
            calls.remove(&tool.key);
        }),
        (EventKind::Stop, _) => forget(store, event),
        _ => {}
    }
}

/// The files of all calls are where they belong.
pub(super) fn forget(store: &Store, event: &HookEvent) {
    change(store, event, BTreeMap::clear);
}

fn change(
    store: &Store,
    event: &HookEvent,
    change: impl FnOnce(&mut BTreeMap<String, RunningCall>),
) {
    let Some(name) = name(event) else { return };
    let _claim = wait_for(store.dir(), &name);
    let mut calls = RunningCalls::read(store, event);
    let known = serde_json::to_vec(&calls).unwrap_or_default();
    change(&mut calls.0);
    let new = serde_json::to_vec(&calls).unwrap_or_default();
    if new != known {
        let _ = write_note(store, &name, &new);
    }
}

/// The right to change the note. Without it a change may be lost, and no more.
fn wait_for(dir: &Path, name: &str) -> Option<Claim> {
    let until = Instant::now() + FOR_OTHERS;
    loop {
        match Claim::ask(dir, &format!("{name}: changed")) {
            Ok(None) if Instant::now() < until => sleep(STEP),
            claim => return claim.ok().flatten(),
        }
    }
}

/// The name of the note: of the session that the person talks to.
fn name(event: &HookEvent) -> Option<String> {
    let main = event.main.as_deref().or(event.transcript.as_deref());
    let session = main.map(session_name).or_else(|| event.session.clone())?;
    Some(format!("calls of {session}"))
}
