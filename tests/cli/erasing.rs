//! No file of the store contains erased content: neither indexes, tables, notes, logs nor
//! remote-tracking branches.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// Words that only the erased session has: in a prompt, in a note, in a title and in a file name.
const WORDS: [&str; 4] = ["qorthxanadu", "zyxwvunote", "plughtitle", "frobnifile"];

struct Machine(tempfile::TempDir);

impl Machine {
    /// A store with two sessions, both pushed to a remote, searched, listed and adopted.
    fn new(init: &[&str]) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        let work = machine.path("work");
        fs::create_dir(&work).unwrap();
        fs::write(work.join("frobnifile.txt"), "x\n").unwrap();
        machine.ok(&[&["init"], init].concat());
        machine.ok(&["remote", "add", "origin", "remote"]);
        machine.ok(&[
            "snapshot",
            "-m",
            "o",
            "--session",
            "other",
            "--append-message",
            "user=hello",
        ]);
        let (prompt, note) = ("user=my password is Qorthxanadu", "scratchpad/a=zyxwvunote");
        machine.ok(&[
            "snapshot",
            "-m",
            "one",
            "--session",
            "victim",
            "--workspace",
            "work",
            "--append-message",
            prompt,
            "--set",
            note,
        ]);
        machine.ok(&[
            "snapshot",
            "-m",
            "two",
            "--session",
            "victim",
            "--append-message",
            "user=more",
        ]);
        machine.ok(&["session", "rename", "victim", "plughtitle"]);
        machine.ok(&["push", "--all"]);
        machine.look();
        machine
    }

    /// Runs the commands that cache content of sessions.
    fn look(&self) {
        for words in
            [&["search", "hello"][..], &["sessions"], &["log", "--all"], &["usage", "--all"]]
        {
            self.ok(words);
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn ok(&self, words: &[&str]) -> String {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.0.path()).stdin(Stdio::null()).env_clear();
        command.env("HOME", self.path("home")).env("TURNTREE_STORE", self.path("store"));
        command.envs([("TURNTREE_MAINTENANCE", "off"), ("TURNTREE_ACTOR", "tester")]);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The files of the store with a word in their content, compressed or not, or in their names.
    fn found(&self) -> Vec<String> {
        let (mut found, mut left) = (Vec::new(), vec![self.path("store")]);
        while let Some(path) = left.pop() {
            if path.is_dir() {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            let bytes = [path.as_os_str().as_encoded_bytes(), &fs::read(&path).unwrap()].concat();
            let words = WORDS.iter().filter(|word| has(&bytes, word) || unpacked(&bytes, word));
            found.extend(words.map(|word| format!("{word} in {}", path.display())));
        }
        found
    }
}

fn has(bytes: &[u8], word: &str) -> bool {
    bytes.to_ascii_lowercase().windows(word.len()).any(|window| window == word.as_bytes())
}

/// Searches every zstd frame in the bytes.
fn unpacked(bytes: &[u8], word: &str) -> bool {
    let begins = |at: &usize| bytes[*at..].starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
    (0..bytes.len()).filter(begins).any(|at| {
        let Ok(decoder) = zstd::stream::Decoder::new(&bytes[at..]) else { return false };
        let mut text = Vec::new();
        // Bytes decoded before an invalid frame fails count too.
        let _ = decoder.single_frame().read_to_end(&mut text);
        has(&text, word)
    })
}

#[test]
fn a_forgotten_session_is_in_no_file() {
    let machine = Machine::new(&[]);
    let before = machine.found();
    for word in WORDS {
        assert!(
            before.iter().any(|found| found.starts_with(word)),
            "{word} is nowhere: {before:?}"
        );
    }
    let said = machine.ok(&["session", "forget", "victim"]);
    assert!(said.contains("origin still has victim"), "{said}");
    assert!(!said.contains("free 0 B"), "{said}");
    machine.ok(&["session", "forget", "victim", "--yes"]);
    assert_eq!(machine.found(), Vec::<String>::new());
    machine.ok(&["search", "hello"]);
    machine.ok(&["fetch"]);
    assert_eq!(machine.found(), Vec::<String>::new());
    let said = machine.ok(&["fetch", "victim"]);
    assert!(said.contains("victim"), "{said}");
    let messages = machine.ok(&["cat", "origin/victim:agents/main/messages"]);
    assert!(messages.contains("Qorthxanadu"), "{messages}");
}

#[test]
fn a_forgotten_session_goes_from_the_remote_on_demand() {
    let machine = Machine::new(&[]);
    machine.ok(&["session", "forget", "victim", "--yes"]);
    machine.ok(&["push", "--remote", "origin", "--delete", "victim"]);
    machine.ok(&["remote", "gc"]);
    let bundles = fs::read_dir(machine.path("remote/bundles/victim"));
    assert_eq!(bundles.map_or(0, Iterator::count), 0);
    assert_eq!(machine.found(), Vec::<String>::new());
}

#[test]
fn turns_that_expired_are_in_no_index() {
    let machine = Machine::new(&[]);
    let state = json!({"agents": {"main": {"messages": [{"role": "user", "content": "anew"}]}}});
    fs::write(machine.path("state.json"), state.to_string()).unwrap();
    machine.ok(&["snapshot", "-m", "anew", "--session", "victim", "--state", "state.json"]);
    machine.ok(&["push", "--delete", "victim"]);
    machine.ok(&["search", "anew"]);
    machine.ok(&["retention", "set", "--keep-last", "1", "victim"]);
    machine.ok(&["gc", "--now", "--yes"]);
    machine.ok(&["search", "anew"]);
    // The kept turn has the note, the file and the title.
    let in_index = |found: &String| found.contains("derived-") && found.starts_with(WORDS[0]);
    assert_eq!(
        machine.found().into_iter().filter(in_index).collect::<Vec<_>>(),
        Vec::<String>::new()
    );
}

#[test]
fn a_session_that_expired_by_the_clock_is_in_no_file() {
    let machine = Machine::new(&[]);
    machine.ok(&["push", "--delete", "victim"]);
    machine.ok(&["retention", "set", "--expire-session", "1s", "--strict", "victim"]);
    std::thread::sleep(std::time::Duration::from_millis(1200));
    machine.ok(&["gc"]);
    for words in [&["search", "hello"][..], &["sessions"], &["fetch"]] {
        machine.ok(words);
    }
    assert_eq!(machine.found(), Vec::<String>::new());
}

#[test]
fn a_key_rotation_leaves_nothing_in_the_clear_and_brings_nothing_back() {
    let machine = Machine::new(&["--encrypt"]);
    assert_eq!(machine.found(), Vec::<String>::new());
    machine.ok(&["key", "rotate"]);
    machine.look();
    assert_eq!(machine.found(), Vec::<String>::new());
    machine.ok(&["session", "forget", "victim", "--yes"]);
    machine.ok(&["key", "rotate"]);
    machine.look();
    // The files of an encrypted store are decrypted for the search.
    machine.ok(&["key", "decrypt"]);
    assert_eq!(machine.found(), Vec::<String>::new());

    let machine = Machine::new(&["--encrypt"]);
    machine.ok(&["key", "rotate"]);
    machine.ok(&["key", "decrypt"]);
    machine.look();
    let found = machine.found();
    for word in WORDS {
        assert!(found.iter().any(|found| found.starts_with(word)), "{word} is nowhere: {found:?}");
    }
    // The words were in plaintext. They are encrypted with all files of the store.
    machine.ok(&["init", "--encrypt"]);
    machine.look();
    assert_eq!(machine.found(), Vec::<String>::new());
}

/// The kinds of files of a store that the test below finds. Judge a new one by its possible
/// content.
fn is_known(name: &Path) -> bool {
    let name = name.to_str().unwrap();
    let known = [
        "collector",
        "journal/",
        "packs/",
        "derived/",
        "workspaces/",
        "manifest",
        "superblock",
        "maintenance",
        ".gitignore",
        "reserve",
        "hook",
    ];
    known.iter().any(|prefix| name.starts_with(prefix))
}

#[test]
fn every_file_of_a_store_is_in_the_inventory() {
    let machine = Machine::new(&[]);
    machine.ok(&["gc", "--now", "--yes"]);
    machine.ok(&["repack"]);
    let (mut left, mut unknown) = (vec![machine.path("store")], Vec::new());
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let name = path.strip_prefix(machine.path("store")).unwrap().to_owned();
        if !is_known(&name) {
            unknown.push(name);
        }
    }
    assert_eq!(unknown, Vec::<PathBuf>::new());
}
