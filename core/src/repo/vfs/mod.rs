//! Payloads that were offloaded from the conversation: stored immediately, found by URI, kept by
//! their citations.
//!
//! ```text
//! refs/vfs/payloads -> map: URI -> payload, when it was stored and last used       the pool
//! refs/vfs/evicted  -> map: URI -> why it is gone, and when
//!
//! commit -> context -> vfs: URI -> payload                                         what is cited
//! ```
//!
//! An offload is not a turn and makes no commit: the payload goes into the pool, which is a root of
//! every collection. The next context with new content that cites the payload adds it to its
//! section `vfs` when the context is written ([`Builder::write`](crate::context::Builder::write)).
//! From then on, forks, merges and later turns carry it like other content, and it stays as long as
//! they do, even if the pool evicts it.
//!
//! Payloads that several processes store concurrently are all kept: a put that loses a race is
//! retried on top of the other.

mod pool;
mod uri;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use pool::PAYLOADS_REF;
pub use pool::{
    EvictionReason, NewPayload, Payload, PayloadPlace, PayloadTombstone, Pool, StoredPayload,
};
pub use uri::{NameDigest, VfsUri};

use self::pool::root_of;
use super::Transaction;
use crate::error::{ErrorKind, Result};
use crate::object::{Kind, ObjectId, ObjectSource};
use crate::tree::{Item, Map};

impl Transaction<'_> {
    /// Replaces the citations that the next context adds: for a caller that writes several contexts
    /// in one transaction and knows the citations of each.
    pub fn set_cited(&mut self, cited: BTreeSet<VfsUri>) {
        self.cited = cited;
    }

    /// Searches a written blob for citations. Costs a search through it, and nothing in a store
    /// without payloads.
    pub(super) fn note_citations(&mut self, blob: &[u8]) {
        if self.initial_value(PAYLOADS_REF).is_some() {
            self.cited.extend(VfsUri::cited(blob).map(|(uri, _)| uri));
        }
    }

    /// Returns the payloads of the pool that were cited since the last call, and the payloads that
    /// these cite in turn. Omits payloads that do not verify, are lost or were redacted.
    ///
    /// # Errors
    /// Errors of reading the pool, and `Io`.
    pub(super) fn take_cited_payloads(&mut self) -> Result<Vec<(String, ObjectId)>> {
        let cited = std::mem::take(&mut self.cited);
        let Some(root) = root_of(self.initial_value(PAYLOADS_REF)).filter(|_| !cited.is_empty())
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
            let bytes = match self.read_as(Kind::Blob, &item.link.id) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::Io => return Err(error),
                // A lost payload must not prevent recording the turn that cites it. `fsck` reports
                // the loss, because the pool still names it.
                Err(_) => continue,
            };
            waiting.extend(VfsUri::cited(&bytes).map(|(uri, _)| uri));
            taken.insert(uri.to_string(), item.link.id);
        }
        Ok(taken.into_iter().collect())
    }
}

/// Returns an entry of the section `vfs`.
#[must_use]
pub fn payload_item(blob: ObjectId) -> Item {
    Item::new(Kind::Blob, blob)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::context::Builder;
    use crate::context::sections::VFS;
    use crate::object::Time;
    use crate::repo::{BranchName, Repository, Signature, SnapshotDraft};
    use crate::store::{NewStore, OpenOptions, RealIo};

    /// Flips a bit of the only occurrence of `bytes` in the journal of a store.
    fn damage(store: &Path, bytes: &[u8]) {
        let mut damaged = 0;
        for entry in std::fs::read_dir(store.join("journal")).unwrap() {
            let path = entry.unwrap().path();
            let mut content = std::fs::read(&path).unwrap();
            if let Some(at) = content.windows(bytes.len()).position(|window| window == bytes) {
                content[at] ^= 1;
                std::fs::write(&path, content).unwrap();
                damaged += 1;
            }
        }
        assert_eq!(damaged, 1);
    }

    #[test]
    fn a_turn_that_cites_a_damaged_payload_is_taken_without_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        let stamp = Signature { time: Time::default(), actor: "me".into() };
        let new = NewStore { id: [1; 16] };
        let repo =
            Repository::init(Arc::new(RealIo), &store, &new, OpenOptions::new([2; 16])).unwrap();
        let put = |text: &'static str| {
            let content = Bytes::from_static(text.as_bytes());
            let uri = VfsUri::of_digest(ObjectId::of(Kind::Blob, &content).as_bytes());
            let stored = repo.put_payload(&NewPayload { content, uri, otherwise: None }, &stamp);
            stored.unwrap().payload.uri
        };
        // The newest batch would count as torn, and not as damaged.
        let damaged = put("a payload that is damaged");
        let whole = put("a payload that stays");
        drop(repo);
        damage(&store, b"a payload that is damaged");

        let repo = Repository::open(Arc::new(RealIo), &store, OpenOptions::new([3; 16])).unwrap();
        let mut change = repo.begin();
        let mut builder = Builder::new();
        let text = format!("see {whole} and {damaged}");
        builder.set_entry(&mut change, "scratchpad", "note", Some(text.into())).unwrap();
        let tree = builder.write(&mut change).unwrap();
        let branch = BranchName::main("s").unwrap();
        let id = change.snapshot(&branch, SnapshotDraft::new(tree, "cites", &stamp)).unwrap();
        change.commit(&stamp, "snapshot").unwrap();
        let carried = repo.context(&id).unwrap().map(repo.store(), VFS).unwrap();
        let carried: Vec<_> = carried.iter(repo.store()).map(|entry| entry.unwrap().0).collect();
        assert_eq!(carried, [whole.as_str().as_bytes()]);
    }
}
