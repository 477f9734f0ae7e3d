//! Codex CLI rollouts: lines `{timestamp, type, payload}`.
//!
//! - `response_item` lines are the conversation; `event_msg` lines repeat it for the screen, except
//!   that they tell where a task starts and what a patch did to files.
//! - Items that users and developers say before the model answers are one turn. What the model says
//!   is a turn up to the last output of its calls; its next word begins another.
//! - `compacted` replaces the whole conversation by the items it carries.
//! - Of files, a patch tells the whole content only when it adds them. An update is a difference: it
//!   is applied to a file that the session added before, and is left out otherwise, since the
//!   content it changes is not in the transcript.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use turntree::context::{MAIN_AGENT, Role};
use turntree::object::{ObjectId, Time};

use super::files::{FileChange, FileContents};
use super::session::{GIT_REMOTE, Session, TITLE, record, without_credentials};
use crate::model::event::{Content, Event, MessageEvent, Parser};
use crate::model::format::{Format, FormatReader, Lineage, RecordOrigin, Records};
use crate::model::view::MessageView;
use crate::model::words::first_line;
use crate::text::json::text_at;
use crate::text::piece::Piece;
use crate::text::shape::JsonShape;
use crate::text::{json, lines};

/// Codex CLI.
pub(super) const FORMAT: Format = Format {
    name: "codex",
    title: "Codex CLI rollout",
    recognise,
    view,
    reader: FormatReader::Records(Records {
        lineage: Some(Lineage { id: |_| None, origin }),
        ..Records::new(lines::split, || Box::<Codex>::default())
    }),
};

const LINE_TYPES: &[&str] =
    &["session_meta", "response_item", "event_msg", "turn_context", "compacted"];

fn recognise(shape: &JsonShape<'_>) -> bool {
    let is_known = shape.text("type").is_some_and(|name| LINE_TYPES.contains(&name));
    !shape.is_array && is_known && shape.has("payload")
}

/// Returns the origin of a rollout: a fork names the other one, and the number of its lines that
/// come before.
fn origin(line: &Value) -> RecordOrigin {
    let base = line.pointer("/payload/history_base").unwrap_or(&Value::Null);
    let pieces = base.get("end_ordinal_exclusive").and_then(Value::as_u64);
    match (text_at(base, "/thread_id"), pieces) {
        (Some(thread), Some(_)) => RecordOrigin::From { session: thread.to_owned(), pieces },
        _ => RecordOrigin::Here,
    }
}

/// A line, or an item of a compacted history.
fn view(value: &Value) -> MessageView {
    let item = value.get("payload").unwrap_or(value);
    let mut view = MessageView::new(role(item));
    view.id = text_at(item, "/id").map(str::to_owned);
    view.is_added = item.get("role").is_none();
    let kind = text_at(item, "/type").unwrap_or_default();
    let field = |name| item.get(name);
    match kind {
        "reasoning" => {
            for part in field("summary").and_then(Value::as_array).into_iter().flatten() {
                view.add_thinking(text_at(part, "/text").unwrap_or_default());
            }
        }
        "function_call" => view.add_call(field("call_id"), field("name"), field("arguments")),
        "custom_tool_call" => view.add_call(field("call_id"), field("name"), field("input")),
        _ if kind.ends_with("_call") => {
            let name = Value::from(kind.trim_end_matches("_call"));
            let input = field("arguments").or_else(|| field("action"));
            view.add_call(field("call_id"), Some(&name), input);
        }
        _ if kind.ends_with("_output") => {
            let output = field("output").or_else(|| field("tools"));
            view.add_result(field("call_id"), &output_text(output), false);
        }
        _ => {
            let content = field("content").or_else(|| field("message"));
            view.add_content(content.unwrap_or(&Value::Null));
        }
    }
    view
}

/// Returns the output of a tool: text, content blocks, `{content}`, or anything else as JSON.
fn output_text(output: Option<&Value>) -> Value {
    match output {
        None => Value::Null,
        Some(Value::Object(fields)) if fields.contains_key("content") => {
            fields.get("content").cloned().unwrap_or_default()
        }
        Some(Value::Array(items)) if items.iter().any(|item| item.get("text").is_none()) => {
            Value::from(Value::from(items.clone()).to_string())
        }
        Some(other) => other.clone(),
    }
}

fn role(item: &Value) -> Role {
    let kind = text_at(item, "/type").unwrap_or_default();
    match text_at(item, "/role") {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("developer" | "system") => Role::System,
        _ if kind.ends_with("_output") => Role::Tool,
        _ if kind == "reasoning" || kind.ends_with("_call") => Role::Assistant,
        // A compacted history that is told as one text.
        _ if item.get("message").is_some() => Role::User,
        _ => Role::Other,
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Codex {
    session: Session,
    state: TurnState,
    /// Calls of this step that have no output yet.
    open_calls: HashSet<String>,
    files: FileContents,
}

/// The state of the current turn.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum TurnState {
    /// None: whatever comes begins one.
    #[default]
    Between,
    /// Words of users and developers.
    Prompt,
    /// Words of the model.
    Step,
    /// The same, with at least one output.
    Answered,
}

impl Parser for Codex {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        let Some(line) = record(piece, events) else { return };
        let time = line.get("timestamp").and_then(json::time);
        let payload = line.get("payload").unwrap_or(&Value::Null);
        match text_at(&line, "/type").unwrap_or_default() {
            "session_meta" => self.session_meta(payload, events),
            "turn_context" => {
                self.session.fact("cwd", text_at(payload, "/cwd"), events);
                self.session.fact("model", text_at(payload, "/model"), events);
            }
            "response_item" => self.item(payload, time, events),
            "event_msg" => self.event(payload, events),
            "compacted" => self.compacted(piece, &line, time, events),
            other => events.push(Event::Unread { kind: json::plain(other).to_owned() }),
        }
    }

    fn save(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(self).ok()
    }

    fn load(&mut self, saved: &[u8], contents: &HashMap<ObjectId, Bytes>) -> bool {
        let Ok(mut loaded) = serde_json::from_slice::<Self>(saved) else { return false };
        loaded.files.fill(contents);
        *self = loaded;
        true
    }

    fn wanted(&self) -> Vec<ObjectId> {
        self.files.wanted()
    }
}

impl Codex {
    fn session_meta(&mut self, payload: &Value, events: &mut Vec<Event>) {
        for (key, path) in [
            ("session_id", "/id"),
            ("cwd", "/cwd"),
            ("version", "/cli_version"),
            ("git_branch", "/git/branch"),
            ("forked_from", "/forked_from_id"),
        ] {
            self.session.fact(key, text_at(payload, path), events);
        }
        let remote = text_at(payload, "/git/repository_url").map(without_credentials);
        self.session.fact(GIT_REMOTE, remote.as_deref(), events);
        if let Some(prompt) = payload.pointer("/base_instructions/text") {
            events.push(Event::SystemPrompt {
                agent: MAIN_AGENT.to_owned(),
                content: Content::own(prompt),
            });
        }
    }

    fn item(&mut self, item: &Value, time: Option<Time>, events: &mut Vec<Event>) {
        let view = view(item);
        if self.begins_turn(&view) {
            events.push(Event::Turn);
        }
        events.push(Event::Message(self.message(&view, Content::Piece, time)));
        if text_at(item, "/name") == Some("update_plan") {
            let arguments =
                text_at(item, "/arguments").and_then(|text| json::value(text.as_bytes()));
            if let Some(plan) = arguments.as_ref().and_then(|arguments| arguments.get("plan")) {
                events.push(Event::Scratchpad {
                    key: "todos".to_owned(),
                    content: Some(Content::own(plan)),
                });
            }
        }
    }

    fn message(&self, view: &MessageView, content: Content, time: Option<Time>) -> MessageEvent {
        let model = self.session.known("model").filter(|_| view.role == Role::Assistant);
        view.event(MAIN_AGENT, content, time, model)
    }

    fn begins_turn(&mut self, view: &MessageView) -> bool {
        let before = self.state;
        match view.role {
            Role::User | Role::System => {
                self.open_calls.clear();
                self.state = TurnState::Prompt;
                before != TurnState::Prompt
            }
            Role::Tool => {
                for result in &view.tool_results {
                    self.open_calls.remove(&result.call_id);
                }
                self.state = TurnState::Answered;
                before == TurnState::Between
            }
            Role::Assistant | Role::Other => {
                let is_new = match before {
                    TurnState::Between | TurnState::Prompt => true,
                    TurnState::Step => false,
                    TurnState::Answered => self.open_calls.is_empty(),
                };
                let calls = view.tool_calls.iter().map(|call| call.id.clone());
                // The service answers a call without an id by itself.
                self.open_calls.extend(calls.filter(|id| !id.is_empty()));
                if is_new {
                    self.state = TurnState::Step;
                }
                is_new
            }
        }
    }

    fn event(&mut self, payload: &Value, events: &mut Vec<Event>) {
        match text_at(payload, "/type") {
            Some("task_started") => self.between_turns(),
            Some("thread_name_updated") => {
                let title = text_at(payload, "/thread_name").map(first_line);
                self.session.fact(TITLE, title.as_deref(), events);
            }
            Some("patch_apply_end") if payload.get("success") == Some(&Value::Bool(true)) => {
                let changes = payload.get("changes").and_then(Value::as_object);
                for (path, change) in changes.into_iter().flatten() {
                    self.change(path, change, events);
                }
            }
            _ => {}
        }
    }

    /// A patch changed the file at `path`.
    fn change(&mut self, path: &str, change: &Value, events: &mut Vec<Event>) {
        let text = |name| change.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let path = match text_at(change, "/move_path") {
            Some(target) if target != path => {
                self.files.rename(&self.session, (path, target), events);
                target
            }
            _ => path,
        };
        let change = match text_at(change, "/type") {
            Some("add") => FileChange::Write(text("content")),
            Some("delete") => FileChange::Remove,
            _ => FileChange::Patch(text("unified_diff")),
        };
        self.files.apply(&self.session, path, &change, events);
    }

    fn between_turns(&mut self) {
        self.state = TurnState::Between;
        self.open_calls.clear();
    }

    /// The conversation is replaced by the items in `piece`, or by its text in older versions.
    fn compacted(
        &mut self,
        piece: &Piece,
        line: &Value,
        time: Option<Time>,
        events: &mut Vec<Event>,
    ) {
        self.between_turns();
        let summary = self
            .replacement(piece, time)
            .unwrap_or_else(|| vec![self.message(&view(line), Content::Piece, time)]);
        events.push(Event::Compact { agent: MAIN_AGENT.to_owned(), summary, keep: 0..0 });
    }

    fn replacement(&self, piece: &Piece, time: Option<Time>) -> Option<Vec<MessageEvent>> {
        #[derive(Deserialize)]
        struct Line<'a> {
            #[serde(borrow)]
            payload: Payload<'a>,
        }
        #[derive(Deserialize)]
        struct Payload<'a> {
            #[serde(borrow)]
            replacement_history: Vec<&'a RawValue>,
        }
        let text = json::Text::new(&piece.bytes)?;
        let line: Line<'_> = text.parse().ok()?;
        let message = |item: &&RawValue| {
            let value = json::value(item.get().as_bytes())?;
            Some(self.message(&view(&value), Content::Part(text.range_of(item)?), time))
        };
        line.payload.replacement_history.iter().map(message).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{events_of, told};
    use super::*;

    fn item(payload: &Value) -> Value {
        json!({"timestamp": "2026-06-22T12:00:00Z", "type": "response_item", "payload": payload})
    }

    fn said(role: &str, text: &str) -> Value {
        item(
            &json!({"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}),
        )
    }

    fn call(id: &str) -> Value {
        item(&json!({"type": "function_call", "name": "run", "arguments": "{}", "call_id": id}))
    }

    fn output(id: &str) -> Value {
        item(&json!({"type": "function_call_output", "call_id": id, "output": "ok"}))
    }

    fn event(payload: &Value) -> Value {
        json!({"type": "event_msg", "payload": payload})
    }

    #[test]
    fn the_name_of_a_thread_and_the_remote_are_told() {
        let url = "https://me:secret@example.org/p.git";
        let lines = [
            json!({"type": "session_meta", "payload": {"id": "s", "git": {"branch": "b",
                   "repository_url": url}}}),
            event(&json!({"type": "thread_name_updated", "thread_name": "fix it"})),
        ];
        let expected = [
            "session_id=s",
            "git_branch=b",
            "git_remote=https://example.org/p.git",
            "title=fix it",
        ];
        assert_eq!(told(&FORMAT, &lines), expected);
    }

    #[test]
    fn a_step_ends_when_all_its_calls_have_outputs() {
        let lines = [
            json!({"type": "session_meta", "payload": {"id": "s", "cwd": "/p",
                   "base_instructions": {"text": "Be good."}}}),
            event(&json!({"type": "task_started"})),
            said("developer", "rules"),
            json!({"type": "turn_context", "payload": {"model": "m1"}}),
            said("user", "go"),
            event(&json!({"type": "user_message", "message": "go"})),
            item(&json!({"type": "reasoning", "summary": [{"text": "Hm."}]})),
            call("1"),
            call("2"),
            output("1"),
            call("3"),
            output("3"),
            output("2"),
            item(&json!({"type": "web_search_call", "action": {"query": "q"}})),
            said("assistant", "done"),
            event(&json!({"type": "task_started"})),
            said("user", "more"),
        ];
        assert_eq!(
            told(&FORMAT, &lines),
            [
                "session_id=s",
                "cwd=/p",
                "prompt main: Be good.",
                "turn",
                "main System rules",
                "model=m1",
                "main User go",
                "turn",
                "main Assistant Hm.",
                "main Assistant [run]",
                "main Assistant [run]",
                "main Tool ok",
                "main Assistant [run]",
                "main Tool ok",
                "main Tool ok",
                "turn",
                "main Assistant [web_search]",
                "main Assistant done",
                "turn",
                "main User more",
            ]
        );
    }

    #[test]
    fn a_compaction_replaces_the_conversation_by_parts_of_its_line() {
        let line = r#"{"type":"compacted","payload":{"message":"","replacement_history":[
            {"type":"message","role":"user","content":"one \ud83d"} ,
            {"type":"message","role":"developer","content":[{"type":"input_text","text":"two"}]}
        ]}}"#
            .replace('\n', "");
        let found = events_of(&FORMAT, line.as_bytes());
        let [Event::Compact { summary, keep, .. }] = &found[..] else { panic!("{found:?}") };
        assert_eq!(*keep, 0..0);
        let parts: Vec<_> = summary
            .iter()
            .map(|message| match &message.content {
                Content::Part(range) => {
                    let view = super::super::view("codex", &line.as_bytes()[range.clone()]);
                    assert_eq!(view.role, message.role);
                    view.text
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(parts, ["one \u{fffd}", "two"]);
        let old = [json!({"type": "compacted", "payload": {"message": "So far: much."}})];
        assert_eq!(told(&FORMAT, &old), ["compact main [main User So far: much.] 0..0"]);
    }

    #[test]
    fn plans_are_todos() {
        let plan = item(&json!({"type": "function_call", "name": "update_plan", "call_id": "1",
                                "arguments": "{\"plan\": [{\"step\": \"rest\"}]}"}));
        let told = told(&FORMAT, &[plan]);
        assert_eq!(told[2..], [r#"pad todos: [{"step":"rest"}]"#]);
    }

    #[test]
    fn files_are_followed_from_where_their_content_is_known() {
        let patch = |success: bool, path: &str, change: &Value| {
            event(
                &json!({"type": "patch_apply_end", "success": success, "changes": {path: change}}),
            )
        };
        let add = json!({"type": "add", "content": "a\n"});
        let update = |old: &str, new: &str, to: Option<&str>| {
            let difference = format!("@@ -1 +1 @@\n-{old}\n+{new}\n");
            json!({"type": "update", "unified_diff": difference, "move_path": to})
        };
        let lines = [
            patch(false, "/p/failed", &add),
            patch(true, "/p/unknown", &update("a", "b", None)),
            patch(true, "/p/new", &add),
            patch(true, "/p/new", &update("a", "b", None)),
            patch(true, "/p/new", &update("b", "c", Some("/p/moved"))),
            patch(true, "/p/moved", &update("b", "d", None)),
            patch(true, "/p/moved", &update("d", "e", None)),
            patch(true, "/p/old", &json!({"type": "delete", "content": "o"})),
        ];
        assert_eq!(
            told(&FORMAT, &lines),
            [
                "file /p/new: a\n",
                "file /p/new: b\n",
                "file /p/new: none",
                "file /p/moved: b\n",
                "file /p/moved: c\n",
                "unknown: this edit does not apply to what is known of /p/moved, whose content is unknown from here on",
                "file /p/moved: none",
                "file /p/old: none",
            ]
        );
    }
}
