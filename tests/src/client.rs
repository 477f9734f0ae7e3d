//! A client as hooks see it: a project, a transcript, and events that run the program.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use turntree::context::FileEntry;
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::Repository;
use turntree::store::{OpenOptions, RealIo};

/// A project, a transcript of its agent, and a store next to them.
pub struct Client {
    program: &'static str,
    /// The folder of all of them.
    pub root: tempfile::TempDir,
    /// The transcript of its agent.
    pub transcript: PathBuf,
    /// The branch in the agent's environment.
    pub branch: Option<&'static str>,
    /// The name of the directory that its agent works in.
    pub place: &'static str,
}

impl Client {
    /// A client with a transcript of this name, whose hooks run `program`.
    #[must_use]
    pub fn new(program: &'static str, transcript: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("project")).unwrap();
        fs::create_dir(root.path().join("home")).unwrap();
        let transcript = root.path().join(transcript);
        Self { program, root, transcript, branch: None, place: "project" }
    }

    /// The directory that its agent works in.
    pub fn project(&self) -> PathBuf {
        self.root.path().join(self.place)
    }

    /// The store.
    pub fn store_dir(&self) -> PathBuf {
        self.root.path().join("store")
    }

    /// A command of the program in the project.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command
            .arg("--store")
            .arg(self.store_dir())
            .args(arguments)
            .current_dir(self.project())
            .env_clear()
            .env("HOME", self.root.path().join("home"))
            .envs([("TURNTREE_NOW", "2026-11-20T12:00:00Z"), ("TURNTREE_MAINTENANCE", "off")])
            .env("TURNTREE_ACTOR", "ann")
            .envs(self.branch.map(|branch| ("TURNTREE_BRANCH", branch)));
        command
    }

    /// Runs a hook with `bytes` as input.
    pub fn give(&self, flags: &[&str], bytes: &[u8]) -> Output {
        let mut command = self.command(&[&["hook"], flags].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A hook that does not read to the end closes its pipe.
        let _ = child.stdin.take().unwrap().write_all(bytes);
        child.wait_with_output().unwrap()
    }

    /// Sends an event that the hook handles without an error. Returns its output for the agent.
    pub fn event(&self, flags: &[&str], name: &str, more: Value) -> Option<Value> {
        let output = self.give(flags, self.payload(name, more).to_string().as_bytes());
        assert_eq!(output.status.code(), Some(0));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(self.log(), "", "{name}");
        (!output.stdout.is_empty()).then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    /// An event as the client sends it.
    pub fn payload(&self, name: &str, more: Value) -> Value {
        let mut event = json!({"session_id": "s-1", "transcript_path": self.transcript,
            "cwd": self.project(), "hook_event_name": name});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    }

    /// The log of the hooks.
    pub fn log(&self) -> String {
        fs::read_to_string(self.store_dir().join("hook.log")).unwrap_or_default()
    }

    /// Writes a file of the project.
    pub fn write(&self, name: &str, content: &str) {
        fs::write(self.project().join(name), content).unwrap();
    }

    /// The store, opened.
    pub fn repo(&self) -> Repository {
        let options = OpenOptions::new([9; 16]);
        Repository::open(Arc::new(RealIo), &self.store_dir(), options).unwrap()
    }

    /// The commits of the only branch, oldest first.
    pub fn commits(&self) -> Vec<ObjectId> {
        let repo = self.repo();
        let branches = repo.branches();
        assert_eq!(branches.len(), 1, "{branches:?}");
        line(&repo, &branches[0].1)
    }

    /// The files of the newest commit, with their content.
    pub fn files(&self) -> BTreeMap<String, String> {
        files(&self.repo(), self.commits().last().unwrap())
    }
}

/// The commits from the first to `head`.
#[must_use]
pub fn line(repo: &Repository, head: &ObjectId) -> Vec<ObjectId> {
    let history = repo.history(&[*head], &[]).unwrap().first_parent();
    let mut commits: Vec<ObjectId> = history.map(|entry| entry.unwrap().id).collect();
    commits.reverse();
    commits
}

/// The files of a commit, with their content.
#[must_use]
pub fn files(repo: &Repository, commit: &ObjectId) -> BTreeMap<String, String> {
    let context = repo.context(commit).unwrap();
    let map = context.map(repo, "files").unwrap();
    map.iter(repo)
        .map(|entry| {
            let (key, item) = entry.unwrap();
            let file = FileEntry::from_item(&item).unwrap();
            let content = repo.read_as(Kind::Blob, &file.blob).unwrap();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            (text(&key), text(&content))
        })
        .collect()
}

/// Waits for background work, such as the work that a hook leaves to a background process.
///
/// # Panics
/// If it is not done after two minutes.
pub fn until(mut is_done: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !is_done() {
        assert!(begin.elapsed().as_secs() < 120, "it never happened");
        std::thread::yield_now();
    }
}
