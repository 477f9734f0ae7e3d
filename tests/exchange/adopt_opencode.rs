//! Sessions in the database of opencode: adopted repeatedly while it is open, and unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rusqlite::{Connection, params};
use serde_json::{Value, json};
use turntree::ErrorKind;
use turntree::workspace::AdoptionCache;
use turntree_exchange::agents::{
    AdoptOptions, Adopted, FoundSessions, Outcome, SessionPlace, adopt, find, places,
};
use turntree_exchange::{ImportOptions, import};
use turntree_tests::sim::Random;
use turntree_tests::{Sandbox, claude_code, stamp};

/// The tables of one version, in their order.
const SCHEMA: &str = "
    CREATE TABLE session(id TEXT PRIMARY KEY, project_id TEXT NOT NULL, workspace_id TEXT, parent_id TEXT,
        slug TEXT NOT NULL, directory TEXT NOT NULL, path TEXT, title TEXT NOT NULL, version TEXT NOT NULL,
        share_url TEXT, summary_additions INTEGER, summary_deletions INTEGER, summary_files INTEGER,
        summary_diffs TEXT, cost REAL DEFAULT 0 NOT NULL, tokens_input INTEGER DEFAULT 0 NOT NULL,
        tokens_output INTEGER DEFAULT 0 NOT NULL, tokens_reasoning INTEGER DEFAULT 0 NOT NULL,
        tokens_cache_read INTEGER DEFAULT 0 NOT NULL, tokens_cache_write INTEGER DEFAULT 0 NOT NULL,
        revert TEXT, permission TEXT, agent TEXT, model TEXT, time_created INTEGER NOT NULL,
        time_updated INTEGER NOT NULL, time_compacting INTEGER, time_archived INTEGER);
    CREATE TABLE message(id TEXT PRIMARY KEY, session_id TEXT NOT NULL,
        time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL, data TEXT NOT NULL);
    CREATE TABLE part(id TEXT PRIMARY KEY, message_id TEXT NOT NULL,
        session_id TEXT NOT NULL, time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL,
        data TEXT NOT NULL);
    CREATE INDEX message_session_time_created_id_idx ON message(session_id, time_created, id);
    CREATE INDEX part_message_id_id_idx ON part(message_id, id);
    CREATE INDEX part_session_idx ON part(session_id);
    CREATE TABLE session_message(id TEXT PRIMARY KEY, session_id TEXT NOT NULL, type TEXT NOT NULL,
        data TEXT NOT NULL);
";

/// The folder of opencode, below a home.
const DATA: &str = ".local/share/opencode";

/// A home with an opencode that keeps its database open and never checkpoints automatically.
struct Home {
    sandbox: Sandbox,
    path: PathBuf,
    opencode: Connection,
}

impl Home {
    fn new() -> Self {
        Self::of_schema(SCHEMA)
    }

    fn of_schema(schema: &str) -> Self {
        let sandbox = Sandbox::new();
        let path = sandbox.folder().join("home");
        fs::create_dir_all(path.join(DATA)).unwrap();
        let opencode = Connection::open(path.join(DATA).join("opencode.db")).unwrap();
        opencode
            .execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;")
            .unwrap();
        opencode.execute_batch(schema).unwrap();
        Self { sandbox, path, opencode }
    }

    fn database(&self) -> PathBuf {
        self.path.join(DATA).join("opencode.db")
    }

    /// The folder with the files of earlier releases.
    fn storage(&self) -> PathBuf {
        self.path.join(DATA).join("storage")
    }

    /// Writes a file of an earlier release.
    fn put(&self, path: &str, value: &Value) {
        let path = self.storage().join(format!("{path}.json"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, serde_json::to_string_pretty(value).unwrap()).unwrap();
    }

    fn session(&self, id: &str) {
        let insert =
            "INSERT INTO session(id, project_id, slug, directory, title, version, time_created,
            time_updated) VALUES (?1, 'p', 'quiet-fox', '/p', 'T', '1.2.0', 1000, 1000)";
        self.opencode.execute(insert, [id]).unwrap();
    }

    fn message(&self, session: &str, id: &str, time: i64, data: &Value) {
        let insert = "INSERT OR REPLACE INTO message VALUES (?1, ?2, ?3, ?3, ?4)";
        self.opencode.execute(insert, params![id, session, time, data.to_string()]).unwrap();
    }

    fn part(&self, session: &str, message: &str, id: &str, data: &str) {
        let insert = "INSERT OR REPLACE INTO part VALUES (?1, ?2, ?3, 1, 1, ?4)";
        self.opencode.execute(insert, params![id, message, session, data]).unwrap();
    }

    /// Adds a prompt and its answer.
    fn turn(&self, session: &str, number: i64) {
        let [asked, told] = [2 * number, 2 * number + 1];
        let (asks, tells) = (format!("msg_{asked:04}"), format!("msg_{told:04}"));
        self.message(session, &asks, asked, &json!({"role": "user", "time": {"created": asked}}));
        self.part(session, &asks, &format!("prt_{asked:04}"), &text(&format!("ask {number}")));
        let time = json!({"created": told, "completed": told});
        self.message(session, &tells, told, &json!({"role": "assistant", "time": time}));
        self.part(session, &tells, &format!("prt_{told:04}"), &text(&format!("tell {number}")));
        let touch =
            "UPDATE session SET time_updated = ?1, title = ?2, tokens_input = ?1 WHERE id = ?3";
        self.opencode.execute(touch, params![told, format!("T{told}"), session]).unwrap();
    }

    fn find(&self) -> FoundSessions {
        let home = self.path.clone().into_os_string();
        find(&places(&|name| (name == "HOME").then(|| home.clone())))
    }

    fn adopt(&self) -> Vec<Adopted> {
        self.adopt_all(self.find())
    }

    fn adopt_all(&self, found: FoundSessions) -> Vec<Adopted> {
        let repo = &self.sandbox.repo;
        let options = AdoptOptions {
            stamp: stamp(1),
            adoption: Arc::default(),
            is_live: false,
            head: None,
            passed: &|_| {},
        };
        let mut seen = AdoptionCache::open(repo);
        let adopted = adopt(repo, found.sessions, &options, &mut seen).unwrap();
        seen.save().unwrap();
        adopted
    }

    fn source(&self, session: &str) -> String {
        let head = self.sandbox.repo.resolve(session).unwrap().commit;
        String::from_utf8(self.sandbox.source(&head)).unwrap()
    }

    fn has(&self, branch: &str) -> bool {
        self.sandbox.repo.resolve(branch).is_ok()
    }
}

fn text(text: &str) -> String {
    json!({"type": "text", "text": text}).to_string()
}

/// A change of a home.
type Change<'a> = &'a dyn Fn(&Home);

/// Sessions with the number of new turns. `None` for a failure.
fn turns(adopted: &[Adopted]) -> BTreeMap<&str, Option<u64>> {
    let turns = |outcome: &Outcome| match outcome {
        Outcome::Imported(report) => Some(report.turns),
        Outcome::Unchanged => Some(0),
        Outcome::Failed(_) => None,
    };
    adopted.iter().map(|it| (it.found.session.as_str(), turns(&it.outcome))).collect()
}

fn failure<'a>(adopted: &'a [Adopted], session: &str) -> &'a turntree::Error {
    let found = adopted.iter().find(|it| it.found.session == session).unwrap();
    let Outcome::Failed(error) = &found.outcome else { panic!("{session} was imported") };
    error
}

/// Every file below `folder`, with its content and times.
fn tree(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            found.extend(tree(&entry.path()));
        } else {
            let modified = entry.metadata().unwrap().modified().unwrap();
            found.insert(entry.path(), (fs::read(entry.path()).unwrap(), modified));
        }
    }
    found
}

/// The output of `opencode export` for the session of the first test.
const EXPORT: &str = r#"{
  "info": {
    "id": "ses_1",
    "slug": "quiet-fox",
    "projectID": "p",
    "directory": "/p",
    "parentID": "ses_0",
    "title": "Ein „Titel“",
    "model": {
      "id": "m",
      "providerID": "v"
    },
    "version": "1.2.0",
    "summary": {
      "additions": 3,
      "deletions": 0,
      "files": 1,
      "diffs": []
    },
    "cost": 0.25,
    "tokens": {
      "input": 7,
      "output": 0,
      "reasoning": 0,
      "cache": {
        "read": 0,
        "write": 0
      }
    },
    "time": {
      "created": 1000,
      "updated": 2000
    }
  },
  "messages": [
    {
      "info": {
        "role": "user",
        "time": {
          "created": 5
        },
        "tools": {},
        "id": "msg_b",
        "sessionID": "ses_1"
      },
      "parts": [
        {
          "type": "text",
          "text": "a {\"b\": [1]}",
          "id": "prt_1",
          "sessionID": "ses_1",
          "messageID": "msg_b"
        },
        {
          "type": "file",
          "n": 1.50,
          "id": "prt_2",
          "sessionID": "ses_1",
          "messageID": "msg_b"
        }
      ]
    },
    {
      "info": {
        "role": "assistant",
        "time": {
          "created": 6,
          "completed": 7
        },
        "id": "msg_a",
        "sessionID": "ses_1"
      },
      "parts": []
    }
  ]
}
"#;

#[test]
fn sessions_in_the_write_ahead_log_are_adopted_without_outside_writes() {
    let home = Home::new();
    home.session("ses_1");
    home.opencode
        .execute_batch(
            "UPDATE session SET parent_id = 'ses_0', title = 'Ein „Titel“', cost = 0.25,
            summary_additions = 3, summary_files = 1, summary_diffs = '[]', tokens_input = 7,
            model = '{\"id\":\"m\",\"providerID\":\"v\"}', time_updated = 2000",
        )
        .unwrap();
    home.message(
        "ses_1",
        "msg_b",
        5,
        &json!({"role": "user", "time": {"created": 5}, "tools": {}}),
    );
    let answer = json!({"role": "assistant", "time": {"created": 6, "completed": 7}});
    home.message("ses_1", "msg_a", 6, &answer);
    home.part("ses_1", "msg_b", "prt_2", r#"{"type":"file","n":1.50}"#);
    home.part("ses_1", "msg_b", "prt_1", r#"{"type":"text","text":"a {\"b\": [1]}"}"#);
    let before = tree(&home.path);
    assert!(before.len() == 3, "the database, its log and the index of that");

    // An answer without parts is not part of the conversation.
    assert_eq!(turns(&home.adopt()), BTreeMap::from([("ses_1", Some(1))]));
    assert_eq!(home.source("ses_1"), EXPORT);
    assert!(tree(&home.path) == before);

    // The export itself adds nothing.
    let options = ImportOptions {
        format: None,
        session: "ses_1".into(),
        stamp: stamp(2),
        switch: false,
        adoption: None,
        branch: None,
    };
    let report = import(&home.sandbox.repo, EXPORT.as_bytes(), &options).unwrap();
    assert_eq!((report.turns, report.new_bytes), (0, 0));
}

#[test]
fn adopting_a_closed_database_creates_no_files_next_to_it() {
    let home = Home::new();
    home.session("ses_1");
    home.turn("ses_1", 1);
    let Home { sandbox, path, opencode } = home;
    opencode.close().unwrap();
    let before = tree(&path);
    assert_eq!(before.len(), 1, "the log is missing");
    let home = Home { sandbox, path, opencode: Connection::open_in_memory().unwrap() };
    assert_eq!(turns(&home.adopt()), BTreeMap::from([("ses_1", Some(2))]));
    assert!(tree(&home.path) == before);
}

#[test]
fn grown_sessions_add_new_turns_and_unfinished_answers_wait() {
    let home = Home::new();
    home.session("ses_1");
    home.session("ses_2");
    home.session("ses_empty");
    home.turn("ses_1", 1);
    home.message("ses_2", "msg_x", 1, &json!({"role": "user"}));
    assert_eq!(turns(&home.adopt()), BTreeMap::from([("ses_1", Some(2)), ("ses_2", Some(1))]));

    home.turn("ses_1", 2);
    home.message("ses_1", "msg_0006", 6, &json!({"role": "user", "time": {"created": 6}}));
    home.part("ses_1", "msg_0006", "prt_0006", &text("ask 3"));
    home.message("ses_1", "msg_0007", 7, &json!({"role": "assistant", "time": {"created": 7}}));
    home.part("ses_1", "msg_0007", "prt_0007", &text("te"));
    assert_eq!(turns(&home.adopt()), BTreeMap::from([("ses_1", Some(3)), ("ses_2", Some(0))]));

    home.opencode.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    home.turn("ses_1", 3);
    assert_eq!(turns(&home.adopt()), BTreeMap::from([("ses_1", Some(1)), ("ses_2", Some(0))]));
    let document: Value = serde_json::from_str(&home.source("ses_1")).unwrap();
    assert_eq!(document["messages"].as_array().unwrap().len(), 6);
    assert_eq!(document["messages"][5]["parts"][0]["text"], "tell 3");
    assert!(!home.has("ses_1/main-2"), "it only ever grew");
}

#[test]
fn migrated_opencode_files_and_their_database_are_one_session() {
    let home = Home::new();
    let put = |path: &str, value: &Value| home.put(path, value);
    put("session/p/ses_1", &json!({"id": "ses_1", "directory": "/p", "title": "Old"}));
    let user =
        json!({"id": "msg_0002", "role": "user", "sessionID": "ses_1", "time": {"created": 2}});
    put("message/ses_1/msg_0002", &user);
    let part = json!({"id": "prt_0002", "messageID": "msg_0002", "sessionID": "ses_1", "type": "text",
        "text": "ask 1"});
    put("part/msg_0002/prt_0002", &part);
    put("session/p/ses_files", &json!({"id": "ses_files", "title": "Never taken over"}));
    put("message/ses_files/msg_1", &json!({"id": "msg_1", "role": "user"}));
    let first = [("ses_1", Some(1)), ("ses_files", Some(1))];
    assert_eq!(turns(&home.adopt()), BTreeMap::from(first));

    home.session("ses_1");
    home.turn("ses_1", 1);
    // Like a migration writes it: the content of the file, in its order, without the ids.
    home.part("ses_1", "msg_0002", "prt_0002", r#"{"type":"text","text":"ask 1"}"#);
    let found = home.find();
    assert_eq!(found.sessions.len(), 2, "the files of ses_1 are history");
    let again = home.adopt_all(found);
    assert_eq!(turns(&again), BTreeMap::from([("ses_1", Some(1)), ("ses_files", Some(0))]));
    assert!(!home.has("ses_1/main-2"), "it continues after the files");

    // The files alone are a prefix of the known session.
    let place = SessionPlace { agent: String::new(), path: home.storage() };
    assert_eq!(turns(&home.adopt_all(find(&[place])))["ses_1"], Some(0));
    assert!(!home.has("ses_1/main-2"));
}

#[test]
fn messages_in_files_are_found_though_the_record_of_their_session_is_unchanged() {
    let home = Home::new();
    home.put("session/p/ses_1", &json!({"id": "ses_1", "directory": "/p", "title": "T"}));
    let message = |id: &str| {
        home.put(&format!("message/ses_1/{id}"), &json!({"id": id, "role": "user"}));
        home.put(&format!("part/{id}/prt_{id}"), &json!({"id": id, "type": "text", "text": id}));
    };
    message("msg_1");
    let is_unchanged = || matches!(home.adopt()[0].outcome, Outcome::Unchanged);
    assert!((0..100_000).any(|_| is_unchanged()), "it is read for ever");
    message("msg_2");
    assert_eq!(turns(&home.adopt()), BTreeMap::from([("ses_1", Some(1))]));
}

#[test]
fn unchanged_databases_are_skipped_and_log_rows_count_as_changes() {
    let home = Home::new();
    home.session("ses_1");
    home.turn("ses_1", 1);
    let is_unchanged = || matches!(home.adopt()[0].outcome, Outcome::Unchanged);
    // A recent file is reread until the clock of the file system has advanced.
    assert!((0..100_000).any(|_| is_unchanged()), "it is read for ever");
    let size = fs::metadata(home.database()).unwrap().len();
    home.turn("ses_1", 2);
    assert_eq!(fs::metadata(home.database()).unwrap().len(), size, "the row is in the log");
    assert_eq!(turns(&home.adopt()), BTreeMap::from([("ses_1", Some(2))]));
}

#[test]
fn named_databases_and_their_folders_are_adopted() {
    let home = Home::new();
    home.session("ses_1");
    home.turn("ses_1", 1);
    let named = home.path.join("elsewhere/deep");
    fs::create_dir_all(&named).unwrap();
    for (path, expected) in [
        (home.database(), vec!["ses_1"]),
        (home.path.join(DATA), vec!["ses_1"]),
        (home.path.clone(), vec!["ses_1"]),
        (named.clone(), vec![]),
    ] {
        let found = find(&[SessionPlace { agent: String::new(), path }]);
        let sessions: Vec<_> = found.sessions.iter().map(|it| it.session.as_str()).collect();
        assert_eq!(sessions, expected);
        assert!(found.odd.is_empty());
        assert!(found.sessions.iter().all(|it| it.agent == "opencode" && it.bytes > 0));
    }
    // A copy under another name, and the database of another release channel.
    home.opencode.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    for name in ["backup.sqlite", "opencode-dev.db"] {
        let path = named.join(name);
        fs::copy(home.database(), &path).unwrap();
        let found = find(&[SessionPlace { agent: String::new(), path }]);
        assert_eq!(turns(&home.adopt_all(found)).len(), 1);
    }
    let found = find(&[SessionPlace { agent: String::new(), path: named }]);
    assert_eq!(found.sessions.len(), 1, "a folder has those that are called so");
}

#[test]
fn invalid_opencode_databases_are_reported_and_others_adopted() {
    let cut = |home: &Home| {
        home.opencode.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        let bytes = fs::read(home.database()).unwrap();
        fs::write(home.database(), &bytes[..bytes.len() / 2]).unwrap();
    };
    let nothing = |_: &Home| {};
    let journal = |home: &Home| {
        let magic = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
        fs::write(home.path.join(DATA).join("opencode.db-journal"), magic).unwrap();
    };
    let text = |home: &Home| {
        fs::remove_file(home.path.join(DATA).join("opencode.db-wal")).unwrap();
        fs::write(home.database(), "no database, and longer than a header".repeat(9)).unwrap();
    };
    let cases: [(&str, Change<'_>, &str); 6] = [
        ("CREATE TABLE other(id);", &nothing, "expected the tables of opencode"),
        (
            "CREATE TABLE session(id); CREATE TABLE message(id, session_id, data);
            CREATE TABLE part(id, session_id, data);",
            &nothing,
            "the table part has no column message_id",
        ),
        ("CREATE VIRTUAL TABLE v USING fts5(a);", &nothing, "a virtual table"),
        (SCHEMA, &cut, "the database is cut off"),
        (SCHEMA, &journal, "in the middle of a change"),
        (SCHEMA, &text, "read the schema: it is damaged"),
    ];
    for (schema, change, expected) in cases {
        let home = Home::of_schema(schema);
        change(&home);
        let chat = home.path.join(".claude/projects/p/good.jsonl");
        fs::create_dir_all(chat.parent().unwrap()).unwrap();
        fs::write(chat, claude_code(2)).unwrap();
        let before = tree(&home.path);
        let found = home.find();
        assert_eq!(found.odd.len(), 1, "{expected}");
        let odd = found.odd[0].error.to_string();
        assert!(odd.contains(expected), "{odd} is not {expected}");
        assert_eq!(turns(&home.adopt_all(found)), BTreeMap::from([("good", Some(2))]));
        assert!(tree(&home.path) == before);
    }
}

#[test]
fn unreadable_rows_exclude_only_their_session() {
    let home = Home::new();
    for id in
        ["ses_good", "ses_large", "ses_text", "ses_deep", "ses_gone", "../../up", "ses_a", "ses_b"]
    {
        home.session(id);
        home.message(id, &format!("msg_{id}"), 1, &json!({"role": "user"}));
    }
    home.opencode
        .execute_batch(
            "UPDATE session SET parent_id = 'ses_b' WHERE id = 'ses_a';
            UPDATE session SET parent_id = 'ses_a' WHERE id = 'ses_b';
            UPDATE message SET data = x'00ff' WHERE session_id = 'ses_text';
            UPDATE message SET data = 'no' || data WHERE session_id = 'ses_gone';
            INSERT INTO part SELECT 'prt_l', 'msg_ses_large', 'ses_large', 1, 1,
                '{\"text\":\"' || hex(zeroblob(33600000)) || '\"}';
            INSERT INTO part VALUES ('prt_x', 'msg_of_nobody', 'ses_good', 1, 1, 'nothing');
            INSERT INTO part VALUES (NULL, 'msg_ses_good', 'ses_good', 1, 1, 'nothing');
            INSERT INTO session_message VALUES ('a', 'ses_new', 'user', '{}');",
        )
        .unwrap();
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    home.part("ses_deep", "msg_ses_deep", "prt_d", &deep);
    let found = home.find();
    assert_eq!(found.odd.len(), 1);
    let odd = found.odd[0].error.to_string();
    assert_eq!(odd, "only the table session_message has 1 of the sessions: it is not read");
    let adopted = home.adopt_all(found);
    let good = [("ses_good", Some(1)), ("up", Some(1)), ("ses_a", Some(1)), ("ses_b", Some(1))];
    let bad = [("ses_large", None), ("ses_text", None), ("ses_deep", None), ("ses_gone", None)];
    assert_eq!(turns(&adopted), good.into_iter().chain(bad).collect());
    assert_eq!(failure(&adopted, "ses_large").kind(), ErrorKind::LimitExceeded);
    assert_eq!(failure(&adopted, "ses_deep").kind(), ErrorKind::LimitExceeded);
    let error = failure(&adopted, "ses_gone").to_string();
    assert!(error.contains("message 1: expected JSON"), "{error}");
    assert!(!home.has("ses_gone") && !home.has("ses_large"), "an error leaves no trace");
}

#[test]
fn sessions_of_a_million_rows_are_rejected_before_buffering() {
    let home = Home::new();
    home.session("ses_1");
    home.session("ses_good");
    home.turn("ses_good", 1);
    home.message("ses_1", "msg_1", 1, &json!({"role": "user"}));
    home.opencode
        .execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)
            INSERT INTO part SELECT 'prt_' || i, 'msg_1', 'ses_1', 1, 1, '{}' FROM n;",
        )
        .unwrap();
    let adopted = home.adopt();
    assert_eq!(turns(&adopted), BTreeMap::from([("ses_1", None), ("ses_good", Some(2))]));
    assert_eq!(failure(&adopted, "ses_1").kind(), ErrorKind::LimitExceeded);
}

#[test]
fn flipped_database_bytes_are_rejected_or_read_without_outside_writes() {
    let home = Home::new();
    for session in 0..5 {
        home.session(&format!("ses_{session}"));
        home.message(
            &format!("ses_{session}"),
            &format!("m{session}"),
            1,
            &json!({"role": "user"}),
        );
        home.part(&format!("ses_{session}"), &format!("m{session}"), "p", &text(&"x".repeat(9000)));
    }
    home.opencode.execute_batch("PRAGMA wal_checkpoint(PASSIVE)").unwrap();
    home.turn("ses_0", 9);
    let [bytes, log] =
        ["", "-wal"].map(|end| fs::read(format!("{}{end}", home.database().display())).unwrap());
    let folder = home.path.join("damaged");
    fs::create_dir_all(&folder).unwrap();
    let (mut random, mut read, mut refused) = (Random(7), 0, 0);
    for _ in 0..60 {
        let (mut bytes, mut log) = (bytes.clone(), log.clone());
        for _ in 0..=random.below(12) {
            let at = 16 + random.below(bytes.len() - 16);
            bytes[at] = u8::try_from(random.below(256)).unwrap();
        }
        let at = random.below(log.len());
        log[at] ^= 0x20;
        fs::write(folder.join("opencode.db"), &bytes).unwrap();
        fs::write(folder.join("opencode.db-wal"), &log).unwrap();
        let before = tree(&folder);
        let found = find(&[SessionPlace { agent: String::new(), path: folder.clone() }]);
        refused += found.odd.len();
        for it in home.adopt_all(found) {
            match it.outcome {
                Outcome::Failed(_) => refused += 1,
                _ => read += 1,
            }
        }
        assert!(tree(&folder) == before);
    }
    assert!(read > 10 && refused > 10, "{read} read, {refused} refused");
}

#[test]
fn adoption_during_writes_and_checkpoints_reads_consistent_sessions() {
    let home = Home::new();
    home.session("ses_1");
    home.turn("ses_1", 0);
    let path = home.database();
    let adopted = || {
        let found = home.find();
        let refused: Vec<_> = found.odd.iter().map(|odd| odd.error.kind()).collect();
        for it in home.adopt_all(found) {
            if let Outcome::Failed(error) = it.outcome {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            }
        }
        assert!(refused.iter().all(|kind| *kind == ErrorKind::Conflict), "{refused:?}");
    };
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            let opencode = Connection::open(path).unwrap();
            for number in 1..200 {
                let long = text(&"long ".repeat(number % 7 * 900));
                let role = json!({"role": "user", "n": number});
                let rows = format!(
                    "BEGIN; INSERT INTO message VALUES ('msg_w{number:04}', 'ses_1', {}, 1, '{role}');
                    INSERT INTO part VALUES ('prt_w{number:04}', 'msg_w{number:04}', 'ses_1', 1, 1, '{long}');
                    COMMIT;",
                    number + 10,
                );
                opencode.execute_batch(&rows).unwrap();
                let kind = ["PASSIVE", "RESTART", "TRUNCATE"][number % 3];
                opencode.execute_batch(&format!("PRAGMA wal_checkpoint({kind})")).unwrap();
            }
        });
        while !writer.is_finished() {
            adopted();
        }
        writer.join().unwrap();
    });
    adopted();
    let document: Value = serde_json::from_str(&home.source("ses_1")).unwrap();
    let numbers = document["messages"].as_array().unwrap().iter().skip(2);
    let numbers: Vec<_> = numbers.map(|message| message["info"]["n"].as_i64().unwrap()).collect();
    assert_eq!(numbers, (1..200).collect::<Vec<_>>());
    assert!(!home.has("ses_1/main-2"), "half a checkpoint would look like a rewrite");
}
