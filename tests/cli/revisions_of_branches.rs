//! Names: SESSION/BRANCH means the same wherever a branch is named, and names that a revision would
//! read differently are refused. Also entries in restores, comparisons and bisects.

use std::process::Output;

use serde_json::{Value, json};
use turntree_tests::server_process::Place;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// Runs a line, split at spaces.
fn run(place: &Place, line: &str) -> Output {
    place.command(&line.split(' ').collect::<Vec<_>>()).output().unwrap()
}

fn done(place: &Place, line: &str) -> String {
    place.run(&line.split(' ').collect::<Vec<_>>())
}

fn refused(place: &Place, line: &str, code: i32) -> String {
    let output = run(place, line);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{line}: {error}");
    error
}

fn branches(place: &Place) -> Vec<String> {
    let listed: Value = serde_json::from_str(&done(place, "branch --json")).unwrap();
    let name = |it: &Value| {
        format!("{}/{}", it["session"].as_str().unwrap(), it["branch"].as_str().unwrap())
    };
    let mut names: Vec<String> = listed["branches"].as_array().unwrap().iter().map(name).collect();
    names.sort();
    names
}

/// A store with HEAD on `work/main`, and a session `toy` with the branches `main` and `alt`.
fn two_sessions() -> Place {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(2);
    let _ =
        done(&place, "snapshot --session toy -m one --set scratchpad/a=1 --append-message user=hi");
    let _ = done(&place, "fork alt --at toy");
    let _ = done(&place, "switch work");
    place
}

#[test]
fn a_branch_with_its_session_is_that_branch_in_every_option() {
    let place = two_sessions();
    let before = branches(&place);
    for line in [
        "snapshot --branch toy/alt -m two --set scratchpad/a=2",
        "snapshot --session toy --branch toy/alt -m two --set scratchpad/a=3",
        "snapshot --session toy --branch alt -m two --set scratchpad/a=4",
        "ollm snapshot 9000/8192 --branch toy/alt -m two --set scratchpad/a=5",
        "restore toy --branch toy/alt --only scratchpad",
        "rollback --branch toy/alt --only scratchpad --turns 1",
        "rollback --session toy --branch toy/alt --only scratchpad --turns 1",
        "lesson add --note x --on toy/alt",
        "merge toy/alt --into toy/main",
        "resolve --branch toy/alt",
    ] {
        let _ = done(&place, line);
        assert_eq!(branches(&place), before, "{line}");
    }
    let log = done(&place, "log toy/alt --oneline");
    assert!(log.lines().count() >= 6, "{log}");
    let refused = refused(&place, "snapshot --session work --branch toy/alt -m x", 2);
    assert!(refused.contains("a branch of session toy"), "{refused}");
    assert_eq!(branches(&place), before);

    // An option or a variable that names a missing session creates it.
    let _ = done(&place, "snapshot --branch fresh/plan -m x --set scratchpad/a=1");
    let mut command = place.command(&["snapshot", "-m", "x", "--set", "scratchpad/a=1"]);
    assert!(command.env("TURNTREE_BRANCH", "other/plan").status().unwrap().success());
    let begun: Vec<String> =
        branches(&place).into_iter().filter(|it| !before.contains(it)).collect();
    assert_eq!(begun, ["fresh/plan", "other/plan"]);
    // A name with a slash that is a branch of the current session stays that branch.
    let _ = done(&place, "fork fix/parser");
    let _ = done(&place, "snapshot --branch fix/parser -m x --set scratchpad/a=9");
    assert!(branches(&place).contains(&"work/fix/parser".to_owned()));
    assert!(!branches(&place).contains(&"fix/parser".to_owned()));
}

#[test]
fn a_server_takes_a_branch_with_its_session_as_commands_do() {
    let place = two_sessions();
    let before = branches(&place);
    let mut server = place.server(&["serve", "--stdio", "--workspace", "work"]);
    for branch in [json!({"branch": "toy/alt"}), json!({"branch": "toy/alt", "session": "toy"})] {
        let mut params = json!({"message": "x", "set": {"scratchpad/n": branch.to_string()}});
        params.as_object_mut().unwrap().extend(branch.as_object().unwrap().clone());
        let made = server.call("snapshot", &params).unwrap();
        assert_eq!((&made["session"], &made["branch"]), (&json!("toy"), &json!("alt")));
    }
    let planned = server.call("restore", &json!({"revision": "toy", "branch": "toy/alt"})).unwrap();
    assert_eq!((&planned["session"], &planned["branch"]), (&json!("toy"), &json!("alt")));
    let foreign = json!({"message": "x", "session": "work", "branch": "toy/alt"});
    assert!(server.call("snapshot", &foreign).is_err());
    let forked = json!({"action": "fork", "name": "toy/b2", "at": "toy"});
    assert_eq!(server.call("branch", &forked).unwrap()["moved"]["branch"], "b2");
    let _ = server.end();
    let mut server = place.mcp(&["--branch", "toy/alt"]);
    let made = server.tool("snapshot", &json!({"message": "x", "set": {"memory/x": 1}})).unwrap();
    assert!(made.to_string().contains("alt"), "{made}");
    let _ = server.end();
    let begun: Vec<String> =
        branches(&place).into_iter().filter(|it| !before.contains(it)).collect();
    assert_eq!(begun, ["toy/b2"]);
}

#[test]
fn a_name_that_would_be_read_otherwise_is_refused() {
    let place = two_sessions();
    let before = branches(&place);
    for line in [
        "tag HEAD",
        "fork HEAD",
        "snapshot --branch HEAD -m x",
        "snapshot --session HEAD -m x",
        "branch -m toy/alt HEAD",
        "fork toy/new",
        "edit HEAD --drop prompt:1 --name toy/new",
    ] {
        let _ = refused(&place, line, 2);
        assert_eq!(branches(&place), before, "{line}");
    }
    assert_eq!(done(&place, "tag"), "");
    // A tag and a branch may have the same name, and branch commands use the branch.
    let _ = done(&place, "fork x1 turn:1");
    let _ = done(&place, "tag x1 HEAD");
    let _ = done(&place, "merge HEAD --into x1");
    let _ = done(&place, "switch x1");
    let _ = done(&place, "switch work");
    let _ = done(&place, "branch -d x1");
    assert_eq!(branches(&place), before);
    assert!(done(&place, "tag").contains("x1"));
}

#[test]
fn a_branch_that_repeats_its_session_does_not_stand_for_it() {
    let place = two_sessions();
    // Only a low-level command creates such a branch.
    let _ = done(&place, "snapshot --session old -m alone --set scratchpad/a=1");
    let _ = done(&place, "update-ref refs/heads/work/work/alt old");
    let _ = done(&place, "switch work");
    let listed: Value = serde_json::from_str(&done(&place, "sessions --json")).unwrap();
    let sessions = listed["sessions"].as_array().unwrap();
    let work = sessions.iter().find(|it| it["session"] == "work").unwrap();
    assert_eq!(work["turns"], 2, "{work}");
    // It has only its whole name.
    assert!(done(&place, "log work/work/alt --oneline").contains("alone"));
    let _ = done(&place, "branch -d work/work/alt");
}

#[test]
fn an_entry_of_a_revision_comes_back_alone() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(3);
    place.write("other.txt", "mine");
    let by_path = done(&place, "restore turn:1:files/notes.txt --dry-run --json");
    let by_option = done(&place, "restore turn:1 --only files/notes.txt --dry-run --json");
    assert_eq!(by_path, by_option);
    assert_eq!(done(&place, "restore turn:1:notes.txt --dry-run --json"), by_option);
    let refs = done(&place, "show-ref");
    for (missing, code) in [
        ("restore turn:1:files/nosuch", 6),
        ("restore HEAD:nosuch --workspace work", 6),
        ("restore turn:1:", 2),
        ("restore turn:1:files/nosuch --to out", 6),
    ] {
        let _ = refused(&place, missing, code);
        assert_eq!(done(&place, "show-ref"), refs, "{missing}");
        assert_eq!(place.read("notes.txt").as_deref(), Some("3\n"));
    }
    let mut server = place.server(&["serve", "--stdio", "--workspace", "work"]);
    let missing = json!({"revision": "turn:1:files/nosuch", "dry_run": false});
    assert!(server.call("restore", &missing).is_err());
    let planned = server.call("restore", &json!({"revision": "turn:1:files/notes.txt"})).unwrap();
    assert_eq!(planned["sections"], json!(["files"]));
    let _ = server.end();
    let _ = done(&place, "restore turn:1:files/notes.txt");
    assert_eq!(place.read("notes.txt").as_deref(), Some("1\n"));
    assert_eq!(place.read("other.txt").as_deref(), Some("mine"));
    assert!(done(&place, "show HEAD:scratchpad/note").contains("note 3"));
}

#[test]
fn an_export_of_the_source_says_what_came_after_the_import() {
    let place = Place::new(PROGRAM);
    let transcript = turntree_tests::claude_code(4);
    std::fs::write(place.path().join("session.jsonl"), &transcript).unwrap();
    let _ = done(&place, "import session.jsonl --session pi");
    let export = "export pi --format source --allow-secrets";
    assert_eq!(run(&place, export).stderr, b"");
    let _ = done(&place, "snapshot --session pi -m one --append-message user=more");
    let _ = done(&place, "snapshot --session pi -m two --append-message user=and_more");
    let output = run(&place, export);
    assert_eq!(output.stdout, transcript.as_bytes());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("2 newer messages") && said.contains("jsonl"), "{said}");
    let record = done(&place, "export pi --format source --allow-secrets -o out.jsonl --json");
    assert_eq!(serde_json::from_str::<Value>(&record).unwrap()["newer_messages"], 2);
    assert_eq!(run(&place, "export pi~2 --format source --allow-secrets").stderr, b"");
}

#[test]
fn two_entries_are_compared_with_each_other() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(3);
    let both = done(&place, "diff turn:1:files/notes.txt HEAD:files/notes.txt");
    assert_eq!(both, done(&place, "diff turn:1 HEAD files/notes.txt"));
    assert_eq!(both, done(&place, "diff turn:1:notes.txt"));
    let shown = done(&place, "diff turn:3:scratchpad/note turn:1:scratchpad/note --json");
    assert!(
        shown.contains(r#""scratchpad":{"added":[],"removed":[],"changed":["note"]}"#),
        "{shown}"
    );
    let messages = done(&place, "diff HEAD:agents/main/messages/0 HEAD:agents/main/messages/2");
    assert!(messages.contains("message 1") && messages.contains("message 3"), "{messages}");
    assert_eq!(done(&place, "diff HEAD:files HEAD:files"), "");
    let _ = refused(&place, "diff turn:1:files/notes.txt HEAD~1", 2);
    let _ = refused(&place, "diff turn:1 HEAD:files/notes.txt", 2);
    let _ = refused(&place, "diff turn:1:files/nosuch HEAD:files/notes.txt", 6);
    let _ = refused(&place, "diff turn:1:files/notes.txt HEAD:files/nosuch", 6);
    let _ = refused(&place, "diff turn:1:files/notes.txt HEAD:scratchpad/note", 2);
}

#[test]
fn a_bisect_runs_among_the_files_of_a_turn_and_refuses_a_command_that_looks_elsewhere() {
    let place = Place::new(PROGRAM);
    for turn in 1..=8 {
        place.write("a.txt", turn.to_string());
        if turn >= 5 {
            place.write("PLAN.md", "plan");
        }
        let said = format!("user=message {turn}");
        let words = ["snapshot", "-m", "x", "--workspace", "work", "--append-message", &said];
        let _ = place.run(&words);
    }
    let _ = done(&place, "bisect start HEAD turn:1");
    let refs = done(&place, "show-ref");
    let wrong = refused(&place, "bisect run test ! -e files/PLAN.md", 2);
    assert!(wrong.contains("'files/PLAN.md', which is PLAN.md in its directory"), "{wrong}");
    let words = ["bisect", "run", "sh", "-c", "test ! -e './files/PLAN.md'"];
    assert_eq!(place.command(&words).output().unwrap().status.code(), Some(2));
    let _ = refused(&place, "bisect run sh -c nosuchcommand", 2);
    let unable = place.command(&["bisect", "run", "sh", "-c", "exit 126"]).output().unwrap();
    assert_eq!(unable.status.code(), Some(2));
    assert_eq!(done(&place, "show-ref"), refs, "nothing is noted");
    let found = done(&place, "bisect run test ! -e PLAN.md");
    assert!(found.contains("turn 5"), "{found}");
    let _ = done(&place, "bisect start HEAD turn:1");
    let output = run(&place, "bisect run test -e a.txt");
    assert!(String::from_utf8_lossy(&output.stderr).contains("turns that were tested are good"));
    assert!(done(&place, "bisect run --help").contains("CMD runs in that directory"));
}

#[test]
fn advice_names_the_branch_of_another_session() {
    let place = two_sessions();
    for line in ["branch --delete alt", "merge alt", "log alt"] {
        let error = refused(&place, line, 6);
        assert!(error.contains("in other sessions there is toy/alt;"), "{line}: {error}");
    }
    assert!(!refused(&place, "log nosuch", 6).contains("other sessions"));
}
