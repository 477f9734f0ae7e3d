//! The page of `export --format html` in a browser: its content, links, search and keys.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use turntree::context::{Builder, JSON_MEDIA, MessageEntry, Role};
use turntree::object::{Author, Kind, ObjectSink, Trigger};
use turntree::repo::{BranchName, SnapshotDraft};
use turntree_tests::browser::Browser;
use turntree_tests::random_history::{Content, RandomHistory};
use turntree_tests::{Sandbox, claude_code, recorded_sessions, stamp};

use super::page_loading::compressed;
use super::render_page::{lines, page_of, saved};

const WIDTHS: [u32; 5] = [320, 390, 768, 1024, 1440];
const PLACES: [&str; 6] = ["", "#read", "#turn-3", "#diff-2..6", "#compare", "#search=say"];

/// A session with a branch: files change in every turn, and the branch changes them differently.
pub(super) fn strategies() -> (Sandbox, PathBuf) {
    let mut history = RandomHistory::new(&[]);
    let mut content = Content::default();
    let mut turn =
        |history: &mut RandomHistory, branch: &str, parent: Option<usize>, number: usize| {
            content.messages.push(format!("say number {number} on {branch}"));
            let line = |line: usize| match line == number {
                true => format!("line {line} of {branch}\n"),
                false => format!("line {line}\n"),
            };
            content.files.insert("src/a.rs".into(), (0..40).map(line).collect());
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
    let tips =
        [("main", history.turns[at.unwrap()].id), ("plan-b", history.turns[other.unwrap()].id)];
    let file = saved(&history.sandbox, &page_of(&history.sandbox.repo, "s", &tips));
    (history.sandbox, file)
}

/// A page of the messages of a chat, and its sandbox.
fn chat(messages: &[Value]) -> (Sandbox, PathBuf) {
    let sandbox = Sandbox::new();
    let chat = Value::from(messages.to_vec()).to_string();
    let tip = sandbox.import_as("chat", "openai-chat", chat.as_bytes()).unwrap().head;
    let file = saved(&sandbox, &page_of(&sandbox.repo, "chat", &[("main", tip)]));
    (sandbox, file)
}

/// The percent-encoded form of words.
fn percent(words: &str) -> String {
    words.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// A tool call and its result.
fn call(name: &str, input: &Value, answer: &str) -> [Value; 2] {
    let id = format!("{name}-{}", answer.len());
    let call = json!({"id": id, "type": "function", "function": {"name": name, "arguments": input.to_string()}});
    [
        json!({"role": "assistant", "content": null, "tool_calls": [call]}),
        json!({"role": "tool", "tool_call_id": id, "content": answer}),
    ]
}

fn clean(browser: &mut Browser) {
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn clicks_keys_and_addresses_navigate_to_their_targets() {
    let Some(mut browser) = Browser::start() else { return };
    let (_sandbox, file) = strategies();
    browser.open(&file, "");
    assert_eq!(browser.ask("document.querySelector('#view .page').ariaLabel"), "Overview");
    browser.press("g");
    browser.wait("location.hash === '#turn-1'");
    browser.press("j");
    browser.press("ArrowRight");
    browser.wait("location.hash === '#turn-3'");
    browser.press("k");
    browser.wait("location.hash === '#turn-2' && document.title.startsWith('Prompt 2 ')");
    browser.press("G");
    browser.wait("location.hash === '#turn-12'");
    browser.press("{");
    browser.wait("location.hash === '#turn-11'");
    browser.press("b");
    browser.press("G");
    browser.wait("location.hash === '#turn-12@plan-b'");
    let said = browser.ask("document.querySelector('.turn[data-turn=\"17\"]').textContent");
    assert!(said.as_str().unwrap().contains("say number 25 on plan-b"), "{said}");
    browser.click("#rows [aria-level='1'][aria-posinset='8']");
    browser.wait("location.hash === '#turn-8@plan-b'");
    // Two lines of the file, one of the plan.
    browser.wait("document.querySelectorAll('.turn[data-turn=\"13\"] .row.add code').length === 3");
    // The tip of the first lane in the picture.
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
    browser.press("e");
    browser.wait("location.hash === '#read'");
    browser.ask("dispatchEvent(new Event('beforeprint'))");
    assert_eq!(browser.ask("document.querySelectorAll('#view .turn').length"), json!(12));
    assert!(browser.print().len() > 10_000);
    clean(&mut browser);
}

#[test]
fn single_steps_add_no_browser_history() {
    let Some(mut browser) = Browser::start() else { return };
    let (_sandbox, file) = strategies();
    browser.open(&file, "#turn-1");
    let before = browser.ask("history.length");
    for _ in 0..10 {
        browser.press("j");
    }
    browser.wait("location.hash === '#turn-11'");
    assert_eq!(browser.ask("history.length"), before);
    assert!(browser.ask("document.title").as_str().unwrap().starts_with("Prompt 11"));
    // The focus does not move.
    assert_eq!(browser.ask("document.activeElement.tagName"), "BODY");
    clean(&mut browser);
}

#[test]
fn any_two_turns_can_be_compared() {
    let Some(mut browser) = Browser::start() else { return };
    let (_sandbox, file) = strategies();
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
    let sides = "[...document.querySelectorAll('.beside > div')].map((side) => [side.querySelector('h4').textContent, side.querySelectorAll('a').length])";
    let expected = json!([["Only in main, turn 12", 6], ["Only in plan-b, turn 12", 6]]);
    assert_eq!(browser.ask(sides), expected, "prompts side by side, by branch");
    clean(&mut browser);
}

#[test]
fn matches_in_folded_parts_are_opened_and_scrolled_into_view() {
    let Some(mut browser) = Browser::start() else { return };
    let mut messages = vec![json!({"role": "user", "content": "look for it"})];
    for number in 0..30 {
        let output: String = (0..400).map(|line| format!("row {line} of {number}\n")).collect();
        let needle = if number == 17 { "the needle lies here\n" } else { "" };
        let output = format!("{output}{needle}{output}");
        messages.extend(call("Read", &json!({"path": format!("{number}.txt")}), &output));
        messages.push(json!({"role": "assistant", "content": format!("read {number}")}));
    }
    let (_sandbox, file) = chat(&messages);
    browser.open(&file, "");
    browser.press("/");
    browser.write("NEEDLE LIES");
    browser.wait("document.querySelector('#view .page').dataset.done === 'true'");
    let hits = "[...document.querySelectorAll('.hit')].map((hit) => [hit.querySelector('mark').textContent, hit.querySelector('small').textContent])";
    assert_eq!(browser.ask(hits), json!([["needle lies", "Result"]]));
    browser.click(".hit");
    browser.wait("location.hash.includes('?w=')");
    let marked = "(() => { const found = [...CSS.highlights.get('found')]; const box = found[0].getBoundingClientRect(); const view = document.querySelector('#view').getBoundingClientRect(); return [found.length, found[0].toString(), box.height > 0 && box.top >= view.top && box.bottom <= view.bottom]; })()";
    browser.wait(&format!("JSON.stringify({marked}) === '[1,\"needle lies\",true]'"));
    clean(&mut browser);
}

#[test]
fn page_search_finds_words_that_json_or_markup_escapes() {
    let Some(mut browser) = Browser::start() else { return };
    let messages = [
        json!({"role": "user", "content": "close the </div>, and say \"quoted\" & 'so'"}),
        json!({"role": "assistant", "content": "a \\n is two signs,\na line end is one"}),
        json!({"role": "user", "content": "<b onclick=\"x()\">\u{2028}"}),
    ];
    let (_sandbox, file) = chat(&messages);
    for (words, kind, marked) in [
        ("</DIV>", "Prompt", "</div>"),
        ("\"quoted\" & 'so", "Prompt", "\"quoted\" & 'so"),
        ("\\n is", "Answer", "\\n is"),
        ("<b onclick=\"x()\">", "Prompt", "<b onclick=\"x()\">"),
    ] {
        let place = format!("#search={}", percent(words));
        browser.open(&file, &place);
        browser.wait("document.querySelector('#view .page').dataset.done === 'true'");
        let hits = "[...document.querySelectorAll('.hit')].map((hit) => [hit.querySelector('small').textContent, hit.querySelector('mark').textContent])";
        assert_eq!(browser.ask(hits), json!([[kind, marked]]), "{words}");
        browser.click(".hit");
        let found = "[...CSS.highlights.get('found')].map(String)";
        browser
            .wait(&format!("JSON.stringify({found}) === {}", json!(json!([marked]).to_string())));
    }
    clean(&mut browser);
}

#[test]
fn matches_are_filtered_by_kind_and_stepped_through() {
    let Some(mut browser) = Browser::start() else { return };
    let mut messages = vec![json!({"role": "user", "content": "say gravel"})];
    messages.extend(call("Bash", &json!({"command": "echo \"gravel\" <b>"}), "gravel <b>"));
    messages.push(json!({"role": "assistant", "content": "gravel, it is"}));
    let (_sandbox, file) = chat(&messages);
    browser.open(&file, "#search=gravel");
    browser.wait("document.querySelector('#view .page').dataset.done === 'true'");
    let chips = "[...document.querySelectorAll('.chips .chip')].map((chip) => chip.textContent)";
    assert_eq!(browser.ask(chips), json!(["All4", "Prompts1", "Answers1", "Calls1", "Results1"]));
    browser.click(".chips .chip:nth-child(4)");
    assert_eq!(browser.ask("document.querySelectorAll('.hit').length"), json!(1));
    browser.press("n");
    browser.wait("location.hash.startsWith('#turn-') && location.hash.endsWith('?w=gravel')");
    browser.open(&file, "#search=%22gravel%22%20%3Cb%3E");
    browser.wait("document.querySelector('#view .page').dataset.done === 'true'");
    assert_eq!(browser.ask("document.querySelector('.hit mark').textContent"), "\"gravel\" <b>");
    clean(&mut browser);
}

#[test]
fn the_reader_reaches_every_turn() {
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = Sandbox::new();
    let tip = sandbox.import("long", claude_code(260).as_bytes()).unwrap().head;
    let page = page_of(&sandbox.repo, "long", &[("main", tip)]);
    let turns = lines(&page, 't').len();
    let file = saved(&sandbox, &page);
    let last = format!("document.querySelector('.turn[data-turn=\"{}\"]')", turns - 1);
    let seen = format!(
        "(() => {{ const box = {last}.getBoundingClientRect(); return box.bottom <= innerHeight + 1 && box.bottom > 200; }})()"
    );
    // The reader starts at the end.
    browser.open(&file, "#read");
    browser.wait(&seen);
    // With the mouse wheel, at any speed.
    browser.open(&file, "#turn-1");
    assert_eq!(
        browser.ask("document.querySelector('.turn[data-turn=\"0\"]').isConnected"),
        json!(true)
    );
    for _ in 0..400 {
        browser.wheel(800.0, 600.0, 4000.0);
        if browser.ask(&format!("{last} !== null && {seen}")) == json!(true) {
            break;
        }
    }
    browser.wait(&seen);
    browser.wait(&format!(
        "document.querySelector('#rows [aria-selected=\"true\"]').dataset.turn === '{}'",
        turns - 1
    ));
    // With the browser's key, and with the page's key.
    browser.open(&file, "#turn-1");
    browser.ask(
        "document.querySelector('#view').focus(); document.querySelector('#view').scrollTop = 1e9",
    );
    browser.wait(&format!("(() => {{ const view = document.querySelector('#view'); view.scrollTop = 1e9; return {seen}; }})()"));
    browser.open(&file, "#turn-1");
    browser.press("G");
    browser.wait(&format!("{last} !== null"));
    // A requested turn in between is aligned with the upper edge.
    browser.open(&file, "#turn-200");
    let top = "document.querySelector('.turn[data-turn=\"199\"]').getBoundingClientRect().top - document.querySelector('#view').getBoundingClientRect().top";
    let top = browser.ask(top).as_f64().unwrap();
    assert!((-1.0..40.0).contains(&top), "{top}");
    assert!(browser.ask("document.querySelectorAll('*').length").as_u64().unwrap() < 4000);
    clean(&mut browser);
}

/// A session whose facts, notes and words are wider than the screen of a phone.
fn long_names() -> (Sandbox, PathBuf) {
    let sandbox = Sandbox::new();
    let mut change = sandbox.repo.begin();
    let mut builder = Builder::new();
    let word = "final_metrics_of_all_the_prompt_tokens_that_were_cached_".repeat(2);
    let said = json!({"role": "user", "content": format!("{word} `{word}`\n\n- **{word}**")});
    let blob = change.write(Kind::Blob, said.to_string().into()).unwrap();
    let entry = MessageEntry::new(blob, Role::User, JSON_MEDIA);
    builder.push_message(&mut change, "main", &entry).unwrap();
    for section in ["meta", "scratchpad"] {
        builder.set_entry(&mut change, section, &word, Some(word.clone().into())).unwrap();
    }
    let snapshot = SnapshotDraft {
        tree: builder.write(&mut change).unwrap(),
        author: Author::default(),
        time: stamp(1).time,
        trigger: Trigger::Turn,
        message: word,
        metadata: Default::default(),
    };
    let tip = change.snapshot(&BranchName::main("long").unwrap(), snapshot).unwrap();
    change.commit(&stamp(2), "long").unwrap();
    let file = saved(&sandbox, &page_of(&sandbox.repo, "long", &[("main", tip)]));
    (sandbox, file)
}

#[test]
fn pages_fit_the_window_and_show_content_without_scrolling() {
    let Some(mut browser) = Browser::start() else { return };
    let (_sandbox, file) = strategies();
    for place in PLACES {
        browser.open(&file, place);
        for width in WIDTHS {
            browser.resize(width, 844);
            let wide = "[document.documentElement.scrollWidth - innerWidth, document.querySelector('#view').scrollWidth - document.querySelector('#view').clientWidth]";
            assert_eq!(browser.ask(wide), json!([0, 0]), "{place} at {width}");
            let meet = "(() => { const boxes = ['.brand', '#find', '#bar'].map((one) => document.querySelector(one).getBoundingClientRect()); return boxes.some((a, i) => boxes.some((b, j) => i < j && a.left < b.right - 0.5 && b.left < a.right - 0.5 && a.top < b.bottom - 0.5 && b.top < a.bottom - 0.5)); })()";
            assert_eq!(browser.ask(meet), json!(false), "{place} at {width}: the header");
            let top = browser.ask("document.querySelector('#view').getBoundingClientRect().top");
            assert!(width > 860 || top.as_f64().unwrap() < 300.0, "{place} at {width}: {top}");
        }
        browser.resize(1440, 900);
    }
    let (_sandbox, file) = long_names();
    for place in ["", "#turn-1"] {
        browser.open(&file, place);
        browser.ask(
            "document.querySelectorAll('#view details').forEach((one) => { one.open = true; })",
        );
        browser.resize(320, 844);
        let wide = "document.querySelector('#view').scrollWidth - document.querySelector('#view').clientWidth";
        assert_eq!(browser.ask(wide), json!(0), "{place} with long names");
        browser.resize(1440, 900);
    }
    let (_sandbox, file) = strategies();
    // The outcomes are visible without scrolling.
    browser.open(&file, "#compare");
    let right = "Math.max(0, ...[...document.querySelectorAll('.compare thead th')].map((one) => one.getBoundingClientRect().right)) - innerWidth";
    assert!(browser.ask(right).as_f64().unwrap() <= 0.0);
    browser.resize(390, 844);
    browser.click(".only-narrow");
    browser.wait("document.querySelector('#list').clientHeight > 300");
    browser.click("#rows [aria-level='1']");
    browser.wait(
        "document.querySelector('#side').clientHeight === 0 && location.hash.startsWith('#turn-')",
    );
    clean(&mut browser);
}

/// A session with every kind of turn.
pub(super) fn story() -> (Sandbox, PathBuf) {
    let mut messages = vec![
        json!({"role": "user", "content": "Make the parser faster"}),
        json!({"role": "assistant", "reasoning_content": "Where does time go?", "content": "I look at it."}),
    ];
    messages.extend(call(
        "Bash",
        &json!({"command": "cargo bench\n--quiet"}),
        "\u{1b}[1m\u{1b}[32mok\u{1b}[0m fast\nexit code: 3",
    ));
    messages.extend(call("Edit", &json!({"file_path": "src/a.rs", "old_string": "let a = 1;\n", "new_string": "let a = 2;\nlet b = 3;\n"}), "done"));
    messages.extend(call("apply_patch", &json!({"input": "*** Begin Patch\n*** Update File: b.txt\n@@\n-old\n+new\n same\n*** End Patch"}), "ok"));
    messages.extend(call("TodoWrite", &json!({"todos": [{"content": "measure", "status": "completed"}, {"content": "mend", "status": "in_progress"}]}), "ok"));
    messages.push(json!({"role": "assistant", "content": "# Done\n\nSee [the page](https://example.org/x) and `code`.\n\n| a | b |\n|---|--:|\n| 1 | **2** |\n\n> quoted\n\n1. one\n   - two\n     ```rust\n     fn f() { \"x\" } // c\n     ```\n2. three\n\n---\n- [x] task\n"}));
    messages.push(json!({"role": "user", "content": "And the lexer?"}));
    messages.push(json!({"role": "assistant", "content": "Fast already."}));
    chat(&messages)
}

#[test]
fn the_overview_and_the_outline_list_the_prompts() {
    let Some(mut browser) = Browser::start() else { return };
    let (_sandbox, file) = story();
    browser.open(&file, "");
    assert_eq!(browser.ask("document.querySelector('#view h2').textContent"), "chat");
    let asked = browser.ask("document.querySelector('#view .asked').textContent");
    assert_eq!(asked, "Make the parser faster");
    let tiles = browser.ask("document.querySelector('.tiles').innerText.replace(/\\s+/g, ' ')");
    assert!(tiles.as_str().unwrap().starts_with("2 prompts"), "{tiles}");
    assert!(tiles.as_str().unwrap().contains("4 tool calls"), "{tiles}");
    assert_eq!(
        browser.ask("document.querySelector('.result-box').innerText.trim()"),
        "Fast already."
    );
    assert_eq!(browser.ask("document.querySelectorAll('.prompt-line').length"), json!(2));
    let chapters = "[...document.querySelectorAll('#rows [aria-level=\"1\"] .title')].map((one) => one.textContent)";
    assert_eq!(browser.ask(chapters), json!(["Make the parser faster", "And the lexer?"]));
    assert_eq!(
        browser.ask("document.querySelectorAll('#rows [aria-level=\"2\"]').length"),
        json!(0)
    );
    browser.open(&file, "#prompt-1");
    assert_eq!(
        browser.ask("document.querySelector('#rows [aria-selected=\"true\"]').ariaExpanded"),
        "true"
    );
    assert!(
        browser
            .ask("document.querySelectorAll('#rows [aria-level=\"2\"]').length")
            .as_u64()
            .unwrap()
            > 3
    );
    let doors = "document.querySelector('.turn .details').open = true";
    browser.ask(doors);
    browser.wait("document.querySelectorAll('.turn .details .copy').length === 2");
    let titles = browser.ask(
        "[...document.querySelectorAll('.turn .details .copy')].map((one) => one.title).join(';')",
    );
    assert!(titles.as_str().unwrap().contains("Copy the link"), "{titles}");
    clean(&mut browser);
}

#[test]
fn tool_calls_render_as_cards_and_markdown_is_complete() {
    let Some(mut browser) = Browser::start() else { return };
    let (_sandbox, file) = story();
    browser.open(&file, "#read");
    browser.ask("dispatchEvent(new Event('beforeprint'))");
    let cards = browser.ask("[...document.querySelectorAll('.card')].map((card) => card.querySelector('summary').innerText.replace(/\\s+/g, ' ').trim())");
    let cards: Vec<&str> =
        cards.as_array().unwrap().iter().map(|card| card.as_str().unwrap()).collect();
    assert!(
        cards[0].starts_with("$ Bash cargo bench \u{23ce} --quiet") && cards[0].contains("exit 3"),
        "{cards:?}"
    );
    assert!(
        cards[1].starts_with("~ Edit src/a.rs") && cards[1].contains("+2 \u{2212}1"),
        "{cards:?}"
    );
    assert!(cards[2].starts_with("~ apply_patch b.txt +1 \u{2212}1"), "{cards:?}");
    assert!(cards[3].contains("1 of 2 done"), "{cards:?}");
    let colour = "[...document.querySelectorAll('.output pre span')].map((one) => [one.className, one.textContent])";
    assert_eq!(browser.ask(colour), json!([["a-2 a-bold", "ok"]]));
    let rows = "[...document.querySelectorAll('.card .row')].map((row) => row.classList.contains('add') ? '+' : row.classList.contains('del') ? '-' : ' ').join('')";
    assert_eq!(browser.ask(rows), "-++-+ ");
    let marks = "['table td.end strong', 'blockquote p', 'ol > li > ul > li .code .c-word', '.c-string', '.c-comment', 'hr', 'li.task .box', 'a[href=\"https://example.org/x\"][rel~=\"noreferrer\"]'].filter((one) => !document.querySelector(`.prose ${one}`))";
    assert_eq!(browser.ask(marks), json!([]), "unrendered elements");
    assert_eq!(browser.ask("document.querySelector('.prose .host').textContent"), " (example.org)");
    clean(&mut browser);
}

#[test]
fn failed_output_shows_its_end_and_terminals_overwrite_what_they_wrote() {
    let Some(mut browser) = Browser::start() else { return };
    let lines: String = (1..=30).map(|line| format!("line {line}\n")).collect();
    let failed = format!("Exit code 1\n{lines}error: no such thing");
    let asked = json!({"role": "user", "content": "test it"});
    let test = call("bash", &json!({"command": "cargo test"}), &failed);
    let spin =
        call("bash", &json!({"command": "spin"}), "-\u{8}\\\u{8}| 10 %\r| 99 %\rdone\r\nend");
    let (_sandbox, file) = chat(&[&[asked][..], &test, &spin].concat());
    browser.open(&file, "#read");
    browser.ask("dispatchEvent(new Event('beforeprint'))");
    let outputs = "[...document.querySelectorAll('.output pre')].map((one) => one.textContent)";
    let outputs = browser.ask(outputs);
    let end = "line 24\nline 25\nline 26\nline 27\nline 28\nline 29\nline 30\nerror: no such thing";
    assert_eq!(outputs, json!([end, "done\nend"]));
    browser.click(".output .more");
    browser.wait("document.querySelector('.output pre').textContent.startsWith('Exit code 1')");
    clean(&mut browser);
}

#[test]
fn filters_show_turns_of_a_kind() {
    let Some(mut browser) = Browser::start() else { return };
    let (_sandbox, file) = story();
    browser.open(&file, "#read");
    let kinds = "[...document.querySelectorAll('#kinds .chip')].map((one) => one.innerText.replace(/\\d+/, '').trim())";
    assert_eq!(browser.ask(kinds), json!(["All", "Prompts", "Answers", "Tools"]));
    browser.click("#kinds .chip:nth-child(2)");
    browser.wait("document.querySelectorAll('.reader .turn').length === 2");
    browser.press("f");
    browser.press("f");
    browser.wait("document.body.dataset.kind === 'tools'");
    let seen = "[...document.querySelectorAll('.reader .said')].filter((one) => one.checkVisibility() && one.dataset.kind === 'answers').length";
    assert_eq!(browser.ask(seen), json!(0));
    browser.press("f");
    browser.wait("document.body.dataset.kind === 'all'");
    clean(&mut browser);
}

#[test]
fn sub_agents_are_shown_in_their_starting_call() {
    let Some(mut browser) = Browser::start() else { return };
    let sandbox = Sandbox::new();
    let mut change = sandbox.repo.begin();
    let branch = BranchName::main("agents").unwrap();
    let mut builder = Builder::new();
    let task = json!({"prompt": "Review it", "subagent_type": "reviewer"}).to_string();
    for (agent, role, record) in [
        ("main", Role::User, json!({"role": "user", "content": "Ask for a review"})),
        (
            "main",
            Role::Assistant,
            json!({"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": {"name": "Task", "arguments": task}}]}),
        ),
        ("r1@main", Role::User, json!({"role": "user", "content": "Review it"})),
        (
            "r1@main",
            Role::Assistant,
            json!({"role": "assistant", "content": "It is fine", "reasoning_content": "hm"}),
        ),
        ("main", Role::Tool, json!({"role": "tool", "tool_call_id": "1", "content": "It is fine"})),
        ("other@main", Role::Assistant, json!({"role": "assistant", "content": "from nowhere"})),
        ("main", Role::Assistant, json!({"role": "assistant", "content": ""})),
    ] {
        let blob = change.write(Kind::Blob, record.to_string().into()).unwrap();
        builder
            .push_message(&mut change, agent, &MessageEntry::new(blob, role, JSON_MEDIA))
            .unwrap();
    }
    let snapshot = SnapshotDraft {
        tree: builder.write(&mut change).unwrap(),
        author: Author::default(),
        time: stamp(1).time,
        trigger: Trigger::Turn,
        message: "Ask for a review".into(),
        metadata: [("check.tests".to_owned(), "failed".to_owned())].into(),
    };
    let tip = change.snapshot(&branch, snapshot).unwrap();
    change.commit(&stamp(2), "agents").unwrap();
    let file = saved(&sandbox, &page_of(&sandbox.repo, "agents", &[("main", tip)]));
    browser.open(&file, "#turn-1");
    browser.ask("document.querySelectorAll('.turn > .message details, .agent').forEach((one) => { one.open = true; })");
    browser.wait("document.querySelector('.inside .said')");
    assert_eq!(
        browser.ask("document.querySelector('.card .inside').innerText.includes('It is fine')"),
        json!(true)
    );
    assert_eq!(
        browser.ask("document.querySelectorAll('.agent').length"),
        json!(1),
        "only the one of no call stands below"
    );
    assert_eq!(
        browser.ask("document.querySelectorAll('.message .body:empty').length"),
        json!(0),
        "no box without anything to read"
    );
    assert_eq!(
        browser.ask("document.querySelector('.turn-head .failed').textContent"),
        "tests failed"
    );
    assert_eq!(browser.ask("document.querySelectorAll('#map .bars').length > 0"), json!(true));
    clean(&mut browser);
}

#[test]
fn compressed_pages_equal_plain_pages() {
    let sandbox = Sandbox::new();
    let made = claude_code(60).replace("fn part_", "fn \u{e4}\u{1f980}part_");
    let tip = sandbox.import("s", made.as_bytes()).unwrap().head;
    let page = page_of(&sandbox.repo, "s", &[("main", tip)]);
    let packed = compressed(&page, 0).unwrap();
    assert!(packed.len() < page.len() - 50_000, "{} of {}", packed.len(), page.len());
    assert!(compressed(&packed, 0).is_err(), "once is enough");
    assert_eq!(compressed(&page, page.len()).unwrap(), page, "small enough");
    assert_eq!(compressed(&page, page.len() - 1).unwrap(), packed);
    let Some(mut browser) = Browser::start() else { return };
    let mut read = |page: &str| {
        browser.open(&saved(&sandbox, page), "#read");
        browser.ask("dispatchEvent(new Event('beforeprint'))");
        let text = browser.ask("document.querySelector('#view').textContent");
        clean(&mut browser);
        text
    };
    let (plain, inflated) = (read(&page), read(&packed));
    assert!(plain.as_str().unwrap().contains("\u{e4}\u{1f980}part_59"));
    assert!(plain == inflated, "the texts differ");
}

#[test]
fn recorded_sessions_open_without_an_error() {
    let Some(mut browser) = Browser::start() else { return };
    // One recording of each format: all would take minutes.
    let mut formats = std::collections::BTreeMap::new();
    for file in recorded_sessions() {
        formats.entry(file.parent().unwrap().to_owned()).or_insert(file);
    }
    for file in formats.values() {
        let sandbox = Sandbox::new();
        let Ok(report) = sandbox.import("s", &std::fs::read(file).unwrap()) else { continue };
        let page = saved(&sandbox, &page_of(&sandbox.repo, "s", &[("main", report.head)]));
        for place in ["", "#turn-1", "#read"] {
            browser.open(&page, place);
            browser.press("o");
            browser.press("j");
            let wide = "document.querySelector('#view').scrollWidth - document.querySelector('#view').clientWidth";
            assert_eq!(browser.ask(wide), json!(0), "{} {place}", file.display());
            clean(&mut browser);
        }
    }
}

/// A file of an npm package, if it is installed, for example by `.ci/run`.
fn npm(file: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("TURNTREE_NODE_MODULES").map(PathBuf::from);
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let file = folder.unwrap_or_else(|| root.join("target/clients/node_modules")).join(file);
    let found = Some(file).filter(|file| file.exists());
    if found.is_none() {
        eprintln!("skipped: the npm packages of the test are not installed");
    }
    found
}

#[test]
fn pages_pass_the_axe_accessibility_checks() {
    let Some(axe) = npm("axe-core/axe.min.js") else { return };
    let Some(mut browser) = Browser::start() else { return };
    let axe = std::fs::read_to_string(axe).unwrap();
    let ((_one, branches), (_two, story)) = (strategies(), story());
    for (file, places) in [(&branches, &PLACES[..]), (&story, &["", "#prompt-1", "#search=done"])] {
        for place in places {
            browser.open(file, place);
            browser.press("o");
            browser.ask(&axe);
            for (theme, width) in [("light", 1440), ("dark", 390)] {
                browser.prefer("prefers-color-scheme", theme);
                browser.resize(width, 844);
                let run = "axe.run(document, {resultTypes: ['violations']}).then((found) => found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => `${node.html.slice(0, 120)} ${node.any[0]?.message ?? ''}`).slice(0, 3)}`))";
                assert_eq!(browser.ask(run), json!([]), "{place} {theme} {width}");
            }
            browser.resize(1440, 900);
        }
    }
    clean(&mut browser);
}

/// Returns the names of the scripts that a module of the page includes.
fn included(module: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(module).unwrap();
    let names = text.split("include_str!(\"").skip(1).filter_map(|rest| rest.split('"').next());
    names.filter(|name| name.ends_with(".js")).map(str::to_owned).collect()
}

#[test]
fn page_scripts_pass_the_type_checker() {
    let Some(tsc) = npm(".bin/tsc") else { return };
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../exchange/src/render/page");
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let scripts: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "js"))
        .collect();
    let options = "--noEmit --allowJs --checkJs --target es2023 --lib es2023,dom,dom.iterable --strict false --types";
    let [of_files, of_servers] = ["mod.rs", "live.rs"].map(|module| included(&folder.join(module)));
    let served: Vec<&str> = of_servers.difference(&of_files).map(String::as_str).collect();
    let file = ["source.js", "scan.js", "embedded.js", "sealed.js"];
    let [plain, sealed] =
        ["sealed.js", "embedded.js"].map(|start| [&served[..], &[start]].concat());
    for others in [&file[..], &plain, &sealed] {
        let own = scripts.iter().filter(|path| !others.iter().any(|other| path.ends_with(other)));
        let mut command = Command::new(&tsc);
        let output = command.args(options.split(' ')).arg("").args(own).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}
