//! Effects that no rollback reverts: they are named to the user who goes back, and to an agent that
//! lacks the turns.

use std::fs;

use serde_json::{Value, json};
use turntree_tests::chat::Chat;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");
const FLAGS: &[&str] = &["--rollback"];

/// A chat whose second prompt pushes, opens a pull request, and sends a message.
fn shipped() -> Chat {
    let mut chat = Chat::begin(PROGRAM, FLAGS, &[("index.html", "by hand")]);
    chat.ask("Make it nicer", "index.html", "nicer");
    chat.prompt("Ship it");
    let script = "cargo test && git commit -qam fix && git push origin main 2>&1 | tail -1";
    let push = chat.call("Bash", &json!({"command": script}));
    chat.result(&push, "pushed");
    let request = chat.call("Bash", &json!({"command": "gh pr create --fill"}));
    chat.result(&request, "Exit code: 1");
    chat.call("mcp__chat__send_message", &json!({"to": "all", "text": "it is out"}));
    chat.stop("shipped");
    chat
}

fn effects(record: &Value) -> Vec<[&str; 3]> {
    let effects = record["effects"].as_array().unwrap().iter();
    effects
        .map(|effect| ["kind", "call", "outcome"].map(|key| effect[key].as_str().unwrap()))
        .collect()
}

#[test]
fn plans_and_results_name_what_stays() {
    let chat = shipped();
    let expected = [
        ["repository", "git commit -qam fix", "done"],
        ["push", "git push origin main", "done"],
        ["forge", "gh pr create --fill", "failed"],
        ["message", r#"mcp__chat__send_message {"to":"all","text":"it is out"}"#, "unknown"],
    ];
    for words in [
        &["rollback", "--dry-run", "--json"][..],
        &["restore", "prompt:1", "--dry-run", "--json"],
        &["rollback", "--json"],
    ] {
        let record: Value = serde_json::from_str(&chat.run(words)).unwrap();
        assert_eq!(effects(&record), expected, "{words:?}");
        assert_eq!((&record["more_effects"], &record["unread_turns"]), (&json!(0), &json!(0)));
    }
    // They stay, however often the session goes back.
    let text = chat.run(&["rollback", "--dry-run"]);
    assert!(
        text.contains("would not be undone: 4 effects") && text.contains("git push origin main")
    );
    let none = chat.run(&["restore", "HEAD", "--dry-run", "--json"]);
    assert_eq!(effects(&serde_json::from_str(&none).unwrap()), [[""; 3]; 0]);
}

#[test]
fn a_rollback_in_the_chat_names_them_and_a_resumed_agent_is_told_once() {
    let mut chat = shipped();
    let reason = chat.back("undo that");
    assert!(reason.contains("Not undone: turn 6, push: git push origin main"), "{reason}");

    // The new session begins where the old one went back to, and continues from there.
    let record: Value = serde_json::from_str(&chat.run(&["resume", "s-1/main", "--json"])).unwrap();
    let (session, path) =
        (record["session_id"].as_str().unwrap(), record["path"].as_str().unwrap());
    chat.client.transcript = path.into();
    let of_session = |more: Value| {
        let mut event = json!({"session_id": session});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let told = chat.event("SessionStart", of_session(json!({"source": "resume"}))).unwrap();
    let facts = told["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(facts.contains("- turn 6, push: git push origin main\n"), "{facts}");
    assert!(facts.contains("gh pr create --fill  (reported an error)"), "{facts}");
    let prompt = of_session(json!({"prompt": "Ship it carefully"}));
    assert_eq!(chat.event("UserPromptSubmit", prompt), None, "the list again, or another branch");
    let record = json!({"type": "user", "uuid": "n-1", "sessionId": session,
        "message": {"role": "user", "content": "Ship it carefully"}});
    let known = fs::read_to_string(path).unwrap();
    fs::write(path, format!("{known}{record}\n")).unwrap();
    chat.event("Stop", of_session(json!({})));
    let log = chat.run(&["log", &format!("{session}/main"), "--oneline"]);
    assert!(log.lines().next().unwrap().contains("Ship it carefully"), "{log}");
    let branches = chat.run(&["branch"]);
    assert!(!branches.contains("-client"), "{branches}");
}

#[test]
fn a_session_resumed_at_an_earlier_turn_is_told_what_came_after_it() {
    let mut chat = shipped();
    let plan = chat.run(&["resume", "prompt:1", "--dry-run"]);
    assert!(plan.contains("would not be undone: 4 effects"), "{plan}");
    let record: Value = serde_json::from_str(&chat.run(&["resume", "prompt:1", "--json"])).unwrap();
    assert_eq!(effects(&record).len(), 4);
    chat.client.transcript = record["path"].as_str().unwrap().into();
    let event = json!({"session_id": record["session_id"], "source": "resume"});
    let told = chat.event("SessionStart", event).unwrap();
    let facts = told["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(facts.contains("push: git push origin main"), "{facts}");
    // At the tip nothing is left behind.
    let record: Value = serde_json::from_str(&chat.run(&["resume", "s-1/main", "--json"])).unwrap();
    assert_eq!(effects(&record), [[""; 3]; 0]);
}
