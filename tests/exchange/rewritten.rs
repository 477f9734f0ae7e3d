//! Files whose start is rewritten in place, and the context of pi, which depends on a path.

use serde_json::{Value, json};
use turntree_tests::Sandbox;

use crate::client_branches::{fact, said};

fn lines(records: &[Value]) -> Vec<u8> {
    records.iter().map(|record| format!("{record}\n")).collect::<String>().into_bytes()
}

#[test]
fn a_rewritten_title_of_oh_my_pi_keeps_the_session() {
    let slot = |title: &str| {
        let line = json!({"type": "title", "v": 1, "title": title, "updatedAt": "t", "pad": ""});
        let width = 200 - line.to_string().len();
        let line = json!({"type": "title", "v": 1, "title": title, "updatedAt": "t",
            "pad": " ".repeat(width)});
        line
    };
    let entry = |id: &str, parent: Option<&str>, role: &str| {
        json!({"type": "message", "id": id, "parentId": parent, "timestamp": "2026-11-20T10:00:00Z",
            "message": {"role": role, "content": [{"type": "text", "text": id}]}})
    };
    let header = json!({"type": "session", "version": 3, "id": "s", "timestamp": "t", "cwd": "/p"});
    let first = [
        slot(""),
        header.clone(),
        entry("0000000a", None, "user"),
        entry("0000000b", Some("0000000a"), "assistant"),
    ];
    let mut grown = first.to_vec();
    grown[0] = slot("A name");
    grown.push(entry("0000000c", Some("0000000b"), "user"));
    let mut renamed = grown.clone();
    renamed[0] = slot("Another");
    let sandbox = Sandbox::new();
    for (file, title) in [(&first[..], None), (&grown, Some("A name")), (&renamed, Some("Another"))]
    {
        let report = sandbox.import("s", &lines(file)).unwrap();
        assert_eq!(report.branch.to_string(), "s/main");
        assert_eq!(sandbox.source(&report.head), lines(file));
        assert_eq!(fact(&sandbox, "s", "title").as_deref(), title);
    }
    assert_eq!(sandbox.repo.branches().len(), 1);
    assert_eq!(said(&sandbox, "s"), ["0000000a", "0000000b", "0000000c"]);
}

#[test]
fn a_rewritten_title_before_the_messages_is_applied() {
    let document = |title: &str, texts: &[&str]| {
        let message = |(at, text): (usize, &&str)| {
            json!({"info": {"id": format!("m{at}"), "role": "user"},
                "parts": [{"type": "text", "text": text}]})
        };
        let messages: Vec<Value> = texts.iter().enumerate().map(message).collect();
        let info = json!({"id": "ses_1", "title": title, "directory": "/p", "version": "1"});
        format!("{{\"info\": {info}, \"messages\": {}}}\n", Value::from(messages)).into_bytes()
    };
    let sandbox = Sandbox::new();
    for (title, texts) in
        [("New session", &["one"][..]), ("Fix it", &["one", "two"]), ("Fixed", &["one", "two"])]
    {
        let file = document(title, texts);
        let report = sandbox.import("s", &file).unwrap();
        assert_eq!(report.branch.to_string(), "s/main");
        assert!(sandbox.source(&report.head) == file, "{title}");
        assert_eq!(fact(&sandbox, "s", "title").unwrap(), title);
        assert_eq!(said(&sandbox, "s"), texts);
    }
}

#[test]
fn a_rewind_of_pi_before_a_compaction_restores_its_messages() {
    let entry = |id: &str, parent: Option<&str>, role: &str| {
        json!({"type": "message", "id": id, "parentId": parent, "timestamp": "2026-11-20T10:00:00Z",
            "message": {"role": role, "content": [{"type": "text", "text": id}]}})
    };
    let mut file = vec![
        json!({"type": "session", "version": 3, "id": "s", "timestamp": "t", "cwd": "/p"}),
        entry("0000000a", None, "user"),
        entry("0000000b", Some("0000000a"), "assistant"),
        entry("0000000c", Some("0000000b"), "user"),
        json!({"type": "compaction", "id": "0000000d", "parentId": "0000000c", "summary": "short",
            "firstKeptEntryId": "0000000c"}),
        entry("0000000e", Some("0000000d"), "assistant"),
        json!({"type": "context_edit", "id": "0000000f", "parentId": "0000000e",
            "targetId": "0000000c", "replacement": null}),
    ];
    let sandbox = Sandbox::new();
    sandbox.import("s", &lines(&file)).unwrap();
    assert_eq!(said(&sandbox, "s"), ["short", "0000000e"]);
    file.push(entry("00000010", Some("0000000c"), "assistant"));
    file.push(json!({"type": "context_edit", "id": "00000011", "parentId": "00000010",
        "targetId": "0000000a", "replacement": {"content": "other words"}}));
    sandbox.import("s", &lines(&file)).unwrap();
    assert_eq!(said(&sandbox, "s"), ["other words", "0000000b", "0000000c", "00000010"]);
    assert_eq!(said(&sandbox, "s/main-2"), ["short", "0000000e"]);
    file.push(entry("00000012", None, "user"));
    sandbox.import("s", &lines(&file)).unwrap();
    assert_eq!(said(&sandbox, "s"), ["00000012"]);
}
