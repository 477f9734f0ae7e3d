//! The index that a store keeps of a remote bundle: its two ends, and the ids of its objects.
//!
//! ```text
//! bundle   | front | frames of blobs, of nodes | frames of commits | table | footer |
//! index    | 3 x u64 | front |                 | from the tail on .................. | ids |
//! ```
//!
//! So the store has the history, and knows the id and the frame of every object. The rest is read
//! by range.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::object::{Kind, Object, ObjectId};
use crate::store::io::ReadAt;
use crate::store::pack::{BlockCache, IndexedBundle};

/// Most bytes of decoded blocks that are cached while commits are read.
const CACHE_BYTES: usize = 8 << 20;

/// Bytes of the three numbers at the start.
const NUMBERS_BYTES: usize = 24;

/// The positions of the ends of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BundleEnds {
    /// The end of the bytes before the frames.
    pub front: u64,
    /// The start of the tail, with everything about history.
    pub tail: u64,
    /// Bytes of the bundle.
    pub bytes: u64,
}

impl BundleEnds {
    /// Computes the ends of a bundle with objects of these ids.
    ///
    /// # Errors
    /// `Corrupt` when it is not a bundle, or the number of ids differs from that of its objects.
    pub fn of(file: Arc<dyn ReadAt>, ids: &[u8]) -> Result<Self> {
        let bytes = file.size().map_err(|error| Error::io("inspect a bundle", error))?;
        let bundle = IndexedBundle::open(file, ids)?;
        Ok(Self { front: bundle.front_bytes(), tail: bundle.tail(), bytes })
    }
}

/// The local part of a remote bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleIndex {
    /// The positions of the ends.
    pub ends: BundleEnds,
    front: Bytes,
    tail: Bytes,
    /// The ids of the objects, concatenated.
    pub(super) ids: Bytes,
}

impl BundleIndex {
    /// Builds an index of the front, the tail, and the ids of a bundle.
    ///
    /// # Errors
    /// `Corrupt` when the lengths do not match the ends.
    pub fn new(ends: BundleEnds, front: Bytes, tail: Bytes, ids: Bytes) -> Result<Self> {
        let tail_bytes = ends.bytes.checked_sub(ends.tail);
        let fits = front.len() as u64 == ends.front
            && Some(tail.len() as u64) == tail_bytes
            && ends.front <= ends.tail;
        match fits {
            true => Ok(Self { ends, front, tail, ids }),
            false => Err(malformed()),
        }
    }

    /// Returns the ids of the objects, in storage order.
    pub fn ids(&self) -> impl Iterator<Item = ObjectId> {
        self.ids.chunks(size_of::<ObjectId>()).filter_map(ObjectId::from_slice)
    }

    /// Encodes the index as a blob.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let BundleEnds { front, tail, bytes } = self.ends;
        let numbers = [front, tail, bytes].map(u64::to_le_bytes).concat();
        [&numbers[..], &self.front, &self.tail, &self.ids].concat().into()
    }

    /// Decodes an index.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are not an index.
    pub fn decode(blob: &Bytes) -> Result<Self> {
        let number = |at: usize| {
            let bytes = blob.get(at..)?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes))
        };
        let parse = || {
            let ends = BundleEnds { front: number(0)?, tail: number(8)?, bytes: number(16)? };
            let front = NUMBERS_BYTES.checked_add(usize::try_from(ends.front).ok()?)?;
            let tail_bytes = usize::try_from(ends.bytes.checked_sub(ends.tail)?).ok()?;
            let tail = front.checked_add(tail_bytes).filter(|end| *end <= blob.len())?;
            let parts = (blob.slice(NUMBERS_BYTES..front), blob.slice(front..tail));
            Some((ends, parts.0, parts.1, blob.slice(tail..)))
        };
        let (ends, front, tail, ids) = parse().ok_or_else(malformed)?;
        Self::new(ends, front, tail, ids)
    }

    /// Returns a bundle of which only the ends can be read: enough to open it.
    #[must_use]
    pub fn ends(&self) -> Arc<dyn ReadAt> {
        Arc::new(self.clone())
    }

    /// Reads and verifies the commits and tags, in storage order. Calls `rest` to read the bases of
    /// their frames that are not local.
    ///
    /// # Errors
    /// `Corrupt` when something does not verify; the errors of `rest`.
    pub fn history(
        &self,
        rest: &mut dyn FnMut(Range<u64>) -> Result<Bytes>,
    ) -> Result<Vec<(ObjectId, Object)>> {
        let bundle = IndexedBundle::open(self.ends(), &self.ids)?;
        let ordinals = bundle.ordinals_of(Kind::Commit).chain(bundle.ordinals_of(Kind::Tag));
        let ordinals: Vec<u32> = ordinals.collect();
        let (frames, mut bases) = (bundle.frames(), Vec::new());
        for number in bundle.frames_of(&ordinals) {
            let frame = frames.get(number as usize).cloned().unwrap_or_default();
            if self.local_bytes(&frame).is_none() {
                bases.push((frame.start, rest(frame)?));
            }
        }
        let file = Arc::new(EndsWithBases { index: self.clone(), bases });
        let (bundle, cache) = (IndexedBundle::open(file, &self.ids)?, BlockCache::new(CACHE_BYTES));
        ordinals.into_iter().map(|ordinal| bundle.read(ordinal, &cache)).collect()
    }

    /// Returns the bytes of a range, if all of them are local.
    pub(super) fn local_bytes(&self, range: &Range<u64>) -> Option<Bytes> {
        let part = |bytes: &Bytes, start: u64| {
            let from = usize::try_from(range.start.checked_sub(start)?).ok()?;
            let to = usize::try_from(range.end.checked_sub(start)?).ok()?;
            (from <= to && to <= bytes.len()).then(|| bytes.slice(from..to))
        };
        part(&self.front, 0).or_else(|| part(&self.tail, self.ends.tail))
    }
}

impl ReadAt for BundleIndex {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let end = self.ends.bytes.min(offset.saturating_add(buffer.len() as u64));
        let bytes = self.local_bytes(&(offset..end.max(offset))).ok_or_else(absent)?;
        buffer.iter_mut().zip(&bytes).for_each(|(to, from)| *to = *from);
        Ok(bytes.len())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.ends.bytes)
    }
}

/// The ends of a bundle, with the base frames that the ends need, each with its offset.
#[derive(Debug)]
struct EndsWithBases {
    index: BundleIndex,
    bases: Vec<(u64, Bytes)>,
}

impl ReadAt for EndsWithBases {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let base = self.bases.iter().find_map(|(start, bytes)| {
            let from = usize::try_from(offset.checked_sub(*start)?).ok()?;
            bytes.get(from..from.checked_add(buffer.len())?)
        });
        let Some(base) = base else { return self.index.read_at(buffer, offset) };
        buffer.copy_from_slice(base);
        Ok(base.len())
    }

    fn size(&self) -> io::Result<u64> {
        self.index.size()
    }
}

fn absent() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "this part of the bundle is only on the remote")
}

fn malformed() -> Error {
    Error::malformed("the index of a remote bundle", "its front, its tail and its ids")
}
