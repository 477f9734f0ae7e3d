//! The reader written only from the pages of `format-spec` sees the same in a store as the library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use bytes::Bytes;
use turntree::context::{Builder, FileMode};
use turntree::maintenance::{
    MAX_EXPIRED, Pattern, Policy, Purpose, Scope, collect, redact, set_policy,
};
use turntree::object::{IdPrefix, Kind, ObjectId, ObjectSource, RefValue};
use turntree::repo::{BranchName, NewPin, Repository, SnapshotDraft};
use turntree::store::{
    Durability, Finding, FindingKind, NewStore, OpenOptions, RealIo, StoreCipher, StoreKey,
    StoreKeys, Tier, Tombstone,
};
use turntree_exchange::apply_state;
use turntree_tests::independent_reader::{
    decipher, decipher_runs, format_spec, read, reader, reader_runs,
};
use turntree_tests::sim::Random;
use turntree_tests::{Sandbox, claude_code, commit_note, commit_turn, open_store, stamp};

/// The number of damaged stores to compare. Each starts the reader once.
const CASES: usize = 32;

fn lines(store: &Path, arguments: &[&str]) -> Vec<String> {
    String::from_utf8(read(store, arguments)).unwrap().lines().map(str::to_owned).collect()
}

/// An import, a fork with state, and more than one segment holds, so that one is sealed.
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
    change.commit(&stamp(2), "fork").unwrap();
    for second in 3..40 {
        let state = format!(r#"{{"scratchpad":{{"note/{second}":"{second}","last":{{"n":1}}}}}}"#);
        commit_turn(&sandbox.repo, &fork, "more", &stamp(second), |builder, sink| {
            apply_state(sink, builder, state.as_bytes()).unwrap();
        });
    }
    let mut random = Random(1);
    for second in 40..60 {
        let content: Vec<u8> = (0..1 << 17).flat_map(|_| random.draw().to_le_bytes()).collect();
        let file = (FileMode::Regular, Bytes::from(content));
        commit_turn(&sandbox.repo, &main, "more", &stamp(second), |builder, sink| {
            builder.set_file(sink, &format!("data/{second}"), Some(file)).unwrap();
        });
    }
    sandbox
}

fn head(repo: &Repository) -> ObjectId {
    repo.resolve("HEAD").unwrap().commit
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One line for each ref, as the reader prints it.
fn refs(repo: &Repository) -> String {
    let refs = repo.refs();
    let line = |(name, value): (&str, &RefValue)| match value {
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

/// The lines of the reader's log without the time, which the reader formats for people.
fn log_without_times(store: &Path, start: &str) -> Vec<String> {
    let without = |line: &String| {
        let fields: Vec<&str> = line.split('\t').collect();
        assert!(fields[2].contains('T') && fields[2].contains(':'), "{line}");
        [&fields[..2], &fields[3..]].concat().join("\t")
    };
    lines(store, &["log", start]).iter().map(without).collect()
}

#[test]
fn the_independent_reader_reads_stores_of_the_library() {
    if !reader_runs() {
        return;
    }
    let sandbox = store_of_every_kind_of_file();
    let repo = sandbox.reopened();
    let store = sandbox.store_dir();
    let summary = repo.summary().unwrap();
    assert!(summary.sealed_segments > 0 && summary.active_segments > 0, "{summary:?}");

    assert_same(&store, &repo, "HEAD", "the journal");
    assert_eq!(log_without_times(&store, "refs/heads/task/fork"), log(&repo, "task/fork"));
    for kind in Kind::ALL {
        let prefixes = (0..1 << 16).map(|n| format!("{n:04x}").parse::<IdPrefix>().unwrap());
        let found = prefixes.flat_map(|prefix| repo.store().find(&prefix, usize::MAX));
        for (id, _) in found.filter(|(_, found)| *found == kind).take(3) {
            let object = repo.read(&id).unwrap().unwrap();
            assert_eq!(read(&store, &["cat", &id.to_string()]), object.bytes, "{kind} {id}");
        }
    }
    let files = lines(&store, &["ls", "HEAD", "files"]);
    let regular = format!("\tblob\t00{}\tdata/", hex(&(1_u64 << 20).to_le_bytes()));
    assert_eq!(files.iter().filter(|line| line.contains(&regular)).count(), 20);
    let first = read(&store, &["cat", "HEAD:agents/main/messages/0"]);
    assert_eq!(String::from_utf8(first).unwrap(), sandbox.messages(&head(&repo))[0]);
}

/// One line for each id, as the reader prints it: the kind of an object, or why it is missing.
fn objects(repo: &Repository) -> Vec<String> {
    let inventory = repo.store().inventory().unwrap();
    let mut lines = Vec::new();
    for position in 0..inventory.positions() {
        let Some(id) = inventory.entry(position).map(|entry| entry.id) else { continue };
        if inventory.find(&id) == Some(position) {
            let object = repo.read(&id).unwrap().unwrap();
            lines.push(format!("{id}\t{}\t{}", object.kind, object.bytes.len()));
        }
    }
    for (id, kind, why) in
        (0..inventory.files().len()).flat_map(|file| inventory.tombstones_in(file))
    {
        if inventory.tombstone(&id).is_some() && inventory.find(&id).is_none() {
            let why = match why {
                Tombstone::Elided => "elided",
                Tombstone::Redacted => "redacted",
            };
            lines.push(format!("{id}\t{kind}\t{why}"));
        }
    }
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// Checks that the reader and the library see the same refs, log and objects.
fn assert_same(store: &Path, repo: &Repository, log_of: &str, place: &str) {
    assert_eq!(String::from_utf8(read(store, &["refs"])).unwrap(), refs(repo), "{place}");
    assert_eq!(log_without_times(store, log_of), log(repo, log_of), "{place}");
    assert_eq!(lines(store, &["objects"]), objects(repo), "{place}");
}

/// A session with far more expired turns than are remembered, a pinned turn, and versions of files,
/// some stored in parts and some as a difference from two others.
fn long_session(dir: &Path) -> Repository {
    let mut options = OpenOptions::new([1; 16]);
    // The test does not depend on durability.
    options.durability = Durability::None;
    let new = NewStore { id: [3; 16] };
    let repo = Repository::init(Arc::new(RealIo), dir, &new, options).unwrap();
    let main = BranchName::main("task").unwrap();
    let turns = i64::try_from(MAX_EXPIRED).unwrap() + 200;
    for second in 1..=turns {
        let mut change = repo.begin();
        let mut builder = match change.tip(&main) {
            Some(tip) => Builder::from(repo.context(&tip).unwrap()),
            None => Builder::new(),
        };
        let value = Bytes::from(format!("at {second}"));
        builder.set_entry(&mut change, "scratchpad", "note", Some(value)).unwrap();
        let tree = builder.write(&mut change).unwrap();
        let id = change.snapshot(&main, SnapshotDraft::new(tree, "turn", &stamp(second))).unwrap();
        if second == 90 {
            change.pin(&id, NewPin::default(), &stamp(second)).unwrap();
        }
        change.switch(&main);
        change.commit(&stamp(second), "snapshot").unwrap();
    }
    let mut random = Random(5);
    let mut image: Vec<u8> = (0..5 << 17).flat_map(|_| random.draw().to_le_bytes()).collect();
    // Each window over these bytes shares half with the one before, so bases have bases.
    let reversed: Vec<u8> = image.iter().rev().copied().collect();
    for (version, second) in (turns + 1..turns + 5).enumerate() {
        image[version * 1_000_000] ^= 1;
        let whole = (FileMode::Regular, Bytes::from(image.clone()));
        let window = &reversed[version * 200_000..][..400_000];
        let part = (FileMode::Regular, Bytes::copy_from_slice(window));
        commit_turn(&repo, &main, "more", &stamp(second), |builder, sink| {
            builder.set_file(sink, "image", Some(whole)).unwrap();
            builder.set_file(sink, "window", Some(part)).unwrap();
        });
    }
    let mut change = repo.begin();
    let policy = Policy { keep_last: Some(5), ..Policy::default() };
    set_policy(&mut change, Scope::Default, &policy).unwrap();
    change.commit(&stamp(turns + 5), "policy").unwrap();
    repo
}

#[test]
fn the_reader_reads_packs_of_every_tier_and_follows_grafts() {
    if !reader_runs() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    let repo = long_session(&dir);
    let main = BranchName::main("task").unwrap();
    let repack = Tier::ALL.map(Purpose::Repack);
    for (second, purpose) in (2000..).zip([Purpose::Gc].into_iter().chain(repack)) {
        collect(&repo, purpose, &stamp(second), &mut |_| ()).unwrap();
        if let Purpose::Repack(tier) = purpose {
            let inventory = repo.store().inventory().unwrap();
            assert!(inventory.files().iter().all(|file| file.tier == Some(tier)), "{purpose:?}");
        }
        assert_same(&dir, &repo, "HEAD", &format!("{purpose:?}"));
        // Every tier is read with a journal after it.
        commit_turn(&repo, &main, "more", &stamp(second), |builder, sink| {
            let value = Some(Bytes::from(format!("at {second}")));
            builder.set_entry(sink, "scratchpad", "behind", value).unwrap();
        });
        assert_same(&dir, &repo, "HEAD", &format!("behind {purpose:?}"));
        let gone = lines(&dir, &["objects"]).iter().filter(|line| line.ends_with("elided")).count();
        assert!(gone > MAX_EXPIRED, "{purpose:?}: {gone}");
    }
    assert!(!repo.grafts().unwrap().0.is_empty(), "some turns are forgotten");
    let context = repo.context(&head(&repo)).unwrap();
    let files = context.map(&repo, "files").unwrap();
    for entry in files.iter(&repo) {
        let (path, item) = entry.unwrap();
        let bytes = repo.read_as(Kind::Blob, &item.link.id).unwrap();
        let path = String::from_utf8(path.to_vec()).unwrap();
        assert!(read(&dir, &["cat", &format!("HEAD:files/{path}")]) == bytes, "{path}");
    }
}

const GOLDEN: [&str; 3] = ["store-v1", "store-v1-journal", "store-v1-tiers"];

/// The keys of an object in a golden store's `expected.json`.
fn keys(expected: &serde_json::Value, name: &str) -> Vec<String> {
    expected[name].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn the_reader_reads_the_golden_stores() {
    if !reader_runs() {
        return;
    }
    for name in GOLDEN.into_iter().chain(["store-v1-without-ids"]) {
        let vectors = format_spec().join("vectors").join(name);
        let expected = fs::read_to_string(vectors.join("expected.json")).unwrap();
        let parsed: serde_json::Value = serde_json::from_str(&expected).unwrap();
        let store = vectors.join("store");
        let ids = keys(&parsed, "objects");
        let mut expected_lines: Vec<String> = Vec::new();
        for list in ["objects", "gone"] {
            for (id, object) in parsed[list].as_object().unwrap() {
                let last = object[1].as_str().map_or(object[1].to_string(), str::to_owned);
                expected_lines.push(format!("{id}\t{}\t{last}", object[0].as_str().unwrap()));
            }
        }
        expected_lines.sort_unstable();
        assert_eq!(lines(&store, &["objects"]), expected_lines, "{name}");
        let found = lines(&store, &["refs"]);
        assert_eq!(found.len(), keys(&parsed, "refs").len(), "{name}");
        for line in found {
            let (name, value) = line.split_once('\t').unwrap();
            assert!(expected.contains(&format!(r#""{name}": "{value}""#)), "{line}");
        }
        let log = lines(&store, &["log"]);
        assert_eq!(log.len(), parsed["log"].as_array().unwrap().len());
        for line in log {
            let (id, turn) = line.split_once('\t').unwrap();
            let turn = turn.split('\t').next().unwrap();
            assert!(expected.contains(&format!(r#"["{id}", {turn}, "#)), "{line}");
        }
        for id in ids.iter().step_by(ids.len() / 24) {
            let bytes = read(&store, &["cat", id]);
            let digest = ObjectId::of(Kind::Blob, &bytes).to_string();
            assert_eq!(parsed["objects"][id][2], digest, "{name}: {id}");
        }
    }
}

#[test]
fn the_reader_shows_the_contexts_of_the_golden_store() {
    if !reader_runs() {
        return;
    }
    let store = format_spec().join("vectors/store-v1/store");
    let entries = |start: &str, section: &str| lines(&store, &["ls", start, section]).len();
    assert_eq!(entries("refs/heads/golden/main", "agents/main/messages"), 48);
    assert_eq!(entries("refs/pins/early", "agents/main/messages"), 8);
    assert_eq!(entries("refs/pins/early", "files"), 3);
    let expired = lines(&store, &["log", "refs/heads/short/main"]).swap_remove(35);
    assert_refused(&store, &["ls", expired.split('\t').next().unwrap()], "elided");
}

/// A copy of a golden store with one byte changed in the used part of a file.
fn damaged_store(golden: &str, random: &mut Random, to: &Path) -> PathBuf {
    let golden = format_spec().join("vectors").join(golden).join("store");
    let mut files = Vec::new();
    for folder in ["", "journal", "packs"] {
        fs::create_dir_all(to.join(folder)).unwrap();
        if !golden.join(folder).exists() {
            continue;
        }
        for entry in fs::read_dir(golden.join(folder)).unwrap().map(Result::unwrap) {
            let target = to.join(folder).join(entry.file_name());
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), &target).unwrap();
            }
            if target.metadata().is_ok_and(|file| file.is_file() && file.len() > 0) {
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
fn both_readers_agree_on_damaged_stores() {
    if !reader_runs() {
        return;
    }
    let mut random = Random(7);
    for (case, golden) in (0..CASES).zip(GOLDEN.into_iter().cycle()) {
        let folder = tempfile::tempdir().unwrap();
        let path = damaged_store(golden, &mut random, folder.path());
        let place = format!("case {case}: {}", path.file_name().unwrap().display());
        let opened = Repository::open(Arc::new(RealIo), folder.path(), OpenOptions::new([9; 16]));
        let Output { status, stdout, stderr } = reader(folder.path(), &["refs"]);
        let told = String::from_utf8(stderr).unwrap();
        match opened {
            Ok(repo) => {
                assert_eq!(String::from_utf8(stdout).unwrap(), refs(&repo), "{place}: {told}");
                let damage = |finding: &Finding| finding.kind == FindingKind::Damage;
                // A full sweep first verifies every index.
                repo.store().sweep(Kind::Blob, &|_, _| {}, &|| false);
                let findings = repo.findings();
                let is_damaged = findings.iter().any(damage);
                assert_eq!(is_damaged, !told.is_empty(), "{place}: {told}");
                assert_eq!(status.success(), told.is_empty(), "{place}: {told}");
            }
            Err(error) => assert_eq!(status.code(), Some(1), "{place}: {error}"),
        }
    }
}

#[test]
fn the_reader_reports_redacted_content() {
    if !reader_runs() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.import("task", claude_code(3).as_bytes()).unwrap();
    let main = BranchName::main("task").unwrap();
    commit_turn(&sandbox.repo, &main, "more", &stamp(4), |builder, sink| {
        let value = Some("the word is xyzzy".into());
        builder.set_entry(sink, "scratchpad", "note", value).unwrap();
    });
    let secret = ObjectId::of(Kind::Blob, b"the word is xyzzy").to_string();
    let store = sandbox.store_dir();
    assert_eq!(read(&store, &["cat", &secret]), b"the word is xyzzy");
    let pattern = Pattern::literal("xyzzy", "[redacted]").unwrap();
    redact(&sandbox.repo, &pattern, &stamp(5)).unwrap();
    assert_refused(&store, &["cat", &secret], "redacted");
    assert_eq!(
        read(&store, &["cat", "refs/heads/task/main:scratchpad/note"]),
        b"the word is [redacted]"
    );
}

#[test]
fn both_readers_find_operations_of_listed_files() {
    if !reader_runs() {
        return;
    }
    for name in ["silent", "gap", "forked"] {
        let store = format_spec().join("vectors/hidden-operations").join(name).join("store");
        let repo = open_store(&store, 9);
        let printed = String::from_utf8(reader(&store, &["refs"]).stdout).unwrap();
        assert_eq!(printed, refs(&repo), "{name}");
    }
}

/// Checks that the reader prints nothing, exits with status 1, and reports the reason.
fn assert_refused(store: &Path, arguments: &[&str], why: &str) {
    let Output { status, stdout, stderr } = reader(store, arguments);
    let told = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{arguments:?}: {told}");
    assert_eq!(stdout, b"", "{arguments:?}");
    assert!(told.contains(why), "{arguments:?}: {told}");
}

#[test]
fn the_reader_locates_changed_bytes() {
    if !reader_runs() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.import("task", claude_code(8).as_bytes()).unwrap();
    sandbox.import("other", claude_code(3).as_bytes()).unwrap();
    let journal = fs::read_dir(sandbox.store_dir().join("journal")).unwrap();
    let path = journal.map(|entry| entry.unwrap().path()).next().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[1500] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_told(&sandbox.store_dir(), &path);
}

#[test]
fn the_reader_reports_changes_of_the_last_durable_batch() {
    if !reader_runs() {
        return;
    }
    let (sandbox, branch) = (Sandbox::new(), BranchName::main("task").unwrap());
    for second in 1..4 {
        commit_note(&sandbox.repo, &branch, ("note", &second.to_string()), &stamp(second));
    }
    let store = sandbox.store_dir();
    let segments = fs::read_dir(store.join("journal")).unwrap();
    let path = segments.map(|entry| entry.unwrap().path()).next().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let mark = bytes.windows(8).rposition(|word| word == b"synced\0\0").unwrap();
    bytes[mark - 1] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_told(&store, &path);
}

#[test]
fn the_reader_reports_damaged_packs_of_every_tier() {
    if !reader_runs() {
        return;
    }
    for tier in Tier::ALL {
        let sandbox = Sandbox::new();
        sandbox.import("task", claude_code(8).as_bytes()).unwrap();
        collect(&sandbox.repo, Purpose::Repack(tier), &stamp(9), &mut |_| ()).unwrap();
        let store = sandbox.store_dir();
        let (id, right) = (head(&sandbox.repo).to_string(), lines(&store, &["objects"]));
        let packs = fs::read_dir(store.join("packs")).unwrap();
        let path = packs.map(|entry| entry.unwrap().path()).next().unwrap();
        let whole = fs::read(&path).unwrap();
        // In a frame, which opening does not read; in the ids, which it does; and at both ends.
        for at in [whole.len() / 2, 200, 3, whole.len() - 100] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&path, bytes).unwrap();
            assert_told(&store, &path);
            let left = reader(&store, &["objects"]).stdout;
            let left = String::from_utf8(left).unwrap();
            assert!(left.lines().all(|line| right.iter().any(|object| object == line)), "{tier:?}");
        }
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert_told(&store, &path);
        assert_refused(&store, &["cat", &id], path.file_name().unwrap().to_str().unwrap());
    }
}

/// Checks that the reader finds the damage and names the damaged file.
fn assert_told(store: &Path, damaged: &Path) {
    let Output { status, stderr, .. } = reader(store, &["objects"]);
    let told = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{told}");
    assert!(told.contains(damaged.file_name().unwrap().to_str().unwrap()), "{told}");
}

#[test]
fn trees_of_the_reader_match_the_vectors() {
    if !reader_runs() {
        return;
    }
    let script = format_spec().join("vectors/tree.py");
    let output = Command::new("python3").arg("-B").arg(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_reader_decrypts_stores_of_every_cipher() {
    if !reader_runs() || !decipher_runs() {
        return;
    }
    for (seed, cipher) in (1..).zip(StoreCipher::ALL) {
        let sandbox = Sandbox::new();
        let branch = BranchName::main("work").unwrap();
        let text = "sealed ".repeat(30_000);
        commit_note(&sandbox.repo, &branch, ("large", &text), &stamp(1));
        collect(&sandbox.repo, Purpose::Repack(Tier::Archive), &stamp(2), &mut |_| {}).unwrap();
        commit_note(&sandbox.repo, &branch, ("n", "in the journal"), &stamp(3));
        let store = sandbox.store_dir();
        let questions =
            [&["refs"][..], &["log", "work"], &["objects"], &["cat", "work:scratchpad/large"]];
        let before = questions.map(|words| read(&store, words));
        let first = StoreKey::of(cipher, [seed; 32]);
        sandbox.repo.store().change_encryption(Some(first), [seed; 16]).unwrap();
        assert!(!reader(&store, &["refs"]).status.success());
        let keys = sandbox.folder().join("keys.txt");
        fs::write(&keys, StoreKeys::from(first).to_text()).unwrap();
        let plain = sandbox.folder().join("plain");
        let done = decipher(&store, &keys, &plain);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(questions.map(|words| read(&plain, words)) == before, "{cipher:?}");
        let other = StoreKey::of(cipher, [9; 32]);
        fs::write(&keys, StoreKeys::from(other).to_text()).unwrap();
        let refused = decipher(&store, &keys, &sandbox.folder().join("none"));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("none of this store"));
    }
}

#[test]
fn the_reader_stays_short() {
    for program in ["reader.py", "bundle.py", "decipher.py"] {
        let text = fs::read_to_string(format_spec().join(program)).unwrap();
        assert!(text.lines().count() <= 525, "{program}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{program}");
    }
}
