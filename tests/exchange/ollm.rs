//! Files of OLLM CLI are imported as commits, and exported unchanged or as edited.

use std::fs;

use serde_json::{Value, json};
use turntree::context::{Builder, Context};
use turntree::object::{Kind, ObjectId, ObjectSource, Trigger};
use turntree::repo::{BranchName, Repository, SnapshotDraft};
use turntree::{Error, ErrorKind};
use turntree_exchange::formats::ollm::{OllmCompat, SnapshotFacts, export_context};
use turntree_exchange::{apply_state, context_tokens, detect};
use turntree_tests::ollm::{
    exported, files, one_snapshot, restored, restored_upstream, vector, vectors,
};
use turntree_tests::{Sandbox, claude_code, stamp};

/// The fields of a context snapshot, in their order in files.
const FIELDS: [&str; 11] = [
    "version",
    "id",
    "sessionId",
    "timestamp",
    "tokenCount",
    "summary",
    "metadata",
    "userMessages",
    "archivedUserMessages",
    "messages",
    "checkpoints",
];

fn import(sandbox: &Sandbox, document: &str) -> ObjectId {
    sandbox.import("work", document.as_bytes()).unwrap().head
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn refused(document: &str, format: &str) -> Error {
    let sandbox = Sandbox::new();
    let before = sandbox.repo.refs();
    let error = sandbox.import_as("work", format, document.as_bytes()).unwrap_err();
    assert_eq!(sandbox.repo.refs(), before, "an error leaves no trace");
    error
}

fn edit(repo: &Repository, state: &Value) -> ObjectId {
    let branch: BranchName = "work".parse().unwrap();
    let mut change = repo.begin();
    let parent = change.tip(&branch).map_or(Context::default(), |tip| repo.context(&tip).unwrap());
    let mut builder = Builder::from(parent);
    apply_state(&mut change, &mut builder, state.to_string().as_bytes()).unwrap();
    let tree = builder.write(&mut change).unwrap();
    let id = change
        .snapshot(&branch, SnapshotDraft::new(tree, "edited", &stamp(1_769_700_000)))
        .unwrap();
    change.commit(&stamp(7), "snapshot").unwrap();
    id
}

#[test]
fn ollm_documents_round_trip_exactly() {
    let mut documents = files("context-snapshots", "snapshot-");
    documents.extend(files("real/mode-transition", "transition-"));
    documents.extend(
        [
            "old-format-no-userMessages.json",
            "snapshotdata-v0.1.1-migrated.json",
            "transition-1769000000123.json",
            "intent-0001.json",
        ]
        .map(|name| vectors().join(name)),
    );
    assert_eq!(documents.len(), 6 + 20 + 4);
    for path in documents {
        let document = fs::read_to_string(&path).unwrap();
        let sandbox = Sandbox::new();
        let report = sandbox.import("work", document.as_bytes()).unwrap();
        assert_eq!(report.notes, [], "{}", path.display());
        assert!(sandbox.source(&report.head) == document.as_bytes());
        let out = exported(&sandbox.repo, &report.head);
        let is_file = !path.ends_with("old-format-no-userMessages.json")
            && !path.ends_with("snapshotdata-v0.1.1-migrated.json");
        if is_file {
            // With the order of keys and the white space.
            assert_eq!(out, document.trim_end(), "{}", path.display());
        }
        // An import of the export has the same content.
        let other = Sandbox::new();
        let again = import(&other, &out);
        assert_eq!(exported(&other.repo, &again), out);
        assert_eq!(restored(&other, &again), restored(&sandbox, &report.head));
        let known = sandbox.import("work", document.as_bytes()).unwrap();
        assert_eq!((known.turns, known.new_bytes), (0, 0), "the same document again is known");
    }
}

#[test]
fn debug_lists_are_not_snapshots() {
    for path in files("real/snapshot-debug", "snapshot-debug") {
        let error = detect(&fs::read(path).unwrap()).unwrap_err();
        assert!(error.to_string().contains("unknown format"), "{error}");
    }
}

#[test]
fn storage_vectors_match() {
    let cases: Vec<Value> = serde_json::from_str(&vector("vectors/storage-cases.json")).unwrap();
    assert_eq!(cases.len(), 9);
    for case in &cases {
        match case["name"].as_str().unwrap() {
            "messages_only_save_then_load" => saved_from_messages_alone(case),
            "old_file_without_userMessages" => {
                let sandbox = Sandbox::new();
                let head = import(&sandbox, &vector(case["file"].as_str().unwrap()));
                assert_eq!(json!(restored(&sandbox, &head)), case["restored"]);
                let out = value(&exported(&sandbox.repo, &head));
                assert_eq!(json!(restored_upstream(&out)), case["restored"]);
            }
            "goalStack_reasoning_lost" => goals_and_reasoning_are_kept(),
            "rolling_cleanup" => rolling_cleanup(case),
            // A missing revision gives this program's error; see the stories.
            "delete_missing" | "exists_missing" => {
                let sandbox = Sandbox::new();
                let error = sandbox.repo.resolve("nope").unwrap_err();
                assert_eq!(error.kind(), ErrorKind::NotFound);
            }
            // Nothing can be disabled, and a snapshot without a session gets a default.
            "disabled" => {}
            "no_session" => {
                let sandbox = Sandbox::new();
                assert_eq!(sandbox.repo.head().unwrap().branch.session(), "default");
            }
            "summary_two_users" => {
                let sandbox = Sandbox::new();
                let users =
                    [&case["first"], &case["last"]].map(|c| json!({"role": "user", "content": c}));
                let head = edit(&sandbox.repo, &json!({"agents": {"main": {"messages": users}}}));
                assert_eq!(value(&exported(&sandbox.repo, &head))["summary"], case["summary"]);
            }
            other => panic!("the case {other} is not known"),
        }
    }
}

/// A file that upstream saves if only messages are given: all of them are in both arrays.
fn saved_from_messages_alone(case: &Value) {
    let moment = |index: usize| format!("2026-01-21T12:00:0{index}.000Z");
    let messages: Vec<Value> = case["saved"]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(at, m)| json!({"id": m[0], "role": m[1], "content": m[2], "timestamp": moment(at)}))
        .collect();
    let mut file = one_snapshot();
    file["userMessages"] = json!(messages);
    file["messages"] = json!(messages);
    assert_eq!(
        json!(restored_upstream(&file)),
        case["restored_upstream"],
        "what upstream gets wrong"
    );
    let sandbox = Sandbox::new();
    let head = import(&sandbox, &file.to_string());
    assert_eq!(json!(restored(&sandbox, &head)), case["saved"]["messages"]);
    // Upstream restores the intended messages from the export.
    let out = value(&exported(&sandbox.repo, &head));
    assert_eq!(json!(restored_upstream(&out)), case["saved"]["messages"]);
}

fn goals_and_reasoning_are_kept() {
    let mut document = one_snapshot();
    document["goalStack"] =
        json!({"activeGoal": {"id": "g1", "description": "green"}, "completedGoals": []});
    document["reasoningStorage"] = json!([{"content": "hm", "tokenCount": 1}]);
    let call = json!([{"id": "c1", "name": "shell", "args": {"b": 1, "a": 2}}]);
    document["messages"][1]["toolCalls"] = call.clone();
    document["messages"][2]["toolCallId"] = json!("c1");
    let sandbox = Sandbox::new();
    let head = import(&sandbox, &document.to_string());
    let (repo, context) = (&sandbox.repo, sandbox.repo.context(&head).unwrap());
    assert_eq!(context.count(repo, "goals").unwrap(), 2);
    assert_eq!(context.count(repo, "reasoning").unwrap(), 1);
    let out = value(&exported(&sandbox.repo, &head));
    assert_eq!(out["goalStack"], document["goalStack"]);
    assert_eq!(out["reasoningStorage"], document["reasoningStorage"]);
    assert_eq!(
        out["messages"][1]["metadata"],
        json!({"toolCalls": call}),
        "where upstream keeps it"
    );
    assert_eq!(out["messages"][2]["metadata"], json!({"exit": 1, "toolCallId": "c1"}));
    let again = Sandbox::new();
    let head = import(&again, &out.to_string());
    assert_eq!(value(&exported(&again.repo, &head)), out);
}

fn rolling_cleanup(case: &Value) {
    use turntree::maintenance::{Policies, Policy, Roots, plan_retention};
    let sandbox = Sandbox::new();
    let count = |name: &str| case[name].as_u64().unwrap();
    for n in 0..count("created") {
        let mut document = one_snapshot();
        document["id"] = json!(format!("snapshot {n}"));
        document["timestamp"] = json!(format!("2026-01-21T12:00:0{n}.000Z"));
        document["userMessages"][0]["content"] = json!(format!("message {n}"));
        import(&sandbox, &document.to_string());
    }
    let policy = Policy { keep_last: Some(count("maxCount")), ..Policy::default() };
    let policies = Policies { default: Some(policy), ..Policies::default() };
    let roots = Roots::find(&sandbox.repo, &sandbox.repo.refs(), 1).unwrap();
    let mut roots = roots;
    // Turns kept for undo are removed from the roots: the rule is about the rest.
    roots
        .commits
        .retain(|_, reasons| reasons.iter().any(|reason| reason.to_string().starts_with("branch")));
    let plan = plan_retention(&roots, &policies, 1, &|_| false, None).unwrap();
    assert_eq!(plan.kept.len() as u64, count("remaining"));
    assert_eq!(plan.elided.iter().map(|turn| turn.turn).max(), Some(2), "the oldest go");
}

#[test]
fn context_chef_snapshots_map_to_standard_sections() {
    let sandbox = Sandbox::new();
    let head = import(&sandbox, &one_snapshot().to_string());
    let repo = &sandbox.repo;
    let commit = repo.commit(&head).unwrap();
    assert_eq!(commit.author.model, "qwen2.5:3b");
    assert_eq!(context_tokens(&commit), Some(321));
    let ids: Vec<String> =
        restored(&sandbox, &head).iter().map(|m| m[0].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids, ["m0", "m1", "m2", "m3", "m4", "m5"], "by time");
    let context = repo.context(&head).unwrap();
    let state = context.map(repo, "agents/main/state").unwrap();
    let goal = state.get(repo, b"activeGoalId").unwrap().unwrap();
    assert_eq!(repo.read_as(Kind::Blob, &goal.link.id).unwrap(), r#""g1""#);

    let sandbox = Sandbox::new();
    let head = import(&sandbox, &vector("snapshotdata-v0.1.1-migrated.json"));
    let commit = sandbox.repo.commit(&head).unwrap();
    assert_eq!((commit.trigger, &*commit.message), (Trigger::Emergency, "emergency snapshot"));
    let context = sandbox.repo.context(&head).unwrap();
    assert_eq!(context.count(&sandbox.repo, "checkpoints").unwrap(), 1);
    let out = value(&exported(&sandbox.repo, &head));
    assert_eq!(out["checkpoints"][0]["id"], "ckpt-1");
    assert_eq!(out["metadata"]["purpose"], "emergency");
    assert_eq!(out["timestamp"], "2026-01-29T15:20:00.000Z");
}

#[test]
fn user_messages_are_complete_and_not_duplicated() {
    let long = "é".repeat(300_000);
    let mut document = one_snapshot();
    document["userMessages"][0]["content"] = json!(long);
    document["userMessages"][0]["taskId"] = json!("t1");
    // As v0.1.1 writes them: in both arrays, one copy with more fields.
    let mut copy = document["userMessages"][0].clone();
    copy.as_object_mut().unwrap().remove("taskId");
    copy["metadata"] = json!({"from": "here"});
    document["messages"].as_array_mut().unwrap().push(copy);
    let twice = document["messages"][1].clone();
    document["messages"].as_array_mut().unwrap().push(twice);
    let sandbox = Sandbox::new();
    let report = sandbox.import("work", document.to_string().as_bytes()).unwrap();
    assert_eq!(report.messages, 6);
    let notes: Vec<&str> = report.notes.iter().map(|note| note.what.as_str()).collect();
    assert_eq!(notes, ["messages[5] has the id of an earlier message, which is used"]);
    let out = value(&exported(&sandbox.repo, &report.head));
    let user = &out["userMessages"][0];
    assert!(user["content"] == json!(long));
    assert_eq!((&user["taskId"], &user["metadata"]), (&json!("t1"), &json!({"from": "here"})));
}

#[test]
fn messages_are_ordered_by_the_time_of_their_copy() {
    let mut document = one_snapshot();
    let copy =
        json!({"id": "b", "role": "user", "content": "", "timestamp": "2026-01-21T01:00:00Z"});
    document["userMessages"] = json!([
        {"id": "a", "role": "user", "content": "", "timestamp": "2026-01-21T02:00:00Z"},
        {"id": "b", "role": "user", "content": ""},
    ]);
    document["messages"] = json!([copy]);
    let sandbox = Sandbox::new();
    let first = exported(&sandbox.repo, &import(&sandbox, &document.to_string()));
    let out = value(&first);
    assert_eq!(
        (&out["userMessages"][0]["id"], &out["userMessages"][1]["id"]),
        (&json!("b"), &json!("a"))
    );
    let again = Sandbox::new();
    let second = exported(&again.repo, &import(&again, &first));
    assert_eq!(value(&second), out);
}

#[test]
fn an_edited_snapshot_has_the_documented_shape() {
    let sandbox = Sandbox::new();
    let mut document = one_snapshot();
    document["future"] = json!({"b": [1e3, null], "a": null});
    document["metadata"]["mine"] = Value::Null;
    import(&sandbox, &document.to_string());
    let edited = edit(
        &sandbox.repo,
        &json!({
            "agents": {"main": {"messages": [
                {"role": "user", "content": "Go on"},
                {"role": "assistant", "content": "I look", "toolCalls": [{"id": "c", "name": "ls", "args": {}}]},
                {"role": "tool", "content": "a b", "toolCallId": "c", "mine": 1},
            ]}},
        }),
    );
    let out = value(&exported(&sandbox.repo, &edited));
    let keys: Vec<&String> = out.as_object().unwrap().keys().collect();
    assert_eq!(keys, [&FIELDS[..], &["future"]].concat());
    assert_ne!(out["id"], document["id"], "a changed snapshot is a new snapshot");
    assert_eq!(out["id"].as_str().unwrap().len(), 36);
    assert_eq!((&out["summary"], &out["tokenCount"]), (&json!("Go on"), &json!(2 + 2 + 1)));
    assert_eq!(out["metadata"], document["metadata"], "null is not absent");
    assert_eq!(out["messages"][1]["metadata"], json!({"toolCallId": "c"}));
    let keys: Vec<&String> = out["messages"][1].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["id", "role", "content", "timestamp", "metadata", "mine"]);
    let contents: Vec<Value> = restored_upstream(&out).iter().map(|m| m[2].clone()).collect();
    assert_eq!(contents, ["Go on", "I look", "a b"], "upstream sorts by time");
    let other = Sandbox::new();
    let again = import(&other, &out.to_string());
    assert_eq!(value(&exported(&other.repo, &again)), out);
}

fn exported_for(repo: &Repository, commit: &ObjectId, compat: OllmCompat) -> String {
    let facts = SnapshotFacts::of(commit, &repo.commit(commit).unwrap());
    let mut out = Vec::new();
    export_context(repo, &repo.context(commit).unwrap(), &facts, compat, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Documents in every shape, and messages of other agents.
fn conversations() -> Vec<(Sandbox, ObjectId)> {
    let mut documents: Vec<String> = files("context-snapshots", "snapshot-")
        .iter()
        .map(|p| fs::read_to_string(p).unwrap())
        .collect();
    let others = ["old-format-no-userMessages.json", "snapshotdata-v0.1.1-migrated.json"];
    documents.extend(others.map(vector));
    let mut rich = one_snapshot();
    rich["goalStack"] = json!({"activeGoal": {"id": "g1"}});
    rich["reasoningStorage"] = json!([{"content": "hm"}]);
    rich["future"] = json!(1);
    rich["metadata"]["mine"] = json!(1);
    rich["archivedUserMessages"] = json!([{"id": "m9", "summary": "s"}]);
    rich["userMessages"][0]["taskId"] = json!("t1");
    rich["messages"][1]["toolCalls"] = json!([{"id": "c1", "name": "ls", "args": {}}]);
    documents.push(rich.to_string());
    documents.push(claude_code(12));
    let import_alone = |document: &String| {
        let sandbox = Sandbox::new();
        let head = import(&sandbox, document);
        (sandbox, head)
    };
    let mut all: Vec<(Sandbox, ObjectId)> = documents.iter().map(import_alone).collect();
    let (sandbox, _) = import_alone(&documents[0]);
    let messages = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]);
    let head = edit(&sandbox.repo, &json!({"agents": {"main": {"messages": messages}}}));
    all.push((sandbox, head));
    all
}

#[test]
fn compatible_exports_restore_in_current_upstream() {
    let keys =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    let known = ["id", "role", "content", "timestamp", "tokenCount"];
    let said = |m: &Value| json!([m["id"], m["role"], m["content"]]);
    for (sandbox, head) in conversations() {
        let sound = value(&exported_for(&sandbox.repo, &head, OllmCompat::Sound));
        let text = exported_for(&sandbox.repo, &head, OllmCompat::Upstream);
        let out = value(&text);
        assert_eq!(keys(&out), FIELDS);
        for (list, more) in [("userMessages", "taskId"), ("messages", "metadata")] {
            for message in out[list].as_array().unwrap() {
                let keys = keys(message);
                assert!(
                    keys.iter().all(|key| known.contains(&key.as_str()) || key == more),
                    "{keys:?}"
                );
            }
        }
        // It restores only `messages`, in their order.
        let messages = out["messages"].as_array().unwrap();
        let restored_alone: Vec<Value> = messages.iter().map(said).collect();
        assert_eq!(restored_alone, restored_upstream(&sound));
        let metadata = &out["metadata"];
        assert_eq!(metadata["messageCount"], messages.len());
        let checkpoints = out["checkpoints"].as_array().unwrap().len();
        assert_eq!(metadata["checkpointCount"], checkpoints);
        assert!(matches!(metadata["purpose"].as_str(), Some("recovery" | "emergency")));
        assert_eq!((&out["archivedUserMessages"], metadata.get("mine")), (&json!([]), None));
        for name in ["id", "sessionId", "timestamp", "tokenCount", "summary", "version"] {
            assert_eq!(out[name], sound[name], "{name}");
        }
        // A repeated import has each message once.
        let other = Sandbox::new();
        let report = other.import("work", text.as_bytes()).unwrap();
        assert_eq!(report.notes, []);
        assert_eq!(restored(&other, &report.head), restored_alone);
        assert_eq!(exported_for(&other.repo, &report.head, OllmCompat::Upstream), text);
    }
}

#[test]
fn a_session_of_another_system_can_be_exported() {
    let sandbox = Sandbox::new();
    let head = sandbox.import("work", claude_code(12).as_bytes()).unwrap().head;
    let out = exported_for(&sandbox.repo, &head, OllmCompat::Sound);
    let other = Sandbox::new();
    let report = other.import("work", out.as_bytes()).unwrap();
    assert_eq!(report.notes, []);
    assert_eq!(restored_upstream(&value(&out)), restored(&other, &report.head));
    assert_eq!(exported(&other.repo, &report.head), out);
}

#[test]
fn invalid_documents_are_rejected_with_their_location() {
    type Change = fn(&mut Value);
    fn remove(document: &mut Value, name: &str) {
        document.as_object_mut().unwrap().shift_remove(name);
    }
    let contexts: &[(Change, &str)] = &[
        (|d| remove(d, "id"), "id is missing: expected text"),
        (|d| remove(d, "sessionId"), "sessionId is missing"),
        (|d| remove(d, "messages"), "messages is missing: expected an array"),
        (|d| d["id"] = json!(""), "id: expected text, found none"),
        (|d| d["version"] = json!(1), "version: expected text, found a number"),
        (|d| d["timestamp"] = json!("soon"), "timestamp: expected a time"),
        (|d| d["messages"] = json!({}), "messages: expected an array, found an object"),
        (|d| d["messages"][1] = json!("x"), "messages[1]: expected an object, found text"),
        (
            |d| d["messages"][1]["content"] = json!([1]),
            "messages[1].content: expected text, found an array",
        ),
        (|d| d["messages"][2]["role"] = json!(1), "messages[2].role: expected text"),
        (
            |d| d["userMessages"][0]["id"] = json!(7),
            "userMessages[0].id: expected text, found a number",
        ),
        (|d| d["metadata"] = json!([]), "metadata: expected an object, found an array"),
        (|d| d["metadata"][""] = json!(1), "metadata: a key has 0 bytes"),
        (|d| d["checkpoints"] = json!([1]), "checkpoints[0]: expected an object"),
        (|d| d["tokenCount"] = json!("many"), "tokenCount: expected a number, found text"),
        (|d| d["conversationState"] = json!({}), "has both conversationState and messages"),
    ];
    for (change, expected) in contexts {
        let mut document = one_snapshot();
        change(&mut document);
        let error = refused(&document.to_string(), "ollm-context");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(expected), "{error} is not {expected}");
    }
    let migrated: &[(Change, &str)] = &[
        (
            |d| remove(&mut d["conversationState"], "messages"),
            "conversationState.messages is missing",
        ),
        (
            |d| remove(&mut d["conversationState"], "checkpoints"),
            "conversationState.checkpoints is missing",
        ),
        (
            |d| d["conversationState"]["metadata"] = json!(1),
            "conversationState.metadata: expected an object",
        ),
        (|d| remove(d, "purpose"), "purpose is missing"),
    ];
    let cases = [("snapshotdata-v0.1.1-migrated.json", "ollm-context", migrated)];
    let modes: &[(Change, &str)] = &[
        (|d| remove(d, "recentMessages"), "recentMessages is missing"),
        (|d| remove(d, "toMode"), "toMode is missing"),
        (
            |d| d["recentMessages"][0]["content"] = json!(1),
            "recentMessages[0].content: expected text",
        ),
        (|d| d["activeSkills"] = json!([1]), "activeSkills[0]: expected text"),
        (|d| d["findings"] = json!([]), "findings: expected an object"),
        (|d| d["reasoningTraces"] = json!(["x"]), "reasoningTraces[0]: expected an object"),
        (|d| d["currentTask"] = json!(1), "currentTask: expected text"),
    ];
    let intents: &[(Change, &str)] = &[
        (|d| remove(d, "extracted"), "extracted is missing"),
        (|d| d["confirmed"] = json!("yes"), "confirmed: expected true or false, found text"),
        (|d| d["extracted"]["keyPoints"] = json!([1]), "extracted.keyPoints[0]: expected text"),
        (|d| d["id"] = json!(""), "id: expected 1 to 4096 bytes, found 0"),
    ];
    let more = [
        ("transition-1769000000123.json", "ollm-mode", modes),
        ("intent-0001.json", "ollm-intent", intents),
    ];
    for (file, format, changes) in cases.into_iter().chain(more) {
        for (change, expected) in changes {
            let mut document = value(&vector(file));
            change(&mut document);
            let error = refused(&document.to_string(), format).to_string();
            assert!(error.contains(expected), "{error} is not {expected}");
        }
    }
    for text in ["{\"id\": 1,\n tru}", "[]", "7", "{"] {
        let _ = refused(text, "ollm-context");
    }
}

#[test]
fn tolerated_irregularities_are_warnings() {
    let mut document = one_snapshot();
    document["version"] = json!("2.0");
    document["tokenCount"] = json!(-1);
    document["messages"][0].as_object_mut().unwrap().remove("id");
    document["messages"][1].as_object_mut().unwrap().remove("timestamp");
    document["messages"][2]["role"] = json!("critic");
    document["messages"][3]["content"] = Value::Null;
    document["checkpoints"] = json!([{"id": "c", "originalMessageIds": ["gone"]}]);
    let text = document.to_string().replace("You help", "You \\ud83d help");
    let sandbox = Sandbox::new();
    let report = sandbox.import("work", text.as_bytes()).unwrap();
    let notes: Vec<&str> = report.notes.iter().map(|note| note.what.as_str()).collect();
    for expected in [
        "version: unknown, and read as 1.0",
        "tokenCount: expected a number of 0 or more",
        "messages[0].id is missing",
        "messages[1] has no time: it stays after the previous message",
        "messages[2].role: 'critic' is not known",
        "half of a surrogate pair",
    ] {
        assert!(notes.iter().any(|note| note.contains(expected)), "{expected}: {notes:?}");
    }
    assert!(sandbox.source(&report.head) == text.as_bytes());
    let out = exported(&sandbox.repo, &report.head);
    assert!(out.contains("You \\ud83d help"), "half a character is kept");
    let other = Sandbox::new();
    let again = import(&other, &out);
    assert_eq!(exported(&other.repo, &again), out);
}
