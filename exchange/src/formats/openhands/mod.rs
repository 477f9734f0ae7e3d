//! OpenHands event logs: a list of events, or one task a line with its events in `history`.
//!
//! Every event is a message: actions of the agent and the user, and the observations after them. A
//! `condensation` forgets events and has a summary of them.
//! Calls that one reply of the model made share its id and are one turn. Several tasks in one file
//! are several conversations, named by `instance_id`; facts are those of the first. Files that were
//! written or created, or edited by an editor that records whole contents, are followed. Every task
//! has a workspace of its own: the files of further tasks are in a folder named after the task.
//!
//! Version 1 writes other events, one file each, which [`events`] reads: as lines, as a list, or as
//! the document that a folder of them is read as, `{conversation, events, stats}`.

mod events;
mod sent_events;

use std::collections::HashSet;
use std::io::BufRead;

use serde_json::Value;
use turntree::context::{MAIN_AGENT, Role};

use self::sent_events::{SentEvents, Summary};
use super::conversation::{Conversations, MessageFacts, fields, plain, record, todos};
use super::editor::{self, Editor};
use super::files::FileChange;
use super::session::Session;
use crate::model::event::{Content, Event, Parser};
use crate::model::format::{Format, FormatRank, FormatReader, Lineage, RecordOrigin, Records};
use crate::model::view::MessageView;
use crate::text::document::{Document, Rules};
use crate::text::json::text_at;
use crate::text::piece::{Piece, Pieces};
use crate::text::shape::JsonShape;
use crate::text::{json, lines};

/// The format.
pub(super) const FORMAT: Format = Format {
    name: "openhands",
    title: "OpenHands event log",
    rank: FormatRank::Program,
    recognise,
    view,
    reader: FormatReader::Records(Records {
        side_paths: &[STATS, METRICS],
        lineage: Some(Lineage::by_id(event_id, |_| RecordOrigin::OwnSession)),
        ..Records::new(split, || Box::new(OpenHands::default()))
    }),
};

/// Returns the id of an event of version 1, which a fork of its conversation keeps.
fn event_id(event: &Value) -> Option<&str> {
    text_at(event, "/id").filter(|_| events::kind(event).is_some())
}

/// The actions of version 0 that forget events, and that ask for it.
const CONDENSATION: &str = "condensation";
const CONDENSATION_REQUEST: &str = "condensation_request";

/// The statistics of a conversation, after its events.
const STATS: &str = "stats";

/// The same of a task of version 0, in the outputs of its benchmarks.
const METRICS: &str = "metrics";

static RULES: Rules = Rules {
    records: &["", "[*]", "history[*]", "events[*]", STATS, METRICS],
    fields: &[
        "conversation.id",
        "conversation.model",
        "conversation.cwd",
        "instance_id",
        "metadata.agent_class",
        "metadata.llm_config.model",
        "metadata.start_time",
        "error",
        "test_result.git_patch",
    ],
};

fn recognise(shape: &JsonShape<'_>) -> bool {
    if events::is_event(shape) || events::is_conversation(shape) {
        return true;
    }
    if shape.is_array {
        return shape.has("source") && (shape.has("action") || shape.has("observation"));
    }
    // The last shape is that of the issue resolver: its history may be beyond the head.
    shape.has("instance_id") && (shape.has("history") || shape.has("test_result"))
        || shape.has("issue") && shape.has("issue_type") && shape.has("instruction")
}

fn split<'r>(mut input: Box<dyn BufRead + 'r>) -> Pieces<'r> {
    // A buffer is enough to see whether there is one event a line.
    let head = input.fill_buf().map(String::from_utf8_lossy).unwrap_or_default().into_owned();
    let head = head.trim_start_matches('\u{feff}').trim_start();
    let is_lines = JsonShape::of(head).is_some_and(|it| !it.is_array && events::is_event(&it));
    if is_lines { lines::split(input) } else { Box::new(Document::new(input, &RULES)) }
}

#[derive(Debug, Default)]
struct OpenHands {
    session: Session,
    conversations: Conversations,
    /// The identity of the current task.
    instance: Option<String>,
    /// The model of the current task.
    model: Option<String>,
    /// The reply of the model that contained the last action.
    reply: Option<String>,
    editor: Editor,
    /// The conversation of version 1.
    conversation: events::Conversation,
    /// The events of version 0 in the first conversation, and the id of the summary among them.
    sent: SentEvents,
    summary: Option<String>,
}

impl Parser for OpenHands {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        self.conversation.piece();
        for (path, value) in fields(piece) {
            self.field(path, plain(value.as_ref()), events);
        }
        match record(piece, events) {
            Some((STATS | METRICS, _)) | None => {}
            Some((_, event)) if events::kind(&event).is_some() => {
                self.conversation.event(&event, &self.session, events);
            }
            Some((_, event)) => self.event(&event, events),
        }
    }
}

impl OpenHands {
    fn field(&mut self, path: &str, value: Option<String>, events: &mut Vec<Event>) {
        if path.is_empty() {
            self.conversations.next();
            self.editor.forget();
            (self.instance, self.model, self.reply) = (None, None, None);
            return;
        }
        if self.conversations.is_first() {
            let key = match path {
                "instance_id" | "conversation.id" => "session_id",
                "metadata.llm_config.model" | "conversation.model" => "model",
                "conversation.cwd" => "cwd",
                "metadata.agent_class" => "agent",
                "metadata.start_time" => "started",
                "error" => "error",
                _ => "submission",
            };
            self.session.fact(key, value.as_deref(), events);
        }
        match path {
            "instance_id" => self.instance = value,
            "metadata.llm_config.model" => self.model = value,
            _ => {}
        }
    }

    fn event(&mut self, record: &Value, events: &mut Vec<Event>) {
        let view = view(record);
        let event = action(record);
        let is_known = event.get("action").or_else(|| event.get("observation")).is_some();
        if !is_known {
            let what = "an event that is neither an action nor an observation".to_owned();
            return events.push(Event::Unknown { what });
        }
        match text_at(event, "/action") {
            Some(CONDENSATION) => return self.condensation(event, events),
            Some(CONDENSATION_REQUEST) => return,
            _ => {}
        }
        let is_state = text_at(event, "/observation") == Some("agent_state_changed");
        if is_state && view.text.is_empty() {
            // Such an event updates the display of the client; the model never gets it.
            return;
        }
        let reply = text_at(event, "/tool_call_metadata/model_response/id");
        let is_parallel = reply.is_some() && reply == self.reply.as_deref();
        let is_step = view.role == Role::Assistant;
        let model = text_at(event, "/tool_call_metadata/model_response/model");
        let model = model.or(self.model.as_deref()).filter(|_| is_step);
        let facts = MessageFacts {
            conversation: self.instance.as_deref(),
            time: event.get("timestamp"),
            model,
        };
        if is_step && is_parallel {
            self.conversations.push_in_turn(&view, facts, events);
        } else {
            self.conversations.push(&view, facts, events);
        }
        if self.conversations.is_first() {
            self.sent.add(plain(event.get("id")).unwrap_or_default(), true);
        }
        if is_step {
            self.reply = reply.map(str::to_owned);
        }
        self.files_of(record, events);
        if text_at(event, "/action") == Some("task_tracking") {
            let agent = self.conversations.agent(None);
            todos(agent, event.pointer("/args/task_list"), events);
        }
    }

    /// Removes the forgotten events of version 0. Only the newest summary is sent.
    fn condensation(&mut self, event: &Value, events: &mut Vec<Event>) {
        if !self.conversations.is_first() {
            return;
        }
        let number = |path| event.pointer(path).and_then(Value::as_u64);
        let listed = event.pointer("/args/forgotten_event_ids").and_then(Value::as_array);
        let listed: HashSet<u64> = listed.into_iter().flatten().filter_map(Value::as_u64).collect();
        let range = number("/args/forgotten_events_start_id")
            .zip(number("/args/forgotten_events_end_id"))
            .map(|(start, end)| start..=end);
        let offset = number("/args/summary_offset");
        let offset = offset.filter(|_| text_at(event, "/args/summary").is_some());
        let before = offset.and_then(|_| self.summary.take());
        let is_forgotten = |id: &str| {
            let known: Option<u64> = id.parse().ok();
            let is_listed = known.is_some_and(|id| listed.contains(&id));
            let is_in_range = known.zip(range.as_ref()).is_some_and(|(id, it)| it.contains(&id));
            is_listed || is_in_range || before.as_deref() == Some(id)
        };
        let summary = offset.map(|offset| {
            let time = event.get("timestamp").and_then(json::time);
            let message = view(event).event(MAIN_AGENT, Content::Piece, time, None);
            let id = format!("summary {}", plain(event.get("id")).unwrap_or_default());
            self.summary = Some(id.clone());
            Summary { offset, id, message }
        });
        events.push(self.sent.condense(is_forgotten, summary));
        self.reply = None;
    }

    /// Follows the files of `record`, which belong to the current task.
    fn files_of(&mut self, record: &Value, events: &mut Vec<Event>) {
        let told = events.len();
        for event in record.as_array().map_or(std::slice::from_ref(record), Vec::as_slice) {
            self.files(event, events);
        }
        let agent = self.conversations.agent(None);
        for event in events.iter_mut().skip(told).filter(|_| agent != MAIN_AGENT) {
            if let Event::File { path, .. } = event {
                *path = format!("{agent}/{}", path.trim_start_matches('/'));
            }
        }
    }

    /// Follows the files that `event` changes or would change.
    fn files(&mut self, event: &Value, events: &mut Vec<Event>) {
        let text = |path| text_at(event, path);
        let id = plain(event.get("id")).unwrap_or_default();
        let edit = match text("/action") {
            Some("write") => text("/args/path")
                .zip(text("/args/content"))
                .map(|(path, content)| (path.to_owned(), FileChange::Write(content.to_owned()))),
            Some("edit") => event.get("args").and_then(editor::change_of),
            _ => None,
        };
        if let Some(edit) = edit {
            self.editor.call(&id, edit);
        }
        let has_failed = text("/content").is_some_and(|content| content.starts_with("ERROR"));
        if has_failed || !matches!(text("/observation"), Some("write" | "edit")) {
            return;
        }
        let cause = plain(event.get("cause")).unwrap_or_default();
        self.editor.result(&cause, true, &self.session, events);
        // The string-replacing editor records the replaced text, other editors the whole file.
        let is_whole = text("/extras/impl_source").is_some_and(|source| source != "oh_aci");
        let edited = text("/extras/path").zip(text("/extras/new_content")).filter(|_| is_whole);
        if let Some((path, content)) = edited {
            self.editor.apply(&self.session, path, &FileChange::Write(content.to_owned()), events);
        }
    }
}

/// The event itself; of a pair, as the oldest logs have them, the action before its observation.
fn action(record: &Value) -> &Value {
    record.get(0).unwrap_or(record)
}

fn view(record: &Value) -> MessageView {
    if events::kind(record).is_some() {
        return events::view(record);
    }
    let mut view = view_of(action(record));
    if let Some(observation) = record.get(1) {
        view.tool_results = view_of(observation).tool_results;
    }
    view
}

fn view_of(event: &Value) -> MessageView {
    let text = |path| text_at(event, path);
    let role = match (text("/source"), text("/action"), text("/observation")) {
        (_, Some("system"), _) => Role::System,
        (_, Some(CONDENSATION), _) | (Some("user"), Some("message"), _) => Role::User,
        (Some("agent"), Some(_), _) => Role::Assistant,
        (_, _, Some("recall" | "agent_state_changed" | "null" | "condense")) => Role::Other,
        (_, _, Some(_)) => Role::Tool,
        _ => Role::Other,
    };
    let mut view = MessageView::new(role);
    view.id = plain(event.get("id"));
    let call = event.pointer("/tool_call_metadata/tool_call_id");
    view.is_added = text("/action") == Some(CONDENSATION);
    let summary = text("/args/summary").filter(|_| view.is_added);
    let said = [summary, text("/args/thought"), text("/args/content"), text("/message")];
    let said = said.into_iter().flatten().find(|text| !text.is_empty());
    if role == Role::Tool {
        let id = call.or_else(|| event.get("cause"));
        let is_error = text("/observation") == Some("error");
        view.add_result(id, event.get("content").unwrap_or(&Value::Null), is_error);
    } else {
        view.add_text(said.unwrap_or_default());
    }
    let is_call = call.is_some() || !matches!(text("/action"), Some("message" | "think"));
    if role == Role::Assistant && is_call {
        let name = event.pointer("/tool_call_metadata/function_name");
        let id = call.or_else(|| event.get("id"));
        view.add_call(id, name.or_else(|| event.get("action")), event.get("args"));
    }
    view
}

#[cfg(test)]
mod tests {
    use super::super::testing::{events_of, outline};
    use super::*;

    #[test]
    fn each_task_of_a_file_is_a_conversation_of_its_own() {
        let file = br#"{"instance_id": "t-1", "metadata": {"llm_config": {"model": "m"}}, "history": [
{"id": 0, "source": "user", "action": "message", "args": {"content": "go"}},
{"id": 1, "source": "agent", "action": "run", "args": {"command": "ls", "thought": ""}, "message": "Running"},
{"id": 2, "source": "agent", "observation": "run", "content": "a.py", "cause": 1}], "error": "boom"}
{"instance_id": "t/2", "history": [{"id": 0, "source": "user", "action": "message", "args": {"content": "again"}}], "error": "x"}
"#;
        let expected = [
            "session_id=t-1",
            "model=m",
            "turn",
            "main User go",
            "turn",
            "main Assistant Running",
            "main Tool a.py",
            "error=boom",
            "turn",
            "t-2 User again",
        ];
        assert_eq!(outline(&events_of(&FORMAT, file)), expected);
    }

    #[test]
    fn a_state_of_the_client_without_words_is_no_message() {
        let file = br#"[
{"id": 0, "source": "environment", "message": "", "observation": "agent_state_changed", "content": "", "extras": {"agent_state": "loading"}},
{"id": 1, "source": "user", "action": "message", "args": {"content": "go"}},
{"id": 2, "source": "environment", "message": "Paused.", "observation": "agent_state_changed", "content": ""},
{"id": 3, "source": "agent", "action": "message", "args": {"content": "done"}}]"#;
        let expected =
            ["turn", "main User go", "main Other Paused.", "turn", "main Assistant done"];
        assert_eq!(outline(&events_of(&FORMAT, file)), expected);
    }

    #[test]
    fn a_condensation_of_version_0_forgets_events_and_the_last_summary() {
        let said = |id: u32, text: &str| {
            format!(
                r#"{{"id":{id},"source":"user","action":"message","args":{{"content":"{text}"}}}}"#
            )
        };
        let condensation = |id: u32, forgotten: &str, summary: &str| {
            format!(
                r#"{{"id":{id},"source":"agent","action":"condensation","args":{{{forgotten},"summary":"{summary}","summary_offset":1}}}}"#
            )
        };
        let asked = r#"{"id":5,"source":"agent","action":"condensation_request","args":{}}"#;
        let file = [
            said(0, "one"),
            said(1, "two"),
            said(2, "three"),
            condensation(
                3,
                r#""forgotten_events_start_id":1,"forgotten_events_end_id":1"#,
                "So far.",
            ),
            said(4, "four"),
            asked.to_owned(),
            condensation(6, r#""forgotten_event_ids":[2]"#, "In short."),
        ];
        let told = outline(&events_of(&FORMAT, format!("[{}]", file.join(",")).as_bytes()));
        let expected = [
            "turn",
            "main User three",
            "compact main [0..1] [main User So far.] [2..3]",
            "turn",
            "main User four",
            "compact main [0..1] [main User In short.] [3..4]",
        ];
        assert_eq!(told[4..], expected);
    }

    #[test]
    fn a_file_is_told_once_its_writing_is_observed() {
        let file = br#"[
{"id": 1, "source": "agent", "action": "edit", "args": {"command": "create", "path": "/w/a", "file_text": "A"}},
{"id": 2, "source": "agent", "observation": "edit", "cause": 1, "content": "ok", "extras": {"impl_source": "oh_aci", "new_content": null}},
{"id": 3, "source": "agent", "action": "edit", "args": {"command": "create", "path": "/w/b", "file_text": "B"}},
{"id": 4, "source": "agent", "observation": "edit", "cause": 3, "content": "ERROR: exists", "extras": {"impl_source": "oh_aci"}},
{"id": 5, "source": "agent", "observation": "edit", "content": "", "extras": {"path": "/w/c", "impl_source": "llm_based_edit", "new_content": "C"}},
{"id": 6, "source": "agent", "action": "task_tracking", "args": {"task_list": [{"id": 1}]}}]"#;
        let outline = outline(&events_of(&FORMAT, file));
        let told: Vec<_> = outline
            .iter()
            .filter(|line| line.starts_with("file") || line.starts_with("pad"))
            .collect();
        assert_eq!(told, ["file /w/a: A", "file /w/c: C", r#"pad todos: [{"id":1}]"#]);
    }

    #[test]
    fn files_of_a_further_task_are_apart() {
        let task = |id: &str| {
            format!(
                r#"{{"instance_id":"{id}","history":[{{"id":1,"source":"agent","action":"write","args":{{"path":"/w/a","content":"{id}"}}}},{{"source":"agent","observation":"write","cause":1}}]}}"#
            )
        };
        let file = format!("{}\n{}\n", task("one"), task("two"));
        let outline = outline(&events_of(&FORMAT, file.as_bytes()));
        let files: Vec<_> = outline.iter().filter(|line| line.starts_with("file")).collect();
        assert_eq!(files, ["file /w/a: one", "file two/w/a: two"]);
    }

    #[test]
    fn a_pair_of_action_and_observation_is_one_message() {
        let file = br#"{"instance_id": "t", "history": [[{"source": "agent", "action": "run",
            "args": {"command": "ls"}}, {"source": "agent", "observation": "run", "content": "a"}]]}"#;
        let outline = outline(&events_of(&FORMAT, file));
        assert_eq!(outline, ["session_id=t", "turn", "main Assistant [run]"]);
    }

    #[test]
    fn calls_of_one_reply_are_one_turn() {
        let event = |id: u32, reply: &str| {
            format!(
                r#"{{"id":{id},"source":"agent","action":"read","args":{{}},"tool_call_metadata":{{"model_response":{{"id":"{reply}"}}}}}}"#
            )
        };
        let file = format!("[{},{},{}]", event(1, "r"), event(2, "r"), event(3, "s"));
        let outline = outline(&events_of(&FORMAT, file.as_bytes()));
        let turns = outline.iter().filter(|line| *line == "turn").count();
        assert_eq!((outline.len(), turns), (5, 2));
    }
}
