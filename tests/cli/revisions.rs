//! A revision means the same for every command, every operation and every form.
//!
//! The tables below list each argument that takes a revision, and whether it also takes an entry of
//! a snapshot. The commands come from the parser and the operations from the server, so new ones
//! must be added here.
//! must be added here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};
use turntree_tests::server_process::{Place, Server};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// The values that an argument takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// A snapshot. The path of an entry is refused.
    Snapshot,
    /// A snapshot, or an entry of one.
    Entry,
    /// Another kind of name, tested elsewhere.
    Branch,
}

use Takes::{Branch, Entry, Snapshot};

/// An argument of a command that takes a revision, and a call with `{}` in its place.
struct Argument {
    verb: &'static str,
    argument: &'static str,
    takes: Takes,
    call: &'static str,
}

const fn argument(
    verb: &'static str,
    argument: &'static str,
    takes: Takes,
    call: &'static str,
) -> Argument {
    Argument { verb, argument, takes, call }
}

/// The names of values that may be a revision.
const VALUES: [&str; 12] = [
    "REV",
    "REV[:PATH]",
    "REV:PATH",
    "SESSION|REV",
    "REV|SESSION",
    "NAME|REV",
    "A",
    "B",
    "GOOD",
    "BAD",
    "BRANCH",
    "SHA",
];

/// Every argument with such a value name.
const ARGUMENTS: &[Argument] = &[
    argument("log", "revision", Snapshot, "log {} -n 1 --json"),
    argument("log", "commit", Branch, ""),
    argument("outline", "revision", Snapshot, "outline {} --json"),
    argument("show", "revision", Entry, "show {} --json"),
    argument("ls", "revision", Entry, "ls {} --json"),
    argument("cat", "path", Entry, "cat {}:scratchpad/note"),
    argument("blame", "place", Entry, "blame {}:files/notes.txt --json"),
    argument("diff", "old", Entry, "diff {} HEAD --json"),
    argument("diff", "new", Entry, "diff turn:1 {} --json"),
    argument("grep", "revisions", Snapshot, "grep note {} --json"),
    argument("spiral", "revision", Snapshot, "spiral {} --json"),
    argument("usage", "what", Snapshot, "usage {} --json"),
    argument("view", "revision", Snapshot, ""),
    argument("compare", "revisions", Snapshot, "compare {} plan-b --json"),
    argument(
        "explore",
        "from",
        Snapshot,
        "explore --strategy new=x --folder trees --from {} --json -- true",
    ),
    argument("replay", "branch", Snapshot, "replay {} --json -- true"),
    argument("replay", "from", Snapshot, "replay work --from {} --json -- true"),
    argument("fork", "at", Snapshot, "fork new --at {} --json"),
    argument("merge", "revision", Snapshot, "merge {} --into plan-b --dry-run --json"),
    argument("merge", "into", Branch, ""),
    argument("cherry-pick", "revisions", Snapshot, "cherry-pick {} --into plan-b --dry-run --json"),
    argument("cherry-pick", "into", Branch, ""),
    argument("tag", "revision", Snapshot, "tag new {} --json"),
    argument("bisect start", "bad", Snapshot, "bisect start {} turn:1 --json"),
    argument("bisect start", "good", Snapshot, "bisect start HEAD {} --json"),
    argument("bisect good", "revision", Snapshot, "bisect good {} --json"),
    argument("bisect bad", "revision", Snapshot, "bisect bad {} --json"),
    argument("bisect skip", "revision", Snapshot, "bisect skip {} --json"),
    argument("restore", "revision", Entry, "restore {} --dry-run --json"),
    argument("resume", "revision", Snapshot, "resume {} --in codex --cwd . --dry-run --json"),
    argument("edit", "revision", Snapshot, "edit {} --drop prompt:1 --dry-run --json"),
    argument("compact", "revision", Snapshot, "compact {} --dry-run --json"),
    argument("uncompact", "revision", Snapshot, "uncompact {} --dry-run --json"),
    argument("export", "revisions", Snapshot, "export {} --format markdown"),
    // A key is random, and the title of a page is the typed form.
    argument("share", "revisions", Snapshot, ""),
    argument(
        "export",
        "from",
        Snapshot,
        "export work --format environment --check true --from {} -o task --json",
    ),
    argument("bundle create", "names", Snapshot, "bundle create {} -o new.bundle --json"),
    argument("bundle create", "not", Snapshot, "bundle create work --not {} -o new.bundle --json"),
    argument("git export", "names", Snapshot, "git export new.git {} --json"),
    // Names of git.
    argument("git import", "revisions", Branch, ""),
    argument("lesson", "revision", Snapshot, ""),
    argument("lesson list", "revision", Snapshot, "lesson list {} --json"),
    argument("lesson inject", "revision", Snapshot, "lesson inject {} --json"),
    argument("lesson export", "from", Snapshot, "lesson export --from {}"),
    argument("lesson add", "branch", Snapshot, "lesson add --note x --branch {} --json"),
    argument("switch", "branch", Branch, ""),
    argument("lesson add", "on", Branch, ""),
    argument("lesson edit", "on", Branch, ""),
    argument("lesson rm", "on", Branch, ""),
    argument("lesson pin", "on", Branch, ""),
    argument("lesson unpin", "on", Branch, ""),
    argument("lesson import", "on", Branch, ""),
    argument("swarm restore", "revision", Snapshot, "swarm restore {} config.json"),
    argument("swarm reads", "revision", Snapshot, "swarm reads {} --workspace work --json"),
    argument("vfs ls", "revision", Snapshot, "vfs ls {} --json"),
    argument("pin", "revision", Snapshot, "pin {} --name new --json"),
    argument("unpin", "name", Snapshot, "unpin {} --json"),
    argument("secrets scan", "revisions", Snapshot, "secrets scan {} --json"),
    argument("rev-parse", "revisions", Entry, "rev-parse {}"),
    argument("snapshot", "expect", Snapshot, "snapshot -m x --set memory/x=1 --expect {} --json"),
    argument("ollm snapshot", "expect", Snapshot, ""),
    argument("ollm transition", "expect", Snapshot, ""),
    // Low-level commands that name objects.
    argument("cat-object", "object", Entry, "cat-object {}"),
    argument("ls-tree", "object", Entry, "ls-tree {}"),
    argument("update-ref", "new", Entry, "update-ref refs/heads/work/new {}"),
];

/// Commands that take no revision, or do not parse it themselves.
const WITHOUT: &[&str] = &[
    "demo",
    "init",
    "import",
    "adopt",
    "sessions",
    "session",
    "search",
    "status",
    "stats",
    "ui",
    "branch",
    "switch",
    "resolve",
    "rollback",
    "undo",
    "redo",
    "op",
    "clone",
    "remote",
    "fetch",
    "push",
    "sync",
    "trust",
    "offload",
    "hook",
    "mcp",
    "serve",
    "events",
    "pins",
    "retention",
    "gc",
    "repack",
    "shrink",
    "fsck",
    "repair",
    "redact",
    "key",
    "hash-object",
    "show-ref",
    "completions",
    "manual",
    "version",
    "vfs get",
    "vfs put",
    "vfs evict",
    "bisect run",
    "explore status",
    "explore continue",
    "explore keep",
    "bisect log",
    "bisect reset",
    "bundle show",
    "bundle verify",
    "bundle unbundle",
    "secrets allow",
    "secrets mode",
    "secrets rules",
    "ollm modes",
    "swarm events",
    "ollm",
    "lesson",
    "bisect",
    "bundle",
    "git",
    "swarm",
    "vfs",
    "secrets",
    "reads",
];

/// Commands whose subcommands take none, and the parser itself.
const GROUPS_WITHOUT: &[&str] =
    &["", "adopt", "events", "hook", "key", "op", "remote", "retention", "session"];

/// An argument of an operation, and a call with `{}` in place of the revision.
const OPERATIONS: &[(&str, &str, Takes, &str)] = &[
    ("log", "revision", Snapshot, r#"{"revision": "{}", "limit": 1}"#),
    ("outline", "revision", Snapshot, r#"{"revision": "{}"}"#),
    ("show", "revision", Entry, r#"{"revision": "{}"}"#),
    ("diff", "old", Entry, r#"{"old": "{}"}"#),
    ("diff", "new", Entry, r#"{"old": "turn:1", "new": "{}"}"#),
    ("search", "revisions", Snapshot, r#"{"pattern": "note", "revisions": ["{}"]}"#),
    ("branch", "at", Snapshot, r#"{"action": "fork", "name": "new", "at": "{}"}"#),
    ("merge", "revision", Snapshot, r#"{"revision": "{}", "into": "plan-b", "dry_run": true}"#),
    ("merge", "into", Branch, ""),
    ("compare", "revisions", Snapshot, r#"{"revisions": ["{}", "plan-b"]}"#),
    ("restore", "revision", Entry, r#"{"revision": "{}"}"#),
    ("restore", "branch", Branch, ""),
    ("resolve", "branch", Branch, ""),
    ("snapshot", "expect", Snapshot, r#"{"message": "x", "expect": "{}", "set": {"memory/x": 1}}"#),
    ("snapshot", "branch", Branch, ""),
    ("tag", "revision", Snapshot, r#"{"action": "add", "name": "new", "revision": "{}"}"#),
    ("pin", "revision", Snapshot, r#"{"action": "add", "name": "new", "revision": "{}"}"#),
    ("export", "revisions", Snapshot, r#"{"format": "markdown", "revisions": ["{}"]}"#),
    ("compact", "revision", Snapshot, r#"{"revision": "{}", "dry_run": true}"#),
    ("spiral", "revision", Snapshot, r#"{"revision": "{}"}"#),
    ("lessons", "revision", Snapshot, r#"{"action": "list", "revision": "{}"}"#),
    ("lessons", "abandoned", Snapshot, r#"{"action": "add", "note": "x", "abandoned": "{}"}"#),
];

/// Operations without such an argument.
const OPERATIONS_WITHOUT: &[&str] =
    &["status", "sessions", "undo", "offload", "read_vfs", "explore_start", "explore_status"];

/// The names of operations' arguments that may be a revision or a branch.
const NAMES: [&str; 9] =
    ["revision", "revisions", "at", "old", "new", "expect", "abandoned", "into", "branch"];

/// A store with five turns on `work/main`, a branch that begins at the fourth, a tag on the third,
/// a pin and a bisect.
struct Sample {
    place: Place,
    third: String,
    blob: String,
}

impl Sample {
    fn new() -> Self {
        let place = Place::new(PROGRAM);
        for turn in 1..=5 {
            place.write("notes.txt", format!("{turn}\n"));
            let (message, note) = (format!("turn {turn}"), format!("scratchpad/note={turn}"));
            let said = format!("user=message {turn}");
            let mut command = place.command(&["snapshot", "-m", &message, "--set", &note]);
            command.args(["--append-message", &said, "--workspace", "work", "--session", "work"]);
            let output = command.env("TURNTREE_NOW", at(turn)).output().unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
        for line in [
            "switch work",
            "fork plan-b turn:4",
            "tag t3 turn:3",
            "pin turn:3 --name first",
            "bisect start HEAD turn:1",
        ] {
            let _ = place.run(&words(line));
        }
        let parsed = |revision: &str| place.run(&["rev-parse", revision]).trim().to_owned();
        let (third, blob) = (parsed("turn:3"), parsed("turn:3:scratchpad/note"));
        Self { place, third, blob }
    }

    /// Creates a folder with a copy of the original store and workspace.
    fn copy(&self) -> PathBuf {
        let copied = self.place.path().join("copied");
        let _ = fs::remove_dir_all(&copied);
        for folder in ["store", "work"] {
            copy(&self.place.path().join(folder), &copied.join(folder));
        }
        fs::write(copied.join("config.json"), "{}").unwrap();
        copied
    }

    /// Runs a call on a copy.
    fn run(&self, call: &str) -> Output {
        let mut command = self.place.command(&words(call));
        command.current_dir(self.copy()).env("TURNTREE_NOW", at(30)).output().unwrap()
    }

    /// The refs of the store, or of the copy.
    fn refs(&self, folder: &str) -> String {
        let mut command = self.place.command(&["show-ref"]);
        let output = command.current_dir(self.place.path().join(folder)).output().unwrap();
        text(&output.stdout)
    }

    /// The forms that name the third turn without naming a branch.
    fn forms(&self) -> Vec<String> {
        let forms = [
            "turn:3",
            "work^{turn:3}",
            "HEAD~2",
            "@~2",
            "HEAD^^",
            "work/main~2",
            "main~2",
            "work~2",
            "plan-b~",
            "prompt:3",
            "work^{prompt:3}",
            "prompt:-3",
            "work@{2}",
            "main@{2}",
            "main@{2026-11-20T10:03:30Z}",
            "t3",
            "refs/tags/t3",
            "t3^{commit}",
        ];
        let mut forms: Vec<String> = forms.map(str::to_owned).to_vec();
        forms.push(self.third[..10].to_owned());
        forms
    }
}

/// The words of a line. A quoted part is one word.
fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

fn at(minute: u32) -> String {
    format!("2026-11-20T10:{minute:02}:00Z")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// The answer of a call, independent of the form that names the snapshot.
fn answer(output: &Output, form: &str, id: &str) -> (Option<i32>, String, String) {
    // A session that is started for another agent has a new id.
    let begun = serde_json::from_slice::<Value>(&output.stdout).ok();
    let begun = begun.and_then(|it| Some(it.get("session_id")?.as_str()?.to_owned()));
    let plain = |bytes: &[u8]| {
        let named = match &begun {
            Some(begun) => text(bytes).replace(begun, "BEGUN"),
            None => text(bytes),
        };
        let named = named.replace(id, "ID").replace(&id[..12], "ID");
        // A label keeps the typed form, and a bundle always lists its tags.
        let key = format!("\"{form}\":");
        let named = named.replace(&key, "KEY").replace(&format!("\"{form}\""), "\"ID\"");
        named.replace("KEY", &key).replace(&format!("'{form}'"), "'ID'")
    };
    // A message contains the typed form, too.
    let said = plain(&output.stderr).replace(form, "ID");
    (output.status.code(), plain(&output.stdout), said)
}

#[test]
fn every_form_of_a_revision_means_the_same_to_every_verb() {
    let sample = Sample::new();
    for Argument { verb, argument, call, .. } in ARGUMENTS.iter().filter(|it| !it.call.is_empty()) {
        // A git repository has branches and tags, and no unnamed snapshots.
        if *verb == "git export" {
            continue;
        }
        let run = |form: &str| answer(&sample.run(&call.replace("{}", form)), form, &sample.third);
        let expected = run(&sample.third);
        for form in sample.forms() {
            assert_eq!(run(&form), expected, "{verb} {argument}: {form}");
        }
    }
}

#[test]
fn an_entry_in_place_of_a_snapshot_is_refused_and_changes_nothing() {
    let sample = Sample::new();
    let takers = ARGUMENTS.iter().filter(|it| it.takes == Snapshot && !it.call.is_empty());
    let view = Argument { verb: "view", argument: "revision", takes: Snapshot, call: "view {}" };
    for Argument { verb, argument, call, .. } in takers.chain([&view]) {
        for form in [
            "turn:3:scratchpad/note",
            "HEAD:files/notes.txt",
            "HEAD:notes.txt",
            "work/main:nosuch",
            "prompt:3:files",
            "t3:",
        ] {
            let output = sample.run(&call.replace("{}", form));
            let error = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{verb} {argument} {form}: {error}");
            let expected = format!("'{form}' names an entry: expected a snapshot");
            assert!(error.contains(&expected), "{verb} {argument} {form}: {error}");
            assert!(error.contains("hint"), "{verb} {argument} {form}: {error}");
            assert_eq!(sample.refs("copied"), sample.refs("."), "{verb} {argument} {form}");
        }
    }
}

#[test]
fn what_names_nothing_is_not_found_and_what_is_no_commit_is_refused() {
    let sample = Sample::new();
    for Argument { verb, argument, call, .. } in ARGUMENTS.iter().filter(|it| !it.call.is_empty()) {
        let is_plumbing = ["cat-object", "ls-tree", "rev-parse", "update-ref"].contains(verb);
        let code = |form: &str| {
            let output = sample.run(&call.replace("{}", form));
            (output.status.code(), text(&output.stderr))
        };
        for form in ["nosuch", "work/nosuch", "turn:99", "HEAD~99", "prompt:99", "main@{99}"] {
            let (code, error) = code(form);
            assert_eq!(code, Some(6), "{verb} {argument} {form}: {error}");
        }
        for form in ["HEAD~x", "turn:x", "main^{tree}"] {
            let (code, error) = code(form);
            assert_eq!(code, Some(2), "{verb} {argument} {form}: {error}");
        }
        if !is_plumbing {
            let (code, error) = code(&sample.blob);
            assert!(matches!(code, Some(2 | 6)), "{verb} {argument} a blob: {code:?} {error}");
        }
    }
}

#[test]
fn an_entry_that_is_not_there_is_not_found_where_entries_are_taken() {
    let sample = Sample::new();
    for Argument { verb, argument, takes, call } in ARGUMENTS {
        if *takes != Entry || call.is_empty() || call.contains("{}:") {
            continue;
        }
        let call = call.replace("diff {} HEAD", "diff {}").replace("diff turn:1 {}", "diff {} {}");
        let output = sample.run(&call.replace("{}", "HEAD:files/nosuch"));
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(6), "{verb} {argument}: {error}");
        assert!(error.contains("files/nosuch"), "{verb} {argument}: {error}");
    }
}

#[test]
fn an_abbreviation_of_several_commits_is_ambiguous_to_every_verb() {
    let sample = Sample::new();
    let mut server = sample.place.server(&["serve", "--stdio"]);
    let mut seen = BTreeSet::new();
    let twice = (0..2000).find_map(|number| {
        let params = json!({"message": format!("{number}"), "session": "many"});
        let made = server.call("snapshot", &params).unwrap();
        let prefix = made["id"].as_str().unwrap()[..4].to_owned();
        (!seen.insert(prefix.clone())).then_some(prefix)
    });
    let _ = server.end();
    let twice = twice.expect("some of 2,000 ids begin alike");
    for Argument { verb, argument, call, .. } in ARGUMENTS.iter().filter(|it| !it.call.is_empty()) {
        let output = sample.run(&call.replace("{}", &twice));
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{verb} {argument}: {error}");
        assert!(error.contains("is ambiguous"), "{verb} {argument}: {error}");
    }
}

/// Calls an operation of a server of a copy of the store.
fn called(sample: &Sample, operation: &str, params: &str, form: &str) -> Result<Value, Value> {
    let mut command = sample.place.command(&["serve", "--stdio", "--workspace", "work"]);
    command.current_dir(sample.copy()).env("TURNTREE_NOW", at(30));
    let mut server = Server::start(&mut command);
    let params = serde_json::from_str(&params.replace("{}", form)).unwrap();
    let answer = server.call(operation, &params);
    let _ = server.end();
    answer
}

#[test]
fn every_form_of_a_revision_means_the_same_to_every_operation() {
    let sample = Sample::new();
    for (operation, argument, takes, params) in OPERATIONS.iter().filter(|it| !it.3.is_empty()) {
        let call = |form: &str| {
            let plain = |value: Value| value.to_string().replace(form, "ID");
            let plain = |value| plain(value).replace(&sample.third, "ID");
            called(&sample, operation, params, form).map(plain).map_err(plain)
        };
        let expected = call(&sample.third);
        for form in ["turn:3", "work/main~2", "prompt:3", "main@{2}", "t3"] {
            let (Ok(found), Ok(expected)) = (call(form), &expected) else {
                assert_eq!(call(form).is_err(), expected.is_err(), "{operation} {argument} {form}");
                continue;
            };
            assert_eq!(&found, expected, "{operation} {argument} {form}");
        }
        let refused = called(&sample, operation, params, "turn:3:scratchpad/nosuch").unwrap_err();
        let message = refused["message"].as_str().unwrap();
        match takes {
            Snapshot => assert!(
                message.contains("names an entry: expected a snapshot"),
                "{operation} {argument}: {message}"
            ),
            _ => assert!(!message.is_empty(), "{operation} {argument}: {message}"),
        }
        for form in ["nosuch", "turn:99"] {
            assert!(called(&sample, operation, params, form).is_err(), "{operation} {form}");
        }
    }
}

#[test]
fn the_tables_have_every_verb_and_operation() {
    let mut found = BTreeSet::new();
    let mut unknown = Vec::new();
    let command = turntree_cli::command();
    let mut open = vec![(String::new(), command)];
    while let Some((verb, command)) = open.pop() {
        for below in command.get_subcommands().filter(|it| it.get_name() != "help") {
            let name = format!("{verb} {}", below.get_name()).trim().to_owned();
            open.push((name, below.clone()));
        }
        let group = verb.split(' ').next().unwrap_or_default();
        let mut is_known = WITHOUT.contains(&verb.as_str()) || GROUPS_WITHOUT.contains(&group);
        for argument in command.get_arguments() {
            let value = argument.get_value_names().and_then(|names| names.first());
            if !value.is_some_and(|value| VALUES.contains(&value.as_str())) {
                continue;
            }
            let id = argument.get_id().as_str();
            let is_listed = ARGUMENTS.iter().any(|it| it.verb == verb && it.argument == id);
            is_known |= is_listed;
            found.insert((verb.clone(), id.to_owned()));
            if !is_listed {
                unknown.push(format!("{verb} {id}"));
            }
        }
        is_known |= ARGUMENTS.iter().any(|it| it.verb == verb);
        if !is_known {
            unknown.push(verb);
        }
    }
    assert_eq!(unknown, Vec::<String>::new(), "add these to ARGUMENTS or to WITHOUT");

    let place = Place::new(PROGRAM);
    let _ = place.with_turns(1);
    let mut server = place.server(&["serve", "--stdio", "--workspace", "work", "--", "true"]);
    let described = server.call("describe", &json!({})).unwrap();
    let mut unknown = Vec::new();
    for method in described["methods"].as_array().unwrap() {
        let name = method["name"].as_str().unwrap();
        let is_listed =
            OPERATIONS.iter().any(|it| it.0 == name) || OPERATIONS_WITHOUT.contains(&name);
        if !is_listed {
            unknown.push(name.to_owned());
        }
        let properties = method["params"]["properties"].as_object();
        for argument in properties.into_iter().flatten().map(|(argument, _)| argument) {
            let is_listed = OPERATIONS.iter().any(|it| it.0 == name && it.1 == argument);
            if NAMES.contains(&argument.as_str()) && !is_listed {
                unknown.push(format!("{name} {argument}"));
            }
        }
    }
    assert_eq!(unknown, Vec::<String>::new(), "add these to OPERATIONS");
}
