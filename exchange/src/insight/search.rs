//! The text of a message to search in, and a fast check for records that cannot hold what is searched.
//!
//! A record is JSON, in which a text is written with escapes, so what people see is not what the bytes
//! are. Parsing every record would take longer than searching it. But a word of ASCII letters stands
//! in the bytes as it is said, unless it is written with `\u00..`: a record that has neither is not
//! parsed. The same holds for whatever an expression matches, if that has no character that is written
//! otherwise, or that a view puts between what was said.

use regex::bytes::{Regex, RegexBuilder};
use serde_json::Value;
use turntree::repo::{LinePattern, LoosePattern};

use crate::formats::view;
use crate::model::view::MessageView;
use crate::text::json;

/// Words of views that do not stand in a record.
const MADE_UP: [&str; 2] = ["image", "document"];

/// Records in which words may stand otherwise than said: ASCII or what folds to it as an escape, and
/// what one format leaves out of a text.
const ELSEWHERE: &str = r"\\u(?:00[2-7]|212[aA]|017[fF])|/task>";

/// Records in which a match of an expression may stand otherwise too: where one format names files.
const MADE: &str = "artifact|attachments";

/// The same for matches that may have a control character, or one beyond ASCII.
const ESCAPED_CONTROLS: &str = r"\\[bfrt]|\\u00[01]";
const ESCAPED: &str = r"\\u";

/// What views put between what was said, and what JSON always escapes or may.
const GLUE: &str = ":,.[]{}$\"\\/";

/// A number may be written in several ways.
const NUMBERS: &str = "0123456789+-.eE";

/// Shorter words stand in nearly every record.
const LEAST_WORD_BYTES: usize = 3;

/// Reads messages as texts to search in.
#[derive(Debug, Clone, Default)]
pub struct MessageText {
    needed: Option<Needed>,
}

/// What a record must hold.
#[derive(Debug, Clone)]
enum Needed {
    Words(Regex),
    /// A match of an expression as it is, or what may be one.
    Match {
        expression: Box<LoosePattern>,
        elsewhere: Regex,
    },
}

impl MessageText {
    /// Reads only messages in which a line may match the pattern, as far as that can be told from bytes.
    #[must_use]
    pub fn matching(pattern: &LinePattern) -> Self {
        let words = pattern.words();
        let are_rare = !words.is_empty() && words.iter().all(|it| it.len() >= LEAST_WORD_BYTES);
        let of_words = Self::with_words(words, pattern.ignores_case());
        if are_rare && of_words.needed.is_some() {
            return of_words;
        }
        Needed::matched(pattern).map_or(of_words, |needed| Self { needed: Some(needed) })
    }

    /// Reads only messages that may say one of `words`, which are ASCII letters, digits and `_`; every
    /// message when there are none.
    #[must_use]
    pub fn with_words(words: &[String], ignore_case: bool) -> Self {
        let is_sure = |word: &String| {
            let lower = word.to_ascii_lowercase();
            let is_number = lower.bytes().all(|byte| byte.is_ascii_digit() || byte == b'e');
            !is_number && !MADE_UP.iter().any(|made_up| made_up.contains(&lower))
        };
        if words.is_empty() || !words.iter().all(is_sure) {
            return Self::default();
        }
        let words = words.iter().map(|word| regex::escape(word)).collect::<Vec<_>>().join("|");
        let case = if ignore_case { "(?i:" } else { "(?:" };
        let expression = format!("{case}{words})|{ELSEWHERE}");
        // Without one, every message is read.
        Self { needed: RegexBuilder::new(&expression).build().ok().map(Needed::Words) }
    }

    /// A test whether bytes may hold what is searched, as they are or as a record of any format; none when
    /// that cannot be told from bytes.
    #[must_use]
    pub fn test(&self) -> Option<impl Fn(&[u8]) -> bool + Sync + '_> {
        let needed = self.needed.as_ref()?;
        Some(move |bytes: &[u8]| needed.may_be_in(bytes))
    }

    /// Returns the text of the message in `bytes`, whose record is of `format`: thoughts, text,
    /// calls of tools with their arguments, results. Nothing when it does not say what is searched.
    #[must_use]
    pub fn read(&self, format: &str, bytes: &[u8]) -> Option<String> {
        match self.test() {
            Some(may_say) if !may_say(bytes) => None,
            _ => Some(view(format, bytes).full_text()),
        }
    }
}

impl Needed {
    /// What a match of an expression needs, if that stands in a record as it is said.
    fn matched(pattern: &LinePattern) -> Option<Self> {
        let loose = pattern.loose()?;
        let is_as_said = !loose.may_have(GLUE)
            && !loose.may_begin_with(" ")
            && loose.needs_other_than(NUMBERS)
            && !MADE_UP.iter().any(|made_up| loose.is_in(made_up.as_bytes()));
        if !is_as_said {
            return None;
        }
        let mut elsewhere = vec![ELSEWHERE, MADE];
        elsewhere.extend(loose.may_have_controls().then_some(ESCAPED_CONTROLS));
        elsewhere.extend(loose.may_have_others().then_some(ESCAPED));
        let elsewhere = RegexBuilder::new(&elsewhere.join("|")).build().ok()?;
        Some(Self::Match { expression: Box::new(loose), elsewhere })
    }

    fn may_be_in(&self, bytes: &[u8]) -> bool {
        match self {
            Self::Words(words) => words.is_match(bytes),
            Self::Match { expression, elsewhere } => {
                expression.is_in(bytes)
                    || elsewhere.is_match(bytes)
                    // What is no text is read with other characters in it.
                    || (expression.may_have_others() && str::from_utf8(bytes).is_err())
            }
        }
    }
}

impl MessageView {
    /// All that is said, line by line: thoughts, text, then calls of tools as their name and one line
    /// for each argument, and results.
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

/// Adds a value, each string in it as it is said, behind the way to it.
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
    fn a_message_is_one_text_without_escapes() {
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
    fn an_expression_is_looked_for_in_bytes_where_they_tell_it() {
        for (expression, is_told) in [
            ("ba[a-f]+ [a-m]o", true),
            (r"[a-z]+_\d+\(", true),
            (r"fn\s+\w+\(", true),
            // In every view, at an end of what was said, in a number, and not at all.
            ("[a-z]+", false),
            (" [a-z]x", false),
            ("a: b", false),
            (r"\d+e\d", false),
            ("a.b", false),
            ("x*", false),
        ] {
            let needed = matching(expression, false).needed;
            assert_eq!(matches!(needed, Some(Needed::Match { .. })), is_told, "{expression}");
        }
        let has = |expression, bytes: &[u8]| matching(expression, false).test().unwrap()(bytes);
        assert!(has("q[ab]x", b"a qax b") && !has("q[ab]x", b"a qcx b"));
        assert!(has("q[ab]x", br"a \u0071ax"), "an escape of what may match");
        assert!(!has("q[ab]x", br"a \u00e9"), "an escape of something else");
        assert!(has("q[\u{e9}b]x", br"q\u00e9x") && has(r"q\sx", br#""q\tx""#));
    }

    #[test]
    fn a_word_written_with_escapes_is_not_missed() {
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
        fn what_a_text_says_is_never_passed_over(said in "\\PC{0,30}", ascii: bool, from in 0..30_usize) {
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
        fn what_an_expression_matches_is_never_passed_over(
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
