//! The search of `turntree view`: words in all sessions, ranked, and literal text.

use std::fs;

use serde_json::{Value, json};
use turntree_tests::browser::Browser;
use turntree_tests::claude_code;
use turntree_tests::server_process::Place;

use super::view::Served;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// A store in which three sessions mention lexers.
fn lexers(place: &Place) {
    for (session, words) in [
        (
            "one",
            "A budget for the lexer, and much else that has nothing to do with what is asked: tests, benches, pages and notes.",
        ),
        ("two", "The lexer budget."),
        ("three", "lexers are <b>slow</b>, lexer budgets are not"),
    ] {
        let state = json!({"agents": {"main": {"messages": [{"role": "user", "content": words}]}}});
        fs::write(place.path().join("state.json"), state.to_string()).unwrap();
        let _ =
            place.run(&["snapshot", "-m", words, "--state", "state.json", "--session", session]);
    }
}

fn ranked(served: &Served, address: &str) -> Value {
    let told = served.ask(address);
    assert_eq!(told.status, 200, "{address}: {}", told.body);
    serde_json::from_str(told.body.lines().last().unwrap()).unwrap()
}

#[test]
fn words_of_all_sessions_are_ranked_by_the_index_and_text_is_found_as_it_stands() {
    let place = Place::new(PROGRAM);
    lexers(&place);
    let served = Served::start(&place, &[]);
    let found = ranked(&served, "/api/words?q=lexer+budget");
    let hits = found["hits"].as_array().unwrap();
    let sessions: Vec<&str> = hits.iter().map(|hit| hit["session"].as_str().unwrap()).collect();
    // "budgets" is another form, so it comes after "budget" in as short a text.
    assert_eq!((sessions[0], sessions.len()), ("two", 3));
    let lacking = hits.iter().filter(|hit| hit["missing"] != json!([])).count();
    assert_eq!(lacking, 0);
    assert_eq!((&found["more"], &found["unread"]), (&json!(false), &json!(0)));
    assert_eq!(hits[0]["parts"], json!(["The ", "lexer budget", "."]));
    let places = ["turn", "path", "role", "title"].map(|name| &hits[0][name]);
    let expected = json!([1, "agents/main/messages/0", "user", "The lexer budget."]);
    assert_eq!(json!(places), expected);
    // A prefix finds more, and skipped results are not repeated.
    assert_eq!(ranked(&served, "/api/words?q=lexer+budget*")["hits"].as_array().unwrap().len(), 3);
    let rest = ranked(&served, "/api/words?q=lexer+budget*&from=2");
    assert_eq!(rest["hits"].as_array().unwrap().len(), 1);
    // Commits of other processes are found immediately.
    let state = json!({"scratchpad": {"note": {"content": "the budget of a lexer"}}});
    fs::write(place.path().join("state.json"), state.to_string()).unwrap();
    let _ = place.run(&["snapshot", "-m", "more", "--state", "state.json", "--session", "two"]);
    assert_eq!(ranked(&served, "/api/words?q=lexer+budget")["hits"].as_array().unwrap().len(), 4);
    for (address, status) in [("?q=%22%22", 400), ("?q=", 400), ("", 400)] {
        assert_eq!(served.ask(&format!("/api/words{address}")).status, status, "{address}");
    }
    // Parts of words need the other search.
    assert_eq!(ranked(&served, "/api/words?q=dge")["hits"], json!([]));
    let places = served.ask("/api/search?q=EXER+BUDG").body;
    let sessions: Vec<Value> = places
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["session"].clone())
        .collect();
    assert_eq!(sessions, ["two", "three"].map(Value::from));
}

#[test]
fn words_of_an_encrypted_store_are_ranked_in_memory_until_they_are_redacted() {
    let place = Place::new(PROGRAM);
    lexers(&place);
    let command = |words: &[&str]| place.command_at_home(words);
    let run = |words: &[&str]| {
        let output = command(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["init", "--encrypt"]);
    let served = Served::of(command(&["--json", "view"]));
    let sessions = |words: &str| -> Vec<Value> {
        let found = ranked(&served, &format!("/api/words?q={words}"));
        let hits = found["hits"].as_array().unwrap();
        hits.iter().map(|hit| hit["session"].clone()).collect()
    };
    assert_eq!(sessions("lexer+budget").len(), 3);
    assert_eq!(served.ask("/api/search?q=exer+budget").body.lines().count(), 2);
    // Commits of other processes are indexed, and no index file is written.
    run(&["snapshot", "-m", "told", "--session", "two", "--set", "scratchpad/key=swordfish"]);
    assert_eq!(sessions("swordfish"), ["two"]);
    let state = json!({"agents": {"main": {"messages": [{"role": "user", "content": "a fish: swordfish"}]}}});
    fs::write(place.path().join("state.json"), state.to_string()).unwrap();
    let words =
        ["snapshot", "-m", "a fish: swordfish", "--state", "state.json", "--session", "four"];
    run(&words);
    assert!(served.ask("/api/sessions").body.contains("a fish: swordfish"));
    let beside = fs::read_dir(place.path().join("store/workspaces"));
    let names = beside.into_iter().flatten().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.filter(|name| name == "derived-search").count(), 0);
    run(&["redact", "swordfish", "--yes"]);
    assert_eq!(sessions("swordfish"), Vec::<Value>::new());
    let told = served.ask("/api/sessions").body;
    assert!(told.contains("a fish") && !told.contains("swordfish"), "{told}");
    assert_eq!(sessions("lexer+budget").len(), 3);
}

#[test]
fn what_is_typed_finds_the_best_matches_and_leads_to_them() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new(PROGRAM);
    lexers(&place);
    fs::write(place.path().join("t.jsonl"), claude_code(40)).unwrap();
    let _ = place.run(&["import", "t.jsonl", "--session", "parser"]);
    let _ = place.run(&["fork", "plan-b", "parser~20"]);
    let state = json!({"agents": {"main": {"messages": [{"role": "user", "content": "A zebra elsewhere."}]}}});
    fs::write(place.path().join("state.json"), state.to_string()).unwrap();
    let _ = place.run(&["switch", "parser/plan-b"]);
    let _ = place.run(&["snapshot", "-m", "zebra", "--state", "state.json"]);
    let served = Served::start(&place, &[]);
    browser.visit(&served.url);
    browser.wait("document.querySelectorAll('.session-line').length === 4");
    let names = "[...document.querySelectorAll('.hits section:first-child .group h3 a')].map((one) => one.textContent.slice(0, 9)).join()";
    browser.press("/");
    browser.write("lexer budge");
    browser.wait(&format!("{names} === 'The lexer,lexers ar,A budget '"));
    // Markup is shown as text.
    assert_eq!(browser.ask("document.querySelectorAll('.hits .hit span b').length"), json!(0));
    // Parts of words are searched on request, or if the first search took long.
    let find = "[...document.querySelectorAll('.hits button')].find((one) => one.textContent.includes('as it stands'))";
    browser.wait("document.querySelector('.hits').childElementCount === 2");
    browser.ask(&format!("{find}?.click()"));
    browser.wait("document.querySelectorAll('.hits section:nth-child(2) .hit').length === 2");
    // If no word matches, they are searched automatically.
    browser.ask("document.querySelector('#query').select()");
    browser.write("dge");
    browser.wait("document.querySelector('.hits section:first-child small')?.textContent.startsWith('nothing has any')");
    browser.wait("document.querySelectorAll('.hits section:nth-child(2) .hit').length === 3");
    // A hit on another branch links to its words there.
    browser.ask("document.querySelector('#query').select()");
    browser.write("zebra else");
    browser.wait("document.querySelector('.hits .hit mark')?.textContent === 'zebra elsewhere'");
    browser.click(".hits .hit");
    browser.wait(
        "location.pathname === '/s/parser' && location.hash.startsWith('#turn-21@plan-b?w=zebra')",
    );
    browser.wait("CSS.highlights?.get('found')?.size > 0");
    assert_eq!(browser.problems(), Vec::<String>::new());
}
