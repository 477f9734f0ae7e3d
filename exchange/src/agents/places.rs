//! The places where each agent keeps its sessions, according to the environment.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use turntree::platform::HOME_VARIABLE;

use super::environment::Environment;
use super::table::{AGENTS, Agent, agent};
use super::watched::WatchedFolder;

/// A place where an agent keeps its sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPlace {
    /// The agent, by the name of its format.
    pub agent: String,
    /// The directory, or a file that the user named. It may be missing.
    pub path: PathBuf,
}

impl SessionPlace {
    /// Returns the folders that sessions of this place are written in.
    #[must_use]
    pub fn folders(&self) -> Vec<WatchedFolder> {
        if self.path.is_file() || self.path.extension().is_some_and(|end| end == "db") {
            let folder = |path: &Path| WatchedFolder { path: path.to_owned(), is_deep: false };
            return self.path.parent().map(folder).into_iter().collect();
        }
        match agent(&self.agent).filter(|agent| agent.has_other_files) {
            Some(agent) => agent.sources.iter().map(|source| source.watched(&self.path)).collect(),
            None => vec![WatchedFolder { path: self.path.clone(), is_deep: true }],
        }
    }
}

/// Returns the places of all known agents, in the order in which they are listed.
///
/// `variable` reads the environment: [`HOME_VARIABLE`], and [`place_variables`].
/// Without a home directory the result is empty.
#[must_use]
pub fn places(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<SessionPlace> {
    let Some(environment) = Environment::new(variable) else { return Vec::new() };
    let of_agent = |agent: &Agent| {
        let place = |path| SessionPlace { agent: agent.name.to_owned(), path };
        (agent.places)(&environment).into_iter().map(place).collect::<Vec<_>>()
    };
    AGENTS.iter().flat_map(of_agent).collect()
}

/// Returns the time after which `agent` deletes an unchanged session, according to the user's
/// settings. `None` when it keeps sessions, when its rule is unknown, or when its settings cannot
/// be read: then the agent deletes nothing, either. `variable` reads the environment, as for
/// [`places`].
#[must_use]
pub fn swept_after(name: &str, variable: &dyn Fn(&str) -> Option<OsString>) -> Option<Duration> {
    (agent(name)?.swept_after)(&Environment::new(variable)?)
}

/// Returns the environment variables that move places, besides that of the home directory.
#[must_use]
pub fn place_variables() -> Vec<String> {
    let read = RefCell::new(BTreeSet::new());
    let _ = places(&|name| {
        if name == HOME_VARIABLE {
            return Some("/".into());
        }
        read.borrow_mut().insert(name.to_owned());
        None
    });
    read.into_inner().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_that_move_places_are_listed() {
        let listed = place_variables();
        assert!(!listed.iter().any(|name| name == HOME_VARIABLE), "{listed:?}");
        for name in ["APPDATA", "CODEX_HOME", "OPENCODE_DB", "OPENHANDS_CONVERSATIONS_DIR"] {
            assert!(listed.iter().any(|listed| listed == name), "{name}");
        }
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
        assert_eq!(swept_after("codex", &|_| Some("/h".into())), None);
    }
}
