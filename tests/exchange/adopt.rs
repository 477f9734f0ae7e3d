//! Adoption of all sessions of a machine: found where agents keep them, and imported repeatedly.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use turntree::ErrorKind;
use turntree::maintenance::fsck;
use turntree::repo::{BranchName, Repository};
use turntree::store::Thoroughness;
use turntree::workspace::{AdoptionCache, read_note};
use turntree_exchange::agents::{
    AdoptOptions, Adopted, Outcome, SessionPlace, adopt, batches, find, import_growing, places,
};
use turntree_exchange::{ImportOptions, ImportReport, followed_bytes};
use turntree_tests::{
    Sandbox, claude_code, claude_code_of_noise, claude_code_turn, recorded_sessions, stamp,
};

/// A home with sessions of some agents.
struct Home {
    sandbox: Sandbox,
    path: PathBuf,
}

impl Home {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let path = sandbox.folder().join("home");
        Self { sandbox, path }
    }

    fn write(&self, path: &str, content: &[u8]) -> PathBuf {
        let path = self.path.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn adopt(&self) -> Vec<Adopted> {
        self.adopt_into(&self.sandbox.repo)
    }

    fn adopt_into(&self, repo: &Repository) -> Vec<Adopted> {
        let home = self.path.clone().into_os_string();
        let found = find(&places(&|name| (name == "HOME").then(|| home.clone())));
        assert!(found.odd.is_empty());
        let all: u64 = found.sessions.iter().map(|it| it.bytes).sum();
        let passed = AtomicU64::new(0);
        let count = |bytes| {
            passed.fetch_add(bytes, Ordering::Relaxed);
        };
        let options = AdoptOptions {
            stamp: stamp(1),
            adoption: Arc::default(),
            is_live: false,
            head: None,
            passed: &count,
        };
        let mut seen = AdoptionCache::open(repo);
        let adopted = adopt(repo, found.sessions, &options, &mut seen).unwrap();
        seen.save().unwrap();
        let failed = adopted.iter().any(|it| matches!(it.outcome, Outcome::Failed(_)));
        assert!(failed || passed.into_inner() >= all, "every byte is counted");
        adopted
    }

    fn text(&self, session: &str) -> String {
        let head = self.sandbox.repo.resolve(session).unwrap().commit;
        String::from_utf8(self.sandbox.source(&head)).unwrap()
    }
}

/// Sessions with the number of new turns. `None` for a failure.
fn turns(adopted: &[Adopted]) -> BTreeMap<&str, Option<u64>> {
    let turns = |outcome: &Outcome| match outcome {
        Outcome::Imported(report) => Some(report.turns),
        Outcome::Unchanged => Some(0),
        Outcome::Failed(_) => None,
    };
    adopted.iter().map(|it| (it.found.session.as_str(), turns(&it.outcome))).collect()
}

/// Every file below `folder`, with its content and times.
fn tree(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
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

const PROJECT: &str = ".claude/projects/-home-user-p";

#[test]
fn adopt_imports_only_new_turns_and_writes_only_to_the_store() {
    let home = Home::new();
    home.write(&format!("{PROJECT}/a.jsonl"), claude_code(9).as_bytes());
    home.write(&format!("{PROJECT}/b.jsonl"), claude_code(4).replace("part", "piece").as_bytes());
    home.write(&format!("{PROJECT}/a/subagents/agent-x.jsonl"), claude_code(2).as_bytes());
    home.write(&format!("{PROJECT}/notes.json"), b"{\"no\": \"session\"}");
    home.write(".claude/projects/.git/c.jsonl", claude_code(3).as_bytes());
    let before = tree(&home.path);

    let first = home.adopt();
    let expected = [("a", Some(9)), ("a-agent-x", Some(2)), ("b", Some(4))];
    assert_eq!(turns(&first), BTreeMap::from(expected));
    assert_eq!(tree(&home.path), before);
    assert!(home.sandbox.repo.head().unwrap().commit.is_some(), "HEAD is where there is something");

    let longer = claude_code(9) + &claude_code_turn(9).join("\n") + "\n";
    home.write(&format!("{PROJECT}/a.jsonl"), longer.as_bytes());
    let again = home.adopt();
    assert_eq!(
        turns(&again),
        BTreeMap::from([("a", Some(1)), ("a-agent-x", Some(0)), ("b", Some(0))])
    );
    assert_eq!(home.text("a"), longer);
}

#[test]
fn a_large_file_that_grows_ends_with_the_commits_of_one_import() {
    let text = claude_code_of_noise(60, 2000);
    let lines: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let ends = lines.len() - 9..lines.len();
    assert!(lines[ends.start] > 1 << 20, "the file is large: {}", text.len());
    let home = Home::new();
    let repo = &home.sandbox.repo;
    let file = format!("{PROJECT}/a.jsonl");
    let offset = |repo: &Repository| {
        followed_bytes(&read_note(repo, "a")?).map(|bytes| usize::try_from(bytes).unwrap())
    };
    for end in ends {
        home.write(&file, &text.as_bytes()[..lines[end]]);
        home.adopt();
        assert_eq!(offset(repo), Some(lines[end]));
    }
    let other = Sandbox::new();
    let whole = other.import("a", text.as_bytes()).unwrap();
    assert_eq!(repo.resolve("a").unwrap().commit, whole.head);
    assert_eq!(repo.branches().len(), 1);

    // A torn last line is taken as any import takes it, and completed by the next one.
    let home = Home::new();
    home.write(&file, &text.as_bytes()[..text.len() - 20]);
    home.adopt();
    assert_eq!(home.text("a").len(), text.len() - 20);
    home.write(&file, text.as_bytes());
    home.adopt();
    assert_eq!(home.text("a"), text);

    // One undo takes back a file that was followed, too.
    let home = Home::new();
    home.write(&file, text.as_bytes());
    home.write(&format!("{PROJECT}/b.jsonl"), claude_code(3).replace("part", "b").as_bytes());
    home.adopt();
    let repo = &home.sandbox.repo;
    let plan = repo.plan_undo(repo.undoable(None).unwrap().unwrap()).unwrap();
    repo.undo(&plan, &stamp(5), "undo").unwrap();
    assert!(repo.branches().is_empty());
    // The notes name a deleted branch.
    home.adopt();
    assert_eq!(home.text("a"), text);
}

#[test]
fn a_large_file_is_reported_like_any_import() {
    let noise = claude_code_of_noise(60, 2000);
    let last = noise.lines().nth(30).unwrap();
    let parent = serde_json::from_str::<Value>(last).unwrap()["uuid"].clone();
    let back = json!({"type": "user", "uuid": "back", "parentUuid": parent, "sessionId": "a",
        "timestamp": "2026-11-21T10:00:00.000Z", "message": {"role": "user", "content": "No."}});
    let odd = json!({"type": "of-tomorrow", "uuid": "odd", "sessionId": "a"});
    let mut texts = vec![format!("{noise}{odd}\nno json\n{back}\n").into_bytes()];
    let recorded = recorded_sessions()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    texts.extend(recorded.map(|path| fs::read(path).unwrap()));
    let (mut large, mut rewound) = (0, 0);
    for text in texts.iter().filter(|text| text.ends_with(b"\n")) {
        let (grown, whole) = (Sandbox::new(), Sandbox::new());
        let path = grown.folder().join("a.jsonl");
        fs::write(&path, text).unwrap();
        let options = ImportOptions {
            format: None,
            session: "a".to_owned(),
            stamp: stamp(1),
            switch: false,
            adoption: None,
            branch: None,
        };
        let found = import_growing(&grown.repo, &path, &options, None, &|_| {}).unwrap();
        let Some(found) = found else { continue };
        let expected = whole.import("a", text).unwrap();
        rewound += expected.others.len();
        assert_eq!(found, ImportReport { new_bytes: found.new_bytes, ..expected });
        let reason =
            |sandbox: &Sandbox| sandbox.repo.operations().next().unwrap().unwrap().operation.reason;
        assert_eq!(reason(&grown), reason(&whole));
        large += 1;
    }
    assert!(large > 0 && rewound > 0, "{large} large files, {rewound} branches of rewound turns");
}

#[test]
fn a_large_file_without_text_is_refused_like_a_small_one() {
    let record = |number: usize| {
        let noise = "0".repeat(2000);
        json!({"type": "user", "uuid": format!("u{number}"), "sessionId": "a",
            "message": {"role": "user", "content": [{"type": "other", "data": noise}]}})
    };
    let outcome = |records: usize| {
        let home = Home::new();
        let text: String = (0..records).map(|number| format!("{}\n", record(number))).collect();
        home.write(&format!("{PROJECT}/a.jsonl"), text.as_bytes());
        let Outcome::Failed(error) = home.adopt().remove(0).outcome else { panic!("refused") };
        assert!(home.sandbox.repo.branches().is_empty());
        error.to_string()
    };
    for records in [20, 2000] {
        let error = outcome(records);
        assert!(
            error.contains(&format!("{records} of {records} messages have no text")),
            "{error}"
        );
    }
}

#[test]
fn adopt_skips_unchanged_files_unless_their_branch_was_deleted() {
    // A file of the repository with an old timestamp, which a new file cannot have.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/swarmsdk/event-log.jsonl");
    let place = SessionPlace { agent: String::new(), path };
    let sandbox = Sandbox::new();
    let adopt_again = || {
        let options = AdoptOptions {
            stamp: stamp(1),
            adoption: Arc::default(),
            is_live: false,
            head: None,
            passed: &|_| {},
        };
        let mut seen = AdoptionCache::open(&sandbox.repo);
        let sessions = find(std::slice::from_ref(&place)).sessions;
        let adopted = adopt(&sandbox.repo, sessions, &options, &mut seen).unwrap().remove(0);
        seen.save().unwrap();
        adopted.outcome
    };
    let Outcome::Imported(report) = adopt_again() else { panic!("it is new") };
    assert!(matches!(adopt_again(), Outcome::Unchanged));
    let mut transaction = sandbox.repo.begin();
    transaction.delete_branch(&report.branch);
    transaction.commit(&stamp(2), "delete it").unwrap();
    let Outcome::Imported(again) = adopt_again() else { panic!("its branch is missing") };
    assert_eq!((again.turns, again.head), (report.turns, report.head));
    // An undo may leave the branch at an older turn.
    let repo = &sandbox.repo;
    let parent = repo.commit(&again.head).unwrap().parents[0];
    let mut transaction = repo.begin();
    transaction.move_branch(&again.branch, Some(parent));
    transaction.commit(&stamp(3), "go back").unwrap();
    let Outcome::Imported(back) = adopt_again() else { panic!("its turn is missing") };
    assert_eq!((back.turns, back.head), (1, report.head));
}

#[test]
fn one_undo_reverts_an_adoption_and_redo_restores_it() {
    let home = Home::new();
    let repo = &home.sandbox.repo;
    let write = |name: &str, turns: usize| {
        let text = claude_code(turns).replace("parser", name);
        home.write(&format!("{PROJECT}/{name}.jsonl"), text.as_bytes());
    };
    let undo = |time: i64| {
        let plan = repo.plan_undo(repo.undoable(None).unwrap().unwrap()).unwrap();
        repo.undo(&plan, &stamp(time), "undo").unwrap();
    };
    for name in ["a", "b", "c"] {
        write(name, 9);
    }
    home.adopt();
    let first = repo.branches();
    assert_eq!(first.len(), 3);
    // The second adoption continues two sessions and adds a third.
    for (name, turns) in [("a", 12), ("b", 12), ("d", 9)] {
        write(name, turns);
    }
    home.adopt();
    let second = repo.branches();
    assert_eq!((second.len(), repo.operations().count()), (4, 6));

    undo(2);
    assert_eq!(repo.branches(), first);
    undo(3);
    assert_eq!(repo.branches(), []);
    assert!(repo.undoable(None).unwrap().is_none());
    assert_eq!(repo.undone_operations().unwrap().len(), 6);
    for (time, expected) in [(4, &first), (5, &second)] {
        let plan = repo.plan_undo(repo.redoable(None).unwrap().unwrap()).unwrap();
        repo.undo(&plan, &stamp(time), "redo").unwrap();
        assert_eq!(&repo.branches(), expected);
    }
    undo(6);
    assert_eq!(repo.branches(), first);
    assert_eq!(turns(&home.adopt())["d"], Some(9), "an undone import is new");
}

#[test]
fn undo_rejects_an_adoption_after_a_session_of_it_continued() {
    let home = Home::new();
    let repo = &home.sandbox.repo;
    for name in ["a", "b"] {
        home.write(
            &format!("{PROJECT}/{name}.jsonl"),
            claude_code(9).replace("parser", name).as_bytes(),
        );
    }
    home.adopt();
    let b = BranchName::main("b").unwrap();
    let parent = repo.commit(&repo.tip(&b).unwrap()).unwrap().parents[0];
    let mut transaction = repo.begin();
    transaction.move_branch(&b, Some(parent));
    transaction.commit(&stamp(2), "go back").unwrap();
    let newest = repo.operations().nth(1).unwrap().unwrap();
    let error = repo.plan_undo(newest).unwrap_err();
    assert!(
        error.to_string().starts_with("refs/heads/b/main was changed by operation 3"),
        "{error}"
    );
}

#[test]
fn undo_of_an_adoption_keeps_concurrent_turns() {
    let home = Home::new();
    let repo = &home.sandbox.repo;
    let text = |name: &str, turns: usize| claude_code(turns).replace("parser", name);
    for name in ["a", "b", "c"] {
        home.write(&format!("{PROJECT}/{name}.jsonl"), text(name, 5).as_bytes());
    }
    home.adopt();
    // A client continues between the plan of an undo and the undo.
    let plan = repo.plan_undo(repo.undoable(None).unwrap().unwrap()).unwrap();
    home.sandbox.import("b", text("b", 7).as_bytes()).unwrap();
    let before = repo.branches();
    assert_eq!(repo.undo(&plan, &stamp(2), "undo").unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(repo.branches(), before, "all of it or nothing");

    // The same at any moment: turns acknowledged after the undo exist, and turns before it block
    // the undo of the adoption.
    for round in 0..6 {
        let home = Home::new();
        for name in ["a", "b", "c"] {
            home.write(&format!("{PROJECT}/{name}.jsonl"), text(name, 5).as_bytes());
        }
        home.adopt();
        let others = home.sandbox.reopened();
        let longer = text("b", 6 + round);
        let (undone, landed) = std::thread::scope(|scope| {
            let undo = scope.spawn(|| {
                let plan = others.plan_undo(others.undoable(None)?.unwrap())?;
                others.undo(&plan, &stamp(2), "undo").map(|done| done.sequence)
            });
            let landed = home.sandbox.import("b", longer.as_bytes());
            (undo.join().unwrap(), landed)
        });
        let repo = home.sandbox.reopened();
        if landed.is_ok() {
            let tip = repo.tip(&BranchName::main("b").unwrap()).unwrap();
            assert_eq!(String::from_utf8(home.sandbox.source(&tip)).unwrap(), longer);
        }
        assert!(undone.is_ok() || landed.is_ok(), "one of them wins");
        let left = if undone.is_ok() { usize::from(landed.is_ok()) } else { 3 };
        assert_eq!(repo.branches().len(), left);
        let report = fsck(&repo, Thoroughness::Full, stamp(3).time, &mut |_, _| {}).unwrap();
        assert_eq!(report.findings, []);
    }
}

#[test]
fn unreadable_sessions_do_not_stop_the_adoption_of_others() {
    let home = Home::new();
    home.write(&format!("{PROJECT}/good.jsonl"), claude_code(3).as_bytes());
    let sessions = ".local/share/opencode/storage";
    home.write(&format!("{sessions}/session/p/ses_1.json"), br#"{"id": "ses_1"}"#);
    home.write(&format!("{sessions}/message/ses_1/msg_1.json"), b"{\"role\": ");
    let adopted = home.adopt();
    assert_eq!(turns(&adopted), BTreeMap::from([("good", Some(3)), ("ses_1", None)]));
    let failed = adopted.iter().find(|it| it.found.session == "ses_1").unwrap();
    let Outcome::Failed(error) = &failed.outcome else { panic!("it was imported") };
    assert!(error.to_string().contains("msg_1.json: expected JSON"), "{error}");
}

#[test]
fn opencode_files_are_adopted_as_the_session_export() {
    let home = Home::new();
    let storage = ".local/share/opencode/storage";
    let put = |path: &str, value: &Value| {
        home.write(&format!("{storage}/{path}.json"), value.to_string().as_bytes());
    };
    let text = |text: &str| json!({"type": "text", "text": text});
    put("project/p", &json!({"id": "p"}));
    put("session/p/ses_1", &json!({"id": "ses_1", "directory": "/p", "title": "T"}));
    put("message/ses_1/msg_1", &json!({"id": "msg_1", "role": "user"}));
    put("part/msg_1/prt_1", &text("hello"));
    let answer = |time| json!({"id": "msg_2", "role": "assistant", "time": time});
    put("message/ses_1/msg_2", &answer(json!({"created": 1})));
    put("part/msg_2/prt_2", &text("he"));
    assert_eq!(turns(&home.adopt()), BTreeMap::from([("ses_1", Some(1))]), "it is still written");

    put("message/ses_1/msg_2", &answer(json!({"created": 1, "completed": 2})));
    put("part/msg_2/prt_2", &text("here"));
    put("part/msg_2/prt_3", &json!({"type": "tool", "callID": "c", "tool": "bash", "state": {}}));
    let again = home.adopt();
    let Outcome::Imported(report) = &again[0].outcome else { panic!("it was not imported") };
    assert_eq!((report.turns, report.branch.branch()), (1, "main"));
    let document: Value = serde_json::from_str(&home.text("ses_1")).unwrap();
    assert_eq!(document["info"]["title"], "T");
    assert_eq!(document["messages"][1]["parts"][0]["text"], "here");
    assert_eq!(document["messages"][1]["parts"].as_array().unwrap().len(), 2);
}

#[test]
fn rewritten_gemini_messages_are_imported_once() {
    let home = Home::new();
    let prompt = json!({"id": "1", "type": "user", "content": "go"});
    let answer = |status: &str| {
        json!({"id": "2", "type": "gemini", "content": status, "toolCalls": [
            {"id": "c", "name": "shell", "status": status, "args": {}}]})
    };
    let lines = [
        json!({"sessionId": "s", "projectHash": "h", "startTime": "t", "lastUpdated": "t"}),
        prompt,
        answer("executing"),
        answer("success"),
        json!({"id": "3", "type": "user", "content": "no, not so"}),
        json!({"$rewindTo": "3"}),
    ];
    let path = ".gemini/tmp/project/chats/session-1.jsonl";
    for end in 1..=lines.len() {
        let text: String = lines[..end].iter().map(|line| format!("{line}\n")).collect();
        home.write(path, text.as_bytes());
        home.adopt();
        let head = home.sandbox.repo.resolve("session-1").unwrap().commit;
        let said = home.sandbox.messages(&head);
        let expected: Vec<usize> = match end {
            1 => vec![],
            2 => vec![1],
            3 => vec![1, 2],
            5 => vec![1, 3, 4],
            _ => vec![1, 3],
        };
        let expected: Vec<_> = expected.iter().map(|at| lines[*at].to_string()).collect();
        assert_eq!(said, expected, "after {end} lines");
        assert_eq!(home.text("session-1"), text);
    }
    assert!(home.sandbox.repo.resolve("session-1/main-2").is_err(), "it only ever grew");
}

#[test]
fn cline_sessions_use_folder_names_and_workspace_paths() {
    let home = Home::new();
    let edit = json!({"type": "tool_use", "id": "1", "name": "editor",
        "input": {"path": "/p/src/a", "new_text": "A"}});
    let edited =
        json!({"type": "tool_result", "tool_use_id": "1", "content": "{\"success\":true}"});
    let ran = json!({"type": "tool_result", "tool_use_id": "2",
        "content": [{"query": "ls", "result": "needle\n", "success": true}]});
    let said = |role: &str, block: &Value| json!({"role": role, "content": [block]});
    let write = |at: &str, name: &str, messages: &[Value]| {
        let document = json!({"version": 1, "updated_at": at, "sessionId": "17_a",
            "messages": messages});
        let path = format!(".cline/data/sessions/17_a/{name}.messages.json");
        home.write(&path, document.to_string().as_bytes());
        document.to_string()
    };
    home.write(".cline/data/sessions/17_a/17_a.json", br#"{"session_id": "17_a", "cwd": "/p"}"#);
    let messages = [said("assistant", &edit), said("user", &edited), said("user", &ran)];
    write("one", "17_a", &messages[..2]);
    write("one", "agent_b", &messages[..2]);
    home.adopt();
    let whole = write("two", "17_a", &messages);
    home.adopt();
    // The time at the start of the file has changed. Each session still has one main branch.
    assert_eq!(home.text("17_a"), whole);
    let repo = &home.sandbox.repo;
    let branches: Vec<_> = repo.refs().values.keys().map(ToString::to_string).collect();
    let mains = branches.iter().filter(|name| name.contains("/main")).count();
    assert_eq!(mains, 2, "{branches:?}");
    for session in ["17_a", "17_a-agent_b"] {
        let head = repo.resolve(session).unwrap().commit;
        let files = repo.context(&head).unwrap().map(repo, "files").unwrap();
        assert!(files.get(repo, b"src/a").unwrap().is_some(), "{session}");
    }
}

#[test]
fn fork_origins_are_adopted_before_their_forks() {
    let line = |id: &str, session: &str, kind: &str| {
        let message = json!({"role": kind, "id": format!("m-{id}"), "content": id});
        json!({"type": kind, "uuid": id, "sessionId": session, "requestSessionId": "base",
            "message": message})
    };
    let text = |session: &str, ids: &[&str]| -> String {
        let kinds = ["user", "assistant"].into_iter().cycle();
        ids.iter().zip(kinds).map(|(id, kind)| format!("{}\n", line(id, session, kind))).collect()
    };
    let home = Home::new();
    home.write(&format!("{PROJECT}/base.jsonl"), text("base", &["1", "2", "3", "4"]).as_bytes());
    // The fork is longer and newer, and its name sorts first.
    home.write(
        &format!("{PROJECT}/a.jsonl"),
        text("a", &["1", "2", "5", "6", "7", "8"]).as_bytes(),
    );
    let found = || find(&[SessionPlace { agent: String::new(), path: home.path.join(PROJECT) }]);
    // Also in batches of one session each, although the fork is newer.
    let parts = batches(found().sessions, 1, |_| false);
    let parts: Vec<_> = parts.iter().map(|part| part[0].session.as_str()).collect();
    assert_eq!(parts, ["base", "a"]);
    assert_eq!(batches(found().sessions, 1, |_| true).len(), 1, "known sessions add nothing");
    assert_eq!(batches(found().sessions, 1 << 20, |_| false).len(), 1);

    home.adopt();
    let commit = |revision| home.sandbox.repo.resolve(revision).unwrap().commit;
    assert_eq!(commit("a~4"), commit("base~2"));
    assert_eq!(home.text("a"), text("a", &["1", "2", "5", "6", "7", "8"]));
}

#[test]
fn concurrent_adoptions_import_each_session_once() {
    let home = Home::new();
    for session in 0..6 {
        let text = claude_code(8).replace("part", &format!("part {session}"));
        home.write(&format!("{PROJECT}/s{session}.jsonl"), text.as_bytes());
    }
    let others = [home.sandbox.reopened(), home.sandbox.reopened()];
    std::thread::scope(|scope| {
        for repo in others.iter().chain([&home.sandbox.repo]) {
            let home = &home;
            scope.spawn(move || {
                let adopted = home.adopt_into(repo);
                assert!(!turns(&adopted).values().any(Option::is_none));
            });
        }
    });
    let repo = home.sandbox.reopened();
    for session in 0..6 {
        let head = repo.resolve(&format!("s{session}")).unwrap().commit;
        assert_eq!(repo.commit(&head).unwrap().turn, 8);
        assert!(repo.resolve(&format!("s{session}/main-2")).is_err());
    }
}

#[test]
fn adopt_follows_no_links_and_rejects_named_files_that_are_not_sessions() {
    let home = Home::new();
    let outside = home.write("outside/a.jsonl", claude_code(2).as_bytes());
    fs::create_dir_all(home.path.join(PROJECT)).unwrap();
    std::os::unix::fs::symlink(&outside, home.path.join(PROJECT).join("b.jsonl")).unwrap();
    std::os::unix::fs::symlink(home.path.join("outside"), home.path.join(PROJECT).join("c"))
        .unwrap();
    assert!(home.adopt().is_empty());

    let notes = home.write("notes.json", b"{}");
    let place = SessionPlace { agent: String::new(), path: notes };
    let found = find(&[place]);
    assert!(found.odd[0].error.to_string().starts_with("unknown format"));
}
