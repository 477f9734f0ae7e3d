//! The machines of a team: directories with a store each, in which the program runs as its users
//! run it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The directories of several machines, and their common environment.
#[derive(Debug)]
pub struct Team {
    folder: tempfile::TempDir,
    program: PathBuf,
    environment: Vec<(String, String)>,
}

impl Team {
    /// A team that runs `program` with only this environment.
    ///
    /// # Panics
    /// If its folder cannot be created.
    pub fn new<N: Into<String>, V: Into<String>>(
        program: &str,
        environment: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let environment = environment.into_iter().map(|(name, value)| (name.into(), value.into()));
        let folder = tempfile::tempdir().unwrap();
        Self { folder, program: program.into(), environment: environment.collect() }
    }

    /// A new machine with an empty store.
    ///
    /// # Panics
    /// If the machine cannot be created.
    pub fn machine(&self, name: &str) {
        fs::create_dir(self.path(name)).unwrap();
        self.ok(name, &["init"]);
    }

    /// A path below the folder of the team.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces the directory of a machine by a copy of another directory.
    ///
    /// # Panics
    /// If a file cannot be copied.
    pub fn copy(&self, from: &str, to: &str) {
        let to = self.path(to);
        if to.exists() {
            fs::remove_dir_all(&to).unwrap();
        }
        copy_folder(&self.path(from), &to);
        if to.join(".turntree").exists() {
            // Trust is by path, so a copy needs its own record. A damaged store reports its damage later.
            let _ = self.command_in(&to, &["trust"]).output();
        }
    }

    /// A command of the program on a machine.
    #[must_use]
    pub fn command(&self, machine: &str, words: &[&str]) -> Command {
        let mut command = self.command_in(&self.path(machine), words);
        command.env("TURNTREE_ACTOR", machine);
        command
    }

    fn command_in(&self, dir: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).current_dir(dir).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("HOME", self.path("home"));
        command.env("TURNTREE_MAINTENANCE", "off");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs the program to its end.
    ///
    /// # Panics
    /// If the program cannot be started.
    #[must_use]
    pub fn run(&self, machine: &str, words: &[&str]) -> Output {
        self.command(machine, words).output().unwrap()
    }

    /// Runs the program, and returns both its outputs.
    ///
    /// # Panics
    /// If it exits with another code.
    pub fn exits(&self, code: i32, machine: &str, words: &[&str]) -> (String, String) {
        let output = self.run(machine, words);
        let [said, errors] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert_eq!(output.status.code(), Some(code), "{machine}, {words:?}: {said}{errors}");
        (said, errors)
    }

    /// Runs the program, and returns its output.
    ///
    /// # Panics
    /// If the program fails.
    pub fn ok(&self, machine: &str, words: &[&str]) -> String {
        self.exits(0, machine, words).0
    }

    /// Runs the program with `--json`.
    ///
    /// # Panics
    /// If it fails, or its output is not JSON.
    #[must_use]
    pub fn json(&self, machine: &str, words: &[&str]) -> Vec<Value> {
        let said = self.ok(machine, &[words, &["--json"]].concat());
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Commits a turn.
    pub fn turn(&self, machine: &str, text: &str) {
        self.ok(machine, &["snapshot", "-m", text, "--append-message", &format!("user={text}")]);
    }

    /// The turn that a revision names.
    #[must_use]
    pub fn tip(&self, machine: &str, revision: &str) -> String {
        self.ok(machine, &["rev-parse", revision]).trim().to_owned()
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
