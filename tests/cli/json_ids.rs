//! Ids in records: `id` is the snapshot that a record is about, `blob` a content, in every command.

use serde_json::Value;
use turntree_tests::server_process::Place;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// Commands about the newest snapshot, and the name that schema 1 gave its id.
const RECORDS: &[(&str, Option<&str>)] = &[
    ("status", Some("head")),
    ("log -n 1", None),
    ("show", None),
    ("show HEAD:scratchpad/note", Some("commit")),
    ("ls", Some("commit")),
    ("ls HEAD:files", Some("commit")),
    ("branch", None),
    ("tag newest", None),
    ("sessions", None),
    ("rev-parse HEAD", None),
    ("export HEAD --format markdown -o page.md", Some("commit")),
    ("restore HEAD --to out", Some("commit")),
    ("resume --in codex --cwd . --dry-run", Some("from")),
    ("search note-text", None),
    ("grep note-text", None),
    ("blame HEAD:scratchpad/note", None),
];

fn sample() -> (Place, String) {
    let place = Place::new(PROGRAM);
    place.write("a.txt", "one\n");
    let words = ["snapshot", "--workspace", "work", "-m", "one", "--append-message", "user=begin"];
    let set = ["--set", "scratchpad/note=note-text", "--json"];
    let record: Value = serde_json::from_str(&place.run(&[&words[..], &set].concat())).unwrap();
    let id = record["id"].as_str().unwrap().to_owned();
    (place, id)
}

/// The records of the first line, or of its only list.
fn first(text: &str) -> Value {
    let record: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let lists = ["branches", "sessions", "revisions"];
    let list = lists.iter().filter_map(|name| record[*name].as_array()).next();
    list.map_or(record.clone(), |list| list[0].clone())
}

#[test]
fn the_snapshot_of_a_record_is_its_id() {
    let (place, id) = sample();
    for (call, old) in RECORDS {
        let words: Vec<&str> = call.split(' ').chain(["--json"]).collect();
        let record = first(&place.run(&words));
        assert_eq!(record["id"], *id, "{call}: {record}");
        if let Some(old) = old {
            assert_eq!(record[*old], record["id"], "{call}: {record}");
        }
    }
}

#[test]
fn contents_are_blobs() {
    let (place, _) = sample();
    let blob = place.run(&["rev-parse", "HEAD:scratchpad/note"]);
    let blob = blob.trim();
    for call in ["show HEAD:scratchpad/note", "search note-text", "grep note-text"] {
        let words: Vec<&str> = call.split(' ').chain(["--json"]).collect();
        assert_eq!(first(&place.run(&words))["blob"], *blob, "{call}");
    }
    let listed = first(&place.run(&["ls", "HEAD:scratchpad", "--json"]));
    assert_eq!(listed["entries"][0]["blob"], *blob, "{listed}");
    let sections = first(&place.run(&["ls", "--json"]));
    let files = sections["entries"].as_array().unwrap();
    let files = files.iter().find(|entry| entry["name"] == "files").unwrap();
    assert!(files["root"].is_string() && files["blob"].is_null(), "{files}");
    let stored = first(&place.run(&["vfs", "put", "work/a.txt", "--json"]));
    assert_eq!(stored["blob"], stored["id"]);
}
