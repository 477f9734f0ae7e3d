//! `resume` writes a session where the agent looks for it, once, and no other file of the agent.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use turntree_tests::claude_code;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// A home, a project, and a store with a session of eight turns.
struct Machine {
    folder: tempfile::TempDir,
}

/// The exit code of a command, and its output.
struct Answer {
    exit: i32,
    out: String,
    err: String,
}

impl Answer {
    fn json(&self) -> Value {
        assert_eq!(self.exit, 0, "{}", self.err);
        serde_json::from_str(&self.out).unwrap()
    }
}

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        for name in ["home", "project"] {
            fs::create_dir(machine.path(name)).unwrap();
        }
        fs::write(machine.path("session.jsonl"), claude_code(8)).unwrap();
        let imported = machine.run(&["import", "../session.jsonl", "--session", "work"]);
        assert_eq!(imported.exit, 0, "{}", imported.err);
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Answer {
        self.run_with(arguments, None)
    }

    /// Runs the program, with `programs` first in the path.
    fn run_with(&self, arguments: &[&str], programs: Option<&Path>) -> Answer {
        let known = std::env::var_os("PATH").unwrap_or_default();
        let known = std::env::split_paths(&known);
        let path = programs.map(Path::to_owned).into_iter().chain(known);
        let output = Command::new(PROGRAM)
            .args(arguments)
            .current_dir(self.path("project"))
            .env_clear()
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("HOME", self.path("home"))
            .env("TURNTREE_STORE", self.path("store"))
            .envs([("TURNTREE_MAINTENANCE", "off"), ("TURNTREE_NOW", "2026-11-20T12:00:00Z")])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Answer {
            exit: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Every file in the home, by path.
    fn files(&self) -> Vec<PathBuf> {
        let (mut files, mut folders) = (Vec::new(), vec![self.path("home")]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        files
    }
}

#[test]
fn a_turn_becomes_a_session_of_each_agent_and_undo_takes_the_branch_back() {
    let machine = Machine::new();
    for (agent, folder, program) in [
        ("claude-code", ".claude/projects", "claude"),
        ("codex", ".codex/sessions/2026/11/20", "codex"),
        ("gemini-cli", ".gemini/tmp/project/chats", "gemini"),
        ("opencode", ".local/share/opencode/turntree", "opencode"),
        ("pi", ".pi/agent/sessions", "pi"),
    ] {
        let told =
            machine.run(&["--json", "resume", "work^{turn:4}", "--in", agent, "--cwd", "."]).json();
        let path = PathBuf::from(told["path"].as_str().unwrap());
        assert!(path.starts_with(machine.path("home").join(folder)), "{path:?}");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let id = told["session_id"].as_str().unwrap();
        // The name of one format has only the prefix of the id.
        assert!(path.to_str().unwrap().contains(&id[..8]) && told["command"][0] == program);
        assert_eq!(
            (&told["turn"], &told["own_records"]),
            (&4.into(), &(agent == "claude-code").into())
        );

        let session = told["session"].as_str().unwrap();
        let source = machine.run(&["export", session, "--format", "source"]).out;
        assert_eq!(source, fs::read_to_string(&path).unwrap());
        let adopted = machine.run(&["--json", "adopt", path.to_str().unwrap()]).json();
        assert_eq!(adopted["agents"][0]["turns"], 0, "the written session is known: {adopted}");
    }
    let owner = machine.path("home/.gemini/tmp/project/.project_root");
    assert_eq!(fs::read_to_string(owner).unwrap(), machine.path("project").to_str().unwrap());
    assert_eq!(machine.files().len(), 6);
    let taken_back = machine.run(&["undo"]);
    assert_eq!(taken_back.exit, 0, "{}", taken_back.err);
    assert_eq!(machine.files().len(), 6, "files of agents are theirs");
}

#[test]
fn a_dry_run_and_what_is_refused_write_nothing() {
    let machine = Machine::new();
    let operations = || machine.run(&["--json", "op", "log"]).out.lines().count();
    let before = operations();
    let dry = machine.run(&["--json", "resume", "--cwd", ".", "--dry-run"]).json();
    assert_eq!((&dry["dry_run"], &dry["messages"]), (&true.into(), &14.into()));
    for (arguments, exit, told) in [
        // The session's directory is on another machine.
        (&["resume"][..], 6, "--cwd DIR"),
        (&["resume", "--cwd", "nowhere"], 6, "nowhere"),
        (
            &["resume", "--in", "missing", "--cwd", "."],
            2,
            "claude-code, codex, gemini-cli, opencode, pi",
        ),
        (&["resume", "work^{turn:99}", "--cwd", "."], 6, "turn 99"),
        (&["resume", "--run", "--dry-run", "--cwd", "."], 2, "--dry-run"),
    ] {
        let refused = machine.run(arguments);
        assert_eq!(refused.exit, exit, "{arguments:?}: {}", refused.err);
        assert!(refused.err.contains(told), "{arguments:?}: {}", refused.err);
    }
    // A file blocks the path of a folder.
    fs::write(machine.path("home/.codex"), "").unwrap();
    assert_eq!(machine.run(&["resume", "--in", "codex", "--cwd", "."]).exit, 70);
    assert_eq!((operations(), machine.files().len()), (before, 1));
}

#[test]
fn files_of_the_turn_come_back_with_it_and_undo_takes_them_away() {
    let machine = Machine::new();
    let dry = ["--json", "resume", "work^{turn:3}", "--cwd", ".", "--files", "--dry-run"];
    let planned = machine.run(&dry).json();
    let files = planned["workspace"]["files"].as_array().unwrap().len();
    assert!(files > 0 && fs::read_dir(machine.path("project")).unwrap().next().is_none());

    let done = machine.run(&["--json", "resume", "work^{turn:3}", "--cwd", ".", "--files"]).json();
    assert_eq!(done["workspace"]["written"], files);
    assert!(machine.path("project/src").is_dir());
    let session = done["session"].as_str().unwrap();
    let source = machine.run(&["export", session, "--format", "source"]).out;
    assert_eq!(source, fs::read_to_string(done["path"].as_str().unwrap()).unwrap());
    assert_eq!(machine.run(&["undo"]).exit, 0);
    assert!(!machine.path("project/src").is_dir());
}

#[test]
fn a_file_that_cannot_come_back_is_told_and_the_session_is_there() {
    let machine = Machine::new();
    // A folder blocks the path of a file.
    let planned = ["--json", "resume", "work^{turn:3}", "--cwd", ".", "--files", "--dry-run"];
    let planned = machine.run(&planned).json();
    let path = planned["workspace"]["files"][0]["path"].as_str().unwrap().to_owned();
    let folder = machine.path("project").join(&path);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("mine.txt"), "mine").unwrap();
    let done = machine.run(&["--json", "resume", "work^{turn:3}", "--cwd", ".", "--files"]).json();
    let files = done["workspace"]["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"] == path).unwrap();
    assert_eq!(file["action"], "leave", "{done}");
    assert_eq!(fs::read_to_string(folder.join("mine.txt")).unwrap(), "mine");
    assert!(Path::new(done["path"].as_str().unwrap()).is_file());
    assert!(machine.run(&["log", done["session"].as_str().unwrap()]).exit == 0);
}

#[test]
fn a_session_gets_a_directory_of_its_own_and_what_the_agent_adds_there_is_of_its_branch() {
    let machine = Machine::new();
    let words = |dir| ["--json", "resume", "work^{turn:3}", "--worktree", dir];
    let dry = machine.run(&[&words("../try-0")[..], &["--dry-run"]].concat()).json();
    assert_eq!(dry["worktree"], machine.path("try-0").to_str().unwrap());
    assert!(!machine.path("try-0").exists() && machine.files().is_empty());

    let done = machine.run(&words("../try-1")).json();
    assert_eq!(done["cwd"], machine.path("try-1").to_str().unwrap());
    assert!(machine.path("try-1/src").is_dir() && !machine.path("project/src").is_dir());
    let session = done["session"].as_str().unwrap();
    let source = machine.run(&["export", session, "--format", "source"]).out;
    assert_eq!(source, fs::read_to_string(done["path"].as_str().unwrap()).unwrap());
    let adopted = machine.run(&["--json", "adopt", done["path"].as_str().unwrap()]).json();
    assert_eq!(adopted["agents"][0]["turns"], 0, "the written session is known: {adopted}");
    let deleted = machine.run(&["branch", "--delete", &format!("{session}/main"), "--worktree"]);
    assert_eq!(deleted.exit, 0, "{}", deleted.err);
    assert!(!machine.path("try-1").exists());

    let refused = machine.run(&words("inside"));
    assert_eq!(refused.exit, 2, "{}", refused.err);
}

#[test]
fn a_broad_directory_is_refused_before_anything_is_written() {
    let machine = Machine::new();
    let home = machine.path("home");
    let refused = machine.run(&["resume", "--files", "--cwd", home.to_str().unwrap()]);
    assert_eq!(refused.exit, 2, "{}", refused.err);
    assert!(machine.files().is_empty());
    assert_eq!(machine.run(&["--json", "branch"]).json()["branches"].as_array().unwrap().len(), 1);
}

#[test]
fn the_agent_is_started_in_its_directory_after_all_is_said() {
    let machine = Machine::new();
    let programs = machine.path("programs");
    fs::create_dir(&programs).unwrap();
    fs::write(programs.join("claude"), "#!/bin/sh\necho \"started $* in $(pwd)\"\n").unwrap();
    fs::set_permissions(programs.join("claude"), fs::Permissions::from_mode(0o755)).unwrap();
    let answer = machine.run_with(&["resume", "--cwd", ".", "--run"], Some(&programs));
    assert_eq!(answer.exit, 0, "{}", answer.err);
    let (told, started) = answer.out.split_once("started --resume ").unwrap();
    assert!(told.contains("&& claude --resume "), "{told}");
    assert!(started.trim_end().ends_with(machine.path("project").to_str().unwrap()), "{started}");
}
