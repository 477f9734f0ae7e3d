//! Archives without ids on the command line: every command reads them, and damage has its
//! documented cost.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use turntree_tests::claude_code;
use turntree_tests::server_process::ends_with;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// The magic bytes at the start of each frame of a pack.
const FRAME: &[u8] = b"\x89TTB\r\n\x1a\n";

const BLOB: u8 = 0;

/// A folder with a store of one session.
struct Shelf {
    root: tempfile::TempDir,
    transcript: String,
}

impl Shelf {
    fn new() -> Self {
        let (root, transcript) = (tempfile::tempdir().unwrap(), claude_code(300));
        let shelf = Self { root, transcript };
        fs::write(shelf.path("s.jsonl"), &shelf.transcript).unwrap();
        fs::write(shelf.path("phrase"), "open sesame\n").unwrap();
        shelf.ran(0, &["init"]);
        shelf.ran(0, &["import", "s.jsonl", "--session", "s"]);
        shelf
    }

    /// Archives the store.
    fn archived(self, more: &[&str]) -> Self {
        self.ran(0, &[&["repack", "--archive", "--without-ids"], more].concat());
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn ran(&self, code: i32, words: &[&str]) -> Output {
        ends_with(code, PROGRAM, self.root.path(), words)
    }

    fn json(&self, code: i32, words: &[&str]) -> Value {
        serde_json::from_slice(&self.ran(code, &[&["--json"], words].concat()).stdout).unwrap()
    }

    /// The files of the store with an extension.
    fn files(&self, folder: &str, extension: &str) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path(".turntree").join(folder)) else {
            return Vec::new();
        };
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|it| it == extension)).collect()
    }

    fn pack(&self) -> PathBuf {
        let packs = self.files("packs", "pack");
        assert_eq!(packs.len(), 1, "{packs:?}");
        packs[0].clone()
    }

    fn is_whole(&self, store: &str) {
        let export = ["--store", store, "export", "s", "--format", "source"];
        assert!(self.ran(0, &export).stdout == self.transcript.as_bytes(), "{store}");
        self.ran(0, &["--store", store, "fsck"]);
    }

    /// Damages the last block of contents: those of the newest turns.
    fn damage(&self) {
        let mut bytes = fs::read(self.pack()).unwrap();
        let mut heads = (0..bytes.len() - 120).filter(|at| bytes[*at..].starts_with(FRAME));
        let block = heads.rfind(|at| bytes[at + 28] == BLOB).unwrap();
        bytes[block + 130] ^= 1;
        let path = self.pack();
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
    }
}

/// True if the pack lists its ids, by its version.
fn lists_ids(pack: &Path) -> bool {
    fs::read(pack).unwrap()[8] == 1
}

#[test]
fn everything_reads_a_store_that_was_put_away_and_it_gets_its_ids_back() {
    let shelf = Shelf::new();
    shelf.ran(0, &["repack", "--archive", "--parity", "0"]);
    let (with_ids, superblock) = (shelf.pack(), shelf.path(".turntree/superblock"));
    let before = (fs::metadata(&with_ids).unwrap().len(), fs::read(&superblock).unwrap());
    shelf.ran(0, &["repack", "--archive", "--without-ids", "--dry-run"]);
    assert!(fs::read(&superblock).unwrap() == before.1, "only planned");
    let shelf = shelf.archived(&["--parity", "0"]);
    assert!(!lists_ids(&shelf.pack()));
    let without = fs::metadata(shelf.pack()).unwrap().len();
    assert!(without * 10 < before.0 * 9, "{without} of {}", before.0);
    assert!(shelf.files("derived", "ids").is_empty(), "they would undo the savings");
    assert_eq!(shelf.json(0, &["repack", "--archive", "--without-ids"])["steps"], 0);

    shelf.is_whole(".turntree");
    assert_eq!(shelf.files("derived", "ids").len(), 1);
    let stats = shelf.json(0, &["stats"]);
    let kept = fs::metadata(&shelf.files("derived", "ids")[0]).unwrap().len();
    assert_eq!(stats["ids_bytes"].as_u64(), Some(kept));
    assert_eq!(shelf.json(0, &["gc"])["steps"], 0);
    let log = String::from_utf8(shelf.ran(0, &["log", "s", "-n", "1"]).stdout).unwrap();
    assert!(!log.is_empty());
    shelf.ran(0, &["bundle", "create", "s", "-o", "s.bundle"]);
    shelf.ran(0, &["--store", "taken", "bundle", "unbundle", "s.bundle"]);
    shelf.is_whole("taken");
    shelf.ran(0, &["remote", "add", "origin", "shared"]);
    shelf.ran(0, &["push"]);
    shelf.ran(0, &["clone", "shared", "there"]);
    shelf.is_whole("there/.turntree");

    shelf.ran(0, &["repack", "--archive"]);
    assert!(lists_ids(&shelf.pack()));
    assert!(shelf.files("derived", "ids").is_empty());
    shelf.is_whole(".turntree");
}

#[test]
fn a_store_is_read_where_ids_cannot_be_kept() {
    let shelf = Shelf::new().archived(&[]);
    let derived = shelf.path(".turntree/derived");
    let _ = fs::remove_dir_all(&derived);
    fs::write(&derived, "a file in the place of the folder").unwrap();
    for _ in 0..2 {
        let export = shelf.ran(0, &["export", "s", "--format", "source"]);
        assert!(export.stdout == shelf.transcript.as_bytes());
    }
}

#[test]
fn an_encrypted_store_is_put_away_as_any_other_and_in_either_order() {
    let lock = ["init", "--encrypt", "--passphrase-file", "phrase"];
    let early = Shelf::new();
    early.ran(0, &lock);
    let early = early.archived(&[]);
    let late = Shelf::new().archived(&[]);
    late.is_whole(".turntree");
    late.ran(0, &lock);
    assert!(late.files("derived", "ids").is_empty(), "no plain pack is left");
    for shelf in [early, late] {
        shelf.is_whole(".turntree");
        let kept = fs::read(&shelf.files("derived", "ids")[0]).unwrap();
        assert!(!kept.starts_with(b"\x89TTI"), "they are enciphered");
        shelf.is_whole(".turntree");
    }
}

#[test]
fn what_damage_costs_is_told_and_the_rest_comes_out() {
    for keeps_ids in [false, true] {
        let shelf = Shelf::new().archived(&["--parity", "0"]);
        if keeps_ids {
            shelf.ran(0, &["show", "s"]);
        }
        shelf.damage();
        let report = shelf.json(1, &["fsck"]);
        let whole = report["sessions"][0]["newest_whole"]["turn"].as_u64();
        assert!(whole.is_some_and(|whole| whole > 0), "{report}");
        // With ids only the objects of the block are lost, without them also the commits that
        // reference them.
        assert_eq!(report["sessions"][0]["lost_commits"], !keeps_ids, "{report}");
        let said = String::from_utf8(shelf.ran(1, &["fsck"]).stdout).unwrap();
        assert_eq!(said.contains("cannot be identified"), !keeps_ids, "{said}");
        shelf.ran(4, &["export", "s", "--format", "source"]);
        let left = shelf.ran(1, &["export", "s", "--format", "source", "--partial"]).stdout;
        let left = String::from_utf8(left).unwrap();
        assert!(!left.is_empty() && shelf.transcript.starts_with(&left));
        if !keeps_ids {
            let said = String::from_utf8(shelf.ran(4, &["gc"]).stderr).unwrap();
            assert!(said.contains("'turntree repair'"), "{said}");
        }
    }
}

#[test]
fn parity_restores_an_archive_without_ids() {
    let shelf = Shelf::new().archived(&[]);
    shelf.damage();
    shelf.ran(0, &["repair"]);
    shelf.is_whole(".turntree");
    assert!(!lists_ids(&shelf.pack()), "as it was");
}

#[test]
fn a_redaction_takes_a_secret_out_of_an_archive_without_ids() {
    let shelf = Shelf::new().archived(&[]);
    shelf.ran(0, &["snapshot", "-m", "the word is xyzzy"]);
    let shelf = shelf.archived(&[]);
    shelf.ran(0, &["log", "-n", "1"]);
    let before = shelf.files("derived", "ids");
    assert_eq!(before.len(), 1);
    shelf.ran(0, &["redact", "xyzzy", "--yes"]);
    assert!(!shelf.files("derived", "ids").contains(&before[0]));
    let log = String::from_utf8(shelf.ran(0, &["log"]).stdout).unwrap();
    assert!(!log.contains("xyzzy"), "{log}");
    shelf.ran(0, &["fsck"]);
}
