//! What commands write to a terminal of a width: names that leave room for titles, and progress.
#![cfg(target_os = "linux")]

use std::fs;

use turntree_tests::server_process::Place;
use turntree_tests::terminal::Terminal;
use turntree_tests::{claude_code, claude_code_of_noise};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// Runs a command on a terminal of so many columns.
fn on_terminal(place: &Place, columns: u16, words: &[&str]) -> Terminal {
    let mut command = place.command(words);
    command.env("TERM", "xterm").env("PAGER", "cat").env("TURNTREE_PAGER", "cat");
    Terminal::start(command, (columns, 24))
}

#[test]
fn names_of_turns_leave_room_for_titles_on_a_narrow_screen() {
    let place = Place::new(PROGRAM);
    let session = "a-session-with-a-name-of-some-length";
    for turn in 0..3 {
        let said = format!("user=turn {turn} is about the lexer and the parser behind it");
        let words = ["snapshot", "-m", &said[5..], "--session", session, "--append-message", &said];
        let _ = place.run(&words);
    }
    let branch = format!("{session}/main");
    let _ = place.run(&["pin", &branch]);
    let _ = place.run(&["tag", "kept", &branch]);
    for (columns, name) in
        [(60, "(*main, pi\u{2026})"), (80, "(*main, pinned, kept)"), (200, &*branch)]
    {
        let mut terminal = on_terminal(&place, columns, &["log", &branch]);
        assert!(terminal.end().success());
        let shown = terminal.shows("t1");
        let lines: Vec<&str> = shown.lines().filter(|line| !line.trim().is_empty()).collect();
        assert_eq!(lines.len(), 3, "no line wraps at {columns}:\n{shown}");
        assert!(lines[0].contains("turn 2 is about the"), "{shown}");
        assert!(lines[0].contains(name), "{shown}");
    }
}

#[test]
fn packing_shows_how_much_is_left() {
    let place = Place::new(PROGRAM);
    // An archive of so many turns takes seconds, and a command of half a second shows nothing.
    fs::write(place.path().join("t.jsonl"), claude_code_of_noise(240, 8_000)).unwrap();
    let _ = place.run(&["import", "t.jsonl", "--session", "work"]);
    let mut terminal = on_terminal(&place, 120, &["repack", "--archive"]);
    let shown = terminal.shows(" objects  ");
    assert!(shown.contains("% ") && shown.contains(" left"), "{shown}");
    assert!(terminal.end().success());
}

#[test]
fn a_page_shows_how_many_turns_are_left_while_it_is_written() {
    let place = Place::new(PROGRAM);
    fs::write(place.path().join("many.jsonl"), claude_code(3_000)).unwrap();
    let _ = place.run(&["import", "many.jsonl", "--session", "many"]);
    let mut terminal = on_terminal(&place, 120, &["share", "many", "-o", "many.html"]);
    let shown = terminal.shows(" turns  ");
    assert!(shown.contains("exporting") && shown.contains(" left"), "{shown}");
    assert!(terminal.end().success());
}

#[test]
fn exports_show_how_many_turns_or_messages_are_left() {
    let place = Place::new(PROGRAM);
    // Long enough to take several times the half second in which a command shows nothing.
    fs::write(place.path().join("t.jsonl"), claude_code_of_noise(480, 8_000)).unwrap();
    let _ = place.run(&["import", "t.jsonl", "--session", "work"]);
    for (format, unit) in [("markdown", " turns  "), ("openai", " messages  ")] {
        let words = ["export", "work", "--format", format, "-o", format];
        let mut terminal = on_terminal(&place, 120, &words);
        let shown = terminal.wait_until(unit, |screen| {
            let text = screen.text();
            text.contains("exporting") && text.contains(unit)
        });
        assert!(shown.contains(" left"), "{shown}");
        assert!(terminal.end().success());
    }
}

#[test]
fn wide_terminals_list_what_sessions_did_and_cost() {
    let place = Place::new(PROGRAM);
    let counts = r#""model":"claude-opus-4-5","usage":{"input_tokens":1000,"output_tokens":500}"#;
    let told = claude_code(40).replace(r#""model":"model-1""#, counts);
    fs::write(place.path().join("t.jsonl"), told).unwrap();
    let _ = place.run(&["import", "t.jsonl", "--session", "parser"]);
    let usage = place.run(&["usage", "parser"]);
    let cost = usage.split_whitespace().find(|word| word.starts_with('$')).unwrap();
    let shown_at = |columns| {
        let mut terminal = on_terminal(&place, columns, &["sessions"]);
        assert!(terminal.end().success());
        terminal.shows("parser")
    };
    for (columns, is_wide) in [(80, false), (119, false), (120, true), (200, true)] {
        let shown = shown_at(columns);
        assert_eq!(shown.contains(cost), is_wide, "{columns}:\n{shown}");
        assert_eq!(shown.contains("▇▂"), is_wide, "{columns}:\n{shown}");
    }
    // Programs get no columns that depend on a screen.
    assert!(!place.run(&["sessions"]).contains(cost));
}
