//! Remotes of a store: finds the named one, and connects to it, with its keys if it is encrypted.

use std::sync::Arc;

use turntree::Error;
use turntree::local::random_bytes;
use turntree::repo::{RemoteEntry, Repository, Signature};
use turntree::transfer::remote::{
    Bucket, Hex, KeysDocument, Remote, RemoteId, RemoteKeys, SealedBucket,
};

use super::temp_file::Spool;
use crate::program::buckets::open_bucket;
use crate::program::invocation::{Invocation, stamp};
use crate::program::remote_keys::{self, FoundKeys};
use crate::view::error::{Failure, Result};

/// The default name of a remote.
pub(crate) const ORIGIN: &str = "origin";

/// A connection to a remote.
pub(crate) struct Connection {
    pub(crate) name: String,
    id: RemoteId,
    bucket: Box<dyn Bucket>,
    lazy: bool,
    stamp: Signature,
}

impl Connection {
    /// Connects to the remote of this name; without a name to the only remote, or to `origin`.
    ///
    /// # Errors
    /// `NotFound` if it does not exist; `Corrupt` if its bucket holds another remote.
    pub(crate) fn to(repo: &Repository, name: Option<&str>) -> Result<Self> {
        let (name, entry) = named_remote(repo, name)?;
        let (id, lazy) = (id_of(&name, &entry)?, entry.lazy);
        let bucket: Box<dyn Bucket> = match entry.keys {
            Some(_) => Box::new(Sealed::of(repo, Some(&name))?.bucket()),
            None => open_bucket(&entry.url)?,
        };
        Self::new(&name, id, bucket, lazy)
    }

    /// Opens the store of a run, and connects to one of its remotes.
    ///
    /// # Errors
    /// The errors of opening the store, and of [`Connection::to`].
    pub(crate) fn of_run(run: &Invocation, name: Option<&str>) -> Result<(Arc<Repository>, Self)> {
        let repo = run.open()?;
        let connection = Self::to(&repo, name)?;
        Ok((repo, connection))
    }

    /// Connects to a remote that is not in the list yet.
    pub(crate) fn new(
        name: &str,
        id: RemoteId,
        bucket: Box<dyn Bucket>,
        lazy: bool,
    ) -> Result<Self> {
        Ok(Self { name: name.to_owned(), id, bucket, lazy, stamp: stamp()? })
    }

    /// Returns the connection with the author and time of its writes.
    pub(crate) fn stamped(self, stamp: Signature) -> Self {
        Self { stamp, ..self }
    }

    /// Runs `work` with the remote.
    pub(crate) fn with<T>(
        &self,
        repo: &Repository,
        work: impl FnOnce(&Remote<'_>) -> turntree::Result<T>,
    ) -> turntree::Result<T> {
        let spool = || Ok(Arc::clone(Spool::create(repo.dir())?.file()));
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

/// An encrypted remote, with its keys.
pub(crate) struct Sealed {
    pub(crate) name: String,
    pub(crate) id: RemoteId,
    /// The bucket with encrypted content.
    pub(crate) inner: Arc<dyn Bucket>,
    pub(crate) found: FoundKeys,
    pub(crate) keys: RemoteKeys,
}

impl Sealed {
    /// Reads the keys of an encrypted remote, which must continue the last known keys.
    ///
    /// # Errors
    /// `InvalidInput` if it is not encrypted; `Encrypted` if the user has no member's key;
    /// `Corrupt` if no member wrote the keys, or if they are older than the known ones.
    pub(crate) fn of(repo: &Repository, name: Option<&str>) -> Result<Self> {
        let (name, entry) = named_remote(repo, name)?;
        let id = id_of(&name, &entry)?;
        let Some(known) = entry.keys else {
            return Err(Error::invalid(format!("the remote {name} is not encrypted")).into());
        };
        let inner = Arc::from(open_bucket(&entry.url)?);
        let place = || format!("the remote {name}");
        let found = remote_keys::read(&*inner, &id)?
            .ok_or_else(|| Error::corrupt(place(), "its keys, as seen before", "none"))?;
        let keys = remote_keys::unwrap(&found.document, &name)?;
        let known = KeysDocument::decode(known.as_bytes(), &id)?;
        if found.document != known {
            let before = remote_keys::unwrap(&known, &name)?;
            found.document.check_after(&keys, &known, &before)?;
            remember_keys(repo, &name, &found)?;
        }
        Ok(Self { name, id, inner, found, keys })
    }

    /// The bucket that encrypts and decrypts.
    pub(crate) fn bucket(self) -> SealedBucket {
        remote_keys::sealed(self.inner, &self.found.document, self.keys)
    }
}

/// Records the keys of a remote.
pub(crate) fn remember_keys(repo: &Repository, name: &str, found: &FoundKeys) -> Result<()> {
    let mut remotes = repo.remotes()?;
    if let Some(entry) = remotes.get_mut(name) {
        entry.keys = Some(found.text()?);
        let mut change = repo.begin();
        change.set_remotes(&remotes)?;
        change.commit(&stamp()?, &format!("remember the keys of the remote {name}"))?;
    }
    Ok(())
}

fn id_of(name: &str, entry: &RemoteEntry) -> Result<RemoteId> {
    let bad = || Error::malformed(format!("the id of the remote {name}"), "hex digits");
    Ok(Hex::parse(&entry.id).ok_or_else(bad)?)
}

/// The remote of this name; without a name the only remote, or `origin`.
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
