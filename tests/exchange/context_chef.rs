//! Snapshots of ContextChef are imported as commits, and exported unchanged or as edited.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};
use turntree::context::export_source;
use turntree::context::{Builder, Context};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{BranchName, Repository, SnapshotDraft};
use turntree::{Error, ErrorKind};
use turntree_exchange::formats::context_chef::{ChefOptions, Expired, expired, export_chef};
use turntree_exchange::{apply_state, named_by_content};
use turntree_tests::{Sandbox, stamp};

const SNAPSHOT: &str = include_str!("../vectors/context-chef/store-3.9.0/snapshot.json");
const EMPTY: &str = include_str!("../vectors/context-chef/store-3.9.0/empty.json");

fn import(sandbox: &Sandbox, document: &str) -> ObjectId {
    let report = sandbox.import("work", document.as_bytes()).unwrap();
    assert_eq!(report.format, "context-chef");
    report.head
}

fn exported(repo: &Repository, commit: &ObjectId) -> String {
    exported_with(repo, commit, &ChefOptions::of(&repo.commit(commit).unwrap()))
}

fn exported_with(repo: &Repository, commit: &ObjectId, options: &ChefOptions) -> String {
    let mut out = Vec::new();
    export_chef(repo, &repo.context(commit).unwrap(), options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The error of an import.
fn refused(document: &str) -> Error {
    let sandbox = Sandbox::new();
    let before = sandbox.repo.refs();
    let options = turntree_exchange::ImportOptions {
        format: Some(turntree_exchange::formats::named("context-chef").unwrap()),
        session: "work".to_owned(),
        stamp: stamp(1),
        switch: false,
        adoption: None,
        branch: None,
    };
    let error =
        turntree_exchange::import(&sandbox.repo, document.as_bytes(), &options).unwrap_err();
    assert_eq!(sandbox.repo.refs(), before, "an error leaves no trace");
    error
}

/// A document of the current version, changed.
fn changed(change: impl FnOnce(&mut Value)) -> String {
    let mut document = value(SNAPSHOT);
    change(&mut document);
    document.to_string()
}

/// Commits a turn to `branch` that applies a state document.
fn edit(repo: &Repository, branch: &str, state: &Value) -> ObjectId {
    let branch: BranchName = branch.parse().unwrap();
    let mut change = repo.begin();
    let parent = change.tip(&branch).map_or(Context::default(), |tip| repo.context(&tip).unwrap());
    let mut builder = Builder::from(parent);
    apply_state(&mut change, &mut builder, state.to_string().as_bytes()).unwrap();
    let tree = builder.write(&mut change).unwrap();
    let id = change.snapshot(&branch, SnapshotDraft::new(tree, "edited", &stamp(7))).unwrap();
    change.commit(&stamp(7), "snapshot").unwrap();
    id
}

#[test]
fn context_chef_examples_round_trip_exactly() {
    for document in [SNAPSHOT, EMPTY] {
        let sandbox = Sandbox::new();
        let head = import(&sandbox, document);
        assert!(sandbox.source(&head) == document.as_bytes());
        let out = exported(&sandbox.repo, &head);
        // With the order of keys, which both keep.
        assert_eq!(out, value(document).to_string());
        // An import of the export has the same content.
        let other = Sandbox::new();
        let again = import(&other, &out);
        assert_eq!(exported(&other.repo, &again), out);
    }
}

#[test]
fn context_chef_snapshots_map_to_standard_sections() {
    let sandbox = Sandbox::new();
    let head = import(&sandbox, SNAPSHOT);
    let repo = &sandbox.repo;
    let commit = repo.commit(&head).unwrap();
    assert_eq!(commit.message, "before publish");
    assert_eq!(commit.time.micros, 1_772_442_001_000_000);
    let context = repo.context(&head).unwrap();
    assert_eq!(context.messages(repo, "main").unwrap().len(), 4);
    let text = |section: &str, key: &str| {
        let item = context.map(repo, section).unwrap().get(repo, key.as_bytes()).unwrap();
        let bytes = repo.read_as(Kind::Blob, &item.unwrap().link.id).unwrap();
        value(std::str::from_utf8(&bytes).unwrap())
    };
    assert_eq!(text("memory", "café/key")["value"], "ünïcode ✓");
    assert_eq!(text("agents/main/state", "janitor")["externalTokenUsage"], 6400);
    assert_eq!(text("agents/main/state", "activeSkillName"), "ship-it");
    assert_eq!(text("agents/main/state", "memoryOrder"), json!(["deploy_target", "café/key"]));
}

#[test]
fn an_edited_snapshot_has_the_documented_shape() {
    let sandbox = Sandbox::new();
    import(&sandbox, SNAPSHOT);
    let state = json!({
        "agents": {"main": {"messages": [
            {"role": "user", "content": "Ship 1.4.1", "_cache_breakpoint": true},
            {"role": "assistant", "content": [{"type": "text", "text": "Done"}]},
        ]}},
        "memory": {"deploy_target": {"value": "prod"}, "plain": "text"},
    });
    let edited = edit(&sandbox.repo, "work", &state);
    let out = value(&exported(&sandbox.repo, &edited));
    let keys: Vec<&String> = out.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "systemPrompt",
            "history",
            "dynamicState",
            "dynamicStatePlacement",
            "dynamicStateXml",
            "modules",
            "activeSkillName",
            "skillInstructions",
            "label",
            "createdAt"
        ]
    );
    let mut expected = value(SNAPSHOT);
    expected["history"] = json!([
        {"role": "user", "content": "Ship 1.4.1", "_cache_breakpoint": true},
        {"role": "assistant", "content": "Done"},
    ]);
    let plain = json!({"value": "text", "createdAt": 7000, "updatedAt": 7000, "updateCount": 1});
    expected["modules"]["memory"]["entries"] =
        json!({"deploy_target": {"value": "prod"}, "plain": plain});
    expected["label"] = json!("edited");
    expected["createdAt"] = json!(7000);
    assert_eq!(out, expected);
}

#[test]
fn early_context_chef_documents_use_current_names() {
    let message = json!({"role": "user", "content": "hi"});
    let janitor = json!({"externalTokenUsage": 5, "suppressNextCompression": true});
    let entry =
        json!({"value": "a", "createdAt": 1, "updatedAt": 2, "updateCount": 3, "expiresAtTurn": 4});
    let base = json!({
        "topLayer": [], "rollingHistory": [message], "dynamicState": [],
        "dynamicStatePlacement": "system", "rawDynamicXml": "<x/>", "createdAt": 9,
    });
    let with = |name: &str, value: Value| {
        let mut document = base.clone();
        document[name] = value;
        document
    };
    let own = json!({"value": "a", "createdAt": 9, "updatedAt": 9, "updateCount": 1});
    let memory = json!({"entries": {"k": entry}, "turnCount": 3});
    for (document, era, expected) in [
        (with("_janitor", janitor.clone()), "1.x", Value::Null),
        (
            with("_memoryStore", json!({"k": "a"})),
            "1.x",
            json!({"entries": {"k": own}, "turnCount": 0}),
        ),
        (
            with("_memoryStore", json!({"k": entry})),
            "1.x",
            json!({"entries": {"k": entry}, "turnCount": 0}),
        ),
        (
            with("_memoryStore", json!({"entries": entry})),
            "1.x",
            json!({"entries": {"entries": entry}, "turnCount": 0}),
        ),
        (with("_memory", memory.clone()), "1.x", memory.clone()),
        (
            with(
                "modules",
                json!({"janitor": janitor, "memory": memory, "pruner": {"flatTools": []}}),
            ),
            "1.x with modules",
            memory.clone(),
        ),
    ] {
        let sandbox = Sandbox::new();
        let head = import(&sandbox, &document.to_string());
        let out = value(&exported(&sandbox.repo, &head));
        assert_eq!(out["history"], json!([{"role": "user", "content": "hi"}]), "{document}");
        assert_eq!(out["dynamicStateXml"], "<x/>");
        assert_eq!(out["dynamicStatePlacement"], "system");
        assert_eq!(out["modules"]["memory"], expected, "{document}");
        assert_eq!(out["modules"]["janitor"]["consecutiveFailures"], 0);
        assert_eq!(out["modules"]["pruner"]["blockedTools"], json!([]));
        let context = sandbox.repo.context(&head).unwrap();
        let meta = context.map(&sandbox.repo, "meta").unwrap();
        let found = meta.get(&sandbox.repo, b"context-chef/era").unwrap().unwrap();
        let found = sandbox.repo.read_as(Kind::Blob, &found.link.id).unwrap();
        assert_eq!(found, era);
    }
}

#[test]
fn fields_of_version_4_2_and_later_round_trip() {
    let document = changed(|document| {
        document["guardrailOptions"] = json!({"outputTag": "answer"});
        document["modules"]["janitor"]["anchorDoc"] = Value::Null;
        document["modules"]["janitor"]["window"] =
            json!({"first": "w_a", "previous": "w_b", "current": "w_c"});
        document["modules"]["archivist"] = json!([1.50, "x"]);
        document["fromTheFuture"] = json!({"a": [1e300, null]});
        document["history"][1]["tool_calls"][0]["thoughtSignature"] = json!("t");
        document["history"][1]["pinned"] = json!(true);
    });
    let sandbox = Sandbox::new();
    let report = sandbox.import("work", document.as_bytes()).unwrap();
    let out = value(&exported(&sandbox.repo, &report.head));
    assert_eq!(out, value(&document));
    let notes: Vec<&str> = report.notes.iter().map(|note| note.what.as_str()).collect();
    assert_eq!(
        notes,
        [
            "modules: the field 'archivist' is not known",
            "snapshot: the field 'fromTheFuture' is not known"
        ]
    );
}

#[test]
fn announcements_keep_their_position() {
    let with = |announcements: Value| {
        changed(|document| {
            let fields = document.as_object_mut().unwrap();
            let (label, created) = (fields.remove("label"), fields.remove("createdAt"));
            fields.insert("announcements".into(), announcements);
            fields.insert("handoffNoticedWindow".into(), json!("w_a"));
            fields.extend(label.map(|label| ("label".to_owned(), label)));
            fields.extend(created.map(|created| ("createdAt".to_owned(), created)));
        })
    };
    let said = |id: &str| json!({"id": id, "content": format!("about {id}"), "channel": "auto"});
    for list in [json!([said("z"), said("a")]), json!([])] {
        let (sandbox, document) = (Sandbox::new(), with(list));
        let report = sandbox.import("work", document.as_bytes()).unwrap();
        assert_eq!(report.notes, []);
        assert_eq!(exported(&sandbox.repo, &report.head), document, "in the order of its keys");
    }
    // A value without ids stays unchanged.
    for odd in [json!([{"content": "x"}]), json!("x"), json!([said("")])] {
        let (sandbox, document) = (Sandbox::new(), with(odd));
        let report = sandbox.import("work", document.as_bytes()).unwrap();
        assert_eq!(report.notes.len(), 1);
        assert_eq!(value(&exported(&sandbox.repo, &report.head)), value(&document));
    }
}

#[test]
fn numbers_and_escapes_keep_their_spelling() {
    let document = SNAPSHOT
        .replace("6400", "6.40e3")
        .replace("1772442001000", "1772442001000.0")
        .replace("Building.", "Build\\u0069ng \\/ \\ud83d\\ude00");
    let sandbox = Sandbox::new();
    let head = import(&sandbox, &document);
    let out = exported(&sandbox.repo, &head);
    for written in ["6.40e3", "1772442001000.0", "Build\\u0069ng \\/ \\ud83d\\ude00"] {
        assert!(out.contains(written), "{written}: {out}");
    }
}

#[test]
fn unpaired_surrogates_are_kept_in_texts_and_rejected_in_keys() {
    let document = SNAPSHOT.replace("line 58 ok", "\\ude00 ok");
    let sandbox = Sandbox::new();
    let report = sandbox.import("work", document.as_bytes()).unwrap();
    assert!(sandbox.source(&report.head) == document.as_bytes());
    assert!(exported(&sandbox.repo, &report.head).contains("\\ude00 ok"));
    let [note] = report.notes.as_slice() else { panic!("{:?}", report.notes) };
    assert!(note.what.contains("half of a surrogate pair") && note.line == 35, "{note:?}");
    let error = refused(&SNAPSHOT.replace("café/key", "caf\\ud83d\\\"x"));
    let error = error.to_string();
    assert!(
        error.contains("modules.memory.entries, line 69: key contains an unpaired surrogate"),
        "{error}"
    );
    // A literal replacement character is valid in a key.
    import(&Sandbox::new(), &SNAPSHOT.replace("café/key", "caf\u{fffd}\\\\"));
}

#[test]
fn invalid_documents_are_rejected_with_their_location() {
    type Change = fn(&mut Value);
    let cases: &[(Change, &str)] = &[
        (|d| d["history"] = json!({}), "history: expected an array, found an object"),
        (
            |d| d["history"][1]["content"] = json!(null),
            "history[1].content: expected text, found null",
        ),
        (|d| d["history"][1]["role"] = json!(7), "history[1].role: expected text, found a number"),
        (
            |d| d["history"][1]["tool_calls"][0]["function"]["arguments"] = json!({}),
            "history[1].tool_calls[0].function.arguments: expected text, found an object",
        ),
        (
            |d| drop(remove(d, "", "dynamicState")),
            "dynamicState is missing: expected an array of messages",
        ),
        (|d| drop(remove(d, "", "modules")), "modules is missing: expected an object"),
        (|d| drop(remove(d, "/modules", "janitor")), "modules.janitor is missing"),
        (|d| drop(remove(d, "/modules", "pruner")), "modules.pruner is missing"),
        (|d| drop(remove(d, "/history/0", "content")), "history[0].content is missing"),
        (
            |d| d["dynamicStatePlacement"] = json!("top"),
            "dynamicStatePlacement: expected last_user or system",
        ),
        (|d| d["createdAt"] = json!("now"), "createdAt: expected a number, found text"),
        (
            |d| d["modules"]["janitor"]["consecutiveFailures"] = json!(-1),
            "consecutiveFailures: expected a whole number",
        ),
        (
            |d| d["modules"]["memory"]["entries"]["deploy_target"]["value"] = json!(1),
            "modules.memory.entries['deploy_target'].value: expected text, found a number",
        ),
        (|d| d["modules"]["memory"]["entries"][""] = json!({"value": ""}), "a key has 0 bytes"),
        (|d| d["modules"]["memory"] = json!({}), "modules.memory.entries is missing"),
        (
            |d| d["modules"]["pruner"]["flatTools"][0] = json!("x"),
            "modules.pruner.flatTools[0]: expected an object, found text",
        ),
        (|d| d["topLayer"] = json!([]), "expected the names of one version"),
        (|d| d["rawDynamicXml"] = json!(""), "rawDynamicXml as well as systemPrompt"),
    ];
    for (change, expected) in cases {
        let error = refused(&changed(change));
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(expected), "{error} is not {expected}");
    }
    for (document, expected) in [
        ("{\"systemPrompt\": [],\n\"history\": tru}", "line 2, column"),
        (r#"{"messages": []}"#, "expected systemPrompt and history, or topLayer"),
        ("[]", "snapshot: expected an object, found an array"),
    ] {
        let error = refused(document).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

fn remove(document: &mut Value, below: &str, name: &str) -> Option<Value> {
    document.pointer_mut(below).unwrap().as_object_mut().unwrap().shift_remove(name)
}

#[test]
fn tolerated_irregularities_are_warnings() {
    let document = changed(|document| {
        for name in ["dynamicStatePlacement", "dynamicStateXml", "createdAt"] {
            remove(document, "", name);
        }
        remove(document, "/modules", "memory");
        document["history"][0]["role"] = json!("critic");
    });
    let sandbox = Sandbox::new();
    let report = sandbox.import("work", document.as_bytes()).unwrap();
    assert_eq!(report.notes.len(), 5, "{:?}", report.notes);
    let out = value(&exported(&sandbox.repo, &report.head));
    assert_eq!(out["dynamicStatePlacement"], "last_user");
    assert_eq!(out["modules"]["memory"], Value::Null);
    assert_eq!(out["history"][0]["role"], "critic");
}

#[test]
fn snapshots_are_restored_in_any_order_and_any_number_of_times() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let document = |turn: u64| {
        changed(|document| {
            let history = document["history"].as_array_mut().unwrap();
            history.truncate(2);
            history.push(
                json!({"role": "user", "content": format!("turn {turn}"), "extra": {"n": [turn]}}),
            );
            document["modules"]["janitor"]["externalTokenUsage"] = json!(turn);
            document["modules"]["memory"]["turnCount"] = json!(turn);
            document["modules"]["memory"]["entries"][format!("key {turn}")] = json!({"value": "v"});
            document["modules"]["pruner"]["blockedTools"] = json!([format!("tool {turn}")]);
            document["label"] = json!(format!("turn {turn}"));
            if turn == 2 {
                document["modules"]["memory"] = Value::Null;
                remove(document, "", "activeSkillName");
                remove(document, "", "skillInstructions");
            }
        })
    };
    let documents: Vec<String> = (0..4).map(document).collect();
    let commits: Vec<ObjectId> =
        documents.iter().map(|document| import(&sandbox, document)).collect();
    let labels: Vec<String> = commits.iter().map(|id| repo.commit(id).unwrap().message).collect();
    assert_eq!(labels, ["turn 0", "turn 1", "turn 2", "turn 3"]);
    // A restore continues from a commit: each time on a new branch, which is then changed.
    for (number, at) in [2, 0, 3, 0, 2, 1, 1].into_iter().enumerate() {
        let branch = format!("work/try-{number}");
        let mut change = repo.begin();
        change.move_branch(&branch.parse().unwrap(), Some(commits[at]));
        change.commit(&stamp(2), "restore").unwrap();
        assert_eq!(
            exported(repo, &commits[at]),
            documents[at],
            "memory and skill are missing at their places"
        );
        let risky = json!({
            "agents": {"main": {"messages": [], "state": {}}}, "memory": null, "scratchpad": {"x": 1}
        });
        let after = edit(repo, &branch, &risky);
        assert_eq!(value(&exported(repo, &after))["history"], json!([]));
    }
    for (commit, document) in commits.iter().zip(&documents) {
        assert_eq!(exported(repo, commit), *document);
        let mut out = Vec::new();
        export_source(repo, &repo.context(commit).unwrap(), &mut out).unwrap();
        assert!(out == document.as_bytes());
    }
    // A repeated import of a snapshot adds nothing.
    let report = sandbox.import("work", documents[1].as_bytes()).unwrap();
    assert_eq!((report.turns, report.new_bytes), (0, 0));
}

#[test]
fn memory_expires_by_turn_or_time() {
    let document = changed(|document| {
        document["modules"]["memory"] = json!({"turnCount": 5, "entries": {
            "stays": {"value": ""},
            "by turn": {"value": "", "expiresAtTurn": 5},
            "next turn": {"value": "", "expiresAtTurn": 6},
            "by time": {"value": "", "expiresAt": 1000},
            "later": {"value": "", "expiresAt": 1001, "expiresAtTurn": null},
            "both": {"value": "", "expiresAt": 1000, "expiresAtTurn": 99},
        }});
    });
    let sandbox = Sandbox::new();
    let head = import(&sandbox, &document);
    let context = sandbox.repo.context(&head).unwrap();
    let found = expired(&sandbox.repo, &context, 1000).unwrap();
    let expected =
        [("by turn", Expired::Turn), ("by time", Expired::Time), ("both", Expired::Time)];
    assert_eq!(found, expected.map(|(key, why)| (key.to_owned(), why)));
    let options = ChefOptions { swept_at: Some(1000), ..ChefOptions::default() };
    let options = ChefOptions { created: "1".into(), ..options };
    let out = value(&exported_with(&sandbox.repo, &head, &options));
    let keys: Vec<&String> =
        out["modules"]["memory"]["entries"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["stays", "next turn", "later"]);
}

#[test]
fn snapshots_carry_their_cited_payloads() {
    let sandbox = Sandbox::new();
    let payload =
        include_bytes!("../vectors/context-chef/store-3.9.0/.context_vfs/vfs_fd7492402b36f442.txt");
    let stored =
        sandbox.repo.put_payload(&named_by_content(payload.as_slice().into()), &stamp(1)).unwrap();
    assert_eq!(stored.payload.uri.as_str(), "context://vfs/vfs_fd7492402b36f442.txt");
    let head = import(&sandbox, SNAPSHOT);
    let context = sandbox.repo.context(&head).unwrap();
    assert_eq!(context.count(&sandbox.repo, "vfs").unwrap(), 1);
}

#[test]
fn a_session_of_another_system_becomes_a_snapshot() {
    let sandbox = Sandbox::new();
    let transcript = turntree_tests::claude_code(5);
    let head = sandbox.import("other", transcript.as_bytes()).unwrap().head;
    let out = exported(&sandbox.repo, &head);
    let again = import(&Sandbox::new(), &out);
    let document = value(&out);
    let history = document["history"].as_array().unwrap();
    assert!(history.iter().any(|message| message["role"] == "tool"), "{out}");
    assert!(history.iter().all(|message| message["content"].is_string()), "{out}");
    assert_eq!(document["modules"]["memory"], Value::Null);
    assert_ne!(again, head);
}

/// Documents of ContextChef next to the project, real ones and examples.
fn beside(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/formats").join(folder);
    let mut folders = vec![root];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "json") {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn recorded_context_chef_documents_round_trip() {
    let files = [beside("real/contextchef"), beside("examples/contextchef/store-3.9.0")].concat();
    if files.is_empty() {
        eprintln!("skipped: no documents of ContextChef beside the project");
    }
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        // The output of `compile`, which goes to a model, is detected as a chat.
        let Ok(report) = Sandbox::new().import("real", &bytes) else { continue };
        let sandbox = Sandbox::new();
        let head = sandbox.import("real", &bytes).unwrap().head;
        assert!(sandbox.source(&head) == bytes, "{}", file.display());
        if report.format == "context-chef" {
            let document = value(std::str::from_utf8(&bytes).unwrap());
            assert_eq!(value(&exported(&sandbox.repo, &head)), document, "{}", file.display());
        }
    }
}

prop_compose! {
    fn messages()(texts in prop::collection::vec((0..4_usize, any::<String>(), any::<bool>()), 0..6)) -> Value {
        let roles = ["system", "user", "assistant", "tool"];
        let message = |(role, text, odd): (usize, String, bool)| {
            let mut message = json!({"role": roles[role], "content": text});
            if odd {
                message["custom"] = json!({"deep": [text, null, 1.5]});
            }
            message
        };
        texts.into_iter().map(message).collect()
    }
}

turntree_properties::properties! {
    cases = 32;

    #[test]
    fn any_context_chef_snapshot_round_trips(
        system in messages(), history in messages(), dynamic in messages(), xml: String,
        keys in prop::collection::vec("[a-z/é \"\\\\]{1,12}", 0..5), turn in 0..9_u64,
        label in prop::option::of(any::<String>()), pretty: bool,
    ) {
        let entries: serde_json::Map<String, Value> =
            keys.iter().map(|key| (key.clone(), json!({"value": key, "updateCount": turn}))).collect();
        let mut document = json!({
            "systemPrompt": system, "history": history, "dynamicState": dynamic,
            "dynamicStatePlacement": "system", "dynamicStateXml": xml,
            "modules": {
                "janitor": {"externalTokenUsage": null, "suppressNextCompression": true, "consecutiveFailures": turn},
                "memory": {"entries": entries, "turnCount": turn},
                "pruner": {"flatTools": [], "namespaces": [], "lazyToolkits": [], "blockedTools": keys},
            },
        });
        if let Some(label) = label {
            document["label"] = json!(label);
        }
        document["createdAt"] = json!(turn);
        let text = if pretty { serde_json::to_string_pretty(&document).unwrap() } else { document.to_string() };
        let sandbox = Sandbox::new();
        let head = import(&sandbox, &text);
        prop_assert!(sandbox.source(&head) == text.as_bytes());
        prop_assert_eq!(exported(&sandbox.repo, &head), document.to_string());
    }
}

/// Runs the program on a store in `folder`. Returns its exit code, its output, and its stderr.
fn run(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_turntree-under-test"))
        .args(arguments)
        .env_clear()
        .env("TURNTREE_STORE", folder.join("store"))
        .envs([("TURNTREE_ACTOR", "ann"), ("TURNTREE_MAINTENANCE", "off")])
        .envs([("TURNTREE_NOW", "2026-11-20T12:00:00Z")])
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

fn ok(folder: &Path, arguments: &[&str]) -> String {
    let (code, out, said) = run(folder, arguments);
    assert_eq!(code, 0, "{arguments:?}: {said}");
    out
}

#[test]
fn a_store_of_3_9_is_imported_as_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let store = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/context-chef/store-3.9.0");
    let dir = store.to_str().unwrap();
    let shown = ok(at, &["import", dir, "--session", "work"]);
    assert!(shown.contains("1 payload, 2 entries of memory, 0 notes"), "{shown}");
    let payload = ok(at, &["vfs", "get", "vfs_fd7492402b36f442.txt"]);
    assert!(payload.starts_with("line 1 ok\n") && payload.len() == 650);
    let out = value(&ok(at, &["export", "work", "--format", "context-chef"]));
    let expected = value(SNAPSHOT)["modules"]["memory"].clone();
    assert_eq!(out["modules"]["memory"], expected, "with the order of the index");
    // The snapshot in the directory continues from there, and a repeated import of the directory
    // adds nothing.
    let again = ok(at, &["import", dir, "--session", "work", "--json"]);
    assert_eq!(value(&again)["turns"], 0, "{again}");
    assert_eq!((&value(&again)["payloads"], &value(&again)["memories"]), (&json!(1), &json!(2)));
    let document = store.join("snapshot.json");
    ok(at, &["import", document.to_str().unwrap(), "--session", "work"]);
    let listed = value(&ok(at, &["vfs", "ls", "work", "--json"]));
    assert_eq!(listed["payloads"][0]["uri"], "context://vfs/vfs_fd7492402b36f442.txt");
    assert_eq!(listed["payloads"][0]["carried"], true);
    // A folder of it is also a valid input.
    let memory = store.join(".context_memory");
    ok(at, &["import", memory.to_str().unwrap(), "--session", "memory"]);
    let out = value(&ok(at, &["export", "memory", "--format", "context-chef"]));
    assert_eq!(out["modules"]["memory"], expected);
}

#[test]
fn a_store_of_4_2_is_imported_as_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    let (at, dir) = (folder.path(), folder.path().join("data"));
    let write = |path: &str, text: &str| {
        let path = dir.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("vfs/vfs_ba7816bf8f01cfea.txt", "abc");
    write("archive/archive_00112233aabbccdd.txt", "{\"version\":1,\"messages\":[]}");
    write(
        "memory/team/lead",
        r#"{"content":"Ada \ud83d","meta":{"createdAt":2,"updatedAt":3,"updateCount":1,"expiresAtTurn":9}}"#,
    );
    write("memory/language", r#"{ "content": "Rust", "meta": { "createdAt": 1 } }"#);
    write("memory/broken", "{");
    write("memory/.tmp_1_language", "half");
    write("notes/plan.md", r##"{"content":"# Plan","meta":{"createdAt":1,"updatedAt":1}}"##);
    std::os::unix::fs::symlink("/etc/passwd", dir.join("vfs/vfs_1.txt")).unwrap();
    let data = dir.to_str().unwrap();
    let (code, shown, said) = run(at, &["import", data]);
    assert_eq!(code, 0, "{said}");
    assert!(shown.contains("2 payloads, 2 entries of memory, 1 note"), "{shown}");
    for odd in [
        "archive_00112233aabbccdd.txt: its name is not the hash",
        "memory/broken: left out",
        "vfs_1.txt: left out: it is not a file",
    ] {
        assert!(said.contains(odd), "{odd}: {said}");
    }
    assert_eq!(ok(at, &["vfs", "get", "context://vfs/ba7816bf8f01cfea"]), "abc");
    assert!(
        ok(at, &["vfs", "get", "context://archive/archive_00112233aabbccdd.txt"])
            .contains("messages")
    );
    let out = ok(at, &["export", "data", "--format", "context-chef"]);
    let entries = r#""entries":{"language":{"value":"Rust","createdAt":1},"team/lead":{"value":"Ada \ud83d","createdAt":2,"updatedAt":3,"updateCount":1,"expiresAtTurn":9}}"#;
    assert!(out.contains(entries), "{out}");
    assert!(ok(at, &["cat", "data:scratchpad/notes/plan.md"]).contains("# Plan"));
}

#[test]
fn unknown_directories_are_rejected_without_creating_a_store() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("project")).unwrap();
    let project = folder.path().join("project");
    let (code, _, said) = run(folder.path(), &["import", project.to_str().unwrap()]);
    assert!(code == 2 && said.contains(".context_vfs"), "{said}");
    assert!(!folder.path().join("store").exists());
}
