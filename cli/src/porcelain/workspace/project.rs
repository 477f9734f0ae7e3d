//! Finds the project of a directory: the workspace of a session that begins there.

use std::fs;
use std::path::{Path, PathBuf};

use crate::porcelain::broad_directory::expect_narrow;
use crate::program::global::STORE_DIR;
use crate::program::linked_worktree::is_linked_worktree;
use turntree::platform::canonical;

/// The entry at the root of a git repository: a directory, or a file in a worktree and a submodule.
const REPOSITORY: &str = ".git";

/// Returns the project of a directory: the one whose store in `.turntree` is `store`, otherwise the
/// root of the git repository, otherwise `cwd` itself. A git worktree is a project of its own. The
/// home directory and the directories above it are not projects.
pub(crate) fn project_of(store: &Path, cwd: &Path) -> PathBuf {
    let is_narrow = |dir: &&Path| expect_narrow(dir, false).is_ok();
    let store = canonical(store).ok();
    let has_store = |dir: &&Path| store.is_some() && canonical(&dir.join(STORE_DIR)).ok() == store;
    let is_repository = |dir: &&Path| fs::symlink_metadata(dir.join(REPOSITORY)).is_ok();
    let worktree = cwd.ancestors().find(|dir| is_linked_worktree(dir));
    let of_store = cwd.ancestors().find(has_store).filter(is_narrow);
    let project = match (worktree, of_store) {
        (Some(worktree), Some(project)) if worktree.starts_with(project) => Some(worktree),
        (_, Some(project)) => Some(project),
        (_, None) => cwd.ancestors().find(is_repository).filter(is_narrow),
    };
    project.filter(is_narrow).unwrap_or(cwd).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_where_its_store_is_else_its_repository_and_a_worktree_is_one() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for dir in ["p/.turntree", "p/sub/.git", "p/sub/x", "p/wt/y", "q/.git", "q/a/b", "r/s"] {
            fs::create_dir_all(at(dir)).unwrap();
        }
        fs::write(at("p/wt/.git"), "gitdir: /p/.git/worktrees/wt\n").unwrap();
        let store = at("p/.turntree");
        for (dir, project) in
            [("p/sub/x", "p"), ("p", "p"), ("p/wt/y", "p/wt"), ("q/a/b", "q"), ("r/s", "r/s")]
        {
            assert_eq!(project_of(&store, &at(dir)), at(project), "{dir}");
        }
    }
}
