//! Shows an exploration: its events, the running trials on a terminal, and the ranked table.

use std::io::Write;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use turntree::repo::{Exploration, Repository, Trial, TrialEnd};

use super::trial;
use crate::porcelain::read::comparison::{Compared, Line};
use crate::porcelain::read::explorations::{is_driven, state_of};
use crate::porcelain::read::prices::Prices;
use crate::program::invocation::Invocation;
use crate::view::clock;
use crate::view::error::Result;
use crate::view::output::{ADDED, FAINT, NAME, Output, REMOVED};
use crate::view::render::spending::cost;
use crate::view::render::table::{Cell, Column, Table};
use crate::view::render::{count, harmless, one_line, short_number};

/// Shown for an unknown value.
const UNKNOWN: &str = "-";

/// The interval between two frames on a terminal.
const FRAME: Duration = Duration::from_millis(250);

/// The most columns of a name in a line of a running trial.
const NAME_COLUMNS: usize = 40;

/// Shows events as lines, and running trials below them if stderr is a terminal.
pub(super) struct Events {
    lines: MultiProgress,
    bars: Vec<(usize, ProgressBar)>,
    shown: Instant,
}

impl Events {
    pub(super) fn begin() -> Self {
        Self { lines: MultiProgress::new(), bars: Vec::new(), shown: Instant::now() }
    }

    /// A trial begins in `dir`.
    pub(super) fn begins(
        &mut self,
        run: &mut Invocation,
        exploration: &Exploration,
        place: usize,
        dir: &str,
    ) -> Result<()> {
        let trial = trial::at(exploration, place)?;
        let bar = self.lines.add(ProgressBar::new_spinner());
        bar.set_style(ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| {
            // The template is fixed, so it is valid.
            ProgressStyle::default_spinner()
        }));
        self.bars.push((place, bar));
        let dir = harmless(dir);
        self.say(
            run,
            &format!("{}{} begins in {dir}", name(run, trial), round_of(exploration, trial)),
        )
    }

    /// A trial has ended.
    pub(super) fn ends(
        &mut self,
        run: &mut Invocation,
        exploration: &Exploration,
        place: usize,
    ) -> Result<()> {
        let trial = trial::at(exploration, place)?;
        self.bars.retain(|(of, bar)| {
            if *of == place {
                bar.finish_and_clear();
            }
            *of != place
        });
        let Some(outcome) = &trial.outcome else { return Ok(()) };
        let verdict = match outcome.passed {
            true => run.out.paint.paint(ADDED, "passed").to_string(),
            false => run.out.paint.paint(REMOVED, "failed").to_string(),
        };
        let score = outcome.score.map_or_else(String::new, |score| format!(", score {score}"));
        let end = match outcome.end {
            TrialEnd::Exit(0) => String::new(),
            end => format!(", {}", words(end)),
        };
        let time = length(outcome.elapsed_ms);
        let line = format!(
            "{}{} {verdict}{score}{end}, {time}",
            name(run, trial),
            round_of(exploration, trial)
        );
        self.say(run, &line)
    }

    /// Shows the running trials with the times when they began.
    pub(super) fn show(
        &mut self,
        exploration: &Exploration,
        running: impl Iterator<Item = (usize, Instant)>,
    ) {
        if self.bars.is_empty() || self.shown.elapsed() < FRAME {
            return;
        }
        self.shown = Instant::now();
        for (place, began) in running {
            let bar = self.bars.iter().find(|(of, _)| *of == place);
            let Some((bar, trial)) = bar.map(|(_, bar)| bar).zip(exploration.trials.get(place))
            else {
                continue;
            };
            let time = length(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
            let name = one_line(trial.branch.branch(), NAME_COLUMNS);
            bar.set_message(format!("{name}{} {time}", round_of(exploration, trial)));
            bar.tick();
        }
    }

    fn say(&self, run: &mut Invocation, line: &str) -> Result<()> {
        if run.out.json {
            return Ok(());
        }
        let out = &mut run.out;
        Ok(self.lines.suspend(|| writeln!(out, "{line}").and_then(|()| out.flush()))?)
    }
}

/// The ranked trials of an exploration, with the figures of their branches.
pub(crate) fn write(out: &mut Output, repo: &Repository, exploration: &Exploration) -> Result<()> {
    let trials = shown(exploration);
    let present: Vec<&Trial> =
        trials.iter().copied().filter(|trial| repo.tip(&trial.branch).is_some()).collect();
    let lines: Vec<Line> = present
        .iter()
        .filter_map(|trial| {
            let tip = repo.tip(&trial.branch)?;
            let name = trial.branch.branch().to_owned();
            Some(Line { name, branch: Some(trial.branch.clone()), tip })
        })
        .collect();
    let is_driven = is_driven(repo, exploration);
    writeln!(out, "{}", headline(exploration, is_driven))?;
    let compared = match lines.is_empty() {
        true => None,
        false => Some(Compared::of(repo, lines, &Prices::of(None)?.table)?),
    };
    let mut columns = vec![Column::name("strategy"), Column::text("outcome")];
    let headings =
        ["score", "turns", "tools", "tokens", "cost", "files", "added", "removed", "time"];
    columns.extend(headings.iter().zip(1..).map(|(name, rank)| Column::number(name).rank(rank)));
    columns.push(Column::text(""));
    let mut table = Table::of(columns);
    let best = exploration.best().and_then(|best| exploration.trials.get(best));
    for trial in &trials {
        let figures = compared.as_ref().and_then(|compared| {
            let place = present.iter().position(|it| it.branch == trial.branch)?;
            Some((compared.comparison.strategies.get(place)?, compared.counted.get(place)?))
        });
        let outcome = trial.outcome.as_ref();
        let (style, state) = match state_of(repo, trial, is_driven) {
            "passed" => (ADDED, "passed"),
            "failed" => (REMOVED, "failed"),
            state => (FAINT, state),
        };
        let state = match outcome.map(|outcome| outcome.end) {
            Some(TrialEnd::Exit(0)) | None => state.to_owned(),
            Some(end) => format!("{state}, {}", words(end)),
        };
        let mut cells = vec![Cell::styled(NAME, trial.branch.branch()), Cell::styled(style, state)];
        let unknown = || UNKNOWN.to_owned();
        cells.push(outcome.and_then(|it| it.score).map_or_else(unknown, |s| s.to_string()).into());
        let [turns, tools, tokens, money, files, added, removed] = match figures {
            Some((strategy, lines)) => [
                strategy.turns.to_string(),
                strategy.tool_calls.to_string(),
                strategy.spending.map_or_else(unknown, |it| short_number(it.tokens.total())),
                strategy.spending.as_ref().map_or_else(unknown, cost),
                strategy.files.changes.len().to_string(),
                format!("+{}", lines.added),
                format!("-{}", lines.removed),
            ],
            None => [(); 7].map(|()| unknown()),
        };
        cells.extend([turns, tools, tokens, money, files, added, removed].map(Cell::from));
        cells.push(outcome.map_or_else(unknown, |outcome| length(outcome.elapsed_ms)).into());
        let is_best = best.is_some_and(|best| best.branch == trial.branch);
        cells.push(if is_best { Cell::styled(ADDED, "best") } else { "".into() });
        table.row(cells);
    }
    table.write(out)?;
    let advice = advice(exploration, is_driven);
    if let Some(advice) = advice {
        writeln!(out, "{}", out.paint.paint(FAINT, advice))?;
    }
    Ok(())
}

/// The newest trial of each branch, the best first and those without an outcome last.
fn shown(exploration: &Exploration) -> Vec<&Trial> {
    let mut shown: Vec<&Trial> = Vec::new();
    let newest = |trial: &Trial| exploration.trials.iter().rfind(|it| it.branch == trial.branch);
    let ranked = exploration.ranked();
    let ranked = ranked.iter().filter_map(|place| exploration.trials.get(*place));
    for trial in ranked.chain(&exploration.trials).filter_map(newest) {
        if !shown.iter().any(|known| known.branch == trial.branch) {
            shown.push(trial);
        }
    }
    shown
}

fn headline(exploration: &Exploration, is_driven: bool) -> String {
    let Exploration { name, plan, .. } = exploration;
    let strategies = count(plan.strategies.len() as u64, "strategy");
    let rounds = match plan.rounds {
        1 => String::new(),
        rounds => format!(", round {} of {rounds}", exploration.round()),
    };
    let state = match (exploration.is_over(), is_driven) {
        (true, _) => "",
        (false, true) => ", running",
        (false, false) => ", not finished",
    };
    format!("exploration {}: {strategies}{rounds}{state}", harmless(name))
}

fn advice(exploration: &Exploration, is_driven: bool) -> Option<String> {
    let name = harmless(&exploration.name);
    match (exploration.is_over(), is_driven, exploration.best()) {
        (_, true, _) => None,
        (false, false, _) => Some(format!("'turntree explore continue {name}' continues it")),
        (true, false, Some(_)) => Some(format!(
            "'turntree explore keep {name}' merges the best one with its files; \
             'turntree compare --align' shows where they part"
        )),
        (true, false, None) => {
            Some("none passed; 'turntree compare --align' shows where they part".to_owned())
        }
    }
}

fn words(end: TrialEnd) -> String {
    match end {
        TrialEnd::Exit(code) => format!("exit code {code}"),
        TrialEnd::Signal => "ended by a signal".to_owned(),
        TrialEnd::Timeout => "timed out".to_owned(),
        TrialEnd::Budget => "ended by the budget".to_owned(),
        TrialEnd::NotStarted => "not started".to_owned(),
    }
}

fn name(run: &Invocation, trial: &Trial) -> String {
    run.out.paint.paint(NAME, trial.branch.branch()).to_string()
}

fn round_of(exploration: &Exploration, trial: &Trial) -> String {
    match exploration.plan.rounds {
        1 => String::new(),
        _ => format!(" in round {}", trial.round),
    }
}

fn length(millis: u64) -> String {
    clock::length(i64::try_from(millis).unwrap_or(i64::MAX).saturating_mul(1000))
}
