//! Changes that the interface makes in a store, with the code of the commands: forks, and changes
//! that are planned first.

use std::path::PathBuf;

use turntree::Error;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, MergeKind, Repository};

use super::content::Span;
use super::text::{Line, Tone, lines};
use crate::porcelain::change::merge::{MergeOptions, MergeOutcome, expect_related, merge};
use crate::porcelain::change::pins::{self, PinRequest};
use crate::porcelain::change::undo::{PlannedUndo, UndoDirection, UndoRequest, about};
use crate::porcelain::read::branches::{ForkStart, fork as begin};
use crate::porcelain::workspace::rewind::{end, own_directory};
use crate::program::invocation::stamp;
use crate::view::error::Result;
use crate::view::json::MergedSection;
use crate::view::output::{Palette, Width};
use crate::view::render::{ID_DIGITS, count};

/// Maximum number of conflicts listed in a plan.
const CONFLICTS: usize = 100;

/// A change whose plan is shown before it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// Undoes an operation, the newest one of this user by default.
    Undo { operation: Option<u64> },
    /// Merges a branch into another.
    Merge { from: BranchName, into: String },
    /// Pins the last of these turns. A pin without a name is named by its id.
    Pin { at: Span, name: Option<String> },
    /// Deletes a pin; retention may then drop turns that only this pin keeps.
    Unpin { name: String },
}

impl Change {
    /// The heading of its plan.
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Undo { .. } => "undo",
            Self::Merge { .. } => "merge",
            Self::Pin { .. } => "pin",
            Self::Unpin { .. } => "unpin",
        }
    }
}

/// Begins a branch called `name` at the last of some turns, and returns a message for the user.
///
/// # Errors
/// `InvalidInput` for a name that is taken or not valid.
pub(super) fn fork(repo: &Repository, at: &Span, name: &str) -> Result<String> {
    let start = ForkStart::of(repo, &at.until.to_string(), Some(&at.session), &[name])?;
    begin(repo, &start, false)?;
    let id: &ObjectId = &start.commit;
    Ok(format!("{}/{name} begins at {}, turn {}", at.session, id.short(ID_DIGITS), at.turn))
}

/// Returns the plan of a change: a strong line, and details below it.
///
/// # Errors
/// The errors of the command, and `InvalidInput` if there is nothing to merge.
pub(super) fn plan(repo: &Repository, change: &Change) -> Result<Vec<Line>> {
    let text = match change {
        Change::Undo { operation } => plan_undo(repo, *operation)?,
        Change::Merge { from, into } => plan_merge(repo, from, into)?,
        Change::Pin { at, name } => {
            let (_, pin) = pins::stage(repo, &request(&at.until.to_string(), name), &stamp()?)?;
            let turn = named(repo, &at.until)?;
            format!(
                "would pin {turn} of {} as {}\nRetention keeps all of its content.",
                at.session, pin.name
            )
        }
        Change::Unpin { name } => {
            let pinned = pins::find(repo, name)?.into_iter().map(|pin| {
                // The turn of an expired pin may have been dropped.
                named(repo, &pin.commit).unwrap_or_else(|_| pin.commit.short(ID_DIGITS))
            });
            let turns: Vec<String> = pinned.collect();
            format!(
                "would remove the pin {name} from {}\nRetention may then drop the turn.",
                turns.join(", ")
            )
        }
    };
    let mut shown = lines(Tone::Plain, "", &text);
    if let Some(first) = shown.first_mut() {
        first.tone = Tone::Strong;
    }
    Ok(shown)
}

/// Makes the change if its plan still equals `shown`, and returns a message for the user. Returns
/// `None` and changes nothing when the plan has changed.
///
/// # Errors
/// The errors of [`plan`], and errors of writing.
pub(super) fn carry_out(
    repo: &Repository,
    change: &Change,
    shown: &[Line],
) -> Result<Option<String>> {
    if plan(repo, change)? != shown {
        return Ok(None);
    }
    Ok(Some(match change {
        Change::Undo { operation } => {
            let done = look(repo, *operation)?.apply(repo)?;
            end(done.files.as_ref(), done.arranged.as_ref())?;
            format!("{}; 'turntree redo' brings it back", done.reason)
        }
        Change::Merge { from, into } => {
            let (request, staged, _) = merge(repo, &from.to_string(), &merging(into, false))?;
            let open = staged.report.map_or(0, |report| report.conflicts.len() as u64);
            let decide = match open {
                0 => String::new(),
                _ => format!("; {} to decide by 'turntree resolve'", count(open, "conflict")),
            };
            format!("{from} is merged into {}{decide}", request.into)
        }
        Change::Pin { at, name } => {
            let (pin, _) = pins::add(repo, &request(&at.until.to_string(), name))?;
            format!("{} is pinned as {}", named(repo, &at.until)?, pin.name)
        }
        Change::Unpin { name } => {
            pins::remove(repo, name)?;
            format!("the pin {name} is removed")
        }
    }))
}

/// Names a turn by number and short id.
fn named(repo: &Repository, id: &ObjectId) -> Result<String> {
    Ok(format!("turn {} ({})", repo.commit(id)?.turn, id.short(ID_DIGITS)))
}

fn request<'a>(revision: &'a str, name: &'a Option<String>) -> PinRequest<'a> {
    PinRequest { revision, name: name.as_deref(), reason: "", expires: None }
}

fn merging(into: &str, dry_run: bool) -> MergeOptions {
    MergeOptions { into: Some(into.to_owned()), dry_run, ..MergeOptions::default() }
}

/// Describes the result of a merge.
fn plan_merge(repo: &Repository, from: &BranchName, into: &str) -> Result<String> {
    let (revision, how) = (from.to_string(), merging(into, true));
    expect_related(repo, &revision, &how)?;
    let (request, staged, turn) = merge(repo, &revision, &how)?;
    let into = &request.into;
    let (ours, theirs) = (named(repo, &staged.ours)?, named(repo, &staged.theirs)?);
    let what = match staged.kind {
        MergeKind::UpToDate => {
            return Err(Error::invalid(format!("{into} has all of {from} already")).into());
        }
        MergeKind::FastForward => "moves on to it",
        MergeKind::Merged => "gets a turn with both",
    };
    let mut text = format!(
        "would merge {from} into {into}\n{into}, at {ours}, {what}\n{from} is at {theirs}\n"
    );
    let record = MergeOutcome { staged: &staged, request: &request, turn, dry_run: true }.record();
    for (name, section) in &record.sections {
        let MergedSection { taken, combined, conflicts } = section;
        text += &format!("{name}: {taken} taken, {combined} combined, {conflicts} in conflict\n");
    }
    for conflict in record.conflicts.iter().take(CONFLICTS) {
        text += &format!("to decide: {}\n", conflict.path);
    }
    if let Some(more) = record.conflicts.len().checked_sub(CONFLICTS + 1) {
        text += &format!("and {} more to decide\n", more + 1);
    }
    text += "No file of a workspace changes: 'turntree restore' writes those of the merge.";
    Ok(text)
}

/// Describes the result of an undo, like `undo --dry-run`.
fn plan_undo(repo: &Repository, operation: Option<u64>) -> Result<String> {
    let planned = look(repo, operation)?;
    let about = about(repo, planned.plan(), UndoDirection::Undo);
    let mut text = Vec::new();
    planned.shown().write(&mut text, (Palette::default(), Width::UNLIMITED), repo, &about)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn look(repo: &Repository, operation: Option<u64>) -> Result<PlannedUndo<'_>> {
    let operation = operation.map(|number| number.to_string());
    let request = UndoRequest {
        direction: UndoDirection::Undo,
        operation: operation.as_deref(),
        any_actor: false,
        no_files: false,
    };
    let directory =
        |known: Option<PathBuf>| known.map(|dir| own_directory(repo, &dir, false)).transpose();
    request.look(repo, &directory)
}
