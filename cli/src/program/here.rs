//! Chooses the branch that a command acts on if the user names none, by the current directory:
//!
//! 1. the session of the client that started this process ([`live_branch`](super::live))
//! 2. the branch switched to in this directory, or in the nearest directory above it
//! 3. the newest session that was recorded in this directory or above it
//! 4. if no session recorded a directory, the shared HEAD of the store: in the store's project, and
//!    elsewhere until the user has switched in some directory
//!
//! Otherwise there is no branch: a command acts on a session of another place only if the user
//! names it.
//!
//! The search upwards ends at the directory of the store's project. For a store elsewhere, the home
//! directory, the directories above it and the root apply only to themselves, or a session there
//! would apply to every project below.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use turntree::Error;
use turntree::context::sections::META;
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::platform::canonical;
use turntree::repo::{BranchName, Repository, WORKSPACE};
use turntree::store::RefTable;
use turntree::workspace::read_note;
use turntree_exchange::{KnownSessions, SessionTable, followed_branch, is_client_branch_of};

use super::directory_map::DirectoryMap;
use super::global::STORE_DIR;
use super::live::{LiveSession, client_session};
use super::moved_project::MovedProject;
use crate::view::advice::Advice;
use crate::view::clock;
use crate::view::output::note;
use crate::view::render::one_line;
use crate::view::short_names::ShortNames;

/// Digits of the key of a directory.
const KEY_DIGITS: usize = 32;

/// Maximum number of sessions to list in an error.
const MAX_NAMED: usize = 5;

/// Most columns of a title in such a list.
const TITLE_COLUMNS: usize = 50;

/// A directory for which the branch to act on is chosen.
#[derive(Debug, Clone)]
pub(crate) struct Here {
    /// The directory and its applicable ancestors with all links resolved, nearest first.
    around: Vec<PathBuf>,
    /// The same directories by the shell's names for them.
    named: Vec<PathBuf>,
    /// True inside the project of the store.
    is_in_project: bool,
    /// True until the chosen session was named on stderr; false where stderr is not read.
    announces: Arc<AtomicBool>,
    /// The sessions of the store, once they were needed.
    known: Arc<KnownSessions>,
}

impl Here {
    /// Creates it for the directory `dir` and the store in `store`; `None` if the directory does
    /// not exist.
    pub(crate) fn new(dir: &Path, store: &Path) -> Option<Self> {
        let whole = canonical(dir).ok()?;
        let store = canonical(store).unwrap_or_else(|_| store.to_owned());
        let project = store.parent().filter(|_| store.ends_with(STORE_DIR));
        let is_in_project = project.is_some_and(|project| whole.starts_with(project));
        let home = etcetera::home_dir().ok().and_then(|home| canonical(&home).ok());
        let around = above(&whole, project, home.as_deref());
        let shell = std::env::var_os("PWD").map(PathBuf::from).filter(|named| {
            *named != whole && named.is_absolute() && canonical(named).is_ok_and(|d| d == whole)
        });
        let named =
            shell.map(|named| named.ancestors().take(around.len()).map(Path::to_owned).collect());
        let announces = Arc::new(AtomicBool::new(false));
        let (named, known) = (named.unwrap_or_default(), Arc::default());
        Some(Self { around, named, is_in_project, announces, known })
    }

    /// Names the session on stderr if the directory chose it among several.
    pub(crate) fn announcing(self) -> Self {
        self.announces.store(true, Ordering::Relaxed);
        self
    }

    /// Uses the sessions that the caller has read, or will read.
    pub(crate) fn with_known(self, known: Arc<KnownSessions>) -> Self {
        Self { known, ..self }
    }

    /// Makes a repository act on the branch of this place.
    pub(crate) fn stand(self, repo: Repository) -> turntree::Result<Repository> {
        let Some(own) = self.around.first().map(|dir| place_key(dir)) else { return Ok(repo) };
        repo.at_place(&own, Box::new(move |repo, with_own| self.choose(repo, with_own)))
    }

    /// Returns the branch of this place.
    ///
    /// # Errors
    /// `NotFound` if no session was recorded here or above.
    pub(crate) fn branch(&self, repo: &Repository) -> turntree::Result<BranchName> {
        self.choose(repo, true)
    }

    fn choose(&self, repo: &Repository, with_own: bool) -> turntree::Result<BranchName> {
        let places = self.around.iter().skip(usize::from(!with_own));
        // A store that came with all of its files has the places of the other computer.
        let map = DirectoryMap::read();
        let former = |dir: &PathBuf| [dir.clone()].into_iter().chain(map.former(dir));
        let mut keys = places.flat_map(former).map(|dir| place_key(&dir));
        let switched = keys.find_map(|key| repo.switched_at(&key));
        let live = client_session().map(|id| LiveSession::find(repo, &id));
        if let Some(LiveSession::Known(session)) = &live {
            let at = match &switched {
                Some(branch) => branch.clone(),
                None => repo.shared_head()?,
            };
            let is_own = at.session() == session && repo.tip(&at).is_some();
            return if is_own { Ok(at) } else { branch_of(repo, session) };
        }
        if let Some(branch) = switched {
            return Ok(branch);
        }
        let sessions = self.known.table(repo)?;
        let is_any_recorded = sessions.all().any(|it| it.directories().next().is_some());
        if let Some(LiveSession::New(id)) = live
            && let Ok(branch) = BranchName::main(&id)
            && (sessions.all().len() == 0 || is_any_recorded || super::live::is_head_of_hook(repo)?)
        {
            return Ok(branch);
        }
        if !is_any_recorded && (self.is_in_project || !repo.has_places()) {
            return repo.shared_head();
        }
        let moved = MovedProject::of(repo);
        let mut known: HashMap<&str, bool> = HashMap::new();
        let mut is_here = |dir| {
            *known.entry(dir).or_insert_with(|| self.is_place_of(&[moved.present(Path::new(dir))]))
        };
        let mut of_here = sessions.all().filter(|it| it.directories().any(&mut is_here));
        let Some(found) = of_here.next() else {
            return Err(self.none(&sessions, &moved, repo.refs()));
        };
        let branch = branch_of(repo, found.name())?;
        // An only session leaves nothing to decide.
        if self.announces.swap(false, Ordering::Relaxed) && of_here.next().is_some() {
            let shown = ShortNames::of(repo.refs(), [branch.session()]).branch(&branch);
            note(&format!("on {shown}, the newest session of this directory"));
        }
        Ok(branch)
    }

    /// Returns true if a session with `directories` (their current paths) was recorded here or
    /// above.
    pub(crate) fn is_place_of(&self, directories: &[PathBuf]) -> bool {
        let around = || self.around.iter().chain(&self.named);
        directories.iter().any(|dir| around().any(|here| here == dir))
    }

    /// The error for a place without a session; lists the existing sessions.
    fn none(&self, sessions: &SessionTable, moved: &MovedProject, refs: Arc<RefTable>) -> Error {
        let here = self.around.first().map(|dir| dir.display().to_string()).unwrap_or_default();
        let now = clock::now().ok();
        let newest = || sessions.all().take(MAX_NAMED);
        let names = ShortNames::of(refs, newest().map(|session| session.name()));
        let named = newest().map(|session| {
            let directory = session.directories().next().map(|dir| moved.present(Path::new(dir)));
            let project = directory.as_deref().and_then(Path::file_name);
            let project = project.map(|name| name.to_string_lossy().into_owned());
            let age = now.map(|now| clock::relative(session.time(), now));
            let title = session.title().map(|title| one_line(title, TITLE_COLUMNS));
            let about: Vec<String> = title.into_iter().chain(project).chain(age).collect();
            format!("\n  {}  {}", names.session(session.name()), about.join(", "))
        });
        let named = named.collect::<String>();
        let newest = match sessions.all().len() {
            1 => "the only one is".to_owned(),
            all if all <= MAX_NAMED => "there are".to_owned(),
            all => format!("the newest of {all} are"),
        };
        Error::not_found(format!("no session was recorded in {here} or above: {newest}{named}"))
            .with_source(Advice::new(
                "'turntree snapshot --workspace .' begins one here, 'turntree switch SESSION' \
                 chooses one for this directory, --session names one for a command",
                "name a branch: branch with action = switch chooses one for later calls",
            ))
    }
}

/// The directories whose sessions apply in `dir`, nearest first.
fn above(dir: &Path, project: Option<&Path>, home: Option<&Path>) -> Vec<PathBuf> {
    let mut around: Vec<PathBuf> = dir.ancestors().map(Path::to_owned).collect();
    if let Some(project) = project.filter(|project| dir.starts_with(project)) {
        around.retain(|above| above.starts_with(project));
        return around;
    }
    let is_broad =
        |above: &Path| above.parent().is_none() || home.is_some_and(|home| home.starts_with(above));
    let (first, rest) = (around.first().cloned(), around.iter().skip(1));
    let rest = rest.filter(|above| !is_broad(above)).cloned();
    first.into_iter().chain(rest).collect()
}

/// The worktree that contains a directory, and its branch.
pub(crate) fn worktree_around(repo: &Repository, dir: &Path) -> Option<(PathBuf, BranchName)> {
    let whole = canonical(dir).ok()?;
    let map = DirectoryMap::read();
    let branch = |dir: &Path| {
        let mut names = [dir.to_owned()].into_iter().chain(map.former(dir));
        names.find_map(|name| repo.worktree_at(&place_key(&name)))
    };
    whole.ancestors().find_map(|dir| Some((dir.to_owned(), branch(dir)?)))
}

/// Returns the workspace of a branch at a snapshot: the directory of the newest snapshot with a
/// workspace. Skips worktrees of other branches, because a branch that moved to a snapshot of
/// another branch does not take over its worktree. The branch on which a client continues after a
/// rollback shares the worktree of the rolled-back branch.
pub(crate) fn workspace_of(
    repo: &Repository,
    branch: &BranchName,
    at: &ObjectId,
) -> turntree::Result<Option<PathBuf>> {
    let moved = MovedProject::of(repo);
    for entry in repo.history(&[*at], &[])?.first_parent() {
        let Some(dir) = entry?.commit.metadata.remove(WORKSPACE) else { continue };
        let dir = moved.present(Path::new(&dir));
        let is_its = match repo.worktree_at(&place_key(&dir)) {
            Some(of) => of == *branch || is_client_branch_of(repo, branch, &of)?,
            None => true,
        };
        if is_its {
            return Ok(Some(dir));
        }
    }
    Ok(None)
}

/// The working directory that a client recorded for the session of a snapshot.
pub(crate) fn recorded_cwd(repo: &Repository, from: &ObjectId) -> turntree::Result<Option<String>> {
    let (context, store) = (repo.context(from)?, repo.store());
    let Some(item) = context.map(store, META)?.get(store, b"cwd")? else { return Ok(None) };
    let name = store.read_as(Kind::Blob, &item.link.id)?;
    Ok(Some(String::from_utf8_lossy(&name).into_owned()))
}

/// The key of a directory in ref names; it does not reveal the path.
pub(crate) fn place_key(dir: &Path) -> String {
    ObjectId::of(Kind::Blob, dir.as_os_str().as_encoded_bytes()).short(KEY_DIGITS)
}

/// The branch of a session to act on: the branch that follows its transcript, otherwise the main
/// branch, otherwise the newest.
fn branch_of(repo: &Repository, session: &str) -> turntree::Result<BranchName> {
    let followed = read_note(repo, session).and_then(|notes| followed_branch(&notes));
    if let Some(branch) = followed.filter(|branch| repo.tip(branch).is_some()) {
        return Ok(branch);
    }
    repo.branch_of_session(session)?.map_or_else(|| BranchName::main(session), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_as_above_ends_at_the_project_or_below_the_home_directory() {
        let shown = |dir: &str, project: Option<&str>| -> Vec<String> {
            let above = above(Path::new(dir), project.map(Path::new), Some(Path::new("/home/ann")));
            above.iter().map(|dir| dir.display().to_string()).collect()
        };
        assert_eq!(shown("/home/ann/p/src", None), ["/home/ann/p/src", "/home/ann/p"]);
        assert_eq!(shown("/home/ann", None), ["/home/ann"]);
        assert_eq!(shown("/", None), ["/"]);
        assert_eq!(shown("/srv/p", None), ["/srv/p", "/srv"]);
        assert_eq!(shown("/srv/p/src", Some("/srv/p")), ["/srv/p/src", "/srv/p"]);
        assert_eq!(shown("/srv/q", Some("/srv/p")), ["/srv/q", "/srv"]);
    }
}
