//! Formats a message as Markdown: the speaker, the text as a quote, calls and results folded.
//!
//! Recorded text is in quotes, and in fences that are longer than any run of backticks in it, so
//! that it cannot break out of its place; see `escape`.

use turntree::context::MessageEntry;

use super::escape::{escape_html, escape_inline, fence, quote};
use crate::formats::view;
use crate::text::json;

/// Maximum number of lines of a diff, a call or a result in a transcript.
const MAX_LINES: usize = 400;

/// Formats a single message with the record `bytes`. Omits nothing, and shows the ids of calls and
/// results, because these may be far apart. Ends with a line end.
#[must_use]
pub fn message_markdown(entry: &MessageEntry, bytes: &[u8]) -> String {
    format!("{}\n", message(entry, bytes, true).trim_matches('\n'))
}

/// Formats a message, either `whole` or shortened for a transcript.
pub(super) fn message(entry: &MessageEntry, bytes: &[u8], whole: bool) -> String {
    let message = view(&entry.media, bytes);
    let shown = |text: &str| if whole { text.to_owned() } else { shorten(text) };
    let id = |id: &str| match whole && !id.is_empty() {
        true => format!(" <code>{}</code>", escape_html(&id.replace(char::is_control, " "))),
        false => String::new(),
    };
    let origin = entry.origin.as_ref().map(|origin| format!(" (from {})", escape_inline(origin)));
    let mut parts = vec![format!("\n**{}**{}\n", entry.role.name(), origin.unwrap_or_default())];
    if !message.thinking.is_empty() {
        parts.push(fold("thinking", &quote(&message.thinking)));
    }
    if !message.text.is_empty() {
        parts.push(quote(&message.text));
    }
    for call in &message.tool_calls {
        let title = format!("call <b>{}</b>{}", escape_html(&call.name), id(&call.id));
        let (input, language) = format_arguments(&call.input);
        parts.push(fold(&title, &fence(&shown(&input), language)));
    }
    for result in &message.tool_results {
        let failed = if result.is_error { " that failed" } else { "" };
        let lines = match result.text.lines().count() {
            1 => "1 line".to_owned(),
            lines => format!("{lines} lines"),
        };
        let title = format!("result{failed}{}, {lines}", id(&result.call_id));
        parts.push(fold(&title, &fence(&shown(&result.text), "")));
    }
    parts.join("\n")
}

/// Returns a part that is hidden until the reader opens it.
pub(super) fn fold(title: &str, body: &str) -> String {
    format!("\n<details><summary>{title}</summary>\n\n{body}\n\n</details>")
}

/// Returns the arguments with indentation, and their language.
fn format_arguments(input: &str) -> (String, &'static str) {
    let value = json::value(input.as_bytes());
    match value.and_then(|value| serde_json::to_string_pretty(&value).ok()) {
        Some(pretty) => (pretty, "json"),
        None => (input.to_owned(), ""),
    }
}

/// Returns the first lines of a text and the number of omitted lines.
pub(super) fn shorten(text: &str) -> String {
    let more = text.lines().count().saturating_sub(MAX_LINES);
    if more == 0 {
        return text.to_owned();
    }
    let lines: Vec<&str> = text.lines().take(MAX_LINES).collect();
    format!("{}\n... {more} more lines", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use turntree::context::Role;
    use turntree::object::{Kind, ObjectId};

    use super::*;

    fn shown(role: Role, record: &str) -> String {
        let blob = ObjectId::of(Kind::Blob, record.as_bytes());
        message_markdown(&MessageEntry::new(blob, role, "anthropic-chat"), record.as_bytes())
    }

    #[test]
    fn single_messages_are_complete_and_cannot_forge_another() {
        let call = r#"{"role":"assistant","content":[{"type":"text","text":"I look.\n# user"},
            {"type":"tool_use","id":"c1","name":"Read","input":{"path":"a"}}]}"#;
        let json = "```json\n{\n  \"path\": \"a\"\n}\n```";
        let folded = |title: &str, body: &str| {
            format!("<details><summary>{title}</summary>\n\n{body}\n\n</details>\n")
        };
        let expected = folded("call <b>Read</b> <code>c1</code>", json);
        let expected = format!("**assistant**\n\n> I look.\n> # user\n\n{expected}");
        assert_eq!(shown(Role::Assistant, call), expected);
        let lines = "a\\n```\\n".repeat(MAX_LINES);
        let result = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1",
            "is_error":true,"content":"LINES"}]}"#;
        let text = shown(Role::Tool, &result.replace("LINES", &lines));
        let title = "result that failed <code>c1</code>, 800 lines";
        let body = format!("````\n{}````", "a\n```\n".repeat(MAX_LINES));
        assert_eq!(text, format!("**tool**\n\n\n{}", folded(title, &body)));
        assert_eq!(shown(Role::Other, "not JSON"), "**other**\n\n> not JSON\n");
    }
}
