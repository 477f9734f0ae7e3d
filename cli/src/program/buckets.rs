//! The way to the bucket of a remote, by its URL; and to what a store knows and only a remote has.

use std::path::PathBuf;
use std::sync::Arc;

use turntree::local::random_bytes;
use turntree::repo::Repository;
use turntree::store::RealIo;
use turntree::transfer::remote::{Bucket, FolderBucket, RemoteRanges};
use turntree::{Error, ErrorKind, Result};

/// A URL as it is kept: a folder, which is there, by its absolute path.
pub(crate) fn absolute_url(url: &str) -> Result<String> {
    match scheme(url) {
        Some(_) => Ok(url.to_owned()),
        None => {
            let path = std::fs::canonicalize(url)
                .map_err(|_| Error::not_found(format!("there is no folder {url}")))?;
            let text = path.to_str().map(str::to_owned);
            text.ok_or_else(|| Error::invalid("the path of a remote is no UTF-8"))
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

/// Lets a store read what it knows and only its remotes have. Nothing is opened before it is needed.
pub(super) fn attach(repo: &Repository) {
    if !repo.store().has_distant() {
        return;
    }
    // A list that cannot be read is told by whoever uses remotes; what is asked for is missing then.
    let remotes = repo.remotes().unwrap_or_default();
    let open = move |name: &str| {
        let missing = || Error::not_found(format!("there is no remote '{name}'"));
        let entry = remotes.get(name).ok_or_else(missing)?;
        open_bucket(&entry.url).map(Arc::from)
    };
    repo.store().set_range_source(Arc::new(RemoteRanges::new(open)));
}

fn scheme(url: &str) -> Option<&str> {
    url.split_once("://").map(|(scheme, _)| scheme)
}

fn folder_of(url: &str) -> Result<PathBuf> {
    match (scheme(url), url.strip_prefix("file://")) {
        (None, _) => Ok(url.into()),
        (Some(_), Some(path)) if path.starts_with('/') => Ok(path.into()),
        (Some(scheme), _) => {
            let message =
                format!("a remote of the kind {scheme}://: expected a folder, or file:///path");
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}
