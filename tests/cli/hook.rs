//! Hooks as clients run them: one process for every event, and the resulting store.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use turntree::maintenance::{Pattern, plan_redaction, redact};
use turntree::object::{ObjectId, Trigger};
use turntree::repo::Repository;
use turntree_tests::client::{Client, files, line, until};
use turntree_tests::{Sandbox, claude_code, stamp};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// The result of an import of the same text.
fn imported(text: &str) -> (Sandbox, Vec<ObjectId>) {
    let sandbox = Sandbox::new();
    let head = sandbox.import("s-1", text.as_bytes()).unwrap().head;
    let commits = line(&sandbox.repo, &head);
    (sandbox, commits)
}

const OFF: &[&str] = &["--workspace", "off"];

fn bash(command: &str) -> Value {
    json!({"tool_name": "Bash", "tool_input": {"command": command},
           "tool_response": {"stdout": "", "stderr": ""}})
}

#[test]
fn events_line_by_line_give_the_turns_of_an_import() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    let text = claude_code(10);
    client.event(OFF, "SessionStart", json!({"source": "startup"}));
    let mut written = String::new();
    for line in text.lines() {
        written += &format!("{line}\n");
        // The beginning of the next line is already written.
        fs::write(&client.transcript, format!("{written}{{\"type\":\"us")).unwrap();
        let record: Value = serde_json::from_str(line).unwrap();
        match record["toolUseResult"].as_object() {
            Some(_) => {
                let file = &record["toolUseResult"]["filePath"];
                let tool = json!({"tool_name": "Write", "tool_input": {"file_path": file},
                                  "tool_response": record["toolUseResult"]});
                assert_eq!(client.event(OFF, "PostToolUse", tool), None);
            }
            None => {
                client.event(OFF, "UserPromptSubmit", json!({"prompt": "p"}));
            }
        }
    }
    client.event(OFF, "Stop", json!({}));
    client.event(OFF, "SessionEnd", json!({"reason": "other"}));
    let (_, expected) = imported(&text);
    assert_eq!(client.commits(), expected);
    assert_eq!(client.repo().head().unwrap().branch.to_string(), "s-1/main");
}

#[test]
fn what_a_real_client_sent_becomes_a_session_with_its_files() {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/hooks");
    let read = |name: &str| fs::read_to_string(vectors.join(name)).unwrap();
    let name = "6aaa3a74-a77d-4979-b50a-a752f66979ee";
    let client = Client::new(PROGRAM, &format!("{name}.jsonl"));
    let project = client.project().to_string_lossy().into_owned();
    let transcript = client.transcript.to_string_lossy().into_owned();
    let moved = |text: &str| {
        let there = format!("/home/user/.claude/projects/-home-user-proj/{name}.jsonl");
        text.replace(&there, &transcript).replace("/home/user/proj", &project)
    };
    let session = moved(&read("claude-2.1.329-session.shape.jsonl"));
    client.write("README", "here before");
    for event in read("claude-2.1.329-hooks.jsonl").lines().filter(|line| !line.is_empty()) {
        let event = moved(event);
        let kind: Value = serde_json::from_str(&event).unwrap();
        let kind = kind["hook_event_name"].as_str().unwrap();
        // The length of the transcript at such an event.
        let lines = match kind {
            "SessionStart" => 0,
            "UserPromptSubmit" => 2,
            "PreToolUse" => 21,
            "PostToolUse" => {
                client.write("hello.txt", "hi\n");
                23
            }
            _ => session.lines().count(),
        };
        let written: String = session.lines().take(lines).map(|line| format!("{line}\n")).collect();
        fs::write(&client.transcript, written).unwrap();
        let output = client.give(&[], event.as_bytes());
        assert!(output.status.success() && output.stdout.is_empty(), "{kind}");
    }
    assert_eq!(client.log(), "");
    let repo = client.repo();
    assert_eq!(repo.branches()[0].0.session(), name);
    let commits = client.commits();
    let first = files(&repo, &commits[0]);
    assert_eq!(first, BTreeMap::from([("README".to_owned(), "here before".to_owned())]));
    assert_eq!(client.files()["hello.txt"], "hi\n");
    let sandbox = Sandbox::new();
    let whole = sandbox.import(name, session.as_bytes()).unwrap().head;
    let whole = line(&sandbox.repo, &whole);
    let title = |repo: &Repository, id: &ObjectId| repo.commit(id).unwrap().message;
    let here: Vec<String> = commits[1..].iter().map(|id| title(&repo, id)).collect();
    let there: Vec<String> = whole.iter().map(|id| title(&sandbox.repo, id)).collect();
    assert_eq!(here, there);
}

#[test]
fn what_commands_did_to_files_is_in_the_turn_that_ran_them() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    client.write("a", "one");
    client.event(&[], "SessionStart", json!({"source": "startup"}));
    let text = claude_code(2).replace("/project", &client.project().to_string_lossy());
    fs::write(&client.transcript, text.lines().next().unwrap().to_owned() + "\n").unwrap();
    client.event(&[], "UserPromptSubmit", json!({"prompt": "p"}));
    fs::write(&client.transcript, &text).unwrap();
    client.write("a", "two");
    client.write("b", "new");
    client.event(&[], "PostToolUse", bash("make"));
    let found = client.files();
    assert_eq!((found["a"].as_str(), found["b"].as_str()), ("two", "new"));

    // A tool that names its file: no other file is read.
    client.write("a", "three");
    client.write("b", "not looked at");
    let edit =
        json!({"tool_name": "Edit", "tool_input": {"file_path": client.project().join("a")}});
    client.event(&[], "PostToolUse", edit);
    let found = client.files();
    assert_eq!((found["a"].as_str(), found["b"].as_str()), ("three", "new"));
    let read =
        json!({"tool_name": "Read", "tool_input": {"file_path": client.project().join("b")}});
    client.event(&[], "PostToolUse", read);
    assert_eq!(client.files()["b"], "new");
    client.event(&[], "Stop", json!({}));
    assert_eq!(client.files()["b"], "not looked at");
    assert_eq!(client.commits().len(), 3, "the beginning and two turns");
}

#[test]
fn what_was_in_a_file_before_an_edit_is_in_the_turn_before() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    let text = claude_code(3).replace("/project", &client.project().to_string_lossy());
    let lines: Vec<&str> = text.lines().collect();
    let write = |count: usize| {
        fs::write(&client.transcript, lines[..count].join("\n") + "\n").unwrap();
    };
    write(1);
    client.event(&[], "UserPromptSubmit", json!({"prompt": "p"}));
    write(3);
    client.event(&[], "PreToolUse", bash("ls"));
    write(4);
    client.write(".hidden", "after");
    let edit = json!({"tool_name": "Edit", "tool_input": {"file_path": client.project().join(".hidden")},
                      "tool_response": {"originalFile": "before"}});
    client.event(&[], "PostToolUse", edit);
    let (repo, commits) = (client.repo(), client.commits());
    let titles = commits.iter().map(|id| repo.commit(id).unwrap().message);
    let changed = titles.clone().position(|title| title.contains("part_2")).unwrap();
    assert_eq!(files(&repo, &commits[changed - 1])[".hidden"], "before");
    assert_eq!(files(&repo, &commits[changed])[".hidden"], "after");
    assert!(
        titles.clone().nth(changed - 1).unwrap().contains("part_1"),
        "{:?}",
        titles.collect::<Vec<_>>()
    );
}

#[test]
fn what_may_be_lost_is_pinned_before() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    client.write("a", "one");
    fs::write(
        &client.transcript,
        claude_code(2).replace("/project", &client.project().to_string_lossy()),
    )
    .unwrap();
    client.event(&[], "SessionStart", json!({"source": "startup"}));
    client.write("a", "by hand");
    client.event(&[], "PreToolUse", bash("ls"));
    assert!(client.repo().pins().unwrap().is_empty());
    client.event(&[], "PreToolUse", bash("rm -rf *"));
    client.event(&[], "PreToolUse", bash("rm -rf *"));
    let repo = client.repo();
    let pins = repo.pins().unwrap();
    let [pin] = &pins[..] else { panic!("{pins:?}") };
    assert_eq!(files(&repo, &pin.commit)["a"], "by hand");
    assert_eq!(repo.commit(&pin.commit).unwrap().trigger, Trigger::BeforeTool);
    assert!(pin.expires_micros.is_some());

    client.event(&[], "PreCompact", json!({"trigger": "auto"}));
    client.event(&[], "PreCompact", json!({"trigger": "auto"}));
    let repo = client.repo();
    let pins = repo.pins().unwrap();
    let before = pins.iter().find(|pin| pin.reason == "before compaction").unwrap();
    assert!(pins.len() == 2 && before.expires_micros.is_some());
    assert_eq!(files(&repo, &before.commit)["a"], "by hand");
}

#[test]
fn a_sub_agent_is_a_session_of_its_own() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    fs::write(&client.transcript, claude_code(2)).unwrap();
    let path = client.root.path().join("s-1/subagents/agent-a1.jsonl");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let told = claude_code(3).replace(r#""cwd""#, r#""isSidechain":true,"agentId":"a1","cwd""#);
    fs::write(&path, told).unwrap();
    let stop = json!({"agent_id": "a1", "agent_transcript_path": path});
    client.event(OFF, "SubagentStop", stop);
    let branches = client.repo().branches();
    assert_eq!(branches[0].0.to_string(), "s-1-agent-a1/main");
    let context = client.repo().context(&branches[0].1).unwrap();
    assert!(context.count(&client.repo(), "agents/a1@main/messages").unwrap() > 0);
}

#[test]
fn codex_is_followed_by_its_rollout() {
    let client = Client::new(PROGRAM, "rollout-2026-11-20-s-1.jsonl");
    let at = |kind: &str, payload: Value| {
        json!({"timestamp": "2026-11-20T10:00:00Z", "type": kind, "payload": payload}).to_string()
    };
    let item = |payload: Value| at("response_item", payload);
    let project = client.project();
    let lines = [
        at("session_meta", json!({"id": "s-1", "cwd": project})),
        item(
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}),
        ),
        item(
            json!({"type": "custom_tool_call", "name": "apply_patch", "input": "x", "call_id": "1"}),
        ),
        item(json!({"type": "custom_tool_call_output", "call_id": "1", "output": "ok"})),
        item(
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}),
        ),
    ];
    let common = |more: Value| {
        let mut all = json!({"model": "m", "permission_mode": "default", "turn_id": "1"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let write = |count: usize| {
        fs::write(&client.transcript, lines[..count].join("\n") + "\n").unwrap();
    };
    client.event(&[], "SessionStart", json!({"model": "m", "source": "startup"}));
    write(2);
    client.event(&[], "UserPromptSubmit", common(json!({"prompt": "go"})));
    write(3);
    client.write("new.rs", "fn new() {}\n");
    client.write("other", "not named");
    let patch = "*** Begin Patch\n*** Add File: new.rs\n+fn new() {}\n*** End Patch\n";
    let tool = json!({"tool_name": "apply_patch", "tool_input": {"command": patch}, "tool_use_id": "1",
                      "tool_response": "ok"});
    client.event(&[], "PostToolUse", common(tool));
    assert_eq!(client.files().into_keys().collect::<Vec<_>>(), ["new.rs"]);
    write(5);
    client.event(&[], "Stop", common(json!({"stop_hook_active": false})));
    assert_eq!(client.files().len(), 2);
    let (repo, commits) = (client.repo(), client.commits());
    let titles: Vec<String> = commits.iter().map(|id| repo.commit(id).unwrap().message).collect();
    assert_eq!(titles, ["files when the session began", "go", "apply_patch x", "done"]);
}

#[test]
fn gemini_is_followed_by_its_log_and_by_its_document() {
    let log = [
        json!({"sessionId": "s-1", "projectHash": "h", "startTime": "2026-11-20T10:00:00.000Z"}),
        json!({"id": "1", "timestamp": "2026-11-20T10:00:00.000Z", "type": "user", "content": "go"}),
        json!({"id": "2", "timestamp": "2026-11-20T10:00:01.000Z", "type": "gemini", "content": "Sure."}),
        json!({"id": "2", "timestamp": "2026-11-20T10:00:02.000Z", "type": "gemini", "content": "Sure.",
               "toolCalls": [{"id": "c", "name": "run_shell_command", "args": {}, "status": "success"}]}),
    ];
    let client = Client::new(PROGRAM, "session-1.jsonl");
    let mut written = String::new();
    for record in &log {
        written += &format!("{record}\n");
        fs::write(&client.transcript, &written).unwrap();
        client.write("made", &format!("{}", written.len()));
        let tool = json!({"timestamp": "2026-11-20T10:00:02.000Z", "tool_name": "run_shell_command",
                          "tool_input": {"command": "make"}, "tool_response": {"llmContent": "ok"}});
        client.event(&[], "AfterTool", tool);
        assert_eq!(client.files()["made"], written.len().to_string());
    }
    client.event(&[], "PreCompress", json!({"trigger": "auto"}));
    assert_eq!(client.repo().pins().unwrap().len(), 1);
    assert_eq!(client.commits().len(), 2);

    let client = Client::new(PROGRAM, "session-2.json");
    for count in 1..=2 {
        let messages = &log[1..=count];
        let session = json!({"sessionId": "s-1", "projectHash": "h", "messages": messages});
        let text = serde_json::to_string_pretty(&session).unwrap();
        fs::write(&client.transcript, text).unwrap();
        client.event(OFF, "AfterAgent", json!({"timestamp": "2026-11-20T10:00:02.000Z"}));
    }
    assert_eq!(client.commits().len(), 2);
}

#[test]
fn without_a_transcript_the_files_are_followed_alone() {
    let client = Client::new(PROGRAM, "not-there.jsonl");
    client.event(&[], "SessionStart", json!({"source": "startup", "transcript_path": null}));
    assert!(client.repo().branches().is_empty(), "an empty directory is nothing");
    client.write("a", "one");
    client.event(&[], "PostToolUse", bash("touch a"));
    client.event(&[], "PostToolUse", bash("touch a"));
    assert_eq!((client.commits().len(), client.files()["a"].as_str()), (1, "one"));
}

#[test]
fn many_events_at_once_are_taken_once() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    let text = claude_code(24).replace("/project", &client.project().to_string_lossy());
    let lines: Vec<&str> = text.lines().collect();
    for count in [10, 20, lines.len()] {
        fs::write(&client.transcript, lines[..count].join("\n") + "\n").unwrap();
        client.write("a", &format!("{count}"));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| client.event(&[], "PostToolUse", bash("make")));
            }
        });
    }
    let (sandbox, expected) = imported(&text);
    let (repo, commits) = (client.repo(), client.commits());
    assert_eq!(commits.len(), expected.len());
    for (here, there) in commits.iter().zip(&expected) {
        let messages = |repo: &Repository, id: &ObjectId| {
            repo.context(id).unwrap().section(repo, "agents/main/messages").unwrap()
        };
        assert_eq!(messages(&repo, here), messages(&sandbox.repo, there));
    }
    assert_eq!(client.files()["a"], lines.len().to_string());
}

#[test]
fn a_large_workspace_is_looked_at_behind_the_back_of_the_agent() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    fs::write(
        &client.transcript,
        claude_code(2).replace("/project", &client.project().to_string_lossy()),
    )
    .unwrap();
    for number in 0..17_000 {
        if number % 1000 == 0 {
            fs::create_dir(client.project().join(format!("d{}", number / 1000))).unwrap();
        }
        client.write(&format!("d{}/f{number}", number / 1000), "");
    }
    client.event(&[], "SessionStart", json!({"source": "startup"}));
    let has = |count: usize, content: &str| {
        let found = client.files();
        found.len() == count && found.get("a").is_none_or(|found| found == content)
    };
    // A background process captures the files that the event had no time for.
    until(|| has(17_000, ""));
    client.write("a", "new");
    client.event(&[], "PostToolUse", bash("make"));
    until(|| has(17_001, "new"));
    assert_eq!(client.log(), "");
}

#[test]
fn who_has_patience_has_the_files_in_the_event_itself() {
    for (given, is_whole) in [("100s", true), ("9999999y", true), ("soon", false)] {
        let client = Client::new(PROGRAM, "s-1.jsonl");
        let text = claude_code(2).replace("/project", &client.project().to_string_lossy());
        fs::write(&client.transcript, text).unwrap();
        for number in 0..1000 {
            client.write(&format!("f{number}"), given);
        }
        let event = client.payload("SessionStart", json!({"source": "startup"})).to_string();
        let mut hook = client.command(&["hook"]);
        hook.env("TURNTREE_HOOK_PATIENCE", given).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = hook.spawn().unwrap();
        child.stdin.take().unwrap().write_all(event.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(!is_whole || client.files().len() == 1000, "{given}: {}", client.files().len());
        // An invalid time counts as none.
        until(|| client.files().len() == 1000);
    }
}

#[test]
fn whatever_comes_in_it_ends_well_and_says_what_it_was_in_the_log() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    fs::write(&client.transcript, claude_code(2)).unwrap();
    client.event(OFF, "Stop", json!({}));
    let secret = "sk-canary-7f3a9c51";
    let deep = format!("{{\"hook_event_name\": {}", "[".repeat(1 << 20));
    let huge = format!("{{\"hook_event_name\": \"Stop\", \"x\": \"{}\"}}", secret.repeat(2 << 20));
    let cases: [&[u8]; 7] = [
        b"",
        b"\xff\xfe",
        secret.as_bytes(),
        b"[1]",
        b"{\"no\": 1}",
        deep.as_bytes(),
        huge.as_bytes(),
    ];
    for (number, bytes) in cases.into_iter().enumerate() {
        let output = client.give(&[], bytes);
        assert_eq!(output.status.code(), Some(0));
        assert!(output.stdout.is_empty() && output.stderr.is_empty());
        assert_eq!(client.log().lines().count(), number + 1);
    }
    assert!(!client.log().contains(secret) && client.log().contains("read the event"));
    let shown = client.command(&["hook", "log"]).output().unwrap();
    assert_eq!(String::from_utf8(shown.stdout).unwrap().lines().count(), cases.len());

    // Events of later versions, and unknown arguments.
    let before = client.log();
    let other = client.payload("SomethingNew", json!({})).to_string();
    assert!(client.give(&[], other.as_bytes()).status.success());
    let output = client.give(&["--no-such-flag"], b"{}");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    let odd = client
        .payload("Stop", json!({"transcript_path": "/dev/zero", "cwd": "/", "session_id": "../x"}));
    assert!(client.give(&[], odd.to_string().as_bytes()).status.success());
    assert_eq!(client.log(), before);

    // A store that cannot be read.
    for entry in fs::read_dir(client.store_dir().join("journal")).unwrap() {
        fs::write(entry.unwrap().path(), "damaged").unwrap();
    }
    fs::write(client.store_dir().join("superblock"), "damaged").unwrap();
    let stop = client.payload("Stop", json!({})).to_string();
    let output = client.give(&[], stop.as_bytes());
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    assert!(client.log().lines().last().unwrap().contains("open the store"), "{}", client.log());
}

#[test]
fn options_of_every_command_may_stand_before_what_hook_is_to_do() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    let (other, project) = (client.root.path().join("other"), client.project());
    let run = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.env_clear().current_dir(&project).args(arguments).output().unwrap()
    };
    let other = other.to_str().unwrap();
    assert!(run(&["hook", "--store", other, "log"]).status.success());
    let settings = project.join(".codex/hooks.json");
    assert!(run(&["hook", "--store", other, "install", "codex"]).status.success());
    assert!(fs::read_to_string(&settings).unwrap().contains(other));
    let refused = run(&["hook", "--spiral", "install", "codex"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("after 'install'"));
}

#[test]
fn a_client_that_never_closes_its_pipe_is_not_waited_for() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    client.event(OFF, "Stop", json!({}));
    let mut child = client.command(&["hook"]).stdin(Stdio::piped()).spawn().unwrap();
    let stdin = child.stdin.take();
    assert!(child.wait().unwrap().success());
    drop(stdin);
    assert!(client.log().contains("took too long"));
}

#[test]
fn long_outputs_are_put_away_and_circles_and_lessons_are_told() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    let same = claude_code(1)
        + &(1..6)
            .map(|turn| {
                let call = claude_code(2).lines().skip(1).collect::<Vec<_>>().join("\n");
                let again = call
                    .replace("msg-1", &format!("msg-{turn}"))
                    .replace("call-1", &format!("call-{turn}"));
                again + "\n"
            })
            .collect::<String>();
    fs::write(&client.transcript, same).unwrap();
    let said = "line of output\n".repeat(2000);
    let mut tool = bash("make");
    tool["tool_response"]["stdout"] = said.clone().into();
    let flags = ["--offload", "5000", "--spiral", "--lessons", "--workspace", "off"];
    let answer = client.event(&flags, "PostToolUse", tool).unwrap();
    let answer = &answer["hookSpecificOutput"];
    assert_eq!(answer["hookEventName"], "PostToolUse");
    let short = answer["updatedToolOutput"]["stdout"].as_str().unwrap();
    assert!(short.len() < 3000 && short.contains("context://vfs/"));
    let uri = short.split_whitespace().find(|word| word.starts_with("context://")).unwrap();
    let whole = client.command(&["vfs", "get", uri]).output().unwrap();
    assert_eq!(String::from_utf8(whole.stdout).unwrap(), said);
    let told = answer["additionalContext"].as_str().unwrap();
    assert!(told.contains("again and again") && told.contains("vfs get"), "{told}");

    let switched = client.command(&["switch", "s-1"]).output().unwrap();
    assert!(switched.status.success(), "its records name another directory");
    let lesson = ["lesson", "add", "--mistake", "the tests hang", "--correct", "set a timeout"];
    let added = client.command(&lesson).output().unwrap();
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    let answer = client.event(&["--lessons"], "UserPromptSubmit", json!({"prompt": "p"})).unwrap();
    let told = answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(told.contains("the tests hang"), "{told}");
}

#[test]
fn what_was_redacted_does_not_come_back_with_the_next_event() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    let text = claude_code(20);
    let (begin, _) = text.match_indices('\n').nth(11).unwrap();
    fs::write(&client.transcript, &text[..=begin]).unwrap();
    client.event(OFF, "Stop", json!({}));
    let secret = Pattern::literal("part 4 of the parser", "[redacted]").unwrap();
    redact(&client.repo(), &secret, &stamp(9)).unwrap();
    let before = client.commits();
    client.event(OFF, "UserPromptSubmit", json!({"prompt": "p"}));
    assert_eq!(client.commits(), before);
    fs::write(&client.transcript, &text).unwrap();
    client.event(OFF, "Stop", json!({}));
    let commits = client.commits();
    assert_eq!(commits.len(), imported(&text).1.len());
    assert!(commits.starts_with(&before[..before.len() - 1]));
    assert_eq!(plan_redaction(&client.repo(), &secret).unwrap().matches, 0);
}
