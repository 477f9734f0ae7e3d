//! The places where each agent keeps its sessions, according to the environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use turntree::platform::HOME_VARIABLE;

use super::name::is_file_of_session;
use super::opencode;

/// Editors whose extensions keep their data in a folder of this name.
const EDITORS: [&str; 5] = ["Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf"];

/// The environment variables that move places, besides that of the home directory.
pub const PLACE_VARIABLES: [&str; 13] = [
    "APPDATA",
    "XDG_DATA_HOME",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "GEMINI_CLI_HOME",
    "COPILOT_HOME",
    "PI_CODING_AGENT_DIR",
    "CLINE_DATA_DIR",
    "OPENCODE_DB",
    "QWEN_HOME",
    "QWEN_RUNTIME_DIR",
    "OPENHANDS_PERSISTENCE_DIR",
    "OPENHANDS_CONVERSATIONS_DIR",
];

/// A place where an agent keeps its sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPlace {
    /// The agent, by the name of its format.
    pub agent: String,
    /// The directory, or a file that the user named. It may be missing.
    pub path: PathBuf,
}

/// A folder in which an agent writes its sessions. It need not be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedFolder {
    /// The folder.
    pub path: PathBuf,
    /// Set when the folders in it are searched, too.
    pub is_deep: bool,
}

impl WatchedFolder {
    /// Returns true if an event for the file or folder at `path` may be about a session: a write
    /// below this folder, or the creation or deletion of this folder.
    #[must_use]
    pub fn concerns(&self, path: &Path) -> bool {
        if self.path.starts_with(path) {
            return true;
        }
        let is_inside = match self.is_deep {
            true => path.starts_with(&self.path),
            false => path.parent() == Some(&self.path),
        };
        // A name without an extension is taken for a folder.
        is_inside && (path.extension().is_none() || is_file_of_session(path))
    }
}

impl SessionPlace {
    /// Returns the folders that sessions of this place are written in.
    #[must_use]
    pub fn folders(&self) -> Vec<WatchedFolder> {
        let folder = |path: PathBuf, is_deep| WatchedFolder { path, is_deep };
        if self.path.is_file() || self.path.extension().is_some_and(|end| end == "db") {
            return self.path.parent().map(|it| folder(it.to_owned(), false)).into_iter().collect();
        }
        // Other files of opencode in this folder are large.
        if self.agent == opencode::AGENT {
            let store = self.path.join(opencode::STORAGE);
            return vec![folder(self.path.clone(), false), folder(store, true)];
        }
        vec![folder(self.path.clone(), true)]
    }
}

/// Returns the places of all known agents, in the order in which they are listed.
///
/// `variable` reads the environment: [`HOME_VARIABLE`], and [`PLACE_VARIABLES`].
/// Without a home directory the result is empty.
#[must_use]
pub fn places(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<SessionPlace> {
    let directory =
        |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let Some(home) = directory(HOME_VARIABLE) else { return Vec::new() };
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
        // oh-my-pi uses the variable of pi, and the XDG data directory if that exists.
        ("pi", home.join(".omp/agent/sessions")),
        ("pi", data.join("omp/sessions")),
    ];
    let qwen = directory("QWEN_RUNTIME_DIR").unwrap_or(below("QWEN_HOME", ".qwen"));
    found.push(("qwen-code", qwen.join("projects")));
    let conversations = below("OPENHANDS_PERSISTENCE_DIR", ".openhands").join("conversations");
    let conversations = directory("OPENHANDS_CONVERSATIONS_DIR").unwrap_or(conversations);
    found.push(("openhands", conversations));
    let settings = [".config", "Library/Application Support"].map(|config| home.join(config));
    for config in settings.into_iter().chain(directory("APPDATA")) {
        let tasks = |editor| {
            let extension = "User/globalStorage/saoudrizwan.claude-dev/tasks";
            ("cline", config.join(editor).join(extension))
        };
        found.extend(EDITORS.map(tasks));
    }
    let cline = below("CLINE_DATA_DIR", ".cline/data");
    found.push(("cline", cline.join("tasks")));
    found.push(("cline-sdk", cline.join("sessions")));
    // A relative path is in the folder of opencode, and is found there by its name.
    let database = directory("OPENCODE_DB").filter(|path| path.is_absolute());
    found.extend(database.map(|path| ("opencode", path)));
    let place = |(agent, path): (&str, PathBuf)| SessionPlace { agent: agent.to_owned(), path };
    found.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_that_move_places_are_listed() {
        let read = std::cell::RefCell::new(Vec::new());
        let variable = |name: &str| {
            read.borrow_mut().push(name.to_owned());
            (name == HOME_VARIABLE).then(|| "/h".into())
        };
        assert!(!places(&variable).is_empty());
        let mut read = read.into_inner();
        read.retain(|name| name != HOME_VARIABLE);
        read.sort_unstable();
        let mut listed = PLACE_VARIABLES;
        listed.sort_unstable();
        assert_eq!(read, listed);
    }

    #[test]
    fn what_is_written_to_a_session_concerns_its_folder_and_other_files_do_not() {
        let place = |agent: &str| SessionPlace { agent: agent.to_owned(), path: "/h/d".into() };
        let concerns = |agent, path: &str| {
            place(agent).folders().iter().any(|folder| folder.concerns(Path::new(path)))
        };
        for path in ["/h/d/p/s.jsonl", "/h/d/p", "/h/d", "/h", "/h/d/r.jsonl.zst"] {
            assert!(concerns("codex", path), "{path}");
        }
        for path in ["/h/d/p/log.txt", "/h/other", "/h/dd/s.jsonl"] {
            assert!(!concerns("codex", path), "{path}");
        }
        for path in ["/h/d/opencode.db-wal", "/h/d/storage/message/m.json"] {
            assert!(concerns("opencode", path), "{path}");
        }
        assert!(!concerns("opencode", "/h/d/log/x.json"));
    }

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
        let home = (HOME_VARIABLE, "/h");
        let tasks = "/r/Code/User/globalStorage/saoudrizwan.claude-dev/tasks";
        assert!(of(&[home, ("APPDATA", "/r")], "cline").iter().any(|path| path == tasks));
        assert_eq!(of(&[home], "codex"), ["/h/.codex/sessions", "/h/.codex/archived_sessions"]);
        assert_eq!(of(&[home, ("CODEX_HOME", "/c")], "codex")[0], "/c/sessions");
        assert_eq!(of(&[home, ("CODEX_HOME", "")], "codex")[0], "/h/.codex/sessions");
        assert_eq!(of(&[home, ("GEMINI_CLI_HOME", "/g")], "gemini-cli"), ["/g/.gemini/tmp"]);
        assert_eq!(of(&[home], "opencode"), ["/h/.local/share/opencode"]);
        let of_omp = ["/h/.omp/agent/sessions", "/d/omp/sessions"];
        assert_eq!(of(&[home, ("XDG_DATA_HOME", "/d")], "pi")[1..], of_omp);
        let moved = [home, ("XDG_DATA_HOME", "/d"), ("OPENCODE_DB", "/e/my.db")];
        assert_eq!(of(&moved, "opencode"), ["/d/opencode", "/e/my.db"]);
        assert!(of(&[], "codex").is_empty());
    }
}
