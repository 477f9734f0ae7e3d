//! `sessions/<design>.jsonl`: a header as the pi agent writes it, then a line for every event.
//!
//! - `open-codesign.chat.message` is a row of the chat: a message.
//! - `open-codesign.chat.tool_status` is the result of a call, named by its row: a message after
//!   it. A status without a call is ignored, as upstream does.
//! - `open-codesign.comment.v1` adds, updates, removes or applies comments: section `comments`.
//! - `open-codesign.context.brief.v1` and `.run_preferences.v1`: the last valid one wins, in the
//!   agent's state.
//!
//! Upstream stops reading at an invalid row, status or comment; this reader refuses the file.

use std::collections::{BTreeMap, HashSet};
use std::io::BufRead;

use serde_json::{Map, Value};
use turntree::context::sections::{COMMENTS, STATE};
use turntree::context::{MAIN_AGENT, agent_section};
use turntree::error::{Error, Result};

use super::chat::{self, Turns};
use crate::formats::session::{Session, record};
use crate::model::event::{Content, Event, Parser};
use crate::text::json::{self, text_at};
use crate::text::lines;
use crate::text::piece::{Piece, PieceKind, Pieces};
use crate::text::shape::JsonShape;

const PREFIX: &str = "open-codesign.";
pub(super) const MESSAGE: &str = "open-codesign.chat.message";
pub(super) const STATUS: &str = "open-codesign.chat.tool_status";
pub(super) const COMMENT: &str = "open-codesign.comment.v1";
pub(super) const BRIEF: &str = "open-codesign.context.brief.v1";
pub(super) const PREFERENCES: &str = "open-codesign.context.run_preferences.v1";

/// Most lines of the head that are inspected.
const MAX_LINES: usize = 64;

/// Returns true for a header of pi followed by entries of open-codesign, or for such an entry.
pub(super) fn is_chat(shape: &JsonShape<'_>) -> bool {
    let is_entry = |shape: &JsonShape<'_>| {
        shape.text("type") == Some("custom")
            && shape.text("customType").is_some_and(|name| name.starts_with(PREFIX))
    };
    let is_header = shape.text("type") == Some("session") && shape.has("cwd");
    let mut lines = shape.head.lines().take(MAX_LINES).filter_map(JsonShape::of);
    !shape.is_array && (is_entry(shape) || is_header && lines.any(|line| is_entry(&line)))
}

/// The lines of a file, up to the first that upstream refuses.
pub(super) fn split<'r>(input: Box<dyn BufRead + 'r>) -> Pieces<'r> {
    let mut ended = false;
    let checked = lines::split(input).map(|piece| check(piece?)).take_while(move |piece| {
        let goes_on = !ended;
        ended |= piece.is_err();
        goes_on
    });
    Box::new(checked)
}

fn check(piece: Piece) -> Result<Piece> {
    let PieceKind::Record { .. } = piece.kind else { return Ok(piece) };
    let Some(entry) = json::value(&piece.bytes) else { return Ok(piece) };
    let (Some(kind), Some("custom")) = (text_at(&entry, "/customType"), text_at(&entry, "/type"))
    else {
        return Ok(piece);
    };
    let data = entry.get("data").unwrap_or(&Value::Null);
    let (name, is_good) = match kind {
        MESSAGE => ("chat message", is_message(data)),
        STATUS => ("tool status", is_status(data)),
        COMMENT => ("comment", is_comment(data)),
        _ => return Ok(piece),
    };
    if is_good {
        return Ok(piece);
    }
    let (line, offset) = (piece.line, piece.offset);
    Err(Error::invalid(format!("line {line} (byte {offset}): Malformed stored {name} entry")))
}

fn is_current(data: &Value) -> bool {
    data.get("schemaVersion").and_then(Value::as_f64) == Some(1.0)
}

pub(super) fn is_message(data: &Value) -> bool {
    let has_number = |name: &str| data.get(name).is_some_and(Value::is_number);
    is_current(data)
        && has_number("id")
        && has_number("seq")
        && data.get("kind").is_some_and(Value::is_string)
        && data.get("snapshotId").is_some_and(|id| id.is_null() || id.is_string())
}

pub(super) fn is_status(data: &Value) -> bool {
    let status = text_at(data, "/status");
    is_current(data)
        && data.get("seq").is_some_and(Value::is_number)
        && matches!(status, Some("done" | "error"))
}

fn is_comment(data: &Value) -> bool {
    let is_id = |name: &str| text_at(data, name).is_some_and(|id| !id.is_empty());
    let is_object = |name: &str| data.get(name).is_some_and(Value::is_object);
    is_current(data)
        && match text_at(data, "/action") {
            Some("add") => is_object("row") && is_id("/row/id"),
            Some("update") => is_id("/id") && is_object("patch"),
            Some("remove") => is_id("/id"),
            Some("mark-applied") => {
                let ids = data.get("ids").and_then(Value::as_array);
                ids.is_some_and(|ids| ids.iter().all(Value::is_string))
                    && data.get("snapshotId").is_some_and(Value::is_string)
            }
            _ => false,
        }
}

/// Understands one file.
#[derive(Default)]
pub(super) struct Chats {
    session: Session,
    turns: Turns,
    /// Numbers of the rows that are calls.
    calls: HashSet<String>,
    comments: BTreeMap<String, Map<String, Value>>,
}

impl Parser for Chats {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        let Some(entry) = record(piece, events) else { return };
        let data = entry.get("data").unwrap_or(&Value::Null);
        match (text_at(&entry, "/type"), text_at(&entry, "/customType")) {
            (Some("session"), _) => self.header(&entry, events),
            (Some("custom"), Some(MESSAGE)) => self.message(&entry, data, events),
            (Some("custom"), Some(STATUS)) => self.status(&entry, data, events),
            (Some("custom"), Some(COMMENT)) => self.comment(data, events),
            (Some("custom"), Some(BRIEF)) => state("brief", data, events),
            (Some("custom"), Some(PREFERENCES)) => state("runPreferences", data, events),
            (kind, custom) => {
                let kind = custom.or(kind).map_or("none", json::plain);
                events.push(Event::Unknown { what: format!("an entry of type '{kind}'") });
            }
        }
    }
}

impl Chats {
    fn header(&mut self, entry: &Value, events: &mut Vec<Event>) {
        for (fact, name) in
            [("session_id", "/id"), ("cwd", "/cwd"), ("branched_from", "/parentSession")]
        {
            self.session.fact(fact, text_at(entry, name), events);
        }
    }

    fn message(&mut self, entry: &Value, data: &Value, events: &mut Vec<Event>) {
        if self.turns.begins(data) {
            events.push(Event::Turn);
        }
        if text_at(data, "/kind") == Some("tool_call") {
            self.calls.insert(number(data));
        }
        push(entry, events);
    }

    fn status(&mut self, entry: &Value, data: &Value, events: &mut Vec<Event>) {
        if !self.calls.contains(&number(data)) {
            let what = "a status without a tool call: ignored".to_owned();
            return events.push(Event::Unknown { what });
        }
        self.turns.begins(data);
        push(entry, events);
    }

    fn comment(&mut self, data: &Value, events: &mut Vec<Event>) {
        let id = text_at(data, "/id").or_else(|| text_at(data, "/row/id")).unwrap_or_default();
        match text_at(data, "/action") {
            Some("add") => {
                let row = data.get("row").and_then(Value::as_object).cloned().unwrap_or_default();
                self.comments.insert(id.to_owned(), row);
                self.tell(id, events);
            }
            Some("update") => {
                let patch = data.get("patch").and_then(Value::as_object).cloned();
                self.change(id, patch.unwrap_or_default(), events);
            }
            Some("remove") => {
                if self.comments.remove(id).is_none() {
                    unknown_comment(events);
                }
                self.tell(id, events);
            }
            _ => {
                let snapshot = data.get("snapshotId").cloned().unwrap_or_default();
                let ids = data.get("ids").and_then(Value::as_array);
                for id in ids.into_iter().flatten().filter_map(Value::as_str) {
                    let applied = [
                        ("status".to_owned(), Value::from("applied")),
                        ("appliedInSnapshotId".to_owned(), snapshot.clone()),
                    ];
                    self.change(id, applied.into_iter().collect(), events);
                }
            }
        }
    }

    fn change(&mut self, id: &str, patch: Map<String, Value>, events: &mut Vec<Event>) {
        match self.comments.get_mut(id) {
            Some(row) => row.extend(patch),
            None => return unknown_comment(events),
        }
        self.tell(id, events);
    }

    /// Records the current state of a comment.
    fn tell(&self, id: &str, events: &mut Vec<Event>) {
        let row = self.comments.get(id).map(|row| Value::Object(row.clone()));
        events.push(Event::Entry {
            section: COMMENTS.to_owned(),
            key: id.to_owned(),
            content: row.as_ref().map(Content::own),
            is_json: true,
        });
    }
}

fn unknown_comment(events: &mut Vec<Event>) {
    events.push(Event::Unknown { what: "a change of a missing comment: ignored".to_owned() });
}

/// Adds the entry, which is the whole piece, to the conversation.
fn push(entry: &Value, events: &mut Vec<Event>) {
    let time = entry.get("timestamp").and_then(json::time);
    let message = chat::view(entry).event(MAIN_AGENT, Content::Piece, time, None);
    events.push(Event::Message(message));
}

/// Records an entry of the agent's state; upstream skips values that are not objects.
fn state(key: &str, data: &Value, events: &mut Vec<Event>) {
    let section = agent_section(MAIN_AGENT, STATE).ok().filter(|_| data.is_object());
    let Some(section) = section else {
        return events.push(Event::Unknown { what: format!("'{key}' is not an object: ignored") });
    };
    let (key, content) = (key.to_owned(), Some(Content::own(data)));
    events.push(Event::Entry { section, key, content, is_json: true });
}

fn number(data: &Value) -> String {
    data.get("seq").map_or_else(String::new, Value::to_string)
}
