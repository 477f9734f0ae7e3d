//! Maintenance that nobody asked for: what commands do after they have committed.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use turntree_tests::claude_code;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// How long something may take that happens at once on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Messages of a session that is worth packing.
const MANY: usize = 4000;

struct Workshop {
    folder: tempfile::TempDir,
}

impl Workshop {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workshop = Self { folder };
        fs::write(workshop.path("state.json"), r#"{"scratchpad": {"a": {"content": "b"}}}"#)
            .unwrap();
        workshop
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).current_dir(self.folder.path()).env_remove("TURNTREE_MAINTENANCE");
        command
            .env("TURNTREE_STORE", self.path("store"))
            .env("TURNTREE_NOW", "2026-11-20T12:00:00Z");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Puts a session into the store, and starts nothing.
    fn import(&self, messages: usize) {
        fs::write(self.path("long.jsonl"), claude_code(messages)).unwrap();
        let import = ["import", "long.jsonl", "--no-maintenance", "--session", "long"];
        assert!(self.command(&import).status().unwrap().success());
    }

    /// Puts so much into the journal that it is worth packing, and starts nothing.
    fn fill(&self, session: &str) {
        fs::write(self.path("long.jsonl"), claude_code(MANY)).unwrap();
        let import = ["import", "long.jsonl", "--no-maintenance", "--session", session];
        assert!(self.command(&import).status().unwrap().success());
        assert_eq!(self.packs(), Vec::<String>::new());
    }

    fn snapshot(&self) -> Command {
        self.command(&["snapshot", "-m", "turn", "--state", "state.json"])
    }

    fn packs(&self) -> Vec<String> {
        names(&self.path("store/packs"))
            .into_iter()
            .filter(|name| name.ends_with(".pack"))
            .collect()
    }

    /// Waits until something is true of the files.
    fn wait_for(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < PATIENCE, "{what} did not happen");
            std::thread::yield_now();
        }
    }

    /// Whether no collection goes on: its lock can be had.
    fn is_quiet(&self) -> bool {
        let file = fs::File::open(self.path("store/collector"));
        file.is_ok_and(|file| file.try_lock().is_ok())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("store/maintenance.log")).unwrap_or_default()
    }

    /// What was imported, written out again.
    fn export(&self, session: &str) -> Vec<u8> {
        let export = ["export", session, "--format", "source", "-o", "out.jsonl", "--force"];
        assert!(self.command(&export).status().unwrap().success());
        fs::read(self.path("out.jsonl")).unwrap()
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn ended(children: impl IntoIterator<Item = Child>) {
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn the_journal_is_packed_without_anybody_asking() {
    let workshop = Workshop::new();
    workshop.fill("long");
    assert!(workshop.snapshot().status().unwrap().success());
    workshop.wait_for("a pack", |workshop| workshop.packs().len() == 1);
    workshop.wait_for("an end", Workshop::is_quiet);
    assert_eq!(workshop.export("long"), claude_code(MANY).as_bytes());
    assert_eq!(workshop.log(), "");
}

#[test]
fn maintenance_can_be_turned_off() {
    let workshop = Workshop::new();
    workshop.fill("long");
    let off = workshop.snapshot().env("TURNTREE_MAINTENANCE", "off").status();
    assert!(off.unwrap().success());
    assert!(workshop.snapshot().arg("--no-maintenance").status().unwrap().success());
    // Whoever starts one makes this file.
    assert!(!workshop.path("store/collector").exists());
}

#[test]
fn one_that_is_not_due_does_nothing() {
    let workshop = Workshop::new();
    assert!(workshop.snapshot().status().unwrap().success());
    assert!(workshop.command(&["gc", "--auto"]).status().unwrap().success());
    assert!(!workshop.path("store/collector").exists());
    assert_eq!(workshop.packs(), Vec::<String>::new());
}

#[test]
fn snapshots_go_on_while_maintenance_goes_on_and_two_at_once_do_not_collide() {
    let workshop = Workshop::new();
    workshop.fill("long");
    let start = || workshop.command(&["gc", "--auto"]).spawn().unwrap();
    let maintenance = [start(), start()];
    for _ in 0..5 {
        assert!(workshop.snapshot().status().unwrap().success());
    }
    ended(maintenance);
    // What a snapshot was written to just then is left for the one after it.
    workshop.wait_for("a pack", |workshop| {
        assert!(workshop.snapshot().status().unwrap().success());
        workshop.packs().len() == 1
    });
    workshop.wait_for("an end", Workshop::is_quiet);
    assert_eq!(workshop.export("long"), claude_code(MANY).as_bytes());
    let log = workshop.command(&["log", "--json"]).stdout(Stdio::piped()).output().unwrap();
    assert!(String::from_utf8(log.stdout).unwrap().lines().count() > 5);
    assert_eq!(workshop.log(), "");
}

#[test]
fn what_a_killed_one_began_the_next_one_finishes() {
    let workshop = Workshop::new();
    workshop.fill("long");
    let mut killed = workshop.command(&["gc", "--auto"]).spawn().unwrap();
    workshop.wait_for("a beginning", |workshop| workshop.path("store/collector").exists());
    killed.kill().unwrap();
    killed.wait().unwrap();
    ended([workshop.command(&["gc", "--auto"]).spawn().unwrap()]);
    assert_eq!(workshop.packs().len(), 1);
    let leftovers = names(&workshop.path("store/packs"));
    assert_eq!(leftovers.len(), 1, "{leftovers:?}");
    assert_eq!(workshop.export("long"), claude_code(MANY).as_bytes());
}

#[test]
fn what_goes_wrong_is_written_down_where_it_takes_little_room() {
    let workshop = Workshop::new();
    workshop.fill("long");
    // Nobody can put a pack where a file is.
    fs::remove_dir(workshop.path("store/packs")).unwrap();
    fs::write(workshop.path("store/packs"), "").unwrap();
    fs::write(workshop.path("store/maintenance.log"), "an older line\n".repeat(5000)).unwrap();
    assert!(workshop.command(&["gc", "--auto"]).status().unwrap().success());
    let log = workshop.log();
    assert!(log.len() <= 64 << 10 && log.starts_with("an older line\n"), "{}", log.len());
    let last = log.lines().last().unwrap();
    assert!(last.starts_with("2026-11-20T12:00:00Z ") && last.contains("packs"), "{last}");
}

#[test]
fn what_looks_needs_no_lock_and_the_impatient_are_told() {
    let workshop = Workshop::new();
    workshop.import(40);
    let collector = fs::File::create(workshop.path("store/collector")).unwrap();
    collector.lock().unwrap();
    for command in [
        &["gc", "--no-wait"][..],
        &["repack", "--no-wait"],
        &["repair", "--no-wait"],
        &["redact", "parser", "--yes", "--no-wait"],
    ] {
        assert_eq!(workshop.command(command).status().unwrap().code(), Some(5), "{command:?}");
    }
    for command in [&["gc", "--auto"][..], &["gc", "--dry-run"], &["repack", "-n"], &["stats"]] {
        assert!(workshop.command(command).status().unwrap().success(), "{command:?}");
    }
    assert!(workshop.snapshot().status().unwrap().success());
}

#[test]
fn maintenance_that_was_asked_for_waits_for_the_one_in_the_background() {
    let workshop = Workshop::new();
    workshop.import(40);
    for command in [
        &["repack"][..],
        &["gc"],
        &["repair"],
        &["redact", "parser", "--yes"],
        &["redact", "lexer", "--dry-run"],
    ] {
        let collector = fs::File::create(workshop.path("store/collector")).unwrap();
        collector.lock().unwrap();
        let mut child = workshop.command(command).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.starts_with("waiting for the maintenance that goes on"), "{line}");
        assert!(child.try_wait().unwrap().is_none(), "{command:?} waits");
        drop(collector);
        let code = child.wait().unwrap().code();
        assert!(matches!(code, Some(0 | 1)), "{command:?}: {code:?}");
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        assert!(!rest.contains("waiting"), "{rest}");
    }
}

#[test]
fn who_waits_can_be_stopped() {
    let workshop = Workshop::new();
    workshop.import(40);
    let collector = fs::File::create(workshop.path("store/collector")).unwrap();
    collector.lock().unwrap();
    let mut child = workshop.command(&["gc"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert!(!child.wait().unwrap().success());
}
