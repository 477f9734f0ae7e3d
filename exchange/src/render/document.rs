//! Exports a whole context as one JSON document: the commit, agents with their messages, files,
//! sections.
//!
//! Writes each entry as it is read, so memory is bounded by the largest entry. The fields are
//! specified in `docs/reference/formats/exports.md`.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use turntree::context::sections::{
    FILES, MESSAGES, agent_part, is_of_agent, is_transcript_section,
};
use turntree::context::{Context, FileEntry, FileMode, MessageEntry, Section, Shape, Transcript};
use turntree::error::{Error, Result};
use turntree::object::{Commit, Kind, ObjectId, ObjectSource};
use turntree::tree::{Item, List, Map as TreeMap};

use super::ShowTime;
use super::timestamp::record_time;
use crate::formats::view;
use crate::insight::usage::usage;
use crate::model::view::MessageView;
use crate::text::json;

/// The schema of the document. Keys keep their names and meaning within a number.
pub const DOCUMENT_SCHEMA: &str = "turntree-context/1";

/// The amount of content in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentDetail {
    /// The contents of files and entries, as text or base64, and the records of messages.
    Whole,
    /// Only their ids and sizes, and the text of messages.
    Ids,
}

/// Writes the context of a snapshot.
///
/// # Errors
/// `Io` if `out` fails, and the errors of reading.
pub fn export_document(
    source: &dyn ObjectSource,
    (id, commit): (&ObjectId, &Commit),
    context: &Context,
    contents: ContentDetail,
    show_time: ShowTime<'_>,
    out: &mut dyn Write,
) -> Result<()> {
    let mut writing = DocumentWriter { source, contents, show_time, out };
    let facts = json!({
        "id": id.to_string(),
        "tree": commit.tree.to_string(),
        "parents": commit.parents.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "session": commit.session,
        "turn": commit.turn,
        "time": show_time(commit.time),
        "author": {"agent": commit.author.agent, "model": commit.author.model},
        "trigger": commit.trigger.name(),
        "message": commit.message,
        "metadata": commit.metadata,
    });
    writing.text(&format!("{{\"schema\":\"{DOCUMENT_SCHEMA}\",\n\"commit\":{facts}"))?;
    writing.agents(context)?;
    writing.sections(context)?;
    writing.text("}\n")
}

struct DocumentWriter<'a> {
    source: &'a dyn ObjectSource,
    contents: ContentDetail,
    show_time: ShowTime<'a>,
    out: &'a mut dyn Write,
}

impl DocumentWriter<'_> {
    /// Writes `"agents": {name: {"messages": [...], "sections": {...}}}`.
    fn agents(&mut self, context: &Context) -> Result<()> {
        self.text(",\n\"agents\":{")?;
        let sections = context.sections(self.source)?;
        for (number, agent) in context.agents(self.source)?.into_iter().enumerate() {
            self.separate(number)?;
            let name = Value::from(agent.clone());
            self.text(&format!("{name}:{{\"messages\":["))?;
            self.messages(&context.messages(self.source, &agent)?)?;
            self.text("],\n\"sections\":{")?;
            let own = sections.iter().filter_map(|(name, section)| {
                let (owner, part) = agent_part(name)?;
                (owner == agent && part != MESSAGES).then_some((part, section))
            });
            for (number, (part, section)) in own.enumerate() {
                self.separate(number)?;
                self.section(part, section)?;
            }
            self.text("}}")?;
        }
        self.text("}")
    }

    fn messages(&mut self, list: &List) -> Result<()> {
        for (number, item) in list.iter(self.source, 0..list.len()).enumerate() {
            self.separate(number)?;
            let entry = MessageEntry::from_item(&item?)?;
            let bytes = self.source.read_as(Kind::Blob, &entry.blob)?;
            let message = self.message(&entry, &bytes);
            self.text(&Value::Object(message).to_string())?;
        }
        Ok(())
    }

    fn message(&self, entry: &MessageEntry, bytes: &Bytes) -> Map<String, Value> {
        let MessageView { id, text, thinking, tool_calls, tool_results, .. } =
            view(&entry.media, bytes);
        let mut message = Map::new();
        let mut add = |name: &str, value: Value| {
            message.insert(name.to_owned(), value);
        };
        add("id", entry.blob.to_string().into());
        add("role", entry.role.name().into());
        add("format", entry.media.clone().into());
        if let Some(origin) = &entry.origin {
            add("origin", origin.clone().into());
        }
        if let Some(id) = id {
            add("message_id", id.into());
        }
        if let Some(time) = record_time(bytes) {
            add("time", (self.show_time)(time).into());
        }
        add("text", text.into());
        if !thinking.is_empty() {
            add("thinking", thinking.into());
        }
        let calls = tool_calls.into_iter();
        let calls =
            calls.map(|call| json!({"id": call.id, "name": call.name, "input": call.input}));
        add("tool_calls", calls.collect());
        let results = tool_results.into_iter().map(|result| {
            json!({"call_id": result.call_id, "text": result.text, "is_error": result.is_error})
        });
        add("tool_results", results.collect());
        if let Some(found) = usage(bytes) {
            let tokens = found.tokens;
            add("tokens", json!({"input": tokens.input, "output": tokens.output}));
        }
        if self.contents == ContentDetail::Whole {
            // A record that is not JSON becomes text, and binary data becomes base64.
            match (json::value(bytes), std::str::from_utf8(bytes)) {
                (Some(record), _) => add("record", record),
                (None, Ok(text)) => add("record_text", text.into()),
                (None, Err(_)) => add("record_base64", STANDARD.encode(bytes).into()),
            }
        }
        message
    }

    /// Writes `"files": {...}, "sections": {...}`, without the sections of agents.
    fn sections(&mut self, context: &Context) -> Result<()> {
        self.text(",\n\"files\":{")?;
        let files = context.map(self.source, FILES)?;
        for (number, entry) in files.iter(self.source).enumerate() {
            self.separate(number)?;
            let (path, item) = entry?;
            self.file(&path, &item)?;
        }
        self.text("},\n\"sections\":{")?;
        let sections = context.sections(self.source)?;
        let others = sections.iter().filter(|(name, _)| {
            *name != FILES && !is_transcript_section(name) && !is_of_agent(name)
        });
        for (number, (name, section)) in others.enumerate() {
            self.separate(number)?;
            self.section(name, section)?;
        }
        self.text("}")?;
        let pieces = Transcript::open(self.source, context)?.len();
        match pieces {
            0 => Ok(()),
            _ => self.text(&format!(",\n\"source\":{{\"pieces\":{pieces}}}")),
        }
    }

    fn file(&mut self, path: &Bytes, item: &Item) -> Result<()> {
        let file = FileEntry::from_item(item)?;
        let mode = match file.mode {
            FileMode::Regular => "regular",
            FileMode::Executable => "executable",
            FileMode::Symlink => "symlink",
        };
        let mut entry = Map::new();
        entry.insert("id".to_owned(), file.blob.to_string().into());
        entry.insert("mode".to_owned(), mode.into());
        entry.insert("size".to_owned(), file.size.into());
        if self.contents == ContentDetail::Whole {
            let bytes = self.source.read_as(Kind::Blob, &file.blob)?;
            add_content(&mut entry, &bytes);
        }
        self.named(path, entry)
    }

    /// Writes `name: {"shape", "entries"}`. A section that is one blob has a single `entry`.
    fn section(&mut self, name: &str, section: &Section) -> Result<()> {
        let (name, shape) = (Value::from(name), section.shape.name());
        self.text(&format!("{name}:{{\"shape\":\"{shape}\""))?;
        match section.shape {
            Shape::Blob => {
                let entry = self.entry(&Item::new(Kind::Blob, section.id))?;
                let fields = Value::Object(entry).to_string();
                self.text(&format!(",\"entry\":{fields}"))?;
            }
            Shape::List => {
                self.text(",\"entries\":[")?;
                let list = List::open(self.source, &section.id)?;
                for (number, item) in list.iter(self.source, 0..list.len()).enumerate() {
                    self.separate(number)?;
                    let entry = self.entry(&item?)?;
                    self.text(&Value::Object(entry).to_string())?;
                }
                self.text("]")?;
            }
            Shape::Map => {
                self.text(",\"entries\":{")?;
                let map = TreeMap::open(self.source, &section.id)?;
                for (number, found) in map.iter(self.source).enumerate() {
                    self.separate(number)?;
                    let (key, item) = found?;
                    let entry = self.entry(&item)?;
                    self.named(&key, entry)?;
                }
                self.text("}")?;
            }
        }
        self.text("}")
    }

    fn entry(&self, item: &Item) -> Result<Map<String, Value>> {
        let mut entry = Map::new();
        entry.insert("id".to_owned(), item.link.id.to_string().into());
        if item.link.kind == Kind::Blob {
            let bytes = self.source.read_as(Kind::Blob, &item.link.id)?;
            entry.insert("size".to_owned(), bytes.len().into());
            if self.contents == ContentDetail::Whole {
                add_content(&mut entry, &bytes);
            }
        }
        Ok(entry)
    }

    fn named(&mut self, name: &Bytes, entry: Map<String, Value>) -> Result<()> {
        let name = Value::from(String::from_utf8_lossy(name));
        self.text(&format!("{name}:{}", Value::Object(entry)))
    }

    fn separate(&mut self, number: usize) -> Result<()> {
        self.text(if number == 0 { "\n" } else { ",\n" })
    }

    fn text(&mut self, text: &str) -> Result<()> {
        self.out.write_all(text.as_bytes()).map_err(|error| Error::io("write the export", error))
    }
}

fn add_content(entry: &mut Map<String, Value>, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => entry.insert("text".to_owned(), text.into()),
        Err(_) => entry.insert("base64".to_owned(), STANDARD.encode(bytes).into()),
    };
}
