//! Tells an agent which effects of rolled-back turns were not undone.

use turntree::Result;
use turntree::object::ObjectId;
use turntree::repo::{Repository, RollbackTarget};
use turntree::workspace::{read_note, write_note};
use turntree_exchange::agents::hook::{EventKind, HookEvent};
use turntree_exchange::ledger;

use crate::view::render::effects::facts;

/// The newest turns in which a rollback is looked for: an agent has them after a resume.
const TURNS_LOOKED_AT: usize = 50;

/// Returns the effects of the turns that the newest rollback before `tip` left behind, once for
/// each client session.
pub(super) fn left_behind(
    repo: &Repository,
    event: &HookEvent,
    tip: &ObjectId,
) -> Result<Option<String>> {
    let Some(session) = &event.session else { return Ok(None) };
    if !matches!(event.moment, EventKind::Start | EventKind::Prompt) {
        return Ok(None);
    }
    let Some((rollback, before, target)) = newest_rollback(repo, tip)? else { return Ok(None) };
    let (name, id) = (format!("effects told in {session}"), rollback.to_string());
    if read_note(repo.store(), &name).is_some_and(|known| known == id.as_bytes()) {
        return Ok(None);
    }
    let facts = facts(&ledger(repo, &before, &target)?);
    write_note(repo.store(), &name, id.as_bytes())?;
    Ok(facts)
}

/// Returns the newest rollback among the last turns, the tip that it left, and its target.
fn newest_rollback(
    repo: &Repository,
    tip: &ObjectId,
) -> Result<Option<(ObjectId, ObjectId, ObjectId)>> {
    let history = repo.history(&[*tip], &[])?;
    for entry in history.first_parent().take(TURNS_LOOKED_AT) {
        let entry = entry?;
        if let Some(RollbackTarget { to, .. }) = RollbackTarget::of(&entry.commit)
            && let Some(before) = entry.parents.first()
        {
            return Ok(Some((entry.id, *before, to)));
        }
    }
    Ok(None)
}
