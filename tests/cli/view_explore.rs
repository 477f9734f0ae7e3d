//! An exploration on the page of its session, while it runs and when it is over.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::json;
use turntree_tests::browser::Browser;
use turntree_tests::server_process::Place;

use super::view::Served;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// A stand-in for an agent: it records two steps. The strategies whose names end with 7 wait for a file.
const AGENT: &str = r#"#!/bin/sh
set -e
for step in 1 2; do
  echo "$step" > answer.txt
  printf '{"role":"assistant","content":"step %s","usage":{"input_tokens":100,"output_tokens":1}}\n' "$step" > "../$TURNTREE_STRATEGY.message"
  "$TURNTREE" snapshot -m "step $step of $TURNTREE_STRATEGY" --append "../$TURNTREE_STRATEGY.message" --workspace . > /dev/null
done
case "$TURNTREE_STRATEGY" in
  *7) while [ ! -e ../go ]; do sleep 0.05; done ;;
esac
"#;

const CHECK: &str = "case $TURNTREE_STRATEGY in *[05]) echo score: 1;; *) exit 1;; esac";

#[test]
fn sixty_four_strategies_in_eight_jobs_are_watched_on_the_page() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new(PROGRAM);
    place.write("answer.txt", "none\n");
    let words = ["snapshot", "-m", "begin", "--append-message", "user=go", "--workspace", "work"];
    let _ = place.run(&words);
    let strategy = |number| format!("[[strategy]]\nname = \"s{number:02}\"\nprompt = \"p\"\n");
    fs::write(place.path().join("strategies.toml"), (1..=64).map(strategy).collect::<String>())
        .unwrap();
    let agent = place.path().join("agent.sh");
    fs::write(&agent, AGENT).unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    let trees = tempfile::tempdir().unwrap();
    let folder = trees.path().to_str().unwrap();
    let mut words = vec!["explore", "--file", "strategies.toml", "--jobs", "8", "--check", CHECK];
    words.extend(["--folder", folder, "--", agent.to_str().unwrap()]);
    let mut command = place.command(&words);
    command.env("TURNTREE", PROGRAM).stdout(Stdio::null()).stdin(Stdio::null());
    let mut exploring = command.spawn().unwrap();
    let served = Served::start(&place, &["main"]);
    let url = format!("http://127.0.0.1:{}/s/default#key={}&explore", served.port, served.key);
    browser.visit(&url);
    let rows = |state: &str| {
        format!(
            "[...document.querySelectorAll('.compare tbody tr')].filter((row) => \
             row.cells[1]?.textContent.startsWith('{state}')).length"
        )
    };
    browser.wait(&format!("{} > 0", rows("runs")));
    // What the agents wait for holds the last of them: the page has seen all others end.
    browser.wait(&format!("{} === 46 && {} === 12", rows("\\u2717"), rows("\\u2713")));
    browser.wait(&format!("{} === 6 && {} === 0", rows("runs"), rows("waits")));
    assert_eq!(browser.ask("document.querySelectorAll('.compare tbody tr').length"), json!(64));
    browser.wait(
        "document.querySelector('.compare tbody tr .step').textContent.startsWith('step 2 of s')",
    );
    // A row that does not change keeps the focus.
    browser.ask("[...document.querySelectorAll('.compare tbody a')].at(-1).focus()");
    fs::write(trees.path().join("go"), "").unwrap();
    assert_eq!(exploring.wait().unwrap().code(), Some(0));
    browser.wait(&format!("{} === 0 && {} === 12", rows("runs"), rows("\\u2713")));
    browser.wait("document.querySelector('.facts').textContent.startsWith('over')");
    assert_eq!(browser.ask("document.activeElement.closest('tbody') !== null"), json!(true));
    // Each strategy has its line in the picture, with its outcome at the end. A page has at most
    // 64 branches of a session, and main is one of them.
    browser.wait("document.querySelectorAll('#map .lane .tip.passed').length >= 11");
    browser.wait("document.querySelectorAll('#map .lane .tip.failed').length >= 45");
    for width in [320, 1440] {
        browser.resize(width, 900);
        let fits = "document.documentElement.scrollWidth <= innerWidth";
        assert_eq!(browser.ask(fits), json!(true), "{width}");
    }
    browser.click(".compare tbody tr:first-child a");
    browser.wait(
        "location.hash.startsWith('#turn-') && document.querySelector('#bar a[href=\"#explore\"]')",
    );
    browser.click("#bar a[href=\"#explore\"]");
    browser.wait("document.querySelector('.compare tbody .best')");
    assert_eq!(browser.problems(), Vec::<String>::new());
}

/// The messages of a turn in which an agent runs a command.
fn called(command: &str, printed: &str) -> String {
    let call =
        json!({"type": "tool_use", "id": command, "name": "Bash", "input": {"command": command}});
    let result = json!({"type": "tool_result", "tool_use_id": command, "content": printed});
    let call = json!({"role": "assistant", "content": [call]});
    format!("{call}\n{}\n", json!({"role": "user", "content": [result]}))
}

#[test]
fn aligned_branches_are_a_picture_with_tables_that_lead_to_the_turns() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new(PROGRAM);
    let turn = |branch: &str, command: &str, printed: &str, content: &str, more: &[&str]| {
        place.write("answer.txt", content);
        fs::write(place.path().join("turn.jsonl"), called(command, printed)).unwrap();
        let words = ["snapshot", "-m", command, "--branch", branch, "--append", "turn.jsonl"];
        let _ = place.run(&[&words[..], &["--workspace", "work"], more].concat());
    };
    place.write("answer.txt", "none");
    let words = ["snapshot", "-m", "begin", "--append-message", "user=go", "--workspace", "work"];
    let _ = place.run(&words);
    for name in ["cache", "cache-b", "pool", "pool-b"] {
        let _ = place.run(&["fork", name, "main"]);
        turn(name, "make", "ok", "none", &[]);
    }
    for name in ["cache", "cache-b"] {
        turn(name, "fix the cache", "ok", "half", &[]);
        let last = if name == "cache" { "test" } else { "test again" };
        turn(name, last, "ok", "done", &["--check", "tests=passed"]);
    }
    turn("pool", "fix the pool", "ok", "none", &[]);
    turn("pool", "give up", "ok", "other", &["--check", "tests=failed"]);
    turn("pool-b", "fix the pool", "ok", "none", &["--check", "tests=failed"]);

    let served = Served::start(&place, &["main"]);
    browser
        .visit(&format!("http://127.0.0.1:{}/s/default#key={}&compare", served.port, served.key));
    browser.wait("document.querySelector('a[href=\"#align\"]')");
    browser.click("a[href=\"#align\"]");
    browser.wait("document.querySelector('svg.aligned')");
    let facts = "4 branches \u{b7} 1 step in common \u{b7} step 2 separates passed from failed";
    assert_eq!(browser.ask("document.querySelector('#view .facts').textContent"), json!(facts));
    let count =
        |selector: &str| format!("document.querySelectorAll('svg.aligned {selector}').length");
    for (selector, number) in
        [(".fork", 3), (".tip.passed", 2), (".tip.failed", 2), (".met", 2), (".decides", 1)]
    {
        assert_eq!(browser.ask(&count(selector)), json!(number), "{selector}");
    }
    let rows = |table: &str| {
        format!(
            "[...document.querySelectorAll('[aria-label=\"{table}\"] tbody tr')].map((row) => \
             [...row.cells].map((cell) => cell.textContent).join(' | '))"
        )
    };
    assert_eq!(
        browser.ask(&rows("The step that decides")),
        json!([
            "step 2 | Bash fix the cache | cache, cache-b | 2 | 0",
            "step 2 | Bash fix the pool | pool, pool-b | 0 | 2"
        ])
    );
    assert_eq!(
        browser.ask(&rows("Where they part")),
        json!([
            "step 2 | Bash fix the cache | cache, cache-b | 2 | 0",
            "step 2 | Bash fix the pool | pool, pool-b | 0 | 2",
            "step 3 | Bash test | cache | 1 | 0",
            "step 3 | Bash test again | cache-b | 1 | 0",
            "step 3 | Bash give up | pool | 0 | 1",
            "step 3 | no further step | pool-b | 0 | 1"
        ])
    );
    assert_eq!(
        browser.ask(&rows("Branches")),
        json!([
            "cache | \u{2713} passed | 3 | 3 | turn 4 as cache-b, turn 4",
            "cache-b | \u{2713} passed | 3 | 3 | turn 4 as cache, turn 4",
            "pool | \u{2717} failed | 3 | 3 | \u{2013}",
            "pool-b | \u{2717} failed | 2 | 3 | \u{2013}"
        ])
    );
    for width in [320, 1440] {
        browser.resize(width, 900);
        let fits = "document.documentElement.scrollWidth <= innerWidth";
        assert_eq!(browser.ask(fits), json!(true), "{width}");
    }
    // A branch that grows is aligned anew.
    turn("pool-b", "stop", "ok", "other", &["--check", "tests=failed"]);
    browser.wait("document.querySelector('[aria-label=\"Branches\"] tbody').textContent.includes('as pool-b')");
    browser.click("[aria-label=\"Where they part\"] tbody tr:first-child td a");
    browser.wait("location.hash.includes('turn-3@cache')");
    assert_eq!(browser.problems(), Vec::<String>::new());
}
