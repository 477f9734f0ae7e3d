//! Trajectories of mini-swe-agent 2: one document, `{info, messages, trajectory_format}`.
//!
//! A message has the form of the OpenAI interface: that of chats, or that of responses, whose items
//! are in `output`. The agent keeps the raw answer, its cost and the time in `extra`. A message of
//! the role `exit` ends a run and is never sent; `info` has the cost of the run and how it ended.

use std::io::BufRead;

use serde_json::Value;
use turntree::context::Role;
use turntree::object::Time;

use super::chat;
use super::conversation::{Conversations, MessageFacts, fields, plain, record};
use super::session::Session;
use crate::model::event::{Event, Parser};
use crate::model::format::{Format, FormatRank, FormatReader, Records};
use crate::model::view::MessageView;
use crate::text::document::{Document, Rules};
use crate::text::json::text_at;
use crate::text::piece::{Piece, Pieces};
use crate::text::shape::JsonShape;

/// The format.
pub(super) const FORMAT: Format = Format {
    name: "mini-swe-agent",
    title: "mini-swe-agent trajectory",
    rank: FormatRank::Program,
    recognise,
    view,
    reader: FormatReader::Records(Records {
        side_paths: &[TOTAL],
        ..Records::new(split, || Box::new(MiniSweAgent::default()))
    }),
};

/// The cost of the run.
const TOTAL: &str = "info.model_stats";

static RULES: Rules = Rules {
    records: &["messages[*]", TOTAL],
    fields: &[
        "info.config.model.model_name",
        "info.config.environment.cwd",
        "info.mini_version",
        "info.exit_status",
        "info.submission",
        "instance_id",
    ],
};

/// The role of the message that ends a run.
const EXIT: &str = "exit";

/// Moments in `extra` are seconds.
const MICROS: f64 = 1e6;

fn recognise(shape: &JsonShape<'_>) -> bool {
    let is_of_swe_agent = shape.has_any(&["trajectory", "history", "environment"]);
    let info = shape.member("info");
    // A long configuration may push the version out of the head.
    let is_own = info.is_some_and(|info| {
        info.has("mini_version") || (info.has("model_stats") && !is_of_swe_agent)
    });
    let first = shape.member("messages");
    !shape.is_array
        && is_own
        && first.is_none_or(|first| first.has_any(&["role", "output", "type"]))
}

fn split<'r>(input: Box<dyn BufRead + 'r>) -> Pieces<'r> {
    Box::new(Document::new(input, &RULES))
}

#[derive(Debug, Default)]
struct MiniSweAgent {
    session: Session,
    conversations: Conversations,
}

impl Parser for MiniSweAgent {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        for (path, value) in fields(piece) {
            let key = match path {
                "info.config.model.model_name" => "model",
                "info.config.environment.cwd" => "cwd",
                "info.mini_version" => "version",
                "info.exit_status" => "exit_status",
                "info.submission" => "submission",
                _ => "session_id",
            };
            self.session.fact(key, plain(value.as_ref()).as_deref(), events);
        }
        match record(piece, events) {
            Some((TOTAL, total)) => {
                for (key, name) in [("cost", "instance_cost"), ("requests", "api_calls")] {
                    self.session.fact(key, plain(total.get(name)).as_deref(), events);
                }
            }
            Some((_, message)) => self.message(&message, events),
            None => {}
        }
    }
}

impl MiniSweAgent {
    fn message(&mut self, message: &Value, events: &mut Vec<Event>) {
        if text_at(message, "/role") == Some(EXIT) {
            return self.session.fact(
                "exit_status",
                text_at(message, "/extra/exit_status"),
                events,
            );
        }
        let view = view(message);
        if view.role == Role::Other {
            return events.push(Event::Unknown { what: "a message without a role".to_owned() });
        }
        let said = text_at(message, "/extra/response/model");
        let model = said.or_else(|| self.session.known("model"));
        let model = model.filter(|_| view.role == Role::Assistant);
        let time = message.pointer("/extra/timestamp").and_then(millis);
        let facts = MessageFacts { conversation: None, time: time.as_ref(), model };
        self.conversations.push(&view, facts, events);
    }
}

/// A moment in seconds as one in milliseconds.
fn millis(seconds: &Value) -> Option<Value> {
    let micros = seconds.as_f64()? * MICROS;
    let time = Time { micros: format!("{micros:.0}").parse().ok()?, offset_minutes: 0 };
    Some(Value::from(time.micros.div_euclid(1000)))
}

/// A message of a chat, or items of a response.
fn view(message: &Value) -> MessageView {
    let items = message.get("output").and_then(Value::as_array);
    let Some(items) = items.filter(|_| message.get("call_id").is_none()) else {
        return chat::view(message);
    };
    let mut view = MessageView::new(Role::Assistant);
    view.id = plain(message.get("id"));
    items.iter().for_each(|item| chat::add_item(&mut view, item));
    view
}

#[cfg(test)]
mod tests {
    use super::super::testing::{events_of, outline};
    use super::*;

    #[test]
    fn a_run_is_its_messages_and_what_ends_it_is_a_fact() {
        let file = br#"{"info": {"model_stats": {"instance_cost": 0.25, "api_calls": 2},
            "config": {"agent": {"step_limit": 0}, "environment": {"cwd": "/w"},
             "model": {"model_name": "m"}}, "mini_version": "2.4.6",
            "exit_status": "Submitted", "submission": "diff"}, "messages": [
            {"role": "system", "content": "be good"}, {"role": "user", "content": "fix it"},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function",
             "function": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}}],
             "extra": {"actions": [], "cost": 0.25, "timestamp": 1700000000.5,
              "response": {"id": "r", "model": "m-1", "usage": {"prompt_tokens": 3}}}},
            {"role": "tool", "tool_call_id": "c", "content": "a.py", "extra": {"raw_output": "a.py"}},
            {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted"}}],
            "trajectory_format": "mini-swe-agent-1.1"}"#;
        let events = events_of(&FORMAT, file);
        let expected = [
            "cost=0.25",
            "requests=2",
            "cwd=/w",
            "model=m",
            "version=2.4.6",
            "exit_status=Submitted",
            "submission=diff",
            "turn",
            "main System be good",
            "main User fix it",
            "turn",
            "main Assistant [bash]",
            "main Tool a.py",
        ];
        assert_eq!(outline(&events), expected);
        let said = events.iter().find_map(|event| match event {
            Event::Message(message) => Some((message.model.clone()?, message.time?.micros)),
            _ => None,
        });
        assert_eq!(said, Some(("m-1".to_owned(), 1_700_000_000_500_000)));
    }

    #[test]
    fn items_of_a_response_are_one_message_with_its_calls() {
        let file = br#"{"info": {"mini_version": "2.4.6"}, "messages": [
            {"role": "user", "content": "go"},
            {"object": "response", "id": "r", "output": [
             {"type": "reasoning", "summary": [], "encrypted_content": "x"},
             {"type": "message", "content": [{"type": "output_text", "text": "I look."}]},
             {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"}]},
            {"type": "function_call_output", "call_id": "c", "output": "a"}]}"#;
        let outline = outline(&events_of(&FORMAT, file));
        let expected = [
            "version=2.4.6",
            "turn",
            "main User go",
            "turn",
            "main Assistant I look.",
            "main Tool a",
        ];
        assert_eq!(outline, expected);
    }
}
