//! A change of branches that is buffered in memory until it is committed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use napi::Result;
use napi_derive::napi;
use turntree::Error;
use turntree::context::Role;
use turntree::local::{BranchChange, Change, Host};
use turntree::object::{Kind, ObjectId, check_size};
use turntree::repo::BranchName;

use crate::error::raised;
use crate::snapshot::whole;
use crate::work::{Promise, promise};

/// A change of a branch that is buffered in memory.
#[napi]
pub struct Transaction {
    host: Arc<Host>,
    /// `None` after it was committed or dropped; shared by the branches of one change.
    change: Arc<Mutex<Option<Change>>>,
    branch: BranchName,
    message: String,
}

impl Transaction {
    pub(crate) fn begin(
        host: Arc<Host>,
        mut change: Change,
        branch: BranchName,
        message: String,
    ) -> Self {
        // Include the branch, so that an empty commit also returns its tip.
        change.on(&branch);
        Self { host, change: Arc::new(Mutex::new(Some(change))), branch, message }
    }

    fn edit(&self, edit: impl FnOnce(&mut BranchChange) -> turntree::Result<()>) -> Result<()> {
        edit_on(&self.change, &self.branch, edit).map_err(raised)
    }
}

fn lock(change: &Mutex<Option<Change>>) -> MutexGuard<'_, Option<Change>> {
    change.lock().unwrap_or_else(PoisonError::into_inner)
}

fn edit_on(
    change: &Mutex<Option<Change>>,
    branch: &BranchName,
    edit: impl FnOnce(&mut BranchChange) -> turntree::Result<()>,
) -> turntree::Result<()> {
    let mut change = lock(change);
    edit(change.as_mut().ok_or_else(finished)?.on(branch))
}

/// Copies the bytes of a caller, unless they exceed the limit of a blob.
fn copied(content: &[u8]) -> turntree::Result<Bytes> {
    check_size(Kind::Blob, content)?;
    Ok(Bytes::copy_from_slice(content))
}

fn finished() -> Error {
    Error::invalid("the transaction is finished: begin a new one")
}

#[napi]
impl Transaction {
    #[napi(getter, catch_unwind)]
    pub fn branch(&self) -> String {
        self.branch.to_string()
    }

    #[napi(catch_unwind)]
    pub fn on(&self, branch: String) -> Result<Self> {
        let branch = branch.parse().map_err(raised)?;
        let (host, change) = (Arc::clone(&self.host), Arc::clone(&self.change));
        let other = Self { host, change, branch, message: self.message.clone() };
        other.edit(|_| Ok(()))?;
        Ok(other)
    }

    #[napi(catch_unwind)]
    pub fn expect(&self, tip: Option<String>) -> Result<()> {
        let tip = tip.map(|tip| tip.parse::<ObjectId>()).transpose().map_err(raised)?;
        self.edit(|on| {
            on.expect(tip);
            Ok(())
        })
    }

    #[napi(catch_unwind)]
    pub fn put(&self, section: String, key: String, content: &[u8]) -> Result<()> {
        self.edit(|on| on.put(&section, &key, copied(content)?))
    }

    #[napi(catch_unwind)]
    pub fn put_file(&self, path: String, content: &[u8], mode: String) -> Result<()> {
        self.edit(|on| on.put_file(&path, mode.parse()?, copied(content)?))
    }

    #[napi(catch_unwind)]
    pub fn put_new(&self, section: String, key: String, content: &[u8]) -> Result<()> {
        self.edit(|on| on.put_new(&section, &key, copied(content)?))
    }

    #[napi(catch_unwind)]
    pub fn remove(&self, section: String, key: String) -> Result<()> {
        self.edit(|on| on.remove(&section, &key))
    }

    #[napi(catch_unwind)]
    pub fn push(&self, section: String, record: &[u8]) -> Result<()> {
        self.edit(|on| on.push(&section, copied(record)?))
    }

    #[napi(catch_unwind)]
    pub fn push_message(
        &self,
        role: String,
        record: &[u8],
        agent: String,
        format: String,
    ) -> Result<()> {
        let record = copied(record).map_err(raised)?;
        self.edit(|on| on.push_message(&agent, Role::from_name(&role), &format, record))
    }

    #[napi(catch_unwind)]
    pub fn cut(&self, section: String, count: f64) -> Result<()> {
        self.edit(|on| on.cut(&section, whole(count)))
    }

    #[napi(catch_unwind)]
    pub fn set_blob(&self, section: String, content: &[u8]) -> Result<()> {
        self.edit(|on| on.set_blob(&section, copied(content)?))
    }

    #[napi(catch_unwind)]
    pub fn drop_section(&self, section: String) -> Result<()> {
        self.edit(|on| on.drop_section(&section))
    }

    #[napi(catch_unwind)]
    pub fn note(&self, name: String, value: String) -> Result<()> {
        self.edit(|on| {
            on.with(&name, &value);
            Ok(())
        })
    }

    #[napi(catch_unwind)]
    pub fn title(&self, title: String) -> Result<()> {
        self.edit(|on| {
            on.titled(&title);
            Ok(())
        })
    }

    #[napi(catch_unwind)]
    pub fn go_on_from(&self, revision: String) -> Result<Promise<()>> {
        self.edit(|_| Ok(()))?;
        let (host, change) = (Arc::clone(&self.host), Arc::clone(&self.change));
        let branch = self.branch.clone();
        Ok(promise(move || {
            let at = host.repo()?.resolve(&revision)?;
            edit_on(&change, &branch, |on| {
                on.go_on_from(at);
                Ok(())
            })
        }))
    }

    #[napi(catch_unwind)]
    pub fn start_over(&self) -> Result<()> {
        self.edit(|on| {
            on.start_over();
            Ok(())
        })
    }

    #[napi(catch_unwind)]
    pub fn delete(&self) -> Result<()> {
        self.edit(|on| {
            on.delete();
            Ok(())
        })
    }

    #[napi(catch_unwind)]
    pub fn commit(&self, message: Option<String>) -> Result<Promise<Option<String>>> {
        // Check first, so that a change of a closed store is not lost silently.
        self.host.repo().map_err(raised)?;
        let change = lock(&self.change).take().ok_or_else(|| raised(finished()))?;
        let host = Arc::clone(&self.host);
        let branch = self.branch.clone();
        let message = message.unwrap_or_else(|| self.message.clone());
        Ok(promise(move || {
            let tips = change.commit(&message)?;
            host.maintain();
            let own = tips.into_iter().find(|(name, _)| *name == branch);
            Ok(own.and_then(|(_, tip)| tip).map(|tip| tip.to_string()))
        }))
    }

    #[napi(catch_unwind)]
    pub fn rollback(&self) {
        drop(lock(&self.change).take());
    }
}
