//! The words of Gemini CLI.

use serde_json::{Map, Value};

use super::{Effect, EventKind, TouchedFile, named_file};

/// The events of the client.
pub(super) const MOMENTS: &[(&str, EventKind)] = &[
    ("SessionStart", EventKind::Start),
    ("BeforeAgent", EventKind::Prompt),
    ("BeforeTool", EventKind::BeforeTool),
    ("AfterTool", EventKind::AfterTool),
    ("PreCompress", EventKind::BeforeCompaction),
    ("AfterAgent", EventKind::Stop),
    ("SessionEnd", EventKind::End),
];

/// Events of which nothing is made, and that nobody else has.
const OTHERS: &[&str] = &["BeforeModel", "AfterModel", "BeforeToolSelection"];

/// Tools that change no file.
const HARMLESS: &[&str] = &[
    "activate_skill",
    "ask_user",
    "enter_plan_mode",
    "exit_plan_mode",
    "get_internal_docs",
    "glob",
    "google_web_search",
    "grep_search",
    "list_directory",
    "read_file",
    "read_many_files",
    "save_memory",
    "search_file_content",
    "web_fetch",
    "write_todos",
];

/// Returns true if an event is called so by nobody else.
pub(super) fn is_own(name: &str) -> bool {
    let shared = ["SessionStart", "SessionEnd"];
    OTHERS.contains(&name)
        || MOMENTS.iter().any(|(known, _)| *known == name) && !shared.contains(&name)
}

pub(super) fn effect(tool: &str) -> Effect {
    match tool {
        "write_file" | "replace" => Effect::Files,
        _ if HARMLESS.contains(&tool) => Effect::Nothing,
        _ => Effect::Anything,
    }
}

pub(super) fn files(event: &Map<String, Value>) -> Vec<TouchedFile> {
    named_file(event, &["file_path"], None)
}
