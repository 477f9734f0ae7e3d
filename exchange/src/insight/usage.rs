//! Reads the token counts and the cost of a model's answer from its record.
//!
//! One parser serves all formats. It normalizes the counts: `input` includes the tokens that a
//! cache read and wrote, `output` includes the reasoning.

use serde_json::Value;
use turntree::object::Commit;

use crate::formats::frameworks::OLLM_TOKENS;
use crate::text::json::{self, text_at};

/// The commit metadata key with the number of tokens in the context.
pub const TOKENS: &str = "tokens";

/// The JSON pointers of a format to the counts of an answer, its id and its model.
struct UsagePointers {
    counts: &'static str,
    /// The id of the answer, and the id of the request if the first is not unique.
    answer: [&'static str; 2],
    model: &'static str,
}

/// A pointer that no record has.
const NO_POINTER: &str = "/-";

const FORMAT_POINTERS: [UsagePointers; 13] = [
    // Claude Code, pi.
    UsagePointers {
        counts: "/message/usage",
        answer: ["/message/id", "/requestId"],
        model: "/message/model",
    },
    // Claude Code: the record of a sub-agent inside a record of its caller.
    UsagePointers {
        counts: "/data/message/message/usage",
        answer: ["/data/message/message/id", "/data/message/requestId"],
        model: "/data/message/message/model",
    },
    // Chats.
    UsagePointers { counts: "/usage", answer: [NO_POINTER; 2], model: "/model" },
    // OpenHands: each call of an answer is a record.
    UsagePointers {
        counts: "/tool_call_metadata/model_response/usage",
        answer: ["/tool_call_metadata/model_response/id", NO_POINTER],
        model: "/tool_call_metadata/model_response/model",
    },
    // Cline before its SDK.
    UsagePointers {
        counts: "/metrics/tokens",
        answer: [NO_POINTER; 2],
        model: "/modelInfo/modelId",
    },
    // ATIF.
    UsagePointers { counts: "/metrics", answer: [NO_POINTER; 2], model: "/model_name" },
    // opencode: a message is rewritten while it grows.
    UsagePointers {
        counts: "/info/tokens",
        answer: ["/info/id", NO_POINTER],
        model: "/info/modelID",
    },
    // Gemini CLI: a message is rewritten while it grows.
    UsagePointers { counts: "/tokens", answer: ["/id", NO_POINTER], model: "/model" },
    // Qwen Code.
    UsagePointers { counts: "/usageMetadata", answer: ["/uuid", NO_POINTER], model: "/model" },
    // mini-swe-agent: the API response is stored next to the message.
    UsagePointers {
        counts: "/extra/response/usage",
        answer: ["/extra/response/id", NO_POINTER],
        model: "/extra/response/model",
    },
    // OpenHands 1: the counts are in the statistics next to the conversation.
    UsagePointers {
        counts: NO_POINTER,
        answer: ["/llm_response_id", NO_POINTER],
        model: NO_POINTER,
    },
    // Codex: the last request, next to the sum of all requests.
    UsagePointers { counts: CODEX_LAST_USAGE, answer: [NO_POINTER; 2], model: NO_POINTER },
    // Copilot CLI: an answer may be several messages.
    UsagePointers { counts: "/data", answer: [COPILOT_CALL, NO_POINTER], model: "/data/model" },
];

/// The id of the request of an answer of Copilot CLI, and the id of the message, the only id that
/// older releases write.
const COPILOT_CALL: &str = "/data/apiCallId";
const COPILOT_MESSAGE: &str = "/data/messageId";

/// The counts of the last request in an event of Codex, and the sum of all requests so far.
const CODEX_LAST_USAGE: &str = "/payload/info/last_token_usage";
const CODEX_TOTAL_USAGE: &str = "/payload/info/total_token_usage";

/// Names of the input tokens.
const INPUT: [&str; 6] =
    ["/input_tokens", "/prompt_tokens", "/input", "/inputTokens", "/prompt", "/promptTokenCount"];

/// The name of an input that always includes the cache tokens.
const PROMPT: &str = "/prompt_tokens";

/// Names of cache reads that the input does not include.
const SEPARATE_CACHE_READS: [&str; 4] =
    ["/cache_read_input_tokens", "/cacheRead", "/cacheReadTokens", "/cache/read"];

/// Names of cache reads that the input includes.
const INCLUDED_CACHE_READS: [&str; 7] = [
    "/prompt_tokens_details/cached_tokens",
    "/input_tokens_details/cached_tokens",
    "/cached_input_tokens",
    "/cached_tokens",
    "/cached",
    "/cachedContentTokenCount",
    "/cache_read_tokens",
];

/// Names of cache writes, which the input does not include.
const CACHE_WRITES: [&str; 5] = [
    "/cache_creation_input_tokens",
    "/cacheWrite",
    "/cacheWriteTokens",
    "/cache/write",
    "/cache_write_tokens",
];

/// The part of the cache writes that is kept for an hour.
const HOUR_CACHE_WRITES: &str = "/cache_creation/ephemeral_1h_input_tokens";

/// Tool result tokens, which Gemini counts separately from the input.
const TOOL: &str = "/tool";

/// Names of the output tokens.
const OUTPUT: [&str; 6] = [
    "/output_tokens",
    "/completion_tokens",
    "/output",
    "/outputTokens",
    "/completion",
    "/candidatesTokenCount",
];

/// Names of the total of input and output tokens.
const SUM: [&str; 4] = ["/total", "/totalTokens", QWEN_SUM, "/total_tokens"];

/// Names of reasoning tokens that the output includes.
const INCLUDED_REASONING: [&str; 6] = [
    "/completion_tokens_details/reasoning_tokens",
    "/output_tokens_details/thinking_tokens",
    "/output_tokens_details/reasoning_tokens",
    "/reasoning_output_tokens",
    "/reasoning_tokens",
    QWEN_THOUGHTS,
];

/// The reasoning tokens that Gemini counts separately from the output.
const THOUGHTS: &str = "/thoughts";

/// The reasoning tokens of Qwen Code. The output includes them for some APIs; the total shows
/// which.
const QWEN_THOUGHTS: &str = "/thoughtsTokenCount";
const QWEN_SUM: &str = "/totalTokenCount";

/// The reasoning tokens of opencode, which counts them separately if its counts have a cache.
const REASONING: &str = "/reasoning";
const CACHE: &str = "/cache";

/// Names of the cost in US dollars, in the counts and in the record: opencode, and Claude Code
/// before 1.0.9.
const COST: [&str; 3] = ["/cost/total", "/cost", "/cost_usd"];
const RECORD_COST: [&str; 3] = ["/info/cost", "/costUSD", "/metrics/cost"];

/// The window message of Cline with a request. Its text is JSON.
const REQUEST: &str = "api_req_started";
const REQUEST_MODEL: &str = "/modelInfo/modelId";

/// Web searches that the vendor ran for an answer. Each has a fee.
const WEB_SEARCHES: &str = "/server_tool_use/web_search_requests";

/// The parts of an answer of Anthropic, and the kinds of parts that the sum does not include:
/// requests to an advisor model, and a compaction by the vendor.
const PARTS: &str = "/iterations";
const SEPARATE_PARTS: [&str; 2] = ["advisor_message", "compaction"];

/// Maximum number of parts of an answer to read.
const MAX_PARTS: usize = 1000;

/// How Anthropic served an answer: the pointers, and the values with the usual price.
const SERVICE_LEVELS: [(&str, &[&str]); 3] = [
    ("/speed", &["standard"]),
    ("/service_tier", &["standard", "batch"]),
    ("/inference_geo", &["", "global", "not_available"]),
];

/// The cost of mini-swe-agent and of tau2-bench, which write zero for an unknown cost.
const OUTER_COST: [&str; 2] = ["/extra/cost", "/cost"];

/// The steps of a message of opencode. The counts of the message are only those of its last step.
const STEPS: &str = "/parts";
const STEP: &str = "step-finish";

/// The tokens of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenUsage {
    /// Input tokens, including cache reads and writes.
    pub input: u64,
    /// The part of the input that a cache read.
    pub cache_read: u64,
    /// The part of the input that a cache wrote.
    pub cache_write: u64,
    /// The part of the cache writes that is kept for an hour.
    pub cache_write_hour: u64,
    /// Output tokens, including reasoning.
    pub output: u64,
    /// The part of the output that is reasoning, if recorded.
    pub reasoning: u64,
    /// Web searches that the vendor ran. They are not tokens, but have a fee.
    pub web_searches: u64,
}

/// The counts in the order of the fields of [`TokenUsage`].
pub(super) type Counts = [u64; 7];

/// The usage of an answer according to a record.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecordedUsage {
    /// The id of the answer. Some formats write several records per answer, each with the usage of
    /// the whole answer.
    pub answer: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The tokens.
    pub tokens: TokenUsage,
    /// True if the record has no input tokens. `output` is then the output, or the total if the
    /// record has only a total.
    pub is_output_alone: bool,
    /// The cost in US dollars.
    pub cost: Option<f64>,
    /// The service level if it has another price: `fast`, `priority`, `us`. Else empty.
    pub service: String,
}

impl TokenUsage {
    /// Returns the counts in the order of the fields.
    pub(super) const fn counts(self) -> Counts {
        let Self { input, cache_read, cache_write, cache_write_hour, output, .. } = self;
        let Self { reasoning, web_searches, .. } = self;
        [input, cache_read, cache_write, cache_write_hour, output, reasoning, web_searches]
    }

    /// Returns the usage with these counts.
    pub(super) const fn of(counts: Counts) -> Self {
        let [input, cache_read, cache_write, cache_write_hour, output, reasoning, web_searches] =
            counts;
        Self { input, cache_read, cache_write, cache_write_hour, output, reasoning, web_searches }
    }

    fn with(self, other: Self, each: impl Fn(u64, u64) -> u64) -> Self {
        let mut counts = self.counts();
        counts.iter_mut().zip(other.counts()).for_each(|(count, more)| *count = each(*count, more));
        Self::of(counts)
    }

    /// Returns the sum of two usages.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// Returns the larger of each count. The records of one answer grow.
    #[must_use]
    pub fn larger(self, other: Self) -> Self {
        self.with(other, u64::max)
    }

    /// Returns the usage without a part of it.
    pub(super) fn without(self, part: Self) -> Self {
        self.with(part, u64::saturating_sub)
    }

    /// Returns the usage since an earlier sum, or `None` if a count of that sum is larger.
    pub(super) fn since(self, before: Self) -> Option<Self> {
        let grew = self.counts().iter().zip(before.counts()).all(|(now, before)| *now >= before);
        grew.then(|| self.with(before, u64::saturating_sub))
    }

    /// Returns the input tokens that no cache read or wrote.
    #[must_use]
    pub const fn uncached(&self) -> u64 {
        self.input.saturating_sub(self.cache_read).saturating_sub(self.cache_write)
    }

    /// Returns the sum of input and output tokens.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// Returns the usage of an answer according to its record, or `None` if the record has no usage.
#[must_use]
pub fn usage(bytes: &[u8]) -> Option<RecordedUsage> {
    usage_of(&json::value(bytes)?)
}

/// Returns the usage like [`usage`], for a parsed record.
pub(super) fn usage_of(record: &Value) -> Option<RecordedUsage> {
    if is_request(record) {
        return usage_of_request(record);
    }
    let cost = |value: &Value| value.as_f64().filter(|cost| (0.0..1e9).contains(cost));
    let known = |path: &&str| record.pointer(path).and_then(cost).filter(|cost| *cost > 0.0);
    let separate = OUTER_COST.iter().find_map(known);
    let Some(place) = pointers_of(record) else {
        // An answer without recorded tokens may still have a recorded cost.
        return separate.map(|cost| RecordedUsage { cost: Some(cost), ..RecordedUsage::default() });
    };
    let counts = record.pointer(place.counts)?;
    let (last, is_output_alone) = tokens(counts)?;
    let steps = steps_of(record);
    let tokens = steps.map_or(last, |(steps, _)| steps);
    let of_counts = COST.iter().find_map(|path| counts.pointer(path).and_then(cost));
    let of_record = RECORD_COST.iter().find_map(|path| record.pointer(path).and_then(cost));
    let of_whole = match steps.and_then(|(_, cost)| cost) {
        Some(of_steps) => Some(of_record.map_or(of_steps, |it| it.max(of_steps))),
        None => of_record,
    };
    Some(RecordedUsage {
        answer: answer_of(record, place),
        model: model_of(record, place.model),
        tokens,
        is_output_alone,
        // No price applies to a total, so a recorded zero would count as its whole cost.
        cost: of_counts.or(of_whole).or(separate).filter(|cost| *cost > 0.0 || !is_output_alone),
        service: service_of(counts),
    })
}

/// Returns true for a window message of Cline with a request.
pub(super) fn is_request(record: &Value) -> bool {
    text_at(record, "/say") == Some(REQUEST)
}

/// Returns the usage in such a message. The client adds it when the answer is complete.
fn usage_of_request(record: &Value) -> Option<RecordedUsage> {
    let recorded = json::value(text_at(record, "/text")?.as_bytes())?;
    let count = |name: &str| recorded.get(name).and_then(Value::as_u64);
    let (input, output) = (count("tokensIn"), count("tokensOut"));
    input.or(output)?;
    let [cache_read, cache_write] = ["cacheReads", "cacheWrites"].map(|it| count(it).unwrap_or(0));
    let input = input.unwrap_or(0).saturating_add(cache_read).saturating_add(cache_write);
    let output = output.unwrap_or(0);
    let cost = recorded.get("cost").and_then(Value::as_f64);
    let cost = cost.filter(|cost| (0.0..1e9).contains(cost));
    // The client writes zero for models without a known price: most models of other vendors.
    let cost = cost.filter(|cost| *cost > 0.0);
    let tokens = TokenUsage { input, cache_read, cache_write, output, ..TokenUsage::default() };
    let model = model_of(record, REQUEST_MODEL);
    Some(RecordedUsage { model, tokens, cost, ..RecordedUsage::default() })
}

/// Returns the parts of an answer that its sum does not include. Each counts as an answer. Its
/// `answer` is the kind and the number of the part, unique within the record.
pub(super) fn separate_usage(record: &Value) -> Vec<RecordedUsage> {
    let of = |place: &UsagePointers| {
        let counts = record.pointer(place.counts)?;
        let parts = counts.pointer(PARTS)?.as_array()?;
        let separate = (0_usize..).zip(parts).take(MAX_PARTS).filter_map(|(number, part)| {
            let kind = text_at(part, "/type").filter(|kind| SEPARATE_PARTS.contains(kind))?;
            let (tokens, is_output_alone) = tokens(part)?;
            let answer = Some(format!("{kind} {number}"));
            let model = model_of(part, "/model").or_else(|| model_of(record, place.model));
            let service = service_of(part);
            Some(RecordedUsage { answer, model, tokens, is_output_alone, cost: None, service })
        });
        Some(separate.collect())
    };
    pointers_of(record).and_then(of).unwrap_or_default()
}

fn pointers_of(record: &Value) -> Option<&'static UsagePointers> {
    FORMAT_POINTERS.iter().find(|place| record.pointer(place.counts).is_some_and(Value::is_object))
}

/// Returns the id of the answer of a record. The record need not have counts.
pub(super) fn answer_id(record: &Value) -> Option<String> {
    FORMAT_POINTERS.iter().find_map(|place| answer_of(record, place))
}

fn answer_of(record: &Value, place: &UsagePointers) -> Option<String> {
    // A gateway may leave ids empty.
    let id = |path| text_at(record, path).filter(|id| !id.is_empty());
    let [answer, request] = place.answer.map(id);
    let answer = answer.or_else(|| id(COPILOT_MESSAGE));
    answer.map(|answer| match request {
        // A gateway may give every answer the same id.
        Some(request) => format!("{answer} {request}"),
        None => answer.to_owned(),
    })
}

fn model_of(record: &Value, path: &str) -> Option<String> {
    text_at(record, path).filter(|it| !it.starts_with('<')).map(str::to_owned)
}

/// Returns the service level of an answer, or an empty string for the usual one.
fn service_of(counts: &Value) -> String {
    let recorded = SERVICE_LEVELS
        .iter()
        .filter_map(|(path, usual)| text_at(counts, path).filter(|served| !usual.contains(served)));
    let recorded: Vec<&str> = recorded.map(json::plain).collect();
    recorded.join("+")
}

/// Returns the sum of the tokens and costs of the steps of an opencode message.
fn steps_of(record: &Value) -> Option<(TokenUsage, Option<f64>)> {
    let parts = record.pointer(STEPS)?.as_array()?;
    let steps = parts.iter().filter(|part| text_at(part, "/type") == Some(STEP));
    let mut sum: Option<(TokenUsage, Option<f64>)> = None;
    for step in steps {
        let Some((taken, _)) = step.get("tokens").and_then(tokens) else { continue };
        let cost = step.get("cost").and_then(Value::as_f64).filter(|cost| *cost >= 0.0);
        let (all, costs) = sum.unwrap_or_default();
        sum = Some((all.plus(taken), cost.map(|cost| cost + costs.unwrap_or(0.0)).or(costs)));
    }
    sum
}

/// Returns the tokens in an event of Codex: of the last request, if the event has them, and of all
/// requests so far.
pub(super) fn running_total(record: &Value) -> Option<(Option<TokenUsage>, TokenUsage)> {
    let of = |path| Some(tokens(record.pointer(path)?)?.0);
    Some((of(CODEX_LAST_USAGE), of(CODEX_TOTAL_USAGE)?))
}

/// Returns the tokens and the id of an answer of Codex.
pub(super) fn response_usage(record: &Value) -> Option<(TokenUsage, &str)> {
    let (tokens, _) = tokens(record.pointer("/payload/usage")?)?;
    Some((tokens, text_at(record, "/payload/response_id").filter(|id| !id.is_empty())?))
}

/// Returns counts whose input includes the cache tokens, as Copilot CLI records them for a run and
/// for a compaction. Older releases use other names.
pub(super) fn usage_with_cache(counts: &Value) -> Option<TokenUsage> {
    let first = |names: [&str; 2]| names.iter().find_map(|name| counts.get(*name)?.as_u64());
    let input = first(["inputTokens", "input"]);
    let output = first(["outputTokens", "output"]);
    input.or(output)?;
    let (input, output) = (input.unwrap_or(0), output.unwrap_or(0));
    let part = |names, of: u64| first(names).unwrap_or(0).min(of);
    Some(TokenUsage {
        input,
        cache_read: part(["cacheReadTokens", "cachedInput"], input),
        cache_write: part(["cacheWriteTokens", "cacheWrite"], input),
        cache_write_hour: 0,
        output,
        reasoning: part(["reasoningTokens", "reasoning"], output),
        web_searches: 0,
    })
}

/// Returns the counts of a record, and true if it has no input tokens. A total without parts counts
/// as output.
pub(super) fn tokens(counts: &Value) -> Option<(TokenUsage, bool)> {
    let at = |path: &str| counts.pointer(path).and_then(Value::as_u64);
    let first = |paths: &[&str]| paths.iter().find_map(|path| at(path));
    let (input, mut output) = (first(&INPUT), first(&OUTPUT));
    if input.or(output).is_none() {
        output = Some(first(&SUM).filter(|sum| *sum > 0)?);
    }
    let (separate, inside) = (first(&SEPARATE_CACHE_READS), first(&INCLUDED_CACHE_READS));
    let cache_read = separate.or(inside).unwrap_or(0);
    let cache_write = first(&CACHE_WRITES).unwrap_or(0);
    let mut all = input.unwrap_or(0).saturating_add(at(TOOL).unwrap_or(0));
    if at(PROMPT).is_none() {
        let separate_tokens = if separate.is_some() { cache_read } else { 0 };
        all = all.saturating_add(separate_tokens).saturating_add(cache_write);
    }
    let has_cache = counts.pointer(CACHE).is_some();
    let output = output.unwrap_or(0);
    let is_separate = |thoughts: &u64| {
        let rest = at(QWEN_SUM).map(|sum| sum.saturating_sub(input.unwrap_or(0)));
        rest.is_some_and(|rest| *thoughts > 0 && rest >= output.saturating_add(*thoughts))
    };
    let separate_tokens = at(THOUGHTS)
        .or_else(|| at(REASONING).filter(|_| has_cache))
        .or_else(|| at(QWEN_THOUGHTS).filter(is_separate));
    let output = output.saturating_add(separate_tokens.unwrap_or(0));
    let tokens = TokenUsage {
        input: all,
        cache_read: cache_read.min(all),
        cache_write: cache_write.min(all),
        cache_write_hour: at(HOUR_CACHE_WRITES).unwrap_or(0).min(cache_write),
        output,
        reasoning: separate_tokens.or_else(|| first(&INCLUDED_REASONING)).unwrap_or(0).min(output),
        web_searches: at(WEB_SEARCHES).unwrap_or(0),
    };
    Some((tokens, input.is_none()))
}

/// Returns the number of tokens in the context of a commit, if its metadata has it.
#[must_use]
pub fn context_tokens(commit: &Commit) -> Option<u64> {
    let recorded = [TOKENS, OLLM_TOKENS].iter().find_map(|name| commit.metadata.get(*name))?;
    // JavaScript may write a whole number with an exponent or a fraction.
    recorded.parse().ok().or_else(|| {
        let number: f64 = recorded.parse().ok().filter(|number| (0.0..9e15).contains(number))?;
        format!("{number:.0}").parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_every_format_have_the_same_meaning() {
        let of = |text: &str| {
            let found = usage(text.as_bytes()).unwrap();
            let [counts @ .., _] = found.tokens.counts();
            (found.answer, counts)
        };
        let claude = r#"{"requestId":"r","message":{"id":"m1","usage":{"input_tokens":10,
            "cache_creation_input_tokens":4,"cache_read_input_tokens":1,"output_tokens":7,
            "cache_creation":{"ephemeral_1h_input_tokens":3}}}}"#;
        assert_eq!(of(claude), (Some("m1 r".to_owned()), [15, 1, 4, 3, 7, 0]));
        let of_sub_agent =
            r#"{"data":{"message":{"message":{"id":"m","usage":{"input_tokens":1}}}}}"#;
        assert_eq!(of(of_sub_agent), (Some("m".to_owned()), [1, 0, 0, 0, 0, 0]));
        let pi = r#"{"message":{"usage":{"input":3,"output":191,"cacheRead":0,"cacheWrite":2}}}"#;
        assert_eq!(of(pi), (None, [5, 0, 2, 0, 191, 0]));
        let openai = r#"{"role":"assistant","usage":{"prompt_tokens":20,"completion_tokens":5,
            "prompt_tokens_details":{"cached_tokens":8},
            "completion_tokens_details":{"reasoning_tokens":2}}}"#;
        assert_eq!(of(openai), (None, [20, 8, 0, 0, 5, 2]));
        let atif = r#"{"metrics":{"prompt_tokens":2,"completion_tokens":1,"cached_tokens":1}}"#;
        assert_eq!(of(atif), (None, [2, 1, 0, 0, 1, 0]));
        let gemini =
            r#"{"id":"g","tokens":{"input":10,"output":2,"cached":4,"thoughts":3,"tool":1}}"#;
        assert_eq!(of(gemini), (Some("g".to_owned()), [11, 4, 0, 0, 5, 3]));
        let qwen = r#"{"uuid":"q","usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5,
            "cachedContentTokenCount":4,"thoughtsTokenCount":3,"totalTokenCount":15}}"#;
        assert_eq!(of(qwen), (Some("q".to_owned()), [10, 4, 0, 0, 5, 3]));
        let separate_tokens = qwen.replace("\"totalTokenCount\":15", "\"totalTokenCount\":18");
        assert_eq!(of(&separate_tokens), (Some("q".to_owned()), [10, 4, 0, 0, 8, 3]));
        let mini = r#"{"role":"assistant","extra":{"cost":0.5,"response":{"id":"r","model":"m",
            "usage":{"prompt_tokens":2,"completion_tokens":1}}}}"#;
        assert_eq!(of(mini), (Some("r".to_owned()), [2, 0, 0, 0, 1, 0]));
        let opencode = r#"{"info":{"id":"o","tokens":{"input":10,"output":2,"reasoning":3,
            "cache":{"read":4,"write":5}}}}"#;
        assert_eq!(of(opencode), (Some("o".to_owned()), [19, 4, 5, 0, 5, 3]));
    }

    #[test]
    fn half_a_character_and_an_empty_id_hide_no_usage() {
        let torn = br#"{"text":"\ud83d","message":{"id":"","usage":{"input":3,"output":1}}}"#;
        let found = usage(torn).unwrap();
        assert_eq!((found.answer, found.tokens.input), (None, 3));
    }

    #[test]
    fn recorded_costs_are_kept() {
        let of = |text: &str| usage(text.as_bytes()).unwrap().cost;
        assert_eq!(of(r#"{"message":{"usage":{"input":3,"cost":{"total":0.25}}}}"#), Some(0.25));
        assert_eq!(of(r#"{"info":{"cost":0.5,"tokens":{"input":1}}}"#), Some(0.5));
        assert_eq!(of(r#"{"metrics":{"prompt_tokens":1,"cost_usd":2}}"#), Some(2.0));
        let cline = r#"{"metrics":{"tokens":{"prompt":9,"completion":2,"cached":4},"cost":0.5}}"#;
        assert_eq!(of(cline), Some(0.5));
        let tokens = usage(cline.as_bytes()).unwrap().tokens;
        assert_eq!((tokens.input, tokens.cache_read, tokens.output), (9, 4, 2));
        assert_eq!(of(r#"{"metrics":{"prompt_tokens":1,"cost_usd":-2}}"#), None);
        assert_eq!(of(r#"{"costUSD":0.5,"message":{"usage":{"input_tokens":1}}}"#), Some(0.5));
        let mini = r#"{"extra":{"cost":0.5,"response":{"usage":{"prompt_tokens":2}}}}"#;
        assert_eq!(of(mini), Some(0.5));
        assert_eq!(of(&mini.replace("0.5", "0.0")), None);
        assert_eq!(of(r#"{"role":"assistant","extra":{"cost":0.5}}"#), Some(0.5));
    }

    #[test]
    fn usage_outside_of_the_sum_is_a_separate_answer() {
        let text = r#"{"requestId":"r","message":{"id":"m","model":"small","usage":{
            "input_tokens":2,"output_tokens":3,"server_tool_use":{"web_search_requests":4},
            "speed":"fast","service_tier":"standard","iterations":[
            {"type":"message","input_tokens":2,"output_tokens":3},
            {"type":"advisor_message","model":"large","input_tokens":50,"output_tokens":6},
            {"type":"compaction","input_tokens":70,"output_tokens":8}]}}}"#;
        let record = serde_json::from_str(text).unwrap();
        let whole = usage_of(&record).unwrap();
        assert_eq!(whole.tokens.counts(), [2, 0, 0, 0, 3, 0, 4]);
        assert_eq!(whole.service, "fast");
        let recorded = |part: RecordedUsage| (part.answer, part.model, part.tokens.total());
        let expected =
            |id: &str, model: &str, tokens| (Some(id.into()), Some(model.into()), tokens);
        let separate: Vec<_> = separate_usage(&record).into_iter().map(recorded).collect();
        let [advisor, compaction] = ["advisor_message 1", "compaction 2"];
        assert_eq!(separate, [expected(advisor, "large", 56), expected(compaction, "small", 78)]);
    }

    #[test]
    fn messages_of_several_steps_sum_their_usage() {
        let step = |output: u64, write: u64| {
            format!(
                r#"{{"type":"step-finish","cost":0.25,"tokens":{{"input":10,"output":{output},
                "reasoning":5,"cache":{{"read":1,"write":{write}}}}}}}"#
            )
        };
        let message = format!(
            r#"{{"info":{{"id":"o","cost":0.5,"tokens":{{"input":10,"output":50,"reasoning":5,
            "cache":{{"read":1,"write":20}}}}}},"parts":[{},{{"type":"text","text":"x"}},{}]}}"#,
            step(100, 500),
            step(50, 20)
        );
        let found = usage(message.as_bytes()).unwrap();
        assert_eq!(found.tokens.counts(), [542, 2, 520, 0, 160, 10, 0]);
        assert_eq!(found.cost, Some(0.5));
        let tau2 = r#"{"role":"assistant","cost":0.125,"usage":{"prompt_tokens":3}}"#;
        assert_eq!(usage(tau2.as_bytes()).unwrap().cost, Some(0.125));
        assert_eq!(usage(tau2.replace("0.125", "0.0").as_bytes()).unwrap().cost, None);
    }

    #[test]
    fn codex_records_the_last_request_and_the_running_total() {
        let event = r#"{"payload":{"info":{
            "last_token_usage":{"input_tokens":5,"cached_input_tokens":2,"output_tokens":1},
            "total_token_usage":{"input_tokens":9,"cached_input_tokens":4,"output_tokens":3,
            "reasoning_output_tokens":1}}}}"#;
        let (last, total) = running_total(&serde_json::from_str(event).unwrap()).unwrap();
        let last = last.unwrap();
        assert_eq!(last.counts(), [5, 2, 0, 0, 1, 0, 0]);
        assert_eq!(total.since(last).unwrap().counts(), [4, 2, 0, 0, 2, 1, 0]);
        assert_eq!(last.since(total), None);
    }

    #[test]
    fn totals_alone_count_as_output() {
        for text in [
            r#"{"message":{"usage":{"totalTokens":333}}}"#,
            r#"{"uuid":"q","usageMetadata":{"totalTokenCount":333}}"#,
            r#"{"id":"g","tokens":{"total":333}}"#,
            r#"{"info":{"id":"o","tokens":{"total":333,"cache":{"read":0,"write":0}}}}"#,
            r#"{"usage":{"total_tokens":333}}"#,
        ] {
            let found = usage(text.as_bytes()).unwrap();
            assert_eq!(
                (found.tokens.counts(), found.is_output_alone),
                ([0, 0, 0, 0, 333, 0, 0], true)
            );
        }
        assert_eq!(usage(br#"{"usage":{"total_tokens":0}}"#), None);
    }

    #[test]
    fn records_without_usage_count_nothing() {
        for text in ["", "{", "[]", "{}", r#"{"usage":{}}"#, r#"{"usage":{"input_tokens":-1}}"#] {
            assert_eq!(usage(text.as_bytes()), None, "{text}");
        }
    }
}
