//! Remotes: sessions in a bucket of object storage or in a folder, for other machines.
//!
//! ```text
//!   store A                     bucket                        store B
//!   refs/heads/task/main        heads/task  (swapped)         refs/remotes/origin/task/main
//!        | push: what is new       |  lists                        ^ fetch: what is new
//!        v                         v                               |
//!   a bundle  ------------->  bundles/task/7-5e...  ---------------+
//! ```
//!
//! Everything but the heads is immutable, under names that are never used again. A head is changed by
//! compare-and-swap, and there is one for each session: agents that work on different sessions never meet.
//! What a head lists is there, since it is durable before the head is written, and nothing that is listed
//! is deleted; so nobody looks at a clock, and nobody takes a lock. The protocol is `format-spec/remote.md`.
//!
//! What comes from a remote is believed no more than a bundle that somebody sent: a head must go on from
//! the one that was seen before, and every object is verified against its id.

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

pub use bucket::{Bucket, Got, Key, Listed, MAX_KEY_BYTES, MAX_PART_BYTES, Page, Put, Version};
pub use check::{CheckDepth, Checked};
pub use collect::{CollectOptions, Collected};
pub use fetch::{Fetched, MovedBranch};
pub use folder::{FolderBucket, MAX_CHANGEABLE_BYTES};
pub use follow::{Followed, HowFollowed};
pub use head::{Head, PushedBundle, PushedIndex, RemoteId, Root};
pub use hex::Hex;
pub use keys::{KeysDocument, NewKeys, RemoteKeys, SECRET_BYTES, not_a_member};
pub use lazy::RemoteRanges;
pub use line::Line;
pub use listing::Survey;
pub use names::Names;
pub use pipe::{
    Answer, Frame, GREETING, MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES, Pipe, PipeBucket, Request,
    refuse, serve,
};
pub use push::{DeletedSession, PushOptions, Pushed, PushedBranch};
pub use sealed::SealedBucket;

use self::head::MAX_HEAD_BYTES;
use crate::error::{Error, ErrorKind, Result};
use crate::repo::{Repository, Signature};
use crate::store::IoFile;
use crate::transfer::bundle::utc;

/// A remote, as one store uses it.
#[derive(Clone, Copy)]
pub struct Remote<'a> {
    /// The store.
    pub repo: &'a Repository,
    /// What the store calls it.
    pub name: &'a str,
    /// Which one it is: another one in its place is refused.
    pub id: RemoteId,
    /// Where it is.
    pub bucket: &'a dyn Bucket,
    /// True if of what is large only the ends are fetched, and the rest is read when it is asked for.
    pub lazy: bool,
    /// Who acts, and when.
    pub stamp: &'a Signature,
    /// Draws random bytes: names on the remote must be new in the world.
    pub random: &'a (dyn Fn() -> [u8; 16] + Sync),
    /// Makes an empty file without a name for a bundle on its way.
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

/// The id of the remote in a bucket; nothing when there is none.
///
/// # Errors
/// `Corrupt` when something else is there, `Unsupported` for a later version, `Io` without an answer.
pub fn find_remote(bucket: &dyn Bucket) -> Result<Option<RemoteId>> {
    match bucket.get(&Root::key()?, None, None)? {
        Got::Bytes { bytes, size, .. } => {
            check_whole("the root of the remote", &bytes, size)?;
            Ok(Some(Root::decode(&bytes)?.remote))
        }
        Got::Missing | Got::Same => Ok(None),
    }
}

/// Makes a remote in a bucket that has none, or finds the one that somebody else made meanwhile.
///
/// # Errors
/// Those of [`find_remote`]; `Io` when nothing can be written.
pub fn make_remote(bucket: &dyn Bucket, id: RemoteId, stamp: &Signature) -> Result<RemoteId> {
    let root = Root::new(id, utc(stamp.time.micros)).encode()?;
    let put = bucket.put_new(&Root::key()?, Bytes::from(root))?;
    match (put, find_remote(bucket)?) {
        (_, Some(found)) => Ok(found),
        (_, None) => {
            let message = "the remote does not say whether it could be made: try again";
            Err(Error::new(ErrorKind::Io, message))
        }
    }
}

impl Remote<'_> {
    /// Refuses another remote in the place of this one: a folder that was emptied, a bucket that was made
    /// again. Heads say of which remote they are, so this is asked only where there is none.
    ///
    /// # Errors
    /// `Corrupt`, with both ids; those of [`find_remote`].
    pub fn check_id(&self) -> Result<()> {
        let place = format!("the remote {}", self.name);
        match find_remote(self.bucket)? {
            Some(id) if id == self.id => Ok(()),
            Some(id) => Err(Error::corrupt(place, self.id, id)),
            None => Err(Error::corrupt(place, format_args!("remote {}", self.id), "none")),
        }
    }
}

/// Refuses a document of which only a part came, or that is too long to be one.
fn check_whole(place: &str, bytes: &Bytes, size: u64) -> Result<()> {
    if size > MAX_HEAD_BYTES {
        return Err(Error::limit(format!("bytes of {place}"), MAX_HEAD_BYTES, size));
    }
    if bytes.len() as u64 == size {
        return Ok(());
    }
    let error = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    Err(Error::io(format!("read {place}: {} of {size} bytes came", bytes.len()), error))
}

/// The error for a remote that is not what it was.
fn gone_back(session: &str, expected: impl fmt::Display, found: impl fmt::Display) -> Error {
    Error::corrupt(
        format_args!("the remote was changed behind its back, {session}"),
        expected,
        found,
    )
}

/// The error for a session that a remote had and has not.
fn lost(session: &str) -> Error {
    gone_back(session, "the session, which was there before", "nothing")
}
