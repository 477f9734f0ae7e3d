//! Lessons added after a rollback reach the branch on which the client continues.

use serde_json::{Value, json};
use turntree_tests::chat::Chat;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");
const FLAGS: &[&str] = &["--rollback", "--lessons"];

fn begun() -> Chat {
    let mut chat = Chat::begin(PROGRAM, FLAGS, &[("a", "1")]);
    chat.ask("one", "b", "1");
    chat.ask("two", "b", "2");
    chat
}

/// The text for the agent in an answer.
fn context(told: Option<Value>) -> String {
    let told = told.unwrap_or_default();
    let context = &told["hookSpecificOutput"]["additionalContext"];
    context.as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_lesson_in_the_words_of_the_answer_is_told_where_the_client_goes_on() {
    let mut chat = begun();
    let reason = chat.back("undo that");
    assert!(reason.contains("turntree lesson add --note TEXT"), "{reason}");
    chat.run(&["lesson", "add", "--note", "read the file before replacing"]);
    let told = context(chat.ask("try again", "b", "3"));
    assert!(told.contains("read the file before replacing"), "{told}");
    let listed = chat.run(&["lesson", "list", "s-1/main-client"]);
    assert!(listed.contains("read the file before replacing"), "{listed}");

    // A lesson added, changed or removed later at HEAD, where the user works, is reported too.
    let on_main = ["--session", "s-1", "--on", "main"];
    let on = |words: &[&'static str]| [words, &on_main].concat();
    chat.run(&on(&["lesson", "add", "--note", "run the tests"]));
    assert!(context(chat.ask("and again", "b", "4")).contains("run the tests"));
    let listed: Value = serde_json::from_str(
        chat.run(&["--json", "lesson", "list", "s-1/main"]).lines().next().unwrap(),
    )
    .unwrap();
    let first = listed["lessons"][0]["id"].as_str().unwrap().to_owned();
    let edit = ["lesson", "edit", &first, "--note", "read all of the file"];
    chat.run(&[&edit[..], &on_main].concat());
    let told = context(chat.ask("once more", "b", "5"));
    assert!(told.contains("read all of the file") && !told.contains("before replacing"), "{told}");
    chat.run(&[&["lesson", "rm", &first][..], &on_main].concat());
    let told = context(chat.ask("and more", "b", "6"));
    assert!(!told.contains("read all of the file") && told.contains("run the tests"), "{told}");
    let resumed = chat.event("SessionStart", json!({"source": "resume"}));
    assert!(context(resumed).contains("run the tests"));
    // A lesson that was changed on the client's branch stays changed there.
    let listed: Value = serde_json::from_str(
        chat.run(&["--json", "lesson", "list", "s-1/main-client"]).lines().next().unwrap(),
    )
    .unwrap();
    let second = listed["lessons"][0]["id"].as_str().unwrap().to_owned();
    let own = ["--session", "s-1", "--on", "main-client"];
    chat.run(&[&["lesson", "edit", &second, "--note", "run the tests twice"][..], &own].concat());
    chat.run(&on(&["lesson", "add", "--note", "and a third"]));
    let told = context(chat.ask("on and on", "b", "6b"));
    assert!(told.contains("run the tests twice") && told.contains("and a third"), "{told}");

    // After a second rollback a new branch continues from that branch, and gets all lessons.
    chat.back("undo that");
    assert!(context(chat.ask("last", "b", "7")).contains("run the tests"));
}

#[test]
fn the_answer_to_what_the_agent_should_do_differently_is_a_lesson() {
    let mut chat = begun();
    let reason = chat.back("undo that");
    assert!(reason.contains("Say it in your next prompt: its first line becomes"), "{reason}");
    chat.ask("Keep the header as it is\nand make the rest nicer", "b", "3");
    let told = context(chat.ask("now the footer, please", "b", "4"));
    assert!(told.contains("Keep the header as it is"), "{told}");
    assert!(!told.contains("the rest nicer") && !told.contains("footer"), "{told}");
    // A prompt that only says to continue is no lesson, and the hook did not ask before the next
    // one.
    chat.back("undo that");
    chat.ask("try again", "b", "5");
    let told = context(chat.ask("use tabs in this file", "b", "6"));
    assert!(!told.contains("try again") && !told.contains("use tabs"), "{told}");
    // The hook adds lessons, so the user's undo does not revert them.
    let undone = chat.client.command(&["undo", "--dry-run"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&undone.stdout).contains("lesson"), "{undone:?}");
}

#[test]
fn that_the_client_goes_on_beside_is_told_once_by_whichever_event_comes_first() {
    let mut chat = begun();
    chat.prompt("three");
    let id = chat.call("Bash", &json!({"command": "turntree rollback"}));
    chat.run(&["rollback"]);
    let bash = json!({"tool_name": "Bash", "tool_use_id": id,
        "tool_input": {"command": "turntree rollback"}});
    let mut told: Vec<Option<Value>> = vec![chat.event("PostToolUse", bash)];
    chat.result(&id, "rolled back");
    told.push(chat.write("b", "3"));
    chat.stop("done");
    told.push(chat.ask("four", "b", "4"));
    told.push(chat.ask("five", "b", "5"));
    let messages = told.iter().flatten().filter(|told| told["systemMessage"].is_string()).count();
    assert_eq!(messages, 1, "{told:?}");
}

#[test]
fn outputs_are_put_away_only_where_the_client_takes_another_one() {
    let chat = Chat::begin(PROGRAM, FLAGS, &[]);
    for client in ["codex", "gemini"] {
        let refused = chat
            .client
            .command(&["hook", "install", client, "--offload", "5000"])
            .output()
            .unwrap();
        assert_eq!(refused.status.code(), Some(2), "{client}");
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(error.contains(client) && error.contains("--offload"), "{error}");
    }
    chat.run(&["hook", "install", "claude-code", "--offload", "5000"]);
}
