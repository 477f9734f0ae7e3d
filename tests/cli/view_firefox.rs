//! `turntree view` in Firefox: the list, search, a session, its difference, and the way back. The
//! other tests of pages use Chromium.

use std::fs;

use serde_json::{Value, json};
use turntree_tests::firefox::Firefox;

use super::view::Served;
use super::view_first_look::{LIVE, address, strategies};

/// The codes of keys: Control, Escape.
const CONTROL: char = '\u{e009}';
const ESCAPE: char = '\u{e00c}';

#[test]
fn sessions_are_found_read_and_left_in_firefox() {
    let Some(mut browser) = Firefox::start() else { return };
    let place = strategies();
    let served = Served::start(&place, &["--allow-changes"]);
    browser.resize(1500, 900);
    browser.visit(&address(&served, "/", ""));
    browser.wait(&format!("{LIVE} && document.querySelector('.session-line .conflicts')"));
    browser.wait("document.querySelector('.session-line .outcome').textContent.includes('passed')");
    browser.wait("document.querySelector('.spark path.prompt')");
    // Search over all sessions, a hit, and Back to the hit.
    for key in "/a table".chars() {
        browser.press(&[key]);
    }
    browser.wait("location.search === '?q=a+table' && document.querySelector('.hits .hit')");
    browser.click(".hits .hit");
    browser.wait(&format!(
        "location.pathname === '/s/lexer' && {LIVE} && CSS.highlights.get('found')?.size > 0"
    ));
    browser.wait("document.querySelector('.beside-line[aria-current]')");
    browser.back();
    browser.wait("location.pathname === '/' && document.activeElement?.matches('.hit')");
    // A session: its overview, its reader, a difference, the comparison, open conflicts.
    browser.visit(&address(&served, "/s/lexer", ""));
    browser.wait(&format!("{LIVE} && document.querySelectorAll('.overview .tile').length > 1"));
    browser.press(&['k']);
    browser.wait("document.querySelector('#view .turn:not([aria-busy]) .turn-head')");
    browser.press(&['d']);
    browser.wait("location.hash.startsWith('#diff') && document.querySelector('#view .view-head')");
    browser.press(&['c']);
    browser.wait("document.querySelectorAll('.compare tbody tr').length === 3");
    browser.ask("location.hash = '#conflicts@both'");
    browser.wait("document.querySelectorAll('.beside .row.add').length === 2 && document.querySelectorAll('.writer').length === 2");
    // A plan for a change, which is left.
    browser.ask("[...document.querySelectorAll('button')].find((one) => one.innerText === 'Take ours').click()");
    browser.wait("document.querySelector('#change').open");
    browser.press(&[ESCAPE]);
    browser.wait("!document.querySelector('#change').open");
    // The search from everywhere.
    browser.press(&[CONTROL, 'k']);
    browser.wait("document.querySelector('#palette')?.open");
    for key in "hand".chars() {
        browser.press(&[key]);
    }
    browser.wait("document.querySelector('#palette .hit mark')");
    browser.press(&[ESCAPE]);
    browser.wait("!document.querySelector('#palette')");
    for width in [500, 800, 1280, 1900] {
        browser.resize(width, 900);
        assert_eq!(browser.ask("document.documentElement.scrollWidth <= innerWidth"), json!(true));
    }
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn a_shared_page_opens_with_its_key_in_firefox() {
    let Some(mut browser) = Firefox::start() else { return };
    let place = strategies();
    let file = place.path().join("page.html");
    let name = file.to_str().unwrap();
    let said = place.run(&["share", "lexer", "-o", name, "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    let key = said["key"].as_str().unwrap();
    let page = fs::read_to_string(&file).unwrap();
    assert!(!page.contains("lexer"), "the page shows its session");
    let address = format!("file://{name}");
    browser.visit(&address);
    browser.wait("document.querySelector('#sealed form')");
    browser.ask(&format!("location.hash = '{}'", key.replace('=', "=A")));
    browser.wait("document.querySelector('#sealed').innerText.includes('is not the key')");
    browser.ask(&format!("location.hash = '{key}'"));
    browser.wait("document.querySelectorAll('.overview .tile').length > 1");
    browser.press(&['k']);
    browser.wait(&format!("location.hash.startsWith('{key}&turn-')"));
    for (part, wanted) in [(&page[..page.len() - 200], "incomplete"), (&*changed(&page), "damaged")]
    {
        fs::write(&file, part).unwrap();
        browser.visit(&format!("{address}{key}"));
        browser.wait(&format!("document.querySelector('#sealed').innerText.includes('{wanted}')"));
    }
    assert_eq!(browser.problems(), Vec::<String>::new());
}

/// The page with another character in its first block.
fn changed(page: &str) -> String {
    let at = page.find("class=\"sealed\">").unwrap() + 60;
    let other = if &page[at..=at] == "A" { "B" } else { "A" };
    format!("{}{other}{}", &page[..at], &page[at + 1..])
}

#[test]
fn an_exported_page_is_read_in_firefox() {
    let Some(mut browser) = Firefox::start() else { return };
    let place = strategies();
    let file = place.path().join("page.html");
    let words = ["export", "lexer", "--format", "html", "--compress", "-o"];
    let _ = place.run(&[&words[..], &[file.to_str().unwrap()]].concat());
    browser.visit(&format!("file://{}", file.display()));
    browser.wait("document.querySelectorAll('.overview .tile').length > 1");
    browser.press(&['k']);
    browser.wait("document.querySelector('#view .turn:not([aria-busy]) .turn-head')");
    browser.press(&['/']);
    for key in "a table".chars() {
        browser.press(&[key]);
    }
    browser.wait(
        "location.hash === '#search=a%20table' && document.querySelector('[data-done=true] .hit')",
    );
    browser.click(".hit");
    browser.wait("CSS.highlights.get('found')?.size > 0");
    assert_eq!(browser.problems(), Vec::<String>::new());
}
