//! The events and tools of Gemini CLI.

use serde_json::{Map, Value};

/// The prompt that the agent gets when no hook answers the command.
macro_rules! unanswered {
    () => {
        "(The hook of turntree answers this command before you see it, and it did not run. Change \
         nothing, and say that 'turntree hook check' tells why.)"
    };
}

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

/// Events that the hook ignores, and that only Gemini CLI has.
const OTHERS: &[&str] = &["BeforeModel", "AfterModel", "BeforeToolSelection"];

/// The file below the settings that makes the command `/rollback` known, for the hook to answer. The
/// client replaces the command by this prompt.
pub(super) const ROLLBACK: (&str, &str) = (
    "commands/rollback.toml",
    concat!(
        "description = \"Go back to before the newest prompt, files and session (turntree)\"\n",
        "prompt = \"\"\"/rollback {{args}}\n\n",
        unanswered!(),
        "\"\"\"\n"
    ),
);

/// The text after the command in the prompt.
const UNANSWERED: &str = unanswered!();

/// Returns the user's prompt without the text that the command file adds.
pub(super) fn said(prompt: &str) -> &str {
    prompt.strip_suffix(UNANSWERED).map_or(prompt, str::trim_end)
}

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

/// Returns true if only Gemini CLI has an event of this name.
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
