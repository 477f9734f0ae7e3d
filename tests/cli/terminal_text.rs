//! Stored bytes on a terminal: no command prints control sequences from them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use turntree_tests::terminal::written_to_terminal;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// A title, the clipboard, a moved cursor, an 8-bit control, hidden text, and a reversed direction.
const ORDERS: &str =
    "\u{1b}]0;PWN\u{7}\u{1b}]52;c;cm0=\u{7}\u{1b}[2J\u{8}\r\u{9b}31m\u{7f}\u{1b}[8mx\u{202e}";

/// Command lines that show stored content, each run on a terminal.
const LINES: &[&str] = &[
    "",
    "status",
    "sessions",
    "session show evil",
    "log evil",
    "log --all --graph",
    "log --path files evil",
    "outline evil",
    "show evil",
    "show evil:files",
    "show evil:scratchpad/note",
    "cat evil:agents/main/messages",
    "cat evil:scratchpad/note",
    "cat-object evil:scratchpad/note",
    "ls evil",
    "ls evil:files",
    "ls evil:scratchpad",
    "ls-tree evil",
    "diff evil~1 evil",
    "diff evil~1 evil --stat",
    "compare evil",
    "compare evil evil~1 --align",
    "explore status",
    "replay evil -- true",
    "blame evil:files",
    "blame evil:agents/main/messages",
    "grep canary --all",
    "search canary",
    "stats evil",
    "usage evil",
    "spiral evil",
    "branch",
    "tag",
    "pins",
    "op log",
    "op show 1",
    "lesson list",
    "show-ref",
    "rev-parse evil",
    "restore evil --to out --dry-run",
    "rollback 1 --session evil --workspace work --dry-run",
    "merge evil~1 --into evil/main --dry-run",
    "cherry-pick evil~1 --dry-run",
    "edit evil --drop message:1 --dry-run",
    "compact evil --offload-over 2 --keep-recent 0 --dry-run",
    "resume evil --in codex --dry-run",
    "export evil --format jsonl",
    "export evil --format json",
    "export evil --format markdown",
    "export evil --format source",
    "share evil -o shared.html",
    "export evil --format sft",
    "export evil --format grpo",
    "export evil --format verifiers",
    "export evil --format inspect",
    "secrets scan",
    "redact canary --dry-run",
    "import transcript.jsonl",
    "adopt transcript.jsonl --dry-run",
    "shrink transcript.jsonl",
    "bundle show evil.bundle",
    "bundle verify evil.bundle",
    "retention show",
    "gc --dry-run",
    "fsck",
    "repair --dry-run",
    "session forget evil --dry-run",
    "hash-object transcript.jsonl",
    "vfs ls",
    "remote",
    "key ls",
    "trust --list",
    "trust .",
    "hook log",
    "hook check",
    "undo --dry-run",
    "redo --dry-run",
];

/// Commands that show no stored content, or never on a terminal.
const WITHOUT_OUTPUT: &[&str] = &[
    "bisect",
    "clone",
    "completions",
    "demo",
    "fetch",
    "fork",
    "git",
    "help",
    "hook",
    "init",
    "manual",
    "mcp",
    "offload",
    "ollm",
    "pin",
    "pull",
    "push",
    "repack",
    "resolve",
    "serve",
    "snapshot",
    "swarm",
    "events",
    "reads",
    "switch",
    "sync",
    "ui",
    "uncompact",
    "unpin",
    "update-ref",
    "version",
    "view",
];

fn program(folder: &Path) -> Command {
    let mut program = Command::new(PROGRAM);
    program.current_dir(folder).env("HOME", folder).env("XDG_DATA_HOME", folder.join("data"));
    program.env("TURNTREE_STORE", folder.join("store")).env("TURNTREE_MAINTENANCE", "off");
    program.env("TURNTREE_ACTOR", "tester").env("TERM", "xterm").env_remove("NO_COLOR");
    program
}

fn run(folder: &Path, line: &[&str]) {
    let done = program(folder).args(line).stdin(Stdio::null()).output().unwrap();
    assert!(done.status.success(), "{line:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A store with control sequences in names of files, messages, notes, titles and labels.
fn store() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let (work, name) = (here.join("work"), format!("canary {ORDERS}"));
    fs::create_dir_all(work.join(format!("d{ORDERS}"))).unwrap();
    fs::write(work.join(&name), format!("one {ORDERS}\n")).unwrap();
    fs::write(work.join(format!("d{ORDERS}/g")), "two\n").unwrap();
    run(here, &["init"]);
    let message = format!("user=canary {ORDERS}");
    let note = format!("scratchpad/note=canary {ORDERS}");
    let named = format!("scratchpad/{}=1", ORDERS.replace('/', ""));
    for turn in ["one", "two"] {
        let title = format!("{turn} {ORDERS}");
        fs::write(work.join(&name), format!("{turn} {ORDERS}\n")).unwrap();
        run(
            here,
            &[
                "snapshot",
                "-m",
                &title,
                "--session",
                "evil",
                "--workspace",
                "work",
                "--append-message",
                &message,
                "--set",
                &note,
                "--set",
                &named,
            ],
        );
    }
    run(here, &["session", "rename", "evil", "title \u{202e}"]);
    run(
        here,
        &["lesson", "add", "--mistake", &format!("m{ORDERS}"), "--correct", &format!("c{ORDERS}")],
    );
    run(here, &["bundle", "create", "evil", "-o", "evil.bundle", "--allow-secrets"]);
    let record = serde_json::json!({"type": "user", "uuid": "1", "sessionId": "t", "cwd": here,
        "timestamp": "2026-01-01T00:00:00Z", "message": {"role": "user", "content": format!("canary {ORDERS}")}});
    fs::write(here.join("transcript.jsonl"), format!("{record}\n")).unwrap();
    folder
}

/// The control characters in `text`, except for the styles of this program and line ends.
fn obeyed(text: &str) -> Vec<char> {
    let mut text = text.replace("\r\n", "\n");
    for style in ["0", "1", "2", "31", "32", "33", "34", "35", "36"] {
        text = text.replace(&format!("\u{1b}[{style}m"), "");
    }
    let turns = |c: char| matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().filter(|c| (c.is_control() && !matches!(c, '\n' | '\t')) || turns(*c)).collect()
}

#[test]
fn no_verb_lets_a_terminal_obey_what_is_stored() {
    let folder = store();
    let mut faults = Vec::new();
    let mut shown = 0;
    for line in LINES {
        for more in
            [&["--no-pager"][..], &["--no-pager", "--json"], &["--no-pager", "--color", "never"]]
        {
            let mut command = program(folder.path());
            command.args(more).args(line.split_whitespace());
            let written = String::from_utf8_lossy(&written_to_terminal(command)).into_owned();
            assert!(!written.contains("Usage:"), "{line} {more:?}: {written}");
            shown += usize::from(written.contains("canary"));
            let found = obeyed(&written);
            if !found.is_empty() {
                faults.push(format!("{line} {more:?}: {found:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(shown > 40, "only {shown} outputs have stored text in them");
}

#[test]
fn every_verb_is_tried_on_a_terminal() {
    let tried: BTreeSet<&str> = LINES
        .iter()
        .filter_map(|line| line.split(' ').next())
        .chain(WITHOUT_OUTPUT.iter().copied())
        .collect();
    let command = turntree_cli::command();
    let missing: Vec<&str> = command
        .get_subcommands()
        .map(clap::Command::get_name)
        .filter(|verb| !tried.contains(verb))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
