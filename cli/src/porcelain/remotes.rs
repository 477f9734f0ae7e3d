//! Remotes of a store: which one is meant, the way to it, and how branches stand to it.

use std::path::PathBuf;
use std::sync::Arc;

use turntree::local::random_bytes;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, RemoteEntry, Repository, Signature};
use turntree::store::RealIo;
use turntree::transfer::remote::{Bucket, FolderBucket, Hex, Remote, RemoteId};
use turntree::{Error, ErrorKind};

use super::temp_file::Spool;
use crate::program::invocation::stamp;
use crate::view::error::{Failure, Result};

/// What a remote is called when nobody says.
pub(crate) const ORIGIN: &str = "origin";

/// The way to a remote.
pub(crate) struct Connection {
    pub(crate) name: String,
    id: RemoteId,
    bucket: Box<dyn Bucket>,
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
        Ok(Self { name, id, bucket, stamp: stamp()? })
    }

    /// The way to a remote that is not in the list yet.
    pub(crate) fn new(name: &str, id: RemoteId, bucket: Box<dyn Bucket>) -> Result<Self> {
        Ok(Self { name: name.to_owned(), id, bucket, stamp: stamp()? })
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

/// A URL as it is kept: a folder, which is there, by its absolute path.
pub(crate) fn absolute_url(url: &str) -> Result<String> {
    match scheme(url) {
        Some(_) => Ok(url.to_owned()),
        None => {
            let path = std::fs::canonicalize(url)
                .map_err(|_| Error::not_found(format!("there is no folder {url}")))?;
            let text = path.to_str().map(str::to_owned);
            Ok(text.ok_or_else(|| Error::invalid("the path of a remote is no UTF-8"))?)
        }
    }
}

/// The way to what a URL names, which must be there.
pub(crate) fn open_bucket(url: &str) -> Result<Box<dyn Bucket>> {
    let folder = FolderBucket::open(Arc::new(RealIo), folder_of(url)?, random_bytes())?;
    Ok(Box::new(folder))
}

/// The way to what a URL names; a folder is made.
pub(crate) fn make_bucket(url: &str) -> Result<Box<dyn Bucket>> {
    let folder = FolderBucket::create(Arc::new(RealIo), folder_of(url)?, random_bytes())?;
    Ok(Box::new(folder))
}

fn scheme(url: &str) -> Option<&str> {
    url.split_once("://").map(|(scheme, _)| scheme)
}

fn folder_of(url: &str) -> Result<PathBuf> {
    match (scheme(url), url.strip_prefix("file://")) {
        (None, _) => Ok(url.into()),
        (Some(_), Some(path)) if path.starts_with('/') => Ok(path.into()),
        (Some(scheme), _) => Err(Failure::hinted(
            Error::new(ErrorKind::Unsupported, format!("a remote of the kind {scheme}://")),
            "expected the path of a folder, or file:///path",
        )),
    }
}

/// Branches of a store that a remote, when it was last seen, did not have as they are.
pub(crate) fn unpushed(repo: &Repository, remote: &str) -> Vec<(BranchName, ObjectId)> {
    let there = repo.remote_branches(remote, None);
    let is_there = |own: &(BranchName, ObjectId)| there.contains(own);
    repo.branches().into_iter().filter(|own| !is_there(own)).collect()
}
