//! Writes an alignment as a tree of the places where runs part.

use std::io::Write;

use turntree_exchange::{Alignment, RunChoice};

use super::{count, one_line};
use crate::view::error::Result;
use crate::view::output::{ADDED, FAINT, NAME, Output, REMOVED};

/// The most names of runs in a line; the others are counted.
const NAMED_RUNS: usize = 6;

/// The most columns of what was done, so that the runs stay on the line.
const LABEL: usize = 48;

/// The deepest indentation, in steps of two columns.
const DEPTH: usize = 6;

/// The most meetings to list.
const MEETINGS: usize = 12;

/// Writes where the runs called `names` part, where they meet, and the step that decides.
pub(crate) fn write_alignment(
    out: &mut Output,
    names: &[&str],
    alignment: &Alignment,
) -> Result<()> {
    let shared = count(alignment.shared as u64, "step");
    let apart = match alignment.splits.is_empty() {
        true => format!("\naligned: {shared} of each run, all alike"),
        false => format!("\naligned: {shared} in common"),
    };
    writeln!(out, "{apart}")?;
    write_splits(out, names, alignment, None, 1)?;
    let met = alignment.pairs.iter().filter_map(|pair| Some((pair.runs, pair.met.as_ref()?)));
    let met: Vec<_> = met.collect();
    for ((one, other), met) in met.iter().take(MEETINGS) {
        let name = |run: &usize| names.get(*run).copied().unwrap_or_default();
        let (one, other) = (name(one), name(other));
        let (turn, others) = met.turns;
        writeln!(out, "the files of {one} at turn {turn} are those of {other} at turn {others}")?;
    }
    if met.len() > MEETINGS {
        let more = count((met.len() - MEETINGS) as u64, "more pair");
        writeln!(out, "{}", out.paint.paint(FAINT, format!("and {more} with equal files")))?;
    }
    let Some(decision) = &alignment.decision else { return Ok(()) };
    let verb = if decision.separates { "separates" } else { "separates best" };
    writeln!(out, "step {} {verb} passed from failed runs:", decision.step + 1)?;
    for choice in &decision.choices {
        write_choice(out, names, (choice, "without it"), 1)?;
    }
    Ok(())
}

fn write_splits(
    out: &mut Output,
    names: &[&str],
    alignment: &Alignment,
    parent: Option<(usize, usize)>,
    depth: usize,
) -> Result<()> {
    for (number, split) in alignment.splits.iter().enumerate() {
        if split.parent != parent {
            continue;
        }
        let by = if split.by_result { ": the same call, with other results" } else { "" };
        let place = format!("{}step {}{by}", indent(depth), split.step + 1);
        writeln!(out, "{}", out.paint.paint(FAINT, place))?;
        for (at, choice) in split.choices.iter().enumerate() {
            write_choice(out, names, (choice, "no further step"), depth)?;
            write_splits(out, names, alignment, Some((number, at)), depth + 2)?;
        }
    }
    Ok(())
}

/// Writes a choice; `without` stands for the step if its runs have none.
fn write_choice(
    out: &mut Output,
    names: &[&str],
    (choice, without): (&RunChoice, &str),
    depth: usize,
) -> Result<()> {
    let label = choice.label.as_deref().unwrap_or(without);
    let mut runs: Vec<&str> =
        choice.runs.iter().filter_map(|run| names.get(*run).copied()).collect();
    let more = runs.len().saturating_sub(NAMED_RUNS);
    runs.truncate(NAMED_RUNS);
    let runs = runs.join(", ");
    let runs = if more > 0 { format!("{runs} and {more} more") } else { runs };
    let paint = out.paint;
    let mut outcome = String::new();
    for (number, style, word) in
        [(choice.passed, ADDED, "passed"), (choice.failed, REMOVED, "failed")]
    {
        if number > 0 {
            outcome += &format!("  {}", paint.paint(style, format!("{number} {word}")));
        }
    }
    let (label, runs) = (one_line(label, LABEL), paint.paint(NAME, runs));
    Ok(writeln!(out, "{}{label}: {runs}{outcome}", indent(depth + 1))?)
}

/// A chain of splits that each leave one run behind is not indented further and further.
fn indent(depth: usize) -> String {
    "  ".repeat(depth.min(DEPTH))
}
