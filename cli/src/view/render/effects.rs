//! Effects that no rollback reverts, for people and for agents.

use std::io::{self, Write};

use turntree_exchange::{CallOutcome, Ledger, LedgerEntry};

use super::{count, harmless, padded};
use crate::view::output::{FAINT, Palette};

/// The most effects to show: the newest.
const MAX_SHOWN: usize = 12;

/// The width of the longest kind.
const KIND_COLUMNS: usize = 11;

/// Writes the effects of turns that a rollback leaves behind: `is_done` if it took place.
pub(crate) fn write_effects(
    out: &mut dyn Write,
    paint: Palette,
    ledger: &Ledger,
    is_done: bool,
) -> io::Result<()> {
    if ledger.entries.is_empty() {
        return Ok(());
    }
    let effects = count(ledger.entries.len() as u64, "effect");
    let verb = if is_done { "not undone" } else { "would not be undone" };
    writeln!(out, "{verb}: {effects} of the turns since then")?;
    let more = ledger.entries.len().saturating_sub(MAX_SHOWN);
    if more > 0 {
        writeln!(
            out,
            "  {}",
            paint.paint(FAINT, format!("{} before", count(more as u64, "other")))
        )?;
    }
    for entry in ledger.entries.iter().skip(more) {
        let kind = padded(entry.kind.name(), KIND_COLUMNS);
        let outcome = paint.paint(FAINT, outcome(entry));
        writeln!(out, "  turn {:<4} {kind}  {}{outcome}", entry.turn, harmless(&entry.call))?;
    }
    Ok(())
}

/// Returns a line for each of the newest effects.
pub(crate) fn effect_lines(ledger: &Ledger) -> impl Iterator<Item = String> {
    let more = ledger.entries.len().saturating_sub(MAX_SHOWN);
    ledger.entries.iter().skip(more).map(|entry| {
        let (kind, call) = (entry.kind.name(), harmless(&entry.call));
        format!("turn {}, {kind}: {call}{}", entry.turn, outcome(entry))
    })
}

/// Describes the effects for an agent whose conversation no longer has them; `None` if there are
/// none.
pub(crate) fn facts(ledger: &Ledger) -> Option<String> {
    let lines: Vec<String> = effect_lines(ledger).map(|line| format!("- {line}")).collect();
    (!lines.is_empty()).then(|| {
        format!(
            "turntree: the user went back to an earlier turn of this session. These actions of the \
             turns since then took place and were not undone. Check their state before you repeat \
             one of them:\n{}",
            lines.join("\n")
        )
    })
}

fn outcome(entry: &LedgerEntry) -> &'static str {
    match entry.outcome {
        CallOutcome::Failed => "  (reported an error)",
        CallOutcome::Unknown => "  (no result recorded)",
        _ => "",
    }
}
