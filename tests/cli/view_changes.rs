//! `turntree view --allow-changes` over HTTP: access to changes, the content of a plan, and
//! when it is refused.

use std::fs;

use serde_json::{Value, json};
use turntree_tests::server_process::Place;

use super::view::{Served, Told};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// The operations of a store, newest first.
fn operations(place: &Place) -> Vec<Value> {
    let lines = place.run(&["op", "log", "--json"]);
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn tip(place: &Place, branch: &str) -> String {
    place.run(&["rev-parse", branch]).trim().to_owned()
}

/// A store with two turns of work, and a server that allows changes.
fn served() -> (Place, Served) {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(2);
    let served = Served::start(&place, &["--allow-changes"]);
    (place, served)
}

fn ok(told: &Told) -> Value {
    assert_eq!(told.status, 200, "{}", told.body);
    serde_json::from_str(&told.body).unwrap()
}

fn plan(served: &Served, change: &Value) -> Value {
    ok(&served.post("/api/plan", change))
}

fn carry_out(served: &Served, plan: &Value) -> Told {
    served.post("/api/do", &json!({ "plan_id": plan["plan_id"] }))
}

/// Plans a change and does it.
fn change(served: &Served, change: &Value) -> Value {
    ok(&carry_out(served, &plan(served, change)))
}

#[test]
fn nothing_changes_unless_the_server_was_started_for_it() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(2);
    let served = Served::start(&place, &[]);
    let before = operations(&place);
    let fork = json!({"kind": "fork", "session": "work", "at": tip(&place, "work"), "name": "x"});
    for (path, body) in [("/api/plan", &fork), ("/api/do", &json!({"plan_id": "0"}))] {
        let told = served.post(path, body);
        assert_eq!(told.status, 403, "{path}");
        assert!(told.body.contains("--allow-changes"), "{}", told.body);
    }
    assert_eq!(operations(&place), before);
    assert!(served.page().contains("name=\"changes\" content=\"none\""));
    // A second server that allows changes does not reuse it.
    let second = place.command(&["view", "--allow-changes"]).output().unwrap();
    assert_eq!(second.status.code(), Some(5));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("only shows") && said.contains("Ctrl-C"), "{said}");
}

#[test]
fn only_a_page_of_this_server_changes_anything() {
    let (place, served) = served();
    assert!(served.page().contains("name=\"changes\" content=\"allowed\""));
    let before = operations(&place);
    let (port, key) = (served.port, &served.key);
    let body = json!({"kind": "fork", "session": "work", "at": tip(&place, "work"), "name": "x"});
    let body = body.to_string();
    let host = format!("host: 127.0.0.1:{port}\r\n");
    let key_line = format!("authorization: Bearer {key}\r\n");
    let origin = format!("origin: http://127.0.0.1:{port}\r\n");
    let json = "content-type: application/json\r\n";
    let plain = "content-type: text/plain\r\n";
    let length = format!("content-length: {}\r\n", body.len());
    let large = format!("content-length: {}\r\n", (1 << 20) + 1);
    let foreign = "origin: http://evil.example\r\n";
    let site = "sec-fetch-site: cross-site\r\n";
    let elsewhere = format!("host: evil.example:{port}\r\n");
    let cases = [
        (200, [&*host, &*key_line, &*origin, json, &*length].concat()),
        (421, [&*elsewhere, &*key_line, &*origin, json, &*length].concat()),
        (403, [&*host, &*key_line, json, &*length].concat()),
        (403, [&*host, &*key_line, foreign, json, &*length].concat()),
        (403, [&*host, &*key_line, "origin: null\r\n", json, &*length].concat()),
        (403, [&*host, &*key_line, &*origin, foreign, json, &*length].concat()),
        (403, [&*host, &*key_line, &*origin, site, json, &*length].concat()),
        (401, [&*host, &*origin, json, &*length].concat()),
        (415, [&*host, &*key_line, &*origin, plain, &*length].concat()),
        (415, [&*host, &*key_line, &*origin, &*length].concat()),
        (413, [&*host, &*key_line, &*origin, json, &*large].concat()),
    ];
    for (status, head) in &cases {
        for path in ["/api/plan", "/api/do"] {
            let told = served.raw_with_body(&format!("POST {path} HTTP/1.1\r\n{head}"), &body);
            // `/api/do` takes a plan, so it refuses the body of a valid `/api/plan` request.
            let expected = if (*status, path) == (200, "/api/do") { 400 } else { *status };
            assert_eq!(told.status, expected, "{path} {head}{}", told.body);
            assert!(!told.head.contains("access-control"), "{}", told.head);
        }
    }
    // Without a length, it is also refused at the limit.
    let chunk = format!("{:x}\r\n{}\r\n", 600 << 10, " ".repeat(600 << 10));
    let head = [&*host, &*key_line, &*origin, json, "transfer-encoding: chunked\r\n"].concat();
    let chunks = format!("{chunk}{chunk}0\r\n\r\n");
    let told = served.raw_with_body(&format!("POST /api/plan HTTP/1.1\r\n{head}"), &chunks);
    assert!(matches!(told.status, 413 | 0), "{}", told.body);
    // Irreversible changes are not offered, and unknown ones are refused.
    for kind in ["redact", "gc", "repair", "forget", ""] {
        assert_eq!(served.post("/api/plan", &json!({"kind": kind})).status, 400, "{kind}");
    }
    let more = json!({"kind": "unpin", "name": "a", "force": true});
    assert_eq!(served.post("/api/plan", &more).status, 400);
    for path in ["/api/redact", "/api/gc", "/api/sessions", "/"] {
        assert_eq!(served.post(path, &json!({})).status, 405, "{path}");
    }
    assert_eq!(operations(&place), before);
}

#[test]
fn a_plan_is_done_once_and_its_operation_can_be_taken_back() {
    let (place, served) = served();
    let at = tip(&place, "work~1");
    let wanted = json!({"kind": "fork", "session": "work", "at": at, "name": "plan-c"});
    let before = operations(&place);
    let planned = plan(&served, &wanted);
    let to = format!("turn 1 ({})", &at[..12]);
    assert_eq!(planned["moves"], json!([{"name": "work/plan-c", "from": null, "to": to}]));
    assert_eq!((&planned["destructive"], &planned["is_idle"]), (&json!(false), &json!(false)));
    assert_eq!(operations(&place), before, "a plan changes nothing");
    let done = ok(&carry_out(&served, &planned));
    assert_eq!((&done["branch"], tip(&place, "work/plan-c")), (&json!("work/plan-c"), at));
    assert_eq!(done["operation"], operations(&place)[0]["operation"]);
    assert_eq!(carry_out(&served, &planned).status, 404, "a plan is done once");
    assert_eq!(operations(&place).len(), before.len() + 1);
    // The name exists now.
    assert_eq!(served.post("/api/plan", &wanted).status, 400);
    change(&served, &json!({"kind": "undo", "operation": done["operation"], "files": true}));
    assert!(!place.run(&["branch"]).contains("plan-c"));
    // A few plans are kept; the oldest is dropped.
    let first = plan(&served, &wanted);
    let mut others: Vec<Value> = (0..8).map(|_| plan(&served, &wanted)).collect();
    assert_eq!(carry_out(&served, &first).status, 404);
    assert_eq!(carry_out(&served, &others.remove(0)).status, 200);
    // The other plans are outdated: the store has changed.
    assert_eq!(carry_out(&served, &others.remove(0)).status, 409);
}

#[test]
fn tags_and_pins_come_and_go() {
    let (place, served) = served();
    let at = tip(&place, "work");
    change(&served, &json!({"kind": "tag", "at": at, "name": "good", "message": "all pass"}));
    assert_eq!(tip(&place, "good"), at);
    let done = change(&served, &json!({"kind": "pin", "at": at, "name": "kept", "reason": "why"}));
    let pins: Value = serde_json::from_str(&place.run(&["pins", "--json"])).unwrap();
    assert_eq!(
        (&pins["pins"][0]["pin"], &pins["pins"][0]["reason"]),
        (&json!("kept"), &json!("why"))
    );
    // An old plan does not remove a pin that was changed since.
    let planned = plan(&served, &json!({"kind": "unpin", "name": "kept"}));
    let _ = place.run(&["unpin", "kept"]);
    let _ = place.run(&["pin", "work~1", "--name", "kept"]);
    assert_eq!(carry_out(&served, &planned).status, 409);
    change(&served, &json!({"kind": "unpin", "name": "kept"}));
    let pins: Value = serde_json::from_str(&place.run(&["pins", "--json"])).unwrap();
    assert_eq!(pins["pins"], json!([]));
    // An undo that would lose later changes is refused.
    let undo = json!({"kind": "undo", "operation": done["operation"], "files": true});
    assert_eq!(served.post("/api/plan", &undo).status, 409);
}

#[test]
fn a_session_gets_a_title_and_labels_and_gives_them_back() {
    let (place, served) = served();
    let said = || served.json("/api/labels?session=work");
    assert_eq!(said(), json!({"session": "work", "title": null, "labels": []}));
    let label = |title: Option<&str>, labels: &[&str]| json!({"kind": "label", "session": "work", "title": title, "labels": labels});
    let planned = plan(&served, &label(Some("a <b>title</b>"), &["draft", "lexer"]));
    let moves: Vec<&Value> =
        planned["moves"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(moves, ["title", "label draft", "label lexer"]);
    assert_eq!(said()["labels"], json!([]), "a plan changes nothing");
    let done = ok(&carry_out(&served, &planned));
    assert_eq!(
        said(),
        json!({"session": "work", "title": "a <b>title</b>", "labels": ["draft", "lexer"]})
    );
    assert!(place.run(&["sessions", "--label", "lexer"]).contains("a <b>title</b>"));
    // An old plan does not overwrite later labels.
    let planned = plan(&served, &label(None, &[]));
    let _ = place.run(&["session", "label", "work", "theirs"]);
    assert_eq!(carry_out(&served, &planned).status, 409);
    assert_eq!(said()["labels"], json!(["draft", "lexer", "theirs"]));
    let _ = place.run(&["undo"]);
    change(&served, &json!({"kind": "undo", "operation": done["operation"], "files": true}));
    assert_eq!(said()["labels"], json!([]));
    assert_eq!(plan(&served, &label(None, &[]))["is_idle"], true);
    let nowhere = json!({"kind": "label", "session": "nowhere", "title": null, "labels": []});
    assert_eq!(served.post("/api/plan", &nowhere).status, 404);
    assert_eq!(served.post("/api/plan", &label(Some("two\nlines"), &[])).status, 400);
    assert_eq!(served.post("/api/plan", &label(None, &["two words"])).status, 400);
}

#[test]
fn a_restore_is_what_its_plan_says_and_comes_back() {
    let (place, served) = served();
    place.write("notes.txt", "this is unsaved\n");
    place.write("own.txt", "mine\n");
    let wanted = json!({"kind": "restore", "branch": "work/main", "at": tip(&place, "work~1"), "files": true});
    let planned = plan(&served, &wanted);
    assert_eq!(planned["destructive"], true);
    let files = planned["workspace"]["files"].as_array().unwrap();
    let told = |path: &str| files.iter().find(|file| file["path"] == path).unwrap();
    assert_eq!(
        (&told("notes.txt")["action"], &told("notes.txt")["unsaved"]),
        (&json!("overwrite"), &json!(true))
    );
    assert_eq!(
        (&told("own.txt")["action"], &told("own.txt")["unknown"]),
        (&json!("delete"), &json!(true))
    );
    assert_eq!(place.read("notes.txt").unwrap(), "this is unsaved\n");
    let done = ok(&carry_out(&served, &planned));
    assert_eq!((place.read("notes.txt").unwrap(), place.read("own.txt")), ("1\n".to_owned(), None));
    assert_eq!(done["failed"], 0);
    change(&served, &json!({"kind": "undo", "operation": done["operation"], "files": true}));
    assert_eq!(place.read("notes.txt").unwrap(), "this is unsaved\n");
    assert_eq!(place.read("own.txt").unwrap(), "mine\n");
    // Without files, the workspace stays unchanged.
    let back = json!({"kind": "rollback", "branch": "work/main", "turn": 1, "files": false});
    let planned = plan(&served, &back);
    assert_eq!(planned["workspace"], json!(null));
    ok(&carry_out(&served, &planned));
    assert_eq!(place.read("own.txt").unwrap(), "mine\n");
}

#[test]
fn a_plan_is_not_done_when_a_file_was_edited_or_the_branch_has_moved_since() {
    let (place, served) = served();
    let wanted = json!({"kind": "rollback", "branch": "work/main", "turn": 1, "files": true});
    place.write("notes.txt", "an edit\n");
    let planned = plan(&served, &wanted);
    // The same length with other content.
    place.write("notes.txt", "an idea\n");
    let before = operations(&place);
    let told = carry_out(&served, &planned);
    assert_eq!(told.status, 409, "{}", told.body);
    assert!(told.body.contains("nothing was done"), "{}", told.body);
    assert_eq!(place.read("notes.txt").unwrap(), "an idea\n");
    assert_eq!(operations(&place), before);

    let planned = plan(&served, &wanted);
    let _ = place.run(&["snapshot", "-m", "more", "--session", "work"]);
    let (before, newest) = (operations(&place), tip(&place, "work"));
    assert_eq!(carry_out(&served, &planned).status, 409);
    assert_eq!(
        (place.read("notes.txt").unwrap().as_str(), tip(&place, "work")),
        ("an idea\n", newest)
    );
    assert_eq!(operations(&place), before);
    // A refused plan is dropped.
    assert_eq!(carry_out(&served, &planned).status, 404);
}

#[test]
fn conflicts_of_a_merge_are_decided() {
    let (place, served) = served();
    let note = |text: &str| json!({"scratchpad": {"note": {"content": text}}}).to_string();
    for (branch, text) in [("main", "ours"), ("plan-b", "theirs")] {
        fs::write(place.path().join("state.json"), note(text)).unwrap();
        let words = ["snapshot", "-m", text, "--state", "state.json", "--session", "work"];
        let _ = place.run(&[&words[..], &["--branch", branch]].concat());
    }
    let wanted = json!({"kind": "merge", "from": "work/plan-b", "into": "work/main"});
    let planned = plan(&served, &wanted);
    let path = planned["conflicts"][0].as_str().unwrap().to_owned();
    assert!(path.starts_with("scratchpad/note"), "{path}");
    let ours = tip(&place, "work");
    let done = ok(&carry_out(&served, &planned));
    assert_eq!((&done["conflicts"], &done["branch"]), (&json!(1), &json!("work/main")));
    assert_ne!(tip(&place, "work"), ours);
    let open = served.json("/api/conflicts?branch=work%2Fmain");
    assert_eq!(open["conflicts"][0]["path"], json!(path));
    let decision =
        json!({"kind": "resolve", "branch": "work/main", "paths": [path], "take": "theirs"});
    assert_eq!(
        served
            .post("/api/plan", &json!({"kind": "resolve", "branch": "work/main", "paths": []}))
            .status,
        400
    );
    change(&served, &decision);
    assert_eq!(served.json("/api/conflicts?branch=work%2Fmain")["conflicts"], json!([]));
    assert!(place.run(&["cat", &format!("work:{path}")]).contains("theirs"));
    assert_eq!(served.post("/api/plan", &decision).status, 404);
    // Already merged.
    assert_eq!(plan(&served, &wanted)["is_idle"], true);
}
