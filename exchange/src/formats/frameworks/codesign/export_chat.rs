//! The conversation of any session becomes the chat of a design, with its comments and settings.
//!
//! | here | line |
//! |---|---|
//! | a row of a chat, a status | unchanged |
//! | a row of a database, or one that was filled in | `open-codesign.chat.message` |
//! | a message of another system | a row for its text and each call, a status for each result |
//! | `comments` | `open-codesign.comment.v1`, each added in its current state |
//! | `brief` and `runPreferences` of the agent's state | `open-codesign.context.*` |
//!
//! Lines are one branch: each is the parent of the next. Numbers of rows rise; where two branches
//! were merged and have the same, the later row gets the next number, and its status with it.

use std::collections::{HashMap, HashSet};
use std::io::Write;

use bytes::Bytes;
use serde_json::{Value, json};
use turntree::context::compact_json;
use turntree::context::sections::{CHAT_SOURCE, COMMENTS, MAIN_MESSAGES, META, SOURCE, STATE};
use turntree::context::{
    Added, Context, MAIN_AGENT, MessageEntry, Role, Shape as SectionShape, agent_section,
};
use turntree::error::{Error, Result};
use turntree::object::{Commit, Kind, ObjectId, ObjectSource};
use turntree::repo::Repository;

use super::super::iso_millis::iso_millis;
use super::super::json_writer::quoted;
use super::export::{fields, object, uuid};
use super::known_session::text;
use super::session::{BRIEF, COMMENT, MESSAGE, PREFERENCES, STATUS, is_message, is_status};
use super::{CHAT, META_DESIGN};
use crate::formats::view;
use crate::model::view::MessageView;
use crate::text::json as text_of;
use crate::text::json::text_at;

/// Hex digits of a line's id.
const ID_DIGITS: usize = 8;

/// The largest integer that JavaScript represents exactly.
const MAX_SEQ: u64 = (1 << 53) - 1;

/// Writes the conversation up to `tip` as `sessions/<design>.jsonl`.
///
/// Reads every ancestor of `tip` for the times of messages; memory for the ids of lines.
///
/// # Errors
/// `Io` when `out` refuses, and errors of reading.
pub fn export_chat(repo: &Repository, tip: &ObjectId, out: &mut dyn Write) -> Result<()> {
    let (commit, context) = (repo.commit(tip)?, repo.context(tip)?);
    let subject = ExportedContext { repo, commit, context };
    let mut moments =
        Moments { added: repo.added(tip, 0, MAIN_MESSAGES)?, last: subject.commit.time.micros };
    moments.added.reverse();
    let mut chat = Chat {
        out,
        moment: quoted(&iso_millis(moments.first())),
        parent: None,
        ids: HashSet::new(),
        next_seq: 0,
        calls: HashMap::new(),
    };
    let header = subject.header(&chat.moment)?;
    chat.write(&header)?;
    let messages = subject.context.messages(repo, MAIN_AGENT)?;
    for item in messages.iter(repo, 0..messages.len()) {
        chat.moment = quoted(&iso_millis(moments.next()));
        let entry = MessageEntry::from_item(&item?)?;
        chat.message(&entry, &repo.read_as(Kind::Blob, &entry.blob)?)?;
    }
    chat.moment = quoted(&iso_millis(subject.commit.time.micros));
    for (moment, comment) in subject.comments()? {
        let data = format!("{{\"schemaVersion\":1,\"action\":\"add\",\"row\":{comment}}}");
        chat.entry(COMMENT, data, moment)?;
    }
    let state = subject.entries(&agent_section(MAIN_AGENT, STATE)?)?;
    for (key, kind) in [("brief", BRIEF), ("runPreferences", PREFERENCES)] {
        let found = state.iter().find(|(name, _)| name == key);
        if let Some(setting) = found.and_then(|(_, bytes)| object_of(bytes)) {
            chat.entry(kind, setting, None)?;
        }
    }
    Ok(())
}

/// When messages were added, by the commits that added them.
struct Moments {
    /// The next one last.
    added: Vec<Added>,
    /// For messages that no commit is known for.
    last: i64,
}

impl Moments {
    fn first(&self) -> i64 {
        self.added.last().map_or(self.last, |added| added.time.micros)
    }

    /// When the next message was added.
    fn next(&mut self) -> i64 {
        while self.added.pop_if(|added| added.messages == 0).is_some() {}
        let Some(added) = self.added.last_mut() else { return self.last };
        added.messages -= 1;
        added.time.micros
    }
}

/// The context that is exported.
struct ExportedContext<'r> {
    repo: &'r Repository,
    commit: Commit,
    context: Context,
}

impl ExportedContext<'_> {
    /// Returns the header of the imported chat, or a new one.
    fn header(&self, moment: &str) -> Result<String> {
        let store = self.repo.store();
        for section in [CHAT_SOURCE, SOURCE] {
            let first = match self.context.section(store, section)? {
                Some(found) if found.shape == SectionShape::List => {
                    self.context.list(store, section)?.get(store, 0)?
                }
                _ => None,
            };
            let Some(item) = first else { continue };
            let bytes = store.read_as(Kind::Blob, &item.link.id)?;
            let header = text_of::value(&bytes).unwrap_or_default();
            let has = |name: &str| header.get(name).is_some_and(Value::is_string);
            if text_at(&header, "/type") == Some("session") && has("id") && has("cwd") {
                return Ok(String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        let fact = |name: &str| text(self.repo, &self.context, name);
        let id = uuid(&ObjectId::of(Kind::Blob, self.commit.session.as_bytes()));
        let design = self.entries(META)?.into_iter().find(|(name, _)| name == META_DESIGN);
        let design = design.and_then(|(_, record)| text_of::value(&record)).unwrap_or_default();
        let folder = text_at(&design, "/workspacePath").map(str::to_owned);
        let cwd = fact("cwd")?.or(folder).unwrap_or_default();
        let id = fact("session_id")?.unwrap_or(id);
        let (id, cwd) = (quoted(&id), quoted(&cwd));
        Ok(format!(
            "{{\"type\":\"session\",\"version\":3,\"id\":{id},\"timestamp\":{moment},\"cwd\":{cwd}}}"
        ))
    }

    /// Returns the current comments, in the order of their times and ids: the time, if recorded,
    /// and the row.
    fn comments(&self) -> Result<Vec<(Option<String>, String)>> {
        let mut comments = Vec::new();
        for (id, bytes) in self.entries(COMMENTS)? {
            let mut row = match object_of(&bytes) {
                Some(row) => fields(row.as_bytes())?,
                None => vec![
                    ("id".to_owned(), String::new()),
                    ("text".to_owned(), quoted(&String::from_utf8_lossy(&bytes))),
                ],
            };
            set(&mut row, "id", quoted(&id));
            let created = row.iter().find(|(name, _)| name == "createdAt");
            let moment = created.and_then(|(_, json)| moment_of(json));
            comments.push((moment, object(&row)));
        }
        let micros = |json: &Option<String>| json.as_deref().and_then(micros_of);
        comments.sort_by_key(|(moment, _)| micros(moment));
        Ok(comments)
    }

    /// Returns the entries of a map; none if the section is not a map.
    fn entries(&self, section: &str) -> Result<Vec<(String, Bytes)>> {
        let store = self.repo.store();
        let found = self.context.section(store, section)?;
        if found.is_none_or(|found| found.shape != SectionShape::Map) {
            return Ok(Vec::new());
        }
        let mut entries = Vec::new();
        for entry in self.context.map(store, section)?.iter(store) {
            let (key, item) = entry?;
            let bytes = store.read_as(Kind::Blob, &item.link.id)?;
            entries.push((String::from_utf8_lossy(&key).into_owned(), bytes));
        }
        Ok(entries)
    }
}

/// A chat that is being written.
struct Chat<'w> {
    out: &'w mut dyn Write,
    /// The time of rows that have none, as JSON.
    moment: String,
    /// The id of the last line, as JSON.
    parent: Option<String>,
    ids: HashSet<String>,
    next_seq: u64,
    /// Numbers of rows by the calls that they are.
    calls: HashMap<String, u64>,
}

impl Chat<'_> {
    fn message(&mut self, entry: &MessageEntry, bytes: &Bytes) -> Result<()> {
        let view = view(&entry.media, bytes);
        let record =
            text_of::value(bytes).filter(|record| entry.media == CHAT && record.is_object());
        let record = record.unwrap_or_default();
        let data = record.get("data").unwrap_or(&Value::Null);
        match text_at(&record, "/customType") {
            Some(MESSAGE) if is_message(data) => self.known_row(&view, bytes),
            Some(STATUS) if is_status(data) => self.known_status(&view, bytes),
            None if text_at(&record, "/kind").is_some() => self.bare_row(&view, bytes),
            _ => self.told(&view, entry.role),
        }
    }

    /// A line of a chat.
    fn known_row(&mut self, view: &MessageView, bytes: &[u8]) -> Result<()> {
        let mut line = fields(bytes)?;
        let mut data = fields(get(&line, "data").as_bytes())?;
        let seq = self.seq(&get(&data, "seq"), view);
        set(&mut data, "seq", seq);
        set(&mut line, "data", object(&data));
        self.line(line)
    }

    fn known_status(&mut self, view: &MessageView, bytes: &[u8]) -> Result<()> {
        let call = view.tool_results.first().and_then(|result| self.calls.get(&result.call_id));
        // Upstream passes over the status of no call.
        let Some(seq) = call.map(u64::to_string) else { return Ok(()) };
        let mut line = fields(bytes)?;
        let mut data = fields(get(&line, "data").as_bytes())?;
        set(&mut data, "seq", seq);
        set(&mut line, "data", object(&data));
        self.line(line)
    }

    /// Writes a row as databases have it.
    fn bare_row(&mut self, view: &MessageView, bytes: &[u8]) -> Result<()> {
        let mut row = fields(bytes)?;
        let seq = self.seq(&get(&row, "seq"), view);
        let id = Some(get(&row, "id")).filter(|id| id.parse::<f64>().is_ok());
        let snapshot = Some(get(&row, "snapshotId")).filter(|id| id.starts_with('"'));
        let payload = Some(get(&row, "payload")).filter(|payload| !payload.is_empty());
        let mut data = vec![
            ("schemaVersion".to_owned(), "1".to_owned()),
            ("id".to_owned(), id.unwrap_or_else(|| seq.clone())),
            ("seq".to_owned(), seq),
            ("kind".to_owned(), get(&row, "kind")),
            ("payload".to_owned(), payload.unwrap_or_else(|| "{}".to_owned())),
            ("snapshotId".to_owned(), snapshot.unwrap_or_else(|| "null".to_owned())),
        ];
        let moment = moment_of(&get(&row, "createdAt"));
        let is_more = |name: &str| {
            !matches!(name, "designId" | "createdAt") && data.iter().all(|(known, _)| known != name)
        };
        row.retain(|(name, _)| is_more(name));
        data.append(&mut row);
        self.entry(MESSAGE, object(&data), moment)
    }

    /// Writes a message of another system: results, text, calls. A chat has no place for thinking,
    /// nor for messages of other roles than the user and the model.
    fn told(&mut self, view: &MessageView, role: Role) -> Result<()> {
        for result in &view.tool_results {
            let Some(seq) = self.calls.get(&result.call_id) else { continue };
            let (said, status) = (&result.text, if result.is_error { "error" } else { "done" });
            let content = json!({"content": [{"type": "text", "text": said}]});
            let mut data =
                json!({"schemaVersion": 1, "seq": seq, "status": status, "result": content});
            if let Some(data) = data.as_object_mut().filter(|_| result.is_error) {
                data.insert("errorMessage".to_owned(), said.as_str().into());
            }
            self.entry(STATUS, data.to_string(), None)?;
        }
        let said = match role {
            Role::User => Some("user"),
            Role::Assistant => Some("assistant_text"),
            Role::System | Role::Tool | Role::Other => None,
        };
        if let Some(kind) = said.filter(|_| !view.text.is_empty()) {
            self.new_row(kind, &json!({"text": view.text}), None)?;
        }
        for call in &view.tool_calls {
            let args: Option<Value> = serde_json::from_str(&call.input).ok();
            let args = args.filter(Value::is_object);
            let args = args.unwrap_or_else(|| json!({"input": call.input}));
            let started: Value = serde_json::from_str(&self.moment).unwrap_or_default();
            let payload = json!({
                "toolName": call.name, "args": args, "status": "running", "startedAt": started,
                "verbGroup": "Working", "toolCallId": call.id,
            });
            self.new_row("tool_call", &payload, Some(&call.id))?;
        }
        Ok(())
    }

    fn new_row(&mut self, kind: &str, payload: &Value, call: Option<&str>) -> Result<()> {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.calls.extend(call.map(|call| (call.to_owned(), seq)));
        let data = json!({
            "schemaVersion": 1, "id": seq, "seq": seq, "kind": kind, "payload": payload,
            "snapshotId": null,
        });
        self.entry(MESSAGE, data.to_string(), None)
    }

    /// Returns the number of a row: its recorded one, unless that is taken.
    fn seq(&mut self, told: &str, view: &MessageView) -> String {
        let told = told.parse().ok().filter(|seq| (self.next_seq..MAX_SEQ).contains(seq));
        let seq = told.unwrap_or(self.next_seq);
        self.next_seq = seq + 1;
        self.calls.extend(view.tool_calls.iter().map(|call| (call.id.clone(), seq)));
        seq.to_string()
    }

    /// A line of its own.
    fn entry(&mut self, kind: &str, data: String, moment: Option<String>) -> Result<()> {
        let moment = moment.unwrap_or_else(|| self.moment.clone());
        self.line(vec![
            ("type".to_owned(), quoted("custom")),
            ("customType".to_owned(), quoted(kind)),
            ("data".to_owned(), data),
            ("id".to_owned(), String::new()),
            ("parentId".to_owned(), String::new()),
            ("timestamp".to_owned(), moment),
        ])
    }

    /// Writes a line after the last one.
    fn line(&mut self, mut line: Vec<(String, String)>) -> Result<()> {
        let told = Some(get(&line, "id")).filter(|id| id.len() > 2 && id.starts_with('"'));
        let id = match told.filter(|id| !self.ids.contains(id)) {
            Some(id) => id,
            None => self.free_id(&object(&line)),
        };
        self.ids.insert(id.clone());
        set(&mut line, "id", id.clone());
        let parent = self.parent.replace(id);
        set(&mut line, "parentId", parent.unwrap_or_else(|| "null".to_owned()));
        self.write(&object(&line))
    }

    /// Returns an unused id, derived from the content of a line and the number of lines.
    fn free_id(&self, line: &str) -> String {
        let number = (self.ids.len() as u64)..;
        let id = number.map(|number| {
            quoted(
                &ObjectId::of(Kind::Blob, format!("{number} {line}").as_bytes()).short(ID_DIGITS),
            )
        });
        id.into_iter().find(|id| !self.ids.contains(id)).unwrap_or_default()
    }

    fn write(&mut self, line: &str) -> Result<()> {
        let mut line = compact_json(line.as_bytes());
        line.push(b'\n');
        self.out.write_all(&line).map_err(|error| Error::io("write the chat", error))
    }
}

/// Returns the value of a field, as JSON; empty if it is missing. For duplicate names, the last one
/// wins.
fn get(fields: &[(String, String)], name: &str) -> String {
    fields
        .iter()
        .rfind(|(field, _)| field == name)
        .map(|(_, json)| json.clone())
        .unwrap_or_default()
}

/// Gives a field another value, in its place.
fn set(fields: &mut Vec<(String, String)>, name: &str, json: String) {
    match fields.iter_mut().rfind(|(field, _)| field == name) {
        Some((_, value)) => *value = json,
        None => fields.push((name.to_owned(), json)),
    }
}

/// Returns an object as it is written; `None` for any other value.
fn object_of(bytes: &[u8]) -> Option<String> {
    text_of::value(bytes).filter(Value::is_object)?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

/// A moment as it is written, if it is one.
fn moment_of(json: &str) -> Option<String> {
    micros_of(json).map(|_| json.to_owned())
}

fn micros_of(json: &str) -> Option<i64> {
    let text: String = serde_json::from_str(json).ok()?;
    text_of::iso_time(&text).map(|time| time.micros)
}
