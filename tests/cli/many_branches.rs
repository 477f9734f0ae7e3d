//! Graphs of many branches: they fit on the screen, and show every branch or count it.

use turntree_tests::server_process::Place;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// The branches.
const BRANCHES: usize = 40;

/// The graph of all branches on a screen of this many columns, without colours.
fn graph(place: &Place, columns: &str) -> String {
    let mut command = place.command(&["log", "--graph", "--all"]);
    let output = command.env("COLUMNS", columns).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn column_of(line: &str) -> Option<usize> {
    line.chars().position(|c| c == '●')
}

#[test]
fn branches_of_one_turn_join_its_column_at_once() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(2);
    for number in 0..BRANCHES {
        let name = format!("fork-{number}");
        let _ = place.run(&["fork", &name]);
        let _ = place.run(&["snapshot", "-m", &name, "--session", "work", "--branch", &name]);
    }
    let shown = graph(&place, "80");
    for number in 0..BRANCHES {
        assert!(shown.contains(&format!("fork-{number}")), "{number}: {shown}");
    }
    assert!(shown.lines().filter_map(column_of).all(|column| column <= 4), "{shown}");
    assert!(shown.lines().count() <= 2 * BRANCHES + 10, "{shown}");
}

#[test]
fn branches_of_many_turns_are_folded_where_the_screen_has_no_room() {
    const LINES: usize = 11;
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(1);
    let say = |branch: &str, text: &str| {
        let _ = place.run(&["snapshot", "-m", text, "--session", "work", "--branch", branch]);
    };
    for number in 0..LINES {
        say("main", &format!("main {number}"));
        let name = format!("line-{number}");
        let _ = place.run(&["fork", &name, "work/main"]);
    }
    // The earlier a branch begins, the newer is its newest turn: all begin before one ends.
    for number in 0..LINES {
        for turn in 0..2 * (LINES - number) {
            say(&format!("line-{number}"), &format!("line {number}, {turn}"));
        }
    }
    let shown = graph(&place, "20");
    assert!(shown.lines().filter_map(column_of).all(|column| column < 2 * 8), "{shown}");
    let newest = |number: usize| format!("line {number}, {}", 2 * (LINES - number) - 1);
    for number in 0..8 {
        assert!(shown.contains(&newest(number)), "{number}: {shown}");
        assert!(shown.contains(&format!("main {number} ")), "{number}: {shown}");
    }
    for number in 8..LINES {
        assert!(!shown.contains(&newest(number)), "{number}: {shown}");
    }
    assert!(shown.contains("\u{22ee} 3 branches more, "), "{shown}");
    let whole = graph(&place, "200");
    assert!((0..LINES).all(|number| whole.contains(&newest(number))), "{whole}");
    assert!(!whole.contains('\u{22ee}'), "{whole}");
}
