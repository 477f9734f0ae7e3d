//! Captures a directory for commands: refuses broad directories, limits the time, shows progress,
//! and reports the result.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use turntree::Error;
use turntree::context::{Builder, Context};
use turntree::local::git_places;
use turntree::object::ObjectId;
use turntree::repo::{Repository, Transaction};
use turntree::workspace::{
    CaptureOptions, CaptureProgress, CaptureReport, MAX_FILE_BYTES, StatCache, capture,
};

use crate::porcelain::broad_directory::expect_narrow;
use crate::program::moved_project::note_project;
use crate::view::error::Result;
use crate::view::json;
use crate::view::output::warn;
use crate::view::progress::Working;
use crate::view::render::{count, size};
use crate::view::units::{parse_file_size, parse_time};

/// Maximum number of omitted paths to show on stderr; `--json` has all of them.
const SHOWN: usize = 20;

/// Limits of the capture of a directory.
#[derive(Debug, Default, Args)]
pub(crate) struct Limits {
    /// Leave out files with more bytes than this, at most 2GiB; 100MiB by default
    #[arg(long, value_name = "SIZE", value_parser = parse_file_size, hide_short_help = true)]
    max_file_size: Option<u64>,
    /// Read files for no longer than this, such as 500ms or 10s: the other files keep their last
    /// known content, and the next snapshot continues with them
    #[arg(long, value_name = "TIME", value_parser = parse_time, hide_short_help = true)]
    time_budget: Option<Duration>,
    /// Allow the home directory, a directory above it, or /
    #[arg(long)]
    allow_broad: bool,
}

/// A captured directory.
#[derive(Debug)]
pub(crate) struct Workspace {
    cache: Option<StatCache>,
    captured: CaptureReport,
}

impl Limits {
    /// Refuses the options without a directory.
    ///
    /// # Errors
    /// `InvalidInput` if an option is given.
    pub(crate) fn expect_none(&self) -> Result<()> {
        let Self { max_file_size, time_budget, allow_broad } = self;
        if max_file_size.is_some() || time_budget.is_some() || *allow_broad {
            let expected = "--max-file-size, --time-budget and --allow-broad need --workspace";
            return Err(Error::invalid(expected).into());
        }
        Ok(())
    }

    /// Default limits, except that a broad directory may be allowed.
    pub(crate) fn broad(allow_broad: bool) -> Self {
        Self { allow_broad, ..Self::default() }
    }

    /// Refuses a missing directory, or one that is too broad for a snapshot.
    pub(crate) fn check(&self, dir: &Path) -> Result<()> {
        if !dir.is_dir() {
            let missing = format!("{} is not a directory", dir.display());
            return Err(Error::not_found(missing).into());
        }
        expect_narrow(dir, self.allow_broad)
    }

    /// Captures `dir` into the section `files` of `builder`, which continues `parent`, and warns
    /// about omitted files.
    pub(crate) fn capture(
        &self,
        repo: &Repository,
        change: &mut Transaction<'_>,
        parent: &Context,
        builder: &mut Builder,
        dir: &Path,
    ) -> Result<Workspace> {
        self.check(dir)?;
        let end = self.time_budget.map(|budget| Instant::now() + budget);
        // Without the cache every file is read, but nothing is lost.
        let cache = StatCache::open(repo, dir).ok();
        let working = Working::new("lists files");
        let options = CaptureOptions {
            max_file_bytes: self.max_file_size.unwrap_or(MAX_FILE_BYTES),
            over_budget: &|| end.is_some_and(|end| Instant::now() >= end),
            progress: &|progress| working.say(progress_text(progress)),
            never: &[repo.dir().to_owned()],
            cache: cache.as_ref(),
            git: &git_places(),
        };
        let captured = capture(change, parent, builder, dir, &options)?;
        drop(working);
        warn_of(&captured);
        Ok(Workspace { cache, captured })
    }
}

impl Workspace {
    /// Returns the commit metadata about `dir`, the captured directory.
    pub(crate) fn metadata(&self, dir: &Path) -> Vec<(String, String)> {
        self.captured.metadata(dir)
    }

    /// Saves the stat cache for the next capture, once `tree` is in the store.
    pub(crate) fn keep(&self, repo: &Repository, tree: &ObjectId) {
        note_project(repo);
        if let Some(cache) = &self.cache {
            // The snapshot is taken: without the cache the next one only takes longer.
            let _ = cache.save(&self.captured, repo, tree);
        }
    }

    /// Summarizes the capture for people.
    pub(crate) fn summary(&self) -> String {
        let CaptureReport { files, bytes, read, changed, removed, .. } = &self.captured;
        let files = count(*files, "file");
        format!("{files} ({}): {read} read, {changed} changed, {removed} removed", size(*bytes))
    }

    /// Summarizes the capture as JSON.
    pub(crate) fn record(&self) -> json::Workspace {
        let CaptureReport { files, bytes, read, changed, removed, skipped, unfinished, .. } =
            &self.captured;
        let skipped = skipped.iter().map(|skipped| json::Skipped {
            path: skipped.path.to_string_lossy().into_owned(),
            reason: skipped.reason.clone(),
        });
        json::Workspace {
            files: *files,
            bytes: *bytes,
            read: *read,
            changed: *changed,
            removed: *removed,
            skipped: skipped.collect(),
            unfinished: *unfinished,
        }
    }
}

/// Formats the progress of a capture.
pub(crate) fn progress_text(progress: CaptureProgress) -> String {
    match progress {
        CaptureProgress::Looked(files) => format!("lists files: {files}"),
        CaptureProgress::Read(done, of) => format!("reads files: {done} of {of}"),
    }
}

/// Warns about git files that a capture could not use.
pub(crate) fn warn_of_git(captured: &CaptureReport) {
    for warning in &captured.warnings {
        warn(&format!("{warning}: the capture continued without it"));
    }
}

fn warn_of(captured: &CaptureReport) {
    warn_of_git(captured);
    for skipped in captured.skipped.iter().take(SHOWN) {
        let path = if skipped.path == PathBuf::new() { Path::new(".") } else { &skipped.path };
        warn(&format!("{} is left out: {}", path.display(), skipped.reason));
    }
    if let Some(more) = captured.skipped.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        warn(&format!("and {} left out; --json names them all", count(more as u64, "more path")));
    }
    if captured.unfinished {
        warn("the time budget was used up: unread files keep their last known content");
    }
}
