//! The end of a turn or a session: a client writes its last records after it has told of the end, so a
//! process that nobody waits for takes them in.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use turntree::Result;
use turntree::context::{MAIN_AGENT, MessageEntry, Role};
use turntree::object::ObjectId;
use turntree::repo::Repository;
use turntree::workspace::Claim;
use turntree_exchange::agents::hook::EventKind;

use super::wait;
use super::watch::Watch;

/// The time that a process waits for another one that waits for the same transcript.
const FOR_OTHERS: Duration = Duration::from_secs(20);

/// The time between two looks.
const STEP: Duration = Duration::from_millis(50);

/// Returns whether the transcript still grows after an event of this moment, with no later event to
/// take that in.
pub(super) const fn is_end(moment: EventKind) -> bool {
    matches!(moment, EventKind::Stop | EventKind::AgentEnd | EventKind::End)
}

/// Waits until the client has written what it had to write; one process at a time of a transcript.
pub(super) fn settle(dir: &Path, transcript: &Path) -> Option<Claim> {
    let name = format!("hook-end {}", transcript.display());
    let until = Instant::now() + FOR_OTHERS;
    let claim = loop {
        if !dir.is_dir() || Instant::now() >= until {
            return None;
        }
        match Claim::take(dir, &name) {
            Some(claim) => break claim,
            None => sleep(STEP),
        }
    };
    wait::to_settle(transcript);
    Some(claim)
}

/// Says in the log when a session has ended without an answer.
pub(super) fn check(repo: &Repository, tip: &ObjectId, watch: &Watch) -> Result<()> {
    let store = repo.store();
    let messages = repo.context(tip)?.messages(store, MAIN_AGENT)?;
    let last = messages.len().checked_sub(1).map(|at| messages.get(store, at)).transpose()?;
    let last = last.flatten().map(|item| MessageEntry::from_item(&item)).transpose()?;
    if last.is_some_and(|last| last.role != Role::Assistant) {
        watch.doing("look at the end of the session");
        watch.note("the last record is no answer: 'turntree adopt' takes in what came later");
    }
    Ok(())
}
