//! Writes the corpus files in turntree's own binary formats: `corpus/<target>/seed-*`.
//!
//! Run it again when a format changes. Text seeds are written by hand.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bytes::Bytes;
use rusqlite::Connection;
use turntree::object::{
    Author, Commit, Kind, Memory, ObjectId, Operation, RefChange, RefValue, Tag, Time, Trigger,
};
use turntree::tree::{List, Map};
use turntree_fuzz::git_files::{BYTES, DIGITS, END};
use turntree_fuzz::history::history_seeds;
use turntree_fuzz::opencode::SCHEMA;
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
    for (name, bytes) in history_seeds() {
        write("history_index", name, &bytes)?;
    }
    for (name, rows) in [("tables", false), ("log", true)] {
        write("opencode_database", name, &database(b'-', rows))?;
        write("opencode_database", &format!("{name}-mended"), &database(b'+', rows))?;
    }
    for (name, parts) in repositories() {
        for (packed, how) in [(b'0', "loose"), (b'1', "packed")] {
            write("git_repository", &format!("{name}-{how}"), &repository(packed, parts))?;
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
        tagger: "ann".to_owned(),
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
        actor: "ann".to_owned(),
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

/// Returns the nodes of a tree, children first.
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

/// Returns an opencode database with one session, whose turn is in the log or in the database.
fn database(kind: u8, in_log: bool) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("opencode.db");
    let opencode = Connection::open(&path).expect("a database");
    let run = |statements: &str| opencode.execute_batch(statements).expect("good statements");
    run(SCHEMA);
    run("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0");
    if !in_log {
        run(ROWS);
    }
    run("PRAGMA wal_checkpoint(TRUNCATE)");
    run(if in_log { ROWS } else { "UPDATE session SET title = 'later'" });
    let database = fs::read(&path).expect("the database");
    let log = fs::read(path.with_extension("db-wal")).expect("its log");
    let behind = &database[16..];
    let length = u16::try_from(behind.len()).expect("a small database").to_le_bytes();
    [&[kind], length.as_slice(), behind, &log].concat()
}

const ROWS: &str = r#"BEGIN;
    INSERT INTO session VALUES('ses_1', 'T', '{"id":"m"}', 1, '[]', 0.5, 1, 2);
    INSERT INTO message VALUES('msg_1', 'ses_1', 1, '{"role":"user","time":{"created":1}}');
    INSERT INTO part VALUES('prt_1', 'msg_1', 'ses_1', '{"type":"text","text":"ask"}');
    INSERT INTO message VALUES('msg_2', 'ses_1', 2,
        '{"role":"assistant","time":{"created":2,"completed":3}}');
    INSERT INTO part VALUES('prt_2', 'msg_2', 'ses_1', '{"type":"text","text":"tell"}');
    COMMIT;"#;

/// Returns repositories; `@A` represents the id of an object as digits, `#A` its bytes, `$` a zero.
fn repositories() -> [(&'static str, &'static [&'static str]); 5] {
    const FILE: &str = "bhello\n";
    const LEAF: &str = "t100644 a$#A100755 run$#A160000 sub$#z120000 to$#A";
    const TREE: &str = "t100644 a$#A40000 b$#B";
    [
        (
            "history",
            &[
                FILE,
                LEAF,
                TREE,
                "ctree @B\nauthor Ada <a@e> 1700000000 +0130\ncommitter Ada <a@e> 1700000000 +0130\n\nfirst\n",
                "ctree @C\nparent @D\nauthor Bob <b@e> 1700000001 -0800\ncommitter Bob <b@e> 5 +0000\nencoding ISO-8859-1\n\nsecond\n\nbody\n\nReviewed-by: Eve\n",
                "ctree @B\nparent @D\nparent @E\nauthor Bob <b@e> 2 +0000\ncommitter Bob <b@e> 2 +0000\n\nmerge\n",
                "aobject @F\ntype commit\ntag v1\ntagger Ada <a@e> 1700000002 +0000\n\nthe first\n",
                "aobject @G\ntype tag\ntag v2\n\nof a tag\n",
                "frefs/heads/main\n@F\n",
                "frefs/heads/side/x\n@E\n",
                "frefs/heads/alias\nref: refs/heads/main\n",
                "frefs/tags/v1\n@G\n",
                "frefs/tags/v2\n@H\n",
                "frefs/tags/light\n@D\n",
                "frefs/tags/tree\n@C\n",
            ],
        ),
        (
            "exported",
            &[
                FILE,
                LEAF,
                "t40000 files$#B100644 note$#A",
                "ctree @C\nauthor main <export@turntree.invalid> 1 +0000\ncommitter turntree <export@turntree.invalid> 1 +0000\n\nturn 1\n\nTurntree-Id: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nTurntree-Session: work\nTurntree-Turn: 1\nTurntree-Trigger: turn\nTurntree-Agent: main\nTurntree-Time: 1000001\nTurntree-Meta: tokens=8\n",
                "aobject @D\ntype commit\ntag v1\ntagger turntree <export@turntree.invalid> 1 +0000\n\nwhy\n\nTurntree-Tagger: ann\n",
                "ctree @C\nparent @D\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\nby hand\n",
                "frefs/heads/work/main\n@F\n",
                "frefs/heads/work/main%2Fx\n@D\n",
                "frefs/tags/a%25\n@E\n",
            ],
        ),
        (
            "odd-names",
            &[
                FILE,
                "t100644 ..$#A100644 .git$#A100644 a/b$#A40000 $#A100644 turntree$#A100664 g$#A",
                "ctree @B\nparent @z\nauthor A <a> 1 +0000\ncommitter A <a> x\n\n",
                "fHEAD\n@C\n",
                "fpacked-refs\n@C refs/heads/x\n@C refs/tags/t\n^@C\n",
                "fshallow\n@C\n",
                "fconfig\n[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha1\n",
                "fobjects/info/alternates\nmore\n",
                "?x",
                "?refs/tags/t",
                "?@C",
            ],
        ),
        (
            "tags-that-lead-back",
            &[
                FILE,
                "t100644 a$#A",
                "ctree @B\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\nx\n",
                "!yaobject @y\ntype tag\ntag t\n\n",
                "!zaobject\n",
                "frefs/heads/main\n@C\n",
                "frefs/tags/t\n@y\n",
                "frefs/tags/u\n@z\n",
                "?main",
                "?t",
            ],
        ),
        (
            "changes-of-objects",
            &[
                FILE,
                "dA\x06\x08\u{90}\x06\x02!\n",
                "dq\x06\x06\u{90}\x06",
                "t100644 a$#a100644 b$#q",
                "ctree @B\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\nx\n",
                "frefs/heads/main\n@C\n",
            ],
        ),
    ]
}

/// Returns an input of the target `git_repository`.
fn repository(packed: u8, parts: &[&str]) -> Vec<u8> {
    let mut input = vec![packed];
    for part in parts {
        let bytes = part.chars().map(|c| match c {
            '#' => BYTES,
            '$' => 0,
            c => u8::try_from(u32::from(c)).expect("Latin letters"),
        });
        // An `@` before a letter is an id, any other one is a literal `@`.
        let bytes: Vec<u8> = bytes.collect();
        for (at, byte) in bytes.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|at| bytes.get(at)).unwrap_or(&b' ');
            let is_id = *byte == b'@' && !before.is_ascii_alphanumeric();
            input.push(if is_id { DIGITS } else { *byte });
        }
        input.push(END);
    }
    input
}
