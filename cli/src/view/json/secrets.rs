//! The records of `secrets`, and of refused exports.

use serde::Serialize;

/// `secrets scan`.
#[derive(Serialize)]
pub(crate) struct SecretScan {
    pub(crate) secrets: Vec<SecretFinding>,
    /// Findings that are allowed.
    pub(crate) allowed: u64,
    /// Contents that were read, and their bytes.
    pub(crate) blobs: u64,
    pub(crate) bytes: u64,
    /// Sessions in which an earlier scan found nothing, unchanged since.
    pub(crate) known_clean: u64,
}

/// A secret, without its value.
#[derive(Serialize)]
pub(crate) struct SecretFinding {
    pub(crate) rule: &'static str,
    /// The id for `secrets allow` and `redact --secret`.
    pub(crate) id: String,
    pub(crate) allowed: bool,
    /// Its places.
    pub(crate) count: u64,
    pub(crate) places: Vec<SecretPlace>,
}

/// A place of a secret. Fields that do not apply are left out.
#[derive(Serialize)]
pub(crate) struct SecretPlace {
    pub(crate) session: String,
    /// The first turn that has it, its commit, and the number of its prompt.
    pub(crate) turn: u64,
    pub(crate) id: String,
    pub(crate) prompt: u64,
    /// `content`, `key`, or `commit` for its message, author or metadata.
    pub(crate) part: &'static str,
    pub(crate) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<&'static str>,
    /// The field of a record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) field: Option<String>,
    /// The line of a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u64>,
}

/// Printed by `bundle create`, `export` and `git export` if they would include secrets.
#[derive(Serialize)]
pub(crate) struct SecretsRefused {
    /// True.
    pub(crate) refused: bool,
    pub(crate) secrets: Vec<SecretFinding>,
}

/// `secrets allow`, `secrets mode`.
#[derive(Serialize)]
pub(crate) struct SecretsSet {
    /// `warn`, `mask`, `off`.
    pub(crate) mode: &'static str,
    /// Ids of rules and findings.
    pub(crate) allowed: Vec<String>,
}

/// `secrets rules`.
#[derive(Serialize)]
pub(crate) struct SecretRules {
    pub(crate) rules: Vec<SecretRule>,
}

/// A rule.
#[derive(Serialize)]
pub(crate) struct SecretRule {
    pub(crate) rule: &'static str,
    pub(crate) about: &'static str,
}
