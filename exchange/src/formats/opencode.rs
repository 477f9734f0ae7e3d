//! opencode exports: one document, `{info, messages: [{info, parts}]}`.
//!
//! A message holds the tool calls of a step and their results, so a message is a turn. A summary
//! that a `compaction` asked for replaces the conversation before it, except for the messages that
//! the compaction keeps. Files are followed through `write`, `edit` and `apply_patch`. Hashes of
//! snapshots and patches stay in the record. A message of which nothing is sent is in no context: a
//! reply that failed, one that was stopped before any output, a prompt whose parts are all for the
//! screen.

use std::io::BufRead;

use serde_json::Value;
use turntree::context::{MAIN_AGENT, Role};

use super::conversation::{Conversations, MessageFacts, fields, plain, record, todos};
use super::files::{FileChange, FileContents};
use super::session::Session;
use crate::model::event::{Content, Event, MessageEvent, Parser};
use crate::model::format::{Format, FormatRank, FormatReader, Records};
use crate::model::view::MessageView;
use crate::text::document::{Document, Rules};
use crate::text::json;
use crate::text::json::text_at;
use crate::text::piece::{Piece, PieceKind, Pieces};
use crate::text::shape::JsonShape;

/// The format.
pub(super) const FORMAT: Format = Format {
    name: "opencode",
    title: "opencode session export",
    rank: FormatRank::Program,
    recognise,
    view,
    reader: FormatReader::Records(Records {
        ..Records::new(split, || Box::new(Opencode::default()))
    }),
};

static RULES: Rules = Rules {
    records: &["messages[*]"],
    fields: &[
        "info.id",
        "info.parentID",
        "info.directory",
        "info.title",
        "info.version",
        REVERT_MESSAGE,
        REVERT_PART,
    ],
};

/// The first message that a revert hides; if it names a part, the messages after it.
const REVERT_MESSAGE: &str = "info.revert.messageID";
const REVERT_PART: &str = "info.revert.partID";

fn recognise(shape: &JsonShape<'_>) -> bool {
    let Some(info) = shape.member("info").filter(|info| info.has("id")) else { return false };
    let facts = ["directory", "projectID", "time", "title", "version"];
    !shape.is_array
        && shape.has("messages")
        && match shape.member("messages") {
            Some(first) => first.has("info") && first.has("parts"),
            None => info.has_any(&facts),
        }
}

fn split<'r>(input: Box<dyn BufRead + 'r>) -> Pieces<'r> {
    let mut revert = Revert::default();
    Box::new(Document::new(input, &RULES).map(move |piece| Ok(revert.hide(piece?))))
}

/// Hides the messages that a revert took back. The client keeps them until the next prompt, for the
/// case that the user wants them again, and sends none of them. So they are not records: a document
/// with a revert is read like the one that the next prompt makes of it.
#[derive(Debug, Default)]
struct Revert {
    first: Option<String>,
    /// True if a part of the first message stays, and so the message.
    keeps_first: bool,
    is_past_first: bool,
}

impl Revert {
    fn hide(&mut self, mut piece: Piece) -> Piece {
        for (path, value) in fields(&piece) {
            match path {
                REVERT_MESSAGE => self.first = plain(value.as_ref()),
                REVERT_PART => self.keeps_first = value.is_some_and(|part| part.is_string()),
                _ => {}
            }
        }
        let Some(first) = &self.first else { return piece };
        if !matches!(piece.kind, PieceKind::Record { .. }) {
            return piece;
        }
        let mut is_hidden = self.is_past_first;
        if !is_hidden {
            let message = json::value(&piece.bytes);
            let id = message.as_ref().and_then(|message| text_at(message, "/info/id"));
            self.is_past_first = id == Some(first);
            is_hidden = self.is_past_first && !self.keeps_first;
        }
        if is_hidden {
            piece.kind = PieceKind::Trivia { fields: Vec::new() };
        }
        piece
    }
}

#[derive(Debug, Default)]
struct Opencode {
    session: Session,
    conversations: Conversations,
    files: FileContents,
    /// The id of each message of the conversation, in order.
    order: Vec<String>,
    /// The compaction that was asked for.
    asked: Option<Asked>,
    /// True if a message has asked for a compaction. Releases that never do replace the
    /// conversation with the summary alone.
    asks: bool,
}

/// A request for a compaction.
#[derive(Debug)]
struct Asked {
    /// The message with the request, and those that came while the summary was written, with their
    /// ids.
    messages: Vec<MessageEvent>,
    ids: Vec<String>,
    /// The first message that stays.
    tail: Option<String>,
}

/// Most messages that come while a summary is written.
const MAX_DURING: usize = 64;

impl Asked {
    /// Returns true if `summary` answers this request.
    fn is_answered_by(&self, summary: &Value) -> bool {
        let parent = text_at(summary, "/info/parentID");
        parent.is_none() || parent == self.ids.first().map(String::as_str) || self.ids.len() == 1
    }
}

impl Parser for Opencode {
    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        for (path, value) in fields(piece) {
            let key = match path {
                "info.id" => "session_id",
                "info.parentID" => "parent_session",
                "info.directory" => "cwd",
                "info.title" => "title",
                "info.version" => "version",
                _ => continue,
            };
            self.session.fact(key, plain(value.as_ref()).as_deref(), events);
        }
        if let Some((_, message)) = record(piece, events) {
            self.message(&message, piece, events);
        }
    }
}

impl Opencode {
    fn message(&mut self, message: &Value, piece: &Piece, events: &mut Vec<Event>) {
        if is_never_sent(message) {
            return;
        }
        let view = view(message);
        let id = view.id.clone().unwrap_or_default();
        if is_summary(message)
            && let Some(asked) = self.asked.take_if(|asked| asked.is_answered_by(message))
        {
            return self.compact(asked, (message, id), events);
        }
        if is_old_summary(message) && !self.asks {
            let model = text_at(message, "/info/modelID");
            let time = message.pointer("/info/time/created").and_then(json::time);
            let summary = vec![view.event(MAIN_AGENT, Content::Piece, time, model)];
            self.order = vec![id];
            let agent = MAIN_AGENT.to_owned();
            return events.push(Event::Compact { agent, summary, keep: 0..0 });
        }
        let model = text_at(message, "/info/modelID");
        let model = model.or_else(|| text_at(message, "/info/model/modelID"));
        let time = message.pointer("/info/time/created");
        let facts = MessageFacts { conversation: None, time, model };
        events.push(Event::Turn);
        self.conversations.push_in_turn(&view, facts, events);
        let compaction = parts(message).find(|part| text_at(part, "/type") == Some(COMPACTION));
        if let Some(part) = compaction {
            let tail = text_at(part, "/tail_start_id").map(str::to_owned);
            self.asked = Some(Asked { messages: Vec::new(), ids: Vec::new(), tail });
            self.asks = true;
        }
        self.asked.take_if(|asked| asked.ids.len() > MAX_DURING);
        if let Some(asked) = &mut self.asked {
            let content = Content::Own(piece.bytes.clone());
            asked.messages.push(view.event(MAIN_AGENT, content, None, model));
            asked.ids.push(id.clone());
        }
        self.order.push(id);
        for part in parts(message).filter(|part| is_done(part)) {
            self.files(part, events);
            if matches!(text_at(part, "/tool"), Some("todowrite")) {
                todos(MAIN_AGENT, part.pointer("/state/input/todos"), events);
            }
        }
    }

    /// Replaces the conversation with the request for the summary, the messages between the request
    /// and the summary, the summary, and the kept messages.
    fn compact(&mut self, asked: Asked, (message, id): (&Value, String), events: &mut Vec<Event>) {
        let place = |id: &String| self.order.iter().position(|known| known == id);
        let end = asked.ids.first().and_then(place).unwrap_or(self.order.len());
        let start = asked.tail.as_ref().and_then(place).unwrap_or(end).min(end);
        let time = message.pointer("/info/time/created").and_then(json::time);
        let summary = view(message).event(
            MAIN_AGENT,
            Content::Piece,
            time,
            text_at(message, "/info/modelID"),
        );
        let kept = self.order.get(start..end).unwrap_or_default().to_vec();
        self.order = asked.ids.into_iter().chain([id]).chain(kept).collect();
        let (agent, keep) = (MAIN_AGENT.to_owned(), start as u64..end as u64);
        let summary = asked.messages.into_iter().chain([summary]).collect();
        events.push(Event::Compact { agent, summary, keep });
    }

    /// Follows the files that a tool call changed.
    fn files(&mut self, part: &Value, events: &mut Vec<Event>) {
        let text = |path| text_at(part, path).map(str::to_owned);
        let path = text("/state/input/filePath");
        let asked = match text_at(part, "/tool") {
            Some("write") => text("/state/input/content").map(FileChange::Write),
            Some("edit") => {
                text("/state/metadata/filediff/after").map(FileChange::Write).or_else(|| {
                    let all = part.pointer("/state/input/replaceAll").and_then(Value::as_bool);
                    Some(FileChange::Replace {
                        old: text("/state/input/oldString")?,
                        new: text("/state/input/newString")?,
                        all: all.unwrap_or(false),
                    })
                })
            }
            _ => None,
        };
        if let Some((path, change)) = path.zip(asked) {
            self.files.apply(&self.session, &path, &change, events);
        }
        let patched = part.pointer("/state/metadata/files").and_then(Value::as_array);
        for file in patched.into_iter().flatten() {
            let change = match text_at(file, "/type") {
                Some("delete") => Some(FileChange::Remove),
                _ => text_at(file, "/after").map(|after| FileChange::Write(after.to_owned())),
            };
            if let Some((path, change)) = text_at(file, "/filePath").zip(change) {
                self.files.apply(&self.session, path, &change, events);
            }
        }
    }
}

/// The type of a part that asks for a compaction, and the question that the model is sent instead
/// from then on.
const COMPACTION: &str = "compaction";
const RECAP: &str = "What did we do so far?";

/// The text that the model is sent for an output that the client cleared.
const CLEARED: &str = "[Old tool result content cleared]";

/// The type of a part for a task that the user gave to another agent, and the text that the model
/// is sent for it.
const SUBTASK: (&str, &str) = ("subtask", "The following tool was executed by the user");

/// The media types of files whose text is a separate part.
const TOLD_AS_TEXT: [&str; 2] = ["text/plain", "application/x-directory"];

/// Returns true if a part of a message is sent, or replaced by a text that is sent.
fn is_sent(part: &Value) -> bool {
    match text_at(part, "/type") {
        Some("text") => part.get("ignored") != Some(&Value::Bool(true)),
        Some("file") => !text_at(part, "/mime").is_some_and(|mime| TOLD_AS_TEXT.contains(&mime)),
        Some("reasoning" | "tool") => true,
        Some(kind) => kind == COMPACTION || kind == SUBTASK.0,
        None => false,
    }
}

/// Returns whether a message is in no request.
fn is_never_sent(message: &Value) -> bool {
    let info = message.get("info").unwrap_or(&Value::Null);
    let is_answer = text_at(info, "/role") == Some("assistant");
    let has_failed = is_answer && info.get("error").is_some_and(|error| !error.is_null());
    let was_stopped = text_at(info, "/error/name") == Some("MessageAbortedError");
    let has_begun = parts(message)
        .any(|part| !matches!(text_at(part, "/type"), Some("step-start" | "reasoning")));
    (has_failed && !(was_stopped && has_begun)) || !parts(message).any(is_sent)
}

/// Returns true if a message is the finished summary of a compaction.
fn is_summary(message: &Value) -> bool {
    let info = message.get("info").unwrap_or(&Value::Null);
    let is_summary = info.get("summary") == Some(&Value::Bool(true));
    is_summary && info.get("finish").is_some() && info.get("error").is_none()
}

/// Returns true if a message is the summary of a release that had no messages asking for one. From
/// then on the client sends this message and those after it.
fn is_old_summary(message: &Value) -> bool {
    let info = message.get("info").unwrap_or(&Value::Null);
    let is_summary = info.get("summary") == Some(&Value::Bool(true));
    is_summary && info.pointer("/time/completed").is_some() && info.get("error").is_none()
}

fn parts(message: &Value) -> impl Iterator<Item = &Value> {
    message.get("parts").and_then(Value::as_array).into_iter().flatten()
}

/// Returns true if `part` is a tool call that succeeded.
fn is_done(part: &Value) -> bool {
    text_at(part, "/type") == Some("tool") && text_at(part, "/state/status") == Some("completed")
}

fn view(message: &Value) -> MessageView {
    let role = match text_at(message, "/info/role") {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("system") => Role::System,
        _ => Role::Other,
    };
    let mut view = MessageView::new(role);
    view.id = plain(message.pointer("/info/id"));
    let is_synthetic = |part: &Value| part.get("synthetic") == Some(&Value::Bool(true));
    let is_compaction = |part: &Value| text_at(part, "/type") == Some(COMPACTION);
    let mut said = parts(message).filter(|part| text_at(part, "/type") == Some("text")).peekable();
    view.is_added =
        parts(message).any(is_compaction) || (said.peek().is_some() && said.all(is_synthetic));
    for part in parts(message).filter(|part| is_sent(part)) {
        if is_compaction(part) {
            view.add_text(RECAP);
        }
        if text_at(part, "/type") == Some(SUBTASK.0) {
            view.add_text(SUBTASK.1);
            continue;
        }
        if is_picture(part) {
            view.add_picture(part);
            continue;
        }
        if text_at(part, "/type") != Some("tool") {
            view.add_content(part);
            continue;
        }
        let id = part.get("callID");
        view.add_call(id, part.get("tool"), part.pointer("/state/input"));
        if let Some((result, is_error)) = result_of(part) {
            view.push_result(id, result, is_error);
        }
    }
    view
}

/// Returns the result of a tool call as the client sends it, and whether it is an error.
fn result_of(part: &Value) -> Option<(MessageView, bool)> {
    let mut result = MessageView::new(Role::Tool);
    if part.pointer("/state/time/compacted").is_some_and(|time| !time.is_null()) {
        result.add_text(CLEARED);
        return Some((result, false));
    }
    let is_interrupted = part.pointer("/state/metadata/interrupted") == Some(&Value::Bool(true));
    let until_then = part.pointer("/state/metadata/output").filter(|_| is_interrupted);
    let error = part.pointer("/state/error").filter(|_| until_then.is_none());
    result.add_content(part.pointer("/state/output").or(until_then).or(error)?);
    let attached = part.pointer("/state/attachments").and_then(Value::as_array);
    let pictures = attached.into_iter().flatten().filter(|file| is_picture(file));
    pictures.for_each(|file| result.add_picture(file));
    Some((result, error.is_some()))
}

/// Returns true if `part` is a file that is a picture.
fn is_picture(part: &Value) -> bool {
    text_at(part, "/type") == Some("file")
        && text_at(part, "/mime").is_some_and(|media| media.starts_with("image/"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{events_of, outline};
    use super::*;

    #[test]
    fn what_is_never_sent_is_in_no_context() {
        let message = |id: &str, role: &str, error: &str, parts: Value| {
            let mut info = json!({"id": id, "role": role});
            if !error.is_empty() {
                info["error"] = json!({"name": error});
            }
            json!({"info": info, "parts": parts})
        };
        let text = |text: &str| json!({"type": "text", "text": text});
        let file = json!({"info": {"id": "s", "directory": "/p"}, "messages": [
            message("1", "user", "", json!([text("go"),
                {"type": "text", "text": "for the screen", "ignored": true},
                {"type": "text", "text": "read", "synthetic": true},
                {"type": "file", "mime": "text/plain", "url": "file:///a"},
                {"type": "subtask", "prompt": "p", "description": "d", "agent": "a"}])),
            message("2", "assistant", "APIError", json!([text("half")])),
            message("3", "assistant", "MessageAbortedError", json!([{"type": "step-start"},
                {"type": "reasoning", "text": "hm"}])),
            message("4", "assistant", "MessageAbortedError", json!([text("stopped")])),
            message("5", "assistant", "", json!([])),
            message("6", "user", "", json!([{"type": "text", "text": "x", "ignored": true}])),
        ]});
        let events = events_of(&FORMAT, file.to_string().as_bytes());
        let told = outline(&events);
        assert_eq!(told[2..], ["turn", "main User go", "turn", "main Assistant stopped"]);
        let said = view(&file["messages"][0]).text;
        assert_eq!(said, "go\nread\nThe following tool was executed by the user");
    }

    fn session(info: &Value, messages: &[Value]) -> Vec<String> {
        let file = json!({"info": info, "messages": messages}).to_string();
        outline(&events_of(&FORMAT, file.as_bytes()))
    }

    fn said(id: &str, role: &str, text: &str) -> Value {
        json!({"info": {"id": id, "role": role}, "parts": [{"type": "text", "text": text}]})
    }

    #[test]
    fn messages_that_a_revert_took_back_are_none() {
        let messages = [
            said("1", "user", "one"),
            said("2", "assistant", "1"),
            said("3", "user", "two"),
            said("4", "assistant", "2"),
        ];
        let one = ["turn", "main User one", "turn", "main Assistant 1"];
        let reverted = json!({"id": "s", "revert": {"messageID": "3", "diff": "d"}});
        assert_eq!(session(&reverted, &messages)[1..], one);
        let in_part = json!({"id": "s", "revert": {"messageID": "2", "partID": "p"}});
        assert_eq!(session(&in_part, &messages)[1..], one);
        let none = json!({"id": "s", "revert": null});
        assert_eq!(session(&none, &messages).len(), 9);
    }

    #[test]
    fn a_summary_answers_its_request_though_a_prompt_came_between() {
        let ask = json!({"info": {"id": "3", "role": "user"},
            "parts": [{"type": "compaction", "auto": true, "tail_start_id": "2"}]});
        let mut summary = said("5", "assistant", "In short.");
        for (name, value) in
            [("summary", json!(true)), ("finish", "stop".into()), ("parentID", "3".into())]
        {
            summary["info"][name] = value;
        }
        let messages = [
            said("1", "user", "one"),
            said("2", "assistant", "1"),
            ask,
            said("4", "user", "and two"),
            summary,
        ];
        let told = session(&json!({"id": "s"}), &messages);
        let last = told.last().unwrap();
        assert_eq!(
            last,
            "compact main [main User What did we do so far?; main User and two; \
                          main Assistant In short.] 1..2"
        );
    }

    #[test]
    fn a_summary_of_an_earlier_release_replaces_the_conversation() {
        let mut summary = said("3", "assistant", "In short.");
        summary["info"]["summary"] = true.into();
        summary["info"]["time"] = json!({"created": 1, "completed": 2});
        let messages = [said("1", "user", "one"), said("2", "assistant", "1"), summary];
        let told = session(&json!({"id": "s"}), &messages);
        assert_eq!(told.last().unwrap(), "compact main [main Assistant In short.] 0..0");
    }

    #[test]
    fn outputs_read_as_the_client_sends_them() {
        let call =
            |state: Value| json!({"type": "tool", "callID": "c", "tool": "bash", "state": state});
        let picture =
            json!([{"type": "file", "mime": "image/png", "url": "data:image/png;base64,AA=="}]);
        let parts = [
            call(json!({"status": "completed", "output": "long", "attachments": picture,
                "time": {"start": 1, "compacted": 2}})),
            call(json!({"status": "error", "error": "aborted",
                "metadata": {"interrupted": true, "output": "half"}})),
            call(json!({"status": "error", "error": "denied", "metadata": {"output": "no"}})),
        ];
        let view = view(&json!({"info": {"id": "1", "role": "assistant"}, "parts": parts}));
        let results: Vec<_> = view
            .tool_results
            .iter()
            .map(|it| (it.text.as_str(), it.pictures.len(), it.is_error))
            .collect();
        assert_eq!(results, [(CLEARED, 0, false), ("half", 0, false), ("denied", 0, true)]);
    }

    #[test]
    fn a_message_is_a_turn_with_the_files_and_todos_of_its_tools() {
        let file = br#"{
  "info": {"id": "ses_1", "directory": "/p", "title": "T", "version": "1.2.0"},
  "messages": [
    {"info": {"id": "m1", "role": "user", "time": {"created": 1000}},
     "parts": [{"type": "text", "text": "go"}]},
    {"info": {"id": "m2", "role": "assistant", "modelID": "m", "time": {"created": 2000}},
     "parts": [
       {"type": "step-start", "snapshot": "abc"},
       {"type": "reasoning", "text": "hm"},
       {"type": "tool", "callID": "c1", "tool": "write", "state": {"status": "completed",
        "input": {"filePath": "/p/a.rs", "content": "fn"}, "output": "ok"}},
       {"type": "tool", "callID": "c2", "tool": "edit", "state": {"status": "completed",
        "input": {"filePath": "/p/b.rs"},
        "output": "", "metadata": {"filediff": {"file": "/p/b.rs", "before": "x", "after": "y"}}}},
       {"type": "tool", "callID": "c3", "tool": "apply_patch", "state": {"status": "completed", "input": {},
        "output": "", "metadata": {"files": [{"filePath": "/p/c.rs", "type": "delete", "after": ""}]}}},
       {"type": "tool", "callID": "c4", "tool": "write", "state": {"status": "error",
        "input": {"filePath": "/p/no", "content": "no"}, "error": "denied"}},
       {"type": "tool", "callID": "c5", "tool": "todowrite", "state": {"status": "completed",
        "input": {"todos": [{"content": "t"}]}, "output": ""}}]}
  ]
}"#;
        let events = events_of(&FORMAT, file);
        let expected = [
            "session_id=ses_1",
            "cwd=/p",
            "title=T",
            "version=1.2.0",
            "turn",
            "main User go",
            "turn",
            "main Assistant [write, edit, apply_patch, write, todowrite]",
            "file a.rs: fn",
            "file b.rs: y",
            "file c.rs: none",
            r#"pad todos: [{"content":"t"}]"#,
        ];
        assert_eq!(outline(&events), expected);
        let times = events.iter().filter_map(|event| match event {
            Event::Message(message) => message.time.map(|time| time.micros),
            _ => None,
        });
        assert_eq!(times.collect::<Vec<_>>(), [1_000_000, 2_000_000]);
    }
}
