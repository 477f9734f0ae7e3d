//! Compares every screen of a page with [pictures](turntree_tests::pictures) of it, in two themes
//! and four widths.

use std::path::Path;

use turntree_tests::browser::Browser;
use turntree_tests::pictures::Pictures;

use super::page_browser::{story, strategies};
use super::page_picture::side_by_side;

const WIDTHS: [u32; 4] = [320, 768, 1024, 1440];
const HEIGHT: u32 = 800;

/// True once the page has not scrolled for a second: it stays at its turn while texts come.
const AT_REST: &str = "(() => {
    const place = document.querySelector('#view').scrollTop;
    if (window.rested?.place !== place) window.rested = { place, since: performance.now() };
    return performance.now() - window.rested.since > 1000;
})()";

#[test]
fn every_screen_matches_its_golden_picture() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("exchange/page_goldens");
    let mut pictures = Pictures::of(folder, &mut browser);
    let ((_one, branches), (_two, told), (_three, many)) =
        (strategies(), story(), side_by_side(24));
    for width in WIDTHS {
        browser.resize(width, HEIGHT);
        for (name, file, place, key) in [
            ("overview", &told, "", ""),
            ("prompt", &told, "#prompt-1", "o"),
            ("read", &branches, "#read", ""),
            ("diff", &branches, "#diff-12..12@plan-b", ""),
            ("compare", &branches, "#compare", ""),
            ("search", &branches, "#search=number%201", ""),
            ("keys", &branches, "#turn-3", "?"),
            ("many", &many, "#turn-5@b05", ""),
        ] {
            browser.open(file, place);
            browser.wait("!location.hash.startsWith('#search') || document.querySelector('#view .page').dataset.done === 'true'");
            if !key.is_empty() {
                browser.press(key);
            }
            if name == "many" {
                browser.wait(AT_REST);
            }
            pictures.look(&mut browser, &format!("{name}-{width}"));
        }
    }
    pictures.end();
    assert_eq!(browser.problems(), Vec::<String>::new());
}
