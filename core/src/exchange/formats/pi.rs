//! Sessions of the pi coding agent, version 1: a header line and then entries.
//!
//! - `message` entries are the conversation. A prompt begins a turn, and so do each reply of the
//!   model and each command that the user runs.
//! - `compaction` carries a summary and the index of the first entry that stays; the header is
//!   entry 0, and a line that cannot be read is none. The whole entry stands for the summary.
//! - `branchedFrom` in the header names the file that this one was forked from.
//! - Later versions link entries to a tree. They are read in file order, and reported.

use std::collections::HashMap;

use serde_json::Value;

use super::super::detect::Shape;
use super::super::{json, lines};
use super::session::Session;
use super::{
    Content, Event, FormatSpec, MAIN, MessageView, Parser, Piece, Role, own, record, text_at,
};

/// The pi coding agent.
pub(super) const FORMAT: FormatSpec = FormatSpec {
    name: "pi",
    title: "pi coding agent session",
    recognise,
    cut: lines::cut,
    parser: || Box::<Pi>::default(),
    view,
};

fn recognise(shape: &Shape<'_>) -> bool {
    !shape.is_array && shape.text("type") == Some("session") && shape.has("cwd")
}

/// An entry: a message, or a compaction with its summary.
fn view(entry: &Value) -> MessageView {
    let message = entry.get("message").unwrap_or(entry);
    let mut view = MessageView::new(match text_at(message, "/role") {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("toolResult" | "bashExecution") => Role::Tool,
        None if message.get("summary").is_some() => Role::User,
        _ => Role::Other,
    });
    view.id = text_at(entry, "/id").map(str::to_owned);
    let content = message.get("content").or_else(|| message.get("summary")).unwrap_or(&Value::Null);
    match text_at(message, "/role") {
        Some("toolResult") => {
            let is_error = message.get("isError") == Some(&Value::Bool(true));
            view.add_result(message.get("toolCallId"), content, is_error);
        }
        Some("bashExecution") => {
            view.add_text(&format!("$ {}", text_at(message, "/command").unwrap_or_default()));
            view.add_text(text_at(message, "/output").unwrap_or_default());
        }
        _ => view.add_content(content),
    }
    view.add_text(text_at(message, "/errorMessage").unwrap_or_default());
    view
}

#[derive(Debug, Default)]
struct Pi {
    session: Session,
    /// Entries seen so far, with the header.
    entries: u64,
    /// The entry of each message in the conversation; a summary has that of what it stands before.
    messages: Vec<u64>,
    /// What the tool calls that are running will have done.
    running: HashMap<String, Event>,
}

impl Parser for Pi {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        let Some(entry) = record(piece, events) else { return };
        match text_at(&entry, "/type").unwrap_or_default() {
            "session" => self.header(&entry, events),
            "message" => self.message(&entry, events),
            "compaction" => self.compaction(&entry, events),
            "model_change" => self.session.fact("model", text_at(&entry, "/modelId"), events),
            "thinking_level_change" => {
                let level = text_at(&entry, "/thinkingLevel");
                self.session.fact("thinking_level", level, events);
            }
            other => {
                let what = format!("an entry of type '{}'", json::first_line(other));
                events.push(Event::Unknown { what });
            }
        }
        self.entries += 1;
    }
}

impl Pi {
    fn header(&mut self, header: &Value, events: &mut Vec<Event>) {
        for (key, path) in [
            ("session_id", "/id"),
            ("cwd", "/cwd"),
            ("model", "/modelId"),
            ("thinking_level", "/thinkingLevel"),
            ("branched_from", "/branchedFrom"),
        ] {
            self.session.fact(key, text_at(header, path), events);
        }
        let version = header.get("version").and_then(Value::as_u64).unwrap_or(1);
        if version > 1 {
            let what = format!("session version {version}: links between entries are not followed");
            events.push(Event::Unknown { what });
        }
    }

    fn message(&mut self, entry: &Value, events: &mut Vec<Event>) {
        let view = view(entry);
        let time = entry.get("timestamp").and_then(json::time);
        let said = text_at(entry, "/message/model").or_else(|| self.session.known("model"));
        let model = said.filter(|_| view.role == Role::Assistant);
        if view.tool_results.is_empty() {
            events.push(Event::Turn);
        }
        events.push(Event::Message(view.event(MAIN, Content::Piece, time, model)));
        self.messages.push(self.entries);
        for block in
            entry.pointer("/message/content").and_then(Value::as_array).into_iter().flatten()
        {
            if let (Some(call), Some(event)) = (text_at(block, "/id"), self.written(block)) {
                self.running.insert(call.to_owned(), event);
            }
        }
        for result in &view.tool_results {
            let written = self.running.remove(&result.call_id);
            events.extend(written.filter(|_| !result.is_error));
        }
    }

    /// The file that a call writes whole.
    fn written(&self, call: &Value) -> Option<Event> {
        if text_at(call, "/name") != Some("write") {
            return None;
        }
        let path = self.session.relative(text_at(call, "/arguments/path")?);
        Some(Event::File { path, content: Some(own(call.pointer("/arguments/content")?)) })
    }

    fn compaction(&mut self, entry: &Value, events: &mut Vec<Event>) {
        let first_kept = entry.get("firstKeptEntryIndex").and_then(Value::as_u64);
        if first_kept.is_none() {
            let what = "a compaction without firstKeptEntryIndex: nothing is kept".to_owned();
            events.push(Event::Unknown { what });
        }
        let first_kept = first_kept.unwrap_or(self.entries);
        let keep = self.messages.partition_point(|entry| *entry < first_kept);
        let time = entry.get("timestamp").and_then(json::time);
        let summary = vec![view(entry).event(MAIN, Content::Piece, time, None)];
        let keep_range = keep as u64..self.messages.len() as u64;
        events.push(Event::Compact { agent: MAIN.to_owned(), summary, keep: keep_range });
        // The summary goes with the next compaction, whatever that keeps.
        self.messages.splice(..keep, [0]);
    }
}
