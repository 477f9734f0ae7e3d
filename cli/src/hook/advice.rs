//! Advice for the agent: a warning about loops, and how to read the whole of a long output.

use std::cell::RefCell;

use serde_json::Value;
use turntree::Result;
use turntree::object::ObjectId;
use turntree::repo::vfs::StoredPayload;
use turntree::repo::{BranchName, Repository, Signature};
use turntree::workspace::{read_note, write_note};
use turntree_exchange::agents::hook::{Dialect, EventKind, HookEvent};
use turntree_exchange::{
    OffloadOptions, SPIRAL_WINDOW, Sign, SignKind, SpiralVerdict, Tail, find_spiral,
    named_by_content, offload, read_steps,
};

use crate::porcelain::change::lessons::inject;
use crate::view::error::Failure;

/// Stores a long tool output, and returns its replacement.
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

/// Warns the user when the client continues with rolled-back turns, because the client does not
/// know that they were rolled back. Warns once for each branch that it continues as.
pub(super) fn told_beside(
    repo: &Repository,
    branch: &BranchName,
    beside: &BranchName,
) -> Option<String> {
    let name = format!("told of {branch}");
    if read_note(repo, &name).is_some() {
        return None;
    }
    let _ = write_note(repo, &name, beside.to_string().as_bytes());
    Some(format!(
        "turntree: {beside} was rolled back, but this session still has the turns that were taken back. It \
         continues as {branch}, and {beside} stays as it is. To continue from there: \
         'turntree resume {beside}'"
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

/// A loop that the newest turn is part of.
pub(super) struct Circle {
    /// The first and the last turn of the loop.
    first: u64,
    last: u64,
    /// The turn before the loop, to roll back to.
    back: Option<u64>,
    /// A description of the loop.
    what: &'static str,
}

/// Finds a loop that the newest turn is part of.
pub(super) fn circle(
    repo: &Repository,
    event: &HookEvent,
    tip: &ObjectId,
) -> Result<Option<Circle>> {
    let moments = [EventKind::BeforeTool, EventKind::AfterTool, EventKind::Prompt];
    if !moments.contains(&event.moment) {
        return Ok(None);
    }
    let found = find_spiral(&read_steps(repo, tip)?, SPIRAL_WINDOW);
    let newest = repo.commit(tip)?;
    if found.verdict < SpiralVerdict::Confirmed {
        return Ok(None);
    }
    let streak = found.streak.iter().flat_map(|streak| &streak.turns);
    let turns: Vec<u64> =
        found.signs.iter().flat_map(|sign| &sign.turns).chain(streak).copied().collect();
    let ends = turns.iter().min().zip(turns.iter().max());
    let Some((first, last)) = ends.filter(|(_, last)| **last == newest.turn) else {
        return Ok(None);
    };
    let (first, last) = (*first, *last);
    let is_swing = |sign: &Sign| sign.kind == SignKind::Oscillation;
    let what = match found.streak.is_none() && found.signs.iter().any(is_swing) {
        true => "a file goes to and fro, and nothing comes of it",
        false => "the same is done again and again, and the files are what they were",
    };
    Ok(Some(Circle { first, last, back: found.rollback_to, what }))
}

impl Circle {
    /// The warning for the agent.
    pub(super) fn warning(&self) -> String {
        let back = match self.back {
            Some(turn) => {
                format!(" 'turntree rollback --to-turn {turn}' goes back to before that.")
            }
            None => String::new(),
        };
        format!(
            "turntree: since turn {} {}. Stop, say what was tried and why it does not work, and try \
             another way.{back}",
            self.first, self.what
        )
    }

    /// Stops the agent and asks the user, once for each loop of its `branch`: a user who lets the
    /// agent continue knows of the loop. If the user can roll back in the chat (`in_chat`), the
    /// question tells how.
    pub(super) fn stop(
        &self,
        repo: &Repository,
        event: &HookEvent,
        branch: &BranchName,
        in_chat: bool,
        beside: Option<&str>,
    ) -> Result<Option<String>> {
        let name = format!("paused {branch}");
        let known = read_note(repo, &name);
        let known = known.and_then(|last| std::str::from_utf8(&last).ok()?.parse().ok());
        if known.is_some_and(|last: u64| self.first <= last) {
            return Ok(None);
        }
        write_note(repo, &name, self.last.to_string().as_bytes())?;
        let to_agent = match event.dialect {
            Dialect::Codex => "Stop now, and tell the person this. ",
            Dialect::ClaudeCode | Dialect::Gemini => "",
        };
        let back = match self.back {
            Some(turn) if in_chat => format!("'/rollback to {turn}' goes back to before that, or "),
            Some(turn) => {
                format!("'turntree rollback --to-turn {turn}' goes back to before that, or ")
            }
            None => String::new(),
        };
        let beside = beside.map(|beside| format!("\n{beside}")).unwrap_or_default();
        Ok(event.stop(&format!(
            "{to_agent}turntree paused the agent: since turn {} {}. How should it go on? {back}say what \
             it should do differently, or let it go on as it was: it is paused once.{beside}",
            self.first, self.what
        )))
    }
}
