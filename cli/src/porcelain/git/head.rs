//! Reads the branch and the remote of a directory from git's files, without running git.

use std::path::{Path, PathBuf};

use turntree_exchange::without_credentials;

use crate::program::linked_worktree::read;

/// The branch and the remote of the git repository around a directory, if it has them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct GitFacts {
    /// The branch that is checked out.
    pub(crate) branch: Option<String>,
    /// The URL of the remote `origin`, otherwise of the first remote, without user and password.
    pub(crate) remote: Option<String>,
}

/// Reads the facts about `dir`. Never fails: unreadable facts are missing.
pub(crate) fn git_facts(dir: &Path) -> GitFacts {
    let Some(git) = dir.ancestors().map(|dir| dir.join(".git")).find(|git| git.exists()) else {
        return GitFacts::default();
    };
    // In a worktree or submodule it is a file that names the directory.
    let git = match read(&git) {
        Some(text) => {
            let Some(to) = text.trim_end().strip_prefix("gitdir: ") else {
                return GitFacts::default();
            };
            git.parent().map_or_else(|| PathBuf::from(to), |parent| parent.join(to))
        }
        None => git,
    };
    let common = read(&git.join("commondir")).map(|to| git.join(to.trim_end()));
    let config = read(&common.as_ref().unwrap_or(&git).join("config"));
    let head = read(&git.join("HEAD"));
    GitFacts {
        branch: head.as_deref().and_then(branch_of).map(str::to_owned),
        remote: config.as_deref().and_then(remote_of),
    }
}

fn branch_of(head: &str) -> Option<&str> {
    head.trim_end().strip_prefix("ref: refs/heads/").filter(|branch| !branch.is_empty())
}

/// The URL of `origin`, otherwise of the first remote in the configuration.
fn remote_of(config: &str) -> Option<String> {
    let (mut remote, mut found): (Option<&str>, Option<(&str, &str)>) = (None, None);
    for line in config.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let name = section.strip_prefix("remote \"");
            remote = name.and_then(|name| name.strip_suffix("\"]"));
        } else if let (Some(name), Some((key, url))) = (remote, line.split_once('='))
            && key.trim().eq_ignore_ascii_case("url")
            && (found.is_none() || (name == "origin" && found.is_some_and(|(of, _)| of != name)))
        {
            found = Some((name, url.trim()));
        }
    }
    found.map(|(_, url)| without_credentials(url)).filter(|url| !url.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_and_its_worktree_say_their_branch_and_the_remote_without_a_password() {
        let folder = tempfile::tempdir().unwrap();
        let make = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        make("p/.git/HEAD", "ref: refs/heads/fix/lexer\n");
        let config = "[core]\n\tbare = false\n[remote \"up\"]\n\turl = up.example:x\n\
                      [remote \"origin\"]\n\turl = https://ann:pw@git.example/p.git\n";
        make("p/.git/config", config);
        make("p/.git/worktrees/w/HEAD", "ref: refs/heads/plan-a\n");
        make("p/.git/worktrees/w/commondir", "../..\n");
        make("w/.git", "gitdir: ../p/.git/worktrees/w\n");
        make("p/src/x", "");
        let facts = |branch: &str| GitFacts {
            branch: Some(branch.to_owned()),
            remote: Some("https://git.example/p.git".to_owned()),
        };
        assert_eq!(git_facts(&folder.path().join("p/src")), facts("fix/lexer"));
        assert_eq!(git_facts(&folder.path().join("w")), facts("plan-a"));
        assert_eq!(without_credentials("git@git.example:p.git"), "git@git.example:p.git");
        make("p/.git/HEAD", "0123456789012345678901234567890123456789\n");
        assert_eq!(git_facts(&folder.path().join("p")).branch, None);
    }
}
