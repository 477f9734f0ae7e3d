//! Encrypted pages in a browser: they open with their key alone, and only as they were written.

use std::io::Write;
use std::path::Path;

use serde_json::json;
use turntree_exchange::render::{PageKey, PageSealer};
use turntree_tests::browser::Browser;
use turntree_tests::{Sandbox, claude_code};

use super::render_page::{page_of, saved};

const FORM: &str = "document.querySelector('#sealed form')";

fn key() -> PageKey {
    PageKey::new([7; 32])
}

/// Encrypts a page that is given in parts of odd sizes.
fn sealed(page: &str) -> String {
    let mut out = Vec::new();
    let mut sealer = PageSealer::begin(&mut out, &key()).unwrap();
    for part in page.as_bytes().chunks(99_991) {
        sealer.write_all(part).unwrap();
    }
    sealer.finish().unwrap();
    String::from_utf8(out).unwrap()
}

/// An encrypted page of several blocks, and its sandbox.
fn long() -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    let tip = sandbox.import("long", claude_code(3000).as_bytes()).unwrap().head;
    let page = sealed(&page_of(&sandbox.repo, "The long one", &[("main", tip)]));
    assert!(page.matches("class=\"sealed\"").count() > 3);
    (sandbox, page)
}

fn address(file: &Path, place: &str) -> String {
    format!("file://{}{place}", file.display())
}

/// Opens a page that must refuse, and returns what it says.
fn refusal(browser: &mut Browser, file: &Path, place: &str) -> String {
    browser.go(&address(file, place));
    browser.wait(FORM);
    assert_eq!(browser.ask("document.querySelectorAll('.turn, .tile').length"), json!(0));
    browser.ask("document.querySelector('#sealed').innerText").as_str().unwrap().to_owned()
}

#[test]
fn a_page_opens_with_its_key_and_its_links_keep_it() {
    let Some(mut browser) = Browser::start() else { return };
    let (sandbox, page) = long();
    for word in ["The long one", "fn part_", "main"] {
        let data = page.split("class=\"sealed\"").skip(1).collect::<String>();
        assert!(!data.contains(word), "{word} is plain");
    }
    assert!(!page.contains("The long one"));
    let (file, key) = (saved(&sandbox, &page), key().fragment());
    browser.open(&file, &key);
    assert_eq!(browser.ask("document.querySelector('#title').innerText"), "The long one");
    assert_eq!(browser.ask("document.querySelector('#sealed')"), json!(null));
    browser.press("g");
    browser.wait(&format!("location.hash === '{key}&turn-1'"));
    // A link, its address opened elsewhere, and the way back.
    browser.click("#bar [data-to=overview]");
    browser.wait(&format!("location.hash === '{key}&overview'"));
    browser.ask("history.back()");
    browser.wait(&format!("location.hash === '{key}&turn-1'"));
    browser.wait("document.querySelector('.turn[data-turn=\"0\"]')");
    browser.open(&file, &format!("{key}&turn-2900"));
    browser.wait("document.querySelector('.turn[data-turn=\"2899\"]:not([aria-busy])')");
    browser.press("/");
    browser.write("fn part_601(");
    browser.wait("document.querySelector('[data-done=true] .hit mark')");
    browser.wait(&format!("location.hash.startsWith('{key}&search=')"));
    browser.click(".hit");
    browser.wait("String([...CSS.highlights.get('found')][0]) === 'fn part_601('");
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn a_missing_or_wrong_key_is_reported_and_can_be_given() {
    let Some(mut browser) = Browser::start() else { return };
    let (sandbox, page) = long();
    let file = saved(&sandbox, &page);
    assert!(refusal(&mut browser, &file, "").contains("its address needs the key behind it"));
    let wrong = PageKey::new([8; 32]).fragment();
    let cut = &key().fragment()[..40];
    for key in [&wrong, cut, "#key=x", "#key=&turn-2"] {
        let said = refusal(&mut browser, &file, key);
        assert!(said.contains("is not the key of this page") || key.contains('&'), "{said}");
    }
    // The key may follow: in the field, or as an address.
    browser.ask("document.querySelector('#sealed input').focus()");
    browser.write(&key().fragment());
    browser.click("#sealed button");
    browser.wait("document.querySelectorAll('.tile').length > 1");
    refusal(&mut browser, &file, &wrong);
    browser.ask(&format!("location.hash = '{}'", key().fragment()));
    browser.wait("document.querySelectorAll('.tile').length > 1");
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn a_page_that_was_cut_or_changed_does_not_open() {
    let Some(mut browser) = Browser::start() else { return };
    let (sandbox, page) = long();
    let key = key().fragment();
    let begin = "class=\"sealed\">";
    let starts: Vec<usize> = page.match_indices(begin).map(|(at, _)| at + begin.len()).collect();
    let end = page.find("<i id=\"complete\"").unwrap();
    // Cut in a block, between blocks, and after the last one.
    let before_last = page[..*starts.last().unwrap()].rfind("<script").unwrap();
    for cut in [starts[0], starts[1] + 1000, before_last, end - 3, end] {
        let file = saved(&sandbox, &page[..cut]);
        assert!(refusal(&mut browser, &file, &key).contains("incomplete"), "{cut}");
    }
    // Cut within the script, the page shows its plain text.
    let file = saved(&sandbox, &page[..page.find("unseal").unwrap()]);
    browser.go(&address(&file, &key));
    browser.wait("document.readyState === 'complete'");
    let said = browser.ask("document.querySelector('#sealed').innerText");
    assert!(said.as_str().unwrap().contains("the file is incomplete"));
    // A block less, with the end; two blocks in the place of each other; one character.
    let shorter = format!("{}{}", &page[..before_last], &page[end..]);
    let [one, two] = [0, 1].map(|at| page[starts[at]..].split('<').next().unwrap());
    let turned = page
        .replace(one, "one")
        .replace(two, one)
        .replace("one</script>", &format!("{two}</script>"));
    let mut changed = vec![shorter, turned];
    for start in [starts[0], *starts.last().unwrap()] {
        let mut page = page.clone().into_bytes();
        page[start + 40] = if page[start + 40] == b'A' { b'B' } else { b'A' };
        changed.push(String::from_utf8(page).unwrap());
    }
    for page in changed {
        let file = saved(&sandbox, &page);
        assert!(refusal(&mut browser, &file, &key).contains("damaged"));
    }
    assert_eq!(browser.problems(), Vec::<String>::new());
}
