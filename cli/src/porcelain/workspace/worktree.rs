//! Worktrees: a separate directory for a branch; a git worktree if the project is in git. Several
//! worktrees are created together or not at all.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use turntree::context::{Builder, Context, diff};
use turntree::object::ObjectId;
use turntree::platform::canonical;
use turntree::repo::{BranchName, Repository, SnapshotDraft, Transaction};
use turntree::workspace::{capture, expect_own_directory, lay_out_files, store_above};
use turntree::{Error, ErrorKind};

use super::capture::{Limits, Workspace};
use super::rewind::capturing;
use super::worktree_include::copy_kept;
use crate::porcelain::broad_directory::expect_narrow;
use crate::porcelain::git::program::{GitProject, commits_on_no_branch};
use crate::program::global::STORE_DIR;
use crate::program::here::{place_key, recorded_cwd};
use crate::program::invocation::{ELSEWHERE, stamp, store_from, whole_path};
use crate::program::linked_worktree::is_linked_worktree;
use crate::program::moved_project::MovedProject;
use crate::program::trust::record_pointer;
use crate::view::error::{Failure, Hint, Result};
use crate::view::render::count;

/// The time limit for git to list ignored files to keep.
const FOR_KEPT_FILES: Duration = Duration::from_secs(10);

/// The placeholder in a directory for the part in which names differ.
const PART: &str = "{}";

/// A worktree to create.
#[derive(Debug)]
pub(crate) struct PlannedWorktree {
    pub(crate) branch: BranchName,
    /// The canonical path of the directory.
    dir: PathBuf,
    git: Option<GitProject>,
    project: Option<PathBuf>,
}

impl PlannedWorktree {
    /// The same worktree, for another branch.
    pub(crate) fn of_branch(self, branch: BranchName) -> Self {
        Self { branch, ..self }
    }

    /// The directory for the files: the project's subdirectory of the repository.
    pub(crate) fn workspace(&self) -> PathBuf {
        // Joining an empty path would add a slash to the directory, which makes it another place.
        let below = self.git.as_ref().map(|git| &git.prefix);
        let below = below.filter(|below| below.file_name().is_some());
        below.map_or_else(|| self.dir.clone(), |below| self.dir.join(below))
    }
}

/// Created worktrees; dropping them before they are kept removes them.
#[derive(Debug, Default)]
pub(crate) struct MadeWorktrees {
    made: Vec<MadeWorktree>,
    is_kept: bool,
}

/// A created worktree.
#[derive(Debug)]
pub(crate) struct MadeWorktree {
    pub(crate) branch: BranchName,
    /// The directory for the files: the project's subdirectory of the repository.
    pub(crate) workspace: PathBuf,
    /// The main workspace.
    pub(crate) project: Option<PathBuf>,
    dir: PathBuf,
    git: Option<GitProject>,
    /// True if an empty directory existed before.
    was_there: bool,
    captured: Option<(Workspace, ObjectId)>,
}

impl MadeWorktree {
    /// The kind of worktree, for people.
    pub(crate) fn kind(&self) -> &'static str {
        if self.git.is_some() { "git worktree" } else { "directory" }
    }
}

/// The directory of each name: `template` with `{}` replaced by the part in which the names differ.
/// The part begins and ends at word boundaries; otherwise it is the whole name.
pub(crate) fn directories(names: &[String], template: &str) -> Result<Vec<PathBuf>> {
    if names.len() > 1 && !template.contains(PART) {
        let one = format!("'{template}' is one directory for {} branches", names.len());
        let hint = "put {} where their names differ, as in --worktree ../plan-{}";
        return Err(Failure::hinted(Error::invalid(one), hint));
    }
    let parts = differing(names);
    Ok(parts.into_iter().map(|part| template.replace(PART, part).into()).collect())
}

/// The part of each name that the others do not share; the whole names if there is none.
fn differing(names: &[String]) -> Vec<&str> {
    let whole = || names.iter().map(String::as_str).collect::<Vec<_>>();
    let [first, _, ..] = names else { return whole() };
    // A word ends between letters, digits and other characters.
    let class = |c: Option<char>| c.map(|c| (c.is_alphabetic(), c.is_numeric()));
    let is_end = |before: Option<char>, after: Option<char>| {
        class(before).is_none_or(|class| class == (false, false)) || class(before) != class(after)
    };
    let starts = |at: usize| {
        names.iter().all(|name| {
            let split = name.split_at_checked(at);
            split.is_some_and(|(head, tail)| {
                first.starts_with(head) && is_end(head.chars().next_back(), tail.chars().next())
            })
        })
    };
    let head = (0..=first.len()).rev().find(|at| starts(*at)).unwrap_or(0);
    let tails: Vec<&str> = names.iter().map(|name| name.get(head..).unwrap_or_default()).collect();
    let ends = |length: usize| {
        tails.iter().all(|tail| {
            let split = tail.len().checked_sub(length).and_then(|at| tail.split_at_checked(at));
            split.is_some_and(|(part, end)| {
                first.ends_with(end) && is_end(end.chars().next(), part.chars().next_back())
            })
        })
    };
    let shortest = tails.iter().map(|tail| tail.len()).min().unwrap_or(0);
    let tail = (0..=shortest).rev().find(|length| ends(*length)).unwrap_or(0);
    let part = |name: &&'_ str| name.len().checked_sub(tail);
    let parts: Vec<&str> =
        tails.iter().map(|name| part(name).and_then(|at| name.get(..at)).unwrap_or(name)).collect();
    if parts.iter().any(|part| part.is_empty()) { whole() } else { parts }
}

/// Checks that a worktree of each branch can be created for the snapshot `from`, before any is
/// created.
///
/// # Errors
/// `InvalidInput` for a directory inside the project, an existing non-empty one, one
/// without an existing parent, and one that is given twice.
pub(crate) fn plan_worktrees(
    repo: &Repository,
    from: &ObjectId,
    wanted: Vec<(BranchName, PathBuf)>,
) -> Result<Vec<PlannedWorktree>> {
    let project = project_of(repo, from)?;
    let git = project.as_deref().and_then(GitProject::around);
    let main = git.as_ref().map(|git| git.top.clone()).or(project.clone());
    let mut planned: Vec<PlannedWorktree> = Vec::new();
    for (branch, dir) in wanted {
        let dir = target(&dir)?;
        expect_narrow(&dir, false)?;
        if let Some(main) = main.as_ref().filter(|main| dir.starts_with(main)) {
            let inside = format!("{} is inside the workspace {}", dir.display(), main.display());
            let hint = "name a directory next to it, as in --worktree ../plan-{}";
            return Err(Failure::hinted(Error::invalid(inside), hint));
        }
        let parent = dir.parent().unwrap_or(&dir);
        if let Ok(Some(store)) = store_above(parent) {
            let inside = format!("{} is inside the store {}", dir.display(), store.display());
            return Err(Error::invalid(inside).into());
        }
        if is_used(&dir)? {
            let used = format!("{} exists and is not empty", dir.display());
            return Err(Failure::hinted(Error::invalid(used), "choose another directory"));
        }
        if let Some(other) = planned.iter().find(|other| other.dir == dir) {
            let twice = format!("{} is for {} already", dir.display(), other.branch);
            return Err(Failure::hinted(
                Error::invalid(twice),
                "{} makes the directories different",
            ));
        }
        planned.push(PlannedWorktree { branch, dir, git: git.clone(), project: project.clone() });
    }
    Ok(planned)
}

/// The canonical path of a directory to create, whose parent must exist.
fn target(dir: &Path) -> Result<PathBuf> {
    if let Ok(whole) = canonical(dir) {
        return Ok(whole);
    }
    let name = dir.file_name().ok_or_else(|| {
        Error::invalid(format!("{} does not end in the name of a directory", dir.display()))
    })?;
    let parent = dir.parent().filter(|parent| *parent != Path::new(""));
    Ok(whole_path(parent.unwrap_or(Path::new(".")))?.join(name))
}

fn is_used(dir: &Path) -> Result<bool> {
    match fs::read_dir(dir) {
        Ok(mut inside) => Ok(inside.next().is_some()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Ok(fs::symlink_metadata(dir).is_ok())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Ok(true),
        Err(error) => Err(Error::io(format!("inspect {}", dir.display()), error).into()),
    }
}

/// The directory of the project: the workspace of the snapshot, otherwise the directory of its
/// session, otherwise the working directory.
pub(crate) fn project_of(repo: &Repository, from: &ObjectId) -> Result<Option<PathBuf>> {
    let cwd = recorded_cwd(repo, from)?;
    let moved = MovedProject::of(repo);
    let known = [repo.workspace_of(from)?, cwd].into_iter().flatten();
    let known = known.map(|dir| moved.present(Path::new(&dir)));
    let here = std::env::current_dir().ok();
    // Its files are copied and git runs in it, so a directory named by an imported snapshot is not
    // used.
    let known = known.filter(|dir| expect_own_directory(repo, dir, here.as_deref()).is_ok());
    let dirs = known.filter(|dir| dir.is_absolute()).chain(here.clone());
    Ok(dirs.filter_map(|dir| canonical(&dir).ok()).find(|dir| dir.is_dir()))
}

impl MadeWorktrees {
    /// Creates a directory with the files of the snapshot `from`.
    pub(crate) fn make(
        &mut self,
        repo: &Repository,
        from: &ObjectId,
        planned: PlannedWorktree,
    ) -> Result<()> {
        let workspace = planned.workspace();
        let PlannedWorktree { branch, dir, git, project } = planned;
        let was_there = dir.is_dir();
        let made = MadeWorktree {
            branch,
            workspace,
            project: project.clone(),
            dir,
            git,
            was_there,
            captured: None,
        };
        match &made.git {
            Some(git) => git.add_worktree(&made.dir)?,
            None if was_there => {}
            None => fs::create_dir(&made.dir)
                .map_err(|error| Error::io(format!("make {}", made.dir.display()), error))?,
        }
        let workspace = made.workspace.clone();
        // From here on it is removed on errors.
        self.made.push(made);
        fs::create_dir_all(&workspace)
            .map_err(|error| Error::io(format!("make {}", workspace.display()), error))?;
        let (applied, _) = capturing(repo, Some(&workspace), |options| {
            lay_out_files(repo, from, &workspace, options)
        })?;
        if let Some((path, error)) = applied.worst() {
            let place = workspace.join(path);
            let kind = match error.kind() {
                kind @ (ErrorKind::Io | ErrorKind::Corrupt) => kind,
                _ => ErrorKind::Conflict,
            };
            let message = format!("{} was not written: {error}", place.display());
            return Err(Error::new(kind, message).into());
        }
        if let Some(project) = &project {
            copy_kept(project, &workspace, FOR_KEPT_FILES)?;
        }
        point_to_store(&workspace, repo.dir())
    }

    /// The first worktree.
    pub(crate) fn first(&self) -> Option<&MadeWorktree> {
        self.made.first()
    }

    /// Creates the branch of each directory at `from`, with the files in the directory, and points
    /// HEAD at it there.
    pub(crate) fn stage(
        &mut self,
        repo: &Repository,
        change: &mut Transaction<'_>,
        from: &ObjectId,
    ) -> Result<()> {
        let stamp = stamp()?;
        for made in &mut self.made {
            // A branch that this transaction has begun already has a snapshot.
            let tip = change.tip(&made.branch).unwrap_or(*from);
            change.move_branch(&made.branch, Some(tip));
            let context = Context::open(change, &change.read_commit(&tip)?.tree)?;
            let mut builder = Builder::from(context.clone());
            let limits = Limits::default();
            let dir = &made.workspace;
            let captured = limits.capture(repo, change, &context, &mut builder, dir)?;
            let tree = builder.write(change)?;
            let mut draft = SnapshotDraft::new(tree, "the files of its worktree", &stamp);
            draft.metadata.extend(captured.metadata(dir));
            change.snapshot(&made.branch, draft)?;
            change.make_worktree(&place_key(dir), &made.branch)?;
            made.captured = Some((captured, tree));
        }
        Ok(())
    }

    /// Keeps the worktrees, once their branches are in the store.
    pub(crate) fn keep(mut self, repo: &Repository) -> Vec<MadeWorktree> {
        self.is_kept = true;
        let made = std::mem::take(&mut self.made);
        for (captured, tree) in made.iter().filter_map(|made| made.captured.as_ref()) {
            captured.keep(repo, tree);
        }
        made
    }
}

impl Drop for MadeWorktrees {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        // This process has just created them, so no data is lost. A worktree that cannot be removed
        // stays visible.
        for made in self.made.iter().rev() {
            let _ = match &made.git {
                Some(git) => git.remove_worktree(&made.dir).is_ok(),
                None => fs::remove_dir_all(&made.dir).is_ok(),
            };
            if made.was_there {
                let _ = fs::create_dir(&made.dir);
            }
        }
    }
}

/// Writes a pointer to the store into a directory from which the store would not be found.
fn point_to_store(dir: &Path, store: &Path) -> Result<()> {
    let store = whole_path(store)?;
    if store_from(dir).and_then(|found| canonical(&found).ok()).as_ref() == Some(&store) {
        return Ok(());
    }
    let folder = dir.join(STORE_DIR);
    let failed = |error| Error::io(format!("write {}", folder.display()), error);
    fs::create_dir(&folder).map_err(failed)?;
    fs::write(folder.join(".gitignore"), "*\n").map_err(failed)?;
    let mut file = fs::File::create_new(folder.join(ELSEWHERE)).map_err(failed)?;
    file.write_all(store.as_os_str().as_encoded_bytes()).map_err(failed)?;
    // The store knows its worktrees, so one without a record is trusted too.
    let _ = record_pointer(&folder, &store);
    Ok(())
}

/// A worktree that may be removed: except for ignored files, all of its content is in the newest
/// snapshot of its branch.
#[derive(Debug)]
pub(crate) struct RemovableWorktree {
    pub(crate) dir: PathBuf,
    git: Option<GitProject>,
}

impl RemovableWorktree {
    /// Finds the worktree of a branch; `None` if its directory was deleted.
    ///
    /// # Errors
    /// `InvalidInput` if the branch has none, and if content of it would be lost.
    pub(crate) fn find(
        repo: &Repository,
        branch: &BranchName,
        tip: &ObjectId,
    ) -> Result<Option<Self>> {
        let known = repo.workspace_of(tip)?.map(PathBuf::from);
        let known = known.filter(|dir| repo.worktree_at(&place_key(dir)).as_ref() == Some(branch));
        let Some(workspace) = known else {
            let none = format!("{branch} has no worktree");
            return Err(Failure::hinted(Error::invalid(none), "leave out --worktree"));
        };
        if !workspace.exists() {
            return Ok(None);
        }
        expect_narrow(&workspace, false)?;
        let hint = "remove the directory by hand";
        expect_own_directory(repo, &workspace, None).hint(ErrorKind::InvalidInput, hint)?;
        let around = GitProject::around(&workspace);
        let git = around.filter(|git| is_linked_worktree(&git.top));
        let dir = git.as_ref().map_or_else(|| workspace.clone(), |git| git.top.clone());
        let refuse = |why: String, hint: String| {
            Err(Failure::hinted(Error::invalid(format!("{} {why}", dir.display())), hint))
        };
        let here = std::env::current_dir().ok().and_then(|here| canonical(&here).ok());
        if here.is_some_and(|here| here.starts_with(&dir)) {
            return refuse(
                "is the working directory".to_owned(),
                "run it from another directory".into(),
            );
        }
        if store_above(&workspace.join(STORE_DIR)).is_ok_and(|s| s.is_some()) {
            return refuse("has a store in it".to_owned(), "remove it by hand".into());
        }
        if let Some(commit) = git.as_ref().and_then(|git| commits_on_no_branch(&git.top)) {
            let hint = format!("'git -C {} switch -c NAME' gives it a branch", dir.display());
            return refuse(format!("is at the commit {commit}, which no branch of git has"), hint);
        }
        let unsaved = unsaved(repo, tip, &workspace)?;
        if unsaved > 0 {
            let files = count(unsaved, "file");
            let save = format!(
                "'turntree snapshot -m \"the rest\" --branch {branch} --workspace {}' saves them",
                workspace.display()
            );
            return refuse(format!("has {files} that the newest snapshot does not have"), save);
        }
        Ok(Some(Self { dir, git }))
    }

    /// Removes the directory.
    pub(crate) fn remove(&self) -> Result<()> {
        match &self.git {
            Some(git) => Ok(git.remove_worktree(&self.dir)?),
            None => Ok(fs::remove_dir_all(&self.dir)
                .map_err(|error| Error::io(format!("remove {}", self.dir.display()), error))?),
        }
    }
}

/// The number of files in a directory that differ from a snapshot, or cannot be stored in one.
fn unsaved(repo: &Repository, tip: &ObjectId, dir: &Path) -> Result<u64> {
    let before = repo.context(tip)?;
    let mut change = repo.begin();
    let mut builder = Builder::from(before.clone());
    let (captured, _) = capturing(repo, Some(dir), |options| {
        capture(&mut change, &before, &mut builder, dir, options)
    })?;
    let tree = builder.write(&mut change)?;
    let changed = diff(&change, &before, &Context::open(&change, &tree)?)?;
    let changed: usize = changed.values().map(|section| section.changes.len()).sum();
    Ok((changed + captured.skipped.len()) as u64)
}
