//! Examines and measures a store.

use pyo3::prelude::*;
use turntree::Result;
use turntree::local::Repo;
use turntree::maintenance::{FsckReport, Stats, StorageUsage, fsck, stats};
use turntree::store::Thoroughness;

use crate::values::{datetime_of, named};

/// Examines every byte of a store, or its structure alone.
pub(crate) fn examine(repo: &Repo, quick: bool) -> Result<FsckReport> {
    let thoroughness = if quick { Thoroughness::Quick } else { Thoroughness::Full };
    fsck(repo.repository(), thoroughness, repo.stamp().time, &mut |_, _| ())
}

pub(crate) fn report_into_python(py: Python<'_>, report: FsckReport) -> PyResult<Bound<'_, PyAny>> {
    let ok = report.is_ok();
    let finding = |found: turntree::maintenance::FsckFinding| {
        let kind = (found.kind.name(), found.kind.is_damage());
        named(py, "Finding", (kind.0, kind.1, found.place, found.message))
    };
    let findings = report.findings.into_iter().map(finding).collect::<PyResult<Vec<_>>>()?;
    let counts = (report.objects, report.commits, report.operations, report.bytes);
    named(py, "FsckReport", (ok, findings, counts.0, counts.1, counts.2, counts.3))
}

/// Measures the sessions of a store.
pub(crate) fn measure(repo: &Repo, session: Option<&str>) -> Result<Stats> {
    repo.refresh()?;
    stats(repo.repository(), session, repo.stamp().time)
}

pub(crate) fn stats_into_python(py: Python<'_>, stats: Stats) -> PyResult<Bound<'_, PyAny>> {
    let mut sessions = Vec::with_capacity(stats.sessions.len());
    let mut all = StorageUsage::default();
    for session in stats.sessions {
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
    all.add(stats.operations);
    all.add(stats.other);
    let garbage = (stats.garbage.objects, stats.garbage.bytes);
    named(py, "Stats", (sessions, all.objects, all.raw_bytes, all.stored_bytes, garbage.1))
}
