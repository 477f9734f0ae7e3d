//! Sessions of the Cline SDK: one document with the messages of an agent.
//!
//! Messages are those of the Anthropic interface. A file that is attached to a prompt is recorded
//! whole, and followed through the edits of the `editor` tool. The working directory of the session
//! is in a file next to the document. Content that the client changes before it sends it is read as
//! sent: a prompt without its mode marker, and a list of commands with their outputs as JSON. A
//! restored checkpoint begins another session with the messages up to there and their ids.

use std::collections::HashSet;
use std::io::BufRead;

use serde_json::Value;

use super::chat;
use super::conversation::{Conversations, MessageFacts, fields, own_text, plain, record};
use super::editor::Editor;
use super::files::FileChange;
use super::session::Session;
use crate::model::event::{Event, Parser};
use crate::model::format::{Format, FormatRank, FormatReader, Lineage, RecordOrigin, Records};
use crate::model::view::MessageView;
use crate::text::document::{Document, Rules};
use crate::text::json;
use crate::text::json::text_at;
use crate::text::piece::{Piece, Pieces};
use crate::text::shape::JsonShape;

/// The format.
pub(super) const FORMAT: Format = Format {
    name: "cline-sdk",
    title: "Cline SDK session",
    rank: FormatRank::Program,
    recognise,
    view,
    reader: FormatReader::Records(Records {
        side_paths: &["system_prompt"],
        lineage: Some(Lineage::by_id(message_id, |_| RecordOrigin::OwnSession)),
        ..Records::new(split, || Box::new(ClineSdk::default()))
    }),
};

static RULES: Rules = Rules {
    records: &["messages[*]", "system_prompt"],
    fields: &["sessionId", "agent", "version", "updated_at"],
};

/// Returns the id of a message, which a restored session keeps.
fn message_id(message: &Value) -> Option<&str> {
    text_at(message, "/id").filter(|_| message.get("role").is_some())
}

fn recognise(shape: &JsonShape<'_>) -> bool {
    let is_session = shape.has("sessionId") && shape.has("messages");
    let is_own = shape.has_any(&["agent", "version", "system_prompt"])
        && !shape.has_any(&["id", "projectHash"]);
    !shape.is_array && is_session && is_own
}

fn split<'r>(input: Box<dyn BufRead + 'r>) -> Pieces<'r> {
    Box::new(Document::new(input, &RULES))
}

#[derive(Debug, Default)]
struct ClineSdk {
    session: Session,
    conversations: Conversations,
    editor: Editor,
    /// The ids of the messages so far.
    seen: HashSet<String>,
    /// The working directory, if the caller gives it before a record does.
    directory: Option<String>,
}

impl Parser for ClineSdk {
    fn set_directory(&mut self, directory: &str) {
        self.directory = Some(directory.to_owned());
    }

    fn piece(&mut self, piece: &Piece, events: &mut Vec<Event>) {
        self.session.fact("cwd", self.directory.take().as_deref(), events);
        for (path, value) in fields(piece) {
            let key = match path {
                "sessionId" => "session_id",
                "agent" => "agent",
                "version" => "version",
                _ => "updated",
            };
            self.session.fact(key, plain(value.as_ref()).as_deref(), events);
        }
        match record(piece, events) {
            Some(("system_prompt", prompt)) => {
                let agent = self.conversations.agent(None).to_owned();
                events.push(Event::SystemPrompt {
                    agent,
                    content: own_text(&chat::text_of(&prompt)),
                });
            }
            Some((_, message)) => self.message(&message, events),
            None => {}
        }
    }
}

impl ClineSdk {
    fn message(&mut self, message: &Value, events: &mut Vec<Event>) {
        if message_id(message).is_some_and(|id| !self.seen.insert(id.to_owned())) {
            // A message that was written twice is one.
            return;
        }
        // Notes of the client, as that a request failed, are for the screen.
        if message.pointer("/metadata/displayOnly") == Some(&Value::Bool(true)) {
            return;
        }
        let facts = MessageFacts {
            conversation: None,
            time: chat::time(message),
            model: chat::model(message),
        };
        self.conversations.push(&view(message), facts, events);
        let blocks = message.get("content").and_then(Value::as_array);
        for block in blocks.into_iter().flatten() {
            self.block(block, events);
        }
    }

    fn block(&mut self, block: &Value, events: &mut Vec<Event>) {
        let text = |path| text_at(block, path);
        match text("/type") {
            Some("file") => {
                if let Some((path, content)) = text("/path").zip(text("/content")) {
                    let change = FileChange::Write(content.to_owned());
                    self.editor.apply(&self.session, path, &change, events);
                }
            }
            Some("tool_use") if text("/name") == Some("editor") => {
                if let Some((id, edit)) = text("/id").zip(block.get("input").and_then(change_of)) {
                    self.editor.call(id, edit);
                }
            }
            Some("tool_result") => {
                let id = text("/tool_use_id").unwrap_or_default();
                self.editor.result(id, has_succeeded(block), &self.session, events);
            }
            _ => {}
        }
    }
}

/// The display roles of words of the user that the client wrote, such as a summary.
const ADDED: [&str; 2] = ["system", "status"];

fn view(message: &Value) -> MessageView {
    let mut view = chat::view(message);
    view.is_added = text_at(message, "/metadata/displayRole").is_some_and(|it| ADDED.contains(&it))
        || text_at(message, "/metadata/kind") == Some("compaction_summary");
    if let Some(prompt) = without_mode(&view.text) {
        view.text = prompt.to_owned();
    }
    let blocks = message.get("content").and_then(Value::as_array).into_iter().flatten();
    let results = blocks.filter(|block| text_at(block, "/type") == Some("tool_result"));
    for (result, block) in view.tool_results.iter_mut().zip(results) {
        let list = block.get("content").filter(|content| is_of_commands(content));
        if let Some(list) = list {
            result.text = list.to_string();
        }
    }
    view
}

/// Returns a prompt without the marker of the user's mode, which the client omits, too.
fn without_mode(text: &str) -> Option<&str> {
    let (_, rest) = text.strip_prefix("<user_input mode=\"")?.split_once("\">")?;
    rest.strip_suffix("</user_input>")
}

/// Returns true if a content is a list of queries and their results.
fn is_of_commands(content: &Value) -> bool {
    let is_one = |item: &Value| item.get("query").is_some() && item.get("type").is_none();
    content.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(is_one))
}

/// The change that a call of the `editor` tool asks for, and the file.
fn change_of(input: &Value) -> Option<(String, FileChange)> {
    let text = |path| text_at(input, path).map(str::to_owned);
    let (path, new) = (text("/path")?, text("/new_text")?);
    let change = match text("/old_text") {
        Some(old) => FileChange::Replace { old, new, all: false },
        None if input.get("insert_line").is_none() => FileChange::Write(new),
        // The base of the line number is not recorded, so the content of the file becomes unknown.
        None => FileChange::Remove,
    };
    Some((path, change))
}

/// Returns true if a result, which is JSON in text, reports success.
fn has_succeeded(result: &Value) -> bool {
    let content = text_at(result, "/content").and_then(|text| json::value(text.as_bytes()));
    content.and_then(|content| content.get("success")?.as_bool()).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{events_of, outline};
    use super::*;
    use turntree::context::Role;

    #[test]
    fn prompts_steps_attached_files_and_the_system_prompt_are_told() {
        let file = br#"{"version": 1, "agent": "lead", "sessionId": "s", "messages": [
            {"role": "user", "content": [{"type": "text", "text": "go"},
             {"type": "file", "path": "/p/a", "content": "A"}], "ts": 1},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "editor",
             "input": {"path": "/p/a", "old_text": "A", "new_text": "B"}}], "modelInfo": {"id": "m"}},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1",
             "content": "{\"result\":\"ok\",\"success\":true}"}]}],
            "system_prompt": "be\ngood"}"#;
        let expected = [
            "version=1",
            "agent=lead",
            "session_id=s",
            "turn",
            "main User go",
            "file /p/a: A",
            "turn",
            "main Assistant [editor]",
            r#"main Tool {"result":"ok","success":true}"#,
            "file /p/a: B",
            "prompt main: be\ngood",
        ];
        assert_eq!(outline(&events_of(&FORMAT, file)), expected);
    }

    #[test]
    fn notes_for_the_screen_are_no_messages() {
        let note = json!({"role": "assistant", "content": [{"type": "text", "text": "quota"}],
            "metadata": {"displayOnly": true, "displayRole": "error"}});
        let said = json!({"role": "user", "content": [{"type": "text", "text": "go"}],
            "metadata": {"displayOnly": false}});
        let file = json!({"sessionId": "s", "messages": [said, note]}).to_string();
        let told = outline(&events_of(&FORMAT, file.as_bytes()));
        assert_eq!(told, ["session_id=s", "turn", "main User go"]);
    }

    #[test]
    fn a_summary_is_no_prompt() {
        let said = |metadata: Value| {
            view(&json!({"role": "user", "content": "In short.", "metadata": metadata})).is_prompt()
        };
        assert!(!said(json!({"kind": "compaction_summary"})));
        assert!(!said(json!({"displayRole": "system"})));
        assert!(said(json!({"userRunSpan": 1})));
    }

    #[test]
    fn a_message_that_was_written_twice_is_one() {
        let said = |id: &str| json!({"role": "user", "content": "go", "id": id});
        let file = json!({"sessionId": "s", "messages": [said("a"), said("b"), said("b")]});
        let told = outline(&events_of(&FORMAT, file.to_string().as_bytes()));
        assert_eq!(told[1..], ["turn", "main User go", "turn", "main User go"]);
    }

    #[test]
    fn prompts_and_results_of_commands_read_as_they_are_sent() {
        let prompt = json!({"role": "user", "content": [
            {"type": "text", "text": "<user_input mode=\"act\">Do <b>it</b>.</user_input>"}]});
        assert_eq!(view(&prompt).text, "Do <b>it</b>.");
        let ran =
            json!([{"query": "ls; false", "result": "a\nb\n", "error": "1", "success": false}]);
        let results = json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": "whole"},
            {"type": "tool_result", "tool_use_id": "2", "content": ran},
            {"type": "tool_result", "tool_use_id": "3", "content": [{"type": "text", "text": "t"}]}]});
        let view = view(&results);
        let texts: Vec<_> = view.tool_results.iter().map(|result| result.text.as_str()).collect();
        let list = r#"[{"query":"ls; false","result":"a\nb\n","error":"1","success":false}]"#;
        assert_eq!((view.role, texts), (Role::Tool, vec!["whole", list, "t"]));
    }

    #[test]
    fn files_lie_where_the_session_worked() {
        let mut parser = ClineSdk::default();
        parser.set_directory("/p");
        let file = br#"{"sessionId": "s", "messages": [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "editor",
             "input": {"path": "/p/a", "new_text": "A"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1",
             "content": "{\"success\":true}"}]}]}"#;
        let mut events = Vec::new();
        for piece in split(Box::new(&file[..])) {
            parser.piece(&piece.unwrap(), &mut events);
        }
        let told = outline(&events);
        assert_eq!((told[0].as_str(), told.last().unwrap().as_str()), ("cwd=/p", "file a: A"));
    }
}
