//! A store of format version 1 that stays readable: `format-spec/vectors/store-v1`.
//!
//! [`make`] is how it came to be. Ids and names are the same each time; the compressed bytes are
//! those of the zstd of the day. A new format version gets a new store beside this one:
//!
//! ```text
//! cargo test -p turntree-tests --test golden_store -- --ignored
//! ```

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turntree::context::{Builder, FileMode, MessageEntry, Role, SourceEntry, SourceKind};
use turntree::object::{Kind, ObjectId, ObjectSink, ObjectSource, RefValue, Tag};
use turntree::repo::{BranchName, Repository, Snapshot, tag_ref};
use turntree::store::{Expected, NewStore, OpenOptions, RealIo};
use turntree_tests::stamp;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../format-spec/vectors/store-v1")
}

fn open(dir: &Path, seed: u8) -> Repository {
    Repository::open(Arc::new(RealIo), dir, OpenOptions::new([seed; 16])).unwrap()
}

/// A snapshot on top of `branch`, which HEAD follows.
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
    let id = change.snapshot(&branch, Snapshot::new(tree, message, &stamp)).unwrap();
    change.switch(&branch);
    change.finish(&stamp, "snapshot").unwrap();
    id
}

fn note(repo: &Repository, branch: &str, second: i64, text: &'static str) -> ObjectId {
    snapshot(repo, branch, second, |builder, sink| {
        builder.set_entry(sink, "goals", "next", Some(text.into())).unwrap();
    })
}

/// Some of every section: a message that is in the source too, keys and records enough for nodes of
/// their own, and each kind of file.
fn turn(builder: &mut Builder, sink: &mut dyn ObjectSink, turn: i64) {
    for part in 0..2 {
        let record = format!(r#"{{"role":"user","content":"message {part} of turn {turn}"}}"#);
        let blob = sink.write(Kind::Blob, record.into()).unwrap();
        let (role, media) = (Role::User, "json".to_owned());
        builder.push_message(sink, "main", &MessageEntry { blob, role, media }).unwrap();
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

/// The golden store: a session of 24 turns, a fork, a tag, deleted and symbolic refs, and segments
/// of several writers, of which some are sealed. Importers are left out: what they make may change.
fn make(dir: &Path) {
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
    change.finish(&stamp(31), "fork").unwrap();
    let mut change = first.begin();
    change.move_branch(&BranchName::new("golden", "gone").unwrap(), None);
    change.finish(&stamp(32), "delete").unwrap();
    // Writers that are open at once have a segment each; the next one finds them idle and seals.
    let mut writers = vec![first];
    for seed in 2..12 {
        let writer = open(dir, seed);
        note(&writer, "golden/writers", 40 + i64::from(seed), "a segment of my own");
        writers.push(writer);
    }
    drop(writers);
    note(&open(dir, 12), "golden/fork", 50, "the end");
    let last = open(dir, 13);
    note(&last, "golden/fork", 51, "really");
    assert!(last.store().summary().unwrap().sealed_segments > 0, "no segment was sealed");
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
    let line = |(name, value): (&String, &RefValue)| match value {
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
    let object = repo.store().read(id).unwrap().unwrap();
    let (digest, length) = (ObjectId::of(Kind::Blob, &object.bytes), object.bytes.len());
    format!(r#""{id}": ["{}", {length}, "{digest}"]"#, object.kind)
}

fn expected(repo: &Repository) -> String {
    let prefixes = (0..1 << 16).map(|prefix| format!("{prefix:04x}").parse().unwrap());
    let found = prefixes.flat_map(|prefix| repo.store().find(&prefix, usize::MAX));
    let objects: Vec<String> = found.map(|(id, _)| object(repo, &id)).collect();
    let mut out = String::from("{");
    for (name, brackets, lines) in
        [("refs", "{}", refs(repo)), ("log", "[]", log(repo)), ("objects", "{}", objects)]
    {
        let (open, close) = brackets.split_at(1);
        let comma = if name == "refs" { "" } else { "," };
        write!(out, "{comma}\n\"{name}\": {open}\n{}\n{close}", lines.join(",\n")).unwrap();
    }
    out + "\n}\n"
}

fn assert_expected(repo: &Repository) {
    let text = fs::read_to_string(golden().join("expected.json")).unwrap();
    let found = expected(repo);
    for (number, (found, line)) in found.lines().zip(text.lines()).enumerate() {
        assert_eq!(found, line, "line {} of expected.json", number + 1);
    }
    assert_eq!(found.len(), text.len());
}

#[test]
fn a_store_of_version_1_is_read_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    copy(&golden().join("store"), &dir);
    let repo = open(&dir, 100);
    assert_eq!(repo.store().findings(), [], "nothing in it is damaged");
    assert_expected(&repo);

    let before = repo.refs().values.len();
    let id = note(&repo, "golden/later", 60, "on");
    drop(repo);
    let again = open(&dir, 101);
    assert_eq!(again.resolve("golden/later").unwrap().commit, id);
    assert_eq!(again.refs().values.len(), before + 1);
}

#[test]
fn the_same_calls_make_the_same_objects_and_refs() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    make(&dir);
    assert_expected(&open(&dir, 100));
}

#[test]
#[ignore = "replaces the golden store"]
fn make_the_golden_store_again() {
    let dir = golden().join("store");
    if dir.exists() {
        fs::remove_dir_all(&dir).unwrap();
    }
    make(&dir);
    fs::write(golden().join("expected.json"), expected(&open(&dir, 100))).unwrap();
}
