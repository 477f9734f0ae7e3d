//! An agent that loops is paused, and the message names the turn before the damage of the newest
//! prompt.

use serde_json::{Value, json};
use turntree_tests::chat::Chat;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");
const FLAGS: &[&str] = &["--rollback", "--spiral=pause"];

/// Writes contents until the agent is paused. Returns the number of the write, and the question.
fn paused(chat: &mut Chat, contents: &[String]) -> Option<(usize, String)> {
    for (at, content) in contents.iter().enumerate() {
        let told = chat.write("index.html", content).unwrap_or_default();
        if told["continue"] == Value::Bool(false) {
            return Some((at, told["stopReason"].as_str().unwrap().to_owned()));
        }
    }
    None
}

fn swings(times: usize) -> Vec<String> {
    let content = |at| if at % 2 == 0 { "bad\n".repeat(10) } else { "good\n".repeat(20) };
    (0..times).map(content).collect()
}

#[test]
fn the_pause_names_the_turn_before_the_newest_prompt_and_it_has_the_files() {
    for files in [&[][..], &[("index.html", "draft")]] {
        let mut chat = Chat::begin(PROGRAM, FLAGS, files);
        chat.ask("make a page", "index.html", &"good\n".repeat(20));
        let before = chat.client.repo().commit(&chat.tip("s-1/main")).unwrap().turn;
        chat.prompt("add a tab");
        let (at, question) = paused(&mut chat, &swings(6)).unwrap();
        assert!(at < 5, "{at}");
        assert!(question.contains(&format!("'/rollback to {before}' goes back")), "{question}");
        chat.back(&format!("/rollback to {before}"));
        assert_eq!(chat.files()["index.html"], "good\n".repeat(20));
    }
}

#[test]
fn what_came_of_the_prompt_before_the_loop_stays() {
    let mut chat = Chat::begin(PROGRAM, FLAGS, &[]);
    chat.ask("make a page", "index.html", "good");
    chat.prompt("add a tab and a style");
    chat.write("style.css", "a {}");
    let (_, question) = paused(&mut chat, &swings(6)).unwrap();
    let turn = question.split("/rollback to ").nth(1).unwrap().split('\'').next().unwrap();
    chat.back(&format!("/rollback to {turn}"));
    assert_eq!(chat.files()["style.css"], "a {}");
    assert_eq!(chat.files()["index.html"], "good");
}

#[test]
fn a_file_whose_size_goes_up_and_down_with_new_content_each_time_is_a_loop() {
    let mut chat = Chat::begin(PROGRAM, FLAGS, &[]);
    let base = "<h1>good</h1>\n".repeat(20);
    chat.ask("make a page", "index.html", &base);
    let before = chat.client.repo().commit(&chat.tip("s-1/main")).unwrap().turn;
    chat.prompt("add a tab");
    let content = |at: usize| {
        let broken = format!("<broken {at}>\n").repeat(if at % 2 == 1 { 12 } else { 1 });
        base[..base.len() - at * 3].to_owned() + &broken
    };
    let contents: Vec<String> = (0..8).map(content).collect();
    let (at, question) = paused(&mut chat, &contents).unwrap();
    assert!((3..7).contains(&at), "{at}");
    assert!(question.contains(&format!("/rollback to {before}'")), "{question}");
    // The agent is paused only once.
    let more: Vec<String> = (8..12).map(content).collect();
    assert_eq!(paused(&mut chat, &more), None);
}

#[test]
fn steady_work_on_one_file_is_not_paused() {
    let grown = |sizes: &[usize]| -> Vec<String> {
        sizes.iter().enumerate().map(|(at, size)| format!("{at}\n").repeat(*size)).collect()
    };
    for sizes in [
        &[20, 50, 80, 110, 140, 170][..],
        &[20, 50, 45, 80, 78, 120, 110, 150, 149],
        &[150, 120, 130, 90, 95, 60, 65, 30],
    ] {
        let mut chat = Chat::begin(PROGRAM, FLAGS, &[]);
        chat.ask("make a page", "index.html", "x\n");
        chat.prompt("go on");
        assert_eq!(paused(&mut chat, &grown(sizes)), None, "{sizes:?}");
    }
    // An agent is not paused when its user has a file changed back and forth.
    let mut chat = Chat::begin(PROGRAM, FLAGS, &[]);
    for at in 0..8 {
        let asked =
            chat.ask(&format!("and now {at}"), "index.html", if at % 2 == 0 { "a" } else { "b" });
        assert_eq!(asked, None, "{at}");
    }
    let told =
        chat.event("PreToolUse", json!({"tool_name": "Bash", "tool_input": {"command": "ls"}}));
    assert_eq!(told, None);
}
