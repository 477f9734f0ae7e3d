//! OLLM CLI's queries, triggers and light snapshots, as commands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// The tokens of the snapshots, oldest first.
const TOKENS: [u64; 7] = [10, 20, 30, 40, 50, 60, 70];

struct Shell {
    folder: tempfile::TempDir,
}

impl Shell {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a command at a time of 2026-01-21. Returns its output and exit code.
    fn at(&self, clock: &str, line: &str) -> (String, i32) {
        let output = Command::new(PROGRAM)
            .args(line.split(' '))
            .current_dir(self.folder.path())
            .env("TURNTREE_STORE", self.path("store"))
            .env("TURNTREE_NOW", format!("2026-01-21T{clock}Z"))
            .env("TURNTREE_ACTOR", "ann")
            .env("TURNTREE_MAINTENANCE", "off")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = format!(
            "{}{}",
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap()
        );
        (said, output.status.code().unwrap())
    }

    fn run(&self, line: &str) -> String {
        let (said, code) = self.at("12:00:00", line);
        assert_eq!(code, 0, "{line}: {said}");
        said
    }

    fn records(&self, line: &str) -> Vec<Value> {
        let said = self.run(&format!("{line} --json"));
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The tokens of the snapshots in a log, in its order.
    fn tokens(&self, log: &str) -> Vec<u64> {
        self.records(log).iter().map(|line| line["tokens"].as_u64().unwrap()).collect()
    }
}

/// Snapshots of two sessions, one of which has seven.
fn two_sessions() -> Shell {
    let shell = Shell::new();
    let template = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("vectors/ollm-cli/old-format-no-userMessages.json");
    let template: Value = serde_json::from_slice(&fs::read(template).unwrap()).unwrap();
    let write = |session: &str, n: usize, tokens: u64| {
        let mut document = template.clone();
        document["id"] = json!(format!("{session}-{n}"));
        document["sessionId"] = json!(session);
        document["timestamp"] = json!(format!("2026-01-21T11:0{n}:00.000Z"));
        document["tokenCount"] = json!(tokens);
        let folder = shell.path("context-snapshots").join(session).join("snapshots");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("snapshot-{session}-{n}.json")), document.to_string())
            .unwrap();
    };
    for (n, tokens) in TOKENS.into_iter().enumerate() {
        write("long", n, tokens);
    }
    write("short", 3, 45);
    shell.run("import context-snapshots");
    shell
}

#[test]
fn a_snapshot_alone_goes_to_the_session_that_it_names() {
    let shell = two_sessions();
    for n in 0..2 {
        let file = format!("context-snapshots/long/snapshots/snapshot-long-{n}.json");
        fs::copy(shell.path(&file), shell.path(&format!("snapshot-{n}.json"))).unwrap();
        let before = shell.run("branch");
        let _ = shell.run(&format!("import snapshot-{n}.json"));
        assert_eq!(shell.run("branch"), before, "it is known there");
    }
    let _ = shell.run("import snapshot-0.json --session other");
    assert_eq!(shell.tokens("log --session other"), [10]);
}

/// Each row of the table in `docs/reference/formats/ollm-cli.md`.
#[test]
fn every_query_of_upstream_has_its_command() {
    let shell = two_sessions();
    let long = |line: &str| shell.tokens(format!("log --session long {line}").trim_end());
    // findSnapshotById: the first match, or nothing.
    assert_eq!(shell.tokens("log --all --meta ollm/id=long-2 -n 1"), [30]);
    assert_eq!(shell.tokens("log --all --meta ollm/id=nope -n 1"), [0_u64; 0]);
    // findSnapshotsBySession
    assert_eq!(shell.tokens("log --session short"), [45]);
    // findSnapshotsAfter, findSnapshotsBefore: exclusive bounds.
    assert_eq!(long("--since 2026-01-21T11:04:00Z"), [70, 60]);
    assert_eq!(long("--until 2026-01-21T11:02:00Z"), [20, 10]);
    // sortSnapshotsByAge, sortSnapshotsByAgeDesc
    assert_eq!(long("--reverse"), TOKENS);
    assert!(long("").is_sorted_by(|a, b| a > b));
    // getRecentSnapshots, getOldestSnapshots
    assert_eq!(long("-n 2"), [70, 60]);
    assert_eq!(long("--reverse -n 2"), [10, 20]);
    // validateSnapshotMetadata, validateContextSnapshot: an import accepts only valid files.
    fs::write(shell.path("bad.json"), r#"{"id":"x","sessionId":"s","messages":[{"role":1}]}"#)
        .unwrap();
    let (said, code) = shell.at("12:00:00", "import bad.json");
    assert_eq!(code, 2);
    assert!(said.contains("messages[0].role: expected text, found a number"), "{said}");
    assert_eq!(shell.at("12:00:00", "fsck").1, 0);
    // calculateTotalSnapshotSize: tokens. calculateTotalSnapshotFileSize: bytes.
    assert_eq!(long("").iter().sum::<u64>(), 280);
    let bytes: usize =
        (0..7).map(|n| shell.run(&format!("export long~{n} --format source")).len()).sum();
    assert!(bytes > 7 * 300);
    // groupSnapshotsBySession
    let sessions: Vec<String> = shell
        .records("log --all")
        .iter()
        .map(|line| line["session"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(sessions.iter().filter(|session| *session == "long").count(), 7);
    assert_eq!(sessions.len(), 8);
    // filterSnapshotsAboveThreshold, filterSnapshotsBelowThreshold: exclusive bounds.
    assert_eq!(shell.tokens("log --session long --tokens-above 50"), [70, 60]);
    assert_eq!(shell.tokens("log --session long --tokens-below 20"), [10]);
    assert_eq!(shell.tokens("log --all --tokens-above 40 --tokens-below 50"), [45]);
}

#[test]
fn cleanup_is_planned_and_says_whether_there_are_too_many() {
    let shell = two_sessions();
    // getSnapshotsForCleanup, exceedsMaxSnapshots
    let plan = shell.records("retention set long --keep-last 5 --dry-run");
    let plan = &plan[0]["sessions"][0];
    assert_eq!(plan["session"], "long", "{plan}");
    let (kept, expiring) = (plan["kept"].as_u64(), plan["expiring"].as_u64());
    assert_eq!((kept, expiring), (Some(5), Some(2)), "{plan}");
    let plan = shell.records("retention set long --keep-last 7 --dry-run");
    assert_eq!(plan[0]["sessions"][0]["expiring"], 0, "exactly as many are not too many");
}

#[test]
fn messages_of_users_are_told_from_the_others() {
    let shell = two_sessions();
    // extractUserMessages, extractNonUserMessages
    let contents = |role: &str| -> Vec<String> {
        let lines = shell.run(&format!("export long --format jsonl --role {role}"));
        let message = |line: &str| serde_json::from_str::<Value>(line).unwrap();
        lines.lines().map(|line| message(line)["content"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((contents("user"), contents("assistant")), (vec!["hi".into()], vec!["yo".into()]));
    assert_eq!(contents("!user"), ["yo"]);
}

#[test]
fn a_snapshot_is_taken_when_a_threshold_is_crossed_and_only_then() {
    let shell = Shell::new();
    fs::write(
        shell.path("s.json"),
        r#"{"agents":{"main":{"messages":[{"role":"user","content":"hi"}]}}}"#,
    )
    .unwrap();
    let watch = |clock: &str, usage: &str| -> Value {
        let (said, code) = shell.at(clock, &format!("ollm snapshot {usage} --state s.json --json"));
        assert_eq!(code, 0, "{said}");
        serde_json::from_str(&said).unwrap()
    };
    let steps = [
        ("12:00:00", "0.5", "below", None),
        ("12:00:01", "0.85", "crossed", Some("auto")),
        ("12:00:02", "7100/8192", "above", Some("auto")),
        ("12:00:03", "0.96", "crossed", Some("before-overflow")),
        ("12:00:04", "0.3", "below", None),
        ("12:00:05", "0.9", "cooling", Some("auto")),
        ("12:01:03", "0.9", "crossed", Some("auto")),
        ("12:01:04", "8200/8192", "crossed", Some("emergency")),
    ];
    let mut turns = 0;
    for (clock, usage, reason, level) in steps {
        let told = watch(clock, usage);
        let made = reason == "crossed";
        turns += u64::from(made);
        assert_eq!(told["watch"]["reason"], reason, "{clock}: {told}");
        assert_eq!(told["watch"]["taken"], made);
        assert_eq!(told["watch"]["level"].as_str(), level);
        assert_eq!(told["turn"].as_u64().unwrap_or(0), turns, "{clock}: {told}");
    }
    let log = shell.records("log");
    let triggers: Vec<&str> = log.iter().map(|line| line["trigger"].as_str().unwrap()).collect();
    assert_eq!(triggers, ["emergency", "threshold", "threshold", "threshold"]);
    assert_eq!(log[0]["tokens"], 8200);
    // An undo reverts the snapshot, regardless of later observations.
    watch("12:01:05", "0.1");
    shell.run("undo");
    assert_eq!(shell.records("log").len(), 3);
    // Before a compression and in an emergency a snapshot is requested, and always taken.
    shell.run("snapshot -m full --trigger emergency");
    shell.run("snapshot -m soon --trigger before-compaction");
    assert_eq!(shell.records("log --trigger before-compaction").len(), 1);
}

#[test]
fn modes_are_replayed_and_counted_and_come_back() {
    let shell = two_sessions();
    let take = |clock: &str, line: &str| {
        let (said, code) = shell.at(clock, &format!("ollm transition {line} --session long"));
        assert_eq!(code, 0, "{said}");
        said
    };
    take("12:00:00", "planning:developer --task Login");
    take("12:10:00", "developer:debugger --task Crash --active-tool gdb");
    let said = take("12:15:00", "debugger:developer --restore");
    assert!(said.contains("<state_snapshot>"), "{said}");
    take("12:25:00", "developer:debugger");
    let told = &shell.records("ollm modes --session long")[0];
    assert_eq!(told["transitions"].as_array().unwrap().len(), 4);
    let counted = json!({"from": "developer", "to": "debugger", "count": 2});
    assert!(told["counts"].as_array().unwrap().contains(&counted), "{told}");
    let spent = json!({"mode": "developer", "micros": 20 * 60 * 1_000_000_i64});
    assert!(told["modes"].as_array().unwrap().contains(&spent), "{told}");
    let replayed = shell.run("ollm modes --session long.modes --replay");
    let lines: Vec<&str> = replayed.lines().collect();
    assert!(lines[1].ends_with("planning to developer, for 10m00s: Login"), "{replayed}");
    assert!(lines[3].contains("debugger to developer"), "{replayed}");
    // A mode that was never left has nothing to restore.
    let back = "ollm transition debugger:tester --restore --session long --json";
    let (said, code) = shell.at("12:30:00", back);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &said["restored"]), (0, &Value::Null));
    let back = "ollm transition tester:developer --restore --session long --json";
    let (said, _) = shell.at("12:31:00", back);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["restored"]["toMode"], "debugger");
}

#[test]
fn tokens_among_the_metadata_are_those_of_the_snapshot() {
    let shell = two_sessions();
    let folder = shell.path("context-snapshots/long/snapshots");
    let path = folder.join("snapshot-long-0.json");
    let mut document: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    document.as_object_mut().unwrap().remove("tokenCount");
    document["metadata"]["tokenCount"] = json!(1200);
    document["id"] = json!("inner");
    fs::write(shell.path("inner.json"), document.to_string()).unwrap();
    shell.run("import inner.json --session inner");
    assert_eq!(shell.tokens("log inner --tokens-above 1000"), [1200]);
    let exported: Value =
        serde_json::from_str(&shell.run("export inner --format ollm-context")).unwrap();
    assert_eq!(exported["tokenCount"], 1200);
    let compact = shell.run("export inner --format ollm-context --compact");
    assert_eq!(compact.lines().count(), 1);
    assert_eq!(serde_json::from_str::<Value>(&compact).unwrap(), exported);
    let (said, code) = shell.at("12:00:00", "export inner --format markdown --compact");
    assert_eq!(code, 2, "{said}");
}

#[test]
fn a_context_in_which_no_user_has_spoken_is_not_observed() {
    let shell = Shell::new();
    for (messages, made) in [
        (json!([]), false),
        (json!([{"role": "assistant", "content": "a"}]), false),
        (json!([{"role": "user", "content": "a"}]), true),
    ] {
        let state = json!({"agents": {"main": {"messages": messages}}}).to_string();
        fs::write(shell.path("state.json"), state).unwrap();
        let told = &shell.records("ollm snapshot 0.9 --state state.json")[0];
        assert_eq!(told["watch"]["taken"], made, "{told}");
    }
}

#[test]
fn nothing_is_observed_of_a_context_without_messages() {
    let shell = Shell::new();
    let told = &shell.records("ollm snapshot 0.9")[0];
    assert_eq!((&told["watch"]["reason"], &told["id"]), (&json!("empty"), &Value::Null));
    let (said, code) = shell.at("12:00:00", "ollm snapshot much");
    assert_eq!(code, 2, "{said}");
    assert_eq!(shell.at("12:00:00", "snapshot").1, 2, "a message is still needed");
}

#[test]
fn transitions_are_kept_for_an_hour_and_are_there_after_a_restart() {
    let shell = two_sessions();
    let take = |clock: &str, modes: &str| {
        let line =
            format!("ollm transition {modes} --session long --active-tool grep --task Login");
        let (said, code) = shell.at(clock, &line);
        assert_eq!(code, 0, "{said}");
    };
    take("12:00:00", "planning:developer");
    // Two transitions at the same time are both kept.
    take("12:00:00", "planning:developer");
    take("12:30:00", "developer:debugger");
    assert_eq!(shell.records("log long.modes").len(), 3);
    let policy = &shell.records("retention show long.modes")[0];
    assert_eq!(
        policy["sessions"][0]["policy"]["keep_within_micros"], 3_600_000_000_u64,
        "{policy}"
    );
    let out: Value =
        serde_json::from_str(&shell.run("export long.modes --format ollm-mode")).unwrap();
    assert_eq!((&out["fromMode"], &out["toMode"]), (&json!("developer"), &json!("debugger")));
    assert_eq!((&out["activeTools"], &out["currentTask"]), (&json!(["grep"]), &json!("Login")));
    assert_eq!(out["recentMessages"].as_array().unwrap().len(), 2);
    assert_eq!(
        shell.run("log --session long --oneline").lines().count(),
        7,
        "no turns of the conversation"
    );
    let (said, _) = shell.at("12:00:00", "export long --format ollm-mode");
    assert!(said.contains("this is not a mode transition"), "{said}");
    // An explicit policy takes precedence.
    shell.run("retention set long.modes --keep-within 2h");
    take("12:40:00", "debugger:developer");
    let policy = &shell.records("retention show long.modes")[0];
    assert_eq!(policy["sessions"][0]["policy"]["keep_within_micros"], 7_200_000_000_u64);
}

#[test]
fn a_time_before_an_import_is_answered_with_how_to_find_the_turn_of_it() {
    let shell = two_sessions();
    let (said, code) = shell.at("12:00:00", "show long@{2026-01-20T11:01:30Z}");
    assert_eq!(code, 6, "{said}");
    let line = "log long --until 2026-01-20T11:01:30Z -n 1";
    assert!(said.contains(line), "{said}");
}
