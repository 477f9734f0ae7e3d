//! Compares strategies: the branches to compare, the changes of each, and the JSON record.

use turntree::Error;
use turntree::context::sections::FILES;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Repository};
use turntree_exchange::{
    Alignment, Comparison, PriceTable, Strategy, TestRuns, align, compare, compare_aligned,
};

use super::alignment::record;
use super::revision::resolve;
use crate::view::advice::Advice;
use crate::view::error::{Failure, Result};
use crate::view::json;
use crate::view::output::Palette;
use crate::view::render::changes::{Changes, Stat};

/// A branch or revision to compare: its name, its branch if it is one, and its newest snapshot.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) branch: Option<BranchName>,
    pub(crate) tip: ObjectId,
}

/// Lines added to and removed from files.
#[derive(Clone, Copy)]
pub(crate) struct ChangedLines {
    pub(crate) added: usize,
    pub(crate) removed: usize,
}

/// The result of a comparison.
pub(crate) struct Compared {
    pub(crate) lines: Vec<Line>,
    pub(crate) comparison: Comparison,
    pub(crate) counted: Vec<ChangedLines>,
    pub(crate) alignment: Option<Alignment>,
}

impl Line {
    /// The line that ends in a revision.
    pub(crate) fn named(repo: &Repository, name: &str) -> Result<Self> {
        let revision = resolve(repo, name)?;
        // An earlier turn of a branch is not the branch.
        let branch = revision.branch.filter(|branch| repo.tip(branch) == Some(revision.commit));
        Ok(Self { name: name.to_owned(), branch, tip: revision.commit })
    }
}

/// The lines of revisions, or of all branches of HEAD's session. One branch alone is compared with
/// HEAD's branch, and HEAD's branch, or one of another session, with all of its session.
pub(crate) fn lines(repo: &Repository, revisions: &[String]) -> Result<Vec<Line>> {
    if let [name] = revisions {
        let named = Line::named(repo, name)?;
        let head = repo.head_if_any()?.map(|head| head.branch);
        let current = head.and_then(|head| Some((repo.tip(&head)?, head)));
        let own = named.branch.clone().filter(|own| {
            current.as_ref().is_none_or(|(_, head)| head == own || head.session() != own.session())
        });
        return Ok(match (own, current) {
            (Some(own), _) => lines_of(repo, own.session()),
            (None, Some((tip, head))) => {
                let name = head.branch().to_owned();
                vec![Line { name, branch: Some(head), tip }, named]
            }
            (None, None) => vec![named],
        });
    }
    if !revisions.is_empty() {
        return revisions.iter().map(|name| Line::named(repo, name)).collect();
    }
    let session = repo.head()?.branch.session().to_owned();
    let lines = lines_of(repo, &session);
    if lines.is_empty() {
        let none = Error::not_found(format!("session {session} has no branch"));
        let advice =
            Advice::new("'turntree branch' lists all branches", "branch lists all branches");
        return Err(Failure::hinted(none, advice));
    }
    Ok(lines)
}

/// All branches of a session.
pub(crate) fn lines_of(repo: &Repository, session: &str) -> Vec<Line> {
    let line = |(branch, tip): (BranchName, ObjectId)| Line {
        name: branch.branch().to_owned(),
        branch: Some(branch),
        tip,
    };
    repo.branches_of(session).into_iter().map(line).collect()
}

impl Compared {
    /// Compares lines. Answers without a cost are charged by `prices`.
    pub(crate) fn of(repo: &Repository, lines: Vec<Line>, prices: &PriceTable) -> Result<Self> {
        let asked: Vec<_> = lines.iter().map(|line| (line.branch.clone(), line.tip)).collect();
        Self::counted(repo, lines, compare(repo, &asked, prices)?, None)
    }

    /// Compares lines, and aligns them step by step.
    pub(crate) fn aligned(
        repo: &Repository,
        lines: Vec<Line>,
        prices: &PriceTable,
    ) -> Result<Self> {
        let asked: Vec<_> = lines.iter().map(|line| (line.branch.clone(), line.tip)).collect();
        let (comparison, runs) = compare_aligned(repo, &asked, prices)?;
        Self::counted(repo, lines, comparison, Some(align(&runs)))
    }

    fn counted(
        repo: &Repository,
        lines: Vec<Line>,
        comparison: Comparison,
        alignment: Option<Alignment>,
    ) -> Result<Self> {
        let changes = Changes { source: repo, paint: Palette::default() };
        let counted = comparison.strategies.iter().map(|strategy| count_lines(&changes, strategy));
        let counted = counted.collect::<Result<_>>()?;
        Ok(Self { lines, comparison, counted, alignment })
    }

    /// The names of the lines.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.lines.iter().map(|line| &*line.name).collect()
    }

    /// The JSON record.
    pub(crate) fn record(&self) -> json::Comparison {
        let strategies = self.lines.iter().zip(&self.comparison.strategies).zip(&self.counted);
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
            tokens: strategy.spending.map(|spending| json::Tokens {
                input: spending.tokens.input,
                output: spending.tokens.output,
            }),
            usage: strategy.spending.as_ref().map(json::SpendingRecord::new),
            files_changed: strategy.files.changes.len() as u64,
            lines_added: lines.added as u64,
            lines_removed: lines.removed as u64,
            elapsed_ms: strategy.elapsed_micros / 1000,
            checks: strategy.checks.clone(),
            test_runs: strategy.test_runs.iter().map(found_runs).collect(),
            expired_turns: strategy.expired,
        });
        let fork = self.comparison.fork;
        let fork = fork.map(|(id, turn)| json::Fork { id: id.to_string(), turn });
        let alignment = self.alignment.as_ref();
        json::Comparison {
            fork,
            strategies: strategies.collect(),
            alignment: alignment.map(|alignment| record(&self.names(), alignment)),
        }
    }
}

fn found_runs((runner, found): (&String, &TestRuns)) -> (String, json::FoundRuns) {
    let TestRuns { passed, turn, runs, failed } = *found;
    (runner.clone(), json::FoundRuns { passed, turn, runs, failed })
}

fn count_lines(changes: &Changes<'_>, strategy: &Strategy) -> Result<ChangedLines> {
    let stats = changes.stat(FILES, &strategy.files)?;
    let sum = |lines: fn(&Stat) -> usize| stats.iter().map(lines).sum();
    Ok(ChangedLines { added: sum(|stat| stat.added), removed: sum(|stat| stat.removed) })
}
