//! The form in which texts, arguments and results are compared: without what clients vary.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use turntree::object::{Kind, ObjectId};

use super::place::Place;
use crate::insight::align::without_noise;
use crate::model::words::typed_words;
use crate::render::{arguments, is_stray_note};

/// The element with which clients remind a model, anywhere in a message of the user.
const REMINDER: [&str; 2] = ["<system-reminder>", "</system-reminder>"];

/// The start of a line with a random number, which Codex writes before the output of a command.
const CHUNK: &str = "Chunk ID: ";

/// Bytes of known forms from which they are forgotten.
const MAX_KNOWN_BYTES: usize = 64 << 20;

/// The kinds of texts, each with a form of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Wording {
    Prompt,
    Said,
    Input,
    Result,
}

/// The forms of texts that were compared before. A client sends its whole conversation with each
/// request, so without them the cost of a replay would be the square of its length.
#[derive(Debug, Default)]
pub(super) struct KnownForms(Mutex<Forms>);

#[derive(Debug, Default)]
struct Forms {
    forms: HashMap<(Wording, ObjectId), Arc<str>>,
    bytes: usize,
}

impl KnownForms {
    /// Returns the form of a text in which it is compared; an empty one if no person wrote it.
    pub(super) fn of(&self, wording: Wording, text: &str, place: &Place) -> Arc<str> {
        let name = (wording, ObjectId::of(Kind::Blob, text.as_bytes()));
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(form) = known().forms.get(&name) {
            return Arc::clone(form);
        }
        let form: Arc<str> = match wording {
            Wording::Prompt => prompt(text, place).unwrap_or_default(),
            Wording::Said => words(&place.to_recorded(text)),
            Wording::Input => input(text, place),
            Wording::Result => result(text, place),
        }
        .into();
        let mut known = known();
        known.bytes += form.len();
        if known.bytes > MAX_KNOWN_BYTES {
            *known = Forms { bytes: form.len(), ..Forms::default() };
        }
        known.forms.insert(name, Arc::clone(&form));
        form
    }
}

/// The words of a person in a message of the user; `None` if there are none.
pub(super) fn prompt(text: &str, place: &Place) -> Option<String> {
    if is_stray_note(text) {
        return None;
    }
    let typed = typed_words(&without_reminders(text))?;
    Some(words(&place.to_recorded(&typed))).filter(|typed| !typed.is_empty())
}

/// A text with single spaces.
pub(super) fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Arguments as an object with sorted keys.
pub(super) fn input(input: &str, place: &Place) -> String {
    let mut value = Value::Object(arguments(input));
    value.sort_all_objects();
    place.to_recorded(&value.to_string()).into_owned()
}

/// A result without ids, times, and the current directory.
pub(super) fn result(text: &str, place: &Place) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with(CHUNK)).collect();
    words(&without_noise(&place.to_recorded(&lines.join("\n")), place.recorded()))
}

/// Removes the reminders of a client from a text.
fn without_reminders(text: &str) -> String {
    let [open, close] = REMINDER;
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once(open) {
        let Some((_, behind)) = inside.split_once(close) else { break };
        plain.push_str(before);
        rest = behind;
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_the_words_of_a_person() {
        let place = Place::default();
        for (text, expected) in [
            ("fix  it\n", Some("fix it")),
            (
                "<system-reminder>a</system-reminder>\nfix <system-reminder>b</system-reminder> it",
                Some("fix it"),
            ),
            ("<system-reminder>only</system-reminder>", None),
            ("[Request interrupted by user]", None),
            ("<environment_context>x</environment_context>", None),
            ("# AGENTS.md instructions for /p", None),
            ("what is a <system-reminder>?", Some("what is a <system-reminder>?")),
        ] {
            assert_eq!(prompt(text, &place).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn arguments_are_equal_in_any_order_and_place() {
        let place = Place::new(Some("/w"), Some("/tmp/x"));
        let one = input(r#"{"b": 1, "a": {"path": "/tmp/x/f"}}"#, &place);
        assert_eq!(one, input(r#"{"a":{"path":"/w/f"},"b":1}"#, &place));
        assert_eq!(input("ls", &place), r#"{"input":"ls"}"#);
        assert_eq!(result("took 3 ms in /tmp/x/f", &place), result("took 9 ms in /w/f", &place));
        let output = |chunk: &str| format!("Chunk ID: {chunk}\nOutput:\nok");
        assert_eq!(result(&output("8713ff"), &place), result(&output("c3260f"), &place));
    }
}
