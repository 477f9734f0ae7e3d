//! How a directory is captured: within what limits, with which cache, and who is told how far it is.

use std::fmt;
use std::path::PathBuf;

use super::stat_cache::StatCache;

/// Largest file that is captured unless the options say otherwise, in bytes.
pub const MAX_FILE_BYTES: u64 = 100 << 20;

/// How a capture is made. [`CaptureOptions::default`] is a whole one without a cache.
#[derive(Clone, Copy)]
pub struct CaptureOptions<'a> {
    /// Largest file that is captured, in bytes; [`MAX_FILE_BYTES`] by default.
    pub max_file_bytes: u64,
    /// Whether the time for it is up. Asked before every folder and file, from any thread; never up
    /// by default, for the library knows no clock. What was not looked at by then keeps its last
    /// known content.
    pub over_budget: &'a (dyn Fn() -> bool + Sync),
    /// Told how far it has come, from any thread.
    pub progress: &'a (dyn Fn(CaptureProgress) + Sync),
    /// Folders that are never entered under any name, such as that of the store.
    pub never: &'a [PathBuf],
    /// What an earlier capture of the same directory has seen. With it unchanged files are not read.
    pub cache: Option<&'a StatCache>,
}

/// How far a capture has come.
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
        }
    }
}

impl fmt::Debug for CaptureOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { max_file_bytes, never, cache, .. } = self;
        let mut shown = f.debug_struct("CaptureOptions");
        shown.field("max_file_bytes", max_file_bytes).field("never", never).field("cache", cache);
        shown.finish_non_exhaustive()
    }
}
