//! GitHub Copilot CLI event logs: lines `{type, data, id, timestamp, parentId}`, each the child of
//! the one before.
//!
//! - `system.message`, `user.message`, `assistant.message` and `tool.execution_complete` are the
//!   conversation. A prompt begins a turn, and so does `assistant.turn_start`.
//! - Events with an `agentId` are those of a sub-agent, which works inside the turn that called it.
//! - `system.notification` and `skill.context_delivered` are sent to the model as words of the
//!   user.
//! - `session.compaction_complete` has the summary that replaces the conversation, and after
//!   `session.context_cleared` there is none.
//! - Ephemeral events are for the screen. A client that rewinds removes lines from the file.
//! - A fork has the events of its origin with their ids, except its own `session.start`.
//! - The start of a tool call names the change to a file; the change applies when the call
//!   succeeds.

use std::collections::HashSet;

use serde_json::Value;
use turntree::context::{MAIN_AGENT, Role};

use super::copilot_kinds::KINDS;
use super::editor::Editor;
use super::files::FileChange;
use super::session::{Session, TITLE, record};
use crate::model::event::{Content, Event, Parser};
use crate::model::format::{Format, FormatRank, FormatReader, Lineage, RecordOrigin, Records};
use crate::model::record_kind::RecordKind;
use crate::model::view::MessageView;
use crate::model::words::first_line;
use crate::text::json::text_at;
use crate::text::piece::Piece;
use crate::text::shape::JsonShape;
use crate::text::{json, lines};

/// GitHub Copilot CLI.
pub(super) const FORMAT: Format = Format {
    name: "copilot-cli",
    title: "GitHub Copilot CLI event log",
    rank: FormatRank::Program,
    recognise,
    view,
    reader: FormatReader::Records(Records {
        lineage: Some(Lineage::by_id(event_id, |_| RecordOrigin::OwnSession)),
        kinds: KINDS,
        ..Records::new(lines::split, || Box::<CopilotCli>::default())
    }),
};

/// Events that are sent to the model as user messages.
const TOLD: [&str; 2] = ["system.notification", "skill.context_delivered"];

/// The event of a finished compaction.
const COMPACTED: &str = "session.compaction_complete";

/// The event after which the conversation is empty, or its `initialMessage`.
const CLEARED: &str = "session.context_cleared";

/// The first event of a file, with the id of the session. A fork has its own.
const START: &str = "session.start";

/// Prefixes of the sources of prompts that no person typed.
const ADDED_SOURCES: [&str; 3] = ["agent-", "schedule-", "skill-"];

/// Returns the id of an event that a fork copies.
fn event_id(event: &Value) -> Option<&str> {
    text_at(event, "/id").filter(|_| text_at(event, "/type") != Some(START))
}

/// Returns true for a prompt of the client: one from another agent, a schedule or a skill, or a
/// continuation by the autopilot.
fn is_added(data: &Value) -> bool {
    let source = text_at(data, "/source").unwrap_or_default();
    let is_autopilot = data.get("isAutopilotContinuation") == Some(&Value::Bool(true));
    is_autopilot || ADDED_SOURCES.iter().any(|prefix| source.starts_with(prefix))
}

fn recognise(shape: &JsonShape<'_>) -> bool {
    let is_event = shape.text("type").is_some_and(|name| name.contains('.'));
    !shape.is_array && is_event && shape.has("data") && shape.has("id")
}

fn view(event: &Value) -> MessageView {
    let data = event.get("data").unwrap_or(&Value::Null);
    let mut view = MessageView::new(match text_at(event, "/type") {
        Some("system.message") => Role::System,
        Some("user.message" | COMPACTED | CLEARED) => Role::User,
        Some(kind) if TOLD.contains(&kind) => Role::User,
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
    let is_prompt = text_at(event, "/type").is_none_or(|kind| kind == "user.message");
    view.is_added = !is_prompt || is_added(data);
    let said = ["content", "summaryContent", "initialMessage"];
    let said = said.iter().find_map(|name| data.get(*name));
    view.add_content(said.unwrap_or(&Value::Null));
    if let Some(thought) = text_at(data, "/reasoningText") {
        view.add_thinking(thought);
    }
    let attached = data.get("attachments").and_then(Value::as_array).into_iter().flatten();
    attached.filter(|file| is_picture(file)).for_each(|file| view.add_picture(file));
    for call in data.get("toolRequests").and_then(Value::as_array).into_iter().flatten() {
        view.add_call(call.get("toolCallId"), call.get("name"), call.get("arguments"));
    }
    view
}

/// Returns true if an attachment of a prompt is a picture with its bytes.
fn is_picture(file: &Value) -> bool {
    let media = text_at(file, "/mimeType").unwrap_or_default();
    media.starts_with("image/") && text_at(file, "/data").is_some()
}

#[derive(Debug, Default)]
struct CopilotCli {
    session: Session,
    editor: Editor,
    /// The ids of the events so far.
    seen: HashSet<String>,
}

impl Parser for CopilotCli {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        let Some(line) = record(piece, events) else { return };
        let data = line.get("data").unwrap_or(&Value::Null);
        let call = text_at(data, "/toolCallId").unwrap_or_default();
        let agent = agent_of(&line);
        let is_main = agent == MAIN_AGENT;
        if line.get("ephemeral") == Some(&Value::Bool(true)) {
            return;
        }
        if text_at(&line, "/id").is_some_and(|id| !self.seen.insert(id.to_owned())) {
            // An event that was written twice is one.
            return;
        }
        let kind = text_at(&line, "/type").unwrap_or_default();
        if !RecordKind::is_listed(KINDS, kind, events) {
            return;
        }
        match kind {
            START => self.session_start(data, events),
            "session.model_change" if is_main => {
                self.session.fact("model", text_at(data, "/newModel"), events);
            }
            "session.title_changed" if is_main => {
                let title = text_at(data, "/title").map(first_line);
                self.session.fact(TITLE, title.as_deref(), events);
            }
            "system.message" => {
                if let Some(prompt) = data.get("content") {
                    let content = Content::own(prompt);
                    events.push(Event::SystemPrompt { agent, content });
                }
                self.message(&line, events);
            }
            "user.message" => {
                if is_main {
                    events.push(Event::Turn);
                }
                self.message(&line, events);
            }
            "assistant.turn_start" if is_main => events.push(Event::Turn),
            COMPACTED if data.get("success") == Some(&Value::Bool(true)) => {
                let time = line.get("timestamp").and_then(json::time);
                let summary = vec![view(&line).event(&agent, Content::Piece, time, None)];
                events.push(Event::Compact { agent, summary, keep: 0..0 });
            }
            CLEARED => {
                let said = text_at(data, "/initialMessage").is_some_and(|text| !text.is_empty());
                let time = line.get("timestamp").and_then(json::time);
                let first = said.then(|| view(&line).event(&agent, Content::Piece, time, None));
                let summary = first.into_iter().collect();
                events.push(Event::Compact { agent, summary, keep: 0..0 });
            }
            "assistant.message" => self.message(&line, events),
            told if TOLD.contains(&told) => self.message(&line, events),
            "tool.execution_start" => {
                if let Some(change) = file_change(data) {
                    self.editor.call(call, change);
                }
                let todos = data.pointer("/arguments/todos").map(Content::own);
                if todos.is_some() && text_at(data, "/toolName") == Some("update_todo") {
                    events.push(Event::Scratchpad { key: "todos".to_owned(), content: todos });
                }
            }
            "tool.execution_complete" => {
                self.message(&line, events);
                let succeeded = data.get("success") == Some(&Value::Bool(true));
                self.editor.result(call, succeeded, &self.session, events);
            }
            _ => {}
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
        let agent = agent_of(line);
        events.push(Event::Message(view.event(&agent, Content::Piece, time, model)));
    }
}

/// Returns the agent of an event.
fn agent_of(line: &Value) -> String {
    let id = text_at(line, "/agentId").filter(|id| !id.is_empty());
    id.map_or_else(|| MAIN_AGENT.to_owned(), |id| format!("{}@{MAIN_AGENT}", id.replace('@', "_")))
}

/// Returns the effect of a file tool that starts, and its file.
fn file_change(data: &Value) -> Option<(String, FileChange)> {
    let argument = |name| data.get("arguments")?.get(name)?.as_str().map(str::to_owned);
    let change = match text_at(data, "/toolName")? {
        "create" => FileChange::Write(argument("file_text")?),
        "edit" => {
            FileChange::Replace { old: argument("old_str")?, new: argument("new_str")?, all: false }
        }
        _ => return None,
    };
    Some((argument("path")?, change))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::told;
    use super::*;

    fn event(kind: &str, data: &Value) -> Value {
        json!({"type": kind, "data": data})
    }

    #[test]
    fn steps_are_turns_and_tools_count_when_they_have_succeeded() {
        let start = |id: &str, tool: &str, arguments: &Value| {
            event(
                "tool.execution_start",
                &json!({"toolCallId": id, "toolName": tool, "arguments": arguments}),
            )
        };
        let complete = |id: &str, success: bool| {
            let mut data = json!({"toolCallId": id, "success": success});
            let (field, said) = if success {
                ("result", json!({"content": "ok"}))
            } else {
                ("error", json!({"message": "denied"}))
            };
            data[field] = said;
            event("tool.execution_complete", &data)
        };
        let lines = [
            event("session.start", &json!({"sessionId": "s", "context": {"cwd": "/p"}})),
            event("system.message", &json!({"content": "Be good."})),
            event("user.message", &json!({"content": "go"})),
            event("assistant.turn_start", &json!({"turnId": "0"})),
            event(
                "assistant.message",
                &json!({"content": "", "toolRequests": [
                    {"toolCallId": "1", "name": "create", "arguments": {}},
                    {"toolCallId": "2", "name": "create", "arguments": {}},
                ]}),
            ),
            start("1", "create", &json!({"path": "/p/a", "file_text": "A"})),
            start("2", "create", &json!({"path": "/p/b", "file_text": "B"})),
            start("3", "update_todo", &json!({"todos": "- [ ] rest"})),
            complete("2", false),
            complete("1", true),
            complete("3", true),
            event("hook.end", &json!({})),
            event("model.messages_snapshot", &json!({"messages": [{"role": "user"}]})),
            event("novel.event", &json!({})),
        ];
        assert_eq!(
            told(&FORMAT, &lines),
            [
                "session_id=s",
                "cwd=/p",
                "prompt main: Be good.",
                "main System Be good.",
                "turn",
                "main User go",
                "turn",
                "main Assistant [create, create]",
                "pad todos: - [ ] rest",
                "main Tool denied",
                "main Tool ok",
                "file a: A",
                "main Tool ok",
                "unread: novel.event",
            ]
        );
    }

    #[test]
    fn an_event_that_was_written_twice_is_one() {
        let with_id = |id: &str, kind: &str, data: &Value| {
            let mut event = event(kind, data);
            event["id"] = id.into();
            event
        };
        let prompt = with_id("1", "user.message", &json!({"content": "go"}));
        let step = with_id("2", "assistant.turn_start", &json!({}));
        let answer = with_id("3", "assistant.message", &json!({"content": "ok"}));
        let lines = [&prompt, &prompt, &step, &answer, &step, &answer].map(Value::clone);
        assert_eq!(told(&FORMAT, &lines), ["turn", "main User go", "turn", "main Assistant ok"]);
    }

    #[test]
    fn pictures_of_a_prompt_are_sent() {
        let files = json!([{"type": "file", "path": "/p/a"},
            {"type": "blob", "data": "AA==", "mimeType": "image/png"}]);
        let prompt = event("user.message", &json!({"content": "see", "attachments": files}));
        let view = view(&prompt);
        assert_eq!((view.text.as_str(), view.pictures.len()), ("see\n[image]", 1));
    }

    #[test]
    fn what_is_sent_is_told_and_what_is_for_the_screen_is_not() {
        let mut shown = event("user.message", &json!({"content": "shown"}));
        shown["ephemeral"] = true.into();
        let lines = [
            event("user.message", &json!({"content": "go"})),
            shown,
            event("session.info", &json!({"message": "m", "content": "noise"})),
            event("assistant.turn_start", &json!({})),
            event("system.notification", &json!({"content": "<system_notification>done"})),
            event("skill.context_delivered", &json!({"content": "read this", "source": "skill-x"})),
            event("assistant.message", &json!({"content": "ok"})),
            event("session.context_cleared", &json!({"messagesCleared": 4})),
            event("session.context_cleared", &json!({"initialMessage": "start here"})),
        ];
        let expected = [
            "turn",
            "main User go",
            "turn",
            "main User done",
            "main User read this",
            "main Assistant ok",
            "compact main [] 0..0",
            "compact main [main User start here] 0..0",
        ];
        assert_eq!(told(&FORMAT, &lines), expected);
    }

    #[test]
    fn messages_that_no_person_typed_are_no_prompts() {
        let said = |name: &str, value: Value| {
            let mut data = json!({"content": "go"});
            data[name] = value;
            view(&event("user.message", &data)).is_prompt()
        };
        assert!(said("source", "user".into()) && said("source", "command-plan".into()));
        assert!(said("delivery", "queued".into()) && said("isAutopilotContinuation", false.into()));
        for source in ["skill-pdf", "agent-7", "schedule-daily"] {
            assert!(!said("source", source.into()), "{source}");
        }
        assert!(!said("isAutopilotContinuation", true.into()));
    }

    #[test]
    fn a_failed_tool_shows_its_error() {
        let line = event(
            "tool.execution_complete",
            &json!({"toolCallId": "1", "success": false,
            "error": {"message": "denied"}}),
        );
        let view = view(&line);
        assert_eq!(view.tool_results[0].text, "denied");
        assert!(view.tool_results[0].is_error);
    }
}
