//! `turntree view`, an exported and a shared page in WebKit, the engine of Safari.

use std::fs;

use serde_json::{Value, json};
use turntree_tests::webkit::WebKit;

use super::view::Served;
use super::view_first_look::{LIVE, address, strategies};

#[test]
fn sessions_and_written_pages_are_read_in_webkit() {
    let Some(mut browser) = WebKit::start() else { return };
    let place = strategies();
    let served = Served::start(&place, &[]);
    browser.resize(1500, 900);
    browser.visit(&address(&served, "/", ""));
    browser.wait(&format!("{LIVE} && document.querySelector('.session-line .conflicts')"));
    browser.wait("document.querySelector('.session-line .outcome').textContent.includes('passed')");
    for key in "/a table".chars() {
        browser.press(key);
    }
    browser.wait("location.search === '?q=a+table' && document.querySelector('.hits .hit')");
    browser.click(".hits .hit");
    browser.wait(&format!(
        "location.pathname === '/s/lexer' && {LIVE} && CSS.highlights.get('found')?.size > 0"
    ));
    browser.back();
    browser.wait("location.pathname === '/' && document.activeElement?.matches('.hit')");
    browser.visit(&address(&served, "/s/lexer", "&conflicts@both"));
    browser.wait("document.querySelectorAll('.three .row.add').length === 2");
    for width in [500, 1280, 1900] {
        browser.resize(width, 900);
        browser.wait("document.documentElement.scrollWidth <= innerWidth");
    }
    let file = place.path().join("page.html");
    let name = file.to_str().unwrap();
    let _ = place.run(&["export", "lexer", "--format", "html", "--compress", "-o", name]);
    browser.visit(&format!("file://{name}#read"));
    browser.wait("document.querySelector('#view .turn:not([aria-busy]) .turn-head')");
    let said = place.run(&["share", "lexer", "-o", name, "--force", "--json"]);
    let key: Value = serde_json::from_str(&said).unwrap();
    let opened = format!("file://{name}{}", key["key"].as_str().unwrap());
    browser.visit(&format!("file://{name}"));
    browser.wait("document.querySelector('#sealed form')");
    browser.visit(&opened);
    browser.wait("document.querySelectorAll('.overview .tile').length > 1");
    browser.press('k');
    browser.wait("document.querySelector('#view .turn:not([aria-busy]) .turn-head')");
    let page = fs::read_to_string(&file).unwrap();
    fs::write(&file, &page[..page.len() - 200]).unwrap();
    browser.visit(&opened);
    browser.wait("document.querySelector('#sealed').innerText.includes('incomplete')");
    assert_eq!(browser.ask("document.querySelectorAll('.tile').length"), json!(0));
}
