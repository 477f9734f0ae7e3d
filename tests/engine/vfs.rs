//! Long outputs are moved out of the conversation and restored byte for byte, despite concurrent
//! writers.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value;
use turntree::ErrorKind;
use turntree::context::sections::VFS;
use turntree::context::{Builder, Context};
use turntree::maintenance::{
    EvictionLimits, EvictionPlan, Policy, Purpose, Scope, collect, evict, fsck, plan_eviction,
    set_policy,
};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::vfs::{EvictionReason, NewPayload, Pool, VfsUri};
use turntree::repo::{BranchName, Repository, SnapshotDraft};
use turntree::store::Thoroughness;
use turntree_exchange::{OffloadOptions, Tail, apply_state, named_by_content, offload};
use turntree_tests::{Sandbox, stamp};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");
const SECOND: i64 = 1_000_000;

/// Decodes a JSON string to UTF-16 units: the vectors have unpaired surrogates, which no `String`
/// can.
fn units(json: &str) -> Vec<u16> {
    let inner = json.trim().strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap();
    let mut units = Vec::new();
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        let escaped = (character == '\\').then(|| characters.next().unwrap());
        match escaped {
            None => units.extend(character.encode_utf16(&mut [0; 2]).iter()),
            Some('n') => units.push(10),
            Some('r') => units.push(13),
            Some('t') => units.push(9),
            Some('u') => {
                let digits: String = characters.by_ref().take(4).collect();
                units.push(u16::from_str_radix(&digits, 16).unwrap());
            }
            Some(other) => units.push(other as u16),
        }
    }
    units
}

#[derive(serde::Deserialize)]
struct Vectors<'a> {
    config: Config,
    #[serde(borrow)]
    cases: Vec<Case<'a>>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    threshold: u64,
    storage_dir: String,
}

#[derive(serde::Deserialize)]
struct Case<'a> {
    name: String,
    input: String,
    options: Given,
    #[serde(borrow)]
    result: Expected<'a>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Given {
    threshold: Option<u64>,
    head_chars: Option<u64>,
    tail_chars: Option<u64>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Expected<'a> {
    is_offloaded: bool,
    #[serde(borrow)]
    content: &'a serde_json::value::RawValue,
    uri: Option<String>,
}

#[test]
fn offloading_matches_the_upstream_vectors() {
    let text = include_str!("../vectors/context-chef/offload-3.9.0.json");
    let Vectors { config, cases } = serde_json::from_str(text).unwrap();
    assert!(cases.len() >= 7);
    for Case { name, input, options: given, result } in cases {
        let default = OffloadOptions::default();
        let options = OffloadOptions {
            threshold: given.threshold.unwrap_or(config.threshold),
            head_chars: given.head_chars.unwrap_or(0),
            tail: given.tail_chars.map_or(default.tail, Tail::Chars),
            whole_characters: false,
        };
        let uri = named_by_content(Bytes::copy_from_slice(input.as_bytes())).uri;
        let path = format!("{}/{}", config.storage_dir, uri.path());
        let shown = offload(&input, &options, uri.as_str(), Some(&path));
        assert_eq!(shown.is_some(), result.is_offloaded, "{name}");
        let expected = units(result.content.get());
        match shown {
            None => assert_eq!(input.encode_utf16().collect::<Vec<_>>(), expected, "{name}"),
            Some(shown) => {
                assert_eq!(shown.units(), expected, "{name}");
                assert_eq!(units(&shown.to_json()), expected, "{name}: as JSON");
                assert_eq!(result.uri.as_deref(), Some(uri.as_str()), "{name}");
            }
        }
        // The program prints the same, except for the directory.
        let folder = tempfile::tempdir().unwrap();
        let mut arguments = vec!["offload".to_owned(), "--json".into(), "--storage-dir".into()];
        arguments.push("d".to_owned());
        arguments.push(format!("--threshold={}", options.threshold));
        arguments.push(format!("--head-chars={}", options.head_chars));
        arguments.extend(given.tail_chars.map(|tail| format!("--tail-chars={tail}")));
        let output = run(folder.path(), &arguments, input.as_bytes());
        assert!(output.status.success(), "{name}: {output:?}");
        let record = String::from_utf8(output.stdout).unwrap();
        let from = record.find("\"content\":").unwrap() + "\"content\":".len();
        let content = &record[from..record.rfind(",\"uri\":").unwrap()];
        let here = result.content.get().replace(&config.storage_dir, "d");
        assert_eq!(units(content), units(&here), "{name}: {record}");
        if result.is_offloaded {
            let written = std::fs::read(folder.path().join("d").join(uri.path())).unwrap();
            assert_eq!(written, input.as_bytes(), "{name}");
            let whole = run(folder.path(), &["vfs", "get", uri.as_str()], b"");
            assert_eq!(whole.stdout, input.as_bytes(), "{name}");
        } else {
            assert!(!folder.path().join(".turntree").exists(), "{name}: a store for nothing");
        }
    }
}

/// Runs the program in `folder`, whose store is `.turntree`.
fn run(folder: &Path, arguments: &[impl AsRef<std::ffi::OsStr>], input: &[u8]) -> Output {
    let mut child = Command::new(PROGRAM)
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("TURNTREE_STORE", folder.join(".turntree"))
        .envs([("TURNTREE_ACTOR", "ann"), ("TURNTREE_MAINTENANCE", "off")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

fn put(repo: &Repository, text: &str, second: i64) -> VfsUri {
    let content = Bytes::copy_from_slice(text.as_bytes());
    repo.put_payload(&named_by_content(content), &stamp(second)).unwrap().payload.uri
}

fn get(repo: &Repository, uri: &VfsUri) -> Result<Bytes, ErrorKind> {
    let found = repo.find_payload(uri).map_err(|error| error.kind())?;
    Ok(repo.read_as(Kind::Blob, &found.blob).unwrap())
}

/// Commits a turn of `session` with the message `text`, as the program does.
fn say(repo: &Repository, session: &str, text: &str) -> ObjectId {
    say_as(repo, session, text, true)
}

fn say_as(repo: &Repository, session: &str, text: &str, takes_over: bool) -> ObjectId {
    let branch: BranchName = session.parse().unwrap();
    let mut change = repo.begin();
    let parent = change.tip(&branch).map_or(Context::default(), |tip| repo.context(&tip).unwrap());
    let mut builder = Builder::from(parent);
    let message = serde_json::json!({"role": "tool", "content": text});
    let state = serde_json::json!({"agents": {"main": {"messages": [message]}}}).to_string();
    apply_state(&mut change, &mut builder, state.as_bytes()).unwrap();
    if !takes_over {
        change.set_cited(BTreeSet::new());
    }
    let tree = builder.write(&mut change).unwrap();
    let id = change.snapshot(&branch, SnapshotDraft::new(tree, "turn", &stamp(1))).unwrap();
    change.commit(&stamp(1), "snapshot").unwrap();
    id
}

fn carried(repo: &Repository, commit: &ObjectId) -> Vec<String> {
    let map = repo.context(commit).unwrap().map(repo, VFS).unwrap();
    let keys = map.iter(repo).map(|entry| entry.unwrap().0);
    keys.map(|key| String::from_utf8(key.to_vec()).unwrap()).collect()
}

fn everything() -> EvictionLimits {
    EvictionLimits { max_files: Some(0), ..EvictionLimits::default() }
}

fn evict_all(repo: &Repository, limits: &EvictionLimits, second: i64) -> EvictionPlan {
    let plan = plan_eviction(repo, limits, second * SECOND).unwrap();
    evict(repo, &plan, &stamp(second)).unwrap();
    plan
}

fn uris(evictions: &[turntree::maintenance::Eviction]) -> Vec<VfsUri> {
    evictions.iter().map(|eviction| eviction.payload.uri.clone()).collect()
}

turntree_properties::properties! {
    cases = 48;

    #[test]
    fn any_payload_round_trips(texts in prop::collection::vec(any::<String>(), 1..8)) {
        let sandbox = Sandbox::new();
        let mut stored = Vec::new();
        for text in &texts {
            stored.push((put(&sandbox.repo, text, 1), text));
        }
        let reopened = sandbox.reopened();
        for (uri, text) in stored {
            let bytes = get(&reopened, &uri).unwrap();
            prop_assert_eq!(bytes.as_ref(), text.as_bytes());
        }
    }
}

#[test]
fn snapshots_and_forks_carry_cited_payloads() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let inner = put(repo, "the innermost", 1);
    let outer = put(repo, &format!("an archive that cites {inner}"), 1);
    let other = put(repo, "cited by no snapshot", 1);
    let first = say(repo, "work", "nothing yet");
    assert_eq!(carried(repo, &first), [] as [&str; 0]);
    let citing =
        say(repo, "work", &format!("Full output saved to: /d/.context_vfs/{}", outer.path()));
    let mut expected = [inner.to_string(), outer.to_string()];
    expected.sort();
    assert_eq!(carried(repo, &citing), expected, "with its own citations");

    // A fork cites the payload too. Only the uncited payload is evicted.
    let mut change = repo.begin();
    change.move_branch(&"work/fork".parse().unwrap(), Some(citing));
    change.commit(&stamp(2), "fork").unwrap();
    let plan = evict_all(repo, &everything(), 3);
    assert_eq!(uris(&plan.evicted), std::slice::from_ref(&other));
    assert_eq!(plan.cited.len(), 2);
    assert_eq!(get(repo, &other), Err(ErrorKind::NotFound));
    let said = repo.find_payload(&other).unwrap_err().to_string();
    assert!(said.contains("was evicted by count"), "{said}");
    assert_eq!(get(repo, &outer).unwrap(), format!("an archive that cites {inner}"));
    let report = fsck(repo, Thoroughness::Full, stamp(4).time, &mut |_, _| {}).unwrap();
    assert!(report.is_ok(), "{:?}", report.findings);
}

#[test]
fn payloads_cited_only_in_text_are_never_evicted() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let (inner, spare) = (put(repo, "inner", 1), put(repo, "spare", 1));
    let outer = put(repo, &format!("see {inner}."), 1);
    // A context built by hand carries no payloads over.
    say_as(repo, "work", &format!("Full output: {outer}"), false);
    let plan = evict_all(repo, &everything(), 2);
    assert_eq!(uris(&plan.evicted), [spare]);
    assert_eq!(get(repo, &inner).unwrap(), "inner");
}

#[test]
fn payloads_are_evicted_by_age_and_then_least_recent_use() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let names: Vec<VfsUri> = (0..5).map(|n| put(repo, &format!("payload {n}"), 10 + n)).collect();
    repo.touch_payload(&names[1], &stamp(100)).unwrap();
    let plan = |limits: EvictionLimits| plan_eviction(repo, &limits, 20 * SECOND).unwrap();
    let none = EvictionLimits::default();
    // An age is over the limit only if it is greater.
    let old = plan(EvictionLimits { max_age: Some(8 * SECOND), ..none });
    assert_eq!(uris(&old.evicted), [names[0].clone(), names[1].clone()]);
    assert_eq!(old.count(EvictionReason::Age), 2);
    let count = plan(EvictionLimits { max_files: Some(2), ..none });
    assert_eq!(uris(&count.evicted), [names[0].clone(), names[2].clone(), names[3].clone()]);
    let bytes = plan(EvictionLimits { max_bytes: Some(20), ..none });
    assert_eq!((bytes.evicted.len(), bytes.evicted_bytes(), bytes.bytes), (3, 27, 45));
    assert_eq!(bytes.count(EvictionReason::Bytes), 3);
    let both =
        plan(EvictionLimits { max_age: Some(9 * SECOND), max_files: Some(3), max_bytes: Some(9) });
    let reasons: Vec<_> = both.evicted.iter().map(|eviction| eviction.reason).collect();
    use EvictionReason::{Age, Bytes as Size, Count};
    assert_eq!(reasons, [Age, Count, Size, Size]);
    assert_eq!(plan(none).evicted, []);
    let error = plan_eviction(repo, &EvictionLimits { max_age: Some(-1), ..none }, 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(uris(&plan(everything()).evicted).len(), 5);
}

#[test]
fn evictions_can_be_undone_and_puts_are_skipped() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let turn = say(repo, "work", "before");
    let uri = put(repo, "payload", 1);
    assert_eq!(repo.undoable(None).unwrap().unwrap().operation.reason, "snapshot");
    evict_all(repo, &everything(), 2);
    assert_eq!(get(repo, &uri), Err(ErrorKind::NotFound));
    let plan = repo.plan_undo(repo.undoable(None).unwrap().unwrap()).unwrap();
    repo.undo(&plan, &stamp(3), "undo").unwrap();
    assert_eq!(get(repo, &uri).unwrap(), "payload");
    assert_eq!(repo.resolve("work").unwrap().commit, turn);
    // A payload that is stored again is not listed as evicted.
    evict_all(repo, &everything(), 4);
    put(repo, "payload", 5);
    let pool = Pool::load(repo).unwrap();
    assert_eq!(pool.evicted(repo).count(), 0);
}

#[test]
fn outdated_eviction_plans_change_nothing() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let uri = put(repo, "payload", 1);
    let plan = plan_eviction(repo, &everything(), SECOND).unwrap();
    let other = sandbox.reopened();
    say_as(&other, "work", &format!("Full output: {uri}"), false);
    assert_eq!(evict(repo, &plan, &stamp(2)).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(get(repo, &uri).unwrap(), "payload");
}

#[test]
fn payload_names_identify_one_content() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let text = named_by_content(Bytes::from_static(b"the text"));
    let first = repo.put_payload(&text, &stamp(1)).unwrap();
    let again = repo.put_payload(&text, &stamp(9)).unwrap();
    assert!(first.is_new && !again.is_new);
    assert_eq!(again.payload.created_micros, SECOND);
    assert_eq!(again.payload.accessed_micros, 9 * SECOND);
    // Another user's bytes are stored under the name of this content.
    let content = Bytes::from_static(b"content");
    let new = named_by_content(content.clone());
    let name = new.uri.clone();
    let foreign = Bytes::from_static(b"foreign");
    let there = |content: &Bytes| NewPayload {
        content: content.clone(),
        uri: name.clone(),
        otherwise: None,
    };
    repo.put_payload(&there(&foreign), &stamp(1)).unwrap();
    let stored = repo.put_payload(&new, &stamp(1)).unwrap();
    assert_eq!(Some(&stored.payload.uri), new.otherwise.as_ref());
    assert_eq!(get(repo, &name).unwrap(), foreign);
    assert_eq!(get(repo, &stored.payload.uri).unwrap(), content);
    let error = repo.put_payload(&there(&content), &stamp(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn concurrent_offloads_are_all_stored() {
    const PROCESSES: usize = 6;
    const EACH: usize = 5;
    let folder = tempfile::tempdir().unwrap();
    assert!(run(folder.path(), &["init"], b"").status.success());
    let text = |process: usize, n: usize| format!("{process}-{n} ").repeat(2000);
    std::thread::scope(|scope| {
        for process in 0..PROCESSES {
            let folder = folder.path();
            scope.spawn(move || {
                for n in 0..EACH {
                    let output = run(folder, &["offload"], text(process, n).as_bytes());
                    assert!(output.status.success(), "{output:?}");
                }
            });
        }
    });
    let listed = run(folder.path(), &["vfs", "ls", "--json"], b"").stdout;
    let listed: Value = serde_json::from_slice(&listed).unwrap();
    assert_eq!(listed["payloads"].as_array().unwrap().len(), PROCESSES * EACH);
    for process in 0..PROCESSES {
        for n in 0..EACH {
            let text = text(process, n);
            let uri = named_by_content(Bytes::from(text.clone())).uri;
            let whole = run(folder.path(), &["vfs", "get", uri.as_str()], b"").stdout;
            assert!(whole == text.as_bytes(), "{process}-{n} is lost");
        }
    }
}

#[test]
fn payloads_survive_collections_and_expire_with_their_citations() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let pooled = put(repo, "in the pool", 1);
    let cited = put(repo, "cited", 1);
    say(repo, "work", &format!("Full output: {cited}"));
    for turn in 0..40 {
        say(repo, "work", &format!("turn {turn}"));
    }
    let mut change = repo.begin();
    let policy = Policy { keep_last: Some(1), ..Policy::default() };
    set_policy(&mut change, Scope::Session("work"), &policy).unwrap();
    change.commit(&stamp(2), "retention").unwrap();
    let collected = collect(repo, Purpose::Gc, &stamp(3), &mut |_| ()).unwrap();
    assert!(collected.expired_turns > 0, "{collected:?}");
    assert_eq!(get(repo, &pooled).unwrap(), "in the pool");
    assert_eq!(get(repo, &cited).unwrap(), "cited", "later turns carry it");
}
