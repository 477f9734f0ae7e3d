//! Twenty-two jobs that people have, each in its ideal number of commands and with the answer that
//! it is about. Longer ones, with agents at work, are in `workflows`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;
use turntree_tests::{claude_code, github_token};

use super::person::{Person, laid_out};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The last record of a list of records.
fn last(text: &str) -> Value {
    json(text.lines().last().unwrap())
}

/// A person whose session of the project `parser` has the costs of a known model.
fn with_costs() -> Person {
    let person = Person::new();
    let took = r#""model":"claude-opus-4-5","usage":{"input_tokens":1000,"output_tokens":200}"#;
    let text = claude_code(9).replace(r#""model":"model-1""#, took);
    person.keep_session("parser", &text);
    person.prepare(&["adopt"]);
    person
}

#[test]
fn every_session_of_the_machine_is_kept() {
    let person = Person::with_sessions();
    person.keep_session("checker", &claude_code(5));
    let said = person.does("project", &["adopt"]);
    assert!(said.contains("claude-code") && said.contains("turntree undo"), "{said}");
    person.did(1);
    let listed = json(&person.prepare(&["sessions", "--json"]));
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 4);
}

#[test]
fn the_session_about_something_is_found() {
    let person = Person::with_sessions();
    let said = person.does("project", &["search", "what did we say about the server"]);
    let first = said.lines().next().unwrap();
    assert!(first.starts_with("s-server") && first.contains("claude-code"), "{said}");
    person.did(1);
}

#[test]
fn the_cost_of_last_week_is_one_number() {
    let person = with_costs();
    let words = ["usage", "--all", "--since", "last week", "--json"];
    let told = json(&person.does("project", &words));
    assert_eq!(told["total"]["answers"], 6);
    assert_eq!(told["total"]["cost_usd"], 0.06);
    let words = ["usage", "--all", "--since", "2026-11-21", "--json"];
    assert_eq!(json(&person.prepare(&words))["total"]["answers"], 0);
    person.did(1);
}

#[test]
fn a_session_goes_on_from_its_third_prompt_in_another_agent() {
    let person = Person::with_sessions();
    let outline = person.does("parser", &["outline"]);
    assert!(outline.contains("#3") && outline.contains("part 8 of the parser"), "{outline}");
    let said = person.does("parser", &["resume", "prompt:3", "--in", "codex"]);
    assert!(said.contains("codex resume") && said.contains(".codex/sessions"), "{said}");
    person.did(2);
}

#[test]
fn a_file_that_was_destroyed_comes_back_alone() {
    let person = Person::with_sessions();
    fs::create_dir_all(person.path("parser/src")).unwrap();
    fs::write(person.path("parser/src/part_1.rs"), "destroyed\n").unwrap();
    fs::write(person.path("parser/mine.txt"), "mine\n").unwrap();
    person.does("parser", &["restore", "src/part_1.rs"]);
    person.did(1);
    assert!(person.read("parser/src/part_1.rs").starts_with("fn part_"));
    assert_eq!(person.read("parser/mine.txt"), "mine\n");
    assert_eq!(person.read("parser/src/part_2.rs"), "no parser/src/part_2.rs");
}

#[test]
fn two_strategies_are_tried_and_the_better_one_is_kept() {
    let person = Person::new();
    fs::write(person.path("project/a.txt"), "before\n").unwrap();
    person.prepare(&["snapshot", "--workspace", "."]);
    person.does("project", &["fork", "one", "two", "--worktree", "../{}"]);
    for (way, passed) in [("one", "failed"), ("two", "passed")] {
        fs::write(person.path(way).join("a.txt"), format!("{way}\\n")).unwrap();
        let check = format!("tests={passed}");
        person.ran(way, &["snapshot", "--workspace", ".", "--check", &check]);
    }
    let compared = person.does("project", &["compare", "one", "two"]);
    let best = compared.lines().find(|line| line.contains("best")).unwrap_or_default();
    assert!(best.contains("two"), "{compared}");
    person.does("project", &["merge", "two", "--with-files"]);
    assert_eq!(person.read("project/a.txt"), person.read("two/a.txt"));
    person.does("project", &["branch", "--delete", "one", "two", "--worktree"]);
    person.did(4);
}

#[test]
fn a_session_is_given_away_without_its_secrets() {
    let person = Person::new();
    let token = github_token(5);
    person.keep_session("parser", &claude_code(5).replace("and say", &format!("{token} and say")));
    person.prepare(&["adopt"]);
    person.does("parser", &["bundle", "create", "s-parser", "-o", "../given.bundle", "--scrub"]);
    person.did(1);
    let there = person.path("there").display().to_string();
    person.does("parser", &["--store", &there, "bundle", "unbundle", "../given.bundle"]);
    let told = person.prepare(&["--store", &there, "cat", "s-parser:agents/main/messages"]);
    assert!(!told.contains(&token) && told.contains("[secret: github-token]"), "{told}");
}

#[test]
fn disk_space_is_freed_and_every_byte_is_still_there() {
    let person = Person::new();
    let path = person.keep_session("parser", &claude_code(30));
    let before = fs::read(&path).unwrap();
    let old = fs::File::options().write(true).open(&path).unwrap();
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_780_000_000);
    old.set_modified(long_ago).unwrap();
    drop(old);
    person.prepare(&["adopt"]);
    let words = ["adopt", "--reclaim", "--older-than", "1h", "--yes"];
    let said = person.does("project", &words);
    person.did(1);
    assert!(!path.exists(), "the transcript is still there: {said}");
    let back = person.prepare(&["export", "s-parser", "--format", "source"]);
    assert_eq!(back.as_bytes(), before);
}

#[test]
fn everything_goes_to_a_new_computer() {
    let person = Person::with_sessions();
    let bundle = person.path("all.bundle").display().to_string();
    person.does("project", &["bundle", "create", "--all", "-o", &bundle]);
    let (old, new) = (person.path("parser"), person.path("elsewhere"));
    fs::rename(&old, &new).unwrap();
    fs::rename(person.path("home"), person.path("old-home")).unwrap();
    fs::create_dir(person.path("home")).unwrap();
    let pair = format!("{}={}", old.display(), new.display());
    person.does("elsewhere", &["bundle", "unbundle", &bundle, "--map", &pair]);
    person.did(2);
    let here = json(&person.ran("elsewhere", &["sessions", "--here", "--json"]));
    assert_eq!(here["sessions"][0]["session"], "s-parser");
    let (dir, _) = laid_out(&person, &person.ran("elsewhere", &["resume", "s-parser"]));
    assert_eq!(dir, new.display().to_string());
}

#[test]
fn all_sessions_are_in_the_browser() {
    let person = Person::with_sessions();
    let mut server = person.command("project", &["view"]);
    let mut child = server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
    child.kill().unwrap();
    let _ = child.wait();
    assert!(address.contains("http://127.0.0.1:") && address.contains('#'), "{address}");
}

#[test]
fn the_author_of_each_line_is_named() {
    let person = Person::with_sessions();
    let told = person.does("parser", &["blame", "src/part_1.rs", "--json"]);
    let line = last(&told);
    assert!(line["turn"].as_u64().unwrap() > 1 && line["id"].is_string(), "{line}");
    person.did(1);
}

#[test]
fn the_turn_that_wrote_a_text_is_found() {
    let person = Person::with_sessions();
    let told = person.does("parser", &["log", "-S", "fn part_6()", "--path", "src", "--json"]);
    let first = last(&told);
    assert_eq!(first["turn"], 7, "{told}");
    person.did(1);
}

#[test]
fn the_turn_that_broke_it_is_found() {
    let person = Person::new();
    for turn in 1..=6 {
        fs::write(person.path("project/count"), format!("{turn}\n")).unwrap();
        person.prepare(&["snapshot", "--workspace", "."]);
    }
    person.does("project", &["bisect", "start", "HEAD", "turn:1"]);
    let told = person.does("project", &["bisect", "run", "sh", "-c", "test $(cat count) -lt 4"]);
    assert!(told.contains("the first bad turn is") && told.contains("turn 4"), "{told}");
    person.did(2);
}

#[test]
fn the_changes_since_a_prompt_are_shown() {
    let person = Person::with_sessions();
    let told = person.does("parser", &["diff", "prompt:2", "src", "--stat"]);
    assert!(told.contains("src/part_") && !told.contains("messages"), "{told}");
    person.did(1);
}

#[test]
fn a_step_too_far_is_taken_back_and_the_taking_back_too() {
    let person = Person::new();
    for text in ["one", "two"] {
        fs::write(person.path("project/a.txt"), text).unwrap();
        person.prepare(&["snapshot", "--workspace", "."]);
    }
    person.does("project", &["rollback"]);
    assert_eq!(person.read("project/a.txt"), "one");
    person.does("project", &["undo"]);
    assert_eq!(person.read("project/a.txt"), "two");
    person.did(2);
}

#[test]
fn a_session_gets_a_title_and_is_found_by_it() {
    let person = Person::with_sessions();
    person.does("project", &["session", "rename", "s-server", "Rate limits, second try"]);
    person.does("project", &["switch", "rate limits"]);
    person.did(2);
    assert!(person.prepare(&["status"]).contains("HEAD is at s-server/main"));
}

#[test]
fn a_turn_is_kept_whatever_else_goes() {
    let person = Person::with_sessions();
    person.does("parser", &["pin", "prompt:2", "--name", "the-plan"]);
    person.did(1);
    person.prepare(&["retention", "set", "--keep-last", "1", "s-parser"]);
    person.prepare(&["gc", "--now", "--yes"]);
    let pins = json(&person.prepare(&["pins", "--json"]));
    let id = pins["pins"][0]["id"].as_str().unwrap().to_owned();
    assert!(person.prepare(&["show", &id]).contains("part 4 of the parser"));
}

#[test]
fn a_session_is_forgotten_and_does_not_come_back() {
    let person = Person::with_sessions();
    person.does("project", &["session", "forget", "s-lexer", "--yes"]);
    person.did(1);
    let said = person.prepare(&["adopt"]);
    assert!(said.contains("forgotten"), "{said}");
    assert!(!person.prepare(&["sessions"]).contains("lexer"));
}

#[test]
fn a_session_becomes_one_page() {
    let person = Person::with_sessions();
    person.does("project", &["export", "s-parser", "--format", "html", "-o", "parser.html"]);
    person.did(1);
    let page = person.read("project/parser.html");
    assert!(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"));
    assert!(!page.contains("src=\"http"), "it needs no network");
}

#[test]
fn a_secret_is_found_and_taken_out_of_all_of_history() {
    let person = Person::new();
    let token = github_token(6);
    person.keep_session("parser", &claude_code(9).replace("and say", &format!("{token} and say")));
    person.prepare(&["adopt"]);
    let mut scan = person.command("project", &["secrets", "scan", "--all", "--json"]);
    let found = json(&String::from_utf8(scan.output().unwrap().stdout).unwrap());
    person.commands.set(1);
    let id = found["secrets"][0]["id"].as_str().unwrap().to_owned();
    let mut redact = person.command("project", &["redact", "--secret", &id, "--yes", "--sources"]);
    assert!(redact.output().unwrap().status.success());
    let mut grep = person.command("project", &["grep", "-F", &token, "--all"]);
    assert_eq!(grep.output().unwrap().status.code(), Some(1), "the store still has the token");
    let text = fs::read_to_string(person.path("home/.claude/projects/parser/s-parser.jsonl"));
    assert!(!text.unwrap().contains(&token), "nor has the transcript");
}

#[test]
fn a_lesson_is_learned_once_and_given_to_the_next_agent() {
    let person = Person::with_sessions();
    person.does("parser", &["lesson", "add", "--note", "never edit the generated files"]);
    let given = person.does("parser", &["lesson", "inject"]);
    assert!(given.contains("never edit the generated files"), "{given}");
    person.did(2);
}

#[test]
fn what_an_agent_spent_on_which_tool_is_told() {
    let person = with_costs();
    let told = json(&person.does("parser", &["usage", "--by", "tool", "--json"]));
    let rows = told["rows"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["name"] == "Write"), "{told}");
    person.did(1);
}
