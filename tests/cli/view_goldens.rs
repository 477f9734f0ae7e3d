//! Compares the screens that only a server of `turntree view` has with
//! [pictures](turntree_tests::pictures) of them, in two themes and two widths.

use std::fs;
use std::path::Path;

use serde_json::json;
use turntree_tests::browser::Browser;
use turntree_tests::pictures::Pictures;
use turntree_tests::server_process::Place;

use super::view::Served;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");
const WIDTHS: [u32; 2] = [320, 1440];
const HEIGHT: u32 = 800;

/// Runs the program at a time long ago, so that pages show the date and no relative time.
fn done(place: &Place, minute: u32, words: &[&str]) {
    let mut command = place.command(words);
    let output = command.env("TURNTREE_NOW", format!("2020-05-17T10:{minute:02}:00Z")).output();
    let output = output.unwrap();
    // A merge with conflicts exits with 1, but is done.
    let is_done = matches!(output.status.code(), Some(0 | 1));
    assert!(is_done, "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Commits a turn with a message of the user and a note.
fn say(place: &Place, minute: u32, branch: &str, words: &str, note: &str) {
    let state = json!({
        "agents": {"main": {"messages": [{"role": "user", "content": words}]}},
        "scratchpad": {"plan": {"content": note}},
    });
    fs::write(place.path().join("state.json"), state.to_string()).unwrap();
    let (session, branch) = branch.split_once('/').unwrap();
    let at = ["--state", "state.json", "--session", session, "--branch", branch];
    done(place, minute, &[&["snapshot", "-m", words, "--workspace", "work"], &at[..]].concat());
}

/// True if an element is visible, else clicks `by`. The page may be redrawn between two checks.
fn opened(wanted: &str, by: &str) -> String {
    format!(
        "document.querySelector('{wanted}') || (document.querySelector('{by}')?.click(), false)"
    )
}

/// Three sessions: one has two strategies that were merged with a conflict, a pin, a tag and
/// labels.
fn store() -> Place {
    let place = Place::new(PROGRAM);
    fs::create_dir(place.path().join("work/src")).unwrap();
    place.write("notes.txt", "first\nsecond\n");
    place.write("src/lexer.rs", "fn lexer() {\n    begin();\n}\n");
    say(&place, 0, "lexer/main", "Write a lexer for the small language", "one pass");
    place.write("src/lexer.rs", "fn lexer() {\n    begin();\n    go_on();\n}\n");
    say(&place, 1, "lexer/main", "Make the lexer faster", "two passes");
    done(&place, 2, &["fork", "plan-b", "lexer/main"]);
    say(&place, 3, "lexer/plan-b", "Try a table for the lexer", "a table");
    say(&place, 4, "lexer/main", "Keep the lexer by hand", "by hand");
    done(&place, 5, &["merge", "lexer/plan-b", "--into", "lexer/main"]);
    say(&place, 6, "parser/main", "A parser on top of the lexer", "recursive descent");
    say(&place, 7, "notes/main", "What is left of the lexer to do", "much");
    done(&place, 8, &["pin", "lexer/main~1", "--name", "kept", "--reason", "it was fast"]);
    done(&place, 9, &["tag", "v1", "lexer/main~1"]);
    done(&place, 10, &["session", "label", "lexer", "draft", "fast"]);
    place
}

#[test]
fn every_screen_that_is_served_looks_as_in_its_picture() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cli/view_goldens");
    let mut pictures = Pictures::of(folder, &mut browser);
    let place = store();
    let served = Served::start(&place, &["--allow-changes"]);
    for width in WIDTHS {
        browser.resize(width, HEIGHT);
        for (name, address, hash, is_there) in [
            ("sessions", "", "", "document.querySelectorAll('.session-line').length === 3"),
            ("operations", "operations", "", "document.querySelectorAll('.operation').length > 8"),
            ("storage", "storage", "", "document.querySelector('[data-pin=kept]')"),
            (
                "files",
                "s/lexer",
                "&files-2",
                "document.querySelectorAll('.folder .path').length === 2",
            ),
            (
                "blame",
                "s/lexer",
                "&files-2:src%2Flexer.rs",
                "document.querySelectorAll('.blame').length === 4",
            ),
            ("conflicts", "s/lexer", "&conflicts", "document.querySelector('.file .row.add')"),
            ("overview", "s/lexer", "&overview", "document.querySelector('.overview .tile')"),
            ("compare", "s/lexer", "&compare", "document.querySelector('.compare tbody')"),
            ("charts", "s/lexer", "&charts", "document.querySelector('.chart rect')"),
            ("diff", "s/lexer", "&diff-1..3", "document.querySelector('.viewable .row.add')"),
        ] {
            browser.visit(&format!(
                "http://127.0.0.1:{}/{address}#key={}{hash}",
                served.port, served.key
            ));
            browser.wait("document.querySelector('#state').dataset.good === 'true'");
            // Pages about the store are reread when the server connects.
            browser.wait(&format!("!document.querySelector('#view [aria-busy]') && {is_there}"));
            match name {
                "sessions" => {
                    pictures.look(&mut browser, &format!("{name}-{width}"));
                    browser.press("/");
                    browser.write("the lexer");
                    browser.wait(
                        "document.querySelectorAll('.hits section:first-child .hit').length > 3",
                    );
                    // The content below depends on how long the searches took.
                    browser.ask("[...document.querySelector('.hits').children].slice(1).forEach((one) => one.remove())");
                    pictures.look(&mut browser, &format!("hits-{width}"));
                }
                "operations" => {
                    browser.wait(&opened(
                        ".operation .file-line",
                        ".operation:first-child details:not([open]) summary",
                    ));
                    pictures.look(&mut browser, &format!("{name}-{width}"));
                }
                _ => pictures.look(&mut browser, &format!("{name}-{width}")),
            }
        }
        // A change, from its form to its plan.
        browser.visit(&format!("http://127.0.0.1:{}/s/lexer#key={}", served.port, served.key));
        // The page behind the sheet is loaded, too.
        browser.wait("document.querySelector('#state').dataset.good === 'true' && document.querySelector('#bar [href=\"#compare\"]')");
        let offer = "[...document.querySelectorAll('.offers button')].find((one) => one.textContent.startsWith('Label'))";
        let is_asked = "document.querySelector('#change [name=title]')";
        browser.wait(&format!("{is_asked} || ({offer}?.click(), false)"));
        browser.wait("document.activeElement.name === 'title'");
        browser.write("The lexer");
        pictures.look(&mut browser, &format!("asked-{width}"));
        browser.click("#change .main");
        browser.wait("document.querySelector('#plan')");
        pictures.look(&mut browser, &format!("plan-{width}"));
    }
    pictures.end();
    assert_eq!(browser.problems(), Vec::<String>::new());
}
