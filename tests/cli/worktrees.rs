//! Strategies with their own directories: created together, found by agents, merged with their
//! files, removed without loss.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use turntree_tests::claude_code;
use turntree_tests::client::until;
use turntree_tests::git::{self, Git};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// A project with a store and two turns.
struct Project {
    root: tempfile::TempDir,
}

impl Project {
    fn new() -> Self {
        let project = Self { root: tempfile::tempdir().unwrap() };
        for dir in ["home", "project/src"] {
            fs::create_dir_all(project.path(dir)).unwrap();
        }
        project
    }

    /// A project in git with a store, a file in git, and a file that only the last turn has.
    fn in_git() -> Self {
        let project = Self::new();
        let git = Git::init(&project.path("project"));
        project.write("project/src/lib.rs", "one\n");
        project.write("project/.gitignore", "target\n");
        git.run(&["add", "-A"]);
        git.run(&["commit", "-q", "-m", "first"]);
        project.begin();
        project
    }

    fn begin(&self) {
        self.run("project", &["init"]);
        self.write("project/src/lib.rs", "one\ntwo\n");
        self.write("project/notes.txt", "not in git\n");
        self.run("project", &["snapshot", "-m", "begin", "--workspace", "."]);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|_| format!("no {name}"))
    }

    fn command(&self, dir: &str, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.path(dir)).env_clear();
        command.env("HOME", self.path("home")).env("PATH", std::env::var_os("PATH").unwrap());
        command.envs([("TURNTREE_NOW", "2026-11-20T12:00:00Z"), ("TURNTREE_MAINTENANCE", "off")]);
        // A busy machine must not leave a hook's work to a later process.
        command.env("TURNTREE_HOOK_PATIENCE", "100s");
        command.env("TURNTREE_ACTOR", "ann").stdin(Stdio::null());
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

    fn refused(&self, dir: &str, words: &[&str], said: &str) {
        let output = self.output(dir, words);
        let told = text(&output.stderr);
        assert!(!output.status.success() && told.contains(said), "{words:?}: {told}");
    }

    fn json(&self, dir: &str, words: &[&str]) -> Value {
        serde_json::from_str(&self.run(dir, &[&["--json"], words].concat())).unwrap()
    }

    /// The branch that commands act on by default in a directory.
    fn head(&self, dir: &str) -> String {
        let status = self.json(dir, &["status"]);
        format!("{}/{}", status["session"].as_str().unwrap(), status["branch"].as_str().unwrap())
    }

    fn branches(&self) -> Vec<String> {
        let branches = self.json("project", &["branch"]);
        let branches = branches["branches"].as_array().unwrap().iter();
        branches.map(|branch| branch["branch"].as_str().unwrap().to_owned()).collect()
    }

    /// Sends a hook an event of an agent in `dir`.
    fn event(&self, dir: &str, name: &str, transcript: &Path) {
        let session = transcript.file_stem().unwrap().to_str().unwrap();
        let event = json!({"hook_event_name": name, "session_id": session, "cwd": self.path(dir),
                           "transcript_path": transcript});
        let mut command = self.command(dir, &["hook"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(event.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
        let log = self.read("project/.turntree/hook.log");
        assert!(log.starts_with("no "), "{name}: {log}");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn each_strategy_gets_a_git_worktree_with_the_files_of_the_turn() {
    if !git::is_installed() {
        return;
    }
    let project = Project::in_git();
    let told = project.run("project", &["fork", "plan-{1,2,3}", "--worktree", "../plan-{}"]);
    assert_eq!(told.matches("in the git worktree ").count(), 3, "{told}");
    for plan in ["plan-1", "plan-2", "plan-3"] {
        assert_eq!(project.read(&format!("{plan}/src/lib.rs")), "one\ntwo\n");
        assert_eq!(project.read(&format!("{plan}/notes.txt")), "not in git\n");
        assert_eq!(project.head(plan), format!("default/{plan}"));
        let status = Git::at(&project.path(plan)).run(&["status", "--short"]);
        assert_eq!(status, " M src/lib.rs\n?? notes.txt", "no file of ours is in the way");
    }
    assert_eq!(project.head("project"), "default/main");

    // Changes there affect only its branch and its directory.
    project.write("plan-2/src/lib.rs", "changed\n");
    project.run("plan-2", &["snapshot", "-m", "changed", "--workspace", "."]);
    project.run("plan-2", &["rollback", "--turns", "1"]);
    assert_eq!(project.read("plan-2/src/lib.rs"), "one\ntwo\n");
    assert_eq!(project.read("project/src/lib.rs"), "one\ntwo\n");
    project.run("plan-2", &["undo"]);
    assert_eq!(project.read("plan-2/src/lib.rs"), "changed\n");
    project.run("project", &["fsck"]);
}

#[test]
fn without_git_a_strategy_gets_a_plain_directory() {
    let project = Project::new();
    project.begin();
    let told = project.json("project", &["fork", "alone", "--worktree", "../{}-dir"]);
    let dir = project.path("alone-dir");
    assert_eq!(told["worktree"], dir.to_str().unwrap());
    assert_eq!(project.read("alone-dir/src/lib.rs"), "one\ntwo\n");
    assert_eq!(project.head("alone-dir"), "default/alone");
    let removed = project.json("project", &["branch", "--delete", "alone", "--worktree"]);
    assert_eq!(removed["deleted"][0]["worktree"], dir.to_str().unwrap());
    assert!(!dir.exists());
}

#[test]
fn one_undo_removes_the_branches_and_says_which_directories_stay() {
    let project = Project::new();
    project.begin();
    project.run("project", &["fork", "plan-{a,b}", "--worktree", "../plan-{}"]);
    let undone = project.run("project", &["undo"]);
    for plan in ["plan-a", "plan-b"] {
        let stays = format!("{} stays unchanged", project.path(plan).display());
        assert!(undone.contains(&stays), "{undone}");
        assert_eq!(project.read(&format!("{plan}/notes.txt")), "not in git\n");
    }
    assert_eq!(project.branches(), ["main"]);
}

#[test]
fn what_would_do_harm_is_refused_before_anything_is_made() {
    let project = Project::new();
    project.begin();
    fs::create_dir(project.path("used")).unwrap();
    project.write("used/file", "");
    let before = project.run("project", &["show-ref"]);
    for (words, said) in [
        (&["fork", "a", "--worktree", "inside"][..], "is inside the workspace"),
        (&["fork", "a", "--worktree", "src/../inside"], "is inside the workspace"),
        (&["fork", "a", "--worktree", ".turntree/a"], "is inside the workspace"),
        (&["fork", "a", "--worktree", "../used"], "exists and is not empty"),
        (&["fork", "a", "--worktree", "../no/a"], "no such file or directory"),
        (&["fork", "a", "b", "--worktree", "../both"], "one directory for 2 branches"),
        (&["fork", "a", "a", "--worktree", "../{}"], "named twice"),
        (&["fork", "new", "main", "--worktree", "../{}"], "exists already"),
        (&["fork", "a", "used", "--worktree", "../{}"], "exists and is not empty"),
        (&["fork", "a", "nosuch"], "nosuch"),
        (&["fork", "a", "b", "c", "--switch"], "--switch switches to one branch"),
        (&["branch", "-d", "main", "--worktree"], "HEAD is at"),
    ] {
        project.refused("project", words, said);
    }
    assert_eq!(project.run("project", &["show-ref"]), before);
    assert!(!project.path("a").exists());
}

#[test]
fn when_a_later_one_fails_what_was_made_is_removed() {
    if !git::is_installed() {
        return;
    }
    let project = Project::in_git();
    // git refuses the directory of a locked worktree that is missing.
    project.run("project", &["fork", "old", "--worktree", "../plan-2"]);
    fs::remove_dir_all(project.path("plan-2")).unwrap();
    Git::at(&project.path("project")).run(&["worktree", "lock", "../plan-2"]);
    fs::create_dir(project.path("plan-1")).unwrap();
    let before = project.run("project", &["show-ref"]);
    let words = ["fork", "plan-1", "plan-2", "--worktree", "../plan-{}"];
    project.refused("project", &words, "missing but locked worktree");
    assert_eq!(project.run("project", &["show-ref"]), before);
    assert!(fs::read_dir(project.path("plan-1")).unwrap().next().is_none(), "as it was: empty");
    let listed = Git::at(&project.path("project")).run(&["worktree", "list", "--porcelain"]);
    assert!(!listed.contains("/plan-1"), "{listed}");
}

#[test]
fn an_agent_in_a_worktree_lands_on_its_branch() {
    let project = Project::new();
    project.begin();
    project.run("project", &["fork", "plan-{1,2}", "--worktree", "../plan-{}"]);
    for plan in ["plan-1", "plan-2"] {
        let transcript = project.path(&format!("agent-of-{plan}.jsonl"));
        let dir = project.path(plan);
        let whole = claude_code(4).replace("/project", dir.to_str().unwrap());
        let lines = |count: usize| {
            let part: Vec<&str> = whole.lines().take(count).collect();
            fs::write(&transcript, part.join("\n") + "\n").unwrap();
        };
        lines(1);
        project.event(plan, "SessionStart", &transcript);
        lines(5);
        project.write(&format!("{plan}/made.txt"), plan);
        // The agent may have entered a folder.
        project.event(&format!("{plan}/src"), "Stop", &transcript);
        // Slow work of a hook is left to a background process.
        let made = format!("{plan}:files/made.txt");
        until(|| project.output("project", &["cat", &made]).stdout == plan.as_bytes());
        assert!(project.run(plan, &["log", "-n", "1"]).contains(&format!("default/{plan}")));
    }
    assert_eq!(project.branches(), ["main", "plan-1", "plan-2"]);
    assert_eq!(project.head("project"), "default/main");
    let compared = project.json("project", &["compare", "plan-1", "plan-2"]);
    assert_eq!(compared["strategies"][0]["files_changed"], 1, "{compared}");
    // A session that has its own branches stays on them.
    let own = project.path("own.jsonl");
    fs::write(&own, claude_code(3)).unwrap();
    project.run("project", &["import", own.to_str().unwrap()]);
    fs::write(&own, claude_code(4)).unwrap();
    project.event("plan-1", "Stop", &own);
    assert!(project.branches().len() == 4, "{:?}", project.branches());
}

#[test]
fn resume_in_a_worktree_goes_on_there() {
    let project = Project::new();
    project.begin();
    let own = project.path("own.jsonl");
    let dir = project.path("project");
    fs::write(&own, claude_code(4).replace("/project", dir.to_str().unwrap())).unwrap();
    project.run("project", &["import", own.to_str().unwrap(), "--session", "own"]);
    project.run("project", &["switch", "own"]);
    project.run("project", &["fork", "plan", "--worktree", "../plan"]);
    let cwd = |words: &[&str]| {
        let planned = project.json("plan", &[&["resume", "--dry-run"], words].concat());
        planned["cwd"].as_str().unwrap().to_owned()
    };
    let (plan, project) = (project.path("plan"), dir);
    assert_eq!(cwd(&[]), plan.to_str().unwrap());
    assert_eq!(cwd(&["turn:2"]), plan.to_str().unwrap());
    assert_eq!(cwd(&["own/main"]), project.to_str().unwrap(), "another strategy");
}

#[test]
fn a_merge_with_files_brings_them_and_one_undo_takes_all_back() {
    let project = Project::new();
    project.begin();
    project.run("project", &["fork", "plan-{1,2}", "--worktree", "../plan-{}"]);
    project.write("plan-2/src/lib.rs", "one\ntwo\nthree\n");
    project.write("plan-2/src/new.rs", "new\n");
    fs::remove_file(project.path("plan-2/notes.txt")).unwrap();
    project.run("plan-2", &["snapshot", "-m", "better", "--workspace", "."]);
    // No snapshot has these changes.
    project.write("project/src/lib.rs", "zero\none\ntwo\n");
    project.write("project/mine.txt", "mine\n");

    let dry = project.run("project", &["merge", "plan-2", "--with-files", "--dry-run"]);
    assert!(dry.contains("would write 2 files") && dry.contains("notes.txt"), "{dry}");
    assert_eq!(project.read("project/src/new.rs"), "no project/src/new.rs");

    let told = project.run("project", &["merge", "plan-2", "--with-files"]);
    assert!(told.contains("wrote 2 files") && told.contains("plan-2 --worktree"), "{told}");
    assert_eq!(project.read("project/src/lib.rs"), "zero\none\ntwo\nthree\n", "both are merged");
    assert_eq!(project.read("project/src/new.rs"), "new\n");
    assert_eq!(project.read("project/notes.txt"), "no project/notes.txt");
    assert_eq!(project.read("project/mine.txt"), "mine\n", "undeleted files stay");
    assert!(project.run("project", &["diff"]).is_empty(), "nothing is unsaved");
    let again = project.run("project", &["merge", "plan-2", "--with-files"]);
    assert!(again.contains("has these files already"), "{again}");

    project.run("project", &["undo"]);
    assert_eq!(project.read("project/src/lib.rs"), "zero\none\ntwo\n");
    assert_eq!(project.read("project/notes.txt"), "not in git\n");
    assert_eq!(project.read("project/src/new.rs"), "no project/src/new.rs");
    let log = project.run("project", &["log", "main", "--oneline"]);
    assert_eq!(log.lines().count(), 1, "{log}");
    project.run("project", &["redo"]);
    assert_eq!(project.read("project/src/lib.rs"), "zero\none\ntwo\nthree\n");
    project.run("project", &["fsck"]);
}

#[test]
fn a_plain_merge_says_that_the_workspace_is_as_before_and_how_to_bring_it_up() {
    let project = Project::new();
    project.begin();
    project.run("project", &["fork", "plan", "--worktree", "../plan"]);
    project.write("plan/src/lib.rs", "better\n");
    project.run("plan", &["snapshot", "-m", "better", "--workspace", "."]);
    let told = project.run("project", &["merge", "plan"]);
    let stale = format!("{} is unchanged", project.path("project").display());
    assert!(told.contains(&stale), "{told}");
    // The branch now has snapshots of the other directory, but does not adopt that directory.
    assert_eq!(
        project.json("project", &["rollback", "0", "--dry-run"])["workspace"]["dir"],
        project.path("project").to_str().unwrap()
    );
    project.run("project", &["merge", "default/plan", "--into", "default/main", "--with-files"]);
    assert_eq!(project.read("project/src/lib.rs"), "better\n");
    project.run("project", &["undo"]);
    assert_eq!(project.read("project/src/lib.rs"), "one\ntwo\n");

    // Unsaved changes cannot be distinguished from missing files.
    project.write("project/notes.txt", "edited\n");
    let words = ["merge", "plan", "--with-files"];
    project.refused("project", &words, "has changes that are in no snapshot, and lacks files");
    assert_eq!(project.read("project/notes.txt"), "edited\n");
}

#[test]
fn conflicts_come_into_the_files_and_are_left_to_decide() {
    let project = Project::new();
    project.begin();
    project.run("project", &["fork", "plan", "--worktree", "../plan"]);
    project.write("plan/src/lib.rs", "theirs\n");
    project.run("plan", &["snapshot", "-m", "theirs", "--workspace", "."]);
    project.write("project/src/lib.rs", "ours\n");
    let output = project.output("project", &["merge", "plan", "--with-files"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("turntree resolve"));
    let merged = project.read("project/src/lib.rs");
    assert!(merged.contains("ours\n") && merged.contains("theirs\n"), "{merged}");
}

#[test]
fn a_worktree_goes_only_when_nothing_in_it_is_lost() {
    if !git::is_installed() {
        return;
    }
    let project = Project::in_git();
    project.run("project", &["fork", "plan", "--worktree", "../plan"]);
    let words = ["branch", "--delete", "plan", "--worktree"];
    project.write("plan/unsaved.txt", "unsaved\n");
    project.refused("project", &words, "has 1 file that the newest snapshot does not have");
    project.run("plan", &["snapshot", "-m", "saved", "--workspace", "."]);
    let git = Git::at(&project.path("plan"));
    git.run(&["commit", "-q", "--allow-empty", "-m", "on no branch"]);
    project.refused("project", &words, "which no branch of git has");
    git.run(&["branch", "kept"]);
    project.refused("plan", &words, "is at default/plan");
    fs::create_dir(project.path("plan/target")).unwrap();
    let told = project.run("project", &words);
    assert!(told.contains("removed "), "{told}");
    assert!(!project.path("plan").exists());
    let listed = Git::at(&project.path("project")).run(&["worktree", "list"]);
    assert_eq!(listed.lines().count(), 1, "{listed}");
    project.run("project", &["undo"]);
    assert_eq!(project.run("project", &["cat", "plan:files/unsaved.txt"]), "unsaved\n");
    project.refused("project", &["branch", "--delete", "plan", "--worktree", "main"], "main");
}

#[test]
fn hooks_of_the_project_are_those_of_its_worktrees() {
    let project = Project::new();
    project.begin();
    project.run("project", &["hook", "install", "claude-code"]);
    let installed = project.read("project/.claude/settings.local.json");
    project.run("project", &["fork", "plan", "--worktree", "../plan"]);
    assert_eq!(project.read("plan/.claude/settings.local.json"), installed);
}

/// An adopted session names one file of its project, an ignored one, and one outside of it. None of
/// the files that its worktree brings or lacks is work of the branch.
#[test]
fn the_worktree_of_an_adopted_session_begins_with_no_change() {
    if !git::is_installed() {
        return;
    }
    let project = Project::new();
    let git = Git::init(&project.path("project"));
    for (name, text) in [("a.txt", "a\n"), ("b.txt", "b\n"), (".gitignore", "*.log\n")] {
        project.write(&format!("project/{name}"), text);
    }
    git.run(&["add", "-A"]);
    git.run(&["commit", "-q", "-m", "first"]);
    let dir = project.path("project");
    let outside = project.path("plan.md");
    let written = ["a.txt", "build.log"].map(|name| dir.join(name));
    let mut records = vec![json!({"role": "user", "content": "begin"})];
    for path in written.iter().chain([&outside]) {
        records.push(json!({"role": "assistant", "content": [{"type": "tool_use", "id": path,
            "name": "Write", "input": {"file_path": path, "content": "a\n"}}]}));
        records.push(json!({"role": "user", "content": [{"type": "tool_result",
            "tool_use_id": path, "content": "ok"}]}));
    }
    let mut lines = String::new();
    for (at, message) in records.iter().enumerate() {
        let parent = at.checked_sub(1).map(|before| format!("u{before}"));
        let path = &message["content"][0]["tool_use_id"];
        let result = json!({"type": "create", "filePath": path, "content": "a\n"});
        let record = json!({"type": message["role"], "message": message, "sessionId": "s-1",
            "uuid": format!("u{at}"), "parentUuid": parent, "cwd": dir,
            "timestamp": format!("2026-11-19T00:00:{at:02}Z"),
            "toolUseResult": if path.is_null() { Value::Null } else { result }});
        lines.push_str(&format!("{record}\n"));
    }
    let folder = project.path("home/.claude/projects/p");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("s-1.jsonl"), lines).unwrap();
    project.run("project", &["adopt"]);
    assert!(
        project.json("project", &["ls", "HEAD:files"])["entries"].as_array().unwrap().len() > 2
    );

    project.run("project", &["fork", "try", "--worktree", "../try"]);
    let work = |dir: &str| {
        let compared = project.json(dir, &["compare"]);
        let strategies = compared["strategies"].as_array().unwrap().iter();
        let tried = strategies.into_iter().find(|it| it["name"] == "try").unwrap().clone();
        ["files_changed", "lines_added", "lines_removed"].map(|key| tried[key].as_u64().unwrap())
    };
    assert_eq!(work("project"), [0, 0, 0]);
    assert_eq!(project.json("try", &["status"])["changed"], Value::Null);

    // A file that the session named, one that the worktree brought, a new one, a deleted one.
    project.write("try/a.txt", "a\nmore\n");
    project.write("try/b.txt", "changed\n");
    project.write("try/c.txt", "new\n");
    fs::remove_file(project.path("try/.gitignore")).unwrap();
    project.run("try", &["snapshot", "-m", "work", "--workspace", "."]);
    assert_eq!(work("try"), [4, 3, 2]);
    project.write("try/a.txt", "a\n");
    project.run("try", &["snapshot", "-m", "back", "--workspace", "."]);
    assert_eq!(work("try"), [3, 2, 2]);
    fs::remove_file(project.path("try/a.txt")).unwrap();
    project.run("try", &["snapshot", "-m", "removed", "--workspace", "."]);
    assert_eq!(work("try"), [4, 2, 3]);
}
