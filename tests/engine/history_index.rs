//! The history index agrees with the trees, and a store without it gives the same answers.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use proptest::prelude::*;
use turntree::Error;
use turntree::context::{MessageEntry, Role, Selection};
use turntree::maintenance::{
    FsckKind, Pattern, Policy, Purpose, Scope, collect, fsck, redact, set_policy,
};
use turntree::object::{Kind, ObjectId, ObjectSink};
use turntree::repo::{BranchName, LogEntry, PickaxeMatch, PickaxeQuery, Repository, SearchScope};
use turntree::store::{OpenOptions, RealIo, StoreCipher, StoreKey, Thoroughness, Tier};
use turntree_tests::checksums::{derived_file, derived_parts, node_frames};
use turntree_tests::random_history::{MESSAGES, RandomHistory, steps};
use turntree_tests::{Sandbox, claude_code, commit_note, commit_turn, stamp};

const PATHS: [&str; 8] = [
    "",
    "files",
    "files/dir/c",
    "scratchpad/a",
    "scratchpad",
    "agents",
    MESSAGES,
    "agents/main/messages/1",
];

const KEY: StoreKey = StoreKey::of(StoreCipher::Aes256Ctr, [3; 32]);

/// The derived files of a store, by name.
fn derived(sandbox: &Sandbox) -> BTreeMap<String, Vec<u8>> {
    let Ok(files) = fs::read_dir(folder(sandbox)) else { return BTreeMap::new() };
    let named = |path: PathBuf| {
        (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap())
    };
    files.map(|entry| named(entry.unwrap().path())).collect()
}

fn folder(sandbox: &Sandbox) -> PathBuf {
    sandbox.store_dir().join("derived")
}

/// The names of the derived files that the packs of a store should have.
fn expected(sandbox: &Sandbox) -> Vec<String> {
    let packs = fs::read_dir(sandbox.store_dir().join("packs")).unwrap();
    let names = packs.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names = names.filter_map(|name| Some(name.strip_suffix(".pack")?.to_owned() + ".changes"));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn run(repo: &Repository, purpose: Purpose, second: i64) {
    collect(repo, purpose, &stamp(second), &mut |_| {}).unwrap();
}

fn history(repo: &Repository) -> Vec<LogEntry> {
    let tips: Vec<ObjectId> = repo.branches().into_iter().map(|(_, tip)| tip).collect();
    repo.history(&tips, &[]).unwrap().map(Result::unwrap).collect()
}

/// True if a turn touches a path, or a text below it.
fn touches(
    repo: &Repository,
    entries: &[LogEntry],
    path: &str,
    text: Option<&str>,
) -> Vec<Result<PickaxeMatch, String>> {
    let count = |bytes: &[u8]| {
        String::from_utf8_lossy(bytes).matches(text.unwrap_or_default()).count() as u64
    };
    let read = |_: &str, bytes: &[u8]| Some(String::from_utf8_lossy(bytes).into_owned());
    let paths: Vec<String> = (!path.is_empty()).then(|| path.to_owned()).into_iter().collect();
    let text = text.map(|_| (&count as turntree::repo::Count<'_>, &read as _));
    let mut touches = repo.touches(PickaxeQuery { paths: Selection::below(&paths), text });
    entries.iter().map(|entry| touches.of(entry).map_err(|error| error.to_string())).collect()
}

/// Commits enough turns of another session that an index is worth a file.
fn fill(repo: &Repository) {
    let branch = BranchName::main("filler").unwrap();
    for second in 1..=32 {
        commit_note(repo, &branch, ("filler", &second.to_string()), &stamp(second));
    }
}

/// The answers to every history query of these tests.
fn answers(repo: &Repository) -> Vec<String> {
    let entries = history(repo);
    let mut told = Vec::new();
    for path in PATHS {
        for text in [None, Some("alpha"), Some("é")] {
            told.push(format!("{path} {text:?}: {:?}", touches(repo, &entries, path, text)));
        }
        for (branch, tip) in repo.branches() {
            let blame = repo.blame(&tip, path, false).map_err(|error: Error| error.to_string());
            told.push(format!("{branch} {path}: {blame:?}"));
        }
    }
    told
}

turntree_properties::properties! {
    cases = 16;

    #[test]
    fn history_queries_are_equal_with_and_without_the_index(
        steps in steps(),
        later in prop::collection::vec(0..6_usize, 0..3),
        tier in prop::sample::select(&Tier::ALL[..]),
        expires: bool,
    ) {
        let history = RandomHistory::new(&steps);
        let sandbox = &history.sandbox;
        fill(&sandbox.repo);
        run(&sandbox.repo, Purpose::Repack(tier), 90);
        for (second, word) in (91..).zip(later) {
            let branch = BranchName::main(["s", "other"][word % 2]).unwrap();
            commit_note(&sandbox.repo, &branch, ("a", &format!("alpha {word}")), &stamp(second));
        }
        if expires {
            let policy = Policy { keep_last: Some(2), strict: true, ..Policy::default() };
            let mut change = sandbox.repo.begin();
            set_policy(&mut change, Scope::Session("s"), &policy).unwrap();
            change.commit(&stamp(95), "a policy").unwrap();
            run(&sandbox.repo, Purpose::GcNow, 96);
        }
        let repo = sandbox.reopened();
        let with = answers(&repo);
        let report = fsck(&repo, Thoroughness::Full, stamp(99).time, &mut |_, _| {}).unwrap();
        prop_assert!(report.findings.is_empty(), "{:?}", report.findings);
        prop_assert!(!derived(sandbox).is_empty());
        fs::remove_dir_all(folder(sandbox)).unwrap();
        prop_assert_eq!(with, answers(&sandbox.reopened()));
    }
}

#[test]
fn collections_keep_exactly_one_history_index_per_pack() {
    let sandbox = Sandbox::new();
    fill(&sandbox.repo);
    run(&sandbox.repo, Purpose::Repack(Tier::Hot), 10);
    let first = derived(&sandbox);
    assert_eq!(first.keys().cloned().collect::<Vec<_>>(), expected(&sandbox));
    fill(&sandbox.repo);
    sandbox.import("other", claude_code(50).as_bytes()).unwrap();
    run(&sandbox.repo, Purpose::Gc, 20);
    let second = derived(&sandbox);
    assert_eq!(second.keys().cloned().collect::<Vec<_>>(), expected(&sandbox));
    run(&sandbox.repo, Purpose::Repack(Tier::Archive), 30);
    let third = derived(&sandbox);
    assert_eq!(third.keys().cloned().collect::<Vec<_>>(), expected(&sandbox));
    assert!(third.keys().all(|name| !first.contains_key(name) && !second.contains_key(name)));
    // The next collection adds indexes to a store that has none, and deletes foreign
    // ones.
    fs::remove_dir_all(folder(&sandbox)).unwrap();
    fs::create_dir(folder(&sandbox)).unwrap();
    fs::write(folder(&sandbox).join(first.keys().next().unwrap()), "old").unwrap();
    fs::write(folder(&sandbox).join("x.tmp"), "died").unwrap();
    let report = fsck(&sandbox.repo, Thoroughness::Full, stamp(31).time, &mut |_, _| {});
    let report = report.unwrap();
    assert!(report.is_ok() && report.findings.len() == 2, "{:?}", report.findings);
    run(&sandbox.repo, Purpose::Gc, 32);
    assert!(derived(&sandbox) == third, "the same packs have the same index");
}

#[test]
fn damaged_history_indexes_are_ignored_and_rebuilt() {
    let sandbox = Sandbox::new();
    fill(&sandbox.repo);
    sandbox.import("s", claude_code(30).as_bytes()).unwrap();
    run(&sandbox.repo, Purpose::Repack(Tier::Compacted), 10);
    let whole = derived(&sandbox);
    let (name, bytes) = whole.first_key_value().unwrap();
    let expected = answers(&sandbox.reopened());
    let path = folder(&sandbox).join(name);
    for at in (0..bytes.len()).step_by(bytes.len() / 8) {
        let (mut flipped, cut) = (bytes.clone(), bytes[..at].to_vec());
        flipped[at] ^= 0x10;
        for damaged in [flipped, cut] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(answers(&sandbox.reopened()), expected);
        }
    }
    // The index of another pack is ignored too.
    let other = Sandbox::new();
    fill(&other.repo);
    other.import("s", claude_code(31).as_bytes()).unwrap();
    run(&other.repo, Purpose::Repack(Tier::Compacted), 10);
    fs::write(&path, derived(&other).into_values().next().unwrap()).unwrap();
    assert_eq!(answers(&sandbox.reopened()), expected);
    let report = fsck(&sandbox.repo, Thoroughness::Full, stamp(11).time, &mut |_, _| {});
    let report = report.unwrap();
    assert!(report.is_ok(), "{:?}", report.findings);
    assert!(report.findings[0].message.contains("damaged"), "{:?}", report.findings);
    run(&sandbox.reopened(), Purpose::Gc, 12);
    assert!(derived(&sandbox) == whole);
}

#[test]
fn the_history_index_answers_for_packed_turns_without_trees() {
    let sandbox = Sandbox::new();
    fill(&sandbox.repo);
    let session = claude_code(60);
    let tip = sandbox.import("s", session.as_bytes()).unwrap().head;
    run(&sandbox.repo, Purpose::Repack(Tier::Hot), 10);
    let ask = || {
        let repo = sandbox.reopened();
        let entries = history(&repo);
        [MESSAGES, "scratchpad"].map(|path| touches(&repo, &entries, path, None))
    };
    let expected = ask();
    let pack =
        fs::read_dir(sandbox.store_dir().join("packs")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&pack).unwrap();
    for frame in node_frames(&bytes) {
        bytes[frame.start] ^= 1;
    }
    fs::write(&pack, &bytes).unwrap();
    assert_eq!(ask(), expected);
    assert!(sandbox.reopened().context(&tip).is_err(), "no tree can be read");
    fs::remove_dir_all(folder(&sandbox)).unwrap();
    assert_ne!(ask(), expected);
}

#[test]
fn forged_history_indexes_are_reported_and_hide_nothing_from_redactions() {
    let sandbox = Sandbox::new();
    let branch = BranchName::main("s").unwrap();
    for second in 1..=40 {
        commit_note(&sandbox.repo, &branch, ("a", &format!("secret {second}")), &stamp(second));
    }
    run(&sandbox.repo, Purpose::Repack(Tier::Hot), 10);
    // The index claims that nothing has changed.
    let name = forge(&sandbox, &[], &[0]);
    let repo = sandbox.reopened();
    let entries = history(&repo);
    let told = touches(&repo, &entries, "scratchpad", None);
    assert_eq!(told.iter().filter(|found| **found == Ok(PickaxeMatch::Yes)).count(), 1, "{told:?}");
    // Arrivals, which callers may store, are not read from the index.
    let starts = vec![(repo.tip(&branch).unwrap(), None)];
    let arrivals = repo.arrivals(&SearchScope { starts, hide: Vec::new() }).unwrap();
    let brought = arrivals.between(0, 40).into_iter().map(|(arrived, _)| arrived.len());
    assert_eq!(brought.collect::<Vec<_>>(), [1; 40]);
    let report = fsck(&repo, Thoroughness::Full, stamp(11).time, &mut |_, _| {}).unwrap();
    assert!(!report.is_ok());
    let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
    assert_eq!((finding.kind, &*finding.place), (FsckKind::Damaged, &*format!("derived/{name}")));
    let redacted =
        redact(&repo, &Pattern::literal("secret", "[gone]").unwrap(), &stamp(12)).unwrap();
    assert_eq!(redacted.rewritten.blobs, 40);
    let repo = sandbox.reopened();
    let report = fsck(&repo, Thoroughness::Full, stamp(13).time, &mut |_, _| {}).unwrap();
    assert!(report.is_ok(), "{:?}", report.findings);
    let told = touches(&repo, &history(&repo), "scratchpad", None);
    assert!(told.iter().all(|found| *found == Ok(PickaxeMatch::Yes)), "{told:?}");
}

/// Replaces the index of the only pack by one that records the same for every pair of objects that
/// are close together. Returns its name.
fn forge(sandbox: &Sandbox, texts: &[&str], record: &[u8]) -> String {
    let (name, _) = derived(sandbox).pop_first().unwrap();
    let near = |new: u64| (new.saturating_sub(12)..new + 12).map(move |old| (new, old));
    let pairs: Vec<(u64, u64)> = (0..300).flat_map(near).collect();
    let mut head = Vec::new();
    push(&mut head, texts.len() as u64);
    for text in texts {
        push(&mut head, text.len() as u64);
        head.extend_from_slice(text.as_bytes());
    }
    head.extend_from_slice(&[0, 1]);
    push(&mut head, pairs.len() as u64);
    let records = record.repeat(pairs.len());
    let mut last = 0;
    for (new, old) in pairs {
        push(&mut head, distance(2 * new, last));
        push(&mut head, distance(2 * old + 1, 2 * new));
        push(&mut head, record.len() as u64);
        last = 2 * new;
    }
    let forged = derived_file(&[head, records], [7; 16], &name);
    fs::write(folder(sandbox).join(&name), forged).unwrap();
    name
}

#[test]
fn redactions_remove_words_from_any_history_index() {
    let sandbox = Sandbox::new();
    fill(&sandbox.repo);
    run(&sandbox.repo, Purpose::Repack(Tier::Hot), 33);
    forge(&sandbox, &["a-token-in-a-key"], &[0]);
    let holds = || {
        let told = derived(&sandbox).into_values().flat_map(|file| derived_parts(&file));
        told.map(|part| part.windows(5).any(|it| it == b"token")).collect::<Vec<_>>()
    };
    assert!(holds().contains(&true));
    redact(&sandbox.repo, &Pattern::literal("token", "gone").unwrap(), &stamp(34)).unwrap();
    let held = holds();
    assert!(!held.is_empty() && !held.contains(&true), "{held:?}");
}

#[test]
fn implausible_section_names_in_an_index_are_rejected() {
    let sandbox = Sandbox::new();
    let branch = BranchName::main("s").unwrap();
    for second in 1..=40 {
        commit_note(&sandbox.repo, &branch, ("a", &format!("note {second}")), &stamp(second));
    }
    run(&sandbox.repo, Purpose::Repack(Tier::Hot), 10);
    // Sections with names of a megabyte. The random part keeps the compression ratio of the file
    // plausible.
    let mut random = turntree_tests::sim::Random(1);
    let noise: String = (0..400).map(|_| random.draw().to_string()).collect();
    let long = noise + &"n".repeat(1 << 20);
    for (sections, is_believed) in [(4, true), (400, false)] {
        let mut record = Vec::new();
        push(&mut record, sections);
        (0..sections).for_each(|_| record.extend_from_slice(&[0, 0]));
        forge(&sandbox, &[&long], &record);
        let repo = sandbox.reopened();
        let told = touches(&repo, &history(&repo), "scratchpad", None);
        let yes = told.iter().filter(|found| **found == Ok(PickaxeMatch::Yes)).count();
        // The index records nothing of the first turn in either case.
        assert_eq!(yes, if is_believed { 1 } else { 40 }, "{sections} sections");
    }
}

/// Appends a varint.
fn push(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// The distance of a number from another, in the encoding of the index.
fn distance(to: u64, from: u64) -> u64 {
    if to >= from { (to - from) * 2 } else { (from - to) * 2 - 1 }
}

#[test]
fn redactions_and_expirations_remove_names_from_the_history_index() {
    for expires in [false, true] {
        let sandbox = Sandbox::new();
        let branch = BranchName::main("s").unwrap();
        commit_note(&sandbox.repo, &branch, ("a-token-in-a-key", "text"), &stamp(1));
        fill(&sandbox.repo);
        run(&sandbox.repo, Purpose::Repack(Tier::Hot), 2);
        let turn = |second| {
            commit_turn(&sandbox.repo, &branch, "a turn", &stamp(second), |context, change| {
                context.set_entry(change, "scratchpad", "a-token-in-a-key", None).unwrap();
                context
                    .set_entry(change, "scratchpad", "b", Some(second.to_string().into()))
                    .unwrap();
            });
        };
        (3..=42).for_each(turn);
        run(&sandbox.repo, Purpose::Repack(Tier::Hot), 43);
        let before = derived(&sandbox);
        match expires {
            false => {
                let pattern = Pattern::literal("token", "gone").unwrap();
                redact(&sandbox.repo, &pattern, &stamp(50)).unwrap();
            }
            true => {
                let policy = Policy { keep_last: Some(40), strict: true, ..Policy::default() };
                let mut change = sandbox.repo.begin();
                set_policy(&mut change, Scope::Session("s"), &policy).unwrap();
                change.commit(&stamp(50), "a policy").unwrap();
                run(&sandbox.repo, Purpose::GcNow, 51);
            }
        }
        let after = derived(&sandbox);
        assert!(!after.is_empty());
        assert!(after.values().all(|bytes| before.values().all(|before| before != bytes)));
        // A rebuild from the current packs gives the same index.
        fs::remove_dir_all(folder(&sandbox)).unwrap();
        run(&sandbox.reopened(), Purpose::Gc, 52);
        assert!(after == derived(&sandbox));
    }
}

#[test]
fn history_indexes_of_encrypted_stores_are_encrypted() {
    let sandbox = Sandbox::new();
    fill(&sandbox.repo);
    sandbox.import("s", claude_code(30).as_bytes()).unwrap();
    run(&sandbox.repo, Purpose::Repack(Tier::Hot), 10);
    let (plain, expected) = (derived(&sandbox), answers(&sandbox.reopened()));
    sandbox.repo.store().change_encryption(Some(KEY), [9; 16]).unwrap();
    assert!(derived(&sandbox).is_empty(), "they are rebuilt, and not converted");
    let open = |seed| {
        let options = OpenOptions { keys: Some(KEY.into()), ..OpenOptions::new([seed; 16]) };
        Repository::open(Arc::new(RealIo), &sandbox.store_dir(), options).unwrap()
    };
    run(&open(4), Purpose::Gc, 11);
    let enciphered = derived(&sandbox);
    assert_eq!(enciphered.keys().collect::<Vec<_>>(), plain.keys().collect::<Vec<_>>());
    for (name, bytes) in &enciphered {
        let (whole, magic) = (&plain[name], &plain[name][..8]);
        assert!(bytes.windows(8).all(|part| part != magic) && bytes.len() >= whole.len());
    }
    let repo = open(5);
    assert_eq!(answers(&repo), expected);
    let report = fsck(&repo, Thoroughness::Full, stamp(12).time, &mut |_, _| {}).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn metadata_changes_of_items_are_changes() {
    let sandbox = Sandbox::new();
    let branch = BranchName::main("s").unwrap();
    fill(&sandbox.repo);
    for (second, media) in [(1, "quiet"), (2, "loud")] {
        commit_turn(&sandbox.repo, &branch, media, &stamp(second), |context, change| {
            let blob = change.write(Kind::Blob, "alpha".into()).unwrap();
            let said = MessageEntry::new(blob, Role::User, media).to_item().unwrap();
            context.set_list(change, MESSAGES, vec![said]).unwrap();
        });
    }
    run(&sandbox.repo, Purpose::Repack(Tier::Hot), 3);
    let count = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'!').count() as u64;
    let read = |media: &str, bytes: &[u8]| {
        let end = if media == "loud" { "!" } else { "" };
        Some(String::from_utf8_lossy(bytes).into_owned() + end)
    };
    let ask = || {
        let repo = sandbox.reopened();
        let text = Some((&count as turntree::repo::Count<'_>, &read as _));
        let mut touches = repo.touches(PickaxeQuery { paths: Selection::default(), text });
        let entries = history(&repo);
        let of_session = entries.iter().filter(|entry| entry.commit.session == "s");
        of_session.map(|entry| touches.of(entry).unwrap()).collect::<Vec<_>>()
    };
    let told = ask();
    assert_eq!(told, [PickaxeMatch::Yes, PickaxeMatch::No], "the second turn is louder");
    fs::remove_dir_all(folder(&sandbox)).unwrap();
    assert_eq!(told, ask());
}
