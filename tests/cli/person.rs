//! A person at a machine with agents, whose commands are counted.

use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::json;
use turntree_tests::claude_code;
use turntree_tests::client::until;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// A user with a home and a project, whose commands are counted.
pub(super) struct Person {
    root: tempfile::TempDir,
    pub(super) commands: Cell<u64>,
}

impl Person {
    pub(super) fn new() -> Self {
        let person = Self { root: tempfile::tempdir().unwrap(), commands: Cell::new(0) };
        for dir in ["home", "project"] {
            fs::create_dir(person.path(dir)).unwrap();
        }
        person
    }

    /// A user with adopted sessions of Claude Code in three projects.
    pub(super) fn with_sessions() -> Self {
        let person = Self::new();
        for (project, turns) in [("lexer", 9), ("parser", 45), ("server", 13)] {
            person.keep_session(project, &claude_code(turns));
        }
        person.prepare(&["adopt"]);
        person
    }

    /// Writes a transcript where Claude Code keeps those of a project.
    pub(super) fn keep_session(&self, project: &str, text: &str) -> PathBuf {
        let dir = self.path(project);
        fs::create_dir_all(&dir).unwrap();
        let text = text.replace("/project", dir.to_str().unwrap()).replace("parser", project);
        let text = text.replace("s-1", &format!("s-{project}"));
        let folder = self.path("home/.claude/projects").join(project);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("s-{project}.jsonl"));
        fs::write(&path, text).unwrap();
        path
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    pub(super) fn command(&self, dir: &str, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.path(dir)).env_clear();
        command.env("HOME", self.path("home")).env("PATH", std::env::var_os("PATH").unwrap());
        command.envs([("TURNTREE_NOW", "2026-11-20T12:00:00Z"), ("TURNTREE_MAINTENANCE", "off")]);
        // A busy machine must not leave a hook's work to a later process.
        command.env("TURNTREE_HOOK_PATIENCE", "100s");
        command.env("TURNTREE_ACTOR", "ann").stdin(Stdio::null());
        command
    }

    pub(super) fn ran(&self, dir: &str, words: &[&str]) -> String {
        let output = self.command(dir, words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until a revision has a file: a hook leaves slow work to a background process.
    pub(super) fn waits_for(&self, file: &str, text: &str) {
        until(|| {
            self.command("project", &["cat", file]).output().unwrap().stdout == text.as_bytes()
        });
    }

    /// Runs a command from before the workflow.
    pub(super) fn prepare(&self, words: &[&str]) -> String {
        self.ran("project", words)
    }

    /// Runs a command of the workflow.
    pub(super) fn does(&self, dir: &str, words: &[&str]) -> String {
        self.commands.set(self.commands.get() + 1);
        self.ran(dir, words)
    }

    pub(super) fn did(&self, commands: u64) {
        assert_eq!(self.commands.get(), commands, "as many commands as it takes");
    }

    /// An agent in `dir` writes `text` to its transcript and sends the event to a hook.
    pub(super) fn agent(&self, dir: &str, session: &str, event: &str, text: &str) {
        let transcript = self.path("home").join(format!("{session}.jsonl"));
        fs::write(&transcript, text).unwrap();
        let event = json!({"hook_event_name": event, "session_id": session,
                           "cwd": self.path(dir), "transcript_path": transcript});
        let mut command = self.command(dir, &["hook"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(event.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty());
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|_| format!("no {name}"))
    }
}

/// The first lines of a transcript of an agent in `dir`.
pub(super) fn transcript(dir: &std::path::Path, turns: usize) -> String {
    claude_code(turns).replace("/project", dir.to_str().unwrap())
}

/// The directory and the transcript of a session that `resume` has written, from its last line.
pub(super) fn laid_out(person: &Person, said: &str) -> (String, String) {
    let last = said.lines().last().unwrap();
    let (dir, id) = last.split_once(" && claude --resume ").unwrap();
    let dir = dir.strip_prefix("cd ").unwrap().to_owned();
    let mut folders: Vec<PathBuf> = vec![person.path("home/.claude/projects")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with(format!("{id}.jsonl")) {
                return (dir, fs::read_to_string(path).unwrap());
            }
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    panic!("{said}")
}
