//! Changes of a workspace for people: every file written, deleted or left, and why.

use std::io::{self, Write};

use turntree::workspace::{AppliedFiles, ChangeKind, FileChange, FileChanges, KeptWorkspace};

use super::{columns_of, count, harmless, padded, size};
use crate::view::json::{LEAVE, action, reason};
use crate::view::output::{ADDED, FAINT, Output, Palette, REMOVED};

/// Writes the plan to bring files to `state`, and its result.
pub(crate) fn write_files(
    out: &mut dyn Write,
    paint: Palette,
    files: &FileChanges,
    state: &str,
    arranged: Option<&AppliedFiles>,
) -> io::Result<()> {
    let paths = files.files.iter().map(|file| &file.path);
    let shown = |path: &std::path::Path| harmless(&path.display().to_string());
    let left = files.left.iter().map(|left| &left.path);
    let width = paths.chain(left).map(|path| columns_of(&shown(path))).max().unwrap_or(0);
    writeln!(out, "workspace {}", shown(&files.dir))?;
    for file in &files.files {
        let style = match file.kind {
            ChangeKind::Create => ADDED,
            ChangeKind::Overwrite | ChangeKind::Delete => REMOVED,
        };
        let (done, path) = (paint.paint(style, format!("{:<9}", action(file.kind))), &file.path);
        let saved = match (file.is_new, file.unsaved) {
            (true, _) => "; made since the newest snapshot, saved first",
            (false, true) => "; not in the newest snapshot, saved first",
            (false, false) => "",
        };
        let why = paint.paint(FAINT, format!("{}{saved}", reason(file.kind, state)));
        writeln!(out, "{done} {}  {why}", padded(&shown(path), width))?;
    }
    for file in &files.left {
        let (done, path) = (paint.paint(FAINT, format!("{LEAVE:<9}")), &file.path);
        let why = paint.paint(FAINT, harmless(&file.reason));
        writeln!(out, "{done} {}  {why}", padded(&shown(path), width))?;
    }
    if !files.deletes {
        let note = format!("nothing is deleted: the files of {state} were never a whole workspace");
        writeln!(out, "{}", paint.paint(FAINT, note))?;
    }
    let (left, stay) = (files.left.len(), files.unchanged);
    let Some(AppliedFiles { written, deleted, bytes, failed }) = arranged else {
        let (written, deleted) = files.counts();
        let written = count(written, "file");
        return writeln!(
            out,
            "would write {written}, delete {deleted} and leave {left}, keep {stay}"
        );
    };
    for (path, error) in failed {
        let (done, why) = (paint.paint(REMOVED, "failed   "), harmless(&error.to_string()));
        writeln!(out, "{done} {}  {why}", padded(&shown(path), width))?;
    }
    let (written, bytes) = (count(*written, "file"), size(*bytes));
    writeln!(out, "wrote {written} ({bytes}), deleted {deleted}, left {left}, kept {stay}")
}

/// Explains why a plan does not change the workspace, if `state` would be restored.
pub(crate) fn kept_workspace(kept: KeptWorkspace, state: &str) -> String {
    match kept {
        KeptWorkspace::NotSelected => "files are not selected".to_owned(),
        KeptWorkspace::NoFiles => format!("{state} has no files"),
        KeptWorkspace::NoDirectory => "no snapshot names its directory".to_owned(),
    }
}

/// Writes the number of deleted files that no turn has, and the command that restores them, as the
/// last line of a command's output.
pub(crate) fn write_unknown(
    out: &mut Output,
    files: Option<&FileChanges>,
    arranged: Option<&AppliedFiles>,
    back: &str,
) -> io::Result<()> {
    let (Some(files), Some(arranged)) = (files, arranged) else { return Ok(()) };
    let is_done = |file: &&FileChange| !arranged.failed.iter().any(|(path, _)| *path == file.path);
    let is_lost = |file: &&FileChange| file.unknown && file.kind == ChangeKind::Delete;
    match files.files.iter().filter(is_lost).filter(is_done).count() as u64 {
        0 => Ok(()),
        lost => {
            let (lost, them) = (count(lost, "file"), if lost == 1 { "it" } else { "them" });
            writeln!(out, "deleted {lost} that no turn has; 'turntree {back}' brings {them} back")
        }
    }
}
