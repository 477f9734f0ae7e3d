//! The user's files at a prompt: they are stored before the agent acts, a rewind restores them, and
//! the files of interrupted calls are in the turns of these calls.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};
use turntree::object::ObjectId;
use turntree_tests::chat::Chat;
use turntree_tests::client::{Client, files, line, until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");
const FLAGS: &[&str] = &["--rollback"];

fn these(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

/// The turns of the main branch: their messages, and the files of each.
fn turns(client: &Client) -> Vec<(String, BTreeMap<String, String>)> {
    let repo = client.repo();
    let of = |id: &ObjectId| (repo.commit(id).unwrap().message, files(&repo, id));
    let tip = repo.tip(&"s-1/main".parse().unwrap()).unwrap();
    line(&repo, &tip).iter().map(of).collect()
}

fn titles(client: &Client) -> Vec<String> {
    turns(client).into_iter().map(|(title, _)| title).collect()
}

/// The files of the turn with this title.
fn files_of(client: &Client, title: &str) -> BTreeMap<String, String> {
    let found = turns(client).into_iter().find(|(known, _)| known == title);
    found.unwrap_or_else(|| panic!("{title}: {:?}", titles(client))).1
}

fn bash(id: &str, command: &str) -> Value {
    json!({"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": id})
}

#[test]
fn what_a_person_changed_between_two_prompts_survives_going_back() {
    let mut chat = Chat::begin(PROGRAM, FLAGS, &[("index.html", "v0")]);
    chat.ask("one", "index.html", "agent v1");
    chat.client.write("index.html", "BY HAND");
    chat.client.write("mine.txt", "mine");
    fs::write(chat.client.project().join("tool.sh"), "#!/bin/sh").unwrap();
    chat.ask("two", "index.html", "agent v2");
    chat.back("undo that");
    let by_hand =
        these(&[("index.html", "BY HAND"), ("mine.txt", "mine"), ("tool.sh", "#!/bin/sh")]);
    assert_eq!(chat.files(), by_hand);
    // Changes by the agent and by the user are in separate snapshots.
    assert_eq!(files_of(&chat.client, "one: done"), these(&[("index.html", "agent v1")]));
    assert_eq!(files_of(&chat.client, "files before the prompt"), by_hand);
    chat.run(&["undo"]);
    assert_eq!(chat.files()["index.html"], "agent v2");
}

#[test]
fn a_prompt_without_a_change_of_files_makes_no_snapshot() {
    let mut chat = Chat::begin(PROGRAM, FLAGS, &[("a", "1")]);
    chat.ask("one", "a", "2");
    chat.ask("two", "a", "3");
    let expected = [
        "files when the session began",
        "one",
        "Write a",
        "one: done",
        "two",
        "Write a",
        "two: done",
    ];
    assert_eq!(titles(&chat.client), expected);
}

#[test]
fn what_a_person_deletes_stays_deleted() {
    let mut chat = Chat::begin(PROGRAM, FLAGS, &[("a", "1"), ("old", "x")]);
    chat.ask("one", "a", "2");
    fs::remove_file(chat.client.project().join("old")).unwrap();
    chat.ask("two", "a", "3");
    chat.back("undo that");
    assert_eq!(chat.files(), these(&[("a", "2")]));
}

#[test]
fn each_client_keeps_what_was_there_before_a_prompt() {
    for (dialect, prompt) in [("codex", "UserPromptSubmit"), ("gemini", "BeforeAgent")] {
        let client = Client::new(PROGRAM, "s-1.jsonl");
        let flags = ["--dialect", dialect];
        client.write("a", "one");
        client.event(&flags, prompt, json!({"prompt": "go"}));
        client.write("a", "by hand");
        client.event(&flags, prompt, json!({"prompt": "go on"}));
        assert_eq!(client.files(), these(&[("a", "by hand")]), "{dialect}");
        assert_eq!(client.commits().len(), 2, "{dialect}");
    }
}

#[test]
fn the_state_before_a_prompt_stands_before_it_where_its_record_is_there_first() {
    let mut chat = Chat::begin(PROGRAM, FLAGS, &[("a", "1")]);
    chat.ask("one", "a", "2");
    chat.client.write("a", "by hand");
    chat.record(json!({"type": "user", "message": {"role": "user", "content": "two"}}));
    chat.event("UserPromptSubmit", json!({"prompt": "two"}));
    chat.write("a", "3");
    chat.stop("done");
    let expected = [
        "files when the session began",
        "one",
        "Write a",
        "one: done",
        "files before the prompt",
        "two",
        "Write a",
        "done",
    ];
    assert_eq!(titles(&chat.client), expected);
    assert_eq!(files_of(&chat.client, "one: done"), these(&[("a", "2")]));
    chat.back("undo that");
    assert_eq!(chat.files(), these(&[("a", "by hand")]));
}

#[test]
fn the_first_prompt_in_an_empty_project_can_be_taken_back() {
    let mut chat = Chat::begin(PROGRAM, FLAGS, &[]);
    chat.ask("Make a page", "index.html", "<h1>one</h1>");
    let reason = chat.back("undo that");
    assert!(reason.contains("before prompt 1 of s-1/main: Make a page"), "{reason}");
    assert!(reason.contains("index.html (deleted)"), "{reason}");
    assert_eq!(chat.files(), these(&[]));
    chat.run(&["undo"]);
    assert_eq!(chat.files(), these(&[("index.html", "<h1>one</h1>")]));
}

#[test]
fn what_a_tool_replaces_is_kept_where_no_turn_has_it() {
    // The user changes a file while the agent thinks, after the prompt.
    let mut chat = Chat::begin(PROGRAM, FLAGS, &[("a", "1"), ("crlf", "x\r\ny\r\n")]);
    chat.prompt("one");
    chat.client.write("a", "by hand");
    chat.write("a", "2");
    assert_eq!(files_of(&chat.client, "one")["a"], "by hand");
    assert_eq!(files_of(&chat.client, "Write a")["a"], "2");
    // The agent's own content is not captured twice.
    chat.write("a", "3");
    chat.stop("done");
    let expected = ["files when the session began", "files", "one", "Write a", "Write a", "done"];
    assert_eq!(titles(&chat.client), expected);
    // Nor is a file that the client sends with other line ends.
    chat.prompt("two");
    let path = chat.client.project().join("crlf");
    let id = chat.call("Write", &json!({"file_path": path}));
    chat.client.write("crlf", "z\r\n");
    chat.event(
        "PostToolUse",
        json!({"tool_name": "Write", "tool_use_id": id,
        "tool_input": {"file_path": path}, "tool_response": {"originalFile": "x\ny\n"}}),
    );
    assert_eq!(files_of(&chat.client, "two")["crlf"], "x\r\ny\r\n");
}

#[test]
fn what_a_tool_replaces_is_kept_where_its_call_is_in_the_newest_turn_already() {
    let mut chat = Chat::begin(PROGRAM, FLAGS, &[("a", "1"), ("b", "1")]);
    chat.prompt("go");
    let path = |name: &str| chat.client.project().join(name);
    let (a, b) = (path("a"), path("b"));
    // Two calls of one answer, both recorded before the first has ended.
    let calls = json!([{"type": "tool_use", "id": "toolu_a", "name": "Write", "input": {"file_path": a}},
        {"type": "tool_use", "id": "toolu_b", "name": "Write", "input": {"file_path": b}}]);
    chat.record(json!({"type": "assistant",
        "message": {"role": "assistant", "id": "m-both", "content": calls}}));
    let ended = |chat: &Chat, id: &str, path: &std::path::Path, before: &str| {
        chat.event(
            "PostToolUse",
            json!({"tool_name": "Write", "tool_use_id": id,
            "tool_input": {"file_path": path}, "tool_response": {"originalFile": before}}),
        );
    };
    chat.client.write("a", "2");
    ended(&chat, "toolu_a", &a, "1");
    chat.client.write("b", "2");
    ended(&chat, "toolu_b", &b, "by hand");
    let expected = ["files when the session began", "go", "a file before a tool", "Write 2 files"];
    assert_eq!(titles(&chat.client), expected);
    assert_eq!(
        files_of(&chat.client, "a file before a tool"),
        these(&[("a", "1"), ("b", "by hand")])
    );
    assert_eq!(files_of(&chat.client, "Write 2 files"), these(&[("a", "2"), ("b", "2")]));
}

/// A chat whose agent ran a command that was interrupted: `half` was created, and `precious`
/// removed.
fn interrupted() -> (Chat, String) {
    let mut chat = Chat::begin(PROGRAM, FLAGS, &[("precious", "p")]);
    chat.prompt("one");
    let command = "echo half > half; rm precious; sleep 30";
    let id = chat.call("Bash", &json!({"command": command}));
    chat.event("PreToolUse", bash(&id, command));
    chat.client.write("half", "half");
    fs::remove_file(chat.client.project().join("precious")).unwrap();
    (chat, id)
}

fn expect_in_its_turn(chat: &Chat) {
    let title = "Bash echo half > half; rm precious; sleep 30";
    assert_eq!(files_of(&chat.client, "one"), these(&[("precious", "p")]));
    let notice = "[Request interrupted by user for tool use]";
    let of_call =
        |known: &&(String, BTreeMap<String, String>)| known.0 == title || known.0 == notice;
    let turns = turns(&chat.client);
    let turn = turns.iter().find(of_call).unwrap();
    assert_eq!(turn.1, these(&[("half", "half")]));
    assert!(!titles(&chat.client).iter().any(|title| title.starts_with("files before")));
}

#[test]
fn files_of_an_interrupted_call_are_in_its_turn_at_the_next_prompt() {
    // The client records nothing, a result, or a result and the interruption.
    for written in 0..3 {
        let (mut chat, id) = interrupted();
        if written > 0 {
            chat.result(&id, "[Request interrupted by user for tool use]");
        }
        if written > 1 {
            let said =
                json!([{"type": "text", "text": "[Request interrupted by user for tool use]"}]);
            chat.record(json!({"type": "user", "message": {"role": "user", "content": said}}));
        }
        chat.prompt("two");
        chat.write("b", "2");
        chat.stop("done");
        expect_in_its_turn(&chat);
        assert_eq!(files_of(&chat.client, "two"), these(&[("half", "half")]), "{written}");
        chat.back("undo that");
        assert_eq!(chat.files(), these(&[("half", "half")]), "{written}");
        chat.back("undo that");
        assert_eq!(chat.files(), these(&[("precious", "p")]), "{written}");
    }
}

#[test]
fn files_of_an_interrupted_call_are_in_its_turn_at_the_end_and_at_a_beginning() {
    for event in ["SessionEnd", "SessionStart"] {
        let (mut chat, id) = interrupted();
        chat.event(event, json!({"source": "resume", "reason": "other"}));
        expect_in_its_turn(&chat);
        // Records that the client writes later change nothing.
        chat.result(&id, "[Request interrupted by user for tool use]");
        chat.client.write("half", "by hand");
        chat.prompt("two");
        assert_eq!(
            files_of(&chat.client, "files before the prompt"),
            these(&[("half", "by hand")])
        );
        let title = "Bash echo half > half; rm precious; sleep 30";
        assert_eq!(files_of(&chat.client, title), these(&[("half", "half")]), "{event}");
    }
}

#[test]
fn a_call_that_was_interrupted_before_it_was_written_down_leaves_its_files_before_the_prompt() {
    let mut chat = Chat::begin(PROGRAM, FLAGS, &[("a", "1")]);
    chat.prompt("one");
    chat.event("PreToolUse", bash("toolu_lost", "echo half > half; sleep 30"));
    chat.client.write("half", "half");
    chat.prompt("two");
    chat.stop("done");
    assert_eq!(files_of(&chat.client, "files before the prompt")["half"], "half");
    let left =
        chat.client.repo().refs().values.keys().any(|name| name.starts_with("refs/captures/"));
    assert!(!left, "nothing waits");
}

#[test]
fn what_a_person_changes_after_a_call_that_has_ended_is_not_of_the_call() {
    let mut chat = Chat::begin(PROGRAM, FLAGS, &[("a", "1")]);
    chat.prompt("one");
    let id = chat.call("Bash", &json!({"command": "make b"}));
    chat.event("PreToolUse", bash(&id, "make b"));
    chat.client.write("b", "made");
    chat.event("PostToolUse", bash(&id, "make b"));
    chat.result(&id, "ok");
    // Interrupted while the agent thinks about the next step: no event reports it.
    chat.client.write("b", "by hand");
    chat.prompt("two");
    chat.stop("done");
    assert_eq!(files_of(&chat.client, "Bash make b")["b"], "made");
    assert_eq!(files_of(&chat.client, "files before the prompt")["b"], "by hand");
}

#[test]
fn a_process_in_the_background_gives_no_turn_what_is_not_its() {
    let mut chat = Chat::begin(PROGRAM, FLAGS, &[("a", "1")]);
    chat.ask("one", "a", "2");
    chat.client.write("a", "by hand");
    let late = |chat: &Chat| {
        let event = chat.client.payload("UserPromptSubmit", json!({"prompt": "two"}));
        let output = chat.client.give(&["--background"], event.to_string().as_bytes());
        assert!(output.status.success());
    };
    // Only the prompt is recorded: the capture is committed before it.
    chat.record(json!({"type": "user", "message": {"role": "user", "content": "two"}}));
    late(&chat);
    assert_eq!(files_of(&chat.client, "files before the prompt")["a"], "by hand");
    assert_eq!(titles(&chat.client).last().unwrap(), "two");
    // The agent is running, so the current files are its work.
    let known = titles(&chat.client);
    let id = chat.call("Bash", &json!({"command": "make"}));
    let mut record = fs::read_to_string(&chat.client.transcript).unwrap();
    record = record.replace("2026-11-20T10:00:06", "2026-11-20T12:00:06");
    fs::write(&chat.client.transcript, record).unwrap();
    chat.client.write("a", "by the agent");
    late(&chat);
    assert_eq!(titles(&chat.client).len(), known.len() + 1, "the call alone");
    chat.event("PostToolUse", bash(&id, "make"));
    assert_eq!(files_of(&chat.client, "Bash make")["a"], "by the agent");
    until(|| chat.client.store_dir().join("superblock").is_file());
}

#[test]
fn a_fork_goes_on_from_the_turn_that_it_was_forked_from_with_the_files_of_now() {
    let mut chat = Chat::begin(PROGRAM, FLAGS, &[("a", "1")]);
    chat.ask("one", "a", "2");
    let known = fs::read_to_string(&chat.client.transcript).unwrap();
    let forked_from = chat.tip("s-1/main");
    // The client announces the fork before it writes the transcript, which then has all copied
    // records.
    chat.client.write("b", "by hand");
    let path = chat.client.root.path().join("s-2.jsonl");
    let of_fork = json!({"session_id": "s-2", "transcript_path": path});
    let event = |chat: &Chat, name: &str, more: &Value| {
        let mut all = of_fork.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        chat.event(name, all);
    };
    event(&chat, "SessionStart", &json!({"source": "fork"}));
    event(&chat, "UserPromptSubmit", &json!({"prompt": "two"}));
    let line_of = |number: usize, role: &str, content: &Value| {
        json!({"type": role, "uuid": format!("f-{number}"), "sessionId": "s-2",
            "cwd": chat.client.project(), "version": "2.1.330",
            "timestamp": format!("2026-11-20T10:05:{number:02}.000Z"),
            "message": {"role": role, "id": format!("m-f-{number}"), "content": content}})
    };
    let asked = line_of(1, "user", &json!("two"));
    let answered = line_of(2, "assistant", &json!([{"type": "text", "text": "done two"}]));
    let copied: String = known
        .lines()
        .map(|line| {
            let mut record: Value = serde_json::from_str(line).unwrap();
            record["sessionId"] = json!("s-2");
            if record["type"] == "assistant" {
                record["requestSessionId"] = json!("s-1");
            }
            format!("{record}\n")
        })
        .collect();
    fs::write(&path, format!("{copied}{asked}\n{answered}\n")).unwrap();
    event(&chat, "Stop", &json!({}));
    let repo = chat.client.repo();
    let tip = repo.tip(&"s-2/main".parse().unwrap()).unwrap();
    let titles: Vec<String> =
        line(&repo, &tip).iter().map(|id| repo.commit(id).unwrap().message).collect();
    assert!(line(&repo, &tip).contains(&forked_from), "{titles:?}");
    assert_eq!(files(&repo, &tip), these(&[("a", "2"), ("b", "by hand")]));
}

#[test]
fn what_an_agent_does_above_the_directory_where_it_was_started_is_in_its_turns() {
    let mut client = Client::new(PROGRAM, "s-1.jsonl");
    for dir in [".git", "pkg/a"] {
        fs::create_dir_all(client.project().join(dir)).unwrap();
    }
    client.write("top.txt", "top");
    client.write("pkg/a/own.txt", "own");
    client.place = "project/pkg/a";
    let top = client.root.path().join("project/top.txt");
    let record = |number: usize, kind: &str, message: Value| {
        json!({"type": kind, "uuid": format!("u-{number}"), "sessionId": "s-1",
            "cwd": client.project(), "version": "2.1.330",
            "timestamp": format!("2026-11-20T10:00:{number:02}.000Z"), "message": message})
        .to_string()
            + "\n"
    };
    let call = |id: &str, name: &str, input: Value| {
        json!({"role": "assistant", "id": format!("m-{id}"),
            "content": [{"type": "tool_use", "id": id, "name": name, "input": input}]})
    };
    client.event(&[], "SessionStart", json!({"source": "startup"}));
    client.event(&[], "UserPromptSubmit", json!({"prompt": "go"}));
    let mut text = record(1, "user", json!({"role": "user", "content": "go"}));
    let new = client.project().join("new.txt");
    let write = json!({"file_path": new, "content": "new"});
    text += &record(2, "assistant", call("toolu_w", "Write", write.clone()));
    let done = json!({"role": "user", "content":
        [{"type": "tool_result", "tool_use_id": "toolu_w", "content": "ok"}]});
    text += &record(3, "user", done);
    fs::write(&client.transcript, &text).unwrap();
    fs::write(&new, "new").unwrap();
    client.event(
        &[],
        "PostToolUse",
        json!({"tool_name": "Write", "tool_use_id": "toolu_w",
        "tool_input": write}),
    );
    text +=
        &record(4, "assistant", call("toolu_r", "Bash", json!({"command": "rm ../../top.txt"})));
    fs::write(&client.transcript, &text).unwrap();
    client.event(&[], "PreToolUse", bash("toolu_r", "rm ../../top.txt"));
    fs::remove_file(&top).unwrap();
    client.event(&[], "PostToolUse", bash("toolu_r", "rm ../../top.txt"));
    let before = these(&[("top.txt", "top"), ("pkg/a/own.txt", "own")]);
    let written = {
        let mut files = before.clone();
        files.insert("pkg/a/new.txt".to_owned(), "new".to_owned());
        files
    };
    assert_eq!(files_of(&client, "files when the session began"), before);
    assert_eq!(files_of(&client, "Write new.txt"), written);
    let mut removed = written;
    removed.remove("top.txt");
    assert_eq!(files_of(&client, "Bash rm ../../top.txt"), removed);
    let output = client.command(&["rollback", "--turns", "1"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_to_string(&top).unwrap(), "top");
    assert!(new.exists());
}

#[test]
fn the_home_directory_is_no_project() {
    let mut client = Client::new(PROGRAM, "s-1.jsonl");
    fs::create_dir_all(client.root.path().join("home/.git")).unwrap();
    fs::create_dir_all(client.root.path().join("home/own")).unwrap();
    fs::write(client.root.path().join("home/secret"), "secret").unwrap();
    client.place = "home/own";
    client.write("a", "1");
    client.event(&[], "UserPromptSubmit", json!({"prompt": "go"}));
    assert_eq!(client.files(), these(&[("a", "1")]));
    client.place = "home";
    client.transcript = client.root.path().join("s-2.jsonl");
    client.event(&[], "UserPromptSubmit", json!({"prompt": "go", "session_id": "s-2"}));
    assert_eq!(client.repo().branches().len(), 1, "nothing of the home is taken");
}

#[test]
fn ignored_files_that_a_project_lists_are_in_pins_and_worktrees_and_in_no_turn() {
    let mut chat = Chat::begin(PROGRAM, FLAGS, &[("a", "1")]);
    let project = chat.client.project();
    let git = |words: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(words);
        let output = command.current_dir(&project).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    git(&["init", "-q"]);
    chat.client.write(".gitignore", ".env*\nbuild/\n");
    chat.client.write(".worktreeinclude", ".env\na\n");
    chat.client.write(".env", "KEPT");
    chat.client.write(".env.local", "not listed");
    git(&["add", ".gitignore", ".worktreeinclude", "a"]);
    git(&["commit", "-qm", "begin"]);
    chat.ask("one", "a", "2");
    chat.prompt("two");
    let id = chat.call("Bash", &json!({"command": "rm .env"}));
    chat.event("PreToolUse", bash(&id, "rm .env"));
    fs::remove_file(project.join(".env")).unwrap();
    chat.event("PostToolUse", bash(&id, "rm .env"));
    let repo = chat.client.repo();
    let pins = repo.pins().unwrap();
    let [pin] = &pins[..] else { panic!("{pins:?}") };
    let pinned = files(&repo, &pin.commit);
    assert_eq!(pinned[".env"], "KEPT");
    assert!(!pinned.contains_key(".env.local"));
    assert_eq!(chat.run(&["cat", &format!("{}:files/.env", pin.commit)]), "KEPT");
    for (title, files) in turns(&chat.client) {
        assert!(!files.contains_key(".env"), "{title}");
    }
    // A worktree of another branch gets the file, and no turn of the branch has it.
    chat.client.write(".env", "KEPT");
    chat.run(&["fork", "plan", "--worktree", "../plan"]);
    let made = chat.client.root.path().join("plan");
    assert_eq!(fs::read_to_string(made.join(".env")).unwrap(), "KEPT");
    assert!(!made.join(".env.local").exists());
    let repo = chat.client.repo();
    let tip = repo.tip(&"s-1/plan".parse().unwrap()).unwrap();
    assert!(!files(&repo, &tip).contains_key(".env"));
}
