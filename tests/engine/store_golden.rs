//! Stores of format version 1 that stay readable: `format-spec/vectors/store-v1`, with packs,
//! `store-v1-journal`, which has no packs, `store-v1-tiers`, with a pack of every tier, and
//! `store-v1-without-ids`, with an archive that lists no ids.
//!
//! [`make`], [`make_journal`], [`make_tiers`] and [`make_without_ids`] made them. Ids and names of
//! refs are reproducible; compressed bytes, and so the names of packs, depend on the version of
//! zstd. A new format version gets new stores next to these. To remake a store, remove its folder
//! and run
//!
//! ```text
//! cargo test --workspace --test engine store_golden -- --ignored
//! ```

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turntree::ErrorKind;
use turntree::context::{Builder, FileMode, MessageEntry, Role, SourceEntry, SourceKind};
use turntree::maintenance::{
    MAX_EXPIRED, Pattern, Policy, Purpose, Scope, collect, redact, set_policy,
};
use turntree::object::{Kind, ObjectId, ObjectSink, ObjectSource, RefValue, Tag};
use turntree::repo::{BranchName, NewPin, Repository, SnapshotDraft, tag_ref};
use turntree::store::{
    Durability, Expected, FileReplacement, NewStore, OpenOptions, PackItem, RealIo, Tier, Tombstone,
};
use turntree_tests::{open_store, stamp};

/// The folder of a golden store: its files and its expected content.
fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../format-spec/vectors").join(name)
}

const WITH_PACKS: &str = "store-v1";
const JOURNAL_ONLY: &str = "store-v1-journal";
const EVERY_TIER: &str = "store-v1-tiers";
const WITHOUT_IDS: &str = "store-v1-without-ids";
/// Makes a store in a folder.
type Make = fn(&Path);
/// Each store with the function that makes it.
const GOLDEN: [(&str, Make); 4] = [
    (WITH_PACKS, make),
    (JOURNAL_ONLY, make_journal),
    (EVERY_TIER, make_tiers),
    (WITHOUT_IDS, make_without_ids),
];

/// Commits a snapshot on `branch`, and moves HEAD there.
fn snapshot(
    repo: &Repository,
    branch: &str,
    second: i64,
    change_context: impl FnOnce(&mut Builder, &mut dyn ObjectSink),
) -> ObjectId {
    let (branch, stamp): (BranchName, _) = (branch.parse().unwrap(), stamp(second));
    let mut change = repo.begin();
    let mut builder = match change.tip(&branch) {
        Some(tip) => Builder::from(repo.context(&tip).unwrap()),
        None => Builder::new(),
    };
    change_context(&mut builder, &mut change);
    let tree = builder.write(&mut change).unwrap();
    let message = format!("second {second}\nand a line that a list does not show");
    let id = change.snapshot(&branch, SnapshotDraft::new(tree, message, &stamp)).unwrap();
    change.switch(&branch);
    change.commit(&stamp, "snapshot").unwrap();
    id
}

fn note(repo: &Repository, branch: &str, second: i64, text: &'static str) -> ObjectId {
    snapshot(repo, branch, second, |builder, sink| {
        builder.set_entry(sink, "goals", "next", Some(text.into())).unwrap();
    })
}

/// Some content for every section: a message that is also in the source, enough keys and records
/// for nodes of their own, and each kind of file.
fn turn(builder: &mut Builder, sink: &mut dyn ObjectSink, turn: i64) {
    for part in 0..2 {
        let record = format!(r#"{{"role":"user","content":"message {part} of turn {turn}"}}"#);
        let blob = sink.write(Kind::Blob, record.into()).unwrap();
        let (role, media) = (Role::User, "json".to_owned());
        builder.push_message(sink, "main", &MessageEntry::new(blob, role, media)).unwrap();
        let (kind, suffix) = (SourceKind::Record, "\n".into());
        let piece = SourceEntry { blob, kind, suffix }.to_item().unwrap();
        builder.push(sink, "source", piece).unwrap();
    }
    for key in (0..40).filter(|key| turn == 1 || key % 7 == turn % 7) {
        let value = format!("{key} in turn {turn}").into();
        builder.set_entry(sink, "scratchpad", &format!("note/{key}"), Some(value)).unwrap();
    }
    let prompt = sink.write(Kind::Blob, "be brief".into()).unwrap();
    builder.set_blob(sink, "agents/main/system-prompt", prompt).unwrap();
    let lines = "a line\n".repeat(usize::try_from(turn).unwrap() * 10);
    for (path, mode, content) in [
        ("a.txt", FileMode::Regular, lines),
        ("run.sh", FileMode::Executable, "true".into()),
        ("link", FileMode::Symlink, "a.txt".into()),
    ] {
        builder.set_file(sink, path, Some((mode, content.into()))).unwrap();
    }
}

/// A session of 24 turns, a fork, a tag, and deleted and symbolic refs. Importers are not used:
/// their output may change.
fn make_session(dir: &Path) -> Repository {
    fs::create_dir_all(dir.parent().unwrap()).unwrap();
    let (io, new) = (Arc::new(RealIo), NewStore { id: [0x11; 16] });
    let first = Repository::init(io, dir, &new, OpenOptions::new([1; 16])).unwrap();
    for second in 1..=24 {
        snapshot(&first, "golden/main", second, |builder, sink| turn(builder, sink, second));
    }
    let target = first.resolve("golden/main~3").unwrap().commit;
    let mut change = first.begin();
    change.move_branch(&BranchName::new("golden", "fork").unwrap(), Some(target));
    change.move_branch(&BranchName::new("golden", "gone").unwrap(), Some(target));
    let (name, tagger) = ("good".to_owned(), "somebody".to_owned());
    let message = "a place to come back to".to_owned();
    let target_kind = Kind::Commit;
    let tag =
        Tag { target, target_kind, name, tagger, time_micros: 31, message, expires_micros: None };
    let tag = change.write(Kind::Tag, tag.encode().into()).unwrap();
    change.set_ref(&tag_ref("good").unwrap(), Expected::Absent, Some(RefValue::Object(tag)));
    change.commit(&stamp(31), "fork").unwrap();
    let mut change = first.begin();
    change.move_branch(&BranchName::new("golden", "gone").unwrap(), None);
    change.commit(&stamp(32), "delete").unwrap();
    first
}

/// Segments of several writers, some of them sealed.
fn make_segments(dir: &Path, first: Repository) {
    // Writers that are open at the same time have a segment each. The next writer finds them idle
    // and seals them.
    let mut writers = vec![first];
    for seed in 2..12 {
        let writer = open_store(dir, seed);
        note(&writer, "golden/writers", 40 + i64::from(seed), "a segment of my own");
        writers.push(writer);
    }
    drop(writers);
    note(&open_store(dir, 12), "golden/fork", 50, "the end");
    let last = open_store(dir, 13);
    note(&last, "golden/fork", 51, "really");
    assert!(last.summary().unwrap().sealed_segments > 0, "no segment was sealed");
}

/// A store without packs.
fn make_journal(dir: &Path) {
    let first = make_session(dir);
    make_segments(dir, first);
}

/// A store with everything: a hot pack made while another writer holds a segment; a compacted pack
/// with tombstones of another session's expired turns, one of which is pinned and kept; and sealed
/// and active segments after them.
fn make(dir: &Path) {
    let first = make_session(dir);
    let busy = open_store(dir, 14);
    note(&busy, "golden/busy", 33, "in use while the others are packed");
    pack(&first, Purpose::Repack(Tier::Hot), 34);
    drop(busy);
    first.refresh().unwrap();
    for second in 100..140 {
        snapshot(&first, "short/main", second, |builder, sink| turn(builder, sink, second));
    }
    let mut change = first.begin();
    let pinned = first.resolve("short/main~36").unwrap().commit;
    let (name, reason) = (Some("early".to_owned()), "the plan".to_owned());
    change.pin(&pinned, NewPin { name, reason, expires_micros: None }, &stamp(140)).unwrap();
    let policy = Policy { keep_last: Some(3), ..Policy::default() };
    set_policy(&mut change, Scope::Session("short"), &policy).unwrap();
    change.commit(&stamp(140), "pin").unwrap();
    pack(&first, Purpose::Gc, 141);
    make_segments(dir, first);
}

fn pack(repo: &Repository, purpose: Purpose, second: i64) {
    let collected = collect(repo, purpose, &stamp(second), &mut |_| ()).unwrap();
    assert_eq!(collected.steps, 1, "{purpose:?}");
}

/// A store with an archive that has tombstones of a redacted string and of expired turns, some of
/// them forgotten; a compacted and a hot pack; and sealed and active segments after them.
fn make_tiers(dir: &Path) {
    let first = make_session(dir);
    note(&first, "golden/fork", 33, "the word is xyzzy");
    redact(&first, &Pattern::literal("xyzzy", "[redacted]").unwrap(), &stamp(34)).unwrap();
    make_forgotten_turns(dir);
    first.refresh().unwrap();
    pack(&first, Purpose::Gc, 1000);
    store_again(&first, Some(Tier::Compacted), Tier::Archive);
    for (tier, second) in [(Tier::Compacted, 1010), (Tier::Hot, 1020)] {
        for second in second..second + 5 {
            snapshot(&first, "golden/main", second, |builder, sink| turn(builder, sink, second));
        }
        store_again(&first, None, tier);
    }
    make_segments(dir, first);
}

/// A store whose archive lists no ids, and segments after it.
fn make_without_ids(dir: &Path) {
    make_session(dir).store().allow_archives_without_ids().unwrap();
    let io = Arc::new(RealIo);
    let first = Repository::open(io, dir, OpenOptions::new([16; 16])).unwrap();
    first.store().leave_ids_out();
    pack(&first, Purpose::Repack(Tier::Archive), 141);
    make_segments(dir, first);
}

/// A session with more expired turns than are remembered, one of them pinned.
fn make_forgotten_turns(dir: &Path) {
    let mut options = OpenOptions::new([15; 16]);
    options.durability = Durability::None;
    let repo = Repository::open(Arc::new(RealIo), dir, options).unwrap();
    for second in 100..200 + i64::try_from(MAX_EXPIRED).unwrap() + 50 {
        snapshot(&repo, "long/main", second, |builder, sink| {
            let value = Some(format!("at {second}").into());
            builder.set_entry(sink, "goals", "next", value).unwrap();
        });
    }
    let mut change = repo.begin();
    let pinned = repo.resolve("long/main~600").unwrap().commit;
    let (name, reason) = (Some("early".to_owned()), "the plan".to_owned());
    change.pin(&pinned, NewPin { name, reason, expires_micros: None }, &stamp(999)).unwrap();
    let policy = Policy { keep_last: Some(3), ..Policy::default() };
    set_policy(&mut change, Scope::Session("long"), &policy).unwrap();
    change.commit(&stamp(999), "pin").unwrap();
}

/// Stores the content of a tier's files, or of the journal, as a pack of another tier, and keeps
/// the other files. A collection would choose this only in far larger stores.
fn store_again(repo: &Repository, from: Option<Tier>, tier: Tier) {
    let collection = repo.store().collect().unwrap();
    let inventory = collection.inventory();
    let chosen = inventory.files().iter().enumerate().filter(|(_, file)| file.tier == from);
    let files: Vec<usize> = chosen.map(|(number, _)| number).collect();
    let entries = (0..inventory.positions()).filter_map(|position| {
        let entry = inventory.entry(position)?;
        let stays = files.contains(&entry.file) && inventory.find(&entry.id) == Some(position);
        stays.then_some(PackItem { id: entry.id, kind: entry.kind, placement: 0, cohort: 0 })
    });
    let items = entries.collect();
    let gone = files.iter().flat_map(|file| inventory.tombstones_in(*file)).collect();
    let replacement = FileReplacement { files, items, gone, tier };
    collection.replace(&replacement, &mut |_| Ok(Vec::new())).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A line of JSON for each ref.
fn refs(repo: &Repository) -> Vec<String> {
    let refs = repo.refs();
    let line = |(name, value): (&str, &RefValue)| match value {
        RefValue::Object(id) => format!(r#""{name}": "{id}""#),
        RefValue::Symbolic(target) => format!(r#""{name}": "-> {target}""#),
    };
    refs.values.iter().map(line).collect()
}

/// A line of JSON for each commit on the first-parent line of HEAD.
fn log(repo: &Repository) -> Vec<String> {
    let head = repo.resolve("HEAD").unwrap().commit;
    let entries = repo.history(&[head], &[]).unwrap().first_parent().map(Result::unwrap);
    let line = |id: ObjectId, turn: u64, micros: i64, trigger: &str, message: &str| {
        format!(r#"["{id}", {turn}, {micros}, "{trigger}", {message:?}]"#)
    };
    entries
        .map(|entry| {
            let commit = &entry.commit;
            line(entry.id, commit.turn, commit.time.micros, commit.trigger.name(), &commit.message)
        })
        .collect()
}

/// A line of JSON for an object: its id, kind, length, and what `b3sum` prints for its bytes.
fn object(repo: &Repository, id: &ObjectId) -> String {
    let object = repo.read(id).unwrap().unwrap();
    let (digest, length) = (ObjectId::of(Kind::Blob, &object.bytes), object.bytes.len());
    format!(r#""{id}": ["{}", {length}, "{digest}"]"#, object.kind)
}

/// A line of JSON for an id without content: its kind, and why.
fn gone_line((id, kind, why): &(ObjectId, Kind, Tombstone)) -> String {
    let why = match why {
        Tombstone::Elided => "elided",
        Tombstone::Redacted => "redacted",
    };
    format!(r#""{id}": ["{kind}", "{why}"]"#)
}

/// The ids that packs list as tombstones, in order.
fn gone(repo: &Repository) -> Vec<(ObjectId, Kind, Tombstone)> {
    let inventory = repo.store().inventory().unwrap();
    let files = 0..inventory.files().len();
    let mut gone: Vec<_> = files.flat_map(|file| inventory.tombstones_in(file)).collect();
    gone.retain(|(id, ..)| inventory.tombstone(id).is_some() && inventory.find(id).is_none());
    gone.sort_unstable();
    gone.dedup();
    gone
}

fn expected(repo: &Repository) -> String {
    let prefixes = (0..1 << 16).map(|prefix| format!("{prefix:04x}").parse().unwrap());
    let found = prefixes.flat_map(|prefix| repo.store().find(&prefix, usize::MAX));
    let objects: Vec<String> = found.map(|(id, _)| object(repo, &id)).collect();
    let gone: Vec<String> = gone(repo).iter().map(gone_line).collect();
    let mut out = String::from("{");
    for (name, brackets, lines) in [
        ("refs", "{}", refs(repo)),
        ("log", "[]", log(repo)),
        ("gone", "{}", gone),
        ("objects", "{}", objects),
    ] {
        let (open, close) = brackets.split_at(1);
        let comma = if name == "refs" { "" } else { "," };
        write!(out, "{comma}\n\"{name}\": {open}\n{}\n{close}", lines.join(",\n")).unwrap();
    }
    out + "\n}\n"
}

fn assert_expected(repo: &Repository, name: &str) {
    let text = fs::read_to_string(golden(name).join("expected.json")).unwrap();
    let found = expected(repo);
    for (number, (found, line)) in found.lines().zip(text.lines()).enumerate() {
        assert_eq!(found, line, "line {} of expected.json of {name}", number + 1);
    }
    assert_eq!(found.len(), text.len());
}

#[test]
fn stores_of_version_1_are_read_and_written() {
    for (name, _) in GOLDEN {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("store");
        copy(&golden(name).join("store"), &dir);
        // Git stores no empty folder.
        fs::create_dir_all(dir.join("packs")).unwrap();
        let repo = open_store(&dir, 100);
        assert_eq!(repo.findings(), [], "{name}: nothing in it is damaged");
        assert_expected(&repo, name);

        let before = repo.refs().values.len();
        let id = note(&repo, "golden/later", 160, "on");
        collect(&repo, Purpose::Repack(Tier::Archive), &stamp(161), &mut |_| ()).unwrap();
        drop(repo);
        let again = open_store(&dir, 101);
        assert_eq!(again.resolve("golden/later").unwrap().commit, id);
        assert_eq!(again.refs().values.len(), before + 1);
    }
}

#[test]
fn the_golden_store_with_packs_has_two_tiers_and_expired_turns() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    copy(&golden(WITH_PACKS).join("store"), &dir);
    let repo = open_store(&dir, 100);
    let inventory = repo.store().inventory().unwrap();
    let tiers: Vec<Option<Tier>> = inventory.files().iter().map(|file| file.tier).collect();
    for tier in [None, Some(Tier::Hot), Some(Tier::Compacted)] {
        assert!(tiers.contains(&tier), "{tiers:?}");
    }
    let packed = inventory.files().iter().filter(|file| file.tier.is_some());
    assert!(packed.map(|file| file.objects).sum::<usize>() > 300, "most objects are in packs");

    let messages = |name: &str| {
        let context = repo.context(&repo.resolve(name).unwrap().commit)?;
        context.list(&repo, "agents/main/messages").map(|list| list.len())
    };
    assert_eq!(messages("golden/main").unwrap(), 48);
    assert_eq!(messages("short/main~36").unwrap(), 8, "pinned");
    for expired in ["short/main~35", "short/main~37"] {
        assert_eq!(messages(expired).unwrap_err().kind(), ErrorKind::Expired, "{expired}");
    }
}

#[test]
fn the_golden_store_distinguishes_expired_forgotten_and_redacted_turns() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    copy(&golden(EVERY_TIER).join("store"), &dir);
    let repo = open_store(&dir, 100);
    let inventory = repo.store().inventory().unwrap();
    let tiers: Vec<Option<Tier>> = inventory.files().iter().map(|file| file.tier).collect();
    for tier in [None, Some(Tier::Hot), Some(Tier::Compacted), Some(Tier::Archive)] {
        assert!(tiers.contains(&tier), "{tiers:?}");
    }
    let summary = repo.summary().unwrap();
    assert!(summary.sealed_segments > 0 && summary.active_segments > 0, "{summary:?}");

    let gone = gone(&repo);
    for why in [Tombstone::Elided, Tombstone::Redacted] {
        assert!(gone.iter().any(|(.., found)| *found == why), "{why:?}");
    }
    assert!(!repo.grafts().unwrap().0.is_empty(), "history goes on behind forgotten turns");
    let pinned = repo.resolve("pins/early").or_else(|_| repo.resolve("refs/pins/early")).unwrap();
    assert!(repo.context(&pinned.commit).is_ok(), "pinned");
    let expired = repo.context(&repo.resolve("long/main~100").unwrap().commit);
    assert_eq!(expired.unwrap_err().kind(), ErrorKind::Expired);
}

#[test]
fn golden_archives_without_ids_have_version_2() {
    let superblock = fs::read(golden(WITHOUT_IDS).join("store/superblock")).unwrap();
    assert_eq!(superblock[40..48], [4, 0, 0, 0, 0, 0, 0, 0], "unknown to programs of before");
    let packs = fs::read_dir(golden(WITHOUT_IDS).join("store/packs")).unwrap();
    let mut paths = packs.map(|entry| entry.unwrap().path());
    let pack = paths.find(|path| path.extension().is_some_and(|it| it == "pack")).unwrap();
    let bytes = fs::read(pack).unwrap();
    assert_eq!((bytes[8], &bytes[56..60]), (2, &[0; 4][..]), "no slots");
}

#[test]
fn golden_stores_are_reproducible() {
    // A redaction now also records its replacement, which the stored one does not have.
    for (name, make) in GOLDEN.into_iter().filter(|(name, _)| *name != EVERY_TIER) {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("store");
        make(&dir);
        assert_expected(&open_store(&dir, 100), name);
    }
}

#[test]
#[ignore = "makes golden stores whose folders were removed"]
fn rebuild_missing_golden_stores() {
    for (name, make) in GOLDEN {
        let dir = golden(name).join("store");
        if !dir.exists() {
            make(&dir);
            fs::write(golden(name).join("expected.json"), expected(&open_store(&dir, 100)))
                .unwrap();
        }
    }
}
