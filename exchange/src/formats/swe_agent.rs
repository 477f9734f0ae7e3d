//! SWE-agent trajectories (`.traj`): one document with the steps and the conversation.
//!
//! The conversation is `history`. `trajectory` comes before it and repeats it step by step; since
//! SWE-agent 1.0 with the whole prompt of each step, whose messages are cut so that they are stored
//! once. The first turn ends at the first reply that is no demonstration; from there a turn is a
//! reply with the observation after it, which older versions write as a user message. Files that
//! the editor tool created are followed.

use std::io::BufRead;

use serde_json::Value;
use turntree::context::Role;

use super::conversation::{Conversations, MessageFacts, fields, plain, record};
use super::editor::{self, Editor};
use super::session::Session;
use crate::model::event::{Event, Parser};
use crate::model::format::{Format, FormatRank, FormatReader, Records};
use crate::model::view::MessageView;
use crate::text::document::{Document, Rules};
use crate::text::json;
use crate::text::json::text_at;
use crate::text::piece::{Piece, Pieces};
use crate::text::shape::JsonShape;

/// The format.
pub(super) const FORMAT: Format = Format {
    name: "swe-agent",
    title: "SWE-agent trajectory",
    rank: FormatRank::Program,
    recognise,
    view,
    reader: FormatReader::Records(Records {
        side_paths: &["trajectory[*]", "trajectory[*].messages[*]", TOTAL],
        ..Records::new(split, || Box::new(SweAgent::default()))
    }),
};

/// The tokens and the cost of the run. No message has its own.
const TOTAL: &str = "info.model_stats";

static RULES: Rules = Rules {
    records: &["trajectory[*]", "trajectory[*].messages[*]", "history[*]", TOTAL],
    fields: &[
        "environment",
        "trajectory[*].state",
        "info.exit_status",
        "info.submission",
        "info.swe_agent_version",
        "replay_config",
    ],
};

/// The messages of the editor tool for a changed file.
const SUCCESSES: [&str; 3] =
    ["File created successfully", "has been edited", "undone successfully"];

fn recognise(shape: &JsonShape<'_>) -> bool {
    let of_step = ["action", "observation", "response", "thought", "state", "messages", "query"];
    let is_list_of = |name: &str, fields: &[&str]| {
        shape.member(name).is_some_and(|first| first.is_array && first.has_any(fields))
    };
    // A demonstration may be a history alone, whose messages name their type.
    let is_told = is_list_of("history", &["role"])
        && (shape.has("info") || is_list_of("history", &["message_type"]));
    !shape.is_array && (is_list_of("trajectory", &of_step) || is_told)
}

fn split<'r>(input: Box<dyn BufRead + 'r>) -> Pieces<'r> {
    Box::new(Document::new(input, &RULES))
}

#[derive(Debug, Default)]
struct SweAgent {
    session: Session,
    conversations: Conversations,
    editor: Editor,
    /// True after the first reply of the model: later user messages come from the environment.
    has_replied: bool,
}

impl Parser for SweAgent {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        for (path, value) in fields(piece) {
            self.field(path, value.as_ref(), events);
        }
        if let Some(("history[*]", message)) = record(piece, events) {
            self.message(&message, events);
        }
    }
}

impl SweAgent {
    fn field(&mut self, path: &str, value: Option<&Value>, events: &mut Vec<Event>) {
        let text = plain(value);
        let text = text.as_deref();
        match path {
            "environment" => self.session.fact("environment", text, events),
            "info.exit_status" => self.session.fact("exit_status", text, events),
            "info.submission" => self.session.fact("submission", text, events),
            "info.swe_agent_version" => self.session.fact("version", text, events),
            "trajectory[*].state" => {
                // Text that holds JSON in older versions.
                let state = text.and_then(|text| json::value(text.as_bytes()));
                let state = state.as_ref().or(value);
                let directory = state.and_then(|state| text_at(state, "/working_dir"));
                self.session.fact("cwd", directory, events);
            }
            "replay_config" => {
                let config = text.and_then(|text| json::value(text.as_bytes()));
                let model = config.as_ref().and_then(|config| text_at(config, "/agent/model/name"));
                self.session.fact("model", model, events);
            }
            _ => {}
        }
    }

    fn message(&mut self, message: &Value, events: &mut Vec<Event>) {
        let mut view = view(message);
        let is_demo = message.get("is_demo").and_then(Value::as_bool).unwrap_or(false)
            || text_at(message, "/message_type") == Some("demonstration");
        let is_reply = view.role == Role::Assistant && !is_demo;
        self.has_replied |= is_reply;
        if self.has_replied && view.role == Role::User {
            view.role = Role::Tool;
        }
        if self.conversations.begins_turn(if is_reply { Role::Assistant } else { Role::Tool }) {
            events.push(Event::Turn);
        }
        self.conversations.push_in_turn(&view, MessageFacts::default(), events);
        for call in &view.tool_calls {
            let arguments = json::value(call.input.as_bytes());
            if let Some(edit) = arguments.as_ref().and_then(editor::change_of) {
                self.editor.call(&call.id, edit);
            }
        }
        let ids = message.get("tool_call_ids").and_then(Value::as_array);
        for id in ids.into_iter().flatten().filter_map(Value::as_str) {
            let mut said = view.tool_results.iter().map(|result| result.text.as_str());
            let succeeded = said.any(|said| SUCCESSES.iter().any(|success| said.contains(success)));
            self.editor.result(id, succeeded, &self.session, events);
        }
    }
}

fn view(message: &Value) -> MessageView {
    let role = match text_at(message, "/role") {
        Some("system") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        _ => Role::Other,
    };
    let mut view = MessageView::new(role);
    let content = message.get("content").unwrap_or(&Value::Null);
    match role {
        Role::Tool => view.add_result(message.pointer("/tool_call_ids/0"), content, false),
        _ => view.add_content(content),
    }
    view.add_tool_calls(message.get("tool_calls"));
    view
}

#[cfg(test)]
mod tests {
    use super::super::testing::{events_of, outline};
    use super::*;

    #[test]
    fn the_conversation_comes_from_the_history_in_turns() {
        let file = br#"{"environment": "e", "trajectory": [
            {"action": "ls", "state": "{\"working_dir\": \"/w\"}", "messages": [{"role": "user"}]}],
            "history": [
            {"role": "system", "content": "be good"},
            {"role": "user", "content": "a demo", "is_demo": true},
            {"role": "assistant", "content": "demo reply", "is_demo": true},
            {"role": "user", "content": [{"type": "text", "text": "fix it"}]},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": {"name": "edit",
             "arguments": "{\"command\":\"create\",\"path\":\"/w/a.py\",\"file_text\":\"x = 1\\n\"}"}}]},
            {"role": "tool", "content": "File created successfully at: /w/a.py", "tool_call_ids": ["c"]},
            {"role": "assistant", "content": "done"}],
            "info": {"exit_status": "submitted", "submission": "diff"}}"#;
        let expected = [
            "environment=e",
            "cwd=/w",
            "turn",
            "main System be good",
            "main User a demo",
            "main Assistant demo reply",
            "main User fix it",
            "turn",
            "main Assistant [edit]",
            "main Tool File created successfully at: /w/a.py",
            "file a.py: x = 1\n",
            "turn",
            "main Assistant done",
            "exit_status=submitted",
            "submission=diff",
        ];
        assert_eq!(outline(&events_of(&FORMAT, file)), expected);
    }

    #[test]
    fn a_demonstration_may_be_a_history_alone() {
        let file =
            |kind: &str| format!(r#"{{"history": [{{"role": "user", "content": "go", {kind}}}]}}"#);
        let recognised = |file: &str| recognise(&JsonShape::of(file).unwrap());
        assert!(recognised(&file(r#""agent": "main", "message_type": "observation""#)));
        assert!(!recognised(&file(r#""agent": "main""#)));
    }

    #[test]
    fn without_tool_roles_what_follows_a_reply_stays_in_its_turn() {
        let file = br#"{"history": [{"role": "user", "content": "go"},
            {"role": "assistant", "content": "ls"}, {"role": "user", "content": "a.py"}], "info": {}}"#;
        let outline = outline(&events_of(&FORMAT, file));
        assert_eq!(outline[2..], ["turn", "main Assistant ls", "main Tool a.py"]);
    }
}
