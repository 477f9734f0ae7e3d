//! The content filter of a store: reports or masks secrets in new content, according to its
//! settings.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use turntree::error::Result;
use turntree::object::{Kind, ObjectId, RefValue};
use turntree::repo::{ContentFilter, Repository, SECRET_SETTINGS_REF, SecretMode, SecretSettings};

use super::mask::{has_mask, mask_of, mask_secrets};
use super::rules::RULES;
use super::scanner::{FoundSecret, find_secrets};

/// Number of hex digits of the id of a finding.
const ID_DIGITS: usize = 12;

/// Number of values of a content for which every combination of masks is tried.
const MAX_CHOSEN: usize = 4;

/// The allowed secrets of a store.
#[derive(Debug, Clone)]
pub(crate) struct Allowances {
    store: [u8; 16],
    allowed: BTreeSet<String>,
}

impl Allowances {
    /// Returns the allowances of a store with these settings.
    pub(crate) fn of(repo: &Repository, settings: &SecretSettings) -> Self {
        Self { store: repo.store_id(), allowed: settings.allowed.clone() }
    }

    /// Returns the id of a finding: a hash keyed by the id of the store, so that guesses can be
    /// tested only with access to the store.
    pub(crate) fn id(&self, value: &str) -> String {
        let keyed = [b"turntree secret\0", self.store.as_slice(), value.as_bytes()].concat();
        let mut id = ObjectId::of(Kind::Blob, &keyed).to_string();
        id.truncate(ID_DIGITS);
        id
    }

    /// Returns true if the rule or the finding of a secret is allowed.
    pub(crate) fn has(&self, secret: &FoundSecret) -> bool {
        if self.allowed.is_empty() {
            return false;
        }
        self.allowed.contains(secret.rule) || self.allowed.contains(&self.id(&secret.value))
    }
}

/// Reports or masks secrets in new content of a store. Reads the settings at the first use, and
/// again after they have changed.
#[derive(Debug)]
pub struct SecretFilter {
    warns: bool,
    settings: Mutex<Option<Arc<FilterSettings>>>,
    /// New findings, by rule: the ids of values, or the ids of masked contents.
    findings: Mutex<BTreeMap<&'static str, BTreeSet<String>>>,
    /// Masked contents that have not been stored yet.
    masked: Mutex<HashSet<ObjectId>>,
}

#[derive(Debug)]
struct FilterSettings {
    /// The value of the ref that they were read from.
    value: Option<RefValue>,
    mode: SecretMode,
    was_masked: bool,
    allowances: Allowances,
}

/// The findings of a filter in new content since the last call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewSecrets {
    /// The number of stored secrets, by rule.
    Stored(BTreeMap<&'static str, usize>),
    /// The number of masked contents, by rule.
    Masked(BTreeMap<&'static str, usize>),
}

impl SecretFilter {
    /// Creates a filter. It always masks according to the settings. It reports findings only if it
    /// `warns`.
    #[must_use]
    pub fn new(warns: bool) -> Self {
        let (settings, findings, masked) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { warns, settings, findings, masked }
    }

    /// Returns the findings in new content since the last call. `None` if there are none.
    #[must_use]
    pub fn take_new(&self) -> Option<NewSecrets> {
        let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        let findings = std::mem::take(&mut *findings).into_iter();
        let findings: BTreeMap<_, _> = findings.map(|(rule, found)| (rule, found.len())).collect();
        let settings = self.known_settings().clone().filter(|_| !findings.is_empty())?;
        Some(match settings.mode {
            SecretMode::Mask => NewSecrets::Masked(findings),
            SecretMode::Warn | SecretMode::Off => NewSecrets::Stored(findings),
        })
    }

    /// Returns the current settings. A program may keep a store open while another process changes
    /// them.
    fn settings(&self, repo: &Repository) -> Result<Arc<FilterSettings>> {
        let value = repo.refs().value(SECRET_SETTINGS_REF).cloned();
        let known = self.known_settings().clone();
        if let Some(known) = known.filter(|known| known.value == value) {
            return Ok(known);
        }
        let settings = repo.secret_settings()?;
        let (mode, was_masked) = (settings.mode, settings.masked);
        let allowances = Allowances::of(repo, &settings);
        let read = Arc::new(FilterSettings { value, mode, was_masked, allowances });
        *self.known_settings() = Some(Arc::clone(&read));
        Ok(read)
    }

    fn known_settings(&self) -> MutexGuard<'_, Option<Arc<FilterSettings>>> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, rule: &'static str, what: String) {
        let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        findings.entry(rule).or_default().insert(what);
    }

    /// Returns the masked contents.
    fn masked(&self) -> MutexGuard<'_, HashSet<ObjectId>> {
        self.masked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ContentFilter for SecretFilter {
    fn instead(&self, repo: &Repository, content: &[u8]) -> Result<Option<Vec<u8>>> {
        let settings = self.settings(repo)?;
        if settings.mode != SecretMode::Mask {
            return Ok(None);
        }
        let form = mask_secrets(content, &|secret| !settings.allowances.has(secret))?;
        if let Some(form) = form.as_ref().filter(|_| self.warns) {
            self.masked().insert(ObjectId::of(Kind::Blob, form));
        }
        Ok(form)
    }

    fn others(&self, repo: &Repository, content: &[u8]) -> Result<Vec<ObjectId>> {
        if !self.settings(repo)?.was_masked {
            return Ok(Vec::new());
        }
        let values: Vec<String> =
            find_secrets(content).into_iter().map(|secret| secret.value).collect();
        if values.is_empty() {
            return Ok(Vec::new());
        }
        // The allowances at the time of masking are unknown, so try every combination.
        let chosen = values.get(..MAX_CHOSEN.min(values.len())).unwrap_or_default();
        let mut ids = vec![ObjectId::of(Kind::Blob, content)];
        for choice in 0..1_usize << chosen.len() {
            let is_open = |value: &String| {
                chosen
                    .iter()
                    .position(|known| known == value)
                    .is_some_and(|at| choice >> at & 1 == 1)
            };
            if let Some(form) = mask_secrets(content, &|secret| !is_open(&secret.value))? {
                ids.push(ObjectId::of(Kind::Blob, &form));
            }
        }
        if values.len() > MAX_CHOSEN {
            let allowances = &self.settings(repo)?.allowances;
            if let Some(form) = mask_secrets(content, &|secret| !allowances.has(secret))? {
                ids.push(ObjectId::of(Kind::Blob, &form));
            }
        }
        Ok(ids)
    }

    fn stored(&self, repo: &Repository, content: &[u8]) -> Result<()> {
        if !self.warns {
            return Ok(());
        }
        let settings = self.settings(repo)?;
        match settings.mode {
            SecretMode::Off => {}
            SecretMode::Warn => {
                for secret in find_secrets(content) {
                    if !settings.allowances.has(&secret) {
                        self.note(secret.rule, settings.allowances.id(&secret.value));
                    }
                }
            }
            SecretMode::Mask => {
                if !has_mask(content) {
                    return Ok(());
                }
                let id = ObjectId::of(Kind::Blob, content);
                if !self.masked().remove(&id) {
                    return Ok(());
                }
                for rule in RULES {
                    if memchr::memmem::find(content, mask_of(rule.id).as_bytes()).is_some() {
                        self.note(rule.id, id.to_string());
                    }
                }
            }
        }
        Ok(())
    }
}
