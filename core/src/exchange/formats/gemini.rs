//! Sessions of Gemini CLI: one document with `messages`, or a log that is only ever added to.
//!
//! A message of the model holds the tool calls of a step and their results, so it begins a turn, as a
//! prompt does. In the log a message is written again, whole, whenever one of its tools has answered:
//! the last record of an id counts. `$set` changes facts of the session, and brings messages;
//! `$rewindTo` takes back a message and all after it.

use std::collections::{HashMap, HashSet};
use std::io::BufRead;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::conversation::{Conversations, MessageFacts, fields, plain, todos};
use super::files::{Change, Files};
use super::session::{Session, record};
use crate::context::{MAIN_AGENT, Role};
use crate::exchange::document::{Document, Rules};
use crate::exchange::event::{Content, Event, Parser};
use crate::exchange::format::Format;
use crate::exchange::json::{Text, text_at};
use crate::exchange::piece::{Piece, Pieces};
use crate::exchange::shape::Shape;
use crate::exchange::view::MessageView;
use crate::exchange::{json, lines};
use crate::object::ObjectId;

/// How to read `session-*.json`.
pub(super) const FORMAT: Format = Format {
    name: "gemini-cli",
    title: "Gemini CLI session",
    recognise: |shape| is_session(shape) && shape.has("messages"),
    cut,
    parser: || Box::<Gemini>::default(),
    view,
    asides: &[],
    whole: None,
    archive: None,
    continues: None,
    lineage: None,
};

/// How to read `session-*.jsonl`.
pub(super) const LOG: Format = Format {
    name: "gemini-cli-log",
    title: "Gemini CLI session log",
    recognise: |shape| is_session(shape) && !shape.has("messages"),
    cut: lines::cut,
    parser: || Box::<Gemini>::default(),
    view,
    asides: &[],
    whole: None,
    archive: None,
    continues: None,
    lineage: None,
};

static RULES: Rules =
    Rules { cuts: &["messages[*]"], fields: &["sessionId", "projectHash", "summary", "kind"] };

/// Facts about a session, and what they are called here.
const FACTS: [(&str, &str); 4] = [
    ("sessionId", "session_id"),
    ("projectHash", "project"),
    ("summary", "title"),
    ("kind", "kind"),
];

/// What stands before the working directory in the first prompt, which Gemini CLI writes itself.
const DIRECTORY_MARKS: [&str; 2] =
    ["currently working in the directory: ", "**Workspace Directories:**\n  - "];

fn is_session(shape: &Shape<'_>) -> bool {
    !shape.is_array && shape.has("sessionId") && shape.has("projectHash")
}

fn cut<'r>(input: Box<dyn BufRead + 'r>) -> Pieces<'r> {
    Box::new(Document::new(input, &RULES))
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Gemini {
    session: Session,
    conversations: Conversations,
    files: Files,
    /// The id of each message of the conversation, in order; empty where there is none.
    order: Vec<String>,
    /// Where the message of an id is in that order.
    places: HashMap<String, usize>,
    /// Calls that have succeeded, whose files are told.
    done: HashSet<String>,
}

impl Parser for Gemini {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        for (path, value) in fields(piece) {
            let key = FACTS.iter().find(|(field, _)| *field == path);
            if let Some((_, key)) = key {
                self.session.fact(key, plain(value.as_ref()).as_deref(), events);
            }
        }
        let Some(record) = record(piece, events) else { return };
        let mut told = Vec::new();
        self.record(piece, &record, &mut told);
        // A turn begins with its first event.
        if let Some(at) = told.iter().position(|event| matches!(event, Event::Turn)) {
            let turn = told.remove(at);
            told.insert(0, turn);
        }
        events.append(&mut told);
    }

    fn save(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(self).ok()
    }

    fn load(&mut self, saved: &[u8], contents: &HashMap<ObjectId, Bytes>) -> bool {
        let Ok(mut loaded) = serde_json::from_slice::<Self>(saved) else { return false };
        loaded.files.fill(contents);
        *self = loaded;
        true
    }

    fn wanted(&self) -> Vec<ObjectId> {
        self.files.wanted()
    }
}

impl Gemini {
    fn record(&mut self, piece: &Piece, record: &Value, events: &mut Vec<Event>) {
        if let Some(id) = text_at(record, "/$rewindTo") {
            self.rewind(id, events);
        } else if let Some(set) = record.get("$set") {
            self.facts(set, events);
            self.messages(piece, events);
        } else if record.get("type").is_some() {
            self.message(record, Content::Piece, events);
        } else if record.get("sessionId").is_some() {
            self.facts(record, events);
        } else {
            events.push(Event::Unknown { what: "a record that is no message".to_owned() });
        }
    }

    fn facts(&mut self, record: &Value, events: &mut Vec<Event>) {
        for (field, key) in FACTS {
            self.session.fact(key, plain(record.get(field)).as_deref(), events);
        }
    }

    /// The messages that `$set` brings, each with its own bytes.
    fn messages(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        #[derive(Deserialize)]
        struct Update<'a> {
            #[serde(rename = "$set", borrow)]
            set: Set<'a>,
        }
        #[derive(Deserialize)]
        struct Set<'a> {
            #[serde(default, borrow)]
            messages: Vec<&'a RawValue>,
        }
        let Some(text) = Text::new(&piece.bytes) else { return };
        let update: Option<Update<'_>> = text.parse().ok();
        for message in update.iter().flat_map(|update| &update.set.messages) {
            let bytes = message.get().as_bytes();
            let content = Content::Own(Bytes::copy_from_slice(bytes));
            if let Some(message) = json::value(bytes).filter(Value::is_object) {
                self.message(&message, content, events);
            }
        }
    }

    fn message(&mut self, message: &Value, content: Content, events: &mut Vec<Event>) {
        let view = view(message);
        if view.role == Role::User {
            self.session.fact("cwd", working_directory(&view.text), events);
        }
        let (time, model) = (message.get("timestamp"), text_at(message, "/model"));
        let known = view.id.as_ref().and_then(|id| self.places.get(id)).copied();
        match known {
            Some(at) => {
                let time = time.and_then(json::time);
                let message = view.event(MAIN_AGENT, content, time, model);
                let back = self.order.len().saturating_sub(at + 1) as u64;
                events.push(Event::Again { message, back });
            }
            None => {
                let facts = MessageFacts { conversation: None, time, model };
                self.conversations.push_with(&view, content, facts, events);
                let id = view.id.unwrap_or_default();
                if !id.is_empty() {
                    self.places.insert(id.clone(), self.order.len());
                }
                self.order.push(id);
            }
        }
        self.tools(message, events);
    }

    /// Follows what the tools of a message did.
    fn tools(&mut self, message: &Value, events: &mut Vec<Event>) {
        for call in calls(message).filter(|call| text_at(call, "/status") == Some("success")) {
            let id = plain(call.get("id")).unwrap_or_default();
            if !id.is_empty() && !self.done.insert(id) {
                continue;
            }
            if text_at(call, "/name") == Some("write_todos") {
                todos(MAIN_AGENT, call.pointer("/args/todos"), events);
            }
            if let Some((path, change)) = file_change(call) {
                self.files.apply(&self.session, path, &change, events);
            }
        }
    }

    /// Takes back the message `id` and all after it.
    fn rewind(&mut self, id: &str, events: &mut Vec<Event>) {
        let Some(at) = self.places.get(id).copied() else {
            let what = "a step back to a message that is not there".to_owned();
            return events.push(Event::Unknown { what });
        };
        for gone in self.order.drain(at..) {
            self.places.remove(&gone);
        }
        let (agent, keep) = (MAIN_AGENT.to_owned(), 0..at as u64);
        events.push(Event::Compact { agent, summary: Vec::new(), keep });
    }
}

fn working_directory(text: &str) -> Option<&str> {
    let rest = DIRECTORY_MARKS.iter().find_map(|mark| text.split_once(mark))?.1;
    rest.lines().next().map(str::trim)
}

fn calls(message: &Value) -> impl Iterator<Item = &Value> {
    message.get("toolCalls").and_then(Value::as_array).into_iter().flatten()
}

/// What a call of a file tool did, and to which file.
fn file_change(call: &Value) -> Option<(&str, Change)> {
    let text = |path| text_at(call, path).map(str::to_owned);
    let path = text_at(call, "/args/file_path")?;
    let shown = || text("/resultDisplay/newContent");
    let change = match text_at(call, "/name")? {
        "write_file" => Change::Write(shown().or_else(|| text("/args/content"))?),
        "replace" => match shown() {
            Some(content) => Change::Write(content),
            None => Change::Replace {
                old: text("/args/old_string")?,
                new: text("/args/new_string")?,
                all: call.pointer("/args/allow_multiple") == Some(&Value::Bool(true)),
            },
        },
        _ => return None,
    };
    Some((path, change))
}

fn view(message: &Value) -> MessageView {
    let mut view = MessageView::new(match text_at(message, "/type") {
        Some("user") => Role::User,
        Some("gemini") => Role::Assistant,
        _ => Role::Other,
    });
    view.id = text_at(message, "/id").map(str::to_owned);
    add_parts(&mut view, message.get("content").unwrap_or(&Value::Null));
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
            add_parts(&mut inner, result);
            let text = Value::String(inner.text);
            view.add_result(call.get("id"), &text, is_error);
        }
    }
    view
}

/// Adds parts as the interface of Gemini has them: text, a part, or a list of parts.
fn add_parts(view: &mut MessageView, parts: &Value) {
    match parts {
        Value::String(text) => view.add_text(text),
        Value::Array(parts) => parts.iter().for_each(|part| add_parts(view, part)),
        Value::Object(part) => {
            let text = part.get("text").and_then(Value::as_str).unwrap_or_default();
            if part.get("thought") == Some(&Value::Bool(true)) {
                view.add_thinking(text);
            } else {
                view.add_text(text);
            }
            if part.contains_key("inlineData") || part.contains_key("fileData") {
                view.add_text("[file]");
            }
            if let Some(response) = part.get("functionResponse").and_then(|it| it.get("response")) {
                let said = response.get("output").or_else(|| response.get("error"));
                match said.unwrap_or(response) {
                    Value::String(text) => view.add_text(text),
                    other => view.add_text(&other.to_string()),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{events_of, outline, told};
    use super::*;

    fn call(status: &str) -> Value {
        json!({"id": "c1", "name": "write_file", "status": status,
            "args": {"file_path": "/p/a.rs", "content": "fn"},
            "result": [{"functionResponse": {"id": "c1", "name": "write_file",
                "response": {"output": "done"}}}]})
    }

    fn prompt(id: &str) -> Value {
        json!({"id": id, "type": "user", "timestamp": "2026-05-01T10:00:00.000Z",
            "content": [{"text": format!("prompt {id}")}]})
    }

    #[test]
    fn a_document_is_read_with_its_files() {
        let file = json!({"sessionId": "s", "projectHash": "h", "startTime": "t", "lastUpdated": "t",
            "messages": [
                {"id": "0", "type": "user", "content":
                    "<session_context>\nI'm currently working in the directory: /p\nHere"},
                prompt("1"),
                {"id": "2", "type": "gemini", "content": "", "model": "m",
                    "thoughts": [{"subject": "Plan", "description": "write"}],
                    "toolCalls": [call("success"),
                        {"id": "c2", "name": "replace", "status": "error", "args":
                            {"file_path": "/p/a.rs", "old_string": "fn", "new_string": "no"}},
                        {"id": "c3", "name": "write_todos", "status": "success",
                            "args": {"todos": [{"description": "t"}]}}]},
                {"id": "3", "type": "error", "content": "quota"}],
            "summary": "T"});
        let events = events_of(&FORMAT, file.to_string().as_bytes());
        let expected = [
            "session_id=s",
            "project=h",
            "turn",
            "cwd=/p",
            "main User <session_context>",
            "turn",
            "main User prompt 1",
            "turn",
            "main Assistant [write_file, replace, write_todos]",
            "file a.rs: fn",
            r#"pad todos: [{"description":"t"}]"#,
            "main Other quota",
            "title=T",
        ];
        assert_eq!(outline(&events), expected);
        let view = view(&file["messages"][2]);
        assert_eq!((view.thinking.as_str(), &*view.tool_results[0].text), ("Plan: write", "done"));
    }

    #[test]
    fn the_last_record_of_a_message_counts_and_a_step_back_takes_messages_away() {
        let answer = |status: &str| {
            json!({"id": "2", "type": "gemini", "content": "ok",
            "toolCalls": [call(status)]})
        };
        let lines = [
            json!({"sessionId": "s", "projectHash": "h", "startTime": "t", "kind": "main"}),
            prompt("1"),
            answer("executing"),
            answer("success"),
            json!({"$set": {"lastUpdated": "u", "messages": [answer("success"), prompt("3")]}}),
            json!({"$set": {"summary": "T"}}),
            json!({"$rewindTo": "3"}),
            json!({"$rewindTo": "7"}),
            json!({"odd": 1}),
        ];
        assert_eq!(
            told(&LOG, &lines),
            [
                "session_id=s",
                "project=h",
                "kind=main",
                "turn",
                "main User prompt 1",
                "turn",
                "main Assistant ok",
                "again main Assistant ok 0",
                "file /p/a.rs: fn",
                "turn",
                "again main Assistant ok 0",
                "main User prompt 3",
                "title=T",
                "compact main [] 0..2",
                "unknown: a step back to a message that is not there",
                "unknown: a record that is no message",
            ]
        );
    }
}
