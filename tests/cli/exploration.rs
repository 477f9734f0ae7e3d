//! A whole exploration with real processes on a real workspace: 300 turns, eight strategies in
//! parallel, a comparison, a merge with a conflict, a destructive turn, a rewind, and an undo of
//! the rewind. After each step the test checks every file and message.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");
const TURNS: usize = 300;
const STRATEGIES: usize = 8;
const STRATEGY_TURNS: usize = 5;

/// The file that two branches change in the same place.
const DISPUTED: &str = "PLAN.md";

/// The files of a directory: content, and whether they are executable. The content of a link is its
/// target.
type Files = BTreeMap<String, (Vec<u8>, bool)>;

struct Story {
    folder: tempfile::TempDir,
    /// The messages of the main line.
    messages: Vec<String>,
}

impl Story {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), messages: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn workspace(&self) -> PathBuf {
        self.path("workspace")
    }

    /// Runs the program in the workspace, if it exists.
    fn run(&self, args: &[&str], input: &str) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(args).current_dir(self.folder.path());
        command.env_clear().env("HOME", self.path("home")).env("TURNTREE_ACTOR", "agent");
        command.env("TURNTREE_STORE", self.path("store"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    fn must(&self, exit: i32, args: &[&str], input: &str) -> String {
        let output = self.run(args, input);
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(exit), "turntree {args:?}\n{out}\n{err}");
        out.into_owned()
    }

    fn ok(&self, args: &[&str]) -> String {
        self.must(0, args, "")
    }

    fn json(&self, args: &[&str]) -> Value {
        let all: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        serde_json::from_str(&self.ok(&all)).unwrap()
    }

    /// Commits a turn to `branch`: the workspace, the messages, and a note.
    fn turn(&self, branch: &str, workspace: &Path, messages: &[String], note: &str) {
        let messages: Vec<Value> = (0..)
            .zip(messages)
            .map(|(at, text)| {
                let role = if at % 2 == 0 { "user" } else { "assistant" };
                json!({"role": role, "content": text})
            })
            .collect();
        let state = json!({
            "agents": {"main": {"messages": messages}},
            "scratchpad": {"note": note, branch: note},
        });
        let workspace = workspace.to_str().unwrap();
        let args = [
            "snapshot",
            "-m",
            note,
            "--trigger",
            "turn",
            "--session",
            "work",
            "--branch",
            branch,
            "--state",
            "-",
            "--workspace",
            workspace,
        ];
        self.must(0, &args, &state.to_string());
    }

    /// The messages of a snapshot, as the program exports them.
    fn messages_at(&self, revision: &str) -> Vec<String> {
        let out = self.ok(&["export", revision, "--format", "jsonl"]);
        let text = |line: &str| {
            let message: Value = serde_json::from_str(line).unwrap();
            message["content"].as_str().unwrap().to_owned()
        };
        out.lines().map(text).collect()
    }

    /// Restores the files of a snapshot to a new directory.
    fn files_at(&self, revision: &str, name: &str) -> PathBuf {
        let dir = self.path(name);
        self.ok(&["restore", revision, "--to", dir.to_str().unwrap(), "--only", "files"]);
        dir.join("files")
    }

    fn assert_is(&self, what: &str, files: &Files, messages: &[String]) {
        assert_eq!(differing(files, &read(&self.workspace())), NONE, "{what}: these are wrong");
        assert_eq!(self.messages_at("work"), messages, "{what}: messages");
    }
}

const NONE: Vec<&String> = Vec::new();

/// The files that differ.
fn differing<'f>(a: &'f Files, b: &'f Files) -> Vec<&'f String> {
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    names.into_iter().filter(|name| a.get(*name) != b.get(*name)).collect()
}

/// All files below a directory except those of git.
fn read(dir: &Path) -> Files {
    fn add(files: &mut Files, dir: &Path, prefix: &str) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                if name != ".git" {
                    add(files, &path, &format!("{prefix}{name}/"));
                }
            } else if kind.is_symlink() {
                let target = fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes();
                files.insert(format!("{prefix}{name}"), (target, false));
            } else {
                let runs = entry.metadata().unwrap().permissions().mode() & 0o111 != 0;
                files.insert(format!("{prefix}{name}"), (fs::read(&path).unwrap(), runs));
            }
        }
    }
    let mut files = Files::new();
    add(&mut files, dir, "");
    files
}

fn git(dir: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(dir).args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

/// A recorded history of a project as the workspace, and its revisions, oldest first. A few made-up
/// files and no revisions if the recording or git is missing.
fn lay_out(workspace: &Path) -> Vec<String> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/sessions");
    let sessions = std::env::var_os("TURNTREE_SESSIONS").map_or(beside, PathBuf::from);
    let bundle = sessions.join("filehist/ironclaw-main.bundle");
    let (parent, name) = (workspace.parent().unwrap(), workspace.to_str().unwrap());
    let cloned = bundle.is_file()
        && git(parent, &["clone", "-q", "-b", "agent", bundle.to_str().unwrap(), name]).is_some();
    if cloned {
        let log = git(workspace, &["rev-list", "--first-parent", "--reverse", "HEAD"]).unwrap();
        return log.lines().map(str::to_owned).collect();
    }
    eprintln!("no recorded file history beside the project: made-up files instead");
    for number in 0..50 {
        let dir = workspace.join(format!("src/{}", number % 7));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("{number}.rs")), format!("fn f{number}() {{}}\n").repeat(50))
            .unwrap();
    }
    Vec::new()
}

fn append(path: &Path, line: &str) {
    let before = fs::read_to_string(path).unwrap_or_default();
    fs::write(path, format!("{before}{line}\n")).unwrap();
}

/// The work of a strategy in one of its turns.
fn work(workspace: &Path, strategy: usize, turn: usize) {
    fs::create_dir_all(workspace.join("strategies")).unwrap();
    append(&workspace.join(format!("strategies/{strategy}.md")), &format!("step {turn}"));
    if turn == 1 {
        let plan = fs::read_to_string(workspace.join(DISPUTED)).unwrap();
        let plan = plan.replace("how: unknown", &format!("how: by strategy {strategy}"));
        fs::write(workspace.join(DISPUTED), plan).unwrap();
    }
}

#[test]
fn strategies_are_tried_compared_merged_and_taken_back() {
    let mut story = Story::new();
    fs::create_dir_all(story.path("home")).unwrap();
    let workspace = story.workspace();
    let revisions = lay_out(&workspace);

    // 300 turns: the recorded ones, then small edits.
    for turn in 0..TURNS {
        match revisions.get(turn) {
            Some(revision) => {
                git(&workspace, &["checkout", "-q", "-f", revision]).unwrap();
                // Files that are tracked and ignored are not part of a workspace.
                let ignored = git(&workspace, &["ls-files", "-ci", "--exclude-standard"]).unwrap();
                ignored.lines().for_each(|path| fs::remove_file(workspace.join(path)).unwrap());
            }
            None => append(&workspace.join("NOTES.md"), &format!("note {turn}")),
        }
        if turn + 1 == TURNS {
            fs::write(workspace.join(DISPUTED), "# Plan\n\nwhat: go on\nhow: unknown\n").unwrap();
        }
        story.messages.push(format!("turn {turn}"));
        story.turn("main", &workspace, &story.messages, &format!("turn {turn}"));
    }
    let base = read(&workspace);
    story.ok(&["switch", "work"]);
    story.assert_is("after 300 turns", &base, &story.messages);
    assert_eq!(story.json(&["log", "-n", "1"])["turn"], TURNS as u64);

    // Eight strategies in parallel, each an agent with its own workspace.
    thread::scope(|scope| {
        for strategy in 0..STRATEGIES {
            let (story, base) = (&story, &base);
            scope.spawn(move || {
                let branch = format!("plan-{strategy}");
                story.ok(&["fork", &branch, "work"]);
                let own = story.files_at(&branch, &format!("own-{strategy}"));
                assert_eq!(differing(&read(&own), base), NONE, "a fork begins with all files");
                let mut messages = story.messages.clone();
                for turn in 0..STRATEGY_TURNS {
                    work(&own, strategy, turn);
                    messages.push(format!("{branch}, step {turn}"));
                    story.turn(&branch, &own, &messages, &format!("{branch} step {turn}"));
                }
                let result = if strategy == 3 { "tests=passed" } else { "tests=failed" };
                let args = ["snapshot", "-m", "tested", "--session", "work", "--branch", &branch];
                story.ok(&[&args[..], &["--check", result]].concat());
                assert_eq!(story.messages_at(&branch), messages, "{branch}");
                let again = story.files_at(&branch, &format!("again-{strategy}"));
                assert_eq!(differing(&read(&again), &read(&own)), NONE, "{branch}");
            });
        }
    });
    story.assert_is("while strategies were tried", &base, &story.messages);

    // Compares all of them.
    let names: Vec<String> = (0..STRATEGIES).map(|strategy| format!("plan-{strategy}")).collect();
    let args: Vec<&str> = ["compare"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let compared = story.json(&args);
    assert_eq!(compared["fork"]["turn"], TURNS as u64);
    for (name, row) in names.iter().zip(compared["strategies"].as_array().unwrap()) {
        assert_eq!(row["branch"], **name);
        assert_eq!(row["turns"], STRATEGY_TURNS as u64 + 1, "{name}");
        assert_eq!(row["messages"], STRATEGY_TURNS as u64, "{name}");
        assert_eq!(row["files_changed"], 2, "{name}");
        assert_eq!(row["lines_added"], STRATEGY_TURNS as u64 + 1, "{name}");
        assert_eq!(row["lines_removed"], 1, "{name}");
        assert_eq!(row["checks"]["tests"], *name == "plan-3", "{name}");
    }

    // The main line changes the same place differently, and continues elsewhere.
    let plan = "# Plan\n\nwhat: go on\nhow: by hand\n";
    fs::write(workspace.join(DISPUTED), plan).unwrap();
    append(&workspace.join("NOTES.md"), "by hand");
    story.messages.push("by hand then".to_owned());
    story.turn("main", &workspace, &story.messages, "by hand");

    // The plan that passed is merged without its chat. The file that both changed becomes a
    // conflict.
    let only = ["--only", "files", "--only", "scratchpad"];
    story.must(1, &[&["merge", "plan-3", "-m", "take plan 3"][..], &only].concat(), "");
    let open = story.must(0, &["resolve"], "");
    assert!(open.contains("files/PLAN.md"), "{open}");
    let marked = story.ok(&["cat", &format!("HEAD:files/{DISPUTED}")]);
    assert!(marked.contains("by hand") && marked.contains("by strategy 3"), "{marked}");
    story.ok(&["resolve", "files/PLAN.md", "--take", "theirs"]);
    story.ok(&["resolve", "--all", "--take", "ours"]);
    story.ok(&["resolve"]);
    assert_eq!(story.ok(&["cat", "HEAD:scratchpad/plan-3"]).trim(), "plan-3 step 4");
    story.ok(&["restore", "HEAD", "--only", "files"]);
    let mut merged = base.clone();
    let notes = [&base.get("NOTES.md").map_or(Vec::new(), |f| f.0.clone())[..], b"by hand\n"];
    merged.insert("NOTES.md".to_owned(), (notes.concat(), false));
    let theirs = plan.replace("by hand", "by strategy 3");
    merged.insert(DISPUTED.to_owned(), (theirs.into_bytes(), false));
    let steps: String = (0..STRATEGY_TURNS).map(|turn| format!("step {turn}\n")).collect();
    merged.insert("strategies/3.md".to_owned(), (steps.into_bytes(), false));
    story.assert_is("after the merge", &merged, &story.messages);

    // A destructive turn that is noticed too late.
    fs::remove_dir_all(workspace.join("strategies")).unwrap();
    for name in base.keys().filter(|name| name.ends_with(".rs") || name.ends_with(".md")) {
        fs::remove_file(workspace.join(name)).unwrap();
    }
    let kept = story.messages.clone();
    let mut destroyed = kept.clone();
    destroyed.push("I cleaned up".to_owned());
    story.turn("main", &workspace, &destroyed, "cleaned up");
    // And a change that no snapshot has yet.
    append(&workspace.join("after.txt"), "written after the turn");
    let ruins = read(&workspace);
    story.assert_is("destroyed", &ruins, &destroyed);

    story.ok(&["rollback", "--turns", "1"]);
    story.assert_is("rolled back", &merged, &kept);
    story.ok(&["undo"]);
    story.assert_is("the rollback undone", &ruins, &destroyed);
    story.ok(&["redo"]);
    story.assert_is("rolled back again", &merged, &kept);

    // All strategies still exist, and the store is sound.
    for strategy in 0..STRATEGIES {
        assert_eq!(story.messages_at(&format!("plan-{strategy}")).len(), TURNS + STRATEGY_TURNS);
    }
    story.ok(&["fsck"]);
}
