//! The tokens that a message cost the model, where the message says so.

use serde_json::Value;
use turntree::object::Commit;

use crate::formats::frameworks::OLLM_TOKENS;

/// The entry of a commit's metadata with the tokens of its context, as a number.
pub const TOKENS: &str = "tokens";

/// The fields in which records keep their counts: Claude Code and pi, chats, `OpenHands`, ATIF.
const PLACES: [&str; 4] =
    ["/message/usage", "/usage", "/tool_call_metadata/model_response/usage", "/metrics"];

/// Names of tokens that went in and that no cache had.
const INPUT: [&str; 3] = ["input_tokens", "prompt_tokens", "input"];

/// Names of tokens that a cache had or took, where they are counted beside the input.
const CACHED: [&str; 4] =
    ["cache_creation_input_tokens", "cache_read_input_tokens", "cacheRead", "cacheWrite"];

/// Names of tokens that came out.
const OUTPUT: [&str; 3] = ["output_tokens", "completion_tokens", "output"];

/// Tokens that a model read and wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenUsage {
    /// Tokens read, those that a cache had included.
    pub input: u64,
    /// Tokens written.
    pub output: u64,
}

/// The usage that a message says, and the id of the model's answer that it is about: some formats
/// write an answer in several records, each with the usage of the whole. `None` where nothing is said.
#[must_use]
pub fn usage(bytes: &[u8]) -> Option<(Option<String>, TokenUsage)> {
    let record: Value = serde_json::from_slice(bytes).ok()?;
    let counts = PLACES.iter().find_map(|place| record.pointer(place)?.as_object())?;
    let first = |names: &[&str]| names.iter().find_map(|name| counts.get(*name)?.as_u64());
    let cached: u64 =
        CACHED.iter().filter_map(|name| counts.get(*name)?.as_u64()).fold(0, u64::saturating_add);
    let (input, output) = (first(&INPUT), first(&OUTPUT));
    input.or(output)?;
    let answer = record.pointer("/message/id").and_then(Value::as_str).map(str::to_owned);
    let input = input.unwrap_or(0).saturating_add(cached);
    Some((answer, TokenUsage { input, output: output.unwrap_or(0) }))
}

/// The tokens of the context of a commit, where whoever took it said so.
#[must_use]
pub fn context_tokens(commit: &Commit) -> Option<u64> {
    let told = [TOKENS, OLLM_TOKENS].iter().find_map(|name| commit.metadata.get(*name))?;
    // JavaScript may write a whole number with an exponent or a fraction.
    told.parse().ok().or_else(|| {
        let number: f64 = told.parse().ok().filter(|number| (0.0..9e15).contains(number))?;
        format!("{number:.0}").parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_where_formats_keep_them() {
        let of = |text: &str| usage(text.as_bytes()).map(|(id, u)| (id, u.input, u.output));
        let claude = r#"{"message":{"id":"m1","usage":{"input_tokens":10,
            "cache_creation_input_tokens":4,"cache_read_input_tokens":1,"output_tokens":7}}}"#;
        assert_eq!(of(claude), Some((Some("m1".to_owned()), 15, 7)));
        let pi = r#"{"message":{"usage":{"input":3,"output":191,"cacheRead":0,"cacheWrite":2}}}"#;
        assert_eq!(of(pi), Some((None, 5, 191)));
        let openai = r#"{"role":"assistant","usage":{"prompt_tokens":20,"completion_tokens":5}}"#;
        assert_eq!(of(openai), Some((None, 20, 5)));
        let atif = r#"{"metrics":{"prompt_tokens":2,"completion_tokens":1}}"#;
        assert_eq!(of(atif), Some((None, 2, 1)));
    }

    #[test]
    fn what_says_nothing_counts_for_nothing() {
        for text in ["", "{", "[]", "{}", r#"{"usage":{}}"#, r#"{"usage":{"input_tokens":-1}}"#] {
            assert_eq!(usage(text.as_bytes()), None, "{text}");
        }
    }
}
