//! Cline: the conversation as it went to the model, and the messages that the window showed.
//!
//! The conversation is an array of messages of the Anthropic interface in which results of tools
//! are text of the user that begins `[tool ...] Result:`. A write or an edit answers with the whole
//! file in a `final_file_content` element. The messages of the window are an array of statements
//! and questions (`say` and `ask`); a request to the model begins a turn there.

use std::io::BufRead;

use serde_json::{Value, json};
use turntree::context::Role;

use super::chat;
use super::conversation::{Conversations, MessageFacts, own_text, plain, record};
use super::session::Session;
use crate::model::event::{Content, Event, Parser};
use crate::model::format::{Format, FormatRank, FormatReader, Records};
use crate::model::view::MessageView;
use crate::text::document::{Document, Rules};
use crate::text::json;
use crate::text::json::text_at;
use crate::text::piece::{Piece, Pieces};
use crate::text::shape::JsonShape;

/// The format of `api_conversation_history.json`.
pub(super) const FORMAT: Format = Format {
    name: "cline",
    title: "Cline conversation",
    rank: FormatRank::Program,
    recognise,
    view,
    reader: FormatReader::Records(Records::new(split, || Box::new(Cline::default()))),
};

/// The format of `ui_messages.json`.
pub(super) const WINDOW: Format = Format {
    name: "cline-ui",
    title: "Cline messages of the window",
    rank: FormatRank::Program,
    recognise: |shape| shape.is_array && shape.has("ts") && (shape.has("say") || shape.has("ask")),
    view: window_view,
    reader: FormatReader::Records(Records::new(split, || Box::new(Window::default()))),
};

static RULES: Rules = Rules { records: &["[*]"], fields: &[] };

/// The text around the working directory in the details that follow a prompt.
const DIRECTORY_MARKS: [&str; 2] =
    ["# Current Working Directory (", "# Current Workspace Directory ("];

fn recognise(shape: &JsonShape<'_>) -> bool {
    let marks = ["<environment_details>", "<task>", "\"modelInfo\""];
    shape.is_array && shape.has("role") && marks.iter().any(|mark| shape.head.contains(mark))
}

fn split<'r>(input: Box<dyn BufRead + 'r>) -> Pieces<'r> {
    Box::new(Document::new(input, &RULES))
}

#[derive(Debug, Default)]
struct Cline {
    session: Session,
    conversations: Conversations,
}

impl Parser for Cline {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        let Some((_, message)) = record(piece, events) else { return };
        let view = view(&message);
        if view.role == Role::User || view.role == Role::Tool {
            self.session.fact("cwd", working_directory(&view.text), events);
        }
        let facts = MessageFacts {
            conversation: None,
            time: chat::time(&message),
            model: chat::model(&message),
        };
        self.conversations.push(&view, facts, events);
        if view.role == Role::Tool {
            self.files(&view.text, events);
        }
        for call in &view.tool_calls {
            let input = json::value(call.input.as_bytes());
            let progress = input.as_ref().and_then(|input| text_at(input, "/task_progress"));
            if let Some(progress) = progress {
                let content = Some(own_text(progress));
                events.push(Event::Scratchpad { key: "todos".to_owned(), content });
            }
        }
    }
}

impl Cline {
    /// Records the files whose whole content is in `results`.
    fn files(&self, results: &str, events: &mut Vec<Event>) {
        for part in results.split("<final_file_content path=\"").skip(1) {
            let Some((path, rest)) = part.split_once("\">\n") else { continue };
            let Some((content, _)) = rest.split_once("\n</final_file_content>") else { continue };
            let path = self.session.relative(path);
            events.push(Event::File { path, content: Some(own_text(content)) });
        }
    }
}

fn working_directory(text: &str) -> Option<&str> {
    let rest = DIRECTORY_MARKS.iter().find_map(|mark| text.split_once(mark))?.1;
    rest.split_once(')').map(|(directory, _)| directory)
}

/// Returns true if `text` is the result of a tool.
fn is_result(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.starts_with('[') && first.contains("] Result:")
}

fn view(message: &Value) -> MessageView {
    let mut view = chat::view(message);
    if view.role == Role::User && is_result(&view.text) {
        view.role = Role::Tool;
    }
    if let Some(task) = view.text.strip_prefix("<task>") {
        view.text = task.replacen("</task>", "", 1).trim_start().to_owned();
    }
    view
}

#[derive(Debug, Default)]
struct Window {
    conversations: Conversations,
    /// A request was sent, and its turn has begun.
    is_in_step: bool,
    /// The task is known: the first message.
    has_task: bool,
}

impl Parser for Window {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        let Some((_, message)) = record(piece, events) else { return };
        match kind(&message) {
            Some("api_req_started") => {
                self.is_in_step = true;
                events.push(Event::Turn);
            }
            None => events.push(Event::Unknown { what: "neither said nor asked".to_owned() }),
            Some(kind) if is_noise(kind) => {}
            Some(kind) => {
                let is_task = !std::mem::replace(&mut self.has_task, true) && kind == TEXT;
                let (message, content) = match is_task {
                    true => as_task(message),
                    false => (message, Content::Piece),
                };
                let view = window_view(&message);
                if is_empty(&view) {
                    // The window shows a button, or nothing yet.
                    return;
                }
                let facts = MessageFacts { time: chat::time(&message), ..MessageFacts::default() };
                if view.role == Role::User {
                    self.is_in_step = false;
                }
                if self.is_in_step {
                    self.conversations.push_in_turn(&view, facts, events);
                } else {
                    self.conversations.push_with(&view, content, facts, events);
                }
            }
        }
    }
}

/// The kind of a text of the model. Earlier releases, and other extensions that grew out of Cline,
/// write the task in this way, too, as the first message.
const TEXT: &str = "text";

/// The kind of the message with the task.
const TASK: &str = "task";

/// Returns a first message as one with the task.
fn as_task(mut message: Value) -> (Value, Content) {
    if let Some(fields) = message.as_object_mut() {
        fields.insert("say".to_owned(), TASK.into());
    }
    let content = Content::own(&message);
    (message, content)
}

fn kind(message: &Value) -> Option<&str> {
    text_at(message, "/say").or_else(|| text_at(message, "/ask"))
}

/// The starts of the kinds of messages that only report the state of the client.
const NOISE: [&str; 8] = [
    "api_req",
    "checkpoint_created",
    "deleted_api_reqs",
    "error_retry",
    "hook_",
    "mcp_server_request_started",
    "resume_",
    "shell_integration_warning",
];

/// Returns true if a message of `kind` is not part of the conversation.
fn is_noise(kind: &str) -> bool {
    NOISE.iter().any(|start| kind.starts_with(start))
}

/// Returns true if a message has no content: it asks to confirm the end of a task, or was
/// interrupted before its first word.
fn is_empty(view: &MessageView) -> bool {
    let says = |text: &str| !text.trim().is_empty();
    let result = view.tool_results.iter().map(|result| result.text.as_str());
    let call = view.tool_calls.iter().map(|call| call.input.as_str());
    !says(&view.text) && !says(&view.thinking) && !result.chain(call).any(says)
}

fn window_view(message: &Value) -> MessageView {
    let kind = kind(message).unwrap_or_default();
    let role = match kind {
        TASK | "user_feedback" | "user_feedback_diff" => Role::User,
        "command_output" | "browser_action_result" | "mcp_server_response" | "error" => Role::Tool,
        _ => Role::Assistant,
    };
    let mut view = MessageView::new(role);
    view.id = plain(message.get("ts"));
    let text = text_at(message, "/text").unwrap_or_default();
    match (role, kind) {
        (_, "reasoning") => view.add_thinking(text),
        (_, "tool" | "command" | "use_mcp_server" | "browser_action") => {
            let input = Value::from(text);
            let name = json::value(text.as_bytes()).and_then(|tool| tool.get("tool").cloned());
            view.add_call(None, Some(&name.unwrap_or_else(|| Value::from(kind))), Some(&input));
        }
        (Role::Tool, _) => view.add_result(None, &Value::from(text), kind == "error"),
        _ => {
            view.add_text(text);
            for url in message.get("images").and_then(Value::as_array).into_iter().flatten() {
                view.add_picture(&json!({"type": "image_url", "image_url": url}));
            }
        }
    }
    view
}

#[cfg(test)]
mod tests {
    use super::super::testing::{events_of, outline};
    use super::*;

    #[test]
    fn results_in_text_belong_to_their_step_and_tell_files() {
        let file = br##"[
            {"role": "user", "content": [{"type": "text", "text": "<task>\ngo\n</task>"},
             {"type": "text", "text": "<environment_details>\n# Current Working Directory (/p) Files\na\n"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "write_to_file",
             "input": {"path": "a.ts", "task_progress": "- [ ] one"}}], "modelInfo": {"modelId": "m"}},
            {"role": "user", "content": [{"type": "text", "text": "[write_to_file for 'a.ts'] Result:"},
             {"type": "text", "text": "saved\n<final_file_content path=\"a.ts\">\nx\ny\n</final_file_content>\n"}]}]"##;
        let expected = [
            "cwd=/p",
            "turn",
            "main User go",
            "turn",
            "main Assistant [write_to_file]",
            "pad todos: - [ ] one",
            "main Tool [write_to_file for 'a.ts'] Result:",
            "file a.ts: x\ny",
        ];
        assert_eq!(outline(&events_of(&FORMAT, file)), expected);
    }

    #[test]
    fn in_the_window_a_request_begins_a_turn() {
        let file = br#"[{"ts": 1, "type": "say", "say": "task", "text": "go"},
            {"ts": 2, "type": "say", "say": "api_req_started", "text": "{}"},
            {"ts": 3, "type": "say", "say": "checkpoint_created", "lastCheckpointHash": "h"},
            {"ts": 4, "type": "say", "say": "text", "text": "I will"},
            {"ts": 5, "type": "ask", "ask": "tool", "text": "{\"tool\": \"editedExistingFile\"}"},
            {"ts": 6, "type": "say", "say": "command_output", "text": "done"}]"#;
        let expected = [
            "turn",
            "main User go",
            "turn",
            "main Assistant I will",
            "main Assistant [editedExistingFile]",
            "main Tool done",
        ];
        assert_eq!(outline(&events_of(&WINDOW, file)), expected);
    }

    #[test]
    fn the_first_text_of_the_window_is_the_task() {
        let file = json!([{"ts": 1, "say": "text", "text": "go"}, {"ts": 2, "say": "text", "text": "I will"}]);
        let events = events_of(&WINDOW, file.to_string().as_bytes());
        let expected = ["turn", "main User go", "turn", "main Assistant I will"];
        assert_eq!(outline(&events), expected);
        let Event::Message(task) = &events[1] else { panic!("{events:?}") };
        let Content::Own(bytes) = &task.content else { panic!("{task:?}") };
        assert_eq!(window_view(&json::value(bytes).unwrap()).role, Role::User);
    }

    #[test]
    fn buttons_and_messages_without_content_are_none() {
        let file = json!([{"ts": 1, "say": "task", "text": "go"},
            {"ts": 2, "say": "text", "text": "", "partial": true},
            {"ts": 3, "say": "completion_result", "text": "Done."},
            {"ts": 4, "ask": "completion_result", "text": ""},
            {"ts": 5, "say": "user_feedback", "text": "", "images": ["data:image/png;base64,AA=="]},
            {"ts": 6, "ask": "followup"},
            {"ts": 7, "say": "deleted_api_reqs", "text": "{\"tokensIn\":5}"},
            {"ts": 8, "say": "hook_status", "text": "{\"hookName\":\"h\"}"}]);
        let told = outline(&events_of(&WINDOW, file.to_string().as_bytes()));
        let expected =
            ["turn", "main User go", "turn", "main Assistant Done.", "turn", "main User [image]"];
        assert_eq!(told, expected);
    }
}
