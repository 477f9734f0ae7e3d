//! Options of a capture: limits, cache and progress.

use std::fmt;
use std::path::PathBuf;

use super::stat_cache::StatCache;
use crate::workspace::git::{GitPlaces, NO_PLACES};

/// Largest file that is captured unless the options say otherwise, in bytes.
pub const MAX_FILE_BYTES: u64 = 100 << 20;

/// Options of a capture. [`CaptureOptions::default`] captures everything, without a cache.
#[derive(Clone, Copy)]
pub struct CaptureOptions<'a> {
    /// Largest file that is captured, in bytes; [`MAX_FILE_BYTES`] by default.
    pub max_file_bytes: u64,
    /// Returns whether the time is up. Called before every folder and file, from any thread. Never
    /// up by default: the library has no clock. Files that are not reached keep their last known
    /// content.
    pub over_budget: &'a (dyn Fn() -> bool + Sync),
    /// Told how far it has come, from any thread.
    pub progress: &'a (dyn Fn(CaptureProgress) + Sync),
    /// Folders that are never entered under any name, such as that of the store.
    pub never: &'a [PathBuf],
    /// The cache of an earlier capture of the same directory. Unchanged files are not read then.
    pub cache: Option<&'a StatCache>,
    /// Where git keeps the settings of the user. By default those of a repository itself count alone.
    pub git: &'a GitPlaces,
}

/// The progress of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureProgress {
    /// So many files have been looked at.
    Looked(u64),
    /// Of the files that differ, so many have been read.
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
