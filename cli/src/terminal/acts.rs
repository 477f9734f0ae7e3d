//! What the interface does to a store, by the same work as the verbs: forks and undos.

use std::path::PathBuf;

use turntree::object::ObjectId;
use turntree::repo::Repository;

use super::content::Span;
use super::text::{Line, Tone, lines};
use crate::porcelain::branches::{ForkStart, fork as begin};
use crate::porcelain::rewind::{checked, end};
use crate::porcelain::undoing::{PlannedUndo, UndoDirection, UndoRequest, about};
use crate::view::error::Result;
use crate::view::output::{Palette, Width};
use crate::view::render::ID_DIGITS;

/// Begins a branch called `name` at the last of some turns, and says so.
///
/// # Errors
/// `InvalidInput` for a name that is taken or is none.
pub(super) fn fork(repo: &Repository, at: &Span, name: &str) -> Result<String> {
    let start = ForkStart::of(repo, &at.until.to_string(), Some(&at.session), &[name])?;
    begin(repo, &start, false)?;
    let id: &ObjectId = &start.commit;
    Ok(format!("{}/{name} begins at {}, turn {}", at.session, id.short(ID_DIGITS), at.turn))
}

/// Plans an undo, and tells what it would do as `undo --dry-run` does.
///
/// # Errors
/// `NotFound` when there is nothing to undo; `Conflict` when a later operation has changed the same.
pub(super) fn plan_undo(repo: &Repository, operation: Option<u64>) -> Result<Vec<Line>> {
    let planned = look(repo, operation)?;
    let about = about(repo, planned.plan(), UndoDirection::Undo);
    let mut text = Vec::new();
    planned.shown().write(&mut text, (Palette::default(), Width::UNLIMITED), repo, &about)?;
    let mut shown = lines(Tone::Plain, "", &String::from_utf8_lossy(&text));
    if let Some(first) = shown.first_mut() {
        first.tone = Tone::Strong;
    }
    Ok(shown)
}

/// Undoes what was shown, and says so. `None` when the plan is another one by now: nothing is done.
///
/// # Errors
/// As [`plan_undo`], and those of writing files.
pub(super) fn undo(
    repo: &Repository,
    operation: Option<u64>,
    shown: &[Line],
) -> Result<Option<String>> {
    if plan_undo(repo, operation)? != shown {
        return Ok(None);
    }
    let done = look(repo, operation)?.apply(repo)?;
    end(done.files.as_ref(), done.arranged.as_ref())?;
    Ok(Some(format!("{}; 'turntree redo' brings it back", done.reason)))
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
        |known: Option<PathBuf>| known.as_deref().map(|dir| checked(dir, false)).transpose();
    request.look(repo, &directory)
}
