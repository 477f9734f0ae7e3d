//! `usage`: sums up token usage and costs.

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::repo::Repository;
use turntree_exchange::{
    Spending, TokenUsage, UsageBy, UsageGaps, UsageQuery, UsageReport, UsageScope, find_session,
    usage_gaps, usage_report,
};

use super::Verb;
use crate::porcelain::read::prices::{Prices, own_file};
use crate::porcelain::read::revision::{resolve, resolve_whole_entry};
use crate::porcelain::read::sessions::{TITLE_COLUMNS, titles};
use crate::program::complete::revisions;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::moment::moment;
use crate::view::output::{FAINT, NAME, Output, STRONG, warn};
use crate::view::render::spending::{bar, cost, dollars};
use crate::view::render::table::{Cell, Column, Table};
use crate::view::render::{count, one_line, short_number};
use crate::view::{clock, json};

/// Maximum number of models to name; the rest is counted.
const NAMED_MODELS: usize = 4;

/// Sum up token usage and costs
///
/// The numbers come from transcripts. Input includes tokens read from and written to a cache,
/// output includes reasoning. An answer is counted once, even if it has several records, or copies
/// on several branches and in several sessions. Usage of rolled-back and rewound turns is shown
/// separately.
///
/// A cost recorded in a transcript is used as it is. Other costs are computed with a dated price
/// table: FILE, otherwise 'turntree/prices.toml' in the configuration directory, otherwise the
/// built-in one. A file without a date adds models to the built-in table, as in
/// '[models."NAME"]', 'input = 1.0', 'output = 4.0' for a million tokens. A model without a price has no cost: '-' means that nothing is known, and '+' that
/// a cost is partial, because answers, a fee or a surcharge are missing. Days are in this machine's
/// time zone, as in --since; with TZ=UTC both are in UTC.
///
/// With --check it lists the answers without recorded tokens, which no sum includes, and exits with
/// 1 if there are any.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree usage
  turntree usage --all --since 7.days.ago
  turntree usage work --by tool
  turntree usage HEAD~3 --by branch
  turntree usage --all --by day --json | jq -r '.rows[] | [.name, .cost_usd] | @tsv'
  turntree usage --all --prices prices.toml
  turntree usage --all --check")]
pub(crate) struct Usage {
    /// A session with all its branches, or the history up to a snapshot; HEAD's session by default
    #[arg(value_name = "REV|SESSION", conflicts_with = "all", add = ArgValueCompleter::new(revisions))]
    what: Option<String>,
    /// One row for each of these; sessions with --all, otherwise models by default
    #[arg(long, value_name = "WHAT", value_parser = rows())]
    by: Option<String>,
    /// Only turns later than TIME, such as monday, 'last week' or 7d
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<i64>,
    /// Every session
    #[arg(long)]
    all: bool,
    /// A price table in TOML; - for standard input
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// List answers without recorded tokens; exit 1 if there are any
    #[arg(long, conflicts_with_all = ["by", "prices"])]
    check: bool,
}

fn rows() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(UsageBy::ALL.map(UsageBy::name))
}

impl Verb for Usage {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let prices = Prices::of(self.prices.as_deref())?;
        let repo = run.open()?;
        let asked = self.asked(&repo)?;
        let default = if self.all { UsageBy::Session } else { UsageBy::Model };
        let named = |name: &String| UsageBy::ALL.into_iter().find(|by| by.name() == name);
        let rows = self.by.as_ref().and_then(named).unwrap_or(default);
        let query = UsageQuery {
            scope: asked.scope(),
            by: rows,
            since: self.since,
            prices: &prices.table,
            day: &clock::day,
        };
        let report = usage_report(&repo, &query)?;
        let expired = report.expired;
        if self.check {
            let gaps = usage_gaps(&repo, &query)?;
            match run.out.json {
                true => run.out.record(&json::UsageCheckRecord::new(&gaps, expired))?,
                false => write_gaps(&mut run.out, &gaps)?,
            }
            warn_of_expired(expired);
            return Ok(if gaps.is_empty() { Answer::Yes } else { Answer::No });
        }
        let used = prices.used();
        let names = if rows == UsageBy::Session { titles(&repo)? } else { HashMap::new() };
        if run.out.json {
            run.out.record(&json::UsageRecord::new(rows.name(), report, used, &names))?;
        } else {
            write_text(&mut run.out, rows, &report, &used, &names)?;
        }
        warn_of_expired(expired);
        Ok(Answer::Yes)
    }
}

fn warn_of_expired(turns: u64) {
    if turns > 0 {
        let turns = count(turns, "turn");
        warn(&format!("the messages of {turns} are not kept and not counted"));
    }
}

/// Writes the answers without recorded tokens.
fn write_gaps(out: &mut Output, gaps: &[UsageGaps]) -> Result<()> {
    out.page();
    if gaps.is_empty() {
        writeln!(out, "{}", out.paint.paint(FAINT, "the tokens of every answer are recorded"))?;
        return Ok(());
    }
    let has_output_alone = gaps.iter().any(|gaps| gaps.output_alone > 0);
    let mut table = Table::of(vec![
        Column::name("session"),
        Column::name("agent").rank(3),
        Column::name("model").rank(2),
        Column::number("answers").rank(1),
        Column::number("no tokens"),
        Column::number(if has_output_alone { "output alone" } else { "" }),
        Column::title("first").rank(4),
    ]);
    for gaps in gaps {
        let output_alone = Some(gaps.output_alone).filter(|_| has_output_alone);
        table.row(vec![
            Cell::styled(NAME, one_line(&out.names().session(&gaps.session), usize::MAX)),
            one_line(&gaps.agent, usize::MAX).into(),
            one_line(&gaps.model, usize::MAX).into(),
            gaps.answers.to_string().into(),
            gaps.without_tokens.to_string().into(),
            output_alone.map(|count| count.to_string()).unwrap_or_default().into(),
            Cell::styled(FAINT, gaps.first.map(clock::rfc3339).unwrap_or_default()),
        ]);
    }
    table.write(out)?;
    Ok(())
}

/// The scope of a report.
enum Asked {
    All,
    Session(String),
    Line(String, turntree::object::ObjectId),
}

impl Asked {
    fn scope(&self) -> UsageScope<'_> {
        match self {
            Self::All => UsageScope::All,
            Self::Session(name) => UsageScope::Session(name),
            Self::Line(name, tip) => UsageScope::Line(name, *tip),
        }
    }
}

impl Usage {
    fn asked(&self, repo: &Repository) -> Result<Asked> {
        let Some(text) = self.what.as_deref() else {
            if self.all {
                return Ok(Asked::All);
            }
            return Ok(Asked::Session(repo.head()?.branch.session().to_owned()));
        };
        if repo.branches().iter().any(|(branch, _)| branch.session() == text) {
            return Ok(Asked::Session(text.to_owned()));
        }
        let revision = match resolve_whole_entry(repo, text) {
            Ok(_) => resolve(repo, text)?,
            Err(_) => match find_session(repo, text)? {
                Some(session) => return Ok(Asked::Session(session)),
                None => resolve(repo, text)?,
            },
        };
        let name = revision.branch.map_or_else(
            || text.to_owned(),
            |branch| format!("{}/{}", branch.session(), branch.branch()),
        );
        Ok(Asked::Line(name, revision.commit))
    }
}

fn write_text(
    out: &mut Output,
    rows: UsageBy,
    report: &UsageReport,
    prices: &json::PricesUsed,
    titles: &HashMap<String, String>,
) -> Result<()> {
    let UsageReport { total, left_behind, .. } = report;
    out.page();
    if report.rows.is_empty() {
        writeln!(out, "{}", out.paint.paint(FAINT, "no token counts recorded"))?;
        return Ok(());
    }
    let heading = |is_there: bool, text: &'static str| if is_there { text } else { "" };
    let mut table = Table::of(vec![
        Column::name(rows.name()),
        Column::number("answers").rank(6),
        Column::number("input").rank(3),
        Column::number("cache read").rank(4),
        Column::number("cache write").rank(5),
        Column::number(heading(total.tokens.cache_write_hour > 0, "of it 1h")).rank(8),
        Column::number("output").rank(2),
        Column::number(heading(total.tokens.reasoning > 0, "reasoning")).rank(7),
        Column::number(heading(total.tokens.web_searches > 0, "searches")).rank(9),
        Column::number("cost"),
        Column::text("").rank(2),
        Column::title(heading(!titles.is_empty(), "title")).at_least(TITLE_COLUMNS).rank(1),
    ]);
    // Days are compared by sight; other rows are in the order of their cost.
    let costs = report.rows.iter().filter_map(|(_, spending)| spending.cost());
    let most =
        if rows == UsageBy::Day { costs.fold(f64::MIN_POSITIVE, f64::max) } else { f64::MAX };
    let mut add = |style, name: &str, spending: &Spending, share: f64, title: &str| {
        let tokens = spending.tokens;
        let shown = |of: fn(&TokenUsage) -> u64| {
            let is_shown = of(&total.tokens) > 0;
            if is_shown { short_number(of(&tokens)) } else { String::new() }
        };
        table.row(vec![
            Cell::styled(style, one_line(name, usize::MAX)),
            spending.answers.to_string().into(),
            short_number(tokens.input).into(),
            short_number(tokens.cache_read).into(),
            short_number(tokens.cache_write).into(),
            shown(|tokens| tokens.cache_write_hour).into(),
            short_number(tokens.output).into(),
            shown(|tokens| tokens.reasoning).into(),
            shown(|tokens| tokens.web_searches).into(),
            cost(spending).into(),
            Cell::styled(NAME, bar(share)),
            Cell::styled(FAINT, one_line(title, usize::MAX)),
        ]);
    };
    for (name, spending) in &report.rows {
        let title = titles.get(name).map_or("", String::as_str);
        let share = spending.cost().unwrap_or_default() / most;
        add(NAME, &out.names().in_text(name), spending, share, title);
    }
    if report.rows.len() > 1 {
        add(STRONG, "total", total, 0.0, "");
    }
    table.write(out)?;
    if left_behind.answers > 0 {
        let tokens = short_number(left_behind.tokens.total());
        let cost = cost(left_behind);
        writeln!(out, "left behind by rollbacks and rewinds: {tokens} tokens, {cost}")?;
    }
    let paint = out.paint;
    for line in notes(report, prices) {
        writeln!(out, "{}", paint.paint(FAINT, line))?;
    }
    Ok(())
}

/// Notes on the source of the costs, and on usage without a cost.
fn notes(report: &UsageReport, prices: &json::PricesUsed) -> Vec<String> {
    let total = &report.total;
    let table = match &prices.file {
        Some(file) if prices.adds => {
            format!("list prices of {}, with those of {}", prices.date, one_line(file, usize::MAX))
        }
        Some(file) => format!("prices of {} in {}", prices.date, one_line(file, usize::MAX)),
        None => format!("list prices of {}; --prices FILE uses others", prices.date),
    };
    let mut notes = Vec::new();
    match (total.recorded_cost, total.priced_cost) {
        (Some(recorded), None) => {
            notes.push(format!("{}: as transcripts record it", dollars(recorded)));
        }
        (Some(recorded), Some(priced)) => {
            let (recorded, priced) = (dollars(recorded), dollars(priced));
            notes.push(format!("{recorded} as transcripts record it, {priced} by {table}"));
        }
        (None, Some(_)) => notes.push(table.clone()),
        (None, None) => {}
    }
    if total.unpriced_tokens > 0 {
        let tokens = short_number(total.unpriced_tokens);
        let mut models: Vec<String> =
            report.unpriced_models.iter().map(|name| one_line(name, usize::MAX)).collect();
        let more = models.len().saturating_sub(NAMED_MODELS);
        models.truncate(NAMED_MODELS);
        let models = models.join(", ");
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        let file = prices.file.clone().unwrap_or_else(own_file);
        let file = one_line(&file, usize::MAX);
        notes.push(format!(
            "no price for {tokens} tokens of {models}{rest}: [models.\"NAME\"] in {file} adds one"
        ));
    }
    if total.partly_priced > 0 {
        let answers = count(total.partly_priced, "answer");
        notes.push(format!("no price for a fee or a surcharge of {answers}"));
    }
    notes
}
