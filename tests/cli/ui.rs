//! `turntree ui` on a pseudo-terminal: its screens, keys and actions, and the terminal afterwards.
//!
//! Screens are compared with those in `ui_screens`, each named by its size. `UPDATE_GOLDENS=1`
//! rewrites them; inspect the changes.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use turntree_tests::claude_code;
use turntree_tests::terminal::{Screen, Terminal};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// The usual size of a terminal.
const USUAL: (u16, u16) = (80, 24);

const ESCAPE: &str = "\x1b";

/// A home, a project, and a store.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn empty() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        for name in ["home", "project"] {
            fs::create_dir(machine.path(name)).unwrap();
        }
        machine.done("2026-11-20T12:00:00Z", &["init"]);
        machine
    }

    /// A session with three prompts and a second strategy, and a session of another agent.
    fn new() -> Self {
        let machine = Self::empty();
        fs::write(machine.path("session.jsonl"), claude_code(12)).unwrap();
        machine
            .done("2026-11-20T12:00:00Z", &["import", "../session.jsonl", "--session", "parser"]);
        machine.done("2026-11-20T12:01:00Z", &["switch", "parser"]);
        machine.done("2026-11-20T12:02:00Z", &["fork", "plan-b", "turn:6", "--switch"]);
        machine.say("2026-11-20T12:03:00Z", "parser/plan-b", "a bold plan");
        machine.done("2026-11-20T12:04:00Z", &["switch", "main"]);
        machine.say("2026-11-20T12:05:00Z", "notes/main", "Why does the lexer fail?");
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn command(&self, now: &str, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.path("project")).env_clear();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut programs = vec![self.path("bin")];
        programs.extend(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(programs).unwrap());
        command.env("HOME", self.path("home")).env("TURNTREE_STORE", self.path("store"));
        command.envs([("TURNTREE_MAINTENANCE", "off"), ("TURNTREE_ACTOR", "ann")]);
        command.envs([("TERM", "xterm"), ("TZ", "UTC"), ("TURNTREE_NOW", now)]);
        command
    }

    fn run(&self, words: &[&str]) -> (Option<i32>, String) {
        let mut command = self.command("2026-11-20T13:00:00Z", words);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    }

    fn done(&self, now: &str, words: &[&str]) {
        let output = self.command(now, words).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Takes a snapshot with a message of the user.
    fn say(&self, now: &str, branch: &str, words: &str) {
        let (session, branch) = branch.split_once('/').unwrap();
        let record = serde_json::json!({ "role": "user", "content": words });
        fs::write(self.path("said.jsonl"), format!("{record}\n")).unwrap();
        let at = ["--session", session, "--branch", branch, "--append", "../said.jsonl"];
        self.done(now, &[&["snapshot", "-m", words][..], &at].concat());
    }

    fn ui(&self, size: (u16, u16), words: &[&str]) -> Terminal {
        let words = [&["ui"], words].concat();
        Terminal::start(self.command("2026-11-20T13:00:00Z", &words), size)
    }

    fn has_branch(&self, name: &str) -> bool {
        let (exit, branches) = self.run(&["branch", "--json"]);
        assert_eq!(exit, Some(0), "{branches}");
        branches.contains(&format!("\"branch\":\"{name}\""))
    }
}

/// True if no read is in progress.
fn is_settled(screen: &Screen) -> bool {
    let header = screen.text().lines().next().unwrap_or_default().to_owned();
    screen.is_other && !header.ends_with("reading")
}

/// Compares the screen with the stored one, once it has `text`.
fn compare(terminal: &Terminal, (columns, rows): (u16, u16), name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cli/ui_screens");
    let file = folder.join(format!("{columns}x{rows}-{name}.txt"));
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        let is_there = |screen: &Screen| is_settled(screen) && screen.text().contains(text);
        let shown = terminal.wait_until(text, is_there);
        fs::create_dir_all(&folder).unwrap();
        fs::write(file, shown).unwrap();
        return;
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    let wanted = format!("{}\n{kept}", file.display());
    terminal.wait_until(&wanted, |screen| screen.text() == kept);
}

#[test]
fn every_screen_at_every_size() {
    let machine = Machine::new();
    for size in [USUAL, (140, 40), (40, 10)] {
        let mut terminal = machine.ui(size, &[]);
        compare(&terminal, size, "sessions", "1 of 2");
        terminal.press("j");
        compare(&terminal, size, "second", "2 of 2");
        terminal.press("\r");
        compare(&terminal, size, "prompts", "1 of 3");
        terminal.press("t");
        terminal.shows("1 of 7");
        terminal.press("\x1b[6~k");
        compare(&terminal, size, "turns", "6 of 7");
        terminal.press("\r");
        compare(&terminal, size, "said", "> turn 2");
        terminal.press("d");
        compare(&terminal, size, "changes", "+++ b/files");
        terminal.press(ESCAPE);
        terminal.wait_until("what was said", |screen| {
            is_settled(screen) && !screen.text().contains("+++ b/files")
        });
        terminal.press("b");
        compare(&terminal, size, "strategies", "> strategies");
        terminal.press("/");
        terminal.shows("search everything:");
        terminal.press("part 8\r");
        compare(&terminal, size, "hits", "1 of 1");
        terminal.press("o");
        compare(&terminal, size, "operations", "> operations");
        terminal.press("u");
        compare(&terminal, size, "undo", "would undo");
        terminal.press(ESCAPE);
        terminal.wait_until("the log", |screen| !screen.text().contains("would undo"));
        terminal.press("P");
        compare(&terminal, size, "pins", "No turn is pinned");
        terminal.press("?");
        compare(&terminal, size, "keys", "goes back");
        terminal.press("q");
        assert!(terminal.end().success());
        terminal.is_given_back();
        terminal.look(|screen| assert_eq!(screen.strange, Vec::<String>::new()));
    }
}

#[test]
fn a_turn_is_forked_and_the_fork_is_taken_back_after_a_yes() {
    let machine = Machine::new();
    let mut terminal = machine.ui(USUAL, &["parser"]);
    terminal.shows("part 8");
    terminal.press("jf");
    terminal.shows("new branch at turn 8 of parser:");
    terminal.press("tri\x7f\x7fry\r");
    terminal.shows("parser/try begins at");
    assert!(machine.has_branch("try"));
    // An existing name is refused.
    terminal.press("f");
    terminal.shows("new branch at");
    terminal.press("try\r");
    terminal.shows("branch parser/try exists already");
    // A plan changes nothing, and a confirmation typed before the plan is shown does not count.
    terminal.press("uy");
    terminal.shows("would undo");
    terminal.press(ESCAPE);
    terminal.wait_until("no plan", |screen| !screen.text().contains("would undo"));
    assert!(machine.has_branch("try"));
    terminal.press("u");
    terminal.shows("would undo");
    // The plan has changed, so the confirmation of the old one does nothing.
    machine.done("2026-11-20T13:01:00Z", &["fork", "later", "parser"]);
    terminal.press("y");
    terminal.shows("the plan has changed");
    assert!(machine.has_branch("try") && machine.has_branch("later"));
    for name in ["later", "try"] {
        terminal.press("u");
        terminal.shows("would undo");
        terminal.shows(&format!("fork parser/{name}"));
        terminal.press("y");
        terminal.shows(&format!("fork parser/{name}; 'turntree redo' brings it back"));
        assert!(!machine.has_branch(name));
    }
    terminal.press("\x03");
    assert!(terminal.end().success());
    terminal.is_given_back();
}

#[test]
fn a_prompt_that_was_rolled_back_still_shows_what_it_did() {
    let machine = Machine::empty();
    let file = machine.path("project").join("kept.txt");
    let taken = |now: &str, words: &str| {
        let message = format!("user={words}");
        let at = ["snapshot", "-m", words, "--session", "work", "--workspace", "."];
        machine.done(now, &[&at[..], &["--append-message", &message]].concat());
    };
    fs::write(&file, "precious\n").unwrap();
    taken("2026-11-20T12:01:00Z", "write it");
    fs::remove_file(&file).unwrap();
    taken("2026-11-20T12:02:00Z", "delete everything");
    machine.done("2026-11-20T12:03:00Z", &["switch", "work"]);
    machine.done("2026-11-20T12:04:00Z", &["rollback"]);
    let mut terminal = machine.ui((140, 40), &["work"]);
    terminal.shows("(rolled back) delete everything");
    terminal.press("\r");
    terminal.shows("> turn 2");
    terminal.wait_until("what was said", |screen| {
        is_settled(screen) && screen.text().contains("  delete everything")
    });
    terminal.press("d");
    terminal.shows("-precious");
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn a_strategy_is_merged_and_a_turn_pinned_after_a_yes_and_both_are_taken_back() {
    let machine = Machine::new();
    let mut terminal = machine.ui(USUAL, &["parser"]);
    terminal.shows("part 8");
    terminal.press("b");
    terminal.shows("plan-b");
    terminal.press("jm");
    terminal.shows("merge parser/plan-b into: parser/main");
    terminal.press("\r");
    terminal.shows("would merge parser/plan-b into parser/main");
    let tip = || machine.run(&["rev-parse", "parser/main"]).1;
    let before = tip();
    terminal.press("y");
    terminal.shows("parser/plan-b is merged into parser/main");
    assert_ne!(tip(), before);
    // A merge without changes is reported.
    terminal.press("m\r");
    terminal.shows("parser/main has all of parser/plan-b already");
    terminal.press("u");
    terminal.shows("would undo");
    terminal.press("y");
    terminal.shows("'turntree redo' brings it back");
    assert_eq!(tip(), before);
    // Adds a pin, lists the pins, and removes it.
    terminal.press("p");
    terminal.shows("name of a pin on turn");
    terminal.press("kept\r");
    terminal.shows("would pin turn");
    assert!(!machine.run(&["pins"]).1.contains("kept"));
    terminal.press("y");
    terminal.shows("is pinned as kept");
    terminal.press("P");
    terminal.shows("1 of 1");
    terminal.shows("pinned by ann");
    terminal.press("p");
    terminal.shows("would remove the pin kept from turn");
    // The pin has changed, so the confirmation of the old plan does nothing.
    machine.done("2026-11-20T13:01:00Z", &["unpin", "kept"]);
    machine.done("2026-11-20T13:01:00Z", &["pin", "parser~2", "--name", "kept"]);
    terminal.press("y");
    terminal.shows("the plan has changed");
    assert!(machine.run(&["pins"]).1.contains("kept"));
    terminal.press("p");
    terminal.shows("would remove the pin kept from turn");
    terminal.press("y");
    terminal.shows("the pin kept is removed");
    assert!(!machine.run(&["pins"]).1.contains("kept"));
    terminal.press("q");
    assert!(terminal.end().success());
    terminal.is_given_back();
}

#[test]
fn what_others_commit_appears_by_itself() {
    let machine = Machine::new();
    let terminal = machine.ui(USUAL, &[]);
    terminal.shows("1 of 2");
    machine.say("2026-11-20T12:30:00Z", "third/main", "Something quite new");
    terminal.shows("Something quite new");
    terminal.press("\r");
    terminal.shows("#1");
    machine.say("2026-11-20T12:31:00Z", "third/main", "and more of it");
    terminal.shows("and more of it");
    terminal.press("j");
    terminal.shows("2 of 2");
    // The selection stays on its turn.
    machine.say("2026-11-20T12:32:00Z", "third/main", "the newest");
    terminal.shows("3 of 3");
}

#[test]
fn the_terminal_is_given_back_at_every_signal() {
    let machine = Machine::new();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut terminal = machine.ui(USUAL, &[]);
        terminal.shows("1 of 2");
        assert!(terminal.look(|screen| screen.is_other && !screen.has_cursor));
        terminal.send(signal);
        assert_eq!(terminal.end().signal(), Some(signal.as_raw()));
        terminal.is_given_back();
    }
    let mut terminal = machine.ui(USUAL, &[]);
    terminal.shows("1 of 2");
    terminal.press("\x1a");
    terminal.is_stopped();
    terminal.is_given_back();
    terminal.send(Signal::CONT);
    terminal.shows("1 of 2");
    terminal.press("j");
    terminal.shows("2 of 2");
    terminal.press("q");
    assert!(terminal.end().success());
    terminal.is_given_back();
}

#[test]
fn the_terminal_is_given_back_at_a_fault_of_the_program() {
    let machine = Machine::new();
    let mut command = machine.command("2026-11-20T13:00:00Z", &["ui"]);
    // No thread can start, which makes the standard library panic.
    command.env("RUST_MIN_STACK", (1_u64 << 60).to_string());
    let mut terminal = Terminal::start(command, USUAL);
    assert_eq!(terminal.end().code(), Some(70));
    terminal.shows("internal error of turntree");
    terminal.is_given_back();
}

#[test]
fn a_window_that_is_pulled_is_filled_anew() {
    let machine = Machine::new();
    let terminal = machine.ui(USUAL, &["parser"]);
    terminal.shows("part 8");
    for size in [(140, 40), (40, 10), (8, 3), (1, 1), (200, 60)] {
        terminal.resize(size);
    }
    terminal.wait_until("a wide screen", |screen| {
        let text = screen.text();
        is_settled(screen) && text.contains("? keys") && text.contains("[Write]")
    });
}

#[test]
fn what_sessions_say_is_shown_and_never_obeyed() {
    let machine = Machine::empty();
    let words =
        "\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m live \u{202e}edirrevo \r\n\u{8}x 修复🎉 e\u{301}";
    machine.say("2026-11-20T12:00:00Z", "evil/main", words);
    let name = "\u{1b}[31m.txt";
    fs::write(machine.path("project").join(name), "\u{1b}[5n\u{202d}\n").unwrap();
    let at = ["--session", "evil", "--workspace", "."];
    machine.done("2026-11-20T12:01:00Z", &[&["snapshot", "-m", words][..], &at].concat());
    for size in [USUAL, (140, 40), (40, 10)] {
        let mut terminal = machine.ui(size, &[]);
        terminal.shows("live <U+");
        terminal.shows("1 of 1");
        terminal.press("\rt");
        terminal.shows("1 of 2");
        terminal.press("d");
        terminal.shows("> changes");
        terminal.shows("files  +1 -0");
        terminal.press(ESCAPE);
        terminal.shows("1 of 2");
        terminal.press("o");
        terminal.shows("operations");
        terminal.press("/");
        terminal.shows("search everything:");
        terminal.press("\u{202e}live 修复\r");
        terminal.shows("search ");
        terminal.press("q");
        assert!(terminal.end().success());
        terminal.look(|screen| assert_eq!(screen.strange, Vec::<String>::new()));
    }
}

#[test]
fn what_is_no_terminal_is_told_what_to_use_instead() {
    let machine = Machine::new();
    let (exit, said) = machine.run(&["ui"]);
    assert_eq!(exit, Some(2), "{said}");
    assert!(said.contains("needs a terminal") && said.contains("turntree sessions"), "{said}");
    let (exit, said) = machine.run(&["ui", "--json"]);
    assert_eq!(exit, Some(2), "{said}");
    let mut command = machine.command("2026-11-20T13:00:00Z", &["ui"]);
    command.env("TERM", "dumb");
    let mut terminal = Terminal::start(command, USUAL);
    assert_eq!(terminal.end().code(), Some(2));
    terminal.shows("TERM is dumb");
    terminal.shows("hint: 'turntree sessions'");
}

#[test]
fn without_colour_there_is_none() {
    let machine = Machine::new();
    for (no_colour, has_colour) in [(None, true), (Some("1"), false)] {
        let mut command = machine.command("2026-11-20T13:00:00Z", &["ui", "parser"]);
        command.envs(no_colour.map(|value| ("NO_COLOR", value)));
        let terminal = Terminal::start(command, USUAL);
        terminal.shows("you");
        assert_eq!(terminal.look(|screen| screen.has_colour), has_colour);
    }
}

#[test]
fn an_empty_store_says_how_sessions_get_in_and_one_that_vanishes_says_so() {
    let machine = Machine::empty();
    let terminal = machine.ui(USUAL, &[]);
    terminal.shows("No session yet. 'turntree adopt'");
    terminal.press("jGd\rfb");
    terminal.shows("choose a session first");
    machine.say("2026-11-20T12:00:00Z", "first/main", "the first of all");
    terminal.shows("the first of all");
    fs::rename(machine.path("store"), machine.path("elsewhere")).unwrap();
    terminal.shows("there is no store at");
    // The last content stays visible.
    terminal.shows("the first of all");
    fs::rename(machine.path("elsewhere"), machine.path("store")).unwrap();
    machine.say("2026-11-20T12:01:00Z", "second/main", "the second of all");
    terminal.shows("the second of all");
}

#[test]
fn a_turn_is_gone_on_from_in_its_agent_once_the_command_was_shown() {
    let machine = Machine::empty();
    let transcript = claude_code(8).replace("/project", machine.path("project").to_str().unwrap());
    fs::write(machine.path("session.jsonl"), transcript).unwrap();
    machine.done("2026-11-20T12:00:00Z", &["import", "../session.jsonl", "--session", "work"]);
    fs::create_dir(machine.path("bin")).unwrap();
    let agent = machine.path("bin/claude");
    fs::write(&agent, "#!/bin/sh\nstty -a | tr ';' '\\n' | grep -w icanon\necho agent $1\n")
        .unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    let mut terminal = machine.ui(USUAL, &["work"]);
    terminal.shows("part 4");
    terminal.press("r");
    terminal.shows("--run");
    terminal.shows("claude --resume");
    // Showing the plan changes nothing.
    assert!(!machine.path("home/.claude").exists());
    terminal.press("r");
    assert!(terminal.end().success());
    terminal.is_given_back();
    let text = terminal.shows("agent --resume");
    assert!(!text.contains("-icanon"), "{text}");
    assert!(machine.path("home/.claude/projects").is_dir());
}

#[test]
fn a_long_session_is_read_as_far_as_it_is_looked_at() {
    let machine = Machine::empty();
    fs::write(machine.path("session.jsonl"), claude_code(2400)).unwrap();
    machine.done("2026-11-20T12:00:00Z", &["import", "../session.jsonl", "--session", "long"]);
    let terminal = machine.ui(USUAL, &["long"]);
    terminal.shows("1 of 200+");
    terminal.shows("#600");
    terminal.press("G");
    terminal.shows("600 of 600");
    terminal.shows("#1 ");
    terminal.press("g");
    terminal.shows("1 of 600");
}
