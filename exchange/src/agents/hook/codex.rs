//! The events and tools of Codex that differ from those of Claude Code.
//!
//! From the schemas in its repository (`hooks/schema/generated`). A patch is text whose headers
//! name the files: `*** Add File: `, `*** Update File: `, `*** Delete File: `, `*** Move to: `.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::{Effect, TouchedFile, text_at};

/// Tools that change no file.
const HARMLESS: &[&str] =
    &["update_plan", "view_image", "read_file", "list_dir", "grep_files", "web_search"];

/// The consent that Codex asks for before it runs hooks; the first for hooks of a project.
pub(super) const TRUST: &[&str] = &[
    "trust the project: confirm when 'codex' asks, or add trust_level = \"trusted\" under \
     [projects.\"PATH\"] to ~/.codex/config.toml",
    "start 'codex' once and accept the hooks that it shows for review; until then 'codex' and \
     'codex exec' skip them silently, unless started with --dangerously-bypass-hook-trust",
    "check with 'turntree hook check' that the hook was called",
];

/// The marks before the path of a file that exists after the patch, and that may be gone.
const HEADERS: &[(&str, bool)] = &[
    ("*** Add File: ", false),
    ("*** Update File: ", true),
    ("*** Delete File: ", true),
    ("*** Move to: ", false),
];

/// Most files of one patch.
const MAX_FILES: usize = 1000;

pub(super) fn effect(tool: &str) -> Effect {
    match tool {
        "apply_patch" => Effect::Files,
        _ if HARMLESS.contains(&tool) => Effect::Nothing,
        _ => Effect::Anything,
    }
}

pub(super) fn files(event: &Map<String, Value>) -> Vec<TouchedFile> {
    let patch = ["command", "input", "patch"];
    let patch = patch.iter().find_map(|name| text_at(event, ["tool_input", name]));
    let file = |line: &str| {
        let (start, may_be_gone) = HEADERS.iter().find(|(start, _)| line.starts_with(start))?;
        let path = PathBuf::from(line.strip_prefix(start)?.trim());
        Some(TouchedFile { path, before: None, may_be_gone: *may_be_gone })
    };
    patch.into_iter().flat_map(str::lines).filter_map(file).take(MAX_FILES).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_headers_of_a_patch_name_its_files() {
        let patch = "*** Begin Patch\n*** Update File: src/a.rs\n*** Move to: src/b.rs\n@@\n-x\n+y\n\
                     *** Add File: c\n+*** Delete File: not one\n*** Delete File: d\n*** End Patch\n";
        let event = json!({"tool_input": {"command": patch}});
        let found = files(event.as_object().unwrap());
        let found: Vec<(&str, bool)> =
            found.iter().map(|file| (file.path.to_str().unwrap(), file.may_be_gone)).collect();
        assert_eq!(found, [("src/a.rs", true), ("src/b.rs", false), ("c", false), ("d", true)]);
    }
}
