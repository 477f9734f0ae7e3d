//! The usage of a run of Copilot CLI: records of single answers, and the sums at the end of the run.
//!
//! Older releases record only the output tokens of an answer; newer ones write a record with its whole
//! usage. The end of a run, `session.shutdown`, has the usage of each model: since the last resume in
//! older releases, since the beginning of the session in newer ones. A sum over the session is at least
//! the sum at the previous end plus the output tokens since; a smaller one covers a single run.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::insight::usage::{TokenUsage, usage_with_cache};

/// The runs of a session so far.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// True if the file has the beginning of the run, and so all of its answers.
    has_begun: bool,
    /// The recorded usage of each model since the last end.
    recorded: BTreeMap<String, RecordedAnswers>,
    /// The share of earlier runs in a sum over the session, by model.
    before: BTreeMap<String, Metric>,
}

/// The recorded usage of a model.
#[derive(Debug, Default)]
struct RecordedAnswers {
    /// The answers in order, each with its usage.
    answers: Vec<u64>,
    tokens: HashMap<u64, TokenUsage>,
}

impl RecordedAnswers {
    fn sum(&self) -> TokenUsage {
        self.tokens.values().fold(TokenUsage::default(), |sum, tokens| sum.plus(*tokens))
    }
}

/// The usage of a model at the end of a run.
#[derive(Debug, Default, Clone, Copy)]
struct Metric {
    tokens: TokenUsage,
    requests: u64,
}

/// The usage of a model that the end of a run adds to its answers.
#[derive(Debug)]
pub(super) struct RunRemainder {
    pub(super) model: String,
    /// The usage that no answer records.
    pub(super) rest: TokenUsage,
    /// The answers of the run.
    pub(super) answers: Vec<u64>,
}

impl Runs {
    /// Begins a run. A sum over the session includes the output of a run that never ended; the next run does not.
    pub(super) fn begin(&mut self) {
        self.has_begun = true;
        for (model, recorded) in std::mem::take(&mut self.recorded) {
            let before = &mut self.before.entry(model).or_default().tokens;
            before.output = before.output.saturating_add(recorded.sum().output);
        }
    }

    /// Adds an answer, with its usage if that is recorded.
    pub(super) fn record_answer(&mut self, model: &str, key: u64, tokens: TokenUsage) {
        let recorded = self.recorded.entry(model.to_owned()).or_default();
        let known = recorded.tokens.entry(key).or_insert_with(|| {
            recorded.answers.push(key);
            TokenUsage::default()
        });
        *known = known.larger(tokens);
    }

    /// Ends a run; `metrics` has the usage of each model.
    pub(super) fn end(&mut self, metrics: &Value) -> Vec<RunRemainder> {
        let of_model = |(model, metric): (&String, &Value)| {
            let tokens = usage_with_cache(metric.get("usage")?)?;
            let requests = metric.pointer("/requests/count").and_then(Value::as_u64).unwrap_or(0);
            Some((model.clone(), Metric { tokens, requests }))
        };
        let now: BTreeMap<String, Metric> =
            metrics.as_object().into_iter().flatten().filter_map(of_model).collect();
        let is_sum = self.is_sum(&now);
        let mut recorded = std::mem::take(&mut self.recorded);
        let mut ends = Vec::new();
        for (model, metric) in &now {
            let before = self.before.get(model).copied().filter(|_| is_sum).unwrap_or_default();
            let recorded = recorded.remove(model).unwrap_or_default();
            let mut rest = metric.tokens.without(before.tokens).without(recorded.sum());
            if !self.has_begun {
                // The output of earlier answers is recorded already.
                (rest.output, rest.reasoning) = (0, 0);
            }
            ends.push(RunRemainder { model: model.clone(), rest, answers: recorded.answers });
        }
        self.before = now;
        self.has_begun = true;
        ends
    }

    /// Returns true if the sums at an end include those of the previous end.
    fn is_sum(&self, now: &BTreeMap<String, Metric>) -> bool {
        self.before.iter().all(|(model, before)| {
            let Some(now) = now.get(model) else { return false };
            let recorded = self.recorded.get(model);
            let output = recorded.map_or(0, |recorded| recorded.sum().output);
            let answers = u64::from(recorded.is_some_and(|recorded| !recorded.answers.is_empty()));
            now.tokens.since(before.tokens).is_some()
                && now.tokens.output >= before.tokens.output.saturating_add(output)
                && now.requests >= before.requests.saturating_add(answers)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metrics(requests: u64, input: u64, output: u64) -> Value {
        json!({"m": {"requests": {"count": requests}, "usage": {"inputTokens": input,
            "outputTokens": output, "cacheReadTokens": input / 2, "cacheWriteTokens": 0}}})
    }

    #[test]
    fn run_totals_are_detected_as_cumulative_or_separate() {
        for (second, expected) in [(metrics(1, 300, 20), 300), (metrics(2, 400, 30), 300)] {
            let mut runs = Runs::default();
            runs.begin();
            let output = |output| TokenUsage { output, ..TokenUsage::default() };
            runs.record_answer("m", 1, output(10));
            let first = runs.end(&metrics(1, 100, 10)).remove(0);
            assert_eq!(first.rest.counts(), [100, 50, 0, 0, 0, 0, 0]);
            assert_eq!(first.answers, [1]);
            runs.record_answer("m", 2, output(20));
            let second = runs.end(&second).remove(0);
            assert_eq!((second.rest.input, second.rest.output), (expected, 0));
        }
    }

    #[test]
    fn unattributed_output_is_counted_if_all_answers_are_known() {
        for (has_begun, expected) in [(true, 10), (false, 0)] {
            let mut runs = Runs { has_begun, ..Runs::default() };
            let end = runs.end(&metrics(1, 100, 10)).remove(0);
            assert_eq!((end.rest.input, end.rest.output), (100, expected));
        }
    }
}
