//! Servers that keep a store open while commands and other servers use it: each answer equals that
//! of a newly opened store.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use turntree_tests::server_process::{Place, Server};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

const SERVE: &[&str] = &["serve", "--stdio"];

/// Part of a turn, and redacted later.
const SECRET: &str = "swordfish-1";

/// Two long-running servers, and their clients.
struct Kept<'p> {
    place: &'p Place,
    serve: Server,
    mcp: Server,
}

impl<'p> Kept<'p> {
    fn of(place: &'p Place) -> Self {
        let (serve, mcp) = (place.server(SERVE), place.mcp(&[]));
        let mut kept = Self { place, serve, mcp };
        kept.expect_fresh("at the beginning");
        kept
    }

    /// Fails unless both answer like newly started servers.
    fn expect_fresh(&mut self, when: &str) {
        for (kept, fresh) in [
            (answers(&mut self.serve, false), answers(&mut self.place.server(SERVE), false)),
            (answers(&mut self.mcp, true), answers(&mut self.place.mcp(&[]), true)),
        ] {
            for ((kept, fresh), (call, _)) in kept.iter().zip(&fresh).zip(calls()) {
                assert_eq!(kept, fresh, "{call} {when}");
            }
        }
    }

    /// All answers of both, as text.
    fn said(&mut self) -> String {
        let said = [answers(&mut self.serve, false), answers(&mut self.mcp, true)];
        said.iter().flatten().map(|answer| format!("{answer:?}\n")).collect()
    }
}

/// Calls that only read.
fn calls() -> [(&'static str, Value); 8] {
    [
        ("status", json!({})),
        ("sessions", json!({})),
        ("log", json!({"limit": 50})),
        ("outline", json!({})),
        ("show", json!({"revision": "HEAD:scratchpad/note"})),
        ("show", json!({"revision": "HEAD:agents/main/messages"})),
        ("diff", json!({"old": "HEAD~1", "text": true})),
        ("search", json!({"pattern": "message|note|swordfish", "all": true})),
    ]
}

fn answers(server: &mut Server, is_mcp: bool) -> Vec<Result<Value, Value>> {
    let ask = |(name, params): (&str, Value)| match is_mcp {
        true => server.tool(name, &params),
        false => server.call(name, &params),
    };
    calls().into_iter().map(ask).collect()
}

fn with_turns(turns: usize) -> Place {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(turns);
    place
}

/// Files in a folder of the store.
fn files(place: &Place, folder: &str) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(place.path().join("store").join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn an_answer_has_what_commands_other_servers_and_collections_did() {
    let place = with_turns(5);
    let mut kept = Kept::of(&place);
    for words in [
        &["snapshot", "-m", "one more", "--set", "scratchpad/note=new"][..],
        &["repack"],
        &["snapshot", "-m", "and another", "--append-message", "user=message 6"],
        &["gc"],
        &["fork", "plan-c", "HEAD~2", "--switch"],
        &["snapshot", "-m", "on c", "--set", "scratchpad/note=c"],
        &["repack", "--archive"],
        &["switch", "main"],
        &["undo"],
        &["redo"],
        &["branch", "--delete", "plan-c"],
        &["retention", "set", "--keep-last", "2", "work"],
        &["gc"],
        &["session", "rename", "work", "other"],
        &["fsck"],
    ] {
        let _ = place.run(words);
        kept.expect_fresh(&format!("after {words:?}"));
    }
    // Each server sees the changes of the other.
    let params = json!({"message": "by one", "set": {"scratchpad/note": "by one"}});
    kept.serve.call("snapshot", &params).unwrap();
    kept.expect_fresh("after a snapshot of one");
    kept.mcp.tool("branch", &json!({"action": "fork", "name": "plan-d"})).unwrap();
    kept.mcp.tool("branch", &json!({"action": "switch", "name": "plan-d"})).unwrap();
    kept.expect_fresh("after a switch of the other");
    assert_eq!(kept.serve.call("status", &json!({})).unwrap()["branch"], "plan-d");
}

#[test]
fn changes_of_a_server_build_on_what_commands_did_in_between() {
    let place = with_turns(5);
    let mut kept = Kept::of(&place);
    let key = "AKIAZ7QW2NXK5PLMT3RV";
    for (number, words) in [
        &["snapshot", "-m", "by a command", "--set", "scratchpad/note=by a command"][..],
        &["repack"],
        &["gc"],
        &["fork", "plan-c", "HEAD~1", "--switch"],
        &["switch", "main"],
        &["undo"],
        &["secrets", "mode", "mask"],
    ]
    .into_iter()
    .enumerate()
    {
        let _ = place.run(words);
        let note = format!("turn {number}, with {key}");
        let params = json!({"message": "by a server", "set": {"scratchpad/note": note}});
        kept.serve.call("snapshot", &params).unwrap();
        kept.expect_fresh(&format!("after {words:?} and a change of the server"));
        let log = place.run(&["log", "--oneline", "-n", "1"]);
        assert!(log.contains("by a server"), "after {words:?}: {log}");
    }
    // The server masks as a command told the store to, and delays no collection of its segment.
    let note = place.run(&["cat", "HEAD:scratchpad/note"]);
    assert!(note.starts_with("turn 6") && !note.contains(key), "{note}");
    let _ = place.run(&["repack"]);
    assert_eq!(files(&place, "journal").len(), 0);
    let params = json!({"message": "after it", "set": {"scratchpad/note": "after it"}});
    kept.serve.call("snapshot", &params).unwrap();
    kept.expect_fresh("after a collection took the segment of the server");
    let _ = place.run(&["fsck"]);
}

#[test]
fn what_was_redacted_is_never_answered_again() {
    let place = with_turns(3);
    for (packs, secret) in [(false, SECRET), (true, "swordfish-2")] {
        let note = format!("scratchpad/note={secret}");
        let said = format!("user=message with {secret}");
        let words = ["snapshot", "-m", "told", "--set", &note, "--append-message", &said];
        let _ = place.run(&words);
        if packs {
            let _ = place.run(&["repack"]);
        }
        let mut kept = Kept::of(&place);
        assert!(kept.said().contains(secret));
        let _ = place.run(&["redact", secret, "--yes"]);
        let said = kept.said();
        assert!(!said.contains(secret), "{said}");
        kept.expect_fresh("after a redaction");
    }
}

#[test]
fn a_store_that_is_moved_deleted_or_made_again_is_the_one_that_is_there() {
    let place = with_turns(3);
    let mut kept = Kept::of(&place);
    let (store, away) = (place.path().join("store"), place.path().join("away"));
    fs::rename(&store, &away).unwrap();
    let error = kept.serve.call("status", &json!({})).unwrap_err();
    assert_eq!(error["data"]["error"], "not-found", "{error}");
    kept.expect_fresh("while it is away");
    fs::rename(&away, &store).unwrap();
    kept.expect_fresh("when it is back");

    // A different store under its name, with as many turns.
    fs::rename(&store, &away).unwrap();
    let _ = place.with_turns(3);
    kept.expect_fresh("with a different store in its place");
    // A copy of the first store from before a turn.
    fs::remove_dir_all(&store).unwrap();
    copy(&away, &store);
    kept.expect_fresh("with a copy in its place");
    fs::remove_dir_all(&store).unwrap();
    kept.expect_fresh("when it is deleted");
    // The first snapshot creates the store, by either server.
    kept.mcp.tool("snapshot", &json!({"message": "a new beginning"})).unwrap();
    kept.expect_fresh("after a new beginning");
    assert_eq!(kept.serve.call("status", &json!({})).unwrap()["turn"], 1);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

#[test]
fn a_server_that_looks_keeps_nothing_from_a_collection_and_may_be_killed() {
    let place = with_turns(4);
    let mut kept = Kept::of(&place);
    // A call that changes something has released its segment, and a call that reads never had one.
    kept.serve.call("snapshot", &json!({"message": "by a server"})).unwrap();
    kept.expect_fresh("after a snapshot");
    let _ = place.run(&["repack"]);
    assert_eq!(files(&place, "journal"), Vec::<std::path::PathBuf>::new());
    kept.expect_fresh("after everything was packed");

    let killed = place.server(SERVE);
    let mut killed = Kept { place: &place, serve: killed, mcp: place.mcp(&[]) };
    killed.expect_fresh("before they are killed");
    for server in [&killed.serve, &killed.mcp] {
        kill_process(Pid::from_raw(server.pid()).unwrap(), Signal::KILL).unwrap();
    }
    let _ = place.run(&["snapshot", "-m", "after", "--append-message", "user=message 9"]);
    kept.expect_fresh("when others were killed");
    let _ = place.run(&["gc"]);
    let _ = place.run(&["fsck"]);
    kept.expect_fresh("at the end");
}

#[test]
fn damage_is_not_remembered_once_it_is_mended() {
    let place = with_turns(4);
    let _ = place.run(&["repack"]);
    let [pack] = files(&place, "packs").try_into().unwrap();
    let whole = fs::read(&pack).unwrap();
    let mut damaged = whole.clone();
    damaged[100..400].fill(0);
    let mut kept = Kept::of(&place);
    // Changed in place, like damage by a disk.
    fs::write(&pack, &damaged).unwrap();
    for _ in 0..2 {
        let _ = kept.said();
    }
    fs::write(&pack, &whole).unwrap();
    kept.expect_fresh("when it is mended");
    let _ = place.run(&["fsck"]);
}

#[test]
fn a_server_acts_on_the_branch_that_it_is_told_now() {
    let place = with_turns(3);
    let mut own = place.server(&["serve", "--stdio", "--session", "work"]);
    assert_eq!(own.call("status", &json!({})).unwrap()["branch"], "main");
    own.call("branch", &json!({"action": "switch", "name": "plan-b"})).unwrap();
    assert_eq!(own.call("status", &json!({})).unwrap()["branch"], "plan-b");
    assert_eq!(own.call("show", &json!({})).unwrap()["snapshot"]["turn"], 2);

    let mut command = place.command(SERVE);
    let mut by_name = Server::start(command.env("TURNTREE_BRANCH", "plan-b"));
    assert_eq!(by_name.call("status", &json!({})).unwrap()["branch"], "plan-b");
    let _ = place.run(&["branch", "--delete", "plan-b"]);
    let mut fresh = Server::start(command.env("TURNTREE_BRANCH", "plan-b"));
    for name in ["status", "log", "show"] {
        let answers = [&mut by_name, &mut fresh].map(|server| server.call(name, &json!({})));
        assert_eq!(answers[0], answers[1], "{name}");
    }
}
