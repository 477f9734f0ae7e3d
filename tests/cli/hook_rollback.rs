//! A person asks the chat to go back: the hook does it before the agent sees the prompt, and says what
//! it did; what is asked afterwards begins with the files as they are by then.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};
use turntree::repo::BranchName;
use turntree_tests::client::{Client, files};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");
const FLAGS: &[&str] = &["--rollback"];

/// A chat with Claude Code, whose transcript grows as the client writes it.
struct Chat {
    client: Client,
    records: usize,
}

impl Chat {
    fn new() -> Self {
        let chat = Self { client: Client::new(PROGRAM, "s-1.jsonl"), records: 0 };
        chat.client.write("index.html", "by hand");
        fs::write(&chat.client.transcript, "").unwrap();
        chat.client.event(FLAGS, "SessionStart", json!({"source": "startup"}));
        chat
    }

    /// An event, and what the hook answers. That the client goes on beside may stand in the log.
    fn event(&self, name: &str, more: Value) -> Option<Value> {
        let output =
            self.client.give(FLAGS, self.client.payload(name, more).to_string().as_bytes());
        assert_eq!(output.status.code(), Some(0));
        let log = self.client.log();
        assert!(log.lines().all(|line| line.contains("go on after a rollback")), "{log}");
        (!output.stdout.is_empty()).then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    fn record(&mut self, mut record: Value) {
        self.records += 1;
        let number = self.records;
        let common = json!({"uuid": format!("u-{number}"), "sessionId": "s-1",
            "cwd": self.client.project(), "version": "2.1.330",
            "timestamp": format!("2026-11-20T10:{:02}:{:02}.000Z", number / 60, number % 60)});
        record.as_object_mut().unwrap().extend(common.as_object().unwrap().clone());
        let known = fs::read_to_string(&self.client.transcript).unwrap();
        fs::write(&self.client.transcript, format!("{known}{record}\n")).unwrap();
    }

    /// A prompt that the agent answers by writing a file, and by a last word.
    fn ask(&mut self, said: &str, file: &str, content: &str) -> Option<Value> {
        let told = self.event("UserPromptSubmit", json!({"prompt": said}));
        self.record(json!({"type": "user", "message": {"role": "user", "content": said}}));
        let id = format!("toolu_{}", self.records);
        let call =
            json!([{"type": "tool_use", "id": id, "name": "Write", "input": {"file_path": file}}]);
        self.record(json!({"type": "assistant",
            "message": {"role": "assistant", "id": format!("m-{id}"), "content": call}}));
        let result = json!([{"type": "tool_result", "tool_use_id": id, "content": "written"}]);
        self.record(json!({"type": "user", "message": {"role": "user", "content": result}}));
        self.client.write(file, content);
        let path = self.client.project().join(file);
        let tool =
            json!({"tool_name": "Write", "tool_use_id": id, "tool_input": {"file_path": path}});
        self.event("PostToolUse", tool);
        let done = json!([{"type": "text", "text": format!("{said}: done")}]);
        self.record(json!({"type": "assistant",
            "message": {"role": "assistant", "id": format!("d-{id}"), "content": done}}));
        self.event("Stop", json!({}));
        told
    }

    /// A prompt that the hook answers; the client notes that it was blocked, and nothing else.
    fn back(&mut self, said: &str) -> String {
        let told = self.event("UserPromptSubmit", json!({"prompt": said})).unwrap();
        assert_eq!(told["decision"], "block", "{told}");
        let reason = told["reason"].as_str().unwrap().to_owned();
        let content = format!("UserPromptSubmit operation blocked by hook:\n{reason}");
        self.record(json!({"type": "system", "subtype": "informational", "content": content}));
        reason
    }

    fn files(&self) -> BTreeMap<String, String> {
        let entries =
            fs::read_dir(self.client.project()).unwrap().map(|entry| entry.unwrap().path());
        let named =
            |path: &std::path::Path| path.file_name().unwrap().to_string_lossy().into_owned();
        entries.map(|path| (named(&path), fs::read_to_string(&path).unwrap())).collect()
    }
}

fn these(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn a_prompt_that_asks_to_go_back_is_answered_by_the_hook_and_files_are_back() {
    let mut chat = Chat::new();
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
    // It can be taken back, by the person whose wish it was.
    let undone = chat.client.command(&["undo"]).output().unwrap();
    assert!(undone.status.success(), "{}", String::from_utf8_lossy(&undone.stderr));
    assert_eq!(chat.files(), these(&[("index.html", "BROKEN"), ("style.css", "a {}")]));
}

#[test]
fn two_wishes_are_one_for_two_and_words_of_any_language_do() {
    let mut chat = Chat::new();
    chat.ask("one", "a.txt", "1");
    chat.ask("two", "a.txt", "2");
    let reason = chat.back("undo that");
    assert!(reason.contains("prompt 2"), "{reason}");
    assert_eq!(chat.files()["a.txt"], "1");
    let reason = chat.back("请撤销你刚才的修改");
    assert!(reason.contains("prompt 1 of s-1/main: one"), "{reason}");
    assert_eq!(chat.files(), these(&[("index.html", "by hand")]));
    // There is nothing further, and that is said.
    let reason = chat.back("undo that");
    assert!(reason.contains("did not go back, and nothing was changed"), "{reason}");
}

#[test]
fn what_is_asked_afterwards_begins_with_the_files_that_came_back() {
    let mut chat = Chat::new();
    chat.ask("Make it nicer", "index.html", "BROKEN");
    chat.back("undo that");
    // The client still has the first prompt, so it goes on beside; the person is told.
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
    // Going back again brings back the page as it was by hand, and not the broken one.
    let reason = chat.back("/rollback 2");
    assert!(reason.contains("of s-1/main-client: Add a style"), "{reason}");
    assert_eq!(chat.files(), these(&[("index.html", "by hand")]));
}

#[test]
fn no_more_is_taken_back_than_there_is_and_others_are_not_listened_to() {
    let mut chat = Chat::new();
    chat.ask("one", "a.txt", "1");
    let reason = chat.back("/rollback 150");
    assert!(reason.contains("nothing was changed") && reason.contains("has 1 prompt"), "{reason}");
    assert_eq!(chat.files()["a.txt"], "1");
    for said in ["how do I undo a commit?", "undo the last commit", "please do not undo that"] {
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

    // What the client makes of its file is what the hook understands.
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
    assert!(said.contains("stays"), "{said}");
    run(&["uninstall", "claude-code"]);
    assert_eq!(read(claude).as_deref(), Some("mine"));
}
