//! ATIF trajectories (Agent Trajectory Interchange Format): one document with a list of steps.
//!
//! A step holds a message of its source, the tool calls of the agent and their results, so a step
//! is a message and a turn. Trajectories of sub-agents and the continuation are other files. A step
//! or the document names them, and the names become facts of the session.

use std::io::BufRead;

use serde_json::Value;
use turntree::context::Role;

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
    name: "atif",
    title: "ATIF trajectory",
    rank: FormatRank::Program,
    recognise,
    view,
    reader: FormatReader::Records(Records {
        side_paths: &[TOTAL],
        ..Records::new(split, || Box::new(Atif::default()))
    }),
};

/// A step, and the usage of all steps.
const STEP: &str = "steps[*]";
const TOTAL: &str = "final_metrics";

static RULES: Rules = Rules {
    records: &[STEP, TOTAL],
    fields: &[
        "session_id",
        "schema_version",
        "agent.name",
        "agent.version",
        "agent.model_name",
        "agent.extra.parent_session_id",
        "continued_trajectory_ref",
    ],
};

fn recognise(shape: &JsonShape<'_>) -> bool {
    shape.text("schema_version").is_some_and(|version| version.starts_with("ATIF"))
        || !shape.is_array
            && shape.member("agent").is_some_and(|agent| agent.has("name"))
            && shape.member("steps").is_some_and(|step| step.has_any(&["source", "step_id"]))
}

fn split<'r>(input: Box<dyn BufRead + 'r>) -> Pieces<'r> {
    Box::new(Document::new(input, &RULES))
}

#[derive(Debug, Default)]
struct Atif {
    session: Session,
    conversations: Conversations,
}

impl Parser for Atif {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        for (path, value) in fields(piece) {
            let key = match path {
                "session_id" => "session_id",
                "schema_version" => "schema_version",
                "agent.name" => "agent",
                "agent.version" => "version",
                "agent.model_name" => "model",
                "agent.extra.parent_session_id" => "parent_session",
                _ => "continued_in",
            };
            self.session.fact(key, plain(value.as_ref()).as_deref(), events);
        }
        if let Some((STEP, step)) = record(piece, events) {
            self.step(&step, events);
        }
    }
}

impl Atif {
    fn step(&mut self, step: &Value, events: &mut Vec<Event>) {
        let view = view(step);
        let model = text_at(step, "/model_name").or_else(|| self.session.known("model"));
        let model = model.filter(|_| view.role == Role::Assistant);
        let facts = MessageFacts { conversation: None, time: step.get("timestamp"), model };
        events.push(Event::Turn);
        self.conversations.push_in_turn(&view, facts, events);
        let refs = results(step).filter_map(|r| r.get("subagent_trajectory_ref")?.as_array());
        for reference in refs.flatten() {
            let session = text_at(reference, "/session_id");
            let path = text_at(reference, "/trajectory_path");
            if let Some(value) = path.or(session) {
                let key = format!("subagent/{}", session.unwrap_or(value));
                events.push(Event::Meta { key, value: value.to_owned() });
            }
        }
    }
}

fn results(step: &Value) -> impl Iterator<Item = &Value> {
    step.pointer("/observation/results").and_then(Value::as_array).into_iter().flatten()
}

fn view(step: &Value) -> MessageView {
    let role = match text_at(step, "/source") {
        Some("system") => Role::System,
        Some("user") => Role::User,
        Some("agent") => Role::Assistant,
        _ => Role::Other,
    };
    let mut view = MessageView::new(role);
    view.id = plain(step.get("step_id"));
    // A trajectory that continues another trajectory begins with copies of its steps.
    view.is_added = step.get("is_copied_context") == Some(&Value::Bool(true));
    if let Some(thought) = text_at(step, "/reasoning_content") {
        view.add_thinking(thought);
    }
    view.add_content(step.get("message").unwrap_or(&Value::Null));
    for call in step.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        let part = |name| call.get(name);
        view.add_call(part("tool_call_id"), part("function_name"), part("arguments"));
    }
    for result in results(step).filter(|result| result.get("content").is_some()) {
        let content = result.get("content").unwrap_or(&Value::Null);
        // A result that names no call belongs to the first one.
        let call =
            result.get("source_call_id").or_else(|| step.pointer("/tool_calls/0/tool_call_id"));
        view.add_result(call, content, false);
    }
    view
}

#[cfg(test)]
mod tests {
    use super::super::testing::{events_of, outline};
    use super::*;

    #[test]
    fn a_step_is_a_turn_and_names_the_files_of_its_sub_agents() {
        let file = br#"{"schema_version": "ATIF-v1.7", "session_id": "s",
            "agent": {"name": "a", "version": "1", "model_name": "m"}, "steps": [
            {"step_id": 1, "source": "user", "message": "go"},
            {"step_id": 2, "source": "agent", "message": "",
             "tool_calls": [{"tool_call_id": "c", "function_name": "bash", "arguments": {"k": 1}}],
             "observation": {"results": [{"source_call_id": "c", "content": "ok"}]}},
            {"step_id": 3, "source": "system", "message": "sum", "observation": {"results": [
             {"subagent_trajectory_ref": [{"session_id": "s2", "trajectory_path": "b.json"}]}]}}]}"#;
        let expected = [
            "schema_version=ATIF-v1.7",
            "session_id=s",
            "agent=a",
            "version=1",
            "model=m",
            "turn",
            "main User go",
            "turn",
            "main Assistant [bash]",
            "turn",
            "main System sum",
            "subagent/s2=b.json",
        ];
        let events = events_of(&FORMAT, file);
        assert_eq!(outline(&events), expected);
        let models = events.iter().filter_map(|event| match event {
            Event::Message(message) => Some(message.model.as_deref()),
            _ => None,
        });
        assert_eq!(models.collect::<Vec<_>>(), [None, Some("m"), None]);
    }
}
