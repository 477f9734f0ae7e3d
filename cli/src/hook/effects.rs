//! Tells an agent which effects of turns that its conversation lacks were not undone.

use turntree::Result;
use turntree::object::ObjectId;
use turntree::repo::Repository;
use turntree::workspace::{read_note, write_note};
use turntree_exchange::agents::hook::{EventKind, HookEvent};
use turntree_exchange::{ledger, return_before};

use crate::view::render::effects::facts;

/// The client session of an event whose answer the agent reads as context: at the start of a session
/// and at a prompt.
pub(super) fn listening_session(event: &HookEvent) -> Option<&str> {
    let is_read = matches!(event.moment, EventKind::Start | EventKind::Prompt);
    event.session.as_deref().filter(|_| is_read)
}

/// Returns the effects of the turns that the newest return to an earlier turn left behind, once for
/// each client session.
pub(super) fn left_behind(
    repo: &Repository,
    event: &HookEvent,
    tip: &ObjectId,
) -> Result<Option<String>> {
    let Some(session) = listening_session(event) else { return Ok(None) };
    let Some(back) = return_before(repo, tip)? else { return Ok(None) };
    let (name, id) = (format!("effects told in {session}"), back.commit.to_string());
    if read_note(repo, &name).is_some_and(|known| known == id.as_bytes()) {
        return Ok(None);
    }
    // Turns that were forgotten since are no reason to fail.
    let left = ledger(repo, &back.past, &back.target).unwrap_or_default();
    write_note(repo, &name, id.as_bytes())?;
    Ok(facts(&left))
}
