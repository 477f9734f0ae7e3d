//! `turntree view` in a browser: the list of sessions, the story of each, and live updates.

use std::fs;
use std::path::Path;

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

/// Commits a turn with a message of the user.
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
    // The search finds sessions by title, and places by text.
    browser.press("/");
    browser.write("part 8 of");
    browser.wait(
        "document.querySelectorAll('.session-line').length === 0 || document.querySelector('.hit')",
    );
    browser.wait("document.querySelector('.hits .hit mark')?.textContent === 'part 8 of'");
    browser.click(".hits .hit");
    browser.wait("location.pathname === '/s/parser' && CSS.highlights?.get('found')?.size > 0");
    assert!(browser.ask("location.hash").as_str().unwrap().starts_with("#turn-"));

    // The same text at the same addresses as in an exported file.
    let file = place.path().join("page.html");
    let _ = place.run(&["export", "parser", "--format", "html", "-o", file.to_str().unwrap()]);
    let places = [
        ("#overview", ".page"),
        ("#prompt-3", "[aria-label='Prompt 3']"),
        ("#diff-2..9", ".page"),
        ("#compare", ".compare"),
    ];
    for (address, selector) in places {
        // Doors are left out: actions and commands of the store are only where a server is.
        let text = format!(
            "(() => {{ const one = document.querySelector(\"#view {selector}\").cloneNode(true); \
             one.querySelectorAll('.doors, .file-line .quiet').forEach((door) => door.remove()); \
             return one.textContent; }})()"
        );
        browser.open(&file, address);
        browser.wait(&format!("{text}.length > 20"));
        let in_file = browser.ask(&text);
        let (port, key) = (served.port, &served.key);
        let url = format!("http://127.0.0.1:{port}/s/parser#key={key}&{}", &address[1..]);
        browser.visit(&url);
        browser.wait(&format!("{text} === {in_file}"));
        browser.wait("document.querySelector('#state').dataset.good === 'true'");
    }
    // The server does searches in a session.
    browser.press("/");
    browser.write("part 12 of");
    browser.wait(
        "document.querySelector('[data-done=\"true\"] .hit mark')?.textContent === 'part 12 of'",
    );
    clean(&mut browser);
}

/// Delays all of a story except its beginning until the page calls `release()`.
const HOLDING: &str = "
const real = window.fetch;
const gate = new Promise((kept) => { window.release = kept; });
window.fetch = async (address, given) => {
  if (/^\\/api\\/story.*&from=\\w/.test(address)) await gate;
  return real(address, given);
};";

#[test]
fn a_long_story_begins_at_its_newest_turns() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new(PROGRAM);
    imported(&place, "parser", 400);
    let served = Served::start(&place, &["parser"]);
    browser.before(HOLDING);
    browser.visit(&served.url);
    // The first answer is the end of the story.
    browser.wait(
        "document.querySelector('.overview')?.textContent.includes('older ones are on their way')",
    );
    browser.wait("document.querySelector('#about').textContent && !document.querySelector('#about').textContent.startsWith('400 ')");
    let first = "document.querySelector('#rows .chapter b')?.textContent";
    browser.wait(&format!("{first} && {first} !== '1'"));
    browser.ask("release()");
    browser.wait("document.querySelector('#about').textContent.startsWith('400 turns')");
    browser.wait("!document.querySelector('.overview').textContent.includes('on their way')");
    browser.wait(&format!("{first} === '1'"));

    // The scroll position stays when older turns are loaded above it.
    browser.visit(&format!("{}&read", served.url));
    browser.wait("document.querySelector('[aria-label=\"Turn 400\"]:not([aria-busy])')");
    // Two prompts up, so that the end is not visible.
    for turn in [397, 393] {
        browser.press("{");
        browser.wait(&format!("location.hash === '#turn-{turn}'"));
    }
    browser.wait("(() => { const v = document.querySelector('#view'); return v.scrollTop + v.clientHeight < v.scrollHeight - 200; })()");
    let top = "Math.round(document.querySelector('[aria-label=\"Prompt 99\"]').getBoundingClientRect().top)";
    browser.wait(&format!("{top} > 0"));
    let before = browser.ask(top).as_i64().unwrap();
    browser.ask("release()");
    browser.wait("document.querySelector('#about').textContent.startsWith('400 turns')");
    browser.wait(&format!("Math.abs({top} - {before}) <= 2"));
    assert_eq!(browser.ask("location.hash"), json!("#turn-393"));
    // The page waits for a turn that is not loaded yet.
    browser.visit(&served.url);
    browser.wait("document.querySelector('.overview')?.textContent.includes('on their way')");
    browser.ask("location.hash = '#turn-3'");
    browser.ask("release()");
    browser.wait("location.hash === '#turn-3' && document.querySelector('[aria-label=\"Turn 3\"]:not([aria-busy])')");
    clean(&mut browser);
}

#[test]
fn an_address_in_a_long_story_is_shown_as_soon_as_that_is_there() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new(PROGRAM);
    imported(&place, "parser", 400);
    let _ = place.run(&["fork", "plan-b", "parser~350"]);
    let served = Served::start(&place, &["parser/main"]);
    let (port, key) = (served.port, &served.key);
    let url = |hash: &str| format!("http://127.0.0.1:{port}/s/parser#key={key}&{hash}");
    let is_waiting = "document.querySelector('#view').textContent.includes('on their way')";
    browser.before(HOLDING);
    // Loaded turns are shown while others load.
    browser.visit(&url("turn-390"));
    browser.wait("document.querySelector('[aria-label=\"Turn 390\"]:not([aria-busy])')");
    assert_eq!(
        browser.ask("document.querySelector('#about').textContent.startsWith('100 ')"),
        json!(true)
    );
    let late = [
        ("turn-3", "document.querySelector('[aria-label=\"Turn 3\"]:not([aria-busy])')"),
        (
            "overview@plan-b",
            "document.querySelector('.overview .facts')?.textContent.includes('plan-b')",
        ),
        (
            "search=part 8 of",
            "document.querySelector('[data-done=true] .hit mark')?.textContent === 'part 8 of'",
        ),
    ];
    for (hash, shown) in late {
        browser.go(&url(hash));
        if !hash.starts_with("search") {
            browser.wait(is_waiting);
        }
        browser.wait("document.querySelector('#about').textContent.startsWith('100 ')");
        assert_eq!(browser.ask(&format!("Boolean({shown})")), json!(false), "{hash}");
        browser.ask("release()");
        browser.wait(shown);
    }
    clean(&mut browser);
}

#[test]
fn a_story_goes_on_when_its_server_ended_while_it_was_told() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new(PROGRAM);
    imported(&place, "parser", 400);
    let served = Served::start(&place, &["parser"]);
    browser.before(HOLDING);
    browser.visit(&served.url);
    browser.wait("document.querySelector('.overview')?.textContent.includes('on their way')");
    let port = served.port.to_string();
    drop(served);
    browser.ask("release()");
    browser.wait("document.querySelector('#state').textContent.startsWith('not connected')");
    assert_eq!(browser.ask("Boolean(document.querySelector('.overview'))"), json!(true));
    let again = Served::start(&place, &["--port", &port]);
    browser.wait("document.querySelector('#state').textContent.includes('started anew')");
    browser.ask(&format!("new BroadcastChannel('turntree').postMessage({{key: '{}'}})", again.key));
    browser.wait("document.querySelector('#about').textContent.startsWith('400 turns')");
    browser.wait("!document.querySelector('.overview').textContent.includes('on their way')");
}

#[test]
fn a_story_that_has_grown_is_the_one_that_is_read_anew() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new(PROGRAM);
    imported(&place, "parser", 20);
    let _ = place.run(&["fork", "plan-b", "parser~5"]);
    let _ = place.run(&["switch", "parser/main"]);
    let served = Served::start(&place, &["parser"]);
    let all = |number: usize| {
        format!("document.querySelector('#about').textContent.includes('{number} turns')")
    };
    browser.visit(&served.url);
    browser.wait("document.querySelector('#state').dataset.good === 'true'");
    // One after the other, so that each arrives after those before it.
    for (at, words) in ["one more", "and another", "the last of them"].into_iter().enumerate() {
        say(&place, "parser", words);
        browser.wait(&all(21 + at));
    }
    let told = "['#view .overview', '#rows', '#kinds', '#branches'].map((one) => document.querySelector(one)?.innerText).join('\\n')";
    browser.wait(
        "document.querySelector('#view .overview')?.textContent.includes('the last of them')",
    );
    let grown = browser.ask(told);
    assert!(grown.as_str().unwrap().contains("main (23)"), "{grown}");
    browser.visit(&served.url);
    browser.wait(&all(23));
    browser.wait(&format!("{told} === {grown}"));
    // An undone turn disappears.
    let _ = place.run(&["undo"]);
    browser.wait("document.querySelector('#branches option').textContent === 'main (22)'");
    browser.wait(
        "!document.querySelector('#view .overview').textContent.includes('the last of them')",
    );
    // Its labels are shown, too.
    let _ = place.run(&["session", "label", "parser", "<i>slow", "kept"]);
    browser.wait("[...document.querySelectorAll('#view .overview .label')].map((one) => one.textContent).join() === '<i>slow,kept'");
    clean(&mut browser);
}

#[test]
fn who_begins_at_the_end_stays_there_while_texts_come() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new(PROGRAM);
    imported(&place, "parser", 12);
    // Several short turns are visible at the end, so that the upper one is not the last.
    for words in ["one", "two", "three"] {
        say(&place, "parser", words);
    }
    let served = Served::start(&place, &["parser"]);
    browser.visit(&format!("{}&read", served.url));
    browser.wait("document.querySelector('#state').dataset.good === 'true' && !document.querySelector('#view [aria-busy]')");
    say(&place, "parser", "the newest");
    browser.wait("[...document.querySelectorAll('#view article.turn')].at(-1)?.innerText.includes('the newest')");
    browser.wait("(() => { const v = document.querySelector('#view'); return v.scrollTop + v.clientHeight >= v.scrollHeight - 80; })()");
    assert_eq!(browser.ask("location.hash"), json!("#read"));
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
    // A reader at the end follows new turns.
    say(&place, "parser", "a new word at the end");
    browser.wait("[...document.querySelectorAll('#view article.turn')].at(-1)?.innerText.includes('a new word at the end')");
    browser.wait("(() => { const v = document.querySelector('#view'); return v.scrollTop + v.clientHeight >= v.scrollHeight - 80; })()");
    // A reader elsewhere keeps the position, and other sessions do not change it.
    browser.press("g");
    browser.wait("location.hash === '#turn-1'");
    say(&place, "second", "another session");
    say(&place, "parser", "the newest");
    browser.wait("document.querySelector('#about').textContent.startsWith('14 turns')");
    assert_eq!(browser.ask("location.hash"), json!("#turn-1"));
    assert_eq!(browser.ask("document.querySelector('#view').scrollTop < 50"), json!(true));
    list.wait("document.querySelector('.session-line .title')?.textContent && document.querySelectorAll('.session-line').length === 2");
    // A new branch appears, and disappears after an undo.
    let _ = place.run(&["fork", "plan-b", "parser~3"]);
    browser.wait(
        "document.querySelector('#branches option:nth-child(2)')?.textContent.startsWith('plan-b')",
    );
    let _ = place.run(&["undo"]);
    browser.wait("!document.querySelector('#branches select')");
    clean(&mut browser);
    clean(&mut list);

    // The server dies and a new one replaces it: a page with the new key continues.
    let port = served.port.to_string();
    drop(served);
    browser.wait("document.querySelector('#state').textContent.startsWith('not connected')");
    let again = Served::start(&place, &["--port", &port]);
    browser.wait("document.querySelector('#state').textContent.includes('started anew')");
    browser.ask(&format!("new BroadcastChannel('turntree').postMessage({{key: '{}'}})", again.key));
    browser.wait("document.querySelector('#state').dataset.good === 'true'");
    say(&place, "parser", "after the end");
    browser.wait("document.querySelector('#about').textContent.startsWith('15 turns')");
    // A missing store is reported, and its return is detected.
    fs::rename(place.path().join("store"), place.path().join("away")).unwrap();
    browser.ask("location.reload()");
    browser.wait("document.querySelector('#view').innerText.includes('no store')");
    fs::rename(place.path().join("away"), place.path().join("store")).unwrap();
    browser.wait("document.querySelector('#about').textContent.startsWith('15 turns')");
}

#[test]
fn files_operations_and_storage_are_screens_with_addresses() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new(PROGRAM);
    fs::create_dir(place.path().join("work/src")).unwrap();
    place.write("src/z'; $(true).txt", "hostile\n");
    let _ = place.with_turns(2);
    say(&place, "other", "another session");
    let _ = place.run(&["pin", "work", "--name", "kept"]);
    let served = Served::start(&place, &[]);
    let (port, key) = (served.port, &served.key);
    let address = |path: &str, hash: &str| format!("http://127.0.0.1:{port}{path}#key={key}{hash}");
    let axe = axe();
    let fits = |browser: &mut Browser| {
        for width in [320, 1440] {
            browser.resize(width, 844);
            let fits = "document.documentElement.scrollWidth <= innerWidth";
            assert_eq!(browser.ask(fits), json!(true), "{width}");
        }
        if let Some(axe) = &axe {
            browser.ask(axe);
            let run = "axe.run(document, {resultTypes: ['violations']}).then((found) => found.violations.map((one) => `${one.id}: ${one.nodes[0].html.slice(0, 200)}`))";
            assert_eq!(browser.ask(run), json!([]));
        }
    };
    // Keys move through the list of sessions.
    browser.visit(&address("/", ""));
    browser.wait("document.querySelectorAll('.session-line').length === 2");
    let at = "[...document.querySelectorAll('.session-line')].indexOf(document.activeElement)";
    for (pressed, expected) in [("j", 0), ("j", 1), ("k", 0)] {
        browser.press(pressed);
        browser.wait(&format!("{at} === {expected}"));
    }
    fits(&mut browser);
    browser.visit(&address("/usage", ""));
    browser.wait("!document.querySelector('#view [aria-busy]')");
    fits(&mut browser);
    browser.visit(&address("/operations", ""));
    browser.wait("document.querySelectorAll('.operation').length >= 5");
    // The page is redrawn when its server connects, which may close an opened detail.
    browser.wait("(document.querySelector('.operation:first-child details:not([open]) summary')?.click(), document.querySelector('.operation .file-line')?.textContent.includes('pin kept'))");
    fits(&mut browser);
    browser.visit(&address("/storage", ""));
    browser.wait("document.querySelector('[data-pin=kept]') && document.querySelector('.compare')");
    fits(&mut browser);
    // From a turn to its files, into a folder, to the lines of a file.
    browser.visit(&address("/s/work", ""));
    browser.wait("document.querySelectorAll('.folder .path').length === 2 || (document.querySelector('.offers a')?.click(), false)");
    assert_eq!(browser.ask("location.hash"), json!("#files-2"));
    browser.wait("document.querySelector('.folder .path')?.textContent.startsWith(\"z'\") || (document.querySelector('.folder .file-line:first-child a')?.click(), false)");
    browser.wait("document.querySelector('.blame code')?.textContent === 'hostile' || (document.querySelector('.folder a')?.click(), false)");
    fits(&mut browser);
    let copied = "[...document.querySelectorAll('.view-head .copy')].map((one) => one.title)";
    let copied = browser.ask(copied);
    for command in copied.as_array().unwrap() {
        let command = command.as_str().unwrap();
        assert!(command.contains("files/src/z'\\''; $(true).txt'"), "{command}");
    }
    // The help opens at its top on a narrow screen.
    browser.resize(320, 600);
    browser.press("?");
    browser.wait("document.querySelector('#help').open");
    assert_eq!(browser.ask("document.querySelector('#help').scrollTop"), json!(0));
    clean(&mut browser);
}

#[test]
fn a_change_is_looked_at_made_and_taken_back_on_the_page() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(2);
    let served = Served::start(&place, &["work", "--allow-changes"]);
    let offer = |name: &str| {
        format!(
            "[...document.querySelectorAll('.offers button')].find((one) => one.textContent.startsWith('{name}'))"
        )
    };
    let branches = |number: usize| {
        format!("document.querySelectorAll('#branches option').length === {number}")
    };
    browser.visit(&served.url);
    browser.wait(&format!(
        "{} && document.querySelector('#state').dataset.good === 'true'",
        offer("Fork")
    ));
    browser.ask(&format!("{}.click()", offer("Fork")));
    browser
        .wait("document.querySelector('#change').open && document.activeElement.name === 'name'");
    browser.write("<b>plan c</b>");
    browser.press("Escape");
    browser.wait("!document.querySelector('#change').open");
    browser.ask(&format!("{}.click()", offer("Fork")));
    browser
        .wait("document.querySelector('#change').open && document.activeElement.name === 'name'");
    browser.write("plan-c");
    browser.click("#change .main");
    browser.wait("document.querySelector('#plan')?.textContent.includes('work/plan-c')");
    assert_eq!(browser.ask(&branches(2)), json!(true), "a plan changes nothing");
    browser.click("#change .main");
    browser.wait(&branches(3));
    browser.wait(
        "!document.querySelector('#change').open && !document.querySelector('#outcome').hidden",
    );
    browser.click("#outcome button");
    browser.wait(&branches(2));

    // An entered title is shown, and the next sheet has it.
    let title = "document.querySelector('#title').textContent";
    let before = browser.ask(title);
    for (words, shown) in [("a <i>title", json!("a <i>title")), ("", before)] {
        browser.ask(&format!("{}.click()", offer("Label")));
        browser.wait(
            "document.querySelector('#change').open && document.activeElement.name === 'title'",
        );
        browser.ask("document.activeElement.value = ''");
        if !words.is_empty() {
            browser.write(words);
        }
        browser.click("#change .main");
        browser.wait("document.querySelector('#plan')?.textContent.includes('a <i>title')");
        browser.click("#change .main");
        browser.wait(&format!("{title} === {shown} && !document.querySelector('#change').open"));
    }

    // A file edited after the plan was shown stays unchanged.
    browser.visit(&format!("{}&turn-1", served.url));
    browser.wait("document.querySelector('[aria-label=\"Prompt 1\"] .details')");
    browser.ask("document.querySelector('[aria-label=\"Prompt 1\"] .details').open = true");
    browser.wait(&offer("Roll back"));
    browser.ask(&format!("{}.click()", offer("Roll back")));
    browser.wait("document.querySelector('#plan')?.textContent.includes('notes.txt')");
    place.write("notes.txt", "an idea\n");
    browser.click("#change .main");
    browser.wait("document.querySelector('#change h2').textContent === 'Nothing was done'");
    assert_eq!(place.read("notes.txt").unwrap(), "an idea\n");
    browser.click("#change .main");
    browser.wait("document.querySelector('#plan')?.textContent.includes('saved first')");
    browser.click("#change .main");
    browser.wait("document.querySelector('#branches option').textContent === 'main (3)' && !document.querySelector('#outcome').hidden");
    assert_eq!(place.read("notes.txt").unwrap(), "1\n");
    browser.click("#outcome button");
    browser.wait("document.querySelector('#branches option').textContent === 'main (2)'");
    browser.wait("document.querySelector('#outcome').textContent.startsWith('undo')");
    assert_eq!(place.read("notes.txt").unwrap(), "an idea\n");
    // Refused requests are errors in the console, as intended.
    let problems = browser.problems();
    assert!(problems.iter().all(|problem| problem.contains("409")), "{problems:?}");
}

/// The accessibility checker, if it is installed.
fn axe() -> Option<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../target/clients/node_modules/axe-core/axe.min.js");
    fs::read_to_string(file).ok()
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
    // With the key, a missing session is reported, also for an address that is not UTF-8.
    for name in ["none", "%ff"] {
        browser.visit(&format!("http://127.0.0.1:{}/s/{name}#key={}", served.port, served.key));
        let told = browser.ask("document.querySelector('#view').innerText");
        assert!(told.as_str().unwrap().contains("there is no session"), "{name}: {told}");
    }
}
