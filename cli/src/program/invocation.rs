//! One run of the program: its store, its actor, and its output.

use std::cell::{Cell, OnceCell, RefCell};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;

use bytes::Bytes;
use turntree::local::{create_repository, is_free, open_repository};
use turntree::maintenance::auto;
use turntree::object::MAX_BLOB_BYTES;
use turntree::platform::{canonical, name_of_bytes};
use turntree::repo::{Repository, Resolver, Signature};
use turntree::store::{Finding, FindingKind};
use turntree::workspace::read_regular;
use turntree::{Error, ErrorKind};
use turntree_exchange::{KnownSessions, SecretFilter, find_session};

use super::linked_worktree::main_checkout;
use crate::platform::{check_owner, user_name};
use crate::program::global::{Global, STORE_DIR, store_in, store_of_environment};
use crate::program::here::Here;
use crate::program::incoming::tell;
use crate::program::maintenance::{self, Occasion};
use crate::program::trust::{self, Doubt};
use crate::program::{buckets, store_keys};
use crate::view::advice::Advice;
use crate::view::clock;
use crate::view::error::{Failure, Hint, Result};
use crate::view::output::{Output, warn};

/// Overrides the actor, for reproducible results.
const ACTOR: &str = "TURNTREE_ACTOR";

/// The branch to act on, instead of HEAD's.
const BRANCH: &str = "TURNTREE_BRANCH";

/// The file in a `.turntree` directory that is not a store: the path of the store to use.
pub(crate) const ELSEWHERE: &str = "elsewhere";

/// Longest path in such a file, in bytes.
const MAX_ELSEWHERE: u64 = 4096;

/// `off` disables maintenance.
const MAINTENANCE: &str = "TURNTREE_MAINTENANCE";
const OFF: &str = "off";

/// The advice for a missing store.
fn no_store() -> Advice {
    let for_commands = "'turntree adopt' imports the sessions of the agents on this machine, \
                        'turntree snapshot --workspace .' begins one here";
    Advice::new(for_commands, "the first snapshot makes it")
}

/// One run of the program.
#[derive(Debug)]
pub(crate) struct Invocation {
    /// Stdout.
    pub(crate) out: Output,
    global: Global,
    /// True if the run uses the user's store, unless an option names a different store.
    of_user: bool,
    /// The store, once a command has opened it.
    opened: OnceCell<Opened>,
    /// Set for a read-only command.
    only_looks: bool,
    /// The store that was opened to judge it, until the command opens it.
    judged: RefCell<Option<Repository>>,
    /// Set when the working directory is ignored.
    is_anywhere: Cell<bool>,
    /// The sessions of the store, once they were needed.
    sessions: Arc<KnownSessions>,
    /// Scans imported content for secrets.
    secrets: OnceCell<Arc<SecretFilter>>,
}

/// An open store, with its state when it was opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) repo: Arc<Repository>,
    dir: PathBuf,
    /// The number of its last operation.
    sequence: u64,
    /// The damage that was already reported.
    told: Vec<String>,
    /// Work for the maintenance process.
    later: RefCell<Occasion>,
}

/// The path of a store, and how it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) dir: PathBuf,
    /// A description of how it was found, for messages.
    pub(crate) found: &'static str,
    pub(crate) way: Way,
}

/// How a store was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Way {
    /// Named by an option or the environment, or the user's own store: intended.
    Meant,
    /// Found above the working directory.
    Found,
    /// Named by the file [`ELSEWHERE`] in this directory.
    Pointer(PathBuf),
}

impl Location {
    /// Returns true if a store above the working directory was found, and nothing named it.
    pub(crate) fn is_found(&self) -> bool {
        self.way != Way::Meant
    }

    /// The directory of the pointer file that named the store.
    pub(crate) fn pointer(&self) -> Option<&Path> {
        match &self.way {
            Way::Pointer(folder) => Some(folder),
            Way::Meant | Way::Found => None,
        }
    }

    /// Returns the doubt about writing to the store, and the store if it was opened to judge it.
    ///
    /// # Errors
    /// The errors of opening it.
    fn judge(&self) -> Result<(Option<Doubt>, Option<Repository>)> {
        if self.way == Way::Meant {
            return Ok((None, None));
        }
        if is_absent(&self.dir)? {
            return Ok((trust::standing_of_absent(&self.dir, self.pointer()).doubt(), None));
        }
        let repo = open_quietly(self)?;
        Ok((trust::standing(&repo, self.pointer()).doubt(), Some(repo)))
    }

    /// Refuses to change the files of an untrusted store, before it is opened.
    ///
    /// # Errors
    /// `InvalidInput` if it is not trusted. Errors of opening it are left to the command.
    pub(crate) fn refuse_untrusted(&self) -> Result<()> {
        match self.judge() {
            Ok((Some(doubt), _)) => Err(trust::refusal(&self.dir, self.pointer(), &doubt)),
            Ok((None, _)) | Err(_) => Ok(()),
        }
    }

    /// Refuses to write to a store that came with its folder.
    fn expect_trusted(&self, repo: &Repository) -> Result<()> {
        match self.way {
            Way::Meant => Ok(()),
            Way::Found | Way::Pointer(_) => trust::expect_trusted(repo, self.pointer()),
        }
    }

    /// Refuses to create a store where git would track it, or where an unrecorded pointer file
    /// names it.
    fn expect_may_create(&self) -> Result<()> {
        let doubt = match self.way {
            Way::Meant => None,
            Way::Found | Way::Pointer(_) => {
                trust::standing_of_absent(&self.dir, self.pointer()).doubt()
            }
        };
        doubt.map_or(Ok(()), |doubt| Err(trust::refusal(&self.dir, self.pointer(), &doubt)))
    }

    /// Creates the store, and records that it was created here.
    pub(crate) fn create(&self) -> turntree::Result<Repository> {
        let repo = create_repository(&self.dir)?;
        trust::note_made(&repo);
        Ok(repo)
    }

    /// Returns this location, or the user's own store if this one is not trusted. For servers,
    /// which serve the store that hooks write to.
    pub(crate) fn trusted_or_own(self) -> Result<Self> {
        match self.judge() {
            Ok((Some(_), _)) => user_location(),
            // The command that opens it reports the error.
            Ok((None, _)) | Err(_) => Ok(self),
        }
    }
}

impl Invocation {
    /// Creates a run with these options.
    pub(crate) fn new(mut global: Global) -> Self {
        global.store = global.store.or_else(store_of_environment);
        let out = Output::new(global.json, global.color, !global.no_pager);
        let is_anywhere = Cell::new(false);
        let (opened, secrets) = (OnceCell::new(), OnceCell::new());
        let (of_user, only_looks, judged) = (false, false, RefCell::default());
        let sessions = Arc::default();
        Self { out, global, of_user, only_looks, opened, judged, is_anywhere, sessions, secrets }
    }

    /// Opens the store, which must exist.
    pub(crate) fn open(&self) -> Result<Arc<Repository>> {
        let location = self.locate()?;
        let repo = self.open_at(&location)?;
        if !self.only_looks {
            location.expect_trusted(&repo)?;
        }
        let repo = match &self.global.at_op {
            None => repo,
            Some(name) => {
                let operation = repo.find_operation(name).hint(
                    ErrorKind::NotFound,
                    "'turntree op log' shows the operations that are kept",
                )?;
                repo.at_operation(&operation.id)?
            }
        };
        Ok(self.remember(act(repo, self.here(&location.dir))?, location.dir))
    }

    /// Allows this run to read an untrusted store; it must not write.
    pub(crate) fn only_look(&mut self) {
        self.only_looks = true;
    }

    /// Refuses to change the files of an untrusted store, for commands that change them before they
    /// open the store.
    ///
    /// # Errors
    /// `InvalidInput` if it is not trusted. Errors of opening it are left to the command.
    pub(crate) fn refuse_untrusted(&self) -> Result<()> {
        self.locate()?.refuse_untrusted()
    }

    /// Switches this run to the user's store if the located one is not trusted.
    pub(crate) fn avoid_untrusted(&mut self) {
        // The command that opens it reports the error.
        match self.locate().and_then(|location| location.judge()) {
            Ok((Some(_), _)) => self.act_on_user_store(),
            Ok((None, repo)) => self.judged = RefCell::new(repo),
            Err(_) => {}
        }
    }

    /// Opens the store of this run. A store that is already open for its judgement is refreshed,
    /// since another process may have committed.
    fn open_at(&self, location: &Location) -> Result<Repository> {
        match self.judged.take() {
            Some(repo) => {
                repo.refresh()?;
                damage(&repo).iter().for_each(|damage| warn(damage));
                Ok(repo)
            }
            None => open(location),
        }
    }

    /// Opens the store, which must exist, without warnings about damage; the caller reports damage.
    pub(crate) fn open_quietly(&self) -> Result<Repository> {
        open_quietly(&self.locate()?)
    }

    /// Returns true if [`Invocation::open_or_create`] would create a store.
    pub(crate) fn would_create(&self) -> Result<bool> {
        is_absent(&self.locate()?.dir)
    }

    /// Opens the store, or creates it if it does not exist.
    pub(crate) fn open_or_create(&self) -> Result<Arc<Repository>> {
        let location = self.locate()?;
        if !is_absent(&location.dir)? {
            return self.open();
        }
        location.expect_may_create()?;
        match location.create() {
            // Another process created it concurrently.
            Err(error) if error.kind() == ErrorKind::InvalidInput => self.open(),
            created => {
                let repo = act(created?, self.here(&location.dir))?;
                Ok(self.remember(repo, location.dir))
            }
        }
    }

    /// Ignores the working directory from now on: the run reads and moves the shared HEAD of the
    /// store. For imports of sessions from many directories.
    pub(crate) fn stand_anywhere(&self) {
        self.is_anywhere.set(true);
    }

    /// The sessions of the store, which are read once.
    pub(crate) fn sessions(&self) -> Arc<KnownSessions> {
        Arc::clone(&self.sessions)
    }

    /// The place of this run, for the store in `store`.
    pub(crate) fn here(&self, store: &Path) -> Option<Here> {
        let dir = std::env::current_dir().ok().filter(|_| !self.is_anywhere.get())?;
        let here = Here::new(&dir, store)?.with_known(self.sessions());
        Some(if self.global.json { here } else { here.announcing() })
    }

    /// Reports no stored secrets: the report would not be read, or the content was imported before.
    pub(crate) fn keep_quiet(&self) {
        let _ = self.secrets.set(Arc::new(SecretFilter::new(false)));
    }

    /// Leaves work to the maintenance process: folding the bundles of a remote, the search index.
    pub(crate) fn do_later(&self, add: impl FnOnce(&mut Occasion)) {
        if let Some(opened) = self.opened.get() {
            add(&mut opened.later.borrow_mut());
        }
    }

    /// Opens the store, which must exist, for one change of a long run. The run does not keep it;
    /// the caller closes it with [`Opened::look_after_and_reap`].
    #[cfg(feature = "ui")]
    pub(crate) fn open_apart(&self) -> Result<Opened> {
        let location = self.locate()?;
        let repo = open(&location)?;
        location.expect_trusted(&repo)?;
        let repo = act(repo, self.here(&location.dir))?;
        Ok(self.filtered(repo, location.dir))
    }

    fn filtered(&self, repo: Repository, dir: PathBuf) -> Opened {
        let filter = self.secrets.get_or_init(|| Arc::new(SecretFilter::new(true)));
        Opened::new(Arc::new(repo.filtering(Arc::<SecretFilter>::clone(filter))), dir)
    }

    fn remember(&self, repo: Repository, dir: PathBuf) -> Arc<Repository> {
        let opened = self.filtered(repo, dir);
        let repo = Arc::clone(&opened.repo);
        self.out.know_names(repo.refs());
        // Fails if a command opens the store twice; then the first handle is kept.
        let _ = self.opened.set(opened);
        repo
    }

    /// Ends the run: flushes the output, waits for the pager, and reports damage found by the run.
    /// Then starts a maintenance process if the command has committed and maintenance is due.
    pub(crate) fn finish(self) -> io::Result<()> {
        let may_maintain = self.may_maintain();
        self.out.finish()?;
        if let Some(seen) = self.secrets.get().and_then(|secrets| secrets.take_new()) {
            tell(seen);
        }
        if let Some(opened) = self.opened.into_inner() {
            opened.tell_damage();
            if may_maintain {
                // Init reaps the process after this program has ended.
                drop(opened.look_after());
            }
        }
        Ok(())
    }

    /// Returns true if the user allows maintenance.
    pub(crate) fn may_maintain(&self) -> bool {
        let is_off = std::env::var(MAINTENANCE).is_ok_and(|value| value == OFF);
        !(self.global.no_maintenance || is_off)
    }

    /// The directory of the store.
    pub(crate) fn store_dir(&self) -> Result<PathBuf> {
        Ok(self.locate()?.dir)
    }

    /// The store named by an option or the environment.
    pub(crate) fn named_store(&self) -> Option<&Path> {
        self.global.store.as_deref()
    }

    /// Locates the store: named by options or the environment, otherwise the nearest one above the
    /// working directory, otherwise the user's.
    pub(crate) fn locate(&self) -> Result<Location> {
        self.locate_from(None)
    }

    /// Locates the store for a server that works in `workspace`, whatever its working directory.
    pub(crate) fn locate_from(&self, workspace: Option<&Path>) -> Result<Location> {
        if let Some(dir) = self.named_store() {
            let found = "named by --store or TURNTREE_STORE";
            return Ok(Location { dir: store_in(dir), found, way: Way::Meant });
        }
        if self.of_user { user_location() } else { default_location(workspace) }
    }

    /// Switches this run to the user's store, unless another one is named; a store above the
    /// working directory is ignored.
    pub(crate) fn act_on_user_store(&mut self) {
        self.of_user = true;
    }
}

impl Opened {
    /// Wraps a store that was opened, or refreshed, just now.
    pub(crate) fn new(repo: Arc<Repository>, dir: PathBuf) -> Self {
        let (sequence, told) = (repo.refs().sequence, damage(&repo));
        Self { repo, dir, sequence, told, later: RefCell::default() }
    }

    /// Reports damage noticed since it was opened: indexes are verified on use.
    fn tell_damage(&self) {
        let noticed = damage(&self.repo);
        noticed.iter().filter(|damage| !self.told.contains(damage)).for_each(|damage| warn(damage));
    }

    /// Closes the store, and starts a maintenance process if this run has committed, maintenance is
    /// due, and no such process runs. Returns the process; this program may end before it.
    fn look_after(self) -> Option<Child> {
        let Self { repo, dir, sequence, later, .. } = self;
        let later = later.into_inner();
        if repo.refs().sequence <= sequence && !later.indexes {
            return None;
        }
        let upkeep = auto::upkeep(&repo).ok();
        let is_due = upkeep.is_some_and(|upkeep| upkeep.is_due || upkeep.is_over);
        let pushes = repo.is_push_due().unwrap_or(false) && trust::may_reach_remotes(&repo);
        // Closed first, so that the other process can maintain the segments written by this one.
        drop(repo);
        let occasion = Occasion { is_due, pushes, ..later };
        maintenance::look_after(&dir, &occasion, upkeep.map(|upkeep| upkeep.fullness))
    }

    /// Closes the store like [`Self::look_after`], for a long-running program: reaps the process
    /// when it ends.
    pub(crate) fn look_after_and_reap(self) {
        if let Some(child) = self.look_after() {
            maintenance::reap(child);
        }
    }
}

/// The nearest store above `workspace` (by default the working directory), otherwise the user's.
fn default_location(workspace: Option<&Path>) -> Result<Location> {
    let here = match workspace {
        Some(dir) => dir.to_owned(),
        None => std::env::current_dir()
            .map_err(|error| Error::io("find the working directory", error))?,
    };
    if let Some(dir) = nearest(&here) {
        return found_in(dir);
    }
    let found = "no .turntree above the working directory, so the user's own";
    Ok(Location { found, ..user_location()? })
}

/// The store found at or above a directory, or the directory itself if it is a store; `None`
/// without a `.turntree`.
pub(crate) fn found_from(dir: &Path) -> Result<Option<Location>> {
    let dir = whole_path(dir)?;
    let from = if dir.ends_with(STORE_DIR) { dir.parent().unwrap_or(&dir) } else { &dir };
    nearest(from).map(found_in).transpose()
}

/// The store that the directory `.turntree` in `dir` is, or that it names.
fn found_in(dir: PathBuf) -> Result<Location> {
    refuse_foreign(&dir)?;
    let Some(other) = elsewhere(&dir) else {
        let found = "found above the working directory";
        return Ok(Location { dir, found, way: Way::Found });
    };
    if other.exists() {
        refuse_foreign(&other)?;
    }
    let found = "named by .turntree/elsewhere above the working directory";
    Ok(Location { dir: other, found, way: Way::Pointer(dir) })
}

/// The user's store.
fn user_location() -> Result<Location> {
    Ok(Location { dir: trust::user_store()?, found: "the user's own", way: Way::Meant })
}

/// Refuses another user's store above the working directory: in a shared directory, its owner could
/// read everything written to it.
fn refuse_foreign(dir: &Path) -> Result<()> {
    let found =
        check_owner(dir).map_err(|error| Error::io(format!("inspect {}", dir.display()), error))?;
    let Some((owner, user)) = found else { return Ok(()) };
    let foreign = format!(
        "the store {} above the working directory belongs to user {owner}, and this is user {user}",
        dir.display()
    );
    let hint = "run it as that user, or name a store with --store or TURNTREE_STORE";
    Err(Failure::hinted(Error::invalid(foreign), hint))
}

/// Adds a hint to an error of reading another user's store.
fn denied(dir: &Path, error: Error) -> Failure {
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref());
    let is_denied =
        cause.is_some_and(|cause: &io::Error| cause.kind() == io::ErrorKind::PermissionDenied);
    match check_owner(dir) {
        Ok(Some((owner, _))) if is_denied => {
            let hint = format!("the store belongs to user {owner}: run it as that user");
            Failure::hinted(error, hint)
        }
        _ => error.into(),
    }
}

/// Finds the default store, for completion.
pub(crate) fn user_or_nearest() -> Option<PathBuf> {
    default_location(None).ok().map(|location| location.dir)
}

/// Returns the actor and the current time.
pub(crate) fn stamp() -> Result<Signature> {
    let named = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let actor = [ACTOR, "USER", "LOGNAME", "USERNAME"].into_iter().find_map(named);
    let actor = actor.or_else(user_name);
    Ok(Signature { time: clock::now()?, actor: actor.unwrap_or_else(|| "unknown".to_owned()) })
}

/// Makes the repository act on the branch named by the environment: an agent that shares the store
/// with others sets the variable. Without it, the caller's place chooses the branch.
pub(crate) fn act(repo: Repository, here: Option<Here>) -> Result<Repository> {
    let Some(name) = own_branch() else {
        return Ok(match here {
            Some(here) => here.stand(repo)?,
            None => repo,
        });
    };
    let found = Resolver::new(&repo).branch(&name);
    let branch = match found {
        // A branch that does not exist yet begins with its first snapshot.
        Err(_) if name.contains('/') => {
            name.parse().and_then(|new: turntree::repo::BranchName| new.check_new().map(|()| new))
        }
        // A session can also be named by the beginning of its name or title.
        Err(error) => match find_session(&repo, &name) {
            Ok(Some(session)) => repo.branch_of_session(&session)?.ok_or(error),
            Ok(None) => Err(error),
            Err(several) => Err(several),
        },
        found => found,
    };
    let branch = branch.map_err(|error| error.at(BRANCH))?;
    Ok(repo.acting_on(branch))
}

/// The branch named by the environment.
fn own_branch() -> Option<String> {
    std::env::var(BRANCH).ok().filter(|name| !name.is_empty())
}

/// Returns true if the environment names a branch.
pub(crate) fn has_own_branch() -> bool {
    own_branch().is_some()
}

/// Refuses to move HEAD while the environment names a branch: HEAD would move for all other
/// processes, but not for this one.
pub(crate) fn check_may_switch() -> Result<()> {
    match own_branch() {
        None => Ok(()),
        Some(name) => {
            let error = Error::invalid(format!("cannot switch HEAD while {BRANCH}={name} is set"));
            let hint = Advice::new(
                format!("set {BRANCH} to another branch, or unset it"),
                "name the branch in each call: in revision, and in session and branch",
            );
            Err(Failure::hinted(error, hint))
        }
    }
}

/// Reads a file, or stdin for `-`, up to the size limit of an object.
pub(crate) fn read_input(path: &Path) -> Result<Bytes> {
    let mut bytes = Vec::new();
    let (name, limit) = (input_name(path), MAX_BLOB_BYTES as u64);
    let read = if path == Path::new("-") {
        io::stdin().lock().take(limit + 1).read_to_end(&mut bytes)
    } else {
        open_file(path)?.take(limit + 1).read_to_end(&mut bytes)
    };
    read.map_err(|error| Error::io(format!("read {name}"), error))?;
    if bytes.len() as u64 > limit {
        return Err(Error::limit(format!("bytes of {name}"), limit, bytes.len() as u64).into());
    }
    Ok(bytes.into())
}

/// Names a file of input in messages.
pub(crate) fn input_name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

/// The canonical path of a file or directory that the user named. It must exist.
pub(crate) fn whole_path(path: &Path) -> turntree::Result<PathBuf> {
    let shown = path.display();
    canonical(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::not_found(format!("{shown}: no such file or directory")),
        _ => Error::io(format!("open {shown}"), error),
    })
}

/// Opens a regular file.
pub(crate) fn open_file(path: &Path) -> Result<fs::File> {
    let shown = path.display();
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            Err(Error::invalid(format!("{shown} is a directory: expected a file")).into())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Error::not_found(format!("file {shown} does not exist")).into())
        }
        _ => Ok(fs::File::open(path).map_err(|error| Error::io(format!("open {shown}"), error))?),
    }
}

/// The store that commands in the directory `from` use if none is named.
pub(crate) fn store_from(from: &Path) -> Option<PathBuf> {
    match nearest(from) {
        Some(dir) => Some(elsewhere(&dir).unwrap_or(dir)),
        None => user_location().ok().map(|location| location.dir),
    }
}

/// The store that a pointer directory names, for example in a worktree.
fn elsewhere(dir: &Path) -> Option<PathBuf> {
    let path = read_regular(&dir.join(ELSEWHERE), MAX_ELSEWHERE).ok()?;
    let path = PathBuf::from(&*name_of_bytes(&path));
    path.is_absolute().then_some(path)
}

/// The nearest store at or above `from`. At the root of a git worktree without a store, the store
/// of the main checkout comes before stores above, because the worktree belongs to the same
/// project.
fn nearest(from: &Path) -> Option<PathBuf> {
    let store_in = |folder: &Path| Some(folder.join(STORE_DIR)).filter(|dir| dir.is_dir());
    from.ancestors().find_map(|folder| {
        let of_main = || {
            let main = main_checkout(folder)?;
            main.ancestors().find_map(store_in)
        };
        store_in(folder).or_else(of_main)
    })
}

/// Opens the store at a location; it must exist.
pub(crate) fn open(location: &Location) -> Result<Repository> {
    let repo = open_quietly(location)?;
    damage(&repo).iter().for_each(|damage| warn(damage));
    Ok(repo)
}

/// Returns the damage noticed until now, as warnings. A torn tail was never acknowledged, so
/// nothing is lost and it is not reported.
fn damage(repo: &Repository) -> Vec<String> {
    let findings = repo.findings().into_iter();
    let damage = findings.filter(|finding| finding.kind == FindingKind::Damage);
    let told = |Finding { place, message, .. }| format!("the store is damaged: {place}: {message}");
    damage.map(told).collect()
}

pub(crate) fn open_quietly(location: &Location) -> Result<Repository> {
    let Location { dir, found, .. } = location;
    if is_absent(dir)? {
        let missing = Error::not_found(format!("there is no store at {} ({found})", dir.display()));
        return Err(Failure::hinted(missing, no_store()));
    }
    let repo = match open_repository(dir) {
        Err(error) if error.kind() == ErrorKind::Encrypted => store_keys::unlock(dir, true)?.repo,
        opened => {
            opened.map_err(|error| denied(dir, error)).hint(ErrorKind::NotFound, no_store())?
        }
    };
    buckets::attach(&repo);
    // An untrusted store is only read, and no caches are written next to it.
    if location.way != Way::Meant && trust::standing(&repo, location.pointer()).doubt().is_some() {
        repo.store().keep_no_caches();
    }
    Ok(repo)
}

/// Returns true if a store can be created at `dir`: the path is free, an empty directory, or an
/// unfinished store.
pub(crate) fn is_absent(dir: &Path) -> Result<bool> {
    match is_free(dir) {
        Ok(is_free) => Ok(is_free),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            let found =
                format!("{} is not a store: it is a file, expected a directory", dir.display());
            Err(Error::not_found(found).into())
        }
        Err(error) => Err(denied(dir, Error::io(format!("open {}", dir.display()), error))),
    }
}
