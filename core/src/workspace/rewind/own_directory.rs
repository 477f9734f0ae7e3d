//! Decides whether files may be written to a directory that only a snapshot names.

use std::path::Path;

use crate::error::{Error, Result};
use crate::platform::canonical;
use crate::repo::Repository;
use crate::workspace::caches::was_captured_here;

/// The entries that mark the top of a project.
const MARKS: [&str; 2] = [".git", ".turntree"];

/// Refuses to write to the directory `dir`, which a snapshot names, unless `store` captured it on
/// this machine or it is the project around the caller's directory `here`. Imported snapshots must
/// not decide where files are written.
///
/// # Errors
/// `InvalidInput`, naming the directory.
pub fn expect_own_directory(repo: &Repository, dir: &Path, here: Option<&Path>) -> Result<()> {
    let whole = canonical(dir).unwrap_or_else(|_| dir.to_owned());
    let stands_in = |here: &Path| canonical(here).is_ok_and(|here| is_project_of(&whole, &here));
    if here.is_some_and(stands_in) || was_captured_here(repo, &whole) {
        return Ok(());
    }
    let dir = whole.display();
    Err(Error::invalid(format!(
        "a snapshot names the directory {dir}, and this store never captured it on this machine"
    )))
}

/// Returns true if the directory `dir` is `here`, or the top of the innermost project around
/// `here`. A folder of many projects is not the project.
fn is_project_of(dir: &Path, here: &Path) -> bool {
    let is_top = |dir: &&Path| MARKS.iter().any(|mark| dir.join(mark).exists());
    here == dir || here.ancestors().find(is_top) == Some(dir)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_folder_around_the_project_is_not_the_project() {
        let root = tempfile::tempdir().unwrap();
        let projects = root.path();
        let inner = projects.join("mine/src/deep");
        fs::create_dir_all(&inner).unwrap();
        assert!(is_project_of(&inner, &inner));
        assert!(
            !is_project_of(&projects.join("mine"), &inner),
            "nothing says that it is a project"
        );
        fs::create_dir(projects.join("mine/.git")).unwrap();
        assert!(is_project_of(&projects.join("mine"), &inner));
        for dir in [projects, &projects.join("mine/src"), &projects.join("other")] {
            assert!(!is_project_of(dir, &inner), "{}", dir.display());
        }
    }
}
