//! Plain chats: messages of the OpenAI or the Anthropic interface, and results of tau2-bench.
//!
//! A chat is a bare array of messages, a document `{"messages": [...]}` (with `system` next to it,
//! or several of them, one a line), or one message a line. tau2-bench keeps many simulations in a
//! file. Each is a conversation: the first is `main`, further ones are named by task and trial if
//! these come before the messages, otherwise by their id. The policy that all simulations share is
//! their system prompt.

use std::io::BufRead;

use bytes::Bytes;
use serde_json::Value;
use turntree::context::Role;

use super::conversation::{Conversations, MessageFacts, fields, plain, record, todos};
use super::session::Session;
use crate::model::event::{Content, Event, Parser};
use crate::model::format::{Format, FormatRank, FormatReader, Records};
use crate::model::view::MessageView;
use crate::text::document::{Document, Rules};
use crate::text::json::text_at;
use crate::text::piece::{Piece, Pieces};
use crate::text::shape::JsonShape;
use crate::text::{json, lines};

/// Messages of the Anthropic interface.
pub(super) const ANTHROPIC: Format = Format {
    name: "anthropic-chat",
    title: "chat of the Anthropic interface",
    rank: FormatRank::ChatWithBlocks,
    recognise: |shape| is_chat(shape) && has_blocks(shape),
    view,
    reader: FormatReader::Records(Records {
        side_paths: &["system"],
        ..Records::new(split, || Box::new(Chat::default()))
    }),
};

/// Messages of the OpenAI interface.
pub(super) const OPENAI: Format = Format {
    name: "openai-chat",
    title: "chat of the OpenAI interface",
    rank: FormatRank::Chat,
    recognise: is_chat,
    view,
    reader: FormatReader::Records(Records::new(split, || Box::new(Chat::default()))),
};

/// Results of tau2-bench.
pub(super) const TAU2: Format = Format {
    name: "tau2",
    title: "tau2-bench results",
    rank: FormatRank::Program,
    recognise: |shape| {
        !shape.is_array && shape.has("info") && (shape.has("tasks") || shape.has("simulations"))
    },
    view,
    reader: FormatReader::Records(Records {
        side_paths: &["info.environment_info.policy", "tasks[*]"],
        ..Records::new(
            |input| Box::new(Document::new(input, &TAU2_RULES)),
            || Box::new(Chat::default()),
        )
    }),
};

static RULES: Rules = Rules {
    records: &["", "[*]", "messages[*]", "system"],
    fields: &["model", "id", "session_id"],
};

static TAU2_RULES: Rules = Rules {
    records: &[
        "",
        "info.environment_info.policy",
        "tasks[*]",
        "simulations[*]",
        "simulations[*].messages[*]",
    ],
    fields: &[
        "info.git_commit",
        "info.agent_info.llm",
        "info.environment_info.domain_name",
        "simulations[*].id",
        "simulations[*].task_id",
        "simulations[*].trial",
        "simulations[*].termination_reason",
    ],
};

/// The roles of messages.
const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

fn is_chat(shape: &JsonShape<'_>) -> bool {
    let is_message =
        |shape: &JsonShape<'_>| shape.text("role").is_some_and(|role| ROLES.contains(&role));
    let has_messages =
        shape.member("messages").is_some_and(|first| first.is_array && is_message(&first));
    is_message(shape) && shape.has_any(&["content", "tool_calls"])
        || !shape.is_array && has_messages
}

/// Returns true if the text has blocks that only the Anthropic interface has.
fn has_blocks(shape: &JsonShape<'_>) -> bool {
    shape.has("system")
        || ["\"tool_use\"", "\"tool_result\""].iter().any(|t| shape.head.contains(t))
}

fn split<'r>(mut input: Box<dyn BufRead + 'r>) -> Pieces<'r> {
    // A buffer is enough to see whether a line is a message or a document that holds messages.
    let head = input.fill_buf().map(String::from_utf8_lossy).unwrap_or_default().into_owned();
    let head = head.trim_start_matches('\u{feff}').trim_start();
    let is_message = |shape: JsonShape<'_>| shape.has("role") || shape.has("content");
    let is_object = |shape: &JsonShape<'_>| !shape.is_array;
    let first = JsonShape::of(head).filter(is_object);
    // The first line may have facts instead of a message.
    let has_no_messages = first.as_ref().is_some_and(|shape| !shape.has("messages"));
    let is_line = |line: &str| line.starts_with('{') && json::value(line.as_bytes()).is_some();
    let second = head.lines().filter(|line| is_line(line)).nth(1).filter(|_| has_no_messages);
    let second = second.and_then(JsonShape::of).filter(|shape| !shape.has("messages"));
    let is_lines = first.is_some_and(is_message) || second.is_some_and(is_message);
    if is_lines { lines::split(input) } else { Box::new(Document::new(input, &RULES)) }
}

#[derive(Debug, Default)]
struct Chat {
    session: Session,
    conversations: Conversations,
    /// Task, trial and id of the current simulation.
    task: Option<String>,
    trial: Option<String>,
    id: Option<String>,
    /// The model of the whole file.
    model: Option<String>,
    /// The system prompt of every conversation of the current document.
    prompt: Option<Bytes>,
    /// The current conversation has had a message.
    has_begun: bool,
    /// The last message was an item of an answer.
    is_in_answer: bool,
}

impl Parser for Chat {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        for (path, value) in fields(piece) {
            self.field(path, plain(value.as_ref()), events);
        }
        match record(piece, events) {
            Some(("system" | "info.environment_info.policy", prompt)) => {
                self.prompt = Some(Bytes::from(text_of(&prompt)));
                if self.has_begun {
                    self.system_prompt(events);
                }
            }
            Some(("tasks[*]", _)) | None => {}
            Some((_, message)) => self.message(&message, events),
        }
    }
}

impl Chat {
    fn field(&mut self, path: &str, value: Option<String>, events: &mut Vec<Event>) {
        match path {
            "" | "simulations[*]" => {
                self.conversations.next();
                (self.has_begun, self.is_in_answer) = (false, false);
                (self.task, self.trial, self.id) = (None, None, None);
                if path.is_empty() {
                    self.prompt = None;
                }
            }
            "info.agent_info.llm" | "model" => {
                self.session.fact("model", value.as_deref(), events);
                self.model = value;
            }
            "info.git_commit" => self.session.fact("version", value.as_deref(), events),
            "info.environment_info.domain_name" => {
                self.session.fact("domain", value.as_deref(), events);
            }
            "simulations[*].termination_reason" if self.conversations.is_first() => {
                self.session.fact("exit_status", value.as_deref(), events);
            }
            "simulations[*].task_id" => self.task = value,
            "simulations[*].trial" => self.trial = value,
            "id" | "session_id" | "simulations[*].id" => {
                if self.conversations.is_first() {
                    self.session.fact("session_id", value.as_deref(), events);
                }
                self.id = value;
            }
            _ => {}
        }
    }

    /// The identity of the current conversation, as far as it is known.
    fn name(&self) -> Option<String> {
        let Some(task) = &self.task else { return self.id.clone() };
        let trial = self.trial.as_ref().map(|trial| format!("-trial-{trial}"));
        Some(format!("task-{task}{}", trial.unwrap_or_default()))
    }

    fn message(&mut self, message: &Value, events: &mut Vec<Event>) {
        let view = view(message);
        if view.role == Role::Other && text_at(message, "/role").is_none() {
            return events.push(Event::Unknown { what: "a message without a role".to_owned() });
        }
        let name = self.name();
        let model = model(message).or(self.model.as_deref());
        let facts = MessageFacts {
            conversation: name.as_deref(),
            time: time(message),
            model: model.filter(|_| view.role == Role::Assistant),
        };
        // Items of the responses interface are parts of an answer.
        let is_part = view.role == Role::Assistant && text_at(message, "/type").is_some();
        if is_part && std::mem::replace(&mut self.is_in_answer, is_part) {
            self.conversations.push_in_turn(&view, facts, events);
        } else {
            self.conversations.push(&view, facts, events);
        }
        self.is_in_answer = is_part;
        if !std::mem::replace(&mut self.has_begun, true) {
            self.system_prompt(events);
        }
        for call in view.tool_calls.iter().filter(|call| call.name.to_lowercase().contains("todo"))
        {
            let input = json::value(call.input.as_bytes());
            let list = input.as_ref().and_then(|input| input.get("todos"));
            todos(self.conversations.agent(None), list, events);
        }
    }

    fn system_prompt(&mut self, events: &mut Vec<Event>) {
        if let Some(prompt) = &self.prompt {
            let agent = self.conversations.agent(None).to_owned();
            events.push(Event::SystemPrompt { agent, content: Content::Own(prompt.clone()) });
        }
    }
}

/// The text of a content: a string, or blocks.
pub(super) fn text_of(content: &Value) -> String {
    let mut view = MessageView::new(Role::System);
    view.add_content(content);
    view.text
}

/// Returns the time of `message`, under the names that chat writers use.
pub(super) fn time(message: &Value) -> Option<&Value> {
    ["ts", "timestamp", "created_at"].iter().find_map(|name| message.get(*name))
}

/// Returns the model that wrote `message`.
pub(super) fn model(message: &Value) -> Option<&str> {
    let paths = ["/model", "/modelInfo/id", "/modelInfo/modelId"];
    paths.iter().find_map(|path| text_at(message, path))
}

/// Items of the responses interface that are calls and results of tools, and thoughts.
const CALL_ITEMS: [&str; 2] = ["function_call", "custom_tool_call"];
const RESULT_ITEMS: [&str; 2] = ["function_call_output", "custom_tool_call_output"];
const THOUGHT_ITEM: &str = "reasoning";

/// Adds an item of the responses interface.
pub(super) fn add_item(view: &mut MessageView, item: &Value) {
    match text_at(item, "/type").unwrap_or_default() {
        kind if CALL_ITEMS.contains(&kind) => {
            let input = item.get("arguments").or_else(|| item.get("input"));
            view.add_call(item.get("call_id"), item.get("name"), input);
        }
        kind if RESULT_ITEMS.contains(&kind) => {
            let output = item.get("output").unwrap_or(&Value::Null);
            view.add_result(item.get("call_id"), output, false);
        }
        THOUGHT_ITEM => {
            view.has_thoughts = true;
            view.add_thinking(&text_of(item.get("summary").unwrap_or(&Value::Null)));
        }
        _ => view.add_content(item.get("content").unwrap_or(&Value::Null)),
    }
}

/// The view of an item without a role.
fn item(item: &Value) -> MessageView {
    let mut view = MessageView::new(match text_at(item, "/type").unwrap_or_default() {
        kind if RESULT_ITEMS.contains(&kind) => Role::Tool,
        kind if CALL_ITEMS.contains(&kind) || kind == THOUGHT_ITEM => Role::Assistant,
        _ => Role::Other,
    });
    view.id = plain(item.get("id"));
    add_item(&mut view, item);
    view
}

/// The view of a message of either interface. A user message that holds results is one of a tool.
pub(super) fn view(message: &Value) -> MessageView {
    let role = match text_at(message, "/role") {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => Role::Tool,
        Some(_) => Role::Other,
        None => return item(message),
    };
    let mut view = MessageView::new(role);
    view.id = plain(message.get("id"));
    let content = message.get("content").unwrap_or(&Value::Null);
    if role == Role::Tool {
        let id = message.get("tool_call_id").or_else(|| message.get("id"));
        let is_error = message.get("error").and_then(Value::as_bool).unwrap_or(false);
        view.add_result(id, content, is_error);
        return view;
    }
    if let Some(thought) = text_at(message, "/reasoning_content") {
        view.add_thinking(thought);
    }
    view.add_content(content);
    if view.text.is_empty() {
        view.add_text(text_at(message, "/refusal").unwrap_or_default());
    }
    view.add_tool_calls(message.get("tool_calls"));
    if let Some(call) = message.get("function_call").filter(|call| call.is_object()) {
        // The form before calls had ids.
        view.add_call(None, call.get("name"), call.get("arguments"));
    }
    if role == Role::User && !view.tool_results.is_empty() {
        view.role = Role::Tool;
    }
    view
}

#[cfg(test)]
mod tests {
    use super::super::testing::{events_of, outline};
    use super::*;

    #[test]
    fn either_interface_gives_the_same_turns_in_any_wrapping() {
        let openai = [
            r#"{"role": "user", "content": "go"}"#,
            r#"{"role": "assistant", "content": null, "tool_calls": [
                {"id": "1", "function": {"name": "ls", "arguments": "{}"}},
                {"id": "2", "function": {"name": "cat", "arguments": "{}"}}]}"#,
            r#"{"role": "tool", "tool_call_id": "1", "content": "a"}"#,
            r#"{"role": "tool", "tool_call_id": "2", "content": "b"}"#,
        ];
        let anthropic = [
            r#"{"role": "user", "content": "go"}"#,
            r#"{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "ls", "input": {}},
                {"type": "tool_use", "id": "2", "name": "cat", "input": {}}]}"#,
            r#"{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "a"}]}"#,
            r#"{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "2", "content": "b"}]}"#,
        ];
        let expected = [
            "turn",
            "main User go",
            "turn",
            "main Assistant [ls, cat]",
            "main Tool a",
            "main Tool b",
        ];
        for (format, messages) in [(&OPENAI, openai), (&ANTHROPIC, anthropic)] {
            let lines = messages.map(|message| message.replace('\n', " ")).join("\n");
            let list = format!("[{}]", messages.join(",\n"));
            let document = format!("{{\"messages\": {list}}}\n");
            for file in [lines, list, document] {
                assert_eq!(outline(&events_of(format, file.as_bytes())), expected);
            }
        }
    }

    #[test]
    fn calls_without_ids_and_refusals_are_read() {
        let file = br#"[{"role": "user", "content": "go"},
            {"role": "assistant", "content": null, "function_call": {"name": "ls", "arguments": "{}"}},
            {"role": "function", "name": "ls", "content": "a"},
            {"role": "assistant", "content": null, "refusal": "I cannot."}]"#;
        let expected = [
            "turn",
            "main User go",
            "turn",
            "main Assistant [ls]",
            "main Tool a",
            "turn",
            "main Assistant I cannot.",
        ];
        assert_eq!(outline(&events_of(&OPENAI, file)), expected);
    }

    #[test]
    fn items_of_the_responses_interface_are_parts_of_an_answer() {
        let file = br#"[{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
            {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "Hm."}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "call_id": "1", "name": "ls", "arguments": "{}"},
            {"type": "custom_tool_call", "call_id": "2", "name": "sh", "input": "ls"},
            {"type": "function_call_output", "call_id": "1", "output": "a"},
            {"type": "custom_tool_call_output", "call_id": "2", "output": "b"},
            {"type": "function_call", "call_id": "3", "name": "cat", "arguments": "{}"},
            {"type": "novel"}]"#;
        let expected = [
            "turn",
            "main User go",
            "turn",
            "main Assistant Hm.",
            "main Assistant I look.",
            "main Assistant [ls]",
            "main Assistant [sh]",
            "main Tool a",
            "main Tool b",
            "turn",
            "main Assistant [cat]",
            "unknown: a message without a role",
        ];
        assert_eq!(outline(&events_of(&OPENAI, file)), expected);
    }

    #[test]
    fn messages_one_a_line_may_follow_a_line_of_facts() {
        let file = br#"{"directory": "/p", "tokens": 5}
{"role": "user", "content": "go"}
{"role": "assistant", "content": "done"}"#;
        let told = outline(&events_of(&OPENAI, file));
        let expected = ["turn", "main User go", "turn", "main Assistant done"];
        assert_eq!(told[1..], expected, "{told:?}");
    }

    #[test]
    fn documents_one_a_line_are_conversations_with_their_own_prompts() {
        let file =
            br#"{"model": "m", "system": "be good", "messages": [{"role": "user", "content": "a"}]}
{"id": "x y", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "b"}]}"#;
        let expected = [
            "model=m",
            "turn",
            "main User a",
            "prompt main: be good",
            "turn",
            "x-y System s",
            "x-y User b",
        ];
        assert_eq!(outline(&events_of(&ANTHROPIC, file)), expected);
    }

    #[test]
    fn a_simulation_is_named_by_what_stands_before_its_messages() {
        let file = br#"{"info": {"agent_info": {"llm": "m"}, "environment_info": {"policy": "rules"}},
            "tasks": [{"id": "0"}], "simulations": [
            {"id": "u1", "messages": [{"role": "assistant", "content": "hi", "tool_calls": null}], "task_id": "0"},
            {"id": "u2", "task_id": "5", "trial": 0, "messages": [{"role": "assistant", "content": "ho"}]},
            {"id": "u3", "messages": []},
            {"id": "u4", "messages": [{"role": "assistant", "content": null, "tool_calls":
             [{"id": "t", "name": "todo_write", "arguments": {"todos": ["x"]}}]}]}]}"#;
        let expected = [
            "model=m",
            "session_id=u1",
            "turn",
            "main Assistant hi",
            "prompt main: rules",
            "turn",
            "task-5-trial-0 Assistant ho",
            "prompt task-5-trial-0: rules",
            "turn",
            "u4 Assistant [todo_write]",
            "prompt u4: rules",
            r#"pad todos/u4: ["x"]"#,
        ];
        assert_eq!(outline(&events_of(&TAU2, file)), expected);
    }
}
