//! `turntree serve --stdio`: requests in lines, answered in order.

use std::io::Write;

use serde_json::{Value, json};
use turntree_tests::schema;
use turntree_tests::server_process::{Place, Server};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

fn serve(place: &Place) -> Server {
    place.server(&["serve", "--stdio", "--workspace", "work"])
}

/// Runs an exploration of one strategy.
fn explore(place: &Place) {
    let trees = tempfile::tempdir().unwrap();
    let folder = trees.path().to_str().unwrap();
    let _ = place.run(&["explore", "--strategy", "one=x", "--folder", folder, "--", "true"]);
}

#[test]
fn every_method_answers_as_it_describes_itself() {
    let place = Place::new(PROGRAM);
    let uri = place.with_turns(3);
    explore(&place);
    let mut server = serve(&place);
    let described = server.call("describe", &json!({})).unwrap();
    let methods = described["methods"].as_array().unwrap();
    let calls = [
        ("status", json!({})),
        ("snapshot", json!({"message": "by a program", "pin": true})),
        ("sessions", json!({"limit": 2})),
        ("log", json!({"limit": 2})),
        ("outline", json!({"limit": 2})),
        ("show", json!({"revision": "turn:2:scratchpad/note"})),
        ("diff", json!({"old": "turn:1", "text": true})),
        ("search", json!({"pattern": "note [12]"})),
        ("branch", json!({"action": "list"})),
        ("merge", json!({"revision": "plan-b", "dry_run": true})),
        ("resolve", json!({})),
        ("compare", json!({"revisions": ["main", "plan-b"]})),
        ("explore_status", json!({"name": "explore"})),
        ("restore", json!({"revision": "turn:1"})),
        ("undo", json!({})),
        ("tag", json!({"action": "add", "name": "by-a-program"})),
        ("pin", json!({"action": "add", "revision": "turn:2"})),
        ("export", json!({"format": "markdown"})),
        ("compact", json!({"offload_over": 200, "dry_run": true})),
        ("offload", json!({"text": "line\n".repeat(10_000)})),
        ("read_vfs", json!({"uri": uri, "limit": 100})),
        ("spiral", json!({})),
        ("lessons", json!({"action": "add", "tool": "sed", "mistake": "a", "correct": "b"})),
    ];
    for method in methods {
        let name = method["name"].as_str().unwrap();
        let (_, params) = calls.iter().find(|(known, _)| *known == name).expect(name);
        schema::check(&method["params"], params).unwrap();
        let result = server.call(name, params).unwrap();
        schema::check(&method["result"], &result).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    assert_eq!(server.end(), (Some(0), String::new()));
}

#[test]
fn answers_are_the_records_of_the_command_line() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(3);
    let mut server = serve(&place);
    let by_command = |words: &[&str]| -> Value {
        serde_json::from_str(&place.run(&[words, &["--json"]].concat())).unwrap()
    };
    let mut status = server.call("status", &json!({})).unwrap();
    status["store"] = "store".into();
    assert_eq!(status, by_command(&["status"]));
    let logged = server.call("log", &json!({})).unwrap();
    let lines = place.run(&["log", "--json"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(logged["snapshots"], Value::Array(lines));
    let shown = server.call("show", &json!({"revision": "HEAD:scratchpad/note"})).unwrap();
    assert_eq!(shown["entry"], by_command(&["show", "HEAD:scratchpad/note"]));
    let shown = server.call("show", &json!({"revision": "HEAD:agents/main/messages"})).unwrap();
    assert_eq!(shown["listing"], by_command(&["ls", "HEAD:agents/main/messages"]));
    let compared = server.call("diff", &json!({"old": "HEAD~1"})).unwrap();
    assert_eq!(compared["sections"], by_command(&["diff", "HEAD~1"]));
    let told = server.call("outline", &json!({})).unwrap();
    let lines = place.run(&["outline", "--json"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(told["prompts"], Value::Array(lines));
    let listed = server.call("sessions", &json!({})).unwrap();
    assert_eq!(listed["sessions"], by_command(&["sessions"])["sessions"]);
    let listed = server.call("branch", &json!({})).unwrap();
    assert_eq!(listed["branches"], by_command(&["branch"])["branches"]);
    let found = server.call("search", &json!({"pattern": "note 2"})).unwrap();
    assert_eq!(found["places"], json!([by_command(&["grep", "note 2"])]));
    assert_eq!(server.call("compare", &json!({})).unwrap(), by_command(&["compare"]));
    explore(&place);
    let mut explored = server.call("explore_status", &json!({})).unwrap();
    assert_eq!(explored.as_object_mut().unwrap().remove("more_trials"), Some(json!(0)));
    assert_eq!(explored, by_command(&["explore", "status"]));
    let made = server.call("tag", &json!({"action": "add", "name": "t"})).unwrap();
    assert_eq!(made["tags"], by_command(&["tag"])["tags"]);
    let pinned = server.call("pin", &json!({"action": "add", "name": "p"})).unwrap();
    assert_eq!(pinned["pins"], by_command(&["pins"])["pins"]);
    let mut undo = server.call("undo", &json!({})).unwrap();
    for own in ["plan_id", "destructive", "more_files"] {
        undo.as_object_mut().unwrap().remove(own);
    }
    assert_eq!(undo, by_command(&["undo", "--dry-run"]));
}

#[test]
fn a_turn_sends_what_is_new_and_the_rest_stays() {
    let place = Place::new(PROGRAM);
    let mut server = place.server(&["serve", "--stdio"]);
    let mut longest = 0;
    for turn in 1..=200 {
        let said = json!({"role": "user", "content": format!("message {turn}")});
        let params = json!({
            "message": format!("turn {turn}"),
            "append": {"agents": {"main": [said]}},
            "set": {"scratchpad/turn": turn, "memory/shared": {"n": turn % 3}},
        });
        longest = longest.max(params.to_string().len());
        assert_eq!(server.call("snapshot", &params).unwrap()["turn"], turn);
    }
    assert!(longest < 200, "no turn sends the conversation again: {longest} bytes");
    assert_eq!(server.call("status", &json!({})).unwrap()["messages"], 200);
    let last = json!({"revision": "HEAD:agents/main/messages/199"});
    let shown = server.call("show", &last).unwrap();
    assert!(shown["entry"]["text"].as_str().unwrap().contains("message 200"));
    let changed = server.call("diff", &json!({"old": "turn:199", "new": "turn:200"})).unwrap();
    assert_eq!(changed["sections"].to_string().matches("\"index\"").count(), 1, "{changed}");
    let params = json!({"message": "m", "unset": ["scratchpad/turn"]});
    server.call("snapshot", &params).unwrap();
    let error = server.call("snapshot", &params).unwrap_err();
    assert_eq!(error["message"], "unset: 'scratchpad/turn' does not exist");
}

/// Merges two branches that changed a note differently.
fn with_a_conflict(server: &mut Server) {
    let note = |text: &str| json!({"message": text, "set": {"scratchpad/note": text}});
    server.call("snapshot", &note("ours")).unwrap();
    server.call("branch", &json!({"action": "switch", "name": "plan-b"})).unwrap();
    server.call("snapshot", &note("theirs")).unwrap();
    server.call("branch", &json!({"action": "switch", "name": "main"})).unwrap();
    let merged = server.call("merge", &json!({"revision": "plan-b"})).unwrap();
    assert_eq!(merged["conflicts"][0]["path"], "scratchpad/note", "{merged}");
}

#[test]
fn a_merge_with_a_conflict_is_finished_where_it_began() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(2);
    let mut server = serve(&place);
    with_a_conflict(&mut server);
    let listed = server.call("resolve", &json!({})).unwrap();
    assert_eq!((&listed["open"], &listed["next_offset"]), (&json!(1), &Value::Null));
    assert_eq!(listed["conflicts"][0]["path"], "scratchpad/note");
    let theirs = json!({"revision": "HEAD:conflicts/theirs/scratchpad/note"});
    assert_eq!(server.call("show", &theirs).unwrap()["entry"]["text"], "theirs");
    for (params, said) in [
        (json!({"take": "theirs"}), "all = true"),
        (json!({"take": "mine", "all": true}), "expected ours, theirs, base or current"),
        (json!({"content": "x", "all": true}), "one path"),
        (json!({"take": "ours", "paths": ["scratchpad/other"]}), "call resolve without take"),
    ] {
        let error = server.call("resolve", &params).unwrap_err();
        assert!(error["message"].as_str().unwrap().contains(said), "{params}: {error}");
    }
    let params = json!({"paths": ["scratchpad/note"], "content": "both"});
    let decided = server.call("resolve", &params).unwrap();
    assert_eq!((&decided["open"], &decided["resolved"]["turn"]), (&json!(0), &json!(5)));
    let note = json!({"revision": "HEAD:scratchpad/note"});
    assert_eq!(server.call("show", &note).unwrap()["entry"]["text"], "both");
    assert_eq!(server.call("status", &json!({})).unwrap()["conflicts"], 0);
}

#[test]
fn an_undo_is_planned_then_done_and_brings_files_back() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(3);
    let mut server = serve(&place);
    let plan = server.call("restore", &json!({"revision": "turn:1"})).unwrap();
    let params = json!({"revision": "turn:1", "plan_id": plan["plan_id"]});
    server.call("restore", &params).unwrap();
    assert_eq!(place.read("notes.txt").as_deref(), Some("1\n"));
    let plan = server.call("undo", &json!({})).unwrap();
    assert_eq!((&plan["destructive"], &plan["operation"]), (&json!(true), &Value::Null));
    assert_eq!(plan["workspace"]["files"][0]["path"], "notes.txt");
    assert_eq!(place.read("notes.txt").as_deref(), Some("1\n"), "a plan changes nothing");
    let blind = server.call("undo", &json!({"dry_run": false})).unwrap_err();
    assert_eq!(blind["code"], -32602);
    place.write("notes.txt", "by hand\n");
    let stale = server.call("undo", &json!({"plan_id": plan["plan_id"]})).unwrap_err();
    assert_eq!(stale["data"]["error"], "conflict");
    let plan = server.call("undo", &json!({})).unwrap();
    let done = server.call("undo", &json!({"plan_id": plan["plan_id"]})).unwrap();
    assert!(done["operation"].is_u64() && done["plan_id"].is_null(), "{done}");
    assert_eq!(place.read("notes.txt").as_deref(), Some("3\n"));
    let plan = server.call("undo", &json!({"redo": true})).unwrap();
    let params = json!({"redo": true, "plan_id": plan["plan_id"]});
    server.call("undo", &params).unwrap();
    assert_eq!(place.read("notes.txt").as_deref(), Some("by hand\n"));
    // Without a workspace only the branch is rolled back.
    let plan = server.call("undo", &json!({})).unwrap();
    server.call("undo", &json!({"plan_id": plan["plan_id"]})).unwrap();
    let _ = server.end();
    let mut blind = place.server(&["serve", "--stdio"]);
    let redo = blind.call("undo", &json!({"redo": true})).unwrap_err();
    assert!(redo["message"].as_str().unwrap().contains("files = false"), "{redo}");
    std::fs::create_dir(place.path().join("elsewhere")).unwrap();
    let mut other = place.server(&["serve", "--stdio", "--workspace", "elsewhere"]);
    let redo = other.call("undo", &json!({"redo": true})).unwrap_err();
    assert!(redo["message"].as_str().unwrap().contains("another directory"), "{redo}");
    let alone = json!({"redo": true, "files": false, "dry_run": false});
    assert!(blind.call("undo", &alone).unwrap()["operation"].is_u64());
}

#[test]
fn an_export_comes_in_parts_or_as_a_new_file_inside_the_workspace() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(3);
    let mut server = serve(&place);
    for (format, option) in [("markdown", "markdown"), ("jsonl", "jsonl"), ("html", "html")] {
        let whole = place.run(&["export", "work", "--format", option]);
        let (mut joined, mut offset) = (String::new(), json!(0));
        while !offset.is_null() {
            let params = json!({"revisions": ["work"], "format": format, "offset": offset,
                "limit": 50_000});
            let part = server.call("export", &params).unwrap();
            joined.push_str(part["text"].as_str().unwrap());
            offset = part["next_offset"].clone();
        }
        assert_eq!(joined, whole, "{format}");
    }
    let written = |path: &str| json!({"format": "jsonl", "path": path});
    let done = server.call("export", &written("chat.jsonl")).unwrap();
    assert_eq!(place.read("chat.jsonl").unwrap().len() as u64, done["bytes"].as_u64().unwrap());
    let work = place.path().join("work");
    std::fs::create_dir(work.join(".git")).unwrap();
    std::os::unix::fs::symlink(place.path(), work.join("out")).unwrap();
    std::os::unix::fs::symlink(".git", work.join("inner")).unwrap();
    for path in [
        "chat.jsonl",
        "../chat.jsonl",
        "/tmp/chat.jsonl",
        "a/../../x",
        ".git/hook",
        "out/x",
        "inner/x",
        "",
        ".",
        "nowhere/x",
        ".hidden",
    ] {
        let error = server.call("export", &written(path)).unwrap_err();
        assert!(error["code"] != -32603, "{path}: {error}");
    }
    assert!(!place.path().join("x").exists() && !place.path().join("chat.jsonl").exists());
    let mut bare = place.server(&["serve", "--stdio"]);
    assert_eq!(bare.call("export", &written("x")).unwrap_err()["data"]["error"], "unsupported");
    let params = json!({"format": "word"});
    let error = bare.call("export", &params).unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("markdown, html"), "{error}");
}

#[test]
fn tags_pins_and_texts_are_kept_by_programs_too() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(2);
    let mut server = serve(&place);
    let made =
        json!({"action": "add", "name": "good", "revision": "turn:1", "message": "it works"});
    assert_eq!(server.call("tag", &made).unwrap()["tags"][0]["turn"], 1);
    assert_eq!(server.call("tag", &made).unwrap_err()["code"], -32602, "a tag does not move");
    assert_eq!(server.call("tag", &json!({"action": "add"})).unwrap_err()["code"], -32602);
    let gone = server.call("tag", &json!({"action": "delete", "name": "good"})).unwrap();
    assert_eq!(gone["deleted"][0]["tag"], "good");
    assert_eq!(server.call("tag", &json!({})).unwrap()["tags"], json!([]));
    let pin = json!({"action": "add", "revision": "turn:1", "reason": "why", "expires": "30d"});
    let pinned = server.call("pin", &pin).unwrap();
    assert_eq!(
        (&pinned["pins"][0]["turn"], &pinned["pins"][0]["reason"]),
        (&json!(1), &json!("why"))
    );
    let removed = server.call("pin", &json!({"action": "remove", "revision": "turn:1"})).unwrap();
    assert_eq!(removed["unpinned"][0]["pin"], pinned["pins"][0]["pin"]);
    assert_eq!(server.call("pin", &json!({})).unwrap()["pins"], json!([]));
    let text = "line\n".repeat(10_000);
    let stored = server.call("offload", &json!({"text": text, "tail_lines": 2})).unwrap();
    assert_eq!(stored["offloaded"], true);
    let uri = &stored["uri"];
    assert!(stored["content"].as_str().unwrap().contains(uri.as_str().unwrap()));
    let params = json!({"uri": uri, "limit": 262_144});
    assert_eq!(server.call("read_vfs", &params).unwrap()["text"], text);
    assert_eq!(server.call("offload", &json!({"text": "short"})).unwrap()["content"], "short");
}

#[test]
fn a_context_of_any_size_goes_in_by_several_calls() {
    let place = Place::new(PROGRAM);
    let mut server = place.server(&["serve", "--stdio"]);
    // 30 MiB, while a line takes at most 16.
    let part = |n: u8| char::from(b'a' + n).to_string().repeat(10 << 20);
    for n in 0..3 {
        let said = json!({"role": "tool", "content": part(n)});
        let params = json!({"message": "part", "append": {"agents": {"main": [said]}}});
        server.call("snapshot", &params).unwrap();
    }
    for n in 0..3 {
        let message = json!({"revision": format!("HEAD:agents/main/messages/{n}")});
        let shown = server.call("show", &message).unwrap();
        assert!(shown["entry"]["size"].as_u64().unwrap() > 10 << 20);
    }
    let two = [part(0), part(1)].concat();
    let params = json!({"message": two});
    let error = server.call("snapshot", &params).unwrap_err();
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("16 MiB") && message.contains("append"), "{message}");
}

#[test]
fn slips_in_a_context_are_told_and_sections_that_are_there_stay_usable() {
    let place = Place::new(PROGRAM);
    let mut server = place.server(&["serve", "--stdio"]);
    for (params, said) in [
        (
            json!({"state": {"messages": [{"role": "user", "content": "hi"}]}}),
            r#"{"agents": {"main": {"messages": [...]}}}"#,
        ),
        (json!({"append": {"messages": [{"role": "user"}]}}), r#"{"agents": {"main": [...]}}"#),
        (json!({"state": {"scratchpadd": {}}}), "did you mean 'scratchpad'?"),
        (json!({"set": {"scratchpad": {"a": 1}}}), "scratchpad/name"),
    ] {
        let mut params = params;
        params["message"] = "m".into();
        let error = server.call("snapshot", &params).unwrap_err();
        assert_eq!(error["code"], -32602);
        assert!(error["message"].as_str().unwrap().contains(said), "{error}");
    }
    assert!(!place.path().join("store").exists(), "input that is wrong makes no store");
    server.call("snapshot", &json!({"message": "m", "state": {"x-mine": {"a": "1"}}})).unwrap();
    server.call("snapshot", &json!({"message": "m", "set": {"x-mine/b": "2"}})).unwrap();
    let shown = server.call("show", &json!({"revision": "HEAD:x-mine"})).unwrap();
    assert_eq!(shown["listing"]["entries"].as_array().unwrap().len(), 2);
}

#[test]
fn ids_of_every_type_come_back_and_notifications_get_no_answer() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(1);
    let mut server = serve(&place);
    for id in ["1", "-7", "2.5", "\"a\"", "\"\"", "null", "18446744073709551615"] {
        server.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"status"}}"#));
        let answer = server.receive();
        assert_eq!(answer["id"], serde_json::from_str::<Value>(id).unwrap(), "{answer}");
        assert_eq!(answer["result"]["turn"], 1);
    }
    server.send(r#"{"jsonrpc":"2.0","method":"snapshot","params":{"message":"noted"}}"#);
    server.send("");
    server.send(r#"{"jsonrpc":"2.0","method":"nothing"}"#);
    let logged = server.call("log", &json!({"limit": 1})).unwrap();
    assert_eq!(logged["snapshots"][0]["message"], "noted", "a notification is done");
}

#[test]
fn what_is_no_request_is_refused_and_the_next_one_is_answered() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(1);
    let mut server = serve(&place);
    for (line, code) in [
        ("{", -32700),
        ("nothing", -32700),
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"status"}]"#, -32600),
        ("1", -32600),
        ("{}", -32600),
        (r#"{"id":1,"method":"status"}"#, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"status"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"status"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"stat"}"#, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"status","params":[]}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"status","params":{"x":1}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"log","params":{"limit":0}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"log","params":{"limit":-1}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"log","params":{"cursor":"x"}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"search","params":{"pattern":"("}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"show","params":{"revision":"nowhere"}}"#, -32006),
    ] {
        server.send(line);
        let answer = server.receive();
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
        assert!(answer.get("result").is_none());
    }
    let long = "x".repeat(17 << 20);
    for (line, id) in [
        (format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{long}"}}"#), json!(1)),
        (format!(r#"{{"method":"{long}","jsonrpc":"2.0","id":"a"}}"#), json!("a")),
        (long, Value::Null),
    ] {
        server.send(&line);
        let answer = server.receive();
        assert_eq!(answer["error"]["code"], -32600, "a line that is too long");
        assert_eq!(answer["id"], id);
    }
    let deep = "[".repeat(100_000);
    server.send(&deep);
    assert_eq!(server.receive()["error"]["code"], -32700, "a line that is too deep");
    assert_eq!(server.call("status", &json!({})).unwrap()["turn"], 1);
    assert_eq!(server.end(), (Some(0), String::new()));
}

#[test]
fn errors_have_the_data_that_the_command_line_prints() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(6);
    place.expire();
    let mut server = serve(&place);
    let error = server.call("show", &json!({"revision": "turn:1"})).unwrap_err();
    assert_eq!(error["code"], -32006);
    assert_eq!(error["data"]["error"], "snapshot_expired");
    assert_eq!(error["data"]["oldest_available"]["turn"], 4);
    let error = server.call("restore", &json!({"revision": "turn:1"})).unwrap_err();
    assert_eq!(error["data"]["error"], "snapshot_expired");
}

#[test]
fn ids_are_whole_and_advice_names_methods() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(1);
    let mut server = serve(&place);
    let logged = server.call("log", &json!({})).unwrap();
    assert_eq!(logged["snapshots"][0]["id"].as_str().unwrap().len(), 64);
    let error = server.call("show", &json!({"revision": "nowhere"})).unwrap_err();
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("log the snapshots") && !message.contains("'turntree"), "{message}");
    let error = server.call("spiral", &json!({"window": 1})).unwrap_err();
    assert_eq!(error["message"], "window is 1: expected 2 to 50");
}

#[test]
fn requests_that_are_written_at_once_are_answered_in_order() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(1);
    let mut server = serve(&place);
    let asked: Vec<u64> = (0..50)
        .map(|n| match n % 2 {
            0 => server.ask("status", &json!({})),
            _ => server.ask("snapshot", &json!({"message": format!("{n}"), "files": false})),
        })
        .collect();
    let answered: Vec<u64> =
        asked.iter().map(|_| server.receive()["id"].as_u64().unwrap()).collect();
    assert_eq!(answered, asked);
    assert_eq!(server.call("status", &json!({})).unwrap()["turn"], 26);
}

#[test]
fn a_last_line_without_an_end_is_answered() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(1);
    let mut child = place
        .command(&["serve", "--stdio"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let line = br#"{"jsonrpc":"2.0","id":1,"method":"status"}"#;
    child.stdin.take().unwrap().write_all(line).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["result"]["turn"], 1);
}

#[test]
fn a_server_that_only_reads_changes_nothing() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(2);
    let before = place.run(&["show-ref"]);
    let mut server = place.server(&["serve", "--stdio", "--read-only", "--workspace", "work"]);
    for (method, params, code) in [
        ("snapshot", json!({"message": "x"}), -32601),
        ("branch", json!({"action": "fork", "name": "x"}), -32602),
        ("branch", json!({"action": "switch", "name": "plan-b"}), -32602),
        ("merge", json!({"revision": "plan-b"}), -32602),
        ("restore", json!({"revision": "turn:1", "dry_run": false}), -32602),
        ("resolve", json!({"take": "ours", "all": true}), -32602),
        ("undo", json!({"dry_run": false}), -32602),
        ("tag", json!({"action": "add", "name": "x"}), -32602),
        ("pin", json!({"action": "add"}), -32602),
        ("export", json!({"format": "jsonl", "path": "x"}), -32602),
        ("offload", json!({"text": "x"}), -32601),
    ] {
        assert_eq!(server.call(method, &params).unwrap_err()["code"], code, "{method}");
    }
    let plan = server.call("restore", &json!({"revision": "turn:1"})).unwrap();
    let params = json!({"revision": "turn:1", "plan_id": plan["plan_id"]});
    assert_eq!(server.call("restore", &params).unwrap_err()["data"]["error"], "unsupported");
    assert_eq!(place.run(&["show-ref"]), before);
    assert_eq!(place.read("notes.txt").as_deref(), Some("2\n"));
}

#[test]
fn serve_needs_to_know_where_it_listens() {
    let place = Place::new(PROGRAM);
    let output = place.command(&["serve"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn nothing_is_restored_into_a_directory_that_is_more_than_a_workspace() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(3);
    let words = ["serve", "--stdio", "--workspace", "/usr/..", "--session", "work"];
    let mut server = place.server(&words);
    let error = server.call("restore", &json!({"revision": "turn:1"})).unwrap_err();
    assert!(error.to_string().contains("the root of all files"), "{error}");
}
