//! Writes a conversation as a document for `opencode import`.
//!
//! Each message and part gets a new id, because ids are unique in its database. Ids and times
//! ascend, because the database sorts by both. Members are in the order that an import produces, so
//! exporting the session again gives the same document. Source: the exports of version 1.18.33
//! after an import.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use turntree::object::Time;

use super::super::chat::{FIRST_PROMPT, NO_RESULT, arguments, parts, stray_note};
use super::super::dialogue::{Answer, DialogueCall, DialogueText};
use super::{NativeForm, NativeFormat, Transcript};
use crate::model::picture::{Picture, PictureContent};
use crate::text::json::text_at;

/// The transcripts of opencode.
pub(super) const FORM: NativeForm = NativeForm {
    name: "opencode",
    alias: None,
    format: "opencode",
    session_id,
    rewrite,
    writer: || Box::new(Document::new()),
};

/// The version in the document.
const VERSION: &str = "1.18.33";

/// Milliseconds between the first id and the current time. Each millisecond has 4,096 ids, and all
/// of them precede the ids that the agent generates from now on.
const HEAD_START: i64 = 60_000;

/// Ids per millisecond.
const IDS_IN_A_MILLISECOND: i64 = 4096;

/// The digits of ids after their time.
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The members of a prompt in the order that an import produces. Other members come between these
/// and the ids.
const PROMPT_MEMBERS: &[&str] = &["role", "time", "format", "summary", "agent", "model"];

/// The members of an answer, in the same order.
const ANSWER_MEMBERS: &[&str] = &[
    "role",
    "time",
    "error",
    "parentID",
    "modelID",
    "providerID",
    "mode",
    "agent",
    "path",
    "summary",
    "cost",
    "tokens",
    "structured",
    "variant",
    "finish",
];

/// The members of all kinds of parts, in the same order.
const PART_MEMBERS: &[&str] = &[
    "type",
    "callID",
    "tool",
    "state",
    "reason",
    "snapshot",
    "cost",
    "tokens",
    "mime",
    "filename",
    "url",
    "source",
    "auto",
    "overflow",
    "hash",
    "files",
    "text",
    "synthetic",
    "ignored",
    "time",
    "metadata",
];

/// The members of nested values, by the name of the value. Arguments and results of tools keep
/// their order.
const VALUE_MEMBERS: [(&str, &[&str]); 6] = [
    ("time", &["created", "completed", "start", "end"]),
    ("state", &["status", "input", "output", "error", "title", "metadata", "time", "attachments"]),
    ("tokens", &["total", "input", "output", "reasoning", "cache"]),
    ("cache", &["read", "write"]),
    ("path", &["cwd", "root"]),
    ("model", &["providerID", "modelID", "variant"]),
];

/// Members that come last.
const IDS: [&str; 3] = ["id", "sessionID", "messageID"];

/// Returns the id of a new session at `now`. Session ids descend, because the list shows the newest
/// first.
fn session_id(random: [u8; 16], now: Time) -> String {
    let time = !(now.micros / 1000 * IDS_IN_A_MILLISECOND) & 0xffff_ffff_ffff;
    format!("ses_{time:012x}{}", tail(&random))
}

/// Returns the 14 characters after the time of an id.
fn tail(random: &[u8]) -> String {
    let digit = |byte: &u8| DIGITS.get(usize::from(*byte) % DIGITS.len()).copied().map(char::from);
    random.iter().take(14).filter_map(digit).collect()
}

/// A document under construction.
pub(super) struct Document {
    messages: Vec<Value>,
    /// The number of generated ids.
    ids: i64,
    /// The id of the last prompt.
    asked: Value,
    /// The time of the last message, in milliseconds.
    time: i64,
}

/// Writes messages of the agent with new ids.
fn rewrite(out: &mut Transcript<'_>, records: Vec<Value>) {
    let mut document = Document::new();
    let mut names: HashMap<String, Value> = HashMap::new();
    for mut record in records {
        let Some(Value::Object(mut info)) = record.get_mut("info").map(Value::take) else {
            continue;
        };
        let parts = match record.get_mut("parts").map(Value::take) {
            Some(Value::Array(parts)) => parts,
            _ => Vec::new(),
        };
        let id = document.next_id(out, "msg");
        if let Some(old) = info.get("id").and_then(Value::as_str) {
            names.insert(old.to_owned(), id.clone());
        }
        if let Some(parent) = info.get_mut("parentID") {
            let known = parent.as_str().and_then(|old| names.get(old));
            *parent = known.unwrap_or(&document.asked).clone();
        }
        if let Some(cwd) = info.get_mut("path").and_then(|path| path.get_mut("cwd")) {
            *cwd = out.facts.cwd.into();
        }
        let mut said = Vec::new();
        for part in parts {
            let Value::Object(mut part) = part else { continue };
            // The messages that a summary keeps follow it in the new document.
            part.shift_remove("tail_start_id");
            said.push(part);
        }
        document.push(out, &id, info, said);
    }
    document.end(out);
}

impl Document {
    pub(super) fn new() -> Self {
        Self { messages: Vec::new(), ids: 0, asked: Value::Null, time: 0 }
    }

    fn next_id(&mut self, out: &mut Transcript<'_>, kind: &str) -> Value {
        let time = (out.facts.now.micros / 1000 - HEAD_START) * IDS_IN_A_MILLISECOND + self.ids;
        self.ids += 1;
        let random = out.next_id();
        format!("{kind}_{:012x}{}", time & 0xffff_ffff_ffff, tail(&random)).into()
    }

    /// Returns the time of the next message in milliseconds: the time `said`, but not before the
    /// last message.
    fn next_time(&mut self, out: &Transcript<'_>, said: Option<i64>) -> i64 {
        let latest = out.facts.now.micros / 1000;
        self.time = said.unwrap_or(latest - HEAD_START).max(self.time).min(latest);
        self.time
    }

    /// Adds a message with its parts.
    fn push(
        &mut self,
        out: &mut Transcript<'_>,
        id: &Value,
        mut info: Map<String, Value>,
        parts: Vec<Map<String, Value>>,
    ) {
        let said = info.get("time").and_then(|time| time.get("created")).and_then(Value::as_i64);
        let created = self.next_time(out, said);
        if let Some(Value::Object(time)) = info.get_mut("time") {
            time.insert("created".to_owned(), created.into());
        }
        let is_prompt = info.get("role").and_then(Value::as_str) == Some("user");
        if is_prompt {
            self.asked = id.clone();
        }
        let session = Value::from(out.facts.session);
        move_to_end(&mut info, [("id", id.clone()), ("sessionID", session)]);
        let mut said = Vec::new();
        for mut part in parts {
            let attached = part.get_mut("state").and_then(|state| state.get_mut("attachments"));
            for file in attached.and_then(Value::as_array_mut).into_iter().flatten() {
                if let Value::Object(file) = file {
                    self.name_part(out, file, id);
                }
            }
            self.name_part(out, &mut part, id);
            said.push(order(part, PART_MEMBERS));
        }
        let info = order(info, if is_prompt { PROMPT_MEMBERS } else { ANSWER_MEMBERS });
        self.messages.push(json!({"info": info, "parts": said}));
        out.messages += 1;
    }

    fn name_part(
        &mut self,
        out: &mut Transcript<'_>,
        part: &mut Map<String, Value>,
        message: &Value,
    ) {
        let own = self.next_id(out, "prt");
        let session = Value::from(out.facts.session);
        move_to_end(part, [("id", own), ("sessionID", session), ("messageID", message.clone())]);
    }

    fn prompt(&mut self, out: &mut Transcript<'_>, parts: Vec<Value>, time: Option<Time>) {
        let parts: Vec<_> = parts.into_iter().filter_map(object).collect();
        if parts.is_empty() {
            return;
        }
        let (id, created) = (self.next_id(out, "msg"), millis(time));
        let info = json!({
            "role": "user", "time": {"created": created}, "agent": "build",
            "model": {"providerID": "unknown", "modelID": "unknown"},
        });
        self.push(out, &id, object(info).unwrap_or_default(), parts);
    }
}

/// Moves members to the end and replaces existing ones.
fn move_to_end<const N: usize>(object: &mut Map<String, Value>, members: [(&str, Value); N]) {
    for (name, value) in members {
        object.shift_remove(name);
        object.insert(name.to_owned(), value);
    }
}

/// Sorts the members of an object and of its nested values.
fn order(object: Map<String, Value>, names: &[&str]) -> Value {
    let rank = |name: &str| {
        let known = names.iter().position(|known| *known == name).unwrap_or(names.len());
        (IDS.contains(&name), known)
    };
    let mut members: Vec<(String, Value)> = object.into_iter().collect();
    members.sort_by_key(|(name, _)| rank(name));
    let below = |(name, value): (String, Value)| {
        let names = VALUE_MEMBERS.iter().find(|(known, _)| *known == name);
        let value = match (value, names) {
            (Value::Object(object), Some((_, names))) => order(object, names),
            (value, _) => value,
        };
        (name, value)
    };
    Value::Object(members.into_iter().map(below).collect())
}

fn object(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

fn millis(time: Option<Time>) -> Option<i64> {
    time.map(|time| time.micros / 1000)
}

impl NativeFormat for Document {
    fn user(&mut self, out: &mut Transcript<'_>, said: &DialogueText) {
        for stray in &said.strays {
            self.prompt(out, vec![text(&stray_note(stray))], said.time);
        }
        let content = parts(&said.text, &said.pictures, text, |picture| Some(file(picture)));
        self.prompt(out, content, said.time);
    }

    fn answer(&mut self, out: &mut Transcript<'_>, answer: Answer) {
        let said = answer.said;
        let mut content = Vec::new();
        if !said.text.trim().is_empty() {
            content.push(text(&said.text));
        }
        let at = self.next_time(out, millis(said.time));
        content.extend(answer.calls.iter().map(|spoken| call(spoken, at)));
        if !content.is_empty() {
            if self.messages.is_empty() {
                self.prompt(out, vec![text(FIRST_PROMPT)], said.time);
            }
            let finish = if answer.calls.is_empty() { "stop" } else { "tool-calls" };
            let cwd = out.facts.cwd;
            let info = json!({
                "role": "assistant", "time": {"created": at, "completed": at},
                "parentID": self.asked, "modelID": "unknown", "providerID": "unknown",
                "mode": "build", "agent": "build", "path": {"cwd": cwd, "root": "/"}, "cost": 0,
                "tokens": {
                    "input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0},
                },
                "finish": finish,
            });
            let id = self.next_id(out, "msg");
            let parts = content.into_iter().filter_map(object).collect();
            self.push(out, &id, object(info).unwrap_or_default(), parts);
        }
        let strays = said.strays;
        self.user(out, &DialogueText { strays, time: said.time, ..DialogueText::default() });
    }

    fn end(&mut self, out: &mut Transcript<'_>) {
        let (facts, now) = (out.facts, out.facts.now.micros / 1000);
        let document = json!({
            "info": {
                "id": facts.session, "slug": "carried-on", "projectID": "global",
                "directory": facts.cwd, "title": facts.title, "version": VERSION,
                "time": {"created": now, "updated": now},
            },
            "messages": std::mem::take(&mut self.messages),
        });
        out.bytes.extend(format!("{document:#}\n").into_bytes());
    }
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn file(picture: &Picture) -> Value {
    let (media, url) = match &picture.content {
        PictureContent::Inline { media, base64 } => {
            (media.as_str(), format!("data:{media};base64,{base64}"))
        }
        PictureContent::Address(address) => ("image/png", address.clone()),
    };
    json!({"type": "file", "mime": media, "url": url})
}

/// Returns a call with its result. Pictures are attachments.
fn call(call: &DialogueCall, at: i64) -> Value {
    let (input, time) =
        (Value::Object(arguments(&call.arguments)), json!({"start": at, "end": at}));
    let (said, shown) = match &call.result {
        Some(result) => parts(&result.text, &result.pictures, text, |shown| Some(file(shown)))
            .into_iter()
            .partition(|part| text_at(part, "/type") == Some("text")),
        None => (vec![text(NO_RESULT)], Vec::new()),
    };
    let said: Vec<&str> = said.iter().filter_map(|part| text_at(part, "/text")).collect();
    let said = said.join("\n");
    let mut state = match &call.result {
        Some(result) if !result.is_error => json!({
            "status": "completed", "input": input, "output": said, "title": call.name,
            "metadata": {}, "time": time,
        }),
        _ => json!({"status": "error", "input": input, "error": said, "time": time}),
    };
    if let Some(state) = state.as_object_mut().filter(|_| !shown.is_empty()) {
        state.insert("attachments".to_owned(), shown.into());
    }
    json!({"type": "tool", "callID": call.id, "tool": call.name, "state": state})
}
