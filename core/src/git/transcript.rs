//! One message of a conversation as Markdown: what a person wants to read in a diff.
//!
//! ````text
//! # assistant
//!
//! I look at the parser first.
//!
//! ## calls Read (call-7)
//!
//! ```json
//! {
//!   "file_path": "src/parser.rs"
//! }
//! ```
//! ````

use serde_json::Value;

use crate::context::MessageEntry;
use crate::exchange::formats::view;

/// Shortest fence of Markdown.
const FENCE: &str = "```";

/// The text of a message whose record is `bytes`.
pub(super) fn markdown(entry: &MessageEntry, bytes: &[u8]) -> String {
    let view = view(&entry.media, bytes);
    let mut text = format!("# {}", entry.role);
    if let Some(origin) = &entry.origin {
        text.push_str(&format!(", from {origin}"));
    }
    text.push('\n');
    add_paragraph(&mut text, &view.text);
    if !view.thinking.is_empty() {
        text.push_str("\n## thinks\n");
        add_paragraph(&mut text, &view.thinking);
    }
    for call in &view.tool_calls {
        text.push_str(&format!("\n## calls {}{}\n", heading(&call.name), paired(&call.id)));
        match serde_json::from_str::<Value>(&call.input) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => {
                let pretty = serde_json::to_string_pretty(&value).unwrap_or_default();
                add_fenced(&mut text, "json", &pretty);
            }
            _ => add_fenced(&mut text, "", &call.input),
        }
    }
    for result in &view.tool_results {
        let outcome = if result.is_error { "fails" } else { "returns" };
        text.push_str(&format!("\n## {outcome}{}\n", paired(&result.call_id)));
        add_fenced(&mut text, "", &result.text);
    }
    text
}

fn paired(id: &str) -> String {
    if id.is_empty() { String::new() } else { format!(" ({})", heading(id)) }
}

/// What stands in a heading is on one line.
fn heading(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn add_paragraph(text: &mut String, paragraph: &str) {
    if paragraph.is_empty() {
        return;
    }
    text.push('\n');
    text.push_str(paragraph);
    if !paragraph.ends_with('\n') {
        text.push('\n');
    }
}

/// Adds a block with a fence that is longer than any in it.
fn add_fenced(text: &mut String, language: &str, block: &str) {
    if block.is_empty() {
        return;
    }
    let mut fence = FENCE.to_owned();
    while block.contains(&fence) {
        fence.push('`');
    }
    let end = if block.ends_with('\n') { "" } else { "\n" };
    text.push_str(&format!("\n{fence}{language}\n{block}{end}{fence}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Role;
    use crate::object::{Kind, ObjectId};

    fn shown(role: Role, record: &str) -> String {
        let blob = ObjectId::of(Kind::Blob, record.as_bytes());
        markdown(&MessageEntry::new(blob, role, "anthropic-chat"), record.as_bytes())
    }

    #[test]
    fn a_message_reads_as_it_was_said() {
        let call = r#"{"role":"assistant","content":[{"type":"text","text":"I look."},
            {"type":"tool_use","id":"c1","name":"Read","input":{"path":"a"}}]}"#;
        assert_eq!(
            shown(Role::Assistant, call),
            "# assistant\n\nI look.\n\n## calls Read (c1)\n\n```json\n{\n  \"path\": \"a\"\n}\n```\n"
        );
        let result = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1",
            "is_error":true,"content":"a\n```\nb"}]}"#;
        assert_eq!(shown(Role::Tool, result), "# tool\n\n## fails (c1)\n\n````\na\n```\nb\n````\n");
    }

    #[test]
    fn what_is_no_record_is_shown_as_it_is() {
        assert_eq!(shown(Role::Other, "not JSON"), "# other\n\nnot JSON\n");
    }
}
