//! The voice of a document: prompts and answers count more than the output of tools, and that more
//! than text that clients add.

use turntree::context::Role;

use crate::model::view::MessageView;
use crate::model::words::{UserWords, user_words};

/// The origin of the text of a document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Voice {
    /// A person.
    Person,
    /// The agent, in text.
    Agent,
    /// Calls, results, files and notes.
    #[default]
    Work,
    /// Instructions, skills, lists and reminders that a client added.
    Client,
}

impl Voice {
    /// Returns the voice of a message.
    pub(super) fn of(view: &MessageView) -> Self {
        let says = !view.text.trim().is_empty();
        match view.role {
            Role::User if says => match user_words(view.typed.as_ref().unwrap_or(&view.text)) {
                UserWords::Prompt(_) if !view.is_added => Self::Person,
                _ => Self::Client,
            },
            Role::Assistant if says => Self::Agent,
            Role::System => Self::Client,
            _ if view.tool_calls.is_empty()
                && view.tool_results.is_empty()
                && view.has_thoughts =>
            {
                Self::Agent
            }
            _ => Self::Work,
        }
    }

    /// Returns the number of the voice in the index, below 4.
    pub(super) const fn code(self) -> u32 {
        self as u32
    }

    /// Returns the voice of a number, the last one for an unknown number.
    pub(super) const fn from_code(code: u32) -> Self {
        match code {
            0 => Self::Person,
            1 => Self::Agent,
            2 => Self::Work,
            _ => Self::Client,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::formats::view;

    #[test]
    fn prompts_answers_work_and_additions_have_voices() {
        let call = json!([{"type": "tool_use", "id": "1", "name": "Bash", "input": {}}]);
        let result = json!([{"type": "tool_result", "tool_use_id": "1", "content": "done"}]);
        for (role, content, expected) in [
            ("user", json!("fix the parser"), Voice::Person),
            ("user", json!("<system-reminder>be brief</system-reminder>"), Voice::Client),
            ("user", json!("Base directory for this skill: /skills/x"), Voice::Client),
            ("user", result, Voice::Work),
            ("assistant", json!("The parser is fixed."), Voice::Agent),
            ("assistant", call, Voice::Work),
            ("system", json!("You are an agent with these tools"), Voice::Client),
        ] {
            let record = json!({"role": role, "content": content}).to_string();
            assert_eq!(Voice::of(&view("json", record.as_bytes())), expected, "{record}");
        }
        for code in 0..4 {
            assert_eq!(Voice::from_code(code).code(), code);
        }
    }
}
