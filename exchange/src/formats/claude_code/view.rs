//! The view of a line of Claude Code: the part that the client sends, and its role.

use serde_json::Value;
use turntree::context::Role;

use super::tools::is;
use crate::model::view::MessageView;
use crate::text::json::text_at;

/// The text that the client sends after the result of a tool search that has loaded tools.
const TOOL_LOADED: &str = "Tool loaded.";

/// Returns the view of a line, or of the line that a sub-agent's progress line carries. Text that
/// the client adds to the conversation is in `rendered`.
pub(super) fn view(line: &Value) -> MessageView {
    let line = sub_agent_line(line).unwrap_or(line);
    if is_local_command(line) {
        let mut view = MessageView::new(Role::User);
        view.id = text_at(line, "/uuid").map(str::to_owned);
        view.add_text(text_at(line, "/content").unwrap_or_default());
        return view;
    }
    let message = line.get("message").unwrap_or(line);
    let role = text_at(line, "/renderedRole").or_else(|| text_at(message, "/role"));
    let queued = Queued::of(line);
    let content = match &queued {
        Some(queued) => line.get("rendered").or(queued.prompt),
        None => line.get("rendered").or_else(|| message.get("content")),
    };
    let role = role.or_else(|| queued.is_some().then_some("user"));
    let mut view = MessageView::new(match role {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("system") => Role::System,
        _ => Role::Other,
    });
    view.id = text_at(line, "/uuid").map(str::to_owned);
    view.is_added =
        is(line, "isMeta") || is(line, "isCompactSummary") || line.get("rendered").is_some();
    view.add_content(content.unwrap_or(&Value::Null));
    if let Some(queued) = queued {
        view.is_added = !queued.is_typed;
        view.typed = queued.words().filter(|_| queued.is_typed);
    }
    if view.text.is_empty() && !view.tool_results.is_empty() {
        view.role = Role::Tool;
    }
    if has_loaded_tools(content) && !view.text.contains(TOOL_LOADED) {
        view.add_text(TOOL_LOADED);
    }
    view
}

/// The line of a sub-agent in a progress line.
pub(super) fn sub_agent_line(line: &Value) -> Option<&Value> {
    let data = line.get("data").filter(|data| text_at(data, "/type") == Some("agent_progress"))?;
    data.get("message").filter(|message| message.is_object())
}

/// Returns whether a line is a command of the client that is sent to the model from then on, with its
/// output. It is a system line where the command made no message of the user.
pub(super) fn is_local_command(line: &Value) -> bool {
    text_at(line, "/type") == Some("system")
        && text_at(line, "/subtype") == Some("local_command")
        && text_at(line, "/content").is_some()
}

/// Returns whether a line with a message is never sent: a text of the client instead of a failed
/// answer.
pub(super) fn is_never_sent(line: &Value) -> bool {
    is(line, "isApiErrorMessage") && text_at(line, "/message/model") == Some("<synthetic>")
        || is(line, "isVirtual")
}

/// Returns whether results have names of tools that were loaded.
fn has_loaded_tools(content: Option<&Value>) -> bool {
    let names_tool = |block: &Value| text_at(block, "/type") == Some("tool_reference");
    let has = |result: &Value| {
        let inside = result.get("content").and_then(Value::as_array);
        text_at(result, "/type") == Some("tool_result")
            && inside.is_some_and(|inside| inside.iter().any(names_tool))
    };
    content.and_then(Value::as_array).is_some_and(|blocks| blocks.iter().any(has))
}

/// A prompt that was queued while the agent worked, and sent with the next request.
pub(super) struct Queued<'a> {
    prompt: Option<&'a Value>,
    /// The user typed it, for the agent.
    pub(super) is_typed: bool,
}

impl<'a> Queued<'a> {
    /// The queued command of an attachment; `None` for one that an earlier attachment repeats.
    pub(super) fn of(line: &'a Value) -> Option<Self> {
        let attachment = line.get("attachment")?;
        if text_at(attachment, "/type") != Some("queued_command") {
            return None;
        }
        let prompt = ["batchedRelayPrompts", "prompt"].iter().find_map(|name| attachment.get(name));
        if is(attachment, "renderedByBatchHead") && line.get("rendered").is_none() {
            return None;
        }
        let is_of =
            |path: &str, usual: &str| text_at(attachment, path).is_none_or(|it| it == usual);
        let is_typed = is_of("/origin/kind", "human") && is_of("/commandMode", "prompt");
        Some(Self { prompt, is_typed: is_typed && !is(attachment, "isMeta") })
    }

    /// Returns its text.
    fn words(&self) -> Option<String> {
        let mut words = MessageView::new(Role::User);
        words.add_content(self.prompt?);
        Some(words.text).filter(|text| !text.trim().is_empty())
    }
}
