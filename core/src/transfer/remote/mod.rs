//! Remotes share sessions between machines, through a bucket of object storage or a folder.
//!
//! ```text
//!   store A                     bucket                        store B
//!   refs/heads/task/main        heads/task  (swapped)         refs/remotes/origin/task/main
//!        | push: what is new       |  lists                        ^ fetch: what is new
//!        v                         v                               |
//!   a bundle  ------------->  bundles/task/7-5e...  ---------------+
//! ```
//!
//! All objects except heads are immutable and have unique names. Each session has one head, which
//! changes only by compare-and-swap, so agents on different sessions never conflict. Listed bundles
//! are durable before the head is written and are not deleted while a head lists them. So the
//! protocol needs no clock and no lock. `format-spec/remote.md` specifies it.
//!
//! A remote is as untrusted as a received bundle: a head must be a successor of the last known
//! head, and every object is verified against its id.

mod bucket;
mod check;
mod collect;
mod fetch;
mod fold;
mod folder;
mod follow;
mod head;
mod hex;
mod keys;
mod known;
mod lazy;
mod line;
mod listing;
mod names;
mod pipe;
mod push;
mod renew;
mod sealed;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

pub use bucket::{Bucket, Got, Key, Listed, MAX_KEY_BYTES, Page, Put, Version};
pub use check::{CheckDepth, Checked};
pub use collect::{CollectOptions, Collected};
pub use fetch::{Fetched, MovedBranch};
pub use folder::{FolderBucket, MAX_CHANGEABLE_BYTES};
pub use follow::{Followed, HowFollowed};
pub use head::RemoteId;
pub(crate) use head::RemoteRoot;
pub use hex::Hex;
pub use keys::{KeysDocument, NewKeys, RemoteKeys, SECRET_BYTES, not_a_member};
pub use lazy::RemoteRanges;
pub use line::Line;
pub use listing::Survey;
pub use names::Names;
pub use pipe::{Answer, Frame, GREETING, Pipe, PipeBucket, Request, refuse, serve};
pub use push::{DeletedSession, PushOptions, Pushed, PushedBranch};
pub use sealed::SealedBucket;

use self::head::MAX_HEAD_BYTES;
use crate::error::{Error, ErrorKind, Result};
use crate::repo::{Repository, Signature};
use crate::store::IoFile;
use crate::transfer::bundle::utc;

/// A remote, as used by one store.
#[derive(Clone, Copy)]
pub struct Remote<'a> {
    /// The store.
    pub repo: &'a Repository,
    /// The name of the remote in the store.
    pub name: &'a str,
    /// The id of the remote; a remote with another id at the same place is refused.
    pub id: RemoteId,
    /// The storage of the remote.
    pub bucket: &'a dyn Bucket,
    /// True for a lazy clone: only the ends of large bundles are fetched, and the rest is read on
    /// demand.
    pub lazy: bool,
    /// The actor, and the time.
    pub stamp: &'a Signature,
    /// Returns random bytes: object names on the remote must be globally unique.
    pub random: &'a (dyn Fn() -> [u8; 16] + Sync),
    /// Creates an empty unnamed file, for a bundle in transfer.
    pub spool: &'a (dyn Fn() -> Result<Arc<dyn IoFile>> + Sync),
}

impl fmt::Debug for Remote<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, id, bucket, lazy, .. } = self;
        f.debug_struct("Remote")
            .field("name", name)
            .field("id", id)
            .field("bucket", bucket)
            .field("lazy", lazy)
            .finish()
    }
}

/// Returns the id of the remote in a bucket; `None` if the bucket has no remote.
///
/// # Errors
/// `Corrupt` if the root is invalid, `Unsupported` for a later version, `Io` without an answer.
pub fn find_remote(bucket: &dyn Bucket) -> Result<Option<RemoteId>> {
    match bucket.get(&RemoteRoot::key()?, None, None)? {
        Got::Bytes { bytes, size, .. } => {
            check_size("the root of the remote", &bytes, size)?;
            Ok(Some(RemoteRoot::decode(&bytes)?.remote))
        }
        Got::Missing | Got::Same => Ok(None),
    }
}

/// Creates a remote in a bucket, or returns the one that another client created concurrently.
///
/// # Errors
/// Errors of [`find_remote`]; `Io` if writing fails.
pub fn make_remote(bucket: &dyn Bucket, id: RemoteId, stamp: &Signature) -> Result<RemoteId> {
    let root = RemoteRoot::new(id, utc(stamp.time.micros)).encode()?;
    let put = bucket.put_new(&RemoteRoot::key()?, Bytes::from(root))?;
    match (put, find_remote(bucket)?) {
        (_, Some(found)) => Ok(found),
        (_, None) => {
            let message = "the remote did not confirm that it was created: try again";
            Err(Error::new(ErrorKind::Io, message))
        }
    }
}

impl Remote<'_> {
    /// Refuses a different remote at the same place, such as an emptied folder or a recreated
    /// bucket. Heads record the id of their remote, so callers check it only if there is no head.
    ///
    /// # Errors
    /// `Corrupt`, with both ids; errors of [`find_remote`].
    pub fn check_id(&self) -> Result<()> {
        let place = format!("the remote {}", self.name);
        match find_remote(self.bucket)? {
            Some(id) if id == self.id => Ok(()),
            Some(id) => Err(Error::corrupt(place, self.id, id)),
            None => Err(Error::corrupt(place, format_args!("remote {}", self.id), "none")),
        }
    }
}

/// Refuses a truncated or oversized document.
fn check_size(place: &str, bytes: &Bytes, size: u64) -> Result<()> {
    if size > MAX_HEAD_BYTES {
        return Err(Error::limit(format!("bytes of {place}"), MAX_HEAD_BYTES, size));
    }
    if bytes.len() as u64 == size {
        return Ok(());
    }
    let error = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    Err(Error::io(format!("read {place}: got {} of {size} bytes", bytes.len()), error))
}

/// Returns the error for a remote whose state was rolled back or replaced.
fn rollback_error(session: &str, expected: impl fmt::Display, found: impl fmt::Display) -> Error {
    Error::corrupt(
        format_args!("the remote was rolled back or replaced, {session}"),
        expected,
        found,
    )
}

/// Returns the error for a session that disappeared from a remote.
fn lost_session_error(session: &str) -> Error {
    rollback_error(session, "the session that was seen before", "nothing")
}
