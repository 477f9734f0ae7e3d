//! The tool of an event: its effect, and the files that it changed.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::{Dialect, EventKind, text, text_at};

/// Longest key of a call, in characters.
const MAX_KEY_CHARS: usize = 120;

/// The effect of a tool on files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It changes nothing.
    Nothing,
    /// It changes the files that it names.
    Files,
    /// It may change anything, as a shell does; so may an unknown tool.
    Anything,
}

/// A file that a tool changed.
#[derive(Clone, PartialEq, Eq)]
pub struct TouchedFile {
    /// As the client wrote it: absolute, or from the working directory.
    pub path: PathBuf,
    /// The content before, if the client reports it.
    pub before: Option<String>,
    /// True if a missing file means that the tool deleted it.
    pub may_be_gone: bool,
}

/// Content of files must not end in logs by accident.
impl std::fmt::Debug for TouchedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let before = self.before.as_ref().map(String::len);
        f.debug_struct("TouchedFile").field("before", &before).finish_non_exhaustive()
    }
}

/// A tool that runs or has run.
#[derive(Clone, PartialEq)]
pub struct ToolEvent {
    /// The effect.
    pub effect: Effect,
    /// The client's id of the call, by which the transcript names it.
    pub call: Option<String>,
    /// Matches the events before and after the tool: the id of the call, otherwise the tool and the
    /// beginning of its input.
    pub key: String,
    /// The command, of a shell.
    pub command: Option<String>,
    /// The files that it changed.
    pub files: Vec<TouchedFile>,
    /// The output, in the form of the client.
    pub(super) response: Value,
    /// Its name.
    pub(super) name: String,
}

/// The user's content must not get into logs by accident.
impl std::fmt::Debug for ToolEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { effect, files, .. } = self;
        f.debug_struct("ToolEvent")
            .field("effect", effect)
            .field("files", files)
            .finish_non_exhaustive()
    }
}

impl ToolEvent {
    /// Returns true if the tool is a sub-agent, which writes a separate transcript.
    #[must_use]
    pub fn runs_agent(&self) -> bool {
        matches!(&*self.name, "Agent" | "Task")
    }
}

/// The tool that an event is about.
pub(super) fn tool(event: &Map<String, Value>, dialect: Dialect, moment: EventKind) -> ToolEvent {
    let name = text(event, "tool_name").unwrap_or_default().to_owned();
    let effect = dialect.effect(&name);
    let command = event.get("tool_input").and_then(|input| input.get("command"));
    let command = match command {
        Some(Value::String(command)) => Some(command.clone()),
        Some(Value::Array(words)) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            Some(words.join(" "))
        }
        _ => None,
    };
    let files = match (effect, moment) {
        (Effect::Files, EventKind::AfterTool) => dialect.files(event),
        _ => Vec::new(),
    };
    let response = event.get("tool_response").cloned().unwrap_or_default();
    let call = dialect.call(event).map(str::to_owned);
    let key = match text(event, "tool_use_id").filter(|id| !id.is_empty()) {
        Some(id) => id.to_owned(),
        None => {
            let input = event.get("tool_input").map(Value::to_string).unwrap_or_default();
            format!("{name} {input}")
        }
    };
    let key = key.chars().take(MAX_KEY_CHARS).collect();
    ToolEvent { effect, call, key, command, files, response, name }
}

/// The one file that a tool was called for, under the first of the names that its input has.
pub(super) fn named_file(
    event: &Map<String, Value>,
    names: &[&str],
    before: Option<&str>,
) -> Vec<TouchedFile> {
    let path = names.iter().find_map(|name| text_at(event, ["tool_input", name]));
    let file = |path: &str| TouchedFile {
        path: PathBuf::from(path),
        before: before.map(str::to_owned),
        may_be_gone: false,
    };
    path.map(file).into_iter().collect()
}
