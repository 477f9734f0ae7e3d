//! A store damaged beyond its parity: lost turns are named, and intact content can be exported.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use turntree_tests::claude_code;
use turntree_tests::server_process::{ends_with, run_alone};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// The magic bytes at the start of each frame of a pack.
const FRAME: &[u8] = b"\x89TTB\r\n\x1a\n";

const BLOB: u8 = 0;
const COMMIT: u8 = 2;

/// A store with one session in an archive without parity.
struct Archive {
    root: tempfile::TempDir,
    transcript: String,
}

impl Archive {
    fn new() -> Self {
        Self::of(&claude_code(300))
    }

    fn of(transcript: &str) -> Self {
        let (root, transcript) = (tempfile::tempdir().unwrap(), transcript.to_owned());
        let archive = Self { root, transcript };
        fs::write(archive.path("s.jsonl"), &archive.transcript).unwrap();
        archive.ran(0, &["init"]);
        archive.ran(0, &["import", "s.jsonl", "--session", "s"]);
        archive
    }

    fn packed(self) -> Self {
        self.ran(0, &["repack", "--archive", "--parity", "0"]);
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

    /// Damages the last block with objects of a kind: those of the newest turns.
    fn damage_last_of(&self, kind: u8) {
        self.damage(|mut heads| heads.rfind(|(found, _)| *found == kind));
    }

    /// Damages the first block with objects of a kind: those of the oldest turns, which all others
    /// need.
    fn damage_first_of(&self, kind: u8) {
        self.damage(|mut heads| heads.find(|(found, _)| *found == kind));
    }

    /// Damages the block that `choose` selects from the kinds and offsets of all blocks.
    fn damage(&self, choose: impl Fn(std::vec::IntoIter<(u8, usize)>) -> Option<(u8, usize)>) {
        self.change_pack(|bytes| {
            let heads = (0..bytes.len() - 120).filter(|at| bytes[*at..].starts_with(FRAME));
            let heads: Vec<(u8, usize)> = heads.map(|at| (bytes[at + 28], at)).collect();
            let (_, block) = choose(heads.into_iter()).unwrap();
            bytes[block + 130] ^= 1;
        });
    }

    fn pack(&self) -> PathBuf {
        let packs = fs::read_dir(self.path(".turntree/packs")).unwrap();
        packs.map(|entry| entry.unwrap().path()).find(|path| is_pack(path)).unwrap()
    }

    fn change_pack(&self, change: impl FnOnce(&mut [u8])) {
        let pack = self.pack();
        let mut bytes = fs::read(&pack).unwrap();
        change(&mut bytes);
        fs::remove_file(&pack).unwrap();
        fs::write(&pack, bytes).unwrap();
    }

    /// The newest intact turn according to `fsck`.
    fn newest_whole(&self) -> u64 {
        let report = self.json(1, &["fsck"]);
        let sessions = report["sessions"].as_array().unwrap();
        assert_eq!((sessions.len(), &sessions[0]["session"]), (1, &Value::from("s")), "{report}");
        sessions[0]["newest_whole"]["turn"].as_u64().unwrap()
    }

    /// Exports the intact part, and checks that it is the transcript up to that turn.
    fn assert_exported(&self, whole: u64) {
        let done = self.ran(1, &["export", "s", "--format", "source", "--partial"]);
        let (text, said) =
            (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr));
        assert!(!text.is_empty() && text.len() < self.transcript.len());
        assert!(self.transcript.starts_with(&text), "it is the transcript, as far as it goes");
        let said = said.unwrap();
        assert!(said.contains(&format!("turn {whole} of s (")), "{said}");
        let wrote = ["export", "s", "--format", "jsonl", "--partial", "-o", "whole.jsonl"];
        let record = self.json(1, &wrote);
        let shown = self.json(0, &["show", record["commit"].as_str().unwrap()]);
        assert_eq!(shown["turn"].as_u64(), Some(whole));
    }
}

/// A transcript whose contents do not compress, so that an archive has several blocks of them.
fn noisy_transcript() -> String {
    let mut state = 9_u64;
    let lines = claude_code(300);
    let noisy = lines.lines().map(|line| {
        let mut noise = String::new();
        for _ in 0..500 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            noise.push_str(&format!("{:016x}", state ^ state >> 29));
        }
        line.replacen("\"message\":{", &format!("\"noise\":\"{noise}\",\"message\":{{"), 1) + "\n"
    });
    noisy.collect()
}

fn is_pack(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "pack")
}

#[test]
fn an_export_of_a_lost_turn_names_it_and_partial_writes_the_newest_whole_one() {
    let archive = Archive::new().packed();
    let newest = archive.json(0, &["show", "s"])["turn"].as_u64().unwrap();
    archive.damage_last_of(BLOB);
    let whole = archive.newest_whole();
    assert!((newest / 2..newest).contains(&whole), "{whole} of {newest}");
    let refused = archive.ran(4, &["export", "s", "--format", "source"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        said.starts_with(&format!("error: turn {newest} of s cannot be read completely")),
        "{said}"
    );
    assert!(said.contains("'turntree export --partial'"), "{said}");
    assert!(refused.stdout.is_empty());
    archive.assert_exported(whole);
    let told = String::from_utf8(archive.ran(1, &["fsck"]).stdout).unwrap();
    let lost = format!("s: lost: turns {} to {newest}; newest whole: turn {whole} (", whole + 1);
    assert!(told.contains(&lost), "{told}");
}

#[test]
fn a_session_whose_newest_commits_are_lost_is_exported_up_to_them() {
    let archive = Archive::new().packed();
    archive.damage_last_of(COMMIT);
    let whole = archive.newest_whole();
    for words in [&["show", "s"][..], &["export", "s", "--format", "jsonl"]] {
        let said = String::from_utf8(archive.ran(4, words).stderr).unwrap();
        assert!(
            said.starts_with("error: the newest turn of s cannot be read completely"),
            "{said}"
        );
    }
    let said = String::from_utf8(archive.ran(4, &["log", "s"]).stderr).unwrap();
    assert!(said.contains("'turntree fsck' lists lost turns"), "{said}");
    archive.assert_exported(whole);
}

#[test]
fn where_no_turn_is_whole_partial_writes_each_record_that_is_left_at_its_line() {
    let archive = Archive::of(&noisy_transcript()).packed();
    archive.damage_first_of(BLOB);
    let sessions = archive.json(1, &["fsck"])["sessions"].clone();
    assert!(sessions[0]["newest_whole"].is_null(), "{sessions}");
    let said = archive.ran(4, &["export", "s", "--format", "source"]).stderr;
    assert!(String::from_utf8(said).unwrap().contains("--partial"));

    let done = archive.ran(1, &["export", "s", "--format", "source", "--partial"]);
    let (text, said) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr));
    let (mut left, mut lost) = (0, Vec::new());
    assert_eq!(text.lines().count(), archive.transcript.lines().count());
    for ((number, line), expected) in (1..).zip(text.lines()).zip(archive.transcript.lines()) {
        match line {
            "" => lost.push(number),
            _ => {
                assert_eq!(line, expected, "line {number}");
                left += 1;
            }
        }
    }
    assert!(left > 0 && !lost.is_empty(), "{left} left, {lost:?} lost");
    let all = left + lost.len();
    let said = said.unwrap();
    assert!(said.contains(&format!("{left} of {all} records")), "{said}");
    assert!(said.contains("no turn of s is whole") && said.contains("lost"), "{said}");

    let wrote = ["export", "s", "--format", "source", "--partial", "-o", "left.jsonl"];
    let record = archive.json(1, &wrote);
    let named = record["lost_lines"].as_array().unwrap().iter().flat_map(|run| {
        let [first, last] = [0, 1].map(|at| run[at].as_u64().unwrap());
        first..=last
    });
    assert_eq!(named.collect::<Vec<u64>>(), lost);
    assert_eq!(fs::read_to_string(archive.path("left.jsonl")).unwrap(), text);
    let messages = archive.ran(1, &["export", "s", "--format", "jsonl", "--partial"]).stdout;
    let messages = String::from_utf8(messages).unwrap();
    let known: Vec<&str> = archive.transcript.lines().collect();
    assert!(messages.lines().any(|line| !line.is_empty()));
    assert!(messages.lines().all(|line| line.is_empty() || known.contains(&line)));
    let other = archive.ran(4, &["export", "s", "--format", "markdown", "--partial"]).stderr;
    assert!(String::from_utf8(other).unwrap().contains("--format source or jsonl"));
}

#[test]
fn repair_takes_nothing_away_that_partial_export_gives() {
    for transcript in [claude_code(40), noisy_transcript()] {
        let whole = Archive::of(&transcript).packed();
        let pack = fs::read(whole.pack()).unwrap();
        let starts = (0..pack.len() - 120).filter(|at| pack[*at..].starts_with(FRAME));
        let blocks: Vec<usize> = starts.filter(|at| pack[at + 28] <= COMMIT).collect();
        // The first contents, which all turns need, contents in the middle, and the last commits.
        let chosen = [blocks[0], blocks[blocks.len() / 2], blocks[blocks.len() - 1]];
        let mut with_records = 0;
        for at in chosen {
            let damaged = Archive::of(&transcript).packed();
            damaged.change_pack(|bytes| bytes[at + 130] ^= 1);
            let left = || {
                ["source", "jsonl"].map(|format| {
                    let wanted = ["export", "s", "--format", format, "--partial"];
                    run_alone(PROGRAM, damaged.root.path(), &wanted).stdout
                })
            };
            let before = left();
            with_records += usize::from(!before[0].is_empty());
            damaged.ran(1, &["repair"]);
            assert!(left() == before, "a repair of the block at {at} took records away");
            damaged.ran(0, &["repair", "--accept-loss"]);
            damaged.ran(0, &["fsck"]);
            assert!(left() == before, "an accepted loss of the block at {at} took records away");
            damaged.ran(0, &["gc", "--now", "--yes"]);
            assert!(left() == before, "a collection took records away beside the hole at {at}");
        }
        assert!(with_records > 0, "no block left any record");
    }
}

#[test]
fn fsck_says_first_that_parity_restores_everything() {
    let archive = Archive::new();
    archive.ran(0, &["repack", "--archive"]);
    archive.damage_first_of(BLOB);
    let said = String::from_utf8(archive.ran(1, &["fsck"]).stdout).unwrap();
    let first = said.lines().next().unwrap();
    assert!(first.contains("'turntree repair' restores all of it by parity"), "{said}");
    assert!(!said.contains("lost:") && said.lines().count() < 6, "{said}");
    let report = archive.json(1, &["fsck"]);
    assert_eq!(report["mended_by_parity"]["all"], true, "{report}");
    assert!(report["findings"].as_array().unwrap().len() > 1, "JSON has every finding: {report}");
    archive.ran(0, &["repair"]);
    assert!(archive.json(0, &["fsck"])["mended_by_parity"].is_null());
}

#[test]
fn a_bundle_without_its_end_gives_the_turns_in_front() {
    let archive = Archive::of(&claude_code(900));
    archive.ran(0, &["bundle", "create", "s", "-o", "s.bundle"]);
    let bundle = fs::read(archive.path("s.bundle")).unwrap();
    let turns = |store: &str| {
        let sessions = archive.json(0, &["--store", store, "sessions"]);
        sessions["sessions"][0]["turns"].as_u64().unwrap_or(0)
    };
    let all = turns(".turntree");
    for (percent, least) in [(85, all / 2), (65, all / 3)] {
        let store = format!("torn-{percent}");
        fs::write(archive.path("torn.bundle"), &bundle[..bundle.len() * percent / 100]).unwrap();
        archive.ran(0, &["--store", &store, "init"]);
        archive.ran(1, &["--store", &store, "bundle", "unbundle", "--partial", "torn.bundle"]);
        archive.ran(0, &["--store", &store, "fsck"]);
        assert!(turns(&store) >= least, "{} of {all} at {percent} %", turns(&store));
    }
}

#[test]
fn partial_changes_nothing_while_nothing_is_lost() {
    let archive = Archive::new();
    let done = archive.ran(0, &["export", "s", "--format", "source", "--partial"]);
    assert_eq!(String::from_utf8(done.stdout).unwrap(), archive.transcript);
    assert!(done.stderr.is_empty());
}

#[test]
fn stats_tell_the_bytes_of_parity() {
    let archive = Archive::new();
    assert_eq!(archive.json(0, &["stats"])["parity_bytes"], 0);
    archive.ran(0, &["repack", "--archive"]);
    let packs = fs::read_dir(archive.path(".turntree/packs")).unwrap();
    let files = packs.map(|entry| entry.unwrap().path()).filter(|path| !is_pack(path));
    let bytes: u64 = files.map(|path| fs::metadata(path).unwrap().len()).sum();
    assert_ne!(bytes, 0);
    assert_eq!(archive.json(0, &["stats"])["parity_bytes"], bytes);
    let told = String::from_utf8(archive.ran(0, &["stats"]).stdout).unwrap();
    assert!(told.lines().any(|line| line.starts_with("parity ")), "{told}");
}

#[test]
fn damaged_ids_of_a_pack_are_told_by_who_notices_them_and_hide_nothing() {
    let store = Archive::new();
    store.ran(0, &["repack"]);
    // The ids are after the header, and no block needs them.
    store.change_pack(|bytes| bytes[128 + 32 * 40] ^= 1);
    let told = |words: &[&str]| {
        let told = String::from_utf8(store.ran(0, words).stderr).unwrap();
        told.matches("the store is damaged: ").count()
    };
    // A scan of the whole store verifies all ids.
    assert_eq!(told(&["stats"]), 1);
    let exported = store.ran(0, &["export", "s", "--format", "source"]);
    assert_eq!(String::from_utf8(exported.stdout).unwrap(), store.transcript);
    store.ran(4, &["gc"]);
    store.ran(1, &["fsck"]);
    store.ran(0, &["repair"]);
    assert_eq!(told(&["stats"]), 0);
    let exported = store.ran(0, &["export", "s", "--format", "source"]);
    assert_eq!(String::from_utf8(exported.stdout).unwrap(), store.transcript);
}
