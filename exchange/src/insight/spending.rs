//! What models took, and what it cost: by session, branch, agent, model, day or tool.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use turntree::error::Result;
use turntree::object::{Commit, ObjectId, ObjectSource, Time};
use turntree::repo::Repository;

use super::answers::{Answer, AnswerCounter, AnswerGroup, Answers, TurnPlace, key_in};
use super::prices::{Price, PriceTable, TableCost};
use super::session_answers::{line_answers, session_answers};
use super::turn_diff::{TurnDiff, repeats};
use super::usage::TokenUsage;

/// Stands for what nobody says, and for no tool.
const NONE: &str = "-";

/// Microseconds in a second.
const SECOND: i64 = 1_000_000;

/// What is asked about.
#[derive(Debug, Clone, Copy)]
pub enum UsageScope<'a> {
    /// Every session.
    All,
    /// The branches of a session.
    Session(&'a str),
    /// The line of first parents that ends in a snapshot of a session.
    Line(&'a str, ObjectId),
}

/// What the rows of a report are.
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
    /// Tools that answers call; those of one answer stand together: `Read+Bash`.
    Tool,
}

impl UsageBy {
    /// Every kind of row.
    pub const ALL: [Self; 6] =
        [Self::Session, Self::Branch, Self::Agent, Self::Model, Self::Day, Self::Tool];

    /// The name in commands and records.
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

/// How to ask.
#[derive(Clone, Copy)]
pub struct UsageQuery<'a> {
    /// What is asked about.
    pub scope: UsageScope<'a>,
    /// What the rows are.
    pub by: UsageBy,
    /// The moment in microseconds before which nothing counts.
    pub since: Option<i64>,
    /// What models cost.
    pub prices: &'a PriceTable,
    /// The day of a moment as people write it: `2026-11-23`.
    pub day: &'a dyn Fn(Time) -> String,
}

/// What answers took, and what they cost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spending {
    /// Answers of models.
    pub answers: u64,
    /// Their tokens.
    pub tokens: TokenUsage,
    /// The cost in US dollars that their records say; `None` when none says any.
    pub recorded_cost: Option<f64>,
    /// The cost in US dollars of others, by the table; `None` when it has no price of any.
    pub priced_cost: Option<f64>,
    /// Tokens of answers that have neither.
    pub unpriced_tokens: u64,
    /// Answers whose cost by the table lacks a fee or a surcharge.
    pub partly_priced: u64,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UsageReport {
    /// The rows: days in their order, others with the highest cost first.
    pub rows: Vec<(String, Spending)>,
    /// Their sum.
    pub total: Spending,
    /// Of this, what is on no line that goes on: a rollback took it back, or the conversation left
    /// the branch.
    pub left_behind: Spending,
    /// Models that the table has no price of and whose records say no cost.
    pub unpriced_models: BTreeSet<String>,
    /// Turns whose content was dropped: nothing of them is counted.
    pub expired: u64,
}

impl Spending {
    /// Sums up the answers of `counter`; `None` without any.
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

    /// The whole cost in US dollars, as far as it is known; `None` when nothing is.
    #[must_use]
    pub fn cost(&self) -> Option<f64> {
        match (self.recorded_cost, self.priced_cost) {
            (Some(recorded), Some(priced)) => Some(recorded + priced),
            (recorded, priced) => recorded.or(priced),
        }
    }

    /// Returns whether the cost is that of all that was taken.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.unpriced_tokens == 0 && self.partly_priced == 0
    }

    /// Adds `other`.
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

    /// Adds an answer, with its cost by a table where it says none itself.
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

/// Prices by model: a model is looked up once, not for each of its answers.
struct KnownPrices<'a> {
    table: &'a PriceTable,
    known: HashMap<&'a str, Option<&'a Price>>,
}

impl<'a> KnownPrices<'a> {
    fn new(table: &'a PriceTable) -> Self {
        Self { table, known: HashMap::new() }
    }

    /// The cost of an answer by the table; `None` when it says its own, or none can be known. Clients record
    /// zero for a model whose price they do not know, and for one that a subscription pays.
    fn cost(&mut self, group: &'a AnswerGroup, answer: &Answer) -> Option<TableCost> {
        if answer.cost.is_some_and(|cost| cost > 0.0) || group.is_output_alone {
            return None;
        }
        let look_up = || self.table.price(&group.model);
        let price = *self.known.entry(&group.model).or_insert_with(look_up);
        price?.cost(&TokenUsage::of(answer.counts), &group.service)
    }
}

/// An answer with all that a row may be of.
struct Asked<'a> {
    session: &'a str,
    group: &'a AnswerGroup,
    answer: Answer,
}

/// Returns what models took in a part of a store. An answer that several branches or sessions of
/// the part have is counted once, on a line that goes on where it is on one.
///
/// # Errors
/// `NotFound` or `Corrupt`, naming what cannot be read.
pub fn usage_report(repo: &Repository, query: &UsageQuery<'_>) -> Result<UsageReport> {
    let sessions = answers_in(repo, query.scope)?;
    Ok(UsageReport {
        expired: sessions.iter().map(|(_, answers)| answers.expired).sum(),
        ..report(&sessions, query)
    })
}

/// Returns the answers of a part of a store by session.
fn answers_in(repo: &Repository, scope: UsageScope<'_>) -> Result<Vec<(String, Answers)>> {
    let mut sessions = match scope {
        UsageScope::All => session_answers(repo, None)?,
        UsageScope::Session(session) => session_answers(repo, Some(session))?,
        UsageScope::Line(branch, tip) => {
            let (session, branch) = branch.split_once('/').unwrap_or((branch, NONE));
            vec![(session.to_owned(), line_answers(repo, branch, tip)?)]
        }
    };
    // A copy goes on longer than what it is a copy of.
    sessions.sort_by_key(|(_, it)| it.answers.last().map(|answer| answer.second));
    Ok(sessions)
}

/// Answers of a model in a session, and what their records do not say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageGaps {
    /// The session.
    pub session: String,
    /// The format and the agent in it.
    pub agent: String,
    /// The model, or `-`.
    pub model: String,
    /// All answers.
    pub answers: u64,
    /// Of these, answers that say nothing of tokens.
    pub without_tokens: u64,
    /// Answers that say what came out, and not what went in.
    pub output_alone: u64,
    /// When the first of those two was given.
    pub first: Option<Time>,
}

/// Returns, by session, agent and model, the answers of a part of a store whose records do not say what
/// they took. Each answer counts once, as in [`usage_report`].
///
/// # Errors
/// `NotFound` or `Corrupt`, naming what cannot be read.
pub fn usage_gaps(repo: &Repository, query: &UsageQuery<'_>) -> Result<Vec<UsageGaps>> {
    let sessions = answers_in(repo, query.scope)?;
    let mut gaps: BTreeMap<(&str, &str, &str), UsageGaps> = BTreeMap::new();
    for Asked { session, group, answer } in asked(&sessions, query.since) {
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

/// Returns what the answers of a turn took; `None` when it has none that says. A compaction, a merge
/// and a rollback have none of their own.
///
/// # Errors
/// `NotFound` or `Corrupt`, naming what cannot be read.
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
    for Asked { session, group, answer } in asked(sessions, query.since) {
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

/// The oldest session that the family of `session` begins with, as far as sessions are known. In a
/// circle it is the last one of as many steps as there are sessions.
fn oldest<'a>(parents: &HashMap<&'a str, &'a str>, session: &'a str) -> &'a str {
    let above = std::iter::successors(Some(session), |session| parents.get(session).copied());
    above.take(parents.len() + 1).last().unwrap_or(session)
}

/// Each answer once: where it is on a line that goes on, else in the session that asked.
fn asked(sessions: &[(String, Answers)], since: Option<i64>) -> Vec<Asked<'_>> {
    let parents = sessions.iter().flat_map(|(_, answers)| &answers.parents);
    let parents: HashMap<&str, &str> =
        parents.map(|(session, parent)| (session.as_str(), parent.as_str())).collect();
    let mut families: HashMap<&str, &str> = HashMap::new();
    let mut places: HashMap<u64, usize> = HashMap::new();
    let mut asked: Vec<Asked<'_>> = Vec::new();
    for (session, Answers { groups, answers, .. }) in sessions {
        for answer in answers {
            if since.is_some_and(|since| answer.second.saturating_mul(SECOND) < since) {
                continue;
            }
            let Some(group) = group_of(groups, answer) else { continue };
            let mut found = Asked { session, group, answer: *answer };
            let family = *families
                .entry(group.family.as_str())
                .or_insert_with(|| oldest(&parents, &group.family));
            let key = key_in(family, answer.key);
            let Some(known) = places.get(&key).and_then(|at| asked.get_mut(*at)) else {
                places.insert(key, asked.len());
                asked.push(found);
                continue;
            };
            // A copy may be of a time when the answer was not whole.
            let tokens = TokenUsage::of(known.answer.counts).larger(TokenUsage::of(answer.counts));
            // The session that asked is the one whose turn it is, and that had it first.
            let rank = |it: &Asked<'_>| {
                let Asked { session, group, answer } = it;
                (group.is_silent, group.is_left, group.session != *session, answer.second)
            };
            if rank(&found) < rank(known) {
                found.answer.cost = found.answer.cost.or(known.answer.cost);
                *known = found;
            }
            known.answer.counts = tokens.counts();
        }
    }
    asked
}
