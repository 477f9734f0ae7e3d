//! Interference by users and other programs with the files of a store in use: files that are
//! deleted or replaced, a directory that moves, a clock that jumps.

use std::fs;

use rustix::process::Signal;
use turntree::ErrorKind;
use turntree::repo::Repository;

use super::content::{Prover, full};
use super::paused_process::is_locked;
use super::processes::{Started, turntree, worker};
use super::site::Site;
use super::{Effort, Figures};

/// The turns of each earlier writer.
const TURNS: u64 = 8;

/// A kind of interference: its name, and its function.
type Interference = (&'static str, fn(&mut Site<'_>));

const KINDS: &[Interference] = &[
    ("a superblock that is deleted and put back", superblock_away),
    ("a superblock that another store has replaced", superblock_replaced),
    ("a directory that moves away and returns", directory_away),
    ("another store in the place of one that is open", directory_replaced),
    ("a segment that is moved away from its writer and put back", segment_away),
    ("a pack that is deleted and put back", pack_away),
    ("a manifest that is deleted", manifests_gone),
    ("a lock file of collections that is deleted", collector_file_gone),
    ("a clock that jumps", clock_jumps),
];

/// Tries every kind, and two collectors at the same time in every call of one of them.
///
/// # Panics
/// If a promise is broken.
#[must_use]
pub fn run(effort: &Effort) -> Figures {
    let mut figures = Figures::default();
    for (what, meddle) in KINDS {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut site = Site::new(effort, &folder.path().join("store"));
        let _step = Step(what);
        site.fill("one", TURNS);
        meddle(&mut site);
        site.check();
    }
    figures.add("kinds of interference", KINDS.len());
    figures.add("calls in which a second collector came", two_collectors(effort));
    figures
}

/// The current step, printed if a promise is broken.
struct Step<'a>(&'a str);

impl Drop for Step<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("external interference: {}", self.0);
        }
    }
}

/// Stops a collector in each of its calls, deletes its lock file, and lets other processes collect.
/// Then the collector continues.
fn two_collectors(effort: &Effort) -> u64 {
    for call in 1.. {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut site = Site::new(effort, &folder.path().join("store"));
        site.fill("one", TURNS);
        site.fill("other", TURNS);
        let _ = site.run(&["repack", "--tier", "hot"]).expect(&[0]);
        site.fill("one", TURNS);
        let what = format!("repack, stopped in call {call}");
        let _step = Step(&what);
        let words = ["7", &call.to_string(), "repack"].map(str::to_owned);
        let words = words.each_ref().map(String::as_str);
        let mut stopped = Started::new(&*what, &mut worker(effort, &site.dir, "stops", &words));
        if !stopped.wait_until_stopped() {
            let _ = stopped.end().expect(&[0]);
            return call - 1;
        }
        let _ = fs::remove_file(site.dir.join("collector"));
        // With the ref lock it blocks all others, so nothing can happen.
        if !is_locked(&site.dir.join("superblock")) {
            for words in [&["repack", "--archive"][..], &["gc"]] {
                let _ = site.run(words).expect(&[0, 5]);
            }
        }
        stopped.signal(Signal::CONT);
        // Either it reports an error, or it is done.
        let _ = stopped.end().expect(&[0, 1, 5]);
        site.check();
    }
    0
}

/// Checks that everything reachable from a handle's branches can be read.
fn read_all(repo: &Repository) {
    let mut prover = Prover::new(repo);
    for (branch, tip) in repo.branches() {
        for entry in repo.history(&[tip], &[]).expect("the history") {
            let entry = entry.unwrap_or_else(|error| panic!("{branch}: {}", full(&error)));
            let turn = prover.turn(&entry.id, &entry.commit);
            turn.unwrap_or_else(|wrong| panic!("{branch}: {wrong}"));
        }
    }
}

#[track_caller]
fn refused(site: &mut Site<'_>, repo: &Repository, kinds: &[ErrorKind]) {
    match site.commit(repo, "refused") {
        Ok(id) => panic!("commit {id} was acknowledged, and no file contains it"),
        Err(error) => assert!(kinds.contains(&error.kind()), "{}", full(&error)),
    }
}

fn superblock_away(site: &mut Site<'_>) {
    let (writer, reader) = (site.open(), site.open());
    site.commit(&writer, "one").expect("a commit");
    let (superblock, kept) = (site.dir.join("superblock"), site.dir.join("kept"));
    fs::rename(&superblock, &kept).expect("a rename");
    refused(site, &writer, &[ErrorKind::NotFound, ErrorKind::Corrupt]);
    read_all(&reader);
    let _ = site.run(&["log", "one"]).expect(&[4, 6]);
    let _ = site.run(&["gc"]).expect(&[4, 6]);
    fs::rename(&kept, &superblock).expect("a rename");
    site.commit(&writer, "one").expect("a commit once it is back");
}

fn superblock_replaced(site: &mut Site<'_>) {
    let writer = site.open();
    site.commit(&writer, "one").expect("a commit");
    let other = site.dir.with_file_name("other");
    let _ = Site::new(site.effort, &other);
    let (superblock, kept) = (site.dir.join("superblock"), site.dir.join("kept"));
    fs::rename(&superblock, &kept).expect("a rename");
    // The same bytes in another file, so a new handle locks another file.
    fs::copy(&kept, &superblock).expect("a copy");
    refused(site, &writer, &[ErrorKind::Conflict]);
    drop(writer);
    let _ = site.snapshot().expect(&[0]);
    fs::remove_file(&kept).expect("it goes");
}

fn directory_away(site: &mut Site<'_>) {
    let (writer, reader) = (site.open(), site.open());
    site.commit(&writer, "one").expect("a commit");
    let away = site.dir.with_file_name("away");
    fs::rename(&site.dir, &away).expect("a rename");
    refused(site, &writer, &[ErrorKind::NotFound, ErrorKind::Io]);
    read_all(&reader);
    let _ = site.run(&["log", "one"]).expect(&[6]);
    assert!(!site.dir.exists(), "looking at it has made a new one");
    fs::rename(&away, &site.dir).expect("a rename");
    site.commit(&writer, "one").expect("a commit once it is back");
}

fn directory_replaced(site: &mut Site<'_>) {
    let (writer, reader) = (site.open(), site.open());
    site.commit(&writer, "one").expect("a commit");
    let away = site.dir.with_file_name("away");
    fs::rename(&site.dir, &away).expect("a rename");
    let other = Site::new(site.effort, &site.dir);
    refused(site, &writer, &[ErrorKind::Conflict, ErrorKind::NotFound]);
    read_all(&reader);
    drop((writer, reader, other));
    let untouched = super::invariants::files(&site.dir.join("journal"));
    assert!(untouched.is_empty(), "something was written to another store: {untouched:?}");
    fs::remove_dir_all(&site.dir).expect("it goes");
    fs::rename(&away, &site.dir).expect("a rename");
}

/// A commit to a segment without a name must not be acknowledged: if the segment never returns, the
/// commit is lost.
fn segment_away(site: &mut Site<'_>) {
    let writer = site.open();
    site.commit(&writer, "one").expect("a commit");
    let segment = super::invariants::files(&site.dir.join("journal")).pop().expect("a segment");
    let kept = site.dir.with_file_name("kept");
    fs::rename(&segment, &kept).expect("a rename");
    refused(site, &writer, &[ErrorKind::NotFound, ErrorKind::Io]);
    fs::rename(&kept, &segment).expect("a rename");
    site.commit(&writer, "one").expect("a commit once it is back");
}

fn pack_away(site: &mut Site<'_>) {
    let _ = site.run(&["repack"]).expect(&[0]);
    site.fill("other", 1);
    let reader = site.open();
    let files = super::invariants::files(&site.dir.join("packs")).into_iter();
    let mut packs = files.filter(|path| path.extension().is_some_and(|end| end == "pack"));
    let pack = packs.next_back().expect("a pack");
    let kept = site.dir.with_file_name("kept");
    fs::rename(&pack, &kept).expect("a rename");
    // Open files stay open.
    read_all(&reader);
    let _ = site.run(&["fsck"]).expect(&[1]);
    let _ = site.run(&["cat", "one:scratchpad/turn"]).expect(&[4, 6]);
    let _ = site.run(&["gc"]).expect(&[4]);
    let _ = site.run(&["repack"]).expect(&[4]);
    fs::rename(&kept, &pack).expect("a rename");
}

fn manifests_gone(site: &mut Site<'_>) {
    let _ = site.run(&["repack"]).expect(&[0]);
    let writer = site.open();
    for path in super::invariants::files(&site.dir) {
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("manifest-")) {
            fs::remove_file(path).expect("it goes");
        }
    }
    let refused = site.snapshot().expect(&[4]);
    assert!(refused.stderr.contains("turntree repair"), "{}", refused.stderr);
    let _ = site.run(&["gc"]).expect(&[4]);
    // An open handle knows the content of all manifests, and its commit is found again.
    let _ = site.commit(&writer, "one");
    drop(writer);
    let _ = site.run(&["repair"]).expect(&[0]);
}

fn collector_file_gone(site: &mut Site<'_>) {
    let _ = site.run(&["gc"]).expect(&[0]);
    fs::remove_file(site.dir.join("collector")).expect("it goes");
    let _ = site.run(&["repack"]).expect(&[0]);
}

/// Turns are ordered by number, so a clock jump changes only the displayed times. A policy by age
/// uses the clock of the collecting process, but never expires a tip.
fn clock_jumps(site: &mut Site<'_>) {
    for now in ["2026-11-20T10:00:00Z", "2001-01-01T00:00:00Z", "2099-12-31T23:59:59Z"] {
        let (words, number) = site.turn();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ended = at(site, now, &words).end().expect(&[0]);
        site.note(&ended, number);
        let _ = at(site, now, &["gc"]).end().expect(&[0]);
        let _ = at(site, now, &["repack"]).end().expect(&[0]);
    }
    let log = site.run(&["log", "cli", "--json"]).expect(&[0]);
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    let turns: Vec<u64> = log.lines().filter_map(turn_of).collect();
    assert_eq!(turns, [3, 2, 1], "{log}");
}

fn turn_of(record: &str) -> Option<u64> {
    let (_, rest) = record.split_once("\"turn\":")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn at(site: &Site<'_>, now: &str, words: &[&str]) -> Started {
    let mut command = turntree(site.effort, &site.dir, words);
    Started::new(format!("{} at {now}", words.join(" ")), command.env("TURNTREE_NOW", now))
}
