//! Refuses directories that contain more than a workspace: the filesystem root, the home directory,
//! and its ancestors. Every operation that captures a directory or writes files into it calls this
//! check.

use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};
use crate::platform;
use crate::platform::canonical;

/// Refuses `dir` if it is the filesystem root, the user's directory `home`, or an ancestor of it.
///
/// Compares directories by inode, not by name, so links, `//` and `x/..` hide none. A missing
/// directory is checked at the place where it would be created.
///
/// # Errors
/// `InvalidInput`, naming the directory.
pub fn expect_narrow(dir: &Path, home: Option<&Path>) -> Result<()> {
    let Some(found) = identity(&resolve_missing(dir)) else { return Ok(()) };
    let home = home.and_then(|home| canonical(home).ok());
    let homes = home.iter().flat_map(|home| home.ancestors());
    // Systems with several roots have one above each directory.
    let root = std::path::absolute(dir).ok();
    let root = root.as_deref().and_then(|dir| dir.ancestors().last());
    let roots = [Path::new("/")].into_iter().chain(root);
    let broad = homes.chain(roots).find(|broad| identity(broad) == Some(found));
    let Some(broad) = broad else { return Ok(()) };
    let what = if Some(broad) == home.as_deref() {
        "the home directory"
    } else if broad.parent().is_none() {
        "the root of all files"
    } else {
        "a directory above the home directory"
    };
    let refused = format!("{} is {what}, which is too broad for a workspace", dir.display());
    Err(Error::invalid(refused))
}

/// Resolves `dir` as if all of it existed: follows links, and appends missing parts.
fn resolve_missing(dir: &Path) -> PathBuf {
    let Ok(dir) = std::path::absolute(dir) else { return dir.to_owned() };
    let mut whole = PathBuf::new();
    for part in dir.components() {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            part => whole.push(part),
        }
        if let Ok(found) = canonical(&whole) {
            whole = found;
        }
    }
    whole
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    platform::identity(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_and_the_home_are_broad_whatever_they_are_called() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/", &link).unwrap();
        let made_on_the_way = folder.path().join("link/no-such-folder/..");
        for dir in [Path::new("/"), Path::new("//"), Path::new("/usr/.."), &link, &made_on_the_way]
        {
            let error = expect_narrow(dir, None).unwrap_err();
            assert!(error.message().contains("the root of all files"), "{}", dir.display());
        }
        let below = link.join("no-such-folder/deeper/..");
        for dir in [folder.path(), &folder.path().join("new"), &below] {
            expect_narrow(dir, None).unwrap();
        }
        let home = folder.path().join("people/ann");
        std::fs::create_dir_all(&home).unwrap();
        for (dir, what) in [(&*home, "the home directory"), (folder.path(), "above the home")] {
            let error = expect_narrow(dir, Some(&home)).unwrap_err();
            assert!(error.message().contains(what), "{error}");
        }
        expect_narrow(&home.join("project"), Some(&home)).unwrap();
    }
}
