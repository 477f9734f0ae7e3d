//! A user asks for a rollback in the chat: the hook does it before the agent sees the prompt, and
//! reports it. The next prompt starts with the restored files.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};
use turntree::repo::BranchName;
use turntree_tests::chat::Chat;
use turntree_tests::client::{Client, files, line};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");
const FLAGS: &[&str] = &["--rollback"];

fn chat() -> Chat {
    Chat::begin(PROGRAM, FLAGS, &[("index.html", "by hand")])
}

fn these(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn a_prompt_that_asks_to_go_back_is_answered_by_the_hook_and_files_are_back() {
    let mut chat = chat();
    chat.ask("Make it nicer", "index.html", "BROKEN");
    chat.ask("Add a style", "style.css", "a {}");
    let reason = chat.back("/rollback 2");
    assert_eq!(chat.files(), these(&[("index.html", "by hand")]));
    assert!(reason.contains("before prompt 1 of s-1/main: Make it nicer"), "{reason}");
    assert!(
        reason.contains("Wrote 1 file, deleted 1: index.html, style.css (deleted)"),
        "{reason}"
    );
    assert!(reason.contains("turntree undo") && reason.contains("turntree resume s-1/main"));
    // The user who asked for it can undo it.
    let undone = chat.client.command(&["undo"]).output().unwrap();
    assert!(undone.status.success(), "{}", String::from_utf8_lossy(&undone.stderr));
    assert_eq!(chat.files(), these(&[("index.html", "BROKEN"), ("style.css", "a {}")]));
}

#[test]
fn two_wishes_are_one_for_two_and_words_of_any_language_do() {
    let mut chat = chat();
    chat.ask("one", "a.txt", "1");
    chat.ask("two", "a.txt", "2");
    let reason = chat.back("undo that");
    assert!(reason.contains("prompt 2"), "{reason}");
    assert_eq!(chat.files()["a.txt"], "1");
    let reason = chat.back("请撤销你刚才的修改");
    assert!(reason.contains("prompt 1 of s-1/main: one"), "{reason}");
    assert_eq!(chat.files(), these(&[("index.html", "by hand")]));
    // There is no earlier prompt, and the hook reports this.
    let reason = chat.back("undo that");
    assert!(reason.contains("did not go back, and nothing was changed"), "{reason}");
}

#[test]
fn what_is_asked_afterwards_begins_with_the_files_that_came_back() {
    let mut chat = chat();
    chat.ask("Make it nicer", "index.html", "BROKEN");
    chat.back("undo that");
    // The client still has the first prompt, so it continues on a new branch, and the user is
    // informed.
    let told = chat.ask("Add a style", "style.css", "a {}").unwrap();
    let told = told["systemMessage"].as_str().unwrap();
    assert!(
        told.contains("continues as s-1/main-client") && told.contains("turntree resume s-1/main")
    );
    let repo = chat.client.repo();
    let line: BranchName = "s-1/main-client".parse().unwrap();
    let now = files(&repo, &repo.tip(&line).unwrap());
    assert_eq!(now, these(&[("index.html", "by hand"), ("style.css", "a {}")]));
    assert_eq!(chat.ask("And a script", "x.js", "x"), None, "told once");
    // A second rollback restores the page as edited by hand, not the broken one.
    let reason = chat.back("/rollback 2");
    assert!(reason.contains("of s-1/main-client: Add a style"), "{reason}");
    assert_eq!(chat.files(), these(&[("index.html", "by hand")]));
}

#[test]
fn the_branch_of_another_agent_is_let_alone_whatever_it_is_called() {
    let mut chat = chat();
    chat.ask("one", "index.html", "one");
    chat.run(&["fork", "api", "s-1"]);
    chat.run(&["fork", "api-client", "s-1/api"]);
    chat.turn_to("s-1/api", "server.jsonl");
    chat.ask("The server", "server.txt", "served");
    let api = chat.tip("s-1/api");
    chat.turn_to("s-1/api-client", "browser.jsonl");
    chat.ask("The browser", "browser.txt", "shown");
    let reason = chat.back("undo that");
    assert!(reason.contains("of s-1/api-client: The browser"), "{reason}");
    assert_eq!(chat.tip("s-1/api"), api);
    assert!(chat.files().contains_key("server.txt") && !chat.files().contains_key("browser.txt"));

    // Nor when the other agent rolled back to the start of this branch.
    chat.run(&["fork", "web", "s-1"]);
    chat.run(&["fork", "web-client", "s-1/web"]);
    chat.run(&["rollback", "--session", "s-1", "--branch", "web"]);
    let web = chat.tip("s-1/web");
    chat.turn_to("s-1/web-client", "web.jsonl");
    let reason = chat.back("undo that");
    assert!(reason.contains("of s-1/web-client: one"), "{reason}");
    assert_eq!(chat.tip("s-1/web"), web);
}

#[test]
fn an_agent_with_a_branch_of_its_own_goes_on_beside_what_was_taken_back() {
    let mut chat = chat();
    chat.ask("one", "index.html", "one");
    chat.run(&["fork", "plan", "s-1"]);
    chat.turn_to("s-1/plan", "plan.jsonl");
    chat.ask("two", "a.txt", "2");
    chat.ask("three", "a.txt", "3");
    let reason = chat.back("/rollback 2");
    assert!(reason.contains("before prompt 2 of s-1/plan: two"), "{reason}");
    assert_eq!(chat.files(), these(&[("index.html", "one")]));
    let back = chat.tip("s-1/plan");

    let told = chat.ask("four", "b.txt", "4").unwrap();
    let told = told["systemMessage"].as_str().unwrap();
    assert!(told.contains("s-1/plan was rolled back") && told.contains("as s-1/plan-client"));
    assert_eq!(chat.ask("five", "b.txt", "5"), None, "told once");
    assert_eq!(chat.tip("s-1/plan"), back, "nothing is played again");
    assert_eq!((chat.prompts("s-1/plan"), chat.prompts("s-1/plan-client")), (3, 5));
    let now = these(&[("index.html", "one"), ("b.txt", "5")]);
    assert_eq!(files(&chat.client.repo(), &chat.tip("s-1/plan-client")), now);

    // Another rollback acts on this agent's branch, and the next prompt continues from there.
    let reason = chat.back("undo that");
    assert!(reason.contains("of s-1/plan-client: five"), "{reason}");
    chat.ask("six", "c.txt", "6");
    let now = these(&[("index.html", "one"), ("b.txt", "4"), ("c.txt", "6")]);
    assert_eq!(files(&chat.client.repo(), &chat.tip("s-1/plan-client-client")), now);
    assert_eq!(chat.prompts("s-1/plan-client-client"), 6);

    // A new agent on `s-1/plan` continues that branch.
    chat.turn_to("s-1/plan", "another.jsonl");
    assert_eq!(chat.ask("seven", "d.txt", "7"), None);
    let repo = chat.client.repo();
    let turns = line(&repo, &chat.tip("s-1/plan"));
    assert!(turns.contains(&back) && chat.prompts("s-1/plan") == 4);
    assert_eq!(repo.branches().len(), 4, "{:?}", repo.branches());
}

#[test]
fn what_a_command_took_back_is_not_played_again_by_the_next_event() {
    let mut chat = chat();
    chat.ask("one", "a.txt", "1");
    chat.run(&["fork", "plan", "s-1"]);
    chat.ask("two", "a.txt", "2");
    chat.ask("three", "a.txt", "3");
    // Twice, while the client has all turns.
    chat.run(&["rollback"]);
    chat.run(&["rollback"]);
    assert_eq!(chat.files()["a.txt"], "1");
    let back = chat.tip("s-1/main");
    chat.ask("four", "b.txt", "4");
    assert_eq!((chat.tip("s-1/main"), chat.prompts("s-1/main-client")), (back, 4));

    // A branch that an agent switched to, and whose turns were all rolled back.
    chat.turn_to("s-1/plan", "plan.jsonl");
    chat.ask("five", "c.txt", "5");
    chat.run(&["rollback", "--session", "s-1", "--branch", "plan"]);
    let back = chat.tip("s-1/plan");
    // The agent continues without a prompt.
    let said = json!([{"type": "text", "text": "and more"}]);
    let message = json!({"role": "assistant", "id": "m-more", "content": said});
    chat.record(json!({"type": "assistant", "message": message}));
    chat.event("Stop", json!({}));
    assert_eq!((chat.tip("s-1/plan"), chat.prompts("s-1/plan-client")), (back, 2));
}

#[test]
fn the_files_of_a_worktree_go_back_on_whatever_line_its_agent_is() {
    let mut chat = chat();
    chat.ask("one", "index.html", "one");
    chat.run(&["fork", "plan", "--worktree", "../plan"]);
    chat.client.place = "plan";
    chat.client.transcript = chat.client.root.path().join("plan.jsonl");
    fs::write(&chat.client.transcript, "").unwrap();
    chat.ask("two", "index.html", "two");
    let reason = chat.back("undo that");
    assert!(reason.contains("of s-1/plan: two"), "{reason}");
    assert_eq!(chat.files(), these(&[("index.html", "one")]));
    chat.ask("three", "index.html", "three");
    let reason = chat.back("undo that");
    assert!(reason.contains("of s-1/plan-client: three"), "{reason}");
    assert_eq!(chat.files(), these(&[("index.html", "one")]));

    // A rollback by command acts on the same directory.
    chat.ask("four", "index.html", "four");
    let line =
        chat.client.repo().branches().into_iter().map(|(branch, _)| branch.branch().to_owned());
    let line = line.max_by_key(String::len).unwrap();
    assert_eq!(line, "plan-client-client");
    chat.run(&["rollback", "--session", "s-1", "--branch", &line]);
    assert_eq!(chat.files(), these(&[("index.html", "one")]));
}

#[test]
fn a_rollback_that_is_taken_back_leaves_the_client_on_the_line_that_it_has_begun() {
    let mut chat = chat();
    chat.ask("one", "a.txt", "1");
    chat.ask("two", "a.txt", "2");
    let two = chat.tip("s-1/main");
    chat.back("undo that");
    let listed = chat.run(&["--json", "op", "log"]);
    let newest: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    let rollback = newest["id"].as_str().unwrap().to_owned();
    chat.ask("three", "b.txt", "3");
    chat.run(&["undo", &rollback]);
    assert_eq!(chat.tip("s-1/main"), two);
    chat.ask("four", "c.txt", "4");
    assert_eq!((chat.tip("s-1/main"), chat.prompts("s-1/main-client")), (two, 4));
}

#[test]
fn a_prompt_that_cannot_go_back_is_kept_from_the_agent_too() {
    let mut chat = chat();
    chat.ask("one", "a.txt", "1");
    let superblock = chat.client.store_dir().join("superblock");
    fs::write(&superblock, "no superblock").unwrap();
    let said = |prompt: &str| {
        let event = chat.client.payload("UserPromptSubmit", json!({"prompt": prompt}));
        let output = chat.client.give(FLAGS, event.to_string().as_bytes());
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    };
    let told: Value = serde_json::from_str(&said("undo that")).unwrap();
    assert_eq!(told["decision"], "block", "{told}");
    let reason = told["reason"].as_str().unwrap();
    assert!(reason.contains("nothing was changed") && reason.contains("superblock"), "{reason}");
    assert_eq!((said("go on"), chat.files()["a.txt"].as_str()), (String::new(), "1"));
}

#[test]
fn what_a_rollback_did_not_come_to_write_is_written_by_the_command_that_it_names() {
    let mut chat = chat();
    chat.ask("one", "a.txt", "1");
    chat.ask("two", "a.txt", "2");
    chat.back("undo that");
    // As if it had been interrupted before the file.
    chat.client.write("a.txt", "2");
    chat.run(&["restore", "s-1/main", "--session", "s-1", "--branch", "main"]);
    assert_eq!(chat.files()["a.txt"], "1");
    let before = chat.prompts("s-1/main");
    assert!(chat.back("undo that").contains("prompt 1"), "it is no step");
    assert_eq!(before, 2);
}

#[test]
fn no_more_is_taken_back_than_there_is_and_others_are_not_listened_to() {
    let mut chat = chat();
    chat.ask("one", "a.txt", "1");
    let reason = chat.back("/rollback 150");
    assert!(reason.contains("nothing was changed") && reason.contains("has 1 prompt"), "{reason}");
    assert_eq!(chat.files()["a.txt"], "1");
    for said in [
        "how do I undo a commit?",
        "undo the last commit",
        "please do not undo that",
        "revert the last 3 commits",
    ] {
        assert_eq!(chat.client.event(FLAGS, "UserPromptSubmit", json!({"prompt": said})), None);
    }
    let quiet = chat.client.event(&[], "UserPromptSubmit", json!({"prompt": "undo that"}));
    assert_eq!((quiet, chat.files()["a.txt"].as_str()), (None, "1"), "it was not asked for");
}

#[test]
fn each_client_is_answered_in_its_words() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    for (dialect, event, prompt, decision) in [
        ("codex", "UserPromptSubmit", "undo that", "block"),
        ("gemini", "BeforeAgent", "/rollback 2", "deny"),
    ] {
        let flags = ["--dialect", dialect, "--rollback"];
        let told = client.event(&flags, event, json!({"prompt": prompt})).unwrap();
        assert_eq!(told["decision"], decision, "{told}");
        assert!(told["reason"].as_str().unwrap().contains("nothing was changed"), "{told}");
    }
}

#[test]
fn the_command_is_made_known_where_a_client_has_files_for_that() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    let run = |words: &[&str]| {
        let output = client.command(&[&["hook"], words].concat()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr)
    };
    let read = |name: &str| fs::read_to_string(client.project().join(name)).ok();
    let (claude, gemini) = (".claude/commands/rollback.md", ".gemini/commands/rollback.toml");
    let said = run(&["install", "claude-code", "--rollback", "--dry-run"]);
    assert!(said.contains("+description: Go back") && read(claude).is_none(), "{said}");
    run(&["install", "claude-code", "--rollback"]);
    let settings = read(".claude/settings.local.json").unwrap();
    let settings: Value = serde_json::from_str(&settings).unwrap();
    let timeout = |event: &str| settings["hooks"][event][0]["hooks"][0]["timeout"].clone();
    assert_eq!((timeout("UserPromptSubmit"), timeout("Stop")), (json!(60), json!(10)));
    assert!(read(claude).unwrap().contains("argument-hint"));
    run(&["install", "gemini", "--rollback"]);

    // The hook understands the prompt that the client makes from the command file.
    let made = read(gemini).unwrap();
    let prompt = made.split("\"\"\"").nth(1).unwrap().replace("{{args}}", "2");
    let flags = ["--dialect", "gemini", "--rollback"];
    assert!(client.event(&flags, "BeforeAgent", json!({"prompt": prompt})).is_some());

    run(&["install", "claude-code"]);
    assert!(read(claude).is_none(), "it goes with the option");
    run(&["uninstall", "gemini"]);
    assert!(read(gemini).is_none());
    client.write(claude, "mine");
    let said = run(&["install", "claude-code", "--rollback"]);
    assert!(said.contains("exists and was kept"), "{said}");
    run(&["uninstall", "claude-code"]);
    assert_eq!(read(claude).as_deref(), Some("mine"));
}
