//! Pins the workspace before a command that may destroy it, and the conversation before a
//! compaction.

use turntree::context::sections::FILES;
use turntree::context::{Builder, Context};
use turntree::object::{ObjectId, Trigger};
use turntree::repo::{BranchName, NewPin, Pin, SnapshotDraft, Transaction, pin_ref};
use turntree::{ErrorKind, Result};
use turntree_exchange::agents::hook::{Dialect, EventKind, is_destructive};

use super::turn::HookTurn;
use crate::program::live::HOOK;

const DAY: i64 = 24 * 60 * 60 * 1_000_000;

/// The lifetime of a pin before a destructive tool, in microseconds: a week.
const KEPT_BEFORE_TOOLS: i64 = 7 * DAY;

/// The lifetime of a pin before a compaction, in microseconds: 90 days.
const KEPT_BEFORE_COMPACTION: i64 = 90 * DAY;

/// Characters of an id in the name of a pin.
const ID_DIGITS: usize = 12;

/// The reason of a pin before a compaction.
const BEFORE_COMPACTION: &str = "before compaction";

/// Pins the current state of the branch and the workspace before an event that may destroy some of
/// it. The pin is not on the branch, because the event may replace the branch's last turn.
pub(super) fn pin(turn: &HookTurn<'_>, branch: &BranchName) -> Result<()> {
    let event = turn.event;
    let command = event.tool.as_ref().and_then(|tool| tool.command.as_deref());
    match event.moment {
        EventKind::BeforeCompaction => {
            turn.again(|| before(turn, branch, Trigger::BeforeCompaction))
        }
        EventKind::BeforeTool if command.is_some_and(is_destructive) => {
            turn.again(|| before(turn, branch, Trigger::BeforeTool))
        }
        _ => Ok(()),
    }
}

fn before(turn: &HookTurn<'_>, branch: &BranchName, trigger: Trigger) -> Result<()> {
    let repo = turn.repo;
    let mut change = repo.begin();
    let Some(tip) = change.tip(branch) else { return Ok(()) };
    let context = turn.context(Some(tip))?;
    let mut builder = Builder::from(context.clone());
    let metadata = turn.files.put(repo, &mut change, &context, &mut builder)?;
    let tree = builder.write(&mut change)?;
    let is_tool = trigger == Trigger::BeforeTool;
    let seen = tree;
    let kept = is_tool && turn.files.put_kept(&mut change, &context, &mut builder)?;
    if is_tool && !kept && is_in_turn_before(turn, &change, &tip, &tree)? {
        turn.files.keep(repo, &tree);
        return Ok(());
    }
    let tree = if kept { builder.write(&mut change)? } else { tree };
    let (name, reason, kept) = match is_tool {
        true => {
            (format!("before-tool-{}", tree.short(ID_DIGITS)), "before a tool", KEPT_BEFORE_TOOLS)
        }
        false => {
            let name = format!("before-compaction-{}", tip.short(ID_DIGITS));
            (name, BEFORE_COMPACTION, KEPT_BEFORE_COMPACTION)
        }
    };
    if repo.refs().value(&pin_ref(&name)?).is_some() {
        return Ok(());
    }
    if !is_tool && turn.event.dialect == Dialect::Gemini {
        unpin_idle(turn, &mut change, branch, &tip)?;
    }
    let mut draft = SnapshotDraft::new(tree, reason, &turn.stamp);
    (draft.trigger, draft.metadata) = (trigger, metadata);
    let commit = change.record(branch, draft)?;
    let expires = Some(turn.stamp.time.micros.saturating_add(kept));
    let pin = NewPin { name: Some(name), reason: reason.to_owned(), expires_micros: expires };
    change.pin(&commit, pin, &turn.stamp)?;
    change.commit(&turn.stamp, HOOK)?;
    turn.files.keep(repo, &seen);
    Ok(())
}

/// Deletes the pins of this session before a compaction that did not happen: Gemini CLI reports a
/// compaction before each call of the model, and only then checks whether one is needed.
fn unpin_idle(
    turn: &HookTurn<'_>,
    change: &mut Transaction<'_>,
    branch: &BranchName,
    tip: &ObjectId,
) -> Result<()> {
    let pins = turn.repo.pins()?.into_iter();
    for Pin { name, commit, .. } in pins.filter(|pin| pin.reason == BEFORE_COMPACTION) {
        let pinned = turn.repo.commit(&commit)?;
        if pinned.session == branch.session() && !is_compacted_since(turn, tip, pinned.turn)? {
            change.unpin(&name)?;
        }
    }
    Ok(())
}

/// Returns true if the conversation of `tip` was compacted after the turn `since`.
fn is_compacted_since(turn: &HookTurn<'_>, tip: &ObjectId, since: u64) -> Result<bool> {
    for entry in turn.repo.history(&[*tip], &[])?.first_parent() {
        let commit = entry?.commit;
        if commit.turn < since {
            return Ok(false);
        }
        if commit.trigger == Trigger::Compaction {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if the previous turn already has the files of `tree`.
fn is_in_turn_before(
    turn: &HookTurn<'_>,
    change: &Transaction<'_>,
    tip: &ObjectId,
    tree: &ObjectId,
) -> Result<bool> {
    let Some(before) = turn.repo.commit(tip)?.parents.first().copied() else { return Ok(false) };
    let before = match turn.repo.context(&before) {
        Err(error) if error.kind() == ErrorKind::Expired => return Ok(false),
        before => before?,
    };
    let now = Context::open(change, tree)?;
    Ok(before.section(change, FILES)? == now.section(change, FILES)?)
}
