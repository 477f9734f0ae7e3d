//! The events and tools of Claude Code, and of Codex where they are the same.
//!
//! From the types of its SDK (0.3.329) and the events of version 2.1.329. `tool_response` of a file
//! tool has `originalFile`, the content before, which is `null` for a new file.

use serde_json::{Map, Value};

use super::{Effect, EventKind, TouchedFile, named_file, text, text_at};

/// The events of the client.
pub(super) const MOMENTS: &[(&str, EventKind)] = &[
    ("SessionStart", EventKind::Start),
    ("UserPromptSubmit", EventKind::Prompt),
    ("PreToolUse", EventKind::BeforeTool),
    ("PostToolUse", EventKind::AfterTool),
    ("PostToolUseFailure", EventKind::AfterTool),
    ("PreCompact", EventKind::BeforeCompaction),
    ("SubagentStop", EventKind::AgentEnd),
    ("Stop", EventKind::Stop),
    ("StopFailure", EventKind::Stop),
    ("SessionEnd", EventKind::End),
];

/// The file below the settings that makes the command `/rollback` known, for the hook to answer.
pub(super) const ROLLBACK: (&str, &str) = (
    "commands/rollback.md",
    "---\n\
     description: Go back to before the newest prompt, files and session (turntree)\n\
     argument-hint: \"[N | to TURN]\"\n\
     ---\n\
     The hook of turntree answers this command before you see it, and it did not run. Change nothing, \
     and say that 'turntree hook check' tells why.\n",
);

/// Tools that change no file.
const HARMLESS: &[&str] = &[
    "AskUserQuestion",
    "BashOutput",
    "EnterPlanMode",
    "ExitPlanMode",
    "Glob",
    "Grep",
    "KillShell",
    "LS",
    "NotebookRead",
    "Read",
    "Skill",
    "TaskOutput",
    "TodoWrite",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
];

/// The tools above whose output is a text and not the content of a file.
pub(super) const TALKATIVE: &[&str] =
    &["BashOutput", "Grep", "TaskOutput", "WebFetch", "WebSearch"];

pub(super) fn effect(tool: &str) -> Effect {
    match tool {
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => Effect::Files,
        _ if HARMLESS.contains(&tool) => Effect::Nothing,
        _ => Effect::Anything,
    }
}

pub(super) fn files(event: &Map<String, Value>) -> Vec<TouchedFile> {
    let before = text_at(event, ["tool_response", "originalFile"]);
    let failed = text(event, "hook_event_name") == Some("PostToolUseFailure");
    named_file(event, &["file_path", "notebook_path"], before.filter(|_| !failed))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_tool_names_its_file_and_what_was_in_it() {
        let event = json!({"hook_event_name": "PostToolUse", "tool_input": {"file_path": "/p/a"},
                           "tool_response": {"originalFile": "old"}});
        let files = files(event.as_object().unwrap());
        let [TouchedFile { path, before, may_be_gone: false }] = &files[..] else { panic!() };
        assert_eq!((path.to_str(), before.as_deref()), (Some("/p/a"), Some("old")));
        assert_eq!(effect("Read"), Effect::Nothing);
        assert_eq!(effect("mcp__db__query"), Effect::Anything);
    }
}
