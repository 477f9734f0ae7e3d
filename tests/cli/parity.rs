//! Bundles that survive damage: damage within their parity is repaired, the rest is reported.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use serde_json::Value;
use turntree_tests::claude_code;
use turntree_tests::server_process::ends_with;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// A folder with a store of one session, and a bundle of it.
struct Kept {
    root: tempfile::TempDir,
    bundle: Vec<u8>,
}

impl Kept {
    fn new(words: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut kept = Self { root, bundle: Vec::new() };
        fs::write(kept.path("session.jsonl"), claude_code(300)).unwrap();
        fs::write(kept.path("phrase"), "open sesame\n").unwrap();
        kept.ran(0, &["init"]);
        kept.ran(0, &["import", "session.jsonl", "--session", "s"]);
        kept.ran(0, &[&["bundle", "create", "s", "-o", "s.bundle"][..], words].concat());
        kept.bundle = fs::read(kept.path("s.bundle")).unwrap();
        kept
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn ran(&self, code: i32, words: &[&str]) -> Output {
        ends_with(code, PROGRAM, self.root.path(), words)
    }

    /// Destroys one of this many sectors of the bundle, with a fixed seed.
    fn destroy_one_of(&self, sectors: u32) {
        let mut bytes = self.bundle.clone();
        let mut state = 7_u32;
        for sector in bytes.chunks_mut(512) {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if (state >> 8).is_multiple_of(sectors) {
                sector.fill(0);
            }
        }
        assert_ne!(bytes, self.bundle);
        fs::write(self.path("s.bundle"), bytes).unwrap();
    }

    /// Imports the bundle into a new store. Returns its transcript.
    fn taken_in(&self, words: &[&str]) -> (Vec<u8>, String) {
        let store = ["--store", "other"];
        let done = self.ran(0, &[&store[..], &["bundle", "unbundle", "s.bundle"], words].concat());
        let export = [&store[..], &["export", "s", "--format", "source"]].concat();
        let exported = self.ran(0, &export).stdout;
        (exported, String::from_utf8(done.stderr).unwrap())
    }
}

#[test]
fn a_bundle_with_three_percent_of_its_sectors_destroyed_gives_everything_back() {
    for words in [&[][..], &["--passphrase-file", "phrase"]] {
        let kept = Kept::new(words);
        kept.destroy_one_of(33);
        let (exported, said) = kept.taken_in(words);
        assert!(exported == fs::read(kept.path("session.jsonl")).unwrap());
        assert!(said.contains("read by its parity"), "{said}");

        let told = [&["--json", "bundle", "verify", "s.bundle"][..], words].concat();
        let verified: Value = serde_json::from_slice(&kept.ran(1, &told).stdout).unwrap();
        assert_eq!(verified["parity"]["can_restore"], true);
        assert_ne!(verified["parity"]["damaged_shards"], 0);
        let repair = [&["bundle", "verify", "s.bundle", "--repair"][..], words].concat();
        let said = String::from_utf8(kept.ran(0, &repair).stdout).unwrap();
        assert!(said.contains("repaired "), "{said}");
        assert!(fs::read(kept.path("s.bundle")).unwrap() == kept.bundle);
        let said = String::from_utf8(kept.ran(0, &repair).stdout).unwrap();
        assert!(said.contains("nothing to repair"), "{said}");
    }
}

#[test]
fn a_damaged_head_and_a_torn_end_are_restored_too() {
    let kept = Kept::new(&[]);
    let mut head = kept.bundle.clone();
    head[..100].fill(b'x');
    fs::write(kept.path("s.bundle"), head).unwrap();
    kept.ran(0, &["bundle", "verify", "s.bundle", "--repair"]);
    assert!(fs::read(kept.path("s.bundle")).unwrap() == kept.bundle);
    let torn = kept.bundle.len() - 1_500;
    fs::write(kept.path("s.bundle"), &kept.bundle[..torn]).unwrap();
    let (exported, said) = kept.taken_in(&[]);
    assert!(exported == fs::read(kept.path("session.jsonl")).unwrap());
    assert!(said.contains("the parity of s.bundle is damaged"), "{said}");
    kept.ran(0, &["bundle", "verify", "s.bundle", "--repair"]);
    assert!(fs::read(kept.path("s.bundle")).unwrap() == kept.bundle);
}

#[test]
fn more_damage_than_parity_restores_is_told_and_the_file_stays_as_it_is() {
    let kept = Kept::new(&[]);
    kept.destroy_one_of(3);
    let damaged = fs::read(kept.path("s.bundle")).unwrap();
    for words in [&["verify", "--repair"][..], &["unbundle"], &["show"]] {
        let output = kept.ran(4, &[&["bundle"][..], words, &["s.bundle"]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("s.bundle"), "{said}");
    }
    assert!(fs::read(kept.path("s.bundle")).unwrap() == damaged);
}

#[test]
fn a_bundle_without_parity_is_read_as_ever_and_cannot_be_repaired() {
    let kept = Kept::new(&["--parity", "0"]);
    kept.ran(0, &["bundle", "verify", "s.bundle"]);
    let output = kept.ran(2, &["bundle", "verify", "s.bundle", "--repair"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("has no parity"), "{said}");
    kept.ran(2, &["bundle", "verify", "-", "--repair"]);
    kept.ran(2, &["bundle", "create", "s", "-o", "more.bundle", "--parity", "101"]);
}

#[test]
fn one_bad_byte_late_in_the_bundle_of_a_long_session_costs_the_turns_behind_it_alone() {
    let kept = Kept::new(&["--parity", "0"]);
    fs::write(kept.path("long.jsonl"), claude_code(3000)).unwrap();
    kept.ran(0, &["import", "long.jsonl", "--session", "long"]);
    kept.ran(0, &["bundle", "create", "long", "-o", "long.bundle", "--parity", "0"]);
    let mut bundle = fs::read(kept.path("long.bundle")).unwrap();
    let at = bundle.len() * 95 / 100;
    bundle[at] ^= 1;
    fs::write(kept.path("long.bundle"), bundle).unwrap();
    kept.ran(4, &["--store", "other", "bundle", "unbundle", "long.bundle"]);
    let taken = ["--json", "--store", "other", "bundle", "unbundle", "long.bundle", "--partial"];
    let taken: Value = serde_json::from_slice(&kept.ran(1, &taken).stdout).unwrap();
    let shown = |words: &[&str]| -> Value {
        serde_json::from_slice(&kept.ran(0, &[&["--json"], words].concat()).stdout).unwrap()
    };
    let all = shown(&["show", "long"])["turn"].as_u64().unwrap();
    let lost = &taken["lost"]["refs"][0];
    let whole = lost["whole_turn"].as_u64().unwrap();
    assert_eq!(lost["name"], "refs/heads/long/main", "{taken}");
    assert!(whole > all / 2 && whole < all, "{whole} of {all} turns come in");
    assert_eq!(shown(&["--store", "other", "show", "long"])["turn"], whole);
    let export = ["--store", "other", "export", "long", "--format", "source"];
    let text = kept.ran(0, &export).stdout;
    assert!(fs::read(kept.path("long.jsonl")).unwrap().starts_with(&text));
}

#[test]
fn what_is_whole_of_a_bundle_damaged_beyond_its_parity_is_taken_in_with_partial() {
    for words in [&["--parity", "0", "--tier", "hot"][..], &["--passphrase-file", "phrase"]] {
        let kept = Kept::new(words);
        let encrypted = words.contains(&"phrase");
        let opening = if encrypted { words } else { &[] };
        let again = |bundle: &[u8], arguments: &[&str], code: i32| {
            fs::write(kept.path("s.bundle"), bundle).unwrap();
            kept.ran(code, &[arguments, opening].concat())
        };
        let partial = ["--store", "other", "bundle", "unbundle", "s.bundle", "--partial"];
        let mut torn = kept.bundle.clone();
        // The footer is lost, and without parity nothing else records where the table begins.
        torn.truncate(torn.len() - 100);
        if encrypted {
            let told = again(&kept.bundle, &partial, 0);
            assert!(!String::from_utf8(told.stdout).unwrap().contains("lost"), "nothing is");
            continue;
        }
        let refused = again(&torn, &["--store", "other", "bundle", "unbundle", "s.bundle"], 4);
        assert!(String::from_utf8(refused.stderr).unwrap().contains("--partial imports"));
        let told = again(&torn, &partial, 0);
        assert!(String::from_utf8(told.stdout).unwrap().contains("refs/heads/s/main"));

        // The last block of contents: the newest turns need it.
        let mut damaged = kept.bundle.clone();
        let is_head = |at: &usize| damaged[*at..].starts_with(b"\x89TTB\r\n\x1a\n");
        let heads: Vec<usize> = (0..damaged.len() - 120).filter(is_head).collect();
        let blobs: Vec<&usize> = heads.iter().filter(|at| damaged[**at + 28] == 0).collect();
        damaged[**blobs.last().unwrap() + 140] ^= 1;
        let verified = again(&damaged, &["bundle", "verify", "s.bundle"], 4);
        let verified = String::from_utf8(verified.stdout).unwrap();
        assert!(verified.contains("intact are:") && verified.contains("are lost"), "{verified}");
        let store = ["--json", "--store", "third", "bundle", "unbundle", "s.bundle", "--partial"];
        let taken = again(&damaged, &store, 1);
        let taken: Value = serde_json::from_slice(&taken.stdout).unwrap();
        let (lost, refs) = (&taken["lost"], taken["refs"].as_array().unwrap());
        assert!(lost["objects"].as_u64() > Some(0), "{taken}");
        assert_eq!(lost["refs"][0]["name"], "refs/heads/s/main", "{taken}");
        for found in refs {
            assert_eq!(found["turn"], lost["refs"][0]["whole_turn"], "{taken}");
            kept.ran(0, &["--store", "third", "fsck"]);
            kept.ran(0, &["--store", "third", "undo"]);
        }
    }
}
