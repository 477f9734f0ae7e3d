//! Forks of sessions, in formats other than those of Claude Code and Codex.

use serde_json::{Value, json};
use turntree_exchange::UsageScope;
use turntree_tests::Sandbox;

use crate::client_branches::{fact, said, usage};

/// An id as clients make them, with a number in it.
fn id(number: u32) -> String {
    format!("{number:08x}-3f1b-4c7d-9a2e-5b6c7d8e9f01")
}

fn lines(records: &[Value]) -> Vec<u8> {
    records.iter().map(|record| format!("{record}\n")).collect::<String>().into_bytes()
}

/// Events of Copilot CLI, each the child of the one before.
fn copilot(session: &str, events: &[(u32, &str, Value)]) -> Vec<Value> {
    let start =
        json!({"sessionId": session, "copilotVersion": "1.0.102", "context": {"cwd": "/p"}});
    let start = std::iter::once((0, "session.start", start));
    let mut parent = Value::Null;
    let event = |(number, kind, data): (u32, &str, Value)| {
        let event = json!({"type": kind, "data": data, "id": id(number),
            "timestamp": format!("2026-11-20T10:00:{:02}.000Z", number % 60), "parentId": parent});
        parent = id(number).into();
        event
    };
    start.chain(events.iter().cloned()).map(event).collect()
}

fn asked(number: u32, text: &str) -> [(u32, &'static str, Value); 3] {
    let answer = json!({"content": format!("answer to {text}"), "messageId": id(number + 2),
        "outputTokens": 5, "model": "gpt-5"});
    [
        (number, "user.message", json!({"content": text})),
        (number + 1, "assistant.turn_start", json!({"turnId": "0"})),
        (number + 2, "assistant.message", answer),
    ]
}

/// The end of a run, with totals since the session began.
fn ended(number: u32, input: u64, output: u64, requests: u64) -> (u32, &'static str, Value) {
    let metric = json!({"requests": {"count": requests, "cost": 1},
        "usage": {"inputTokens": input, "outputTokens": output}});
    (number, "session.shutdown", json!({"modelMetrics": {"gpt-5": metric}}))
}

#[test]
fn copilot_forks_share_turns_and_keep_their_own_session_id() {
    let mut of_origin: Vec<_> = asked(10, "one").into_iter().chain(asked(20, "two")).collect();
    let origin = copilot("origin", &of_origin);
    // `/fork` copies all events, except the first one, and adds a note.
    of_origin.push((30, "session.info", json!({"infoType": "fork", "message": "Forked"})));
    of_origin.extend(asked(40, "three"));
    let fork = copilot("forked", &of_origin);
    let mut continued = copilot("origin", &of_origin[..6]);
    continued.extend(copilot("x", &asked(50, "four"))[1..].to_vec());

    for fork_first in [false, true] {
        let sandbox = Sandbox::new();
        let files = [("origin", &origin), ("forked", &fork)];
        let order = if fork_first { [1, 0] } else { [0, 1] };
        for at in order {
            let (session, records) = files[at];
            let report = sandbox.import(session, &lines(records)).unwrap();
            assert!(report.notes.is_empty(), "{:?}", report.notes);
            assert_eq!(sandbox.source(&report.head), lines(records), "{session}");
        }
        assert_eq!(said(&sandbox, "forked/main").len(), 6);
        assert_eq!(fact(&sandbox, "forked/main", "session_id").unwrap(), "forked");
        assert_eq!(fact(&sandbox, "origin/main", "session_id").unwrap(), "origin");
        let found = usage(&sandbox, UsageScope::All);
        assert_eq!((found.total.answers, found.total.tokens.output), (3, 15), "{fork_first}");
        if !fork_first {
            let report = sandbox.import("origin", &lines(&continued)).unwrap();
            assert_eq!(report.branch.to_string(), "origin/main");
            assert_eq!(said(&sandbox, "origin/main").len(), 6);
            assert_eq!(common(&sandbox, "origin/main", "forked/main"), "answer to two");
        }
    }
}

/// The title of the newest turn that two branches have in common.
fn common(sandbox: &Sandbox, a: &str, b: &str) -> String {
    let line = |branch: &str| -> Vec<_> {
        let tip = sandbox.repo.resolve(branch).unwrap().commit;
        let line = sandbox.repo.history(&[tip], &[]).unwrap().first_parent();
        line.map(|entry| entry.unwrap()).collect()
    };
    let others: Vec<_> = line(b).into_iter().map(|entry| entry.id).collect();
    let found = line(a).into_iter().find(|entry| others.contains(&entry.id));
    found.map(|entry| entry.commit.message).unwrap_or_default()
}

#[test]
fn totals_of_a_copilot_run_count_once_in_a_fork() {
    let mut events: Vec<_> = asked(10, "one").to_vec();
    events.push(ended(13, 100, 5, 1));
    let origin = copilot("origin", &events);
    events.push((14, "session.info", json!({"infoType": "fork", "message": "Forked"})));
    events.push((15, "session.resume", json!({})));
    events.extend(asked(20, "two"));
    events.push(ended(23, 300, 10, 2));
    let fork = copilot("forked", &events);
    let sandbox = Sandbox::new();
    sandbox.import("origin", &lines(&origin)).unwrap();
    sandbox.import("forked", &lines(&fork)).unwrap();
    let found = usage(&sandbox, UsageScope::All).total;
    assert_eq!((found.answers, found.tokens.input, found.tokens.output), (2, 300, 10));
}

/// A session of the Cline SDK with these messages.
fn cline(session: &str, messages: &[(&str, &str)]) -> Vec<u8> {
    let message = |(number, (role, text)): (u32, &(&str, &str))| {
        json!({"id": format!("msg_7mYEbh{number:04}Qk"), "role": role, "ts": 1_783_376_868_634_u64,
            "content": [{"type": "text", "text": text}],
            "metrics": {"inputTokens": 10, "outputTokens": 1}})
    };
    let messages: Vec<Value> = (1..).zip(messages).map(message).collect();
    let document = json!({"version": 1, "updated_at": "t", "agent": "lead", "sessionId": session,
        "messages": messages, "system_prompt": "Be good."});
    format!("{document:#}\n").into_bytes()
}

#[test]
fn a_restored_cline_checkpoint_is_a_fork_of_its_session() {
    let said_before = [("user", "one"), ("assistant", "1"), ("user", "two"), ("assistant", "2")];
    let origin = cline("origin", &said_before);
    let restored = cline("restored", &said_before[..3]);
    let continued = [&said_before[..3], &[("assistant", "2 otherwise")]].concat();
    let continued = {
        let text = String::from_utf8(cline("restored", &continued)).unwrap();
        text.replace("7mYEbh0004", "7mYEbh0009").into_bytes()
    };
    let sandbox = Sandbox::new();
    sandbox.import("origin", &origin).unwrap();
    sandbox.import("restored", &restored).unwrap();
    let report = sandbox.import("restored", &continued).unwrap();
    assert_eq!(report.branch.to_string(), "restored/main");
    assert!(sandbox.source(&report.head) == continued);
    assert_eq!(said(&sandbox, "restored/main"), ["one", "1", "two", "2 otherwise"]);
    assert_eq!(fact(&sandbox, "restored/main", "session_id").unwrap(), "restored");
    assert_eq!(common(&sandbox, "restored/main", "origin/main"), "two");
    assert_eq!(said(&sandbox, "origin/main").last().unwrap(), "2");
}

/// A conversation of OpenHands 1, as read from its folder.
fn openhands(conversation: &str, said: &[(u32, &str, &str)]) -> Vec<u8> {
    let event = |(number, role, text): &(u32, &str, &str)| {
        let source = if *role == "assistant" { "agent" } else { "user" };
        json!({"kind": "MessageEvent", "id": id(*number), "source": source,
            "timestamp": "2026-05-01T10:00:00", "llm_response_id": format!("r{number}"),
            "llm_message": {"role": role, "content": [{"type": "text", "text": text}]}})
    };
    let events: Vec<Value> = said.iter().map(event).collect();
    let facts = json!({"id": conversation, "model": "m", "cwd": "/p"});
    let events = events.iter().map(Value::to_string).collect::<Vec<_>>().join(",\n");
    format!("{{\"conversation\":{facts},\n\"events\":[{events}],\n\"stats\":null}}\n").into_bytes()
}

#[test]
fn openhands_forks_share_the_events_of_their_origin() {
    let origin = [(1, "user", "one"), (2, "assistant", "1"), (3, "user", "two")];
    let fork = [&origin[..2], &[(4, "user", "other")]].concat();
    let sandbox = Sandbox::new();
    sandbox.import("origin", &openhands("origin", &origin)).unwrap();
    let report = sandbox.import("fork", &openhands("fork", &fork)).unwrap();
    assert!(sandbox.source(&report.head) == openhands("fork", &fork));
    assert_eq!(said(&sandbox, "fork/main"), ["one", "1", "other"]);
    assert_eq!(fact(&sandbox, "fork/main", "session_id").unwrap(), "fork");
    assert_eq!(common(&sandbox, "fork/main", "origin/main"), "1");
}
