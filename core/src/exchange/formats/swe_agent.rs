//! SWE-agent trajectories (`.traj`): one document with the steps and the conversation.
//!
//! The conversation is `history`. `trajectory` comes before it and tells the same once more, step by
//! step; since SWE-agent 1.0 with the whole prompt of each step, whose messages are cut so that they
//! are stored once. The first turn is what stands before the first reply that is no demonstration;
//! then a turn is a reply with the observation after it. A file is known whole when the editor tool
//! created it.

use std::collections::HashMap;
use std::io::BufRead;

use serde_json::Value;

use super::super::detect::Shape;
use super::super::document::{Document, Rules};
use super::super::json;
use super::conversation::{Conversations, MessageFacts, fields, own_text, plain, record};
use super::session::Session;
use super::{Event, FormatSpec, MessageView, Parser, Piece, Pieces, Role, text_at};

/// How to read them.
pub(super) const FORMAT: FormatSpec = FormatSpec {
    name: "swe-agent",
    title: "SWE-agent trajectory",
    recognise,
    cut,
    parser: || Box::new(SweAgent::default()),
    view,
};

static RULES: Rules = Rules {
    cuts: &["trajectory[*]", "trajectory[*].messages[*]", "history[*]"],
    fields: &[
        "environment",
        "trajectory[*].state",
        "info.exit_status",
        "info.submission",
        "info.swe_agent_version",
        "replay_config",
    ],
};

/// Calls whose result has not been seen are forgotten beyond so many.
const MAX_OPEN_CALLS: usize = 64;

fn recognise(shape: &Shape<'_>) -> bool {
    !shape.is_array && (shape.has("trajectory") || shape.has("history") && shape.has("info"))
}

fn cut<'r>(input: Box<dyn BufRead + 'r>) -> Pieces<'r> {
    Box::new(Document::new(input, &RULES))
}

#[derive(Debug, Default)]
struct SweAgent {
    session: Session,
    conversations: Conversations,
    /// The model has replied: prompts are over.
    replied: bool,
    /// Files that calls without a result would create: call id, path and content.
    created: HashMap<String, (String, String)>,
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
        if self.replied && view.role == Role::User {
            view.role = Role::Tool;
        }
        let is_reply = view.role == Role::Assistant && !is_demo;
        self.replied |= is_reply;
        if self.conversations.begins_turn(if is_reply { Role::Assistant } else { Role::Tool }) {
            events.push(Event::Turn);
        }
        self.conversations.push_in_turn(&view, MessageFacts::default(), events);
        self.calls(&view);
        self.results(message, &view, events);
    }

    /// Remembers the files that the calls of `view` would create.
    fn calls(&mut self, view: &MessageView) {
        for call in &view.tool_calls {
            let Some(input) = json::value(call.input.as_bytes()) else { continue };
            let part = |path| text_at(&input, path);
            if let (Some("create"), Some(path), Some(text)) =
                (part("/command"), part("/path"), part("/file_text"))
            {
                if self.created.len() >= MAX_OPEN_CALLS {
                    self.created.clear();
                }
                self.created.insert(call.id.clone(), (path.to_owned(), text.to_owned()));
            }
        }
    }

    /// Files that were created, now that `message` tells the results of calls.
    fn results(&mut self, message: &Value, view: &MessageView, events: &mut Vec<Event>) {
        let ids = message.get("tool_call_ids").and_then(Value::as_array);
        for id in ids.into_iter().flatten().filter_map(Value::as_str) {
            let Some((path, text)) = self.created.remove(id) else { continue };
            if view.text.contains("File created successfully") {
                let path = self.session.relative(&path);
                events.push(Event::File { path, content: Some(own_text(&text)) });
            }
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
    view.add_content(message.get("content").unwrap_or(&Value::Null));
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
    fn without_tool_roles_what_follows_a_reply_is_its_observation() {
        let file = br#"{"history": [{"role": "user", "content": "go"},
            {"role": "assistant", "content": "ls"}, {"role": "user", "content": "a.py"}], "info": {}}"#;
        let outline = outline(&events_of(&FORMAT, file));
        assert_eq!(outline[outline.len() - 2..], ["main Assistant ls", "main Tool a.py"]);
    }
}
