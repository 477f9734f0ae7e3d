//! The records of `usage`.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use turntree_exchange::{Spending, UsageGaps, UsageReport};

use crate::view::clock;

/// Costs are rounded to this fraction of a dollar.
const PARTS: f64 = 1e6;

/// `usage`.
#[derive(Serialize)]
pub(crate) struct UsageRecord {
    /// `session`, `branch`, `agent`, `model`, `day` or `tool`.
    pub(crate) by: &'static str,
    pub(crate) rows: Vec<UsageRow>,
    /// The sum of all rows.
    pub(crate) total: SpendingRecord,
    /// The part that is on no current branch.
    pub(crate) left_behind: SpendingRecord,
    /// Models without a price in the table.
    pub(crate) unpriced_models: Vec<String>,
    pub(crate) prices: PricesUsed,
    /// Turns whose messages were dropped and not counted.
    pub(crate) expired_turns: u64,
}

/// A row of `usage`.
#[derive(Serialize)]
pub(crate) struct UsageRow {
    pub(crate) name: String,
    /// The title of a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(flatten)]
    pub(crate) spending: SpendingRecord,
}

/// Usage of answers.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SpendingRecord {
    pub(crate) answers: u64,
    /// Input tokens, including cache reads and writes.
    pub(crate) input: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
    /// Of `cache_write`, cached for an hour.
    pub(crate) cache_write_1h: u64,
    /// Output tokens, including reasoning.
    pub(crate) output: u64,
    pub(crate) reasoning: u64,
    /// US dollars, as far as known; `null` if unknown.
    pub(crate) cost_usd: Option<f64>,
    /// The part recorded in transcripts.
    pub(crate) recorded_cost_usd: Option<f64>,
    /// Tokens without a cost.
    pub(crate) unpriced_tokens: u64,
    /// The vendor's web searches, which have a fee.
    pub(crate) web_searches: u64,
    /// Answers whose cost lacks a fee or a surcharge.
    pub(crate) partly_priced: u64,
}

/// `usage --check`.
#[derive(Serialize)]
pub(crate) struct UsageCheckRecord {
    /// Answers without token counts.
    pub(crate) without_tokens: u64,
    /// Answers with output tokens, but without input tokens.
    pub(crate) output_alone: u64,
    pub(crate) gaps: Vec<UsageGapsRecord>,
    /// Turns whose messages were dropped and not counted.
    pub(crate) expired_turns: u64,
}

/// Answers of a model in a session.
#[derive(Serialize)]
pub(crate) struct UsageGapsRecord {
    pub(crate) session: String,
    pub(crate) agent: String,
    pub(crate) model: String,
    pub(crate) answers: u64,
    pub(crate) without_tokens: u64,
    pub(crate) output_alone: u64,
    /// The time of the first of these.
    pub(crate) first: Option<String>,
}

impl UsageCheckRecord {
    /// The record of `gaps`.
    pub(crate) fn new(gaps: &[UsageGaps], expired_turns: u64) -> Self {
        let sum = |of: fn(&UsageGaps) -> u64| gaps.iter().map(of).sum();
        let record = |gaps: &UsageGaps| UsageGapsRecord {
            session: gaps.session.clone(),
            agent: gaps.agent.clone(),
            model: gaps.model.clone(),
            answers: gaps.answers,
            without_tokens: gaps.without_tokens,
            output_alone: gaps.output_alone,
            first: gaps.first.map(clock::rfc3339),
        };
        Self {
            without_tokens: sum(|gaps| gaps.without_tokens),
            output_alone: sum(|gaps| gaps.output_alone),
            gaps: gaps.iter().map(record).collect(),
            expired_turns,
        }
    }
}

/// The table of prices.
#[derive(Serialize)]
pub(crate) struct PricesUsed {
    /// The date of the prices.
    pub(crate) date: String,
    /// The file; `null` for the built-in table.
    pub(crate) file: Option<String>,
    /// True if the file adds to the built-in table.
    pub(crate) adds: bool,
}

impl UsageRecord {
    /// The record of `report`.
    pub(crate) fn new(
        by: &'static str,
        report: UsageReport,
        prices: PricesUsed,
        titles: &HashMap<String, String>,
    ) -> Self {
        let row = |(name, spending): (String, Spending)| UsageRow {
            title: titles.get(&name).cloned(),
            name,
            spending: SpendingRecord::new(&spending),
        };
        Self {
            by,
            rows: report.rows.into_iter().map(row).collect(),
            total: SpendingRecord::new(&report.total),
            left_behind: SpendingRecord::new(&report.left_behind),
            unpriced_models: report.unpriced_models.into_iter().collect(),
            prices,
            expired_turns: report.expired,
        }
    }
}

impl SpendingRecord {
    /// The record of `spending`.
    pub(crate) fn new(spending: &Spending) -> Self {
        let dollars = |cost: Option<f64>| cost.map(|cost| (cost * PARTS).round() / PARTS);
        let tokens = spending.tokens;
        Self {
            answers: spending.answers,
            input: tokens.input,
            cache_read: tokens.cache_read,
            cache_write: tokens.cache_write,
            cache_write_1h: tokens.cache_write_hour,
            output: tokens.output,
            reasoning: tokens.reasoning,
            cost_usd: dollars(spending.cost()),
            recorded_cost_usd: dollars(spending.recorded_cost),
            unpriced_tokens: spending.unpriced_tokens,
            web_searches: tokens.web_searches,
            partly_priced: spending.partly_priced,
        }
    }
}
