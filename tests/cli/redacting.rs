//! Redactions that last: transcripts outside the store are listed and rewritten, and do not restore
//! the secret.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use turntree_tests::claude_code;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

const SECRET: &str = "sk-\"quoted\"-1234";

/// A machine on which three agents were given a secret.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        let told = format!("the key is {SECRET}");
        let at = "2026-11-20T10:00:00.000Z";
        let claude = json!({"type": "user", "uuid": "u-99", "sessionId": "s-1", "timestamp": at,
                            "message": {"role": "user", "content": told}});
        let say = json!({"type": "message", "role": "user",
                         "content": [{"type": "input_text", "text": told}]});
        let codex = [
            json!({"timestamp": at, "type": "session_meta", "payload": {"id": "r-1", "cwd": "/p"}}),
            json!({"timestamp": at, "type": "response_item", "payload": say}),
        ];
        let pi = [
            json!({"type": "session", "version": 3, "id": "p-1", "timestamp": at, "cwd": "/p"}),
            json!({"type": "message", "id": "m-1", "parentId": null, "timestamp": at,
                   "message": {"role": "user", "content": [{"type": "text", "text": told}]}}),
        ];
        let lines =
            |lines: &[Value]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        machine.write(CLAUDE, &(claude_code(5) + &lines(&[claude])));
        machine.write(CODEX, &lines(&codex));
        machine.write(PI, &lines(&pi));
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("home").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env_clear().env("HOME", self.folder.path().join("home"));
        command.env("TURNTREE_ACTOR", "ann").env("TURNTREE_MAINTENANCE", "off");
        command.output().unwrap()
    }

    fn text(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn adopted_turns(&self) -> u64 {
        let report: Value = serde_json::from_str(&self.text(&["adopt", "--json"])).unwrap();
        assert_eq!(report["failures"], json!([]));
        report["agents"].as_array().unwrap().iter().map(|it| it["turns"].as_u64().unwrap()).sum()
    }
}

const CLAUDE: &str = ".claude/projects/-p/s.jsonl";
const CODEX: &str = ".codex/sessions/2026/11/20/rollout-r-1.jsonl";
const PI: &str = ".pi/agent/sessions/p/p-1.jsonl";

#[test]
fn transcripts_that_hold_it_are_named_and_bring_nothing_back() {
    let machine = Machine::new();
    assert!(machine.adopted_turns() > 2);
    let plan = machine.text(&["redact", SECRET, "--dry-run"]);
    for name in [CLAUDE, CODEX, PI] {
        let line = format!("leave {}: 1 match", machine.path(name).display());
        assert!(plan.lines().any(|it| it == line), "{plan}");
    }
    let done: Value =
        serde_json::from_str(&machine.text(&["redact", SECRET, "--yes", "--json"])).unwrap();
    let sources = done["sources"].as_array().unwrap();
    assert_eq!(sources.len(), 3);
    assert!(sources.iter().all(|it| it["matches"] == 1 && it["redacted"] == false));
    assert_eq!(machine.adopted_turns(), 0);
    assert_eq!(machine.run(&["grep", "--all", "quoted"]).status.code(), Some(1));
}

#[test]
fn sources_are_written_anew_and_read_as_before() {
    let machine = Machine::new();
    let turns = machine.adopted_turns();
    let plan = machine.text(&["redact", SECRET, "--sources", "--dry-run"]);
    assert!(plan.contains(": 1 match, and no copy is kept"), "{plan}");
    let before = fs::metadata(machine.path(PI)).unwrap().modified().unwrap();
    let said = machine.text(&["redact", SECRET, "--sources", "--yes"]);
    for name in [CLAUDE, CODEX, PI] {
        let path = machine.path(name);
        let line = format!("rewrote {}: 1 match, now none", path.display());
        assert!(said.lines().any(|it| it == line), "{said}");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("the key is [redacted]") && !text.contains("quoted"));
        assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let folder = fs::read_dir(path.parent().unwrap()).unwrap();
        assert_eq!(folder.count(), 1, "no copy is kept");
    }
    assert_eq!(fs::metadata(machine.path(PI)).unwrap().modified().unwrap(), before);
    assert_eq!(machine.adopted_turns(), 0, "it equals the stored content");
    // A new store adopts the rewritten files.
    let other = machine.path("other");
    let into = ["--store", other.to_str().unwrap(), "adopt", "--json"];
    let report: Value = serde_json::from_str(&machine.text(&into)).unwrap();
    let all = report["agents"].as_array().unwrap().iter();
    assert_eq!(all.map(|it| it["turns"].as_u64().unwrap()).sum::<u64>(), turns);
    // The cache of adopted files has no entry for a file that changed a moment ago, so the exit
    // code may vary.
    let again = machine.run(&["redact", SECRET, "--sources", "--dry-run", "--json"]);
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&again["matches"], &again["sources"]), (&json!(0), &json!([])));
}

#[test]
fn what_cannot_be_written_anew_stays_and_is_told() {
    let machine = Machine::new();
    machine.adopted_turns();
    // A number that would become invalid, a file open for writing, and a file with two names.
    machine.write(".claude/projects/-p/n.jsonl", "{\"number\": 987654321}\n");
    let open = fs::OpenOptions::new().append(true).open(machine.path(CODEX)).unwrap();
    fs::hard_link(machine.path(PI), machine.path("kept")).unwrap();
    let regex = "987654321|sk-..quoted..-1234";
    let output = machine.run(&["redact", "--regex", regex, "--sources", "--yes"]);
    assert_eq!(output.status.code(), Some(1), "some of it is left");
    let said = String::from_utf8(output.stdout).unwrap();
    for reason in ["not be valid JSON", "has it open for writing", "another hard link"] {
        assert!(said.contains(reason), "{reason}: {said}");
    }
    assert!(!fs::read_to_string(machine.path(CLAUDE)).unwrap().contains("quoted"));
    assert!(fs::read_to_string(machine.path(CODEX)).unwrap().contains("quoted"));
    drop(open);
    fs::remove_file(machine.path("kept")).unwrap();
    machine.write(".claude/projects/-p/n.jsonl", "{}\n");
    machine.text(&["redact", "--regex", regex, "--sources", "--yes"]);
    assert!(!fs::read_to_string(machine.path(CODEX)).unwrap().contains("quoted"));
}

#[test]
fn a_bundle_from_before_the_redaction_brings_nothing_back_and_says_so() {
    let machine = Machine::new();
    machine.adopted_turns();
    let bundle = machine.path("s.bundle").display().to_string();
    machine.text(&["bundle", "create", "s", "-o", &bundle]);
    machine.text(&["redact", SECRET, "--yes"]);
    machine.text(&["branch", "--delete", "s"]);
    let plan = machine.text(&["bundle", "unbundle", &bundle, "--dry-run", "--json"]);
    let plan: Value = serde_json::from_str(&plan).unwrap();
    assert_eq!((&plan["redacted"], &plan["refs"][0]["change"]), (&json!(1), &json!("new")));
    let said = machine.text(&["bundle", "unbundle", &bundle]);
    assert!(said.contains("1 content left out: redacted in this store"), "{said}");
    let shown = machine.text(&["show", "s"]);
    assert!(shown.contains("the key is [redacted]") && !shown.contains("quoted"), "{shown}");
    assert_eq!(machine.run(&["grep", "--all", "quoted"]).status.code(), Some(1));
}
