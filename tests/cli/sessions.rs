//! Lists of sessions: their names, those of a directory, and live ones.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use turntree_tests::claude_code;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// Projects with a session each, and one store for all.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for dir in ["home", "lexer/src", "修复解析器", "other"] {
            fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        let machine = Self { root };
        for (number, project) in ["lexer", "修复解析器"].into_iter().enumerate() {
            let file = machine.dir("home").join(format!("s-{number}.jsonl"));
            let dir = machine.dir(project);
            let text = claude_code(3 + number).replace("/project", &dir.display().to_string());
            fs::write(&file, text).unwrap();
        }
        machine.run("home", &["adopt", "."]);
        machine
    }

    fn dir(&self, dir: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(dir)
    }

    fn output_at(&self, dir: &str, words: &[&str], now: &str, columns: &str) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.dir(dir)).env_clear();
        command.env("HOME", self.dir("home")).env("TURNTREE_STORE", self.dir("home/store"));
        command.envs([("TURNTREE_NOW", now), ("TURNTREE_MAINTENANCE", "off")]);
        command.env("TURNTREE_ACTOR", "ann").env("COLUMNS", columns);
        command.output().unwrap()
    }

    fn run(&self, dir: &str, words: &[&str]) -> String {
        let output = self.output_at(dir, words, "2026-11-20T12:00:00Z", "80");
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn sessions(&self, dir: &str, words: &[&str]) -> Vec<Value> {
        let words: Vec<&str> = ["sessions", "--json"].iter().chain(words).copied().collect();
        let record: Value = serde_json::from_str(&self.run(dir, &words)).unwrap();
        record["sessions"].as_array().unwrap().clone()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_list_is_of_this_place_when_that_is_asked_for() {
    let machine = Machine::new();
    assert_eq!(machine.sessions("other", &[]).len(), 2);
    assert_eq!(machine.sessions("other", &["--here"]).len(), 0);
    for dir in ["lexer", "lexer/src"] {
        let here = machine.sessions(dir, &["--here"]);
        assert_eq!(here.len(), 1);
        assert_eq!(here[0]["session"], "s-0");
        assert_eq!(here[0]["project"], "lexer");
    }
    for (agent, found) in [("codex", 0), ("claude-code", 2), ("claude", 2), ("claude-co", 0)] {
        assert_eq!(machine.sessions("other", &["--agent", agent]).len(), found, "{agent}");
    }
    assert_eq!(machine.sessions("other", &["--since", "2026-11-20T11:00:00Z"]).len(), 0);
}

#[test]
fn a_bare_call_where_no_session_is_of_the_place_lists_them() {
    let machine = Machine::new();
    let shown = machine.run("other", &[]);
    assert!(shown.contains("s-0") && shown.contains("s-1") && shown.contains("title"), "{shown}");
    let bare: Value = serde_json::from_str(&machine.run("other", &["--json"])).unwrap();
    assert_eq!(bare["sessions"].as_array().unwrap().len(), 2);
}

#[test]
fn a_list_has_as_many_rows_as_wanted_and_a_log_its_ages_at_the_right_edge() {
    let machine = Machine::new();
    assert_eq!(machine.sessions("other", &["-n", "1"]).len(), 1);
    let listed = machine.run("other", &["sessions", "-n", "1"]);
    assert!(listed.contains("1 older: --all shows all of them"), "{listed}");
    let log = machine.run("other", &["log", "s-1"]);
    assert!(log.lines().count() >= 4, "{log}");
    for line in log.lines() {
        assert_eq!(line.chars().count(), 80, "{log}");
    }
}

#[test]
fn wide_characters_keep_the_columns_straight_and_nothing_wraps() {
    let machine = Machine::new();
    let title = "修复解析器 with a long title that goes on and on and on, further than a screen";
    machine.run("other", &["session", "rename", "s-1", title]);
    machine.run("other", &["session", "label", "s-1", "draft"]);
    for columns in ["60", "80", "100"] {
        let now = "2026-11-20T12:00:00Z";
        for words in [&["sessions"][..], &["branch"], &["session", "show", "s-1"]] {
            let output = machine.output_at("other", words, now, columns);
            for line in text(&output.stdout).lines() {
                let wide: usize = line.chars().map(|c| if c as u32 > 0x2e80 { 2 } else { 1 }).sum();
                assert!(wide <= columns.parse().unwrap(), "{columns}: {line}");
            }
        }
    }
}

/// A client with hooks, beside the sessions of a machine.
struct Hooked {
    machine: Machine,
    dir: PathBuf,
}

impl Hooked {
    fn new() -> Self {
        let machine = Machine::new();
        let dir = machine.dir("lexer");
        let client = Self { machine, dir };
        client.write(4);
        client
    }

    /// Writes the transcript, with this number of turns.
    fn write(&self, turns: usize) {
        let transcript = claude_code(turns).replace("/project", &self.dir.display().to_string());
        fs::write(self.machine.dir("home").join("s-live.jsonl"), transcript).unwrap();
    }

    fn feed(&self, words: &[&str], now: &str, input: &str) {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(&self.dir).env_clear();
        command.env("HOME", self.machine.dir("home"));
        command.env("TURNTREE_STORE", self.machine.dir("home/store"));
        command.envs([("TURNTREE_NOW", now), ("TURNTREE_MAINTENANCE", "off")]);
        let stdin = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut &stdin, input.as_bytes()).unwrap();
        std::io::Seek::rewind(&mut &stdin).unwrap();
        assert!(command.stdin(stdin).output().unwrap().status.success());
    }

    fn hook(&self, event: &str, now: &str) {
        let record = serde_json::json!({
            "hook_event_name": event, "session_id": "s-live", "cwd": self.dir,
            "transcript_path": self.machine.dir("home").join("s-live.jsonl"),
            "prompt": "x", "source": "startup", "reason": "exit",
        });
        self.feed(&["hook", "--workspace", "off"], now, &record.to_string());
    }

    fn live(&self, now: &str) -> Vec<String> {
        let output = self.machine.output_at("other", &["sessions", "--json"], now, "80");
        let record: Value = serde_json::from_slice(&output.stdout).unwrap();
        let sessions = record["sessions"].as_array().unwrap().clone();
        let live = sessions.into_iter().filter(|session| session["live"] == true);
        live.map(|session| session["session"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn a_session_is_live_while_a_hook_puts_turns_in_and_until_its_end() {
    let client = Hooked::new();
    assert_eq!(client.live("2026-11-20T12:00:00Z"), [""; 0]);
    client.hook("UserPromptSubmit", "2026-11-20T12:00:00Z");
    assert_eq!(client.live("2026-11-20T12:05:00Z"), ["s-live"]);
    assert_eq!(client.live("2026-11-20T12:11:00Z"), [""; 0]);
    client.hook("SessionEnd", "2026-11-20T12:06:00Z");
    assert_eq!(client.live("2026-11-20T12:07:00Z"), [""; 0]);
}

#[test]
fn a_session_is_live_behind_many_operations_of_others() {
    let client = Hooked::new();
    client.hook("UserPromptSubmit", "2026-11-20T12:00:00Z");
    let snapshot = |number: usize| {
        let params = serde_json::json!({"message": number.to_string(), "session": "other"});
        let call = serde_json::json!({
            "jsonrpc": "2.0", "id": number, "method": "snapshot", "params": params,
        });
        format!("{call}\n")
    };
    let many: String = (0..300).map(snapshot).collect();
    client.feed(&["serve", "--stdio"], "2026-11-20T12:01:00Z", &many);
    // The first list reads the operations and writes a note, which later lists read.
    for second in 0..3 {
        assert_eq!(client.live(&format!("2026-11-20T12:05:0{second}Z")), ["s-live"]);
    }
    client.feed(&["serve", "--stdio"], "2026-11-20T12:06:00Z", &snapshot(300));
    assert_eq!(client.live("2026-11-20T12:06:00Z"), ["s-live"]);
    client.hook("SessionEnd", "2026-11-20T12:07:00Z");
    assert_eq!(client.live("2026-11-20T12:07:00Z"), [""; 0]);
    client.write(5);
    client.hook("UserPromptSubmit", "2026-11-20T12:08:00Z");
    assert_eq!(client.live("2026-11-20T12:09:00Z"), ["s-live"]);
    assert_eq!(client.live("2026-11-20T12:19:00Z"), [""; 0]);
}

#[test]
fn titles_stand_beside_names_that_the_shell_completes() {
    let machine = Machine::new();
    machine.run("other", &["session", "rename", "s-0", "the lexer"]);
    let mut command = Command::new(PROGRAM);
    command.args(["--", "turntree", "switch", "s-"]).current_dir(machine.dir("other")).env_clear();
    command.env("HOME", machine.dir("home")).env("TURNTREE_STORE", machine.dir("home/store"));
    command.envs([("COMPLETE", "fish"), ("TURNTREE_NOW", "2026-11-20T12:00:00Z")]);
    let shown = text(&command.output().unwrap().stdout);
    assert!(shown.contains("s-0/main\tthe lexer"), "{shown}");
}

#[test]
fn the_shell_gets_the_newest_names_that_begin_with_what_was_typed() {
    let machine = Machine::new();
    for number in 0..210 {
        let (name, now) = (
            format!("t-{number:03}"),
            format!("2026-11-21T12:{:02}:{:02}Z", number / 60, number % 60),
        );
        let words = ["snapshot", "-m", "x", "--session", &name];
        assert!(machine.output_at("other", &words, &now, "80").status.success());
    }
    let complete = |words: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["--", "turntree"]).args(words).current_dir(machine.dir("other")).env_clear();
        command.env("HOME", machine.dir("home")).env("TURNTREE_STORE", machine.dir("home/store"));
        command.envs([("COMPLETE", "fish"), ("TURNTREE_NOW", "2026-11-22T12:00:00Z")]);
        text(&command.output().unwrap().stdout)
    };
    let names = |words: &[&str]| {
        let shown = complete(words);
        shown.lines().filter(|line| !line.starts_with('-')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(names(&["log", "--session", "t-20"]).len(), 10);
    assert_eq!(names(&["log", "--session", "s-"]).len(), 2);
    let all = names(&["log", "--session", "t-"]);
    assert_eq!(all.len(), 200);
    assert!(!all.contains(&"t-009".to_owned()) && all.contains(&"t-209".to_owned()));
    assert!(complete(&["switch", "t-20"]).contains("t-209/main"));
    assert!(complete(&["switch", "s-"]).contains("s-0/main"));
}

#[test]
fn hits_of_all_sessions_stand_under_the_session_and_say_when() {
    let machine = Machine::new();
    machine.run("other", &["session", "rename", "s-0", "the lexer"]);
    let shown = machine.run("lexer", &["grep", "--all", "part 0"]);
    assert!(shown.lines().any(|line| line == "s-0 (lexer)  the lexer"), "{shown}");
    assert!(shown.contains("s-0/main turn 1 20"), "{shown}");
    let hits = machine.run("lexer", &["grep", "--all", "part 0", "--json"]);
    let hit: Value = serde_json::from_str(hits.lines().next().unwrap()).unwrap();
    assert_eq!((&hit["project"], &hit["title"]), (&"lexer".into(), &"the lexer".into()));
    assert!(hit["time"].as_str().unwrap().starts_with("20"));
}
