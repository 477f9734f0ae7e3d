//! One run of the program: which store, whose name, and where output goes.

use std::cell::{Cell, OnceCell, RefCell};
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;

use bytes::Bytes;
use turntree::local::{create_repository, is_free, open_repository};
use turntree::maintenance::auto;
use turntree::object::MAX_BLOB_BYTES;
use turntree::repo::{Repository, Resolver, Signature};
use turntree::store::{Finding, FindingKind};
use turntree::workspace::read_regular;
use turntree::{Error, ErrorKind};
use turntree_exchange::{SecretFilter, find_session};

use super::linked_worktree::main_checkout;
use crate::program::global::{Global, STORE_DIR, store_of_environment};
use crate::program::here::Here;
use crate::program::incoming::tell;
use crate::program::maintenance::{self, Occasion};
use crate::program::trust::{self, Doubt};
use crate::program::{buckets, store_keys};
use crate::view::advice::Advice;
use crate::view::clock;
use crate::view::error::{Failure, Hint, Result};
use crate::view::output::{Output, warn};

/// Overrides who acts, for results that can be repeated.
const ACTOR: &str = "TURNTREE_ACTOR";

/// The branch to act on, instead of HEAD's.
const BRANCH: &str = "TURNTREE_BRANCH";

/// The file of a `.turntree` that is no store: the path of the one to use there.
pub(crate) const ELSEWHERE: &str = "elsewhere";

/// Longest path in such a file, in bytes.
const MAX_ELSEWHERE: u64 = 4096;

/// `off` keeps maintenance from being started.
const MAINTENANCE: &str = "TURNTREE_MAINTENANCE";
const OFF: &str = "off";

/// Advises on a store that does not exist.
fn no_store() -> Advice {
    let for_commands = "make one with 'turntree init', or begin with 'turntree import FILE'";
    Advice::new(for_commands, "the first snapshot makes it")
}

/// One run of the program.
#[derive(Debug)]
pub(crate) struct Invocation {
    /// Stdout.
    pub(crate) out: Output,
    global: Global,
    /// Set when the store is the user's, unless another one is named.
    of_user: bool,
    /// The store, once a command has opened it.
    opened: OnceCell<Opened>,
    /// Set for a command that leaves the store as it is.
    only_looks: bool,
    /// The store, from when it was judged to when it is opened.
    judged: RefCell<Option<Repository>>,
    /// Set when the working directory does not count.
    is_anywhere: Cell<bool>,
    /// Looks for secrets in what comes in.
    secrets: OnceCell<Arc<SecretFilter>>,
}

/// A store as it was when it was opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) repo: Arc<Repository>,
    dir: PathBuf,
    /// The number of its last operation.
    sequence: u64,
    /// The damage that was told of it.
    told: Vec<String>,
    /// The remote that bundles are to be made one on.
    fold: OnceCell<String>,
}

/// The place of a store, and how it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) dir: PathBuf,
    /// The name of the place in messages.
    pub(crate) found: &'static str,
    pub(crate) way: Way,
}

/// The way to a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Way {
    /// An option or the environment named it, or it is the user's own: it is meant.
    Meant,
    /// It lies above the working directory.
    Found,
    /// The file [`ELSEWHERE`] in this directory names it.
    Pointer(PathBuf),
}

impl Location {
    /// The directory of the pointer that named the store.
    pub(crate) fn pointer(&self) -> Option<&Path> {
        match &self.way {
            Way::Pointer(folder) => Some(folder),
            Way::Meant | Way::Found => None,
        }
    }

    /// Returns why the store is not to be written to, and the store, if it is there and was opened for that.
    ///
    /// # Errors
    /// Those of opening it.
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

    /// Refuses a change to the files of a store that is not trusted, before it is opened.
    ///
    /// # Errors
    /// `InvalidInput` when it is not trusted. What is wrong with one that cannot be opened, the command says.
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

    /// Refuses to make a store where git tracks it, or where a pointer leads that has no record.
    fn expect_may_create(&self) -> Result<()> {
        let doubt = match self.way {
            Way::Meant => None,
            Way::Found | Way::Pointer(_) => {
                trust::standing_of_absent(&self.dir, self.pointer()).doubt()
            }
        };
        doubt.map_or(Ok(()), |doubt| Err(trust::refusal(&self.dir, self.pointer(), &doubt)))
    }

    /// Makes the store, and records it as made here.
    pub(crate) fn create(&self) -> turntree::Result<Repository> {
        let repo = create_repository(&self.dir)?;
        trust::note_made(&repo);
        Ok(repo)
    }

    /// The same, or the user's own store in place of one that is not trusted: for servers, which are about the
    /// store of the hooks.
    pub(crate) fn trusted_or_own(self) -> Result<Self> {
        match self.judge() {
            Ok((Some(_), _)) => user_location(),
            // The command that opens it reports what is wrong with it.
            Ok((None, _)) | Err(_) => Ok(self),
        }
    }
}

impl Invocation {
    /// A run with these options.
    pub(crate) fn new(mut global: Global) -> Self {
        global.store = global.store.or_else(store_of_environment);
        let out = Output::new(global.json, global.color, !global.no_pager);
        let is_anywhere = Cell::new(false);
        let (opened, secrets) = (OnceCell::new(), OnceCell::new());
        let (of_user, only_looks, judged) = (false, false, RefCell::default());
        Self { out, global, of_user, only_looks, opened, judged, is_anywhere, secrets }
    }

    /// Opens the store, which must be there.
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

    /// Lets a command that only looks read a store that is not trusted.
    pub(crate) fn only_look(&mut self) {
        self.only_looks = true;
    }

    /// Refuses a change to the files of a store that is not trusted, for commands that change these before
    /// they open it.
    ///
    /// # Errors
    /// `InvalidInput` when it is not trusted. What is wrong with one that cannot be opened, the command says.
    pub(crate) fn refuse_untrusted(&self) -> Result<()> {
        self.locate()?.refuse_untrusted()
    }

    /// Makes this run act on the user's store, if the one that it would act on is not trusted.
    pub(crate) fn avoid_untrusted(&mut self) {
        // The command that opens it reports what is wrong with it.
        match self.locate().and_then(|location| location.judge()) {
            Ok((Some(_), _)) => self.act_on_user_store(),
            Ok((None, repo)) => self.judged = RefCell::new(repo),
            Err(_) => {}
        }
    }

    /// Opens the store of this run. One that is open since it was judged is refreshed, since others may have
    /// committed.
    fn open_at(&self, location: &Location) -> Result<Repository> {
        match self.judged.take() {
            Some(repo) => {
                repo.store().refresh()?;
                damage(&repo).iter().for_each(|damage| warn(damage));
                Ok(repo)
            }
            None => open(location),
        }
    }

    /// Opens the store, which must be there, and leaves it to the caller to say what is damaged.
    pub(crate) fn open_quietly(&self) -> Result<Repository> {
        open_quietly(&self.locate()?)
    }

    /// Returns whether [`Invocation::open_or_create`] would make a store.
    pub(crate) fn would_create(&self) -> Result<bool> {
        is_absent(&self.locate()?.dir)
    }

    /// Opens the store, or makes it where it would be.
    pub(crate) fn open_or_create(&self) -> Result<Arc<Repository>> {
        let location = self.locate()?;
        if !is_absent(&location.dir)? {
            return self.open();
        }
        location.expect_may_create()?;
        match location.create() {
            // Another process made it meanwhile.
            Err(error) if error.kind() == ErrorKind::InvalidInput => self.open(),
            created => {
                let repo = act(created?, self.here(&location.dir))?;
                Ok(self.remember(repo, location.dir))
            }
        }
    }

    /// Takes no account of the working directory from now on: HEAD of the store, which all share, is
    /// what counts and what moves. For what puts sessions of many places into a store.
    pub(crate) fn stand_anywhere(&self) {
        self.is_anywhere.set(true);
    }

    /// The place of this run, for the store in `store`.
    pub(crate) fn here(&self, store: &Path) -> Option<Here> {
        let dir = std::env::current_dir().ok().filter(|_| !self.is_anywhere.get())?;
        let here = Here::new(&dir, store)?;
        Some(if self.global.json { here } else { here.announcing() })
    }

    /// Says nothing of secrets that are stored: nobody would read it, or they came in before.
    pub(crate) fn keep_quiet(&self) {
        let _ = self.secrets.set(Arc::new(SecretFilter::new(false)));
    }

    /// Leaves it to the process that looks after the store to make bundles one on a remote.
    pub(crate) fn fold_later(&self, remote: &str) {
        if let Some(opened) = self.opened.get() {
            let _ = opened.fold.set(remote.to_owned());
        }
    }

    /// Opens the store, which must be there, for one change of a run that goes on: the run does not keep
    /// it, and who has changed it closes it by [`Opened::look_after_and_reap`].
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
        Opened::new(repo.filtering(Arc::<SecretFilter>::clone(filter)), dir)
    }

    fn remember(&self, repo: Repository, dir: PathBuf) -> Arc<Repository> {
        let opened = self.filtered(repo, dir);
        let repo = Arc::clone(&opened.repo);
        // A command that opens the store twice has committed with either.
        let _ = self.opened.set(opened);
        repo
    }

    /// Ends the run: writes what is left of the output, waits for the pager, tells what damage was noticed
    /// on the way, and then lets a process of its own look after the store, if the command has committed
    /// and it is worth it.
    pub(crate) fn finish(self) -> io::Result<()> {
        let may_maintain = self.may_maintain();
        self.out.finish()?;
        if let Some(seen) = self.secrets.get().and_then(|secrets| secrets.take_seen()) {
            tell(seen);
        }
        if let Some(opened) = self.opened.into_inner() {
            opened.tell_damage();
            if may_maintain {
                // It is reaped by whatever reaps the children of programs that have ended.
                drop(opened.look_after());
            }
        }
        Ok(())
    }

    /// Returns whether the user lets this look after the store.
    pub(crate) fn may_maintain(&self) -> bool {
        let is_off = std::env::var(MAINTENANCE).is_ok_and(|value| value == OFF);
        !(self.global.no_maintenance || is_off)
    }

    /// The directory of the store.
    pub(crate) fn store_dir(&self) -> Result<PathBuf> {
        Ok(self.locate()?.dir)
    }

    /// The store that options or environment name.
    pub(crate) fn named_store(&self) -> Option<&Path> {
        self.global.store.as_deref()
    }

    /// The store that options and environment name, else the nearest one above the working
    /// directory, else the user's.
    pub(crate) fn locate(&self) -> Result<Location> {
        self.locate_from(None)
    }

    /// The same for a server that works in `workspace`, wherever it was started.
    pub(crate) fn locate_from(&self, workspace: Option<&Path>) -> Result<Location> {
        if let Some(dir) = self.named_store() {
            return Ok(Location {
                dir: dir.to_owned(),
                found: "named by --store or TURNTREE_STORE",
                way: Way::Meant,
            });
        }
        if self.of_user { user_location() } else { default_location(workspace) }
    }

    /// Makes this run act on the user's store, unless another one is named: even where a store lies
    /// above the working directory.
    pub(crate) fn act_on_user_store(&mut self) {
        self.of_user = true;
    }
}

impl Opened {
    /// A store that was opened just now.
    pub(crate) fn new(repo: Repository, dir: PathBuf) -> Self {
        let (sequence, told) = (repo.refs().sequence, damage(&repo));
        Self { repo: Arc::new(repo), dir, sequence, told, fold: OnceCell::new() }
    }

    /// Tells the damage that was noticed since it was opened: indexes are verified when they are needed.
    fn tell_damage(&self) {
        let noticed = damage(&self.repo);
        noticed.iter().filter(|damage| !self.told.contains(damage)).for_each(|damage| warn(damage));
    }

    /// Closes it, and lets a process of its own look after it, if something was committed since it was
    /// opened, it is worth it, and none is there: gives that process, for a program that ends.
    fn look_after(self) -> Option<Child> {
        let Self { repo, dir, sequence, fold, .. } = self;
        if repo.refs().sequence <= sequence {
            return None;
        }
        let upkeep = auto::upkeep(&repo).ok();
        let is_due = upkeep.is_some_and(|upkeep| upkeep.is_due || upkeep.is_over);
        let pushes = repo.is_push_due().unwrap_or(false) && trust::may_reach_remotes(&repo);
        // Closed first: what this process wrote is then for the other one to look after.
        drop(repo);
        let occasion = Occasion { is_due, pushes, fold: fold.into_inner() };
        maintenance::look_after(&dir, &occasion, upkeep.map(|upkeep| upkeep.fullness))
    }

    /// The same, for a program that goes on: the process is reaped when it ends.
    pub(crate) fn look_after_and_reap(self) {
        if let Some(child) = self.look_after() {
            maintenance::reap(child);
        }
    }
}

/// The nearest store above `workspace`, by default the working directory, else the user's.
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

/// The store that is found at or above a directory, or in it if that is a store itself; none where there is
/// no `.turntree`.
pub(crate) fn found_from(dir: &Path) -> Result<Option<Location>> {
    let dir = whole_path(dir)?;
    let from = if dir.ends_with(STORE_DIR) { dir.parent().unwrap_or(&dir) } else { &dir };
    nearest(from).map(found_in).transpose()
}

/// The store that the directory `.turntree` in `dir` is, or names.
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

/// Refuses a store of somebody else that merely lies above the working directory: whoever put it
/// there, as in a folder for all, would get what is written to it.
fn refuse_foreign(dir: &Path) -> Result<()> {
    let found = fs::metadata(dir)
        .map_err(|error| Error::io(format!("inspect {}", dir.display()), error))?;
    let (owner, user) = (found.uid(), rustix::process::geteuid().as_raw());
    if owner == user {
        return Ok(());
    }
    let foreign = format!(
        "the store {} above the working directory belongs to user {owner}, and this is user {user}",
        dir.display()
    );
    let hint = "run it as that user, or name a store with --store or TURNTREE_STORE";
    Err(Failure::hinted(Error::invalid(foreign), hint))
}

/// Adds a hint to a failure to read a store that belongs to another user.
fn denied(dir: &Path, error: Error) -> Failure {
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref());
    let is_denied =
        cause.is_some_and(|cause: &io::Error| cause.kind() == io::ErrorKind::PermissionDenied);
    let owner = fs::metadata(dir).map(|found| found.uid());
    match owner {
        Ok(owner) if is_denied && owner != rustix::process::geteuid().as_raw() => {
            let hint = format!("the store belongs to user {owner}: run it as that user");
            Failure::hinted(error, hint)
        }
        _ => error.into(),
    }
}

/// Finds the store that is used by default, for completion.
pub(crate) fn user_or_nearest() -> Option<PathBuf> {
    default_location(None).ok().map(|location| location.dir)
}

/// Returns the actor and the time.
pub(crate) fn stamp() -> Result<Signature> {
    let named = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let actor = [ACTOR, "USER", "LOGNAME", "USERNAME"].into_iter().find_map(named);
    let actor = actor.or_else(|| user_name(rustix::process::geteuid().as_raw()));
    Ok(Signature { time: clock::now()?, actor: actor.unwrap_or_else(|| "unknown".to_owned()) })
}

/// The name of a user in the system's list, for services and containers that set no variable.
fn user_name(user: u32) -> Option<String> {
    let list = fs::read_to_string("/etc/passwd").ok()?;
    let name_of = |line: &str| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        (id.parse() == Ok(user)).then(|| name.to_owned()).filter(|name| !name.is_empty())
    };
    list.lines().find_map(name_of)
}

/// Makes the repository act on the branch of the environment, if that names one: an agent that shares
/// the store with others sets it for itself. Where it names none, the place counts at which the
/// caller is.
pub(crate) fn act(repo: Repository, here: Option<Here>) -> Result<Repository> {
    let Some(name) = own_branch() else {
        return Ok(match here {
            Some(here) => here.stand(repo)?,
            None => repo,
        });
    };
    let found = Resolver::new(&repo).branch(&name);
    let branch = match found {
        // One that is not there yet begins with its first snapshot.
        Err(_) if name.contains('/') => {
            name.parse().and_then(|new: turntree::repo::BranchName| new.check_new().map(|()| new))
        }
        // A session goes by the beginning of its name or title, too.
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

/// The branch that the environment says to act on.
fn own_branch() -> Option<String> {
    std::env::var(BRANCH).ok().filter(|name| !name.is_empty())
}

/// Returns whether the environment says which branch to act on.
pub(crate) fn has_own_branch() -> bool {
    own_branch().is_some()
}

/// Refuses to move HEAD while the environment says which branch to act on: it would move for all others
/// and not for this one.
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

/// The bytes of a file, or of stdin for `-`: no more than an object may have.
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

/// A path that somebody named, whole and behind all links. What it leads to must be there.
pub(crate) fn whole_path(path: &Path) -> turntree::Result<PathBuf> {
    let shown = path.display();
    path.canonicalize().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::not_found(format!("{shown}: no such file or directory")),
        _ => Error::io(format!("open {shown}"), error),
    })
}

/// Opens a file that must be one.
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

/// The store that commands in the directory `from` use when none is named.
pub(crate) fn store_from(from: &Path) -> Option<PathBuf> {
    match nearest(from) {
        Some(dir) => Some(elsewhere(&dir).unwrap_or(dir)),
        None => user_location().ok().map(|location| location.dir),
    }
}

/// The store that a directory names instead of being one: that of a worktree does.
fn elsewhere(dir: &Path) -> Option<PathBuf> {
    let path = read_regular(&dir.join(ELSEWHERE), MAX_ELSEWHERE).ok()?;
    let path = PathBuf::from(std::ffi::OsString::from_vec(path));
    path.is_absolute().then_some(path)
}

/// The nearest store at or above `from`. At the root of a worktree of git without a store, that of the main
/// checkout comes before those above: the worktree is of the same project.
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

/// Opens the store at a place, which must be there.
pub(crate) fn open(location: &Location) -> Result<Repository> {
    let repo = open_quietly(location)?;
    damage(&repo).iter().for_each(|damage| warn(damage));
    Ok(repo)
}

/// Returns the damage that was noticed until now, in the words of its warnings. A torn tail was never
/// acknowledged, so nothing is missing: only damage is worth a word.
fn damage(repo: &Repository) -> Vec<String> {
    let findings = repo.store().findings().into_iter();
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
    // Of others it is only read, and nothing of that is left beside it.
    if location.way != Way::Meant && trust::standing(&repo, location.pointer()).doubt().is_some() {
        repo.store().keep_no_caches();
    }
    Ok(repo)
}

/// Returns whether a store can be made at `dir`: nothing is there, or an empty directory, or an
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
