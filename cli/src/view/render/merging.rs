//! Merges and cherry-picks for people: the merged changes, and the conflicts.

use std::io::{self, Write};

use turntree::context::{Conflict, ConflictKind, ContextMerge, SectionMerge};

use super::{columns_of, count, entries_of, harmless, padded};
use crate::view::output::{FAINT, NAME, Output, REMOVED};

/// Describes the changes of both sides.
pub(crate) const fn words(kind: ConflictKind) -> &'static str {
    match kind {
        ConflictKind::BothChanged => "changed in both",
        ConflictKind::BothAdded => "added in both",
        ConflictKind::RemovedInOurs => "removed in ours, changed in theirs",
        ConflictKind::RemovedInTheirs => "changed in ours, removed in theirs",
        ConflictKind::InTheWay => "added in theirs, where ours has a file or folder in the way",
    }
}

/// Writes a line for each changed section, and one for each conflict.
pub(crate) fn write_report(out: &mut Output, report: &ContextMerge) -> io::Result<()> {
    let width = report.sections.keys().map(|name| columns_of(name)).max().unwrap_or(0);
    for (name, section) in &report.sections {
        let about = about(name, section);
        let name = harmless(name);
        writeln!(out, "  {}  {about}", out.paint.paint(NAME, padded(&name, width)))?;
    }
    for conflict in &report.conflicts {
        write_conflict(out, conflict)?;
    }
    Ok(())
}

fn about(name: &str, section: &SectionMerge) -> String {
    let SectionMerge { taken, combined, conflicts } = *section;
    let mut parts = Vec::new();
    if taken > 0 {
        parts.push(format!("{} from theirs", count(taken, entries_of(name))));
    }
    if combined > 0 {
        parts.push(format!("{combined} with the changes of both"));
    }
    if conflicts > 0 {
        parts.push(count(conflicts, "conflict"));
    }
    parts.join(", ")
}

fn write_conflict(out: &mut Output, conflict: &Conflict) -> io::Result<()> {
    let mut about = words(conflict.kind).to_owned();
    if !conflict.fields.is_empty() {
        about = format!("{about}: {}", conflict.fields.join(", "));
    } else if conflict.has_markers {
        about.push_str("; see the conflict markers");
    }
    let path = out.paint.paint(REMOVED, format!("conflict {}", harmless(&conflict.path)));
    writeln!(out, "{path}  {}", out.paint.paint(FAINT, harmless(&about)))
}
