//! Tests whether git tracks a path: then the path came with a clone, or will be committed.

use std::path::{Path, PathBuf};

use super::{DOT_GIT, NO_PLACES, Repositories};
use crate::platform::path_bytes;

/// Returns the working tree of the innermost repository that tracks `path` itself or a path below
/// it. Reads the index of every repository around `path`, which must be absolute.
#[must_use]
pub fn tracking_repository(path: &Path) -> Option<PathBuf> {
    let is_tracked = |top: &&Path| {
        let Ok(below) = path.strip_prefix(top) else { return false };
        let repositories = Repositories::new(&NO_PLACES);
        let rules = repositories.of(top);
        let (tracked, below) = (rules.tracked_paths(&repositories), path_bytes(below));
        let folder = if below.is_empty() { Vec::new() } else { [&*below, b"/"].concat() };
        tracked.has(&below, false) || tracked.has(&below, true) || tracked.has_below(&folder)
    };
    let mut tops = path.ancestors().filter(|top| top.join(DOT_GIT).exists());
    tops.find(is_tracked).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_folder_is_tracked_if_a_file_below_it_is_or_it_is_a_link_or_a_repository() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let git = |args: &[&str]| {
            let mut git = Command::new("git");
            git.args(args).current_dir(root);
            git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
            git.output().is_ok_and(|done| done.status.success())
        };
        if !git(&["init", "-q"]) {
            return;
        }
        for name in ["shipped/deep/file", "own/file", "shipped2/file"] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), "x").unwrap();
        }
        std::os::unix::fs::symlink("own", root.join("link")).unwrap();
        assert!(git(&["add", "-f", "shipped", "link"]));
        let id = "0123456789012345678901234567890123456789";
        let inner = format!("160000,{id},inner");
        assert!(git(&["update-index", "--add", "--cacheinfo", &inner]));
        for (name, is_tracked) in [
            ("shipped", true),
            ("link", true),
            ("inner", true),
            ("own", false),
            ("shipped2", false),
            ("absent", false),
        ] {
            let found = tracking_repository(&root.join(name));
            assert_eq!(found.as_deref(), is_tracked.then_some(root), "{name}");
        }
    }
}
