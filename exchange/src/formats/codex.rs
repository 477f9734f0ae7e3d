//! Codex CLI rollouts: lines `{timestamp, type, payload}`.
//!
//! - `response_item` lines are the conversation; `event_msg` lines repeat it for the screen, and
//!   add where a task starts and how a patch changed files.
//! - Items of users and developers before the model answers are one turn. Items of the model are a
//!   turn up to the last output of its calls; its next item begins another.
//! - `compacted` replaces the whole conversation by the items it carries.
//! - `thread_rolled_back` rolls back the last prompts, with all that came since (`prompts.rs`).
//! - A patch has the whole content of a file only when it adds the file. An update is a diff: it is
//!   applied to a file that the session added before, and is left out otherwise, since the content
//!   it changes is not in the transcript.

mod context;
mod kinds;
mod prompts;
mod view;

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use turntree::context::{MAIN_AGENT, Role};
use turntree::object::{ObjectId, Time};

use self::context::{is_developer_context, is_user_context};
use self::kinds::KINDS;
use self::prompts::{ItemPart, Prompts};
use self::view::{COMMUNICATION, is_sent, view};
use super::files::{FileChange, FileContents};
use super::session::{GIT_REMOTE, Session, TITLE, record, without_credentials};
use crate::model::event::{Content, Event, MessageEvent, Parser};
use crate::model::format::{
    FilePrefix, Format, FormatRank, FormatReader, Lineage, RecordOrigin, Records,
};
use crate::model::record_kind::RecordKind;
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
    rank: FormatRank::Program,
    recognise,
    view,
    reader: FormatReader::Records(Records {
        lineage: Some(Lineage {
            id: None,
            origin,
            identity: Some(identity),
            is_summary: |line| text_at(line, "/type") == Some("compacted"),
            volatile: &["timestamp", ORDINAL],
        }),
        kinds: KINDS,
        ..Records::new(lines::split, || Box::<Codex>::default())
    }),
};

/// The fact that names the oldest session that a fork has copies of, as far as its file records it.
pub(crate) const FAMILY: &str = "family";

/// The field that numbers lines.
const ORDINAL: &str = "ordinal";

const LINE_TYPES: &[&str] =
    &["session_meta", "response_item", "event_msg", "turn_context", "compacted"];

fn recognise(shape: &JsonShape<'_>) -> bool {
    let is_known = shape.text("type").is_some_and(|name| LINE_TYPES.contains(&name));
    !shape.is_array && is_known && shape.has("payload")
}

/// An id in a line that the model's service or the client has made for it.
fn identity(line: &Value) -> Option<&str> {
    ["/payload/call_id", "/payload/id", "/payload/encrypted_content"]
        .into_iter()
        .filter(|_| text_at(line, "/type") == Some("response_item"))
        .find_map(|path| text_at(line, path))
}

/// Returns the origin of a rollout: a fork names the other rollout, and either the end of the
/// inherited part of it, or has copies of its lines.
fn origin(line: &Value) -> RecordOrigin {
    if text_at(line, "/type") != Some("session_meta") {
        let is_said = matches!(text_at(line, "/type"), Some("response_item" | "compacted"));
        return if is_said { RecordOrigin::OwnSession } else { RecordOrigin::Unknown };
    }
    let base = line.pointer("/payload/history_base").unwrap_or(&Value::Null);
    let number = |name| base.get(name).and_then(Value::as_u64);
    let bytes = number("end_byte_offset");
    let ordinal = number("end_ordinal_exclusive").map(|end| (ORDINAL, end));
    match text_at(base, "/thread_id") {
        Some(thread) if bytes.is_some() || ordinal.is_some() => RecordOrigin::OtherSession {
            session: thread.to_owned(),
            pieces: Some(FilePrefix { bytes, ordinal }),
        },
        _ => match text_at(line, "/payload/forked_from_id") {
            Some(thread) => RecordOrigin::OtherSession { session: thread.to_owned(), pieces: None },
            None => RecordOrigin::Unknown,
        },
    }
}

/// Returns the part of an item in a prompt, for markers that roll prompts back.
fn part_of(view: &MessageView, item: &Value) -> ItemPart {
    match view.role {
        Role::System if is_developer_context(item) => ItemPart::Context,
        Role::User if !view.is_added && is_user_context(item) => ItemPart::Context,
        Role::User => ItemPart::Prompt,
        _ => ItemPart::Other,
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Codex {
    session: Session,
    prompts: Prompts,
    state: TurnState,
    /// Calls of this step that have no output yet.
    open_calls: HashSet<String>,
    files: FileContents,
}

/// The state of the current turn.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum TurnState {
    /// No turn: any item begins one.
    #[default]
    Between,
    /// Words of users and developers.
    Prompt,
    /// Words of the model.
    Step,
    /// Words of the model, with at least one output of a call.
    Answered,
}

impl Parser for Codex {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        self.prompts.piece();
        let Some(line) = record(piece, events) else { return };
        let time = line.get("timestamp").and_then(json::time);
        let payload = line.get("payload").unwrap_or(&Value::Null);
        let kind = text_at(&line, "/type").unwrap_or_default();
        if !RecordKind::is_listed(KINDS, kind, events) {
            return;
        }
        match kind {
            "session_meta" => self.session_meta(payload, events),
            "turn_context" => {
                self.session.fact("cwd", text_at(payload, "/cwd"), events);
                self.session.fact("model", text_at(payload, "/model"), events);
            }
            "response_item" if is_sent(payload) => self.item(&line, time, events),
            "response_item" => {}
            COMMUNICATION => self.item(&line, time, events),
            "event_msg" => self.event(payload, events),
            "compacted" => self.compacted(piece, &line, time, events),
            _ => {}
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

    fn missing_blobs(&self) -> Vec<ObjectId> {
        self.files.wanted()
    }
}

impl Codex {
    /// The first such record identifies the rollout. In a fork, copies of the records of its
    /// origins follow.
    fn session_meta(&mut self, payload: &Value, events: &mut Vec<Event>) {
        let id = text_at(payload, "/id");
        if self.session.known("session_id").is_some_and(|known| Some(known) != id) {
            return self.session.fact(FAMILY, id, events);
        }
        for (key, path) in [
            ("session_id", "/id"),
            ("cwd", "/cwd"),
            ("version", "/cli_version"),
            ("git_branch", "/git/branch"),
            ("forked_from", "/forked_from_id"),
        ] {
            self.session.fact(key, text_at(payload, path), events);
        }
        // Such a fork has no copies.
        if payload.get("history_base").is_some_and(Value::is_object) {
            self.session.fact(FAMILY, id, events);
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

    fn item(&mut self, line: &Value, time: Option<Time>, events: &mut Vec<Event>) {
        let (view, item) = (view(line), line.get("payload").unwrap_or(line));
        self.prompts.item(part_of(&view, item));
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
                // The service answers a call without an id itself.
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
            Some("thread_rolled_back") => {
                let count = payload.get("num_turns").and_then(Value::as_u64).unwrap_or(0);
                self.between_turns();
                events.extend(self.prompts.take_back(count));
            }
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
        self.prompts.item(ItemPart::Other);
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
                "unknown: this edit does not apply to the known content of /p/moved, which is unknown from here on",
                "file /p/moved: none",
                "file /p/old: none",
            ]
        );
    }
}
