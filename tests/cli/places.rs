//! The store and the session that a command uses, the locations of clients' settings, and projects
//! that move.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// A machine with an empty home directory.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("home")).unwrap();
        Self { root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    fn make(&self, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let dir = self.path(name);
        fs::create_dir_all(&dir).unwrap();
        for (file, text) in files {
            fs::write(dir.join(file), text).unwrap();
        }
        dir
    }

    fn command(&self, program: &str, dir: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(dir).stdin(Stdio::null());
        command.env_clear().env("HOME", self.path("home")).env("TURNTREE_ACTOR", "person");
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("TURNTREE_MAINTENANCE", "off");
        command.envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null")]);
        command
    }

    fn run(&self, dir: &Path, words: &[&str]) -> String {
        text(&self.command(PROGRAM, dir, words).output().unwrap())
    }

    fn git(&self, dir: &Path, words: &[&str]) {
        let who = ["-c", "user.name=p", "-c", "user.email=p@example.com"];
        let words = [&who, words].concat();
        text(&self.command("git", dir, &words).output().unwrap());
    }
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn the_settings_of_a_user_are_where_the_client_looks() {
    let machine = Machine::new();
    let project = machine.make("p", &[]);
    machine.run(&project, &["init"]);
    let cases = [
        ("claude-code", "CLAUDE_CONFIG_DIR", "settings.json"),
        ("codex", "CODEX_HOME", "hooks.json"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
    ];
    for (client, variable, file) in cases {
        let moved = machine.path(client);
        let run = |words: &[&str]| {
            text(&machine.command(PROGRAM, &project, words).env(variable, &moved).output().unwrap())
        };
        run(&["hook", "install", client, "--user"]);
        assert!(moved.join(file).is_file(), "{client}");
        let shown = moved.join(file).display().to_string();
        assert!(run(&["hook", "check"]).contains(&format!("{client}: installed in {shown}")));
        let elsewhere = machine.run(&project, &["hook", "check"]);
        assert!(elsewhere.contains(&format!("{client}: not installed")), "{elsewhere}");
        run(&["hook", "uninstall", client, "--user"]);
        assert!(!moved.join(file).exists(), "{client}");
    }
}

#[test]
fn the_first_snapshot_of_an_agent_in_an_empty_store_is_in_its_session() {
    let machine = Machine::new();
    let project = machine.make("p", &[("a.txt", "1\n")]);
    machine.run(&project, &["init"]);
    for turn in 1..=2 {
        let words = ["snapshot", "-m", "x", "--workspace", "."];
        let mut command = machine.command(PROGRAM, &project, &words);
        let said = text(&command.env("CLAUDE_CODE_SESSION_ID", "x").output().unwrap());
        assert!(said.contains(&format!("turn {turn} of x/main")), "{said}");
    }
}

#[test]
fn a_worktree_of_git_uses_the_store_of_its_project() {
    let machine = Machine::new();
    let project = machine.make("p", &[("a.txt", "1\n")]);
    machine.git(&project, &["init", "-q"]);
    machine.git(&project, &["add", "a.txt"]);
    machine.git(&project, &["commit", "-qm", "one"]);
    machine.run(&project, &["init"]);
    let worktree = machine.path("w");
    machine.git(&project, &["worktree", "add", "-q", worktree.to_str().unwrap()]);
    let inside = worktree.join("src");
    fs::create_dir(&inside).unwrap();
    let store = |dir: &Path| {
        let status: Value = serde_json::from_str(&machine.run(dir, &["status", "--json"])).unwrap();
        status["store"].as_str().unwrap().to_owned()
    };
    assert_eq!(store(&inside), store(&project));
    machine.run(&inside, &["init"]);
    assert!(inside.join(".turntree").is_dir(), "a store of its own comes first");
    assert_ne!(store(&inside), store(&project));
}

#[test]
fn sessions_of_a_project_are_found_after_it_has_moved() {
    let machine = Machine::new();
    let old = machine.make("old", &[("a.txt", "1\n")]);
    machine.run(&old, &["init"]);
    let snapshot = ["snapshot", "-m", "x", "--session", "work", "--workspace", "."];
    machine.run(&old, &snapshot);
    fs::write(old.join("a.txt"), "2\n").unwrap();
    machine.run(&old, &snapshot);
    let new = machine.path("new");
    fs::rename(&old, &new).unwrap();
    assert!(machine.run(&new, &["log"]).contains(" t2 "));
    machine.run(&new, &["rollback", "--to-turn", "1"]);
    assert_eq!(fs::read_to_string(new.join("a.txt")).unwrap(), "1\n");
    assert!(!old.exists());
    // It moves again, after snapshots in the second place.
    machine.run(&new, &snapshot);
    let third = machine.path("third");
    fs::rename(&new, &third).unwrap();
    fs::write(third.join("a.txt"), "3\n").unwrap();
    machine.run(&third, &snapshot);
    machine.run(&third, &["rollback", "--to-turn", "1"]);
    assert_eq!(fs::read_to_string(third.join("a.txt")).unwrap(), "1\n");
}

#[test]
fn a_copy_of_a_project_does_not_take_over_its_directory() {
    let machine = Machine::new();
    let first = machine.make("first", &[("a.txt", "1\n")]);
    machine.run(&first, &["init"]);
    machine.run(&first, &["snapshot", "-m", "x", "--session", "work", "--workspace", "."]);
    let copy = machine.path("copy");
    text(&Command::new("cp").arg("-r").args([&first, &copy]).output().unwrap());
    let output = machine.command(PROGRAM, &copy, &["rollback", "--to-turn", "1"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no session was recorded in"), "{said}");
    assert_eq!(fs::read_to_string(first.join("a.txt")).unwrap(), "1\n");
}

#[test]
fn a_server_uses_the_store_of_its_workspace() {
    let machine = Machine::new();
    let project = machine.make("p", &[("a.txt", "1\n")]);
    machine.run(&project, &["init"]);
    let elsewhere = machine.make("elsewhere", &[]);
    let words = ["serve", "--stdio", "--workspace", project.to_str().unwrap()];
    let mut command = machine.command(PROGRAM, &elsewhere, &words);
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "snapshot",
        "params": {"message": "x", "set": {"scratchpad/plan": "one"}}});
    writeln!(server.stdin.take().unwrap(), "{request}").unwrap();
    let output = server.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(machine.run(&project, &["log"]).contains(" t1 "), "{said}");
    assert!(!machine.path("home/.local/share/turntree/store").exists());
}
