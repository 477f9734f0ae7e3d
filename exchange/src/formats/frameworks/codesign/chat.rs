//! Rows of a chat: their content, and where turns begin.
//!
//! A row is `{seq, kind, payload, snapshotId, createdAt}`, in a database as it is and in a session
//! file as the `data` of a line. Before there were rows, a message was `{role, content}`.

use serde_json::Value;
use turntree::context::Role;

use crate::model::view::MessageView;
use crate::text::json::text_at;

/// The view of a row, or of the line that holds it.
pub(super) fn view(value: &Value) -> MessageView {
    let row = value.get("data").filter(|_| value.get("customType").is_some()).unwrap_or(value);
    let payload = row.get("payload").unwrap_or(&Value::Null);
    let text = |name: &str| payload.get(name).and_then(Value::as_str).unwrap_or_default();
    match text_at(row, "/kind") {
        Some("user") => {
            let mut view = MessageView::new(Role::User);
            view.add_text(text("text"));
            let files = payload.get("attachments").and_then(Value::as_array);
            for file in files.into_iter().flatten() {
                let name = text_at(file, "/name").or_else(|| text_at(file, "/path"));
                view.add_text(&format!("[file: {}]", name.unwrap_or("file")));
            }
            view
        }
        Some("assistant_text") => {
            let mut view = MessageView::new(Role::Assistant);
            view.add_text(text("text"));
            view
        }
        Some("tool_call") => call(row, payload),
        Some("artifact_delivered") => {
            let mut view = MessageView::new(Role::Other);
            view.add_text(&format!("[artifact {}]", text("filename")).replace(" ]", "]"));
            view
        }
        Some("error") => {
            let mut view = MessageView::new(Role::Other);
            view.add_text(text("message"));
            view
        }
        None if row.get("status").is_some() && row.get("seq").is_some() => status(row),
        None if row.get("role").is_some() => {
            let mut view =
                MessageView::new(Role::from_name(text_at(row, "/role").unwrap_or_default()));
            view.add_content(row.get("content").unwrap_or(&Value::Null));
            view
        }
        _ => MessageView::new(Role::Other),
    }
}

fn call(row: &Value, payload: &Value) -> MessageView {
    let mut view = MessageView::new(Role::Assistant);
    let id = Value::from(call_id(row));
    let input = payload.get("args").or_else(|| payload.get("command"));
    view.add_call(Some(&id), payload.get("toolName"), input);
    if is_done(payload) {
        add_result(&mut view, &id, payload, text_at(payload, "/error/message"));
    }
    view
}

fn status(row: &Value) -> MessageView {
    let mut view = MessageView::new(Role::Tool);
    add_result(&mut view, &Value::from(call_id(row)), row, text_at(row, "/errorMessage"));
    view
}

fn add_result(view: &mut MessageView, id: &Value, from: &Value, failed: Option<&str>) {
    let result = from.get("result").map(|result| result.get("content").unwrap_or(result));
    let failed = failed.map(Value::from);
    let content = result.or(failed.as_ref()).unwrap_or(&Value::Null);
    view.add_result(Some(id), content, text_at(from, "/status") == Some("error"));
}

/// A call and its result share the number of the row, and often nothing else.
fn call_id(row: &Value) -> String {
    row.get("seq").map_or_else(String::new, |seq| format!("seq-{seq}"))
}

/// Returns true if the row of a call has its result, as databases and later states of a chat do.
fn is_done(payload: &Value) -> bool {
    matches!(text_at(payload, "/status"), Some("done" | "error"))
        || payload.get("result").is_some_and(|result| !result.is_null())
}

/// Finds the beginnings of turns: a prompt, and each step of the model, which includes its calls
/// and results.
#[derive(Debug, Default)]
pub(super) struct Turns {
    last: Last,
}

/// The last row.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Last {
    #[default]
    Nothing,
    Prompt,
    /// Words or calls of the model.
    Step,
    Result,
}

impl Turns {
    /// Returns true if a turn begins with `row`.
    pub(super) fn begins(&mut self, row: &Value) -> bool {
        let last = self.last;
        let kind = text_at(row, "/kind").or_else(|| text_at(row, "/role"));
        match kind {
            Some("user") => {
                self.last = Last::Prompt;
                true
            }
            Some("tool_call") => {
                let done = is_done(row.get("payload").unwrap_or(&Value::Null));
                self.last = if done { Last::Result } else { Last::Step };
                last != Last::Step
            }
            Some("assistant_text" | "assistant") => {
                self.last = Last::Step;
                true
            }
            _ => {
                self.last = Last::Result;
                last == Last::Nothing
            }
        }
    }
}
