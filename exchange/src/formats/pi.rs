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

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;
use turntree::context::{MAIN_AGENT, Role};

use super::chat;
use super::conversation::own_text;
use super::editor::Editor;
use super::files::FileChange;
use super::links::Links;
use super::session::{Session, TITLE, record};
use crate::model::event::{Content, Event, Parser};
use crate::model::format::{Format, FormatReader, Lineage, RecordOrigin, Records};
use crate::model::record_kind::{KindRole, RecordKind};
use crate::model::view::MessageView;
use crate::model::words::first_line;
use crate::text::json::text_at;
use crate::text::piece::Piece;
use crate::text::shape::JsonShape;
use crate::text::{json, lines};

/// The pi coding agent.
pub(super) const FORMAT: Format = Format {
    name: "pi",
    title: "pi coding agent session",
    recognise,
    view,
    reader: FormatReader::Records(Records {
        // An id has only eight digits, so copies are searched only if a file names its origin.
        lineage: Some(Lineage { identity: None, ..Lineage::by_id(entry_id, origin) }),
        kinds: KINDS,
        ..Records::new(lines::split, || Box::<Pi>::default())
    }),
};

/// The entries that pi writes.
const KINDS: &[RecordKind] = &[
    RecordKind::new("branch_summary", KindRole::Message),
    RecordKind::new("compaction", KindRole::Context),
    RecordKind::new("context_edit", KindRole::Ignored("not followed, with a warning")),
    RecordKind::new("custom", KindRole::Ignored("state of extensions, never sent")),
    RecordKind::new("custom_message", KindRole::Message),
    RecordKind::new("label", KindRole::Ignored("a mark for the screen")),
    RecordKind::new("message", KindRole::Message),
    RecordKind::new("model_change", KindRole::Facts),
    RecordKind::new("session", KindRole::Facts),
    RecordKind::new("session_info", KindRole::Facts),
    RecordKind::new("thinking_level_change", KindRole::Facts),
    RecordKind::new("usage", KindRole::Usage),
];

/// The fields of a message of the system that are its prompt.
const SECTIONS: &str = "sections";

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

/// Returns whether a message is in no request: a reply that failed or was stopped, a command that the user
/// keeps to themselves.
fn is_never_sent(message: &Value) -> bool {
    let has_ended_early = matches!(text_at(message, "/stopReason"), Some("error" | "aborted"));
    let is_private = message.get("excludeFromContext") == Some(&Value::Bool(true));
    match text_at(message, "/role") {
        Some("assistant") => has_ended_early,
        Some("bashExecution") => is_private,
        _ => false,
    }
}

#[derive(Debug, Default)]
struct Pi {
    session: Session,
    /// Entries seen so far, with the header and the current one.
    entries: u64,
    /// The line of the last record.
    line: u64,
    /// The entry of each message in the conversation, rising; a summary has that of the header.
    messages: Vec<u64>,
    /// Their ids; empty for version 1.
    ids: Vec<String>,
    links: Links,
    editor: Editor,
    /// The sections of the system prompt, in order of their names, with their places in it.
    sections: BTreeMap<String, (usize, String)>,
}

impl Parser for Pi {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        self.links.piece();
        let is_alone = piece.suffix.ends_with(b"\n") && piece.line != self.line;
        self.line = piece.line;
        let Some(entry) = record(piece, events) else { return };
        self.entries += u64::from(is_alone);
        if entry_id(&entry).is_some_and(|id| self.links.has(id)) {
            // An entry that was written twice is one.
            return;
        }
        self.go_back(&entry, events);
        self.entry(&entry, events);
        if let Some(id) = entry_id(&entry) {
            self.links.add(id);
        }
    }
}

impl Pi {
    fn entry(&mut self, entry: &Value, events: &mut Vec<Event>) {
        let kind = text_at(entry, "/type").unwrap_or_default();
        if !RecordKind::is_listed(KINDS, kind, events) {
            return;
        }
        match kind {
            "session" => self.header(entry, events),
            "message" => self.message(entry, events),
            "branch_summary" | "custom_message" => self.note(entry, events),
            "compaction" => self.compaction(entry, events),
            "model_change" => self.session.fact("model", text_at(entry, "/modelId"), events),
            "thinking_level_change" => {
                let level = text_at(entry, "/thinkingLevel");
                self.session.fact("thinking_level", level, events);
            }
            "session_info" => {
                let title = text_at(entry, "/name").map(first_line);
                self.session.fact(TITLE, title.as_deref(), events);
            }
            "context_edit" => {
                let what = "the changes of a context_edit are not followed".to_owned();
                events.push(Event::Unknown { what });
            }
            _ => {}
        }
    }

    /// An entry may follow an older one.
    fn go_back(&mut self, entry: &Value, events: &mut Vec<Event>) {
        let back = text_at(entry, "/parentId").and_then(|parent| self.links.back(parent));
        if back.is_some() {
            let left = usize::try_from(self.links.messages()).unwrap_or(usize::MAX);
            self.messages.truncate(left);
            self.ids.truncate(left);
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
    }

    /// Returns the text of a summary or an extension for the model.
    fn note(&mut self, entry: &Value, events: &mut Vec<Event>) {
        let time = entry.get("timestamp").and_then(json::time);
        events.push(Event::Message(view(entry).event(MAIN_AGENT, Content::Piece, time, None)));
        self.add_message(entry);
    }

    fn add_message(&mut self, entry: &Value) {
        self.ids.push(entry_id(entry).unwrap_or_default().to_owned());
        self.messages.push(self.entries.saturating_sub(1));
        self.links.message();
    }

    /// The sections of the system prompt that a message of the system has or changes.
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

    fn message(&mut self, entry: &Value, events: &mut Vec<Event>) {
        let message = entry.get("message").unwrap_or(&Value::Null);
        if text_at(message, "/role") == Some("system") {
            return self.system(message, events);
        }
        if is_never_sent(message) {
            return;
        }
        let view = view(entry);
        let time = entry.get("timestamp").and_then(json::time);
        let said = text_at(entry, "/message/model").or_else(|| self.session.known("model"));
        let model = said.filter(|_| view.role == Role::Assistant);
        if view.tool_results.is_empty() {
            self.links.turn();
            events.push(Event::Turn);
        }
        events.push(Event::Message(view.event(MAIN_AGENT, Content::Piece, time, model)));
        self.add_message(entry);
        let blocks = entry.pointer("/message/content").and_then(Value::as_array);
        for block in blocks.into_iter().flatten() {
            if let Some((call, change)) = text_at(block, "/id").zip(file_change(block)) {
                self.editor.call(call, change);
            }
        }
        for result in &view.tool_results {
            self.editor.result(&result.call_id, !result.is_error, &self.session, events);
        }
    }

    fn compaction(&mut self, entry: &Value, events: &mut Vec<Event>) {
        let keep = self.kept(entry).unwrap_or_else(|| {
            let what = "a compaction without a first kept entry: nothing is kept".to_owned();
            events.push(Event::Unknown { what });
            self.messages.len()..self.messages.len()
        });
        let time = entry.get("timestamp").and_then(json::time);
        let summary = vec![view(entry).event(MAIN_AGENT, Content::Piece, time, None)];
        // The next compaction removes the summary, even if it keeps every message.
        self.messages.splice(..keep.start, [0]);
        self.ids.splice(..keep.start, [String::new()]);
        let keep = keep.start as u64..keep.end as u64;
        let kept = self.ids.iter().map(String::as_str).zip(0..).skip(1);
        self.links.replaced(self.messages.len() as u64, kept.filter(|(id, _)| !id.is_empty()));
        events.push(Event::Compact { agent: MAIN_AGENT.to_owned(), summary, keep });
        if let Some(system) = entry.get("systemMessage").filter(|system| system.is_object()) {
            self.sections.clear();
            self.system(system, events);
        }
    }

    /// The messages that stay after a compaction.
    fn kept(&mut self, entry: &Value) -> Option<Range<usize>> {
        let index = entry.get("firstKeptEntryIndex").and_then(Value::as_u64);
        let start = match (index, text_at(entry, "/firstKeptEntryId")) {
            (Some(index), _) => self.messages.partition_point(|entry| *entry < index),
            (None, Some(id)) => usize::try_from(self.links.since(id)?.start).ok()?,
            (None, None) => return None,
        };
        let len = self.messages.len();
        Some(start.min(len)..len)
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{events_of, told};
    use super::*;

    fn user(text: &str) -> Value {
        json!({"type": "message", "message": {"role": "user", "content": text}})
    }

    #[test]
    fn a_session_has_the_title_of_its_client() {
        let lines = [
            json!({"type": "session", "id": "s", "cwd": "/p"}),
            json!({"type": "session_info", "id": "1", "name": "fix it"}),
        ];
        assert_eq!(told(&FORMAT, &lines), ["session_id=s", "cwd=/p", "title=fix it"]);
    }

    #[test]
    fn a_prompt_a_reply_and_a_command_each_begin_a_turn() {
        let lines = [
            json!({"type": "session", "id": "s", "cwd": "/p", "modelId": "m1",
                   "branchedFrom": "/old.jsonl"}),
            user("write it"),
            json!({"type": "message", "message": {"role": "assistant", "content": [
                {"type": "toolCall", "id": "1", "name": "write",
                 "arguments": {"path": "a.txt", "content": "hi\n"}},
                {"type": "toolCall", "id": "2", "name": "write",
                 "arguments": {"path": "b.txt", "content": "no"}},
            ]}}),
            json!({"type": "message", "message": {"role": "toolResult", "toolCallId": "2",
                   "isError": true, "content": [{"type": "text", "text": "denied"}]}}),
            json!({"type": "message", "message": {"role": "toolResult", "toolCallId": "1",
                   "isError": false, "content": [{"type": "text", "text": "done"}]}}),
            json!({"type": "message", "message": {"role": "assistant", "content": [
                {"type": "toolCall", "id": "3", "name": "edit",
                 "arguments": {"path": "a.txt", "oldText": "hi", "newText": "ho"}}]}}),
            json!({"type": "message", "message": {"role": "toolResult", "toolCallId": "3",
                   "content": []}}),
            json!({"type": "message", "message": {"role": "bashExecution", "command": "ls",
                   "output": "a.txt\n", "exitCode": 0}}),
            json!({"type": "surprise"}),
        ];
        assert_eq!(
            told(&FORMAT, &lines),
            [
                "session_id=s",
                "cwd=/p",
                "model=m1",
                "branched_from=/old.jsonl",
                "turn",
                "main User write it",
                "turn",
                "main Assistant [write, write]",
                "main Tool denied",
                "main Tool done",
                "file a.txt: hi\n",
                "turn",
                "main Assistant [edit]",
                "main Tool [no text]",
                "file a.txt: ho\n",
                "turn",
                "main User Ran `ls`",
                "unread: surprise",
            ]
        );
    }

    #[test]
    fn the_sections_of_the_system_message_are_the_prompt_and_no_turn() {
        let system = |sections: Value| json!({"type": "message", "message": {"role": "system", "content": "", "sections": sections}});
        let lines = [
            json!({"type": "session", "id": "s", "cwd": "/p", "parentSession": "/h/2026_a.jsonl"}),
            system(json!({"preamble": "Be good.", "tools": "<tools/>", "cwd": "/p"})),
            user("go"),
            system(json!({"tools": null, "preamble": "Be better.", "skills": "s"})),
            json!({"type": "compaction", "summary": "so far", "firstKeptEntryIndex": 9,
                "systemMessage": {"role": "system", "content": "Forced."}}),
        ];
        let told = told(&FORMAT, &lines);
        assert_eq!(
            told[3..],
            [
                "prompt main: Be good.\n\n<tools/>\n\n/p",
                "turn",
                "main User go",
                "prompt main: Be better.\n\n/p\n\ns",
                "compact main [main User so far] 1..1",
                "prompt main: Forced.",
            ]
        );
        assert_eq!(
            origin(&lines[0]),
            RecordOrigin::OtherSession { session: "2026_a".to_owned(), pieces: None }
        );
    }

    #[test]
    fn an_entry_that_was_written_twice_is_one() {
        let entry = |id: &str, parent: Option<&str>, role: &str| {
            json!({"type": "message", "id": id, "parentId": parent,
                "message": {"role": role, "content": id}})
        };
        let mut lines = vec![
            json!({"type": "session", "id": "s", "cwd": "/p"}),
            entry("a", None, "user"),
            entry("b", Some("a"), "assistant"),
            entry("c", Some("b"), "user"),
            entry("d", Some("c"), "assistant"),
        ];
        let once = told(&FORMAT, &lines);
        lines.extend([lines[3].clone(), lines[4].clone()]);
        assert_eq!(told(&FORMAT, &lines), once);
    }

    #[test]
    fn what_is_never_sent_is_in_no_context() {
        let message = |message: Value| json!({"type": "message", "message": message});
        let stopped = |reason: &str| {
            message(json!({"role": "assistant", "stopReason": reason,
                "content": [{"type": "text", "text": reason}], "usage": {"input": 1}}))
        };
        let ran = |excluded: bool| {
            message(json!({"role": "bashExecution", "command": "ls", "output": "a", "exitCode": 2,
                "excludeFromContext": excluded}))
        };
        let lines = [
            user("go"),
            stopped("error"),
            stopped("aborted"),
            stopped("stop"),
            ran(true),
            ran(false),
            json!({"type": "custom_message", "customType": "x", "content": "told", "display": false}),
            json!({"type": "usage", "kind": "cache_warm", "usage": {"input": 1}}),
        ];
        assert_eq!(
            told(&FORMAT, &lines),
            [
                "turn",
                "main User go",
                "turn",
                "main Assistant stop",
                "turn",
                "main User Ran `ls`",
                "main User told",
            ]
        );
        let view = view(&lines[5]);
        assert_eq!(view.text, "Ran `ls`\n```\na\n```\n\nCommand exited with code 2");
    }

    #[test]
    fn a_compaction_keeps_the_messages_from_its_first_kept_entry() {
        let compaction = |first: u64| json!({"type": "compaction", "summary": "so far", "firstKeptEntryIndex": first});
        let lines = [
            json!({"type": "session", "id": "s", "cwd": "/p"}),
            user("1"),
            json!({"type": "thinking_level_change", "thinkingLevel": "high"}),
            user("3"),
            user("4"),
            compaction(3),
            user("6"),
            compaction(4),
        ];
        let compactions: Vec<_> =
            told(&FORMAT, &lines).into_iter().filter(|e| e.starts_with("compact")).collect();
        assert_eq!(
            compactions,
            ["compact main [main User so far] 1..3", "compact main [main User so far] 2..4"]
        );
    }

    #[test]
    fn a_second_compaction_keeps_from_an_entry_that_the_first_one_kept() {
        let entry = |id: &str, parent: &str| {
            json!({"type": "message", "id": id, "parentId": parent,
                "message": {"role": "user", "content": id}})
        };
        let compaction = |id: &str, parent: &str, first: &str| {
            json!({"type": "compaction", "id": id, "parentId": parent, "summary": "so far",
                "firstKeptEntryId": first})
        };
        let lines = [
            json!({"type": "session", "version": 3, "id": "s", "cwd": "/p"}),
            entry("a", "s"),
            entry("b", "a"),
            entry("c", "b"),
            entry("d", "c"),
            compaction("x", "d", "c"),
            entry("e", "x"),
            compaction("y", "e", "d"),
        ];
        let told = told(&FORMAT, &lines);
        let compactions: Vec<_> = told.iter().filter(|e| e.starts_with("compact")).collect();
        assert_eq!(
            compactions,
            ["compact main [main User so far] 2..4", "compact main [main User so far] 2..4"]
        );
    }

    #[test]
    fn records_on_a_shared_line_are_messages_but_no_entries() {
        let file = format!(
            "{}\n{}{}\n{}\n{}\n",
            json!({"type": "session", "id": "s", "cwd": "/p"}),
            user("shared"),
            user("shared"),
            user("entry 1"),
            json!({"type": "compaction", "summary": "s", "firstKeptEntryIndex": 1}),
        );
        let kept = events_of(&FORMAT, file.as_bytes()).into_iter().find_map(|event| match event {
            Event::Compact { keep, .. } => Some(keep),
            _ => None,
        });
        assert_eq!(kept, Some(2..3));
    }
}
