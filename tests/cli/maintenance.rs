//! Automatic maintenance: the background work after commands that commit.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use turntree_tests::claude_code;
use turntree_tests::sim::Random;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// The timeout of an action that takes no time on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The messages of a session large enough to be packed.
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

    /// Imports a session without starting maintenance.
    fn import(&self, messages: usize) {
        fs::write(self.path("long.jsonl"), claude_code(messages)).unwrap();
        let import = ["import", "long.jsonl", "--no-maintenance", "--session", "long"];
        assert!(self.command(&import).status().unwrap().success());
    }

    /// Fills the journal with enough to be packed, without starting maintenance.
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

    /// Waits until a condition holds.
    fn wait_for(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < PATIENCE, "{what} did not happen");
            std::thread::yield_now();
        }
    }

    /// True if no collection runs: its lock is free.
    fn is_quiet(&self) -> bool {
        let file = fs::File::open(self.path("store/collector"));
        file.is_ok_and(|file| file.try_lock().is_ok())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("store/maintenance.log")).unwrap_or_default()
    }

    /// The maintenance part of `status`.
    fn status(&self) -> serde_json::Value {
        let status: serde_json::Value =
            serde_json::from_str(&self.output(&["status", "--json"])).unwrap();
        status["maintenance"].clone()
    }

    fn output(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).stdout(Stdio::piped()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The number of maintenance processes of the store.
    fn at_work(&self) -> usize {
        let store = self.path("store").canonicalize().unwrap();
        let command = |id: u32| fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let looks_after = |id: u32| {
            let command = String::from_utf8_lossy(&command(id)).into_owned();
            command.contains("--auto") && command.contains(&*store.to_string_lossy())
        };
        all_processes().iter().filter(|(id, ..)| looks_after(*id)).count()
    }

    /// Bytes of all files of the store.
    fn bytes(&self) -> u64 {
        let folders = ["store", "store/journal", "store/packs", "store/derived"];
        let files = folders.iter().flat_map(|folder| {
            let folder = self.path(folder);
            names(&folder).into_iter().map(move |name| folder.join(name))
        });
        let sizes = files.filter_map(|file| fs::metadata(file).ok().filter(fs::Metadata::is_file));
        sizes.map(|file| file.len()).sum()
    }

    /// Exports an imported transcript.
    fn export(&self, session: &str) -> Vec<u8> {
        let export = ["export", session, "--format", "source", "-o", "out.jsonl", "--force"];
        assert!(self.command(&export).status().unwrap().success());
        fs::read(self.path("out.jsonl")).unwrap()
    }
}

/// The bytes of a store besides packs and journal, including the reserve, and the preallocated
/// bytes of a command.
const SPARE_BYTES: u64 = 1 << 20;

/// Each process with its parent and its state.
fn all_processes() -> Vec<(u32, u32, char)> {
    let parsed = |id: u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.chars().next()?;
        Some((id, fields.next()?.parse().ok()?, state))
    };
    names(Path::new("/proc")).iter().filter_map(|name| parsed(name.parse().ok()?)).collect()
}

/// The number of children of a process that have ended and were not reaped.
fn zombies(parent: u32) -> usize {
    let is_zombie = |(_, of, state): &&(u32, u32, char)| (*of, *state) == (parent, 'Z');
    all_processes().iter().filter(is_zombie).count()
}

/// The children of a process, including zombies.
fn children(parent: u32) -> Vec<u32> {
    let all = all_processes().into_iter();
    all.filter(|(_, of, _)| *of == parent).map(|(id, ..)| id).collect()
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
    // Maintenance would create this file.
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
    // The segment that a snapshot is writing to is left for the next step.
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
    // No pack can be written if `packs` is a file.
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
fn while_another_process_collects_none_is_started_and_one_that_is_ends_at_once() {
    let workshop = Workshop::new();
    workshop.fill("long");
    let collector = fs::File::create(workshop.path("store/collector")).unwrap();
    collector.lock().unwrap();
    for _ in 0..3 {
        assert!(workshop.snapshot().status().unwrap().success());
    }
    assert!(workshop.command(&["gc", "--auto"]).status().unwrap().success());
    // A started process creates the first file, and an attempted step the second.
    for name in ["maintenance.lock", "maintenance.last"] {
        assert!(!workshop.path("store").join(name).exists(), "{name}");
    }
    assert_eq!(workshop.packs(), Vec::<String>::new());
    drop(collector);
    assert!(workshop.snapshot().status().unwrap().success());
    workshop.wait_for("a pack", |workshop| workshop.packs().len() == 1);
}

#[test]
fn while_a_process_looks_after_the_store_no_other_one_is_started() {
    let workshop = Workshop::new();
    workshop.fill("long");
    let lock = fs::File::create(workshop.path("store/maintenance.lock")).unwrap();
    lock.lock().unwrap();
    for _ in 0..3 {
        assert!(workshop.snapshot().status().unwrap().success());
    }
    assert!(!workshop.path("store/collector").exists());
    drop(lock);
    assert!(workshop.snapshot().status().unwrap().success());
    workshop.wait_for("a pack", |workshop| workshop.packs().len() == 1);
}

#[test]
fn what_failed_is_not_tried_again_before_twice_as_much_is_new_and_status_says_why() {
    let workshop = Workshop::new();
    workshop.import(40);
    let repack = ["repack", "--tier", "hot", "--no-maintenance"];
    assert!(workshop.command(&repack).status().unwrap().success());
    // Nothing is collected if an object cannot be read.
    let pack = workshop.path("store/packs").join(workshop.packs().pop().unwrap());
    let mut bytes = fs::read(&pack).unwrap();
    let middle = bytes.len() / 3;
    bytes[100..middle].fill(7);
    fs::write(&pack, bytes).unwrap();
    fs::write(workshop.path("more.jsonl"), claude_code(MANY)).unwrap();
    let import = ["import", "more.jsonl", "--no-maintenance", "--session", "more"];
    assert!(workshop.command(&import).status().unwrap().success());
    let switch = ["switch", "more", "--no-maintenance"];
    assert!(workshop.command(&switch).status().unwrap().success());
    for _ in 0..3 {
        let _ = workshop.snapshot().arg("--no-maintenance").status().unwrap();
        assert!(workshop.command(&["gc", "--auto"]).status().unwrap().success());
    }
    assert_eq!(workshop.log().lines().count(), 1, "{}", workshop.log());
    let status = workshop.status();
    assert_eq!(status["outcome"], "failed");
    assert!(status["reason"].as_str().unwrap().contains("pack"), "{status}");
    assert!(status["waits"].as_str().unwrap().contains("16.0 MiB"), "{status}");
    let text = workshop.output(&["status"]);
    assert!(text.contains("maintenance failed, "), "{text}");
}

#[test]
fn whatever_lies_where_the_last_try_is_noted_keeps_nothing_from_being_done() {
    let far = r#"{"version":1,"time_micros":9223372036854775807,"outcome":"failed","left_bytes":18446744073709551615,"left_objects":18446744073709551615,"failures":4294967295}"#;
    let torn = far.get(..far.len() / 2).unwrap();
    for content in [far, torn, "", "[]", "\u{0}"] {
        let workshop = Workshop::new();
        workshop.fill("long");
        fs::write(workshop.path("store/maintenance.last"), content).unwrap();
        assert!(workshop.command(&["status"]).status().unwrap().success(), "{content}");
        assert!(workshop.command(&["gc", "--auto"]).status().unwrap().success());
        assert_eq!(workshop.packs().len(), 1, "{content}");
        assert_eq!(workshop.status()["outcome"], "done");
    }
    let workshop = Workshop::new();
    workshop.fill("long");
    let victim = workshop.path("victim");
    fs::write(&victim, "mine").unwrap();
    std::os::unix::fs::symlink(&victim, workshop.path("store/maintenance.last")).unwrap();
    assert!(workshop.command(&["gc", "--auto"]).status().unwrap().success());
    assert_eq!((workshop.packs().len(), &*fs::read(victim).unwrap()), (1, &b"mine"[..]));
}

#[test]
fn a_server_and_commands_under_a_budget_have_one_process_beside_them_and_no_zombies() {
    const BUDGET: u64 = 128 << 10;
    let workshop = Workshop::new();
    let set = ["retention", "set", "--default", "--budget", "128KiB"];
    assert!(workshop.snapshot().status().unwrap().success());
    let set = workshop.command(&set).stderr(Stdio::piped()).output().unwrap();
    assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
    let serve = ["serve", "--stdio", "--session", "served"];
    let mut server = workshop.command(&serve);
    let mut server = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut answers = BufReader::new(server.stdout.take().unwrap());
    let mut calls = server.stdin.take().unwrap();
    let mut random = Random(7);
    let (mut most, mut fullest) = (0, 0);
    for turn in 0..200 {
        let text: String = (0..700).map(|_| format!("{:x} ", random.below(1 << 20))).collect();
        if turn % 8 == 0 {
            fs::write(
                workshop.path("state.json"),
                format!(r#"{{"scratchpad": {{"a": {{"content": "{text}"}}}}}}"#),
            )
            .unwrap();
            assert!(workshop.snapshot().status().unwrap().success());
        }
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":{turn},"method":"snapshot","params":{{"message":"turn","set":{{"scratchpad/{}":"{text}"}}}}}}"#,
            turn % 4
        );
        writeln!(calls, "{call}").unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert!(answer.contains("result"), "{answer}");
        most = workshop.at_work().max(most);
        fullest = workshop.bytes().max(fullest);
    }
    assert_eq!(most, 1);
    workshop.wait_for("a reaping", |_| zombies(server.id()) == 0);
    assert!(fullest <= 2 * 2 * BUDGET + SPARE_BYTES, "{fullest} bytes");
    drop(calls);
    assert!(server.wait().unwrap().success());
    assert_eq!(workshop.log(), "");
}

#[test]
fn a_server_reaps_the_process_that_it_started() {
    let workshop = Workshop::new();
    workshop.fill("long");
    let mut server = workshop.command(&["serve", "--stdio"]);
    let mut server = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut calls = server.stdin.take().unwrap();
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"snapshot","params":{"message":"turn","set":{"scratchpad/a":"b"}}}"#;
    writeln!(calls, "{call}").unwrap();
    workshop.wait_for("a pack", |workshop| workshop.packs().len() == 1);
    // It sleeps for a while. When it ends, it would stay a zombie until it is reaped.
    let resting = children(server.id()).pop().expect("a process that rests");
    assert!(Command::new("kill").arg(resting.to_string()).status().unwrap().success());
    workshop.wait_for("an end", |_| children(server.id()).is_empty());
    drop(calls);
    assert!(server.wait().unwrap().success());
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
        assert!(line.starts_with("waiting for maintenance in the background"), "{line}");
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
