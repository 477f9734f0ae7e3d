//! Events of OpenHands 1, whose kinds have names: `ActionEvent`, `ObservationEvent`,
//! `MessageEvent`.
//!
//! Only events that can be a message are sent to the model: changes of state, runs of hooks and
//! pauses by the user are for clients. Calls of one answer are several events with one
//! `llm_response_id`. A `Condensation` names the events that are forgotten from then on, and the
//! position of its summary among the remaining ones. `parent_id` names the event before; without
//! one an event follows the one before it.

use std::collections::HashSet;

use serde_json::Value;
use turntree::context::{MAIN_AGENT, Role};

use super::super::conversation::{own_text, todos};
use super::super::editor::{self, Editor};
use super::super::files::FileChange;
use super::super::links::Links;
use super::super::session::Session;
use super::sent_events::{SentEvents, Summary};
use crate::model::event::{Content, Event};
use crate::model::view::MessageView;
use crate::text::json;
use crate::text::json::text_at;
use crate::text::shape::JsonShape;

/// Events that are for clients, and never sent.
const QUIET: &[&str] = &[
    "ACPToolCallEvent",
    "CondensationRequest",
    "ConversationErrorEvent",
    "ConversationStateUpdateEvent",
    "HookExecutionEvent",
    "InterruptEvent",
    "LLMCompletionLogEvent",
    "PauseEvent",
    "SecurityAnalysisEvent",
    "StreamingDeltaEvent",
    "TokenEvent",
];

/// Events that are messages of the conversation.
const MESSAGES: [&str; 6] = [
    "ActionEvent",
    "AgentErrorEvent",
    "CondensationSummaryEvent",
    "MessageEvent",
    "ObservationEvent",
    "UserRejectObservation",
];

const PROMPT: &str = "SystemPromptEvent";
const CONDENSATION: &str = "Condensation";

/// The parent of an event that follows none.
const ROOT: &str = "__root__";

/// The text of the client before the output of a failed tool.
const FAILED: &str = "[An error occurred during execution.]\n";

/// Returns true for a value that is an event, or a list of such.
pub(super) fn is_event(shape: &JsonShape<'_>) -> bool {
    let kind = shape.text("kind").unwrap_or_default();
    let is_known =
        [PROMPT, CONDENSATION].contains(&kind) || MESSAGES.contains(&kind) || QUIET.contains(&kind);
    is_known && shape.has("id") && shape.has("source")
}

/// Returns true for the document that a folder of a conversation is read as.
pub(super) fn is_conversation(shape: &JsonShape<'_>) -> bool {
    !shape.is_array
        && shape.has("conversation")
        && shape.member("events").is_some_and(|it| is_event(&it))
}

/// Returns the kind of an event of this release.
pub(super) fn kind(event: &Value) -> Option<&str> {
    text_at(event, "/kind")
}

/// The conversation so far.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    links: Links,
    /// The messages that are sent to the model, in order.
    sent: SentEvents,
    /// The answer that contained the last action.
    answer: Option<String>,
    editor: Editor,
}

impl Conversation {
    /// Passes a piece.
    pub(super) fn piece(&mut self) {
        self.links.piece();
    }

    /// Adds the events that a record means.
    pub(super) fn event(&mut self, event: &Value, session: &Session, events: &mut Vec<Event>) {
        let id = id(event);
        if !id.is_empty() && self.links.has(&id) {
            // An event that was written twice is one.
            return;
        }
        self.go_back(event, events);
        match kind(event).unwrap_or_default() {
            PROMPT => {
                let parts = ["/system_prompt/text", "/dynamic_context/text"];
                let parts: Vec<_> = parts.iter().filter_map(|path| text_at(event, path)).collect();
                let content = own_text(&parts.join("\n\n"));
                events.push(Event::SystemPrompt { agent: MAIN_AGENT.to_owned(), content });
                self.sent.add(id.clone(), false);
            }
            CONDENSATION => self.condensation(event, events),
            kind if MESSAGES.contains(&kind) => self.message(event, session, events),
            kind if QUIET.contains(&kind) => {}
            other => events.push(Event::Unread { kind: json::plain(other).to_owned() }),
        }
        self.links.add(&id);
    }

    fn go_back(&mut self, event: &Value, events: &mut Vec<Event>) {
        let back = match text_at(event, "/parent_id") {
            Some(ROOT) => self.links.back_to_start(),
            Some(parent) => self.links.back(parent),
            None => None,
        };
        if back.is_none() {
            return;
        }
        events.extend(back);
        self.answer = None;
        self.sent.truncate(self.links.messages());
    }

    fn message(&mut self, event: &Value, session: &Session, events: &mut Vec<Event>) {
        let view = view(event);
        let answer = text_at(event, "/llm_response_id");
        let is_answer = view.role == Role::Assistant;
        let is_parallel = is_answer && answer.is_some() && answer == self.answer.as_deref();
        if view.role != Role::Tool && !is_parallel {
            self.links.turn();
            events.push(Event::Turn);
        }
        if is_answer {
            self.answer = answer.map(str::to_owned);
        }
        let time = event.get("timestamp").and_then(json::time);
        let model = session.known("model").filter(|_| is_answer);
        events.push(Event::Message(view.event(MAIN_AGENT, Content::Piece, time, model)));
        self.links.message();
        self.sent.add(id(event), true);
        self.effects(event, &view, session, events);
    }

    /// Follows files and tasks.
    fn effects(
        &mut self,
        event: &Value,
        view: &MessageView,
        session: &Session,
        events: &mut Vec<Event>,
    ) {
        if let Some(change) = event.get("action").and_then(editor::change_of) {
            self.editor.call(text_at(event, "/tool_call_id").unwrap_or_default(), change);
        }
        if text_at(event, "/action/command") == Some("plan") {
            todos(MAIN_AGENT, event.pointer("/action/task_list"), events);
        }
        let Some(result) = view.tool_results.first() else { return };
        // The editor records the new content of the file.
        let edited = text_at(event, "/observation/path")
            .zip(text_at(event, "/observation/new_content"))
            .filter(|_| !result.is_error && text_at(event, "/observation/command") != Some("view"));
        let is_told = !result.is_error && edited.is_none();
        self.editor.result(&result.call_id, is_told, session, events);
        if let Some((path, content)) = edited {
            self.editor.apply(session, path, &FileChange::Write(content.to_owned()), events);
        }
    }

    fn condensation(&mut self, event: &Value, events: &mut Vec<Event>) {
        let ids = event.get("forgotten_event_ids").and_then(Value::as_array);
        let ids: HashSet<&str> = ids.into_iter().flatten().filter_map(Value::as_str).collect();
        let offset = event.get("summary_offset").and_then(Value::as_u64);
        let offset = offset.filter(|_| text_at(event, "/summary").is_some());
        let summary = offset.map(|offset| {
            let time = event.get("timestamp").and_then(json::time);
            let message = view(event).event(MAIN_AGENT, Content::Piece, time, None);
            Summary { offset, id: format!("{}-summary", id(event)), message }
        });
        let condensed = self.sent.condense(|id| ids.contains(id), summary);
        self.links.replaced(self.sent.messages(), &[], &[]);
        self.answer = None;
        events.push(condensed);
    }
}

fn id(event: &Value) -> String {
    text_at(event, "/id").unwrap_or_default().to_owned()
}

/// The view of an event, as the model is sent it.
pub(super) fn view(event: &Value) -> MessageView {
    let text = |path| text_at(event, path);
    let message = event.get("llm_message").unwrap_or(&Value::Null);
    let role = match (kind(event).unwrap_or_default(), text_at(message, "/role")) {
        ("ActionEvent", _) | ("MessageEvent", Some("assistant")) => Role::Assistant,
        ("ObservationEvent" | "UserRejectObservation" | "AgentErrorEvent", _)
        | ("MessageEvent", Some("tool")) => Role::Tool,
        ("MessageEvent", Some("user")) | (CONDENSATION | "CondensationSummaryEvent", _) => {
            Role::User
        }
        ("MessageEvent", Some("system")) => Role::System,
        _ => Role::Other,
    };
    let mut view = MessageView::new(role);
    view.id = text("/id").map(str::to_owned);
    view.is_added = role == Role::User && message.is_null();
    add_thoughts(&mut view, event);
    add_thoughts(&mut view, message);
    let content = match kind(event).unwrap_or_default() {
        "ObservationEvent" => event.pointer("/observation/content"),
        "ActionEvent" => event.get("thought"),
        "AgentErrorEvent" => event.get("error"),
        "UserRejectObservation" => event.get("rejection_reason"),
        "MessageEvent" => message.get("content"),
        _ => event.get("summary"),
    };
    let mut said = MessageView::new(role);
    let is_error = event.pointer("/observation/is_error") == Some(&Value::Bool(true));
    if is_error {
        said.add_text(FAILED);
    }
    match (kind(event), content) {
        (Some("UserRejectObservation"), Some(Value::String(reason))) => {
            said.add_text(&format!("Action rejected: {reason}"));
        }
        (_, Some(content)) => add_content(&mut said, content),
        (_, None) => {}
    }
    add_content(&mut said, event.get("extended_content").unwrap_or(&Value::Null));
    if role == Role::Tool && message.is_null() {
        let has_failed = is_error || kind(event) != Some("ObservationEvent");
        view.push_result(event.get("tool_call_id"), said, has_failed);
        return view;
    }
    (view.text, view.pictures) = (said.text, said.pictures);
    if let Some(call) = event.get("tool_call") {
        view.add_call(call.get("id"), call.get("name"), call.get("arguments"));
    }
    view.add_tool_calls(message.get("tool_calls"));
    view
}

/// Adds content of an event: texts, and lists of the addresses of pictures.
fn add_content(view: &mut MessageView, content: &Value) {
    for part in content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice) {
        match part.get("image_urls").and_then(Value::as_array) {
            Some(urls) => {
                for url in urls {
                    let block = serde_json::json!({"type": "image_url", "image_url": {"url": url}});
                    view.add_picture(&block);
                }
            }
            None => view.add_content(part),
        }
    }
}

fn add_thoughts(view: &mut MessageView, from: &Value) {
    if let Some(thought) = text_at(from, "/reasoning_content") {
        view.add_thinking(thought);
    }
    let blocks = from.get("thinking_blocks").and_then(Value::as_array).into_iter().flatten();
    for block in blocks {
        view.has_thoughts = true;
        let thought = text_at(block, "/thinking").unwrap_or_default();
        if !view.thinking.contains(thought) {
            view.add_thinking(thought);
        }
    }
    view.has_thoughts |= from.get("responses_reasoning_item").is_some_and(|item| !item.is_null());
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::testing::{events_of, outline};
    use super::super::FORMAT;

    fn said(id: &str, role: &str, text: &str) -> Value {
        let source = if role == "user" { "user" } else { "agent" };
        json!({"kind": "MessageEvent", "id": id, "timestamp": "2026-05-01T10:00:00.1", "source": source,
            "llm_message": {"role": role, "content": [{"type": "text", "text": text}]}})
    }

    fn prompt() -> Value {
        json!({"kind": "SystemPromptEvent", "id": "p", "source": "agent",
            "system_prompt": {"text": "be good"}, "dynamic_context": {"text": "in /w"}, "tools": []})
    }

    fn action(id: &str, call: &str, answer: &str, action: &Value) -> Value {
        json!({"kind": "ActionEvent", "id": id, "source": "agent", "thought": [], "action": action,
            "tool_name": "t", "tool_call_id": call, "llm_response_id": answer,
            "tool_call": {"id": call, "name": "t", "arguments": "{}", "origin": "completion"}})
    }

    fn observation(id: &str, call: &str, observation: &Value) -> Value {
        json!({"kind": "ObservationEvent", "id": id, "source": "environment", "tool_name": "t",
            "tool_call_id": call, "action_id": "a", "observation": observation})
    }

    fn condensation(id: &str, forgotten: &[&str], offset: u64) -> Value {
        json!({"kind": "Condensation", "id": id, "source": "environment", "summary": "so far",
            "forgotten_event_ids": forgotten, "summary_offset": offset, "llm_response_id": "r"})
    }

    /// Returns the outline of events, which is the same as lines, as a list, and as the document of
    /// a folder.
    fn told(events: &[Value]) -> Vec<String> {
        let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
        let list = json!(events).to_string();
        let folder = json!({"conversation": {"id": "c"}, "events": events}).to_string();
        let outlines = [lines, list, folder].map(|file| {
            let mut told = outline(&events_of(&FORMAT, file.as_bytes()));
            told.retain(|line| line != "session_id=c");
            // The pieces around a document are counted, too.
            told.retain(|line| !line.starts_with("back"));
            told
        });
        assert_eq!(outlines[0], outlines[1]);
        assert_eq!(outlines[0], outlines[2]);
        outlines[0].clone()
    }

    #[test]
    fn what_is_sent_is_a_message_and_calls_of_one_answer_are_a_turn() {
        let create = json!({"kind": "FileEditorAction", "command": "create", "path": "/w/a",
            "file_text": "A"});
        let created = json!({"kind": "FileEditorObservation", "command": "create", "path": "/w/a",
            "new_content": "A", "content": [{"type": "text", "text": "made"}], "is_error": false});
        let plan = json!({"kind": "TaskTrackerAction", "command": "plan",
            "task_list": [{"title": "x"}]});
        let events = [
            json!({"kind": "ConversationStateUpdateEvent", "id": "s", "source": "environment",
                "key": "k", "value": 1}),
            prompt(),
            said("1", "user", "go"),
            action("2", "c1", "r", &create),
            action("3", "c2", "r", &plan),
            observation("4", "c1", &created),
            json!({"kind": "AgentErrorEvent", "id": "5", "source": "agent", "error": "no such tool",
                "tool_name": "t", "tool_call_id": "c2"}),
            json!({"kind": "PauseEvent", "id": "6", "source": "user"}),
            said("7", "assistant", "Done."),
            json!({"kind": "NovelEvent", "id": "8", "source": "user"}),
        ];
        let expected = [
            "prompt main: be good\n\nin /w",
            "turn",
            "main User go",
            "turn",
            "main Assistant [t]",
            "main Assistant [t]",
            r#"pad todos: [{"title":"x"}]"#,
            "main Tool made",
            "file /w/a: A",
            "main Tool no such tool",
            "turn",
            "main Assistant Done.",
            "unread: NovelEvent",
        ];
        assert_eq!(told(&events), expected);
    }

    #[test]
    fn a_condensation_forgets_events_and_puts_its_summary_between_the_rest() {
        let events = [
            prompt(),
            said("1", "user", "one"),
            said("2", "assistant", "two"),
            said("3", "user", "three"),
            said("4", "assistant", "four"),
            // The system prompt counts for the position: the summary comes after `one`.
            condensation("c1", &["2", "3"], 2),
            said("5", "user", "five"),
            condensation("c2", &["c1-summary", "4"], 2),
        ];
        let told = told(&events);
        let condensed: Vec<_> = told.iter().filter(|line| line.starts_with("compact")).collect();
        assert_eq!(
            condensed,
            [
                "compact main [0..1] [main User so far] [3..4]",
                "compact main [0..1] [main User so far] [3..4]"
            ]
        );
    }

    #[test]
    fn an_event_that_was_written_twice_is_one() {
        let mut events = vec![prompt(), said("1", "user", "one"), said("2", "assistant", "two")];
        let once = told(&events);
        events.extend([events[1].clone(), events[2].clone()]);
        assert_eq!(told(&events), once);
    }

    #[test]
    fn an_event_that_follows_an_earlier_one_goes_back() {
        let mut other = said("4", "user", "other");
        other["parent_id"] = "1".into();
        let events = [
            said("1", "user", "one"),
            said("2", "assistant", "two"),
            said("3", "user", "x"),
            other,
        ];
        let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
        let told = outline(&events_of(&FORMAT, lines.as_bytes()));
        assert_eq!(told[6..], ["back to Some(0) at 3", "turn", "main User other"]);
    }
}
