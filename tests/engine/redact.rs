//! Redaction: afterwards no object and no file contains the secret, and everything else is
//! unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turntree::ErrorKind;
use turntree::context::{Builder, Context, FileMode, MessageEntry, Role, Shape};
use turntree::maintenance::{
    MatchField, Pattern, Policies, Policy, Purpose, Scope, collect, fsck, plan_redaction, redact,
    set_policy,
};
use turntree::object::{Commit, Kind, ObjectId, ObjectSink, ObjectSource, RefValue, Tag};
use turntree::repo::{BranchName, GRAFTS_REF, Grafts, NewPin, Repository, SnapshotDraft, tag_ref};
use turntree::store::{Expected, Io, NewStore, Thoroughness, Tier};
use turntree::tree::{List, Map};
use turntree_tests::oracle::{DIR, options};
use turntree_tests::sim::{Fault, Keep, SimDisk};
use turntree_tests::{Sandbox, commit_turn, open_store, stamp};

/// A secret with every character that JSON escapes.
const SECRET: &str = "sk-\"9f/\nü\\end";
const PLAIN: &str = "hunter22-token";

fn pattern(text: &str) -> Pattern {
    Pattern::literal(text, "[redacted]").unwrap()
}

/// One turn of a session, in words: messages, notes and files to set.
#[derive(Default)]
struct Turn<'a> {
    messages: Vec<String>,
    notes: Vec<(&'a str, String)>,
    files: Vec<(String, String)>,
    words: String,
}

fn say<'a>(text: &str) -> Turn<'a> {
    let record = serde_json_string(text);
    let messages = vec![format!("{{\"role\":\"tool\",\"content\":{record}}}")];
    Turn { messages, words: "a turn".into(), ..Turn::default() }
}

/// Encodes a string as JSON without a library.
fn serde_json_string(text: &str) -> String {
    let mut json = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            '\n' => json.push_str("\\n"),
            c => json.push(c),
        }
    }
    json + "\""
}

fn take(repo: &Repository, branch: &BranchName, turn: &Turn<'_>, second: i64) -> ObjectId {
    commit_turn(repo, branch, &turn.words, &stamp(second), |context, change| {
        for record in &turn.messages {
            let blob = change.write(Kind::Blob, record.clone().into()).unwrap();
            let entry = MessageEntry::new(blob, Role::Tool, "json");
            context.push_message(change, "main", &entry).unwrap();
        }
        for (key, note) in &turn.notes {
            context.set_entry(change, "scratchpad", key, Some(note.clone().into())).unwrap();
        }
        for (path, content) in &turn.files {
            let file = Some((FileMode::Regular, content.clone().into()));
            context.set_file(change, path, file).unwrap();
        }
    })
}

fn fork(repo: &Repository, from: &ObjectId, name: &str) -> BranchName {
    let branch: BranchName = name.parse().unwrap();
    let mut change = repo.begin();
    change.move_branch(&branch, Some(*from));
    change.commit(&stamp(50), "fork").unwrap();
    branch
}

/// The content of a context by path.
fn content(source: &dyn ObjectSource, context: &Context) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for (name, section) in context.sections(source).unwrap() {
        let blob = |id: &ObjectId| source.read_as(Kind::Blob, id).unwrap().to_vec();
        match section.shape {
            Shape::Blob => _ = all.insert(name, blob(&section.id)),
            Shape::List => {
                let list = List::open(source, &section.id).unwrap();
                for (index, item) in list.iter(source, 0..list.len()).enumerate() {
                    all.insert(format!("{name}/{index}"), blob(&item.unwrap().link.id));
                }
            }
            Shape::Map => {
                for entry in Map::open(source, &section.id).unwrap().iter(source) {
                    let (key, item) = entry.unwrap();
                    let key = String::from_utf8(key.to_vec()).unwrap();
                    all.insert(format!("{name}/{key}"), blob(&item.link.id));
                }
            }
        }
    }
    all
}

/// For every branch, newest first: each commit without its ids, and its whole context.
type History = BTreeMap<String, Vec<(Commit, BTreeMap<String, Vec<u8>>)>>;

fn history(repo: &Repository) -> History {
    let of_branch = |(name, tip): (BranchName, ObjectId)| {
        let entries = repo.history(&[tip], &[]).unwrap().map(Result::unwrap);
        let turns = entries.map(|entry| {
            let context = repo.context(&entry.id).unwrap();
            let none = ObjectId::of(Kind::Blob, b"");
            let mut commit = entry.commit;
            commit.tree = none;
            commit.parents.fill(none);
            (commit, content(repo, &context))
        });
        (name.to_string(), turns.collect())
    };
    repo.branches().into_iter().map(of_branch).collect()
}

fn replace(text: &str, secret: &str) -> String {
    let inner = serde_json_string(secret);
    let inner = &inner[1..inner.len() - 1];
    let twice = serde_json_string(inner);
    let twice = &twice[1..twice.len() - 1];
    text.replace(twice, "[redacted]").replace(inner, "[redacted]").replace(secret, "[redacted]")
}

/// The expected history after a redaction.
fn expected(history: History, secret: &str) -> History {
    let text = |bytes: Vec<u8>| replace(&String::from_utf8(bytes).unwrap(), secret).into_bytes();
    let turn = |(mut commit, content): (Commit, BTreeMap<String, Vec<u8>>)| {
        commit.message = replace(&commit.message, secret);
        let content = content.into_iter().map(|(key, bytes)| (replace(&key, secret), text(bytes)));
        (commit, content.collect())
    };
    history.into_iter().map(|(name, turns)| (name, turns.into_iter().map(turn).collect())).collect()
}

fn every_file(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    found
}

fn holds(bytes: &[u8], secret: &str) -> bool {
    let inner = serde_json_string(secret);
    let forms = [secret, &inner[1..inner.len() - 1]];
    forms.iter().any(|form| bytes.windows(form.len()).any(|window| window == form.as_bytes()))
}

/// Checks that the store is sound. A segment that a crash left empty may exist.
fn assert_sound(repo: &Repository) {
    let report = fsck(repo, Thoroughness::Full, stamp(1000).time, &mut |_, _| {}).unwrap();
    assert!(report.is_ok(), "{:?}", report.findings);
}

/// Checks that no file and no object contains the secret, that the store is sound, and that no
/// other content is lost.
fn assert_gone(sandbox: &Sandbox, secret: &str) {
    for path in every_file(&sandbox.store_dir()) {
        assert!(!holds(&fs::read(&path).unwrap(), secret), "{}", path.display());
    }
    let repo = sandbox.reopened();
    assert_sound(&repo);
    let collection = repo.store().collect().unwrap();
    let inventory = collection.inventory();
    for position in 0..inventory.positions() {
        let id = inventory.entry(position).unwrap().id;
        let object = inventory.read(&id).unwrap().unwrap();
        assert!(!holds(&object.bytes, secret), "{} {id}", object.kind);
    }
    drop(collection);
    assert!(plan_redaction(&repo, &pattern(secret)).unwrap().is_empty());
}

/// A store with the secret everywhere: in two sessions, three branches, a pin and a tag.
struct World {
    sandbox: Sandbox,
    old: Vec<ObjectId>,
    branches: Vec<BranchName>,
}

fn world(secret: &str) -> World {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let main = BranchName::main("one").unwrap();
    let mut old = Vec::new();
    let mut second = 0;
    let mut next = |branch: &BranchName, turn: &Turn<'_>| {
        second += 1;
        take(repo, branch, turn, second)
    };
    for n in 0..20 {
        next(&main, &say(&format!("clean turn {n}")));
    }
    old.push(next(&main, &say(&format!("the key is {secret}, and {secret} again"))));
    let nested = serde_json_string(&format!("{{\"key\":{}}}", serde_json_string(secret)));
    let mut turn = say("a call");
    turn.messages.push(format!("{{\"arguments\":{nested}}}"));
    turn.notes = vec![("login", format!("use {secret}")), ("plan", "go on".into())];
    let path = format!("config/{}.env", secret.replace(['/', '\n'], "_"));
    turn.files = vec![(path, "A=1\n".into()), ("key.env".into(), format!("KEY={secret}\n"))];
    old.push(next(&main, &turn));
    let mut turn = say("clean");
    turn.words = format!("used {secret}");
    old.push(next(&main, &turn));
    let middle = *old.last().unwrap();
    let side = fork(repo, &middle, "one/side");
    for n in 0..40 {
        old.push(next(&main, &say(&format!("after {n}"))));
        next(&side, &say(&format!("beside {n}")));
    }
    let other = BranchName::main("two").unwrap();
    next(&other, &say("nothing here"));
    old.push(next(&other, &say(&format!("again {secret}"))));
    let mut change = repo.begin();
    let new = NewPin { reason: format!("with {secret}"), ..NewPin::default() };
    change.pin(&old[0], new, &stamp(99)).unwrap();
    let tag = Tag {
        target: middle,
        target_kind: Kind::Commit,
        name: "v1".into(),
        tagger: "ann".into(),
        time_micros: 0,
        message: "the first".into(),
        expires_micros: None,
    };
    let id = change.write(Kind::Tag, tag.encode().into()).unwrap();
    change.set_ref(&tag_ref("v1").unwrap(), Expected::Absent, Some(RefValue::Object(id)));
    change.commit(&stamp(99), &format!("pin because of {secret}")).unwrap();
    let branches = vec![main, side, other];
    World { sandbox, old, branches }
}

#[test]
fn redactions_remove_all_occurrences_and_keep_everything_else() {
    for secret in [PLAIN, SECRET] {
        let World { sandbox, old, branches } = world(secret);
        let reader = sandbox.reopened();
        let before = history(&sandbox.repo);
        let plan = plan_redaction(&sandbox.repo, &pattern(secret)).unwrap();
        assert_eq!(plan.in_use, [""; 0]);
        let done = redact(&sandbox.repo, &pattern(secret), &stamp(100)).unwrap();
        assert_eq!(done.rewritten, plan.rewritten);
        assert_gone(&sandbox, secret);

        let repo = sandbox.reopened();
        let after = history(&repo);
        assert_eq!(after, expected(before, secret));
        for id in &old {
            assert_eq!(repo.commit(id).unwrap_err().kind(), ErrorKind::Redacted, "{id}");
        }
        assert_eq!(repo.pins().unwrap()[0].reason, "with [redacted]");
        assert!(repo.resolve("v1").is_ok());
        // A reader that had the store open either reads the old content or gets an error.
        for (_, tip) in reader.branches() {
            let _ = reader.context(&tip).map(|context| content(reader.store(), &context));
        }
        reader.refresh().unwrap();
        assert_eq!(history(&reader), after);
        for branch in &branches {
            take(&repo, branch, &say("and on"), 200);
            assert_eq!(
                history(&repo)[&branch.to_string()].len(),
                after[&branch.to_string()].len() + 1
            );
        }
    }
}

#[test]
fn redactions_update_file_sizes_and_tree_shapes() {
    let World { sandbox, branches, .. } = world(PLAIN);
    redact(&sandbox.repo, &pattern(PLAIN), &stamp(100)).unwrap();
    let repo = sandbox.reopened();
    let tip = repo.tip(&branches[0]).unwrap();
    let context = repo.context(&tip).unwrap();
    let mut again = Builder::new();
    let mut change = repo.begin();
    for (path, bytes) in content(&repo, &context) {
        if let Some(path) = path.strip_prefix("files/") {
            again.set_file(&mut change, path, Some((FileMode::Regular, bytes.into()))).unwrap();
        } else if let Some(key) = path.strip_prefix("scratchpad/") {
            again.set_entry(&mut change, "scratchpad", key, Some(bytes.into())).unwrap();
        }
    }
    let messages = context.messages(&repo, "main").unwrap();
    for item in messages.iter(&repo, 0..messages.len()) {
        let entry = MessageEntry::from_item(&item.unwrap()).unwrap();
        again.push_message(&mut change, "main", &entry).unwrap();
    }
    assert_eq!(again.write(&mut change).unwrap(), repo.commit(&tip).unwrap().tree);
}

#[test]
fn redaction_reports_have_places_without_content() {
    let World { sandbox, .. } = world(PLAIN);
    let plan = plan_redaction(&sandbox.repo, &pattern(PLAIN)).unwrap();
    assert!(!format!("{plan:?}").contains(PLAIN));
    let found = |words: &str, part: MatchField| {
        let place =
            plan.places.iter().find(|p| p.whereabouts.to_string() == words && p.part == part);
        place.unwrap_or_else(|| panic!("{words}: {:#?}", plan.places)).clone()
    };
    let message = found("one, turns 21 to 63: agents/main/messages/20", MatchField::Content);
    assert_eq!((message.matches, message.spots.len()), (2, 2));
    assert_eq!((message.spots[0].line, message.spots[0].offset), (1, 37));
    found("one, turns 22 to 63: scratchpad/login", MatchField::Content);
    found("one, turns 22 to 63: files/key.env", MatchField::Content);
    found("one, turns 22 to 63: files/config/[redacted].env", MatchField::Key);
    found("one, turn 23: the commit", MatchField::Message);
    found("two, turn 2: agents/main/messages/1", MatchField::Content);
    assert!(plan.places.iter().any(|place| place.part == MatchField::Reason));
    assert_eq!(plan.refs.len(), 5);
    assert_eq!((plan.rewritten.tags, plan.lost_commits), (2, 0));
    assert_eq!(plan.rewritten.commits, 43 + 40 + 1);
}

#[test]
fn redactions_without_matches_change_nothing() {
    let World { sandbox, .. } = world(PLAIN);
    let files = |sandbox: &Sandbox| {
        let mut files: Vec<_> = every_file(&sandbox.store_dir())
            .into_iter()
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect();
        files.sort();
        files
    };
    plan_redaction(&sandbox.repo, &pattern("absent-everywhere")).unwrap();
    let before = files(&sandbox);
    let done = redact(&sandbox.repo, &pattern("absent-everywhere"), &stamp(100)).unwrap();
    assert_eq!(done, turntree::maintenance::Redacted::default());
    assert_eq!(files(&sandbox), before);
}

#[test]
fn redactions_rename_sessions_branches_and_pins() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let branch: BranchName = format!("for-{PLAIN}/fix-{PLAIN}").parse().unwrap();
    let id = take(repo, &branch, &say("clean"), 1);
    let mut change = repo.begin();
    change.switch(&branch);
    change.pin(&id, NewPin { name: Some(PLAIN.into()), ..NewPin::default() }, &stamp(2)).unwrap();
    change.commit(&stamp(2), "pin").unwrap();
    redact(repo, &pattern(PLAIN), &stamp(3)).unwrap();
    assert_gone(&sandbox, PLAIN);
    let repo = sandbox.reopened();
    let head = repo.head().unwrap();
    assert_eq!(head.branch.to_string(), "for-redacted/fix-redacted");
    assert_eq!(repo.commit(&head.commit.unwrap()).unwrap().session, "for-redacted");
    assert_eq!(repo.pins().unwrap()[0].name, "redacted");
}

#[test]
fn redacted_names_that_collide_are_numbered_or_rejected() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let main = BranchName::main("one").unwrap();
    let mut turn = say("clean");
    turn.files = [1, 2, 3].map(|n| (format!("key-{n}"), n.to_string())).to_vec();
    take(repo, &main, &turn, 1);
    let keys = Pattern::regex("key-[0-9]", "key").unwrap();
    redact(repo, &keys, &stamp(2)).unwrap();
    let context = repo.context(&repo.tip(&main).unwrap()).unwrap();
    let files: Vec<_> = content(repo, &context).into_iter().collect();
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["agents/main/messages/0", "files/key", "files/key#2", "files/key~2"]);

    for n in [1, 2] {
        take(repo, &BranchName::main(&format!("run{n}x")).unwrap(), &say("clean"), 3);
    }
    let before = repo.refs();
    let error = redact(repo, &Pattern::regex("[0-9]x", "").unwrap(), &stamp(4)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(repo.refs().values, before.values);
}

#[test]
fn redactions_remove_unreachable_content() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let main = BranchName::main("one").unwrap();
    let first = take(repo, &main, &say("clean"), 1);
    let lost = take(repo, &main, &say(&format!("key {PLAIN}")), 2);
    let mut change = repo.begin();
    change.move_branch(&main, Some(first));
    change.commit(&stamp(3), "rollback").unwrap();
    let mut staged = repo.begin();
    staged.write(Kind::Blob, format!("never committed {PLAIN}").into()).unwrap();
    staged.flush().unwrap();
    drop(staged);
    let plan = plan_redaction(repo, &pattern(PLAIN)).unwrap();
    assert_eq!((plan.rewritten, plan.lost_commits), (Default::default(), 1));
    redact(repo, &pattern(PLAIN), &stamp(4)).unwrap();
    assert_gone(&sandbox, PLAIN);
    assert_eq!(repo.tip(&main), Some(first));
    assert_eq!(repo.commit(&lost).unwrap_err().kind(), ErrorKind::Redacted);
    let operations: Vec<_> = repo.operations().map(Result::unwrap).collect();
    assert_eq!(operations.len(), 1);
    let dropped = operations[0].operation.parents[0];
    assert_eq!(repo.read(&dropped).unwrap_err().kind(), ErrorKind::Expired);
}

#[test]
fn redactions_cover_packs_and_keep_turns_expired() {
    let World { sandbox, branches, .. } = world(PLAIN);
    let repo = &sandbox.repo;
    let mut change = repo.begin();
    let policy = Policy { keep_last: Some(30), ..Policy::default() };
    set_policy(&mut change, Scope::Session("one"), &policy).unwrap();
    change.commit(&stamp(100), "retention").unwrap();
    for n in 0..150 {
        take(repo, &BranchName::main("three").unwrap(), &say(&n.to_string()), 100);
    }
    collect(repo, Purpose::Gc, &stamp(101), &mut |_| {}).unwrap();
    collect(repo, Purpose::Repack(Tier::Archive), &stamp(101), &mut |_| {}).unwrap();
    let expired = |repo: &Repository| {
        let tip = repo.tip(&branches[0]).unwrap();
        let turns = repo.history(&[tip], &[]).unwrap().map(Result::unwrap);
        let context = |id| repo.context(&id).map(|_| ()).map_err(|error| error.kind());
        turns.map(|entry| (entry.commit.turn, context(entry.id))).collect::<Vec<_>>()
    };
    let before = expired(repo);
    assert!(before.iter().any(|(_, found)| *found == Err(ErrorKind::Expired)));
    redact(repo, &pattern(PLAIN), &stamp(102)).unwrap();
    assert_gone(&sandbox, PLAIN);
    let repo = sandbox.reopened();
    assert_eq!(expired(&repo), before);
    assert_eq!(Policies::load(&repo, &repo.refs()).unwrap().of("one"), Some(&policy));
    // A later collection misses no object, and redacted content stays redacted.
    collect(&repo, Purpose::Gc, &stamp(103), &mut |_| {}).unwrap();
    collect(&repo, Purpose::Repack(Tier::Compacted), &stamp(103), &mut |_| {}).unwrap();
    assert_eq!(expired(&repo), before);
}

#[test]
fn successive_redactions_map_old_ids_through_both() {
    let World { sandbox, old, .. } = world(PLAIN);
    redact(&sandbox.repo, &pattern(PLAIN), &stamp(100)).unwrap();
    redact(&sandbox.repo, &pattern("clean turn 3"), &stamp(101)).unwrap();
    assert_gone(&sandbox, PLAIN);
    assert_gone(&sandbox, "clean turn 3");
    for id in &old {
        let error = sandbox.repo.commit(id).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Redacted);
    }
}

#[test]
fn redactions_keep_history_behind_forgotten_turns() {
    let sandbox = Sandbox::new();
    let (repo, main) = (&sandbox.repo, BranchName::main("one").unwrap());
    let texts = [PLAIN, "b", "graft-c", "d", "e"];
    let ids = [1, 2, 3, 4, 5].map(|n| take(repo, &main, &say(texts[n - 1]), n as i64));
    let mut change = repo.begin();
    let grafts = Grafts([(ids[1], Some(ids[0]))].into());
    let blob = change.write(Kind::Blob, grafts.encode().into()).unwrap();
    change.set_ref(GRAFTS_REF, Expected::Absent, Some(RefValue::Object(blob)));
    change.commit(&stamp(6), "forget").unwrap();
    let turns = |repo: &Repository| {
        let turns = repo.history(&[repo.tip(&main).unwrap()], &[]).unwrap();
        turns.map(|entry| entry.unwrap().commit.turn).collect::<Vec<_>>()
    };
    assert_eq!(turns(repo), [5, 4, 3, 1]);
    // At the first redaction the forgotten turns still exist; at the second they do not.
    for secret in [PLAIN, "graft-c"] {
        redact(repo, &pattern(secret), &stamp(7)).unwrap();
        assert_gone(&sandbox, secret);
        assert_eq!(turns(&sandbox.reopened()), [5, 4, 3, 1]);
    }
    for id in [0, 2, 3, 4].map(|n: usize| ids[n]) {
        assert_eq!(repo.commit(&id).unwrap_err().kind(), ErrorKind::Redacted);
    }
}

#[test]
fn changes_open_during_a_redaction_do_not_restore_content() {
    let World { sandbox, branches, .. } = world(PLAIN);
    collect(&sandbox.repo, Purpose::Repack(Tier::Hot), &stamp(100), &mut |_| {}).unwrap();
    let other = sandbox.reopened();
    let mut change = other.begin();
    let tip = change.tip(&branches[0]).unwrap();
    let mut builder = Builder::from(other.context(&tip).unwrap());
    builder.set_entry(&mut change, "scratchpad", "mine", Some("x".into())).unwrap();
    let tree = builder.write(&mut change).unwrap();
    redact(&sandbox.repo, &pattern(PLAIN), &stamp(101)).unwrap();
    let mine = BranchName::main("mine").unwrap();
    change.snapshot(&mine, SnapshotDraft::new(tree, "mine", &stamp(102))).unwrap();
    let error = change.commit(&stamp(102), "snapshot").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Redacted, "{error}");
    drop(other);
    assert_gone(&sandbox, PLAIN);
}

#[test]
fn large_histories_are_redacted_in_batches() {
    let sandbox = Sandbox::new();
    let main = BranchName::main("one").unwrap();
    for second in 0..4 {
        let mut turn = say("large");
        let large = format!("{second} {PLAIN} {}", "padding ".repeat(1 << 20));
        turn.files = vec![("large".into(), large)];
        take(&sandbox.repo, &main, &turn, second);
    }
    let before = history(&sandbox.repo);
    let done = redact(&sandbox.repo, &pattern(PLAIN), &stamp(100)).unwrap();
    assert_eq!((done.rewritten.blobs, done.rewritten.commits), (4, 4));
    assert_eq!(history(&sandbox.repo), expected(before, PLAIN));
    let repo = sandbox.reopened();
    assert_sound(&repo);
    assert!(plan_redaction(&repo, &pattern(PLAIN)).unwrap().is_empty());
}

#[test]
fn redactions_search_item_metadata_but_not_file_sizes() {
    let sandbox = Sandbox::new();
    let (repo, main) = (&sandbox.repo, BranchName::main("one").unwrap());
    let mut change = repo.begin();
    let mut builder = Builder::new();
    let blob = change.write(Kind::Blob, "{}".into()).unwrap();
    let entry = MessageEntry::new(blob, Role::User, format!("x-{PLAIN}"));
    builder.push_message(&mut change, "main", &entry).unwrap();
    let file = Some((FileMode::Regular, "a".repeat(97).into()));
    builder.set_file(&mut change, "f", file).unwrap();
    let tree = builder.write(&mut change).unwrap();
    change.snapshot(&main, SnapshotDraft::new(tree, "", &stamp(1))).unwrap();
    change.commit(&stamp(1), "snapshot").unwrap();
    let plan = plan_redaction(repo, &pattern(PLAIN)).unwrap();
    assert_eq!((plan.places.len(), plan.places[0].part), (1, MatchField::Meta));
    redact(repo, &pattern(PLAIN), &stamp(2)).unwrap();
    assert_gone(&sandbox, PLAIN);
    let context = repo.context(&repo.tip(&main).unwrap()).unwrap();
    let item = context.messages(repo, "main").unwrap().get(repo, 0).unwrap();
    assert_eq!(MessageEntry::from_item(&item.unwrap()).unwrap().media, "x-[redacted]");
    // 97 is the code of the letter a.
    let letters = plan_redaction(repo, &Pattern::literal("a", "X").unwrap()).unwrap();
    assert!(letters.places.iter().filter(|place| place.part == MatchField::Meta).count() == 1);
}

#[test]
fn redactions_do_not_start_during_a_concurrent_write() {
    let World { sandbox, .. } = world(PLAIN);
    let other = open_store(&sandbox.store_dir(), 9);
    take(&other, &BranchName::main("other").unwrap(), &say("mine"), 100);
    let refs = sandbox.repo.refs();
    let plan = plan_redaction(&sandbox.repo, &pattern(PLAIN)).unwrap();
    assert_eq!(plan.in_use.len(), 1);
    let error = redact(&sandbox.repo, &pattern(PLAIN), &stamp(101)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(error.to_string().ends_with("nothing was done"), "{error}");
    assert!(refs.values.iter().all(|(name, value)| sandbox.repo.refs().value(name) == Some(value)));
    drop(other);
    redact(&sandbox.repo, &pattern(PLAIN), &stamp(101)).unwrap();
    assert_gone(&sandbox, PLAIN);
}

#[test]
fn redactions_remove_leftovers_of_killed_collections() {
    let sandbox = Sandbox::new();
    let left = ["manifest-00000000000000ff.0.tmp", "packs/x.tmp", "quarantine/old.seg"];
    fs::create_dir(sandbox.store_dir().join("quarantine")).unwrap();
    for name in left {
        fs::write(sandbox.store_dir().join(name), PLAIN).unwrap();
    }
    let plan = plan_redaction(&sandbox.repo, &pattern(PLAIN)).unwrap();
    assert_eq!(plan.leftovers, left);
    assert!(!plan.is_empty());
    let done = redact(&sandbox.repo, &pattern(PLAIN), &stamp(101)).unwrap();
    assert!(done.leftovers >= 3);
    assert_gone(&sandbox, PLAIN);
}

/// The branches of a small store by name, with the messages of their turns, newest first.
fn words(repo: &Repository) -> BTreeMap<String, Vec<String>> {
    let turns = |tip: &ObjectId| {
        let turns = repo.history(&[*tip], &[]).unwrap().map(Result::unwrap);
        turns.map(|entry| entry.commit.message.replace(PLAIN, "[redacted]")).collect()
    };
    let branches = repo.branches();
    branches.iter().map(|(name, tip)| (name.to_string(), turns(tip))).collect()
}

/// A store in which a redaction changes names, contents and an expired pin.
fn small_world(disk: &SimDisk) {
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    let new = NewStore { id: [7; 16] };
    let repo = Repository::init(io, Path::new(DIR), &new, options(1)).unwrap();
    let main = BranchName::main("one").unwrap();
    take(&repo, &main, &say("clean"), 1);
    let mut turn = say(&format!("with {PLAIN}"));
    turn.words = format!("about {PLAIN}");
    turn.files = vec![(format!("{PLAIN}.env"), PLAIN.into())];
    let second = take(&repo, &main, &turn, 2);
    take(&repo, &main, &say("after"), 3);
    let side = fork(&repo, &second, "one/side");
    take(&repo, &side, &say("beside"), 4);
    fork(&repo, &second, &format!("one/{PLAIN}"));
    let mut change = repo.begin();
    let new = NewPin { expires_micros: Some(0), ..NewPin::default() };
    change.pin(&second, new, &stamp(5)).unwrap();
    change.commit(&stamp(5), "pin").unwrap();
}

fn try_redact(disk: &SimDisk, seed: u64) -> turntree::Result<()> {
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    let repo = Repository::open(io, Path::new(DIR), options(seed))?;
    redact(&repo, &pattern(PLAIN), &stamp(10)).map(drop)
}

/// Checks that another run completes the redaction after any failure.
fn assert_completes(disk: &SimDisk, wanted: &BTreeMap<String, Vec<String>>) {
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    let repo = Repository::open(io, Path::new(DIR), options(90)).unwrap();
    let found = words(&repo);
    let named = |name: &str| found.contains_key(name);
    assert!(named("one/redacted") != named(&format!("one/{PLAIN}")), "all refs move or none");
    redact(&repo, &pattern(PLAIN), &stamp(11)).unwrap();
    assert_eq!(words(&repo), *wanted);
    assert_sound(&repo);
    for (path, bytes) in disk.files() {
        assert!(!holds(&bytes, PLAIN), "{}", path.display());
    }
    for (_, tip) in repo.branches() {
        let all = content(&repo, &repo.context(&tip).unwrap());
        assert!(all.values().all(|bytes| !holds(bytes, PLAIN)));
    }
}

#[test]
fn crashed_redactions_are_completed_by_the_next() {
    let begin = SimDisk::new(Path::new("/disk"));
    small_world(&begin);
    let whole = begin.crash(Keep::All);
    try_redact(&whole, 80).unwrap();
    let io: Arc<dyn Io> = Arc::new(whole.clone());
    let wanted = words(&Repository::open(io, Path::new(DIR), options(81)).unwrap());
    assert_eq!(wanted.len(), 3);
    for at in 1.. {
        let disk = begin.crash(Keep::All);
        disk.arm(Fault::CrashAt(at));
        let done = try_redact(&disk, 82);
        let triggered = disk.triggered();
        assert_eq!(done.is_ok(), !triggered, "{at}: {done:?}");
        for keep in [Keep::All, Keep::Nothing, Keep::Some(at)] {
            assert_completes(&disk.crash(keep), &wanted);
        }
        if !triggered {
            assert!(at > 20, "there is something to crash in");
            return;
        }
    }
}

#[test]
fn failed_redactions_are_completed_by_the_next() {
    let begin = SimDisk::new(Path::new("/disk"));
    small_world(&begin);
    let whole = begin.crash(Keep::All);
    try_redact(&whole, 80).unwrap();
    let io: Arc<dyn Io> = Arc::new(whole.clone());
    let wanted = words(&Repository::open(io, Path::new(DIR), options(81)).unwrap());
    for at in 1.. {
        let disk = begin.crash(Keep::All);
        disk.arm(Fault::FailAt(at));
        let _ = try_redact(&disk, 82);
        let triggered = disk.triggered();
        disk.arm(Fault::None);
        assert_completes(&disk, &wanted);
        if !triggered {
            return;
        }
    }
}
