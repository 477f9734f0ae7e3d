//! Writes a conversation as a session log of Gemini CLI.
//!
//! A header identifies the session. A message of the model holds its calls with their results.
//! Records of the agent itself stay unchanged, because they do not reference their session. Source:
//! the log that version 0.61.0 writes, and the history that it builds from a log when it resumes.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use turntree::object::Time;

use super::super::chat::{FIRST_PROMPT, NO_RESULT, arguments, parts, stray_note};
use super::super::dialogue::{Answer, DialogueCall, DialogueText};
use super::{NativeForm, NativeFormat, Transcript, random_uuid};
use crate::model::picture::{Picture, PictureContent};

/// The transcripts of Gemini CLI.
pub(super) const FORM: NativeForm = NativeForm {
    name: "gemini-cli",
    alias: Some("gemini"),
    format: "gemini-cli-log",
    session_id: random_uuid,
    rewrite,
    writer: || Box::new(Log),
};

/// Prefixes of prompts that the agent treats as commands and drops when it resumes.
const COMMAND_MARKS: [&str; 3] = ["/", "?", "<session_context"];

/// Inserted before such a prompt to keep it.
const PROMPT_MARK: &str = "[prompt]";

/// Writes records of the agent after a new header.
fn rewrite(out: &mut Transcript<'_>, records: Vec<Value>) {
    header(out);
    for record in records {
        out.line(&record);
        out.messages += 1;
    }
}

fn header(out: &mut Transcript<'_>) {
    let (facts, now) = (out.facts, out.now());
    let hash: String =
        Sha256::digest(facts.cwd.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    out.line(&json!({
        "sessionId": facts.session, "projectHash": hash, "startTime": now, "lastUpdated": now,
        "kind": "main", "summary": facts.title,
    }));
}

/// The log format, which has no state.
pub(super) struct Log;

impl Log {
    fn message(
        out: &mut Transcript<'_>,
        kind: &str,
        mut fields: serde_json::Map<String, Value>,
        time: Option<Time>,
    ) {
        let mut message = serde_json::Map::new();
        message.insert("id".to_owned(), out.next_uuid().into());
        message.insert("timestamp".to_owned(), out.time(time).into());
        message.insert("type".to_owned(), kind.into());
        message.append(&mut fields);
        out.line(&Value::Object(message));
        out.messages += 1;
    }

    fn write_content(out: &mut Transcript<'_>, content: Vec<Value>, time: Option<Time>) {
        if !content.is_empty() {
            let fields = [("content".to_owned(), Value::from(content))];
            Self::message(out, "user", fields.into_iter().collect(), time);
        }
    }
}

impl NativeFormat for Log {
    fn begin(&mut self, out: &mut Transcript<'_>) {
        header(out);
    }

    fn user(&mut self, out: &mut Transcript<'_>, said: &DialogueText) {
        for stray in &said.strays {
            Self::write_content(out, vec![text(&stray_note(stray))], said.time);
        }
        let mut content = content_of(out, &said.text, &said.pictures);
        if COMMAND_MARKS.iter().any(|mark| said.text.trim_start().starts_with(mark)) {
            content.insert(0, text(PROMPT_MARK));
        }
        Self::write_content(out, content, said.time);
    }

    fn answer(&mut self, out: &mut Transcript<'_>, answer: Answer) {
        let said = answer.said;
        if !said.text.trim().is_empty() || !answer.calls.is_empty() {
            if out.messages == 0 {
                Self::write_content(out, vec![text(FIRST_PROMPT)], said.time);
            }
            let fields = [
                ("content", Value::from(said.text.as_str())),
                ("thoughts", json!([])),
                ("tokens", Value::Null),
                ("model", "unknown".into()),
            ];
            let mut fields: serde_json::Map<_, _> =
                fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            if !answer.calls.is_empty() {
                let time = out.time(said.time);
                let calls = answer.calls.iter().map(|spoken| call(out, spoken, &time));
                let calls: Vec<Value> = calls.collect();
                fields.insert("toolCalls".to_owned(), calls.into());
            }
            Self::message(out, "gemini", fields, said.time);
        }
        let strays = said.strays;
        self.user(out, &DialogueText { strays, time: said.time, ..DialogueText::default() });
    }
}

/// Returns a call with its result. Pictures follow the text of the result.
fn call(out: &mut Transcript<'_>, call: &DialogueCall, time: &str) -> Value {
    let result = call.result.as_ref();
    let content = match result {
        Some(result) => content_of(out, &result.text, &result.pictures),
        None => vec![text(NO_RESULT)],
    };
    let (said, shown): (Vec<Value>, Vec<Value>) =
        content.into_iter().partition(|part| part.get("text").is_some());
    let said: Vec<&str> =
        said.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect();
    let is_error = result.is_none_or(|result| result.is_error);
    let key = if is_error { "error" } else { "output" };
    let response = json!({key: said.join("\n")});
    let mut answered =
        vec![json!({"functionResponse": {"id": call.id, "name": call.name, "response": response}})];
    answered.extend(shown);
    json!({
        "id": call.id, "name": call.name, "args": Value::Object(arguments(&call.arguments)),
        "result": answered, "status": if is_error { "error" } else { "success" },
        "timestamp": time,
    })
}

fn text(text: &str) -> Value {
    json!({"text": text})
}

/// Returns text and pictures as parts. The agent does not accept pictures by URL.
fn content_of(out: &mut Transcript<'_>, said: &str, pictures: &[Picture]) -> Vec<Value> {
    for picture in pictures {
        if !picture.is_accepted() || matches!(picture.content, PictureContent::Address(_)) {
            out.omit("pictures");
        }
    }
    parts(said, pictures, text, |picture| match &picture.content {
        PictureContent::Inline { media, base64 } => {
            Some(json!({"inlineData": {"mimeType": media, "data": base64}}))
        }
        PictureContent::Address(_) => None,
    })
}
