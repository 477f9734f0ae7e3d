//! The commands of the README in their order: in a home without any agent, in a home with recorded
//! transcripts, and with the answers that a reader expects.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use turntree_tests::recorded_sessions;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// The recorded transcripts of the home, and the one that is of the project where the reader is.
const TRANSCRIPTS: [&str; 5] = [
    "cli__c070516b3fa9-0.jsonl",
    "ironclaw__bdf40454b1a2-2.jsonl",
    "ironclaw__5f44571a6da0-2.jsonl",
    "agentv__a854a7cb1c1f-0.jsonl",
    "agentv__3c162d1d8ad4-1.jsonl",
];
const OF_PROJECT: &str = TRANSCRIPTS[0];

/// A machine of a reader.
struct Machine {
    root: tempfile::TempDir,
}

/// How a command is to end, and what it is to say.
type Expected = (i32, &'static [&'static str]);

/// The commands of the README: the answer in a home with transcripts, and in one without.
const COMMANDS: &[(&str, Expected, Expected)] = &[
    (
        "turntree adopt",
        (0, &["claude-code", "codex", "imported into", "'turntree undo' undoes the import"]),
        (0, &["found no session of an agent in", ".claude/projects", ".codex/sessions"]),
    ),
    (
        "turntree hook install claude-code",
        (0, &["installed: ", ".claude/settings.local.json"]),
        (0, &["installed: "]),
    ),
    (
        "turntree sessions",
        (0, &["de1ed521", "claude-code", "project", "I think we have a bug somewhere"]),
        (6, &["no store", "'turntree adopt'", "'turntree snapshot --workspace .'"]),
    ),
    (
        "turntree fork bucket window --worktree ../try-{}",
        (
            0,
            &[
                "de1ed521/bucket begins",
                "de1ed521/window begins",
                "try-bucket",
                "'turntree compare'",
            ],
        ),
        (6, &["no store", "'turntree snapshot --workspace .'"]),
    ),
    (
        "turntree compare",
        (0, &["bucket", "window", "main", "turns", "cost"]),
        (6, &["'turntree snapshot --workspace .'"]),
    ),
    (
        "turntree merge bucket",
        (0, &["de1ed521/bucket merged into de1ed521/main"]),
        (6, &["'turntree snapshot --workspace .'"]),
    ),
    (
        "turntree rollback --turns 2",
        (0, &["rolled back 2 turns to turn", "'turntree resume de1ed521/main'"]),
        (6, &["'turntree snapshot --workspace .'"]),
    ),
    ("turntree undo", (0, &["undo ", "rollback de1ed521/main"]), (6, &["'turntree adopt'"])),
    (
        "turntree resume turn:3 --in codex --cwd .",
        (0, &["of turn 3 to ", ".codex/sessions", "codex resume "]),
        (6, &["'turntree adopt'"]),
    ),
    ("turntree view --open", (0, &["http://127.0.0.1:"]), (6, &["'turntree adopt'"])),
    ("turntree ui", (2, &["ui needs a terminal", "'turntree sessions'"]), (2, &["a terminal"])),
    (
        "turntree share HEAD -o session.html",
        (0, &["session.html", "#key="]),
        (6, &["'turntree adopt'"]),
    ),
];

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["home", "project", "nothing"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        fs::write(root.path().join("project/notes.txt"), "mine\n").unwrap();
        Self { root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    /// Lays transcripts where their agents keep them; one is of the project.
    fn lay_out(&self, transcripts: &[PathBuf]) {
        let project = self.path("project");
        for path in transcripts {
            let text = fs::read_to_string(path).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_codex = name.starts_with("agentv");
            let key = if is_codex { "\"id\":\"" } else { "\"sessionId\":\"" };
            let session = between(&text, key, "\"").to_owned();
            let file = match is_codex {
                true => format!(
                    ".codex/sessions/2026/06/17/rollout-2026-06-17T10-07-16-{session}.jsonl"
                ),
                false => format!(".claude/projects/-recorded-{name}/{session}.jsonl"),
            };
            let text = match name == OF_PROJECT {
                true => text.replace(between(&text, "\"cwd\":\"", "\""), project.to_str().unwrap()),
                false => text.clone(),
            };
            let file = self.path("home").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.path("project")).stdin(Stdio::null()).env_clear();
        command.env("HOME", self.path("home")).env("TURNTREE_MAINTENANCE", "off");
        command.env("COLUMNS", "160");
        // An empty directory, so that no browser is found and opened.
        command.env("PATH", self.path("nothing"));
        command
    }

    fn run(&self, line: &str) -> Output {
        let words: Vec<&str> = line.split(' ').skip(1).collect();
        self.command(&words).output().unwrap()
    }

    /// The first line of the server of `view`.
    fn address(&self) -> String {
        let mut server = self.command(&["view", "--open"]);
        let mut child = server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        let _ = BufReader::new(child.stdout.take().unwrap()).read_line(&mut line);
        child.kill().unwrap();
        let _ = child.wait();
        line
    }
}

fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    text.split_once(before).unwrap().1.split_once(after).unwrap().0
}

fn said(output: &Output) -> String {
    let bytes = [&*output.stdout, &output.stderr].concat();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The commands of the program in the code blocks of the README.
fn commands() -> Vec<String> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let text = fs::read_to_string(readme).unwrap();
    let blocks = text.split("```").skip(1).step_by(2);
    let lines = blocks.flat_map(str::lines).filter(|line| line.starts_with("turntree "));
    let command = |line: &str| line.split(" #").next().unwrap().trim().to_owned();
    lines.map(command).collect()
}

#[test]
fn every_command_of_the_readme_is_in_the_walk() {
    let walked: Vec<&str> = COMMANDS.iter().map(|(line, ..)| *line).collect();
    assert_eq!(commands(), walked, "the README has other commands than the walk");
}

#[test]
fn a_home_with_transcripts_gets_the_answers_that_the_readme_promises() {
    let recorded = recorded_sessions();
    let is_wanted = |path: &&PathBuf| {
        TRANSCRIPTS.iter().any(|name| path.file_name().is_some_and(|it| it == *name))
    };
    let transcripts: Vec<PathBuf> = recorded.iter().filter(is_wanted).cloned().collect();
    if transcripts.len() < TRANSCRIPTS.len() {
        eprintln!("skipped: the recorded sessions are not beside the project");
        return;
    }
    let machine = Machine::new();
    machine.lay_out(&transcripts);
    for (line, (code, words), _) in COMMANDS {
        let (ended, text) = match line.contains(" view ") {
            true => (Some(0), machine.address()),
            false => {
                let output = machine.run(line);
                (output.status.code(), said(&output))
            }
        };
        assert_eq!(ended, Some(*code), "{line}: {text}");
        for word in *words {
            assert!(text.contains(word), "{line} does not say {word}: {text}");
        }
        let whole = "de1ed521-f8fc-44f4-b8a3-970e99616ca2";
        assert!(!text.contains(whole), "{line} names a session in full: {text}");
    }
    // The reader's own file was never touched.
    assert_eq!(fs::read_to_string(machine.path("project/notes.txt")).unwrap(), "mine\n");
    let listed = said(&machine.run("turntree sessions"));
    assert_eq!(listed.lines().count(), 1 + TRANSCRIPTS.len() + 1, "{listed}");
}

#[test]
fn an_empty_home_is_told_what_to_do_and_can_begin() {
    let machine = Machine::new();
    for (line, _, (code, words)) in COMMANDS {
        let output = machine.run(line);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(*code), "{line}: {text}");
        for word in *words {
            assert!(text.contains(word), "{line} does not say {word}: {text}");
        }
    }
    // What the hints say works, and everything after it.
    let begun = said(&machine.run("turntree snapshot --workspace ."));
    assert!(begun.contains("turn 1 of project/main"), "{begun}");
    fs::write(machine.path("project/notes.txt"), "mine, again\n").unwrap();
    let _ = machine.run("turntree snapshot --workspace .");
    for (line, code, words) in [
        ("turntree sessions", 0, "project"),
        ("turntree fork bucket window --worktree ../try-{}", 0, "project/window begins"),
        ("turntree compare", 0, "bucket"),
        ("turntree merge bucket", 0, "bucket"),
        ("turntree rollback --turns 2", 0, "1 file written"),
        ("turntree undo", 0, "notes.txt"),
        ("turntree rollback --turns 9", 6, "before this one"),
        ("turntree resume turn:9 --in codex --cwd .", 6, "turn 9 is not on this branch"),
    ] {
        let output = machine.run(line);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(code), "{line}: {text}");
        assert!(text.contains(words), "{line}: {text}");
    }
    assert_eq!(fs::read_to_string(machine.path("project/notes.txt")).unwrap(), "mine, again\n");
}
