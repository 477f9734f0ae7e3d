//! The view of a message of Gemini CLI: its parts, its calls and their results.
//!
//! A message of the model has the calls of its step and their results in `toolCalls`. From version
//! 0.61 on the results are repeated as a message of the user, and after a resume the calls are
//! among the parts, as the model is sent them. A resume repeats each result, and a compression puts
//! both into one message. The view has one result for each call, as every interface requires.

use std::collections::HashSet;

use serde_json::Value;
use turntree::context::Role;

use crate::model::view::{MessageView, ToolResult};
use crate::text::json::text_at;

pub(super) fn calls(message: &Value) -> impl Iterator<Item = &Value> {
    message.get("toolCalls").and_then(Value::as_array).into_iter().flatten()
}

/// The kinds of messages of the model: that of Gemini CLI, and that of the first releases of Qwen
/// Code, which wrote the same documents.
pub(super) const ANSWERS: [&str; 2] = ["gemini", "qwen"];

/// The start of the message that the client writes before a conversation that it begins or loads.
const CONTEXT: &str = "<session_context>";

/// Returns true for the first message of a conversation that the client begins or loads.
pub(super) fn is_context(message: &Value) -> bool {
    text_at(message, "/type") == Some("user") && first_text(message).starts_with(CONTEXT)
}

/// Returns true for a message that the client may write while it loads a conversation: one without
/// a request to a model.
pub(super) fn is_loaded(message: &Value) -> bool {
    let is_null = |name| message.get(name).is_none_or(Value::is_null);
    match text_at(message, "/type") {
        Some("user") => true,
        Some(kind) if ANSWERS.contains(&kind) => {
            is_null("model") && is_null("tokens") && calls(message).next().is_none()
        }
        _ => false,
    }
}

/// The text before the working directory in the first prompt, which Gemini CLI writes itself.
const DIRECTORY_MARKS: [&str; 2] =
    ["currently working in the directory: ", "**Workspace Directories:**\n  - "];

/// Returns the working directory that the first prompt names.
pub(super) fn working_directory(text: &str) -> Option<&str> {
    let rest = DIRECTORY_MARKS.iter().find_map(|mark| text.split_once(mark))?.1;
    rest.lines().next().map(str::trim)
}

fn first_text(message: &Value) -> &str {
    let content = message.get("content").unwrap_or(&Value::Null);
    let first = content.get(0).and_then(|part| text_at(part, "/text"));
    content.as_str().or(first).unwrap_or_default().trim_start()
}

/// Returns true for a command to the client. Paths and comments also begin with a slash, but are
/// sent.
fn is_command(text: &str) -> bool {
    let word = text.split_whitespace().next().and_then(|word| word.strip_prefix('/'));
    word.is_some_and(|word| !word.contains('/') && !word.starts_with('*'))
}

/// Returns whether a message was ever sent to the model: notes and commands of the client are not.
pub(super) fn is_sent(message: &Value) -> bool {
    match text_at(message, "/type") {
        Some("user") => !is_command(first_text(message)),
        Some(kind) => ANSWERS.contains(&kind),
        None => false,
    }
}

/// Returns the ids of the calls whose results a message consists of; `None` for any other message.
pub(super) fn answered_by(message: &Value) -> Option<Vec<&str>> {
    if text_at(message, "/type") != Some("user") {
        return None;
    }
    let parts = message.get("content")?.as_array().filter(|parts| !parts.is_empty())?;
    parts.iter().map(|part| text_at(part, "/functionResponse/id")).collect()
}

/// Returns the ids of the calls whose results are in the same message of the model.
pub(super) fn answered_in(message: &Value) -> impl Iterator<Item = &str> {
    let answered = |call: &&Value| call.get("result").is_some_and(|result| !result.is_null());
    calls(message).filter(answered).filter_map(|call| text_at(call, "/id"))
}

pub(super) fn view(message: &Value) -> MessageView {
    let mut view = MessageView::new(match text_at(message, "/type") {
        Some("user") => Role::User,
        Some(kind) if ANSWERS.contains(&kind) => Role::Assistant,
        _ => Role::Other,
    });
    view.id = text_at(message, "/id").map(str::to_owned);
    add_parts(&mut view, message.get("content").unwrap_or(&Value::Null));
    drop_repeated(&mut view.tool_results);
    if calls(message).next().is_some() {
        // The parts have the same calls, in the form that the model is sent.
        view.tool_calls.clear();
    }
    if view.role == Role::User && view.text.is_empty() && !view.tool_results.is_empty() {
        view.role = Role::Tool;
    }
    for thought in message.get("thoughts").and_then(Value::as_array).into_iter().flatten() {
        let [subject, description] =
            ["/subject", "/description"].map(|path| text_at(thought, path));
        let said = [subject, description].into_iter().flatten().collect::<Vec<_>>().join(": ");
        view.add_thinking(&said);
    }
    for call in calls(message) {
        view.add_call(call.get("id"), call.get("name"), call.get("args"));
        let is_error = matches!(text_at(call, "/status"), Some("error" | "cancelled"));
        if let Some(result) = call.get("result").filter(|result| !result.is_null()) {
            let mut inner = MessageView::new(Role::Tool);
            for part in own_parts(result, text_at(call, "/id").unwrap_or_default()) {
                add_parts(&mut inner, part);
                for result in std::mem::take(&mut inner.tool_results) {
                    inner.add_text(&result.text);
                }
            }
            view.push_result(call.get("id"), inner, is_error);
        }
    }
    view
}

/// Returns the parts of a result that answer the call `id`, with the parts after each, such as
/// pictures. Returns the whole result if no part names the call. After a resume each call may have
/// the results of the whole step.
fn own_parts<'v>(result: &'v Value, id: &str) -> Vec<&'v Value> {
    let parts = result.as_array().map(Vec::as_slice).unwrap_or_default().iter();
    let mut is_own = false;
    let own = parts.filter(|part| {
        is_own = text_at(part, "/functionResponse/id").map_or(is_own, |answered| answered == id);
        is_own
    });
    let own: Vec<_> = own.collect();
    if own.is_empty() { vec![result] } else { own }
}

fn is_picture(data: &Value) -> bool {
    text_at(data, "/mimeType").is_some_and(|media| media.starts_with("image/"))
}

/// Leaves out results that are equal to an earlier result of the same call.
fn drop_repeated(results: &mut Vec<ToolResult>) {
    let mut said = HashSet::new();
    results
        .retain(|it| it.call_id.is_empty() || said.insert((it.call_id.clone(), it.text.clone())));
}

/// Adds parts as the interface of Gemini has them: text, a part, or a list of parts.
pub(super) fn add_parts(view: &mut MessageView, parts: &Value) {
    match parts {
        Value::String(_) => view.add_content(parts),
        Value::Array(parts) => parts.iter().for_each(|part| add_parts(view, part)),
        Value::Object(part) => {
            let text = part.get("text").and_then(Value::as_str);
            view.has_content |= text.is_some();
            let text = text.unwrap_or_default();
            if part.get("thought") == Some(&Value::Bool(true)) {
                view.add_thinking(text);
            } else {
                view.add_text(text);
            }
            if let Some(data) = part.get("inlineData").filter(|data| is_picture(data)) {
                view.add_picture(data);
            } else if part.contains_key("inlineData") || part.contains_key("fileData") {
                view.add_text("[file]");
            }
            if let Some(call) = part.get("functionCall") {
                view.add_call(call.get("id"), call.get("name"), call.get("args"));
            }
            if let Some(response) = part.get("functionResponse") {
                add_response(view, response);
            }
        }
        _ => {}
    }
}

/// Adds the response of a function.
fn add_response(view: &mut MessageView, response: &Value) {
    let said = response.get("response").unwrap_or(&Value::Null);
    let error = said.get("error");
    let text = match said.get("output").or(error).unwrap_or(said) {
        Value::Null => Value::Null,
        Value::String(text) => Value::String(text.clone()),
        other => Value::String(other.to_string()),
    };
    view.add_result(response.get("id"), &text, error.is_some());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn response(id: &str, output: &str) -> Value {
        json!({"functionResponse": {"id": id, "name": "ls", "response": {"output": output}}})
    }

    #[test]
    fn a_call_has_its_own_result_where_a_resume_wrote_those_of_the_step_at_each() {
        let all = [response("a", "one"), response("b", "two")];
        let call = |id: &str, result: &[Value]| json!({"id": id, "name": "ls", "result": result});
        let calls = [call("a", &all), call("b", &all), call("c", &all[..1])];
        let view = view(&json!({"id": "1", "type": "gemini", "toolCalls": calls}));
        let results: Vec<_> = view.tool_results.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(results, ["one", "two", "one"]);
    }

    #[test]
    fn a_path_and_a_comment_are_sent_and_a_command_is_not() {
        let sent = |text: &str| is_sent(&json!({"type": "user", "content": [{"text": text}]}));
        for text in ["/home/me/x.log says why", " // what is this", "/* a comment */", "a /b"] {
            assert!(sent(text), "{text}");
        }
        for text in ["/stats", " /chat resume a/b", "/mcp:list"] {
            assert!(!sent(text), "{text}");
        }
    }

    #[test]
    fn a_result_that_a_resume_repeated_and_a_compression_joined_is_one() {
        let parts = [("a", "one"), ("b", "two"), ("a", "one"), ("b", "more"), ("", "x"), ("", "x")];
        let parts: Vec<_> = parts.iter().map(|(id, output)| response(id, output)).collect();
        let view = view(&json!({"id": "1", "type": "user", "content": parts}));
        let results: Vec<_> =
            view.tool_results.iter().map(|it| (it.call_id.as_str(), it.text.as_str())).collect();
        assert_eq!(results, [("a", "one"), ("b", "two"), ("b", "more"), ("", "x"), ("", "x")]);
        assert_eq!(view.role, Role::Tool);
    }
}
