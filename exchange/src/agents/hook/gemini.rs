//! The words of Gemini CLI.

use serde_json::{Map, Value};

use super::{Effect, Moment, TouchedFile, named_file};

/// What its events are.
pub(super) const MOMENTS: &[(&str, Moment)] = &[
    ("SessionStart", Moment::Start),
    ("BeforeAgent", Moment::Prompt),
    ("BeforeTool", Moment::BeforeTool),
    ("AfterTool", Moment::AfterTool),
    ("PreCompress", Moment::BeforeCompaction),
    ("AfterAgent", Moment::Stop),
    ("SessionEnd", Moment::End),
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

/// Whether an event is called so by nobody else.
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
