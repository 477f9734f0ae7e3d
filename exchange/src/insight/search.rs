//! The text of a message to search in, and a fast check for records that cannot hold a word.
//!
//! A record is JSON, in which a text is written with escapes, so what people see is not what the bytes
//! are. Parsing every record would take longer than searching it. But a word of ASCII letters stands
//! in the bytes as it is said, unless it is written with `\u00..`: a record that has neither is not
//! parsed.

use regex::bytes::{Regex, RegexBuilder};
use serde_json::Value;

use crate::formats::view;
use crate::model::view::MessageView;
use crate::text::json;

/// Words of views that do not stand in a record.
const MADE_UP: [&str; 2] = ["image", "document"];

/// Records in which words may stand otherwise than said: ASCII or what folds to it as an escape, and
/// what one format leaves out of a text.
const ELSEWHERE: &str = r"\\u(?:00[2-7]|212[aA]|017[fF])|/task>";

/// Reads messages as texts to search in.
#[derive(Debug, Clone, Default)]
pub struct MessageText {
    /// The bytes that a record must hold.
    needed: Option<Regex>,
}

impl MessageText {
    /// Reads only messages that may say one of `words`, which are ASCII letters, digits and `_`; every
    /// message when there are none.
    #[must_use]
    pub fn with_words(words: &[String], ignore_case: bool) -> Self {
        let is_sure = |word: &String| {
            let lower = word.to_ascii_lowercase();
            // A number may be written in several ways.
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
        Self { needed: RegexBuilder::new(&expression).build().ok() }
    }

    /// A test whether bytes may say one of the words, as they are or as a record of any format; none
    /// when there are no words to look for.
    #[must_use]
    pub fn test(&self) -> Option<impl Fn(&[u8]) -> bool + Sync + '_> {
        let needed = self.needed.as_ref()?;
        Some(move |bytes: &[u8]| needed.is_match(bytes))
    }

    /// Returns the text of the message in `bytes`, whose record is of `format`: thoughts, text,
    /// calls of tools with their arguments, results. Nothing when it does not say any of the
    /// words.
    #[must_use]
    pub fn read(&self, format: &str, bytes: &[u8]) -> Option<String> {
        match self.test() {
            Some(may_say) if !may_say(bytes) => None,
            _ => Some(view(format, bytes).full_text()),
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
    }
}
