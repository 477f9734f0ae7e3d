//! Records of sessions.

use schemars::JsonSchema;
use serde::Serialize;
use turntree_exchange::{SessionSummary, TitleSource};

use crate::view::clock;

/// `sessions`.
#[derive(Debug, Serialize)]
pub(crate) struct Sessions {
    pub(crate) sessions: Vec<SessionRecord>,
}

/// One session.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionRecord {
    pub(crate) session: String,
    /// The branch with the newest snapshot.
    pub(crate) branch: String,
    /// That snapshot.
    pub(crate) id: String,
    pub(crate) time: String,
    /// Its title by the user or client, else the first prompt.
    pub(crate) title: Option<String>,
    /// `person`, `client` or `prompt`: the title's source.
    pub(crate) title_source: Option<&'static str>,
    pub(crate) labels: Vec<String>,
    /// Its client, format or person.
    pub(crate) agent: String,
    pub(crate) model: String,
    /// The client's id of the session.
    pub(crate) client_id: Option<String>,
    /// Last part of its directory.
    pub(crate) project: Option<String>,
    pub(crate) directories: Vec<String>,
    pub(crate) git_branch: Option<String>,
    pub(crate) git_remote: Option<String>,
    /// Prompts on the branch.
    pub(crate) prompts: u64,
    /// Number of the newest turn.
    pub(crate) turns: u64,
    /// Files in the newest context; `null` if dropped.
    pub(crate) files: Option<u64>,
    /// Tokens of the newest context, if recorded.
    pub(crate) tokens: Option<u64>,
    pub(crate) branches: u64,
    /// True while a client seems to write it.
    pub(crate) live: bool,
}

/// `session rename` and `session label`: the title and labels of a session.
#[derive(Debug, Serialize)]
pub(crate) struct SessionLabelled {
    pub(crate) session: String,
    pub(crate) title: Option<String>,
    pub(crate) labels: Vec<String>,
}

/// `session map`: the directories of other computers.
#[derive(Debug, Serialize)]
pub(crate) struct DirectoryMap {
    pub(crate) directories: Vec<MappedDirectory>,
}

/// A directory of another computer, and the one here that stands for it.
#[derive(Debug, Serialize)]
pub(crate) struct MappedDirectory {
    pub(crate) old: String,
    pub(crate) new: String,
}

impl SessionRecord {
    /// The record of a session.
    pub(crate) fn new(session: &SessionSummary, live: bool) -> Self {
        let session = session.clone();
        let title = session.title().map(|(title, source)| (title.to_owned(), source));
        let (title, source) = title.unzip();
        let source = source.map(|source| match source {
            TitleSource::Person => "person",
            TitleSource::Client => "client",
            TitleSource::Prompt => "prompt",
        });
        Self {
            project: session.project().map(str::to_owned),
            session: session.name,
            branch: session.branch.branch().to_owned(),
            id: session.tip.to_string(),
            time: clock::rfc3339(session.time),
            title,
            title_source: source,
            labels: session.labels.labels.into_iter().collect(),
            agent: session.agent,
            model: session.model,
            client_id: session.origin.client_id,
            directories: session.origin.directories,
            git_branch: session.origin.git_branch,
            git_remote: session.origin.git_remote,
            prompts: session.prompts,
            turns: session.turns,
            files: session.files,
            tokens: session.tokens,
            branches: session.branches,
            live,
        }
    }
}

/// `view`: the address of the server.
#[derive(Debug, Serialize)]
pub(crate) struct ViewAddress {
    /// The address, including the key.
    pub(crate) url: String,
    pub(crate) port: u16,
}
