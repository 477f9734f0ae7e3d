//! Adoptions of many sessions by real processes: interrupted, concurrent, and undone.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use turntree_tests::claude_code;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

const SESSIONS: usize = 24;
const TURNS: usize = 20;

/// A machine with sessions, and a project with a store.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        let sessions = machine.path("home/.claude/projects/-p");
        for folder in [&sessions, &machine.path("project")] {
            fs::create_dir_all(folder).unwrap();
        }
        for number in 0..SESSIONS {
            let text = claude_code(TURNS).replace("parser", &format!("part-{number}"));
            fs::write(sessions.join(format!("s{number}.jsonl")), text).unwrap();
        }
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.path("project")).stdin(Stdio::null());
        command.env_remove("TURNTREE_STORE").env_remove("XDG_DATA_HOME");
        command.env("HOME", self.path("home")).env("TURNTREE_ACTOR", "ann");
        command.env("TURNTREE_MAINTENANCE", "off");
        command
    }

    fn run(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", errors(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command on the user's store.
    fn of_user(&self, words: &[&str]) -> String {
        let store = self.path("home/.local/share/turntree/store");
        self.run(&[&["--store", store.to_str().unwrap()], words].concat())
    }

    /// The number of turns of each session.
    fn turns(&self) -> Vec<u64> {
        let listed = self.of_user(&["branch", "--json"]);
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let branches = listed["branches"].as_array().unwrap().iter();
        branches.map(|it| it["turn"].as_u64().unwrap()).collect()
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn sessions_of_the_machine_go_to_the_user_and_not_into_the_project() {
    let machine = Machine::new();
    machine.run(&["init"]);
    let store = machine.path("home/.local/share/turntree/store");
    let into = format!("into {}", store.display());
    assert!(machine.run(&["adopt", "--dry-run"]).contains(&into));
    assert!(machine.run(&["adopt"]).contains(&into));
    assert_eq!(machine.run(&["branch", "--json"]).trim(), r#"{"branches":[]}"#);
    assert_eq!(machine.turns(), [TURNS as u64; SESSIONS]);
    // `--store` sets the store of an adoption. Without it, a named transcript goes to the store
    // that the command finds.
    let other = machine.path("other");
    machine.run(&["--store", other.to_str().unwrap(), "adopt"]);
    let named = machine.path("home/.claude/projects/-p/s1.jsonl");
    assert!(machine.run(&["adopt", named.to_str().unwrap()]).contains("project/.turntree"));

    let undone = machine.of_user(&["undo"]);
    let said = format!("undo {SESSIONS}: adopt {SESSIONS} sessions, operations 1 to {SESSIONS}");
    assert!(undone.starts_with(&said), "{undone}");
    assert_eq!(machine.turns().len(), 0);
    machine.of_user(&["redo"]);
    assert_eq!(machine.turns(), [TURNS as u64; SESSIONS]);
    assert_eq!(machine.of_user(&["op", "log"]).lines().count(), 3);
}

#[test]
fn one_that_is_killed_leaves_whole_sessions_and_is_taken_back_as_far_as_it_came() {
    let machine = Machine::new();
    let mut child = machine.command(&["adopt"]).stdout(Stdio::null()).spawn().unwrap();
    let store = machine.path("home/.local/share/turntree/store");
    let is_begun = || {
        let mut look =
            machine.command(&["--store", store.to_str().unwrap(), "op", "log", "--json"]);
        look.output()
            .is_ok_and(|output| output.stdout.iter().filter(|byte| **byte == b'\n').count() >= 2)
    };
    while child.try_wait().unwrap().is_none() && !is_begun() {}
    child.kill().unwrap();
    child.wait().unwrap();
    let turns = machine.turns();
    assert!(turns.len() >= 2 && turns.iter().all(|turns| *turns == TURNS as u64), "{turns:?}");
    machine.of_user(&["fsck"]);
    machine.of_user(&["undo"]);
    assert_eq!(machine.turns().len(), 0);
    machine.run(&["adopt"]);
    assert_eq!(machine.turns(), [TURNS as u64; SESSIONS]);
}

#[test]
fn two_at_once_are_taken_back_one_after_the_other() {
    let machine = Machine::new();
    let start = || machine.command(&["adopt"]).stdout(Stdio::null()).spawn().unwrap();
    for mut child in [start(), start()] {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(machine.turns(), [TURNS as u64; SESSIONS]);
    // Each adopted some of them, or the faster one adopted all.
    let lines = machine.of_user(&["op", "log"]).lines().count();
    assert!(matches!(lines, 1 | 2), "{lines}");
    for _ in 0..lines {
        machine.of_user(&["undo"]);
    }
    assert_eq!(machine.turns().len(), 0);
    machine.of_user(&["fsck"]);
}

#[test]
fn what_an_agent_deletes_within_days_is_told_and_whether_it_is_here() {
    let machine = Machine::new();
    let day = Duration::from_secs(24 * 60 * 60);
    let age = |session: usize, days: u32| {
        let path = machine.path(&format!("home/.claude/projects/-p/s{session}.jsonl"));
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - day * days).unwrap();
    };
    age(0, 20);
    age(1, 25);
    age(2, 40);
    let here = machine.path("home/.claude/projects/-p/s1.jsonl");
    let store = machine.path("home/.local/share/turntree/store");
    machine.of_user(&["init"]);
    let said = "claude-code deletes 2 sessions within 7d, as it keeps them for 30d";
    // Retry: a file that changed just now is read again, since it could change once more with the
    // same timestamp.
    let is_told = (0..100).any(|_| {
        machine.run(&["--store", store.to_str().unwrap(), "adopt", here.to_str().unwrap()]);
        let plan = machine.run(&["adopt", "--dry-run"]);
        plan.contains(&format!("{said}: 1 was not compared with the store\n"))
    });
    assert!(is_told);
    assert!(machine.run(&["adopt"]).contains(&format!("{said}: all are in the store\n")));
    // Named transcripts are not checked against an agent's cleanup.
    let named = machine.run(&["adopt", here.to_str().unwrap(), "--json"]);
    assert!(named.contains(r#""sweep":null"#), "{named}");

    let settings = machine.path("home/.claude/settings.json");
    fs::write(&settings, r#"{"cleanupPeriodDays": 21}"#).unwrap();
    let told = machine.run(&["adopt", "--json"]);
    let sweep =
        r#""sweep":{"after_seconds":1814400,"within_seconds":604800,"sessions":3,"missing":0}"#;
    assert!(told.contains(sweep), "{told}");
    fs::write(&settings, r#"{"cleanupPeriodDays": 9999}"#).unwrap();
    assert!(!machine.run(&["adopt"]).contains("deletes"));
}

#[test]
fn records_of_unknown_kinds_are_counted_once_for_an_adoption() {
    let machine = Machine::new();
    for number in 0..3 {
        let path = machine.path(&format!("home/.claude/projects/-p/s{number}.jsonl"));
        let text = fs::read_to_string(&path).unwrap() + "{\"type\":\"of-next-year\"}\n";
        fs::write(&path, text).unwrap();
    }
    let output = machine.command(&["adopt", "--json"]).output().unwrap();
    let sentence = "claude-code: 3 records of kind of-next-year (3) are not read; they are kept";
    let told = errors(&output);
    assert_eq!(told.matches("of-next-year").count(), 1, "{told}");
    assert!(told.contains(sentence), "{told}");
    let adoption: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(adoption["agents"][0]["unread"]["of-next-year"], 3);
}

#[test]
fn sessions_that_their_agent_deleted_are_named_and_listed() {
    let machine = Machine::new();
    assert!(!machine.run(&["adopt"]).contains("no longer has"));
    let sessions = machine.path("home/.claude/projects/-p");
    for name in ["s3.jsonl", "s11.jsonl"] {
        fs::remove_file(sessions.join(name)).unwrap();
    }
    for _ in 0..2 {
        let said = machine.run(&["adopt"]);
        let expected = "claude-code no longer has 2 sessions, all are in the store: s11, s3;";
        assert!(said.contains(expected), "{said}");
    }
    let adopted: serde_json::Value =
        serde_json::from_str(&machine.run(&["adopt", "--json"])).unwrap();
    assert_eq!(adopted["agents"][0]["gone"], 2);
    let listed = machine.of_user(&["sessions", "--gone", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let names = listed["sessions"].as_array().unwrap().iter();
    let mut names: Vec<&str> = names.map(|it| it["session"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["s11", "s3"]);

    // A session that reappears, or that is forgotten, does not count as removed.
    fs::write(sessions.join("s3.jsonl"), claude_code(TURNS).replace("parser", "part-3")).unwrap();
    machine.of_user(&["session", "forget", "s11", "--yes"]);
    assert!(!machine.run(&["adopt"]).contains("no longer has"));
    // An agent of which nothing is left is named, too.
    fs::remove_dir_all(&sessions).unwrap();
    let said = machine.run(&["adopt"]);
    assert!(said.contains("claude-code no longer has 23 sessions"), "{said}");
}
