//! Reports imports: for people, as JSON, and as warnings.

use std::io::Write;

use turntree_exchange::formats::FolderNote;
use turntree_exchange::{ImportNote, ImportReport, ImportedBranch, UnreadRecords};

use crate::view::error::Result;
use crate::view::output::{STRONG, warn};
use crate::view::render::{count, size};
use crate::view::{json, output};

/// Maximum number of notes to print one by one.
pub(crate) const MAX_SHOWN_NOTES: usize = 10;

pub(crate) const CONFLICT_HINT: &str = "another process has changed this session: import again";

pub(crate) fn print(
    out: &mut output::Output,
    report: &ImportReport,
    folder: Option<json::ImportedFolder>,
) -> Result<()> {
    if out.json {
        out.record(&json::Imported {
            session: report.branch.session().to_owned(),
            branch: report.branch.branch().to_owned(),
            format: report.format,
            turns: report.turns,
            messages: report.messages,
            at: json::HeadId::new(report.head.to_string()),
            input_bytes: report.input_bytes,
            new_bytes: report.new_bytes,
            unread: json::unread_kinds(&report.unread),
            folder,
            other_branches: report.others.iter().map(imported_branch).collect(),
        })?;
        return Ok(());
    }
    let branch = out.branch(&report.branch);
    if report.turns == 0 && report.others.is_empty() {
        writeln!(out, "{branch} is up to date")?;
        return Ok(());
    }
    let turns = count(report.turns, "turn");
    let turns = out.paint.paint(STRONG, turns);
    writeln!(
        out,
        "{branch}: {turns} with {} from {}; {} read, {} written",
        count(report.messages, "message"),
        report.format,
        size(report.input_bytes),
        size(report.new_bytes),
    )?;
    for ImportedBranch { branch, turns, messages, .. } in &report.others {
        let branch = out.branch(branch);
        if *turns == 0 {
            writeln!(out, "{branch}: the turns that the session rolled back")?;
            continue;
        }
        let turns = out.paint.paint(STRONG, count(*turns, "turn"));
        writeln!(out, "{branch}: {turns} with {}", count(*messages, "message"))?;
    }
    Ok(())
}

fn imported_branch(made: &ImportedBranch) -> json::ImportedBranch {
    json::ImportedBranch {
        session: made.branch.session().to_owned(),
        branch: made.branch.branch().to_owned(),
        turns: made.turns,
        messages: made.messages,
        at: json::HeadId::new(made.head.to_string()),
    }
}

/// Warns about the number of records of unknown kinds, in a file or in all files of a format.
pub(crate) fn warn_of_unread(name: &str, unread: &UnreadRecords) {
    if let Some(sentence) = unread.sentence() {
        warn(&format!("{name}: {sentence}"));
    }
}

pub(crate) fn warn_of_notes(name: &str, notes: &[ImportNote]) {
    for note in notes.iter().take(MAX_SHOWN_NOTES) {
        let ImportNote { line, offset, what } = note;
        let what = what.strip_prefix(&format!("line {line}, ")).unwrap_or(what);
        warn(&format!("{name}, line {line} (byte {offset}): {what}; the record is kept"));
    }
    if let Some(more) = notes.len().checked_sub(MAX_SHOWN_NOTES).filter(|more| *more > 0) {
        warn(&format!("{name}: {} more like these", count(more as u64, "record")));
    }
}

/// Warns about files of a directory that were left out.
pub(crate) fn warn_of_odd(shown: &str, odd: &[FolderNote]) {
    for FolderNote { path, what } in odd.iter().take(MAX_SHOWN_NOTES) {
        warn(&format!("{shown}/{path}: {what}"));
    }
    if let Some(more) = odd.len().checked_sub(MAX_SHOWN_NOTES).filter(|more| *more > 0) {
        warn(&format!("{shown}: {} more like these", count(more as u64, "file")));
    }
}
