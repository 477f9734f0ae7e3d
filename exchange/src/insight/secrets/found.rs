//! The note of what scans for secrets found, next to a store, so that others need no scan.
//!
//! It has hashes of sessions, which a session that is forgotten later does not survive in, and
//! findings by their rule and id, never by their value. A session that has grown since still has
//! what was found; a collection, which may remove turns, starts a new epoch and so a new note. The
//! note may disappear at any time.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use turntree::error::Result;
use turntree::object::{Kind, ObjectId};
use turntree::repo::Repository;
use turntree::workspace::{read_note, write_note};

use super::SecretFinding;
use crate::secrets::rules_id;

/// The name of the note.
const NOTE: &str = "secrets that were found";

/// The version of the note.
const VERSION: u32 = 1;

/// The findings of sessions, by a hash of their name: rules and ids.
type Found = BTreeMap<String, BTreeSet<(String, String)>>;

#[derive(Serialize, Deserialize)]
struct Note {
    version: u32,
    rules: String,
    epoch: u64,
    sessions: Found,
}

/// Counts the open findings of each session, as far as earlier scans have read it. Reads a note and
/// the settings, and no history.
///
/// # Errors
/// The errors of reading the settings.
pub fn known_secrets(repo: &Repository) -> Result<BTreeMap<String, u64>> {
    let mut found = read(repo);
    if found.is_empty() {
        return Ok(BTreeMap::new());
    }
    let allowed = repo.secret_settings()?.allowed;
    let branches = repo.branches();
    let sessions: BTreeSet<&str> = branches.iter().map(|(branch, _)| branch.session()).collect();
    let found = sessions
        .into_iter()
        .filter_map(|session| Some((session.to_owned(), found.remove(&mark_of(repo, session))?)));
    let open = found.map(|(session, findings)| {
        let is_open =
            |(rule, id): &&(String, String)| !allowed.contains(rule) && !allowed.contains(id);
        let open = findings.iter().filter(is_open).count() as u64;
        (session, open)
    });
    Ok(open.filter(|(_, open)| *open > 0).collect())
}

/// Adds findings to the note. Those of the `covered` sessions, which the scan has read completely,
/// replace earlier ones.
pub(super) fn learn(repo: &Repository, covered: &BTreeSet<String>, findings: &[SecretFinding]) {
    if repo.is_past() {
        return;
    }
    let before = read(repo);
    let mut sessions = before.clone();
    for session in covered {
        sessions.remove(&mark_of(repo, session));
    }
    for finding in findings {
        for place in &finding.places {
            let known = (finding.rule.to_owned(), finding.id.clone());
            sessions.entry(mark_of(repo, &place.session)).or_default().insert(known);
        }
    }
    if sessions != before {
        let (rules, epoch) = (rules_id().to_string(), repo.epoch());
        let note = Note { version: VERSION, rules, epoch, sessions };
        let _ = write_note(repo, NOTE, &serde_json::to_vec(&note).unwrap_or_default());
    }
}

/// Returns the hash of a session's name, keyed by the id of the store.
fn mark_of(repo: &Repository, session: &str) -> String {
    let keyed = [b"turntree session\0", repo.store_id().as_slice(), session.as_bytes()].concat();
    ObjectId::of(Kind::Blob, &keyed).to_string()
}

/// Reads the findings; none from a note of another version, other rules or another epoch.
fn read(repo: &Repository) -> Found {
    let note = read_note(repo, NOTE).and_then(|note| serde_json::from_slice::<Note>(&note).ok());
    let is_current = |note: &Note| {
        note.version == VERSION
            && note.rules == rules_id().to_string()
            && note.epoch == repo.epoch()
    };
    note.filter(is_current).map(|note| note.sessions).unwrap_or_default()
}
