//! Sessions of Gemini CLI: one document with `messages`, or an append-only log.
//!
//! A message of the model holds the tool calls of a step and their results, so it begins a turn, as
//! a prompt does. In the log a message is written again, whole, whenever one of its tools has
//! answered: the last record of an id applies. `$set` changes facts of the session; the messages in
//! it are the whole conversation from then on. `$rewindTo` removes a message and all after it.
//!
//! A client that loads a conversation (`/chat resume`, `/restore`) writes each message of it again
//! with a new id, and then a `$set` with these messages as the whole conversation. The messages are
//! held back until that `$set`, because they are not new.

use std::collections::{HashMap, HashSet};
use std::io::BufRead;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use turntree::context::{MAIN_AGENT, Role};
use turntree::object::ObjectId;

use super::conversation::{Conversations, MessageFacts, fields, plain, todos};
use super::files::{FileChange, FileContents};
use super::gemini_list::{ListedMessage, RESULTS, key, key_at, listed, tail};
use super::gemini_view::{
    ANSWERS, answered_by, answered_in, calls, is_context, is_loaded, is_sent, view,
    working_directory,
};
use super::session::{Session, record};
use crate::model::event::{Content, Event, Parser};
use crate::model::format::{Format, FormatRank, FormatReader, Records};
use crate::text::document::{Document, Rules};
use crate::text::json::text_at;
use crate::text::piece::{Piece, Pieces};
use crate::text::shape::JsonShape;
use crate::text::{json, lines};

/// The format of `session-*.json`.
pub(super) const FORMAT: Format = Format {
    name: "gemini-cli",
    title: "Gemini CLI session",
    rank: FormatRank::Program,
    recognise: |shape| is_session(shape) && shape.has("messages"),
    view,
    reader: FormatReader::Records(Records::new(split, || Box::<Gemini>::default())),
};

/// The format of `session-*.jsonl`.
pub(super) const LOG: Format = Format {
    name: "gemini-cli-log",
    title: "Gemini CLI session log",
    rank: FormatRank::Program,
    recognise: |shape| is_session(shape) && !shape.has("messages"),
    view,
    reader: FormatReader::Records(Records::new(lines::split, || Box::<Gemini>::default())),
};

static RULES: Rules =
    Rules { records: &["messages[*]"], fields: &["sessionId", "projectHash", "summary", "kind"] };

/// Facts about a session, and their names here.
const FACTS: [(&str, &str); 4] = [
    ("sessionId", "session_id"),
    ("projectHash", "project"),
    ("summary", "title"),
    ("kind", "kind"),
];

/// The other kinds of messages. Records of further kinds are in no context.
const KINDS: [&str; 4] = ["user", "info", "warning", "error"];

fn is_session(shape: &JsonShape<'_>) -> bool {
    !shape.is_array && shape.has("sessionId") && shape.has("projectHash")
}

fn split<'r>(mut input: Box<dyn BufRead + 'r>) -> Pieces<'r> {
    // A log may begin with the document of an earlier release, on one line.
    let head = input.fill_buf().map(String::from_utf8_lossy).unwrap_or_default().into_owned();
    let mut lines =
        head.trim_start_matches('\u{feff}').lines().filter(|line| !line.trim().is_empty());
    let is_whole = lines.next().is_some_and(|line| json::value(line.as_bytes()).is_some());
    let has_more = lines.next().is_some_and(|line| line.starts_with('{'));
    match is_whole && has_more {
        true => lines::split(input),
        false => Box::new(Document::new(input, &RULES)),
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Gemini {
    session: Session,
    conversations: Conversations,
    files: FileContents,
    /// The id of each message of the conversation, in order; empty if it has none. The id of a
    /// message of results is marked: the message with their calls may have the same id.
    order: Vec<String>,
    /// The index of a message in that order by its id; for a message that was never sent, the index
    /// of the next one.
    places: HashMap<String, usize>,
    /// Successful calls whose file changes are recorded.
    done: HashSet<String>,
    /// Calls whose results the conversation has.
    answered: HashSet<String>,
    /// True when another process continues the session: it first writes the messages that it has
    /// read.
    is_starting: bool,
    /// Messages of a conversation that the client is loading, as JSON.
    #[serde(default)]
    loaded: Vec<String>,
}

impl Parser for Gemini {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        for (path, value) in fields(piece) {
            let key = FACTS.iter().find(|(field, _)| *field == path);
            if let Some((_, key)) = key {
                self.session.fact(key, plain(value.as_ref()).as_deref(), events);
            }
        }
        let Some(record) = record(piece, events) else { return };
        let mut told = Vec::new();
        self.record(piece, &record, &mut told);
        // A turn begins with its first event.
        if let Some(at) = told.iter().position(|event| matches!(event, Event::Turn)) {
            let turn = told.remove(at);
            told.insert(0, turn);
        }
        events.append(&mut told);
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

impl Gemini {
    fn record(&mut self, piece: &Piece, record: &Value, events: &mut Vec<Event>) {
        if self.hold_loaded(piece, record) {
            return;
        }
        if record.get("$set").is_none() {
            self.add_loaded(events);
        }
        if let Some(id) = text_at(record, "/$rewindTo") {
            self.rewind(id, events);
        } else if let Some(set) = record.get("$set") {
            self.facts(set, events);
            self.replace(piece, events);
        } else if let Some(kind) = text_at(record, "/type") {
            if !KINDS.contains(&kind) && !ANSWERS.contains(&kind) {
                events.push(Event::Unread { kind: json::plain(kind).to_owned() });
            }
            self.is_starting = false;
            if is_sent(record) {
                self.message(record, Content::Piece, events);
            } else if let Some(id) = text_at(record, "/id").filter(|id| !id.is_empty()) {
                // The conversation may go back to it.
                self.places.entry(id.to_owned()).or_insert(self.order.len());
            }
        } else if record.get("sessionId").is_some() {
            self.is_starting = !self.order.is_empty();
            self.facts(record, events);
            self.replace(piece, events);
        } else {
            events.push(Event::Unknown { what: "a record that is not a message".to_owned() });
        }
    }

    /// Holds a message back if it is part of a conversation that the client is loading. Returns
    /// true if so.
    fn hold_loaded(&mut self, piece: &Piece, record: &Value) -> bool {
        let begins = !self.order.is_empty() && !self.is_starting && is_context(record);
        let id = text_at(record, "/id").filter(|id| !self.places.contains_key(*id));
        let is_held = (begins || !self.loaded.is_empty()) && id.is_some() && is_loaded(record);
        if is_held {
            self.loaded.push(String::from_utf8_lossy(&piece.bytes).into_owned());
        }
        is_held
    }

    /// Adds the messages held back if no `$set` loads them as a conversation.
    fn add_loaded(&mut self, events: &mut Vec<Event>) {
        for text in std::mem::take(&mut self.loaded) {
            let Some(message) = json::value(text.as_bytes()).filter(is_sent) else { continue };
            self.message(&message, Content::Own(text.into()), events);
        }
    }

    fn facts(&mut self, record: &Value, events: &mut Vec<Event>) {
        for (field, key) in FACTS {
            self.session.fact(key, plain(record.get(field)).as_deref(), events);
        }
    }

    /// Applies the messages of a `$set`, or of the document of an earlier release, which replace the
    /// whole conversation.
    fn replace(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        let Some(messages) = listed(piece) else { return };
        self.loaded.clear();
        let told = self.without_repeated_results(&messages, true);
        let keys: Vec<String> = told.iter().map(|at| key_at(&messages, *at)).collect();
        // Results are left out of the comparison: here a step contains them, in the list they are
        // separate.
        let steps: Vec<usize> = (0..keys.len())
            .filter(|at| keys.get(*at).is_some_and(|key| !key.ends_with(RESULTS)))
            .collect();
        let known = self.order.iter().filter(|key| !key.ends_with(RESULTS));
        let same =
            steps.iter().zip(known.clone()).take_while(|(at, key)| keys.get(**at) == Some(*key));
        let (common, known) = (same.count(), known.count());
        if common == known {
            let new = common.checked_sub(1).and_then(|last| steps.get(last)).map_or(0, |at| at + 1);
            for (number, at) in told.into_iter().enumerate() {
                let Some((message, content)) = messages.get(at) else { continue };
                // A known message may come again with results that it did not have.
                if number >= new || calls(message).next().is_some() {
                    self.message(message, content.clone(), events);
                }
            }
        } else if common < steps.len() || !self.is_starting {
            self.become_list(&messages, (&told, &keys), events);
        }
    }

    /// Replaces the conversation with `messages`. `told` has the indexes of the messages that are
    /// not known results, and `keys` their keys.
    fn become_list(
        &mut self,
        messages: &[ListedMessage],
        (told, keys): (&[usize], &[String]),
        events: &mut Vec<Event>,
    ) {
        let kept = tail(&self.order, keys);
        let (_, kept_keys) = keys.split_at(keys.len().saturating_sub(kept.len()));
        let first_kept = told.get(keys.len().saturating_sub(kept.len())).copied();
        let first_kept = first_kept.unwrap_or(messages.len());
        let new = self.without_repeated_results(messages, false).into_iter();
        let new = new.filter(|at| *at < first_kept).filter_map(|at| messages.get(at));
        let (mut order, mut summary) = (Vec::new(), Vec::new());
        for (message, content) in new {
            let time = message.get("timestamp").and_then(json::time);
            let model = text_at(message, "/model");
            summary.push(view(message).event(MAIN_AGENT, content.clone(), time, model));
            order.push(key(message));
        }
        order.extend_from_slice(kept_keys);
        self.order = order;
        let places = self.order.iter().enumerate().filter(|(_, key)| !key.is_empty());
        self.places = places.map(|(at, key)| (key.clone(), at)).collect();
        // Removed messages have no results. A step may come again before its results do.
        let before = std::mem::take(&mut self.answered);
        for (at, (message, _)) in messages.iter().enumerate() {
            self.answer(message);
            let calls = view(message).tool_calls.into_iter().map(|call| call.id);
            self.answered.extend(calls.filter(|id| at >= first_kept && before.contains(id)));
        }
        let keep = kept.start as u64..kept.end as u64;
        events.push(Event::Compact { agent: MAIN_AGENT.to_owned(), summary, keep });
    }

    /// Returns the indexes of the messages of a list with content. Leaves out repeated results,
    /// and, if `known` messages stay, results that the message with their calls already has here.
    fn without_repeated_results(&self, messages: &[ListedMessage], known: bool) -> Vec<usize> {
        let (mut told, mut is_known) = (HashSet::new(), false);
        let mut kept = Vec::with_capacity(messages.len());
        for (at, (message, _)) in messages.iter().enumerate() {
            match answered_by(message) {
                Some(ids) => {
                    let has =
                        |id: &&str| told.contains(*id) || is_known && self.answered.contains(*id);
                    if ids.iter().all(has) {
                        continue;
                    }
                    told.extend(ids.into_iter().map(str::to_owned));
                }
                None => {
                    is_known = known && self.places.contains_key(&key(message));
                    told.extend(answered_in(message).map(str::to_owned));
                }
            }
            kept.push(at);
        }
        kept
    }

    /// Notes the results that a message has.
    fn answer(&mut self, message: &Value) {
        let results = answered_by(message).unwrap_or_default().into_iter();
        self.answered.extend(results.chain(answered_in(message)).map(str::to_owned));
    }

    fn message(&mut self, message: &Value, content: Content, events: &mut Vec<Event>) {
        let results = answered_by(message);
        if results.is_some_and(|ids| ids.iter().all(|id| self.answered.contains(*id))) {
            return;
        }
        self.answer(message);
        let view = view(message);
        if view.role == Role::User {
            self.session.fact("cwd", working_directory(&view.text), events);
        }
        let key = key(message);
        let (time, model) = (message.get("timestamp"), text_at(message, "/model"));
        let known = self.places.get(&key).copied();
        match known {
            Some(at) => {
                let time = time.and_then(json::time);
                let message = view.event(MAIN_AGENT, content, time, model);
                let back = self.order.len().saturating_sub(at + 1) as u64;
                events.push(Event::ReplaceMessage { message, back });
            }
            None => {
                let facts = MessageFacts { conversation: None, time, model };
                self.conversations.push_with(&view, content, facts, events);
                if !key.is_empty() {
                    self.places.insert(key.clone(), self.order.len());
                }
                self.order.push(key);
            }
        }
        self.tools(message, events);
    }

    /// Follows the file changes of a message's tools.
    fn tools(&mut self, message: &Value, events: &mut Vec<Event>) {
        for call in calls(message).filter(|call| text_at(call, "/status") == Some("success")) {
            let id = plain(call.get("id")).unwrap_or_default();
            if !id.is_empty() && !self.done.insert(id) {
                continue;
            }
            if text_at(call, "/name") == Some("write_todos") {
                todos(MAIN_AGENT, call.pointer("/args/todos"), events);
            }
            if let Some((path, change)) = file_change(call) {
                self.files.apply(&self.session, path, &change, events);
            }
        }
    }

    /// Takes back the message `id` and all after it.
    fn rewind(&mut self, id: &str, events: &mut Vec<Event>) {
        // The client empties the conversation if it does not know the message.
        let at = self.places.get(id).copied().unwrap_or(0).min(self.order.len());
        for gone in self.order.drain(at..) {
            self.places.remove(&gone);
        }
        let (agent, keep) = (MAIN_AGENT.to_owned(), 0..at as u64);
        events.push(Event::Compact { agent, summary: Vec::new(), keep });
    }
}

/// Returns the effect of a call of a file tool, and its file.
fn file_change(call: &Value) -> Option<(&str, FileChange)> {
    let text = |path| text_at(call, path).map(str::to_owned);
    let path = text_at(call, "/args/file_path")?;
    let shown = || text("/resultDisplay/newContent");
    let change = match text_at(call, "/name")? {
        "write_file" => FileChange::Write(shown().or_else(|| text("/args/content"))?),
        "replace" => match shown() {
            Some(content) => FileChange::Write(content),
            None => FileChange::Replace {
                old: text("/args/old_string")?,
                new: text("/args/new_string")?,
                all: call.pointer("/args/allow_multiple") == Some(&Value::Bool(true)),
            },
        },
        _ => return None,
    };
    Some((path, change))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{events_of, outline, told};
    use super::*;

    fn call(status: &str) -> Value {
        json!({"id": "c1", "name": "write_file", "status": status,
            "args": {"file_path": "/p/a.rs", "content": "fn"},
            "result": [{"functionResponse": {"id": "c1", "name": "write_file",
                "response": {"output": "done"}}}]})
    }

    fn prompt(id: &str) -> Value {
        json!({"id": id, "type": "user", "timestamp": "2026-05-01T10:00:00.000Z",
            "content": [{"text": format!("prompt {id}")}]})
    }

    #[test]
    fn a_document_is_read_with_its_files() {
        let file = json!({"sessionId": "s", "projectHash": "h", "startTime": "t", "lastUpdated": "t",
            "messages": [
                {"id": "0", "type": "user", "content":
                    "<session_context>\nI'm currently working in the directory: /p\nHere"},
                prompt("1"),
                {"id": "2", "type": "gemini", "content": "", "model": "m",
                    "thoughts": [{"subject": "Plan", "description": "write"}],
                    "toolCalls": [call("success"),
                        {"id": "c2", "name": "replace", "status": "error", "args":
                            {"file_path": "/p/a.rs", "old_string": "fn", "new_string": "no"}},
                        {"id": "c3", "name": "write_todos", "status": "success",
                            "args": {"todos": [{"description": "t"}]}}]},
                {"id": "3", "type": "error", "content": "quota"}],
            "summary": "T"});
        let events = events_of(&FORMAT, file.to_string().as_bytes());
        let expected = [
            "session_id=s",
            "project=h",
            "turn",
            "cwd=/p",
            "main User I'm currently working in the directory: /p",
            "turn",
            "main User prompt 1",
            "turn",
            "main Assistant [write_file, replace, write_todos]",
            "file a.rs: fn",
            r#"pad todos: [{"description":"t"}]"#,
            "title=T",
        ];
        assert_eq!(outline(&events), expected);
        let view = view(&file["messages"][2]);
        assert_eq!((view.thinking.as_str(), &*view.tool_results[0].text), ("Plan: write", "done"));
    }

    #[test]
    fn the_last_record_of_a_message_counts_and_a_step_back_takes_messages_away() {
        let answer = |status: &str| {
            json!({"id": "2", "type": "gemini", "content": "ok",
            "toolCalls": [call(status)]})
        };
        let lines = [
            json!({"sessionId": "s", "projectHash": "h", "startTime": "t", "kind": "main"}),
            prompt("1"),
            answer("executing"),
            answer("success"),
            json!({"$set": {"lastUpdated": "u", "messages":
                [prompt("1"), answer("success"), prompt("3")]}}),
            json!({"$set": {"summary": "T"}}),
            json!({"$rewindTo": "3"}),
            json!({"$rewindTo": "7"}),
            json!({"odd": 1}),
        ];
        assert_eq!(
            told(&LOG, &lines),
            [
                "session_id=s",
                "project=h",
                "kind=main",
                "turn",
                "main User prompt 1",
                "turn",
                "main Assistant ok",
                "again main Assistant ok 0",
                "file /p/a.rs: fn",
                "turn",
                "again main Assistant ok 0",
                "main User prompt 3",
                "title=T",
                "compact main [] 0..2",
                "compact main [] 0..0",
                "unknown: a record that is not a message",
            ]
        );
    }

    #[test]
    fn a_record_of_an_unknown_kind_changes_no_message() {
        let lines =
            [prompt("1"), json!({"id": "1", "type": "message_update", "tokens": {"input": 1}})];
        assert_eq!(outline_of(&lines), ["turn", "main User prompt 1", "unread: message_update"]);
    }

    #[test]
    fn a_log_may_begin_with_the_document_of_an_earlier_release() {
        let document =
            json!({"sessionId": "s", "projectHash": "h", "messages": [prompt("1"), step("2")]});
        let file = format!("{document}\n{}\n", prompt("3"));
        let told = outline(&events_of(&FORMAT, file.as_bytes()));
        let expected = [
            "main User prompt 1",
            "turn",
            "main Assistant [write_file]",
            "file /p/a.rs: fn",
            "turn",
            "main User prompt 3",
        ];
        assert_eq!(told[3..], expected, "{told:?}");
    }

    #[test]
    fn a_loaded_conversation_is_one_step_without_new_prompts() {
        // Written by the recorder of 0.61.0 for `/chat resume` after the second prompt.
        let context = |id: &str| {
            json!({"id": id, "type": "user",
            "content": [{"text": "<session_context>\nThis is the Gemini CLI."}]})
        };
        let said =
            |id: &str, text: &str| json!({"id": id, "type": "user", "content": [{"text": text}]});
        let answer = |id: &str, text: &str| {
            json!({"id": id, "type": "gemini", "content": [{"text": text}],
            "thoughts": [], "tokens": {"input": 10, "output": 2}, "model": "m"})
        };
        let loaded = json!({"id": "8", "type": "gemini", "content": [{"text": "1"}], "thoughts": [],
            "tokens": null});
        let updated = json!({"$set": {"lastUpdated": "t"}});
        let mut lines = vec![context("0"), said("1", "one"), answer("2", "1"), said("3", "two")];
        lines.extend([answer("4", "2"), context("6"), updated.clone(), said("7", "one")]);
        lines.extend([updated.clone(), loaded.clone(), updated]);
        let before = outline_of(&lines);
        let list = json!({"$set": {"messages": [context("6"), said("7", "one"), loaded]}});
        let whole: Vec<Value> = lines.iter().cloned().chain([list, said("9", "three")]).collect();
        let expected = [
            "compact main [main User This is the Gemini CLI.; main User one; main Assistant 1] 0..0",
            "turn",
            "main User three",
        ];
        assert_eq!(outline_of(&whole)[..10], before, "they are held back");
        assert_eq!(outline_of(&whole)[10..], expected);
        // Without the list the conversation continues with the messages.
        lines.push(answer("9", "now"));
        let expected = [
            "turn",
            "main User This is the Gemini CLI.",
            "turn",
            "main User one",
            "turn",
            "main Assistant 1",
            "turn",
            "main Assistant now",
        ];
        assert_eq!(outline_of(&lines)[10..], expected);
    }

    #[test]
    fn notes_and_commands_are_no_messages_and_a_step_back_to_one_is() {
        let note = |id: &str, kind: &str| json!({"id": id, "type": kind, "content": "note"});
        let lines = [
            prompt("1"),
            note("2", "info"),
            json!({"id": "3", "type": "user", "content": [{"text": "/stats"}]}),
            prompt("4"),
            note("5", "warning"),
            json!({"type": "error", "content": "without an id"}),
            json!({"$set": {"messages":
                [prompt("1"), note("2", "info"), prompt("4"), note("5", "warning")]}}),
            json!({"type": "user", "content": "said"}),
            json!({"$rewindTo": "2"}),
            json!({"$rewindTo": "5"}),
        ];
        let expected = [
            "turn",
            "main User prompt 1",
            "turn",
            "main User prompt 4",
            "turn",
            "main User said",
            "compact main [] 0..1",
            "compact main [] 0..1",
        ];
        assert_eq!(outline_of(&lines), expected);
    }

    fn response(id: &str) -> Value {
        json!({"id": id, "type": "user", "content": [{"functionResponse":
            {"id": "c1", "name": "write_file", "response": {"output": "done"}}}]})
    }

    fn step(id: &str) -> Value {
        json!({"id": id, "type": "gemini", "content": "", "toolCalls": [call("success")]})
    }

    /// A step as it is written when another process has read it.
    fn read_again(id: &str) -> Value {
        json!({"id": id, "type": "gemini", "content": [{"functionCall":
            {"id": "c1", "name": "write_file", "args": {"file_path": "/p/a.rs"}}}]})
    }

    fn outline_of(lines: &[Value]) -> Vec<String> {
        let header = json!({"sessionId": "s", "projectHash": "h", "startTime": "t"});
        let lines: Vec<_> = std::iter::once(header).chain(lines.iter().cloned()).collect();
        let mut told = told(&LOG, &lines);
        told.retain(|line| !line.contains('='));
        told
    }

    #[test]
    fn results_belong_to_their_calls_and_a_resume_says_nothing_new() {
        let header = json!({"sessionId": "s", "projectHash": "h", "startTime": "u"});
        let list = [prompt("1"), read_again("2"), response("2"), response("3")];
        let lines = [
            prompt("1"),
            step("2"),
            response("3"),
            header,
            json!({"$set": {"messages": [prompt("1")]}}),
            json!({"$set": {"messages": list}}),
            prompt("4"),
        ];
        let expected = [
            "turn",
            "main User prompt 1",
            "turn",
            "main Assistant [write_file]",
            "file /p/a.rs: fn",
            "turn",
            "main User prompt 4",
        ];
        assert_eq!(outline_of(&lines), expected);
    }

    #[test]
    fn a_list_without_a_message_has_the_results_of_what_stays() {
        let header = json!({"sessionId": "s", "projectHash": "h", "startTime": "u"});
        let list = json!({"$set": {"messages":
            [prompt("1"), read_again("2"), response("2"), response("3"), prompt("5")]}});
        let lines = [
            prompt("1"),
            step("2"),
            response("3"),
            prompt("4"),
            prompt("5"),
            header.clone(),
            list.clone(),
            header,
            list,
        ];
        let told = outline_of(&lines);
        let after: Vec<_> = told.iter().skip(9).map(String::as_str).collect();
        let compacted =
            "compact main [main User prompt 1; main Assistant [write_file]; main Tool done] 3..4";
        assert_eq!(after, [compacted], "{told:?}");
    }

    #[test]
    fn a_step_that_was_compressed_before_its_results_came_gets_them() {
        let summary = json!({"id": "8", "type": "user", "content": "In short."});
        let list = [summary, read_again("9")];
        let lines = [
            prompt("1"),
            step("2"),
            json!({"$set": {"messages": list}}),
            response("10"),
            json!({"$set": {"messages": [list[0], list[1], response("10")]}}),
            prompt("11"),
        ];
        let told = outline_of(&lines);
        let expected = [
            "compact main [main User In short.; main Assistant [write_file]] 0..0",
            "main Tool done",
            "turn",
            "main User prompt 11",
        ];
        assert_eq!(told[5..], expected, "{told:?}");
    }

    #[test]
    fn a_list_replaces_the_conversation_and_its_known_end_stays() {
        let summary = json!({"id": "9", "type": "user", "content": "In short."});
        let lines = [
            prompt("1"),
            step("2"),
            prompt("3"),
            json!({"$set": {"messages": [summary, prompt("3")]}}),
            json!({"$set": {"messages": [summary]}}),
            json!({"$set": {"messages": [read_again("5"), response("6"), response("7")]}}),
        ];
        let expected = [
            "turn",
            "main User prompt 1",
            "turn",
            "main Assistant [write_file]",
            "file /p/a.rs: fn",
            "turn",
            "main User prompt 3",
            "compact main [main User In short.] 2..3",
            "compact main [] 0..1",
            "compact main [main Assistant [write_file]; main Tool done] 0..0",
        ];
        assert_eq!(outline_of(&lines), expected);
        let view = view(&response("6"));
        assert_eq!((view.role, &*view.tool_results[0].call_id), (Role::Tool, "c1"));
    }
}
