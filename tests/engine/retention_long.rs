//! A session of ten thousand turns stays as small as a session of a thousand, and keeps everything
//! promised.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use turntree::ErrorKind;
use turntree::context::{MessageEntry, Role};
use turntree::maintenance::{Policy, Scope, auto, fsck, set_policy};
use turntree::object::{Kind, ObjectId, ObjectSink};
use turntree::repo::{BranchName, NewPin, Repository};
use turntree::store::{Durability, OpenOptions, RealIo, Thoroughness};
use turntree_tests::sim::Random;
use turntree_tests::{commit_turn, new_store, stamp};

const TURNS: u64 = 10_000;
const KEEP_LAST: u64 = 100;
const BUDGET: u64 = 4 << 20;
/// The messages in a context when it is compacted, and the messages left.
const WINDOW: u64 = 120;
const LEFT: u64 = 60;

/// The bytes of all files below a folder.
fn disk_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        // The file was removed after the folder was listed.
        Err(_) => 0,
    };
    entries.map(bytes).sum()
}

fn open(dir: &Path, seed: u8) -> Repository {
    let mut options = OpenOptions::new([seed; 16]);
    // The test does not depend on durability.
    options.durability = Durability::None;
    Repository::open(Arc::new(RealIo), dir, options).unwrap()
}

/// Commits a turn on `branch`: a message, a note, and sometimes a compaction of the conversation.
fn turn(repo: &Repository, branch: &BranchName, second: i64, random: &mut Random) -> ObjectId {
    let words = ["retry", "the", "parser", "fails", "on", "an", "empty", "line", "of", "input"];
    let text: Vec<&str> = (0..40 + random.below(60)).map(|_| words[random.below(10)]).collect();
    let record = format!("{{\"second\":{second},\"text\":\"{}\"}}", text.join(" "));
    let (key, section) = (random.below(20).to_string(), "agents/main/messages");
    commit_turn(repo, branch, "turn", &stamp(second), |context, change| {
        let blob = change.write(Kind::Blob, record.into()).unwrap();
        let entry = MessageEntry::new(blob, Role::User, "json");
        context.push_message(change, "main", &entry).unwrap();
        if context.list_len(change, section).unwrap() > WINDOW {
            context.splice(change, section, 0..LEFT, Vec::new()).unwrap();
        }
        let note = Some(format!("at {second}").into());
        context.set_entry(change, "scratchpad", &key, note).unwrap();
    })
}

/// The content that must be readable at the end, and the turns of the main branch.
#[derive(Default)]
struct Promise {
    line: Vec<ObjectId>,
    /// Pins, fork points, and the tips of branches.
    kept: BTreeMap<String, ObjectId>,
}

fn run(dir: &Path, sizes: &mut Vec<(u64, u64)>) -> Promise {
    let repo = open(dir, 2);
    let (main, mut promise, mut random) =
        (BranchName::main("long").unwrap(), Promise::default(), Random(1));
    let mut change = repo.begin();
    let policy =
        Policy { keep_last: Some(KEEP_LAST), budget_bytes: Some(BUDGET), ..Policy::default() };
    set_policy(&mut change, Scope::Session("long"), &policy).unwrap();
    change.commit(&stamp(0), "retention set").unwrap();
    for number in 1..=TURNS {
        let second = i64::try_from(number).unwrap() * 20;
        let id = turn(&repo, &main, second, &mut random);
        promise.line.push(id);
        if number % 1900 == 7 {
            let mut change = repo.begin();
            change.pin(&id, NewPin::default(), &stamp(second)).unwrap();
            change.commit(&stamp(second), "pin").unwrap();
            promise.kept.insert(format!("pin at {number}"), id);
        }
        if number % 250 == 100 && number < 1000 {
            let branch = BranchName::new("long", &format!("try-{number}")).unwrap();
            let mut change = repo.begin();
            change.move_branch(&branch, Some(id));
            change.commit(&stamp(second), "fork").unwrap();
            for step in 1..=3 {
                let tip = turn(&repo, &branch, second + step, &mut random);
                promise.kept.insert(format!("{branch}"), tip);
            }
            promise.kept.insert(format!("branch point {number}"), id);
        }
        // A host does this between turns.
        if auto::step(&repo, &stamp(second)).unwrap().is_some() {
            sizes.push((number, disk_bytes(dir)));
        }
    }
    promise
}

fn messages(repo: &Repository, id: &ObjectId) -> turntree::Result<u64> {
    repo.context(id)?.message_count(repo)
}

#[test]
fn ten_thousand_turns_stay_small_and_keep_protected_turns() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    let _ = new_store(&dir);
    let mut sizes = Vec::new();
    let promise = run(&dir, &mut sizes);

    let repo = open(&dir, 3);
    for (what, id) in &promise.kept {
        assert!(messages(&repo, id).unwrap() > 0, "{what}");
    }
    let main = BranchName::main("long").unwrap();
    let tip = repo.tip(&main).unwrap();
    let kept: Vec<&ObjectId> = promise.kept.values().collect();
    for (number, id) in (1..=TURNS).zip(&promise.line) {
        // Finding a turn is a walk to it, so the test checks only some.
        if number % 41 != 0 && !kept.contains(&id) {
            continue;
        }
        let found = repo.find_turn(&tip, number).and_then(|found| messages(&repo, &found));
        if number > TURNS - KEEP_LAST || kept.contains(&id) {
            assert!(found.is_ok(), "turn {number}: {found:?}");
            assert_eq!(repo.find_turn(&tip, number).unwrap(), *id);
        } else if let Err(error) = found {
            assert_eq!(error.kind(), ErrorKind::Expired, "turn {number}: {error}");
            assert!(error.to_string().contains(&format!("turn {number} of long")), "{error}");
        } else {
            // Turns since the last step, or a few turns before a kept turn.
            let recent = number > TURNS - 2000;
            let beside = promise.line.iter().skip(usize::try_from(number).unwrap()).take(100);
            assert!(recent || beside.into_iter().any(|id| kept.contains(&id)), "turn {number}");
        }
    }

    let now = stamp(300_000).time;
    let report = fsck(&repo, Thoroughness::Full, now, &mut |_, _| {}).unwrap();
    assert!(report.is_ok(), "{:?}", report.findings);
    let late: Vec<&(u64, u64)> = sizes.iter().filter(|(number, _)| *number >= 1000).collect();
    let (smallest, largest) =
        (late.iter().map(|(_, size)| size).min(), late.iter().map(|(_, size)| size).max());
    let (smallest, largest) = (*smallest.unwrap(), *largest.unwrap());
    assert!(late.len() > 5, "maintenance ran: {sizes:?}");
    assert!(largest < BUDGET, "{sizes:?}");
    assert!(largest <= smallest + smallest / 5, "flat from turn 1,000 on: {sizes:?}");
}
