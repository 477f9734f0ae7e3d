//! Writes a conversation as a rollout of Codex CLI.
//!
//! The first line identifies the session. Each item of the conversation is a `response_item`,
//! followed by an `event_msg` with the text that the screen shows when the session is resumed.

use serde_json::{Value, json};
use turntree::object::Time;

use super::super::chat::{NO_RESULT, arguments, parts, stray_note};
use super::super::dialogue::{Answer, DialogueText};
use super::{NativeForm, NativeFormat, Transcript, random_uuid};
use crate::model::picture::{Picture, PictureContent};
use crate::text::json::text_at;

/// The transcripts of Codex CLI.
pub(super) const FORM: NativeForm = NativeForm {
    name: "codex",
    alias: None,
    format: "codex",
    session_id: random_uuid,
    rewrite,
    writer: || Box::new(Rollout),
};

/// The version in the records.
const VERSION: &str = "0.169.0";

/// Writes records of the agent after a new head.
fn rewrite(out: &mut Transcript<'_>, records: Vec<Value>) {
    head(out);
    for record in records {
        let time = text_at(&record, "/timestamp").map_or_else(|| out.now(), str::to_owned);
        // Items of a compacted history have no line of their own.
        let item = match record.get("payload") {
            Some(item) => item.clone(),
            None => record,
        };
        screen(out, &item, &time);
        out.line(&json!({"timestamp": time, "type": "response_item", "payload": item}));
        out.messages += 1;
    }
}

/// The rollout format, which has no state.
pub(super) struct Rollout;

impl NativeFormat for Rollout {
    fn begin(&mut self, out: &mut Transcript<'_>) {
        head(out);
    }

    fn user(&mut self, out: &mut Transcript<'_>, said: &DialogueText) {
        user(out, said);
    }

    fn answer(&mut self, out: &mut Transcript<'_>, said: Answer) {
        answer(out, said);
    }
}

fn head(out: &mut Transcript<'_>) {
    let (facts, now) = (out.facts, out.now());
    out.line(&json!({"timestamp": now, "type": "session_meta", "payload": {
        "id": facts.session, "timestamp": now, "cwd": facts.cwd, "originator": "turntree",
        "cli_version": VERSION, "source": "cli",
    }}));
}

fn item(out: &mut Transcript<'_>, item: &Value, time: Option<Time>) {
    let time = out.time(time);
    screen(out, item, &time);
    out.line(&json!({"timestamp": time, "type": "response_item", "payload": item}));
    out.messages += 1;
}

/// Writes the event that the screen shows for a message.
fn screen(out: &mut Transcript<'_>, item: &Value, time: &str) {
    if text_at(item, "/type") != Some("message") {
        return;
    }
    let parts = item.get("content").and_then(Value::as_array).into_iter().flatten();
    let text: Vec<&str> = parts.filter_map(|part| text_at(part, "/text")).collect();
    let text = text.join("\n");
    let event = match text_at(item, "/role") {
        Some("user") if !text.starts_with('<') && !text.starts_with("# AGENTS.md") => {
            json!({"type": "user_message", "message": text, "images": []})
        }
        Some("assistant") => json!({"type": "agent_message", "message": text}),
        _ => return,
    };
    out.line(&json!({"timestamp": time, "type": "event_msg", "payload": event}));
}

fn user(out: &mut Transcript<'_>, said: &DialogueText) {
    for stray in &said.strays {
        let content = json!([{"type": "input_text", "text": stray_note(stray)}]);
        item(out, &json!({"type": "message", "role": "user", "content": content}), said.time);
    }
    let content = content_of(&said.text, &said.pictures);
    if !content.is_empty() {
        item(out, &json!({"type": "message", "role": "user", "content": content}), said.time);
    }
}

fn content_of(text: &str, pictures: &[Picture]) -> Vec<Value> {
    let as_text = |text: &str| json!({"type": "input_text", "text": text});
    parts(text, pictures, as_text, |shown| Some(picture(shown)))
}

fn picture(picture: &Picture) -> Value {
    let address = match &picture.content {
        PictureContent::Inline { media, base64 } => format!("data:{media};base64,{base64}"),
        PictureContent::Address(address) => address.clone(),
    };
    json!({"type": "input_image", "image_url": address})
}

fn answer(out: &mut Transcript<'_>, answer: Answer) {
    let said = answer.said;
    if !said.text.trim().is_empty() {
        let content = json!([{"type": "output_text", "text": said.text}]);
        item(out, &json!({"type": "message", "role": "assistant", "content": content}), said.time);
    }
    for call in &answer.calls {
        let arguments = Value::Object(arguments(&call.arguments)).to_string();
        item(
            out,
            &json!({"type": "function_call", "name": call.name, "arguments": arguments, "call_id": call.id}),
            said.time,
        );
    }
    for call in &answer.calls {
        let output = match &call.result {
            Some(result) if !result.pictures.is_empty() => {
                content_of(&result.text, &result.pictures).into()
            }
            Some(result) => Value::from(result.text.as_str()),
            None => Value::from(NO_RESULT),
        };
        item(
            out,
            &json!({"type": "function_call_output", "call_id": call.id, "output": output}),
            said.time,
        );
    }
    let strays = said.strays;
    user(out, &DialogueText { strays, time: said.time, ..DialogueText::default() });
}
