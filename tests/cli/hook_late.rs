//! A client that writes its transcript late, in pieces, after the event: every change is still in
//! its turn.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};
use turntree::object::ObjectId;
use turntree_tests::client::{Client, files, line, until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// A line of a transcript of Claude Code.
fn record(
    client: &Client,
    number: usize,
    kind: &str,
    message: &Value,
    agent: Option<&str>,
) -> String {
    let mut record = json!({"type": kind, "uuid": format!("u-{number}"), "sessionId": "s-1",
        "cwd": client.project(), "version": "2.1.330",
        "timestamp": format!("2026-11-20T10:00:{number:02}.000Z"), "message": message});
    if let Some(agent) = agent {
        record["isSidechain"] = json!(true);
        record["agentId"] = json!(agent);
    }
    format!("{record}\n")
}

fn prompt(client: &Client, number: usize, text: &str) -> String {
    record(client, number, "user", &json!({"role": "user", "content": text}), None)
}

fn call(client: &Client, number: usize, id: &str, tool: &str) -> String {
    let content = json!([{"type": "tool_use", "id": id, "name": tool, "input": {"command": id}}]);
    let message = json!({"role": "assistant", "id": format!("m-{id}"), "content": content});
    record(client, number, "assistant", &message, None)
}

fn result(client: &Client, number: usize, id: &str) -> String {
    let content =
        json!([{"type": "tool_result", "tool_use_id": id, "content": format!("of {id}")}]);
    record(client, number, "user", &json!({"role": "user", "content": content}), None)
}

fn answer(client: &Client, number: usize, text: &str) -> String {
    let content = json!([{"type": "text", "text": text}]);
    let message = json!({"role": "assistant", "id": format!("m-{number}"), "content": content});
    record(client, number, "assistant", &message, None)
}

fn bash(id: &str, command: &str) -> Value {
    json!({"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": id,
           "tool_response": {"stdout": "", "stderr": ""}})
}

/// The actions of the test's agent: it writes a file, lists the directory, and removes both files.
/// Each step is an event before and after it, and the resulting lines of the transcript.
fn clean_up(client: &Client, mut write: impl FnMut(&str, usize)) {
    let lines = [
        prompt(client, 1, "clean up"),
        call(client, 2, "toolu_w", "Write") + &result(client, 3, "toolu_w"),
        call(client, 4, "toolu_l", "Bash") + &result(client, 5, "toolu_l"),
        call(client, 6, "toolu_r", "Bash") + &result(client, 7, "toolu_r"),
        answer(client, 8, "done"),
    ];
    client.write("keep.txt", "keep");
    client.event(&[], "SessionStart", json!({"source": "startup"}));
    write(&lines[0], 0);
    client.event(&[], "UserPromptSubmit", json!({"prompt": "clean up"}));
    client.write("work.txt", "work");
    let path = client.project().join("work.txt");
    let tool =
        json!({"tool_name": "Write", "tool_input": {"file_path": path}, "tool_use_id": "toolu_w"});
    write(&lines[1], 1);
    client.event(&[], "PostToolUse", tool);
    write(&lines[2], 2);
    client.event(&[], "PreToolUse", bash("toolu_l", "ls"));
    client.event(&[], "PostToolUse", bash("toolu_l", "ls"));
    write(&lines[3], 3);
    client.event(&[], "PreToolUse", bash("toolu_r", "rm keep.txt work.txt"));
    for name in ["keep.txt", "work.txt"] {
        fs::remove_file(client.project().join(name)).unwrap();
    }
    client.event(&[], "PostToolUse", bash("toolu_r", "rm keep.txt work.txt"));
    write(&lines[4], 4);
}

/// The names of the files of each turn, by its message.
fn by_turn(client: &Client) -> BTreeMap<String, Vec<String>> {
    let repo = client.repo();
    let of = |id: &ObjectId| {
        let names = files(&repo, id).into_keys().collect();
        (repo.commit(id).unwrap().message, names)
    };
    client.commits().iter().map(of).collect()
}

fn expected() -> BTreeMap<String, Vec<String>> {
    let turn = |title: &str, names: &[&str]| {
        (title.to_owned(), names.iter().map(|name| (*name).to_owned()).collect())
    };
    BTreeMap::from([
        turn("files when the session began", &["keep.txt"]),
        turn("clean up", &["keep.txt"]),
        turn("Write toolu_w", &["keep.txt", "work.txt"]),
        turn("Bash toolu_l", &["keep.txt", "work.txt"]),
        turn("Bash toolu_r", &[]),
        turn("done", &[]),
    ])
}

/// The names of the files of each turn, in order. Titles may repeat.
fn lists(client: &Client) -> Vec<Vec<String>> {
    let commits = client.commits();
    let repo = client.repo();
    commits.iter().map(|id| files(&repo, id).into_keys().collect()).collect()
}

#[test]
fn files_are_in_the_turn_of_their_call_however_late_that_is_written() {
    for delay in 0..=5 {
        let client = Client::new(PROGRAM, "s-1.jsonl");
        let mut late: Vec<String> = Vec::new();
        clean_up(&client, |lines, step| {
            late.push(lines.to_owned());
            // The transcript lags some steps behind.
            let written = (step + 1).saturating_sub(delay).max(1);
            fs::write(&client.transcript, late[..written].concat()).unwrap();
        });
        fs::write(&client.transcript, late.concat()).unwrap();
        client.event(&[], "UserPromptSubmit", json!({"prompt": "next"}));
        assert_eq!(by_turn(&client), expected(), "{delay} steps late");
        let rolled = client.command(&["rollback", "--to-turn", "4"]).output().unwrap();
        assert!(rolled.status.success(), "{}", String::from_utf8_lossy(&rolled.stderr));
        for (name, content) in [("keep.txt", "keep"), ("work.txt", "work")] {
            let found = fs::read_to_string(client.project().join(name)).unwrap();
            assert_eq!(found, content, "{delay} steps late");
        }
    }
}

#[test]
fn an_import_joins_files_to_calls_that_no_event_has_seen() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    let mut all = String::new();
    clean_up(&client, |lines, step| {
        all += lines;
        if step == 0 {
            fs::write(&client.transcript, &all).unwrap();
        }
    });
    assert_eq!(client.commits().len(), 2, "the beginning and the prompt");
    fs::write(&client.transcript, &all).unwrap();
    // A collection keeps the pending files, too.
    for verb in [&["gc"][..], &["repack"], &["import", "--session", "s-1"]] {
        let mut command = client.command(verb);
        if verb[0] == "import" {
            command.arg(&client.transcript);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(by_turn(&client), expected());
    let left = client.repo().refs().values.keys().any(|name| name.starts_with("refs/captures/"));
    assert!(!left, "no work is waiting");
}

#[test]
fn parallel_calls_that_are_written_late_share_their_turn() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    let begin = prompt(&client, 1, "go");
    fs::write(&client.transcript, &begin).unwrap();
    client.event(&[], "SessionStart", json!({"source": "startup"}));
    client.write("b", "two");
    client.event(&[], "PostToolUse", bash("toolu_2", "make b"));
    client.write("a", "one");
    client.event(&[], "PostToolUse", bash("toolu_1", "make a"));
    client.write("c", "three");
    client.event(&[], "PostToolUse", bash("toolu_3", "make c"));
    let content = json!([{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}},
                         {"type": "tool_use", "id": "toolu_2", "name": "Bash", "input": {}}]);
    let message = json!({"role": "assistant", "id": "m-1", "content": content});
    let both = record(&client, 2, "assistant", &message, None);
    let rest = call(&client, 5, "toolu_3", "Bash") + &result(&client, 6, "toolu_3");
    let text = begin + &both + &result(&client, 3, "toolu_2") + &result(&client, 4, "toolu_1");
    fs::write(&client.transcript, &text).unwrap();
    client.event(&[], "UserPromptSubmit", json!({"prompt": "next"}));
    assert_eq!(lists(&client), [vec![], vec!["a", "b"]]);
    // The third call is still pending.
    fs::write(&client.transcript, text + &rest).unwrap();
    client.event(&[], "UserPromptSubmit", json!({"prompt": "next"}));
    assert_eq!(lists(&client), [vec![], vec!["a", "b"], vec!["a", "b", "c"]]);
}

#[test]
fn the_end_of_a_session_is_taken_in_when_the_client_has_written_it() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    let begin = prompt(&client, 1, "go");
    fs::write(&client.transcript, &begin).unwrap();
    client.event(&[], "UserPromptSubmit", json!({"prompt": "go"}));
    client.write("made", "by a call that is never written");
    client.event(&[], "PostToolUse", bash("toolu_lost", "make"));
    client.event(&[], "Stop", json!({}));
    client.event(&[], "SessionEnd", json!({"reason": "other"}));
    // The transcript is complete only after the last event.
    fs::write(&client.transcript, begin.clone() + &answer(&client, 2, "done")).unwrap();
    until(|| client.commits().len() == 3);
    until(|| lists(&client).last() == Some(&vec!["made".to_owned()]));

    // The log reports a session that ends without an answer.
    let other = Client::new(PROGRAM, "s-2.jsonl");
    fs::write(&other.transcript, prompt(&other, 1, "go")).unwrap();
    other.event(&[], "SessionEnd", json!({"reason": "other"}));
    until(|| other.log().contains("the last record is not an answer"));
}

#[test]
fn a_sub_agent_has_its_answer_and_its_files() {
    let client = Client::new(PROGRAM, "s-1.jsonl");
    let begin = prompt(&client, 1, "go") + &call(&client, 2, "toolu_agent", "Agent");
    fs::write(&client.transcript, &begin).unwrap();
    client.event(&[], "UserPromptSubmit", json!({"prompt": "go"}));
    let path = client.root.path().join("s-1/subagents/agent-a1.jsonl");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let said =
        |number, kind: &str, message: Value| record(&client, number, kind, &message, Some("a1"));
    let tool = json!([{"type": "tool_use", "id": "toolu_sub", "name": "Bash", "input": {}}]);
    let done = json!([{"type": "tool_result", "tool_use_id": "toolu_sub", "content": "ok"}]);
    let lines = [
        said(3, "user", json!({"role": "user", "content": "do it"})),
        said(4, "assistant", json!({"role": "assistant", "id": "m-4", "content": tool})),
        said(5, "user", json!({"role": "user", "content": done})),
        said(
            6,
            "assistant",
            json!({"role": "assistant", "id": "m-6",
            "content": [{"type": "text", "text": "THE-ANSWER"}]}),
        ),
    ];
    fs::write(&path, lines[..2].concat()).unwrap();
    client.write("made", "by the sub-agent");
    let mut event = bash("toolu_sub", "make");
    event["agent_id"] = json!("a1");
    client.event(&[], "PostToolUse", event);
    fs::write(&path, lines[..3].concat()).unwrap();
    client.event(&[], "SubagentStop", json!({"agent_id": "a1", "agent_transcript_path": path}));
    fs::write(&path, lines.concat()).unwrap();
    let tool = json!({"tool_name": "Agent", "tool_input": {}, "tool_use_id": "toolu_agent"});
    client.event(&[], "PostToolUse", tool);

    let repo = client.repo();
    let tip = repo.tip(&"s-1-agent-a1/main".parse().unwrap()).unwrap();
    let turns = line(&repo, &tip);
    let last = repo.commit(turns.last().unwrap()).unwrap();
    assert_eq!(last.message, "THE-ANSWER");
    assert_eq!(files(&repo, &tip).into_keys().collect::<Vec<_>>(), ["made"]);
    let main = repo.tip(&"s-1/main".parse().unwrap()).unwrap();
    assert_eq!(files(&repo, &main)["made"], "by the sub-agent");
}
