//! The session that a command acts on by default: that of the current directory.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::json;
use turntree_tests::claude_code;
use turntree_tests::server_process::Server;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// Two projects with a session each, a directory without one, and one store for all.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for dir in ["home", "lexer/src", "parser", "other"] {
            fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        let machine = Self { root };
        for (number, project) in ["lexer", "parser"].into_iter().enumerate() {
            let file = machine.dir("home").join(format!("s-{project}.jsonl"));
            let dir = machine.dir(project);
            let text = claude_code(3 + number).replace("/project", &dir.display().to_string());
            fs::write(&file, text).unwrap();
        }
        machine.run("home", &["adopt", "."]);
        machine
    }

    fn dir(&self, dir: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(dir)
    }

    fn command(&self, dir: &str, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.dir(dir)).env_clear();
        command.env("HOME", self.dir("home")).env("TURNTREE_STORE", self.dir("home/store"));
        command.envs([("TURNTREE_NOW", "2026-11-20T12:00:00Z"), ("TURNTREE_MAINTENANCE", "off")]);
        command.env("TURNTREE_ACTOR", "ann");
        command
    }

    fn output(&self, dir: &str, words: &[&str]) -> Output {
        self.command(dir, words).output().unwrap()
    }

    fn run(&self, dir: &str, words: &[&str]) -> String {
        let output = self.output(dir, words);
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The branch that commands act on by default in a directory.
    fn head(&self, dir: &str) -> String {
        let status: serde_json::Value =
            serde_json::from_str(&self.run(dir, &["status", "--json"])).unwrap();
        format!("{}/{}", status["session"].as_str().unwrap(), status["branch"].as_str().unwrap())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn bare_commands_act_on_the_session_of_their_directory() {
    let machine = Machine::new();
    for project in ["lexer", "parser"] {
        assert_eq!(machine.head(project), format!("s-{project}/main"));
        let log = machine.output(project, &["log", "-n", "1"]);
        assert!(text(&log.stdout).contains(&format!("s-{project}/main")));
        assert_eq!(text(&log.stderr), "", "the only session of a directory needs no word");
        let taken = machine.run(project, &["snapshot", "-m", "more"]);
        assert!(taken.contains(&format!("of s-{project}/main")), "{taken}");
        let plan = machine.run(project, &["rollback", "--turns", "1", "--dry-run"]);
        assert!(plan.contains(&format!("s-{project}/main")), "{plan}");
    }
    assert_eq!(machine.head("lexer/src"), "s-lexer/main");
    let text_of = claude_code(9).replace("/project", &machine.dir("lexer").display().to_string());
    fs::write(machine.dir("home").join("second.jsonl"), text_of.replace("parser", "lexer"))
        .unwrap();
    machine.run("home", &["adopt", "."]);
    let said = text(&machine.output("lexer", &["log", "-n", "1"]).stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("/main, the newest session of this directory"), "{said}");
}

#[test]
fn a_snapshot_of_a_workspace_begins_a_session_of_that_name() {
    let machine = Machine::new();
    let taken = machine.run("other", &["snapshot", "-m", "x", "--workspace", "."]);
    assert!(taken.contains("turn 1 of other/main"), "{taken}");
    assert_eq!(machine.head("other"), "other/main");
    // The next snapshot continues it, and a directory of the same name elsewhere has its own.
    let taken = machine.run("other", &["snapshot", "-m", "y", "--workspace", "."]);
    assert!(taken.contains("turn 2 of other/main"), "{taken}");
    std::fs::create_dir_all(machine.dir("lexer").parent().unwrap().join("deep/other")).unwrap();
    let taken = machine.run("deep/other", &["snapshot", "-m", "z", "--workspace", "."]);
    assert!(taken.contains("turn 1 of other-2/main"), "{taken}");
    // From elsewhere, the session of the workspace continues.
    for turn in [3, 4] {
        let taken = machine.run("deep", &["snapshot", "-m", "x", "--workspace", "../other"]);
        assert!(taken.contains(&format!("turn {turn} of other/main")), "{taken}");
    }
    let plain = machine.output("deep", &["snapshot", "-m", "x"]);
    assert_eq!(plain.status.code(), Some(6));
}

#[test]
fn where_no_session_is_of_the_place_one_must_be_named() {
    let machine = Machine::new();
    let before = machine.run("other", &["show-ref"]);
    for words in [&["status"][..], &["log"], &["snapshot", "-m", "x"], &["rollback", "--dry-run"]] {
        let output = machine.output("other", words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(6), "{words:?}: {said}");
        assert!(said.contains("\n  s-lexer  ") && said.contains("\n  s-parser  "), "{said}");
        assert!(said.contains("turntree snapshot --workspace"), "{said}");
        assert!(said.contains("turntree switch SESSION"), "{said}");
    }
    assert_eq!(machine.run("other", &["show-ref"]), before);
    for words in [&["branch"][..], &["log", "s-lexer"], &["log", "--all"], &["fsck"], &["stats"]] {
        machine.run("other", words);
    }
    machine.run("other", &["grep", "--all", "part"]);
    let mut named = machine.command("other", &["status"]);
    assert!(named.env("TURNTREE_BRANCH", "s-lexer").status().unwrap().success());
}

#[test]
fn a_switch_is_of_its_directory_and_those_below() {
    let machine = Machine::new();
    machine.run("lexer", &["fork", "plan", "--switch"]);
    assert_eq!(machine.head("lexer"), "s-lexer/plan");
    assert_eq!(machine.head("lexer/src"), "s-lexer/plan");
    assert_eq!(machine.head("parser"), "s-parser/main");
    machine.run("other", &["switch", "s-parser"]);
    machine.run("lexer", &["switch", "-"]);
    assert_eq!(machine.head("lexer"), "s-lexer/main");
    machine.run("lexer", &["switch", "-"]);
    assert_eq!(machine.head("lexer"), "s-lexer/plan");
    machine.run("other", &["undo"]);
    assert_eq!(machine.head("lexer"), "s-lexer/main", "an undo takes a switch back");
    assert_eq!(machine.head("other"), "s-parser/main");
}

#[test]
fn places_follow_a_branch_to_its_new_name_and_go_with_it() {
    let machine = Machine::new();
    machine.run("lexer", &["fork", "plan", "--switch"]);
    machine.run("parser", &["branch", "-m", "s-lexer/plan", "s-lexer/the-plan"]);
    assert_eq!(machine.head("lexer"), "s-lexer/the-plan");
    machine.run("parser", &["switch", "s-parser"]);
    machine.run("parser", &["branch", "-d", "s-lexer/the-plan"]);
    assert_eq!(machine.head("lexer"), "s-lexer/main");
    machine.run("parser", &["undo"]);
    assert_eq!(machine.head("lexer"), "s-lexer/the-plan");
    machine.run("other", &["fsck"]);
    let bundle = machine.dir("home/all.bundle").display().to_string();
    machine.run("lexer", &["bundle", "create", "s-lexer", "-o", &bundle]);
    machine.run("lexer", &["--store", "copy", "bundle", "unbundle", &bundle]);
    let refs = machine.run("other", &["--store", "../lexer/copy", "show-ref"]);
    assert_eq!(refs.matches("refs/places/").count(), 1, "that of the new store: {refs}");
}

#[test]
fn a_session_belongs_to_the_directory_where_it_begins() {
    let machine = Machine::new();
    machine.run("other", &["snapshot", "-m", "mine", "--session", "mine"]);
    assert_eq!(machine.head("other"), "mine/main");
    assert_eq!(machine.head("lexer"), "s-lexer/main");
}

#[test]
fn servers_choose_by_their_workspace() {
    let machine = Machine::new();
    let dir = machine.dir("lexer").display().to_string();
    let mut server =
        Server::start(&mut machine.command("parser", &["serve", "--stdio", "--workspace", &dir]));
    let status = server.call("status", &json!({})).unwrap();
    assert_eq!(status["session"], "s-lexer");
    let mut server = Server::start(&mut machine.command("other", &["serve", "--stdio"]));
    let refused = server.call("status", &json!({})).unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("\n  s-parser  "), "{refused}");
}
