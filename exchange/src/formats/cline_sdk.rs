//! Sessions of the Cline SDK: one document with the messages of an agent.
//!
//! Messages are those of the Anthropic interface. A file that is attached to a prompt is told whole,
//! and followed through the edits of the `editor` tool.

use std::io::BufRead;

use serde_json::Value;

use super::chat;
use super::conversation::{Conversations, MessageFacts, fields, own_text, plain, record};
use super::editor::Editor;
use super::files::Change;
use super::session::Session;
use crate::model::event::{Event, Parser};
use crate::model::format::Format;
use crate::text::document::{Document, Rules};
use crate::text::json;
use crate::text::json::text_at;
use crate::text::piece::{Piece, Pieces};
use crate::text::shape::Shape;

/// How to read them.
pub(super) const FORMAT: Format = Format {
    name: "cline-sdk",
    title: "Cline SDK session",
    recognise,
    cut,
    parser: || Box::new(ClineSdk::default()),
    view: chat::view,
    asides: &["system_prompt"],
    whole: None,
    archive: None,
    continues: None,
    lineage: None,
    is_rewritten: false,
};

static RULES: Rules = Rules {
    cuts: &["messages[*]", "system_prompt"],
    fields: &["sessionId", "agent", "version", "updated_at"],
};

fn recognise(shape: &Shape<'_>) -> bool {
    !shape.is_array && shape.has("sessionId") && shape.has("messages")
}

fn cut<'r>(input: Box<dyn BufRead + 'r>) -> Pieces<'r> {
    Box::new(Document::new(input, &RULES))
}

#[derive(Debug, Default)]
struct ClineSdk {
    session: Session,
    conversations: Conversations,
    editor: Editor,
}

impl Parser for ClineSdk {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        for (path, value) in fields(piece) {
            let key = match path {
                "sessionId" => "session_id",
                "agent" => "agent",
                "version" => "version",
                _ => "updated",
            };
            self.session.fact(key, plain(value.as_ref()).as_deref(), events);
        }
        match record(piece, events) {
            Some(("system_prompt", prompt)) => {
                let agent = self.conversations.agent(None).to_owned();
                events.push(Event::SystemPrompt {
                    agent,
                    content: own_text(&chat::text_of(&prompt)),
                });
            }
            Some((_, message)) => self.message(&message, events),
            None => {}
        }
    }
}

impl ClineSdk {
    fn message(&mut self, message: &Value, events: &mut Vec<Event>) {
        let facts = MessageFacts {
            conversation: None,
            time: chat::time(message),
            model: chat::model(message),
        };
        self.conversations.push(&chat::view(message), facts, events);
        let blocks = message.get("content").and_then(Value::as_array);
        for block in blocks.into_iter().flatten() {
            self.block(block, events);
        }
    }

    fn block(&mut self, block: &Value, events: &mut Vec<Event>) {
        let text = |path| text_at(block, path);
        match text("/type") {
            Some("file") => {
                if let Some((path, content)) = text("/path").zip(text("/content")) {
                    let change = Change::Write(content.to_owned());
                    self.editor.apply(&self.session, path, &change, events);
                }
            }
            Some("tool_use") if text("/name") == Some("editor") => {
                if let Some((id, edit)) = text("/id").zip(block.get("input").and_then(change_of)) {
                    self.editor.call(id, edit);
                }
            }
            Some("tool_result") => {
                let id = text("/tool_use_id").unwrap_or_default();
                self.editor.result(id, has_succeeded(block), &self.session, events);
            }
            _ => {}
        }
    }
}

/// The change that a call of the `editor` tool asks for, and the file.
fn change_of(input: &Value) -> Option<(String, Change)> {
    let text = |path| text_at(input, path).map(str::to_owned);
    let (path, new) = (text("/path")?, text("/new_text")?);
    let change = match text("/old_text") {
        Some(old) => Change::Replace { old, new, all: false },
        None if input.get("insert_line").is_none() => Change::Write(new),
        // Where the line counts from is not told: the file is not known any longer.
        None => Change::Remove,
    };
    Some((path, change))
}

/// Whether a result, which is JSON in text, says that the tool succeeded.
fn has_succeeded(result: &Value) -> bool {
    let content = text_at(result, "/content").and_then(|text| json::value(text.as_bytes()));
    content.and_then(|content| content.get("success")?.as_bool()).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{events_of, outline};
    use super::*;

    #[test]
    fn prompts_steps_attached_files_and_the_system_prompt_are_told() {
        let file = br#"{"version": 1, "agent": "lead", "sessionId": "s", "messages": [
            {"role": "user", "content": [{"type": "text", "text": "go"},
             {"type": "file", "path": "/p/a", "content": "A"}], "ts": 1},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "editor",
             "input": {"path": "/p/a", "old_text": "A", "new_text": "B"}}], "modelInfo": {"id": "m"}},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1",
             "content": "{\"result\":\"ok\",\"success\":true}"}]}],
            "system_prompt": "be\ngood"}"#;
        let expected = [
            "version=1",
            "agent=lead",
            "session_id=s",
            "turn",
            "main User go",
            "file /p/a: A",
            "turn",
            "main Assistant [editor]",
            r#"main Tool {"result":"ok","success":true}"#,
            "file /p/a: B",
            "prompt main: be\ngood",
        ];
        assert_eq!(outline(&events_of(&FORMAT, file)), expected);
    }
}
