//! Objects that a store knows and does not have: they lie in bundles elsewhere, and are read by range.
//!
//! ```text
//! refs/distant/<whose>/<which>   a blob: front and tail of a bundle, and the ids of its objects
//!
//!   read ── here? ── dropped or redacted? ── in a bundle elsewhere? ── its frames: in memory
//!                                                                 ├── in the folder `distant`
//!                                                                 └── by range, from whoever has them
//! ```
//!
//! Which objects there are, and where each lies, is here; so without the other side it is known what is
//! missing, and nothing is taken for lost. What is read is verified as everything is. It does not become
//! part of the store: what is written is compared with what lies here alone, so a commit never leans
//! on a payload that only somebody else has, and a collection keeps what is here.

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

/// The prefix of refs that hold the indexes of bundles elsewhere.
pub const DISTANT_REFS: &str = "refs/distant/";

/// Most bytes of frames that are kept in files.
const FOLDER_BYTES: u64 = 256 << 20;

/// Whoever reads bundles that lie elsewhere.
pub trait RangeSource: fmt::Debug + Send + Sync {
    /// Reads a range of the bundle whose index the ref `name` holds.
    ///
    /// # Errors
    /// `Io` when it cannot be reached, `NotFound` when it is not there any more.
    fn read_range(&self, name: &str, range: Range<u64>) -> Result<Bytes>;
}

/// What a store knows of bundles elsewhere.
#[derive(Debug, Default)]
pub(in crate::store) struct Distant {
    source: OnceLock<Arc<dyn RangeSource>>,
    folder: OnceLock<Arc<FrameFolder>>,
    seen: Mutex<Arc<Seen>>,
}

/// The bundles that refs lead to.
#[derive(Debug, Default)]
struct Seen {
    refs: Vec<(String, ObjectId)>,
    bundles: Vec<Arc<DistantBundle>>,
}

/// The refs of indexes.
fn index_refs(refs: &RefTable) -> impl Iterator<Item = (&String, &ObjectId)> {
    let from = refs.values.range(DISTANT_REFS.to_owned()..);
    let own = from.take_while(|(name, _)| name.starts_with(DISTANT_REFS));
    own.filter_map(|(name, value)| match value {
        RefValue::Object(id) => Some((name, id)),
        RefValue::Symbolic(_) => None,
    })
}

/// The ids of all objects that lie elsewhere, by what `source` has of the indexes.
///
/// # Errors
/// `Corrupt` for an index that cannot be read.
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

/// The index that a ref holds.
fn decode_index(name: &str, blob: Option<Object>) -> Result<BundleIndex> {
    match blob {
        Some(Object { kind: Kind::Blob, bytes }) => {
            BundleIndex::decode(&bytes).map_err(|error| error.at(name))
        }
        _ => Err(Error::corrupt(name, "an index", "nothing of the kind")),
    }
}

impl Store {
    /// Says who reads what lies elsewhere; without anybody it is known and cannot be read. The first one
    /// that is said counts.
    pub fn set_range_source(&self, source: Arc<dyn RangeSource>) {
        let _ = self.distant.source.set(source);
    }

    /// Returns true if there are bundles elsewhere that this store knows.
    #[must_use]
    pub fn has_distant(&self) -> bool {
        index_refs(&self.refs()).next().is_some()
    }

    /// Lets go of all frames that were read elsewhere and kept in files: what is redacted may be in them.
    pub(crate) fn drop_distant_frames(&self) {
        self.frame_folder().clear();
    }

    /// Returns true if an object lies in this store.
    #[must_use]
    pub fn is_here(&self, id: &ObjectId) -> bool {
        read(&self.view).contains(id)
    }

    /// Returns true if an object lies elsewhere, be it here too or not.
    ///
    /// # Errors
    /// `Corrupt` for an index that cannot be read.
    pub fn is_distant(&self, id: &ObjectId) -> Result<bool> {
        Ok(self.distant_bundles()?.iter().any(|bundle| bundle.find(id).is_some()))
    }

    /// Objects that lie elsewhere, each with its place among `ids`; those that lie nowhere are left out.
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
            bundle.prepare(&ordinals)?;
            for (at, ordinal) in places {
                found.push((at, bundle.read(ordinal, &self.blocks)?));
            }
        }
        Ok(found)
    }

    fn distant_bundles(&self) -> Result<Vec<Arc<DistantBundle>>> {
        let refs = self.refs();
        let now: Vec<(String, ObjectId)> =
            index_refs(&refs).map(|(name, id)| (name.clone(), *id)).collect();
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
        let seen = Seen { refs: now, bundles: bundles.clone() };
        *lock(&self.distant.seen) = Arc::new(seen);
        Ok(bundles)
    }

    fn open_distant(&self, name: &str, index: &ObjectId) -> Result<Arc<DistantBundle>> {
        let index = decode_index(name, self.read_here(index)?)?;
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
