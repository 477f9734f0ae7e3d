//! Sessions of the Cline SDK: one document with the messages of an agent.
//!
//! Messages are those of the Anthropic interface. A file that is attached to a prompt is told whole;
//! edits are told in parts only, so they change no file here.

use std::io::BufRead;

use serde_json::Value;

use super::super::detect::Shape;
use super::super::document::{Document, Rules};
use super::chat;
use super::conversation::{Conversations, MessageFacts, fields, own_text, plain, record};
use super::session::Session;
use super::{Event, FormatSpec, Parser, Piece, Pieces, text_at};

/// How to read them.
pub(super) const FORMAT: FormatSpec = FormatSpec {
    name: "cline-sdk",
    title: "Cline SDK session",
    recognise,
    cut,
    parser: || Box::new(ClineSdk::default()),
    view: chat::view,
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
            let text = |path| text_at(block, path);
            if let (Some("file"), Some(path), Some(content)) =
                (text("/type"), text("/path"), text("/content"))
            {
                let path = self.session.relative(path);
                events.push(Event::File { path, content: Some(own_text(content)) });
            }
        }
    }
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
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "editor", "input": {}}],
             "modelInfo": {"id": "m"}},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "ok"}]}],
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
            "main Tool ok",
            "prompt main: be\ngood",
        ];
        assert_eq!(outline(&events_of(&FORMAT, file)), expected);
    }
}
