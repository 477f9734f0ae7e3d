//! Records of files that agents must reread.

use serde::Serialize;

/// `swarm reads`.
#[derive(Debug, Serialize)]
pub(crate) struct Reads {
    /// The snapshot whose reads were checked.
    #[serde(flatten)]
    pub(crate) at: super::CommitId,
    /// Files that were checked.
    pub(crate) checked: u64,
    pub(crate) stale: Vec<StaleRead>,
}

/// A file that must be reread.
#[derive(Debug, Serialize)]
pub(crate) struct StaleRead {
    pub(crate) agent: String,
    pub(crate) path: String,
    /// `changed`, `gone`, `unreadable` or `converted`.
    pub(crate) reason: &'static str,
}
