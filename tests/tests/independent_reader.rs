//! The reader that was written from the pages of `format-spec` alone sees what the library wrote.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use bytes::Bytes;
use turntree::context::{Builder, FileMode};
use turntree::exchange::apply_state;
use turntree::maintenance::{Policy, Scope, set_policy};
use turntree::object::{IdPrefix, Kind, ObjectId, ObjectSink, ObjectSource, RefValue};
use turntree::repo::{BranchName, NewPin, Repository, Snapshot};
use turntree::store::{Finding, FindingKind, OpenOptions, RealIo};
use turntree_tests::sim::Random;
use turntree_tests::{Sandbox, claude_code, stamp};

/// Damaged stores that are compared: each starts the reader once.
const CASES: usize = 16;

fn format_spec() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../format-spec")
}

/// Whether the reader can run here; says so when not.
fn reader_runs() -> bool {
    let imports = Command::new("python3").args(["-c", "import blake3, zstandard"]).output();
    let runs = imports.is_ok_and(|output| output.status.success());
    if !runs {
        println!("skipped: needs python3 with the packages blake3 and zstandard");
    }
    runs
}

fn reader(store: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("python3");
    command.arg("-B").arg(format_spec().join("reader.py")).arg(store).args(arguments);
    command.output().unwrap()
}

/// What the reader prints, when it ends well.
fn read(store: &Path, arguments: &[&str]) -> Vec<u8> {
    let Output { status, stdout, stderr } = reader(store, arguments);
    assert!(status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&stderr));
    assert_eq!(String::from_utf8_lossy(&stderr), "", "{arguments:?}");
    stdout
}

fn lines(store: &Path, arguments: &[&str]) -> Vec<String> {
    String::from_utf8(read(store, arguments)).unwrap().lines().map(str::to_owned).collect()
}

fn snapshot(
    repo: &Repository,
    branch: &BranchName,
    second: i64,
    change_context: impl FnOnce(&mut Builder, &mut dyn ObjectSink),
) {
    let mut change = repo.begin();
    let mut builder = Builder::from(repo.context(&change.tip(branch).unwrap()).unwrap());
    change_context(&mut builder, &mut change);
    let tree = builder.write(&mut change).unwrap();
    change.snapshot(branch, Snapshot::new(tree, "more", &stamp(second))).unwrap();
    change.finish(&stamp(second), "snapshot").unwrap();
}

/// An import, a fork with state, and more than a segment holds, so that one is sealed.
fn store_of_every_kind_of_file() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.import("task", claude_code(60).as_bytes()).unwrap();
    let (main, fork) = (BranchName::main("task").unwrap(), "task/fork".parse().unwrap());
    let mut change = sandbox.repo.begin();
    let from = sandbox.repo.resolve("task~5").unwrap().commit;
    change.move_branch(&fork, Some(from));
    change.switch(&main);
    let pin = NewPin { expires_micros: Some(1 << 50), ..NewPin::default() };
    change.pin(&from, pin, &stamp(2)).unwrap();
    set_policy(&mut change, Scope::Default, &Policy::default()).unwrap();
    change.finish(&stamp(2), "fork").unwrap();
    for second in 3..40 {
        let state = format!(r#"{{"scratchpad":{{"note/{second}":"{second}","last":{{"n":1}}}}}}"#);
        snapshot(&sandbox.repo, &fork, second, |builder, sink| {
            apply_state(sink, builder, state.as_bytes()).unwrap();
        });
    }
    let mut random = Random(1);
    for second in 40..60 {
        let content: Vec<u8> = (0..1 << 17).flat_map(|_| random.draw().to_le_bytes()).collect();
        let file = (FileMode::Regular, Bytes::from(content));
        snapshot(&sandbox.repo, &main, second, |builder, sink| {
            builder.set_file(sink, &format!("data/{second}"), Some(file)).unwrap();
        });
    }
    sandbox
}

/// One line for each ref, as the reader prints it.
fn refs(repo: &Repository) -> String {
    let refs = repo.refs();
    let line = |(name, value): (&String, &RefValue)| match value {
        RefValue::Object(id) => format!("{name}\t{id}\n"),
        RefValue::Symbolic(target) => format!("{name}\t-> {target}\n"),
    };
    refs.values.iter().map(line).collect()
}

/// One line for each commit, as the reader prints it.
fn log(repo: &Repository, start: &str) -> Vec<String> {
    let start = repo.resolve(start).unwrap().commit;
    let entries = repo.history(&[start], &[]).unwrap().first_parent().map(Result::unwrap);
    let line = |id: ObjectId, turn: u64, trigger: &str, message: &str| {
        format!("{id}\t{turn}\t{trigger}\t{}", message.lines().next().unwrap_or_default())
    };
    entries
        .map(|entry| {
            let commit = &entry.commit;
            line(entry.id, commit.turn, commit.trigger.name(), &commit.message)
        })
        .collect()
}

/// The lines of the reader's log, without the time, which it writes for people.
fn log_without_times(store: &Path, start: &str) -> Vec<String> {
    let without = |line: &String| {
        let fields: Vec<&str> = line.split('\t').collect();
        assert!(fields[2].contains('T') && fields[2].contains(':'), "{line}");
        [&fields[..2], &fields[3..]].concat().join("\t")
    };
    lines(store, &["log", start]).iter().map(without).collect()
}

#[test]
fn a_reader_from_the_pages_sees_what_the_library_wrote() {
    if !reader_runs() {
        return;
    }
    let sandbox = store_of_every_kind_of_file();
    let repo = sandbox.reopened();
    let store = sandbox.store();
    let summary = repo.store().summary().unwrap();
    assert!(summary.sealed_segments > 0 && summary.active_segments > 0, "{summary:?}");

    assert_eq!(String::from_utf8(read(&store, &["refs"])).unwrap(), refs(&repo));
    for (name, full) in [("HEAD", "HEAD"), ("task/fork", "refs/heads/task/fork")] {
        assert_eq!(log_without_times(&store, full), log(&repo, name));
    }
    for kind in Kind::ALL {
        let prefixes = (0..1 << 16).map(|n| format!("{n:04x}").parse::<IdPrefix>().unwrap());
        let found = prefixes.flat_map(|prefix| repo.store().find(&prefix, usize::MAX));
        for (id, _) in found.filter(|(_, found)| *found == kind).take(3) {
            let object = repo.store().read(&id).unwrap().unwrap();
            assert_eq!(read(&store, &["cat", &id.to_string()]), object.bytes, "{kind} {id}");
        }
    }
    read(&store, &["verify"]);
    let files = lines(&store, &["ls", "HEAD", "files"]);
    assert_eq!(files.iter().filter(|line| line.contains("\tregular 1048576\tdata/")).count(), 20);
}

#[test]
fn the_reader_reads_the_golden_store() {
    if !reader_runs() {
        return;
    }
    let vectors = format_spec().join("vectors/store-v1");
    let expected = fs::read_to_string(vectors.join("expected.json")).unwrap();
    let store = vectors.join("store");
    read(&store, &["verify"]);
    for line in lines(&store, &["refs"]) {
        let (name, value) = line.split_once('\t').unwrap();
        assert!(expected.contains(&format!(r#""{name}": "{value}""#)), "{line}");
    }
    let log = lines(&store, &["log"]);
    assert_eq!(log.len(), 23);
    for line in log {
        let (id, turn) = line.split_once('\t').unwrap();
        let turn = turn.split('\t').next().unwrap();
        assert!(expected.contains(&format!(r#"["{id}", {turn}, "#)), "{line}");
    }
}

/// A copy of the golden store with one byte changed, somewhere in what is used.
fn damaged_store(random: &mut Random, to: &Path) -> PathBuf {
    let golden = format_spec().join("vectors/store-v1/store");
    fs::create_dir_all(to.join("journal")).unwrap();
    let mut files = Vec::new();
    for folder in ["", "journal"] {
        for entry in fs::read_dir(golden.join(folder)).unwrap().map(Result::unwrap) {
            let target = to.join(folder).join(entry.file_name());
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), &target).unwrap();
                files.push(target);
            }
        }
    }
    files.sort();
    let path = files.swap_remove(random.below(files.len()));
    let mut bytes = fs::read(&path).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    bytes[random.below(used)] ^= 1 << random.below(8);
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn what_is_left_of_a_damaged_store_is_the_same_to_both() {
    if !reader_runs() {
        return;
    }
    let mut random = Random(7);
    for case in 0..CASES {
        let folder = tempfile::tempdir().unwrap();
        let path = damaged_store(&mut random, folder.path());
        let place = format!("case {case}: {}", path.file_name().unwrap().display());
        let opened = Repository::open(Arc::new(RealIo), folder.path(), OpenOptions::new([9; 16]));
        let Output { status, stdout, stderr } = reader(folder.path(), &["refs"]);
        let told = String::from_utf8(stderr).unwrap();
        match opened {
            Ok(repo) => {
                assert_eq!(String::from_utf8(stdout).unwrap(), refs(&repo), "{place}: {told}");
                let damage = |finding: &Finding| finding.kind == FindingKind::Damage;
                let findings = repo.store().findings();
                assert_eq!(findings.iter().any(damage), !told.is_empty(), "{place}: {told}");
            }
            Err(error) => assert_eq!(status.code(), Some(1), "{place}: {error}"),
        }
    }
}

#[test]
fn the_reader_tells_where_a_changed_byte_lies() {
    if !reader_runs() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.import("task", claude_code(8).as_bytes()).unwrap();
    sandbox.import("other", claude_code(3).as_bytes()).unwrap();
    let journal = fs::read_dir(sandbox.store().join("journal")).unwrap();
    let path = journal.map(|entry| entry.unwrap().path()).next().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[1500] ^= 1;
    fs::write(&path, bytes).unwrap();
    let Output { status, stderr, .. } = reader(&sandbox.store(), &["verify"]);
    let told = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{told}");
    assert!(told.contains(path.file_name().unwrap().to_str().unwrap()), "{told}");
}
