//! `compare`: strategies side by side.

use std::collections::BTreeSet;
use std::io::Write;

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
use crate::view::output::{FAINT, ID, Palette, warn};
use crate::view::render::changes::Changes;
use crate::view::render::table::Table;
use crate::view::render::{ID_DIGITS, count};
use crate::view::{clock, json};

/// Stands where a value is unknown.
const UNKNOWN: &str = "-";

/// Compare strategies side by side, since the snapshot where they parted
///
/// Prints one row per branch: its own snapshots, the messages that these added with their tool
/// calls, failed tools and tokens, the files that differ from those at the fork, the time it took,
/// and the newest result of each check that 'snapshot --check' recorded.
///
/// The time counts from the creation of the branch if the operation log has it, else from the fork.
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
            write_text(run, &lines, &comparison, &counted)?;
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
                return Err(Failure::hinted(none, "'turntree branch' lists all there are"));
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
) -> Result<()> {
    let paint = run.out.paint;
    let checks: BTreeSet<&String> =
        comparison.strategies.iter().flat_map(|strategy| strategy.checks.keys()).collect();
    let mut heading = vec![
        "strategy", "turns", "messages", "tools", "errors", "tokens", "files", "added", "removed",
        "time",
    ];
    heading.extend(checks.iter().map(|name| name.as_str()));
    let mut table = Table::new(&heading);
    for ((line, strategy), lines) in lines.iter().zip(&comparison.strategies).zip(counted) {
        let tokens = strategy.usage.map(|usage| usage.input.saturating_add(usage.output));
        let mut cells = vec![
            line.name.clone(),
            strategy.turns.to_string(),
            strategy.messages.to_string(),
            strategy.tool_calls.to_string(),
            strategy.tool_errors.to_string(),
            tokens.map_or_else(|| UNKNOWN.to_owned(), |tokens| tokens.to_string()),
            strategy.files.changes.len().to_string(),
            format!("+{}", lines.added),
            format!("-{}", lines.removed),
            clock::length(strategy.elapsed_micros),
        ];
        cells.extend(checks.iter().map(|name| match strategy.checks.get(*name) {
            Some(true) => "passed".to_owned(),
            Some(false) => "failed".to_owned(),
            None => UNKNOWN.to_owned(),
        }));
        table.row(cells);
    }
    run.out.page();
    match comparison.fork {
        Some((id, turn)) => {
            let id = paint.paint(ID, id.short(ID_DIGITS));
            writeln!(run.out, "since {id}, turn {turn}")?;
        }
        None => writeln!(run.out, "{}", paint.paint(FAINT, "nothing in common: all is counted"))?,
    }
    table.write(paint, &mut run.out)?;
    Ok(())
}
