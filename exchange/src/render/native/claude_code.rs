//! Writes a conversation as a session log of Claude Code.
//!
//! Its own records keep their `uuid`, as in its own forks. `sessionId`, `cwd` and `parentUuid` are
//! set for the new session, each record links to the previous one, and an answer keeps the session
//! of its request in `requestSessionId`. Sources: its own forks (2.1.330), and the fork of its SDK.

use serde_json::{Value, json};
use turntree::object::Time;

use super::super::chat::{
    FIRST_PROMPT, anthropic_content, anthropic_result, arguments, stray_note,
};
use super::super::dialogue::{Answer, DialogueText};
use super::{NativeForm, NativeFormat, Transcript, random_uuid};

/// The transcripts of Claude Code.
pub(super) const FORM: NativeForm = NativeForm {
    name: "claude-code",
    alias: Some("claude"),
    format: "claude-code",
    session_id: random_uuid,
    rewrite,
    writer: || Box::<Log>::default(),
};

/// The version in the records.
const VERSION: &str = "2.1.330";

/// Fields of a record that are valid only in its original session.
const SESSION_FIELDS: [&str; 5] =
    ["slug", "teamName", "agentName", "sourceToolAssistantUUID", "forkedFrom"];

/// Writes records of the agent, each linked to the previous one.
fn rewrite(out: &mut Transcript<'_>, records: Vec<Value>) {
    let last = records.len().saturating_sub(1);
    let mut parent = Value::Null;
    for (at, record) in records.into_iter().enumerate() {
        let Value::Object(mut record) = record else { continue };
        for field in SESSION_FIELDS {
            record.shift_remove(field);
        }
        let asked_in = record.get("requestSessionId").or_else(|| record.get("sessionId")).cloned();
        if record.get("type").and_then(Value::as_str) == Some("assistant")
            && let Some(asked_in) = asked_in
        {
            record.insert("requestSessionId".to_owned(), asked_in);
        }
        let uuid = match record.get("uuid") {
            Some(Value::String(uuid)) => Value::from(uuid.as_str()),
            _ => Value::from(out.next_uuid()),
        };
        let mut put = |name: &str, value: Value| record.insert(name.to_owned(), value);
        put("parentUuid", std::mem::replace(&mut parent, uuid.clone()));
        put("uuid", uuid);
        put("isSidechain", Value::Bool(false));
        put("sessionId", out.facts.session.into());
        put("cwd", out.facts.cwd.into());
        if at == last {
            put("timestamp", out.now().into());
        }
        out.line(&Value::Object(record));
        out.messages += 1;
    }
    title(out);
}

/// Writes the title of the session, which the agent shows in its list.
fn title(out: &mut Transcript<'_>) {
    let (title, session) = (out.facts.title, out.facts.session);
    if !title.is_empty() && out.messages > 0 {
        out.line(&json!({"type": "custom-title", "customTitle": title, "sessionId": session}));
    }
}

/// The state of a log: the id of the last record.
#[derive(Default)]
pub(super) struct Log {
    parent: Value,
}

impl Log {
    fn record(
        &mut self,
        out: &mut Transcript<'_>,
        kind: &str,
        message: &Value,
        time: Option<Time>,
    ) {
        let uuid = Value::from(out.next_uuid());
        let parent = std::mem::replace(&mut self.parent, uuid.clone());
        let (facts, time) = (out.facts, out.time(time));
        out.line(&json!({
            "parentUuid": parent, "isSidechain": false, "userType": "external", "cwd": facts.cwd,
            "sessionId": facts.session, "version": VERSION, "type": kind, "message": message,
            "uuid": uuid, "timestamp": time,
        }));
        out.messages += 1;
    }

    fn write_content(
        &mut self,
        out: &mut Transcript<'_>,
        content: impl Into<Value>,
        time: Option<Time>,
    ) {
        let content = content.into();
        self.record(out, "user", &json!({"role": "user", "content": content}), time);
    }
}

impl NativeFormat for Log {
    fn user(&mut self, out: &mut Transcript<'_>, said: &DialogueText) {
        for stray in &said.strays {
            self.write_content(out, stray_note(stray), said.time);
        }
        if said.pictures.is_empty() {
            if !said.text.trim().is_empty() {
                self.write_content(out, said.text.as_str(), said.time);
            }
            return;
        }
        let content = anthropic_content(&said.text, &said.pictures);
        if !content.is_empty() {
            self.write_content(out, content, said.time);
        }
    }

    fn answer(&mut self, out: &mut Transcript<'_>, answer: Answer) {
        let said = answer.said;
        let mut content = anthropic_content(&said.text, &[]);
        for call in &answer.calls {
            let input = Value::Object(arguments(&call.arguments));
            content.push(
                json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input}),
            );
        }
        if !content.is_empty() {
            if out.messages == 0 {
                self.write_content(out, FIRST_PROMPT, said.time);
            }
            let message = message(out, &content, !answer.calls.is_empty());
            self.record(out, "assistant", &message, said.time);
        }
        for call in &answer.calls {
            self.write_content(out, vec![anthropic_result(call)], said.time);
        }
        let strays = said.strays;
        self.user(out, &DialogueText { strays, time: said.time, ..DialogueText::default() });
    }

    fn end(&mut self, out: &mut Transcript<'_>) {
        title(out);
    }
}

/// Returns an answer in the format of the agent.
fn message(out: &mut Transcript<'_>, content: &[Value], calls: bool) -> Value {
    let id: String = out.next_id().iter().map(|byte| format!("{byte:02x}")).collect();
    json!({
        "id": format!("msg_{id}"), "type": "message", "role": "assistant",
        "model": "unknown", "content": content,
        "stop_reason": if calls { "tool_use" } else { "end_turn" }, "stop_sequence": null,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    })
}
