//! Commits made while an agent works name the turn, and can be used to find the turn.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use turntree_tests::claude_code;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// A project in git with a store and the session `work` in it.
struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new() -> Self {
        let project = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(project.path("")).unwrap();
        project.git(&["init", "--quiet", "."], &[]);
        project.run(&["init"]);
        fs::write(project.path("session.jsonl"), claude_code(6)).unwrap();
        project.run(&["import", "session.jsonl", "--session", "work"]);
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("project").join(name)
    }

    fn tried(&self, program: &str, words: &[&str], variables: &[(&str, &str)]) -> (bool, String) {
        let output = Command::new(program)
            .args(words)
            .current_dir(self.path(""))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .envs([("TURNTREE_MAINTENANCE", "off"), ("GIT_CONFIG_NOSYSTEM", "1")])
            .envs([("GIT_AUTHOR_NAME", "ann"), ("GIT_AUTHOR_EMAIL", "ann@example.org")])
            .envs([("GIT_COMMITTER_NAME", "ann"), ("GIT_COMMITTER_EMAIL", "ann@example.org")])
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    }

    fn run(&self, words: &[&str]) -> String {
        let (is_done, said) = self.tried(PROGRAM, words, &[]);
        assert!(is_done, "{words:?}: {said}");
        said
    }

    fn git(&self, words: &[&str], variables: &[(&str, &str)]) -> String {
        let (is_done, said) = self.tried("git", words, variables);
        assert!(is_done, "git {words:?}: {said}");
        said
    }

    /// Commits like an agent in its shell, or like a user. Returns the message.
    fn commit(&self, message: &str, is_agent: bool) -> String {
        let agent = [("CLAUDE_CODE_SESSION_ID", "work")];
        let variables: &[_] = if is_agent { &agent } else { &[] };
        self.git(&["commit", "--quiet", "--allow-empty", "-m", message], variables);
        self.git(&["log", "-1", "--format=%B"], &[])
    }
}

fn has_git() -> bool {
    Command::new("git").arg("--version").output().is_ok()
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).unwrap().permissions().mode() & 0o111 != 0
}

#[test]
fn a_commit_of_an_agent_names_its_turn_and_each_finds_the_other() {
    if !has_git() {
        return;
    }
    let project = Project::new();
    let script = project.path(".git/hooks/prepare-commit-msg");
    assert!(project.run(&["hook", "install", "git", "--dry-run"]).contains("git-message"));
    assert!(!script.exists());
    project.run(&["hook", "install", "git"]);
    assert!(is_executable(&script));
    assert!(project.run(&["hook", "install", "git"]).contains("is up to date"));

    assert_eq!(project.commit("By hand", false).trim(), "By hand");
    let said = project.commit("Split the parser", true);
    let id = project.run(&["rev-parse", "work"]);
    let newest = "Turntree-Session: work\nTurntree-Turn: 6\nTurntree-Id: ";
    assert!(said.starts_with(&format!("Split the parser\n\n{newest}{}", id.trim())), "{said}");

    // In both directions, by the whole id of the commit and by its prefix.
    let commit = project.git(&["rev-parse", "HEAD"], &[]);
    for name in [commit.trim(), &commit[..8]] {
        assert!(project.run(&["show", name]).contains(id.trim()));
        // As JSON: the relative times for people may change in between.
        let [short, long] = [&["log", "--json", name][..], &["log", "--json", "--commit", name]];
        assert_eq!(project.run(short), project.run(long));
    }
    assert!(project.run(&["show", "work"]).contains(" Split the parser\n"));
    let (is_found, said) = project.tried(PROGRAM, &["show", "0123456789abcdef"], &[]);
    assert!(!is_found && said.contains("0123456789abcdef"), "{said}");

    // An amended commit names the turn only once.
    let amend = ["commit", "--quiet", "--allow-empty", "--amend", "--no-edit"];
    project.git(&amend, &[("CLAUDE_CODE_SESSION_ID", "work")]);
    let said = project.git(&["log", "-1", "--format=%B"], &[]);
    assert_eq!(said.matches("Turntree-Id").count(), 1, "{said}");

    project.run(&["hook", "uninstall", "git"]);
    assert!(!script.exists());
}

#[test]
fn a_commit_is_never_stopped_and_a_script_of_others_stays() {
    if !has_git() {
        return;
    }
    let project = Project::new();
    let script = project.path(".git/hooks/prepare-commit-msg");
    let own = "#!/bin/sh\necho linted > linted\n";
    fs::create_dir_all(script.parent().unwrap()).unwrap();
    fs::write(&script, own).unwrap();
    project.run(&["hook", "install", "git"]);
    // With an unreadable store, and without a store.
    let superblock = project.path(".turntree/superblock");
    fs::write(&superblock, "damaged").unwrap();
    assert_eq!(project.commit("With a damaged store", true).trim(), "With a damaged store");
    fs::remove_dir_all(project.path(".turntree")).unwrap();
    assert_eq!(project.commit("Without a store", true).trim(), "Without a store");
    assert!(project.path("linted").exists());
    project.run(&["hook", "uninstall", "git"]);
    assert_eq!(fs::read_to_string(&script).unwrap(), own);

    fs::write(&script, "#!/usr/bin/env python3\n").unwrap();
    let (is_done, said) = project.tried(PROGRAM, &["hook", "install", "git"], &[]);
    assert!(!is_done && said.contains("is not a shell script"), "{said}");
    let (is_done, said) = project.tried(PROGRAM, &["hook", "install", "git", "--user"], &[]);
    assert!(!is_done && said.contains("leave out the options"), "{said}");
}
