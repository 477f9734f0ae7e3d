//! A conversation as a session log of Claude Code.
//!
//! Its own records keep their `uuid`, as its fork keeps them; `sessionId`, `cwd` and `parentUuid` are
//! those of the new session, each record follows the one before, and an answer says in
//! `requestSessionId` where it was asked for. Sources: its own forks (2.1.330), and the fork of its SDK.

use serde_json::{Map, Value, json};
use turntree::error::Result;
use turntree::object::Time;

use super::super::chat::{BEGINNING, anthropic_content, anthropic_result, arguments, note};
use super::super::dialogue::{Answer, Messages, Speech, SpokenText};
use super::Transcript;

/// The version that the records are of.
const VERSION: &str = "2.1.330";

/// Fields of a record that hold for the session that it was written in.
const OF_ITS_SESSION: [&str; 4] = ["slug", "teamName", "agentName", "sourceToolAssistantUUID"];

/// Writes records of the agent, linked one behind the other.
pub(super) fn rewrite(out: &mut Transcript<'_>, records: Vec<Value>) {
    let last = records.len().saturating_sub(1);
    let mut parent = Value::Null;
    for (at, record) in records.into_iter().enumerate() {
        let Value::Object(mut record) = record else { continue };
        for field in OF_ITS_SESSION {
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

/// Writes a conversation anew.
pub(super) fn write(out: &mut Transcript<'_>, said: Messages<'_>) -> Result<()> {
    let mut log = Log { out, parent: Value::Null };
    for speech in said {
        let speech = speech?;
        log.out.leave_out_of(&speech);
        match speech {
            Speech::System(_) => {}
            Speech::User(said) => log.said(&said),
            Speech::Answer(answer) => log.answer(answer),
        }
    }
    title(out);
    Ok(())
}

/// Gives the session its title, by which the agent lists it.
fn title(out: &mut Transcript<'_>) {
    let (title, session) = (out.facts.title, out.facts.session);
    if !title.is_empty() && out.messages > 0 {
        out.line(&json!({"type": "custom-title", "customTitle": title, "sessionId": session}));
    }
}

/// A log, and the record that the next one follows.
struct Log<'t, 'a> {
    out: &'t mut Transcript<'a>,
    parent: Value,
}

impl Log<'_, '_> {
    fn record(&mut self, kind: &str, message: &Value, time: Option<Time>) {
        let uuid = Value::from(self.out.next_uuid());
        let parent = std::mem::replace(&mut self.parent, uuid.clone());
        let (facts, time) = (self.out.facts, self.out.time(time));
        self.out.line(&json!({
            "parentUuid": parent, "isSidechain": false, "userType": "external", "cwd": facts.cwd,
            "sessionId": facts.session, "version": VERSION, "type": kind, "message": message,
            "uuid": uuid, "timestamp": time,
        }));
        self.out.messages += 1;
    }

    fn user(&mut self, content: impl Into<Value>, time: Option<Time>) {
        let content = content.into();
        self.record("user", &json!({"role": "user", "content": content}), time);
    }

    fn said(&mut self, said: &SpokenText) {
        for stray in &said.strays {
            self.user(note(stray), said.time);
        }
        if said.pictures.is_empty() {
            if !said.text.trim().is_empty() {
                self.user(said.text.as_str(), said.time);
            }
            return;
        }
        let content = anthropic_content(&said.text, &said.pictures);
        if !content.is_empty() {
            self.user(content, said.time);
        }
    }

    fn answer(&mut self, answer: Answer) {
        let said = answer.said;
        let mut content = anthropic_content(&said.text, &[]);
        for call in &answer.calls {
            let input = Value::Object(arguments(&call.arguments));
            content.push(
                json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input}),
            );
        }
        if !content.is_empty() {
            if self.out.messages == 0 {
                self.user(BEGINNING, said.time);
            }
            let message = self.message(&content, !answer.calls.is_empty());
            self.record("assistant", &message, said.time);
        }
        for call in &answer.calls {
            self.user(vec![anthropic_result(call)], said.time);
        }
        let strays = said.strays;
        self.said(&SpokenText { strays, time: said.time, ..SpokenText::default() });
    }

    fn message(&mut self, content: &[Value], calls: bool) -> Value {
        let id: String = self.out.next_id().iter().map(|byte| format!("{byte:02x}")).collect();
        let names = ["input_tokens", "output_tokens"];
        let usage: Map<String, Value> =
            names.map(|name| (name.to_owned(), json!(0))).into_iter().collect();
        json!({
            "id": format!("msg_{id}"), "type": "message", "role": "assistant",
            "model": "unknown", "content": content,
            "stop_reason": if calls { "tool_use" } else { "end_turn" }, "stop_sequence": null,
            "usage": usage,
        })
    }
}
