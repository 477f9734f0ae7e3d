//! Several processes that write to one branch concurrently.

use std::thread;

use serde_json::{Value, json};
use turntree_tests::server_process::Place;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

const WRITERS: usize = 8;
const TURNS: usize = 20;

/// Commits the snapshots of a writer, each with a unique message and entry: every second writer
/// with a process for each, the others with one server. Half of each change the scratchpad with a
/// document, which also removes an entry of the turn before.
fn write(place: &Place, writer: usize) {
    let mut server = (writer % 2 == 1).then(|| place.server(&["serve", "--stdio"]));
    for turn in 0..TURNS {
        let said = format!("{writer}.{turn}");
        let by_document = writer % 4 < 2;
        let passing = |turn: usize| format!("passing {writer}.{turn}");
        let mut change = json!({"set": {&said: said, passing(turn): "now"}});
        if let Some(before) = turn.checked_sub(1) {
            change["remove"] = json!([passing(before)]);
        }
        let state = json!({"scratchpad": change});
        if let Some(server) = &mut server {
            let mut params = json!({
                "message": said, "retry": true, "session": "shared",
                "append": {"agents": {"main": [{"role": "user", "content": said}]}},
            });
            match by_document {
                true => params["state"] = state,
                false => params["set"] = json!({format!("scratchpad/{said}"): said}),
            }
            server.call("snapshot", &params).unwrap();
        } else {
            let (message, entry) = (format!("user={said}"), format!("scratchpad/{said}={said}"));
            let words = ["snapshot", "-m", &said, "--retry", "--session", "shared"];
            let document = place.path().join(format!("{writer}.json"));
            std::fs::write(&document, state.to_string()).unwrap();
            let document = document.to_str().unwrap();
            let change = if by_document { ["--state", document] } else { ["--set", &entry] };
            let edits = ["--append-message", &message];
            let _ = place.run(&[&words[..], &edits, &change].concat());
        }
    }
    if let Some(server) = server {
        assert_eq!(server.end(), (Some(0), String::new()));
    }
}

#[test]
fn eight_writers_of_one_branch_are_never_refused_and_lose_nothing() {
    let place = Place::new(PROGRAM);
    let _ = place.run(&["snapshot", "-m", "first", "--session", "shared"]);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let place = &place;
            scope.spawn(move || write(place, writer));
        }
    });
    let all = WRITERS * TURNS;
    let _ = place.run(&["switch", "shared"]);
    let log = place.run(&["log", "--json", "-n", "1"]);
    let newest: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(newest["turn"], all + 1, "each is a turn of its own");
    let entries = place.run(&["ls", "HEAD:scratchpad"]);
    let passing = entries.lines().filter(|line| line.contains("passing")).count();
    assert_eq!(passing, WRITERS / 2, "the last of each that writes documents: {entries}");
    assert_eq!(entries.lines().count(), all + passing, "{entries}");
    let conversation = place.run(&["ls", "HEAD:agents/main/messages"]);
    for writer in 0..WRITERS {
        let own = format!("  {writer}.");
        let said = conversation.lines().filter_map(|line| line.split_once(&own));
        let turns: Vec<usize> = said.map(|(_, turn)| turn.trim().parse().unwrap()).collect();
        assert_eq!(turns, (0..TURNS).collect::<Vec<_>>(), "those of a writer are in its order");
    }
    assert!(place.run(&["fsck"]).contains("nothing is damaged or lost"));
}

#[test]
fn a_writer_that_expects_a_snapshot_is_refused_when_another_one_came() {
    let place = Place::new(PROGRAM);
    let first = |message: &str| {
        let told = place.run(&["snapshot", "-m", message, "--session", "shared", "--json"]);
        let told: Value = serde_json::from_str(&told).unwrap();
        told["id"].as_str().unwrap().to_owned()
    };
    let seen = first("seen");
    let mut server = place.server(&["serve", "--stdio"]);
    let expecting = |expect: &str, retry: bool| {
        let set = json!({"scratchpad/plan": "mine"});
        json!({"message": "mine", "session": "shared", "set": set, "expect": expect, "retry": retry})
    };
    let newer = first("of another process");
    let refused = server.call("snapshot", &expecting(&seen, false)).unwrap_err();
    assert_eq!(refused["code"], -32003, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains(&newer[..12]), "{refused}");
    assert_eq!(server.call("snapshot", &expecting(&newer, false)).unwrap()["turn"], 3);
    let refused = server.call("snapshot", &expecting(&newer, true)).unwrap_err();
    assert_eq!(refused["code"], -32602, "{refused}");
    assert_eq!(server.end(), (Some(0), String::new()));
    // A branch without snapshots matches no expectation.
    let words = ["snapshot", "-m", "x", "--branch", "shared/new", "--expect", &newer];
    let refused = place.command(&words).output().unwrap();
    assert_eq!(refused.status.code(), Some(3));
}
