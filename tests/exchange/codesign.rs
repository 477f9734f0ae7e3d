//! Designs of open-codesign are imported as sessions, and exported unchanged or as edited.

use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use turntree::context::{Builder, Context, FileEntry, MessageEntry};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{BranchName, Repository, SnapshotDraft};
use turntree::{Error, ErrorKind};
use turntree_exchange::formats::codesign::{design_path, export_designs, import_designs};
use turntree_exchange::formats::{FolderFile, view};
use turntree_exchange::{ImportOptions, ImportReport, apply_state};
use turntree_tests::{Sandbox, stamp};

const STORE: &str = include_str!("../vectors/open-codesign/design-store.json");
const CHAT: &str = include_str!("../vectors/open-codesign/session.jsonl");
const PATHS: &str = include_str!("../vectors/open-codesign/path-normalisation.json");

const PRICING: &str = "4c1c99e1-1e58-4deb-8d9b-1f914973b7b8";
const COPY: &str = "51210ad8-da62-4720-9d5e-723da3183c10";

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Formats a store like upstream.
fn pretty(store: &Value) -> String {
    serde_json::to_string_pretty(store).unwrap() + "\n"
}

fn exported(repo: &Repository, session: &str) -> String {
    let main = repo.resolve(session).unwrap().commit;
    let branches = repo.branches().into_iter().filter(|(branch, _)| branch.session() == session);
    let tips: Vec<ObjectId> = std::iter::once(main).chain(branches.map(|(_, tip)| tip)).collect();
    exported_from(repo, &tips)
}

fn exported_from(repo: &Repository, tips: &[ObjectId]) -> String {
    let mut out = Vec::new();
    export_designs(repo, &[tips.to_vec()], &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The documents of a store with only this design.
fn one_design(store: &str, id: &str) -> Value {
    let mut store = value(store);
    let keep = |rows: &mut Value, field: &str| {
        rows.as_array_mut().unwrap().retain(|row| row[field] == id);
    };
    keep(&mut store["designs"], "id");
    keep(&mut store["snapshots"], "designId");
    store
}

fn snapshot(id: &str, parent: Option<&str>, kind: &str, second: u32) -> Value {
    json!({
        "schemaVersion": 1, "id": id, "designId": "d", "parentId": parent, "type": kind,
        "prompt": format!("make {id}"), "artifactType": "html", "artifactSource": format!("<p>{id}</p>"),
        "createdAt": format!("2026-05-01T10:00:{second:02}.000Z"),
    })
}

fn store_of(snapshots: &[Value]) -> Value {
    let design = json!({
        "schemaVersion": 1, "id": "d", "name": "A form", "createdAt": "2026-05-01T09:00:00.000Z",
        "updatedAt": "2026-05-01T10:00:00.000Z", "thumbnailText": null, "deletedAt": null,
        "workspacePath": null,
    });
    json!({"schemaVersion": 1, "designs": [design], "snapshots": snapshots, "diagnosticEvents": []})
}

fn import(sandbox: &Sandbox, store: &Value) -> ImportReport {
    sandbox.import("work", pretty(store).as_bytes()).unwrap()
}

/// The contents of the artifact on the line of `branch`, newest first.
fn line(repo: &Repository, branch: &str) -> Vec<String> {
    let mut contents = Vec::new();
    let mut next = Some(repo.resolve(branch).unwrap().commit);
    while let Some(id) = next {
        contents.extend(file(repo, &id, "index.html"));
        next = repo.commit(&id).unwrap().parents.first().copied();
    }
    contents
}

fn file(repo: &Repository, commit: &ObjectId, path: &str) -> Option<String> {
    let context = repo.context(commit).unwrap();
    let item = context.map(repo, "files").unwrap().get(repo, path.as_bytes());
    let blob = FileEntry::from_item(&item.unwrap()?).unwrap().blob;
    let bytes = repo.read_as(Kind::Blob, &blob).unwrap();
    Some(String::from_utf8(bytes.to_vec()).unwrap())
}

fn entry(repo: &Repository, commit: &ObjectId, section: &str, key: &str) -> Option<Value> {
    let context = repo.context(commit).unwrap();
    let item = context.map(repo, section).unwrap().get(repo, key.as_bytes());
    let bytes = repo.read_as(Kind::Blob, &item.unwrap()?.link.id).unwrap();
    Some(value(std::str::from_utf8(&bytes).unwrap()))
}

/// The conversation up to a commit, one line per message.
fn said(repo: &Repository, commit: &ObjectId) -> Vec<String> {
    let store = repo.store();
    let list = repo.context(commit).unwrap().messages(store, "main").unwrap();
    let line = |item| {
        let entry = MessageEntry::from_item(&item).unwrap();
        let bytes = store.read_as(Kind::Blob, &entry.blob).unwrap();
        view(&entry.media, &bytes).summary()
    };
    list.iter(store, 0..list.len()).map(|item| line(item.unwrap())).collect()
}

fn notes(report: &ImportReport) -> Vec<&str> {
    report.notes.iter().map(|note| note.what.as_str()).collect()
}

/// The error of an import, which must leave no trace.
fn refused(format: &str, bytes: &[u8]) -> Error {
    let sandbox = Sandbox::new();
    let before = sandbox.repo.refs();
    let error = sandbox.import_as("work", format, bytes).unwrap_err();
    assert_eq!(sandbox.repo.refs(), before, "an error leaves no trace");
    error
}

#[test]
fn codesign_example_round_trips_with_all_designs() {
    let sandbox = Sandbox::new();
    let report = sandbox.import("work", STORE.as_bytes()).unwrap();
    assert_eq!(report.format, "codesign");
    assert_eq!(report.branch.to_string(), "work-pricing-page/main");
    let others: Vec<String> = report.others.iter().map(|other| other.branch.to_string()).collect();
    assert_eq!(
        others,
        [
            "work-pricing-page/fork-b79c7323",
            "work-pricing-page-copy/main",
            "work-pricing-page-copy/fork-698b6a54"
        ]
    );
    for revision in ["work-pricing-page", "work-pricing-page-copy", "work-pricing-page-copy~1"] {
        let commit = sandbox.repo.resolve(revision).unwrap().commit;
        assert!(sandbox.source(&commit) == STORE.as_bytes(), "{revision}");
    }
    let again = sandbox.import("work", STORE.as_bytes()).unwrap();
    assert_eq!((again.turns, again.others.len(), again.new_bytes), (0, 0, 0));
    // A note reports that the parent of both snapshots of the first design was deleted.
    assert_eq!(notes(&report).len(), 2, "{:?}", report.notes);
    assert!(report.notes[0].what.contains("its parent is missing"), "{:?}", report.notes);
    assert_eq!(report.notes[0].line, 26);
}

#[test]
fn a_store_with_one_design_is_exported_as_upstream_writes_it() {
    for id in [PRICING, COPY] {
        let store = pretty(&one_design(STORE, id));
        let sandbox = Sandbox::new();
        let report = sandbox.import("work", store.as_bytes()).unwrap();
        assert_eq!(report.branch.to_string(), "work/main");
        assert_eq!(exported(&sandbox.repo, "work"), store);
    }
    // Several designs are exported one at a time.
    let sandbox = Sandbox::new();
    sandbox.import("work", STORE.as_bytes()).unwrap();
    let first = exported(&sandbox.repo, "work-pricing-page");
    assert_eq!(first, pretty(&one_design(STORE, PRICING)));
}

#[test]
fn codesign_parents_forks_and_times_match_the_store() {
    let store = store_of(&[
        snapshot("c", Some("b"), "edit", 3),
        snapshot("a", None, "initial", 1),
        snapshot("f", Some("a"), "fork", 3),
        snapshot("b", Some("a"), "edit", 2),
        snapshot("g", Some("f"), "edit", 4),
        snapshot("h", Some("a"), "edit", 5),
    ]);
    let sandbox = Sandbox::new();
    let report = import(&sandbox, &store);
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    let repo = &sandbox.repo;
    assert_eq!(line(repo, "work"), ["<p>c</p>", "<p>b</p>", "<p>a</p>"]);
    assert_eq!(line(repo, "work/fork-f"), ["<p>g</p>", "<p>f</p>", "<p>a</p>"]);
    assert_eq!(line(repo, "work/fork-h"), ["<p>h</p>", "<p>a</p>"]);
    let tip = repo.resolve("work").unwrap().commit;
    let commit = repo.commit(&tip).unwrap();
    assert_eq!((commit.time.micros, commit.message.as_str()), (1_777_629_603_000_000, "make c"));
    assert_eq!(
        said(repo, &tip),
        ["make a", "[artifact]", "make b", "[artifact]", "make c", "[artifact]"]
    );
    // Sorted by time, and for equal times as in the file.
    let out = value(&exported(repo, "work"));
    let ids: Vec<&str> = out["snapshots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["a", "b", "c", "f", "g", "h"]);
    // An export of a revision has only its ancestors.
    let at = repo.resolve("work~1").unwrap().commit;
    assert_eq!(value(&exported_from(repo, &[at]))["snapshots"].as_array().unwrap().len(), 2);
}

#[test]
fn grown_design_stores_add_only_new_snapshots() {
    let all = [
        snapshot("a", None, "initial", 1),
        snapshot("b", Some("a"), "edit", 2),
        snapshot("f", Some("a"), "fork", 3),
        snapshot("c", Some("b"), "edit", 4),
    ];
    let sandbox = Sandbox::new();
    import(&sandbox, &store_of(&all[..2]));
    let edited = edit(&sandbox.repo, "work", &json!({"scratchpad": {"mine": "x"}}));
    let report = import(&sandbox, &store_of(&all));
    assert_eq!((report.turns, report.others.len()), (1, 1));
    let tip = sandbox.repo.commit(&report.head).unwrap();
    assert_eq!(tip.parents, [edited], "local changes stay below");
    // An older version of the store is known, and removes nothing.
    let older = import(&sandbox, &store_of(&all[..2]));
    assert_eq!((older.turns, older.head), (0, report.head));
    // A snapshot that upstream has deleted since still exists, and is still the parent.
    let mut fewer =
        store_of(&[all[0].clone(), all[3].clone(), snapshot("e", Some("b"), "fork", 9)]);
    fewer["designs"][0]["name"] = json!("Renamed");
    let report = import(&sandbox, &fewer);
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    assert_eq!(line(&sandbox.repo, "work/fork-e"), ["<p>e</p>", "<p>b</p>", "<p>a</p>"]);
    assert_eq!(report.branch.to_string(), "work/main", "a new name is no new session");
}

/// Commits a turn to `branch` that applies a state document.
fn edit(repo: &Repository, branch: &str, state: &Value) -> ObjectId {
    let branch: BranchName = branch.parse().unwrap();
    let mut change = repo.begin();
    let parent = change.tip(&branch).map_or(Context::default(), |tip| repo.context(&tip).unwrap());
    let mut builder = Builder::from(parent);
    apply_state(&mut change, &mut builder, state.to_string().as_bytes()).unwrap();
    let tree = builder.write(&mut change).unwrap();
    let stamp = stamp(1_800_000_000);
    let id = change.snapshot(&branch, SnapshotDraft::new(tree, "edited", &stamp)).unwrap();
    change.commit(&stamp, "snapshot").unwrap();
    id
}

#[test]
fn an_edited_design_has_the_documented_shape_and_is_stable() {
    let sandbox = Sandbox::new();
    let store = store_of(&[snapshot("a", None, "initial", 1), snapshot("b", Some("a"), "edit", 2)]);
    import(&sandbox, &store);
    let main = BranchName::main("work").unwrap();
    for (content, prompt) in
        [("<p>one</p>", "one"), ("<p>one</p>", "no change"), ("<p>\u{1}é</p>", "two")]
    {
        let tip = sandbox.repo.tip(&main).unwrap();
        let mut messages: Vec<Value> = said(&sandbox.repo, &tip)
            .iter()
            .map(|text| json!({"role": "assistant", "content": text}))
            .collect();
        messages.push(json!({"role": "user", "content": prompt}));
        let state = json!({
            "agents": {"main": {"messages": messages}}, "files": {"index.html": content},
        });
        edit(&sandbox.repo, "work", &state);
    }
    let out = exported(&sandbox.repo, "work");
    let found = value(&out);
    let rows = found["snapshots"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "a turn without a change of the artifact is no snapshot: {out}");
    let id = rows[2]["id"].as_str().unwrap();
    assert_eq!((id.len(), id.as_bytes()[14]), (36, b'8'));
    let expected = json!({
        "schemaVersion": 1, "id": id, "designId": "d", "parentId": "b", "type": "edit",
        "prompt": "one", "artifactType": "html", "artifactSource": "<p>one</p>",
        "createdAt": "2027-01-15T08:00:00.000Z", "message": "edited",
    });
    assert_eq!(rows[2].to_string(), expected.to_string());
    assert_eq!(rows[3]["parentId"], id);
    assert_eq!(found["designs"][0]["updatedAt"], "2027-01-15T08:00:00.000Z");
    assert_eq!(found["snapshots"][0], store["snapshots"][0]);
    let other = Sandbox::new();
    other.import("work", out.as_bytes()).unwrap();
    assert_eq!(exported(&other.repo, "work"), out);
}

#[test]
fn a_session_of_another_system_becomes_a_design() {
    let sandbox = Sandbox::new();
    edit(&sandbox.repo, "other", &json!({"files": {"index.svg": "<svg/>", "a.txt": "x"}}));
    let out = exported(&sandbox.repo, "other");
    let found = value(&out);
    assert_eq!(found["designs"][0]["name"], "other");
    assert_eq!(found["snapshots"][0]["artifactType"], "svg");
    assert_eq!(found["snapshots"][0]["type"], "initial");
    let other = Sandbox::new();
    other.import("other", out.as_bytes()).unwrap();
    assert_eq!(exported(&other.repo, "other"), out);
}

#[test]
fn deleted_designs_and_unknown_fields_are_preserved() {
    let mut store = store_of(&[snapshot("a", None, "initial", 1)]);
    store["designs"][0]["deletedAt"] = json!("2026-05-02T00:00:00.000Z");
    store["designs"][0]["workspaceMode"] = json!("blank-canvas");
    store["fromTheFuture"] = json!({"a": [1.50, null]});
    store["snapshots"][0]["score"] = json!(7);
    store["diagnosticEvents"] = json!([{"id": 1, "ts": 5, "level": "warn", "context": {"a": []}}]);
    let text = pretty(&store).replace("\"score\": 7", "\"score\": 7.0e0");
    let sandbox = Sandbox::new();
    let report = sandbox.import("work", text.as_bytes()).unwrap();
    assert_eq!(exported(&sandbox.repo, "work"), text);
    let told = notes(&report);
    assert!(told.iter().any(|note| note.contains("was deleted 2026-05-02")), "{told:?}");
    assert!(told.iter().any(|note| note.contains("'fromTheFuture' is not known")), "{told:?}");
    let context = sandbox.repo.context(&report.head).unwrap();
    let meta = context.map(&sandbox.repo, "meta").unwrap();
    assert!(meta.get(&sandbox.repo, b"codesign/deletedAt").unwrap().is_some());
}

#[test]
fn invalid_design_stores_are_rejected_with_their_location() {
    type Change = fn(&mut Value);
    let cases: &[(Change, &str)] = &[
        (|s| s["schemaVersion"] = json!(2), "Unsupported design store schemaVersion: 2"),
        (|s| s["schemaVersion"] = json!("1"), "Unsupported design store schemaVersion: 1"),
        (|s| s["schemaVersion"] = json!(null), "Unsupported design store schemaVersion: null"),
        (|s| s["schemaVersion"] = json!({}), "schemaVersion: [object Object]"),
        (
            |s| drop(s.as_object_mut().unwrap().shift_remove("schemaVersion")),
            "Unsupported design store schemaVersion: undefined",
        ),
        (|s| s["designs"][0] = json!(1), "designs[0]: expected an object, found a number"),
        (|s| s["designs"][0]["id"] = json!(""), "designs[0].id has 0 bytes"),
        (|s| s["designs"][0]["name"] = json!(1), "designs[0].name: expected text, found a number"),
        (
            |s| s["designs"][0]["deletedAt"] = json!(false),
            "designs[0].deletedAt: expected text, found true or false",
        ),
        (|s| s["designs"][0]["schemaVersion"] = json!(3), "designs[0].schemaVersion: expected 1"),
        (
            |s| s["snapshots"][0]["type"] = json!("branch"),
            "snapshots[0].type: expected initial, edit or fork, found 'branch'",
        ),
        (
            |s| s["snapshots"][0]["artifactType"] = json!(null),
            "snapshots[0].artifactType: expected text, found null",
        ),
        (
            |s| s["snapshots"][0]["artifactSource"] = json!({}),
            "snapshots[0].artifactSource: expected text, found an object",
        ),
        (
            |s| drop(s["snapshots"][0].as_object_mut().unwrap().shift_remove("designId")),
            "snapshots[0].designId is missing: expected text",
        ),
        (|s| s["snapshots"][0]["parentId"] = json!(1), "snapshots[0].parentId: expected text"),
        (
            |s| s["diagnosticEvents"] = json!([{"ts": "now"}]),
            "diagnosticEvents[0].ts: expected a number, found text",
        ),
    ];
    for (change, expected) in cases {
        let mut store = store_of(&[snapshot("a", None, "initial", 1)]);
        change(&mut store);
        let error = refused("codesign", store.to_string().as_bytes());
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(expected), "{error} is not {expected}");
    }
    for (text, expected) in [
        ("{\"schemaVersion\": 1,\n\"designs\": tru}", "line 2, column"),
        ("[]", "store: expected an object, found an array"),
    ] {
        let error = refused("codesign", text.as_bytes()).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn tolerated_irregularities_are_warnings_without_loss() {
    let mut store = store_of(&[
        snapshot("a", Some("gone"), "initial", 1),
        snapshot("b", Some("gone"), "edit", 2),
        snapshot("b", Some("a"), "edit", 3),
        snapshot("x", Some("y"), "edit", 4),
        snapshot("y", Some("x"), "edit", 5),
        snapshot("s", Some("s"), "fork", 6),
        snapshot("t", None, "edit", 7),
    ]);
    store["snapshots"][6]["createdAt"] = json!("yesterday");
    store["diagnosticEvents"] = json!({});
    let again = store["designs"][0].clone();
    store["designs"].as_array_mut().unwrap().push(again);
    let mut lost = snapshot("z", None, "initial", 8);
    lost["designId"] = json!("missing");
    store["snapshots"].as_array_mut().unwrap().push(lost);
    let sandbox = Sandbox::new();
    let report = import(&sandbox, &store);
    let told = notes(&report).join("; ");
    for expected in [
        "expected an array; counts as empty",
        "designs[1].id: an earlier design has it already",
        "snapshots[2].id: another snapshot has it already",
        "snapshots[6].createdAt: not a time",
        "snapshots[7].designId: there is no such design",
        "its parent is missing; it follows the previous snapshot",
        "its parents form a cycle",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    let mut kept: HashMap<String, usize> = HashMap::new();
    for session in ["work-a-form", "work-missing"] {
        let out = value(&exported(&sandbox.repo, session));
        for row in out["snapshots"].as_array().unwrap() {
            *kept.entry(row["artifactSource"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    assert_eq!(kept.values().sum::<usize>(), 8, "{kept:?}");
    assert_eq!(kept["<p>b</p>"], 2);
}

#[test]
fn unpaired_surrogates_are_kept_and_reported() {
    let text = pretty(&store_of(&[snapshot("a", None, "initial", 1)]))
        .replace("<p>a</p>", "<p>\\ud83d</p>")
        .replace("make a", "make \\ude00");
    let sandbox = Sandbox::new();
    let report = sandbox.import("work", text.as_bytes()).unwrap();
    assert_eq!(exported(&sandbox.repo, "work"), text);
    assert_eq!(file(&sandbox.repo, &report.head, "index.html").unwrap(), "<p>\u{fffd}</p>");
    assert!(notes(&report).iter().all(|note| note.contains("half of a surrogate pair")));
}

#[test]
fn design_paths_match_upstream_rules() {
    let cases = value(PATHS);
    for case in cases.as_array().unwrap() {
        let found = design_path(case["path"].as_str().unwrap());
        match found {
            Ok(path) => assert_eq!(case["ok"], path, "{case}"),
            Err(error) => assert_eq!(case["error"], error.to_string(), "{case}"),
        }
    }
    assert_eq!(design_path("a\\b").unwrap(), "a/b");
    assert!(design_path("C:\\a").unwrap_err().to_string().contains("must be relative"));
}

#[test]
fn chats_are_imported_as_growing_transcripts() {
    let sandbox = Sandbox::new();
    let lines: Vec<&str> = CHAT.lines().collect();
    let mut turns = 0;
    for count in 2..=lines.len() {
        let part = lines[..count].join("\n") + "\n";
        let report = sandbox.import("chat", part.as_bytes()).unwrap();
        assert_eq!(report.format, "codesign-session");
        assert!(sandbox.source(&report.head) == part.as_bytes());
        turns += report.turns;
    }
    let head = sandbox.repo.resolve("chat").unwrap().commit;
    assert_eq!(
        said(&sandbox.repo, &head),
        ["Add tiers", "str_replace_based_edit_tool view", "<h1>Pricing</h1>", "[artifact]"]
    );
    assert!(turns >= 2, "{turns}");
    let whole = Sandbox::new();
    let report = whole.import("chat", CHAT.as_bytes()).unwrap();
    assert_eq!((report.turns, report.messages), (2, 4));
    assert_eq!(notes(&report), ["a change of a missing comment: ignored"]);
}

fn chat_line(kind: &str, data: &Value) -> String {
    let line = json!({
        "type": "custom", "customType": format!("open-codesign.{kind}"), "data": data,
        "id": "1", "parentId": null, "timestamp": "2026-05-01T10:00:00.000Z",
    });
    line.to_string() + "\n"
}

const HEADER: &str = "{\"type\":\"session\",\"version\":3,\"id\":\"s\",\"timestamp\":\"2026-05-01T09:00:00.000Z\",\"cwd\":\"/p\"}\n";

#[test]
fn comments_and_settings_are_replayed() {
    let data = |action: Value| {
        let mut data = json!({"schemaVersion": 1});
        data.as_object_mut().unwrap().extend(action.as_object().unwrap().clone());
        data
    };
    let comment = |action: Value| chat_line("comment.v1", &data(action));
    let row = |seq: u32| {
        chat_line(
            "chat.message",
            &json!({"schemaVersion": 1, "id": seq, "seq": seq, "kind": "user",
            "payload": {"text": "hi"}, "snapshotId": null}),
        )
    };
    let file = [
        HEADER.to_owned(),
        row(0),
        comment(
            json!({"action": "add", "row": {"id": "c1", "text": "bigger", "status": "pending"}}),
        ),
        comment(json!({"action": "add", "row": {"id": "c2", "text": "away"}})),
        comment(json!({"action": "update", "id": "c1", "patch": {"text": "smaller"}})),
        comment(json!({"action": "remove", "id": "c2"})),
        comment(json!({"action": "mark-applied", "ids": ["c1", "c9"], "snapshotId": "s1"})),
        chat_line("context.brief.v1", &json!({"goal": "one"})),
        chat_line("context.brief.v1", &json!({"goal": "two"})),
        chat_line("context.brief.v1", &json!(7)),
        chat_line("context.run_preferences.v1", &json!({"tweaks": true})),
        chat_line("chat.tool_status", &json!({"schemaVersion": 1, "seq": 0, "status": "done"})),
    ]
    .concat();
    let sandbox = Sandbox::new();
    let report = sandbox.import("chat", file.as_bytes()).unwrap();
    let (repo, head) = (&sandbox.repo, &report.head);
    let expected =
        json!({"id": "c1", "text": "smaller", "status": "applied", "appliedInSnapshotId": "s1"});
    assert_eq!(entry(repo, head, "comments", "c1"), Some(expected));
    assert_eq!(entry(repo, head, "comments", "c2"), None);
    assert_eq!(entry(repo, head, "agents/main/state", "brief"), Some(json!({"goal": "two"})));
    assert_eq!(
        entry(repo, head, "agents/main/state", "runPreferences"),
        Some(json!({"tweaks": true}))
    );
    assert_eq!(
        notes(&report),
        [
            "a change of a missing comment: ignored",
            "'brief' is not an object: ignored",
            "a status without a tool call: ignored"
        ]
    );
}

#[test]
fn malformed_entries_are_rejected_like_upstream() {
    let good = json!({"schemaVersion": 1, "id": 0, "seq": 0, "kind": "user", "payload": {}, "snapshotId": null});
    for (kind, field, bad, name) in [
        ("chat.message", "seq", json!("0"), "chat message"),
        ("chat.message", "snapshotId", json!(1), "chat message"),
        ("chat.message", "schemaVersion", json!(2), "chat message"),
        ("chat.tool_status", "status", json!("running"), "tool status"),
        ("comment.v1", "action", json!("dance"), "comment"),
    ] {
        let mut data = good.clone();
        data[field] = bad;
        let file = HEADER.to_owned() + &chat_line("chat.message", &good) + &chat_line(kind, &data);
        let error = refused("codesign-session", file.as_bytes());
        let expected = format!("Malformed stored {name} entry");
        assert!(error.to_string().contains(&expected), "{error}");
        assert!(error.to_string().starts_with("line 3 "), "{error}");
    }
}

fn options() -> ImportOptions {
    ImportOptions {
        format: None,
        session: "work".to_owned(),
        stamp: stamp(1),
        switch: false,
        adoption: None,
        branch: None,
    }
}

fn stored(path: &str, bytes: &[u8]) -> FolderFile {
    FolderFile { path: path.to_owned(), bytes: bytes.to_vec().into() }
}

#[test]
fn directories_combine_designs_with_their_chats() {
    let sandbox = Sandbox::new();
    let chat = format!("sessions/{PRICING}.jsonl");
    let lines: Vec<&str> = CHAT.lines().collect();
    let part = lines[..3].join("\n") + "\n";
    let files = |chat_bytes: &str| {
        [stored("design-store.json", STORE.as_bytes()), stored(&chat, chat_bytes.as_bytes())]
    };
    let first = import_designs(&sandbox.repo, &files(&part), &options()).unwrap();
    assert_eq!(first.branch.to_string(), "work-pricing-page/main");
    let report = import_designs(&sandbox.repo, &files(CHAT), &options()).unwrap();
    assert!(report.turns >= 1 && report.others.is_empty(), "{report:?}");
    let tip = sandbox.repo.resolve("work-pricing-page").unwrap().commit;
    assert_eq!(
        said(&sandbox.repo, &tip),
        ["Add tiers", "str_replace_based_edit_tool view", "<h1>Pricing</h1>", "[artifact]"]
    );
    let again = import_designs(&sandbox.repo, &files(CHAT), &options()).unwrap();
    assert_eq!((again.turns, again.head, again.new_bytes), (0, tip, 0));
    assert!(sandbox.source(&tip) == STORE.as_bytes());
    // If the chat is imported with the design, the snapshot is at the position of its delivery.
    let whole = Sandbox::new();
    import_designs(&whole.repo, &files(CHAT), &options()).unwrap();
    let tip = whole.repo.resolve("work-pricing-page").unwrap().commit;
    assert_eq!(said(&whole.repo, &tip).len(), 4);
    let found = line(&whole.repo, "work-pricing-page");
    assert_eq!(found.len(), 1, "the chat precedes its snapshot");
    // A chat without its design is a separate design.
    let alone = Sandbox::new();
    let report =
        import_designs(&alone.repo, &[stored(&chat, CHAT.as_bytes())], &options()).unwrap();
    assert_eq!((report.turns, report.messages), (2, 4));
    assert!(
        import_designs(&alone.repo, &[], &options()).unwrap_err().kind() == ErrorKind::NotFound
    );
}

turntree_properties::properties! {
    cases = 40;

    /// For any parents: every snapshot is exported again, and importing a store in parts gives the
    /// same result as importing it whole.
    #[test]
    fn every_design_snapshot_round_trips(
        rows in proptest::collection::vec((0..10_usize, 0..3_usize, 0..4_u32, 0..8_usize), 1..10),
        at in 0..10_usize,
    ) {
        let kinds = ["initial", "edit", "fork"];
        let snapshots: Vec<Value> = rows
            .iter()
            .enumerate()
            .map(|(index, (parent, kind, second, _))| {
                let parent = (*parent < rows.len()).then(|| format!("s{parent}"));
                snapshot(&format!("s{index}"), parent.as_deref(), kinds[*kind], *second)
            })
            .collect();
        let store = store_of(&snapshots);
        let sandbox = Sandbox::new();
        let report = import(&sandbox, &store);
        prop_assert!(sandbox.source(&report.head) == pretty(&store).as_bytes());
        let out = exported(&sandbox.repo, "work");
        let mut expected = store["snapshots"].as_array().unwrap().clone();
        expected.sort_by_key(|row| row["createdAt"].as_str().unwrap().to_owned());
        prop_assert_eq!(&value(&out)["snapshots"], &Value::from(expected));
        let parts = Sandbox::new();
        import(&parts, &store_of(&snapshots[..at.min(snapshots.len())]));
        import(&parts, &store);
        prop_assert_eq!(
            value(&exported(&parts.repo, "work"))["snapshots"].as_array().unwrap().len(),
            snapshots.len()
        );
        let again = import(&parts, &store);
        prop_assert_eq!((again.turns, again.others.len(), again.new_bytes), (0, 0, 0));
    }
}
