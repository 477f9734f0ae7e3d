//! Finds the secrets of a history with their places, without revealing their values.
//!
//! The id of a finding is derived from its value and the store. Users allow and redact a finding by
//! its id, without naming the value.

mod clean;
mod found;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;
use turntree::context::Role;
use turntree::error::Result;
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{
    Gaps, GrepProgress, Prompts, Repository, Scan, ScanPart, ScanPlace, SearchScope, SecretSettings,
};

use self::clean::CleanSessions;
pub use self::found::known_secrets;
use crate::formats::is_prompt;
use crate::secrets::{Allowances, FoundSecret, find_secrets, has_value};

/// Maximum depth to search a record for the field of a secret.
const MAX_DEPTH: usize = 32;

/// A secret and its places.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretFinding {
    /// The id of its rule.
    pub rule: &'static str,
    /// The id of the finding. Derived from the value and the store; reveals neither.
    pub id: String,
    /// True if the rule or the finding is allowed in this store.
    pub is_allowed: bool,
    /// The places, in history order.
    pub places: Vec<SecretPlace>,
    /// The value. For masking only; never display it.
    pub value: String,
}

impl std::fmt::Debug for SecretFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} in {} places", self.rule, self.id, self.places.len())
    }
}

/// A place of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretPlace {
    /// The session of the first turn that has it.
    pub session: String,
    /// The number of that turn.
    pub turn: u64,
    /// The commit of that turn.
    pub commit: ObjectId,
    /// The number of the prompt that the turn belongs to.
    pub prompt: u64,
    /// The part of the history that has it.
    pub part: ScanPart,
    /// The section. Empty for the data of a commit.
    pub section: String,
    /// The key or index in the section. Empty if it contains a secret.
    pub key: String,
    /// The role of a message.
    pub role: Option<Role>,
    /// The path of the field in a record, such as `content[0].text`.
    pub field: Option<String>,
    /// The line in a text, counted from 1.
    pub line: Option<u64>,
}

/// The secrets of a history.
#[derive(Debug)]
pub struct SecretScan {
    /// The findings, including allowed ones, in history order.
    pub findings: Vec<SecretFinding>,
    /// The turns that were not scanned, because they were deleted.
    pub gaps: Gaps,
    /// The errors of unreadable content.
    pub damage: Vec<String>,
    /// The number of scanned blobs.
    pub blobs: u64,
    /// The size of these blobs in bytes.
    pub bytes: u64,
    /// The number of sessions that were not scanned again: an earlier scan found nothing in them, and
    /// they have not changed.
    pub known: u64,
}

/// Scans the whole history in the scopes for secrets. Reads each blob once, and skips the branches
/// of sessions in which an earlier scan found nothing. Such sessions are noted next to the store if
/// the branches of each scope are all branches of one session, and findings always.
///
/// # Errors
/// The errors of [`Repository::scan`] and of reading the settings.
pub fn scan_secrets(
    repo: &Repository,
    scopes: &[SearchScope],
    progress: GrepProgress<'_>,
) -> Result<SecretScan> {
    let settings = repo.secret_settings()?;
    let clean = CleanSessions::read(repo);
    let (scopes, known) = clean.without_known(scopes);
    let scan = repo.scan(&scopes, &find_secrets, progress)?;
    let Scan { places, gaps, damage, blobs, bytes, scopes: results } = scan;
    let mut covered = BTreeSet::new();
    if damage.is_empty() {
        covered = clean.covered(&scopes);
        clean.learn(repo, &scopes, &results);
    }
    let mut findings: BTreeMap<String, SecretFinding> = BTreeMap::new();
    let mut order = Vec::new();
    let mut prompts = repo.prompts(Some(&is_prompt))?;
    for place in &places {
        let content = match (place.part, place.blob) {
            (ScanPart::Content, Some(blob)) => repo.read_as(Kind::Blob, &blob).ok(),
            _ => None,
        };
        for secret in &place.found {
            let at = place_of(place, secret, content.as_deref(), &mut prompts);
            let finding = findings.entry(secret.value.clone()).or_insert_with(|| {
                order.push(secret.value.clone());
                SecretFinding::new(repo, &settings, secret)
            });
            finding.places.push(at);
        }
    }
    let findings: Vec<SecretFinding> =
        order.iter().filter_map(|value| findings.remove(value)).collect();
    found::learn(repo, &covered, &findings);
    Ok(SecretScan { findings, gaps, damage, blobs, bytes, known })
}

impl SecretFinding {
    /// Creates a finding without places.
    #[must_use]
    pub fn new(repo: &Repository, settings: &SecretSettings, secret: &FoundSecret) -> Self {
        let allowances = Allowances::of(repo, settings);
        Self {
            rule: secret.rule,
            id: allowances.id(&secret.value),
            is_allowed: allowances.has(secret),
            places: Vec::new(),
            value: secret.value.clone(),
        }
    }
}

impl SecretScan {
    /// Returns the findings that are not allowed.
    pub fn open(&self) -> impl Iterator<Item = &SecretFinding> {
        self.findings.iter().filter(|finding| !finding.is_allowed)
    }
}

fn place_of(
    place: &ScanPlace<FoundSecret>,
    secret: &FoundSecret,
    content: Option<&[u8]>,
    prompts: &mut Prompts<'_>,
) -> SecretPlace {
    let record = content.and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
    let record = record.filter(|record| record.is_object() || record.is_array());
    let field = record.and_then(|record| field_of(&record, &secret.value, "", 0));
    let line = content.filter(|_| field.is_none()).and_then(|bytes| {
        let before = bytes.get(..secret.offset)?;
        Some(before.iter().filter(|byte| **byte == b'\n').count() as u64 + 1)
    });
    let key = match place.part {
        ScanPart::Key => String::new(),
        _ if !find_secrets(place.key.as_bytes()).is_empty() => String::new(),
        _ => place.key.clone(),
    };
    SecretPlace {
        session: place.session.clone(),
        turn: place.turn,
        commit: place.commit,
        prompt: prompts.count(&place.commit).unwrap_or_default(),
        part: place.part,
        section: place.section.clone(),
        key,
        role: place.role,
        field,
        line,
    }
}

/// Returns the path of the field whose text contains a value.
fn field_of(record: &Value, value: &str, path: &str, depth: usize) -> Option<String> {
    if depth > MAX_DEPTH {
        return None;
    }
    match record {
        Value::String(text) => {
            has_value(text, value).then(|| path.trim_start_matches('.').to_owned())
        }
        Value::Array(items) => items.iter().enumerate().find_map(|(index, item)| {
            let mut path = path.to_owned();
            let _ = write!(path, "[{index}]");
            field_of(item, value, &path, depth + 1)
        }),
        Value::Object(fields) => fields.iter().find_map(|(name, item)| {
            // A field name is untrusted text and may itself be a secret.
            let is_plain = name.len() <= 64 && find_secrets(name.as_bytes()).is_empty();
            let name = if is_plain { name } else { "?" };
            field_of(item, value, &format!("{path}.{name}"), depth + 1)
        }),
        _ => None,
    }
}
