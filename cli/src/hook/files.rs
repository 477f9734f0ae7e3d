//! The files of a turn: the files that a tool named, or the whole workspace.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use turntree::Result;
use turntree::context::sections::META;
use turntree::context::{Builder, Context, FileMode};
use turntree::local::git_places;
use turntree::object::{Kind, ObjectId, ObjectSink, ObjectSource};
use turntree::platform::{is_program, path_text};
use turntree::repo::{Repository, Transaction};
use turntree::workspace::{CaptureOptions, CaptureReport, StatCache, capture, open_regular};
use turntree_exchange::agents::hook::{Effect, EventKind, HookEvent, TouchedFile};

use crate::porcelain::workspace::capture::Limits;
use crate::porcelain::workspace::worktree_include::{kept_files, key_of, read_kept};
use crate::view::units::parse_time;

/// Largest file to read because a tool named it.
const MAX_NAMED_BYTES: u64 = 16 << 20;

/// Files in a workspace above which an agent cannot wait for the capture.
const MANY_FILES: u64 = 15_000;

/// How long an agent waits for the capture of its workspace.
const PATIENCE: Duration = Duration::from_millis(150);

/// How long it waits when a session begins, and before files may be lost.
const MORE_PATIENCE: Duration = Duration::from_secs(1);

/// The time limit of a capture in a background process.
const NO_HURRY: Duration = Duration::from_secs(60);

/// The time limit for git to list ignored files to keep.
const FOR_KEPT_FILES: Duration = Duration::from_millis(500);

/// The variable with the time that the user lets agents wait for hooks, if that is longer than the
/// default; and its maximum.
const GIVEN: &str = "TURNTREE_HOOK_PATIENCE";

const MOST_GIVEN: Duration = Duration::from_secs(3600);

/// Returns the time that the user lets agents wait, at most an hour; zero if it is unset or not a
/// time.
pub(super) fn given_patience() -> Duration {
    let given = std::env::var(GIVEN).ok().and_then(|given| parse_time(&given).ok());
    given.unwrap_or_default().min(MOST_GIVEN)
}

/// The workspace files that an event stores.
pub(super) struct HookFiles<'e> {
    event: &'e HookEvent,
    /// True if the workspace is captured.
    looks: bool,
    /// True in a background process.
    has_time: bool,
    /// The branch may have begun in a directory other than the agent's.
    moves: bool,
    /// The worktree that the agent works in.
    worktree: Option<PathBuf>,
    /// The project that the agent works in.
    project: Option<PathBuf>,
    seen: RefCell<Seen>,
}

/// The result of a capture.
#[derive(Default)]
struct Seen {
    captured: Option<(StatCache, CaptureReport)>,
    /// True if the capture ran out of time.
    is_unfinished: bool,
}

impl<'e> HookFiles<'e> {
    pub(super) fn new(
        event: &'e HookEvent,
        looks: bool,
        has_time: bool,
        moves: bool,
        (worktree, project): (Option<PathBuf>, Option<PathBuf>),
    ) -> Self {
        Self { event, looks, has_time, moves, worktree, project, seen: RefCell::default() }
    }

    /// The base directory of file paths for a new session, if it is above the working directory.
    pub(super) fn root_of_new_sessions(&self) -> Option<String> {
        let above =
            self.project.as_ref().filter(|project| Some(*project) != self.event.cwd.as_ref());
        above.and_then(|project| Some(project.to_str()?.to_owned()))
    }

    /// Puts the files of the turn into `builder`, which continues `context`. Returns the commit's
    /// metadata about them.
    pub(super) fn put(
        &self,
        repo: &Repository,
        change: &mut Transaction<'_>,
        context: &Context,
        builder: &mut Builder,
    ) -> Result<BTreeMap<String, String>> {
        let Some(root) = self.root(change, context)? else { return Ok(BTreeMap::new()) };
        if self.is_capture() && self.look(repo, change, context, builder, &root)? {
            let seen = self.seen.borrow();
            let captured = seen.captured.iter().flat_map(|(_, captured)| captured.metadata(&root));
            return Ok(captured.collect());
        }
        for file in self.event.tool.iter().flat_map(|tool| &tool.files) {
            if let Some(path) = self.whole(file) {
                put_named(change, builder, &root, &path, file.may_be_gone)?;
            }
        }
        Ok(BTreeMap::new())
    }

    /// Returns the content of files before a tool changed them, as reported by the client.
    pub(super) fn before(
        &self,
        source: &dyn ObjectSource,
        context: &Context,
    ) -> Result<Vec<(String, Bytes)>> {
        let files = self.event.tool.iter().flat_map(|tool| &tool.files);
        let mut told = files.filter(|file| file.before.is_some() && self.looks).peekable();
        if told.peek().is_none() {
            return Ok(Vec::new());
        }
        let Some(root) = self.root(source, context)? else { return Ok(Vec::new()) };
        let told = told.filter_map(|file| {
            let before = Bytes::copy_from_slice(file.before.as_ref()?.as_bytes());
            Some((key(&root, &self.whole(file)?)?, before))
        });
        Ok(told.collect())
    }

    /// Adds the ignored files that the project keeps; returns true if there are any.
    pub(super) fn put_kept(
        &self,
        change: &mut Transaction<'_>,
        context: &Context,
        builder: &mut Builder,
    ) -> Result<bool> {
        let Some(root) = self.root(change, context)?.filter(|_| self.looks) else {
            return Ok(false);
        };
        let mut is_any = false;
        for path in kept_files(&root, FOR_KEPT_FILES) {
            let (Some(key), Some(file)) = (key_of(&path), read_kept(&root, &path)) else {
                continue;
            };
            if change.refuses(&file.1)?.is_none() {
                builder.set_file(change, &key, Some(file))?;
                is_any = true;
            }
        }
        Ok(is_any)
    }

    /// Resolves the path of a file that a tool named, from the agent's directory.
    fn whole(&self, file: &TouchedFile) -> Option<PathBuf> {
        Some(self.event.cwd.as_ref()?.join(&file.path))
    }

    /// Returns true if this event captures the workspace.
    pub(super) fn is_capture(&self) -> bool {
        let effect = self.event.tool.as_ref().map(|tool| tool.effect);
        let may_have_changed = match self.event.moment {
            EventKind::Start
            | EventKind::Prompt
            | EventKind::BeforeCompaction
            | EventKind::Stop
            | EventKind::End => true,
            EventKind::BeforeTool | EventKind::AfterTool => effect == Some(Effect::Anything),
            EventKind::AgentEnd | EventKind::Other => false,
        };
        self.looks && may_have_changed
    }

    /// Returns true in a background process.
    pub(super) fn has_time(&self) -> bool {
        self.has_time
    }

    /// Returns true if a background process should capture again.
    pub(super) fn is_unfinished(&self) -> bool {
        self.seen.borrow().is_unfinished
    }

    /// Saves the stat cache for the next capture, once `tree` is in the store.
    pub(super) fn keep(&self, repo: &Repository, tree: &ObjectId) {
        if let Some((cache, captured)) = &self.seen.borrow().captured {
            // Without the cache the next capture only takes longer.
            let _ = cache.save(captured, repo, tree);
        }
    }

    /// Captures the workspace into `builder`; returns false if it has too many files for the time
    /// limit.
    fn look(
        &self,
        repo: &Repository,
        change: &mut Transaction<'_>,
        context: &Context,
        builder: &mut Builder,
        root: &Path,
    ) -> Result<bool> {
        let patience = match self.event.moment {
            _ if self.has_time => NO_HURRY,
            EventKind::Start | EventKind::BeforeTool | EventKind::BeforeCompaction => MORE_PATIENCE,
            _ => PATIENCE,
        };
        let patience = patience.max(given_patience());
        let mut seen = self.seen.borrow_mut();
        if patience == PATIENCE && StatCache::known_files(repo, root) > MANY_FILES {
            seen.is_unfinished = true;
            return Ok(false);
        }
        let end = Instant::now() + patience;
        let cache = StatCache::open(repo, root)?;
        let options = CaptureOptions {
            over_budget: &|| Instant::now() >= end,
            never: &[repo.dir().to_owned()],
            cache: Some(&cache),
            git: &git_places(),
            ..CaptureOptions::default()
        };
        let captured = capture(change, context, builder, root, &options)?;
        seen.is_unfinished = captured.unfinished && !self.has_time;
        seen.captured = Some((cache, captured));
        Ok(true)
    }

    /// The base directory of file keys: the project in which the session began. `None` if the agent
    /// works elsewhere now, or if the directory is too large for a workspace.
    fn root(&self, source: &dyn ObjectSource, context: &Context) -> Result<Option<PathBuf>> {
        let Some(cwd) = self.event.cwd.as_deref().filter(|cwd| cwd.is_absolute()) else {
            return Ok(None);
        };
        if let Some(root) = self.worktree.as_ref().filter(|root| cwd.starts_with(root)) {
            return Ok(Some(root.clone()));
        }
        let fact = |name: &str| -> Result<Option<PathBuf>> {
            let Some(item) = context.map(source, META)?.get(source, name.as_bytes())? else {
                return Ok(None);
            };
            let name = source.read_as(Kind::Blob, &item.link.id)?;
            Ok(Some(PathBuf::from(String::from_utf8_lossy(&name).into_owned())))
        };
        // A session keeps its base directory.
        let root = match (fact("root")?, fact("cwd")?) {
            (Some(root), _) => root,
            (None, Some(began)) => began,
            (None, None) => self.project.clone().unwrap_or_else(|| cwd.to_owned()),
        };
        let root = if self.moves && !cwd.starts_with(&root) { cwd.to_owned() } else { root };
        let is_there = cwd.starts_with(&root) && Limits::default().check(&root).is_ok();
        Ok(is_there.then_some(root))
    }
}

/// Adds a file that a tool named, with its current content.
fn put_named(
    change: &mut Transaction<'_>,
    builder: &mut Builder,
    root: &Path,
    path: &Path,
    may_be_gone: bool,
) -> Result<()> {
    let Some(key) = key(root, path) else { return Ok(()) };
    match read_named(path) {
        Ok(Some((_, bytes))) if change.refuses(&bytes)?.is_some() => Ok(()),
        Ok(Some(content)) => builder.set_file(change, &key, Some(content)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && may_be_gone => {
            builder.set_file(change, &key, None)
        }
        // The next capture or the transcript has the file.
        Ok(None) | Err(_) => Ok(()),
    }
}

/// Reads a regular file up to the size limit. Skips links, and pipes, which would block.
fn read_named(path: &Path) -> std::io::Result<Option<(FileMode, Bytes)>> {
    let found = fs::symlink_metadata(path)?;
    if !found.is_file() || found.len() > MAX_NAMED_BYTES {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    open_regular(path)?.take(MAX_NAMED_BYTES).read_to_end(&mut bytes)?;
    let mode = if is_program(&found) { FileMode::Executable } else { FileMode::Regular };
    Ok(Some((mode, bytes.into())))
}

/// The key of a file inside `root`.
fn key(root: &Path, path: &Path) -> Option<String> {
    let inside = path.strip_prefix(root).ok()?;
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let key = path_text(inside).filter(|key| !key.is_empty())?;
    inside.components().all(is_plain).then(|| key.into_owned())
}
