//! Reports the usage and cost of models, by session, branch, agent, model, day or tool.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use turntree::error::Result;
use turntree::object::{Commit, ObjectId, ObjectSource, Time};
use turntree::repo::Repository;

use super::answers::{Answer, AnswerCounter, AnswerGroup, Answers, TurnPlace, family_key};
use super::prices::{Price, PriceTable, TableCost};
use super::session_answers::{line_answers, session_answers};
use super::turn_diff::{TurnDiff, repeats};
use super::usage::TokenUsage;

/// The name of an unknown value, and of answers without a tool.
const NONE: &str = "-";

/// Microseconds in a second.
const SECOND: i64 = 1_000_000;

/// The part of a store to report on.
#[derive(Debug, Clone, Copy)]
pub enum UsageScope<'a> {
    /// Every session.
    All,
    /// The branches of a session.
    Session(&'a str),
    /// The first-parent line of a snapshot of a session.
    Line(&'a str, ObjectId),
}

/// The grouping of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageBy {
    /// Sessions.
    Session,
    /// Branches, as `session/branch`.
    Branch,
    /// Agents, as `format/agent`.
    Agent,
    /// Models.
    Model,
    /// Days.
    Day,
    /// Combinations of tools that an answer calls: `Read+Bash`.
    Tool,
}

impl UsageBy {
    /// All groupings.
    pub const ALL: [Self; 6] =
        [Self::Session, Self::Branch, Self::Agent, Self::Model, Self::Day, Self::Tool];

    /// Returns the name in commands and records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Branch => "branch",
            Self::Agent => "agent",
            Self::Model => "model",
            Self::Day => "day",
            Self::Tool => "tool",
        }
    }
}

/// The options of a report.
#[derive(Clone, Copy)]
pub struct UsageQuery<'a> {
    /// The part of the store.
    pub scope: UsageScope<'a>,
    /// The grouping.
    pub by: UsageBy,
    /// Only answers from this time on, in microseconds.
    pub since: Option<i64>,
    /// The prices of the models.
    pub prices: &'a PriceTable,
    /// Formats the day of a time: `2026-11-23`.
    pub day: &'a dyn Fn(Time) -> String,
}

/// The usage and cost of some answers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spending {
    /// The number of answers.
    pub answers: u64,
    /// Their tokens.
    pub tokens: TokenUsage,
    /// The sum of the recorded costs in US dollars. `None` if no answer has one.
    pub recorded_cost: Option<f64>,
    /// The cost in US dollars of the other answers, according to the table. `None` if the table has
    /// no price for any of them.
    pub priced_cost: Option<f64>,
    /// Tokens of answers that have neither a recorded cost nor a price.
    pub unpriced_tokens: u64,
    /// Number of answers whose cost by the table lacks a fee or a surcharge.
    pub partly_priced: u64,
}

/// A usage report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UsageReport {
    /// The rows: days in order, other rows by descending cost.
    pub rows: Vec<(String, Spending)>,
    /// The sum of the rows.
    pub total: Spending,
    /// The part of the sum on abandoned lines: rolled-back turns, and branches that the
    /// conversation left.
    pub left_behind: Spending,
    /// Models without a recorded cost and without a price in the table.
    pub unpriced_models: BTreeSet<String>,
    /// Number of turns whose content expired. Their answers are not counted.
    pub expired: u64,
}

impl Spending {
    /// Sums the answers of `counter`. `None` if there are none.
    pub(super) fn of(counter: AnswerCounter, prices: &PriceTable) -> Option<Self> {
        let Answers { groups, answers, .. } = counter.finish(0);
        let mut sum = Self::default();
        let mut known = KnownPrices::new(prices);
        for answer in answers {
            let Some(group) = group_of(&groups, &answer).filter(|group| !group.is_silent) else {
                continue;
            };
            sum.add(&answer, known.cost(group, &answer));
        }
        (sum.answers > 0).then_some(sum)
    }

    /// Returns the total known cost in US dollars, or `None` if no cost is known.
    #[must_use]
    pub fn cost(&self) -> Option<f64> {
        match (self.recorded_cost, self.priced_cost) {
            (Some(recorded), Some(priced)) => Some(recorded + priced),
            (recorded, priced) => recorded.or(priced),
        }
    }

    /// Returns true if the cost covers all usage.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.unpriced_tokens == 0 && self.partly_priced == 0
    }

    /// Returns the sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let sum = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        Self {
            answers: self.answers.saturating_add(other.answers),
            tokens: self.tokens.plus(other.tokens),
            recorded_cost: sum(self.recorded_cost, other.recorded_cost),
            priced_cost: sum(self.priced_cost, other.priced_cost),
            unpriced_tokens: self.unpriced_tokens.saturating_add(other.unpriced_tokens),
            partly_priced: self.partly_priced.saturating_add(other.partly_priced),
        }
    }

    /// Adds an answer. `priced` is its cost by the table, if it has no recorded cost.
    fn add(&mut self, answer: &Answer, priced: Option<TableCost>) {
        let tokens = TokenUsage::of(answer.counts);
        self.answers += 1;
        self.tokens = self.tokens.plus(tokens);
        if let Some(TableCost { dollars, lacks_part }) = priced {
            self.priced_cost = Some(self.priced_cost.unwrap_or(0.0) + dollars);
            self.partly_priced += u64::from(lacks_part);
        } else if let Some(cost) = answer.cost {
            self.recorded_cost = Some(self.recorded_cost.unwrap_or(0.0) + cost);
        } else {
            self.unpriced_tokens = self.unpriced_tokens.saturating_add(tokens.total());
        }
    }
}

/// Caches the prices, so that each model is looked up once instead of once per answer.
struct KnownPrices<'a> {
    table: &'a PriceTable,
    known: HashMap<&'a str, Option<&'a Price>>,
}

impl<'a> KnownPrices<'a> {
    fn new(table: &'a PriceTable) -> Self {
        Self { table, known: HashMap::new() }
    }

    /// Returns the cost of an answer by the table, or `None` if the answer has a recorded cost or
    /// no price is known. A recorded zero does not count: clients record it for unknown prices and
    /// for subscriptions.
    fn cost(&mut self, group: &'a AnswerGroup, answer: &Answer) -> Option<TableCost> {
        if answer.cost.is_some_and(|cost| cost > 0.0) || group.is_output_alone {
            return None;
        }
        let look_up = || self.table.price(&group.model);
        let price = *self.known.entry(&group.model).or_insert_with(look_up);
        price?.cost(&TokenUsage::of(answer.counts), &group.service)
    }
}

/// An answer with its session and group.
struct SessionAnswer<'a> {
    session: &'a str,
    group: &'a AnswerGroup,
    answer: Answer,
}

/// Returns the usage of a part of a store. Counts an answer that several branches or sessions share
/// once, if possible on a line that was not abandoned.
///
/// # Errors
/// `NotFound` or `Corrupt`, with the id of the unreadable object.
pub fn usage_report(repo: &Repository, query: &UsageQuery<'_>) -> Result<UsageReport> {
    let sessions = answers_in(repo, query.scope)?;
    Ok(UsageReport {
        expired: sessions.iter().map(|(_, answers)| answers.expired).sum(),
        ..report(&sessions, query)
    })
}

/// Returns the answers of a part of a store, by session.
fn answers_in(repo: &Repository, scope: UsageScope<'_>) -> Result<Vec<(String, Answers)>> {
    let mut sessions = match scope {
        UsageScope::All => session_answers(repo, None)?,
        UsageScope::Session(session) => session_answers(repo, Some(session))?,
        UsageScope::Line(branch, tip) => {
            let (session, branch) = branch.split_once('/').unwrap_or((branch, NONE));
            vec![(session.to_owned(), line_answers(repo, branch, tip)?)]
        }
    };
    // Process originals before their copies: a copy has newer answers.
    sessions.sort_by_key(|(_, it)| it.answers.last().map(|answer| answer.second));
    Ok(sessions)
}

/// The answers of a model in a session, with the number of answers without usage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageGaps {
    /// The session.
    pub session: String,
    /// The format and the agent.
    pub agent: String,
    /// The model, or `-`.
    pub model: String,
    /// Number of answers.
    pub answers: u64,
    /// Number of answers without tokens.
    pub without_tokens: u64,
    /// Number of answers that record output tokens but no input tokens.
    pub output_alone: u64,
    /// The time of the first answer without tokens or without input tokens.
    pub first: Option<Time>,
}

/// Returns the answers of a part of a store whose records have no or incomplete usage, by session,
/// agent and model. Counts each answer once, like [`usage_report`].
///
/// # Errors
/// `NotFound` or `Corrupt`, with the id of the unreadable object.
pub fn usage_gaps(repo: &Repository, query: &UsageQuery<'_>) -> Result<Vec<UsageGaps>> {
    let sessions = answers_in(repo, query.scope)?;
    let mut gaps: BTreeMap<(&str, &str, &str), UsageGaps> = BTreeMap::new();
    for SessionAnswer { session, group, answer } in distinct_answers(&sessions, query.since) {
        let model = if group.model.is_empty() { NONE } else { &group.model };
        let found = gaps.entry((session, &group.agent, model)).or_insert_with(|| UsageGaps {
            session: session.to_owned(),
            agent: group.agent.clone(),
            model: model.to_owned(),
            ..UsageGaps::default()
        });
        found.answers += 1;
        found.without_tokens += u64::from(group.is_silent);
        found.output_alone += u64::from(group.is_output_alone);
        if group.is_silent || group.is_output_alone {
            let micros = answer.second.saturating_mul(SECOND);
            let earlier = found.first.is_some_and(|first| first.micros <= micros);
            found.first =
                found.first.filter(|_| earlier).or(Some(Time { micros, offset_minutes: 0 }));
        }
    }
    let has_gap = |gaps: &UsageGaps| gaps.without_tokens > 0 || gaps.output_alone > 0;
    Ok(gaps.into_values().filter(has_gap).collect())
}

/// Returns the usage of the answers of a turn, or `None` if no answer records it. Compactions,
/// merges and rollbacks have no answers of their own.
///
/// # Errors
/// `NotFound` or `Corrupt`, with the id of the unreadable object.
pub(crate) fn turn_spending(
    source: &dyn ObjectSource,
    commit: &Commit,
    diff: &TurnDiff,
    prices: &PriceTable,
) -> Result<Option<Spending>> {
    if repeats(commit) {
        return Ok(None);
    }
    let mut counter = AnswerCounter::default();
    let turn = TurnPlace { branch: "", is_left: false, commit };
    counter.add_turn(source, turn, &diff.after, &diff.changed)?;
    Ok(Spending::of(counter, prices))
}

fn report(sessions: &[(String, Answers)], query: &UsageQuery<'_>) -> UsageReport {
    let mut report = UsageReport::default();
    let mut rows: BTreeMap<String, Spending> = BTreeMap::new();
    let mut prices = KnownPrices::new(query.prices);
    for SessionAnswer { session, group, answer } in distinct_answers(sessions, query.since) {
        if group.is_silent {
            continue;
        }
        let priced = prices.cost(group, &answer);
        let or_none = |text: &str| if text.is_empty() { NONE } else { text }.to_owned();
        if answer.cost.is_none() && priced.is_none() {
            report.unpriced_models.insert(or_none(&group.model));
        }
        let name = match query.by {
            UsageBy::Session => session.to_owned(),
            UsageBy::Branch if group.branch == NONE => session.to_owned(),
            UsageBy::Branch => format!("{session}/{}", group.branch),
            UsageBy::Agent => group.agent.clone(),
            UsageBy::Model => or_none(&group.model),
            UsageBy::Tool => or_none(&group.tools),
            UsageBy::Day => {
                let micros = answer.second.saturating_mul(SECOND);
                (query.day)(Time { micros, offset_minutes: 0 })
            }
        };
        let add = |spending: &mut Spending| spending.add(&answer, priced);
        add(rows.entry(name).or_default());
        add(&mut report.total);
        if group.is_left {
            add(&mut report.left_behind);
        }
    }
    report.rows = rows.into_iter().collect();
    if query.by != UsageBy::Day {
        report.rows.sort_by(|(_, a), (_, b)| {
            let cost = |it: &Spending| it.cost().unwrap_or(-1.0);
            cost(b).total_cmp(&cost(a)).then_with(|| b.tokens.total().cmp(&a.tokens.total()))
        });
    }
    report
}

fn group_of<'a>(groups: &'a [AnswerGroup], answer: &Answer) -> Option<&'a AnswerGroup> {
    groups.get(usize::try_from(answer.group).ok()?)
}

/// Returns the oldest known ancestor of `session` among the copied sessions. Terminates on cycles
/// after as many steps as there are sessions.
fn oldest_ancestor<'a>(parents: &HashMap<&'a str, &'a str>, session: &'a str) -> &'a str {
    let above = std::iter::successors(Some(session), |session| parents.get(session).copied());
    above.take(parents.len() + 1).last().unwrap_or(session)
}

/// Returns each answer once: on a line that was not abandoned if possible, else in the session that
/// made the request.
fn distinct_answers(sessions: &[(String, Answers)], since: Option<i64>) -> Vec<SessionAnswer<'_>> {
    let parents = sessions.iter().flat_map(|(_, answers)| &answers.parents);
    let parents: HashMap<&str, &str> =
        parents.map(|(session, parent)| (session.as_str(), parent.as_str())).collect();
    let mut families: HashMap<&str, &str> = HashMap::new();
    let mut places: HashMap<u64, usize> = HashMap::new();
    let mut distinct: Vec<SessionAnswer<'_>> = Vec::new();
    for (session, Answers { groups, answers, .. }) in sessions {
        for answer in answers {
            if since.is_some_and(|since| answer.second.saturating_mul(SECOND) < since) {
                continue;
            }
            let Some(group) = group_of(groups, answer) else { continue };
            let mut found = SessionAnswer { session, group, answer: *answer };
            let family = *families
                .entry(group.family.as_str())
                .or_insert_with(|| oldest_ancestor(&parents, &group.family));
            let key = family_key(family, answer.key);
            let Some(known) = places.get(&key).and_then(|at| distinct.get_mut(*at)) else {
                places.insert(key, distinct.len());
                distinct.push(found);
                continue;
            };
            // The copy may have been taken before the answer was complete.
            let tokens = TokenUsage::of(known.answer.counts).larger(TokenUsage::of(answer.counts));
            // The session that made the request has the turn itself, and has it first.
            let rank = |it: &SessionAnswer<'_>| {
                let SessionAnswer { session, group, answer } = it;
                (group.is_silent, group.is_left, group.session != *session, answer.second)
            };
            if rank(&found) < rank(known) {
                found.answer.cost = found.answer.cost.or(known.answer.cost);
                *known = found;
            }
            known.answer.counts = tokens.counts();
        }
    }
    distinct
}
