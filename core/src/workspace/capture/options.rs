//! Options of a capture: limits, cache and progress.

use std::fmt;
use std::path::PathBuf;

use super::stat_cache::StatCache;
use crate::workspace::git::{GitPlaces, NO_PLACES};

/// Default maximum size of a captured file, in bytes.
pub const MAX_FILE_BYTES: u64 = 100 << 20;

/// Options of a capture. [`CaptureOptions::default`] captures everything, without a cache.
#[derive(Clone, Copy)]
pub struct CaptureOptions<'a> {
    /// Maximum size of a captured file, in bytes; [`MAX_FILE_BYTES`] by default. A capture refuses
    /// more than [`MAX_BLOB_BYTES`](crate::object::MAX_BLOB_BYTES).
    pub max_file_bytes: u64,
    /// Returns true if the deadline has passed. Called before every folder and file, from any
    /// thread. Never by default, because the library has no clock. Files not reached keep their
    /// last known content.
    pub over_budget: &'a (dyn Fn() -> bool + Sync),
    /// Receives progress, from any thread.
    pub progress: &'a (dyn Fn(CaptureProgress) + Sync),
    /// Folders that are never entered under any name, such as the store.
    pub never: &'a [PathBuf],
    /// The cache of an earlier capture of the same directory, which avoids reading unchanged files.
    pub cache: Option<&'a StatCache>,
    /// The locations of the user's git settings. By default only the repository's own settings
    /// apply.
    pub git: &'a GitPlaces,
}

/// The progress of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureProgress {
    /// Number of files examined.
    Looked(u64),
    /// Number of files read, and number of differing files.
    Read(u64, u64),
}

impl Default for CaptureOptions<'_> {
    fn default() -> Self {
        Self {
            max_file_bytes: MAX_FILE_BYTES,
            over_budget: &|| false,
            progress: &|_| {},
            never: &[],
            cache: None,
            git: &NO_PLACES,
        }
    }
}

impl fmt::Debug for CaptureOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { max_file_bytes, never, cache, git, .. } = self;
        let mut shown = f.debug_struct("CaptureOptions");
        shown.field("max_file_bytes", max_file_bytes).field("never", never).field("cache", cache);
        shown.field("git", git);
        shown.finish_non_exhaustive()
    }
}
