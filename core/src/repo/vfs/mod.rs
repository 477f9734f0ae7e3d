//! Payloads that left the conversation: stored at once, found by their URI, kept by what cites
//! them.
//!
//! ```text
//! refs/vfs/payloads -> map: URI -> payload, when it was stored and last used       the pool
//! refs/vfs/evicted  -> map: URI -> why it is gone, and when
//!
//! commit -> context -> vfs: URI -> payload                                         what is cited
//! ```
//!
//! An offload is no turn, so it makes no commit: the payload goes into the pool, which is a root of
//! every collection. The next snapshot whose new content cites it takes it into the section `vfs`
//! of its context ([`take_over`]); from there forks, merges and later turns carry it like any other
//! content, and it stays as long as they do, whatever becomes of the pool.
//!
//! Payloads that several processes store at once are all kept: a put that loses a race is repeated
//! on top of the other one.

mod pool;
mod uri;

use std::collections::BTreeSet;

pub use pool::{
    EVICTED_REF, EvictionReason, PAYLOADS_REF, Payload, PayloadPlace, Pool, StoredPayload,
    Tombstone,
};
pub use uri::{MAX_URI_BYTES, NameCheck, VfsUri};

use self::pool::root_of;
use super::Transaction;
use crate::context::Builder;
use crate::error::Result;
use crate::object::{Kind, ObjectId, ObjectSource};
use crate::tree::{Item, Map};

/// The section of a context that holds the payloads its content cites.
pub const VFS_SECTION: &str = "vfs";

/// Takes payloads that the new content of `change` cites from the pool into the section `vfs` of
/// `builder`, and what those cite in turn. Returns how many there were. To be called once for each
/// snapshot, before its context is written.
///
/// Costs nothing without a pool, else a search through the content that is staged.
///
/// # Errors
/// Those of reading the pool.
pub fn take_over(change: &mut Transaction<'_>, builder: &mut Builder) -> Result<u64> {
    if !change.has_payloads() {
        return Ok(0);
    }
    let cited = change.staged_blobs().flat_map(|bytes| VfsUri::cited(bytes)).map(|(uri, _)| uri);
    let cited = cited.collect();
    take_cited(change, builder, cited)
}

/// As [`take_over`], for citations that the caller has found.
///
/// # Errors
/// Those of reading the pool.
pub fn take_cited(
    change: &mut Transaction<'_>,
    builder: &mut Builder,
    cited: BTreeSet<VfsUri>,
) -> Result<u64> {
    let Some(root) = root_of(change.begun_with(PAYLOADS_REF)) else { return Ok(0) };
    if cited.is_empty() {
        return Ok(0);
    }
    let pool = Map::open(change, &root)?;
    let mut taken = BTreeSet::new();
    let mut waiting: Vec<VfsUri> = cited.into_iter().collect();
    while let Some(uri) = waiting.pop() {
        if taken.contains(&uri) {
            continue;
        }
        let Some(item) = pool.get(change, uri.as_str().as_bytes())? else { continue };
        let bytes = change.read_as(Kind::Blob, &item.link.id)?;
        waiting.extend(VfsUri::cited(&bytes).map(|(uri, _)| uri));
        builder.set(change, VFS_SECTION, uri.as_str(), Some(payload_item(item.link.id)))?;
        taken.insert(uri);
    }
    Ok(taken.len() as u64)
}

/// An entry of the section `vfs`.
#[must_use]
pub fn payload_item(blob: ObjectId) -> Item {
    Item::new(Kind::Blob, blob)
}
