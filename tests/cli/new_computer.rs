//! A move to another computer: directories of the old one stand for directories of the new one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// Two computers: the old one and the new one, each with a home and a project.
struct Move {
    root: tempfile::TempDir,
}

impl Move {
    /// The old computer has a session of the project, with files, from a client.
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let new = Self { root };
        for folder in ["old/ann/project", "new/Ann B/project/src"] {
            fs::create_dir_all(new.path(folder)).unwrap();
        }
        new
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    fn run(&self, home: &str, dir: &Path, words: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(dir).stdin(Stdio::null()).env_clear();
        command.env("HOME", self.path(home)).env("TURNTREE_MAINTENANCE", "off");
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("TURNTREE_ACTOR", "ann");
        command.output().unwrap()
    }

    fn done(&self, home: &str, dir: &Path, words: &[&str]) -> String {
        let output = self.run(home, dir, words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A session of a client in the project of the old computer.
    fn record(&self) {
        let project = self.path("old/ann/project");
        let text = turntree_tests::claude_code(6);
        let text = text.replace("\"cwd\":\"/project\"", &format!("\"cwd\":{project:?}"));
        let file = self.path("old/ann/.claude/projects/-p/s-1.jsonl");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
        let _ = self.done("old/ann", &project, &["adopt"]);
    }

    fn here(&self, dir: &Path) -> usize {
        let listed = self.done("new/Ann B", dir, &["sessions", "--here", "--json"]);
        let listed: Value = serde_json::from_str(&listed).unwrap();
        listed["sessions"].as_array().unwrap().len()
    }
}

#[test]
fn sessions_of_a_bundle_are_of_the_directories_that_they_are_mapped_to() {
    let machine = Move::new();
    machine.record();
    let (old, new) = (machine.path("old/ann/project"), machine.path("new/Ann B/project"));
    let bundle = machine.path("all.bundle").display().to_string();
    let _ = machine.done("old/ann", &old, &["bundle", "create", "--all", "-o", &bundle]);
    fs::remove_dir_all(machine.path("old")).unwrap();
    let pair =
        format!("{}={}", machine.path("old/ann").display(), machine.path("new/Ann B").display());
    let _ = machine.done("new/Ann B", &new, &["bundle", "unbundle", &bundle, "--map", &pair]);
    assert_eq!(machine.here(&new), 1);
    assert_eq!(machine.here(&machine.path("new/Ann B/project/src")), 1, "and below it");
    assert_eq!(machine.here(&machine.path("new")), 0);
    // The session of the directory is that one, and is resumed there.
    let log = machine.done("new/Ann B", &new, &["log", "--oneline", "-n", "1"]);
    assert!(log.contains("s-1"), "{log}");
    let resumed = machine.done("new/Ann B", &new, &["resume", "s-1", "--dry-run", "--json"]);
    let resumed: Value = serde_json::from_str(&resumed).unwrap();
    assert_eq!(resumed["cwd"], new.display().to_string());
    // Without the map it is of no directory here.
    let map = ["session", "map", "--remove", pair.split('=').next().unwrap()];
    let _ = machine.done("new/Ann B", &new, &map);
    assert_eq!(machine.here(&new), 0);
    let refused = machine.run("new/Ann B", &new, &["resume", "s-1", "--dry-run"]);
    assert_eq!(refused.status.code(), Some(6));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("session map OLD=NEW"));
}

#[test]
fn a_store_that_is_copied_whole_keeps_the_heads_of_its_directories() {
    let machine = Move::new();
    machine.record();
    let (old, new) = (machine.path("old/ann/project"), machine.path("new/Ann B/project"));
    let _ = machine.done("old/ann", &old, &["fork", "second", "turn:2"]);
    let _ = machine.done("old/ann", &old, &["switch", "second"]);
    let store = machine.path("old/ann/.local/share/turntree/store");
    let target = machine.path("new/Ann B/.local/share/turntree/store");
    copy(&store, &target);
    fs::remove_dir_all(machine.path("old")).unwrap();
    let pair = format!("{}={}", old.display(), new.display());
    let said = machine.done("new/Ann B", &new, &["session", "map", &pair]);
    assert!(said.contains(" -> "), "{said}");
    let status = machine.done("new/Ann B", &new, &["status"]);
    assert!(status.contains("s-1/second"), "{status}");
    // A later choice here counts more.
    let _ = machine.done("new/Ann B", &new, &["switch", "s-1/main"]);
    assert!(machine.done("new/Ann B", &new, &["status"]).contains("s-1/main"));
    // The operations came along: the whole history can be undone.
    assert!(machine.done("new/Ann B", &new, &["op", "log"]).contains("fork"));
}

#[test]
fn a_directory_that_exists_here_is_not_mapped_and_pairs_are_checked() {
    let machine = Move::new();
    machine.record();
    let (old, new) = (machine.path("old/ann/project"), machine.path("new/Ann B/project"));
    let pair = format!("{}={}", old.display(), new.display());
    let _ = machine.done("old/ann", &new, &["session", "map", &pair]);
    let listed = machine.done("old/ann", &new, &["sessions", "--here", "--json"]);
    assert_eq!(listed.trim(), r#"{"sessions":[]}"#, "the old directory is still here");
    for wrong in ["/a", "a=/b", "=/b"] {
        let refused = machine.run("old/ann", &new, &["session", "map", wrong]);
        assert_eq!(refused.status.code(), Some(2), "{wrong}");
    }
    let missing = machine.run("old/ann", &new, &["session", "map", "--remove", "/nowhere"]);
    assert_eq!(missing.status.code(), Some(6));
    let json = machine.done("old/ann", &new, &["session", "map", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["directories"][0]["new"], new.display().to_string());
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}
