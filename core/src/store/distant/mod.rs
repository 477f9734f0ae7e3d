//! Remote-only objects: a store knows them, but they are in bundles on a remote, and are read by
//! range.
//!
//! ```text
//! refs/distant/<whose>/<which>   a blob: front and tail of a bundle, and the ids of its objects
//!
//!   read ── here? ── dropped or redacted? ── in a bundle elsewhere? ── its frames: in memory
//!                                                                 ├── in the folder `distant`
//!                                                                 └── by range, from a remote
//! ```
//!
//! The store knows which remote objects exist and where each is. So even offline it knows that they
//! are remote-only, and does not report them as lost. Remote content is verified like local
//! content. It does not become part of the store: a commit compares its objects only with local
//! ones, so it never relies on a payload that only the remote has, and a collection keeps only
//! local objects.

mod cache;
mod frames;
mod index;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;

use self::cache::FrameFolder;
use self::frames::DistantBundle;
pub use self::index::{BundleEnds, BundleIndex};
use super::read::refs::RefTable;
use super::{Store, lock, read};
use crate::error::{Error, Result};
use crate::object::{Kind, Object, ObjectId, ObjectSource, RefValue};

/// The prefix of refs that hold the indexes of remote bundles.
pub(crate) const DISTANT_REFS: &str = "refs/distant/";

/// Most bytes of frames to cache in files.
const FOLDER_BYTES: u64 = 256 << 20;

/// A reader of bundles on remotes.
pub trait RangeSource: fmt::Debug + Send + Sync {
    /// Reads a range of the bundle whose index the ref `name` holds.
    ///
    /// # Errors
    /// `Io` when the remote cannot be reached, `NotFound` when the bundle was deleted there.
    fn read_range(&self, name: &str, range: Range<u64>) -> Result<Bytes>;
}

/// The remote bundles that a store knows.
#[derive(Debug, Default)]
pub(in crate::store) struct Distant {
    source: OnceLock<Arc<dyn RangeSource>>,
    folder: OnceLock<Arc<FrameFolder>>,
    seen: Mutex<Arc<IndexedRefs>>,
}

/// The bundles whose indexes are in refs.
#[derive(Debug, Default)]
struct IndexedRefs {
    refs: Vec<(String, ObjectId)>,
    bundles: Vec<Arc<DistantBundle>>,
}

/// Returns the refs of indexes.
fn index_refs(refs: &RefTable) -> impl Iterator<Item = (&str, &ObjectId)> {
    refs.values.starting_with(DISTANT_REFS).filter_map(|(name, value)| match value {
        RefValue::Object(id) => Some((name, id)),
        RefValue::Symbolic(_) => None,
    })
}

/// Returns the ids of all objects in remote bundles, by the indexes that `source` has.
///
/// # Errors
/// `Corrupt` for an unreadable index.
pub(in crate::store) fn distant_ids(
    source: &dyn ObjectSource,
    refs: &RefTable,
) -> Result<Vec<ObjectId>> {
    let mut ids = Vec::new();
    for (name, id) in index_refs(refs) {
        ids.extend(decode_index(name, source.read(id)?)?.ids());
    }
    Ok(ids)
}

/// Decodes the index that a ref holds.
fn decode_index(name: &str, blob: Option<Object>) -> Result<BundleIndex> {
    match blob {
        Some(Object { kind: Kind::Blob, bytes }) => {
            BundleIndex::decode(&bytes).map_err(|error| error.at(name))
        }
        _ => Err(Error::malformed(name, "an index")),
    }
}

impl Store {
    /// Sets the reader of remote bundles. Without one, remote-only objects are known but cannot be
    /// read. Only the first call has an effect.
    pub fn set_range_source(&self, source: Arc<dyn RangeSource>) {
        let _ = self.distant.source.set(source);
    }

    /// Returns true if this store knows remote bundles.
    #[must_use]
    pub fn has_distant(&self) -> bool {
        index_refs(&self.refs()).next().is_some()
    }

    /// Deletes all cached remote frames: they may contain redacted content.
    pub(crate) fn drop_distant_frames(&self) {
        self.frame_folder().clear();
    }

    /// Returns true if an object is stored locally.
    #[must_use]
    pub fn is_here(&self, id: &ObjectId) -> bool {
        read(&self.view).contains(id)
    }

    /// Returns true if an object is in a remote bundle, whether it is also stored locally or not.
    ///
    /// # Errors
    /// `Corrupt` for an unreadable index.
    pub fn is_distant(&self, id: &ObjectId) -> Result<bool> {
        Ok(self.distant_bundles()?.iter().any(|bundle| bundle.find(id).is_some()))
    }

    /// Reads objects from remote bundles; returns each with its position in `ids`. Leaves out
    /// unknown ones.
    pub(in crate::store) fn read_distant(&self, ids: &[ObjectId]) -> Result<Vec<(usize, Object)>> {
        let bundles = self.distant_bundles()?;
        let mut wanted: BTreeMap<usize, Vec<(usize, u32)>> = BTreeMap::new();
        for (at, id) in ids.iter().enumerate() {
            let place = bundles.iter().map(|bundle| bundle.find(id)).enumerate();
            let place = place.filter_map(|(number, ordinal)| Some((number, ordinal?))).next();
            if let Some((number, ordinal)) = place {
                wanted.entry(number).or_default().push((at, ordinal));
            }
        }
        let mut found = Vec::new();
        for (number, places) in wanted {
            let Some(bundle) = bundles.get(number) else { continue };
            let ordinals: Vec<u32> = places.iter().map(|(_, ordinal)| *ordinal).collect();
            bundle.prefetch(&ordinals)?;
            for (at, ordinal) in places {
                found.push((at, bundle.read(ordinal, &self.blocks)?));
            }
        }
        Ok(found)
    }

    fn distant_bundles(&self) -> Result<Vec<Arc<DistantBundle>>> {
        let refs = self.refs();
        let now: Vec<(String, ObjectId)> =
            index_refs(&refs).map(|(name, id)| (name.to_owned(), *id)).collect();
        let seen = Arc::clone(&lock(&self.distant.seen));
        if seen.refs == now {
            return Ok(seen.bundles.clone());
        }
        let mut bundles = Vec::with_capacity(now.len());
        for entry in &now {
            let known = seen.refs.iter().position(|known| known == entry);
            let known = known.and_then(|at| seen.bundles.get(at)).map(Arc::clone);
            bundles.push(known.map_or_else(|| self.open_distant(&entry.0, &entry.1), Ok)?);
        }
        let seen = IndexedRefs { refs: now, bundles: bundles.clone() };
        *lock(&self.distant.seen) = Arc::new(seen);
        Ok(bundles)
    }

    fn open_distant(&self, name: &str, index: &ObjectId) -> Result<Arc<DistantBundle>> {
        let index = decode_index(name, self.read_local(index)?)?;
        let source = self.distant.source.get().map(Arc::clone);
        DistantBundle::open(name, index, source, Arc::clone(self.frame_folder())).map(Arc::new)
    }

    fn frame_folder(&self) -> &Arc<FrameFolder> {
        self.distant.folder.get_or_init(|| {
            let (io, keys) = (Arc::clone(&self.disk), self.keys);
            Arc::new(FrameFolder::new(io, keys, &self.dir, FOLDER_BYTES))
        })
    }
}
