//! Collects garbage, examines and measures a store.

use pyo3::prelude::*;
use turntree::Result;
use turntree::local::{Repo, Retention};
use turntree::maintenance::{
    FsckReport, Purpose, Stats, StorageUsage, fsck, plan_collection, stats,
};
use turntree::store::{Thoroughness, Tier};

use crate::values::{Answer, datetime_of, named};

/// Examines every byte of a store, or its structure alone.
pub(crate) fn examine(repo: &Repo, quick: bool) -> Result<FsckReport> {
    let thoroughness = if quick { Thoroughness::Quick } else { Thoroughness::Full };
    fsck(repo.repository(), thoroughness, repo.stamp().time, &mut |_, _| ())
}

impl Answer for FsckReport {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let ok = self.is_ok();
        let finding = |found: turntree::maintenance::FsckFinding| {
            let kind = (found.kind.name(), found.kind.is_damage());
            named(py, "Finding", (kind.0, kind.1, found.place, found.message))
        };
        let findings = self.findings.into_iter().map(finding).collect::<PyResult<Vec<_>>>()?;
        let counts = (self.objects, self.commits, self.operations, self.bytes);
        named(py, "FsckReport", (ok, findings, counts.0, counts.1, counts.2, counts.3))
    }
}

/// The outcome or the plan of a collection.
pub(crate) struct Collected {
    pub(crate) expired_turns: u64,
    /// Objects and bytes.
    pub(crate) freed: (u64, u64),
    pub(crate) written_bytes: u64,
}

/// Collects garbage, or plans to.
pub(crate) fn collect(repo: &Repo, repack: bool, dry_run: bool) -> Result<Collected> {
    if dry_run {
        repo.refresh()?;
        let (repository, now) = (repo.repository(), repo.stamp().time);
        let plan = plan_collection(repository, Purpose::Gc, now)?;
        let mut written_bytes = plan.needed_bytes();
        if repack {
            let purpose = Purpose::Repack(Tier::Compacted);
            written_bytes += plan_collection(repository, purpose, now)?.needed_bytes();
        }
        let expired_turns = plan.retention.elided.len() as u64;
        let freed = (plan.garbage.objects, plan.garbage.bytes);
        return Ok(Collected { expired_turns, freed, written_bytes });
    }
    let done = repo.collect(repack)?;
    let freed = (done.freed.objects, done.freed.bytes);
    Ok(Collected { expired_turns: done.expired_turns, freed, written_bytes: done.written_bytes })
}

/// Measures the sessions of a store.
pub(crate) fn measure(repo: &Repo, session: Option<&str>) -> Result<Stats> {
    repo.refresh()?;
    stats(repo.repository(), session, repo.stamp().time)
}

impl Answer for Stats {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let mut sessions = Vec::with_capacity(self.sessions.len());
        let mut all = StorageUsage::default();
        for session in self.sessions {
            let total = session.total();
            all.add(total);
            let oldest = session.oldest_micros.map(|micros| datetime_of(py, micros)).transpose()?;
            let counts = (session.turns, session.elided, session.branches, session.pins);
            let fields = (
                session.session,
                counts.0,
                counts.1,
                counts.2,
                counts.3,
                oldest,
                total.raw_bytes,
                total.stored_bytes,
                session.full_bytes,
            );
            sessions.push(named(py, "SessionStats", fields)?);
        }
        all.add(self.operations);
        all.add(self.other);
        let garbage = (self.garbage.objects, self.garbage.bytes);
        named(py, "Stats", (sessions, all.objects, all.raw_bytes, all.stored_bytes, garbage.1))
    }
}

impl Answer for Collected {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let (objects, bytes) = self.freed;
        named(py, "Collected", (self.expired_turns, objects, bytes, self.written_bytes))
    }
}

impl Answer for Retention {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        named(py, "Retention", (self.turns, self.seconds, self.budget_bytes))
    }
}
