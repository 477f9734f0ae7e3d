//! Remotes of a store: which one is meant, and the way to it.

use std::sync::Arc;

use turntree::Error;
use turntree::local::random_bytes;
use turntree::repo::{RemoteEntry, Repository, Signature};
use turntree::transfer::remote::{Bucket, Hex, Remote, RemoteId};

use super::temp_file::Spool;
use crate::program::buckets::open_bucket;
use crate::program::invocation::stamp;
use crate::view::error::{Failure, Result};

/// What a remote is called when nobody says.
pub(crate) const ORIGIN: &str = "origin";

/// The way to a remote.
pub(crate) struct Connection {
    pub(crate) name: String,
    id: RemoteId,
    bucket: Box<dyn Bucket>,
    lazy: bool,
    stamp: Signature,
}

impl Connection {
    /// The way to the remote of this name; without one to the only one there is, or to `origin`.
    ///
    /// # Errors
    /// `NotFound` when there is none; `Corrupt` when another one is in its place.
    pub(crate) fn to(repo: &Repository, name: Option<&str>) -> Result<Self> {
        let (name, entry) = named_remote(repo, name)?;
        let bucket = open_bucket(&entry.url)?;
        let id = Hex::parse(&entry.id).ok_or_else(|| {
            Error::malformed(format!("the id of the remote {name}"), "hex digits")
        })?;
        Ok(Self { name, id, bucket, lazy: entry.lazy, stamp: stamp()? })
    }

    /// The way to a remote that is not in the list yet.
    pub(crate) fn new(
        name: &str,
        id: RemoteId,
        bucket: Box<dyn Bucket>,
        lazy: bool,
    ) -> Result<Self> {
        Ok(Self { name: name.to_owned(), id, bucket, lazy, stamp: stamp()? })
    }

    /// Does something with the remote.
    pub(crate) fn with<T>(
        &self,
        repo: &Repository,
        work: impl FnOnce(&Remote<'_>) -> turntree::Result<T>,
    ) -> turntree::Result<T> {
        let spool = || Ok(Arc::clone(Spool::create(repo.store().dir())?.file()));
        work(&Remote {
            repo,
            name: &self.name,
            id: self.id,
            bucket: &*self.bucket,
            lazy: self.lazy,
            stamp: &self.stamp,
            random: &random_bytes,
            spool: &spool,
        })
    }
}

/// The remote of this name; without one the only one there is, or `origin`.
pub(crate) fn named_remote(repo: &Repository, name: Option<&str>) -> Result<(String, RemoteEntry)> {
    let remotes = repo.remotes()?;
    let only = || (remotes.len() == 1).then(|| remotes.keys().next().cloned()).flatten();
    let name = name.map(str::to_owned).or_else(only).unwrap_or_else(|| ORIGIN.to_owned());
    match remotes.get(&name) {
        Some(entry) => Ok((name.clone(), entry.clone())),
        None => Err(Failure::hinted(
            Error::not_found(format!("there is no remote '{name}'")),
            "'turntree remote add NAME URL' adds one, 'turntree remote ls' lists them",
        )),
    }
}
