//! A store: opened and closed, its sessions, their history, and what is done to whole branches.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use napi::Result;
use napi::bindgen_prelude::{ToNapiValue, TypeName};
use napi_derive::napi;
use turntree::local::{self, Repo};
use turntree::maintenance::{Policy, Purpose, Scope, auto, collect, remove_policy, set_policy};
use turntree::object::{ObjectId, Time};
use turntree::repo::{BranchName, MergeKind, Signature};
use turntree::store::Tier;
use turntree::{Error, ErrorKind};

use crate::error::raised;
use crate::snapshot::{PathChange, Snapshot, changes, whole};
use crate::transaction::Transaction;
use crate::work::{Promise, promise, promise_of};

const MICROS_PER_SECOND: f64 = 1e6;

/// What a store and its transactions have in common.
pub struct Shared {
    path: PathBuf,
    actor: String,
    maintains: bool,
    state: Mutex<State>,
}

struct State {
    /// `None` once the store is closed.
    repo: Option<Repo>,
    maintenance: Option<JoinHandle<()>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn repo(&self) -> turntree::Result<Repo> {
        let closed = || Error::invalid(format!("the store {} is closed", self.path.display()));
        self.lock().repo.clone().ok_or_else(closed)
    }

    pub(crate) fn resolve(&self, revision: &str) -> turntree::Result<ObjectId> {
        resolve(&self.repo()?, revision)
    }

    /// Packs on a thread of its own what the journal has too much of.
    pub(crate) fn maintain(&self, repo: Repo) {
        if !self.maintains || !auto::is_due(repo.repository()).unwrap_or(false) {
            return;
        }
        let mut state = self.lock();
        let is_busy = state.maintenance.as_ref().is_some_and(|thread| !thread.is_finished());
        if is_busy || state.repo.is_none() {
            return;
        }
        let work = move || {
            // What fails here is tried again after the next commit; the store is as it was.
            let _ = auto::step(repo.repository(), &stamp("maintenance"));
        };
        state.maintenance = std::thread::Builder::new().spawn(work).ok();
    }
}

fn stamp(actor: &str) -> Signature {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    Signature { time: Time { micros, offset_minutes: 0 }, actor: actor.to_owned() }
}

/// The commit of a revision. An id is looked for in what is known first.
fn resolve(repo: &Repo, revision: &str) -> turntree::Result<ObjectId> {
    if let Ok(id) = revision.parse::<ObjectId>()
        && repo.repository().commit(&id).is_ok()
    {
        return Ok(id);
    }
    repo.refresh()?;
    let found = repo.repository().resolve(revision)?;
    match found.path {
        None => Ok(found.commit),
        Some(_) => Err(Error::invalid(format!("'{revision}' names an entry, not a snapshot"))),
    }
}

fn snapshot(repo: &Repo, revision: &str) -> turntree::Result<local::Snapshot> {
    let id = resolve(repo, revision)?;
    repo.snapshot(&id.to_string())
}

fn branch_name(name: &str) -> turntree::Result<BranchName> {
    name.parse()
}

/// The outcome of a merge.
#[napi(object, object_from_js = false)]
pub struct MergeOutcome {
    /// The newest snapshot of the branch now.
    pub id: String,
    /// `up-to-date`, `fast-forward` or `merged`.
    pub kind: &'static str,
    /// Paths that both changed to something else.
    pub conflicts: Vec<String>,
}

/// What a collection did.
#[napi(object, object_from_js = false)]
pub struct CollectReport {
    /// Turns that retention dropped.
    pub expired_turns: f64,
    /// Objects that nothing led to.
    pub freed_objects: f64,
    /// Their bytes.
    pub freed_bytes: f64,
    /// Bytes of new files.
    pub written_bytes: f64,
}

/// A stretch of history, newest snapshot first.
#[napi]
pub struct LogPage {
    found: Vec<local::Snapshot>,
    next: Option<ObjectId>,
}

#[napi]
impl LogPage {
    #[napi(getter, catch_unwind)]
    pub fn snapshots(&self) -> Vec<Snapshot> {
        self.found.iter().map(|inner| Snapshot { inner: inner.clone() }).collect()
    }

    #[napi(getter, catch_unwind)]
    pub fn next(&self) -> Option<String> {
        self.next.map(|id| id.to_string())
    }
}

/// The store in a directory.
#[napi]
pub struct Store {
    shared: Arc<Shared>,
}

impl Store {
    fn repo(&self) -> Result<Repo> {
        self.shared.repo().map_err(raised)
    }

    /// Does work with the handle, which other processes' changes are read into first.
    fn fresh<T: ToNapiValue + TypeName + Send + 'static>(
        &self,
        work: impl FnOnce(&Repo) -> turntree::Result<T> + Send + 'static,
    ) -> Result<Promise<T>> {
        let repo = self.repo()?;
        Ok(promise(move || {
            repo.refresh()?;
            work(&repo)
        }))
    }
}

#[napi]
impl Store {
    #[napi(catch_unwind)]
    pub fn open(
        path: String,
        actor: String,
        create: bool,
        maintain: bool,
    ) -> Promise<Arc<Shared>, Store> {
        let open = move || {
            // A later change of the working directory is not to lead elsewhere.
            let path = std::path::absolute(&path).unwrap_or_else(|_| path.into());
            let repo = match create {
                true => Repo::open_or_create(&path)?,
                false => Repo::open(&path)?,
            };
            let repo = Some(repo.acting_as(actor.clone()));
            let state = Mutex::new(State { repo, maintenance: None });
            Ok(Arc::new(Shared { path, actor, maintains: maintain, state }))
        };
        promise_of(open, |shared| Self { shared })
    }

    #[napi(getter, catch_unwind)]
    pub fn path(&self) -> String {
        self.shared.path.display().to_string()
    }

    #[napi(getter, catch_unwind)]
    pub fn closed(&self) -> bool {
        self.shared.lock().repo.is_none()
    }

    #[napi(catch_unwind)]
    pub fn close(&self) -> Promise<()> {
        let mut state = self.shared.lock();
        let (repo, thread) = (state.repo.take(), state.maintenance.take());
        drop(state);
        promise(move || {
            if let Some(thread) = thread {
                let _ = thread.join();
            }
            drop(repo);
            Ok(())
        })
    }

    #[napi(catch_unwind)]
    pub fn sessions(&self) -> Result<Promise<Vec<String>>> {
        self.fresh(|repo| {
            Ok(repo.sessions().iter().map(|session| session.name().to_owned()).collect())
        })
    }

    #[napi(catch_unwind)]
    pub fn branches(&self, session: Option<String>) -> Result<Promise<Vec<String>>> {
        self.fresh(move |repo| {
            let all = repo.repository().branches().into_iter().map(|(branch, _)| branch);
            let is_wanted =
                |branch: &BranchName| session.as_ref().is_none_or(|name| branch.session() == name);
            Ok(all.filter(is_wanted).map(|branch| branch.to_string()).collect())
        })
    }

    #[napi(catch_unwind)]
    pub fn tip(&self, branch: String) -> Result<Promise<Option<String>>> {
        let branch = branch_name(&branch).map_err(raised)?;
        self.fresh(move |repo| Ok(repo.repository().tip(&branch).map(|id| id.to_string())))
    }

    #[napi(catch_unwind)]
    pub fn snapshot(&self, revision: String) -> Result<Promise<local::Snapshot, Snapshot>> {
        let repo = self.repo()?;
        let read = move || snapshot(&repo, &revision);
        Ok(promise_of(read, |inner| Snapshot { inner }))
    }

    #[napi(catch_unwind)]
    pub fn newest(
        &self,
        branch: String,
    ) -> Result<Promise<Option<local::Snapshot>, Option<Snapshot>>> {
        let repo = self.repo()?;
        branch_name(&branch).map_err(raised)?;
        let read = move || {
            repo.refresh()?;
            repo.session(&branch)?.newest()
        };
        Ok(promise_of(read, |found: Option<_>| found.map(|inner| Snapshot { inner })))
    }

    #[napi(catch_unwind)]
    pub fn begin(&self, branch: String, message: String) -> Result<Transaction> {
        let (change, branch) = (self.repo()?.change(), branch_name(&branch).map_err(raised)?);
        Ok(Transaction::begin(Arc::clone(&self.shared), change, branch, message))
    }

    #[napi(catch_unwind)]
    pub fn fork(&self, branch: String, revision: String) -> Result<Promise<String>> {
        let (repo, name) = (self.repo()?, branch_name(&branch).map_err(raised)?);
        Ok(promise(move || {
            let at = resolve(&repo, &revision)?;
            let mut change = repo.change();
            change.on(&name).expect(None).go_on_from(at);
            change.commit(&format!("fork {name}"))?;
            Ok(at.to_string())
        }))
    }

    /// At most `limit` snapshots from a revision back. Those that expired are passed over.
    #[napi(catch_unwind)]
    pub fn log_page(&self, revision: String, limit: u32) -> Result<Promise<LogPage>> {
        let repo = self.repo()?;
        Ok(promise(move || {
            let start = resolve(&repo, &revision)?;
            let mut page = LogPage { found: Vec::new(), next: None };
            let entries = repo.repository().history(&[start], &[])?.first_parent();
            for entry in entries.take(limit as usize) {
                let entry = entry?;
                page.next = entry.parents.first().copied();
                match repo.snapshot(&entry.id.to_string()) {
                    Err(error) if error.kind() == ErrorKind::Expired => {}
                    found => page.found.push(found?),
                }
            }
            Ok(page)
        }))
    }

    #[napi(catch_unwind)]
    pub fn diff(&self, old: String, new: String) -> Result<Promise<Vec<PathChange>>> {
        let repo = self.repo()?;
        Ok(promise(move || changes(&snapshot(&repo, &old)?, &snapshot(&repo, &new)?)))
    }

    #[napi(catch_unwind)]
    pub fn merge(&self, into: String, theirs: String) -> Result<Promise<MergeOutcome>> {
        self.fresh(move |repo| {
            let outcome = repo.session(&into)?.merge(&repo.session(&theirs)?)?;
            let kind = match outcome.kind {
                MergeKind::UpToDate => "up-to-date",
                MergeKind::FastForward => "fast-forward",
                MergeKind::Merged => "merged",
            };
            let id = outcome.snapshot.id().to_string();
            Ok(MergeOutcome { id, kind, conflicts: outcome.conflicts })
        })
    }

    #[napi(catch_unwind)]
    pub fn undo(&self) -> Result<Promise<Option<String>>> {
        self.fresh(Repo::undo)
    }

    #[napi(catch_unwind)]
    pub fn redo(&self) -> Result<Promise<Option<String>>> {
        self.fresh(Repo::redo)
    }

    #[napi(catch_unwind)]
    pub fn delete(&self, session: String) -> Result<Promise<bool>> {
        branch_name(&session).map_err(raised)?;
        self.fresh(move |repo| {
            let branches = repo.session(&session)?.branches();
            let mut change = repo.change();
            for branch in &branches {
                change.on(branch.branch()).delete();
            }
            change.commit(&format!("delete {session}"))?;
            Ok(!branches.is_empty())
        })
    }

    #[napi(catch_unwind)]
    pub fn retain(
        &self,
        session: Option<String>,
        turns: Option<f64>,
        seconds: Option<f64>,
        budget_bytes: Option<f64>,
    ) -> Result<Promise<()>> {
        let (repo, actor) = (self.repo()?, self.shared.actor.clone());
        let keep_within = seconds.map(micros).transpose().map_err(raised)?;
        let (keep_last, budget_bytes) = (turns.map(whole), budget_bytes.map(whole));
        let rules = Policy { keep_last, keep_within, budget_bytes, ..Policy::default() };
        Ok(promise(move || {
            let scope = session.as_deref().map_or(Scope::Default, Scope::Session);
            let mut change = repo.repository().begin();
            match rules == Policy::default() {
                true => remove_policy(&mut change, scope)?,
                false => set_policy(&mut change, scope, &rules)?,
            }
            change.commit(&stamp(&actor), "retention").map(drop)
        }))
    }

    #[napi(catch_unwind)]
    pub fn collect(&self, repack: bool) -> Result<Promise<CollectReport>> {
        let (repo, stamp) = (self.repo()?, stamp(&self.shared.actor));
        Ok(promise(move || {
            let mut done = collect(repo.repository(), Purpose::Gc, &stamp, &mut |_| ())?;
            if repack {
                let purpose = Purpose::Repack(Tier::Compacted);
                let packed = collect(repo.repository(), purpose, &stamp, &mut |_| ())?;
                done.written_bytes += packed.written_bytes;
            }
            Ok(CollectReport {
                expired_turns: done.expired_turns as f64,
                freed_objects: done.freed.objects as f64,
                freed_bytes: done.freed.bytes as f64,
                written_bytes: done.written_bytes as f64,
            })
        }))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "bounds are checked before")]
fn micros(seconds: f64) -> turntree::Result<i64> {
    let micros = seconds * MICROS_PER_SECOND;
    match (0.0..1e18).contains(&micros) {
        true => Ok(micros as i64),
        false => Err(Error::invalid(format!("{seconds} is no number of seconds from now back"))),
    }
}
