//! Sessions of the pi coding agent, versions 1 to 3: a header line and then entries.
//!
//! - `message` entries are the conversation. A prompt begins a turn, and so do each reply of the
//!   model and each command that the user runs. Replies that failed or were stopped are never sent
//!   again, nor are commands that the user excludes (`!!`): they are in no context.
//! - Since 1.0 a message of the system has the prompt in named sections, and a later one those that
//!   changed; a compaction has all of it.
//! - `compaction` carries a summary and the id of the first entry that stays; before version 2 its
//!   index: the header is entry 0, and records that pi itself cannot read (a damaged line, a line
//!   of two records) do not count. The whole entry represents the summary.
//! - From version 2 on `parentId` names the entry before. An entry that follows one of an earlier
//!   turn rewinds to it, and a `branch_summary` describes the turns left behind.
//! - `parentSession` in the header (`branchedFrom` in version 1) names the file that this one was
//!   forked from. Its entries are copied with their ids.
//! - `context_edit` removes a message from the context of its path, or replaces its content.
//! - The first line of oh-my-pi has a fixed width and contains the title. It is rewritten in place,
//!   so it is not a record here. `reset_boundary` empties the conversation. A reply with
//!   `retryRecovery` was replaced by another attempt and is not sent, nor are results of unsent
//!   replies.

mod entries;
mod kinds;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::io::BufRead;
use std::ops::Range;

use serde_json::{Value, json};
use turntree::context::{MAIN_AGENT, Role};

use self::entries::{Entries, EntryEffect};
use self::kinds::KINDS;
use super::chat;
use super::conversation::{fields, own_text, plain};
use super::editor::Editor;
use super::files::FileChange;
use super::links::Links;
use super::session::{Session, TITLE, record};
use crate::model::event::{Content, Event, MessageEvent, Parser};
use crate::model::format::{Format, FormatRank, FormatReader, Lineage, RecordOrigin, Records};
use crate::model::record_kind::RecordKind;
use crate::model::view::{MessageView, ToolResult};
use crate::model::words::first_line;
use crate::text::json::text_at;
use crate::text::piece::{Piece, PieceKind, Pieces};
use crate::text::shape::JsonShape;
use crate::text::{json, lines};

/// The pi coding agent.
pub(super) const FORMAT: Format = Format {
    name: "pi",
    title: "pi coding agent session",
    rank: FormatRank::Program,
    recognise,
    view,
    reader: FormatReader::Records(Records {
        // An id has only eight digits, so copies are searched only if a file names its origin.
        lineage: Some(Lineage { identity: None, ..Lineage::by_id(entry_id, origin) }),
        kinds: KINDS,
        ..Records::new(split, || Box::<Pi>::default())
    }),
};

/// Longest line with the title of oh-my-pi, in bytes.
const MAX_TITLE_LINE: usize = 1024;

/// The field of a system message with the sections of the prompt.
const SECTIONS: &str = "sections";

/// The type of the title line of oh-my-pi, and its field with the title.
const TITLE_SLOT: &str = "title";

/// Splits lines. The title line changes in place, so it is not a record.
fn split<'r>(input: Box<dyn BufRead + 'r>) -> Pieces<'r> {
    Box::new(lines::split(input).map(|piece| {
        let mut piece = piece?;
        if let Some(range) = title_in(&piece) {
            piece.kind = PieceKind::Trivia { fields: vec![(TITLE_SLOT, range)] };
        }
        Ok(piece)
    }))
}

/// Returns the range of the title in a title line.
fn title_in(piece: &Piece) -> Option<Range<usize>> {
    let is_first = piece.offset == 0 && matches!(piece.kind, PieceKind::Record { .. });
    let head = piece.bytes.get(..MAX_TITLE_LINE.min(piece.bytes.len())).filter(|_| is_first)?;
    let line = json::value(head)?;
    let is_slot = text_at(&line, "/type") == Some(TITLE_SLOT) && line.get("pad").is_some();
    let title = line.get(TITLE_SLOT).filter(|_| is_slot)?.to_string();
    // The client escapes text as `serde_json` does, so the line contains the same bytes.
    let found = memchr::memmem::find(head, format!("\"{TITLE_SLOT}\":{title}").as_bytes())?;
    let start = found + TITLE_SLOT.len() + 3;
    Some(start..start + title.len())
}

fn entry_id(entry: &Value) -> Option<&str> {
    text_at(entry, "/id").filter(|_| text_at(entry, "/type") != Some("session"))
}

/// Returns the session that a file was forked from, which its header names by path.
fn origin(entry: &Value) -> RecordOrigin {
    let path = ["/parentSession", "/branchedFrom"].into_iter().find_map(|at| text_at(entry, at));
    let name = path.and_then(|path| path.rsplit(['/', '\\']).next());
    let name = name.map(|name| name.strip_suffix(".jsonl").unwrap_or(name));
    match name.filter(|_| text_at(entry, "/type") == Some("session")) {
        Some(name) => RecordOrigin::OtherSession { session: name.to_owned(), pieces: None },
        None => RecordOrigin::OwnSession,
    }
}

fn recognise(shape: &JsonShape<'_>) -> bool {
    // Other agents write such a header, too, with another name for the time.
    let fields = ["id", "timestamp", "cwd"];
    let is_header =
        shape.text("type") == Some("session") && fields.iter().all(|name| shape.has(name));
    !shape.is_array && is_header
}

/// An entry: a message, or a compaction with its summary.
fn view(entry: &Value) -> MessageView {
    let message = entry.get("message").unwrap_or(entry);
    let mut view = MessageView::new(match text_at(message, "/role") {
        // The model is sent a command of the user as a user message.
        Some("user" | "bashExecution" | "custom") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("toolResult") => Role::Tool,
        None if message.get("summary").is_some() => Role::User,
        None if text_at(entry, "/type") == Some("custom_message") => Role::User,
        _ => Role::Other,
    });
    view.id = text_at(entry, "/id").map(str::to_owned);
    view.is_added = !matches!(text_at(message, "/role"), Some("user" | "assistant" | "toolResult"));
    let content = message.get("content").or_else(|| message.get("summary")).unwrap_or(&Value::Null);
    match text_at(message, "/role") {
        Some("toolResult") => {
            let is_error = message.get("isError") == Some(&Value::Bool(true));
            view.add_result(message.get("toolCallId"), content, is_error);
        }
        Some("bashExecution") => {
            view.add_text(&ran(message));
        }
        _ => view.add_content(content),
    }
    view.add_text(text_at(message, "/errorMessage").unwrap_or_default());
    view
}

/// Returns the text that the model is sent for a command of the user, as the client words it.
fn ran(message: &Value) -> String {
    let text = |path| text_at(message, path).filter(|text| !text.is_empty());
    let command = text("/command").unwrap_or_default();
    let output = text("/output").map(|output| format!("```\n{output}\n```"));
    let mut said = format!("Ran `{command}`\n{}", output.as_deref().unwrap_or("(no output)"));
    let code = message.get("exitCode").and_then(Value::as_i64).filter(|code| *code != 0);
    if message.get("cancelled") == Some(&Value::Bool(true)) {
        said.push_str("\n\n(command cancelled)");
    } else if let Some(code) = code {
        said.push_str(&format!("\n\nCommand exited with code {code}"));
    }
    let file =
        text("/fullOutputPath").filter(|_| message.get("truncated") == Some(&Value::Bool(true)));
    if let Some(file) = file {
        said.push_str(&format!("\n\n[Output truncated. Full output: {file}]"));
    }
    said
}

/// Returns true if no request contains a message: a reply that failed, was stopped or was replaced,
/// or a command that the user excludes.
fn is_never_sent(message: &Value) -> bool {
    let has_ended_early = matches!(text_at(message, "/stopReason"), Some("error" | "aborted"));
    let is_private = message.get("excludeFromContext") == Some(&Value::Bool(true));
    match text_at(message, "/role") {
        // oh-my-pi replaced this reply by another attempt.
        Some("assistant") => has_ended_early || message.get("retryRecovery").is_some(),
        Some("bashExecution") => is_private,
        _ => false,
    }
}

#[derive(Debug, Default)]
struct Pi {
    session: Session,
    /// Entries seen so far, with the header and the current one.
    count: u64,
    /// The line of the last record.
    line: u64,
    entries: Entries,
    /// The newest entry with an id.
    leaf: Option<String>,
    links: Links,
    editor: Editor,
    /// The sections of the system prompt, in order of their names, with their places in it.
    sections: BTreeMap<String, (usize, String)>,
    /// True for a file of oh-my-pi.
    is_of_omp: bool,
    /// The calls of replies that are never sent. oh-my-pi does not send their results either.
    unsent: HashSet<String>,
}

impl Parser for Pi {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        self.links.piece();
        for (_, title) in fields(piece) {
            self.is_of_omp = true;
            let title = plain(title.as_ref()).map(|title| first_line(&title));
            self.session.fact(TITLE, title.as_deref(), events);
        }
        let is_alone = piece.suffix.ends_with(b"\n") && piece.line != self.line;
        self.line = piece.line;
        let Some(entry) = record(piece, events) else { return };
        self.count += u64::from(is_alone);
        if entry_id(&entry).is_some_and(|id| self.links.has(id)) {
            // An entry that was written twice is one.
            return;
        }
        self.rewind(&entry, events);
        let effect = self.entry(&entry, events);
        let place = (entry_id(&entry), self.number());
        if effect == EntryEffect::Message
            && let Some(id) = place.0
        {
            self.entries.keep(id, &piece.bytes);
        }
        self.entries.add(place, text_at(&entry, "/parentId"), effect);
        if let Some(id) = place.0 {
            self.links.add(id);
            self.leaf = Some(id.to_owned());
        }
    }
}

impl Pi {
    /// The number of the current entry, the header being 0.
    fn number(&self) -> u64 {
        self.count.saturating_sub(1)
    }

    fn entry(&mut self, entry: &Value, events: &mut Vec<Event>) -> EntryEffect {
        let kind = text_at(entry, "/type").unwrap_or_default();
        if !RecordKind::is_listed(KINDS, kind, events) {
            return EntryEffect::Nothing;
        }
        match kind {
            "session" => self.header(entry, events),
            "message" => return self.message(entry, events),
            "branch_summary" | "custom_message" => return self.note(entry, events),
            "compaction" => return self.compaction(entry, events),
            "context_edit" => return self.edit(entry, events),
            "reset_boundary" => return self.reset(events),
            "model_change" => {
                // oh-my-pi writes the provider before the model, and models for other purposes.
                let model = text_at(entry, "/modelId").or_else(|| {
                    let is_main = matches!(text_at(entry, "/role"), None | Some("default"));
                    let model = text_at(entry, "/model").filter(|_| is_main)?;
                    Some(model.split_once('/').map_or(model, |(_, model)| model))
                });
                self.session.fact("model", model, events);
            }
            "thinking_level_change" => {
                let level = text_at(entry, "/thinkingLevel");
                self.session.fact("thinking_level", level, events);
            }
            "session_info" | "title" | "title_change" => {
                let title = text_at(entry, "/name").or_else(|| text_at(entry, "/title"));
                self.session.fact(TITLE, title.map(first_line).as_deref(), events);
            }
            "session_init" => {
                if let Some(prompt) = text_at(entry, "/systemPrompt") {
                    let (agent, content) = (MAIN_AGENT.to_owned(), own_text(prompt));
                    events.push(Event::SystemPrompt { agent, content });
                }
            }
            _ => {}
        }
        EntryEffect::Nothing
    }

    /// Rewinds if an entry follows an older one, or none.
    fn rewind(&mut self, entry: &Value, events: &mut Vec<Event>) {
        let parent = entry_id(entry).and_then(|_| entry.get("parentId"));
        let back = match parent {
            Some(Value::String(parent)) => self.links.back(parent),
            Some(Value::Null) => self.links.back_to_start(),
            _ => None,
        };
        if back.is_some() {
            self.entries.rewind(parent.and_then(Value::as_str));
        }
        events.extend(back);
    }

    fn header(&mut self, header: &Value, events: &mut Vec<Event>) {
        for (key, path) in [
            ("session_id", "/id"),
            ("cwd", "/cwd"),
            ("model", "/modelId"),
            ("thinking_level", "/thinkingLevel"),
            ("branched_from", "/branchedFrom"),
            ("branched_from", "/parentSession"),
        ] {
            self.session.fact(key, text_at(header, path), events);
        }
        if self.session.known(TITLE).is_none() {
            let title = text_at(header, "/title").map(first_line);
            self.session.fact(TITLE, title.as_deref(), events);
        }
    }

    /// Adds a message with the text of a summary or an extension for the model.
    fn note(&mut self, entry: &Value, events: &mut Vec<Event>) -> EntryEffect {
        let time = entry.get("timestamp").and_then(json::time);
        events.push(Event::Message(view(entry).event(MAIN_AGENT, Content::Piece, time, None)));
        self.links.message();
        EntryEffect::Message
    }

    /// Empties the conversation.
    fn reset(&mut self, events: &mut Vec<Event>) -> EntryEffect {
        if self.entries.len() > 0 {
            self.links.replaced(0, &[], &[]);
            let agent = MAIN_AGENT.to_owned();
            events.push(Event::Compact { agent, summary: Vec::new(), keep: 0..0 });
        }
        EntryEffect::Reset
    }

    /// Removes a message from the context, or replaces its content.
    fn edit(&mut self, entry: &Value, events: &mut Vec<Event>) -> EntryEffect {
        let target = text_at(entry, "/targetId").unwrap_or_default();
        let Some(number) = self.entries.number(target) else {
            let what = "a context_edit of a missing entry".to_owned();
            events.push(Event::Unknown { what });
            return EntryEffect::Nothing;
        };
        let content = entry.pointer("/replacement/content");
        let removes = content.is_none();
        let effect = EntryEffect::Edit { target: target.to_owned(), number, removes };
        let (at, len) = (self.entries.position(target), self.entries.len());
        let Some(content) = content else {
            if let Some(at) = at {
                self.rearrange((at, at + 1), Vec::new(), events);
            }
            return effect;
        };
        if at.is_none() && !self.entries.is_removed(target, self.leaf.as_deref()) {
            // A compaction replaced the message.
            return EntryEffect::Nothing;
        }
        let edited = self.entries.kept(target).and_then(|bytes| edited(bytes, content));
        let Some(edited) = edited else {
            let what = "a context_edit of an entry too far back".to_owned();
            events.push(Event::Unknown { what });
            return EntryEffect::Nothing;
        };
        let time = edited.get("timestamp").and_then(json::time);
        let view = view(&edited);
        let model = text_at(&edited, "/message/model").filter(|_| view.role == Role::Assistant);
        let message = view.event(MAIN_AGENT, Content::own(&edited), time, model);
        match at {
            Some(at) => events.push(Event::ReplaceMessage { message, back: (len - at - 1) as u64 }),
            None => {
                let at = self.entries.place_of(number);
                self.rearrange((at, at), vec![message], events);
            }
        }
        effect
    }

    /// Replaces the messages from `start` to `end`.
    fn rearrange(
        &mut self,
        (start, end): (usize, usize),
        summary: Vec<MessageEvent>,
        events: &mut Vec<Event>,
    ) {
        let len = self.entries.len() as u64;
        let (start, end) = (start as u64, end as u64);
        self.links.replaced(len - (end - start) + summary.len() as u64, &[], &[]);
        let agent = MAIN_AGENT.to_owned();
        let [before, after] = [0..start, end..len].map(|part| vec![part]);
        events.push(Event::Rearrange { agent, before, summary, after });
    }

    /// Applies the sections of the system prompt that a system message contains or changes.
    fn system(&mut self, message: &Value, events: &mut Vec<Event>) {
        let content = message.get("content").unwrap_or(&Value::Null);
        let content = chat::text_of(content);
        let changed = message.get(SECTIONS).and_then(Value::as_object);
        for (name, text) in changed.into_iter().flatten() {
            let next = self.sections.values().map(|(at, _)| at + 1).max().unwrap_or(0);
            match text.as_str() {
                Some(text) => {
                    let at = self.sections.get(name).map_or(next, |(at, _)| *at);
                    self.sections.insert(name.clone(), (at, text.to_owned()));
                }
                None => drop(self.sections.remove(name)),
            }
        }
        let mut sections: Vec<&(usize, String)> = self.sections.values().collect();
        sections.sort();
        let texts = sections.iter().map(|(_, text)| text.as_str());
        let parts = std::iter::once(content.as_str()).chain(texts).filter(|text| !text.is_empty());
        let prompt = parts.collect::<Vec<_>>().join("\n\n");
        if !prompt.is_empty() {
            let agent = MAIN_AGENT.to_owned();
            events.push(Event::SystemPrompt { agent, content: own_text(&prompt) });
        }
    }

    fn message(&mut self, entry: &Value, events: &mut Vec<Event>) -> EntryEffect {
        let message = entry.get("message").unwrap_or(&Value::Null);
        if text_at(message, "/role") == Some("system") {
            self.system(message, events);
            return EntryEffect::Nothing;
        }
        let view = view(entry);
        if is_never_sent(message) {
            self.unsent.extend(view.tool_calls.into_iter().map(|call| call.id));
            return EntryEffect::Nothing;
        }
        let is_unsent = |result: &ToolResult| self.unsent.contains(&result.call_id);
        if self.is_of_omp && view.tool_results.iter().any(is_unsent) {
            return EntryEffect::Nothing;
        }
        let time = entry.get("timestamp").and_then(json::time);
        let said = text_at(entry, "/message/model").or_else(|| self.session.known("model"));
        let model = said.filter(|_| view.role == Role::Assistant);
        if view.tool_results.is_empty() {
            self.links.turn();
            events.push(Event::Turn);
        }
        events.push(Event::Message(view.event(MAIN_AGENT, Content::Piece, time, model)));
        self.links.message();
        let blocks = entry.pointer("/message/content").and_then(Value::as_array);
        for block in blocks.into_iter().flatten() {
            if let Some((call, change)) = text_at(block, "/id").zip(file_change(block)) {
                self.editor.call(call, change);
            }
        }
        for result in &view.tool_results {
            self.editor.result(&result.call_id, !result.is_error, &self.session, events);
        }
        EntryEffect::Message
    }

    fn compaction(&mut self, entry: &Value, events: &mut Vec<Event>) -> EntryEffect {
        let first = self.first_kept(entry).unwrap_or_else(|| {
            let what = "a compaction without a first kept entry: nothing is kept".to_owned();
            events.push(Event::Unknown { what });
            u64::MAX
        });
        let time = entry.get("timestamp").and_then(json::time);
        let summary = vec![view(entry).event(MAIN_AGENT, Content::Piece, time, None)];
        let keep = self.entries.since(first);
        self.links.replaced(keep.len() as u64 + 1, &[], &[]);
        let keep = keep.start as u64..keep.end as u64;
        events.push(Event::Compact { agent: MAIN_AGENT.to_owned(), summary, keep });
        if let Some(system) = entry.get("systemMessage").filter(|system| system.is_object()) {
            self.sections.clear();
            self.system(system, events);
        }
        EntryEffect::Compaction(first)
    }

    /// Returns the number of the first entry that a compaction keeps.
    fn first_kept(&self, entry: &Value) -> Option<u64> {
        let index = entry.get("firstKeptEntryIndex").and_then(Value::as_u64);
        match (index, text_at(entry, "/firstKeptEntryId")) {
            (Some(index), _) => Some(index),
            (None, Some(id)) => self.entries.number(id).or_else(|| {
                // In oh-my-pi a summary of the vendor covers the path up to this entry.
                let last = text_at(entry, "/providerReplayThroughEntryId")?;
                self.entries.number(last).map(|number| number + 1)
            }),
            (None, None) => None,
        }
    }
}

/// Returns the entry in `bytes` with the content replaced.
fn edited(bytes: &[u8], content: &Value) -> Option<Value> {
    let mut entry = json::value(bytes)?;
    let message =
        if entry.get("message").is_some() { entry.get_mut("message")? } else { &mut entry };
    let role = text_at(message, "/role");
    let is_in_blocks = matches!(role, Some("assistant" | "toolResult"));
    let is_edited = is_in_blocks || matches!(role, None | Some("user" | "custom"));
    if is_edited {
        message["content"] = match content {
            Value::String(text) if is_in_blocks => json!([{"type": "text", "text": text}]),
            content => content.clone(),
        };
    }
    Some(entry)
}

/// Returns the effect of a call of a file tool, and its file.
fn file_change(call: &Value) -> Option<(String, FileChange)> {
    let argument = |name| call.get("arguments")?.get(name)?.as_str().map(str::to_owned);
    let change = match text_at(call, "/name")? {
        "write" => FileChange::Write(argument("content")?),
        "edit" => {
            FileChange::Replace { old: argument("oldText")?, new: argument("newText")?, all: false }
        }
        _ => return None,
    };
    Some((argument("path")?, change))
}
