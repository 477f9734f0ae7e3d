//! Git ignores a store inside its repository: sessions contain everything that an agent has seen.

use std::fs;

use turntree::maintenance::{Pattern, fsck, redact};
use turntree::repo::Repository;
use turntree::store::Thoroughness;
use turntree_tests::git::{Git, is_installed};
use turntree_tests::{Sandbox, claude_code, new_store, stamp};

#[test]
fn git_ignores_a_store() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.import("task", claude_code(12).as_bytes()).unwrap();
    let git = Git::init(sandbox.folder());
    assert_eq!(git.run(&["status", "--porcelain", "--untracked-files=all"]), "");
    git.run(&["add", "-A"]);
    assert_eq!(git.run(&["ls-files"]), "");
    // Git ignores files written later, too.
    sandbox.import("other", claude_code(20).as_bytes()).unwrap();
    redact(&sandbox.repo, &Pattern::literal("parser", "[gone]").unwrap(), &stamp(3)).unwrap();
    git.run(&["add", "-A"]);
    assert_eq!(git.run(&["ls-files"]), "");
}

#[test]
fn gitignore_belongs_to_the_store_and_is_optional() {
    let sandbox = Sandbox::new();
    sandbox.import("task", claude_code(12).as_bytes()).unwrap();
    let file = sandbox.store_dir().join(".gitignore");
    assert_eq!(fs::read_to_string(&file).unwrap(), "*\n");
    let findings = |repo: &Repository| {
        let (depth, now) = (Thoroughness::Full, stamp(60).time);
        fsck(repo, depth, now, &mut |_, _| {}).unwrap().findings
    };
    assert_eq!(findings(&sandbox.reopened()), []);
    fs::remove_file(&file).unwrap();
    assert_eq!(findings(&sandbox.reopened()), []);
    sandbox.import("task", claude_code(20).as_bytes()).unwrap();
    assert!(!file.exists(), "only the creation of a store writes it");
}

#[test]
fn incomplete_gitignore_is_finished_and_user_content_kept() {
    for (there, expected) in [("", "*\n"), ("*\0", "*\n"), ("!kept\n", "!kept\n")] {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("store");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join(".gitignore"), there).unwrap();
        let _ = new_store(&dir);
        assert_eq!(fs::read_to_string(dir.join(".gitignore")).unwrap(), expected);
    }
}
