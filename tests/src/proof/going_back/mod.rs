//! A random walk through all rewinds of a workspace, compared with an independent rule.
//!
//! Edits of files and ignore rules, snapshots, turns of a transcript, full and partial restores,
//! rollbacks, merges with files, undo and redo follow each other. After each step the directory,
//! the saved state, and the files of the branch equal those of the module `rule`, and the store
//! contains no ignored content.

mod rule;
mod world;

use std::collections::BTreeSet;

use turntree::context::{Builder, Context, FileEntry, FileMode, MessagePolicy, Selection};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{BranchName, MergeRequest, Repository, Signature, SnapshotDraft};
use turntree::workspace::{
    CaptureOptions, RewindRequest, StatCache, WorkspaceBackup, capture, prepare_merge,
    prepare_rewind, prepare_undo,
};

use self::rule::{Disk, Files, Outcome, State, is_below};
use self::world::World;
use super::{Effort, Figures, Repeat};
use crate::sim::Random;
use crate::{new_store, no_tools, stamp};

/// Walks at scale 1, and the steps of each.
const WALKS: u64 = 12;
const STEPS: usize = 100;

const PATHS: [&str; 14] = [
    "a",
    "A",
    "b.x",
    ".env",
    "d/a",
    "d/b.x",
    "d",
    "d/e/y",
    "d/e",
    "build/o",
    "build/x.x",
    "sub/f",
    "sub/build/o",
    "sub/d/a",
];
const RULES: [&str; 6] = [
    ".gitignore",
    ".turntreeignore",
    "d/.gitignore",
    "d/.turntreeignore",
    "sub/.gitignore",
    "build/.gitignore",
];
const LINES: [&str; 10] = ["build/", ".env", "*.x", "!b.x", "/a", "d/", "e", "o", "!o", "!a"];
const CONTENTS: [&str; 6] = ["one", "two", "three", "x:run", "->a", "->nowhere"];

/// Walks at random.
///
/// # Panics
/// If a workspace differs from the rule.
#[must_use]
pub fn run(effort: &Effort) -> Figures {
    let mut random = Random(effort.seed);
    let mut counts = Counts::default();
    for _ in 0..WALKS * effort.scale {
        walk(random.draw(), &mut counts);
    }
    let mut figures = Figures::default();
    figures.add("walks", WALKS * effort.scale);
    figures.add("steps", counts.steps);
    figures.add("restores and rollbacks", counts.back);
    figures.add("of these, of a part", counts.parts);
    figures.add("of these, to an incomplete workspace", counts.partial);
    figures.add("undo and redo", counts.undone);
    figures.add("merges with files", counts.merges);
    figures.add("files that changed", counts.changed);
    figures.add("files that a rule kept as they were", counts.kept);
    figures
}

/// The number of actions.
#[derive(Debug, Default)]
struct Counts {
    steps: usize,
    back: u64,
    parts: u64,
    partial: u64,
    undone: u64,
    merges: u64,
    changed: usize,
    kept: usize,
}

fn walk(seed: u64, counts: &mut Counts) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut walk = Walk {
        world: World::new(folder.path()),
        repo: new_store(&folder.path().join("store")),
        random: Random(seed),
        clock: 0,
        tip: None,
        states: Vec::new(),
        done: Vec::new(),
        undone: Vec::new(),
        counts: std::mem::take(counts),
        did: "",
    };
    for step in 1..=STEPS {
        let _repeat = Repeat(format!("the walk of seed {seed}, step {step}"));
        walk.go();
        walk.check_branch();
    }
    walk.counts.steps += STEPS;
    *counts = walk.counts;
}

/// A change that can be undone: the branch on its other side, and the saved state of the workspace
/// before it.
#[derive(Debug, Clone)]
struct Change {
    branch: Option<(ObjectId, State)>,
    files: Option<State>,
}

struct Walk {
    world: World,
    repo: Repository,
    random: Random,
    clock: i64,
    tip: Option<(ObjectId, State)>,
    /// Every state that was ever on the branch.
    states: Vec<(ObjectId, State)>,
    done: Vec<Change>,
    undone: Vec<Change>,
    counts: Counts,
    /// The name of the step.
    did: &'static str,
}

fn main_branch() -> BranchName {
    BranchName::main("s").expect("a name")
}

impl Walk {
    fn go(&mut self) {
        match self.random.below(100) {
            0..34 => self.edit(),
            34..46 => self.edit_rules(),
            46..58 => self.snapshot(),
            58..62 => self.hear(),
            62..74 => self.restore(None),
            74..80 => {
                let path = self.any(&PATHS);
                let folder = path.split('/').next().unwrap_or(path);
                let part = if self.random.below(2) == 0 { path } else { folder };
                self.restore(Some(part));
            }
            80..84 => self.merge(),
            84..93 => self.take_back(false),
            _ => self.take_back(true),
        }
    }

    fn any(&mut self, of: &[&'static str]) -> &'static str {
        of[self.random.below(of.len())]
    }

    fn stamp(&mut self) -> Signature {
        self.clock += 1;
        stamp(self.clock)
    }

    /// A user changes a file.
    fn edit(&mut self) {
        self.did = "edit";
        let path = self.any(&PATHS);
        if self.random.below(4) == 0 {
            self.world.remove(path);
        } else {
            let content = self.any(&CONTENTS);
            self.world.write(path, content);
        }
    }

    /// A user or git changes the ignore rules.
    fn edit_rules(&mut self) {
        self.did = "edit_rules";
        let lines: BTreeSet<&str> = (0..self.random.below(3)).map(|_| self.any(&LINES)).collect();
        let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        match self.random.below(12) {
            0 => self.world.exclude(&text),
            1 => self.world.ignore_globally(&text),
            2 => self.world.toggle_repository(""),
            3 => self.world.toggle_repository("sub/"),
            4 | 5 => {
                let path = self.any(&PATHS);
                self.world.toggle_tracked(path);
            }
            _ => {
                let path = self.any(&RULES);
                if lines.is_empty() {
                    self.world.remove(path);
                } else {
                    self.world.write(path, &text);
                }
            }
        }
    }

    fn current(&self) -> State {
        self.tip.as_ref().map(|(_, state)| state.clone()).unwrap_or_default()
    }

    fn moved(&mut self, id: ObjectId, state: State, files: Option<State>) {
        self.states.push((id, state.clone()));
        let branch = self.tip.replace((id, state));
        self.done.push(Change { branch, files });
        self.undone.clear();
    }

    fn snapshot(&mut self) {
        self.did = "snapshot";
        let (stamp, disk, branch) = (self.stamp(), self.world.look(), main_branch());
        let cache = StatCache::open(&self.repo, &self.world.dir).expect("a cache");
        let options = CaptureOptions {
            git: &self.world.git,
            cache: Some(&cache),
            ..CaptureOptions::default()
        };
        let mut change = self.repo.begin();
        let parent = self.tip.as_ref().map(|(id, _)| self.repo.context(id).expect("a context"));
        let parent = parent.unwrap_or_default();
        let mut builder = Builder::from(parent.clone());
        let captured = capture(&mut change, &parent, &mut builder, &self.world.dir, &options)
            .expect("a capture");
        assert_eq!(captured.warnings, [""; 0]);
        let tree = builder.write(&mut change).expect("a context");
        let mut draft = SnapshotDraft::new(tree, "snapshot", &stamp);
        draft.metadata.extend(captured.metadata(&self.world.dir));
        let id = change.snapshot(&branch, draft).expect("a snapshot");
        change.commit(&stamp, "snapshot").expect("it is durable");
        cache.save(&captured, &self.repo, &tree).expect("the cache is kept");
        let state = rule::capture(&disk, &[], &State::default()).state;
        self.moved(id, state, None);
    }

    /// Imports a turn whose transcript names files.
    fn hear(&mut self) {
        self.did = "hear";
        let mut state = self.current();
        let (path, content) = (self.any(&PATHS), self.any(&CONTENTS));
        state.files.retain(|other, _| !is_below(other, path) && !is_below(path, other));
        state.files.insert(path.to_owned(), content.to_owned());
        let id = self.tell(&main_branch(), self.tip.as_ref().map(|it| it.0), &state.files);
        self.moved(id, state, None);
    }

    /// Commits a snapshot with these files to a branch at `from`, or starts the branch there.
    fn tell(&mut self, branch: &BranchName, from: Option<ObjectId>, files: &Files) -> ObjectId {
        let stamp = self.stamp();
        let mut change = self.repo.begin();
        let parent = from.map(|id| self.repo.context(&id).expect("a context")).unwrap_or_default();
        let known = files_of(&self.repo, &parent);
        let mut builder = Builder::from(parent);
        for path in known.keys().filter(|path| !files.contains_key(*path)) {
            builder.set_file(&mut change, path, None).expect("it goes");
        }
        for (path, content) in files {
            let (mode, bytes) = match content.strip_prefix("->") {
                Some(target) => (FileMode::Symlink, target),
                None if content.starts_with("x:") => (FileMode::Executable, &**content),
                None => (FileMode::Regular, &**content),
            };
            let content = (mode, bytes.to_owned().into());
            builder.set_file(&mut change, path, Some(content)).expect("it is put");
        }
        let tree = builder.write(&mut change).expect("a context");
        if change.tip(branch).is_none() {
            change.move_branch(branch, from);
        }
        let id = change.snapshot(branch, SnapshotDraft::new(tree, "said", &stamp)).expect("a turn");
        change.commit(&stamp, "turn").expect("it is durable");
        id
    }

    fn restore(&mut self, part: Option<&str>) {
        self.did = "restore";
        if self.states.is_empty() {
            return;
        }
        let at = self.states.len() - 1 - self.random.below(self.states.len().min(6));
        let (from, wanted) = self.states[at].clone();
        let (stamp, disk, current) = (self.stamp(), self.world.look(), self.current());
        if has_file_in_file(&rule::go_back(&disk, &current, &wanted, part).after.files) {
            // No directory can match the branch.
            return;
        }
        let only: Vec<String> = part.iter().map(|part| format!("files/{part}")).collect();
        let request = RewindRequest {
            branch: main_branch(),
            from,
            only: Selection::parse(&only),
            workspace: Some(self.world.dir.clone()),
            is_rollback: self.random.below(2) == 0,
            keep_lessons: false,
            audit: false,
            message: "back".to_owned(),
        };
        let cache = StatCache::open(&self.repo, &self.world.dir).expect("a cache");
        let options = CaptureOptions {
            git: &self.world.git,
            cache: Some(&cache),
            ..CaptureOptions::default()
        };
        let is_there = |state: &State| {
            let mut paths = state.files.keys();
            part.is_none_or(|part| paths.any(|path| path == part || is_below(path, part)))
        };
        let prepared = prepare_rewind(&self.repo, &request, &options, &stamp);
        if !is_there(&current) && !is_there(&wanted) {
            prepared.expect_err("nothing is there");
            return;
        }
        let done = prepared.expect("a plan").apply(&stamp, "back").expect("it is done");
        self.counts.back += 1;
        self.counts.parts += u64::from(part.is_some());
        self.counts.partial += u64::from(!wanted.is_whole);
        if !wanted.is_whole && wanted.files.is_empty() {
            assert!(done.plan.files.is_none() && done.plan.kept.is_some());
            let mut state = current;
            if part.is_none() {
                state = wanted;
            }
            state.is_whole = false;
            self.moved(done.plan.commit, state.normal(), None);
            return;
        }
        let outcome = rule::go_back(&disk, &current, &wanted, part);
        let before = done.plan.before.as_ref().expect("it was saved");
        cache.save(&before.captured, &self.repo, &before.tree).expect("the cache is kept");
        self.check_outcome(&disk, &outcome, before);
        self.moved(done.plan.commit, outcome.after, Some(outcome.before));
    }

    fn take_back(&mut self, again: bool) {
        self.did = if again { "redo" } else { "undo" };
        let Some(change) = (if again { self.undone.pop() } else { self.done.pop() }) else {
            return;
        };
        let (stamp, disk, current) = (self.stamp(), self.world.look(), self.current());
        let found = if again { self.repo.redoable(None) } else { self.repo.undoable(None) };
        let plan = self.repo.plan_undo(found.expect("a log").expect("an operation"));
        let plan = plan.expect("a plan");
        self.counts.undone += 1;
        assert_eq!(plan.moved.is_some(), change.files.is_some());
        let mut files = None;
        if let Some((moved, wanted)) = plan.moved.as_ref().zip(change.files) {
            let options = CaptureOptions { git: &self.world.git, ..CaptureOptions::default() };
            let prepared = prepare_undo(&self.repo, &plan, moved, None, &options, &stamp, "undo");
            let done = prepared.expect("a plan").apply(&stamp, "undo").expect("it is done");
            let outcome = rule::go_back(&disk, &current, &wanted, None);
            let before = done.plan.before.as_ref().expect("it was saved");
            self.check_outcome(&disk, &outcome, before);
            files = Some(outcome.before);
        } else {
            self.repo.undo(&plan, &stamp, "undo").expect("it is done");
        }
        let branch = std::mem::replace(&mut self.tip, change.branch);
        let other = Change { branch, files };
        if again { self.done.push(other) } else { self.undone.push(other) }
    }

    /// Merges a branch that continued elsewhere, with its files.
    fn merge(&mut self) {
        self.did = "merge";
        let Some((base, state)) = self.tip.clone() else { return };
        let mut theirs = state.clone();
        for _ in 0..=self.random.below(3) {
            let (path, content) = (self.any(&PATHS), self.any(&CONTENTS));
            if self.random.below(3) == 0 {
                theirs.files.remove(path);
            } else if !theirs.files.keys().any(|it| is_below(it, path) || is_below(path, it)) {
                theirs.files.insert(path.to_owned(), content.to_owned());
            }
        }
        if theirs.files == state.files {
            return;
        }
        let name = format!("f{}", self.clock);
        let branch = BranchName::new("s", &name).expect("a name");
        let id = self.tell(&branch, Some(base), &theirs.files);
        self.done.push(Change { branch: self.tip.clone(), files: None });
        self.undone.clear();
        if self.random.below(2) == 0 {
            self.edit();
        }
        let (stamp, disk) = (self.stamp(), self.world.look());
        let captured = rule::capture(&disk, &[&state, &theirs], &state);
        let differs = |path: &&String| theirs.files.get(*path) != state.files.get(*path);
        let changed: BTreeSet<&String> =
            theirs.files.keys().chain(state.files.keys()).filter(differs).collect();
        let own = &captured.state.files;
        if changed.iter().any(|path| own.get(*path) != state.files.get(*path)) {
            // Both sides changed a file: other tests cover conflicts.
            return;
        }
        let request = MergeRequest {
            into: main_branch(),
            theirs: id,
            label: name,
            messages: MessagePolicy::default(),
            only: Selection::default(),
            tools: &no_tools,
            message: None,
        };
        let options = CaptureOptions { git: &self.world.git, ..CaptureOptions::default() };
        let Ok(prepared) = prepare_merge(&self.repo, &request, &self.world.dir, &options, &stamp)
        else {
            // Changes that no snapshot has look like files that were never captured.
            return;
        };
        let ours = if prepared.saved.is_some() { own } else { &state.files };
        let mut merged = State { files: ours.clone(), ..theirs.clone() };
        for path in changed {
            match theirs.files.get(path) {
                Some(content) => drop(merged.files.insert(path.clone(), content.clone())),
                None => drop(merged.files.remove(path)),
            }
        }
        if has_file_in_file(&merged.files) {
            // A file of one side is a folder of the other: other tests cover this too.
            return;
        }
        let (commit, before) = (prepared.report.commit, prepared.before.clone());
        prepared.apply(&stamp, "merge").expect("it is done");
        self.counts.merges += 1;
        let now = rule::lay_out(&disk, &captured.changeable, &merged, None);
        merged.left.extend(captured.state.left.iter().cloned());
        let outcome = Outcome { before: captured.state, disk: now, after: merged.normal() };
        self.check_outcome(&disk, &outcome, &before);
        self.moved(commit, outcome.after, Some(outcome.before));
    }

    fn check_outcome(&mut self, was: &Disk, outcome: &Outcome, before: &WorkspaceBackup) {
        let now = self.world.look();
        assert_eq!(now.files, outcome.disk, "the directory after {}, which was {was:#?}", self.did);
        assert_eq!(now.repositories, was.repositories, "repositories");
        let saved = self.repo.context(&before.commit).expect("it was saved");
        assert_eq!(
            files_of(&self.repo, &saved),
            outcome.before.files,
            "the files saved before {}",
            self.did
        );
        let changed = |path: &&String| was.files.get(*path) != now.files.get(*path);
        let paths: BTreeSet<&String> = was.files.keys().chain(now.files.keys()).collect();
        self.counts.changed += paths.into_iter().filter(changed).count();
        self.counts.kept += outcome.before.left.len();
    }

    fn check_branch(&self) {
        let Some((id, state)) = &self.tip else { return };
        assert_eq!(self.repo.tip(&main_branch()), Some(*id), "the branch");
        let context = self.repo.context(id).expect("a context");
        assert_eq!(
            files_of(&self.repo, &context),
            state.files,
            "the files of the branch after {}",
            self.did
        );
        let whole = self.repo.whole_workspace(id).expect("its history");
        assert_eq!(whole.is_some(), state.is_whole, "whole after {}", self.did);
        if let Some(whole) = whole {
            assert_eq!(whole.skipped, state.left, "unknown after {}", self.did);
        }
    }
}

/// True if the path of a file is below that of a second file, which would have to be a folder too.
fn has_file_in_file(files: &Files) -> bool {
    files.keys().any(|path| files.keys().any(|other| is_below(path, other)))
}

fn files_of(repo: &Repository, context: &Context) -> Files {
    let (store, mut files) = (repo, Files::new());
    for entry in context.map(store, "files").expect("files").iter(store) {
        let (key, item) = entry.expect("a file");
        let file = FileEntry::from_item(&item).expect("a file");
        let bytes = store.read_as(Kind::Blob, &file.blob).expect("its content");
        let text = String::from_utf8(bytes.to_vec()).expect("text");
        let lead = if file.mode == FileMode::Symlink { "->" } else { "" };
        files.insert(String::from_utf8(key.to_vec()).expect("a path"), format!("{lead}{text}"));
    }
    files
}
