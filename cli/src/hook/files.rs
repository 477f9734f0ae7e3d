//! The files of a turn: those that a tool has named, or all of the workspace.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use turntree::Result;
use turntree::context::{Builder, Context, FileMode};
use turntree::local::git_places;
use turntree::object::{Kind, ObjectId, ObjectSink, ObjectSource};
use turntree::repo::{Repository, Transaction};
use turntree::workspace::{CaptureOptions, CaptureReport, StatCache, capture, open_regular};
use turntree_exchange::agents::hook::{Effect, EventKind, HookEvent, TouchedFile};

use crate::porcelain::capture::Limits;
use crate::porcelain::kept_files::{kept_files, key_of, read_kept};
use crate::view::units::parse_time;

/// Largest file that is read because a tool has named it.
const MAX_NAMED_BYTES: u64 = 16 << 20;

/// Files in a workspace from which on looking at them takes longer than an agent is to wait.
const MANY_FILES: u64 = 15_000;

/// The longest time that an agent waits for the capture of its workspace.
const PATIENCE: Duration = Duration::from_millis(150);

/// The same before something may be destroyed, and when a session begins.
const MORE_PATIENCE: Duration = Duration::from_secs(1);

/// The time limit of a process that nobody waits for.
const NO_HURRY: Duration = Duration::from_secs(60);

/// The longest time in which git is asked for ignored files that are kept.
const FOR_KEPT_FILES: Duration = Duration::from_millis(500);

/// The time that a person lets agents wait, in place of less.
const GIVEN: &str = "TURNTREE_HOOK_PATIENCE";

const MOST_GIVEN: Duration = Duration::from_secs(3600);

/// Returns the time that a person lets agents wait, an hour at most; none where what is given is no time.
pub(super) fn given_patience() -> Duration {
    let given = std::env::var(GIVEN).ok().and_then(|given| parse_time(&given).ok());
    given.unwrap_or_default().min(MOST_GIVEN)
}

/// The files of a workspace that go along with an event.
pub(super) struct HookFiles<'e> {
    event: &'e HookEvent,
    /// Set when the workspace is looked at at all.
    looks: bool,
    /// Nobody waits.
    has_time: bool,
    /// The branch may have begun in another directory than the agent.
    moves: bool,
    /// The worktree that the agent works in.
    worktree: Option<PathBuf>,
    /// The project that the agent works in.
    project: Option<PathBuf>,
    seen: RefCell<Seen>,
}

/// The outcome.
#[derive(Default)]
struct Seen {
    captured: Option<(StatCache, CaptureReport)>,
    /// There is more to look at than there was time for.
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

    /// The directory that paths of files begin in for a session that begins, where that is above the working
    /// directory.
    pub(super) fn root_of_new_sessions(&self) -> Option<String> {
        let above =
            self.project.as_ref().filter(|project| Some(*project) != self.event.cwd.as_ref());
        above.and_then(|project| Some(project.to_str()?.to_owned()))
    }

    /// Puts the files of the turn into `builder`, which continues `context`; what the commit is to say
    /// of them comes back.
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

    /// Returns the content of files before a tool changed them, as the client tells it.
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

    /// Puts the ignored files that the project wants kept; returns whether there are any.
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
                builder.set_file(change, key, Some(file))?;
                is_any = true;
            }
        }
        Ok(is_any)
    }

    /// Resolves the path of a file that a tool has named, from the directory of the agent.
    fn whole(&self, file: &TouchedFile) -> Option<PathBuf> {
        Some(self.event.cwd.as_ref()?.join(&file.path))
    }

    /// Returns whether the workspace is to be looked at now.
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

    /// Returns whether nobody waits for this process.
    pub(super) fn has_time(&self) -> bool {
        self.has_time
    }

    /// Returns whether a process with more time is to look again.
    pub(super) fn is_unfinished(&self) -> bool {
        self.seen.borrow().is_unfinished
    }

    /// Keeps what was seen for the next time, once `tree` is in the store.
    pub(super) fn keep(&self, repo: &Repository, tree: &ObjectId) {
        if let Some((cache, captured)) = &self.seen.borrow().captured {
            // Without it the next one takes longer, and no more.
            let _ = cache.save(captured, repo.store(), tree);
        }
    }

    /// Makes the files what the workspace holds; false when there are too many to look at now.
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
        if patience == PATIENCE && StatCache::known_files(repo.store(), root) > MANY_FILES {
            seen.is_unfinished = true;
            return Ok(false);
        }
        let end = Instant::now() + patience;
        let cache = StatCache::open(repo.store(), root)?;
        let options = CaptureOptions {
            over_budget: &|| Instant::now() >= end,
            never: &[repo.store().dir().to_owned()],
            cache: Some(&cache),
            git: &git_places(),
            ..CaptureOptions::default()
        };
        let captured = capture(change, context, builder, root, &options)?;
        seen.is_unfinished = captured.unfinished && !self.has_time;
        seen.captured = Some((cache, captured));
        Ok(true)
    }

    /// The directory that the keys of files are relative to: the project in which the session began to work.
    /// Nothing when the agent is elsewhere now, or that is more than a workspace.
    fn root(&self, source: &dyn ObjectSource, context: &Context) -> Result<Option<PathBuf>> {
        let Some(cwd) = self.event.cwd.as_deref().filter(|cwd| cwd.is_absolute()) else {
            return Ok(None);
        };
        if let Some(root) = self.worktree.as_ref().filter(|root| cwd.starts_with(root)) {
            return Ok(Some(root.clone()));
        }
        let fact = |name: &str| -> Result<Option<PathBuf>> {
            let Some(item) = context.map(source, "meta")?.get(source, name.as_bytes())? else {
                return Ok(None);
            };
            let name = source.read_as(Kind::Blob, &item.link.id)?;
            Ok(Some(PathBuf::from(String::from_utf8_lossy(&name).into_owned())))
        };
        // A session keeps the directory that its files begin in.
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

/// Puts a file that a tool has named, as it is now.
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
        // What it is will be seen by the next look at the workspace, or told in the transcript.
        Ok(None) | Err(_) => Ok(()),
    }
}

/// An ordinary file that is not too large; never a pipe, which would wait, and no link.
fn read_named(path: &Path) -> std::io::Result<Option<(FileMode, Bytes)>> {
    let found = fs::symlink_metadata(path)?;
    if !found.is_file() || found.len() > MAX_NAMED_BYTES {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    open_regular(path)?.take(MAX_NAMED_BYTES).read_to_end(&mut bytes)?;
    let is_program = found.permissions().mode() & 0o111 != 0;
    let mode = if is_program { FileMode::Executable } else { FileMode::Regular };
    Ok(Some((mode, bytes.into())))
}

/// The key of a file inside of `root`.
fn key(root: &Path, path: &Path) -> Option<String> {
    let inside = path.strip_prefix(root).ok()?;
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let key = inside.to_str().filter(|key| !key.is_empty())?;
    inside.components().all(is_plain).then(|| key.to_owned())
}
