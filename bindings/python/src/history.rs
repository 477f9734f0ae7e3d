//! Iterates over history.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use turntree::context::Selection;
use turntree::local::{self, Host, Repo};
use turntree::object::ObjectId;
use turntree::repo::{PickaxeMatch, PickaxeQuery};
use turntree::{Error, ErrorKind};

use crate::lookup::repo_of;
use crate::process::detached;
use crate::snapshot::Snapshot;

/// Number of snapshots per read during a walk through history.
const LOG_PAGE: usize = 64;

/// Iterates over snapshots backwards from a revision. Skips expired ones.
#[pyclass(frozen, module = "turntree")]
pub(crate) struct Log {
    host: Arc<Host>,
    walk: Mutex<Walk>,
}

/// A walk with its filters.
struct Walk {
    read: VecDeque<turntree::Result<local::Snapshot>>,
    next: Option<ObjectId>,
    /// The number of snapshots still to yield.
    left: u64,
    /// Only snapshots later than this time.
    since: Option<i64>,
    /// Only snapshots that changed something there.
    touched: Selection,
}

impl Log {
    pub(crate) fn new(
        host: Arc<Host>,
        at: ObjectId,
        limit: Option<u64>,
        since: Option<i64>,
        path: Option<String>,
    ) -> Self {
        let touched = Selection::parse(&path.into_iter().collect::<Vec<_>>());
        let left = limit.unwrap_or(u64::MAX);
        let walk = Walk { read: VecDeque::new(), next: Some(at), left, since, touched };
        Self { host, walk: Mutex::new(walk) }
    }
}

#[pymethods]
impl Log {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Snapshot>> {
        let repo = repo_of(&self.host)?;
        let lock = || self.walk.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let found = detached(py, || lock().step(&repo))?;
            match found {
                Step::Found(inner) => return Ok(Some(Snapshot { inner: *inner })),
                Step::End => return Ok(None),
                // A page without any match: a long history has many.
                Step::Nothing => py.check_signals()?,
            }
        }
    }
}

/// Returns the snapshots after `good` up to `bad`, oldest first.
fn line(repo: &Repo, good: &str, bad: &str) -> turntree::Result<Vec<ObjectId>> {
    let (good, bad) = (repo.resolve(good)?, repo.resolve(bad)?);
    let mut line = Vec::new();
    for entry in repo.repository().history(&[bad], &[])?.first_parent() {
        let entry = entry?;
        if entry.id == good {
            line.reverse();
            return Ok(line);
        }
        line.push(entry.id);
    }
    let (good, bad) = (good.short(12), bad.short(12));
    Err(Error::invalid(format!("{good} is not an ancestor of {bad} by first parents")))
}

/// Returns the first snapshot after `good` for which `is_bad` returns true; `bad` is the last one.
pub(crate) fn first_bad(
    py: Python<'_>,
    repo: &Repo,
    good: &str,
    bad: &str,
    is_bad: &Bound<'_, PyAny>,
) -> PyResult<local::Snapshot> {
    let mut line = detached(py, || line(repo, good, bad))?;
    let (mut low, mut high) = (0, line.len().saturating_sub(1));
    while low < high {
        let middle = low.midpoint(high);
        let Some(id) = line.get(middle).copied() else { break };
        let read = || repo.snapshot(&id.to_string()).map(Some).or_else(unless_expired);
        match detached(py, read)? {
            None => {
                line.remove(middle);
                high -= 1;
            }
            Some(inner) => match is_bad.call1((Snapshot { inner },))?.is_truthy()? {
                true => high = middle,
                false => low = middle + 1,
            },
        }
        py.check_signals()?;
    }
    let id = line.get(low).copied();
    detached(py, || {
        let id = id.ok_or_else(|| Error::invalid("there is no snapshot after the good one"))?;
        repo.snapshot(&id.to_string())
    })
}

/// Returns `None` instead of the error for an expired snapshot.
fn unless_expired(error: Error) -> turntree::Result<Option<local::Snapshot>> {
    if error.kind() == ErrorKind::Expired { Ok(None) } else { Err(error) }
}

/// The outcome of reading on.
enum Step {
    Found(Box<local::Snapshot>),
    Nothing,
    End,
}

impl Walk {
    /// Returns the next snapshot, or reads a page. Skips expired snapshots.
    fn step(&mut self, repo: &Repo) -> turntree::Result<Step> {
        if self.left == 0 {
            return Ok(Step::End);
        }
        while let Some(found) = self.read.pop_front() {
            match found {
                Err(error) if error.kind() == ErrorKind::Expired => {}
                Err(error) => return Err(error),
                Ok(snapshot) => {
                    self.left -= 1;
                    return Ok(Step::Found(Box::new(snapshot)));
                }
            }
        }
        let Some(start) = self.next.take() else { return Ok(Step::End) };
        self.read_page(repo, start)?;
        Ok(Step::Nothing)
    }

    fn read_page(&mut self, repo: &Repo, start: ObjectId) -> turntree::Result<()> {
        let repository = repo.repository();
        let query = PickaxeQuery { paths: self.touched.clone(), text: None };
        let mut touches = (!self.touched.is_all()).then(|| repository.touches(query));
        let entries = repository.history(&[start], &[])?.first_parent();
        // Reads no more snapshots than are wanted, if each one is.
        let count = match touches.is_none() && self.since.is_none() {
            true => LOG_PAGE.min(usize::try_from(self.left).unwrap_or(LOG_PAGE)),
            false => LOG_PAGE,
        };
        for entry in entries.take(count) {
            let entry = entry?;
            self.next = entry.parents.first().copied();
            if self.since.is_some_and(|since| entry.commit.time.micros <= since) {
                continue;
            }
            let touched = touches.as_mut().map(|touches| touches.of(&entry)).transpose()?;
            if touched.is_none_or(|touched| touched == PickaxeMatch::Yes) {
                self.read.push_back(repo.snapshot(&entry.id.to_string()));
            }
        }
        Ok(())
    }
}
