//! One remote bundle: reads its frames by range when an object in them is needed.
//!
//! Frames needed together are requested together. If the gap between them is small it is read too,
//! because another request would take longer. A frame is verified before it is cached.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;

use super::RangeSource;
use super::cache::FrameFolder;
use super::index::BundleIndex;
use crate::error::{Error, ErrorKind, Result};
use crate::object::{Kind, Object, ObjectId};
use crate::store::io::ReadAt;
use crate::store::lock;
use crate::store::pack::{BlockCache, IndexedBundle};

/// Gaps between two frames up to this size are read too.
const GAP_BYTES: u64 = 64 << 10;

/// Most bytes of one request, unless a single frame is larger.
const RANGE_BYTES: u64 = 8 << 20;

/// Most bytes of frames to cache in memory.
const HELD_BYTES: usize = 32 << 20;

/// Hex digits in file names.
const NAME_DIGITS: usize = 32;

/// A remote bundle.
pub(super) struct DistantBundle {
    bundle: IndexedBundle,
    parts: Arc<BundleBytes>,
}

/// The bytes of a bundle: local ends, cached frames, and the remote.
struct BundleBytes {
    name: String,
    index: BundleIndex,
    source: Option<Arc<dyn RangeSource>>,
    folder: Arc<FrameFolder>,
    /// The ranges of the frames, by number; set once the bundle is open.
    frames: OnceLock<Vec<Range<u64>>>,
    /// Recently read frames, by number.
    held: Mutex<VecDeque<(usize, Bytes)>>,
}

impl DistantBundle {
    /// Opens the bundle with this index, which the ref `name` holds.
    ///
    /// # Errors
    /// `Corrupt` when the index does not belong to a bundle.
    pub(super) fn open(
        name: &str,
        index: BundleIndex,
        source: Option<Arc<dyn RangeSource>>,
        folder: Arc<FrameFolder>,
    ) -> Result<Self> {
        let (name, ids) = (name.to_owned(), index.ids.clone());
        let (frames, held) = (OnceLock::new(), Mutex::default());
        let parts = Arc::new(BundleBytes { name, index, source, folder, frames, held });
        let bundle = IndexedBundle::open(Arc::clone(&parts) as Arc<dyn ReadAt>, &ids)
            .map_err(|error| error.at(&parts.name))?;
        let _ = parts.frames.set(bundle.frames());
        Ok(Self { bundle, parts })
    }

    /// Returns the ordinal of an object in the bundle.
    pub(super) fn find(&self, id: &ObjectId) -> Option<u32> {
        self.bundle.find(id)
    }

    /// Caches the frames of these objects with as few requests as possible.
    pub(super) fn prefetch(&self, ordinals: &[u32]) -> Result<()> {
        let numbers = self.bundle.frames_of(ordinals);
        let numbers = numbers.into_iter().map(|number| number as usize);
        let missing: Vec<usize> = numbers
            .filter(|number| self.parts.find_local(*number, &self.bundle).is_none())
            .collect();
        let Some(frames) = self.parts.frames.get() else { return Ok(()) };
        let range = |number: &usize| frames.get(*number).cloned().unwrap_or_default();
        let mut runs: Vec<Vec<usize>> = Vec::new();
        for number in missing {
            let next = range(&number);
            let fits = runs.last().and_then(|run| Some((run.first()?, run.last()?))).is_some_and(
                |(first, last)| {
                    next.start.saturating_sub(range(last).end) <= GAP_BYTES
                        && next.end.saturating_sub(range(first).start) <= RANGE_BYTES
                },
            );
            match runs.last_mut().filter(|_| fits) {
                Some(run) => run.push(number),
                None => runs.push(vec![number]),
            }
        }
        for run in runs {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let whole = range(first).start..range(last).end;
            let bytes = self.parts.fetch(whole.clone())?;
            for number in run {
                let own = range(&number);
                let at = |place: u64| usize::try_from(place - whole.start).unwrap_or(usize::MAX);
                let (from, to) = (at(own.start), at(own.end));
                if from <= to && to <= bytes.len() {
                    self.parts.cache(number, &bytes.slice(from..to), &self.bundle)?;
                }
            }
        }
        Ok(())
    }

    /// Reads and verifies an object.
    ///
    /// # Errors
    /// `NotFound` when there is no reader, or the remote has deleted the bundle; `Io` when the
    /// remote did not answer; `Corrupt` when the response does not verify.
    pub(super) fn read(&self, ordinal: u32, cache: &BlockCache) -> Result<Object> {
        let read = self.bundle.read(ordinal, cache).map_err(|error| self.parts.unwrap_error(error));
        read.map(|(_, object)| object)
    }
}

impl BundleBytes {
    /// Checks for a frame in the local ends, in memory, or in a file that verifies.
    fn find_local(&self, number: usize, bundle: &IndexedBundle) -> Option<()> {
        let range = self.frames.get()?.get(number)?;
        if self.index.local_bytes(range).is_some() || self.in_memory(number).is_some() {
            return Some(());
        }
        let name = self.file_name(number);
        let bytes = self.folder.get(&name)?;
        let is_frame = u32::try_from(number).is_ok_and(|at| bundle.is_frame(at, &bytes));
        if !is_frame {
            self.folder.remove(&name);
            return None;
        }
        self.keep_in_memory(number, bytes);
        Some(())
    }

    /// Caches a frame that was read from the remote.
    fn cache(&self, number: usize, bytes: &Bytes, bundle: &IndexedBundle) -> Result<()> {
        if !u32::try_from(number).is_ok_and(|at| bundle.is_frame(at, bytes)) {
            return Err(Error::malformed(&self.name, "the frame that its index names"));
        }
        self.folder.put(&self.file_name(number), bytes);
        // A copy, so that the rest of the response is freed.
        self.keep_in_memory(number, Bytes::copy_from_slice(bytes));
        Ok(())
    }

    fn in_memory(&self, number: usize) -> Option<Bytes> {
        let held = lock(&self.held);
        held.iter().find(|(at, _)| *at == number).map(|(_, bytes)| bytes.clone())
    }

    fn keep_in_memory(&self, number: usize, bytes: Bytes) {
        let mut held = lock(&self.held);
        held.retain(|(at, _)| *at != number);
        held.push_back((number, bytes));
        let mut all: usize = held.iter().map(|(_, bytes)| bytes.len()).sum();
        while all > HELD_BYTES && held.len() > 1 {
            all -= held.pop_front().map_or(0, |(_, bytes)| bytes.len());
        }
    }

    fn fetch(&self, range: Range<u64>) -> Result<Bytes> {
        let Some(source) = &self.source else {
            let message = "the object is only on a remote, which was not opened";
            return Err(Error::not_found(message));
        };
        let wanted = range.end - range.start;
        let bytes = source.read_range(&self.name, range)?;
        match bytes.len() as u64 == wanted {
            true => Ok(bytes),
            false => {
                let found = format_args!("{}", bytes.len());
                Err(Error::corrupt(&self.name, format_args!("{wanted} bytes"), found))
            }
        }
    }

    fn file_name(&self, number: usize) -> String {
        let id = ObjectId::of(Kind::Blob, format!("{} {number}", self.name).as_bytes());
        id.short(NAME_DIGITS)
    }

    /// Extracts the error of the remote from the error of the frame reader.
    fn unwrap_error(&self, error: Error) -> Error {
        let mut cause = std::error::Error::source(&error);
        while let Some(source) = cause {
            let inner = source.downcast_ref::<io::Error>().and_then(|error| error.get_ref());
            if let Some(WrappedError { kind, text }) = inner.and_then(|inner| inner.downcast_ref())
            {
                return Error::new(*kind, text.clone());
            }
            cause = source.source();
        }
        error.at(&self.name)
    }
}

/// An error of the engine, passed through an `io::Error`.
#[derive(Debug)]
struct WrappedError {
    kind: ErrorKind,
    text: String,
}

impl fmt::Display for WrappedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for WrappedError {}

impl ReadAt for BundleBytes {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let range = offset..offset.saturating_add(buffer.len() as u64);
        let give = |bytes: &[u8], buffer: &mut [u8]| {
            buffer.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            bytes.len().min(buffer.len())
        };
        if let Some(bytes) = self.index.local_bytes(&range) {
            return Ok(give(&bytes, buffer));
        }
        let frames = self.frames.get().map(Vec::as_slice).unwrap_or_default();
        let number = frames.iter().position(|frame| frame.contains(&offset));
        let absent = || io::Error::new(io::ErrorKind::InvalidData, "no frame has this offset");
        let number = number.ok_or_else(absent)?;
        let frame = frames.get(number).cloned().unwrap_or_default();
        let bytes =
            match self.in_memory(number).or_else(|| self.folder.get(&self.file_name(number))) {
                Some(bytes) => bytes,
                None => {
                    let passed = |error: Error| {
                        let text = error.to_string();
                        io::Error::other(WrappedError { kind: error.kind(), text })
                    };
                    let bytes = self.fetch(frame.clone()).map_err(passed)?;
                    self.keep_in_memory(number, bytes.clone());
                    bytes
                }
            };
        let from = usize::try_from(offset - frame.start).unwrap_or(usize::MAX);
        Ok(give(bytes.get(from..).unwrap_or_default(), buffer))
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.index.ends.bytes)
    }
}

impl fmt::Debug for BundleBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for DistantBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DistantBundle").field(&self.parts).finish()
    }
}
