//! Counts the total of a file whose answers record no usage.
//!
//! Some formats record tokens or costs of a whole run, next to those of each answer or instead of
//! them. A total covers the answers, so it counts only if no answer of the session has usage. Then
//! it counts as one answer.

use memchr::memmem::find;
use serde_json::Value;
use turntree::context::{MAIN_AGENT, SourceEntry, SourceKind};
use turntree::error::Result;
use turntree::object::ObjectSource;
use turntree::tree::Item;

use super::{AnswerCounter, AnswerKey, OpenAnswer, TurnPlace, content};
use crate::insight::usage::{RecordedUsage, TokenUsage};
use crate::text::json;

/// The formats that record the usage of a whole run.
pub(super) const FORMATS_WITH_TOTALS: [&str; 3] = ["atif", "mini-swe-agent", "swe-agent"];

/// Every total contains one of these.
const MARKS: [&[u8]; 2] = [b"\"instance_cost\"", b"\"total_"];

/// Names of the counts of a total: of ATIF, and of SWE-agent and mini-swe-agent.
const INPUT: [&str; 2] = ["total_prompt_tokens", "tokens_sent"];
const OUTPUT: [&str; 2] = ["total_completion_tokens", "tokens_received"];
const CACHE_READ: [&str; 1] = ["total_cached_tokens"];
const COST: [&str; 2] = ["total_cost_usd", "instance_cost"];

/// Maximum plausible cost of a run in US dollars.
const MAX_COST: f64 = 1e9;

impl AnswerCounter {
    /// Adds the totals in the pieces of a transcript.
    pub(super) fn add_totals<'i>(
        &mut self,
        source: &dyn ObjectSource,
        turn: TurnPlace<'_>,
        agent: &str,
        items: impl Iterator<Item = &'i Item>,
    ) -> Result<()> {
        for item in items {
            let entry = SourceEntry::from_item(item)?;
            if entry.kind != SourceKind::Glue || !self.is_new(turn, &entry.blob) {
                continue;
            }
            let Some(bytes) = content(source, &entry.blob)? else { continue };
            if !MARKS.iter().any(|mark| find(&bytes, mark).is_some()) {
                continue;
            }
            if let Some(found) = json::value(&bytes).and_then(|total| total_of(&total)) {
                let key = AnswerKey { key: "total", family: &turn.commit.session };
                let agent = format!("{agent}/{MAIN_AGENT}");
                self.add(turn, (agent, key), (found, false), Vec::new()).is_total = true;
            }
        }
        Ok(())
    }

    /// Drops the totals if an answer has usage, and if only single turns are counted.
    pub(super) fn drop_totals(&mut self) {
        let has_usage = |answer: &OpenAnswer| {
            let has_cost = answer.cost.is_some_and(|cost| cost > 0.0);
            !answer.is_total && (answer.tokens.total() > 0 || has_cost)
        };
        if !self.has_lines || self.answers.values().any(has_usage) {
            self.answers.retain(|_, answer| !answer.is_total);
        }
    }
}

/// Returns the usage in a total, or `None` if it has none.
fn total_of(total: &Value) -> Option<RecordedUsage> {
    let count = |names: &[&str]| {
        names.iter().find_map(|name| total.get(*name)?.as_u64()).unwrap_or_default()
    };
    let cost = COST.iter().find_map(|name| total.get(*name)?.as_f64());
    let cost = cost.filter(|cost| *cost > 0.0 && *cost < MAX_COST);
    let (input, output) = (count(&INPUT), count(&OUTPUT));
    let cache_read = count(&CACHE_READ).min(input);
    let tokens = TokenUsage { input, cache_read, output, ..TokenUsage::default() };
    let has_usage = tokens.total() > 0 || cost.is_some();
    has_usage.then(|| RecordedUsage { tokens, cost, ..RecordedUsage::default() })
}
