//! Recognises the context that Codex inserts before a prompt, which a rollback removes with it.
//!
//! The rule is that of the client: a message of the user is context if one of its texts is a whole
//! element of the client, and a developer message if one of its texts begins with one. A person may
//! write about these elements, and such a message is a prompt.

use serde_json::Value;

use crate::text::json::text_at;

/// The beginnings and ends of texts that the client inserts as messages of the user.
const USER: [(&str, &str); 13] = [
    ("# AGENTS.md instructions", "</INSTRUCTIONS>"),
    ("<user_instructions>", "</user_instructions>"),
    ("<environment_context>", "</environment_context>"),
    ("<external_", ">"),
    ("<extension_context>", "</extension_context>"),
    ("<codex_internal_context source=\"", "</codex_internal_context>"),
    ("<goal_context>", "</goal_context>"),
    ("<skill>", "</skill>"),
    ("<user_shell_command>", "</user_shell_command>"),
    ("<turn_aborted>", "</turn_aborted>"),
    ("<subagent_notification>", "</subagent_notification>"),
    ("<hook_prompt hook_run_id=\"", "</hook_prompt>"),
    (
        "Warning: apply_patch was requested via ",
        "Use the apply_patch tool instead of exec_command.",
    ),
];

/// The beginnings of warnings that older releases insert as messages of the user.
const WARNINGS: [&str; 2] = [
    "Warning: The maximum number of unified exec processes you can keep open is",
    "Warning: Your account was flagged for potentially high-risk cyber activity",
];

/// The beginnings of texts that the client inserts as developer messages, and changes between
/// turns. Other developer messages stay when the prompt after them is rolled back.
const DEVELOPER: [&str; 12] = [
    "<permissions instructions>",
    "<model_switch>",
    "<collaboration_mode>",
    "<multi_agent_mode>",
    "<realtime_conversation>",
    "<skills_instructions>",
    "<personality_spec>",
    "<token_budget>",
    "<token_budget_reminder>",
    "<context_window>",
    "<context_window_guidance>",
    "<rollout_budget>",
];

/// Returns true if a message of the user is context.
pub(super) fn is_user_context(item: &Value) -> bool {
    any_text(item, |text| {
        let is_element =
            |(start, end): &(&str, &str)| starts_with(text, start) && ends_with(text, end);
        USER.iter().any(is_element) || WARNINGS.iter().any(|start| text.starts_with(start))
    })
}

/// Returns true if a developer message is context.
pub(super) fn is_developer_context(item: &Value) -> bool {
    any_text(item, |text| DEVELOPER.iter().any(|start| starts_with(text, start)))
}

fn any_text(item: &Value, is_context: impl Fn(&str) -> bool) -> bool {
    match item.get("content") {
        Some(Value::String(text)) => is_context(text.trim()),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| text_at(part, "/text"));
            texts.map(str::trim).any(is_context)
        }
        _ => false,
    }
}

fn starts_with(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
}

fn ends_with(text: &str, end: &str) -> bool {
    let from = text.len().checked_sub(end.len());
    let found = from.and_then(|from| text.get(from..));
    found.is_some_and(|found| found.eq_ignore_ascii_case(end))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(texts: &[&str]) -> Value {
        let part = |text: &&str| json!({"type": "input_text", "text": text});
        json!({"content": texts.iter().map(part).collect::<Vec<_>>()})
    }

    #[test]
    fn whole_elements_of_the_client_are_context_and_words_about_them_are_not() {
        for text in [
            "# AGENTS.md instructions for /p\n\n<INSTRUCTIONS>\nx\n</INSTRUCTIONS>",
            " <environment_context>\n<cwd>/p</cwd>\n</environment_context>\n",
            "<TURN_ABORTED>x</turn_aborted>",
            "<external_editor>x</external_editor>",
            "Warning: The maximum number of unified exec processes you can keep open is 9.",
        ] {
            assert!(is_user_context(&message(&[text])), "{text}");
        }
        for text in [
            "",
            "# AGENTS.md instructions are wrong",
            "<environment_context> means what?",
            "<reminder>buy milk</reminder>",
            "<div>é</div>",
            "[Request interrupted by user] is shown, why?",
        ] {
            assert!(!is_user_context(&message(&[text])), "{text}");
        }
        assert!(is_user_context(&message(&["please", "<skill>x</skill>"])), "any part");
        assert!(!is_user_context(&json!({"content": [{"type": "input_image"}]})));
    }

    #[test]
    fn instructions_of_developers_are_no_context() {
        assert!(is_developer_context(&message(&["Be brief.", "<model_switch>\nx"])));
        assert!(!is_developer_context(&message(&["Always answer in French."])));
    }
}
