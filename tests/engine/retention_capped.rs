//! A policy of the newest hundred turns plus pins: a session of a thousand turns stays small, kept
//! turns are restored byte for byte, and the others are reported as expired with the turns that
//! remain.

use std::collections::BTreeMap;
use std::error::Error as _;

use turntree::ErrorKind;
use turntree::context::{Builder, FileEntry, FileMode};
use turntree::maintenance::{Policy, Purpose, Scope, collect, set_policy};
use turntree::object::{Kind, ObjectId, ObjectSource, Trigger};
use turntree::repo::{Availability, BranchName, NewPin, Repository, SnapshotDraft};
use turntree_tests::sim::Random;
use turntree_tests::{Sandbox, stamp};

const TURNS: u64 = 1000;
const CAP: u64 = 100;
/// The bytes that the store may grow by once it is full: pins, and the records of expired turns.
const SLACK: u64 = 128 << 10;

type Files = BTreeMap<String, String>;

fn branch() -> BranchName {
    BranchName::main("design").unwrap()
}

/// Rewrites two of the files, as a tool would, and sometimes none.
fn edit(files: &mut Files, turn: u64, random: &mut Random) {
    if turn.is_multiple_of(37) {
        return;
    }
    for _ in 0..2 {
        let words: Vec<String> = (0..200).map(|_| random.below(1000).to_string()).collect();
        let path = format!("src/{}.css", random.below(6));
        files.insert(path, format!("/* {turn} */ {}", words.join(" ")));
    }
}

fn snapshot(repo: &Repository, files: &Files, second: i64, is_pinned: bool) -> ObjectId {
    let stamp = stamp(second);
    let mut change = repo.begin();
    let mut builder = Builder::new();
    for (path, text) in files {
        let file = Some((FileMode::Regular, text.clone().into()));
        builder.set_file(&mut change, path, file).unwrap();
    }
    let mut draft =
        SnapshotDraft::new(builder.write(&mut change).unwrap(), "before fs.write", &stamp);
    draft.trigger = Trigger::BeforeTool;
    let id = change.snapshot(&branch(), draft).unwrap();
    if is_pinned {
        change.pin(&id, NewPin::default(), &stamp).unwrap();
    }
    change.commit(&stamp, "snapshot").unwrap();
    id
}

fn read(repo: &Repository, turn: u64) -> turntree::Result<Files> {
    let id = repo.find_turn(&repo.tip(&branch()).unwrap(), turn)?;
    let mut files = Files::new();
    for entry in repo.context(&id)?.map(repo, "files")?.iter(repo) {
        let (path, item) = entry?;
        let bytes = repo.read_as(Kind::Blob, &FileEntry::from_item(&item)?.blob)?;
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        files.insert(String::from_utf8(path.to_vec()).unwrap(), text);
    }
    Ok(files)
}

fn disk_bytes(folder: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let bytes = |entry: std::fs::DirEntry| match entry.metadata().unwrap() {
        metadata if metadata.is_dir() => disk_bytes(&entry.path()),
        metadata => metadata.len(),
    };
    entries.map(bytes).sum()
}

#[test]
fn a_thousand_turns_stay_under_the_turn_limit() {
    for seed in 1..=2 {
        let (sandbox, mut random) = (Sandbox::new(), Random(seed));
        let repo = &sandbox.repo;
        let mut change = repo.begin();
        let policy = Policy { keep_last: Some(CAP), ..Policy::default() };
        set_policy(&mut change, Scope::Session("design"), &policy).unwrap();
        change.commit(&stamp(0), "retention set").unwrap();
        let (mut files, mut turns, mut pins) = (Files::new(), Vec::new(), Vec::new());
        let mut sizes = Vec::new();
        for turn in 1..=TURNS {
            let second = i64::try_from(turn).unwrap();
            edit(&mut files, turn, &mut random);
            let is_pinned = random.below(60) == 0;
            snapshot(repo, &files, second, is_pinned);
            pins.extend(is_pinned.then_some(turn));
            turns.push(files.clone());
            if turn.is_multiple_of(200) {
                collect(repo, Purpose::Gc, &stamp(second), &mut |_| {}).unwrap();
                sizes.push(disk_bytes(&sandbox.store_dir()));
            }
        }
        let (first, last) = (sizes[1], *sizes.last().unwrap());
        assert!(last < first + SLACK, "seed {seed}: {sizes:?} with {} pins", pins.len());

        // The pinned turns, and the newest hundred of the rest.
        let newest = (1..=TURNS).rev().filter(|turn| !pins.contains(turn)).take(CAP as usize);
        let mut kept: Vec<u64> = newest.chain(pins.iter().copied()).collect();
        kept.sort_unstable();
        let content = |turn: u64| &turns[usize::try_from(turn - 1).unwrap()];
        let repo = sandbox.reopened();
        let (oldest, mut found) = (kept[0], Vec::new());
        for turn in 1..=TURNS {
            match read(&repo, turn) {
                Ok(files) => {
                    assert_eq!(&files, content(turn), "seed {seed}, turn {turn}");
                    found.push(turn);
                }
                Err(error) => {
                    assert_eq!(
                        error.kind(),
                        ErrorKind::Expired,
                        "seed {seed}, turn {turn}: {error}"
                    );
                    let left = error.source().unwrap().downcast_ref::<Availability>().unwrap();
                    let unpinned = left.oldest.as_ref().map(|turn| turn.turn);
                    let least = unpinned.into_iter().chain(left.pinned.iter().map(|pin| pin.turn));
                    assert!(
                        least.min().is_some_and(|least| least <= oldest),
                        "turn {turn}: {left}"
                    );
                    assert_eq!(left.pinned.len(), pins.len(), "turn {turn}");
                }
            }
        }
        // A turn that changed nothing needs no space, so it stays with the kept turn that it
        // equals.
        let is_equal = |turn: &u64| kept.iter().any(|kept| content(*kept) == content(*turn));
        found.retain(|turn| kept.contains(turn) || !is_equal(turn));
        assert_eq!(found, kept, "seed {seed}");
    }
}
