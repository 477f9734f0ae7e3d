//! Returns the searchable text of messages, with a fast check that skips records without a match.
//!
//! Records are JSON, whose escapes make the bytes differ from the text. Parsing every record would
//! take longer than searching it. But a word of ASCII letters appears in the bytes unchanged,
//! unless it is written with `\u00..`. A record with neither is not parsed. The same holds for the
//! matches of an expression, if they contain no character that may be escaped or that a view
//! inserts between texts.

use regex::bytes::{Regex, RegexBuilder};
use serde_json::Value;
use turntree::repo::{LinePattern, LoosePattern};

use crate::formats::view;
use crate::model::view::MessageView;
use crate::text::json;

/// Words that views insert and that records do not contain.
const VIEW_WORDS: [&str; 2] = ["image", "document"];

/// Matches records in which words may differ from the text: ASCII, or characters that fold to it,
/// as an escape, and a tag that one format removes from a text.
const ESCAPED_WORDS: &str = r"\\u(?:00[2-7]|212[aA]|017[fF])|/task>";

/// Matches records in which a match of an expression may differ, too: one format names files there.
const FILE_NAMES: &str = "artifact|attachments";

/// Matches records with escapes of control characters, and with escapes of characters outside of
/// ASCII.
const ESCAPED_CONTROLS: &str = r"\\[bfrt]|\\u00[01]";
const ESCAPED: &str = r"\\u";

/// Characters that views insert between texts, and characters that JSON escapes.
const GLUE: &str = ":,.[]{}$\"\\/";

/// Characters of numbers, which JSON can write in several ways.
const NUMBERS: &str = "0123456789+-.eE";

/// Shorter words occur in nearly every record.
const LEAST_WORD_BYTES: usize = 3;

/// Reads messages as searchable text.
#[derive(Debug, Clone, Default)]
pub struct MessageText {
    condition: Option<RecordCondition>,
}

/// The condition that a record must meet to be parsed.
#[derive(Debug, Clone)]
enum RecordCondition {
    Words(Regex),
    /// The bytes match the expression, or may match it after unescaping.
    Match {
        expression: Box<LoosePattern>,
        elsewhere: Regex,
    },
}

impl MessageText {
    /// Skips messages in which no line can match the pattern, as far as the bytes show it.
    #[must_use]
    pub fn matching(pattern: &LinePattern) -> Self {
        let words = pattern.words();
        let are_rare = !words.is_empty() && words.iter().all(|it| it.len() >= LEAST_WORD_BYTES);
        let of_words = Self::with_words(words, pattern.ignores_case());
        if are_rare && of_words.condition.is_some() {
            return of_words;
        }
        RecordCondition::for_pattern(pattern)
            .map_or(of_words, |condition| Self { condition: Some(condition) })
    }

    /// Skips messages that contain none of `words`, which consist of ASCII letters, digits and `_`.
    /// Reads every message if `words` is empty.
    #[must_use]
    pub fn with_words(words: &[String], ignore_case: bool) -> Self {
        let is_sure = |word: &String| {
            let lower = word.to_ascii_lowercase();
            let is_number = lower.bytes().all(|byte| byte.is_ascii_digit() || byte == b'e');
            !is_number && !VIEW_WORDS.iter().any(|made_up| made_up.contains(&lower))
        };
        if words.is_empty() || !words.iter().all(is_sure) {
            return Self::default();
        }
        let words = words.iter().map(|word| regex::escape(word)).collect::<Vec<_>>().join("|");
        let case = if ignore_case { "(?i:" } else { "(?:" };
        let expression = format!("{case}{words})|{ESCAPED_WORDS}");
        // If the expression does not build, every message is read.
        Self { condition: RegexBuilder::new(&expression).build().ok().map(RecordCondition::Words) }
    }

    /// Returns a test whether bytes may match, as they are or as a record of any format. `None` if
    /// the bytes do not show it.
    #[must_use]
    pub fn test(&self) -> Option<impl Fn(&[u8]) -> bool + Sync + '_> {
        let condition = self.condition.as_ref()?;
        Some(move |bytes: &[u8]| condition.may_match(bytes))
    }

    /// Returns the text of the message in `bytes`, a record of `format`: thinking, text, tool calls
    /// with their arguments, and results. `None` if the message cannot match.
    #[must_use]
    pub fn read(&self, format: &str, bytes: &[u8]) -> Option<String> {
        match self.test() {
            Some(may_say) if !may_say(bytes) => None,
            _ => Some(view(format, bytes).full_text()),
        }
    }
}

impl RecordCondition {
    /// Returns the condition for an expression, if its matches appear unchanged in records.
    fn for_pattern(pattern: &LinePattern) -> Option<Self> {
        let loose = pattern.loose()?;
        let is_as_said = !loose.may_have(GLUE)
            && !loose.may_begin_with(" ")
            && loose.needs_other_than(NUMBERS)
            && !VIEW_WORDS.iter().any(|made_up| loose.is_in(made_up.as_bytes()));
        if !is_as_said {
            return None;
        }
        let mut elsewhere = vec![ESCAPED_WORDS, FILE_NAMES];
        elsewhere.extend(loose.may_have_controls().then_some(ESCAPED_CONTROLS));
        elsewhere.extend(loose.may_have_others().then_some(ESCAPED));
        let elsewhere = RegexBuilder::new(&elsewhere.join("|")).build().ok()?;
        Some(Self::Match { expression: Box::new(loose), elsewhere })
    }

    fn may_match(&self, bytes: &[u8]) -> bool {
        match self {
            Self::Words(words) => words.is_match(bytes),
            Self::Match { expression, elsewhere } => {
                expression.is_in(bytes)
                    || elsewhere.is_match(bytes)
                    // Invalid UTF-8 is replaced by other characters when it is read.
                    || (expression.may_have_others() && str::from_utf8(bytes).is_err())
            }
        }
    }
}

impl MessageView {
    /// Returns the whole text of a message: thinking, text, then tool calls as their name and one
    /// line for each argument, and results.
    #[must_use]
    pub fn full_text(&self) -> String {
        let mut text = String::new();
        add(&mut text, &self.thinking);
        add(&mut text, &self.text);
        for call in &self.tool_calls {
            add(&mut text, &format!("[{}]", call.name));
            match json::value(call.input.as_bytes()) {
                Some(value @ (Value::Object(_) | Value::Array(_))) => {
                    add_value(&mut text, "", &value);
                }
                _ => add(&mut text, &call.input),
            }
        }
        for result in &self.tool_results {
            add(&mut text, &result.text);
        }
        text
    }
}

fn add(text: &mut String, more: &str) {
    if more.is_empty() {
        return;
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(more);
}

/// Adds a value, one line for each scalar, prefixed by its path.
fn add_value(text: &mut String, way: &str, value: &Value) {
    let below = |name: &str| if way.is_empty() { name.to_owned() } else { format!("{way}.{name}") };
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| add_value(text, &below(name), value));
        }
        Value::Array(items) => {
            let numbered = items.iter().enumerate();
            numbered.for_each(|(at, value)| add_value(text, &below(&at.to_string()), value));
        }
        Value::String(said) => add(text, &format!("{way}: {said}")),
        other => add(text, &format!("{way}: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use turntree::repo::PatternOptions;

    use super::*;

    fn message_text(format: &str, bytes: &[u8]) -> String {
        MessageText::default().read(format, bytes).unwrap()
    }

    fn words(words: &[&str]) -> MessageText {
        MessageText::with_words(
            &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(),
            false,
        )
    }

    #[test]
    fn messages_are_searched_as_unescaped_text() {
        let record = json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "say \"é\"\nagain"},
            {"type": "tool_use", "id": "1", "name": "Edit",
             "input": {"path": "a.rs", "edits": [{"new": "x\ny", "n": 2}], "all": true}},
            {"type": "tool_result", "tool_use_id": "1", "content": "done"},
        ]});
        let expected = "hm\nsay \"é\"\nagain\n[Edit]\npath: a.rs\nedits.0.new: x\ny\n\
                        edits.0.n: 2\nall: true\ndone";
        let text = message_text("json", record.to_string().as_bytes());
        assert_eq!(text, expected);
    }

    fn matching(expression: &str, ignore_case: bool) -> MessageText {
        let options = PatternOptions { ignore_case, ..PatternOptions::default() };
        MessageText::matching(&LinePattern::new(expression, options).unwrap())
    }

    #[test]
    fn expressions_are_searched_in_bytes_only_where_exact() {
        for (expression, is_told) in [
            ("ba[a-f]+ [a-m]o", true),
            (r"[a-z]+_\d+\(", true),
            (r"fn\s+\w+\(", true),
            // Present in every view, at the end of a text, in a number, and not at all.
            ("[a-z]+", false),
            (" [a-z]x", false),
            ("a: b", false),
            (r"\d+e\d", false),
            ("a.b", false),
            ("x*", false),
        ] {
            let condition = matching(expression, false).condition;
            assert_eq!(
                matches!(condition, Some(RecordCondition::Match { .. })),
                is_told,
                "{expression}"
            );
        }
        let has = |expression, bytes: &[u8]| matching(expression, false).test().unwrap()(bytes);
        assert!(has("q[ab]x", b"a qax b") && !has("q[ab]x", b"a qcx b"));
        assert!(has("q[ab]x", br"a \u0071ax"), "an escape of what may match");
        assert!(!has("q[ab]x", br"a \u00e9"), "an escape of something else");
        assert!(has("q[\u{e9}b]x", br"q\u00e9x") && has(r"q\sx", br#""q\tx""#));
    }

    #[test]
    fn escaped_words_are_found() {
        for (record, word) in [
            (r#"{"role":"user","content":"n\u0065edle"}"#, "needle"),
            (r#"{"role":"user","content":"x\nneedle"}"#, "needle"),
            (r#"{"role":"user","content":[{"type":"image","source":{}}]}"#, "mage"),
            (
                r#"{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{\"a\":\"n\\u0065edle\"}"}}]}"#,
                "needle",
            ),
        ] {
            let text = words(&[word]).read("json", record.as_bytes());
            assert!(text.is_some_and(|text| text.contains(word)), "{record}");
        }
        assert_eq!(words(&["needle"]).read("json", br#"{"content":"hay"}"#), None);
        let folded = MessageText::with_words(&["ask".to_owned()], true);
        assert!(
            folded.read("json", r#"{"role":"user","content":"A\u017fK"}"#.as_bytes()).is_some()
        );
    }

    turntree_properties::properties! {
        #[test]
        fn words_of_a_text_are_never_skipped(said in "\\PC{0,30}", ascii: bool, from in 0..30_usize) {
            let mut record = json!({"role": "user", "content": said}).to_string();
            if ascii {
                record = record.chars().map(|c| match c {
                    c if c.is_ascii() => c.to_string(),
                    c => c.encode_utf16(&mut [0; 2]).iter().map(|u| format!("\\u{u:04x}")).collect(),
                }).collect();
            }
            let text = message_text("json", record.as_bytes());
            let runs = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|run| !run.is_empty());
            let runs: Vec<&str> = runs.collect();
            if let Some(run) = runs.get(from % runs.len().max(1)) {
                prop_assert_eq!(words(&[run]).read("json", record.as_bytes()), Some(text.clone()));
            }
        }

        #[test]
        fn matches_of_expressions_are_never_skipped(
            said in prop::collection::vec("(?:[qx1e ]|q1|\\\\|\"|\t|\n|é|:|\u{212a}){0,8}", 1..4),
            shape in 0..4_usize,
            ascii: bool,
            ignore_case: bool,
            expression in "(q|x|1|e| |é|[qx]|[^x]|\\^|\\$|\\\\b|\\\\w|\\\\s|\\\\d|q\\*|\\(\\?:q\\|x1\\)\\+|k){1,4}",
        ) {
            let blocks = said.iter().map(|text| match shape {
                0 => json!({"type": "text", "text": text}),
                1 => json!({"type": "tool_use", "id": "1", "name": "qx", "input": {"q": text, "x": [1e5, text]}}),
                2 => json!({"type": "tool_use", "id": "1", "name": text, "input": json!({"a": text}).to_string()}),
                _ => json!({"type": "tool_result", "tool_use_id": "1", "content": text}),
            });
            let mut record = json!({"role": "user", "content": blocks.collect::<Vec<_>>()}).to_string();
            if ascii {
                record = record.chars().map(|c| match c {
                    c if c.is_ascii() && c != 'q' => c.to_string(),
                    c => c.encode_utf16(&mut [0; 2]).iter().map(|u| format!("\\u{u:04x}")).collect(),
                }).collect();
            }
            let options = PatternOptions { ignore_case, ..PatternOptions::default() };
            let Ok(pattern) = LinePattern::new(&expression, options) else { return Ok(()) };
            let text = message_text("json", record.as_bytes());
            let reads = MessageText::matching(&pattern).read("json", record.as_bytes()).is_some();
            if pattern.find(text.as_bytes(), None).count > 0 {
                prop_assert!(reads, "{} in {}", expression, record);
            }
        }
    }
}
