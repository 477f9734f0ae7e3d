//! Git worktrees: the file `.git` at the root of a worktree names its main checkout.

use std::path::{Path, PathBuf};

use turntree::platform::canonical;
use turntree::workspace::read_regular_text;

/// The git directory in the main checkout, and the file in a worktree.
const DOT_GIT: &str = ".git";

/// Maximum bytes of a git file to read.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// A part of the path in the `.git` file of a worktree; the file of a submodule lacks it.
const WORKTREES: &str = "/worktrees/";

/// Reads a small git file as text. Does not block on a pipe.
pub(crate) fn read(path: &Path) -> Option<String> {
    read_regular_text(path, MAX_FILE_BYTES).ok()
}

/// Returns the first line of a git file, after `prefix`.
fn line(path: &Path, prefix: &str) -> Option<String> {
    Some(read(path)?.lines().next()?.strip_prefix(prefix)?.trim().to_owned())
}

/// Returns true if `dir` is the root of a worktree, not of the main checkout.
pub(crate) fn is_linked_worktree(dir: &Path) -> bool {
    line(&dir.join(DOT_GIT), "gitdir:").is_some_and(|git| git.contains(WORKTREES))
}

/// Returns the main checkout of the worktree at `dir`, if both refer to each other.
pub(crate) fn main_checkout(dir: &Path) -> Option<PathBuf> {
    let git = line(&dir.join(DOT_GIT), "gitdir:").filter(|git| git.contains(WORKTREES))?;
    let git = canonical(&dir.join(git)).ok()?;
    // Checks both directions, because any user can write a `.git` file that names another project's
    // repository.
    let back = canonical(&git.join(line(&git.join("gitdir"), "")?)).ok()?;
    if back != canonical(&dir.join(DOT_GIT)).ok()? {
        return None;
    }
    let common = canonical(&git.join(line(&git.join("commondir"), "")?)).ok()?;
    common.parent().filter(|_| common.ends_with(DOT_GIT)).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_worktree_and_its_main_checkout_name_each_other() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let git = root.join("p/.git/worktrees/w");
        fs::create_dir_all(&git).unwrap();
        fs::create_dir(root.join("w")).unwrap();
        fs::create_dir(root.join("other")).unwrap();
        let pointer = format!("gitdir: {}\n", git.display());
        fs::write(root.join("w/.git"), &pointer).unwrap();
        fs::write(root.join("other/.git"), &pointer).unwrap();
        fs::write(git.join("gitdir"), format!("{}/w/.git\n", root.display())).unwrap();
        fs::write(git.join("commondir"), "../..\n").unwrap();
        assert_eq!(main_checkout(&root.join("w")), Some(root.join("p")));
        assert_eq!(main_checkout(&root.join("p")), None);
        assert!(is_linked_worktree(&root.join("other")));
        assert_eq!(main_checkout(&root.join("other")), None, "the repository does not know it");
    }
}
