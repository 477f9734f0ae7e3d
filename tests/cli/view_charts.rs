//! Charts of a session in `turntree view`, and differences with a tree of files and marks.

use std::fs;

use serde_json::json;
use turntree_tests::browser::Browser;
use turntree_tests::claude_code;
use turntree_tests::server_process::Place;

use super::view::Served;
use super::view_first_look::{LIVE, address, say, strategies};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// A transcript whose context grows, with an agent that a call started.
fn told() -> String {
    let counts = r#""model":"claude-opus-4-5","usage":{"input_tokens":COUNT,"cache_read_input_tokens":3000,"output_tokens":500}"#;
    let lines = claude_code(40);
    let lines = lines.lines().enumerate().map(|(number, line)| {
        let counts = counts.replace("COUNT", &(1000 + number * 100).to_string());
        format!("{}\n", line.replace(r#""model":"model-1""#, &counts))
    });
    lines.collect()
}

#[test]
fn charts_lead_to_what_they_show_and_say_it_in_tables() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new(PROGRAM);
    fs::write(place.path().join("t.jsonl"), told()).unwrap();
    let _ = place.run(&["import", "t.jsonl", "--session", "parser"]);
    let served = Served::start(&place, &[]);
    browser.resize(1280, 800);
    browser.visit(&address(&served, "/s/parser", ""));
    browser.wait(&format!("{LIVE} && document.querySelector('.overview .tile')"));
    browser.press("p");
    browser.wait("document.querySelector('[aria-label=Charts] .chart')");
    let titles =
        "[...document.querySelectorAll('.part-title')].map((one) => one.firstChild.textContent)";
    assert_eq!(browser.ask(titles), json!(["Context", "Files by prompt", "Time by tool"]));
    // Each chart has a name, labelled links, and a table.
    let charts = browser.ask("[...document.querySelectorAll('.chart')].every((one) => one.ariaLabel && one.querySelector('a title').textContent)");
    assert_eq!(charts, json!(true));
    assert_eq!(browser.ask("document.querySelectorAll('.part details').length"), json!(2));
    browser.ask("document.querySelectorAll('.part details')[1].open = true");
    browser.wait(
        "document.querySelectorAll('.part details')[1].querySelectorAll('tbody tr').length > 10",
    );
    // A square of the heat is the difference that a prompt made in a file.
    let square = "document.querySelectorAll('.chart')[1].querySelector('a')";
    let words = browser.ask(&format!("{square}.ariaLabel"));
    assert!(words.as_str().unwrap().contains(".rs, prompt"), "{words}");
    browser.ask(&format!("location.hash = {square}.getAttribute('href')"));
    browser.wait("document.querySelector('.wanted[open] .row.add')");
    // A place of the context is a turn.
    browser.ask("location.hash = '#charts'");
    browser.wait("document.querySelector('.chart a')");
    browser.click(".chart a:nth-of-type(3) .touch");
    browser.wait("document.body.dataset.route === 'read'");
    for width in [360, 768, 1920] {
        browser.resize(width, 800);
        browser.ask("location.hash = '#charts'");
        browser.wait("document.querySelector('.chart')");
        assert_eq!(browser.ask("document.documentElement.scrollWidth <= innerWidth"), json!(true));
        browser.ask("location.hash = '#overview'");
        browser.wait("document.querySelector('.overview')");
    }
    // An exported page has them, too.
    let file = place.path().join("page.html");
    let _ = place.run(&["export", "parser", "--format", "html", "-o", file.to_str().unwrap()]);
    browser.open(&file, "#charts");
    browser.wait("document.querySelectorAll('.chart').length === 2");
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn agents_stand_on_a_clock() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new(PROGRAM);
    for (turn, agent) in ["main", "helper", "helper", "other", "main"].into_iter().enumerate() {
        let words = format!("user=step {turn}");
        let at = ["snapshot", "-m", "step", "--session", "team", "--append-message", &words];
        let mut command = place.command(&[&at[..], &["--append-to", agent]].concat());
        let made = command.env("TURNTREE_NOW", format!("2026-11-20T10:0{turn}:00Z")).output();
        assert!(made.unwrap().status.success(), "{turn}");
    }
    let served = Served::start(&place, &[]);
    browser.visit(&address(&served, "/s/team", "&charts"));
    browser.wait(&format!("{LIVE} && document.querySelector('[aria-label=Charts] .chart')"));
    let names = "[...document.querySelectorAll('.chart a')].map((one) => one.ariaLabel)";
    let told =
        json!(["helper \u{b7} 2m 00s \u{b7} 2 messages", "other \u{b7} 1m 00s \u{b7} 1 message"]);
    assert_eq!(browser.ask(names), told);
    // The second begins where the first one ends.
    let ends = "[...document.querySelectorAll('.chart rect')].map((one) => [Number(one.getAttribute('x')), Number(one.getAttribute('width'))])";
    let ends = browser.ask(ends);
    let number = |at: usize, side: usize| ends[at][side].as_f64().unwrap();
    assert!((number(0, 0) + number(0, 1) - number(1, 0)).abs() < 1.0, "{ends}");
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn a_difference_has_a_tree_of_files_marks_and_two_columns() {
    let Some(mut browser) = Browser::start() else { return };
    let place = strategies();
    let served = Served::start(&place, &[]);
    browser.resize(1500, 900);
    browser.visit(&address(&served, "/s/lexer", "&diff-30..31@plan-b"));
    browser.wait(&format!("{LIVE} && document.querySelectorAll('.viewable').length === 2"));
    // A folder with one folder in it is one step of the tree.
    let tree =
        "[...document.querySelectorAll('.tree li')].map((one) => one.firstChild.textContent)";
    assert_eq!(browser.ask(tree), json!(["one/two/", "deep.txt", "top.txt"]));
    browser.click(".tree a");
    browser.wait("document.querySelector('.wanted')?.dataset.path === 'one/two/deep.txt'");
    // A file that was looked at is closed, also the next time, until it is written again.
    browser.click(".viewable:has([data-path='top.txt']) > input");
    browser.wait("document.querySelector('.part [role=status]').innerText === '2, 1 viewed'");
    let is_open = "document.querySelector('[data-path=\"top.txt\"]').open";
    assert_eq!(browser.ask(is_open), json!(false));
    browser.visit(&address(&served, "/s/lexer", "&diff-30..31@plan-b"));
    browser.wait("document.querySelector('.part [role=status]')?.innerText === '2, 1 viewed'");
    assert_eq!(browser.ask(is_open), json!(false));
    browser.ask("[...document.querySelectorAll('.picks .button')].at(-1).click()");
    browser.wait("document.querySelector('.row.two .add')");
    let sides = "[...document.querySelector('[data-path=\"one/two/deep.txt\"] .row.two').children].map((one) => [one.className, one.textContent])";
    assert_eq!(
        browser.ask(sides),
        json!([["del", "1"], ["del", "a"], ["add", "1"], ["add", "table"]])
    );
    for width in [1500, 1000, 400] {
        browser.resize(width, 900);
        assert_eq!(browser.ask("document.documentElement.scrollWidth <= innerWidth"), json!(true));
    }
    say(&place, "lexer/plan-b", "again", ["table\n", "more\n"], &[]);
    browser.visit(&address(&served, "/s/lexer", "&diff-30..32@plan-b"));
    browser.wait("document.querySelector('.part [role=status]')?.innerText === '2'");
    assert_eq!(browser.problems(), Vec::<String>::new());
}
