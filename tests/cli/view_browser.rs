//! `turntree view` in a browser: all sessions, the story of each, and what comes while it is looked at.

use std::fs;

use serde_json::json;
use turntree_tests::browser::Browser;
use turntree_tests::claude_code;
use turntree_tests::server_process::Place;

use super::view::Served;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

fn imported(place: &Place, name: &str, turns: usize) {
    fs::write(place.path().join("t.jsonl"), claude_code(turns)).unwrap();
    let _ = place.run(&["import", "t.jsonl", "--session", name]);
}

/// Takes a turn in which somebody says something.
fn say(place: &Place, session: &str, words: &str) {
    let said = json!({"agents": {"main": [{"role": "user", "content": words}]}});
    let snapshot = json!({"message": words, "session": session, "append": said});
    let mut server = place.server(&["serve", "--stdio"]);
    server.call("snapshot", &snapshot).unwrap();
    let _ = server.end();
}

fn clean(browser: &mut Browser) {
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn sessions_are_found_and_their_stories_are_those_of_the_file() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new(PROGRAM);
    imported(&place, "parser", 40);
    let _ = place.run(&["fork", "plan-b", "parser~5"]);
    say(&place, "other", "<b>something</b> \u{202e}else");
    let served = Served::start(&place, &[]);
    browser.visit(&served.url);
    assert_eq!(browser.ask("location.href.includes('key')"), json!(false));
    assert_eq!(browser.ask("document.querySelectorAll('.session-line').length"), json!(2));
    for width in [320, 768, 1440] {
        browser.resize(width, 900);
        let fits = "document.documentElement.scrollWidth <= innerWidth";
        assert_eq!(browser.ask(fits), json!(true), "{width}");
    }
    // What is typed finds sessions by title, and places where it is said.
    browser.press("/");
    browser.write("part 8 of");
    browser.wait(
        "document.querySelectorAll('.session-line').length === 0 || document.querySelector('.hit')",
    );
    browser.wait("document.querySelector('.hits .hit mark')?.textContent === 'part 8 of'");
    browser.click(".hits .hit");
    browser.wait("location.pathname === '/s/parser' && CSS.highlights?.get('found')?.size > 0");
    assert!(browser.ask("location.hash").as_str().unwrap().starts_with("#turn-"));

    // The same text at the same addresses as in the file of an export.
    let file = place.path().join("page.html");
    let _ = place.run(&["export", "parser", "--format", "html", "-o", file.to_str().unwrap()]);
    let places = [
        ("#overview", ".page"),
        ("#prompt-3", "[aria-label='Prompt 3']"),
        ("#diff-2..9", ".page"),
        ("#compare", ".compare"),
    ];
    for (address, selector) in places {
        let text = format!("document.querySelector(\"#view {selector}\")?.innerText");
        browser.open(&file, address);
        browser.wait(&format!("{text}.length > 20"));
        let in_file = browser.ask(&text);
        let (port, key) = (served.port, &served.key);
        let url = format!("http://127.0.0.1:{port}/s/parser#key={key}&{}", &address[1..]);
        browser.visit(&url);
        browser.wait(&format!("{text} === {in_file}"));
        browser.wait("document.querySelector('#state').dataset.good === 'true'");
    }
    // A search within a session is the server's.
    browser.press("/");
    browser.write("part 12 of");
    browser.wait(
        "document.querySelector('[data-done=\"true\"] .hit mark')?.textContent === 'part 12 of'",
    );
    clean(&mut browser);
}

#[test]
fn what_others_commit_appears_where_somebody_looks() {
    let (Some(mut browser), Some(mut list)) = (Browser::start(), Browser::start()) else { return };
    let place = Place::new(PROGRAM);
    imported(&place, "parser", 12);
    let served = Served::start(&place, &["parser"]);
    browser.visit(&format!("{}&read", served.url));
    list.visit(&format!("http://127.0.0.1:{}/#key={}", served.port, served.key));
    for page in [&mut browser, &mut list] {
        page.wait("document.querySelector('#state').dataset.good === 'true'");
    }
    // Who is at the end follows.
    say(&place, "parser", "a new word at the end");
    browser.wait("[...document.querySelectorAll('#view article.turn')].at(-1)?.innerText.includes('a new word at the end')");
    browser.wait("(() => { const v = document.querySelector('#view'); return v.scrollTop + v.clientHeight >= v.scrollHeight - 80; })()");
    // Who reads stays where they read, and other sessions do not disturb.
    browser.press("g");
    browser.wait("location.hash === '#turn-1'");
    say(&place, "second", "another session");
    say(&place, "parser", "the newest");
    browser.wait("document.querySelector('#about').textContent.startsWith('14 turns')");
    assert_eq!(browser.ask("location.hash"), json!("#turn-1"));
    assert_eq!(browser.ask("document.querySelector('#view').scrollTop < 50"), json!(true));
    list.wait("document.querySelector('.session-line .title')?.textContent && document.querySelectorAll('.session-line').length === 2");
    // A branch that begins is there, and one that goes back.
    let _ = place.run(&["fork", "plan-b", "parser~3"]);
    browser.wait(
        "document.querySelector('#branches option:nth-child(2)')?.textContent.startsWith('plan-b')",
    );
    let _ = place.run(&["undo"]);
    browser.wait("!document.querySelector('#branches select')");
    clean(&mut browser);
    clean(&mut list);

    // The server dies, and another one comes in its place: whoever has its key goes on.
    let port = served.port.to_string();
    drop(served);
    browser.wait("document.querySelector('#state').textContent.startsWith('not connected')");
    let again = Served::start(&place, &["--port", &port]);
    browser.wait("document.querySelector('#state').textContent.includes('started anew')");
    browser.ask(&format!("new BroadcastChannel('turntree').postMessage({{key: '{}'}})", again.key));
    browser.wait("document.querySelector('#state').dataset.good === 'true'");
    say(&place, "parser", "after the end");
    browser.wait("document.querySelector('#about').textContent.startsWith('15 turns')");
    // A store that is gone is told, and comes back.
    fs::rename(place.path().join("store"), place.path().join("away")).unwrap();
    browser.ask("location.reload()");
    browser.wait("document.querySelector('#view').innerText.includes('no store')");
    fs::rename(place.path().join("away"), place.path().join("store")).unwrap();
    browser.wait("document.querySelector('#about').textContent.startsWith('15 turns')");
}

#[test]
fn without_its_key_a_page_shows_nothing() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new(PROGRAM);
    imported(&place, "parser", 4);
    let served = Served::start(&place, &[]);
    for (address, key) in [("", ""), ("s/parser", ""), ("s/parser", "#key=00")] {
        browser.visit(&format!("http://127.0.0.1:{}/{address}{key}", served.port));
        assert_eq!(
            browser.ask("document.querySelector('#view h2').textContent"),
            json!("This page needs its key")
        );
    }
    assert_eq!(browser.ask("document.body.innerText.includes('parser')"), json!(false));
}
