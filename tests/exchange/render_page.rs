//! `export --format html`: the page has all content of the store, shows it, and executes none of
//! it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::{Value, json};
use turntree::context::JSON_MEDIA;
use turntree::context::{Builder, FileMode, MessageEntry, Role};
use turntree::object::{Kind, ObjectId, ObjectSink, Trigger};
use turntree::repo::{BranchName, Repository, SnapshotDraft};
use turntree_exchange::PriceTable;
use turntree_exchange::render::{Page, PageBranch, export_page};
use turntree_tests::browser::Browser;
use turntree_tests::random_history::{Content, RandomHistory, steps};
use turntree_tests::{Sandbox, stamp};

const COMPARISON: &str = r#"{"fork":{"turn":6},"strategies":[
{"name":"main","id":"","turns":6,"messages":6,"tool_calls":4,"tool_errors":1,"tokens":{"input":41200,"output":940},"usage":{"cost_usd":0.21},"files_changed":1,"lines_added":12,"lines_removed":11,"elapsed_ms":341000,"checks":{"tests":true}},
{"name":"plan-b","id":"","turns":6,"messages":6,"tool_calls":9,"tool_errors":0,"tokens":{"input":99100,"output":2100},"usage":{"cost_usd":0.6},"files_changed":1,"lines_added":16,"lines_removed":15,"elapsed_ms":127000,"checks":{"tests":false}}]}"#;

pub(super) fn page_of(repo: &Repository, title: &str, branches: &[(&str, ObjectId)]) -> String {
    let named = |(name, tip): &(&str, ObjectId)| PageBranch { name: (*name).into(), tip: *tip };
    let branches: Vec<PageBranch> = branches.iter().map(named).collect();
    let page = Page {
        description: "",
        labels: &[],
        title,
        branches: &branches,
        more: 0,
        comparison: (branches.len() > 1).then_some(COMPARISON),
        made_by: "tests",
        prices: &PriceTable::default(),
        show_time: &|time| format!("{} s", time.micros / 1_000_000),
        steps: None,
    };
    let mut out = Vec::new();
    export_page(repo, &page, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The blocks of the data, each with its header, and the rest of the page.
pub(super) fn blocks(page: &str) -> (Vec<(&str, &str)>, String) {
    let mut parts = page.split("<script type=\"application/json\" class=\"data\" ");
    let mut around = parts.next().unwrap().to_owned();
    let blocks = parts.map(|part| {
        let (block, after) = part.split_once("</script>\n").unwrap();
        around.push_str(after);
        block.split_once(">\n").unwrap()
    });
    (blocks.collect(), around)
}

/// The lines of the data with a letter.
pub(super) fn lines(page: &str, letter: char) -> Vec<Value> {
    let (blocks, _) = blocks(page);
    let lines = blocks.iter().flat_map(|(_, lines)| lines.lines());
    let lines = lines.filter_map(|line| line.strip_prefix(letter));
    lines.map(|json| serde_json::from_str(json).unwrap()).collect()
}

/// The content of a turn on a page, built from the changes of all turns before it.
fn content_of(page: &str, turn: usize) -> Content {
    let (turns, texts, messages) = (lines(page, 't'), lines(page, 'x'), lines(page, 'm'));
    let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let text = |value: &Value| texts[number(value)].as_str().unwrap().to_owned();
    let mut chain = vec![turn];
    while let Some(base) = turns[*chain.last().unwrap()]["change"]["base"].as_u64() {
        chain.push(usize::try_from(base).unwrap());
    }
    let (mut content, mut said) = (Content::default(), Vec::new());
    for turn in chain.into_iter().rev() {
        let change = &turns[turn]["change"];
        let stretches = change["lists"]["agents/main/messages"].as_array();
        for stretch in stretches.into_iter().flatten().rev() {
            let at = number(&stretch[0]);
            let new: Vec<Value> = stretch[2].as_array().unwrap().clone();
            said.splice(at..at + number(&stretch[1]), new);
        }
        for file in change["files"].as_array().unwrap() {
            let path = file[0].as_str().unwrap().to_owned();
            match file.get(3) {
                Some(content_of) => content.files.insert(path, text(content_of)),
                None => content.files.remove(&path),
            };
        }
        for entry in change["entries"].as_array().unwrap() {
            let key = entry[1].as_str().unwrap().to_owned();
            match entry[2].is_null() {
                true => content.notes.remove(&key),
                false => content.notes.insert(key, text(&entry[2])),
            };
        }
    }
    let text = |at: &Value| messages[number(at)]["text"].as_str().unwrap_or_default().to_owned();
    content.messages = said.iter().map(text).collect();
    content
}

turntree_properties::properties! {
    cases = 48;

    #[test]
    fn pages_contain_enough_to_rebuild_every_turn(steps in steps()) {
        let history = RandomHistory::new(&steps);
        let repo = &history.sandbox.repo;
        let tips: Vec<(&str, ObjectId)> =
            history.tips.iter().map(|(name, at)| (name.as_str(), history.turns[*at].id)).collect();
        let page = page_of(repo, "t", &tips);
        prop_assert_eq!(&page, &page_of(repo, "t", &tips), "the same bytes each time");
        let turns = lines(&page, 't');
        let all: Vec<usize> = history.tips.values().copied().collect();
        prop_assert_eq!(turns.len(), history.reachable(&all).len());
        for (at, turn) in turns.iter().enumerate() {
            let id: ObjectId = turn["id"].as_str().unwrap().parse().unwrap();
            let known = &history.turns[history.position(&id)];
            prop_assert_eq!(content_of(&page, at), known.content.clone());
            let parents = turn["parents"].as_array().unwrap().iter();
            let parents = parents.map(|at| turns[at.as_u64().unwrap() as usize]["id"].clone());
            let known = known.parents.iter().map(|at| history.turns[*at].id.to_string().into());
            prop_assert_eq!(parents.collect::<Vec<Value>>(), known.collect::<Vec<Value>>());
        }
        let distinct = |letter| {
            let all: Vec<String> = lines(&page, letter).iter().map(Value::to_string).collect();
            all.iter().collect::<std::collections::BTreeSet<_>>().len() == all.len()
        };
        prop_assert!(distinct('m') && distinct('x'), "nothing is written twice");
    }
}

/// Texts that a careless page would execute.
const HOSTILE: [&str; 9] = [
    "<script>window.pwned = 1</script>",
    "</script><script>window.pwned = 1</script>",
    "<img src=x onerror=\"window.pwned = 1\">",
    "[click](javascript:window.pwned=1) ![x](https://example.org/track.png) <a href=\"javascript:pwned=1\">x</a>",
    "<!--<script>\u{2028}window.pwned = 1\u{2029}//-->",
    "\"><svg onload=window.pwned=1><style>@import 'https://example.org/x.css'</style>",
    "```\"><iframe srcdoc=\"<script>parent.pwned=1</script>\">\n<b>x</b>\n```\n# <u>h</u>\n- <i>x</i> `<b>` **<b>**",
    "${window.pwned = 1} {{constructor.constructor('window.pwned=1')()}} &lt;script&gt;",
    "<base href=\"https://example.org/\"><meta http-equiv=refresh content=\"0;url=https://example.org\"><form action=https://example.org><input name=pwned id=data>",
];

/// A session in which every name and every content is hostile.
fn hostile() -> (Sandbox, ObjectId) {
    let sandbox = Sandbox::new();
    let mut change = sandbox.repo.begin();
    let branch = BranchName::main("hostile").unwrap();
    let (mut builder, mut tip) = (Builder::new(), None);
    for (number, evil) in HOSTILE.into_iter().enumerate() {
        let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png\" onerror=\"window.pwned=1", "data": "AAAA"}});
        let svg = json!({"type": "image", "source": {"type": "base64", "media_type": "image/svg+xml", "data": "PHN2Zy8+"}});
        let remote =
            json!({"type": "image_url", "image_url": {"url": "https://example.org/x.png"}});
        for (role, record) in [
            (
                Role::User,
                json!({"role": "user", "id": evil, "content": [{"type": "text", "text": evil}, image, svg, remote]}),
            ),
            (
                Role::Assistant,
                json!({"role": "assistant", "reasoning_content": evil, "content": evil, "tool_calls": [
                {"id": evil, "function": {"name": evil, "arguments": json!({"command": evil, evil: evil, "old_string": evil, "new_string": format!("{evil}!")}).to_string()}}]}),
            ),
            (
                Role::Tool,
                json!({"role": "tool", "tool_call_id": evil, "content": evil, "error": true}),
            ),
            (
                Role::Tool,
                json!({"role": "tool", "tool_call_id": format!("{evil}?"), "content": evil}),
            ),
            (Role::Other, json!({"role": "ghost", "content": evil})),
        ] {
            let blob = change.write(Kind::Blob, record.to_string().into()).unwrap();
            let mut entry = MessageEntry::new(blob, role, JSON_MEDIA);
            entry.origin = Some(format!("x/{number}<b>"));
            builder.push_message(&mut change, "main", &entry).unwrap();
        }
        let name = evil.replace('/', "|");
        builder.set_file(&mut change, &name, Some((FileMode::Regular, evil.into()))).unwrap();
        builder.set_entry(&mut change, "scratchpad", &name, Some(evil.into())).unwrap();
        let tree = builder.write(&mut change).unwrap();
        let snapshot = SnapshotDraft {
            tree,
            author: turntree::object::Author { agent: evil.into(), model: evil.into() },
            time: stamp(number as i64).time,
            trigger: Trigger::Rollback,
            message: evil.into(),
            metadata: BTreeMap::from([(evil.to_owned(), evil.to_owned())]),
        };
        tip = Some(change.snapshot(&branch, snapshot).unwrap());
    }
    change.commit(&stamp(99), "hostile").unwrap();
    (sandbox, tip.unwrap())
}

pub(super) fn saved(sandbox: &Sandbox, page: &str) -> PathBuf {
    let file = sandbox.folder().join("page.html");
    std::fs::write(&file, page).unwrap();
    file
}

#[test]
fn hostile_content_cannot_escape_the_page_data() {
    let (sandbox, tip) = hostile();
    let page = page_of(&sandbox.repo, HOSTILE[1], &[("main", tip)]);
    let (blocks, around) = blocks(&page);
    for (numbers, data) in blocks {
        let sign = ['<', '>', '&', '\u{2028}', '\u{2029}', '\r'];
        assert!(!data.contains(sign) && !numbers.contains(sign), "the data has markup");
    }
    let (head, script) = around.split_at(around.find("<script>").unwrap());
    assert!(head.contains("default-src 'none'"));
    assert!(!head.contains("window.pwned = 1</script>"), "the title is not escaped");
    assert_eq!(script.matches("<script>").count(), 1);
    for forbidden in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "http://",
        "https://",
    ] {
        let allowed = if forbidden == "http://" { 1 } else { 0 };
        assert_eq!(script.matches(forbidden).count(), allowed, "{forbidden} in the script");
    }
}

#[test]
fn hostile_sessions_run_no_scripts_and_display_verbatim() {
    let Some(mut browser) = Browser::start() else { return };
    let (sandbox, tip) = hostile();
    let file = saved(
        &sandbox,
        &page_of(&sandbox.repo, HOSTILE[1], &[("<b onclick=pwned=1>", tip), ("2", tip)]),
    );
    let places = (1..=HOSTILE.len()).map(|turn| format!("#turn-{turn}"));
    let more = [
        "",
        "#read",
        "#prompt-2",
        "#turn-4/m3?w=script",
        "#diff-1..9",
        "#compare",
        "#search=window",
        "#turn-1@%zz",
        "#diff-x..y",
        "#<script>",
        "#search=%E0%A4%A",
    ];
    for place in places.chain(more.map(str::to_owned)) {
        browser.open(&file, &place);
        browser.press("o");
        browser.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })");
        browser.ask("new Promise((kept) => setTimeout(kept, 30))");
        assert_eq!(browser.ask("window.pwned ?? null"), Value::Null, "{place}");
        assert_eq!(browser.problems(), Vec::<String>::new(), "{place}");
        let odd = "document.querySelectorAll('script:not([type])').length + \
                   document.querySelectorAll('iframe, base, form[action], img:not([src^=\"data:image/png;\"]), [onclick], [onerror], [onload], a:not([href^=\"#\"]):not([rel=\"noreferrer noopener\"]):not([href=\"page.html#overview\"]), a[href^=\"javascript\" i]').length";
        assert_eq!(browser.ask(odd), json!(1), "{place}: nothing but the script of the page");
    }
    for (index, evil) in HOSTILE.into_iter().enumerate() {
        browser.open(&file, &format!("#turn-{}", index + 1));
        let turn = format!("document.querySelector('.turn[data-turn=\"{index}\"]')");
        let said = browser.ask(&format!("{turn}.querySelector('.what').textContent"));
        assert_eq!(said, Value::from(evil));
        browser.ask(&format!(
            "{turn}.querySelectorAll('details').forEach((one) => {{ one.open = true; }})"
        ));
        browser.wait(&format!("{turn}.querySelector('.result pre')"));
        let result = format!(
            "[...{turn}.querySelectorAll('.result > pre, .output pre, .result .cut pre')].map((one) => one.textContent)"
        );
        let results = browser.ask(&result);
        let results = results.as_array().unwrap();
        assert!(results.contains(&Value::from(evil)), "{evil:?} in {results:?}");
    }
}

#[test]
fn bidirectional_controls_are_marked_and_kept() {
    let sandbox = Sandbox::new();
    let said = "live \u{202e}edirrevo\u{2069}";
    let line = json!({"role": "user", "content": said}).to_string();
    let tip = sandbox.import_as("s", "openai-chat", format!("[{line}]").as_bytes()).unwrap().head;
    let page = page_of(&sandbox.repo, "s \u{200f}", &[("main \u{2066}", tip)]);
    assert_eq!(lines(&page, 'm')[0]["text"], said, "the data is the conversation");
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&saved(&sandbox, &page), "#turn-1");
    let shown = browser.ask("document.title + document.body.innerText");
    let shown = shown.as_str().unwrap();
    for mark in ["<U+202E>edirrevo<U+2069>", "s <U+200F>"] {
        assert!(shown.contains(mark), "{mark} in {shown}");
    }
    let odd = r"/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/.test(document.title + document.body.innerText)";
    assert_eq!(browser.ask(odd), json!(false));
    assert_eq!(browser.problems(), Vec::<String>::new());
}
