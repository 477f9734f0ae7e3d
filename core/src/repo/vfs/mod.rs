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
//! every collection. The next context whose new content cites it takes it into its section `vfs` when
//! it is written ([`Builder::write`](crate::context::Builder::write)). From there forks, merges and
//! later turns carry it like any other content, and it stays as long as they do, whatever becomes of
//! the pool.
//!
//! Payloads that several processes store at once are all kept: a put that loses a race is repeated
//! on top of the other one.

mod pool;
mod uri;

use std::collections::{BTreeMap, BTreeSet};

pub use pool::{
    EVICTED_REF, EvictionReason, PAYLOADS_REF, Payload, PayloadPlace, PayloadTombstone, Pool,
    StoredPayload,
};
pub use uri::{MAX_URI_BYTES, NameCheck, VfsUri};

use self::pool::root_of;
use super::Transaction;
pub use crate::context::PAYLOADS as VFS_SECTION;
use crate::error::Result;
use crate::object::{Kind, ObjectId, ObjectSource};
use crate::tree::{Item, Map};

impl Transaction<'_> {
    /// Replaces the citations that the next context takes: for a caller that writes several contexts
    /// at once and knows which of them cites what.
    pub fn set_cited(&mut self, cited: BTreeSet<VfsUri>) {
        self.cited = cited;
    }

    /// Looks for citations in a blob that is written. Costs a search through it, and nothing in a
    /// store without payloads.
    pub(super) fn note_citations(&mut self, blob: &[u8]) {
        if self.begun_with(PAYLOADS_REF).is_some() {
            self.cited.extend(VfsUri::cited(blob).map(|(uri, _)| uri));
        }
    }

    /// Takes the payloads of the pool that were cited since the last call, and those that they cite
    /// in turn.
    pub(super) fn take_cited_payloads(&mut self) -> Result<Vec<(String, ObjectId)>> {
        let cited = std::mem::take(&mut self.cited);
        let Some(root) = root_of(self.begun_with(PAYLOADS_REF)).filter(|_| !cited.is_empty())
        else {
            return Ok(Vec::new());
        };
        let pool = Map::open(self, &root)?;
        let mut taken = BTreeMap::new();
        let mut waiting: Vec<VfsUri> = cited.into_iter().collect();
        while let Some(uri) = waiting.pop() {
            if taken.contains_key(uri.as_str()) {
                continue;
            }
            let Some(item) = pool.get(self, uri.as_str().as_bytes())? else { continue };
            let bytes = self.read_as(Kind::Blob, &item.link.id)?;
            waiting.extend(VfsUri::cited(&bytes).map(|(uri, _)| uri));
            taken.insert(uri.to_string(), item.link.id);
        }
        Ok(taken.into_iter().collect())
    }
}

/// An entry of the section `vfs`.
#[must_use]
pub fn payload_item(blob: ObjectId) -> Item {
    Item::new(Kind::Blob, blob)
}
