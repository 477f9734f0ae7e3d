//! The records of `adopt`, `adopt --reclaim`, `adopt install` and `adopt uninstall`.

use std::collections::BTreeMap;

use serde::Serialize;

/// `adopt`.
#[derive(Serialize)]
pub(crate) struct Adoption {
    pub(crate) dry_run: bool,
    /// The directory of the store.
    pub(crate) store: String,
    /// Each agent with sessions, by name.
    pub(crate) agents: Vec<AdoptedAgent>,
    /// Files with the names of transcripts that are not transcripts.
    pub(crate) unrecognized: u64,
    /// Forgotten sessions that were left out.
    pub(crate) forgotten: u64,
    pub(crate) failures: Vec<AdoptionFailure>,
    /// The measurements by agent and project, with `--dry-run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) projects: Option<Vec<SurveyedProject>>,
    /// The original files, with `--reclaim=each`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reclaimed: Option<Reclaimed>,
}

/// The sessions of an agent in a project.
#[derive(Serialize)]
pub(crate) struct SurveyedProject {
    pub(crate) agent: String,
    /// The directory of the sessions, otherwise of their files.
    pub(crate) project: String,
    pub(crate) sessions: u64,
    pub(crate) unchanged: u64,
    pub(crate) input_bytes: u64,
    /// Bytes of records that another file also has, apart from times and session ids.
    pub(crate) copied_bytes: u64,
    /// Estimated size of them in a packed store.
    pub(crate) estimated_bytes: u64,
}

/// The sessions of an agent.
#[derive(Serialize)]
pub(crate) struct AdoptedAgent {
    /// The name of its format.
    pub(crate) agent: String,
    pub(crate) sessions: u64,
    /// Sessions that the store already had, unchanged.
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
    /// Records of unknown kinds, by kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) unread: BTreeMap<String, u64>,
    /// Sessions in the store whose files the agent no longer has.
    pub(crate) gone: u64,
    /// `null` if the agent deletes nothing, or if that is unknown.
    pub(crate) sweep: Option<Sweep>,
}

/// The automatic deletion of an agent.
#[derive(Serialize)]
pub(crate) struct Sweep {
    /// The time without a change after which it deletes a session.
    pub(crate) after_seconds: u64,
    /// The coming period that the numbers are about.
    pub(crate) within_seconds: u64,
    pub(crate) sessions: u64,
    /// Sessions among these that are not in the store, or not in their current state.
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
    /// False if the file already had this content.
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
    /// Removed originals, or with a dry run those to remove.
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
    /// The branch of that session with its bytes; `null` before the import.
    pub(crate) branch: Option<String>,
    pub(crate) path: String,
    pub(crate) bytes: u64,
}

/// A transcript that is kept.
#[derive(Serialize)]
pub(crate) struct KeptOriginal {
    pub(crate) agent: String,
    pub(crate) session: String,
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// An explanation for people.
    pub(crate) reason: String,
}
