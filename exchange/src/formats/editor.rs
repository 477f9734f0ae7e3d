//! Tracks edits between call and result: a file changes when the tool reports success.
//!
//! SWE-agent and OpenHands have the same editor tool (`create`, `str_replace`, `insert`), whose
//! arguments [`change_of`] reads; other formats name the change themselves.

use std::collections::HashMap;

use serde_json::Value;

use super::files::{FileChange, FileContents};
use super::session::Session;
use crate::model::event::Event;
use crate::text::json::text_at;

/// Most calls that wait for a result; beyond it all of them are forgotten.
const MAX_OPEN_CALLS: usize = 64;

/// Files, and calls that would change them.
#[derive(Debug, Default)]
pub(super) struct Editor {
    files: FileContents,
    /// The path and the pending change by the id of the call.
    open: HashMap<String, (String, FileChange)>,
}

impl Editor {
    /// The call `id` asks for `change` of the file at `path`.
    pub(super) fn call(&mut self, id: &str, (path, change): (String, FileChange)) {
        if self.open.len() >= MAX_OPEN_CALLS {
            self.open.clear();
        }
        self.open.insert(id.to_owned(), (path, change));
    }

    /// The call `id` has ended; its change is applied if it `succeeded`.
    pub(super) fn result(
        &mut self,
        id: &str,
        succeeded: bool,
        session: &Session,
        events: &mut Vec<Event>,
    ) {
        if let Some((path, change)) = self.open.remove(id).filter(|_| succeeded) {
            self.files.apply(session, &path, &change, events);
        }
    }

    /// The file at `path` was changed.
    pub(super) fn apply(
        &mut self,
        session: &Session,
        path: &str,
        change: &FileChange,
        events: &mut Vec<Event>,
    ) {
        self.files.apply(session, path, change, events);
    }

    /// Another workspace begins.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// The change that a call of the editor tool with `arguments` asks for, and the file.
pub(super) fn change_of(arguments: &Value) -> Option<(String, FileChange)> {
    let text = |path| text_at(arguments, path).map(str::to_owned);
    let change = match text_at(arguments, "/command")? {
        "create" => FileChange::Write(text("/file_text")?),
        "str_replace" => FileChange::Replace {
            old: text("/old_str")?,
            new: text("/new_str").unwrap_or_default(),
            all: false,
        },
        "insert" => {
            let line = arguments.get("insert_line").and_then(Value::as_u64);
            let after = line.and_then(|line| usize::try_from(line).ok())?;
            FileChange::Insert { after, text: text("/new_str")? }
        }
        // The earlier content is not recorded, so the content of the file becomes unknown.
        "undo_edit" => FileChange::Remove,
        _ => return None,
    };
    Some((text("/path")?, change))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::outline;
    use super::*;

    #[test]
    fn a_file_changes_when_the_result_says_so() {
        let (mut editor, mut events) = (Editor::default(), Vec::new());
        let calls = [
            (json!({"command": "create", "path": "/a", "file_text": "x\ny\n"}), true),
            (
                json!({"command": "str_replace", "path": "/a", "old_str": "y", "new_str": "n"}),
                false,
            ),
            (json!({"command": "str_replace", "path": "/a", "old_str": "y", "new_str": "z"}), true),
            (json!({"command": "insert", "path": "/a", "insert_line": 1, "new_str": "i"}), true),
            (json!({"command": "undo_edit", "path": "/a"}), true),
            (json!({"command": "view", "path": "/a"}), true),
        ];
        for (arguments, succeeded) in calls {
            if let Some(edit) = change_of(&arguments) {
                editor.call("id", edit);
            }
            editor.result("id", succeeded, &Session::default(), &mut events);
        }
        let expected =
            ["file /a: x\ny\n", "file /a: x\nz\n", "file /a: x\ni\nz\n", "file /a: none"];
        assert_eq!(outline(&events), expected);
    }
}
