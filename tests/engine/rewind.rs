//! Rewind and undo: after every edit, snapshot, restore, rollback, undo and redo, workspace and
//! branch equal those of a model.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use turntree::ErrorKind;
use turntree::context::{Builder, Context, MessageEntry, Role, Selection};
use turntree::maintenance::{Pattern, Policy, Purpose, Scope, collect, fsck, redact, set_policy};
use turntree::object::{Kind, ObjectId, ObjectSink};
use turntree::repo::{BranchName, Repository, Signature, SnapshotDraft, before_ref};
use turntree::store::Thoroughness;
use turntree::workspace::{
    CaptureOptions, PreparedRewind, RewindReport, RewindRequest, capture, prepare_rewind,
    prepare_undo, workspace_metadata,
};
use turntree_tests::{Sandbox, commit_note, stamp};

/// The content of a workspace by path. `x:` marks an executable, `->` a link.
type Files = BTreeMap<String, String>;

/// A store with a workspace next to it.
struct Place {
    sandbox: Sandbox,
    dir: PathBuf,
    clock: i64,
}

impl Place {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let dir = sandbox.folder().join("work");
        fs::create_dir(&dir).unwrap();
        Self { sandbox, dir, clock: 0 }
    }

    fn repo(&self) -> &Repository {
        &self.sandbox.repo
    }

    fn branch() -> BranchName {
        BranchName::main("s").unwrap()
    }

    fn tip(&self) -> Option<ObjectId> {
        self.repo().tip(&Self::branch())
    }

    fn stamp(&mut self) -> Signature {
        self.clock += 1;
        stamp(self.clock)
    }

    /// Takes a snapshot of the workspace with a note.
    fn snapshot(&mut self, note: &str) -> ObjectId {
        let stamp = self.stamp();
        let mut change = self.repo().begin();
        let parent = change.tip(&Self::branch()).map(|tip| self.repo().context(&tip).unwrap());
        let parent = parent.unwrap_or_default();
        let mut builder = Builder::from(parent.clone());
        let text = Some(note.to_owned().into());
        builder.set_entry(&mut change, "scratchpad", "note", text).unwrap();
        capture(&mut change, &parent, &mut builder, &self.dir, &CaptureOptions::default()).unwrap();
        let mut draft = SnapshotDraft::new(builder.write(&mut change).unwrap(), note, &stamp);
        draft.metadata.extend([workspace_metadata(&self.dir)]);
        let id = change.snapshot(&Self::branch(), draft).unwrap();
        change.commit(&stamp, "snapshot").unwrap();
        id
    }

    fn restore(&self, from: ObjectId, only: &[&str], is_rollback: bool) -> RewindRequest {
        let only: Vec<String> = only.iter().map(|word| (*word).to_owned()).collect();
        RewindRequest {
            branch: Self::branch(),
            from,
            only: Selection::parse(&only),
            workspace: Some(self.dir.clone()),
            is_rollback,
            keep_lessons: false,
            audit: false,
            message: "back".to_owned(),
        }
    }

    fn prepare(&mut self, restore: &RewindRequest) -> turntree::Result<PreparedRewind<'_>> {
        let stamp = self.stamp();
        prepare_rewind(&self.sandbox.repo, restore, &CaptureOptions::default(), &stamp)
    }

    fn apply(&mut self, from: ObjectId, only: &[&str], is_rollback: bool) -> RewindReport {
        let restore = self.restore(from, only, is_rollback);
        let stamp = self.stamp();
        self.prepare(&restore).unwrap().apply(&stamp, "back").unwrap()
    }

    fn rollback(&mut self, turns: u64, only: &[&str]) -> turntree::Result<()> {
        let words: Vec<String> = only.iter().map(|word| (*word).to_owned()).collect();
        let selection = Selection::parse(&words);
        let from = self.repo().turns_before(&self.tip().unwrap(), turns, &selection)?;
        self.apply(from, only, true);
        Ok(())
    }

    /// Undoes or redoes. Returns false if there is nothing to undo or redo.
    fn take_back(&mut self, again: bool) -> bool {
        let stamp = self.stamp();
        let repo = &self.sandbox.repo;
        let found = if again { repo.redoable(None) } else { repo.undoable(None) };
        let Some(entry) = found.unwrap() else { return false };
        let plan = repo.plan_undo(entry).unwrap();
        match &plan.moved {
            Some(moved) => {
                let options = CaptureOptions::default();
                let prepared = prepare_undo(repo, &plan, moved, None, &options, &stamp, "undo");
                let done = prepared.unwrap().apply(&stamp, "undo").unwrap();
                assert!(done.arranged.unwrap().failed.is_empty());
            }
            None => drop(repo.undo(&plan, &stamp, "undo").unwrap()),
        }
        true
    }

    fn write(&self, path: &str, content: &str) {
        put(&self.dir, path, content);
    }

    fn remove(&self, path: &str) {
        remove(&self.dir, path);
    }

    fn files(&self) -> Files {
        files(&self.dir)
    }

    fn note(&self) -> Option<String> {
        let context = self.repo().context(&self.tip()?).unwrap();
        note(self.repo(), &context)
    }
}

fn note(repo: &Repository, context: &Context) -> Option<String> {
    let map = context.map(repo, "scratchpad").unwrap();
    let item = map.get(repo, b"note").unwrap()?;
    let bytes = turntree::object::ObjectSource::read(repo, &item.link.id).unwrap()?.bytes;
    Some(String::from_utf8(bytes.to_vec()).unwrap())
}

/// Writes `content` to `path`, and removes anything that blocks it.
fn put(dir: &Path, path: &str, content: &str) {
    let full = dir.join(path);
    for above in Path::new(path).ancestors().skip(1) {
        let above = dir.join(above);
        if above != dir && fs::symlink_metadata(&above).is_ok_and(|found| !found.is_dir()) {
            fs::remove_file(&above).unwrap();
        }
    }
    remove(dir, path);
    fs::create_dir_all(full.parent().unwrap()).unwrap();
    if let Some(target) = content.strip_prefix("->") {
        symlink(target, &full).unwrap();
        return;
    }
    fs::write(&full, content).unwrap();
    let mode = if content.starts_with("x:") { 0o755 } else { 0o644 };
    fs::set_permissions(&full, fs::Permissions::from_mode(mode)).unwrap();
}

fn remove(dir: &Path, path: &str) {
    let full = dir.join(path);
    match fs::symlink_metadata(&full) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(&full).unwrap(),
        Ok(_) => fs::remove_file(&full).unwrap(),
        Err(_) => {}
    }
}

fn files(dir: &Path) -> Files {
    let (mut found, mut left) = (Files::new(), vec![dir.to_owned()]);
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let name = path.strip_prefix(dir).unwrap().to_string_lossy().into_owned();
            if kind.is_dir() {
                left.push(path);
            } else if kind.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                found.insert(name, format!("->{}", target.display()));
            } else {
                let content = fs::read_to_string(&path).unwrap();
                let mode = entry.metadata().unwrap().permissions().mode();
                assert_eq!(mode & 0o100 != 0, content.starts_with("x:"), "{name}");
                found.insert(name, content);
            }
        }
    }
    found
}

const PATHS: [&str; 6] = ["a", "b", "d/x", "d/e/y", "d", "long/way/down"];
const CONTENTS: [&str; 5] = ["one", "two", "x:run", "->a", "->nowhere"];

#[derive(Debug, Clone)]
enum Step {
    Write(usize, usize),
    Remove(usize),
    SnapshotDraft,
    Restore(usize, bool),
    Rollback(u64),
    Undo,
    Redo,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..PATHS.len(), 0..CONTENTS.len()).prop_map(|(path, text)| Step::Write(path, text)),
        2 => (0..PATHS.len()).prop_map(Step::Remove),
        3 => Just(Step::SnapshotDraft),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(which, only)| Step::Restore(which, only)),
        3 => (0..4_u64).prop_map(Step::Rollback),
        4 => Just(Step::Undo),
        3 => Just(Step::Redo),
    ]
}

/// The state of the branch in the model.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Turn {
    note: String,
    files: Files,
    /// The earlier turns that a rollback can reach, oldest first.
    line: Vec<(String, Files)>,
}

/// A change that can be undone: the branch before, and the workspace before if it changed files.
/// When the change is undone, the state after it.
#[derive(Debug, Clone)]
struct Change {
    branch: Option<Turn>,
    files: Option<Files>,
}

#[derive(Debug, Default)]
struct Model {
    branch: Option<Turn>,
    files: Files,
    done: Vec<Change>,
    undone: Vec<Change>,
    snapshots: Vec<(String, Files)>,
}

impl Model {
    fn change(&mut self, branch: Turn, files: Option<Files>) {
        let before = files.is_some().then(|| self.files.clone());
        self.done.push(Change { branch: self.branch.replace(branch), files: before });
        // A new change clears the redo list: the branch has advanced.
        self.undone.clear();
        if let Some(files) = files {
            self.files = files;
        }
    }

    /// Swaps the current state with the state of the change.
    fn take_back(&mut self, change: Change) -> Change {
        let branch = std::mem::replace(&mut self.branch, change.branch);
        let files = change.files.map(|files| std::mem::replace(&mut self.files, files));
        Change { branch, files }
    }
}

turntree_properties::properties! {
    cases = 48;

    #[test]
    fn workspace_and_branch_match_the_model(
        steps in prop::collection::vec(any_step(), 1..40),
    ) {
        let (mut place, mut model) = (Place::new(), Model::default());
        let mut ids: Vec<ObjectId> = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            match step {
                Step::Write(path, content) => {
                    place.write(PATHS[*path], CONTENTS[*content]);
                    model.files = place.files();
                }
                Step::Remove(path) => {
                    place.remove(PATHS[*path]);
                    model.files = place.files();
                }
                Step::SnapshotDraft => {
                    let note = number.to_string();
                    ids.push(place.snapshot(&note));
                    model.snapshots.push((note.clone(), model.files.clone()));
                    let mut line = model.branch.as_ref().map_or(Vec::new(), |b| b.line.clone());
                    if let Some(branch) = &model.branch {
                        line.push((branch.note.clone(), branch.files.clone()));
                    }
                    model.change(Turn { note, files: model.files.clone(), line }, None);
                }
                Step::Restore(which, only) => {
                    let Some(from) = which.checked_rem(ids.len()) else { continue };
                    let only: &[&str] = if *only { &["files"] } else { &[] };
                    let (note, files) = model.snapshots[from].clone();
                    let mut line = model.branch.as_ref().map_or(Vec::new(), |b| b.line.clone());
                    let note = match &model.branch {
                        Some(branch) if !only.is_empty() => branch.note.clone(),
                        None if !only.is_empty() => continue,
                        _ => note,
                    };
                    if let Some(branch) = &model.branch {
                        line.push((branch.note.clone(), branch.files.clone()));
                    }
                    let done = place.apply(ids[from], only, false);
                    prop_assert!(done.arranged.unwrap().failed.is_empty());
                    model.change(Turn { note, files: files.clone(), line }, Some(files));
                }
                Step::Rollback(turns) => {
                    let Some(branch) = model.branch.clone() else { continue };
                    let mut states = branch.line.clone();
                    states.push((branch.note.clone(), branch.files.clone()));
                    let left = (states.len() as u64).checked_sub(turns + 1);
                    let rolled = place.rollback(*turns, &[]);
                    let Some(left) = left else {
                        prop_assert_eq!(rolled.unwrap_err().kind(), ErrorKind::NotFound);
                        continue;
                    };
                    rolled.unwrap();
                    let (note, files) = states[left as usize].clone();
                    let line = states[..left as usize].to_vec();
                    model.change(Turn { note, files: files.clone(), line }, Some(files));
                }
                Step::Undo => {
                    prop_assert_eq!(place.take_back(false), !model.done.is_empty());
                    if let Some(change) = model.done.pop() {
                        let change = model.take_back(change);
                        model.undone.push(change);
                    }
                }
                Step::Redo => {
                    let Some(change) = model.undone.pop() else { continue };
                    prop_assert!(place.take_back(true));
                    let change = model.take_back(change);
                    model.done.push(change);
                }
            }
            prop_assert_eq!(&place.files(), &model.files, "step {} {:?}", number, step);
            let note = model.branch.as_ref().map(|branch| branch.note.clone());
            prop_assert_eq!(place.note(), note, "step {} {:?}", number, step);
        }
    }
}

#[test]
fn unsaved_edits_are_captured_before_a_restore_overwrites_them() {
    let mut place = Place::new();
    place.write("a", "one");
    let first = place.snapshot("1");
    place.write("a", "never seen by a snapshot");
    place.write("new", "neither");
    let restore = place.restore(first, &[], false);
    {
        let prepared = place.prepare(&restore).unwrap();
        let files = prepared.plan().files.as_ref().unwrap();
        let paths: Vec<(&Path, bool)> =
            files.files.iter().map(|file| (&*file.path, file.unsaved)).collect();
        assert_eq!(paths, [(Path::new("a"), true), (Path::new("new"), true)]);
    }
    // A dropped plan changes nothing.
    assert_eq!(place.files()["a"], "never seen by a snapshot");
    assert_eq!(place.repo().refs().values.len(), 1);

    let done = place.apply(first, &[], false);
    assert_eq!(place.files(), Files::from([("a".into(), "one".into())]));
    let before = place.repo().read_ref(&before_ref(&Place::branch())).unwrap();
    assert_eq!(before, done.plan.before.unwrap().commit);
    let kept = place.repo().context(&before).unwrap().map(place.repo(), "files").unwrap();
    assert_eq!(kept.len(), 2);
}

#[test]
fn restores_of_a_part_keep_the_rest() {
    let mut place = Place::new();
    for path in ["src/a", "src/b", "doc"] {
        place.write(path, "one");
    }
    let first = place.snapshot("1");
    for path in ["src/a", "src/b", "src/c", "doc"] {
        place.write(path, "two");
    }
    place.snapshot("2");
    place.apply(first, &["files/src/a"], false);
    assert_eq!(place.files()["src/a"], "one");
    assert_eq!((place.files()["src/b"].as_str(), place.note().unwrap().as_str()), ("two", "2"));
    place.apply(first, &["files/src"], false);
    assert!(!place.files().contains_key("src/c"), "files outside of the snapshot are deleted");
    assert_eq!(place.files()["doc"], "two");
    place.apply(first, &["scratchpad"], false);
    assert_eq!((place.files()["doc"].as_str(), place.note().unwrap().as_str()), ("two", "1"));

    let restore = place.restore(first, &["files/nothing"], false);
    assert_eq!(place.prepare(&restore).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn rollbacks_add_up_and_parts_roll_back_separately() {
    let mut place = Place::new();
    let mut states = Vec::new();
    for turn in 1..=5 {
        place.write("a", &turn.to_string());
        place.snapshot(&turn.to_string());
        states.push(turn.to_string());
    }
    let at = |place: &Place| (place.files()["a"].clone(), place.note().unwrap());
    place.rollback(1, &[]).unwrap();
    place.rollback(1, &[]).unwrap();
    assert_eq!(at(&place), ("3".into(), "3".into()));
    place.rollback(1, &["files"]).unwrap();
    assert_eq!(at(&place), ("2".into(), "3".into()));
    place.rollback(1, &["files"]).unwrap();
    assert_eq!(at(&place), ("1".into(), "3".into()));
    place.rollback(1, &["scratchpad"]).unwrap();
    assert_eq!(at(&place), ("1".into(), "2".into()));
    // A rollback of the next turn restores the state that the partial rollbacks left.
    place.write("a", "6");
    place.snapshot("6");
    place.rollback(1, &[]).unwrap();
    assert_eq!(at(&place), ("1".into(), "2".into()));
    let error = place.rollback(9, &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("cannot go back 9 turns"), "{error}");
}

#[test]
fn files_replace_empty_folders() {
    let mut place = Place::new();
    place.write("d", "file");
    let first = place.snapshot("1");
    place.write("d/e/y", "deep");
    place.remove("d/e/y");
    let done = place.apply(first, &[], false);
    assert!(done.arranged.unwrap().failed.is_empty());
    assert_eq!(place.files(), Files::from([("d".into(), "file".into())]));
}

/// Thirty turns with a policy that keeps three, after a collection.
fn thinned(place: &mut Place) -> Vec<ObjectId> {
    let ids: Vec<ObjectId> = (1..=30)
        .map(|turn| {
            place.write("a", &turn.to_string());
            place.snapshot(&turn.to_string())
        })
        .collect();
    let stamp = place.stamp();
    let mut change = place.repo().begin();
    let policy = Policy { keep_last: Some(3), ..Policy::default() };
    set_policy(&mut change, Scope::Session("s"), &policy).unwrap();
    change.commit(&stamp, "retention").unwrap();
    ids
}

fn gc(place: &mut Place) {
    let stamp = place.stamp();
    collect(place.repo(), Purpose::Gc, &stamp, &mut |_| {}).unwrap();
}

#[test]
fn rollbacks_to_expired_turns_report_the_oldest_available_turn() {
    let mut place = Place::new();
    thinned(&mut place);
    gc(&mut place);
    let (tip, before) = (place.tip(), place.files());
    let from = place.repo().turns_before(&tip.unwrap(), 28, &Selection::default()).unwrap();
    let restore = place.restore(from, &[], true);
    let error = place.prepare(&restore).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Expired);
    let available = std::error::Error::source(&error).unwrap().to_string();
    assert!(available.starts_with("the oldest available is turn "), "{available}");
    assert_eq!((place.tip(), place.files()), (tip, before));
}

#[test]
fn collections_keep_rollback_targets_and_overwritten_files() {
    let mut place = Place::new();
    let ids = thinned(&mut place);
    let target = ids[2];
    place.write("a", "edited and in no snapshot");
    place.apply(target, &["files"], true);
    // Enough other operations that none of the newest concerns the rollback.
    for turn in 0..40 {
        let stamp = place.stamp();
        let other = BranchName::main("other").unwrap();
        commit_note(place.repo(), &other, ("n", &turn.to_string()), &stamp);
    }
    gc(&mut place);
    assert!(place.repo().context(&ids[5]).is_err(), "others expire");
    assert!(place.repo().context(&target).is_ok(), "a rollback never prunes its own target");
    let stamp = place.stamp();
    let entry = place.repo().operations().map(Result::unwrap);
    let entry = entry.into_iter().find(|entry| entry.operation.reason == "back").unwrap();
    let repo = &place.sandbox.repo;
    let plan = repo.plan_undo(entry).unwrap();
    let moved = plan.moved.clone().unwrap();
    let options = CaptureOptions::default();
    let prepared = prepare_undo(repo, &plan, &moved, None, &options, &stamp, "undo").unwrap();
    prepared.apply(&stamp, "undo").unwrap();
    assert_eq!(place.files()["a"], "edited and in no snapshot");
    let report = fsck(place.repo(), Thoroughness::Full, stamp.time, &mut |_, _| {});
    assert!(report.unwrap().is_ok());
}

#[test]
fn redactions_map_rollback_targets() {
    let mut place = Place::new();
    for turn in 1..=5 {
        place.write("a", &format!("turn {turn}"));
        place.write("key", if turn < 3 { "sk-secret" } else { "none" });
        place.snapshot(&turn.to_string());
    }
    place.rollback(3, &[]).unwrap();
    let stamp = place.stamp();
    let pattern = Pattern::literal("sk-secret", "(gone)").unwrap();
    redact(place.repo(), &pattern, &stamp).unwrap();
    place.rollback(1, &[]).unwrap();
    // Redacted content cannot be saved, so a file that still has it is not overwritten.
    let (turn, key) = (place.files()["a"].clone(), place.files()["key"].clone());
    assert_eq!((turn.as_str(), key.as_str()), ("turn 1", "sk-secret"));
}

/// Changes one byte of the journal where `bytes` are stored uncompressed.
fn harm(place: &Place, bytes: &[u8]) {
    let mut harmed = 0;
    for entry in fs::read_dir(place.sandbox.store_dir().join("journal")).unwrap() {
        let path = entry.unwrap().path();
        let mut content = fs::read(&path).unwrap();
        if let Some(at) = content.windows(bytes.len()).position(|window| window == bytes) {
            content[at] ^= 1;
            fs::write(&path, content).unwrap();
            harmed += 1;
        }
    }
    assert_eq!(harmed, 1);
}

#[test]
fn damaged_messages_stop_a_conversation_restore() {
    let mut place = Place::new();
    let stamp = place.stamp();
    let (mut change, mut builder) = (place.repo().begin(), Builder::new());
    let said = |n| format!(r#"{{"role":"user","content":"message {n} of all"}}"#);
    for n in 0..200 {
        let blob = change.write(Kind::Blob, said(n).into()).unwrap();
        let entry = MessageEntry::new(blob, Role::User, "json");
        builder.push_message(&mut change, "main", &entry).unwrap();
    }
    let draft = SnapshotDraft::new(builder.write(&mut change).unwrap(), "said", &stamp);
    let first = change.snapshot(&Place::branch(), draft).unwrap();
    change.commit(&stamp, "snapshot").unwrap();
    place.write("file", "one");
    place.snapshot("2");
    harm(&place, said(150).as_bytes());

    let repo = place.sandbox.reopened();
    let prepare = |only: &[&str]| {
        let restore = place.restore(first, only, false);
        prepare_rewind(&repo, &restore, &CaptureOptions::default(), &stamp).map(drop)
    };
    for only in [&[][..], &["conversation"]] {
        let error = prepare(only).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("agents/main/messages"), "{error}");
    }
    prepare(&["scratchpad"]).unwrap();
}

#[test]
fn damaged_files_stop_a_restore_before_any_change() {
    let mut place = Place::new();
    // Incompressible content, so that its bytes can be found in the store.
    let random: String =
        (0..8).map(|n| ObjectId::of(Kind::Blob, &[n]).to_string()).collect::<Vec<_>>().join("");
    let random: Vec<u8> =
        random.into_bytes().chunks(2).map(|pair| pair[0] ^ (pair[1] << 1)).collect();
    fs::write(place.dir.join("damaged"), &random).unwrap();
    place.write("sound", "one");
    let first = place.snapshot("1");
    fs::remove_file(place.dir.join("damaged")).unwrap();
    place.write("sound", "two");
    place.snapshot("2");
    let (tip, before) = (place.tip().unwrap(), place.files());

    harm(&place, &random[32..48]);
    let repo = place.sandbox.reopened();
    let restore = place.restore(first, &[], true);
    let error =
        prepare_rewind(&repo, &restore, &CaptureOptions::default(), &stamp(99)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound), "{error}");
    assert_eq!((repo.tip(&Place::branch()), place.files()), (Some(tip), before));
}

#[test]
fn undoing_a_redo_restores_the_state_before_it() {
    let mut place = Place::new();
    place.write("a", "one");
    let first = place.snapshot("1");
    place.write("a", "two");
    place.snapshot("2");
    place.apply(first, &[], false);
    assert!(place.take_back(false));
    place.write("a", "edited after the undo");
    assert!(place.take_back(true));
    assert_eq!(place.files()["a"], "one");
    assert!(place.take_back(false));
    assert_eq!(place.files()["a"], "edited after the undo");
}

#[test]
fn renaming_a_branch_removes_its_saved_workspace_until_undone() {
    let mut place = Place::new();
    place.write("a", "one");
    let first = place.snapshot("1");
    place.rollback(0, &[]).unwrap();
    let (stamp, other) = (place.stamp(), BranchName::new("s", "other").unwrap());
    let mut change = place.repo().begin();
    change.rename_branch(&Place::branch(), &other).unwrap();
    change.commit(&stamp, "rename").unwrap();
    assert!(place.repo().read_ref(&before_ref(&Place::branch())).is_err());
    assert!(place.repo().read_ref(&before_ref(&other)).is_err());

    // Once the branch is restored, the rollback can be undone with its files.
    assert!(place.take_back(false));
    place.write("a", "two");
    assert!(place.take_back(false));
    assert_eq!((place.tip(), place.files()["a"].as_str()), (Some(first), "one"));
}
