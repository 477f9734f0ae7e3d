//! `adopt --reclaim`: originals that the store has byte for byte go, and come back from it.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use turntree_tests::claude_code;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(machine.path(".claude/projects/-p")).unwrap();
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn transcript(&self, session: &str) -> PathBuf {
        self.path(&format!(".claude/projects/-p/{session}.jsonl"))
    }

    /// Adds text to a transcript, which is that old then.
    fn write(&self, session: &str, text: &str, days: u32) {
        let mut file = File::options().create(true).append(true).open(self.transcript(session));
        let file = file.as_mut().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let age = Duration::from_secs(24 * 60 * 60) * days;
        file.set_modified(SystemTime::now() - age).unwrap();
    }

    fn output(&self, words: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.path("")).stdin(Stdio::null()).env_clear();
        command.env("HOME", self.path("")).env("TURNTREE_ACTOR", "somebody");
        command.env("TURNTREE_MAINTENANCE", "off").env("CLAUDE_CODE_SESSION_ID", "live");
        command.output().unwrap()
    }

    fn run(&self, words: &[&str]) -> String {
        let output = self.output(words);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn originals_go_when_that_is_said_and_come_back_from_the_store() {
    let machine = Machine::new();
    let text = claude_code(9);
    let grown = claude_code(12);
    for session in ["done", "live", "fresh", "grows"] {
        machine.write(session, &text, if session == "fresh" { 6 } else { 8 });
    }
    machine.run(&["adopt"]);
    machine.write("grows", grown.strip_prefix(&text).unwrap(), 8);
    machine.write("unknown", &text, 8);

    let plan = machine.run(&["adopt", "--reclaim"]);
    for said in [
        "would remove the originals of 1 session, 7.7 KiB: the store has each byte\n",
        "nothing was done; --yes does it, and no undo brings them back",
        "1 session stays: an agent is in the session\n",
        "1 session stays: written to within the last 7d\n",
        "1 session stays: not in the store\n",
        "1 session stays: not byte for byte in the store\n",
    ] {
        assert!(plan.contains(said), "{plan}");
    }
    assert_eq!(machine.run(&["adopt", "--reclaim", "--dry-run"]), plan);
    let planned: Value =
        serde_json::from_str(&machine.run(&["adopt", "--reclaim", "--json"])).unwrap();
    assert_eq!(planned["dry_run"], true);
    assert_eq!(planned["originals"][0]["session"], "done");
    assert_eq!(planned["kept"].as_array().unwrap().len(), 4);
    assert!(machine.transcript("done").exists());

    let done = machine.run(&["adopt", "--reclaim", "--yes"]);
    assert!(done.contains("removed the originals of 1 session, 7.7 KiB"), "{done}");
    assert!(!machine.transcript("done").exists());
    for session in ["live", "fresh", "grows", "unknown"] {
        assert!(machine.transcript(session).exists(), "{session}");
    }
    assert!(machine.run(&["adopt", "--reclaim"]).contains("no original can go"));
    // What grew was adopted, so it can go now.
    machine.run(&["adopt"]);
    let second = machine.run(&["adopt", "--reclaim", "--older-than", "2h", "--yes"]);
    assert!(second.contains("removed the originals of 3 sessions"), "{second}");

    assert_eq!(machine.run(&["export", "done", "--format", "source"]), text);
    assert_eq!(machine.run(&["export", "grows", "--format", "source"]), grown);
    machine.run(&["resume", "done", "--cwd", "."]);
    assert!(machine.run(&["adopt"]).contains("nothing is new"));
    machine.run(&["fsck"]);
}

#[test]
fn what_would_be_a_mistake_is_refused() {
    let machine = Machine::new();
    machine.write("done", &claude_code(9), 8);
    assert_eq!(machine.output(&["adopt", "--reclaim", "--yes"]).status.code(), Some(6), "no store");
    machine.run(&["adopt"]);
    for words in [
        &["adopt", "--reclaim", "--older-than", "59m", "--yes"][..],
        &["adopt", "--reclaim", "--yes", "--dry-run"],
        &["adopt", "--reclaim", "--watch"],
        &["adopt", "--yes"],
        &["adopt", "--older-than", "9d"],
    ] {
        assert_eq!(machine.output(words).status.code(), Some(2), "{words:?}");
    }
    assert!(machine.transcript("done").exists());
}
