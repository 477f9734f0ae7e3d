//! Writes a conversation as a session of the pi coding agent, version 3.
//!
//! A header identifies the session, and each entry references the previous one. Entries of pi
//! itself keep their ids, as in its own forks.

use serde_json::{Value, json};
use turntree::object::Time;

use super::super::chat::{NO_RESULT, arguments, parts, stray_note};
use super::super::dialogue::{Answer, DialogueText};
use super::{NativeForm, NativeFormat, Transcript, random_uuid};
use crate::model::picture::{Picture, PictureContent};
use crate::text::json::text_at;

/// The transcripts of the pi coding agent.
pub(super) const FORM: NativeForm = NativeForm {
    name: "pi",
    alias: None,
    format: "pi",
    session_id: random_uuid,
    rewrite,
    writer: || Box::<Log>::default(),
};

/// Writes entries of the agent after a new header, each linked to the previous one.
fn rewrite(out: &mut Transcript<'_>, records: Vec<Value>) {
    header(out);
    let mut parent = Value::Null;
    for record in records {
        let entry = match text_at(&record, "/type") {
            // Text that an extension sends to the model is a separate kind of entry.
            Some("message" | "custom_message") => record,
            // The summary of a compaction replaces the messages before it.
            _ => {
                let text = text_at(&record, "/summary").unwrap_or_default();
                let message = json!({"role": "user", "content": [{"type": "text", "text": text}]});
                let time = record.get("timestamp").cloned().unwrap_or_default();
                json!({"type": "message", "timestamp": time, "message": message})
            }
        };
        if let Value::Object(entry) = entry {
            link(out, entry, &mut parent);
        }
    }
}

fn link(out: &mut Transcript<'_>, mut entry: serde_json::Map<String, Value>, parent: &mut Value) {
    let id = match entry.get("id") {
        Some(Value::String(id)) => Value::from(id.as_str()),
        _ => short_id(out),
    };
    entry.insert("id".to_owned(), id.clone());
    entry.insert("parentId".to_owned(), std::mem::replace(parent, id));
    out.line(&Value::Object(entry));
    out.messages += 1;
}

fn header(out: &mut Transcript<'_>) {
    let (facts, now) = (out.facts, out.now());
    out.line(&json!({
        "type": "session", "version": 3, "id": facts.session, "timestamp": now, "cwd": facts.cwd,
    }));
}

fn short_id(out: &mut Transcript<'_>) -> Value {
    let id = out.next_id();
    let id: String = id.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    id.into()
}

/// The state of a session: the id of the last entry.
#[derive(Default)]
pub(super) struct Log {
    parent: Value,
}

impl Log {
    fn message(&mut self, out: &mut Transcript<'_>, mut message: Value, time: Option<Time>) {
        let at = time.unwrap_or(out.facts.now);
        if let Some(fields) = message.as_object_mut() {
            fields.insert("timestamp".to_owned(), (at.micros / 1000).into());
        }
        let entry = json!({"type": "message", "timestamp": out.time(time), "message": message});
        if let Value::Object(entry) = entry {
            link(out, entry, &mut self.parent);
        }
    }
}

impl NativeFormat for Log {
    fn begin(&mut self, out: &mut Transcript<'_>) {
        header(out);
    }

    fn user(&mut self, out: &mut Transcript<'_>, said: &DialogueText) {
        for stray in &said.strays {
            let content = json!([{"type": "text", "text": stray_note(stray)}]);
            self.message(out, json!({"role": "user", "content": content}), said.time);
        }
        let content = content_of(out, &said.text, &said.pictures);
        if !content.is_empty() {
            self.message(out, json!({"role": "user", "content": content}), said.time);
        }
    }

    fn answer(&mut self, out: &mut Transcript<'_>, answer: Answer) {
        let said = answer.said;
        let mut content = Vec::new();
        if !said.text.trim().is_empty() {
            content.push(json!({"type": "text", "text": said.text}));
        }
        for call in &answer.calls {
            let arguments = Value::Object(arguments(&call.arguments));
            content.push(json!({
                "type": "toolCall", "id": call.id, "name": call.name, "arguments": arguments,
            }));
        }
        if !content.is_empty() {
            let reason = if answer.calls.is_empty() { "stop" } else { "toolUse" };
            let cost =
                json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0});
            let usage = json!({
                "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
                "cost": cost,
            });
            let message = json!({
                "role": "assistant", "content": content, "api": "openai-completions",
                "provider": "unknown", "model": "unknown", "usage": usage, "stopReason": reason,
            });
            self.message(out, message, said.time);
        }
        for call in &answer.calls {
            let result = call.result.as_ref();
            let text = result.map_or(NO_RESULT, |result| &result.text);
            let pictures = result.map_or(&[][..], |result| &result.pictures);
            let content = content_of(out, text, pictures);
            let is_error = result.is_none_or(|result| result.is_error);
            self.message(
                out,
                json!({
                    "role": "toolResult", "toolCallId": call.id, "toolName": call.name,
                    "content": content, "isError": is_error,
                }),
                said.time,
            );
        }
        let strays = said.strays;
        self.user(out, &DialogueText { strays, time: said.time, ..DialogueText::default() });
    }
}

/// Returns text and pictures in the format of pi. It does not accept pictures by URL.
fn content_of(out: &mut Transcript<'_>, text: &str, pictures: &[Picture]) -> Vec<Value> {
    for picture in pictures {
        if !picture.is_accepted() || matches!(picture.content, PictureContent::Address(_)) {
            out.omit("pictures");
        }
    }
    let as_text = |text: &str| json!({"type": "text", "text": text});
    parts(text, pictures, as_text, |picture| match &picture.content {
        PictureContent::Inline { media, base64 } => {
            Some(json!({"type": "image", "data": base64, "mimeType": media}))
        }
        PictureContent::Address(_) => None,
    })
}
