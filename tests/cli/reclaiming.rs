//! `adopt --reclaim`: deletes originals that the store has byte for byte, and restores them.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use turntree_tests::claude_code;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(machine.path(".claude/projects/-p")).unwrap();
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn transcript(&self, session: &str) -> PathBuf {
        self.path(&format!(".claude/projects/-p/{session}.jsonl"))
    }

    /// Adds text to a transcript, and sets its age.
    fn write(&self, session: &str, text: &str, days: u32) {
        let mut file = File::options().create(true).append(true).open(self.transcript(session));
        let file = file.as_mut().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let age = Duration::from_secs(24 * 60 * 60) * days;
        file.set_modified(SystemTime::now() - age).unwrap();
    }

    fn output(&self, words: &[&str]) -> Output {
        self.set_up(Command::new(PROGRAM).args(words)).output().unwrap()
    }

    fn set_up<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.current_dir(self.path("")).stdin(Stdio::null()).env_clear();
        command.env("HOME", self.path("")).env("TURNTREE_ACTOR", "ann");
        command.env("TURNTREE_MAINTENANCE", "off").env("CLAUDE_CODE_SESSION_ID", "live")
    }

    /// Returns whether the transcript of a session exists unchanged, possibly under its temporary
    /// name during a removal or a restore.
    fn has(&self, session: &str, text: &str) -> bool {
        let listed = fs::read_dir(self.path(".claude/projects/-p")).unwrap();
        let mut paths = listed.map(|entry| entry.unwrap().path()).filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with(".turntree-reclaim-") || *path == self.transcript(session)
        });
        let is_there = paths.any(|path| fs::read_to_string(path).unwrap() == text);
        is_there || {
            let export = self.output(&["export", session, "--format", "source"]);
            export.status.success() && export.stdout == text.as_bytes()
        }
    }

    fn run(&self, words: &[&str]) -> String {
        let output = self.output(words);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn originals_go_when_that_is_said_and_come_back_from_the_store() {
    let machine = Machine::new();
    let text = claude_code(9);
    let grown = claude_code(12);
    for session in ["done", "live", "fresh", "grows"] {
        machine.write(session, &text, if session == "fresh" { 6 } else { 8 });
    }
    machine.run(&["adopt"]);
    machine.write("grows", grown.strip_prefix(&text).unwrap(), 8);
    machine.write("unknown", &text, 8);

    let plan = machine.run(&["adopt", "--reclaim"]);
    for said in [
        "would remove the originals of 1 session, 7.7 KiB: the store has each byte\n",
        "nothing was done: --yes removes them, and no undo restores them",
        "1 session stays: an agent is in the session\n",
        "1 session stays: written to within the last 7d\n",
        "1 session stays: not in the store\n",
        "1 session stays: not byte for byte in the store\n",
    ] {
        assert!(plan.contains(said), "{plan}");
    }
    assert_eq!(machine.run(&["adopt", "--reclaim", "--dry-run"]), plan);
    let planned: Value =
        serde_json::from_str(&machine.run(&["adopt", "--reclaim", "--json"])).unwrap();
    assert_eq!(planned["dry_run"], true);
    assert_eq!(planned["originals"][0]["session"], "done");
    assert_eq!(planned["kept"].as_array().unwrap().len(), 4);
    assert!(machine.transcript("done").exists());

    let done = machine.run(&["adopt", "--reclaim", "--yes"]);
    assert!(done.contains("removed the originals of 1 session, 7.7 KiB"), "{done}");
    assert!(!machine.transcript("done").exists());
    for session in ["live", "fresh", "grows", "unknown"] {
        assert!(machine.transcript(session).exists(), "{session}");
    }
    assert!(machine.run(&["adopt", "--reclaim"]).contains("no original can go"));
    // Adopting the grown transcript allows its removal.
    machine.run(&["adopt"]);
    let second = machine.run(&["adopt", "--reclaim", "--older-than", "2h", "--yes"]);
    assert!(second.contains("removed the originals of 3 sessions"), "{second}");

    assert_eq!(machine.run(&["export", "done", "--format", "source"]), text);
    assert_eq!(machine.run(&["export", "grows", "--format", "source"]), grown);
    machine.run(&["resume", "done", "--cwd", "."]);
    assert!(machine.run(&["adopt"]).contains("nothing is new"));
    machine.run(&["fsck"]);
}

#[test]
fn what_would_be_a_mistake_is_refused() {
    let machine = Machine::new();
    machine.write("done", &claude_code(9), 8);
    assert_eq!(machine.output(&["adopt", "--reclaim", "--yes"]).status.code(), Some(6), "no store");
    machine.run(&["adopt"]);
    for words in [
        &["adopt", "--reclaim", "--older-than", "59m", "--yes"][..],
        &["adopt", "--reclaim", "--yes", "--dry-run"],
        &["adopt", "--reclaim", "--watch"],
        &["adopt", "--reclaim=each", "--again", "--yes"],
        &["adopt", "--reclaim=each", "--older-than", "59m", "--yes"],
        &["adopt", "--reclaim=each", "--yes", "--dry-run"],
        &["adopt", "--yes"],
        &["adopt", "--older-than", "9d"],
    ] {
        assert_eq!(machine.output(words).status.code(), Some(2), "{words:?}");
    }
    assert!(machine.transcript("done").exists());
}

#[test]
fn originals_go_as_they_are_imported() {
    let machine = Machine::new();
    let text = claude_code(9);
    for session in ["done", "gone", "live", "fresh"] {
        machine.write(session, &text, if session == "fresh" { 6 } else { 8 });
    }
    let plan = machine.run(&["adopt", "--reclaim=each"]);
    for said in [
        "would remove the originals of 2 sessions, 15.4 KiB: each after the store returned all of its bytes\n",
        "1 session stays: an agent is in the session\n",
        "1 session stays: written to within the last 7d\n",
        "nothing was done: --yes imports the sessions and removes these files, and no undo",
    ] {
        assert!(plan.contains(said), "{plan}");
    }
    assert!(!machine.path(".local/share/turntree/store").exists());
    let planned = machine.run(&["adopt", "--reclaim=each", "--json"]);
    let planned: Value = serde_json::from_str(&planned).unwrap();
    assert_eq!(planned["dry_run"], true);
    assert_eq!(planned["reclaimed"]["originals"][1]["session"], "gone");
    assert_eq!(planned["reclaimed"]["originals"][1]["branch"], Value::Null);

    let done = machine.run(&["adopt", "--reclaim=each", "--yes"]);
    for said in [
        "removed the originals of 2 sessions, 15.4 KiB; 'turntree resume SESSION'",
        "1 session stays: an agent is in the session\n",
        "1 session stays: written to within the last 7d\n",
        "the store has their only copy, which an undo of the import removes; it takes",
    ] {
        assert!(done.contains(said), "{done}");
    }
    assert!(!done.contains("undoes the import"), "{done}");
    for session in ["done", "gone", "live", "fresh"] {
        let stays = matches!(session, "live" | "fresh");
        assert_eq!(machine.transcript(session).exists(), stays, "{session}");
        assert_eq!(machine.run(&["export", session, "--format", "source"]), text);
    }
    // Also removes originals adopted by an earlier run. Removed files are not mentioned again.
    let again = machine.run(&["adopt", "--reclaim=each", "--yes", "--older-than", "2h", "--json"]);
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["reclaimed"]["originals"][0]["session"], "fresh");
    assert_eq!(again["reclaimed"]["originals"][0]["branch"], "main");
    assert_eq!(again["reclaimed"]["kept"].as_array().unwrap().len(), 1);
    machine.run(&["fsck"]);
}

#[test]
fn shrink_frees_the_disk_and_gives_every_session_back() {
    let machine = Machine::new();
    let text = |session: &str| claude_code(9).replace("parser", session);
    for session in ["done", "gone", "fresh"] {
        machine.write(session, &text(session), if session == "fresh" { 6 } else { 8 });
    }
    let plan = machine.run(&["shrink"]);
    assert!(plan.contains("would remove the originals of 2 sessions"), "{plan}");
    assert!(!machine.path(".local/share/turntree/store").exists());
    assert!(machine.transcript("done").exists());

    let done = machine.run(&["shrink", "--yes"]);
    assert!(done.contains("removed the originals of 2 sessions"), "{done}");
    assert!(done.contains("freed the 15.4 KiB of 2 sessions; the store takes"), "{done}");
    for session in ["done", "gone", "fresh"] {
        assert_eq!(machine.transcript(session).exists(), session == "fresh", "{session}");
        assert_eq!(machine.run(&["export", session, "--format", "source"]), text(session));
    }
    machine.run(&["fsck"]);
    // With nothing to remove the store stays as it is.
    let again = machine.run(&["shrink", "--yes"]);
    assert!(again.contains("no original can go") && !again.contains("freed"), "{again}");

    let named = machine.transcript("fresh").display().to_string();
    let records = machine.run(&["shrink", &named, "--yes", "--older-than", "2h", "--json"]);
    let records: Vec<Value> =
        records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records[0]["reclaimed"]["originals"][0]["session"], "fresh");
    assert_eq!(records.len(), 2, "the import, and the collection");
    for words in [["shrink", "--older-than", "59m"], ["shrink", "--yes", "no-such-file"]] {
        assert_ne!(machine.output(&words).status.code(), Some(0), "{words:?}");
    }
}

/// Kills the program in each call that changes something, as `strace` counts them, and checks that
/// nothing is lost.
#[test]
fn one_that_is_killed_anywhere_while_originals_go_loses_none() {
    let has_strace = Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_ok();
    let calls: &[&str] = match has_strace {
        true => &["renameat2", "unlinkat", "fsync", "fdatasync", "linkat", "pwrite64"],
        false => &["a moment"],
    };
    let (mut killed, mut halfway) = (0, 0);
    for call in calls {
        for number in 1..200_u64 {
            let machine = Machine::new();
            let text = |session: &str| claude_code(4).replace("parser", session);
            let sessions = ["a", "b", "c"];
            sessions.iter().for_each(|session| machine.write(session, &text(session), 8));
            let words = ["shrink", "--yes"];
            let mut command = Command::new(if has_strace { "strace" } else { PROGRAM });
            if has_strace {
                let inject = format!("inject={call}:signal=SIGKILL:when={number}");
                let trace = format!("trace={call}");
                command.args([
                    "-f",
                    "-qq",
                    "-o",
                    "/dev/null",
                    "-e",
                    &trace,
                    "-e",
                    &inject,
                    PROGRAM,
                ]);
            }
            let mut child =
                machine.set_up(command.args(words)).stdout(Stdio::null()).spawn().unwrap();
            if !has_strace {
                std::thread::sleep(Duration::from_millis(number));
                let _ = child.kill();
            }
            let is_done = child.wait().unwrap().success();
            let left = sessions.iter().filter(|session| machine.transcript(session).exists());
            let left = left.count();
            for session in sessions {
                assert!(machine.has(session, &text(session)), "{call} {number}: {session} is lost");
            }
            killed += u64::from(!is_done);
            halfway += u64::from(matches!(left, 1 | 2));
            // The next run continues.
            machine.run(&words);
            for session in sessions {
                assert!(machine.has(session, &text(session)), "{call} {number}: {session} is lost");
            }
            if is_done {
                break;
            }
        }
    }
    assert!(killed > 20 || !has_strace, "{killed} were killed");
    assert!(halfway > 2 || !has_strace, "{halfway} were killed between two files");
}
