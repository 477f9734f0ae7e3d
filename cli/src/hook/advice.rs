//! Advice for the agent: that it repeats itself, and how to read the whole of a long output.

use std::cell::RefCell;
use std::path::Path;

use serde_json::Value;
use turntree::Result;
use turntree::object::ObjectId;
use turntree::repo::vfs::StoredPayload;
use turntree::repo::{Repository, Signature};
use turntree_exchange::agents::hook::{Dialect, EventKind, HookEvent};
use turntree_exchange::{
    Followed, OffloadOptions, SPIRAL_WINDOW, SpiralReport, SpiralVerdict, Tail, find_spiral,
    named_by_content, offload, steps,
};

use crate::porcelain::lessons::inject;
use crate::view::error::Failure;

/// Stores what a tool said at length, and returns what stands for it.
pub(super) fn shorten(
    repo: &Repository,
    event: &HookEvent,
    threshold: u64,
    stamp: &Signature,
) -> Result<Option<Value>> {
    let options = OffloadOptions {
        threshold,
        tail: Tail::Chars((threshold / 2).min(2000)),
        whole_characters: true,
        ..OffloadOptions::default()
    };
    let failed = RefCell::new(None);
    let output = event.shortened(&mut |text| {
        let new = named_by_content(bytes::Bytes::copy_from_slice(text.as_bytes()));
        offload(text, &options, new.uri.as_str(), None)?;
        match repo.put_payload(&new, stamp) {
            Ok(StoredPayload { payload, .. }) => {
                offload(text, &options, payload.uri.as_str(), None).map(|short| short.to_text())
            }
            Err(error) => {
                *failed.borrow_mut() = Some(error);
                None
            }
        }
    });
    failed.into_inner().map_or(Ok(output), Err)
}

/// The advice on how to read the whole of a long output.
pub(super) const READ_BACK: &str =
    "turntree put the whole of a long output away: 'turntree vfs get URI' prints it.";

/// Warns the user when the client continues with what was taken back, since it does not know.
pub(super) fn told_beside(event: &HookEvent, followed: &Followed) -> Option<String> {
    let (beside, branch) = (followed.beside.as_ref()?, &followed.branch);
    let how = match (event.dialect, event.transcript.as_deref().and_then(Path::parent)) {
        (Dialect::ClaudeCode, Some(folder)) => format!(
            "'id=$(uuidgen); turntree export {beside} --format source -o {}/$id.jsonl; claude --resume $id'",
            folder.display()
        ),
        _ => format!("a session that 'turntree export {beside} --format source' gives"),
    };
    Some(format!(
        "turntree: {beside} was rolled back, but this session still has the turns that were taken back. It \
         continues as {branch}, and {beside} stays as it is. To continue from there: {how}"
    ))
}

/// Returns the lessons of the session, when it begins or continues.
pub(super) fn learned(
    repo: &Repository,
    event: &HookEvent,
    tip: &ObjectId,
) -> Result<Option<String>, Failure> {
    if !matches!(event.moment, EventKind::Start | EventKind::Prompt) {
        return Ok(None);
    }
    let told = inject(repo, &tip.to_string(), None, None)?.prompt;
    Ok((!told.is_empty()).then_some(told))
}

/// Warns of a loop, when the newest turn is in one.
pub(super) fn circle(
    repo: &Repository,
    event: &HookEvent,
    tip: &ObjectId,
) -> Result<Option<String>> {
    if !matches!(event.moment, EventKind::AfterTool | EventKind::Prompt) {
        return Ok(None);
    }
    let found = find_spiral(&steps(repo, tip)?, SPIRAL_WINDOW);
    let newest = repo.commit(tip)?.turn;
    Ok(warning(&found, newest))
}

fn warning(found: &SpiralReport, newest: u64) -> Option<String> {
    if found.verdict < SpiralVerdict::Confirmed {
        return None;
    }
    let streak = found.streak.iter().flat_map(|streak| &streak.turns);
    let turns: Vec<u64> =
        found.signs.iter().flat_map(|sign| &sign.turns).chain(streak).copied().collect();
    let (first, last) = (turns.iter().min()?, turns.iter().max()?);
    if *last != newest {
        return None;
    }
    let back = match found.rollback_to {
        Some(turn) => format!(" 'turntree rollback --to-turn {turn}' goes back to before that."),
        None => String::new(),
    };
    Some(format!(
        "turntree: since turn {first} the same is done again and again, and the files are what they \
         were. Stop, say what was tried and why it does not work, and try another way.{back}"
    ))
}
