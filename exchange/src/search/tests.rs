//! Compares searches with a naive model that reads everything, and checks them after changes of the
//! store.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use turntree::context::{Builder, Context, MessageEntry, Role, Selection};
use turntree::error::ErrorKind;
use turntree::maintenance::{Pattern, Policy, Purpose, Scope, collect, redact, set_policy};
use turntree::object::{Kind, ObjectId, ObjectSink, ObjectSource, Time};
use turntree::repo::{BranchName, Repository, Signature, SnapshotDraft};
use turntree::store::{NewStore, OpenOptions, RealIo, StoreCipher, StoreKey};
use turntree::workspace::Claim;

use super::document::text_of;
use super::words::words_of;
use super::{
    IndexPlace, MemoryIndex, SearchAnswer, SearchHit, SearchQuery, search, search_with_index,
};

/// A store in a temporary folder.
pub(super) struct World {
    folder: tempfile::TempDir,
    pub(super) repo: Repository,
    pub(super) second: i64,
}

/// An entry that a turn adds.
pub(super) enum Said<'a> {
    Message(Role, serde_json::Value),
    Note(&'a str, &'a str),
}

fn stamp(second: i64) -> Signature {
    let time = Time { micros: second * 1_000_000, offset_minutes: 0 };
    Signature { time, actor: "ann".to_owned() }
}

pub(super) fn text(text: &str) -> Said<'_> {
    Said::Message(Role::User, json!({"role": "user", "content": text}))
}

impl World {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let new = NewStore { id: *b"a store of tests" };
        let dir = folder.path().join("store");
        let repo =
            Repository::init(Arc::new(RealIo), &dir, &new, OpenOptions::new([1; 16])).unwrap();
        Self { folder, repo, second: 0 }
    }

    pub(super) fn dir(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn database(&self) -> PathBuf {
        self.dir().join("workspaces/derived-search")
    }

    /// Opens the store like another process.
    fn again(&self, seed: u8) -> Repository {
        let options = OpenOptions::new([seed; 16]);
        Repository::open(Arc::new(RealIo), &self.dir(), options).unwrap()
    }

    pub(super) fn turn(&mut self, branch: &str, said: &[Said<'_>]) -> ObjectId {
        self.second += 1;
        let (branch, stamp) = (branch.parse::<BranchName>().unwrap(), stamp(self.second));
        let mut change = self.repo.begin();
        let mut context = match change.tip(&branch) {
            Some(tip) => Builder::from(self.repo.context(&tip).unwrap()),
            None => Builder::new(),
        };
        for said in said {
            match said {
                Said::Message(role, record) => {
                    let blob = change.write(Kind::Blob, record.to_string().into()).unwrap();
                    let entry = MessageEntry::new(blob, *role, "json");
                    context.push_message(&mut change, "main", &entry).unwrap();
                }
                Said::Note(key, text) => {
                    let text = Some((*text).to_owned().into());
                    context.set_entry(&mut change, "scratchpad", key, text).unwrap();
                }
            }
        }
        let tree = context.write(&mut change).unwrap();
        let draft = SnapshotDraft::new(tree, "turn", &stamp);
        let id = change.snapshot(&branch, draft).unwrap();
        change.commit(&stamp, "snapshot").unwrap();
        id
    }

    pub(super) fn set_branch(&mut self, branch: &str, to: Option<ObjectId>) {
        let mut change = self.repo.begin();
        change.move_branch(&branch.parse().unwrap(), to);
        change.commit(&stamp(self.second), "move").unwrap();
    }

    pub(super) fn search(&self, text: &str) -> SearchAnswer {
        search_in(&self.repo, text)
    }

    fn found(&self, text: &str) -> Vec<String> {
        let told = |hit: &SearchHit| format!("{}/{} {}", hit.session, hit.turn, hit.key);
        self.search(text).hits.iter().map(told).collect()
    }
}

pub(super) fn query(text: &str) -> SearchQuery<'_> {
    SearchQuery { text, all_words: true, limit: 1000, ..SearchQuery::default() }
}

fn search_in(repo: &Repository, text: &str) -> SearchAnswer {
    search(repo, &query(text), &|_, _| {}).unwrap()
}

/// Returns all content of all reachable turns, with the time of the first turn that has it.
fn everything(repo: &Repository) -> BTreeMap<(ObjectId, String), (i64, Vec<String>)> {
    let store = repo.store();
    let tips: Vec<ObjectId> = repo.branches().into_iter().map(|(_, tip)| tip).collect();
    let mut all: BTreeMap<(ObjectId, String), (i64, Vec<String>)> = BTreeMap::new();
    for entry in repo.history(&tips, &[]).unwrap() {
        let commit = entry.unwrap().commit;
        let context = Context::open(store, &commit.tree).unwrap();
        let mut blobs: BTreeSet<(ObjectId, String)> = BTreeSet::new();
        let messages = context.messages(store, "main").unwrap();
        for item in messages.iter(store, 0..messages.len()) {
            let entry = MessageEntry::from_item(&item.unwrap()).unwrap();
            blobs.insert((entry.blob, entry.media));
        }
        if let Some(notes) = context.section(store, "scratchpad").unwrap() {
            for note in turntree::tree::Map::open(store, &notes.id).unwrap().iter(store) {
                blobs.insert((note.unwrap().1.link.id, String::new()));
            }
        }
        for (blob, format) in blobs {
            let bytes = store.read_as(Kind::Blob, &blob).unwrap();
            let words = words_of(&text_of(&format, &bytes).unwrap());
            let time = commit.time.micros;
            let known = all.entry((blob, format)).or_insert((time, words));
            known.0 = known.0.min(time);
        }
    }
    all.retain(|_, (_, words)| !words.is_empty());
    all
}

/// Returns the score of each document that has all words, by the formulas in the documentation.
fn naive_scores(repo: &Repository, words: &[&str]) -> HashMap<ObjectId, f64> {
    let all = everything(repo);
    let count = |having: &[String], word: &str| having.iter().filter(|it| *it == word).count();
    let documents = all.len() as f64;
    let mean = all.values().map(|(_, words)| words.len() as f64).sum::<f64>() / documents;
    let newest = repo.branches().into_iter().map(|(_, tip)| repo.commit(&tip).unwrap().time.micros);
    let newest = newest.max().unwrap_or_default();
    let mut scores = HashMap::new();
    for ((blob, _), (time, having)) in &all {
        if words.iter().any(|word| count(having, word) == 0) {
            continue;
        }
        let mut score = 0.0;
        for word in words {
            let others = all.values().filter(|(_, words)| count(words, word) > 0).count() as f64;
            let idf = (1.0 + (documents - others + 0.5) / (others + 0.5)).ln();
            let times = match count(having, word) {
                few @ ..=2 => few as f64,
                3..=4 => 3.0,
                5..=8 => 6.0,
                _ => 12.0,
            };
            let length = having.len() as f64 / mean.max(1.0);
            score += idf * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * length));
        }
        let months = (newest - time) as f64 / (30.0 * 86_400.0 * 1e6);
        scores.insert(*blob, score * (0.5 + 0.5 * 0.5_f64.powf(months)));
    }
    scores
}

fn check_against_model(repo: &Repository, words: &[&str]) {
    let answer = search_in(repo, &words.join(" "));
    let expected = naive_scores(repo, words);
    let found: BTreeSet<ObjectId> = answer.hits.iter().map(|hit| hit.blob).collect();
    assert_eq!(found, expected.keys().copied().collect(), "{words:?}");
    assert_eq!(answer.hits.len() as u64, answer.candidates);
    // Each page looks up only the hits that it shows.
    for at in 0..answer.hits.len().div_ceil(2) {
        let asked = words.join(" ");
        let page = SearchQuery { offset: 2 * at as u64, limit: 2, ..query(&asked) };
        let page = search(repo, &page, &|_, _| {}).unwrap();
        let end = answer.hits.len().min(2 * at + 2);
        assert_eq!(page.hits, answer.hits[2 * at..end]);
        assert_eq!(page.more, end < answer.hits.len());
    }
    let scores: Vec<f64> = answer.hits.iter().map(|hit| expected[&hit.blob]).collect();
    assert!(scores.windows(2).all(|pair| pair[0] >= pair[1] - 1e-9), "{words:?}: {scores:?}");
}

/// A step of a history: adds a message, or moves a branch.
#[derive(Debug, Clone)]
enum Step {
    Say(usize, String),
    Note(usize, usize, String),
    Fork(usize, usize),
    Back(usize, usize),
    Delete(usize),
}

const BRANCHES: [&str; 3] = ["one/main", "one/side", "two/main"];

fn any_text() -> impl Strategy<Value = String> {
    let word =
        prop::sample::select(vec!["ant", "bee", "Bee", "cat", "dög", "elk", "虎", "ant-bee"]);
    prop::collection::vec(word, 1..12).prop_map(|words| words.join(" "))
}

fn any_step() -> impl Strategy<Value = Step> {
    let branch = || 0..BRANCHES.len();
    prop_oneof![
        5 => (branch(), any_text()).prop_map(|(branch, text)| Step::Say(branch, text)),
        2 => (branch(), 0..2_usize, any_text()).prop_map(|(b, key, text)| Step::Note(b, key, text)),
        1 => (branch(), branch()).prop_map(|(from, to)| Step::Fork(from, to)),
        1 => (branch(), 0..9_usize).prop_map(|(branch, at)| Step::Back(branch, at)),
        1 => branch().prop_map(Step::Delete),
    ]
}

fn apply(world: &mut World, turns: &mut Vec<ObjectId>, step: &Step) {
    let tip = |world: &World, at: usize| world.repo.tip(&BRANCHES[at].parse().unwrap());
    match step {
        Step::Say(branch, said) => turns.push(world.turn(BRANCHES[*branch], &[text(said)])),
        Step::Note(branch, key, said) => {
            let note = Said::Note(["a", "b"][*key], said);
            turns.push(world.turn(BRANCHES[*branch], &[note]));
        }
        Step::Fork(from, to) => {
            if let Some(tip) = tip(world, *from) {
                world.set_branch(BRANCHES[*to], Some(tip));
            }
        }
        Step::Back(branch, at) => {
            if tip(world, *branch).is_some() && !turns.is_empty() {
                world.set_branch(BRANCHES[*branch], Some(turns[at % turns.len()]));
            }
        }
        Step::Delete(branch) => {
            if tip(world, *branch).is_some() {
                world.set_branch(BRANCHES[*branch], None);
            }
        }
    }
}

turntree_properties::properties! {
    cases = 16;

    #[test]
    fn matches_and_ranks_equal_the_model(
        steps in prop::collection::vec(any_step(), 1..12),
        asked in prop::sample::select(vec![vec!["ant"], vec!["bee", "cat"], vec!["dog", "虎"], vec!["elk"]]),
    ) {
        let (mut world, mut turns) = (World::new(), Vec::new());
        world.turn("one/main", &[text("a bee and a cat")]);
        for (at, step) in steps.iter().enumerate() {
            apply(&mut world, &mut turns, step);
            if at % 3 == 0 {
                check_against_model(&world.repo, &asked);
            }
        }
        check_against_model(&world.repo, &asked);
        // An incrementally updated index must equal a rebuilt one.
        let (asked, grown) = (asked.join(" "), world.search(&asked.join(" ")));
        let by_session = SearchQuery { all_words: false, ..query(&asked) };
        let sessions = search(&world.repo, &by_session, &|_, _| {}).unwrap();
        let again = SearchQuery { rebuild: true, ..query("x") };
        search(&world.repo, &again, &|_, _| {}).unwrap();
        prop_assert_eq!(world.search(&asked), grown);
        prop_assert_eq!(search(&world.repo, &by_session, &|_, _| {}).unwrap(), sessions);
    }
}

#[test]
fn phrases_prefixes_and_filters_restrict_matches() {
    let mut world = World::new();
    let call = |id: &str, name: &str| {
        json!({"role": "assistant", "content": [
            {"type": "tool_use", "id": id, "name": name, "input": {"command": "retry now"}}]})
    };
    let result = json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "1", "content": "the retry failed"}]});
    world.turn(
        "one/main",
        &[text("the retry budget is 3"), Said::Note("plan", "budget of a retry")],
    );
    world.turn(
        "one/main",
        &[Said::Message(Role::Assistant, call("1", "Bash")), Said::Message(Role::Tool, result)],
    );
    world.turn("two/main", &[Said::Message(Role::Assistant, call("2", "Read"))]);
    let mut paths: Vec<_> = world.found("retry budget");
    paths.sort();
    assert_eq!(paths, ["one/1 0", "one/1 plan"]);
    assert_eq!(world.found("\"retry budget\""), ["one/1 0"]);
    assert_eq!(world.found("budg* 3"), ["one/1 0"]);
    assert_eq!(world.found("retry-budget"), ["one/1 0"]);
    let found = |query: SearchQuery<'_>| {
        let hits = search(&world.repo, &query, &|_, _| {}).unwrap().hits;
        let mut told: Vec<_> =
            hits.iter().map(|hit| format!("{}/{} {}", hit.session, hit.turn, hit.key)).collect();
        told.sort();
        told
    };
    let retry = query("retry");
    assert_eq!(found(SearchQuery { session: Some("two"), ..retry.clone() }), ["two/1 0"]);
    assert_eq!(found(SearchQuery { session: Some("none"), ..retry.clone() }), [""; 0]);
    assert_eq!(found(SearchQuery { tool: Some("bash"), ..retry.clone() }), ["one/2 1", "one/2 2"]);
    assert_eq!(found(SearchQuery { roles: &[Role::Tool], ..retry.clone() }), ["one/2 2"]);
    assert_eq!(found(SearchQuery { since: Some(2_000_000), ..retry.clone() }), ["two/1 0"]);
    let paths = Selection::parse(&["scratchpad".to_owned()]);
    assert_eq!(found(SearchQuery { paths, ..retry.clone() }), ["one/1 plan"]);
    let all = search(&world.repo, &retry, &|_, _| {}).unwrap();
    let second = SearchQuery { offset: 1, limit: 2, ..retry };
    let second = search(&world.repo, &second, &|_, _| {}).unwrap();
    assert_eq!((second.hits.as_slice(), second.more), (&all.hits[1..3], true));
    assert_eq!(all.place, IndexPlace::InStore);
}

#[test]
fn shared_content_is_found_in_each_session() {
    let mut world = World::new();
    for session in ["one/main", "two/main"] {
        world.turn(session, &[text("the same words")]);
    }
    assert_eq!(world.found("same"), ["one/1 0"]);
    let in_two = SearchQuery { session: Some("two"), ..query("same") };
    assert_eq!(search(&world.repo, &in_two, &|_, _| {}).unwrap().hits[0].session, "two");
    world.set_branch("one/main", None);
    assert_eq!(world.found("same"), ["two/1 0"]);
    world.set_branch("two/main", None);
    assert_eq!(world.found("same"), [""; 0]);
}

#[test]
fn filters_find_rare_places_of_frequent_words() {
    let mut world = World::new();
    let texts: Vec<String> = (0..3000).map(|at| format!("common words of {at}")).collect();
    let all: Vec<Said<'_>> = texts.iter().map(|said| text(said)).collect();
    world.turn("one/main", &all);
    world.turn("two/main", &[text("common words of another"), text("common words of 7")]);
    let in_two = SearchQuery { session: Some("two"), ..query("comm* words") };
    let answer = search(&world.repo, &in_two, &|_, _| {}).unwrap();
    let mut found: Vec<_> = answer.hits.iter().map(|hit| (hit.turn, hit.key.as_str())).collect();
    found.sort_unstable();
    assert_eq!((found, answer.candidates), (vec![(1, "0"), (1, "1")], 3001));
    let few = SearchQuery { limit: 3, ..query("common") };
    let few = search(&world.repo, &few, &|_, _| {}).unwrap();
    assert_eq!((few.hits.len(), few.candidates, few.more), (3, 3001, true));
    world.set_branch("one/main", None);
    let left = world.search("common");
    assert_eq!((left.hits.len(), left.candidates), (2, 2));
}

#[test]
fn ranking_uses_the_age_of_the_wanted_places_only() {
    const DAY: i64 = 86_400;
    let mut world = World::new();
    world.turn("other/main", &[text("again the parser")]);
    world.second += 300 * DAY;
    world.turn("asked/main", &[text("parser parser the")]);
    world.second += 200 * DAY;
    world.turn("asked/main", &[text("late the parser")]);
    world.second += 100 * DAY;
    world.turn("asked/main", &[text("again the parser")]);
    let asked = SearchQuery { session: Some("asked"), ..query("parser") };
    let answer = search(&world.repo, &asked, &|_, _| {}).unwrap();
    let turns: Vec<u64> = answer.hits.iter().map(|hit| hit.turn).collect();
    assert_eq!(turns, [3, 1, 2], "the newest, the one that has it twice, the other one");
}

#[test]
fn dropped_documents_do_not_count_before_a_merge() {
    let mut world = World::new();
    for at in 0..4 {
        world.turn("one/main", &[text(&format!("number {at}"))]);
    }
    assert_eq!(world.search("number").candidates, 4);
    // Simulates a process that dropped a document and died before the merge.
    let index = rusqlite_of(&world.database());
    let measures = "SELECT measures FROM measures";
    let mut measures: Vec<u8> = index.query_row(measures, [], |row| row.get(0)).unwrap();
    measures[..12].copy_from_slice(&[[0; 4], [255; 4], [255; 4]].concat());
    index.execute("UPDATE measures SET measures = ?1", [measures]).unwrap();
    index.execute_batch("DELETE FROM places WHERE document = 0").unwrap();
    index.execute_batch("DELETE FROM documents WHERE id = 0").unwrap();
    let answer = world.search("number");
    assert_eq!((answer.candidates, answer.hits.len()), (3, 3));
}

#[test]
fn ideographs_are_found_without_spaces() {
    let mut world = World::new();
    world.turn(
        "one/main",
        &[text("我们需要一个搜索引擎"), text("全文検索エンジン"), text("引擎搜索")],
    );
    assert_eq!(world.found("搜索引擎"), ["one/1 0"]);
    assert_eq!(world.found("検索"), ["one/1 1"]);
    assert_eq!(world.found("搜索").len(), 2);
}

#[test]
fn hostile_queries_are_treated_as_words_or_rejected() {
    let mut world = World::new();
    world.turn("one/main", &[text("near the column or not")]);
    for (asked, is_found) in [
        ("near OR not", true),
        ("words : near", false),
        ("NEAR(near the, 2)", false),
        ("{near} ^the -not", true),
        ("'; DROP TABLE turns; --", false),
        ("near\0the", true),
        ("near!#$%", true),
        ("\"near\" the\"", true),
        ("nea*r*", false),
        ("\u{202e}near", true),
    ] {
        assert_eq!(world.found(asked).len(), usize::from(is_found), "{asked:?}");
    }
    let long = "w ".repeat(1 << 20);
    for asked in ["", "\0\0", "* - \" :", &long] {
        let error = search(&world.repo, &query(asked), &|_, _| {}).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::LimitExceeded));
    }
    assert_eq!(world.found("near").len(), 1);
    let many: Vec<String> = (0..60).map(|at| format!("n{at}*")).collect();
    assert_eq!(world.found(&format!("near the column or {}", many.join(" "))), [""; 0]);
    assert_eq!(world.found(&"near the column or not ".repeat(50)), ["one/1 0"]);
}

#[test]
fn damaged_or_foreign_indexes_are_rebuilt() {
    let mut world = World::new();
    for at in 0..30 {
        world.turn("one/main", &[text(&format!("number {at} of many words to find {at}"))]);
    }
    let whole = world.search("number 7");
    let good = fs::read(world.database()).unwrap();
    let connect = || rusqlite_of(&world.database());
    let damages: [&dyn Fn(); 10] = [
        &|| fs::write(world.database(), b"no database at all, though long enough").unwrap(),
        &|| fs::write(world.database(), b"").unwrap(),
        &|| fs::write(world.database(), &good[..good.len() / 2]).unwrap(),
        &|| {
            fs::write(world.database(), [&good[..4096], &vec![7; good.len() - 4096]].concat())
                .unwrap();
        },
        &|| connect().execute_batch("PRAGMA user_version = 99").unwrap(),
        &|| connect().execute_batch("UPDATE facts SET value = x'00' WHERE name = 'store'").unwrap(),
        &|| connect().execute_batch("DROP TABLE places").unwrap(),
        &|| connect().execute_batch("UPDATE blocks SET postings = x'ff'").unwrap(),
        &|| connect().execute_batch("UPDATE blocks SET postings = x'ffffffffffffff0102'").unwrap(),
        &|| connect().execute_batch("UPDATE measures SET measures = x'00'").unwrap(),
    ];
    for (at, damage) in damages.iter().enumerate() {
        damage();
        let asked = SearchQuery { all_words: at % 2 == 0, ..query("number 7") };
        let found = search(&world.again(9), &asked, &|_, _| {}).unwrap();
        assert_eq!(found.candidates, whole.candidates, "damage {at}");
        assert_eq!(search_in(&world.again(9), "number 7"), whole, "damage {at}");
        assert_eq!(search_in(&world.again(9), "number 7").place, IndexPlace::InStore);
    }
    // A search must not trust wrong places of the index.
    connect().execute_batch("UPDATE places SET key = key - 1").unwrap();
    assert_eq!(world.found("number 7"), [""; 0]);
    let by_session = SearchQuery { all_words: false, ..query("number 7") };
    assert_eq!(search(&world.repo, &by_session, &|_, _| {}).unwrap().hits, []);
}

fn rusqlite_of(path: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(path).unwrap()
}

#[test]
fn crashes_while_filling_the_index_leave_it_consistent() {
    let mut world = World::new();
    world.turn("one/main", &[text("first words")]);
    let died = catch_unwind(AssertUnwindSafe(|| {
        let die = |_, _| panic!("killed");
        drop(search(&world.repo, &query("words"), &die));
    }));
    assert!(died.is_err());
    assert_eq!(world.found("words"), ["one/1 0"]);
    world.turn("one/main", &[text("more words")]);
    assert_eq!(world.found("words").len(), 2);
}

#[test]
fn concurrent_processes_can_fill_one_index() {
    let mut world = World::new();
    for at in 0..40 {
        world.turn("one/main", &[text(&format!("words of turn {at}"))]);
    }
    let repos: Vec<Repository> = (2..6).map(|seed| world.again(seed)).collect();
    let answers: Vec<SearchAnswer> = std::thread::scope(|scope| {
        let all: Vec<_> =
            repos.iter().map(|repo| scope.spawn(move || search_in(repo, "words"))).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for answer in answers {
        assert_eq!(answer, world.search("words"));
        assert_eq!(answer.hits.len(), 40);
    }
    let count =
        rusqlite_of(&world.database())
            .query_row("SELECT count(*) FROM documents", [], |row| row.get::<_, i64>(0));
    assert_eq!(count.unwrap(), 40, "no document is there twice");
}

#[test]
fn searches_wait_for_a_concurrent_fill_of_the_index() {
    let mut world = World::new();
    for at in 0..5 {
        world.turn("one/main", &[text(&format!("words of turn {at}"))]);
    }
    let other = world.again(2);
    let (tell, told) = channel();
    let told = Mutex::new(told);
    let second = || search(&other, &query("words"), &|done, all| tell.send((done, all)).unwrap());
    std::thread::scope(|scope| {
        let started = Mutex::new(None);
        let first = search(&world.repo, &query("words"), &|_, _| {
            started.lock().unwrap().get_or_insert_with(|| {
                let second = scope.spawn(second);
                let said = told.lock().unwrap().recv_timeout(Duration::from_secs(60));
                assert_eq!(said, Ok((0, 0)), "it waits");
                second
            });
        });
        let second = started.into_inner().unwrap().unwrap().join().unwrap().unwrap();
        assert_eq!((&second.hits, second.place), (&first.unwrap().hits, IndexPlace::InStore));
    });
    assert_eq!(told.into_inner().unwrap().try_recv().ok(), None, "it takes up nothing");
}

#[test]
fn searches_create_no_index_while_another_process_may() {
    let mut world = World::new();
    world.turn("one/main", &[text("some words")]);
    // Simulates a process that holds the claim and has not created the index yet.
    let claim = Mutex::new(Claim::ask(&world.dir(), "search index").unwrap());
    let let_go = |_, _| {
        if claim.lock().unwrap().take().is_some() {
            assert!(!world.database().exists(), "two that make one file get in each other's way");
        }
    };
    let answer = search(&world.repo, &query("words"), &let_go).unwrap();
    assert_eq!((answer.hits.len(), answer.place), (1, IndexPlace::InStore));
    assert!(claim.into_inner().unwrap().is_none(), "it waited");
}

/// Returns true if a file of a store contains these bytes.
fn is_in_files(dir: &Path, bytes: &[u8]) -> bool {
    fs::read_dir(dir).unwrap().map(Result::unwrap).any(|entry| match entry.path().is_dir() {
        true => is_in_files(&entry.path(), bytes),
        false => fs::read(entry.path()).unwrap().windows(bytes.len()).any(|it| it == bytes),
    })
}

#[test]
fn redactions_clear_the_index_before_they_return() {
    let mut world = World::new();
    world.turn(
        "one/main",
        &[text("the key is hunter22 for all"), Said::Note("login", "use hunter22")],
    );
    assert_eq!(world.search("hunter22").hits.len(), 2);
    assert!(is_in_files(&world.dir(), b"hunter22"), "the index has the word");
    // Another process has searched before, and has the old index and objects open.
    let other = world.again(5);
    assert_eq!(search_in(&other, "hunter22").hits.len(), 2);
    let pattern = Pattern::literal("hunter22", "[gone]").unwrap();
    redact(&world.repo, &pattern, &stamp(90)).unwrap();
    assert!(!is_in_files(&world.dir(), b"hunter22"));
    assert!(!world.database().exists());
    for repo in [&other, &world.repo, &world.again(6)] {
        assert_eq!(search_in(repo, "hunter22").hits, []);
        assert_eq!(search_in(repo, "gone").hits.len(), 2);
    }
    assert!(!is_in_files(&world.dir(), b"hunter22"));
}

#[test]
fn expired_content_is_not_found_and_the_index_shrinks() {
    let mut world = World::new();
    for at in 0..30 {
        let note = format!("only in turn {at}");
        world.turn("one/main", &[Said::Note("plan", &note)]);
    }
    world.turn("one/main", &[Said::Note("kept", "from here on")]);
    for at in 31..36 {
        let note = format!("only in turn {at}");
        world.turn("one/main", &[Said::Note("plan", &note)]);
    }
    assert_eq!(world.search("turn").hits.len(), 35);
    assert_eq!(world.found("here"), ["one/31 kept"]);
    let mut change = world.repo.begin();
    let policy = Policy { keep_last: Some(4), strict: true, ..Policy::default() };
    set_policy(&mut change, Scope::Session("one"), &policy).unwrap();
    change.commit(&stamp(60), "policy").unwrap();
    collect(&world.repo, Purpose::GcNow, &stamp(1_000_000), &mut |_| ()).unwrap();
    let answer = world.search("turn");
    assert_eq!(answer.hits.len(), 4);
    assert_eq!(answer.candidates, 4);
    assert_eq!(world.search("turn 3").hits, []);
    // The remaining content came with the oldest remaining turn.
    assert_eq!(world.found("here"), ["one/33 kept"]);
    let rebuilt =
        search(&world.again(7), &SearchQuery { rebuild: true, ..query("turn") }, &|_, _| {});
    assert_eq!(rebuilt.unwrap(), answer);
}

#[test]
fn searching_an_encrypted_store_writes_no_plaintext() {
    let mut world = World::new();
    world.turn("one/main", &[text("plain hunter22")]);
    assert_eq!(world.search("hunter22").hits.len(), 1);
    let key = StoreKey::of(StoreCipher::XChaCha20, [7; 32]);
    world.repo.store().change_encryption(Some(key), [9; 16]).unwrap();
    assert!(!is_in_files(&world.dir(), b"hunter22"));
    let options = OpenOptions { keys: Some(key.into()), ..OpenOptions::new([3; 16]) };
    let repo = Repository::open(Arc::new(RealIo), &world.dir(), options).unwrap();
    let answer = search_in(&repo, "hunter22");
    assert_eq!(answer.hits.len(), 1);
    assert!(matches!(answer.place, IndexPlace::InMemory(why) if why.contains("encrypted")));
    assert!(!is_in_files(&world.dir(), b"hunter22"));
}

#[test]
fn memory_indexes_add_new_turns_until_a_redaction() {
    let mut world = World::new();
    for word in ["first", "second hunter22", "third"] {
        world.turn("one/main", &[text(word)]);
    }
    let key = StoreKey::of(StoreCipher::XChaCha20, [7; 32]);
    world.repo.store().change_encryption(Some(key), [9; 16]).unwrap();
    let options = OpenOptions { keys: Some(key.into()), ..OpenOptions::new([3; 16]) };
    world.repo = Repository::open(Arc::new(RealIo), &world.dir(), options).unwrap();
    let memory = MemoryIndex::default();
    // Returns the hits and the number of turns that the search indexed.
    let ask = |repo: &Repository, words: &str| {
        let taken = Mutex::new(0);
        let progress = |_: u64, all: u64| *taken.lock().unwrap() = all;
        let answer = search_with_index(repo, &query(words), &progress, &memory).unwrap();
        assert!(matches!(answer.place, IndexPlace::InMemory(_)), "{:?}", answer.place);
        (answer.hits.len(), taken.into_inner().unwrap())
    };
    assert_eq!(ask(&world.repo, "hunter22"), (1, 3));
    assert_eq!(ask(&world.repo, "third"), (1, 0));
    world.turn("one/main", &[text("fourth hunter22")]);
    assert_eq!(ask(&world.repo, "hunter22"), (2, 1));
    let pattern = Pattern::literal("hunter22", "[gone]").unwrap();
    redact(&world.repo, &pattern, &stamp(90)).unwrap();
    assert_eq!(ask(&world.repo, "hunter22"), (0, 4));
    assert_eq!(ask(&world.repo, "gone"), (2, 0));
    memory.clear();
    assert_eq!(ask(&world.repo, "gone"), (2, 4));
    assert!(memory.try_clear());
}

#[test]
fn searches_use_a_memory_index_where_no_file_can_be_kept() {
    let mut world = World::new();
    world.turn("one/main", &[text("some words")]);
    let folder = world.dir().join("workspaces");
    drop(fs::remove_dir_all(&folder));
    fs::write(&folder, b"in the way").unwrap();
    let answer = world.search("words");
    assert_eq!(answer.hits.len(), 1);
    assert!(matches!(answer.place, IndexPlace::InMemory(_)), "{:?}", answer.place);
    // A read-only index is usable as long as the store has no new turns.
    fs::remove_file(&folder).unwrap();
    assert_eq!(world.search("words").place, IndexPlace::InStore);
    assert!(!world.search("words").hits[0].snippet.matches.is_empty());
}
