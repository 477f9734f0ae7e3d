//! `adopt --watch`, `adopt install` and `adopt uninstall`, by real processes.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use serde_json::Value;
use turntree_tests::claude_code;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// The timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(100);

struct Machine {
    folder: tempfile::TempDir,
}

/// A watch process, which is killed at the end of the test.
struct Watch {
    child: Child,
    /// The output, line by line.
    said: Receiver<String>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Watch {
    fn next(&self) -> String {
        self.said.recv_timeout(PATIENCE).expect("the watch says something")
    }
}

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(machine.path("bin")).unwrap();
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.path("")).stdin(Stdio::null()).env_clear();
        command.env("HOME", self.path("")).env("TURNTREE_ACTOR", "ann");
        command.env("TURNTREE_MAINTENANCE", "off").env("PATH", self.path("bin"));
        command
    }

    fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn run(&self, words: &[&str]) -> String {
        let output = self.output(words);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn watch(&self) -> Watch {
        let mut command = self.command(&["adopt", "--watch"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let (say, said) = sync_channel(0);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|it| say.send(it)));
        let watch = Watch { child, said };
        assert!(watch.next().starts_with("watching; what agents write goes into"));
        watch
    }

    /// Adds text to a transcript of an agent.
    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// The number of turns of a session.
    fn turns(&self, session: &str) -> Option<u64> {
        // The store does not exist at first.
        let listed = self.output(&["branch", "--json"]).stdout;
        let listed: Value = serde_json::from_slice(&listed).unwrap_or_default();
        let mut branches = listed["branches"].as_array()?.iter();
        branches.find(|it| it["session"] == session && it["branch"] == "main")?["turn"].as_u64()
    }

    /// Reads the output of the watch until a session has this many turns.
    fn await_turns(&self, watch: &Watch, session: &str, turns: u64) {
        while self.turns(session) != Some(turns) {
            let said = watch.next();
            assert!(said.contains(" turn"), "{said}");
        }
    }
}

#[test]
fn what_an_agent_writes_comes_in_while_it_is_written_until_a_signal() {
    let machine = Machine::new();
    let text = claude_code(12);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let project = ".claude/projects/-p";
    machine.write(&format!("{project}/s1.jsonl"), &lines[..5].concat());
    let mut watch = machine.watch();
    // A transcript from before the watch, a partial record, and its rest.
    machine.await_turns(&watch, "s1", 3);
    let (half, rest) = lines[5].split_at(40);
    machine.write(&format!("{project}/s1.jsonl"), half);
    machine.write(".claude/projects/-other/s2.jsonl", &text);
    machine.await_turns(&watch, "s2", 12);
    machine.write(&format!("{project}/s1.jsonl"), &[&[rest], &lines[6..]].concat().concat());
    machine.await_turns(&watch, "s1", 12);
    // A directory that did not exist before.
    machine.write(".pi/agent/sessions/p/s3.jsonl", &text.replace("s-1", "s-3"));
    machine.await_turns(&watch, "s3", 12);
    assert_eq!(machine.run(&["export", "s1", "--format", "source"]), text);

    let second = machine.output(&["adopt", "--watch"]);
    assert_eq!(second.status.code(), Some(5));
    let undo = machine.output(&["undo", "--dry-run"]);
    assert_eq!(undo.status.code(), Some(6), "none of these imports is the person's");

    let id = watch.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(watch.child.wait().unwrap().signal(), Some(15));
    machine.run(&["fsck"]);
    assert!(machine.run(&["adopt"]).contains("nothing is new"));
}

#[cfg(not(target_os = "macos"))]
#[test]
fn the_unit_of_the_system_is_planned_written_started_and_removed() {
    let machine = Machine::new();
    let unit = machine.path(".config/systemd/user/turntree-adopt.service");
    let called = machine.path("called");
    let tool = machine.path("bin/systemctl");
    fs::write(&tool, format!("#!/bin/sh\necho \"$@\" >> '{}'\n", called.display())).unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o700)).unwrap();

    let plan = machine.run(&["adopt", "install", "--dry-run"]);
    assert!(plan.contains("adopt\" \"--watch\"") && plan.contains("systemctl --user enable"));
    assert!(!unit.exists());
    let mut install = machine.command(&["--store", "kept", "adopt", "install", "--start"]);
    install.env("CODEX_HOME", machine.path("my codex"));
    assert!(install.output().unwrap().status.success());
    let text = fs::read_to_string(&unit).unwrap();
    let store = machine.path("kept");
    assert!(text.contains(&format!("\"--store\" \"{}\" \"adopt\"", store.display())), "{text}");
    assert!(
        text.contains(&format!("Environment=\"CODEX_HOME={}", machine.path("my codex").display()))
    );
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let started = fs::read_to_string(&called).unwrap();
    assert_eq!(
        lines(&started),
        [
            "--user daemon-reload",
            "--user enable turntree-adopt.service",
            "--user restart turntree-adopt.service"
        ]
    );
    machine.run(&["adopt", "install"]);
    assert!(machine.run(&["adopt", "install"]).contains("is up to date"));
    assert_eq!(fs::read_to_string(&called).unwrap(), started, "only when asked");

    machine.run(&["adopt", "uninstall", "--stop"]);
    assert!(!unit.exists());
    assert!(fs::read_to_string(&called).unwrap().contains("--user disable turntree-adopt.service"));
    assert!(machine.run(&["adopt", "uninstall"]).contains("is not there"));

    // A unit file of another origin.
    fs::write(&unit, "[Service]\nExecStart=/bin/mine\n").unwrap();
    for words in [["adopt", "install"], ["adopt", "uninstall"]] {
        let refused = machine.output(&words);
        assert_eq!(refused.status.code(), Some(2));
    }
    assert_eq!(fs::read_to_string(&unit).unwrap(), "[Service]\nExecStart=/bin/mine\n");
}
