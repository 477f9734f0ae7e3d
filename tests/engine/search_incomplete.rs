//! Searches of a partly expired or damaged history: the rest is searched, and the missing parts are
//! named.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use turntree::context::Selection;
use turntree::maintenance::{Purpose, collect};
use turntree::object::ObjectId;
use turntree::repo::{
    GrepQuery, LinePattern, LogEntry, PatternOptions, PickaxeMatch, PickaxeQuery, Repository,
    SearchFilter, SearchScope,
};
use turntree::store::{OpenOptions, RealIo, Tier};
use turntree::tree::Map;
use turntree_exchange::MessageText;
use turntree_tests::sample::{Sample, open};
use turntree_tests::{Sandbox, claude_code, stamp};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

fn scope(repo: &Repository, session: &str) -> SearchScope {
    let branches = repo.branches().into_iter();
    let own = branches.filter(|(name, _)| name.session() == session);
    SearchScope { starts: own.map(|(name, tip)| (tip, Some(name))).collect(), hide: Vec::new() }
}

/// The matches of `text` by turn, path and blob, and the parts that could not be read.
#[expect(clippy::type_complexity, reason = "it is taken apart at once")]
fn found(
    repo: &Repository,
    scope: &SearchScope,
    text: &str,
) -> turntree::Result<(BTreeSet<(u64, String, ObjectId)>, Vec<String>, Vec<(u64, u64)>)> {
    let pattern = LinePattern::new(text, PatternOptions::default())?;
    let query = GrepQuery {
        pattern: &pattern,
        wanted: SearchFilter::default(),
        lines: Some(1),
        read: &|format, bytes| MessageText::default().read(format, bytes),
        may_hold: None,
    };
    let grep = repo.grep(std::slice::from_ref(scope), query, &|_, _| {})?;
    let mut places = BTreeSet::new();
    for place in grep.places() {
        let lines = grep.found(place)?;
        assert_eq!(lines.count, place.count);
        places.insert((place.turn, format!("{}/{}", place.section, place.key), place.blob));
    }
    let gaps = grep.gaps().list().iter().map(|gap| (gap.first, gap.last)).collect();
    Ok((places, grep.damage().to_vec(), gaps))
}

#[test]
fn expired_turns_are_reported_and_remaining_content_is_found() {
    let sample = Sample::new();
    let repo = open(&sample.copy(), 60);
    let scope = scope(&repo, "one");
    let starts: Vec<ObjectId> = scope.starts.iter().map(|(id, _)| *id).collect();
    let entries: Vec<LogEntry> =
        repo.history(&starts, &[]).unwrap().collect::<Result<_, _>>().unwrap();
    let is_gone = |entry: &&LogEntry| repo.tombstone(&entry.commit.tree).is_some();
    let gone: BTreeSet<u64> = entries.iter().filter(is_gone).map(|e| e.commit.turn).collect();
    assert!(!gone.is_empty() && gone.len() < entries.len());

    let (places, damage, gaps) = found(&repo, &scope, "one").unwrap();
    let named: BTreeSet<u64> = gaps.into_iter().flat_map(|(first, last)| first..=last).collect();
    assert_eq!((named, damage), (gone.clone(), vec![]));
    // Oldest first: each entry belongs to the first existing turn that has it.
    let mut expected = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for entry in entries.iter().rev().filter(|entry| !gone.contains(&entry.commit.turn)) {
        let context = repo.context(&entry.id).unwrap();
        let notes: Map = context.map(&repo, "scratchpad").unwrap();
        for note in notes.iter(&repo) {
            let (key, item) = note.unwrap();
            let path = format!("scratchpad/{}", String::from_utf8_lossy(&key));
            if seen.insert((path.clone(), item.link.id)) {
                expected.insert((entry.commit.turn, path, item.link.id));
            }
        }
    }
    assert_eq!(places, expected);

    let touching = PickaxeQuery { paths: Selection::below(&["scratchpad".to_owned()]), text: None };
    let mut touches = repo.touches(touching);
    for entry in &entries {
        let touch = touches.of(entry).unwrap();
        assert_eq!(touch == PickaxeMatch::Gone, gone.contains(&entry.commit.turn));
    }
    assert!(!touches.gaps().is_empty());

    let mut behind_gaps = 0;
    for entry in entries.iter().filter(|entry| !gone.contains(&entry.commit.turn)) {
        let blame = repo.blame(&entry.id, "scratchpad", false).unwrap();
        for part in &blame.parts {
            assert!(!gone.contains(&part.turn));
            let name = &part.name;
            assert_eq!(part.gap, gone.contains(&(part.turn - 1)), "{name} of turn {}", part.turn);
            behind_gaps += usize::from(part.gap && !blame.gaps.is_empty());
        }
    }
    assert!(behind_gaps > 0);
}

fn only_file(folder: &Path) -> PathBuf {
    fs::read_dir(folder).unwrap().next().unwrap().unwrap().path()
}

fn reopen(store: &Path) -> turntree::Result<Repository> {
    Repository::open(Arc::new(RealIo), store, OpenOptions::new([9; 16]))
}

#[test]
fn damaged_histories_are_searched_partially_with_a_report() {
    let sandbox = Sandbox::new();
    sandbox.import("s", claude_code(400).as_bytes()).unwrap();
    let whole = scope(&sandbox.repo, "s");
    let (all, ..) = found(&sandbox.repo, &whole, "part").unwrap();
    assert!(all.len() > 400);
    let (blobs, store) = (
        |places: &BTreeSet<(u64, String, ObjectId)>| {
            places.iter().map(|(_, _, blob)| *blob).collect::<BTreeSet<_>>()
        },
        sandbox.store_dir(),
    );
    collect(&sandbox.repo, Purpose::Repack(Tier::Hot), &stamp(9), &mut |_| {}).unwrap();
    let pack = only_file(&store.join("packs"));
    let bytes = fs::read(&pack).unwrap();
    let (mut damaged, mut partly) = (0, 0);
    for at in (200..bytes.len()).step_by(bytes.len() / 60) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x55;
        fs::write(&pack, &changed).unwrap();
        let Ok(repo) = reopen(&store) else { continue };
        let scope = scope(&repo, "s");
        if scope.starts != whole.starts {
            continue;
        }
        match found(&repo, &scope, "part") {
            Ok((places, damage, _)) => {
                let (found, all) = (blobs(&places), blobs(&all));
                assert!(found.is_subset(&all), "nothing is made up");
                assert!(found == all || !damage.is_empty(), "the gap at {at} is not reported");
                damaged += usize::from(!damage.is_empty());
                partly += usize::from(!damage.is_empty() && !found.is_empty());
            }
            Err(error) => assert_eq!(error.kind(), turntree::ErrorKind::Corrupt, "{error}"),
        }
    }
    assert!(damaged > 5 && partly > 5, "{damaged} damaged, {partly} of them searched in part");
}

#[test]
fn incomplete_searches_exit_with_code_4() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s.jsonl"), claude_code(400)).unwrap();
    let store = folder.path().join("store");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).current_dir(folder.path()).env("TURNTREE_STORE", &store);
        command.env("TURNTREE_MAINTENANCE", "off").output().unwrap()
    };
    assert!(run(&["init"]).status.success() && run(&["import", "s.jsonl"]).status.success());
    assert_eq!(run(&["grep", "part"]).status.code(), Some(0));
    assert!(run(&["repack"]).status.success());
    // A history index would answer for damaged trees.
    fs::remove_dir_all(store.join("derived")).unwrap();
    let pack = only_file(&store.join("packs"));
    let bytes = fs::read(&pack).unwrap();
    let ended = (1..24).map(|part| {
        let mut changed = bytes.clone();
        changed[bytes.len() * part / 24] ^= 0x55;
        fs::write(&pack, changed).unwrap();
        let output = run(&["grep", "-l", "part"]);
        (output.status.code(), !output.stdout.is_empty(), output.stderr)
    });
    let partly = ended.filter(|(code, said, stderr)| {
        assert!(matches!(code, Some(0 | 4 | 6)), "{}", String::from_utf8_lossy(stderr));
        *code == Some(4) && *said && String::from_utf8_lossy(stderr).contains("not searched: ")
    });
    assert!(partly.count() > 2);
}
