//! Implements `fsck`: checks that every required object exists and verifies.
//!
//! ```text
//!  files ──> records, frames, indexes, every object by its hash      Store::examine
//!  refs ──> operations ──> commits ──> contexts ──> blobs             here
//! ```
//!
//! The store is read from disk. Then everything that must stay is followed from the [`Roots`]: the
//! target of a link must exist and verify, or have a tombstone; otherwise it is lost. The
//! operations must form a gapless chain from the newest to the first kept one, and reverting them
//! one by one must explain every ref.
//!
//! Writes nothing and makes no other process wait. A collection may delete files concurrently, so
//! apparent losses are checked again.

use std::collections::HashSet;

use crate::error::Result;
use crate::maintenance::keep::parity_policy::{ParityPolicy, parity_policy};
use crate::maintenance::repair::finding::{FsckFinding, FsckKind};
use crate::maintenance::repair::reachability::ReachabilityWalk;
use crate::maintenance::repair::whole_objects::WholeObjects;
use crate::maintenance::repair::whole_turns::{SessionDamage, WholeTurns};
use crate::object::Time;
use crate::repo::{Repository, wrong_history_indexes};
use crate::store::{DetachedOperation, Examination, Finding, FindingKind, Progress, Thoroughness};

/// The maximum number of examinations of a store. It is examined again when a collection deleted
/// files concurrently.
const MAX_ATTEMPTS: usize = 4;

/// The maximum number of refs named for an operation that changed many.
const MAX_NAMED: usize = 4;

/// The report of `fsck`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FsckReport {
    /// Objects in all files; an object in two files counts twice.
    pub objects: u64,
    /// Commits reachable from the roots.
    pub commits: u64,
    /// The number of their contexts that expired or were redacted.
    pub elided: u64,
    /// Operations from the newest to the first kept one.
    pub operations: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Damage and notes.
    pub findings: Vec<FsckFinding>,
    /// The sessions with lost turns, by name.
    pub sessions: Vec<SessionDamage>,
    /// The parity policy of the store; `None` also if it cannot be read, which is a finding.
    pub parity_policy: Option<ParityPolicy>,
    /// The damage that a repair fixes by parity; `None` if parity cannot help.
    pub by_parity: Option<MendedByParity>,
}

/// Damage that a repair fixes by parity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MendedByParity {
    /// Paths in the store of the packs that parity restores.
    pub packs: Vec<String>,
    /// For each finding, in order, true if the repair fixes it.
    pub findings: Vec<bool>,
}

impl MendedByParity {
    /// Returns true if a repair leaves no damage.
    #[must_use]
    pub fn is_all(&self, report: &FsckReport) -> bool {
        let left = report.findings.iter().zip(&self.findings);
        left.filter(|(finding, _)| finding.kind.is_damage()).all(|(_, mended)| *mended)
    }
}

impl FsckReport {
    /// Returns true if nothing is damaged or lost.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.findings.iter().all(|finding| !finding.kind.is_damage())
    }
}

/// Examines a store; other processes may read and write it concurrently.
///
/// Reads every byte on all processors; [`Thoroughness::Quick`] reads only the structure. Takes some
/// tens of bytes of memory per object. Reports the number of processed bytes to `progress`.
///
/// # Errors
/// Errors of opening the store. Other damage is in the report.
pub fn fsck(
    repo: &Repository,
    thoroughness: Thoroughness,
    now: Time,
    progress: &mut Progress<'_>,
) -> Result<FsckReport> {
    let store = repo.store();
    let mut attempt = 1;
    loop {
        let examination = store.examine(thoroughness, progress)?;
        let mut report = report(&examination, &ReachabilityWalk::find(&examination, now.micros));
        report.parity_policy = parity_policy(repo).unwrap_or_default();
        if thoroughness == Thoroughness::Full {
            report.findings.extend(wrong_history_indexes(store).into_iter().map(wrong_index));
        }
        report.by_parity = find_repairable(&examination, &report)?;
        if report.is_ok() || attempt == MAX_ATTEMPTS || examination.is_current()? {
            return Ok(report);
        }
        attempt += 1;
    }
}

/// Joins the findings of an examination and of the walk from its roots.
pub(in crate::maintenance) fn report(
    examination: &Examination<'_>,
    reach: &ReachabilityWalk<'_>,
) -> FsckReport {
    let mut findings: Vec<FsckFinding> = examination.findings.iter().map(finding).collect();
    findings.extend(examination.detached.iter().map(detached_finding));
    findings.extend(reach.findings.iter().cloned());
    // Damage first, because most readers stop at the first lines.
    findings.sort_by_key(|finding| !finding.kind.is_damage());
    let mut known = HashSet::new();
    findings.retain(|finding| known.insert((finding.place.clone(), finding.message.clone())));
    let is_lost = findings.iter().any(|finding| finding.kind == FsckKind::Lost);
    let sessions = match is_lost {
        true => WholeTurns::find(reach, &WholeObjects::find(reach)).damage(),
        false => Vec::new(),
    };
    FsckReport {
        objects: examination.inventory.positions() as u64,
        commits: reach.commits,
        elided: reach.elided,
        operations: reach.operations,
        bytes: examination.bytes,
        findings,
        sessions,
        parity_policy: None,
        by_parity: None,
    }
}

/// Finds the damage that parity fixes: findings about restorable packs and about objects in them.
fn find_repairable(
    examination: &Examination<'_>,
    report: &FsckReport,
) -> Result<Option<MendedByParity>> {
    let restorable = examination.restorable()?;
    if restorable.packs.is_empty() {
        return Ok(None);
    }
    let is_mended = |finding: &FsckFinding| match &finding.object {
        Some(id) => restorable.objects.contains(id),
        None => restorable.packs.iter().any(|pack| finding.place.starts_with(pack.as_str())),
    };
    let findings = report.findings.iter().map(is_mended).collect();
    Ok(Some(MendedByParity { packs: restorable.packs, findings }))
}

fn finding(finding: &Finding) -> FsckFinding {
    let Finding { kind, place, message } = finding;
    let kind = match kind {
        FindingKind::TornTail => FsckKind::TornTail,
        FindingKind::Leftover => FsckKind::Leftover,
        FindingKind::Damage => FsckKind::Damaged,
    };
    FsckFinding { kind, place: place.trim_end().to_owned(), message: message.clone(), object: None }
}

fn wrong_index(place: String) -> FsckFinding {
    let message =
        "it does not match the changes of the objects: remove it, 'gc' rebuilds it".into();
    FsckFinding { kind: FsckKind::Damaged, place, message, object: None }
}

fn detached_finding(found: &DetachedOperation) -> FsckFinding {
    let changes = found.operation.changes.iter();
    let names: Vec<&str> = changes.map(|change| change.name.as_str()).take(MAX_NAMED).collect();
    FsckFinding {
        kind: FsckKind::Operations,
        place: format!("operation {}", found.operation.sequence),
        message: format!(
            "it was committed ({}), but the newest operation does not follow it",
            names.join(", ")
        ),
        object: Some(found.id),
    }
}
