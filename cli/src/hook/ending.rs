//! The end of a turn or a session. A client writes its last records after it has reported the end,
//! so a background process imports them.

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

/// The longest wait for another process that imports the same transcript.
const FOR_OTHERS: Duration = Duration::from_secs(20);

/// The interval between two attempts.
const STEP: Duration = Duration::from_millis(50);

/// Returns true if the transcript still grows after an event of this kind, and no later event would
/// import the rest.
pub(super) const fn is_end(moment: EventKind) -> bool {
    matches!(moment, EventKind::Stop | EventKind::AgentEnd | EventKind::End)
}

/// Waits until the client has written its last records, and returns the claim to import them.
///
/// One process imports the end of a transcript, and one more waits for its turn. The waiting
/// process reads everything written before it begins, so a third process returns `None`
/// immediately.
pub(super) fn settle(dir: &Path, transcript: &Path, event: &str) -> Option<Claim> {
    let next = Claim::take(dir, &format!("hook-next {event} {}", transcript.display()))?;
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
    drop(next);
    wait::to_settle(transcript);
    Some(claim)
}

/// Logs a session that has ended without an answer.
pub(super) fn check(repo: &Repository, tip: &ObjectId, watch: &Watch) -> Result<()> {
    let store = repo.store();
    let messages = repo.context(tip)?.messages(store, MAIN_AGENT)?;
    let last = messages.len().checked_sub(1).map(|at| messages.get(store, at)).transpose()?;
    let last = last.flatten().map(|item| MessageEntry::from_item(&item)).transpose()?;
    if last.is_some_and(|last| last.role != Role::Assistant) {
        watch.doing("check the end of the session");
        watch.note("the last record is not an answer: 'turntree adopt' imports later records");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_ends_of_a_chat_one_is_worked_on_and_one_waits() {
        let dir = tempfile::tempdir().unwrap();
        let (dir, transcript) = (dir.path(), dir.path().join("chat.jsonl"));
        let next = format!("hook-next Stop {}", transcript.display());
        let waiting = Claim::take(dir, &next).unwrap();
        assert!(settle(dir, &transcript, "Stop").is_none(), "two wait");
        drop(waiting);
        let working = settle(dir, &transcript, "Stop").expect("nothing else works on it");
        assert!(Claim::take(dir, &next).is_some(), "no other process can wait for this one");
        drop(working);
    }
}
