//! The text form of a transition, which upstream puts into a prompt: `<state_snapshot>`.
//!
//! ```text
//! <state_snapshot>
//!   <overall_goal>the first thing that a user said</overall_goal>
//!   <key_knowledge>lines of the model that name what is used</key_knowledge>
//!   <file_system_state>lines that say CREATED, MODIFIED or DELETED</file_system_state>
//!   <current_plan>numbered lines and check boxes</current_plan>
//! </state_snapshot>
//! ```
//!
//! Models write it, too, so it is read leniently: fences are removed, and missing parts are empty.
//! Entities are decoded; upstream leaves them as they are.

use turntree::context::{Context, MAIN_AGENT, MessageEntry};
use turntree::error::Result;
use turntree::object::{Kind, ObjectSource};

use super::mode::said;

const GOAL_CHARS: usize = 200;
const MAX_KNOWLEDGE: usize = 10;
const MAX_FILES: usize = 20;
const MAX_PLAN: usize = 15;

/// The content of the text, part by part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateSnapshot {
    /// The wishes of the user.
    pub overall_goal: String,
    /// The knowledge, a line each.
    pub key_knowledge: Vec<String>,
    /// The states of files, a line each.
    pub file_system_state: Vec<String>,
    /// The tasks, a line each.
    pub current_plan: Vec<String>,
}

/// Returns the parts of the conversation of a context, by upstream's rules.
///
/// # Errors
/// As for reading messages.
pub fn state_snapshot(source: &dyn ObjectSource, context: &Context) -> Result<StateSnapshot> {
    let mut state = StateSnapshot::default();
    let mut has_goal = false;
    let list = context.messages(source, MAIN_AGENT)?;
    for item in list.iter(source, 0..list.len()) {
        let entry = MessageEntry::from_item(&item?)?;
        let (role, text) = said(&entry, &source.read_as(Kind::Blob, &entry.blob)?);
        if role == "user" && !has_goal {
            has_goal = true;
            state.overall_goal = text.chars().take(GOAL_CHARS).collect();
        }
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if role == "assistant"
                && names_knowledge(line)
                && state.key_knowledge.len() < MAX_KNOWLEDGE
            {
                state.key_knowledge.push(line.to_owned());
            }
            if ["CREATED", "MODIFIED", "DELETED"].iter().any(|word| line.contains(word)) {
                keep_last(&mut state.file_system_state, line, MAX_FILES);
            }
            if is_step(line) {
                keep_last(&mut state.current_plan, line, MAX_PLAN);
            }
        }
    }
    Ok(state)
}

fn keep_last(lines: &mut Vec<String>, line: &str, most: usize) {
    if lines.len() == most {
        lines.remove(0);
    }
    lines.push(line.to_owned());
}

fn names_knowledge(line: &str) -> bool {
    let line = line.to_lowercase();
    let words = ["using", "with", "library:", "framework:", "database:"];
    words.iter().any(|word| line.contains(word))
}

/// `1. this`, `- [ ] that`, `[x] done`.
fn is_step(line: &str) -> bool {
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    let rest = line.get(digits..).unwrap_or_default();
    let bare = line.trim_start_matches(['-', '*', ' ']);
    digits > 0 && rest.starts_with(['.', ')'])
        || ["[ ]", "[x]", "[X]"].iter().any(|mark| bare.starts_with(mark))
}

impl StateSnapshot {
    /// The text.
    #[must_use]
    pub fn to_xml(&self) -> String {
        let lines = |lines: &[String]| -> String {
            lines.iter().map(|line| format!("    {}\n", escaped(line))).collect()
        };
        format!(
            "<state_snapshot>\n  <overall_goal>{}</overall_goal>\n  <key_knowledge>\n{}  </key_knowledge>\n  <file_system_state>\n{}  </file_system_state>\n  <current_plan>\n{}  </current_plan>\n</state_snapshot>\n",
            escaped(&self.overall_goal),
            lines(&self.key_knowledge),
            lines(&self.file_system_state),
            lines(&self.current_plan),
        )
    }
}

/// Reads the text, wherever it is in the output of a model; `None` if it is missing.
#[must_use]
pub fn read_state_snapshot(text: &str) -> Option<StateSnapshot> {
    let inner = between(text, "state_snapshot")?;
    let part = |name: &str| between(inner, name).unwrap_or_default();
    let lines = |name: &str| {
        let lines = part(name).lines().map(str::trim);
        lines.filter(|line| !line.is_empty() && !line.starts_with("```")).map(unescaped).collect()
    };
    Some(StateSnapshot {
        overall_goal: unescaped(part("overall_goal").trim()),
        key_knowledge: lines("key_knowledge"),
        file_system_state: lines("file_system_state"),
        current_plan: lines("current_plan"),
    })
}

fn between<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>")).map_or(rest, |(inner, _)| inner))
}

const ENTITIES: [(&str, char); 5] =
    [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>'), ("&quot;", '"'), ("&apos;", '\'')];

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match ENTITIES.iter().find(|(_, plain)| *plain == character) {
            Some((entity, _)) => escaped.push_str(entity),
            None => escaped.push(character),
        }
    }
    escaped
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, from)) = rest.find('&').and_then(|at| rest.split_at_checked(at)) {
        plain.push_str(before);
        let entity = ENTITIES.iter().find(|(entity, _)| from.starts_with(entity));
        let (character, length) = entity.map_or(('&', 1), |(entity, plain)| (*plain, entity.len()));
        plain.push(character);
        rest = from.get(length..).unwrap_or_default();
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    turntree_properties::properties! {
        #[test]
        fn what_is_written_is_read_again(
            goal in r#"([a-z<>&"' ;]{1,20}[a-z&;])?"#,
            lines in prop::collection::vec(r#"[a-z<>&"'][a-z<>&"' ;]{0,20}[a-z&;]"#, 0..4),
        ) {
            let state = StateSnapshot {
                overall_goal: goal.trim().to_owned(),
                key_knowledge: lines.clone(),
                current_plan: lines,
                ..StateSnapshot::default()
            };
            prop_assert_eq!(read_state_snapshot(&state.to_xml()), Some(state));
        }

        #[test]
        fn any_text_is_read_or_not(text in r#"(</?(state_snapshot|current_plan)>|&(amp;|lt)?|[a-z\n]){0,20}"#) {
            let _ = read_state_snapshot(&text);
        }
    }

    #[test]
    fn what_a_model_writes_around_it_is_left_out() {
        let text = "Here:\n```xml\n<state_snapshot><overall_goal>a &lt;b&gt; &amp;amp; c</overall_goal>\n<current_plan>\n```\n1. one\n</current_plan>";
        let state = read_state_snapshot(text).unwrap();
        assert_eq!(state.overall_goal, "a <b> &amp; c");
        assert_eq!(state.current_plan, ["1. one"]);
        assert_eq!(read_state_snapshot("<overall_goal>x</overall_goal>"), None);
    }
}
