//! Commands that have nothing to do, and words that people type.

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use turntree_tests::server_process::Place;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

fn run(place: &Place, line: &str) -> Output {
    place.command(&line.split(' ').collect::<Vec<_>>()).output().unwrap()
}

/// The standard output of a command that succeeds.
fn done(place: &Place, line: &str) -> String {
    place.run(&line.split(' ').collect::<Vec<_>>())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_redaction_without_a_match_changes_nothing_and_says_where_else_to_look() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(2);
    // Caches are files of the store that no object references.
    let _ = done(&place, "search message");
    let (refs, operations) = (done(&place, "show-ref"), done(&place, "op log --json"));
    for line in ["redact nowhere --dry-run", "redact nowhere", "redact nowhere --yes"] {
        let output = run(&place, line);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{line}: {said}");
        assert!(said.contains("nothing to take out") && said.contains("secrets scan"), "{said}");
        assert!(!said.contains("replace"), "{said}");
        assert_eq!(done(&place, "show-ref"), refs, "{line}");
        assert_eq!(done(&place, "op log --json"), operations, "{line}");
    }
}

#[test]
fn a_rollback_by_no_turn_only_restores_files() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(2);
    let log = done(&place, "log --json");
    let _ = done(&place, "rollback 0");
    assert_eq!(done(&place, "log --json"), log);
    place.write("notes.txt", "mine");
    let said = done(&place, "rollback 0");
    assert!(said.contains("1 file written, 0 deleted"), "{said}");
    assert_eq!(place.read("notes.txt").as_deref(), Some("2\n"));
}

#[test]
fn messages_appended_at_once_all_land() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(1);
    let append = |number: usize| {
        let message = format!("user=said {number}");
        let words = ["snapshot", "-m", "x", "--append-message", &message];
        let mut command = place.command(&words);
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    let children: Vec<_> = (0..12).map(append).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let newest: Value = serde_json::from_str(&done(&place, "log -n 1 --json")).unwrap();
    assert_eq!(newest["turn"], 13);
    assert_eq!(newest["messages"], 13);
    let tip = newest["id"].as_str().unwrap().to_owned();
    let _ = done(&place, "snapshot -m y --append-message user=z");
    let late = run(&place, &format!("snapshot -m y --append-message user=z --expect {tip}"));
    assert_eq!(late.status.code(), Some(3));
}

#[test]
fn of_several_sessions_in_a_bundle_none_becomes_the_current_one() {
    let place = Place::new(PROGRAM);
    for session in ["one", "two"] {
        let _ = done(&place, &format!("snapshot -m x --session {session} --set memory/a=1"));
    }
    let _ = done(&place, "bundle create --all -o all.bundle");
    let _ = done(&place, "bundle create two -o two.bundle");
    let status = |bundle: &str| {
        let store = format!("{bundle}-store");
        let run = |words: &[&str]| {
            let mut command = Command::new(PROGRAM);
            command.args(["--store", &store]).args(words).current_dir(place.path());
            command.env("TURNTREE_MAINTENANCE", "off").env_remove("TURNTREE_BRANCH");
            command.env_remove("CLAUDE_CODE_SESSION_ID").env_remove("CODEX_THREAD_ID");
            command.output().unwrap()
        };
        assert!(run(&["bundle", "unbundle", bundle]).status.success());
        run(&["log"])
    };
    let all = status("all.bundle");
    assert!(!all.status.success(), "{}", text(&all.stdout));
    let one = status("two.bundle");
    assert!(one.status.success(), "{}", text(&one.stderr));
}

#[test]
fn one_branch_is_compared_with_the_current_one_or_counted_alone() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(4);
    let alone: Value = serde_json::from_str(&done(&place, "compare main --json")).unwrap();
    let strategies = |it: &Value| it["strategies"].as_array().unwrap().clone();
    let branches = |it: &Value| -> Vec<String> {
        strategies(it).iter().map(|it| it["branch"].as_str().unwrap().to_owned()).collect()
    };
    assert!(branches(&alone).len() > 1, "the current branch is compared with its session");
    let _ = done(&place, "fork other turn:2");
    let compared: Value = serde_json::from_str(&done(&place, "compare other --json")).unwrap();
    assert_eq!(branches(&compared), ["main", "other"]);
    let _ = done(&place, "snapshot -m x --session apart --append-message user=alone");
    let apart: Value = serde_json::from_str(&done(&place, "compare apart --json")).unwrap();
    assert_eq!(strategies(&apart).len(), 1);
    assert_eq!(apart["strategies"][0]["messages"], 1);
    assert!(done(&place, "compare apart").contains("counted from its first turn"));
}

#[test]
fn both_words_for_a_list_are_understood() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(1);
    for verb in ["lesson", "remote", "vfs", "key"] {
        assert_eq!(done(&place, &format!("{verb} ls")), done(&place, &format!("{verb} list")));
    }
    for (line, tip) in [("secrets ls", "secrets scan"), ("lg", "log --graph")] {
        let said = text(&run(&place, line).stderr);
        assert!(said.contains(tip), "{line}: {said}");
    }
}
