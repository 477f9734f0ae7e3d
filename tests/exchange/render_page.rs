//! `export --format html`: the page has all that the store has, shows it, and runs nothing of it.

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
use turntree_tests::{Sandbox, claude_code, recorded_sessions, stamp};

const COMPARISON: &str = r#"{"fork":null,"strategies":[]}"#;

fn page_of(repo: &Repository, title: &str, branches: &[(&str, ObjectId)]) -> String {
    let named = |(name, tip): &(&str, ObjectId)| PageBranch { name: (*name).into(), tip: *tip };
    let branches: Vec<PageBranch> = branches.iter().map(named).collect();
    let page = Page {
        title,
        branches: &branches,
        comparison: (branches.len() > 1).then_some(COMPARISON),
        made_by: "tests",
        prices: &PriceTable::default(),
        show_time: &|time| format!("{} s", time.micros / 1_000_000),
    };
    let mut out = Vec::new();
    export_page(repo, &page, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The lines of the data with a letter.
fn lines(page: &str, letter: char) -> Vec<Value> {
    let (_, data) = page.split_once("id=\"data\">\n").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    let lines = data.lines().filter_map(|line| line.strip_prefix(letter));
    lines.map(|json| serde_json::from_str(json).unwrap()).collect()
}

/// What a page says that a turn has, made from the changes of all turns before it.
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
            match file.get(1) {
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
    fn every_turn_can_be_made_again_from_the_page(steps in steps()) {
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

/// Texts that would do something on a page that is careless.
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

/// A session in which everything that has a name or a content is hostile.
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

fn saved(sandbox: &Sandbox, page: &str) -> PathBuf {
    let file = sandbox.folder().join("page.html");
    std::fs::write(&file, page).unwrap();
    file
}

#[test]
fn hostile_content_cannot_leave_the_data() {
    let (sandbox, tip) = hostile();
    let page = page_of(&sandbox.repo, HOSTILE[1], &[("main", tip)]);
    let (head, rest) = page.split_once("id=\"data\">\n").unwrap();
    let (data, script) = rest.split_once("</script>").unwrap();
    assert!(!data.contains(['<', '>', '&', '\u{2028}', '\u{2029}', '\r']), "the data has markup");
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
fn a_hostile_session_runs_nothing_and_reads_as_it_was_written() {
    let Some(mut browser) = Browser::start() else { return };
    let (sandbox, tip) = hostile();
    let file = saved(
        &sandbox,
        &page_of(&sandbox.repo, HOSTILE[1], &[("<b onclick=pwned=1>", tip), ("2", tip)]),
    );
    let places = (1..=HOSTILE.len()).map(|turn| format!("#turn-{turn}"));
    let more = [
        "#all",
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
                   document.querySelectorAll('iframe, base, form[action], img:not([src^=\"data:image/png;\"]), [onclick], [onerror], [onload], a:not([href^=\"#\"])').length";
        assert_eq!(browser.ask(odd), json!(1), "{place}: nothing but the script of the page");
    }
    for (index, evil) in HOSTILE.into_iter().enumerate() {
        browser.open(&file, &format!("#turn-{}", index + 1));
        let said = browser.ask("document.querySelector('.what').textContent");
        assert_eq!(said, Value::from(evil));
        browser.ask("document.querySelectorAll('.call details, .result').forEach((one) => { one.open = true; })");
        let result = browser.ask("document.querySelector('.result pre').textContent");
        assert_eq!(result, Value::from(evil));
    }
}

#[test]
fn text_that_runs_backwards_shows_why_and_is_kept_as_it_is() {
    let sandbox = Sandbox::new();
    let said = "live \u{202e}edirrevo\u{2069}";
    let line = json!({"role": "user", "content": said}).to_string();
    let tip = sandbox.import_as("s", "openai-chat", format!("[{line}]").as_bytes()).unwrap().head;
    let page = page_of(&sandbox.repo, "s \u{200f}", &[("main \u{2066}", tip)]);
    assert_eq!(lines(&page, 'm')[0]["text"], said, "the data is what was said");
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

/// A session with a branch: files change in every turn, and the branch goes another way.
fn strategies() -> (Sandbox, ObjectId, ObjectId) {
    let mut history = RandomHistory::new(&[]);
    let mut content = Content::default();
    let mut turn =
        |history: &mut RandomHistory, branch: &str, parent: Option<usize>, number: usize| {
            content.messages.push(format!("say number {number} on {branch}"));
            content.files.insert(
                "src/a.rs".into(),
                (0..40)
                    .map(|line| match line == number {
                        true => format!("line {line} of {branch}\n"),
                        false => format!("line {line}\n"),
                    })
                    .collect(),
            );
            content.notes.insert("plan".into(), format!("step {number}\n"));
            history.add(branch, parent.into_iter().collect(), content.clone())
        };
    let mut at = None;
    for number in 1..=12 {
        at = Some(turn(&mut history, "main", at, number));
    }
    let mut other = Some(5);
    for number in 20..26 {
        other = Some(turn(&mut history, "plan-b", other, number));
    }
    let tips = (history.turns[at.unwrap()].id, history.turns[other.unwrap()].id);
    (history.sandbox, tips.0, tips.1)
}

#[test]
fn clicks_keys_and_addresses_lead_where_they_say() {
    let Some(mut browser) = Browser::start() else { return };
    let (sandbox, main, other) = strategies();
    let file = saved(&sandbox, &page_of(&sandbox.repo, "s", &[("main", main), ("plan-b", other)]));
    let title = "document.querySelector('#view h2').textContent";
    browser.open(&file, "");
    assert_eq!(browser.ask(title), "Turn 1");
    browser.press("j");
    browser.press("ArrowRight");
    browser.wait("location.hash === '#turn-3'");
    browser.press("k");
    browser.wait("document.querySelector('#view h2').textContent === 'Turn 2'");
    browser.press("G");
    browser.wait("location.hash === '#turn-12'");
    assert!(
        browser
            .ask("document.querySelector('#view .body').textContent")
            .as_str()
            .unwrap()
            .contains("say number 12 on main")
    );
    browser.press("b");
    browser.wait("location.hash === '#turn-12@plan-b'");
    browser.click(".turn-row[aria-posinset='8']");
    browser.wait("location.hash === '#turn-8@plan-b'");
    assert_eq!(browser.ask("[...document.querySelectorAll('#view .row.add code')].map((row) => row.firstChild.textContent)").as_array().unwrap().len(), 3, "two lines of the file and one of the plan");
    // The end of the first lane of the picture.
    browser.click("#map .lane .tip");
    browser.wait("location.hash === '#turn-12'");
    browser.press("d");
    browser.wait("location.hash === '#diff-11..12'");
    browser.press("Escape");
    browser.wait("location.hash === '#turn-12'");
    browser.press("?");
    browser.wait("document.querySelector('#help').open");
    browser.press("Escape");
    browser.wait("!document.querySelector('#help').open");
    browser.press("c");
    browser.wait("document.querySelector('#view h2').textContent === 'Strategies'");
    browser.press("t");
    let theme = browser.ask("document.documentElement.dataset.theme");
    assert!(theme == "dark" || theme == "light");
    browser.press("a");
    browser.wait("document.querySelectorAll('#view .turn').length >= 8");
    browser.ask("dispatchEvent(new Event('beforeprint'))");
    assert_eq!(browser.ask("document.querySelectorAll('#view .turn').length"), json!(12));
    assert!(browser.print().len() > 10_000);
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn any_two_turns_are_compared_and_everything_is_searched() {
    let Some(mut browser) = Browser::start() else { return };
    let (sandbox, main, other) = strategies();
    let file = saved(&sandbox, &page_of(&sandbox.repo, "s", &[("main", main), ("plan-b", other)]));
    browser.open(&file, "#diff-3..9");
    let rows = |sign: &str| {
        format!(
            "[...document.querySelectorAll('#view .row.{sign} code')].map((row) => row.textContent)"
        )
    };
    assert_eq!(browser.ask(&rows("del")), json!(["line 3 of main", "line 9", "step 3"]));
    assert_eq!(browser.ask(&rows("add")), json!(["line 3", "line 9 of main", "step 9"]));
    assert_eq!(browser.ask("document.querySelectorAll('#view .message').length"), json!(6));
    browser.open(&file, "#diff-12..12@plan-b");
    assert_eq!(browser.ask(&rows("add")), json!(["line 12", "line 25 of plan-b", "step 25"]));
    browser.press("/");
    browser.write("NUMBER 23");
    browser.wait("document.querySelector('#view [data-done=true], #view article[data-done=true]') || document.querySelector('#view .turn').dataset.done === 'true'");
    let hits = browser.ask("[...document.querySelectorAll('.hit')].map((hit) => [hit.getAttribute('href'), hit.querySelector('mark').textContent])");
    assert_eq!(hits[0][1], "number 23");
    assert!(hits[0][0].as_str().unwrap().starts_with("#turn-10@plan-b/m"), "{hits}");
    browser.click(".hit");
    browser.wait("location.hash.startsWith('#turn-10@plan-b')");
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn fifteen_hundred_messages_open_in_under_a_second() {
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = Sandbox::new();
    let made = claude_code(1100);
    let recorded = recorded_sessions()
        .into_iter()
        .find(|file| file.ends_with("claude-code/ironclaw__bdf40454b1a2-1.jsonl"));
    let transcript = recorded.map_or(made.into_bytes(), |file| std::fs::read(file).unwrap());
    let tip = sandbox.import("long", &transcript).unwrap().head;
    let page = page_of(&sandbox.repo, "long", &[("main", tip)]);
    assert!(lines(&page, 'm').len() >= 1500);
    let file = saved(&sandbox, &page);
    // The machine may be busy with something else: the best of some.
    let mut times = (0..4).map(|_| {
        browser.open(&file, "#turn-200");
        browser.ask("performance.getEntriesByName('turntree-shown')[0].startTime").as_f64().unwrap()
    });
    let shown = times.next().unwrap().min(times.fold(f64::MAX, f64::min));
    eprintln!("shown after {shown:.0} ms, {} KiB", page.len() >> 10);
    assert!(shown < 1000.0, "shown after {shown} ms");
    assert!(
        browser.ask("document.querySelectorAll('*').length").as_u64().unwrap() < 4000,
        "only what is seen is made"
    );
    assert_eq!(browser.problems(), Vec::<String>::new());
}
