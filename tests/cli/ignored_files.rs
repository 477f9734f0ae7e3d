//! A rewind leaves alone files that git ignores, and files that a transcript never knew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// A project, a home and a store.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for dir in ["home", "project"] {
            fs::create_dir(root.path().join(dir)).unwrap();
        }
        let machine = Self { root };
        machine.write("../said.jsonl", "{\"role\":\"user\",\"content\":\"go on\"}\n");
        machine
    }

    fn project(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap().join("project")
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.project().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.project().join(path)).ok()
    }

    fn call(&self, program: &str, words: &[&str]) -> String {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.project()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.root.path().join("home"));
        command.env("TURNTREE_STORE", self.root.path().join("store"));
        command.env("TURNTREE_MAINTENANCE", "off").env("GIT_CONFIG_NOSYSTEM", "1");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn run(&self, words: &[&str]) -> String {
        self.call(PROGRAM, words)
    }

    fn snapshot(&self, title: &str) {
        self.run(&["snapshot", "-m", title, "--append", "../said.jsonl", "--workspace", "."]);
    }

    fn captured(&self) -> Vec<String> {
        let listed = self.run(&["ls", "HEAD:files"]);
        listed.lines().map(|line| line.split("  ").next().unwrap().to_owned()).collect()
    }
}

/// A session of Claude Code in which the agent wrote `a.txt`.
fn transcript(project: &Path) -> String {
    let file = project.join("a.txt");
    let session = "11111111-1111-4111-8111-111111111111";
    let record = |number: u32, kind: &str, message: Value| {
        let parent = (number > 1).then(|| format!("u{}", number - 1));
        json!({
            "type": kind, "uuid": format!("u{number}"), "parentUuid": parent, "cwd": project,
            "sessionId": session, "timestamp": "2026-11-20T10:00:00.000Z", "message": message,
        })
    };
    let write = json!({"file_path": file, "content": "one\n"});
    let call = json!({"type": "tool_use", "id": "t1", "name": "Write", "input": write});
    let result = json!({"type": "tool_result", "tool_use_id": "t1", "content": "done"});
    let mut answered = record(3, "user", json!({"role": "user", "content": [result]}));
    answered["toolUseResult"] = json!({"type": "create", "filePath": file, "content": "one\n"});
    let assistant = json!({"id": "m1", "role": "assistant", "model": "m", "content": [call]});
    let records = [
        record(1, "user", json!({"role": "user", "content": "write a.txt"})),
        record(2, "assistant", assistant),
        answered,
    ];
    records.iter().map(|record| format!("{record}\n")).collect()
}

#[test]
fn files_that_a_transcript_never_knew_stay_however_often_a_file_of_it_comes_back() {
    let machine = Machine::new();
    machine.write("../11111111-1111-4111-8111-111111111111.jsonl", &transcript(&machine.project()));
    machine.run(&["adopt", "../11111111-1111-4111-8111-111111111111.jsonl"]);
    machine.write("mine.txt", "mine");
    machine.run(&["restore", "HEAD", "--only", "files/a.txt", "--workspace", "."]);
    for words in [&["restore", "HEAD"][..], &["rollback", "--turns", "1"], &["restore", "HEAD"]] {
        fs::remove_file(machine.project().join("a.txt")).ok();
        let said = machine.run(words);
        assert!(said.contains("never a whole workspace"), "{said}");
        assert!(!said.contains("made since"), "{said}");
        assert_eq!(machine.read("mine.txt").as_deref(), Some("mine"), "{words:?}");
    }
    machine.snapshot("all of it");
    machine.write("new.txt", "new");
    let said = machine.run(&["restore", "HEAD"]);
    assert!(said.contains("made since the newest snapshot"), "{said}");
    assert_eq!((machine.read("new.txt"), machine.read("mine.txt")), (None, Some("mine".into())));
}

#[test]
fn ignored_files_stay_and_never_enter_the_store_while_their_rule_goes_and_comes() {
    for rules in [".gitignore", ".turntreeignore", "deep/.gitignore"] {
        let machine = Machine::new();
        let at = Path::new(rules).parent().unwrap();
        let (env, build) = (at.join(".env"), at.join("build/o"));
        let (env, build) = (env.to_str().unwrap(), build.to_str().unwrap());
        let expect_kept = |after: &str| {
            assert_eq!(machine.read(env).as_deref(), Some("KEY=hidden"), "{rules}: {after}");
            assert_eq!(machine.read(build).as_deref(), Some("object"), "{rules}: {after}");
        };
        machine.write("a.txt", "one");
        machine.snapshot("one");
        machine.write(rules, ".env\nbuild/\n");
        machine.write(env, "KEY=hidden");
        machine.write(build, "object");
        machine.snapshot("two");
        for words in [&["rollback", "--turns", "1"][..], &["restore", "HEAD"], &["undo"], &["redo"]]
        {
            machine.run(words);
            expect_kept(&format!("{words:?}"));
        }
        for turn in ["turn:2", "turn:1", "turn:2", "turn:1"] {
            machine.run(&["restore", turn, "--only", "files"]);
            expect_kept(turn);
        }
        machine.run(&["restore", "turn:2", "--only", "files"]);
        fs::remove_file(machine.project().join(rules)).unwrap();
        for words in [&["rollback", "--turns", "1"][..], &["undo"], &["restore", "HEAD"]] {
            machine.run(words);
            expect_kept(&format!("without the rule, {words:?}"));
        }
        let found = machine.run(&["restore", "turn:2", "--only", "files", "--json"]);
        assert!(!found.contains("build/o"), "{found}");
        for id in ["refs/before/default/main", "turn:2", "HEAD"] {
            let listed = machine.run(&["ls", &format!("{id}:files")]);
            assert!(!listed.contains(".env"), "{id} has it: {listed}");
        }
    }
}

#[test]
fn all_rules_of_git_count_and_what_it_tracks_is_captured() {
    if Command::new("git").arg("--version").output().is_err() {
        println!("skipped: git is not installed");
        return;
    }
    let machine = Machine::new();
    machine.call("git", &["init", "-q", "."]);
    machine.write(".git/info/exclude", "notes.md\n");
    machine.write("../home/.gitconfig", "[core]\n\texcludesFile = ~/rules # mine\n");
    machine.write("../home/rules", ".envrc\n");
    machine.write(".gitignore", "*.log\n");
    for (path, content) in [("notes.md", "n"), (".envrc", "e"), ("x.log", "1"), ("kept.log", "1")] {
        machine.write(path, content);
    }
    machine.call("git", &["add", "-f", "kept.log"]);
    machine.snapshot("one");
    assert_eq!(machine.captured(), [".gitignore", "kept.log"]);
    for path in ["notes.md", ".envrc", "x.log", "kept.log"] {
        machine.write(path, "2");
    }
    machine.snapshot("two");
    let contents = || {
        let read = |path| machine.read(path).unwrap();
        ["notes.md", ".envrc", "x.log", "kept.log"].map(read)
    };
    machine.run(&["rollback", "--turns", "1"]);
    assert_eq!(contents(), ["2", "2", "2", "1"]);
    machine.run(&["undo"]);
    assert_eq!(contents(), ["2", "2", "2", "2"]);
    // A rule applies to a file once git stops tracking it.
    machine.call("git", &["rm", "-q", "-f", "--cached", "kept.log"]);
    machine.run(&["rollback", "--turns", "1"]);
    assert_eq!(contents(), ["2", "2", "2", "2"]);
}

#[test]
fn a_plan_says_why_the_workspace_stays_and_an_empty_one_comes_back() {
    let machine = Machine::new();
    let said = &["snapshot", "-m", "said", "--append", "../said.jsonl"];
    machine.run(said);
    machine.run(said);
    let text = machine.run(&["rollback", "--turns", "1", "--dry-run"]);
    assert!(text.contains("workspace left unchanged: turn 1 has no files"), "{text}");
    let record = machine.run(&["rollback", "--turns", "1", "--json"]);
    let record: Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["workspace_kept"], "turn 1 has no files");
    machine.snapshot("empty");
    machine.write("first.html", "page");
    machine.snapshot("a page");
    machine.run(&["rollback", "--turns", "1"]);
    assert_eq!(machine.read("first.html"), None);
    machine.run(&["undo"]);
    assert_eq!(machine.read("first.html").as_deref(), Some("page"));
}

#[test]
fn a_section_of_files_that_a_partial_restore_emptied_needs_no_directory() {
    let machine = Machine::new();
    machine.run(&["snapshot", "-m", "one", "--set", "scratchpad/x=1"]);
    machine.run(&["snapshot", "-m", "two", "--set", "scratchpad/x=2", "--set", "files/a.txt=a"]);
    machine.run(&["restore", "HEAD~1", "--only", "files/a.txt"]);
    machine.run(&["snapshot", "-m", "three", "--set", "scratchpad/x=3"]);
    let text = machine.run(&["restore", "HEAD~1"]);
    assert!(text.contains("workspace left unchanged: turn 3 has no files"), "{text}");
    assert_eq!(machine.run(&["cat", "HEAD:scratchpad/x"]), "2");
}
