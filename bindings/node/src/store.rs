//! A store: opening and closing, its sessions and history, and operations on whole branches.

use std::sync::Arc;

use napi::Result;
use napi::bindgen_prelude::{ToNapiValue, TypeName};
use napi_derive::napi;
use turntree::ErrorKind;
use turntree::local::{self, Host, HostOptions, Repo, Retention};
use turntree::object::ObjectId;
use turntree::repo::BranchName;
use turntree::store::StoreKeys;

use crate::error::raised;
use crate::snapshot::{PathChange, Snapshot, changes, whole};
use crate::transaction::Transaction;
use crate::work::{Promise, promise, promise_of};

fn snapshot(repo: &Repo, revision: &str) -> turntree::Result<local::Snapshot> {
    repo.snapshot(&repo.resolve(revision)?.to_string())
}

fn branch_name(name: &str) -> turntree::Result<BranchName> {
    name.parse()
}

/// The result of a merge.
#[napi(object, object_from_js = false)]
pub struct MergeOutcome {
    /// The newest snapshot of the branch now.
    pub id: String,
    /// `up-to-date`, `fast-forward` or `merged`.
    pub kind: &'static str,
    /// Conflicting paths.
    pub conflicts: Vec<String>,
}

/// The result of a collection.
#[napi(object, object_from_js = false)]
pub struct CollectReport {
    /// Number of turns that retention expired.
    pub expired_turns: f64,
    /// Number of unreachable objects.
    pub freed_objects: f64,
    /// Bytes of these objects.
    pub freed_bytes: f64,
    /// Bytes of new files.
    pub written_bytes: f64,
}

/// A page of history, newest snapshot first.
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
    host: Arc<Host>,
}

impl Store {
    fn repo(&self) -> Result<Repo> {
        self.host.repo().map_err(raised)
    }

    /// Runs work with the handle, after reading the changes of other processes.
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
        key: Option<&[u8]>,
    ) -> Result<Promise<Arc<Host>, Store>> {
        let keys = key.map(StoreKeys::parse).transpose().map_err(raised)?;
        let options = HostOptions { actor, create, maintain, keys, ..HostOptions::default() };
        let open = move || Ok(Arc::new(Host::open(path, options)?));
        Ok(promise_of(open, |host| Self { host }))
    }

    #[napi(getter, catch_unwind)]
    pub fn path(&self) -> String {
        self.host.dir().display().to_string()
    }

    #[napi(getter, catch_unwind)]
    pub fn closed(&self) -> bool {
        self.host.is_closed()
    }

    #[napi(catch_unwind)]
    pub fn close(&self) -> Promise<()> {
        let closing = self.host.close();
        promise(move || {
            closing.finish();
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
        Ok(Transaction::begin(Arc::clone(&self.host), change, branch, message))
    }

    #[napi(catch_unwind)]
    pub fn fork(&self, branch: String, revision: String) -> Result<Promise<String>> {
        let (repo, name) = (self.repo()?, branch_name(&branch).map_err(raised)?);
        Ok(promise(move || {
            let at = repo.resolve(&revision)?;
            let mut change = repo.change();
            change.on(&name).expect(None).go_on_from(at);
            change.commit(&format!("fork {name}"))?;
            Ok(at.to_string())
        }))
    }

    /// Returns at most `limit` snapshots backwards from a revision. Skips expired ones.
    #[napi(catch_unwind)]
    pub fn log_page(&self, revision: String, limit: u32) -> Result<Promise<LogPage>> {
        let repo = self.repo()?;
        Ok(promise(move || {
            let start = repo.resolve(&revision)?;
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
            let (id, kind) = (outcome.snapshot.id().to_string(), outcome.kind.name());
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
        self.fresh(move |repo| repo.session(&session)?.delete())
    }

    #[napi(catch_unwind)]
    pub fn retain(
        &self,
        session: Option<String>,
        turns: Option<f64>,
        seconds: Option<f64>,
        budget_bytes: Option<f64>,
    ) -> Result<Promise<()>> {
        let repo = self.repo()?;
        let (turns, budget_bytes) = (turns.map(whole), budget_bytes.map(whole));
        let rules = Retention { turns, seconds, budget_bytes };
        Ok(promise(move || repo.retain(session.as_deref(), &rules)))
    }

    #[napi(catch_unwind)]
    pub fn collect(&self, repack: bool) -> Result<Promise<CollectReport>> {
        let repo = self.repo()?;
        Ok(promise(move || {
            let done = repo.collect(repack)?;
            Ok(CollectReport {
                expired_turns: done.expired_turns as f64,
                freed_objects: done.freed.objects as f64,
                freed_bytes: done.freed.bytes as f64,
                written_bytes: done.written_bytes as f64,
            })
        }))
    }
}
