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
    // A row keeps the focus, whether it changes or not: that of a strategy that runs does.
    browser.ask("document.querySelector('.compare tbody a').focus()");
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
