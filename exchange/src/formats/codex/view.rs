//! The view of a line of a rollout, and of an item of a compacted history.

use serde_json::Value;
use turntree::context::Role;

use crate::model::view::MessageView;
use crate::text::json::text_at;

/// Kinds of items that the client keeps and never sends to a model.
const NEVER_SENT: [&str; 2] = ["ghost_snapshot", "compaction_trigger"];

/// The record of a message from another agent, in releases before [`AGENT_MESSAGE`].
pub(super) const COMMUNICATION: &str = "inter_agent_communication";

/// The kind of an item with a message of another agent.
const AGENT_MESSAGE: &str = "agent_message";

/// A line, or an item of a compacted history.
pub(super) fn view(value: &Value) -> MessageView {
    let item = value.get("payload").unwrap_or(value);
    let is_of_agent = text_at(value, "/type") == Some(COMMUNICATION);
    let mut view = MessageView::new(if is_of_agent { Role::User } else { role(item) });
    view.id = text_at(item, "/id").map(str::to_owned);
    view.is_added = item.get("role").is_none();
    let kind = text_at(item, "/type").unwrap_or_default();
    let field = |name| item.get(name);
    match kind {
        "reasoning" => {
            view.has_thoughts = true;
            for part in field("summary").and_then(Value::as_array).into_iter().flatten() {
                view.add_thinking(text_at(part, "/text").unwrap_or_default());
            }
        }
        "function_call" => view.add_call(field("call_id"), field("name"), field("arguments")),
        "custom_tool_call" => view.add_call(field("call_id"), field("name"), field("input")),
        _ if kind.ends_with("_call") => {
            let name = Value::from(kind.trim_end_matches("_call"));
            let input = field("arguments").or_else(|| field("action"));
            view.add_call(field("call_id"), Some(&name), input);
        }
        _ if kind.ends_with("_output") => {
            let output = field("output").or_else(|| field("tools"));
            view.add_result(field("call_id"), &output_text(output), false);
        }
        _ => {
            let content = field("content").or_else(|| field("message"));
            view.add_content(content.unwrap_or(&Value::Null));
        }
    }
    view
}

/// Returns whether an item was ever sent to a model.
pub(super) fn is_sent(item: &Value) -> bool {
    let kind = text_at(item, "/type").unwrap_or_default();
    !NEVER_SENT.contains(&kind) && text_at(item, "/role") != Some("system")
}

/// Returns the output of a tool: text, content blocks, `{content}`, or anything else as JSON.
fn output_text(output: Option<&Value>) -> Value {
    match output {
        None => Value::Null,
        Some(Value::Object(fields)) if fields.contains_key("content") => {
            fields.get("content").cloned().unwrap_or_default()
        }
        Some(Value::Array(items)) if !items.iter().all(is_block) => {
            Value::from(Value::from(items.clone()).to_string())
        }
        Some(other) => other.clone(),
    }
}

fn is_block(item: &Value) -> bool {
    item.get("text").is_some() || text_at(item, "/type") == Some("input_image")
}

fn role(item: &Value) -> Role {
    let kind = text_at(item, "/type").unwrap_or_default();
    match text_at(item, "/role") {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("developer" | "system") => Role::System,
        _ if kind == AGENT_MESSAGE => Role::User,
        _ if kind.ends_with("_output") => Role::Tool,
        _ if kind == "reasoning" || kind.ends_with("_call") => Role::Assistant,
        // A compacted history that is written as one text.
        _ if item.get("message").is_some() => Role::User,
        _ => Role::Other,
    }
}
