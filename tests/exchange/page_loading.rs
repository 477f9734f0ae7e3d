//! The costs of a page until it is shown: its bytes, and the data that a browser reads.

use std::io::Write;

use serde_json::{Value, json};
use turntree::error::Result;
use turntree_exchange::render::PageCompressor;
use turntree_tests::browser::Browser;
use turntree_tests::{Sandbox, claude_code};

use super::render_page::{blocks, lines, page_of, saved};

/// The maximum bytes of a page without its data.
const PAGE_BYTES: usize = 175_000;

/// The most records that are parsed without yielding to other work.
const SLICE_RECORDS: u64 = 1000;

/// Compresses a page that has more than `most_plain` bytes, given in parts of odd sizes.
pub(super) fn compressed(page: &str, most_plain: usize) -> Result<String> {
    let mut out = Vec::new();
    let mut compressor = PageCompressor::new(&mut out, most_plain);
    for part in page.as_bytes().chunks(99_991) {
        compressor.write_all(part).unwrap();
    }
    compressor.finish()?;
    Ok(String::from_utf8(out).unwrap())
}

/// Counts the records that a page parses and inflates, and the most between two yields.
const COUNTING: &str = "
window.counted = { records: 0, slice: 0, largest: 0, inflated: 0 };
const parse = JSON.parse;
JSON.parse = (...given) => {
  counted.records += 1;
  counted.slice += 1;
  counted.largest = Math.max(counted.largest, counted.slice);
  return parse(...given);
};
const post = MessagePort.prototype.postMessage;
MessagePort.prototype.postMessage = function (...given) {
  counted.slice = 0;
  return post.apply(this, given);
};
const Stream = DecompressionStream;
window.DecompressionStream = class extends Stream {
  constructor(format) {
    super(format);
    counted.inflated += 1;
  }
};";

/// A page of many turns, and its sandbox.
fn long(turns: usize) -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    let tip = sandbox.import("long", claude_code(turns).as_bytes()).unwrap().head;
    let page = page_of(&sandbox.repo, "long", &[("main", tip)]);
    (sandbox, page)
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap()
}

#[test]
fn pages_load_only_turns_and_visible_content() {
    let (sandbox, page) = long(1100);
    let (turns, messages) = (lines(&page, 't').len() as u64, lines(&page, 'm').len() as u64);
    assert!(messages >= 1500, "{messages}");
    let (all, around) = blocks(&page);
    assert!(around.len() <= PAGE_BYTES, "{} bytes without data", around.len());
    assert!(all.iter().all(|(_, lines)| lines.len() < 300_000), "a block is large");
    let outline = all.iter().filter(|(numbers, _)| numbers.starts_with("data-t")).count() as u64;
    let contents = all.len() as u64 - outline;
    assert!(contents >= 4, "{contents} blocks of contents");
    let Some(mut browser) = Browser::start() else { return };
    browser.before(COUNTING);
    let packed = compressed(&page, 0).unwrap();
    for (page, is_packed) in [(&page, false), (&packed, true)] {
        let file = saved(&sandbox, page);
        for place in ["", "#read", "#turn-200"] {
            browser.open(&file, place);
            browser.wait("document.querySelector('#view .page, #view .turn:not([aria-busy])')");
            let counted = browser.ask("counted");
            let parsed = number(&counted, "records");
            assert!((turns..turns + 150).contains(&parsed), "{place}: {counted} of {turns} turns");
            assert!(number(&counted, "largest") <= SLICE_RECORDS, "{place}: {counted}");
            let inflated = number(&counted, "inflated");
            let expected = if is_packed { outline..=outline + 2 } else { 0..=0 };
            assert!(expected.contains(&inflated), "{place}: {counted} of {} blocks", all.len());
            let elements = browser.ask("document.querySelectorAll('*').length");
            assert!(elements.as_u64().unwrap() < 4000, "{place}: {elements} elements");
        }
    }
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn unread_blocks_load_on_demand() {
    let (sandbox, page) = long(1100);
    let Some(mut browser) = Browser::start() else { return };
    let packed = compressed(&page, 0).unwrap();
    let file = saved(&sandbox, &packed);
    browser.open(&file, "#read");
    // The end is visible, although nothing above it was measured.
    let left = "(() => { const view = document.querySelector('#view'); return view.scrollHeight - view.scrollTop - view.clientHeight; })()";
    browser.wait(&format!("Math.abs({left}) < 60"));
    assert!(browser.ask("document.querySelector('#view').scrollTop").as_f64().unwrap() > 9000.0);
    // A word is found in every block, and the block of a hit is read to mark it.
    browser.open(&file, "#search=fn%20part_601%28");
    browser.wait("document.querySelector('#view .page').dataset.done === 'true'");
    browser.click(".hit");
    browser.wait("String([...CSS.highlights.get('found')][0]) === 'fn part_601('");
    // Two turns in distant blocks.
    browser.open(&file, "#diff-2..1099");
    browser.wait("document.querySelectorAll('#view .row.add').length > 0");
    // Jumps in the reader.
    for turn in [700, 30, 1000] {
        browser.ask(&format!("location.hash = '#turn-{turn}'"));
        browser.wait(&format!(
            "document.querySelector('.turn[data-turn=\"{}\"]:not([aria-busy]) .message')",
            turn - 1
        ));
    }
    browser.wait("document.querySelectorAll('.turn[aria-busy]').length === 0");
    assert_eq!(browser.problems(), Vec::<String>::new());
    let expected = json!("part_3.rs");
    let shown =
        "document.querySelector('.turn[data-turn=\"998\"]').textContent.match(/part_\\d\\.rs/)[0]";
    assert_eq!(browser.ask(shown), expected);
}

#[test]
fn overview_and_context_built_in_steps_are_complete() {
    let (sandbox, page) = long(2100);
    let Some(mut browser) = Browser::start() else { return };
    let file = saved(&sandbox, &page);
    browser.open(&file, "");
    let tiles = "[...document.querySelectorAll('.tile')].slice(0, 4).map((one) => one.innerText.split('\\n').slice(0, 2).join(' '))";
    let expected = json!(["525 prompts", "1,575 steps", "1,575 tool calls", "5 files"]);
    assert_eq!(browser.ask(tiles), expected);
    assert_eq!(browser.ask("document.querySelector('#rows .chapter').ariaSetSize"), json!("525"));
    // Filtered rows are listed below their prompt.
    browser.open(&file, "#read");
    browser.wait("document.querySelector('[aria-label=\"Turn 2100\"]')");
    browser.click("#kinds button:nth-child(4)");
    browser.wait("document.querySelector('#rows .row-step[aria-selected=true]')");
    let row = "(() => { const row = document.querySelector('#rows .row-step[aria-selected=true]'); return [row.ariaPosInSet, row.ariaSetSize, row.dataset.turn]; })()";
    assert_eq!(browser.ask(row), json!(["3", "3", "2099"]));
    // The first and the last context, with two thousand changes.
    browser.open(&file, "#diff-1..2100");
    browser.wait("document.querySelector('#view .page h3')");
    let parts = "[...document.querySelectorAll('#view .page h3')].map((one) => one.textContent)";
    let expected =
        ["Prompts", "Files5", "Scratchpad, memory, state1", "Messages of main+3674 \u{2212}0"];
    assert_eq!(browser.ask(parts), json!(expected));
    assert_eq!(browser.problems(), Vec::<String>::new());
}
