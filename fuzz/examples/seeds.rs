//! Writes the corpus files that are bytes of turntree's own formats: `corpus/<target>/seed-*`.
//!
//! To be run again when a format changes. The seeds that are text are written by hand.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bytes::Bytes;
use turntree::object::{
    Author, Commit, Kind, Memory, ObjectId, Operation, RefChange, RefValue, Tag, Time, Trigger,
};
use turntree::tree::{List, Map};
use turntree_fuzz::store::{MEND, sample};
use turntree_fuzz::tree::{item, pack};

fn main() -> std::io::Result<()> {
    for (name, bytes) in objects() {
        write("objects", name, &bytes)?;
    }
    for (name, count, is_map) in
        [("list-short", 5, false), ("list", 60, false), ("map-short", 5, true), ("map", 40, true)]
    {
        write("nodes", name, &tree(count, is_map))?;
    }
    let edits: [(&str, &[u8]); 3] = [
        ("list", b"\0\xc8\x01\0\x01\0\x30\xc5\x04\0\0\0\x01\x02\x10\x3f\x01\0\0\x80"),
        ("map", b"\x02\0\x07\x60\x04\0\0\0\x02\x03\x08\x20\x03\x05\x01\x30\x03\0\x02\x08"),
        ("both", b"\0\xff\0\0\x02\0\0\xff\x04\0\0\0\0\x40\x09\0\x03\0\x03\xff\x01\x05\x05\x3f"),
    ];
    for (name, bytes) in edits {
        write("edits", name, bytes)?;
    }
    let sample = sample();
    let files = [
        ("superblock", &sample.superblock),
        ("manifest", &sample.manifest),
        ("active_segment", &sample.active),
        ("sealed_segment", &sample.sealed),
    ];
    for (target, path) in files {
        for (name, first) in [("mended", MEND), ("as-it-is", b'-')] {
            write(target, name, &[&[first], sample.file(path).as_slice()].concat())?;
        }
    }
    Ok(())
}

fn write(target: &str, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(format!("seed-{name}")), bytes)
}

fn objects() -> [(&'static str, Vec<u8>); 5] {
    let id = |text: &str| ObjectId::of(Kind::Commit, text.as_bytes());
    let commit = Commit {
        tree: id("tree"),
        parents: vec![id("a"), id("b")],
        session: "work".to_owned(),
        turn: 300,
        author: Author { agent: "main".to_owned(), model: "model-1".to_owned() },
        time: Time { micros: -1, offset_minutes: 120 },
        trigger: Trigger::Merge,
        message: "two lines\nin one".to_owned(),
        metadata: BTreeMap::from([("a".into(), "1".into()), ("b".into(), String::new())]),
    };
    let first = Commit { parents: vec![], metadata: BTreeMap::new(), ..commit.clone() };
    let tag = Tag {
        target: id("a"),
        target_kind: Kind::Commit,
        name: "v1".to_owned(),
        tagger: "somebody".to_owned(),
        time_micros: 1 << 40,
        message: String::new(),
        expires_micros: None,
    };
    let change = |name: &str, old, new| RefChange { name: name.to_owned(), old, new };
    let value = |text| Some(RefValue::Object(id(text)));
    let operation = Operation {
        parents: vec![id("operation")],
        sequence: 70_000,
        time_micros: 0,
        actor: "somebody".to_owned(),
        reason: "switch".to_owned(),
        changes: vec![
            change("HEAD", None, Some(RefValue::Symbolic("refs/heads/work/main".to_owned()))),
            change("refs/heads/work/main", value("a"), value("b")),
            change("refs/tags/v1", value("a"), None),
        ],
        undoes: None,
    };
    let undoing = Operation { undoes: Some(id("operation")), ..operation.clone() };
    [
        ("commit", commit.encode()),
        ("commit-first", first.encode()),
        ("tag", tag.encode()),
        ("operation", operation.encode()),
        ("operation-undoing", undoing.encode()),
    ]
}

/// The nodes of a tree, children first.
fn tree(count: u32, is_map: bool) -> Vec<u8> {
    let mut objects = Memory::new();
    let written = if is_map {
        let entries = (0..count).map(|n| (Bytes::from(format!("key/{n:02}")), Some(item(n))));
        let mut map = Map::new();
        map.apply(&mut objects, entries.collect()).and_then(|()| map.write(&mut objects))
    } else {
        let mut list = List::new();
        let items = (0..count).map(item).collect();
        list.extend(&mut objects, items).and_then(|()| list.write(&mut objects))
    };
    written.expect("a tree in memory");
    pack(&objects.into_objects())
}
