//! `compare`: compares strategies side by side.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io::Write;

use anstyle::Style;
use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree_exchange::Strategy;

use super::Verb;
use crate::porcelain::read::comparison::{ChangedLines, Compared, lines};
use crate::porcelain::read::prices::Prices;
use crate::program::complete::revisions;
use crate::program::invocation::Invocation;
use crate::view::clock;
use crate::view::error::{Answer, Result};
use crate::view::output::{ADDED, FAINT, ID, NAME, Output, REMOVED, warn};
use crate::view::render::alignment::write_alignment;
use crate::view::render::spending::cost;
use crate::view::render::table::{Cell, Column, Table};
use crate::view::render::{ID_DIGITS, count, one_line, short_number};

/// Shown for an unknown value.
const UNKNOWN: &str = "-";

/// Marks the strategy that passed the most checks and failed none.
const BEST: &str = "best";

/// Screen width from which strategies are shown as a table.
const FOR_TABLE: usize = 100;

/// The figures of a strategy in order; on a narrow screen the last ones are dropped first.
const COLUMNS: [&str; 10] =
    ["turns", "messages", "tools", "errors", "tokens", "cost", "files", "added", "removed", "time"];

/// Compare strategies side by side, since their fork point
///
/// Prints one row per branch: its own snapshots, the messages added by these with their tool calls,
/// failed tools, tokens and cost, the files that differ from the fork point, the elapsed time, and
/// the newest result of each check recorded with 'snapshot --check'. Test runs found in the
/// transcript by the output of known runners are listed separately from checks. After a fork from
/// a transcript, which names only the files of tool calls, other files count from the first
/// captured workspace on.
///
/// With --align the steps of the branches, tool calls with their results, are compared one by one:
/// ids, times and directories of their own do not count. It shows where branches part, where their
/// files are equal again, and the earliest step that separates those that passed from those that
/// failed.
///
/// The time counts from the creation of the branch if the operation log has it, otherwise from the
/// fork point. By default branches are sorted by checks, failed tools and tokens; the one branch
/// that passed the most checks and failed none is marked as best. A screen of less than 100 columns
/// shows a card for each.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree compare
  turntree compare plan-a
  turntree compare main plan-a plan-b
  turntree compare nightly~5 nightly
  turntree compare --align
  turntree compare --json | jq '.strategies[] | {branch, files_changed, checks}'")]
pub(crate) struct Compare {
    /// Branches or other snapshots; one alone is compared with HEAD's branch; all branches of HEAD's
    /// session by default
    #[arg(value_name = "REV", add = ArgValueCompleter::new(revisions))]
    revisions: Vec<String>,
    /// Also align them step by step: where they part, where their files meet again, and which step
    /// separates passed from failed ones
    #[arg(long)]
    align: bool,
}

impl Verb for Compare {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let (lines, prices) = (lines(&repo, &self.revisions)?, Prices::of(None)?.table);
        let compared = match self.align {
            true => Compared::aligned(&repo, lines, &prices)?,
            false => Compared::of(&repo, lines, &prices)?,
        };
        if run.out.json {
            run.out.record(&compared.record())?;
        } else {
            write_text(run, &compared, !self.revisions.is_empty())?;
            if let Some(alignment) = &compared.alignment {
                write_alignment(&mut run.out, &compared.names(), alignment)?;
            }
        }
        let Compared { lines, comparison, .. } = &compared;
        for (line, strategy) in lines.iter().zip(&comparison.strategies) {
            if strategy.expired > 0 {
                let (name, expired) = (&line.name, count(strategy.expired, "turn"));
                warn(&format!("{name}: the messages of {expired} are not kept and not counted"));
            }
        }
        Ok(Answer::Yes)
    }
}

fn write_text(run: &mut Invocation, compared: &Compared, keeps_order: bool) -> Result<()> {
    let Compared { lines, comparison, counted, .. } = compared;
    let paint = run.out.paint;
    let strategies = lines.iter().zip(&comparison.strategies).zip(counted);
    let mut shown: Vec<Row<'_>> = strategies
        .map(|((line, strategy), lines)| Row { name: &line.name, strategy, lines: *lines })
        .collect();
    if !keeps_order {
        shown.sort_by_key(Row::merit);
    }
    let best = best(&shown);
    let checks: BTreeSet<&String> =
        shown.iter().flat_map(|row| row.strategy.checks.keys()).collect();
    run.out.page();
    match comparison.fork {
        Some((id, turn)) => {
            let id = paint.paint(ID, id.short(ID_DIGITS));
            writeln!(run.out, "since {id}, turn {turn}")?;
        }
        None => {
            let apart = match &**lines {
                [_] => "one branch: counted from its first turn",
                _ => "no common ancestor: counted from the first turn",
            };
            writeln!(run.out, "{}", paint.paint(FAINT, apart))?;
        }
    }
    if run.out.width.is_below(FOR_TABLE) {
        for row in &shown {
            write_card(&mut run.out, row, best == Some(row.name))?;
        }
        return Ok(());
    }
    let mut columns = vec![Column::name("strategy")];
    columns.extend(COLUMNS.iter().zip(1..).map(|(name, rank)| Column::number(name).rank(rank)));
    columns.extend(checks.iter().map(|name| Column::number(name)));
    columns.push(Column::text(""));
    let mut table = Table::of(columns);
    for row in &shown {
        let mut cells: Vec<Cell> = vec![Cell::styled(NAME, row.name)];
        cells.extend(row.figures().map(Cell::from));
        cells.extend(checks.iter().map(|name| match row.strategy.checks.get(*name) {
            Some(passed) => Cell::styled(verdict(*passed).0, verdict(*passed).1),
            None => UNKNOWN.into(),
        }));
        cells.push(if best == Some(row.name) { Cell::styled(ADDED, BEST) } else { "".into() });
        table.row(cells);
    }
    table.write(&mut run.out)?;
    write_test_runs(&mut run.out, &shown)
}

/// Writes the test runs found in messages.
fn write_test_runs(out: &mut Output, rows: &[Row<'_>]) -> Result<()> {
    if rows.iter().all(|row| row.strategy.test_runs.is_empty()) {
        return Ok(());
    }
    let columns = ["found in the transcript", "tests", "newest", "turn", "runs", "failed"];
    let mut table = Table::new(&columns);
    for row in rows {
        for (runner, found) in &row.strategy.test_runs {
            let (style, verdict) = verdict(found.passed);
            let numbers = [found.turn, found.runs, found.failed].map(|number| number.to_string());
            let mut cells = vec![Cell::styled(NAME, row.name), runner.as_str().into()];
            cells.push(Cell::styled(style, verdict));
            cells.extend(numbers.map(Cell::from));
            table.row(cells);
        }
    }
    writeln!(out)?;
    Ok(table.write(out)?)
}

/// A strategy to be shown.
struct Row<'a> {
    name: &'a str,
    strategy: &'a Strategy,
    lines: ChangedLines,
}

impl Row<'_> {
    fn tokens(&self) -> Option<u64> {
        self.strategy.spending.map(|spending| spending.tokens.total())
    }

    /// The sort key of strategies: few failed checks, many passed ones, few failed tools, few
    /// tokens.
    fn merit(&self) -> (usize, Reverse<usize>, u64, u64) {
        let passed = self.passed();
        let failed = self.strategy.checks.len() - passed;
        let tokens = self.tokens().unwrap_or(u64::MAX);
        (failed, Reverse(passed), self.strategy.tool_errors, tokens)
    }

    fn passed(&self) -> usize {
        self.strategy.checks.values().filter(|passed| **passed).count()
    }

    /// Its values for [`COLUMNS`].
    fn figures(&self) -> [String; COLUMNS.len()] {
        let strategy = self.strategy;
        [
            strategy.turns.to_string(),
            strategy.messages.to_string(),
            strategy.tool_calls.to_string(),
            strategy.tool_errors.to_string(),
            self.tokens().map_or_else(|| UNKNOWN.to_owned(), short_number),
            strategy.spending.as_ref().map_or_else(|| UNKNOWN.to_owned(), cost),
            strategy.files.changes.len().to_string(),
            format!("+{}", self.lines.added),
            format!("-{}", self.lines.removed),
            clock::length(strategy.elapsed_micros),
        ]
    }
}

/// The only strategy with the most passed checks among those that failed none.
fn best<'a>(rows: &[Row<'a>]) -> Option<&'a str> {
    let is_sound = |row: &&Row<'_>| row.passed() > 0 && row.passed() == row.strategy.checks.len();
    let most = rows.iter().filter(is_sound).map(Row::passed).max()?;
    let mut with_most = rows.iter().filter(|row| is_sound(row) && row.passed() == most);
    let only = with_most.next()?;
    (with_most.next().is_none() && rows.len() > 1).then_some(only.name)
}

fn verdict(passed: bool) -> (Style, &'static str) {
    if passed { (ADDED, "passed") } else { (REMOVED, "failed") }
}

/// Writes a strategy in a few short lines, for a screen without room for a table.
fn write_card(out: &mut Output, row: &Row<'_>, is_best: bool) -> Result<()> {
    let paint = out.paint;
    let name = paint.paint(NAME, one_line(row.name, out.width.left(2 + BEST.len())));
    let best = if is_best { format!("  {}", paint.paint(ADDED, BEST)) } else { String::new() };
    writeln!(out, "\n{name}{best}")?;
    let [turns, messages, tools, errors, tokens, cost, files, added, removed, time] = row.figures();
    writeln!(out, "  turns {turns}  messages {messages}  tools {tools}  errors {errors}")?;
    let (added, removed) = (paint.paint(ADDED, added), paint.paint(REMOVED, removed));
    writeln!(out, "  tokens {tokens}  cost {cost}  files {files}  {added} {removed}  time {time}")?;
    for (name, passed) in &row.strategy.checks {
        let (style, verdict) = verdict(*passed);
        let name = one_line(name, out.width.left(4 + verdict.len()));
        writeln!(out, "  {name} {}", paint.paint(style, verdict))?;
    }
    for (runner, found) in &row.strategy.test_runs {
        let (style, verdict) = verdict(found.passed);
        let place = format!("at turn {}, found in the transcript", found.turn);
        writeln!(out, "  {runner} {} {}", paint.paint(style, verdict), paint.paint(FAINT, place))?;
    }
    Ok(())
}
