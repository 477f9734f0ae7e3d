//! The first and the last minute in `turntree view`: what screens show at once, and the way back.

use std::fs;

use serde_json::{Value, json};
use turntree_tests::browser::Browser;
use turntree_tests::claude_code;
use turntree_tests::server_process::Place;

use super::view::Served;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// Sums how far content moves by itself. More than 0.1 is seen as a jump.
const WATCH_SHIFTS: &str = "window.shift = 0; new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value;
}).observe({ type: 'layout-shift', buffered: true });";

pub(super) const LIVE: &str = "document.querySelector('#state')?.dataset.good === 'true'";

/// Commits a turn with a message and the content of two files, as it is and in a deep folder.
pub(super) fn say(place: &Place, branch: &str, words: &str, files: [&str; 2], more: &[&str]) {
    let (session, branch) = branch.split_once('/').unwrap();
    fs::create_dir_all(place.path().join("work/one/two")).unwrap();
    place.write("one/two/deep.txt", files[0]);
    place.write("top.txt", files[1]);
    let message = format!("user={words}");
    let at = ["snapshot", "-m", words, "--session", session, "--branch", branch];
    let what = ["--append-message", &message, "--workspace", "work"];
    let _ = place.run(&[&at[..], &what, more].concat());
}

/// Two strategies that were merged with a conflict into `both`, after 30 turns on `main`.
pub(super) fn strategies() -> Place {
    let place = Place::new(PROGRAM);
    for turn in 0..30 {
        say(&place, "lexer/main", &format!("step {turn}"), ["a\n", "first\n"], &[]);
    }
    let _ = place.run(&["fork", "plan-b", "lexer/main"]);
    let _ = place.run(&["fork", "both", "lexer/main"]);
    say(&place, "lexer/both", "by hand", ["hand\n", "first\n"], &["--check", "tests=passed"]);
    say(&place, "lexer/plan-b", "a table", ["table\n", "last\n"], &["--check", "tests=failed"]);
    let merged = place.command(&["merge", "lexer/plan-b", "--into", "lexer/both"]).output();
    assert_eq!(merged.unwrap().status.code(), Some(1), "a conflict stays open");
    place
}

pub(super) fn address(served: &Served, path: &str, hash: &str) -> String {
    format!("http://127.0.0.1:{}{path}#key={}{hash}", served.port, served.key)
}

fn number(browser: &mut Browser, expression: &str) -> f64 {
    browser.ask(expression).as_f64().unwrap_or_else(|| panic!("{expression}"))
}

#[test]
fn back_from_a_session_leads_to_the_same_search_filter_and_row() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new(PROGRAM);
    for session in 0..60 {
        let words = format!("about lexer {session}");
        let at = ["snapshot", "-m", &words, "--session", &format!("s{session}")];
        let message = format!("user={words}");
        let _ = place.run(&[&at[..], &["--append-message", &message, "--agent", "ann"]].concat());
    }
    let _ = place.run(&["session", "label", "s7", "kept"]);
    let served = Served::start(&place, &[]);
    browser.visit(&address(&served, "/", ""));
    browser.wait(&format!("document.querySelectorAll('.session-line').length === 60 && {LIVE}"));
    let at_row = "document.activeElement?.dataset.session === 's20'";
    browser.click("[data-session=s20]");
    browser.wait("location.pathname === '/s/s20'");
    browser.ask("history.back()");
    browser.wait(&format!("location.pathname === '/' && {at_row}"));
    browser.wait("document.querySelector('#view').scrollTop > 100");
    // The address contains the filter and the search words, so a link restores both.
    browser.press("/");
    browser.write("lexer 3");
    browser
        .wait("document.querySelectorAll('.hit').length > 0 && location.search === '?q=lexer+3'");
    let hits = browser.ask("document.querySelectorAll('.hit').length");
    browser.click(".hits .group:nth-child(2) .hit");
    browser.wait("location.pathname !== '/'");
    browser.ask("history.back()");
    browser.wait(&format!("document.querySelectorAll('.hit').length === {hits}"));
    browser.wait("document.querySelector('#query').value === 'lexer 3'");
    browser.wait("document.activeElement.matches('.hits .group:nth-child(2) .hit')");
    browser.visit(&address(&served, "/?label=kept", ""));
    browser.wait("document.querySelectorAll('.session-line').length === 1");
    assert_eq!(
        browser.ask("document.querySelector('.chip[aria-pressed=true]').innerText"),
        "kept\n1"
    );
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn hits_stand_below_their_session_and_nothing_says_that_there_is_none() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new(PROGRAM);
    fs::write(place.path().join("t.jsonl"), claude_code(40)).unwrap();
    let _ = place.run(&["import", "t.jsonl", "--session", "parser"]);
    let _ = place.run(&["session", "rename", "parser", "A parser"]);
    say(&place, "other/main", "only here: part 12 of it", ["a\n", "b\n"], &[]);
    let served = Served::start(&place, &[]);
    browser.visit(&address(&served, "/", ""));
    browser.wait(&format!("document.querySelectorAll('.chip').length > 2 && {LIVE}"));
    let chips = browser.ask("document.querySelectorAll('.chip').length");
    browser.press("/");
    browser.write("part 12 of");
    browser.wait("document.querySelectorAll('.hits section:first-child .group').length === 2");
    let told = browser.ask("document.body.innerText");
    let told = told.as_str().unwrap();
    assert!(!told.contains("called so") && told.contains("2 sessions"), "{told}");
    assert!(!told.contains("messages/") && !told.contains("0 of"), "{told}");
    assert_eq!(browser.ask("document.querySelectorAll('.chip').length"), chips);
    let group = "[...document.querySelectorAll('.hits section:first-child .group')].find((one) => one.innerText.startsWith('A parser'))";
    let heading = browser.ask(&format!("{group}.querySelector('h3').innerText"));
    assert!(heading.as_str().unwrap().contains("claude-code"), "{heading}");
    assert_eq!(browser.ask(&format!("{group}.querySelectorAll('h3').length")), json!(1));
    let border = "getComputedStyle(document.querySelector('.hit')).borderLeftWidth";
    assert_eq!(browser.ask(border), "3px");
    // A filter by agent hides the hits of other agents.
    browser.ask("[...document.querySelectorAll('.chip')].find((one) => one.innerText.startsWith('claude-code')).click()");
    browser.wait("[...document.querySelectorAll('.group')].every((one) => one.hidden === !one.innerText.includes('A parser') || one.hidden === (one.dataset.agent !== 'claude-code'))");
    browser.wait("[...document.querySelectorAll('.hits section:first-child .group')].filter((one) => !one.hidden).length === 1");
    // The next match in a session that a hit led to.
    browser.visit(&address(&served, "/?q=of+the+parser", ""));
    browser.wait("document.querySelector('.hit')");
    browser.click(".hit");
    browser.wait("location.pathname === '/s/parser' && CSS.highlights?.get('found')?.size > 0");
    browser.wait(LIVE);
    let before = browser.ask("location.hash");
    browser.press("n");
    browser.wait(&format!("location.hash !== {before} && location.hash.includes('?w=')"));
    browser.press("s");
    browser.wait("location.pathname === '/' && document.querySelector('.session-line')");
    browser.press("?");
    browser.wait("document.querySelector('#help').open");
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn keys_and_escape_act_on_an_open_plan_and_not_on_the_page_behind_it() {
    let Some(mut browser) = Browser::start() else { return };
    let place = strategies();
    let served = Served::start(&place, &["--allow-changes"]);
    browser.visit(&address(&served, "/s/lexer", ""));
    browser.wait(&format!("{LIVE} && document.querySelector('#bar [href=\"#compare\"]')"));
    browser.ask("[...document.querySelectorAll('.offers button')].find((one) => one.textContent.startsWith('Restore')).click()");
    browser.wait("document.querySelector('#plan')");
    let before = browser.ask("location.hash + document.body.dataset.route");
    for key in ["c", "d", "b", "j"] {
        browser.press(key);
    }
    assert_eq!(browser.ask("document.querySelector('#change').open"), json!(true));
    browser.press("Escape");
    browser.wait("!document.querySelector('#change').open");
    assert_eq!(browser.ask("location.hash + document.body.dataset.route"), before);
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn strategies_have_most_of_the_picture_and_their_outcome_at_the_end() {
    let Some(mut browser) = Browser::start() else { return };
    let place = strategies();
    let served = Served::start(&place, &[]);
    browser.visit(&address(&served, "/s/lexer", ""));
    browser.wait(&format!("{LIVE} && document.querySelectorAll('#map .lane').length === 3"));
    let width = number(&mut browser, "document.querySelector('#map svg').clientWidth");
    let fork =
        number(&mut browser, "Number(document.querySelector('#map .fork').getAttribute('cx'))");
    assert!(fork < width * 0.45, "{fork} of {width}");
    assert_eq!(browser.ask("document.querySelectorAll('#map .tip.failed').length"), json!(1));
    // One line without forks has all of it.
    let _ =
        place.run(&["snapshot", "-m", "alone", "--session", "alone", "--append-message", "user=a"]);
    say(&place, "alone/main", "and more", ["a\n", "b\n"], &[]);
    browser.visit(&address(&served, "/s/alone", ""));
    let tip =
        number(&mut browser, "Number(document.querySelector('#map .tip').getAttribute('cx'))");
    assert!(tip > width * 0.85, "{tip} of {width}");
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn open_conflicts_are_told_wherever_their_session_is_shown() {
    let Some(mut browser) = Browser::start() else { return };
    let place = strategies();
    let served = Served::start(&place, &[]);
    browser.visit(&address(&served, "/", ""));
    browser.wait(
        "document.querySelector('[data-session=lexer] .conflicts')?.innerText === '1 conflict'",
    );
    browser.visit(&address(&served, "/s/lexer", ""));
    browser.wait(&format!(
        "{LIVE} && document.querySelector('#branches').innerText.includes('1 conflict')"
    ));
    browser.wait("document.querySelector('#bar [href=\"#compare\"]')");
    assert_eq!(browser.ask("document.querySelector('.overview .conflicts')"), Value::Null);
    browser.ask("location.hash = '#compare'");
    browser.wait("document.querySelector('.compare .conflicts')");
    browser.ask("location.hash = '#overview@both'");
    browser.wait("document.querySelector('.overview .conflicts')");
    browser.ask("location.hash = '#overview@plan-b'");
    browser.wait(
        "document.querySelector('.overview') && !document.querySelector('.overview .conflicts')",
    );
    browser.ask("location.hash = '#overview@both'");
    browser.wait("document.querySelector('.overview .conflicts')");
    browser.click(".overview .conflicts");
    browser.wait("document.querySelector('.file .row.add') && location.hash === '#conflicts@both'");
    // What was before, and what each side did to the file, stand side by side where there is room.
    let tracks =
        "getComputedStyle(document.querySelector('.three')).gridTemplateColumns.split(' ').length";
    for (width, columns) in [(1600, 3), (1000, 2), (500, 1), (1280, 3)] {
        browser.resize(width, 800);
        assert_eq!(browser.ask(tracks), json!(columns), "{width}");
        assert_eq!(browser.ask("document.documentElement.scrollWidth <= innerWidth"), json!(true));
    }
    let sides = "[...document.querySelectorAll('.beside .row code')].map((one) => one.textContent)";
    assert_eq!(browser.ask(sides), json!(["a", "a", "hand", "a", "table"]));
    // So do the prompts that wrote them.
    let writers = "[...document.querySelectorAll('.writer')].map((one) => one.innerText)";
    let prompts = json!(["Prompt 31: by hand on both", "Prompt 31: a table on plan-b"]);
    assert_eq!(browser.ask(writers), prompts);
    // The outline beside them is that of their branch.
    browser.ask("location.hash = '#overview@plan-b'");
    browser.wait(
        "document.querySelector('#branches select').selectedOptions[0].text.startsWith('plan-b')",
    );
    browser.ask("location.hash = '#conflicts@both'");
    browser.wait(
        "document.querySelector('#branches select').selectedOptions[0].text.startsWith('both')",
    );
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn strategies_side_by_side_fit_and_any_two_lead_to_their_difference() {
    let Some(mut browser) = Browser::start() else { return };
    let place = strategies();
    let served = Served::start(&place, &["--allow-changes"]);
    browser.resize(1280, 800);
    browser.visit(&address(&served, "/s/lexer", "&compare"));
    browser.wait("document.querySelector('.compare')");
    let fits = "(() => { const box = document.querySelector('.wide'); return box.scrollWidth <= box.clientWidth; })()";
    assert_eq!(browser.ask(fits), json!(true));
    for branch in ["both", "plan-b", "main"] {
        browser.click(&format!("[aria-label='Choose {branch}']"));
    }
    // The two that were ticked last.
    let links = "document.querySelector('.links').innerText";
    browser.wait(&format!("{links}.startsWith('plan-b \u{2192} main')"));
    let told = browser.ask(links);
    assert!(told.as_str().unwrap().contains("Merge plan-b"), "{told}");
    assert_eq!(browser.ask("document.querySelectorAll('.compare input:checked').length"), json!(2));
    browser.click(".links a");
    browser.wait("document.querySelector('[aria-label=Difference]') && document.body.dataset.route === 'diff'");
    browser.wait(
        "document.querySelector('#side').offsetWidth > 100 && document.querySelector('#rows a')",
    );
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn a_file_of_the_overview_leads_to_what_changed_in_it() {
    let Some(mut browser) = Browser::start() else { return };
    let place = strategies();
    let served = Served::start(&place, &[]);
    browser.visit(&address(&served, "/s/lexer", "&overview@plan-b"));
    browser.wait(&format!("{LIVE} && document.querySelector('.overview .file-line')"));
    browser.ask("[...document.querySelectorAll('.overview .file-line .path')].find((one) => one.textContent.endsWith('deep.txt')).click()");
    browser.wait("document.querySelector('.wanted[open] .row.add code')?.textContent === 'table'");
    assert!(browser.ask("location.hash").as_str().unwrap().ends_with(":one%2Ftwo%2Fdeep.txt"));
    assert_eq!(browser.ask("document.querySelector('.wanted').dataset.path"), "one/two/deep.txt");
    browser.ask("location.hash = '#overview@plan-b'");
    browser.wait("document.querySelector('.overview')");
    browser.ask("[...document.querySelectorAll('.overview .file-line')].find((one) => one.innerText.includes('deep.txt')).querySelector('.quiet').click()");
    browser.wait("document.querySelector('.blame code')?.textContent === 'table'");
    // A folder with one folder in it is one step.
    browser.ask("location.hash = '#files-31@plan-b'");
    browser.wait("[...document.querySelectorAll('.folder .path')].map((one) => one.textContent).join() === 'one/two/,top.txt'");
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn screens_of_a_phone_waste_no_room() {
    let Some(mut browser) = Browser::start() else { return };
    let place = strategies();
    let id = place.run(&["log", "--json", "-n", "1", "lexer/main"]);
    let id = serde_json::from_str::<Value>(id.lines().next().unwrap()).unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let _ = place.run(&["pin", &id]);
    let served = Served::start(&place, &[]);
    browser.resize(360, 740);
    browser.visit(&address(&served, "/", ""));
    browser.wait(&format!("{LIVE} && document.querySelector('.session-line')"));
    let top = |selector: &str| {
        format!("document.querySelector('{selector}').getBoundingClientRect().top")
    };
    let (title, state) =
        (number(&mut browser, &top("#title")), number(&mut browser, &top("#state")));
    assert!((title - state).abs() < 24.0, "{title} {state}");
    let first = number(&mut browser, &top(".session-line"));
    assert!(first < 190.0, "{first}");
    browser.visit(&address(&served, "/storage", ""));
    browser.wait("document.querySelector('[data-pin] .path')");
    let high = number(&mut browser, "document.querySelector('[data-pin] .path').offsetHeight");
    assert!(high < 50.0, "{high}");
    browser.visit(&address(&served, "/s/lexer", "&files-31@plan-b:top.txt"));
    browser.wait("document.querySelector('.blame code')");
    let share = "document.querySelector('.blame code').offsetWidth / document.querySelector('.blame').offsetWidth";
    let share = number(&mut browser, share);
    assert!(share > 0.65, "{share}");
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn nothing_jumps_while_a_screen_comes() {
    let Some(mut browser) = Browser::start() else { return };
    let place = strategies();
    let served = Served::start(&place, &[]);
    browser.before(WATCH_SHIFTS);
    browser.resize(1280, 800);
    for (path, hash) in [
        ("/", ""),
        ("/operations", ""),
        ("/storage", ""),
        ("/s/lexer", ""),
        ("/s/lexer", "&read"),
        ("/s/lexer", "&compare"),
    ] {
        browser.visit(&address(&served, path, hash));
        browser.wait(&format!("{LIVE} && document.querySelector('#view .session-line, #view .operation, #view .tile, #view .turn, #view .compare, #view .quiet')"));
        let shift = number(&mut browser, "window.shift");
        assert!(shift < 0.1, "{path}{hash}: {shift}");
    }
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn a_page_that_cannot_be_shown_has_no_empty_frame() {
    let Some(mut browser) = Browser::start() else { return };
    let place = strategies();
    let served = Served::start(&place, &[]);
    browser.visit(&address(&served, "/s/none", ""));
    assert_eq!(browser.ask("document.querySelector('#find').offsetWidth + document.querySelector('#side').offsetWidth"), json!(0));
    assert_eq!(browser.ask("document.querySelector('h1').innerText"), "turntree");
    let _ = browser.problems();
}

#[test]
fn each_edit_is_shown_once_with_the_lines_of_its_file() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new(PROGRAM);
    fs::write(place.path().join("t.jsonl"), claude_code(8)).unwrap();
    let _ = place.run(&["import", "t.jsonl", "--session", "parser"]);
    let served = Served::start(&place, &[]);
    browser.visit(&address(&served, "/s/parser", "&turn-2"));
    browser.wait(&format!("{LIVE} && document.querySelector('#view .card .row.add')"));
    assert_eq!(browser.ask("document.querySelector('#view .turn [data-kind=files]')"), Value::Null);
    browser.ask("[...document.querySelectorAll('#kinds .chip')].find((one) => one.innerText.startsWith('Files')).click()");
    browser.wait(
        "document.querySelector('#view .turn [data-kind=files] .file .row.add')?.offsetHeight > 0",
    );
    assert_eq!(browser.ask("document.querySelector('#view .card').offsetHeight"), json!(0));
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn a_strategy_tells_what_it_took_since_its_fork() {
    let Some(mut browser) = Browser::start() else { return };
    let place = strategies();
    let _ = place.run(&["session", "rename", "lexer", "A lexer"]);
    let log = place.run(&["op", "log", "-n", "5"]);
    assert!(log.contains("snapshot lexer/plan-b"), "{log}");
    let served = Served::start(&place, &[]);
    browser.visit(&address(&served, "/s/lexer", "&overview@plan-b"));
    browser.wait(&format!("{LIVE} && document.querySelector('.overview .tile')"));
    assert_eq!(browser.ask("document.querySelector('.overview h2').innerText"), "A lexer");
    assert_eq!(browser.ask("document.querySelector('.overview .asked').innerText"), "step 0");
    assert_eq!(browser.ask("document.querySelector('.tile').innerText"), "1\nprompt");
    let told = browser.ask("document.querySelector('.overview').innerText");
    let told = told.as_str().unwrap();
    assert!(told.contains("Since the fork at turn 30") && told.contains("31 prompts"), "{told}");
    // An exported page is called like its session, and offers no commands of its store.
    let file = place.path().join("page.html");
    let _ = place.run(&["export", "lexer", "--format", "html", "-o", file.to_str().unwrap()]);
    let page = fs::read_to_string(&file).unwrap();
    for part in ["<title>A lexer</title>", "og:title\" content=\"A lexer\"", "rel=\"icon\""] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.contains("name=\"description\" content=\"ann, 3"), "{}", &page[..1500]);
    browser.open(&file, "");
    assert_eq!(browser.ask("document.querySelector('.doors').innerText.trim()"), "Copy:\nid\nlink");
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn what_all_sessions_cost_stands_above_their_list_and_by_day() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new(PROGRAM);
    let counts = r#""model":"claude-opus-4-5","usage":{"input_tokens":1000,"cache_read_input_tokens":3000,"output_tokens":500}"#;
    let told = claude_code(40).replace(r#""model":"model-1""#, counts);
    for (session, day) in [("one", "2026-11-18"), ("two", "2026-11-20")] {
        let told = told.replace("2026-11-20", day).replace("\"u-", &format!("\"{session}-"));
        let told = told.replace("msg-", &format!("{session}-msg-"));
        fs::write(place.path().join("t.jsonl"), told).unwrap();
        let _ = place.run(&["import", "t.jsonl", "--session", session]);
    }
    let by_day = place.run(&["usage", "--all", "--by", "day"]);
    assert_eq!(by_day.matches('\u{2588}').count(), 32, "{by_day}");
    let served = Served::start(&place, &[]);
    browser.resize(1280, 800);
    browser.visit(&address(&served, "/", ""));
    browser.wait("document.querySelector('.strip .tile')?.innerText.startsWith('$')");
    let cost = browser.ask("document.querySelector('.strip .tile b').innerText");
    assert!(by_day.contains(cost.as_str().unwrap()), "{cost}: {by_day}");
    browser.click(".strip b");
    browser.wait(
        "location.pathname === '/usage' && document.querySelector('.chart')?.querySelectorAll('rect').length === 2",
    );
    let label = browser.ask("document.querySelector('.chart[role=img]').ariaLabel");
    assert!(label.as_str().unwrap().starts_with("Costs of 2026-11-18 to 2026-11-20"), "{label}");
    browser.ask("document.querySelector('#view summary').click()");
    browser.wait("document.querySelectorAll('.compare tbody tr').length === 2");
    for width in [360, 768, 1280, 1920] {
        browser.resize(width, 800);
        assert_eq!(browser.ask("document.documentElement.scrollWidth <= innerWidth"), json!(true));
    }
    assert_eq!(browser.problems(), Vec::<String>::new());
}
