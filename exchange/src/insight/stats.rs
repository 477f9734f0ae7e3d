//! Reads answers from the statistics that OpenHands stores next to a conversation.
//!
//! For each use of a model, such as answers or summaries, there is a list of token counts and a
//! list of costs, in the same order. An answer with unknown cost has no entry in the second list.
//! The costs then cannot be assigned to answers, and the sums count as one answer.

use serde_json::Value;

use super::usage::{RecordedUsage, TokenUsage, tokens};
use crate::text::json::text_at;

/// Returns the answers, each with its identity in the conversation; `answer` of one with an id is
/// that id.
pub(super) fn answers_of_stats(stats: &Value) -> Vec<(String, RecordedUsage)> {
    let uses = stats.get("usage_to_metrics").and_then(Value::as_object);
    uses.into_iter().flatten().flat_map(|(name, metrics)| answers_of_model(name, metrics)).collect()
}

/// Returns the answers of one use of a model, called `name`.
pub(super) fn answers_of_model(name: &str, metrics: &Value) -> Vec<(String, RecordedUsage)> {
    let list =
        |name: &str| metrics.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let (recorded, costs) = (list("token_usages"), list("costs"));
    let money = |value: Option<&Value>| value.and_then(Value::as_f64).filter(|cost| *cost >= 0.0);
    let model = |from: &Value| {
        let model = text_at(from, "/model").or_else(|| text_at(metrics, "/model_name"));
        model.filter(|model| !model.is_empty()).map(str::to_owned)
    };
    let counts = |from: &Value| tokens(from).map_or_else(TokenUsage::default, |(tokens, _)| tokens);
    if recorded.is_empty() || (!costs.is_empty() && recorded.len() != costs.len()) {
        let sum = metrics.get("accumulated_token_usage").unwrap_or(&Value::Null);
        let cost = money(metrics.get("accumulated_cost")).filter(|cost| *cost > 0.0);
        let usage = RecordedUsage {
            model: model(sum),
            tokens: counts(sum),
            cost,
            ..RecordedUsage::default()
        };
        return vec![(format!("sum of {name}"), usage)];
    }
    let answers = recorded.iter().enumerate().map(|(at, recorded)| {
        let id = text_at(recorded, "/response_id").filter(|id| !id.is_empty());
        let key = id.map_or_else(|| format!("{name} {at}"), str::to_owned);
        let cost = money(costs.get(at).and_then(|cost| cost.get("cost")));
        let usage = RecordedUsage {
            answer: id.map(str::to_owned),
            model: model(recorded),
            tokens: counts(recorded),
            cost,
            ..RecordedUsage::default()
        };
        (key, usage)
    });
    answers.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_have_their_cost_and_indistinguishable_ones_are_merged() {
        let recorded = |id: &str, input: u64| {
            json!({"model": "m", "prompt_tokens": input, "completion_tokens": 2, "cache_read_tokens": 4,
                "cache_write_tokens": 1, "reasoning_tokens": 1, "response_id": id})
        };
        let stats = json!({"usage_to_metrics": {
            "agent": {"model_name": "m", "accumulated_cost": 0.75, "costs": [{"cost": 0.5}, {"cost": 0.25}],
                "token_usages": [recorded("r1", 10), recorded("", 20)]},
            "condenser": {"model_name": "n", "accumulated_cost": 0.125, "costs": [{"cost": 0.125}],
                "token_usages": [recorded("r3", 1), recorded("r4", 2)],
                "accumulated_token_usage": {"prompt_tokens": 3, "completion_tokens": 4}},
        }});
        let answers: Vec<_> = answers_of_stats(&stats)
            .into_iter()
            .map(|(key, usage)| (key, usage.model.unwrap(), usage.tokens.counts(), usage.cost))
            .collect();
        let of = |key: &str, model: &str, counts, cost| {
            (key.to_owned(), model.to_owned(), counts, Some(cost))
        };
        assert_eq!(
            answers,
            [
                of("r1", "m", [10, 4, 1, 0, 2, 1, 0], 0.5),
                of("agent 1", "m", [20, 4, 1, 0, 2, 1, 0], 0.25),
                of("sum of condenser", "n", [3, 0, 0, 0, 4, 0, 0], 0.125),
            ]
        );
    }
}
