//! A search by contents finds the same as a search through history, for any store and any damage.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use turntree::Error;
use turntree::maintenance::{Pattern, Policy, Purpose, Scope, collect, redact, set_policy};
use turntree::object::{Kind, ObjectId};
use turntree::repo::{
    BranchName, Gaps, Grep, GrepPlace, GrepQuery, LinePattern, MayHold, PatternOptions, Repository,
    SearchFilter, SearchScope, TextMatches,
};
use turntree::store::{OpenOptions, RealIo, StoreCipher, StoreKey, Tier};
use turntree_exchange::MessageText;
use turntree_tests::checksums::node_frames;
use turntree_tests::random_history::{RandomHistory, steps};
use turntree_tests::sample::{Sample, open};
use turntree_tests::{Sandbox, claude_code, commit_note, stamp};

const KEY: StoreKey = StoreKey::of(StoreCipher::Aes256Ctr, [3; 32]);

/// Words that are in some samples, in part of one, and in none; and expressions that bytes can
/// preselect, and one that they cannot.
const TEXTS: [&str; 10] = [
    "alpha",
    "beta",
    "été",
    "one",
    "part_1",
    "quizzical",
    "[bo][en][te]",
    r"\bal[a-p]+\s?\d",
    "qu[a-z]{3}cal",
    "[a-z]t.",
];

/// The results of a search.
#[derive(Debug, PartialEq)]
struct Told {
    places: Vec<(GrepPlace, Result<TextMatches, String>)>,
    gaps: Gaps,
    damage: Vec<String>,
}

/// Searches for a text, by contents or through history.
fn ask_for<T>(
    (text, ignore_case): (&str, bool),
    contents_first: bool,
    ask: impl FnOnce(GrepQuery<'_>) -> turntree::Result<T>,
) -> turntree::Result<T> {
    let options = PatternOptions { ignore_case, ..PatternOptions::default() };
    let pattern = LinePattern::new(text, options)?;
    let messages = MessageText::matching(&pattern);
    let may_hold = messages.test();
    ask(GrepQuery {
        pattern: &pattern,
        wanted: SearchFilter::default(),
        lines: Some(1),
        read: &|format, bytes| messages.read(format, bytes),
        may_hold: may_hold.as_ref().map(|test| test as MayHold<'_>).filter(|_| contents_first),
    })
}

/// The places of a result with the matches in each.
fn places(grep: &Grep<'_>) -> Vec<(GrepPlace, Result<TextMatches, String>)> {
    let found = |place: &GrepPlace| grep.found(place).map_err(|error| error.to_string());
    grep.places().iter().map(|place| (place.clone(), found(place))).collect()
}

/// All results for a text, and the number of blobs read.
fn told(
    repo: &Repository,
    scopes: &[SearchScope],
    text: (&str, bool),
    contents_first: bool,
) -> turntree::Result<(Told, u64)> {
    let looked_at = AtomicU64::new(0);
    let told = ask_for(text, contents_first, |query| {
        let grep = repo.grep(scopes, query, &|done, _| {
            looked_at.fetch_max(done, Ordering::Relaxed);
        })?;
        let (gaps, damage) = (grep.gaps().clone(), grep.damage().to_vec());
        Ok(Told { places: places(&grep), gaps, damage })
    })?;
    Ok((told, looked_at.into_inner()))
}

/// The same results, read in steps: each place as it is found, and the rest after the last step.
fn told_in_steps(
    repo: &Repository,
    scopes: &[SearchScope],
    text: (&str, bool),
) -> turntree::Result<Told> {
    let mut all = Told { places: Vec::new(), gaps: Gaps::default(), damage: Vec::new() };
    ask_for(text, true, |query| {
        let mut steps = repo.grep_in_steps(scopes, query, &|_, _| {});
        let mut searched = 0;
        while let Some(grep) = steps.step(&|_, _| {})? {
            let sessions = scopes.iter().skip((1 << searched) - 1).take(1 << searched);
            let branches: Vec<_> = sessions.flat_map(|scope| &scope.starts).collect();
            let is_of_step = |place: &GrepPlace| branches.iter().any(|(_, it)| *it == place.branch);
            assert!(grep.places().iter().all(is_of_step), "each scope in its step");
            all.places.extend(places(&grep));
            (all.gaps, all.damage) = (grep.gaps().clone(), grep.damage().to_vec());
            searched += 1;
        }
        Ok(())
    })?;
    Ok(all)
}

/// Searches both ways, each in a newly opened store, and expects equal results. Returns the number
/// of places and the damage, or `None` for an error.
pub(crate) fn expect_same(
    open: &dyn Fn() -> turntree::Result<Repository>,
    text: &str,
) -> Option<(usize, Vec<String>)> {
    let ask = |contents_first| {
        let repo = open()?;
        let starts = repo.branches().into_iter().map(|(name, tip)| (tip, Some(name))).collect();
        let scope = SearchScope { starts, hide: Vec::new() };
        told(&repo, &[scope], (text, false), contents_first).map(|(told, _)| told)
    };
    same(ask(true), ask(false))
}

/// The same comparison for a history in an open store.
pub(crate) fn expect_same_of(
    repo: &Repository,
    tip: ObjectId,
    text: &str,
) -> Option<(usize, Vec<String>)> {
    let scopes = [SearchScope { starts: vec![(tip, None)], hide: Vec::new() }];
    let ask = |first| told(repo, &scopes, (text, false), first).map(|(told, _)| told);
    same(ask(true), ask(false))
}

fn same(
    first: turntree::Result<Told>,
    by_history: turntree::Result<Told>,
) -> Option<(usize, Vec<String>)> {
    let say = |error: Error| (error.kind(), error.to_string());
    let (first, by_history) = (first.map_err(say), by_history.map_err(say));
    assert_eq!(first, by_history);
    first.ok().map(|told| (told.places.len(), told.damage))
}

fn branch_scopes(repo: &Repository) -> Vec<SearchScope> {
    let branches = repo.branches().into_iter();
    let scope = |(name, tip)| SearchScope { starts: vec![(tip, Some(name))], hide: Vec::new() };
    branches.map(scope).collect()
}

/// A change of the store before a random history is searched.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Journal,
    Packed(Tier),
    Expired,
    Redacted,
    Encrypted,
}

fn befall(repo: &Repository, fate: Fate) {
    let run = |purpose, second| drop(collect(repo, purpose, &stamp(second), &mut |_| {}).unwrap());
    match fate {
        Fate::Journal => {}
        Fate::Packed(tier) => run(Purpose::Repack(tier), 90),
        Fate::Expired => {
            let policy = Policy { keep_last: Some(2), strict: true, ..Policy::default() };
            let mut change = repo.begin();
            set_policy(&mut change, Scope::Session("s"), &policy).unwrap();
            change.commit(&stamp(80), "a policy").unwrap();
            run(Purpose::GcNow, 90);
        }
        Fate::Redacted => {
            redact(repo, &Pattern::literal("beta", "[gone]").unwrap(), &stamp(85)).unwrap();
        }
        Fate::Encrypted => {
            repo.store().change_encryption(Some(KEY), [9; 16]).unwrap();
        }
    }
}

fn reopened(sandbox: &Sandbox, fate: Fate, seed: u8) -> Repository {
    let keys = matches!(fate, Fate::Encrypted).then(|| KEY.into());
    let options = OpenOptions { keys, ..OpenOptions::new([seed; 16]) };
    Repository::open(Arc::new(RealIo), &sandbox.store_dir(), options).unwrap()
}

turntree_properties::properties! {
    cases = 48;

    #[test]
    fn both_search_methods_agree_on_random_histories(
        steps in steps(),
        later_words in prop::collection::vec(0..12_usize, 0..4),
        fate in prop::sample::select(&[
            Fate::Journal, Fate::Packed(Tier::Hot), Fate::Packed(Tier::Archive), Fate::Expired,
            Fate::Redacted, Fate::Encrypted,
        ][..]),
        ignore_case: bool,
        hide: bool,
    ) {
        let history = RandomHistory::new(&steps);
        befall(&history.sandbox.repo, fate);
        // The history is then partly packed.
        let later = reopened(&history.sandbox, fate, 7);
        for (number, word) in (0..).zip(later_words) {
            let session = ["s", "other"][word % 2];
            let text = format!("{} {number}", TEXTS[word % TEXTS.len()]);
            let branch = BranchName::main(session).unwrap();
            commit_note(&later, &branch, ("later", &text), &stamp(95 + number));
        }
        drop(later);
        let repo = reopened(&history.sandbox, fate, 8);
        let mut scopes = branch_scopes(&repo);
        if let (true, Some((hidden, _))) = (hide, scopes[0].starts.first().cloned()) {
            scopes.iter_mut().skip(1).for_each(|scope| scope.hide.push(hidden));
        }
        for text in TEXTS {
            let ask = |first| told(&repo, &scopes, (text, ignore_case), first).unwrap().0;
            let expected = ask(false);
            prop_assert_eq!(&ask(true), &expected, "{} after {:?}", text, fate);
            let in_steps = told_in_steps(&repo, &scopes, (text, ignore_case)).unwrap();
            prop_assert_eq!(&in_steps, &expected, "{} in steps after {:?}", text, fate);
        }
    }
}

#[test]
fn both_search_methods_agree_on_expired_redacted_and_sealed_content() {
    for sample in [Sample::new(), Sample::small(3)] {
        let there = sample.copy();
        for text in TEXTS {
            expect_same(&|| Ok(open(&there, 60)), text);
        }
        assert!(expect_same(&|| Ok(open(&there, 60)), "one").is_some_and(|(found, _)| found > 0));
    }
}

#[test]
fn searches_without_matches_read_each_content_once() {
    let sandbox = Sandbox::new();
    sandbox.import("s", claude_code(60).as_bytes()).unwrap();
    let stray = BranchName::main("stray").unwrap();
    commit_note(&sandbox.repo, &stray, ("b", "a stray note"), &stamp(9));
    let blobs = |repo: &Repository| repo.store().count(Kind::Blob);
    for packed in [false, true] {
        if packed {
            befall(&sandbox.repo, Fate::Packed(Tier::Compacted));
        }
        let repo = sandbox.reopened();
        let mut scopes = branch_scopes(&repo);
        scopes.truncate(1);
        let looked_at = |text, first| told(&repo, &scopes, (text, false), first).unwrap().1;
        assert_eq!(looked_at("quizzical", true), blobs(&repo), "the stray too");
        assert!(looked_at("quizzical", false) < blobs(&repo), "it is not asked about");
        assert_eq!(looked_at("qu[a-z]{3}cal", true), blobs(&repo), "an expression");
        // Bytes cannot preselect an expression that every view matches, so the search goes through
        // history.
        assert!(looked_at("[a-z]+", true) < blobs(&repo));
    }
    // A search in one of several sessions goes through history.
    for session in ["other", "third"] {
        sandbox.import(session, claude_code(60).as_bytes()).unwrap();
    }
    let repo = sandbox.reopened();
    let mut scopes = branch_scopes(&repo);
    scopes.truncate(1);
    let (_, looked_at) = told(&repo, &scopes, ("quizzical", false), true).unwrap();
    assert!(looked_at < blobs(&repo));
}

#[test]
fn both_search_methods_agree_on_frequent_words() {
    let sandbox = Sandbox::new();
    let main = BranchName::main("s").unwrap();
    for second in 0..40 {
        let text = format!("{} common {second}", "x".repeat(1 << 20));
        commit_note(&sandbox.repo, &main, ("a", &text), &stamp(second));
    }
    befall(&sandbox.repo, Fate::Packed(Tier::Hot));
    let repo = sandbox.reopened();
    let scopes = branch_scopes(&repo);
    let ask = |first| told(&repo, &scopes, ("common", false), first).unwrap();
    assert_eq!(ask(true), ask(false));
    assert_eq!(ask(true).0.places.len(), 40);
}

#[test]
fn both_search_methods_report_the_same_damage() {
    for tier in [None, Some(Tier::Hot), Some(Tier::Compacted)] {
        let sandbox = Sandbox::new();
        sandbox.import("s", claude_code(200).as_bytes()).unwrap();
        // A later commit, so that the damage is not a torn tail.
        let main = BranchName::main("s").unwrap();
        commit_note(&sandbox.repo, &main, ("a", "note"), &stamp(2));
        let folder = match tier {
            None => sandbox.store_dir().join("journal"),
            Some(tier) => {
                befall(&sandbox.repo, Fate::Packed(tier));
                // With a history index neither search reads a node.
                fs::remove_dir_all(sandbox.store_dir().join("derived")).unwrap();
                sandbox.store_dir().join("packs")
            }
        };
        let files = largest_file(&folder);
        let bytes = fs::read(&files).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        let (mut damaged, mut silent) = (0, 0);
        // Damage nodes too: without them the objects to search are unknown. Few bytes belong to
        // nodes.
        let nodes = node_frames(&bytes).into_iter().map(|frame| frame.start).take(4);
        for at in (100..used).step_by(used / 50).chain(nodes) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x55;
            fs::write(&files, changed).unwrap();
            let open = || {
                Repository::open(Arc::new(RealIo), &sandbox.store_dir(), OpenOptions::new([9; 16]))
            };
            for text in ["quizzical", "part_1"] {
                let Some((found, damage)) = expect_same(&open, text) else { continue };
                damaged += usize::from(!damage.is_empty());
                silent += usize::from(!damage.is_empty() && found == 0);
            }
        }
        assert!(damaged > 5 && silent > 2, "{tier:?}: {damaged}, {silent} where nothing matches");
    }
}

/// The largest file of a folder.
fn largest_file(folder: &Path) -> std::path::PathBuf {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap()
}

#[test]
fn damage_outside_of_the_scope_is_not_reported() {
    let sandbox = Sandbox::new();
    let main = BranchName::main("s").unwrap();
    let stray = BranchName::main("stray").unwrap();
    for second in 0..6 {
        if second == 3 {
            commit_note(&sandbox.repo, &stray, ("b", "a stray note"), &stamp(9));
        }
        commit_note(&sandbox.repo, &main, ("a", &format!("alpha {second}")), &stamp(second));
    }
    let segment = largest_file(&sandbox.store_dir().join("journal"));
    let bytes = fs::read(&segment).unwrap();
    let at = bytes.windows(12).position(|part| part == b"a stray note").unwrap();
    let mut changed = bytes.clone();
    changed[at] ^= 1;
    fs::write(&segment, changed).unwrap();
    let repo = Repository::open(Arc::new(RealIo), &sandbox.store_dir(), OpenOptions::new([9; 16]));
    let repo = repo.unwrap();
    let tip = repo.tip(&main).unwrap();
    let scopes = [SearchScope { starts: vec![(tip, None)], hide: Vec::new() }];
    let (found, looked_at) = told(&repo, &scopes, ("alpha", false), true).unwrap();
    assert_eq!((found.places.len(), found.damage, looked_at), (6, Vec::new(), 7));
    let found: BTreeSet<u64> = found.places.iter().map(|(place, _)| place.turn).collect();
    assert_eq!(found.len(), 6);
}

#[test]
fn cached_contents_follow_additions_and_removals() {
    for tier in [None, Some(Tier::Compacted)] {
        let sandbox = Sandbox::new();
        let main = BranchName::main("s").unwrap();
        let note = |repo: &Repository, text: &str, second| {
            commit_note(repo, &main, ("a", text), &stamp(second));
        };
        for second in 0..40 {
            note(&sandbox.repo, &format!("alpha {second}"), second);
        }
        if let Some(tier) = tier {
            befall(&sandbox.repo, Fate::Packed(tier));
        }
        let contents = |repo: &Repository| -> BTreeSet<Vec<u8>> {
            let found = std::sync::Mutex::new(BTreeSet::new());
            let take = |id, object: turntree::Result<turntree::object::Object>| {
                let bytes = object.unwrap().bytes.to_vec();
                assert_eq!(ObjectId::of(Kind::Blob, &bytes), id);
                found.lock().unwrap().insert(bytes);
            };
            repo.store().sweep(Kind::Blob, &take, &|| true);
            found.into_inner().unwrap()
        };
        // Room for all contents, for some, and for none.
        for room in [1 << 20, 2000, 0] {
            let repo = sandbox.reopened();
            repo.store().keep_contents(room);
            let before = contents(&repo);
            assert_eq!(before, contents(&repo), "{tier:?}, {room}");
            note(&sandbox.repo, &format!("gamma {room}"), 50);
            repo.refresh().unwrap();
            let after = contents(&repo);
            assert_eq!(after, contents(&sandbox.reopened()), "{tier:?}, {room}");
            assert!(after.is_superset(&before) && after.len() > before.len());
        }
        let repo = sandbox.reopened();
        repo.store().keep_contents(1 << 20);
        assert!(contents(&repo).contains(&b"alpha 7"[..]));
        redact(&sandbox.repo, &Pattern::literal("alpha 7", "[gone]").unwrap(), &stamp(85)).unwrap();
        repo.refresh().unwrap();
        let left = contents(&repo);
        assert!(!left.contains(&b"alpha 7"[..]) && left.contains(&b"alpha 8"[..]), "{tier:?}");
    }
}
