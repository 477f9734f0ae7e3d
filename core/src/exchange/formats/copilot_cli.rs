//! GitHub Copilot CLI event logs: lines `{type, data, id, timestamp, parentId}`, each the child of
//! the one before.
//!
//! - `system.message`, `user.message`, `assistant.message` and `tool.execution_complete` are the
//!   conversation. A prompt begins a turn, and so does `assistant.turn_start`.
//! - What a tool is asked to write is known when it starts, and counts when it has succeeded.

use std::collections::HashMap;

use serde_json::Value;

use super::super::detect::Shape;
use super::super::{json, lines};
use super::session::Session;
use super::{
    Content, Event, FormatSpec, MAIN, MessageView, Parser, Piece, Role, own, record, text_at,
};

/// GitHub Copilot CLI.
pub(super) const FORMAT: FormatSpec = FormatSpec {
    name: "copilot-cli",
    title: "GitHub Copilot CLI event log",
    recognise,
    cut: lines::cut,
    parser: || Box::<CopilotCli>::default(),
    view,
};

/// Groups of events that are known; what is not used above says nothing about the conversation.
const GROUPS: &[&str] = &[
    "abort",
    "assistant",
    "hook",
    "permission",
    "session",
    "skill",
    "subagent",
    "system",
    "tool",
    "user",
];

fn recognise(shape: &Shape<'_>) -> bool {
    let is_event = shape.text("type").is_some_and(|name| name.contains('.'));
    !shape.is_array && is_event && shape.has("data")
}

fn view(event: &Value) -> MessageView {
    let data = event.get("data").unwrap_or(&Value::Null);
    let mut view = MessageView::new(match text_at(event, "/type") {
        Some("system.message") => Role::System,
        Some("user.message") => Role::User,
        Some("assistant.message") => Role::Assistant,
        Some("tool.execution_complete") => Role::Tool,
        _ => Role::Other,
    });
    view.id = text_at(event, "/id").map(str::to_owned);
    if view.role == Role::Tool {
        let content = data.pointer("/result/content").or_else(|| data.pointer("/error/message"));
        let is_error = data.get("success") == Some(&Value::Bool(false));
        view.add_result(data.get("toolCallId"), content.unwrap_or(&Value::Null), is_error);
        return view;
    }
    view.add_content(data.get("content").unwrap_or(&Value::Null));
    view.add_thinking(text_at(data, "/reasoningText").unwrap_or_default());
    for call in data.get("toolRequests").and_then(Value::as_array).into_iter().flatten() {
        view.add_call(call.get("toolCallId"), call.get("name"), call.get("arguments"));
    }
    view
}

#[derive(Debug, Default)]
struct CopilotCli {
    session: Session,
    /// What the tool calls that are running will have done.
    running: HashMap<String, Event>,
}

impl Parser for CopilotCli {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        let Some(line) = record(piece, events) else { return };
        let data = line.get("data").unwrap_or(&Value::Null);
        let call = text_at(data, "/toolCallId").unwrap_or_default();
        match text_at(&line, "/type").unwrap_or_default() {
            "session.start" => self.session_start(data, events),
            "session.model_change" => {
                self.session.fact("model", text_at(data, "/newModel"), events);
            }
            "system.message" => {
                if let Some(prompt) = data.get("content") {
                    events
                        .push(Event::SystemPrompt { agent: MAIN.to_owned(), content: own(prompt) });
                }
                self.message(&line, events);
            }
            "user.message" => {
                events.push(Event::Turn);
                self.message(&line, events);
            }
            "assistant.turn_start" => events.push(Event::Turn),
            "assistant.message" => self.message(&line, events),
            "tool.execution_start" => {
                if let Some(event) = self.written(data) {
                    self.running.insert(call.to_owned(), event);
                }
            }
            "tool.execution_complete" => {
                self.message(&line, events);
                let written = self.running.remove(call);
                events.extend(written.filter(|_| data.get("success") == Some(&Value::Bool(true))));
            }
            other => {
                let group = other.split('.').next().unwrap_or_default();
                if !GROUPS.contains(&group) {
                    let what = format!("an event of type '{}'", json::first_line(other));
                    events.push(Event::Unknown { what });
                }
            }
        }
    }
}

impl CopilotCli {
    fn session_start(&mut self, data: &Value, events: &mut Vec<Event>) {
        for (key, path) in [
            ("session_id", "/sessionId"),
            ("cwd", "/context/cwd"),
            ("version", "/copilotVersion"),
            ("git_branch", "/context/branch"),
        ] {
            self.session.fact(key, text_at(data, path), events);
        }
    }

    fn message(&self, line: &Value, events: &mut Vec<Event>) {
        let view = view(line);
        let time = line.get("timestamp").and_then(json::time);
        let said = text_at(line, "/data/model").or_else(|| self.session.known("model"));
        let model = said.filter(|_| view.role == Role::Assistant);
        events.push(Event::Message(view.event(MAIN, Content::Piece, time, model)));
    }

    /// The file or todo list that a tool writes whole.
    fn written(&self, data: &Value) -> Option<Event> {
        let arguments = data.get("arguments")?;
        match text_at(data, "/toolName")? {
            "create" => {
                let path = self.session.relative(text_at(arguments, "/path")?);
                Some(Event::File { path, content: Some(own(arguments.get("file_text")?)) })
            }
            "update_todo" => {
                let content = Some(own(arguments.get("todos")?));
                Some(Event::Scratchpad { key: "todos".to_owned(), content })
            }
            _ => None,
        }
    }
}
