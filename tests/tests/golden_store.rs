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

use turntree::context::Builder;
use turntree::exchange::{ImportOptions, apply_state, import};
use turntree::object::{Kind, ObjectId, ObjectSink, ObjectSource, RefValue, Tag};
use turntree::repo::{BranchName, Repository, Snapshot, tag_ref};
use turntree::store::{Expected, NewStore, OpenOptions, RealIo};
use turntree_tests::{claude_code, stamp};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../format-spec/vectors/store-v1")
}

fn open(dir: &Path, seed: u8) -> Repository {
    Repository::open(Arc::new(RealIo), dir, OpenOptions::new([seed; 16])).unwrap()
}

/// A snapshot of `document` on top of `branch`.
fn snapshot(repo: &Repository, branch: &str, second: i64, document: &str) -> ObjectId {
    let (branch, stamp): (BranchName, _) = (branch.parse().unwrap(), stamp(second));
    let mut change = repo.begin();
    let mut builder = match change.tip(&branch) {
        Some(tip) => Builder::from(repo.context(&tip).unwrap()),
        None => Builder::new(),
    };
    apply_state(&mut change, &mut builder, document.as_bytes()).unwrap();
    let tree = builder.write(&mut change).unwrap();
    let message = format!("second {second}\nand a line that a list does not show");
    let id = change.snapshot(&branch, Snapshot::new(tree, message, &stamp)).unwrap();
    change.switch(&branch);
    change.finish(&stamp, "snapshot").unwrap();
    id
}

/// State with `turn` messages, enough keys for nodes of their own, and each kind of file.
fn document(turn: usize) -> String {
    let join = |items: Vec<String>| items.join(",");
    let messages = (0..turn).map(|n| format!(r#"{{"role":"user","content":"message {n}"}}"#));
    let notes = (0..40).map(|n| format!(r#""note/{n}":"{}""#, n * usize::from(n % 7 == turn % 7)));
    format!(
        r#"{{"agents":{{"main":{{"messages":[{}],"system-prompt":"be brief","state":{{"turn":{turn}}}}}}},
            "scratchpad":{{{}}},"reasoning":["first","second"],
            "files":{{"a.txt":"{}","run.sh":{{"content":"x","mode":"executable"}},"link":{{"content":"a.txt","mode":"symlink"}}}}}}"#,
        join(messages.collect()),
        join(notes.collect()),
        "line\\n".repeat(turn),
    )
}

/// The golden store: a session of 24 turns, an import, a fork, a tag, deleted and symbolic refs, and
/// segments of several writers, of which some are sealed.
fn make(dir: &Path) {
    fs::create_dir_all(dir.parent().unwrap()).unwrap();
    let (io, new) = (Arc::new(RealIo), NewStore { id: [0x11; 16] });
    let first = Repository::init(io, dir, &new, OpenOptions::new([1; 16])).unwrap();
    for turn in 1..=24 {
        snapshot(&first, "golden/main", i64::try_from(turn).unwrap(), &document(turn));
    }
    let session = "imported".to_owned();
    let options = ImportOptions { format: None, session, stamp: stamp(30), switch: false };
    import(&first, claude_code(6).as_bytes(), &options).unwrap();
    let target = first.resolve("golden/main~3").unwrap().commit;
    let mut change = first.begin();
    change.move_branch(&BranchName::new("golden", "fork").unwrap(), Some(target));
    change.move_branch(&BranchName::new("golden", "gone").unwrap(), Some(target));
    let (name, tagger) = ("good".to_owned(), "somebody".to_owned());
    let message = "a place to come back to".to_owned();
    let target_kind = Kind::Commit;
    let tag = Tag { target, target_kind, name, tagger, time_micros: 31, message };
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
        snapshot(&writer, "golden/writers", 40 + i64::from(seed), r#"{"memory":{"a":"b"}}"#);
        writers.push(writer);
    }
    drop(writers);
    snapshot(&open(dir, 12), "golden/fork", 50, r#"{"goals":{"next":"the end"}}"#);
    let last = open(dir, 13);
    snapshot(&last, "golden/fork", 51, r#"{"goals":{"next":"really"}}"#);
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

#[test]
fn a_store_of_version_1_is_read_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    copy(&golden().join("store"), &dir);
    let repo = open(&dir, 100);
    assert_eq!(repo.store().findings(), [], "nothing in it is damaged");
    let text = fs::read_to_string(golden().join("expected.json")).unwrap();
    assert_eq!(expected(&repo), text);

    let before = repo.refs().values.len();
    let id = snapshot(&repo, "golden/later", 60, r#"{"goals":{"next":"on"}}"#);
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
    let text = fs::read_to_string(golden().join("expected.json")).unwrap();
    assert!(expected(&open(&dir, 100)) == text, "other objects or refs than the golden store's");
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
