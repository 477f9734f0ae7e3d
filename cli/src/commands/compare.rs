//! `compare`: strategies side by side.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io::Write;

use anstyle::Style;
use clap::Args;
use clap_complete::ArgValueCandidates;
use turntree::Error;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Repository};
use turntree_exchange::{Comparison, Strategy, compare};

use super::Verb;
use crate::porcelain::revision::resolve;
use crate::program::complete::revisions;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Failure, Result};
use crate::view::output::{ADDED, FAINT, ID, NAME, Output, Palette, REMOVED, warn};
use crate::view::render::changes::Changes;
use crate::view::render::table::{Cell, Column, Table};
use crate::view::render::{ID_DIGITS, count, one_line, short_number};
use crate::view::{clock, json};

/// Stands where a value is unknown.
const UNKNOWN: &str = "-";

/// Marks the strategy that passed the most checks and failed none.
const BEST: &str = "best";

/// Columns of a screen from which on strategies are a table.
const FOR_TABLE: usize = 100;

/// The figures of a strategy, in their order; on a screen too narrow, the last are dropped first.
const COLUMNS: [&str; 9] =
    ["turns", "messages", "tools", "errors", "tokens", "files", "added", "removed", "time"];

/// Compare strategies side by side, since the snapshot where they parted
///
/// Prints one row per branch: its own snapshots, the messages that these added with their tool
/// calls, failed tools and tokens, the files that differ from those at the fork, the time it took,
/// and the newest result of each check that 'snapshot --check' recorded.
///
/// The time counts from the creation of the branch if the operation log has it, else from the fork.
/// Branches that are not named come in order of their checks, failed tools and tokens; the one that
/// alone passed the most checks and failed none is marked as best. A screen of less than 100 columns
/// shows a card for each.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree compare
  turntree compare main plan-a plan-b
  turntree compare nightly~5 nightly
  turntree compare --json | jq '.strategies[] | {branch, files_changed, checks}'")]
pub(crate) struct Compare {
    /// Branches or other snapshots; all branches of HEAD's session by default
    #[arg(value_name = "REV", add = ArgValueCandidates::new(revisions))]
    revisions: Vec<String>,
}

/// A line to compare: what people call it, its branch if it is one, and its newest snapshot.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) branch: Option<BranchName>,
    pub(super) tip: ObjectId,
}

/// Lines added to and removed from files.
#[derive(Clone, Copy)]
struct ChangedLines {
    added: usize,
    removed: usize,
}

impl Verb for Compare {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let lines = self.lines(&repo)?;
        let asked: Vec<_> = lines.iter().map(|line| (line.branch.clone(), line.tip)).collect();
        let comparison = compare(&repo, &asked)?;
        let counted = count_all_lines(&repo, run.out.paint, &comparison)?;
        if run.out.json {
            run.out.record(&record(&lines, &comparison, &counted))?;
        } else {
            let keeps_order = !self.revisions.is_empty();
            write_text(run, &lines, &comparison, &counted, keeps_order)?;
        }
        for (line, strategy) in lines.iter().zip(&comparison.strategies) {
            if strategy.expired > 0 {
                let (name, expired) = (&line.name, count(strategy.expired, "turn"));
                warn(&format!("{name}: the messages of {expired} are not kept and not counted"));
            }
        }
        Ok(Answer::Yes)
    }
}

impl Compare {
    fn lines(&self, repo: &Repository) -> Result<Vec<Line>> {
        if self.revisions.is_empty() {
            let session = repo.head()?.branch.session().to_owned();
            let lines = lines_of(repo, &session);
            if lines.is_empty() {
                let none = Error::not_found(format!("session {session} has no branch"));
                return Err(Failure::hinted(none, "'turntree branch' lists all branches"));
            }
            return Ok(lines);
        }
        self.revisions.iter().map(|name| Line::named(repo, name)).collect()
    }
}

impl Line {
    /// The line that ends in a revision.
    pub(super) fn named(repo: &Repository, name: &str) -> Result<Self> {
        let revision = resolve(repo, name)?;
        // What a branch was some turns ago is not the branch.
        let branch = revision.branch.filter(|branch| repo.tip(branch) == Some(revision.commit));
        Ok(Self { name: name.to_owned(), branch, tip: revision.commit })
    }
}

/// All branches of a session.
pub(super) fn lines_of(repo: &Repository, session: &str) -> Vec<Line> {
    let line = |(branch, tip): (BranchName, ObjectId)| {
        let name = branch.branch().to_owned();
        (branch.session() == session).then_some(Line { name, branch: Some(branch), tip })
    };
    repo.branches().into_iter().filter_map(line).collect()
}

/// The record of lines side by side.
pub(super) fn compared(repo: &Repository, lines: &[Line]) -> Result<json::Comparison> {
    let asked: Vec<_> = lines.iter().map(|line| (line.branch.clone(), line.tip)).collect();
    let comparison = compare(repo, &asked)?;
    let counted = count_all_lines(repo, Palette::default(), &comparison)?;
    Ok(record(lines, &comparison, &counted))
}

fn count_all_lines(
    repo: &Repository,
    paint: Palette,
    comparison: &Comparison,
) -> Result<Vec<ChangedLines>> {
    let changes = Changes { source: repo.store(), paint };
    comparison.strategies.iter().map(|strategy| count_lines(&changes, strategy)).collect()
}

fn count_lines(changes: &Changes<'_>, strategy: &Strategy) -> Result<ChangedLines> {
    let stats = changes.stat("files", &strategy.files)?;
    let sum =
        |lines: fn(&crate::view::render::changes::Stat) -> usize| stats.iter().map(lines).sum();
    Ok(ChangedLines { added: sum(|stat| stat.added), removed: sum(|stat| stat.removed) })
}

fn record(lines: &[Line], comparison: &Comparison, counted: &[ChangedLines]) -> json::Comparison {
    let strategies = lines.iter().zip(&comparison.strategies).zip(counted);
    let strategies = strategies.map(|((line, strategy), lines)| json::Strategy {
        name: line.name.clone(),
        session: line.branch.as_ref().map(|branch| branch.session().to_owned()),
        branch: line.branch.as_ref().map(|branch| branch.branch().to_owned()),
        id: strategy.tip.to_string(),
        turn: strategy.turn,
        turns: strategy.turns,
        messages: strategy.messages,
        tool_calls: strategy.tool_calls,
        tool_errors: strategy.tool_errors,
        tokens: strategy
            .usage
            .map(|usage| json::Tokens { input: usage.input, output: usage.output }),
        files_changed: strategy.files.changes.len() as u64,
        lines_added: lines.added as u64,
        lines_removed: lines.removed as u64,
        elapsed_ms: strategy.elapsed_micros / 1000,
        checks: strategy.checks.clone(),
        expired_turns: strategy.expired,
    });
    let fork = comparison.fork.map(|(id, turn)| json::Fork { id: id.to_string(), turn });
    json::Comparison { fork, strategies: strategies.collect() }
}

fn write_text(
    run: &mut Invocation,
    lines: &[Line],
    comparison: &Comparison,
    counted: &[ChangedLines],
    keeps_order: bool,
) -> Result<()> {
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
            let apart = "no common ancestor: counted from the first turn";
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
    Ok(table.write(&mut run.out)?)
}

/// One strategy as it is shown.
struct Row<'a> {
    name: &'a str,
    strategy: &'a Strategy,
    lines: ChangedLines,
}

impl Row<'_> {
    fn tokens(&self) -> Option<u64> {
        self.strategy.usage.map(|usage| usage.input.saturating_add(usage.output))
    }

    /// Orders strategies: few failed checks, many passed ones, few failed tools, few tokens.
    fn merit(&self) -> (usize, Reverse<usize>, u64, u64) {
        let passed = self.passed();
        let failed = self.strategy.checks.len() - passed;
        let tokens = self.tokens().unwrap_or(u64::MAX);
        (failed, Reverse(passed), self.strategy.tool_errors, tokens)
    }

    fn passed(&self) -> usize {
        self.strategy.checks.values().filter(|passed| **passed).count()
    }

    /// Its cells below [`COLUMNS`].
    fn figures(&self) -> [String; COLUMNS.len()] {
        let strategy = self.strategy;
        [
            strategy.turns.to_string(),
            strategy.messages.to_string(),
            strategy.tool_calls.to_string(),
            strategy.tool_errors.to_string(),
            self.tokens().map_or_else(|| UNKNOWN.to_owned(), short_number),
            strategy.files.changes.len().to_string(),
            format!("+{}", self.lines.added),
            format!("-{}", self.lines.removed),
            clock::length(strategy.elapsed_micros),
        ]
    }
}

/// The strategy that passed every check that it has, when the others did not do as well.
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
    let [turns, messages, tools, errors, tokens, files, added, removed, time] = row.figures();
    writeln!(out, "  turns {turns}  messages {messages}  tools {tools}  errors {errors}")?;
    let (added, removed) = (paint.paint(ADDED, added), paint.paint(REMOVED, removed));
    writeln!(out, "  tokens {tokens}  files {files}  {added} {removed}  time {time}")?;
    for (name, passed) in &row.strategy.checks {
        let (style, verdict) = verdict(*passed);
        let name = one_line(name, out.width.left(4 + verdict.len()));
        writeln!(out, "  {name} {}", paint.paint(style, verdict))?;
    }
    Ok(())
}
