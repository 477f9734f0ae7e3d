//! The known agents: one table with the facts about each.
//!
//! A row has the places of an agent's sessions, and where it applies the way to keep several in one
//! file or folder, the rule by which the agent deletes them, and the way to resume one. A format
//! follows from the content of a file, so a place may hold anything.

use std::path::PathBuf;
use std::time::Duration;

use super::environment::Environment;
use super::found::{FoundSession, SessionSource};
use super::layout::{self, ResumeForm};
use super::opencode::{Databases, Storage};
use super::openhands::Conversations;
use super::sweep;
use crate::render::native::NativeAgent;

/// The facts about an agent.
#[derive(Clone, Copy)]
pub(super) struct Agent {
    /// The name, which is that of its format.
    pub(super) name: &'static str,
    /// The name in texts.
    pub(super) title: &'static str,
    /// Returns the places of its sessions: folders, or files.
    pub(super) places: fn(&Environment<'_>) -> Vec<PathBuf>,
    /// Its databases and folders of sessions; empty if each session is a file.
    pub(super) sources: &'static [&'static dyn SessionSource],
    /// True if nothing else in its places is looked at.
    pub(super) has_other_files: bool,
    /// Returns the time after which it deletes an unchanged session; `None` if it keeps them.
    pub(super) swept_after: fn(&Environment<'_>) -> Option<Duration>,
    /// How it resumes a session that is written for it.
    pub(super) resume: Option<ResumeForm>,
}

/// An agent that keeps each session as a file, and deletes none.
const AGENT: Agent = Agent {
    name: "",
    title: "",
    places: |_| Vec::new(),
    sources: &[],
    has_other_files: false,
    swept_after: |_| None,
    resume: None,
};

/// The known agents, in the order in which they are listed.
pub(super) const AGENTS: &[Agent] = &[
    Agent {
        name: "claude-code",
        title: "Claude Code",
        places: |environment| {
            let folder = environment.directory_or("CLAUDE_CONFIG_DIR", ".claude");
            vec![folder.join("projects"), environment.home(".config/claude/projects")]
        },
        swept_after: sweep::claude_code,
        resume: Some(ResumeForm {
            agent: NativeAgent::ClaudeCode,
            command: &["claude", "--resume"],
            layout: layout::claude_code,
        }),
        ..AGENT
    },
    Agent {
        name: "codex",
        title: "Codex",
        // The older ones are compressed.
        places: |environment| {
            let folder = environment.directory_or("CODEX_HOME", ".codex");
            vec![folder.join("sessions"), folder.join("archived_sessions")]
        },
        resume: Some(ResumeForm {
            agent: NativeAgent::Codex,
            command: &["codex", "resume"],
            layout: layout::codex,
        }),
        ..AGENT
    },
    Agent {
        name: "gemini-cli",
        title: "Gemini CLI",
        places: |environment| {
            vec![environment.directory_or("GEMINI_CLI_HOME", "").join(".gemini/tmp")]
        },
        swept_after: sweep::gemini_cli,
        resume: Some(ResumeForm {
            agent: NativeAgent::Gemini,
            command: &["gemini", "--resume"],
            layout: layout::gemini_cli,
        }),
        ..AGENT
    },
    Agent {
        name: "copilot-cli",
        title: "Copilot CLI",
        places: |environment| {
            vec![environment.directory_or("COPILOT_HOME", ".copilot").join("session-state")]
        },
        ..AGENT
    },
    Agent {
        name: "opencode",
        title: "opencode",
        places: |environment| {
            let data = data(environment).join("opencode");
            // A relative path is in the folder of opencode, and is found there by its name.
            let database = environment.directory("OPENCODE_DB").filter(|path| path.is_absolute());
            std::iter::once(data).chain(database).collect()
        },
        sources: &[&Databases, &Storage],
        // They are large, and some are secret.
        has_other_files: true,
        resume: Some(ResumeForm {
            agent: NativeAgent::Opencode,
            command: &["opencode", "--session"],
            layout: layout::opencode,
        }),
        ..AGENT
    },
    Agent {
        name: "pi",
        title: "pi",
        // oh-my-pi uses the variable of pi, and the XDG data directory if that exists.
        places: |environment| {
            vec![
                environment.directory_or("PI_CODING_AGENT_DIR", ".pi/agent").join("sessions"),
                environment.home(".omp/agent/sessions"),
                data(environment).join("omp/sessions"),
            ]
        },
        resume: Some(ResumeForm {
            agent: NativeAgent::Pi,
            command: &["pi", "--session"],
            layout: layout::pi,
        }),
        ..AGENT
    },
    Agent {
        name: "qwen-code",
        title: "Qwen Code",
        places: |environment| {
            let usual = environment.directory_or("QWEN_HOME", ".qwen");
            vec![environment.directory("QWEN_RUNTIME_DIR").unwrap_or(usual).join("projects")]
        },
        ..AGENT
    },
    Agent {
        name: "openhands",
        title: "OpenHands",
        places: |environment| {
            let usual = environment.directory_or("OPENHANDS_PERSISTENCE_DIR", ".openhands");
            let usual = usual.join("conversations");
            vec![environment.directory("OPENHANDS_CONVERSATIONS_DIR").unwrap_or(usual)]
        },
        sources: &[&Conversations],
        ..AGENT
    },
    Agent {
        name: "cline",
        title: "Cline",
        places: |environment| {
            let settings =
                [".config", "Library/Application Support"].map(|path| environment.home(path));
            let settings = settings.into_iter().chain(environment.directory("APPDATA"));
            let tasks = |config: PathBuf| {
                EDITORS.map(|editor| {
                    config.join(editor).join("User/globalStorage/saoudrizwan.claude-dev/tasks")
                })
            };
            settings.flat_map(tasks).chain([cline(environment).join("tasks")]).collect()
        },
        ..AGENT
    },
    Agent {
        name: "cline-sdk",
        title: "Cline",
        places: |environment| vec![cline(environment).join("sessions")],
        ..AGENT
    },
];

/// Editors whose extensions keep their data in a folder of this name.
const EDITORS: [&str; 5] = ["Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf"];

fn data(environment: &Environment<'_>) -> PathBuf {
    environment.directory_or("XDG_DATA_HOME", ".local/share")
}

fn cline(environment: &Environment<'_>) -> PathBuf {
    environment.directory_or("CLINE_DATA_DIR", ".cline/data")
}

/// Returns the facts about the agent with this name.
pub(super) fn agent(name: &str) -> Option<&'static Agent> {
    AGENTS.iter().find(|agent| agent.name == name)
}

/// Returns the sources of all agents that do not keep each session as a file.
pub(super) fn sources() -> impl Iterator<Item = &'static dyn SessionSource> {
    AGENTS.iter().flat_map(|agent| agent.sources).copied()
}

/// Returns the source of a session; `None` if it is a file of its own.
pub(super) fn source_of(found: &FoundSession) -> Option<&'static dyn SessionSource> {
    sources().find(|source| source.has(found))
}

/// Returns the names of the agents in texts, in the order in which they are listed.
#[must_use]
pub fn agent_titles() -> Vec<&'static str> {
    let mut titles: Vec<&str> = AGENTS.iter().map(|agent| agent.title).collect();
    titles.dedup();
    titles
}
