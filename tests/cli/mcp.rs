//! `turntree mcp`: tools and resources of the Model Context Protocol.

use std::cell::RefCell;
use std::collections::BTreeSet;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use turntree_tests::server_process::{Place, Server};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

fn with_turns(turns: usize) -> (Place, Server, String) {
    let place = Place::new(PROGRAM);
    let uri = place.with_turns(turns);
    let server = place.mcp(&["--workspace", "work"]);
    (place, server, uri)
}

#[test]
fn tools_say_what_they_take_answer_and_do() {
    let (_place, mut server, _) = with_turns(1);
    let tools = server.call("tools/list", &json!({})).unwrap();
    let tools = tools["tools"].as_array().unwrap();
    let named = |wanted: &dyn Fn(&Value) -> bool| -> BTreeSet<&str> {
        tools
            .iter()
            .filter(|tool| wanted(&tool["annotations"]))
            .map(|tool| tool["name"].as_str().unwrap())
            .collect()
    };
    let looking = [
        "compare",
        "diff",
        "explore_status",
        "log",
        "outline",
        "read_vfs",
        "search",
        "sessions",
        "show",
        "spiral",
        "status",
    ];
    assert_eq!(named(&|notes| notes["readOnlyHint"] == true), BTreeSet::from(looking));
    let destructive = BTreeSet::from(["restore", "undo"]);
    assert_eq!(named(&|notes| notes["destructiveHint"] == true), destructive);
    assert_eq!(named(&|notes| notes["openWorldHint"] == false).len(), tools.len());
    for tool in tools {
        for schema in ["inputSchema", "outputSchema"] {
            assert_eq!(tool[schema]["type"], "object", "{tool}");
        }
        assert!(tool["description"].as_str().unwrap().len() < 600);
    }
}

#[test]
fn every_tool_answers_as_its_schema_says() {
    let (place, mut server, uri) = with_turns(3);
    for (name, arguments) in [
        ("status", json!({})),
        ("snapshot", json!({"message": "m", "state": {"memory": {"k": {"content": "v"}}}})),
        ("log", json!({"revision": "work", "paths": ["scratchpad"], "limit": 1})),
        ("log", json!({"all": true})),
        ("show", json!({})),
        ("show", json!({"revision": "HEAD:files"})),
        ("show", json!({"revision": "HEAD:agents/main/messages/0"})),
        ("diff", json!({"old": "turn:1", "new": "turn:3", "paths": ["files"], "text": true})),
        ("search", json!({"pattern": "message", "roles": ["user"], "context": 1, "limit": 1})),
        ("branch", json!({})),
        ("branch", json!({"action": "fork", "name": "plan-c", "at": "turn:2", "switch": true})),
        ("branch", json!({"action": "switch", "name": "main"})),
        ("merge", json!({"revision": "plan-b", "messages": "ours"})),
        ("resolve", json!({})),
        ("compare", json!({})),
        ("restore", json!({"revision": "turn:1"})),
        ("undo", json!({})),
        ("undo", json!({"dry_run": false})),
        ("undo", json!({"redo": true, "dry_run": false})),
        ("tag", json!({"action": "add", "name": "t", "revision": "turn:2"})),
        ("tag", json!({})),
        ("tag", json!({"action": "delete", "name": "t"})),
        ("pin", json!({"action": "add", "name": "p", "expires": "30d"})),
        ("pin", json!({"session": "work", "limit": 1})),
        ("pin", json!({"action": "remove", "name": "p"})),
        ("export", json!({"format": "markdown", "limit": 100})),
        ("export", json!({"format": "jsonl", "path": "chat.jsonl"})),
        ("offload", json!({"text": "line\n".repeat(10_000), "tail_lines": 3})),
        ("offload", json!({"text": "short"})),
        ("read_vfs", json!({"uri": uri})),
        ("spiral", json!({"window": 5})),
        ("lessons", json!({"action": "add", "tool": "sed", "mistake": "a", "correct": "b"})),
        ("lessons", json!({"action": "add", "spiral": true})),
        ("lessons", json!({"action": "list", "limit": 1})),
        ("lessons", json!({"tool": "sed"})),
    ] {
        server.tool(name, &arguments).unwrap();
    }
    assert_eq!(place.run(&["log", "-n", "1", "--json", "HEAD"]).lines().count(), 1);
    assert_eq!(server.end(), (Some(0), String::new()));
}

#[test]
fn a_failure_is_an_answer_with_its_kind() {
    let (place, mut server, _) = with_turns(6);
    place.expire();
    for (name, arguments, kind) in [
        ("show", json!({"revision": "nowhere"}), "not-found"),
        ("show", json!({"revision": "HEAD:nothing"}), "not-found"),
        ("show", json!({"revision": "turn:1"}), "snapshot_expired"),
        ("read_vfs", json!({"uri": "context://vfs/vfs_0000000000000000.txt"}), "not-found"),
        ("search", json!({"pattern": "("}), "invalid-input"),
        ("log", json!({"limit": 1_000_000}), "invalid-input"),
        ("log", json!({"unknown": 1}), "invalid-input"),
        ("snapshot", json!({}), "invalid-input"),
        ("snapshot", json!({"message": 1}), "invalid-input"),
        ("snapshot", json!({"message": "m", "state": {"agents": 7}}), "invalid-input"),
        ("snapshot", json!({"message": "m", "trigger": "whim"}), "invalid-input"),
        ("branch", json!({"action": "fork"}), "invalid-input"),
        ("branch", json!({"action": "fork", "name": "plan-b"}), "invalid-input"),
        ("merge", json!({"revision": "plan-b", "messages": "summary"}), "invalid-input"),
    ] {
        let error = server.tool(name, &arguments).unwrap_err();
        assert_eq!(error["error"], kind, "{name} {arguments}: {error}");
        assert!(!error["message"].as_str().unwrap().is_empty());
    }
    let error = server.tool("show", &json!({"revision": "turn:1"})).unwrap_err();
    assert_eq!(error["oldest_available"]["turn"], 4);
    let unknown = server.call("tools/call", &json!({"name": "drop"})).unwrap_err();
    assert_eq!(unknown["code"], -32602);
    for (method, params) in [
        ("tools/call", json!({})),
        ("tools/call", json!({"name": 7})),
        ("tools/call", json!({"name": "status", "arguments": []})),
        ("tools/call", json!({"name": "status", "arguments": "x"})),
        ("resources/read", json!({"uri": 7})),
    ] {
        let error = server.call(method, &params).unwrap_err();
        assert_eq!(error["code"], -32602, "{method} {params}: {error}");
        assert!(error["message"].as_str().unwrap().contains(method), "{error}");
    }
    assert_eq!(server.call("tools/drop", &json!({})).unwrap_err()["code"], -32601);
    let huge = json!({"revision": "x".repeat(1 << 20)});
    let error = server.tool("show", &huge).unwrap_err();
    assert_eq!(error["error"], "not-found");
    assert!(error["message"].as_str().unwrap().len() < 4000);
    server.tool("status", &json!({})).unwrap();
}

#[test]
fn what_a_failure_advises_is_a_call_and_no_command() {
    let (place, server, _) = with_turns(2);
    let nowhere = Place::new(PROGRAM);
    let servers = [server, place.mcp(&[]), place.mcp(&["--read-only"]), nowhere.mcp(&[])];
    let [server, alone, looking, empty] = servers.map(RefCell::new);
    let summary = json!({"revision": "plan-b", "messages": "summary"});
    let ours = json!({"revision": "plan-b", "messages": "ours", "summary": "s"});
    let plan_b = json!({"action": "fork", "name": "plan-b"});
    for (server, name, arguments, advice) in [
        (&server, "show", json!({"revision": "nowhere"}), "log the snapshots"),
        (&server, "merge", summary, "give it as summary"),
        (&server, "merge", ours, "messages = summary"),
        (&server, "merge", json!({"revision": "HEAD:files"}), "only takes a part"),
        (&server, "branch", plan_b, "action = switch"),
        (&server, "search", json!({"pattern": "x", "session": "none"}), "all = true"),
        (&server, "restore", json!({"revision": "HEAD~1", "dry_run": false}), "dry_run first"),
        (&alone, "restore", json!({"revision": "HEAD~1"}), "only = [\"conversation\"]"),
        (&alone, "snapshot", json!({"message": "m", "files": true}), "without files = true"),
        (&looking, "merge", json!({"revision": "plan-b"}), "read-only"),
        (&empty, "status", json!({}), "the first snapshot makes it"),
    ] {
        let error = server.borrow_mut().tool(name, &arguments).unwrap_err();
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(advice), "{name} {arguments}: {message}");
        assert!(!message.contains("--") && !message.contains("'turntree "), "{name}: {message}");
    }
}

#[test]
fn a_window_that_is_too_small_is_told_what_it_may_be() {
    let (_place, mut server, _) = with_turns(2);
    for window in [0, 1, 51] {
        let error = server.tool("spiral", &json!({"window": window})).unwrap_err();
        assert_eq!(error["message"], format!("window is {window}: expected 2 to 50"));
    }
    server.tool("spiral", &json!({"window": 2})).unwrap();
    let error = server.tool("search", &json!({"pattern": "x", "context": 11})).unwrap_err();
    assert_eq!(error["message"], "context is 11: expected 0 to 10");
}

#[test]
fn a_line_that_is_too_long_is_answered_and_the_next_one_too() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(1);
    let long = "x".repeat(17 << 20);
    let call = json!({"name": "snapshot", "arguments": {"message": long}}).to_string();
    let mut server = place.mcp(&[]);
    for (line, id) in [
        (
            format!(r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{call}}}"#),
            json!("a"),
        ),
        (format!(r#"{{"method":"tools/call","params":{call},"jsonrpc":"2.0","id":7}}"#), json!(7)),
        (long, Value::Null),
    ] {
        server.send(&line);
        // Sent immediately, to detect a server that does not answer the line.
        let asked = server.ask("ping", &json!({}));
        let mut answers = [server.receive(), server.receive()];
        answers.sort_by_key(|answer| answer["id"] == asked);
        let [answer, _] = answers;
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &id), "{answer}");
        assert_eq!(server.tool("status", &json!({})).unwrap()["turn"], 1);
    }
    assert_eq!(server.end(), (Some(0), String::new()));
}

#[test]
fn ids_are_short_and_name_what_they_are_of() {
    let (place, mut server, uri) = with_turns(3);
    let mut whole = place.server(&["serve", "--stdio", "--workspace", "work"]);
    for (name, arguments) in [
        ("status", json!({})),
        ("log", json!({"all": true})),
        ("show", json!({})),
        ("show", json!({"revision": "HEAD:agents/main/messages"})),
        ("show", json!({"revision": "HEAD:scratchpad/note"})),
        ("diff", json!({"old": "turn:1"})),
        ("search", json!({"pattern": "note"})),
        ("branch", json!({})),
        ("merge", json!({"revision": "plan-b", "dry_run": true})),
        ("restore", json!({"revision": "turn:1"})),
        ("read_vfs", json!({"uri": uri, "limit": 10})),
    ] {
        let told = server.tool(name, &arguments).unwrap();
        let expected = whole.call(name, &arguments).unwrap();
        assert!(check_short(&told, &expected) > 0, "{name} {arguments}: {told}");
    }
    let logged = server.tool("log", &json!({})).unwrap();
    let first = logged["snapshots"][2]["id"].as_str().unwrap();
    let shown = server.tool("show", &json!({"revision": first})).unwrap();
    assert_eq!(shown["snapshot"]["turn"], 1);
    let moved = server.tool("snapshot", &json!({"message": "m"})).unwrap();
    assert_eq!(moved["id"].as_str().unwrap().len(), 12);
    // Content that looks like an id stays whole.
    let hash = "ab".repeat(32);
    let note = json!({"scratchpad": {"id": {"content": hash}}});
    server.tool("snapshot", &json!({"message": hash, "state": note})).unwrap();
    let shown = server.tool("show", &json!({"revision": "HEAD:scratchpad/id"})).unwrap();
    assert!(shown["entry"]["text"].as_str().unwrap().contains(&hash), "{shown}");
    assert_eq!(server.tool("log", &json!({"limit": 1})).unwrap()["snapshots"][0]["message"], hash);
}

/// Checks that `shown` is `whole` with short ids, except for opaque tokens. Returns the number of
/// shortened ids.
fn check_short(shown: &Value, whole: &Value) -> usize {
    match (shown, whole) {
        (Value::Object(shown), Value::Object(whole)) => {
            assert_eq!(shown.len(), whole.len());
            let is_handed_back = |key: &str| ["plan_id", "next_cursor"].contains(&key);
            let members = shown.iter().filter(|(key, _)| !is_handed_back(key));
            members.map(|(key, value)| check_short(value, &whole[key])).sum()
        }
        (Value::Array(shown), Value::Array(whole)) => {
            assert_eq!(shown.len(), whole.len());
            shown.iter().zip(whole).map(|(shown, whole)| check_short(shown, whole)).sum()
        }
        (Value::String(shown), Value::String(whole)) if is_id(whole) => {
            assert_eq!(shown, &whole[..12]);
            1
        }
        (shown, whole) => {
            assert_eq!(shown, whole);
            0
        }
    }
}

fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[test]
fn a_restore_does_what_its_plan_said_and_can_be_taken_back() {
    let (place, mut server, _) = with_turns(3);
    place.write("unsaved.txt", "mine");
    let plan = server.tool("restore", &json!({"revision": "turn:1"})).unwrap();
    assert_eq!((&plan["dry_run"], &plan["destructive"]), (&json!(true), &json!(true)));
    assert_eq!(place.read("notes.txt").as_deref(), Some("3\n"), "nothing is done yet");
    let blind = json!({"revision": "turn:1", "dry_run": false});
    assert_eq!(server.tool("restore", &blind).unwrap_err()["error"], "invalid-input");
    let done = json!({"revision": "turn:1", "plan_id": plan["plan_id"]});
    let done = server.tool("restore", &done).unwrap();
    assert_eq!(done["turn"], 4);
    assert_eq!(done["workspace"]["files"], plan["workspace"]["files"]);
    assert_eq!(place.read("notes.txt").as_deref(), Some("1\n"));
    assert_eq!(place.read("unsaved.txt"), None);

    let before = done["workspace"]["before"].as_str().unwrap();
    let plan = server.tool("restore", &json!({"revision": before})).unwrap();
    let back = json!({"revision": before, "plan_id": plan["plan_id"]});
    server.tool("restore", &back).unwrap();
    assert_eq!(place.read("notes.txt").as_deref(), Some("3\n"));
    assert_eq!(place.read("unsaved.txt").as_deref(), Some("mine"));
}

#[test]
fn a_plan_is_refused_once_anything_has_changed() {
    let (place, mut server, _) = with_turns(3);
    let plan = |server: &mut Server| -> Value {
        server.tool("restore", &json!({"revision": "turn:1"})).unwrap()["plan_id"].take()
    };
    let refused = |server: &mut Server, id: &Value, revision: &str, what: &str| {
        let arguments = json!({"revision": revision, "plan_id": id});
        let error = server.tool("restore", &arguments).unwrap_err();
        assert_eq!(error["error"], "conflict", "{what}");
        assert_eq!(place.read("keep.txt").as_deref(), Some("keep"), "{what}");
    };
    place.write("keep.txt", "keep");
    let id = plan(&mut server);
    assert_eq!(id, plan(&mut server), "the same state has the same plan");
    refused(&mut server, &id, "turn:2", "another snapshot");
    refused(&mut server, &json!("0"), "turn:1", "no plan at all");
    place.write("notes.txt", "edited\n");
    refused(&mut server, &id, "turn:1", "a file that is edited");
    let id = plan(&mut server);
    place.write("new.txt", "new");
    refused(&mut server, &id, "turn:1", "a file that is new");
    let id = plan(&mut server);
    let _ = place.run(&["snapshot", "-m", "by another"]);
    refused(&mut server, &id, "turn:1", "a branch with later turns");
    let id = plan(&mut server);
    server.tool("restore", &json!({"revision": "turn:1", "plan_id": id})).unwrap();
    assert_eq!(place.read("keep.txt"), None);
}

#[test]
fn without_a_workspace_no_file_is_touched() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(2);
    let mut server = place.mcp(&[]);
    let error = server.tool("restore", &json!({"revision": "turn:1"})).unwrap_err();
    assert_eq!(error["error"], "unsupported");
    let files = json!({"message": "m", "files": true});
    assert_eq!(server.tool("snapshot", &files).unwrap_err()["error"], "unsupported");
    let only = json!({"revision": "turn:1", "only": ["conversation"], "dry_run": false});
    let done = server.tool("restore", &only).unwrap();
    assert_eq!((&done["turn"], &done["workspace"]), (&json!(3), &json!(null)));
    assert_eq!(place.read("notes.txt").as_deref(), Some("2\n"));
}

#[test]
fn lists_and_texts_come_in_parts_that_are_the_whole() {
    let (_place, mut server, uri) = with_turns(7);
    let (mut turns, mut arguments) = (Vec::new(), json!({"limit": 2}));
    loop {
        let page = server.tool("log", &arguments).unwrap();
        let page_turns = page["snapshots"].as_array().unwrap().iter();
        turns.extend(page_turns.map(|line| line["turn"].as_u64().unwrap()));
        if page["next_cursor"].is_null() {
            break;
        }
        arguments["cursor"] = page["next_cursor"].clone();
    }
    assert_eq!(turns, [7, 6, 5, 4, 3, 2, 1]);

    let mut all = String::new();
    let mut arguments = json!({"uri": uri, "limit": 9999});
    loop {
        let part = server.tool("read_vfs", &arguments).unwrap();
        all.push_str(part["text"].as_str().unwrap());
        if part["next_offset"].is_null() {
            break;
        }
        arguments["offset"] = part["next_offset"].clone();
    }
    assert_eq!(all, "line ä\n".repeat(10_000));

    let (mut named, mut offset) = (Vec::new(), json!(0));
    while !offset.is_null() {
        let messages =
            json!({"revision": "HEAD:agents/main/messages", "limit": 3, "offset": offset});
        let shown = server.tool("show", &messages).unwrap();
        let entries = shown["listing"]["entries"].as_array().unwrap().iter();
        named.extend(entries.map(|entry| entry["summary"].as_str().unwrap().to_owned()));
        offset = shown["next_offset"].clone();
    }
    let expected: Vec<String> = (1..=7).map(|turn| format!("message {turn}")).collect();
    assert_eq!(named, expected);

    let whole = server.tool("diff", &json!({"old": "turn:1"})).unwrap();
    let (mut total, mut offset) = (0, json!(0));
    while !offset.is_null() {
        let part = json!({"old": "turn:1", "limit": 2, "offset": offset});
        let part = server.tool("diff", &part).unwrap();
        assert_eq!(part["total"], whole["total"]);
        let sections = part["sections"].as_object().unwrap().values();
        total += sections.map(n_changes).sum::<usize>();
        offset = part["next_offset"].clone();
    }
    assert_eq!(total as u64, whole["total"].as_u64().unwrap());
}

fn n_changes(section: &Value) -> usize {
    ["added", "removed", "changed"].map(|kind| section[kind].as_array().unwrap().len()).iter().sum()
}

#[test]
fn resources_are_listed_linked_and_read() {
    let (_place, mut server, uri) = with_turns(2);
    let listed = server.call("resources/list", &json!({})).unwrap();
    let uris: Vec<&str> = listed["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|resource| resource["uri"].as_str().unwrap())
        .collect();
    assert_eq!(uris, ["session://work/main@2", "session://work/plan-b@1", &uri]);
    for uri in uris {
        let read = server.call("resources/read", &json!({"uri": uri})).unwrap();
        assert_eq!(read["contents"][0]["uri"], uri);
    }
    let templates = server.call("resources/templates/list", &json!({})).unwrap();
    assert_eq!(templates["resourceTemplates"].as_array().unwrap().len(), 2);
    let read =
        server.call("resources/read", &json!({"uri": "session://work@1?path=files/notes.txt"}));
    assert_eq!(read.unwrap()["contents"][0]["text"], "1\n");
    let snapshot = server.call("resources/read", &json!({"uri": "session://work/main@2"})).unwrap();
    assert!(snapshot["contents"][1]["text"].as_str().unwrap().contains("message 2"));

    let part = json!({"name": "read_vfs", "arguments": {"uri": uri, "limit": 10}});
    let part = server.call("tools/call", &part).unwrap();
    assert_eq!(
        (&part["content"][1]["type"], &part["content"][1]["uri"]),
        (&json!("resource_link"), &json!(uri))
    );
    let shown = json!({"revision": "HEAD:agents/main/messages/0", "limit": 3});
    let shown = server.call("tools/call", &json!({"name": "show", "arguments": shown})).unwrap();
    let whole = shown["content"][1]["uri"].as_str().unwrap();
    let read = server.call("resources/read", &json!({"uri": whole})).unwrap();
    assert_eq!(read["contents"][0]["text"], "message 1");

    for (uri, code) in [
        ("context://vfs/vfs_0000000000000000.txt", -32002),
        ("session://work/main@99", -32002),
        ("session://nowhere@1", -32002),
        ("session://work/main", -32602),
        ("file:///etc/passwd", -32602),
    ] {
        let error = server.call("resources/read", &json!({"uri": uri})).unwrap_err();
        assert_eq!(error["code"], code, "{uri}: {error}");
    }
}

#[test]
fn servers_and_commands_share_a_store() {
    let (place, mut one, _) = with_turns(1);
    let mut other = place.mcp(&["--session", "work", "--branch", "plan-b"]);
    assert_eq!(other.tool("status", &json!({})).unwrap()["branch"], "plan-b");
    for number in 0..10 {
        let ours = json!({"name": "snapshot", "arguments": {"message": format!("one {number}"), "files": false}});
        let theirs =
            json!({"name": "snapshot", "arguments": {"message": format!("other {number}")}});
        // Both in parallel, without waiting for each other.
        one.ask("tools/call", &ours);
        other.ask("tools/call", &theirs);
        assert_eq!(one.receive()["result"]["isError"], false);
        assert_eq!(other.receive()["result"]["isError"], false);
    }
    let turn = |server: &mut Server| server.tool("status", &json!({})).unwrap()["turn"].clone();
    assert_eq!((turn(&mut one), turn(&mut other)), (json!(11), json!(11)));
    let _ = place.run(&["snapshot", "-m", "by a command"]);
    assert_eq!(turn(&mut one), 12, "a server sees commits of other processes");
    // A server with its own branch does not move HEAD for other processes.
    other.tool("branch", &json!({"action": "switch", "name": "main"})).unwrap();
    assert_eq!(turn(&mut other), 12);
    other.tool("branch", &json!({"action": "fork", "name": "plan-d", "switch": true})).unwrap();
    assert_eq!(other.tool("status", &json!({})).unwrap()["branch"], "plan-d");
    assert_eq!(one.tool("status", &json!({})).unwrap()["branch"], "main");
}

#[test]
fn changes_that_are_asked_for_at_once_are_all_made() {
    let (_place, mut server, _) = with_turns(1);
    let asked: BTreeSet<u64> = (0..20)
        .map(|number| {
            let arguments = json!({"message": format!("{number}"), "files": false});
            server.ask("tools/call", &json!({"name": "snapshot", "arguments": arguments}))
        })
        .collect();
    let answered: BTreeSet<u64> = asked
        .iter()
        .map(|_| {
            let answer = server.receive();
            assert_eq!(answer["result"]["isError"], false, "{answer}");
            answer["id"].as_u64().unwrap()
        })
        .collect();
    assert_eq!(answered, asked);
    assert_eq!(server.tool("status", &json!({})).unwrap()["turn"], 21);
}

#[test]
fn a_call_that_is_cancelled_gets_no_answer_and_the_next_one_does() {
    let (_place, mut server, _) = with_turns(2);
    for _ in 0..5 {
        let id =
            server.ask("tools/call", &json!({"name": "search", "arguments": {"pattern": "x"}}));
        let cancel = json!({"requestId": id, "reason": "enough"});
        server.send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel})
                .to_string(),
        );
        let asked = server.ask("ping", &json!({}));
        let mut answer = server.receive();
        if answer["id"] == id {
            // The call finished before it was cancelled.
            answer = server.receive();
        }
        assert_eq!(answer["id"], asked);
    }
}

#[test]
fn it_ends_in_good_order_with_its_input_or_a_signal() {
    let (place, mut server, _) = with_turns(1);
    server.ask("tools/call", &json!({"name": "snapshot", "arguments": {"message": "the last"}}));
    assert_eq!(server.receive()["result"]["isError"], false);
    assert_eq!(server.end(), (Some(0), String::new()));
    // A server that never received a message ends too.
    assert_eq!(place.server(&["mcp"]).end(), (Some(0), String::new()));
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = place.mcp(&["--workspace", "work"]);
        server.tool("snapshot", &json!({"message": "before a signal"})).unwrap();
        kill_process(Pid::from_raw(server.pid()).unwrap(), signal).unwrap();
        assert_eq!(server.end().0, Some(0));
    }
    let _ = place.run(&["fsck"]);
    let (log, words) = (place.run(&["log", "--oneline"]), "before a signal");
    assert_eq!(log.matches(words).count(), 2);
}

#[test]
fn the_first_snapshot_makes_the_store_and_all_else_says_that_there_is_none() {
    let place = Place::new(PROGRAM);
    let mut server = place.mcp(&["--session", "new"]);
    assert_eq!(server.tool("status", &json!({})).unwrap_err()["error"], "not-found");
    let bad = json!({"message": "m", "state": {"agents": 7}});
    assert_eq!(server.tool("snapshot", &bad).unwrap_err()["error"], "invalid-input");
    assert!(!place.path().join("store").exists());
    let moved = server.tool("snapshot", &json!({"message": "m"})).unwrap();
    assert_eq!((&moved["session"], &moved["turn"]), (&json!("new"), &json!(1)));
    assert_eq!(server.tool("status", &json!({})).unwrap()["turn"], 1);
}

#[test]
fn a_server_that_only_reads_offers_nothing_else() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(1);
    let mut server = place.mcp(&["--read-only"]);
    let tools = server.call("tools/list", &json!({})).unwrap();
    let tools = tools["tools"].as_array().unwrap();
    assert!(tools.iter().all(|tool| tool["annotations"]["readOnlyHint"] == true));
    assert!(tools.iter().all(|tool| tool["name"] != "snapshot"));
    let fork = json!({"action": "fork", "name": "x"});
    assert_eq!(server.tool("branch", &fork).unwrap_err()["error"], "unsupported");
}

#[test]
fn nothing_but_the_protocol_is_on_its_output() {
    let (_place, mut server, _) = with_turns(1);
    for line in ["", "no JSON", "{}", "[]", "{\"jsonrpc\":\"2.0\"}", "\u{feff}"] {
        server.send(line);
    }
    // Every answer to these must be a message: `receive` refuses anything else.
    let asked = server.ask("ping", &json!({}));
    while server.receive()["id"] != asked {}
}
