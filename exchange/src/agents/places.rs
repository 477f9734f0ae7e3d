//! The places where each agent keeps its sessions, as the environment says.

use std::ffi::OsString;
use std::path::PathBuf;

/// Editors whose extensions keep what they store in a folder of this name.
const EDITORS: [&str; 5] = ["Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf"];

/// A place where an agent keeps its sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPlace {
    /// The agent, called as its format is.
    pub agent: String,
    /// The directory, or a file that somebody named. It need not be there.
    pub path: PathBuf,
}

/// The places of all agents that are known, in the order in which they are listed.
///
/// `variable` reads the environment: `HOME` and `XDG_DATA_HOME`, and what moves the place of an agent.
/// Nothing is known without a `HOME`.
#[must_use]
pub fn places(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<SessionPlace> {
    let directory =
        |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let Some(home) = directory("HOME") else { return Vec::new() };
    let below = |name: &str, default: &str| directory(name).unwrap_or_else(|| home.join(default));
    let data = below("XDG_DATA_HOME", ".local/share");
    let codex = below("CODEX_HOME", ".codex");
    let gemini = directory("GEMINI_CLI_HOME").unwrap_or_else(|| home.clone());
    let mut found = vec![
        ("claude-code", below("CLAUDE_CONFIG_DIR", ".claude").join("projects")),
        ("claude-code", home.join(".config/claude/projects")),
        ("codex", codex.join("sessions")),
        ("codex", codex.join("archived_sessions")),
        ("gemini-cli", gemini.join(".gemini/tmp")),
        ("copilot-cli", below("COPILOT_HOME", ".copilot").join("session-state")),
        ("opencode", data.join("opencode")),
        ("pi", below("PI_CODING_AGENT_DIR", ".pi/agent").join("sessions")),
    ];
    for config in [".config", "Library/Application Support"] {
        let tasks = |editor| {
            let extension = "User/globalStorage/saoudrizwan.claude-dev/tasks";
            ("cline", home.join(config).join(editor).join(extension))
        };
        found.extend(EDITORS.map(tasks));
    }
    let cline = below("CLINE_DATA_DIR", ".cline/data");
    found.push(("cline", cline.join("tasks")));
    found.push(("cline-sdk", cline.join("sessions")));
    // A relative one lies in the folder of opencode, where it is called as all are.
    let database = directory("OPENCODE_DB").filter(|path| path.is_absolute());
    found.extend(database.map(|path| ("opencode", path)));
    let place = |(agent, path): (&str, PathBuf)| SessionPlace { agent: agent.to_owned(), path };
    found.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_moves_places() {
        let of = |variables: &[(&str, &str)], agent: &str| -> Vec<String> {
            let read = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            let of_agent = places(&read).into_iter().filter(|place| place.agent == agent);
            of_agent.map(|place| place.path.display().to_string()).collect()
        };
        let home = ("HOME", "/h");
        assert_eq!(of(&[home], "codex"), ["/h/.codex/sessions", "/h/.codex/archived_sessions"]);
        assert_eq!(of(&[home, ("CODEX_HOME", "/c")], "codex")[0], "/c/sessions");
        assert_eq!(of(&[home, ("CODEX_HOME", "")], "codex")[0], "/h/.codex/sessions");
        assert_eq!(of(&[home, ("GEMINI_CLI_HOME", "/g")], "gemini-cli"), ["/g/.gemini/tmp"]);
        assert_eq!(of(&[home], "opencode"), ["/h/.local/share/opencode"]);
        let moved = [home, ("XDG_DATA_HOME", "/d"), ("OPENCODE_DB", "/e/my.db")];
        assert_eq!(of(&moved, "opencode"), ["/d/opencode", "/e/my.db"]);
        assert!(of(&[], "codex").is_empty());
    }
}
