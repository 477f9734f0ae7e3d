//! The conversation about a design is exported to open-codesign as a chat, and importing the chat
//! gives the same conversation.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use serde_json::{Value, json};
use turntree::context::{Builder, Context, MessageEntry};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{BranchName, Repository, SnapshotDraft};
use turntree_exchange::formats::codesign::{export_chat, export_designs, import_designs};
use turntree_exchange::formats::{FolderFile, view};
use turntree_exchange::{ImportOptions, MessageView, apply_state};
use turntree_tests::{Sandbox, stamp};

const STORE: &str = include_str!("../vectors/open-codesign/design-store.json");
const CHAT: &str = include_str!("../vectors/open-codesign/session.jsonl");
const DATABASE: &[u8] = include_bytes!("../vectors/open-codesign/designs-v0.1.db");
const PRICING: &str = "4c1c99e1-1e58-4deb-8d9b-1f914973b7b8";
const HEADER: &str = "{\"type\":\"session\",\"version\":3,\"id\":\"s\",\"timestamp\":\"2026-05-01T09:00:00.000Z\",\"cwd\":\"/p\"}";

fn tip(repo: &Repository, revision: &str) -> ObjectId {
    repo.resolve(revision).unwrap().commit
}

fn chat_of(repo: &Repository, revision: &str) -> String {
    let mut out = Vec::new();
    export_chat(repo, &tip(repo, revision), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn store_of(repo: &Repository, sessions: &[&str]) -> String {
    let tips: Vec<Vec<ObjectId>> =
        sessions.iter().map(|session| vec![tip(repo, session)]).collect();
    let mut out = Vec::new();
    export_designs(repo, &tips, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn values(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Imports files as a directory. Returns the sessions of the store.
fn import_files(sandbox: &Sandbox, files: &[(String, &str)]) -> Vec<String> {
    let stored = |(path, text): &(String, &str)| FolderFile {
        path: path.clone(),
        bytes: text.as_bytes().to_vec().into(),
    };
    let files: Vec<FolderFile> = files.iter().map(stored).collect();
    let options = ImportOptions {
        format: None,
        session: "work".to_owned(),
        stamp: stamp(1),
        switch: false,
        adoption: None,
        branch: None,
    };
    import_designs(&sandbox.repo, &files, &options).unwrap();
    let mut sessions: Vec<String> =
        sandbox.repo.branches().iter().map(|(name, _)| name.session().to_owned()).collect();
    sessions.sort();
    sessions.dedup();
    sessions
}

/// The displayed messages, with calls and results numbered in order.
fn said(repo: &Repository, revision: &str) -> Vec<MessageView> {
    let (store, mut calls, mut count) = (repo, HashMap::new(), 0);
    let list = repo.context(&tip(repo, revision)).unwrap().messages(store, "main").unwrap();
    let message = |item| {
        let entry = MessageEntry::from_item(&item).unwrap();
        let mut view = view(&entry.media, &store.read_as(Kind::Blob, &entry.blob).unwrap());
        for call in &mut view.tool_calls {
            count += 1;
            calls.insert(std::mem::replace(&mut call.id, count.to_string()), count.to_string());
        }
        for result in &mut view.tool_results {
            result.call_id = calls[&result.call_id].clone();
        }
        view.id = None;
        view
    };
    list.iter(store, 0..list.len()).map(|item| item.unwrap()).map(message).collect()
}

/// The entries of a map, as JSON.
fn entries(repo: &Repository, revision: &str, section: &str) -> BTreeMap<String, Value> {
    let map = repo.context(&tip(repo, revision)).unwrap().map(repo, section).unwrap();
    let entry = |(key, item): (bytes::Bytes, turntree::tree::Item)| {
        let bytes = repo.read_as(Kind::Blob, &item.link.id).unwrap();
        (String::from_utf8(key.to_vec()).unwrap(), serde_json::from_slice(&bytes).unwrap())
    };
    map.iter(repo).map(|found| entry(found.unwrap())).collect()
}

/// Commits a turn to `session` that applies a state document.
fn edit(repo: &Repository, session: &str, state: &Value) {
    let branch = BranchName::main(session).unwrap();
    let mut change = repo.begin();
    let parent = change.tip(&branch).map_or(Context::default(), |tip| repo.context(&tip).unwrap());
    let mut builder = Builder::from(parent);
    apply_state(&mut change, &mut builder, state.to_string().as_bytes()).unwrap();
    let tree = builder.write(&mut change).unwrap();
    let stamp = stamp(1_800_000_000);
    change.snapshot(&branch, SnapshotDraft::new(tree, "edited", &stamp)).unwrap();
    change.commit(&stamp, "snapshot").unwrap();
}

fn line(kind: &str, data: &Value, id: &str, parent: Option<&str>) -> Value {
    json!({
        "type": "custom", "customType": format!("open-codesign.{kind}"), "data": data, "id": id,
        "parentId": parent, "timestamp": "2026-05-01T10:00:00.000Z",
    })
}

fn row(seq: u64, kind: &str, payload: &Value) -> Value {
    json!({"schemaVersion": 1, "id": seq, "seq": seq, "kind": kind, "payload": payload, "snapshotId": null})
}

/// A file with the header and these lines.
fn file(lines: &[Value]) -> String {
    let lines = lines.iter().map(|line| line.to_string() + "\n");
    HEADER.to_owned() + "\n" + &lines.collect::<String>()
}

#[test]
fn imported_chats_are_exported_line_by_line() {
    let sandbox = Sandbox::new();
    sandbox.import("chat", CHAT.as_bytes()).unwrap();
    // The last line marks a missing comment, so it has no effect.
    let expected = &values(CHAT)[..5];
    assert_eq!(values(&chat_of(&sandbox.repo, "chat")), expected);
    assert_eq!(values(&chat_of(&sandbox.repo, "chat~1")), expected[..2]);
}

#[test]
fn comments_and_settings_are_exported_in_their_current_state() {
    let comment = |action: &str, more: Value| {
        let mut data = json!({"schemaVersion": 1, "action": action});
        data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        data
    };
    let rows = [
        json!({"id": "c2", "text": "wider", "createdAt": "2026-05-01T10:02:00.000Z"}),
        json!({"id": "c1", "text": "bigger", "status": "pending", "rect": {"top": 1.5},
            "createdAt": "2026-05-01T10:03:00.000Z"}),
    ];
    let patch = json!({"id": "c1", "patch": {"status": "dismissed"}});
    let chat = file(&[
        line("chat.message", &row(0, "user", &json!({"text": "hi"})), "a", None),
        line("comment.v1", &comment("add", json!({"row": rows[1]})), "b", Some("a")),
        line("context.brief.v1", &json!({"goal": "one"}), "c", Some("b")),
        line("comment.v1", &comment("add", json!({"row": rows[0]})), "d", Some("c")),
        line("comment.v1", &comment("update", patch), "e", Some("d")),
        line("chat.message", &row(1, "assistant_text", &json!({"text": "ho"})), "f", Some("e")),
        line("context.run_preferences.v1", &json!({"tweaks": true}), "g", Some("f")),
    ]);
    let sandbox = Sandbox::new();
    sandbox.import("chat", chat.as_bytes()).unwrap();
    let out = chat_of(&sandbox.repo, "chat");
    let lines = values(&out);
    let of = |kind: &str| -> Vec<&Value> {
        let kind = format!("open-codesign.{kind}");
        lines.iter().filter(|line| line["customType"] == *kind).map(|line| &line["data"]).collect()
    };
    let mut dismissed = rows[1].clone();
    dismissed["status"] = json!("dismissed");
    let expected = [rows[0].clone(), dismissed].map(|row| comment("add", json!({"row": row})));
    assert_eq!(of("comment.v1"), expected.iter().collect::<Vec<_>>(), "by their moments");
    assert_eq!(of("context.brief.v1"), [&json!({"goal": "one"})]);
    assert_eq!(of("context.run_preferences.v1"), [&json!({"tweaks": true})]);
    // The exported lines form one branch: the parent of each line is the line before it.
    let parents: Vec<&Value> = lines[2..].iter().map(|line| &line["parentId"]).collect();
    let ids: Vec<&Value> = lines[1..].iter().map(|line| &line["id"]).collect();
    assert_eq!(parents, ids[..ids.len() - 1]);
    let other = Sandbox::new();
    other.import("chat", out.as_bytes()).unwrap();
    for section in ["comments", "agents/main/state"] {
        let [one, two] = [&sandbox, &other].map(|sandbox| entries(&sandbox.repo, "chat", section));
        assert_eq!(one, two);
    }
    assert_eq!(chat_of(&other.repo, "chat"), out);
}

#[test]
fn exported_designs_and_chats_reimport_together() {
    let alone = |repo: &Repository, sessions: &[String]| -> Vec<(String, String)> {
        let chat = |session: &String| {
            let id = store_of(repo, &[session]);
            let id = serde_json::from_str::<Value>(&id).unwrap()["designs"][0]["id"].clone();
            (format!("sessions/{}.jsonl", id.as_str().unwrap()), chat_of(repo, session))
        };
        sessions.iter().map(chat).collect()
    };
    let (directory, database) = (Sandbox::new(), Sandbox::new());
    let chat = (format!("sessions/{PRICING}.jsonl"), CHAT);
    import_files(&directory, &[("design-store.json".to_owned(), STORE), chat]);
    database.import("work", DATABASE).unwrap();
    for (sandbox, sessions) in [
        (directory, vec!["work-pricing-page".to_owned(), "work-pricing-page-copy".to_owned()]),
        (database, vec!["work".to_owned()]),
    ] {
        let names: Vec<&str> = sessions.iter().map(String::as_str).collect();
        let store = store_of(&sandbox.repo, &names);
        let chats = alone(&sandbox.repo, &sessions);
        let mut files = vec![("design-store.json".to_owned(), store.as_str())];
        files.extend(chats.iter().map(|(path, text)| (path.clone(), text.as_str())));
        let other = Sandbox::new();
        assert_eq!(import_files(&other, &files), sessions);
        for session in &sessions {
            assert_eq!(said(&other.repo, session), said(&sandbox.repo, session), "{session}");
        }
        assert_eq!(alone(&other.repo, &sessions), chats);
        assert_eq!(store_of(&other.repo, &names), store);
    }
}

#[test]
fn several_sessions_export_as_designs_of_one_store() {
    let sandbox = Sandbox::new();
    sandbox.import("work", STORE.as_bytes()).unwrap();
    edit(&sandbox.repo, "mine", &json!({"files": {"index.svg": "<svg/>"}}));
    let out = store_of(&sandbox.repo, &["work-pricing-page-copy", "mine", "work-pricing-page"]);
    let found: Value = serde_json::from_str(&out).unwrap();
    let names: Vec<_> =
        found["designs"].as_array().unwrap().iter().map(|design| &design["name"]).collect();
    assert_eq!(names, ["Pricing page copy", "mine", "Pricing page"]);
    let original: Value = serde_json::from_str(STORE).unwrap();
    for design in original["designs"].as_array().unwrap() {
        assert!(found["designs"].as_array().unwrap().contains(design));
    }
    let moments: Vec<&str> = found["snapshots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["createdAt"].as_str().unwrap())
        .collect();
    assert!(moments.is_sorted() && moments.len() >= 3, "{moments:?}");
    let other = Sandbox::new();
    let report = other.import("again", out.as_bytes()).unwrap();
    assert_eq!(report.branch.session(), "again-pricing-page-copy");
    let sessions = ["again-pricing-page-copy", "again-mine", "again-pricing-page"];
    assert_eq!(store_of(&other.repo, &sessions), out);

    // A store cannot contain the same design twice.
    sandbox.import("twice", STORE.as_bytes()).unwrap();
    let tips =
        ["work-pricing-page", "twice-pricing-page"].map(|name| vec![tip(&sandbox.repo, name)]);
    let error = export_designs(&sandbox.repo, &tips, &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("the same design"), "{error}");
}

#[test]
fn new_chat_messages_are_exported_in_the_upstream_format() {
    let sandbox = Sandbox::new();
    let user = line("chat.message", &row(4, "user", &json!({"text": "hi"})), "a", None);
    sandbox.import("work", file(std::slice::from_ref(&user)).as_bytes()).unwrap();
    let call = json!({"type": "tool_use", "id": "t1", "name": "edit", "input": {"path": "a"}});
    let result = json!({"type": "tool_result", "tool_use_id": "t1", "content": "no such file", "is_error": true});
    let messages = json!([
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "a form"},
        {"role": "assistant", "content": [{"type": "text", "text": "I try."}, call]},
        {"role": "user", "content": [result, {"type": "text", "text": "oh"}]},
    ]);
    let comments = json!({"c1": {"text": "bigger"}, "c2": "in words"});
    let state = json!({"agents": {"main": {"messages": messages}}, "comments": comments});
    edit(&sandbox.repo, "other", &state);
    let out = values(&chat_of(&sandbox.repo, "other"));
    assert_eq!(out[0]["type"], "session");
    assert_eq!(
        (&out[0]["version"], &out[0]["timestamp"]),
        (&json!(3), &json!("2027-01-15T08:00:00.000Z"))
    );
    let data: Vec<&Value> = out[1..].iter().map(|line| &line["data"]).collect();
    let payload = json!({"toolName": "edit", "args": {"path": "a"}, "status": "running",
        "startedAt": "2027-01-15T08:00:00.000Z", "verbGroup": "Working", "toolCallId": "t1"});
    let content = json!({"content": [{"type": "text", "text": "no such file"}]});
    let comment = |row: Value| json!({"schemaVersion": 1, "action": "add", "row": row});
    let expected = [
        row(0, "user", &json!({"text": "a form"})),
        row(1, "assistant_text", &json!({"text": "I try."})),
        row(2, "tool_call", &payload),
        json!({"schemaVersion": 1, "seq": 2, "status": "error", "result": content,
            "errorMessage": "no such file"}),
        row(3, "user", &json!({"text": "oh"})),
        comment(json!({"text": "bigger", "id": "c1"})),
        comment(json!({"id": "c2", "text": "in words"})),
    ];
    assert_eq!(data, expected.iter().collect::<Vec<_>>());
    let first = &out[1];
    assert_eq!(
        first.to_string(),
        line("chat.message", &expected[0], first["id"].as_str().unwrap(), None)
            .to_string()
            .replace("2026-05-01T10:00:00.000Z", "2027-01-15T08:00:00.000Z")
    );

    // When the chat continues, its numbers follow the existing ones.
    let kept = json!({"role": "assistant", "content": "kept"});
    let branch = BranchName::main("work").unwrap();
    let mut change = sandbox.repo.begin();
    let parent = sandbox.repo.context(&tip(&sandbox.repo, "work")).unwrap();
    let mut builder = Builder::from(parent);
    let blob =
        turntree::object::ObjectSink::write(&mut change, Kind::Blob, kept.to_string().into());
    let entry = MessageEntry::new(blob.unwrap(), turntree::context::Role::Assistant, "json");
    builder.push_message(&mut change, "main", &entry).unwrap();
    let tree = builder.write(&mut change).unwrap();
    change.snapshot(&branch, SnapshotDraft::new(tree, "on", &stamp(1_800_000_000))).unwrap();
    change.commit(&stamp(1_800_000_000), "snapshot").unwrap();
    let out = chat_of(&sandbox.repo, "work");
    let lines = values(&out);
    assert_eq!(
        (&lines[1], &lines[2]["data"]),
        (&user, &row(5, "assistant_text", &json!({"text": "kept"})))
    );
    assert_eq!(lines[2]["parentId"], "a");
    let again = Sandbox::new();
    again.import("work", out.as_bytes()).unwrap();
    assert_eq!(chat_of(&again.repo, "work"), out);
}

/// Rows and statuses with any numbers and ids, including duplicates.
fn chats() -> impl Strategy<Value = Vec<Value>> {
    let row = (0..4_u64, 0..5_usize, 0..6_u8, any::<bool>());
    prop::collection::vec(row, 0..12).prop_map(|rows| {
        let line_of = |(seq, kind, id, is_shown): (u64, usize, u8, bool)| {
            let id = format!("id{id}");
            let text = json!({"text": format!("text {seq}")});
            let (kind, data) = match kind {
                0 => ("chat.message", row_of(seq, "user", text)),
                1 => ("chat.message", row_of(seq, "assistant_text", text)),
                2 => (
                    "chat.message",
                    row_of(seq, "tool_call", json!({"toolName": "edit", "args": {}})),
                ),
                3 => {
                    let status = if is_shown { "done" } else { "error" };
                    let result = json!({"content": [{"type": "text", "text": "out"}]});
                    (
                        "chat.tool_status",
                        json!({"schemaVersion": 1, "seq": seq, "status": status, "result": result}),
                    )
                }
                _ => ("context.brief.v1", json!({"goal": seq})),
            };
            line(kind, &data, &id, None)
        };
        rows.into_iter().map(line_of).collect()
    })
}

fn row_of(seq: u64, kind: &str, payload: Value) -> Value {
    row(seq, kind, &payload)
}

turntree_properties::properties! {
    cases = 60;

    #[test]
    fn any_exported_chat_reimports_with_the_same_messages(lines in chats()) {
        prop_assume!(lines.iter().any(|line| line["customType"] == "open-codesign.chat.message"));
        let sandbox = Sandbox::new();
        sandbox.import("work", file(&lines).as_bytes()).unwrap();
        let out = chat_of(&sandbox.repo, "work");
        let (mut ids, mut numbers) = (Vec::new(), Vec::new());
        for line in &values(&out)[1..] {
            ids.push(line["id"].clone());
            if line["customType"] == "open-codesign.chat.message" {
                numbers.push(line["data"]["seq"].as_u64().unwrap());
            }
        }
        prop_assert!(numbers.is_sorted_by(|a, b| a < b), "{:?}", numbers);
        ids.sort_by_key(Value::to_string);
        let count = ids.len();
        ids.dedup();
        prop_assert_eq!(ids.len(), count);
        let other = Sandbox::new();
        other.import("work", out.as_bytes()).unwrap();
        prop_assert_eq!(said(&other.repo, "work"), said(&sandbox.repo, "work"));
        prop_assert_eq!(chat_of(&other.repo, "work"), out);
    }
}
