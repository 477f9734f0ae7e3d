//! The picture of the branches on a page: the current position, folded branches, its height.

use std::path::PathBuf;

use serde_json::json;
use turntree::object::ObjectId;
use turntree_tests::Sandbox;
use turntree_tests::browser::Browser;
use turntree_tests::random_history::{Content, RandomHistory};

use super::render_page::{page_of, saved};

/// A session of many branches, each of which starts on the one before, and a merge.
fn nested(branches: usize) -> (Sandbox, PathBuf) {
    let mut history = RandomHistory::new(&[]);
    let (mut content, mut tips, mut at) = (Content::default(), Vec::new(), None);
    for branch in 0..branches {
        let name = format!("b{branch:02}");
        for step in 0..4 {
            content.messages.push(format!("{name} {step}"));
            let parents = at.into_iter().collect();
            at = Some(history.add(&name, parents, content.clone()));
        }
        tips.push((name, at.unwrap()));
        at = at.map(|at: usize| at - 1);
    }
    let merged = history.add("b00", vec![tips[0].1, tips[branches - 1].1], content.clone());
    let after = history.add("b00", vec![merged], content);
    tips[0].1 = after;
    written(history, &tips)
}

/// The page of a history whose branches end at these turns.
fn written(history: RandomHistory, tips: &[(String, usize)]) -> (Sandbox, PathBuf) {
    let tips: Vec<(&str, ObjectId)> =
        tips.iter().map(|(name, at)| (name.as_str(), history.turns[*at].id)).collect();
    let page = page_of(&history.sandbox.repo, "s", &tips);
    let file = saved(&history.sandbox, &page);
    (history.sandbox, file)
}

#[test]
fn the_map_shows_the_current_turn_without_gaps() {
    let Some(mut browser) = Browser::start() else { return };
    let (_sandbox, file) = nested(30);
    for place in ["#turn-63@b20", "#turn-2", "#turn-93@b29"] {
        browser.open(&file, place);
        let inside = "(() => { const box = document.querySelector('.cursor').getBoundingClientRect(); const frame = document.querySelector('#map .scroll').getBoundingClientRect(); return [box.top >= frame.top - 1, box.bottom <= frame.bottom + 1]; })()";
        assert_eq!(browser.ask(inside), json!([true, true]), "{place}");
    }
    // The turn after a merge has a high number, but the next position.
    browser.open(&file, "#turn-999");
    let place = "[document.querySelector('#map svg').ariaValueNow, document.querySelector('.lane-0 .tip').getAttribute('cx') === document.querySelector('.cursor').getAttribute('cx')]";
    assert_eq!(browser.ask(place), json!(["6", true]));
    // Bars have the colours of the kinds of work.
    assert!(
        browser.ask("document.querySelectorAll('#map .bars.prompt').length").as_u64() > Some(0)
    );
    let names =
        "[...document.querySelector('#map svg').children].map((one) => one.tagName).join(' ')";
    let order = browser.ask(names);
    assert!(
        order.as_str().unwrap().ends_with("text circle"),
        "names are drawn over lines: {order}"
    );
    browser.press("m");
    browser.wait("document.querySelector('#map').clientHeight === 0");
    assert_eq!(browser.problems(), Vec::<String>::new());
}

/// A session of many parallel branches: each starts at the first turn and has three turns.
pub(super) fn side_by_side(branches: usize) -> (Sandbox, PathBuf) {
    let mut history = RandomHistory::new(&[]);
    let (mut content, mut tips, mut main) = (Content::default(), Vec::new(), Vec::new());
    let mut turn = |history: &mut RandomHistory, name: &str, parent: Option<usize>| {
        content.messages.push(format!("{name} {}", content.messages.len()));
        history.add(name, parent.into_iter().collect(), content.clone())
    };
    for _ in 0..10 {
        let at = turn(&mut history, "main", main.last().copied());
        main.push(at);
    }
    tips.push(("main".to_owned(), main[9]));
    for branch in 0..branches {
        let name = format!("b{branch:02}");
        let mut at = main[1 + branch % 4];
        for _ in 0..3 {
            at = turn(&mut history, &name, Some(at));
        }
        tips.push((name, at));
    }
    written(history, &tips)
}

#[test]
fn finished_branches_are_collapsed_until_selected() {
    let Some(mut browser) = Browser::start() else { return };
    let (_sandbox, file) = side_by_side(24);
    browser.open(&file, "#turn-5@b05");
    let lanes = "document.querySelectorAll('#map .lane').length";
    // The first branch, the current one, and the six that changed last.
    assert_eq!(browser.ask(lanes), json!(8));
    let names = "[...document.querySelectorAll('#map > .scroll > svg > text')].map((one) => one.textContent).join(' ')";
    assert_eq!(browser.ask(names), "main b05 b18 b19 b20 b21 b22 b23");
    let stubs = "[...document.querySelectorAll('.stub text')].map((one) => one.textContent).sort()";
    assert_eq!(
        browser.ask(stubs),
        json!(["+12 \u{d7}4", "+12 \u{d7}4", "+12 \u{d7}4", "+15 \u{d7}5"])
    );
    // The current branch is always shown.
    browser.open(&file, "#turn-5@b02");
    assert!(browser.ask(names).as_str().unwrap().starts_with("main b02 "));
    browser.ask("location.hash = '#turn-4@b09'");
    browser.wait(&format!("{names}.startsWith('main b09 ')"));
    browser.click(".stub circle");
    browser.wait(&format!("{lanes} === 25 && document.querySelector('.stub') === null"));
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn the_map_is_resized_by_dragging_and_moved_by_arrow_keys() {
    let Some(mut browser) = Browser::start() else { return };
    let (_sandbox, file) = side_by_side(24);
    browser.open(&file, "#read");
    let height = "document.querySelector('#map .scroll').clientHeight";
    browser.click(".stub circle");
    browser.wait("document.querySelectorAll('#map .lane').length === 25");
    let before = browser.ask(height).as_f64().unwrap();
    let grip = "(() => { const box = document.querySelector('.grip').getBoundingClientRect(); return [box.x + box.width / 2, box.y + 7]; })()";
    let place = browser.ask(grip);
    let (x, y) = (place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
    browser.drag((x, y), (x, y + 120.0));
    browser.wait(&format!("{height} === {}", before + 120.0));
    let focused = browser.ask("document.querySelector('.grip').focus()");
    assert!(focused.is_null());
    browser.press("ArrowUp");
    browser.wait(&format!("{height} === {}", before + 90.0));
    let told = "Number(document.querySelector('.grip').ariaValueNow)";
    assert_eq!(browser.ask(told), browser.ask(height));
    // The height stays when the picture is redrawn.
    browser.press("m");
    browser.press("m");
    browser.wait(&format!("{height} === {}", before + 90.0));
    assert_eq!(browser.problems(), Vec::<String>::new());
}
