//! Databases of open-codesign v0.1: the import keeps the history that upstream's own migration
//! drops.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::{Value, json};
use turntree::context::{FileEntry, MessageEntry};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::Repository;
use turntree::{Error, ErrorKind};
use turntree_exchange::formats::codesign::{export_chat, export_designs, import_designs};
use turntree_exchange::formats::{FolderFile, view};
use turntree_exchange::{ImportOptions, ImportReport};
use turntree_tests::sim::Random;
use turntree_tests::{Sandbox, stamp};

const DATABASE: &[u8] = include_bytes!("../vectors/open-codesign/designs-v0.1.db");

/// The tables of v0.1, those of the small example and those that it lacks.
const SCHEMA: &str = "
    CREATE TABLE designs(id TEXT PRIMARY KEY, schema_version INTEGER NOT NULL DEFAULT 1,
        name TEXT NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL, thumbnail_text TEXT,
        deleted_at TEXT, workspace_path TEXT);
    CREATE TABLE design_snapshots(id TEXT PRIMARY KEY, schema_version INTEGER NOT NULL DEFAULT 1,
        design_id TEXT NOT NULL REFERENCES designs(id) ON DELETE CASCADE, parent_id TEXT,
        type TEXT NOT NULL, prompt TEXT, artifact_type TEXT NOT NULL, artifact_source TEXT NOT NULL,
        created_at TEXT NOT NULL, message TEXT);
    CREATE TABLE design_messages(design_id TEXT, ordinal INTEGER, role TEXT, content TEXT,
        created_at TEXT, PRIMARY KEY(design_id, ordinal));
    CREATE TABLE chat_messages(id INTEGER PRIMARY KEY AUTOINCREMENT, design_id TEXT NOT NULL,
        seq INTEGER NOT NULL, kind TEXT NOT NULL, payload TEXT NOT NULL, snapshot_id TEXT,
        created_at TEXT NOT NULL, UNIQUE(design_id, seq));
    CREATE TABLE comments(id TEXT PRIMARY KEY, schema_version INTEGER, design_id TEXT, snapshot_id TEXT,
        kind TEXT, selector TEXT, tag TEXT, outer_html TEXT, rect TEXT, text TEXT, status TEXT,
        created_at TEXT, applied_in_snapshot_id TEXT, scope TEXT DEFAULT 'element',
        parent_outer_html TEXT);
    CREATE TABLE design_files(id TEXT PRIMARY KEY, design_id TEXT NOT NULL, path TEXT NOT NULL,
        content TEXT NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL);
    CREATE TABLE diagnostic_events(id INTEGER PRIMARY KEY, schema_version INTEGER, ts INTEGER,
        level TEXT, code TEXT, scope TEXT, run_id TEXT, fingerprint TEXT, message TEXT, stack TEXT,
        transient INTEGER, count INTEGER, context_json TEXT);
    CREATE TABLE db_meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE INDEX by_design ON design_snapshots(design_id, created_at DESC);
    INSERT INTO designs VALUES
        ('d1', 1, 'Form', '2026-04-20T08:00:00.000Z', '2026-04-20T09:00:00.000Z', 't', NULL, NULL),
        ('d2', 1, 'Old', '2026-04-01T08:00:00.000Z', '2026-04-01T09:00:00.000Z', NULL,
            '2026-04-02T00:00:00.000Z', '/home/u/old');
    INSERT INTO design_snapshots VALUES
        ('s1', 1, 'd1', NULL, 'initial', 'a form', 'html', '<form/>', '2026-04-20T08:01:00.000Z', NULL),
        ('s2', 1, 'd1', 's1', 'edit', 'more', 'html', '<form>2</form>', '2026-04-20T08:05:00.000Z', 'two'),
        ('s3', 1, 'd1', 's1', 'fork', NULL, 'react', 'export {}', '2026-04-20T08:06:00.000Z', NULL),
        ('o1', 1, 'd2', NULL, 'initial', 'old', 'svg', '<svg/>', '2026-04-01T08:01:00.000Z', NULL);
    INSERT INTO chat_messages(design_id, seq, kind, payload, snapshot_id, created_at) VALUES
        ('d1', 1, 'tool_call', '{\"toolName\":\"create\",\"args\":{\"path\":\"index.html\"},\"status\":\"done\",\"result\":\"ok\"}', NULL, '2026-04-20T08:00:40.000Z'),
        ('d1', 0, 'user', '{\"text\":\"a form\"}', NULL, '2026-04-20T08:00:30.000Z'),
        ('d1', 2, 'artifact_delivered', '{\"createdAt\":\"x\"}', 's1', '2026-04-20T08:02:00.000Z'),
        ('d1', 3, 'user', '{\"text\":\"more\"}', NULL, '2026-04-20T08:04:00.000Z'),
        ('d1', 4, 'user', '{\"text\":\"thanks\"}', NULL, '2026-04-20T08:07:00.000Z');
    INSERT INTO design_messages VALUES
        ('d2', 1, 'assistant', 'done', '2026-04-01T08:00:50.000Z'),
        ('d2', 0, 'user', 'an old one', '2026-04-01T08:00:30.000Z');
    INSERT INTO comments(id, schema_version, design_id, snapshot_id, kind, rect, text, status, created_at)
        VALUES ('c1', 1, 'd1', 's1', 'note', '{\"top\":1.5}', 'bigger', 'pending', '2026-04-20T08:03:00.000Z');
    INSERT INTO design_files VALUES
        ('f1', 'd1', 'index.html', '<form>2</form>', '2026-04-20T08:05:00.000Z', '2026-04-20T08:05:00.000Z'),
        ('f2', 'd1', 'assets\\style.css', 'p {}', '2026-04-20T08:05:00.000Z', '2026-04-20T08:05:00.000Z'),
        ('f3', 'd1', '../../etc/passwd', 'x', '2026-04-20T08:05:00.000Z', '2026-04-20T08:05:00.000Z');
    INSERT INTO diagnostic_events VALUES
        (1, 1, 1199, 'error', 'X', 's', NULL, 'f', 'm', NULL, 1, 2, '{\"a\":1}');
    INSERT INTO db_meta VALUES ('comments_schema_v2', '2026-04-20T07:59:00.000Z');
";

/// A database in a new folder, created by `statements`.
fn database(statements: &str) -> (tempfile::TempDir, PathBuf, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("designs.db");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(statements).unwrap();
    (folder, path, connection)
}

fn bytes_of(statements: &str) -> Vec<u8> {
    let (_folder, path, connection) = database(statements);
    connection.close().unwrap();
    fs::read(path).unwrap()
}

fn beside(path: &Path, end: &str) -> PathBuf {
    PathBuf::from(format!("{}{end}", path.display()))
}

fn contents(repo: &Repository, branch: &str) -> Vec<String> {
    let mut contents = Vec::new();
    let mut next = Some(repo.resolve(branch).unwrap().commit);
    while let Some(id) = next {
        for path in ["index.html", "index.jsx", "index.svg"] {
            contents.extend(file(repo, &id, path));
        }
        next = repo.commit(&id).unwrap().parents.first().copied();
    }
    contents.dedup();
    contents
}

fn file(repo: &Repository, commit: &ObjectId, path: &str) -> Option<String> {
    let context = repo.context(commit).unwrap();
    let files = context.map(repo, "files").unwrap();
    let item = files.get(repo, path.as_bytes()).unwrap()?;
    let blob = FileEntry::from_item(&item).unwrap().blob;
    let bytes = repo.read_as(Kind::Blob, &blob).unwrap();
    Some(String::from_utf8(bytes.to_vec()).unwrap())
}

fn said(repo: &Repository, revision: &str) -> Vec<String> {
    let (store, commit) = (repo, repo.resolve(revision).unwrap().commit);
    let list = repo.context(&commit).unwrap().messages(store, "main").unwrap();
    let line = |item| {
        let entry = MessageEntry::from_item(&item).unwrap();
        view(&entry.media, &store.read_as(Kind::Blob, &entry.blob).unwrap()).summary()
    };
    list.iter(store, 0..list.len()).map(|item| line(item.unwrap())).collect()
}

fn entry(repo: &Repository, revision: &str, section: &str, key: &str) -> Option<Vec<u8>> {
    let commit = repo.resolve(revision).unwrap().commit;
    let map = repo.context(&commit).unwrap().map(repo, section).unwrap();
    let item = map.get(repo, key.as_bytes()).unwrap()?;
    Some(repo.read_as(Kind::Blob, &item.link.id).unwrap().to_vec())
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

fn import_files(sandbox: &Sandbox, files: &[(&str, &[u8])]) -> turntree::Result<ImportReport> {
    let stored = |(path, bytes): &(&str, &[u8])| FolderFile {
        path: (*path).to_owned(),
        bytes: bytes.to_vec().into(),
    };
    let files: Vec<FolderFile> = files.iter().map(stored).collect();
    import_designs(&sandbox.repo, &files, &options())
}

/// The error of an import, which must leave no trace.
fn refused(sandbox: &Sandbox, bytes: &[u8]) -> Error {
    let before = sandbox.repo.refs();
    let error = sandbox.import("work", bytes).unwrap_err();
    assert_eq!(sandbox.repo.refs(), before, "an error leaves no trace");
    error
}

fn exported(repo: &Repository, session: &str) -> Value {
    let branches = repo.branches().into_iter().filter(|(branch, _)| branch.session() == session);
    let main = repo.resolve(session).unwrap().commit;
    let tips: Vec<ObjectId> = std::iter::once(main).chain(branches.map(|(_, tip)| tip)).collect();
    let mut out = Vec::new();
    export_designs(repo, &[tips], &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn database_import_keeps_the_history_that_the_migration_drops() {
    let sandbox = Sandbox::new();
    let report = sandbox.import("work", DATABASE).unwrap();
    assert_eq!((report.format, report.branch.to_string().as_str()), ("codesign", "work/main"));
    assert!(sandbox.source(&report.head) == DATABASE);
    assert_eq!(
        contents(&sandbox.repo, "work"),
        ["<form><select></select></form>", "<form></form>"]
    );
    assert_eq!(said(&sandbox.repo, "work"), ["Make a ticket form", "[artifact]"]);
    let out = exported(&sandbox.repo, "work");
    assert_eq!(out["snapshots"][1]["parentId"], "s-1");
    assert_eq!(out["snapshots"][1]["message"], "added select");
    assert_eq!(out["snapshots"][0].get("message"), None);
    assert_eq!(out["designs"][0]["thumbnailText"], "Make a ticket form");
    let purged = entry(&sandbox.repo, "work", "meta", "codesign/database/comments_schema_v2");
    assert_eq!(purged.unwrap(), b"2026-04-20T07:59:00.000Z");
    let again = sandbox.import("work", DATABASE).unwrap();
    assert_eq!((again.turns, again.new_bytes, again.head), (0, 0, report.head));
}

#[test]
fn every_database_table_is_imported() {
    let sandbox = Sandbox::new();
    let report = sandbox.import("work", &bytes_of(SCHEMA)).unwrap();
    let repo = &sandbox.repo;
    assert_eq!(contents(repo, "work-form"), ["<form>2</form>", "<form/>"]);
    assert_eq!(contents(repo, "work-form/fork-s3"), ["export {}", "<form/>"]);
    assert_eq!(contents(repo, "work-old"), ["<svg/>"]);
    // The messages are before the snapshot that they produced.
    let chat = ["a form", "create index.html", "[artifact]", "more", "thanks"];
    assert_eq!(said(repo, "work-form"), chat);
    let first = repo.resolve("work-form/fork-s3~1").unwrap().commit.to_string();
    assert_eq!(said(repo, &first), chat[..3]);
    assert_eq!(said(repo, "work-old"), ["an old one", "done"]);
    let tip = repo.resolve("work-form").unwrap().commit;
    assert_eq!(file(repo, &tip, "assets/style.css").unwrap(), "p {}");
    assert!(report.notes.iter().any(|note| note.what.contains("a path that points outside")));
    assert!(report.notes.iter().any(|note| note.what.contains("was deleted 2026-04-02")));
    let comment = entry(repo, "work-form", "comments", "c1").unwrap();
    let comment: Value = serde_json::from_slice(&comment).unwrap();
    assert_eq!((&comment["rect"]["top"], &comment["designId"]), (&json!(1.5), &json!("d1")));
    let out = exported(repo, "work-form");
    let event = json!({"id": 1, "schemaVersion": 1, "ts": 1199, "level": "error", "code": "X",
        "scope": "s", "fingerprint": "f", "message": "m", "transient": true, "count": 2,
        "context": {"a": 1}});
    assert_eq!(out["diagnosticEvents"], json!([event]));
    assert_eq!(exported(repo, "work-old")["designs"][0]["deletedAt"], "2026-04-02T00:00:00.000Z");
}

#[test]
fn database_chats_and_comments_are_exported_in_the_current_format() {
    let sandbox = Sandbox::new();
    sandbox.import("work", &bytes_of(SCHEMA)).unwrap();
    let repo = &sandbox.repo;
    let chat = |repo: &Repository, session: &str| {
        let mut out = Vec::new();
        export_chat(repo, &repo.resolve(session).unwrap().commit, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let [form, old] = ["work-form", "work-old"].map(|session| chat(repo, session));
    let lines: Vec<Value> = form.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let data = json!({"schemaVersion": 1, "id": 3, "seq": 2, "kind": "artifact_delivered",
        "payload": {"createdAt": "x"}, "snapshotId": "s1"});
    assert_eq!(
        (&lines[3]["data"], &lines[3]["timestamp"]),
        (&data, &json!("2026-04-20T08:02:00.000Z"))
    );
    assert_eq!(lines[6]["data"]["row"]["text"], "bigger");
    assert_eq!(lines[6]["timestamp"], "2026-04-20T08:03:00.000Z");
    let tips = ["work-form", "work-old"].map(|name| vec![repo.resolve(name).unwrap().commit]);
    let mut store = Vec::new();
    export_designs(repo, &tips, &mut store).unwrap();
    let other = Sandbox::new();
    let (form_file, old_file) = ("sessions/d1.jsonl", "sessions/d2.jsonl");
    let files = [
        ("design-store.json", store.as_slice()),
        (form_file, form.as_bytes()),
        (old_file, old.as_bytes()),
    ];
    import_files(&other, &files).unwrap();
    for session in ["work-form", "work-old"] {
        assert_eq!(said(&other.repo, session), said(repo, session));
        assert_eq!(chat(&other.repo, session), chat(repo, session));
    }
    let comment = |repo: &Repository| -> Value {
        serde_json::from_slice(&entry(repo, "work-form", "comments", "c1").unwrap()).unwrap()
    };
    assert_eq!(comment(&other.repo), comment(repo));
}

#[test]
fn database_import_reads_the_log_and_writes_no_files() {
    let (_folder, path, connection) = database("PRAGMA journal_mode = WAL;");
    connection.execute_batch(SCHEMA).unwrap();
    connection
        .execute_batch(
            "PRAGMA wal_checkpoint(TRUNCATE); UPDATE designs SET name = 'Renamed' WHERE id = 'd1';
        DELETE FROM designs WHERE id = 'd2'; DELETE FROM design_snapshots WHERE design_id = 'd2';
        DELETE FROM design_messages;",
        )
        .unwrap();
    let (bytes, log) = (fs::read(&path).unwrap(), fs::read(beside(&path, "-wal")).unwrap());
    assert!(!log.is_empty());
    let with_log = Sandbox::new();
    let files = [("designs.db", bytes.as_slice()), ("designs.db-wal", log.as_slice())];
    let report = import_files(&with_log, &files).unwrap();
    assert_eq!(exported(&with_log.repo, "work")["designs"][0]["name"], "Renamed");
    assert!(with_log.source(&report.head) == bytes);
    assert_eq!(entry(&with_log.repo, "work", "meta", "codesign/wal").unwrap(), log);
    let without = Sandbox::new();
    import_files(&without, &files[..1]).unwrap();
    assert_eq!(exported(&without.repo, "work-form")["designs"][0]["name"], "Form");
    // A log that is truncated or damaged has committed everything before that point.
    let mut random = Random(3);
    let other = Sandbox::new();
    for _ in 0..40 {
        let mut part = log[..random.below(log.len())].to_vec();
        if let Some(byte) = part.get_mut(random.below(log.len())) {
            *byte ^= 0x40;
        }
        let files = [("designs.db", bytes.as_slice()), ("designs.db-wal", part.as_slice())];
        import_files(&other, &files).unwrap();
    }
    let names: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(names.len(), 3, "the database, its log and what SQLite itself has for it");
}

#[test]
fn database_backups_and_the_current_store_share_one_history() {
    let old = bytes_of(SCHEMA);
    let new = json!({
        "schemaVersion": 1,
        "designs": [{"schemaVersion": 1, "id": "d1", "name": "Form", "createdAt": "2026-04-20T08:00:00.000Z",
            "updatedAt": "2026-05-02T08:00:00.000Z", "thumbnailText": null, "deletedAt": null,
            "workspacePath": "/w"}],
        "snapshots": [{"schemaVersion": 1, "id": "n1", "designId": "d1", "parentId": "s2", "type": "edit",
            "prompt": "newer", "artifactType": "html", "artifactSource": "<form>3</form>",
            "createdAt": "2026-05-02T08:00:00.000Z"}],
        "diagnosticEvents": [],
    });
    let new = new.to_string();
    for name in ["designs.db", "designs.db.v0.1.backup", "designs.db.v0.1.backup.3"] {
        let sandbox = Sandbox::new();
        let files = [("design-store.json", new.as_bytes()), (name, old.as_slice())];
        import_files(&sandbox, &files).unwrap();
        assert_eq!(
            contents(&sandbox.repo, "work-form"),
            ["<form>3</form>", "<form>2</form>", "<form/>"]
        );
        let again = import_files(&sandbox, &files).unwrap();
        assert_eq!((again.turns, again.others.len(), again.new_bytes), (0, 0, 0));
    }
}

#[test]
fn truncated_databases_are_rejected_at_every_length() {
    let (sandbox, bytes) = (Sandbox::new(), bytes_of(SCHEMA));
    for bytes in [DATABASE, &bytes] {
        let mut length = 16;
        while length < bytes.len() {
            let error = refused(&sandbox, &bytes[..length]);
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            assert!(error.to_string().contains("the database is cut off"), "{length}: {error}");
            length += if length < 200 { 7 } else { 811 };
        }
    }
}

#[test]
fn flipped_database_bytes_are_rejected_or_read() {
    let (sandbox, bytes) = (Sandbox::new(), bytes_of(SCHEMA));
    let mut random = Random(11);
    let (mut damaged, mut read) = (0, 0);
    for number in 0..250 {
        let mut bytes = if random.below(2) == 0 { bytes.clone() } else { DATABASE.to_vec() };
        for _ in 0..=random.below(20) {
            // The magic bytes decide the kind of the file.
            let at = 16 + random.below(bytes.len() - 16);
            bytes[at] = u8::try_from(random.below(256)).unwrap();
        }
        let before = sandbox.repo.refs();
        match sandbox.import(&format!("s{number}"), &bytes) {
            Ok(report) => {
                read += 1;
                assert!(sandbox.source(&report.head) == bytes);
            }
            Err(error) => {
                damaged += 1;
                let kinds = [ErrorKind::InvalidInput, ErrorKind::LimitExceeded];
                assert!(kinds.contains(&error.kind()), "{error}");
                assert_eq!(sandbox.repo.refs(), before);
            }
        }
    }
    assert!(damaged > 20 && read > 20, "{damaged} damaged, {read} read");
}

#[test]
fn invalid_design_databases_are_rejected_with_their_location() {
    let design = "INSERT INTO designs VALUES ('d3', 1, 'x', 't', 't', NULL, NULL, NULL);";
    for (more, expected) in [
        ("DROP TABLE designs;", "the database has no table 'designs'"),
        (
            "DROP TABLE designs; CREATE TABLE checkpoints (thread_id TEXT, checkpoint BLOB);",
            "checkpoints of LangGraph, whose values only Python reads",
        ),
        ("UPDATE designs SET schema_version = 4;", "designs[0].schemaVersion: expected 1"),
        (
            "UPDATE design_snapshots SET type = 'other' WHERE id = 's2';",
            "snapshots[1].type: expected initial, edit or fork",
        ),
        (
            "UPDATE design_snapshots SET artifact_source = x'FF00';",
            "design_snapshots, row 1, artifactSource: expected text",
        ),
        (
            // A text column would convert the number to text, so the new table has no types.
            "CREATE TABLE d AS SELECT * FROM designs; DROP TABLE designs;
            CREATE TABLE designs AS SELECT id, schema_version, 5 AS name, created_at, updated_at FROM d;",
            "designs[0].name: expected text, found a number",
        ),
        ("CREATE VIRTUAL TABLE v USING fts5(a);", "the database has a virtual table"),
        (
            "ALTER TABLE designs RENAME TO real; CREATE VIEW designs AS WITH RECURSIVE n(id) AS
                (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT * FROM n;",
            "the database has no table 'designs'",
        ),
    ] {
        let error = refused(&Sandbox::new(), &bytes_of(&format!("{SCHEMA}{design}{more}")));
        assert!(error.to_string().contains(expected), "{error} is not {expected}");
    }
}

#[test]
fn computed_columns_and_constraints_are_not_evaluated() {
    let computed = "CREATE TABLE db_meta2(key TEXT, value TEXT GENERATED ALWAYS AS (hex(zeroblob(400000000))) VIRTUAL);
        DROP TABLE db_meta; ALTER TABLE db_meta2 RENAME TO db_meta; INSERT INTO db_meta(key) VALUES ('a');";
    let sandbox = Sandbox::new();
    let found = sandbox.import("work", &bytes_of(&format!("{SCHEMA}{computed}")));
    if let Err(error) = found {
        let kinds = [ErrorKind::InvalidInput, ErrorKind::LimitExceeded];
        assert!(kinds.contains(&error.kind()), "{error}");
    }
}

#[test]
fn oversized_rows_are_rejected_before_reading() {
    let large = "UPDATE design_snapshots SET artifact_source = (SELECT hex(zeroblob(33600000))) WHERE id = 's2';";
    let error = refused(&Sandbox::new(), &bytes_of(&format!("{SCHEMA}{large}")));
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
}
