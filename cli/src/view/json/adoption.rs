//! The records of `adopt`, `adopt --reclaim`, `adopt install` and `adopt uninstall`.

use std::collections::BTreeMap;

use serde::Serialize;

/// `adopt`.
#[derive(Serialize)]
pub(crate) struct Adoption {
    pub(crate) dry_run: bool,
    /// The directory of the store that they go into.
    pub(crate) store: String,
    /// Each agent with sessions, by name.
    pub(crate) agents: Vec<AdoptedAgent>,
    /// Files that could be transcripts by their names and are none.
    pub(crate) unrecognized: u64,
    /// Sessions that were forgotten and are left out.
    pub(crate) forgotten: u64,
    pub(crate) failures: Vec<AdoptionFailure>,
    /// With `--dry-run`: what was measured, by agent and project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) projects: Option<Vec<SurveyedProject>>,
    /// With `--reclaim=each`: what became of the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reclaimed: Option<Reclaimed>,
}

/// The sessions of an agent in a project.
#[derive(Serialize)]
pub(crate) struct SurveyedProject {
    pub(crate) agent: String,
    /// The directory that they worked in, else the one of their files.
    pub(crate) project: String,
    pub(crate) sessions: u64,
    pub(crate) unchanged: u64,
    pub(crate) input_bytes: u64,
    /// Bytes of records that another file has, but for times and ids of sessions.
    pub(crate) copied_bytes: u64,
    /// About what a packed store takes for them.
    pub(crate) estimated_bytes: u64,
}

/// The sessions of an agent.
#[derive(Serialize)]
pub(crate) struct AdoptedAgent {
    /// Called as its format is.
    pub(crate) agent: String,
    pub(crate) sessions: u64,
    /// Sessions that the store had already, as they are.
    pub(crate) unchanged: u64,
    /// Sessions that could not be imported.
    pub(crate) failed: u64,
    /// Commits made.
    pub(crate) turns: u64,
    /// Messages in them.
    pub(crate) messages: u64,
    /// Bytes of all its files.
    pub(crate) input_bytes: u64,
    /// Bytes the store grew by.
    pub(crate) new_bytes: u64,
    /// Records of kinds that are not read, by kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) unread: BTreeMap<String, u64>,
    /// Nothing when the agent deletes nothing, or when that is not known.
    pub(crate) sweep: Option<Sweep>,
}

/// What an agent deletes by itself.
#[derive(Serialize)]
pub(crate) struct Sweep {
    /// The time without a change after which it deletes a session.
    pub(crate) after_seconds: u64,
    /// The time to come that the numbers are about.
    pub(crate) within_seconds: u64,
    pub(crate) sessions: u64,
    /// Of these, those that are not in the store as they are there.
    pub(crate) missing: u64,
}

/// A file that could not be imported, or a directory that could not be read.
#[derive(Serialize)]
pub(crate) struct AdoptionFailure {
    pub(crate) path: String,
    pub(crate) error: String,
}

impl From<(String, String)> for AdoptionFailure {
    fn from((path, error): (String, String)) -> Self {
        Self { path, error }
    }
}

/// `adopt install` and `adopt uninstall`.
#[derive(Serialize)]
pub(crate) struct WatchService {
    /// The file of systemd or launchd.
    pub(crate) path: String,
    /// False when the file was so already.
    pub(crate) changed: bool,
    pub(crate) dry_run: bool,
    /// The command that starts or stops it.
    pub(crate) command: Option<String>,
    /// True when it was run.
    pub(crate) ran: bool,
}

/// `adopt --reclaim`.
#[derive(Serialize)]
pub(crate) struct Reclaimed {
    pub(crate) dry_run: bool,
    /// Those that were removed, or would be.
    pub(crate) originals: Vec<ReclaimedOriginal>,
    pub(crate) kept: Vec<KeptOriginal>,
    /// The bytes of `originals`.
    pub(crate) bytes: u64,
}

/// A transcript that the store has byte for byte.
#[derive(Serialize)]
pub(crate) struct ReclaimedOriginal {
    pub(crate) agent: String,
    pub(crate) session: String,
    /// The branch of that session with its bytes; nothing before it is imported.
    pub(crate) branch: Option<String>,
    pub(crate) path: String,
    pub(crate) bytes: u64,
}

/// A transcript that stays.
#[derive(Serialize)]
pub(crate) struct KeptOriginal {
    pub(crate) agent: String,
    pub(crate) session: String,
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// For people.
    pub(crate) reason: String,
}
