//! Content that clients send to the model or omit, in formats other than those of Claude Code and
//! Codex.

use serde_json::{Value, json};
use turntree_exchange::UsageScope;
use turntree_exchange::render::export_openai;
use turntree_tests::Sandbox;

use crate::client_branches::{said, usage};

fn lines(records: &[Value]) -> Vec<u8> {
    records.iter().map(|record| format!("{record}\n")).collect::<String>().into_bytes()
}

#[test]
fn a_conversation_that_gemini_loads_is_context_without_new_prompts() {
    let said_at = |id: &str, text: &str| {
        json!({"id": id, "timestamp": "2026-11-20T10:00:00.000Z", "type": "user",
            "content": [{"text": text}]})
    };
    let answer = |id: &str, text: &str| {
        json!({"id": id, "timestamp": "2026-11-20T10:00:00.000Z", "type": "gemini",
            "content": [{"text": text}], "thoughts": [], "model": "m",
            "tokens": {"input": 10, "output": 2, "cached": 0, "thoughts": 0, "tool": 0, "total": 12}})
    };
    let again = |id: &str, text: &str| {
        json!({"id": id, "timestamp": "2026-11-20T10:00:00.000Z", "type": "gemini",
            "content": [{"text": text}], "thoughts": [], "tokens": null})
    };
    let context = "<session_context>\nThis is the Gemini CLI.\n</session_context>";
    let header = json!({"sessionId": "s", "projectHash": "h", "startTime": "t", "kind": "main"});
    let mut log = vec![header, said_at("0", context), said_at("1", "one"), answer("2", "1")];
    log.extend([said_at("3", "two"), answer("4", "2")]);
    let loaded = [said_at("5", context), said_at("6", "one"), again("7", "1")];
    log.extend(loaded.clone());
    log.push(json!({"$set": {"messages": loaded}}));
    log.extend([said_at("8", "/home/me/x.log says why"), answer("9", "3")]);
    let sandbox = Sandbox::new();
    // An import may happen at any time.
    for end in 2..=log.len() {
        sandbox.import("s", &lines(&log[..end])).unwrap();
    }
    let context = "This is the Gemini CLI.";
    let said: Vec<_> = said(&sandbox, "s").into_iter().skip(1).collect();
    assert_eq!(said, ["one", "1", "/home/me/x.log says why", "3"], "{context}");
    let found = usage(&sandbox, UsageScope::All).total;
    assert_eq!((found.answers, found.tokens.input), (3, 30));
}

/// The messages of a session in the form of the OpenAI API.
fn openai(sandbox: &Sandbox, session: &str) -> Value {
    let head = sandbox.repo.resolve(session).unwrap().commit;
    let context = sandbox.repo.context(&head).unwrap();
    let mut out = Vec::new();
    export_openai(sandbox.repo.store(), &context, "main", &mut out).unwrap();
    serde_json::from_slice::<Value>(&out).unwrap()["messages"].take()
}

#[test]
fn pictures_that_apis_reject_are_exported_as_text() {
    let file = |media: &str, url: &str| json!({"type": "file", "mime": media, "url": url});
    let session = json!({"info": {"id": "ses"}, "messages": [
        {"info": {"id": "1", "role": "user"}, "parts": [{"type": "text", "text": "look"},
            file("image/svg+xml", "data:image/svg+xml;base64,PHN2Zz4="),
            file("image/png", "file:///p/a.png"),
            file("image/jpg", "data:image/jpg;base64,AAAA")]},
        {"info": {"id": "2", "role": "assistant"}, "parts": [{"type": "text", "text": "ok"}]},
    ]});
    let sandbox = Sandbox::new();
    sandbox.import("s", session.to_string().as_bytes()).unwrap();
    let sent = openai(&sandbox, "s");
    let parts = sent[0]["content"].as_array().unwrap();
    let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    let pictures: Vec<&str> =
        parts.iter().filter_map(|part| part["image_url"]["url"].as_str()).collect();
    assert_eq!(texts, ["look\n[image]\n[image]"]);
    assert_eq!(pictures, ["data:image/jpeg;base64,AAAA"]);
}

#[test]
fn ids_of_calls_are_truncated_to_the_limit_of_apis() {
    // pi joins two ids of the responses API into one. Two such ids may differ only at the end.
    let long = |end: &str| format!("call_{}|fc_{}{end}", "a".repeat(24), "b".repeat(50));
    let call =
        |end: &str| json!({"type": "toolCall", "id": long(end), "name": "ls", "arguments": {}});
    let entry = |id: &str, parent: Option<&str>, message: Value| json!({"type": "message", "id": id, "parentId": parent, "message": message});
    let result = |end: &str| json!({"role": "toolResult", "toolCallId": long(end), "content": [{"type": "text", "text": end}]});
    let file = [
        json!({"type": "session", "version": 3, "id": "s", "timestamp": "t", "cwd": "/p"}),
        entry("0000000a", None, json!({"role": "user", "content": "go"})),
        entry(
            "0000000b",
            Some("0000000a"),
            json!({"role": "assistant", "content": [call("1"), call("2")]}),
        ),
        entry("0000000c", Some("0000000b"), result("2")),
        entry("0000000d", Some("0000000c"), result("1")),
    ];
    let sandbox = Sandbox::new();
    sandbox.import("s", &lines(&file)).unwrap();
    let sent = openai(&sandbox, "s");
    let calls: Vec<&str> = sent[1]["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["id"].as_str().unwrap())
        .collect();
    assert!(calls[0] != calls[1] && calls.iter().all(|id| id.len() <= 40), "{calls:?}");
    let results: Vec<(&str, &str)> = sent.as_array().unwrap()[2..]
        .iter()
        .map(|it| (it["tool_call_id"].as_str().unwrap(), it["content"].as_str().unwrap()))
        .collect();
    assert_eq!(results, [(calls[0], "1"), (calls[1], "2")]);
}
