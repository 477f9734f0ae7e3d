//! `adopt --watch`: runs until it is stopped, and imports sessions as agents write them.
//!
//! The system notifies of changes in the folders of the agents, so this process sleeps until then.
//! Each import is a short-lived process of its own: this one stays small.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use notify::event::ModifyKind::Metadata;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use serde_json::Value;
use turntree::platform::identity;
use turntree::workspace::Claim;
use turntree::{Error, ErrorKind};
use turntree_exchange::agents::{SessionPlace, WatchedFolder};

use crate::program::invocation::Invocation;
use crate::program::itself;
use crate::view::clock;
use crate::view::error::{Answer, Failure, Result};
use crate::view::output::{FAINT, NAME, warn};
use crate::view::render::count;

/// Sessions are imported when nothing has changed for this time.
const QUIET: Duration = Duration::from_secs(1);

/// The longest wait while changes continue.
const MOST: Duration = Duration::from_secs(20);

/// Most warnings that are kept in mind.
const MAX_TOLD: usize = 1_000;

/// The actor of these imports: a user's `undo` skips them.
const ACTOR: &str = "adopt/watch";

/// The right to watch for a store.
const CLAIM: &str = "watch of adopt";

/// Watches `places`, which were named as `paths` unless that is empty, until this process is ended.
pub(super) fn watch(
    run: &mut Invocation,
    places: &[SessionPlace],
    paths: &[PathBuf],
) -> Result<Answer> {
    let store = run.locate()?.dir;
    let store = std::path::absolute(&store)
        .map_err(|error| Error::io(format!("find {}", store.display()), error))?;
    let mut claim = claim(&store)?;
    let (changed, changes) = sync_channel(1);
    let mut folders = Folders::new(places, changed)?;
    folders.look();
    let mut importer = Importer::new(&store, paths)?;
    if !run.out.json {
        writeln!(run.out, "watching; what agents write goes into {}", store.display())?;
        run.out.flush()?;
    }
    // Imports the turns that were written before the watch began.
    importer.import(run)?;
    while settled(&changes) {
        folders.look();
        claim = match claim {
            None => self::claim(&store)?,
            held => held,
        };
        importer.import(run)?;
    }
    Ok(Answer::Yes)
}

/// Waits for a change and then for silence; returns false when no further change can be reported.
fn settled(changes: &Receiver<()>) -> bool {
    if changes.recv().is_err() {
        return false;
    }
    let until = Instant::now() + MOST;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match changes.recv_timeout(QUIET.min(left)) {
            Ok(()) if !left.is_zero() => {}
            Ok(()) | Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

/// Claims the watch of a store; `None` while there is no store.
fn claim(store: &Path) -> Result<Option<Claim>> {
    if !store.exists() {
        return Ok(None);
    }
    match Claim::take(store, CLAIM) {
        Some(claim) => Ok(Some(claim)),
        None => {
            let text = format!("another 'turntree adopt --watch' works for {}", store.display());
            Err(Error::new(ErrorKind::Locked, text).into())
        }
    }
}

/// The folders that are watched, and those that wait for the creation of their folder.
struct Folders {
    watcher: RecommendedWatcher,
    folders: Vec<WatchedFolder>,
    /// Device and inode of each: a new folder of the same name must be watched again.
    watched: HashMap<PathBuf, (u64, u64)>,
    /// Folders whose failure to be watched was reported.
    told: BTreeSet<PathBuf>,
}

impl Folders {
    fn new(places: &[SessionPlace], changed: SyncSender<()>) -> Result<Self> {
        let folders: Vec<WatchedFolder> = places.iter().flat_map(SessionPlace::folders).collect();
        let concerned = folders.clone();
        let tell = move |event: notify::Result<Event>| {
            if event.is_ok_and(|event| !concerns(&event, &concerned)) {
                return;
            }
            // Full: a change is known already.
            let _ = changed.try_send(());
        };
        let watcher = notify::recommended_watcher(tell).map_err(failure)?;
        Ok(Self { watcher, folders, watched: HashMap::new(), told: BTreeSet::new() })
    }

    /// Watches each existing folder, and for a missing one its nearest existing ancestor.
    fn look(&mut self) {
        let mut folders = self.folders.clone();
        // Recursive watches come first: the folder of one may also be the ancestor of another.
        folders.sort_by_key(|folder| !(folder.is_deep && is_folder(&folder.path)));
        for WatchedFolder { path, is_deep } in folders {
            if is_folder(&path) {
                self.watch(&path, is_deep);
            } else if let Some(above) = path.ancestors().skip(1).find(|above| is_folder(above)) {
                self.watch(above, false);
            }
        }
    }

    fn watch(&mut self, path: &Path, is_deep: bool) {
        let Ok(identity) = identity(path) else { return };
        if self.watched.get(path) == Some(&identity) {
            return;
        }
        // Ends the watch of a deleted folder of that name.
        let _ = self.watcher.unwatch(path);
        let mode = if is_deep { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
        match self.watcher.watch(path, mode) {
            Ok(()) => drop(self.watched.insert(path.to_owned(), identity)),
            Err(error) => {
                if self.told.insert(path.to_owned()) {
                    warn(&format!("{} cannot be watched: {error}", path.display()));
                }
            }
        }
    }
}

fn is_folder(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_dir())
}

/// Returns true if an event may be about a session. Reads do not count.
fn concerns(event: &Event, folders: &[WatchedFolder]) -> bool {
    let is_other = matches!(event.kind, EventKind::Access(_) | EventKind::Modify(Metadata(_)));
    let about = |path: &PathBuf| folders.iter().any(|folder| folder.concerns(path));
    event.need_rescan() || (!is_other && event.paths.iter().any(about))
}

fn failure(error: notify::Error) -> Failure {
    Error::io("watch folders", std::io::Error::other(error)).into()
}

/// Runs this program to import new turns.
struct Importer<'a> {
    program: PathBuf,
    store: &'a Path,
    paths: &'a [PathBuf],
    /// The warnings that were printed.
    told: BTreeSet<String>,
}

impl<'a> Importer<'a> {
    fn new(store: &'a Path, paths: &'a [PathBuf]) -> Result<Self> {
        // Found now: an update may put another file in its place.
        Ok(Self { program: itself::file()?, store, paths, told: BTreeSet::new() })
    }

    /// Imports, and prints the number of new turns.
    fn import(&mut self, run: &mut Invocation) -> Result<()> {
        let mut import = Command::new(&self.program);
        import.arg("--store").arg(self.store).args(["--json", "adopt", "--live"]).args(self.paths);
        import.env("TURNTREE_ACTOR", ACTOR).stdin(Stdio::null());
        let output = import.output().map_err(|error| Error::io("start an import", error))?;
        for line in String::from_utf8_lossy(&output.stderr).lines() {
            self.tell(line.trim_start_matches("warning: "));
        }
        let Ok(record) = serde_json::from_slice::<Value>(&output.stdout) else { return Ok(()) };
        let all = |name| record.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        let number = |agent: &Value, name| agent.get(name).and_then(Value::as_u64).unwrap_or(0);
        let agents = all("agents");
        let is_new = |agent: &&Value| number(agent, "turns") > 0;
        if run.out.json && agents.iter().any(|agent| is_new(&agent)) {
            run.out.record(&record)?;
        } else {
            for agent in agents.iter().filter(is_new) {
                let time = run.out.paint.paint(FAINT, clock::rfc3339(clock::now()?));
                let name = agent.get("agent").and_then(Value::as_str).unwrap_or_default();
                let name = run.out.paint.paint(NAME, name);
                let changed = ["unchanged", "failed"].map(|name| number(agent, name));
                let changed = number(agent, "sessions").saturating_sub(changed.iter().sum());
                let (turns, sessions) =
                    (count(number(agent, "turns"), "turn"), count(changed, "session"));
                writeln!(run.out, "{time}  {name}  {turns} of {sessions}")?;
            }
        }
        Ok(run.out.flush()?)
    }

    /// Prints a warning that every import repeats only once.
    fn tell(&mut self, what: &str) {
        if self.told.len() >= MAX_TOLD {
            self.told.clear();
        }
        if !what.is_empty() && self.told.insert(what.to_owned()) {
            warn(what);
        }
    }
}
