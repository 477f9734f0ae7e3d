//! The effects of the tools of Claude Code on files and todo lists, from their calls and results.

use serde_json::Value;
use turntree::context::MAIN_AGENT;

use crate::formats::files::FileChange;
use crate::model::event::{Content, Event};
use crate::text::json::text_at;

/// Todo lists of a sub-agent are seen in its calls only.
pub(super) fn sub_agent_todos(agent: &str, line: &Value, events: &mut Vec<Event>) {
    let blocks = line.pointer("/message/content").and_then(Value::as_array);
    for block in blocks.into_iter().flatten() {
        let is_call = text_at(block, "/name") == Some("TodoWrite");
        if let Some(todos) = block.pointer("/input/todos").filter(|_| is_call) {
            events.push(Event::Scratchpad {
                key: todos_key(agent),
                content: Some(Content::own(todos)),
            });
        }
    }
}

pub(super) fn todos_key(agent: &str) -> String {
    if agent == MAIN_AGENT { "todos".to_owned() } else { format!("todos/{agent}") }
}

/// Returns the change of the file that a tool wrote, edited or read. An edit usually records the
/// content before, so its result is known even if the file changed in between. After an edit that
/// does not fit even that content, the content of the file is unknown.
pub(super) fn change(result: &Value) -> Option<FileChange> {
    if let Some(file) = result.get("file") {
        let lines = |name| file.get(name).and_then(Value::as_u64);
        let is_whole = text_at(result, "/type") == Some("text")
            && lines("startLine") == Some(1)
            && lines("numLines").is_some()
            && lines("numLines") == lines("totalLines");
        return text_at(file, "/content")
            .filter(|_| is_whole)
            .map(|text| FileChange::Write(text.into()));
    }
    let Some(old) = text_at(result, "/oldString") else {
        let is_write = matches!(text_at(result, "/type"), Some("create" | "update"));
        return text_at(result, "/content")
            .filter(|_| is_write)
            .map(|text| FileChange::Write(text.into()));
    };
    let new = text_at(result, "/newString")?.to_owned();
    let edit = FileChange::Replace { old: old.to_owned(), new, all: is(result, "replaceAll") };
    match text_at(result, "/originalFile") {
        Some(before) => Some(edit.applied_to(before).map_or(FileChange::Remove, FileChange::Write)),
        None => Some(edit),
    }
}

pub(super) fn is(value: &Value, name: &str) -> bool {
    value.get(name).and_then(Value::as_bool).unwrap_or(false)
}
