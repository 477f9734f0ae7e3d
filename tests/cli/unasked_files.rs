//! Files that are opened automatically: other file types in their place are ignored, and no command
//! blocks on them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// The time limit. A command that blocks on a pipe would never end; the rest is for busy machines.
const MOST: Duration = Duration::from_secs(30);

struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(desk.path("home/p")).unwrap();
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs a command in the project, and returns its exit status. Fails if it does not end.
    fn run(&self, words: &[&str]) -> ExitStatus {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.path("home/p"));
        command.env_clear().env("HOME", self.path("home")).env("TURNTREE_ACTOR", "ann");
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("TURNTREE_MAINTENANCE", "off");
        command.envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null")]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let event = json!({"hook_event_name": "Stop", "session_id": "s-1",
            "transcript_path": self.path("s-1.jsonl"), "cwd": self.path("home/p")});
        // A command that reads no input closes its end.
        let _ = child.stdin.take().unwrap().write_all(event.to_string().as_bytes());
        let began = Instant::now();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            if began.elapsed() > MOST {
                let _ = child.kill();
                panic!("{words:?} waits");
            }
            sleep(Duration::from_millis(2));
        }
    }

    fn ok(&self, words: &[&str]) {
        let status = self.run(words);
        assert!(status.success(), "{words:?}: {status}");
    }

    /// Puts a pipe, or a link to a pipe, at a path, and runs the commands.
    fn with_pipe(&self, place: &Path, verbs: &[&[&str]]) {
        let kept = fs::read(place).ok();
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        // Renamed into place: a background process of a hook may write there at any moment.
        let pipe = self.path("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        fs::rename(pipe, place).unwrap();
        for words in verbs {
            self.run(words);
        }
        // A file that the commands wrote there is discarded.
        let _ = fs::remove_file(place);
        if let Some(kept) = kept {
            fs::write(place, kept).unwrap();
        }
    }
}

const TURN: &[&str] = &["snapshot", "-m", "x", "--append-message", "user=word"];

#[test]
fn a_pipe_in_a_project_stops_no_command() {
    let desk = Desk::new();
    desk.ok(TURN);
    desk.write("home/p/a", "1");
    let verbs: &[&[&str]] = &[
        &["status"],
        &["hook"],
        &["show", "abcdef1"],
        &["snapshot", "-m", "x", "--workspace", "."],
    ];
    desk.write("home/p/.git/objects/x", "");
    desk.write("home/p/.git/refs/heads/x", "");
    desk.write("home/p/.git/HEAD", "ref: refs/heads/main\n");
    let of_git = ["HEAD", "config", "index", "commondir", "refs/heads/main", "info/exclude"];
    for name in of_git {
        desk.with_pipe(&desk.path("home/p/.git").join(name), verbs);
    }
    for name in [".gitignore", ".worktreeinclude", "a"] {
        desk.with_pipe(&desk.path("home/p").join(name), verbs);
    }
    desk.with_pipe(
        &desk.path("home/p/.worktreeinclude"),
        &[&["fork", "plan", "--worktree", "../w"]],
    );
    fs::remove_dir_all(desk.path("home/p/.git")).unwrap();
    desk.with_pipe(&desk.path("home/p/.git"), verbs);
    let claude = desk.path("home/p/.claude/settings.local.json");
    desk.with_pipe(&claude, &[&["hook", "check"], &["hook", "install", "claude-code"]]);
    desk.with_pipe(&desk.path("s-1.jsonl"), &[&["hook"]]);
    desk.with_pipe(&desk.path("home/p/.turntree/elsewhere"), &[&["status"], &["hook"], TURN]);
    // A link to a device that never ends.
    symlink("/dev/zero", desk.path("home/p/.turntree/elsewhere")).unwrap();
    for words in [&["status"][..], &["hook"], TURN] {
        desk.run(words);
    }
}

#[test]
fn a_pipe_in_the_home_directory_stops_no_command() {
    let desk = Desk::new();
    let line = json!({"type": "user", "uuid": "1", "parentUuid": null, "sessionId": "q",
        "timestamp": "2026-01-01T00:00:00Z", "message": {"role": "user", "content": "hi"}});
    desk.write("home/.claude/projects/-x/q.jsonl", &format!("{line}\n"));
    desk.write("home/.local/share/opencode/opencode.db", "SQLite format 3\0");
    desk.write("home/.gemini/tmp/x/chats/session-1.json", "{}");
    desk.write("home/.openhands/conversations/x/events/1.json", "{}");
    desk.write("home/.cline/data/tasks/1/x.messages.json", "{}");
    let places = [
        ".claude/settings.json",
        ".claude/projects/-x/pipe.jsonl",
        ".codex/sessions/2026/01/01/rollout-x.jsonl",
        ".codex/hooks.json",
        ".gemini/settings.json",
        ".gemini/projects.json",
        ".gemini/tmp/x/.project_root",
        ".openhands/conversations/x/base_state.json",
        ".local/share/opencode/opencode.db-wal",
        ".local/share/opencode/opencode.db-journal",
        ".local/share/opencode/opencode.db",
        ".local/share/opencode/storage/session/p/s.json",
        ".config/systemd/user/turntree-adopt.service",
    ];
    for name in places {
        let verbs: &[&[&str]] = &[
            &["adopt", "--dry-run"],
            &["hook", "check"],
            &["hook", "install", "claude-code", "--user"],
        ];
        desk.with_pipe(&desk.path("home").join(name), verbs);
    }
    desk.run(&["adopt"]);
}

#[test]
fn a_pipe_in_a_store_stops_no_command() {
    let desk = Desk::new();
    desk.ok(&["init"]);
    desk.write("home/p/a", "1");
    desk.ok(&["snapshot", "-m", "x", "--workspace", "."]);
    desk.ok(TURN);
    desk.ok(&["hook"]);
    desk.ok(&["search", "word"]);
    let mut files =
        vec![desk.path("home/p/.turntree/push.lock"), desk.path("home/p/.turntree/hook.log")];
    let mut folders =
        vec![desk.path("home/p/.turntree"), desk.path("home/.local/share/turntree/trust")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let is_folder = entry.file_type().unwrap().is_dir();
            if is_folder { folders.push(entry.path()) } else { files.push(entry.path()) }
        }
    }
    assert!(files.len() > 6, "{files:?}");
    for file in files {
        let verbs: &[&[&str]] = &[
            &["status"],
            &["search", "word"],
            &["hook"],
            &["hook", "log"],
            &["gc", "--auto", "--push"],
            TURN,
        ];
        desk.with_pipe(&file, verbs);
    }
}
