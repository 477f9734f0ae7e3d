//! A path means the same for every command: `files/` may be left out, an entry of exactly this
//! name comes first, and an unknown path names similar ones.
//!
//! The table lists each argument that takes the path of an entry. The commands come from the
//! parser, so new ones must be added here.

use std::collections::BTreeSet;
use std::fs;
use std::process::Output;

use serde_json::json;
use turntree_tests::server_process::Place;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// What a command does with a path that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unknown {
    /// It fails with 6.
    Fails,
    /// It finds nothing, says so, and ends with this code.
    Finds(i32),
}

use Unknown::{Fails, Finds};

/// A command, its argument, and a call with `{}` in place of the path.
type Row = (&'static str, &'static str, &'static str, Unknown);

/// Every argument that takes the path of an entry.
const ARGUMENTS: &[Row] = &[
    ("log", "path", "log --path {} --json", Finds(0)),
    ("log", "revision", "log {} --json", Fails),
    ("show", "revision", "show {} --json", Fails),
    ("show", "revision", "show turn:1:{} --json", Fails),
    ("cat", "path", "cat {}", Fails),
    ("cat", "path", "cat HEAD:{}", Fails),
    ("ls", "revision", "ls HEAD:{} --json", Fails),
    ("blame", "place", "blame {} --json", Fails),
    ("blame", "place", "blame HEAD:{} --json", Fails),
    ("diff", "old", "diff {} --json", Fails),
    ("diff", "old", "diff turn:1:{} HEAD:{} --json", Fails),
    ("diff", "paths", "diff turn:1 HEAD {} --json", Finds(0)),
    ("grep", "path", "grep two --path {} --json", Finds(1)),
    ("grep", "revisions", "grep two {} --json", Fails),
    ("search", "path", "search two --path {} --json", Finds(1)),
    ("restore", "revision", "restore {} --dry-run --json", Fails),
    ("restore", "revision", "restore turn:1:{} --dry-run --json", Fails),
    ("restore", "only", "restore turn:1 --only {} --dry-run --json", Fails),
    ("restore", "only", "restore turn:1 --only {} --to out --dry-run --json", Fails),
    ("rollback", "only", "rollback --turns 1 --only {} --dry-run --json", Fails),
    ("merge", "only", "merge plan-b --only {} --dry-run --json", Fails),
    ("cherry-pick", "only", "cherry-pick plan-b --only {} --dry-run --json", Fails),
    ("resolve", "paths", "resolve {} --branch conflicted --take ours --json", Fails),
    ("rev-parse", "revisions", "rev-parse HEAD:{}", Fails),
    ("cat-object", "object", "cat-object HEAD:{}", Fails),
    ("ls-tree", "object", "", Fails),
    ("update-ref", "new", "", Fails),
];

/// The names of values that may be the path of an entry.
const VALUES: [&str; 4] = ["PATH", "PART", "REV:PATH", "REV[:PATH]"];

/// Arguments with such a value that take a path of the disk, a part of a conversation, or
/// an entry to write.
const OTHERS: &[(&str, &str)] = &[
    ("adopt", "paths"),
    ("shrink", "paths"),
    ("remote serve", "url"),
    ("edit", "drop"),
    ("edit", "shorten"),
    ("snapshot", "touches"),
    ("snapshot", "unset"),
    ("ollm snapshot", "touches"),
    ("ollm snapshot", "unset"),
];

/// A store with three turns, a branch, a branch with a conflict, and a folder of the workspace
/// that is named like a section.
fn sample() -> Place {
    let place = Place::new(PROGRAM);
    for folder in ["src", "scratchpad"] {
        fs::create_dir(place.path().join("work").join(folder)).unwrap();
    }
    place.write("scratchpad/todos", "of the workspace two\n");
    let commit = |words: &[&str]| {
        let all = [&["snapshot", "--workspace", "work", "-m", "x"], words].concat();
        let _ = place.run(&all);
    };
    for (turn, text) in [(1, "one"), (2, "two"), (3, "three two")] {
        place.write("src/main.rs", format!("{text}\n"));
        place.write("src/lib.rs", "lib\n");
        let todos = format!("scratchpad/todos=noted {turn} two");
        commit(&["--set", &todos, "--append-message", "user=two"]);
    }
    let _ = place.run(&["fork", "plan-b", "turn:2"]);
    let _ = place.run(&["fork", "conflicted", "turn:3"]);
    place.write("src/main.rs", "four two\n");
    commit(&["--branch", "plan-b", "--set", "scratchpad/todos=of plan b two"]);
    let merge = ["merge", "plan-b", "--into", "conflicted"];
    assert_eq!(place.command(&merge).output().unwrap().status.code(), Some(1));
    place.write("src/main.rs", "unsaved two\n");
    place.write("scratchpad/todos", "unsaved\n");
    place
}

fn run(place: &Place, call: &str, path: &str) -> Output {
    let call = call.replace("{}", path);
    let words: Vec<&str> = call.split(' ').collect();
    let mut command = place.command(&words);
    command.env("TURNTREE_NOW", "2030-01-01T00:00:00Z").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The output, with one form of the path.
fn plain(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), text(&output.stdout))
}

/// The calls of the table; those that change the store come last.
fn calls() -> impl Iterator<Item = &'static Row> {
    let changes = |row: &&Row| row.0 == "resolve";
    let rows = || ARGUMENTS.iter().filter(|row| !row.2.is_empty());
    rows().filter(move |row| !changes(row)).chain(rows().filter(changes))
}

#[test]
fn the_folder_of_the_workspace_may_be_left_out() {
    let place = sample();
    for (verb, argument, call, _) in calls() {
        if *verb == "resolve" {
            continue;
        }
        let whole = run(&place, call, "files/src/main.rs");
        let error = text(&whole.stderr);
        assert!(matches!(whole.status.code(), Some(0 | 1)), "{call}: {error}");
        assert!(!whole.stdout.is_empty(), "{verb} {argument}: {call} finds nothing");
        for form in ["src/main.rs", "./src/main.rs"] {
            assert_eq!(plain(&run(&place, call, form)), plain(&whole), "{call} {form}");
        }
    }
    let undo = ["undo"];
    let whole = run(&place, "resolve {} --branch conflicted --take ours", "files/src/main.rs");
    assert!(whole.status.success(), "{}", text(&whole.stderr));
    let _ = place.run(&undo);
    let short = run(&place, "resolve {} --branch conflicted --take ours", "src/main.rs");
    assert!(short.status.success(), "{}", text(&short.stderr));
}

#[test]
fn an_entry_of_exactly_this_name_comes_first() {
    let place = sample();
    for (verb, argument, call, _) in calls() {
        let is_of_conflicts = ["resolve", "merge", "cherry-pick"].contains(verb);
        if is_of_conflicts {
            continue;
        }
        let exact = run(&place, call, "scratchpad/todos");
        let file = run(&place, call, "files/scratchpad/todos");
        assert!(exact.status.success(), "{call}: {}", text(&exact.stderr));
        assert_ne!(text(&exact.stdout), text(&file.stdout), "{verb} {argument}");
        let shown = text(&exact.stdout);
        assert!(!shown.contains("of the workspace"), "{verb} {argument}: {shown}");
    }
}

#[test]
fn an_unknown_path_names_similar_ones() {
    let place = sample();
    for (verb, argument, call, unknown) in calls() {
        for (slip, similar) in [
            ("src/mian.rs", "files/src/main.rs"),
            ("lib/main.rs", "files/src/main.rs"),
            ("files/src/Main.rs", "files/src/main.rs"),
        ] {
            let plain_call = call.replace(" --json", "");
            let output = run(&place, &plain_call, slip);
            let error = text(&output.stderr);
            let expected = match unknown {
                Fails => 6,
                Finds(code) => *code,
            };
            assert_eq!(output.status.code(), Some(expected), "{call} {slip}: {error}");
            if *verb != "resolve" && *verb != "diff" && !slip.starts_with("files/") {
                assert!(error.contains(similar), "{verb} {argument} {slip}: {error}");
            }
        }
    }
}

#[test]
fn paths_are_relative_to_the_directory_inside_the_workspace() {
    let place = sample();
    let inside = place.path().join("work/src");
    let from_inside = |words: &[&str]| {
        let mut command = place.command(&[]);
        command.current_dir(&inside).env("TURNTREE_STORE", "../../store");
        let mut alone = std::process::Command::new(PROGRAM);
        alone.args(["--store", "../../store"]).args(words).current_dir(&inside);
        alone.env("TURNTREE_MAINTENANCE", "off").env_remove("TURNTREE_BRANCH");
        alone.env_remove("CLAUDE_CODE_SESSION_ID").env_remove("CODEX_THREAD_ID");
        let output = alone.output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let _ = place.run(&["switch", "default/main"]);
    for words in [
        ["log", "--path", "main.rs"],
        ["restore", "turn:1", "--only=main.rs"],
        ["diff", "turn:1", "main.rs"],
    ] {
        let words =
            if words[0] == "restore" { [&words[..], &["-n"]].concat() } else { words.to_vec() };
        assert!(!from_inside(&words).is_empty(), "{words:?}");
    }
    assert_eq!(from_inside(&["cat", "../src/main.rs"]), "three two\n");
}

#[test]
fn operations_take_the_same_paths() {
    let place = sample();
    let mut server = place.server(&["serve", "--stdio", "--workspace", "work"]);
    for (operation, params) in [
        ("log", r#"{"paths": ["{}"]}"#),
        ("show", r#"{"revision": "HEAD:{}"}"#),
        ("diff", r#"{"old": "turn:1", "paths": ["{}"]}"#),
        ("search", r#"{"pattern": "two", "paths": ["{}"]}"#),
        ("search", r#"{"words": "two", "paths": ["{}"]}"#),
        ("restore", r#"{"revision": "turn:1", "only": ["{}"], "dry_run": true}"#),
        ("merge", r#"{"revision": "plan-b", "only": ["{}"], "dry_run": true}"#),
    ] {
        let mut call = |path: &str| {
            let params = serde_json::from_str(&params.replace("{}", path)).unwrap();
            server.call(operation, &params)
        };
        let whole = call("files/src/main.rs").unwrap();
        assert_eq!(call("src/main.rs").unwrap(), whole, "{operation}");
    }
    let missing = server.call("show", &json!({"revision": "HEAD:src/mian.rs"})).unwrap_err();
    assert!(missing["message"].as_str().unwrap().contains("files/src/main.rs"), "{missing}");
    let _ = server.end();
}

#[test]
fn the_table_has_every_argument_that_takes_a_path() {
    let mut unknown = BTreeSet::new();
    let mut open = vec![(String::new(), turntree_cli::command())];
    while let Some((verb, command)) = open.pop() {
        for below in command.get_subcommands().filter(|it| it.get_name() != "help") {
            open.push((format!("{verb} {}", below.get_name()).trim().to_owned(), below.clone()));
        }
        for argument in command.get_arguments() {
            let value = argument.get_value_names().and_then(|names| names.first());
            if !value.is_some_and(|value| VALUES.contains(&value.as_str())) {
                continue;
            }
            let id = argument.get_id().as_str();
            let is_listed = ARGUMENTS.iter().any(|(of, name, ..)| *of == verb && *name == id);
            if !is_listed && !OTHERS.contains(&(verb.as_str(), id)) {
                unknown.insert(format!("{verb} {id}"));
            }
        }
    }
    assert_eq!(unknown, BTreeSet::new(), "add these to ARGUMENTS or to OTHERS");
}
