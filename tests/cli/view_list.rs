//! The list of sessions in `turntree view`: what its rows say, and the list beside what is read.

use std::fs;

use serde_json::{Value, json};
use turntree_tests::browser::Browser;
use turntree_tests::server_process::Place;
use turntree_tests::{claude_code, claude_code_of_noise, github_token};

use super::view::Served;
use super::view_first_look::{LIVE, address, say, strategies};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// Tokens with a price, in the place of the model of a transcript.
const COUNTS: &str =
    r#""model":"claude-opus-4-5","usage":{"input_tokens":1000,"output_tokens":500}"#;

fn cell(session: &str, name: &str) -> String {
    format!("document.querySelector('[data-session={session}] .{name}').textContent")
}

#[test]
fn a_row_tells_what_was_done_how_it_ended_and_what_it_cost() {
    let Some(mut browser) = Browser::start() else { return };
    let place = strategies();
    let told = claude_code(40).replace(r#""model":"model-1""#, COUNTS);
    let stop = told.lines().last().unwrap().replace("\"uuid\":\"", "\"uuid\":\"stop-");
    let mut stop: Value = serde_json::from_str(&stop).unwrap();
    stop["type"] = "user".into();
    stop["message"] = json!({"role": "user", "content": "[Request interrupted by user]"});
    fs::write(place.path().join("t.jsonl"), format!("{told}{stop}\n")).unwrap();
    let _ = place.run(&["import", "t.jsonl", "--session", "parser"]);
    say(&place, "other/main", "nothing to say", ["a\n", "b\n"], &["--check", "tests=failed"]);
    let served = Served::start(&place, &[]);
    browser.resize(1280, 800);
    browser.visit(&address(&served, "/", ""));
    browser.wait(&format!("{LIVE} && {} !== ''", cell("parser", "cost")));
    browser.wait(&format!("{} === '\u{2717} failed'", cell("other", "outcome")));
    assert_eq!(browser.ask(&cell("lexer", "outcome")), "\u{2713} passed");
    assert_eq!(browser.ask(&cell("parser", "outcome")), "stopped");
    assert_eq!(browser.ask(&cell("other", "cost")), "");
    let usage = place.run(&["usage", "parser"]);
    let cost = browser.ask(&cell("parser", "cost"));
    assert!(usage.contains(cost.as_str().unwrap()), "{cost}: {usage}");
    for kind in ["prompt", "edit"] {
        let bars = format!(
            "document.querySelector('[data-session=parser] .spark path.{kind}').getTotalLength() > 0"
        );
        assert_eq!(browser.ask(&bars), json!(true), "{kind}");
    }
    let picture = "document.querySelector('[data-session=parser] .spark svg').ariaLabel";
    assert!(browser.ask(picture).as_str().unwrap().contains("10 prompts"));
    // What waits for a decision stands above the list, and leaves it once it is decided.
    let chip = "[...document.querySelectorAll('.chip')].find((one) => one.innerText.startsWith('Conflicts to decide'))";
    assert_eq!(browser.ask(&format!("{chip}.innerText")), "Conflicts to decide\n1");
    browser.ask(&format!("{chip}.click()"));
    browser.wait("document.querySelectorAll('.session-line').length === 1 && location.search === '?undecided=true'");
    assert_eq!(
        browser.ask("document.querySelector('.session-line .conflicts').innerText"),
        "1 conflict"
    );
    let _ = place.run(&["resolve", "--all", "--take", "ours", "--branch", "lexer/both"]);
    browser.wait("!document.querySelector('.session-line .conflicts')");
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn sessions_that_expire_soon_and_secrets_that_were_found_wait_above_the_list() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new(PROGRAM);
    let token = github_token(1);
    say(&place, "leaky/main", &format!("use {token} to push"), ["a\n", "b\n"], &[]);
    say(&place, "short/main", "hello", ["a\n", "b\n"], &[]);
    say(&place, "long/main", "hello", ["a\n", "b\n"], &[]);
    let served = Served::start(&place, &[]);
    let chips = "[...document.querySelectorAll('.waiting .chip')].map((one) => one.innerText)";
    browser.visit(&address(&served, "/", ""));
    browser.wait(&format!("document.querySelectorAll('.session-line').length === 3 && {LIVE}"));
    assert_eq!(browser.ask(chips), json!([]), "no page scans for secrets");
    let _ = place.run(&["retention", "set", "short", "--expire-session", "3d"]);
    let _ = place.run(&["retention", "set", "long", "--expire-session", "30d"]);
    let scan = place.command(&["secrets", "scan", "--all"]).output().unwrap();
    let said = String::from_utf8(scan.stdout).unwrap();
    assert_eq!(scan.status.code(), Some(1), "{said}");
    browser.visit(&address(&served, "/", ""));
    browser.wait("document.querySelectorAll('.waiting .chip').length === 2");
    assert_eq!(browser.ask(chips), json!(["Forgotten within a week\n1", "Secrets found\n1"]));
    let shown = "[...document.querySelectorAll('.session-line')].map((one) => [one.dataset.session, one.querySelector('.conflicts').innerText])";
    browser.click(".waiting .chip:last-child");
    browser.wait("location.search === '?secrets=true' && document.querySelectorAll('.session-line').length === 1");
    assert_eq!(browser.ask(shown), json!([["leaky", "1 secret"]]));
    // Other words of the session change nothing about what was found; a decision does.
    say(&place, "leaky/main", "go on", ["c\n", "b\n"], &[]);
    browser.wait("document.querySelectorAll('.session-line .conflicts').length === 1");
    let _ = place.run(&["secrets", "allow", "github-token"]);
    say(&place, "leaky/main", "and on", ["d\n", "b\n"], &[]);
    browser.wait("!document.querySelector('.session-line .conflicts')");
    browser.visit(&address(&served, "/?expiring=true", ""));
    browser.wait("document.querySelectorAll('.session-line').length === 1");
    assert_eq!(browser.ask("document.querySelector('.session-line').dataset.session"), "short");
    let _ = place.run(&["pin", "short/main"]);
    browser.wait("!document.querySelector('.session-line')");
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn sessions_that_the_budget_of_the_store_forgets_wait_above_the_list() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new(PROGRAM);
    let noise = claude_code_of_noise(6, 30_000);
    let noise = noise.as_bytes().chunks(noise.len() / 3);
    fs::create_dir_all(place.path().join("work")).unwrap();
    for ((session, day), part) in [("new", 3), ("old", 1), ("kept", 2)].into_iter().zip(noise) {
        place.write("noise.txt", std::str::from_utf8(part).unwrap());
        let words = ["snapshot", "-m", session, "--session", session, "--workspace", "work"];
        let mut command = place.command(&words);
        let made = command.env("TURNTREE_NOW", format!("2020-11-0{day}T10:00:00Z")).output();
        assert!(made.unwrap().status.success(), "{session}");
    }
    let served = Served::start(&place, &[]);
    browser.visit(&address(&served, "/", ""));
    browser.wait(&format!("document.querySelectorAll('.session-line').length === 3 && {LIVE}"));
    let chips = "document.querySelectorAll('.waiting .chip').length";
    assert_eq!(browser.ask(chips), json!(0));
    let _ = place.run(&["retention", "set", "--whole-store", "--budget", "600kB"]);
    browser.visit(&address(&served, "/?expiring=true", ""));
    let shown = "[...document.querySelectorAll('.session-line')].map((one) => one.dataset.session)";
    browser.wait("document.querySelectorAll('.session-line').length === 2");
    assert_eq!(browser.ask(shown), json!(["kept", "old"]));
    let _ = place.run(&["pin", "kept/main"]);
    browser.wait("document.querySelectorAll('.session-line').length === 1");
    assert_eq!(browser.ask(shown), json!(["old"]));
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn a_search_from_everywhere_and_neighbours_lead_on_and_back_leads_to_the_list() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new(PROGRAM);
    for session in 0..9 {
        let words = format!("about lexer {session}");
        say(&place, &format!("s{session}/main"), &words, ["a\n", "b\n"], &[]);
    }
    let served = Served::start(&place, &[]);
    browser.resize(1500, 800);
    browser.visit(&address(&served, "/", ""));
    browser.wait(&format!("document.querySelectorAll('.session-line').length === 9 && {LIVE}"));
    browser.click("[data-session=s4]");
    browser.wait(&format!("location.pathname === '/s/s4' && {LIVE}"));
    // The list stays beside what is read, where there is room.
    browser.wait("document.querySelectorAll('.beside-line').length === 9");
    assert_eq!(
        browser.ask("document.querySelector('.beside-line[aria-current]').dataset.session"),
        "s4"
    );
    browser.press("]");
    browser.wait(&format!("location.pathname === '/s/s3' && {LIVE}"));
    browser.press("[");
    browser.wait(&format!("location.pathname === '/s/s4' && {LIVE}"));
    browser.wait("document.querySelectorAll('.beside-line').length === 9");
    browser.click(".beside-line[data-session=s6]");
    browser.wait(&format!("location.pathname === '/s/s6' && {LIVE}"));
    browser.resize(1200, 800);
    assert_eq!(browser.ask("document.querySelector('#beside').offsetWidth"), json!(0));
    // Words of any session, and once more without typing them.
    let open = "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'k', ctrlKey: true, bubbles: true}))";
    browser.ask(open);
    browser.wait("document.querySelector('#palette').open");
    browser.write("lexer 2");
    browser.wait("document.querySelectorAll('#palette .group .hit').length > 0");
    assert_eq!(
        browser.ask("document.querySelector('#palette .group h3 a').innerText"),
        "about lexer 2"
    );
    browser.press("ArrowDown");
    assert_eq!(browser.ask("document.activeElement.dataset.session"), "s2");
    browser.click("#palette .session-line[data-session=s2]");
    browser.wait(&format!("location.pathname === '/s/s2' && {LIVE}"));
    browser.ask(open);
    browser.wait("document.querySelector('#palette .chip')?.innerText === 'lexer 2'");
    browser.press("Escape");
    browser.wait("!document.querySelector('#palette')");
    browser.ask(&open.replace("ctrlKey", "metaKey"));
    browser.wait("document.querySelector('#palette').open");
    browser.click("#palette .chip");
    browser.wait("document.querySelector('#palette .hit')");
    browser.press("Escape");
    // Each session that was looked at by key or link is one step: the row is the one that led away.
    browser.visit(&address(&served, "/", ""));
    browser.wait(&format!("document.querySelectorAll('.session-line').length === 9 && {LIVE}"));
    browser.click("[data-session=s7]");
    browser.wait(&format!("location.pathname === '/s/s7' && {LIVE}"));
    browser.press("]");
    browser.wait(&format!("location.pathname === '/s/s6' && {LIVE}"));
    browser.ask("history.back()");
    browser.wait("location.pathname === '/' && document.activeElement?.dataset.session === 's7'");
    for width in [390, 768, 1280, 1920] {
        browser.resize(width, 800);
        assert_eq!(browser.ask("document.documentElement.scrollWidth <= innerWidth"), json!(true));
    }
    assert_eq!(browser.problems(), Vec::<String>::new());
}
