//! A random walk through all changes of a repository, compared with a naive model.
//!
//! Snapshots, forks, merges with every policy, cherry-picks, restores, undo, redo, deleted
//! branches, collections and packing follow each other on one store, which is reopened sometimes.
//! After each step the branches and the touched commits equal those of the module `model`, and each
//! merge is checked against its inputs. Sometimes all commits are read again.

mod check;
mod model;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use turntree::ErrorKind;
use turntree::context::{Builder, Context, MessagePolicy, Selection, open_conflicts};
use turntree::maintenance::{Purpose, auto, collect, fsck};
use turntree::object::{ObjectId, RefValue};
use turntree::repo::{
    BranchName, MergeKind, MergeReport, MergeRequest, Repository, Signature, SnapshotDraft,
};
use turntree::store::{NewStore, OpenOptions, Thoroughness, Tier};

use self::check::Merged;
use self::model::{Content, Model, Turn};
use super::{Effort, Figures, Repeat};
use crate::oracle::DIR;
use crate::sim::{Random, SimDisk};
use crate::{no_tools, stamp};

/// Walks at scale 1, and the steps of each.
const WALKS: u64 = 8;
const STEPS: usize = 250;

/// The steps between two readings of everything.
const STEPS_BETWEEN: usize = 50;

/// The most branches at a time.
const BRANCHES: usize = 6;

/// Walks at random.
///
/// # Panics
/// If a repository differs from the model.
#[must_use]
pub fn run(effort: &Effort) -> Figures {
    let mut random = Random(effort.seed);
    let mut counts = Counts::default();
    for _ in 0..WALKS * effort.scale {
        let seed = random.draw();
        counts.add(&walk(seed));
    }
    let mut figures = Figures::default();
    figures.add("walks", WALKS * effort.scale);
    figures.add("steps", counts.steps);
    figures.add("commits", counts.commits);
    figures.add("merges", counts.merges);
    figures.add("of histories that cross", counts.crossing);
    figures.add("conflicts", counts.conflicts);
    figures.add("undo and redo", counts.undone);
    figures.add("collections", counts.collections);
    figures
}

/// The number of steps and results.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    steps: u64,
    commits: u64,
    merges: u64,
    crossing: u64,
    conflicts: u64,
    undone: u64,
    collections: u64,
}

impl Counts {
    fn add(&mut self, more: &Self) {
        self.steps += more.steps;
        self.commits += more.commits;
        self.merges += more.merges;
        self.crossing += more.crossing;
        self.conflicts += more.conflicts;
        self.undone += more.undone;
        self.collections += more.collections;
    }
}

fn walk(seed: u64) -> Counts {
    let disk = SimDisk::new(Path::new("/disk"));
    let (io, new) = (Arc::new(disk.clone()), NewStore { id: [8; 16] });
    let repo = Repository::init(io, Path::new(DIR), &new, seeded(0)).expect("a new store");
    let (model, counts) = (Model::default(), Counts::default());
    let mut walk = Walk { disk, repo, model, counts, random: Random(seed), step: 0, opened: 0 };
    walk.snapshot("main");
    for step in 1..=STEPS {
        let _repeat = Repeat(format!("the walk of seed {seed}, step {step}"));
        walk.step = step;
        walk.go();
        walk.check_branches();
        if step % STEPS_BETWEEN == 0 {
            walk.check_all();
        }
    }
    walk.counts.steps = STEPS as u64;
    walk.counts.commits = walk.model.turns.len() as u64;
    walk.counts
}

struct Walk {
    disk: SimDisk,
    repo: Repository,
    model: Model,
    counts: Counts,
    random: Random,
    step: usize,
    /// How often the store was opened.
    opened: u128,
}

fn seeded(opened: u128) -> OpenOptions {
    OpenOptions::new(opened.to_le_bytes())
}

fn branch(name: &str) -> BranchName {
    BranchName::new("s", name).expect("a name")
}

impl Walk {
    fn go(&mut self) {
        let name = self.any_branch();
        match self.random.below(100) {
            0..38 => self.snapshot(&name),
            38..48 => self.fork(),
            48..68 => self.merge(&name),
            68..74 => self.pick(&name),
            74..80 => self.go_back(&name),
            80..86 => self.take_back(false),
            86..90 => self.take_back(true),
            90..93 if self.model.branches.len() > 1 => self.remove(&name),
            93..97 => self.collect(),
            _ => self.open(),
        }
    }

    /// Continues as another process. Every writer has a unique seed.
    fn open(&mut self) {
        self.opened += 1;
        let (io, options) = (Arc::new(self.disk.clone()), seeded(self.opened));
        self.repo = Repository::open(io, Path::new(DIR), options).expect("the store opens");
    }

    fn any_branch(&mut self) -> String {
        let names: Vec<&String> = self.model.branches.keys().collect();
        match names.len() {
            0 => "main".to_owned(),
            count => names[self.random.below(count)].clone(),
        }
    }

    fn any_turn(&mut self) -> ObjectId {
        let at = self.random.below(self.model.turns.len());
        *self.model.turns.keys().nth(at).expect("a turn")
    }

    /// The current time: each step is a second, and the clock is sometimes set back.
    fn now(&mut self) -> Signature {
        let back = if self.random.below(10) == 0 { 20 } else { 0 };
        stamp(i64::try_from(self.step).expect("small") - back)
    }

    fn context(&self, id: &ObjectId) -> Context {
        self.repo.context(id).expect("a context that was not dropped")
    }

    fn read(&self, id: &ObjectId) -> Content {
        Content::read(&self.repo, &self.context(id))
    }

    fn snapshot(&mut self, name: &str) {
        let (now, tip) = (self.now(), self.model.tip(name));
        let mut content = tip.map(|tip| self.model.turns[&tip].content.clone()).unwrap_or_default();
        let mut builder = match &tip {
            Some(tip) => Builder::from(self.context(tip)),
            None => Builder::new(),
        };
        let mut change = self.repo.begin();
        content.change(&mut change, &mut builder, self.step, &mut self.random);
        let tree = builder.write(&mut change).expect("a tree");
        let snapshot = SnapshotDraft::new(tree, format!("step {}", self.step), &now);
        let id = change.snapshot(&branch(name), snapshot).expect("a snapshot");
        change.commit(&now, "snapshot").expect("a commit");
        self.came(name, id, tip.into_iter().collect(), content);
    }

    /// Adds a commit that an operation put on a branch to the model.
    fn came(&mut self, name: &str, id: ObjectId, parents: Vec<ObjectId>, content: Content) {
        assert_eq!(self.repo.commit(&id).expect("the commit").parents, parents);
        assert_eq!(self.read(&id), content, "the input");
        self.model.turns.insert(id, Turn { parents, content });
        self.model.moved(name, Some(id));
    }

    fn fork(&mut self) {
        let (now, at) = (self.now(), self.any_turn());
        if self.model.branches.len() < BRANCHES {
            let name = format!("b{}", self.step);
            self.put(&name, Some(at), &now);
        }
    }

    fn remove(&mut self, name: &str) {
        let now = self.now();
        self.put(name, None, &now);
    }

    fn put(&mut self, name: &str, at: Option<ObjectId>, now: &Signature) {
        let mut change = self.repo.begin();
        change.move_branch(&branch(name), at);
        change.commit(now, "put").expect("a commit");
        self.model.moved(name, at);
    }

    fn request(into: &str, theirs: ObjectId, messages: MessagePolicy) -> MergeRequest<'static> {
        MergeRequest {
            into: branch(into),
            theirs,
            label: format!("s/{into}-theirs"),
            messages,
            only: Selection::default(),
            tools: &no_tools,
            message: None,
        }
    }

    fn merge(&mut self, into: &str) {
        let (now, from) = (self.now(), self.any_branch());
        let (Some(ours), Some(theirs)) = (self.model.tip(into), self.model.tip(&from)) else {
            return;
        };
        let policy = match self.random.below(5) {
            0 => MessagePolicy::Ours,
            1 => MessagePolicy::Theirs,
            _ => MessagePolicy::Append,
        };
        let mut change = self.repo.begin();
        let request = Self::request(into, theirs, policy.clone());
        let merge = change.merge(&request, &now).expect("a merge");
        match merge.kind {
            MergeKind::UpToDate => drop(change),
            _ => drop(change.commit(&now, "merge").expect("a commit")),
        }
        let bases = self.model.bases(&ours, &theirs);
        assert_eq!(merge.base.is_some(), !bases.is_empty());
        assert!(merge.base.is_none_or(|base| bases.contains(&base)), "a best common ancestor");
        let kind = match (bases.contains(&theirs), bases.contains(&ours)) {
            (true, _) => MergeKind::UpToDate,
            (false, true) => MergeKind::FastForward,
            (false, false) => MergeKind::Merged,
        };
        assert_eq!(merge.kind, kind);
        match kind {
            MergeKind::UpToDate => {}
            MergeKind::FastForward => self.model.moved(into, Some(theirs)),
            MergeKind::Merged => {
                self.counts.crossing += u64::from(bases.len() > 1);
                let also = bases.into_iter().filter(|id| Some(*id) != merge.base).collect();
                let content = self.check_merge(&merge, also, &policy);
                self.came(into, merge.commit, vec![ours, theirs], content);
            }
        }
    }

    /// A cherry-pick is a merge whose base is the parent of the picked commit.
    fn pick(&mut self, into: &str) {
        let (now, theirs) = (self.now(), self.any_turn());
        let Some(ours) = self.model.tip(into) else { return };
        let mut change = self.repo.begin();
        let request = Self::request(into, theirs, MessagePolicy::Append);
        let pick = change.cherry_pick(&request, &now).expect("a pick");
        assert_eq!(pick.base, self.model.turns[&theirs].parents.first().copied());
        if pick.kind == MergeKind::UpToDate {
            return;
        }
        change.commit(&now, "cherry-pick").expect("a commit");
        let content = self.check_merge(&pick, Vec::new(), &MessagePolicy::Append);
        self.came(into, pick.commit, vec![ours], content);
    }

    /// Checks a merge, and returns its content.
    fn check_merge(
        &mut self,
        merge: &MergeReport,
        also: Vec<ObjectId>,
        policy: &MessagePolicy,
    ) -> Content {
        let found = self.read(&merge.commit);
        let content = |id: &ObjectId| &self.model.turns[id].content;
        let nothing = Content::default();
        let report = merge.report.as_ref().expect("a report");
        let merged = Merged {
            base: merge.base.as_ref().map_or(&nothing, content),
            also: also.iter().map(content).collect(),
            ours: content(&merge.ours),
            theirs: content(&merge.theirs),
            found: &found,
            conflicts: report.conflicts.iter().map(|conflict| conflict.path.clone()).collect(),
            open: open_conflicts(&self.repo, &self.context(&merge.commit))
                .expect("the open conflicts"),
        };
        merged.check(policy);
        self.counts.merges += 1;
        self.counts.conflicts += report.conflicts.len() as u64;
        found
    }

    /// Commits the context of any turn as a new turn.
    fn go_back(&mut self, name: &str) {
        let (now, to) = (self.now(), self.any_turn());
        let tip = self.model.tip(name);
        let tree = self.repo.commit(&to).expect("a commit").tree;
        let mut change = self.repo.begin();
        let snapshot = SnapshotDraft::new(tree, format!("back in step {}", self.step), &now);
        let id = change.snapshot(&branch(name), snapshot).expect("a snapshot");
        change.commit(&now, "restore").expect("a commit");
        let content = self.model.turns[&to].content.clone();
        self.came(name, id, tip.into_iter().collect(), content);
    }

    fn take_back(&mut self, again: bool) {
        let now = self.now();
        let found = if again { self.repo.redoable(None) } else { self.repo.undoable(None) };
        let found = found.expect("the operations");
        let expected = if again { self.model.undone.pop() } else { self.model.done.pop() };
        assert_eq!(found.is_some(), expected.is_some(), "the undoable operations");
        let (Some(found), Some(moved)) = (found, expected) else { return };
        let (from, to) = if again { (moved.old, moved.new) } else { (moved.new, moved.old) };
        let plan = self.repo.plan_undo(found);
        if self.model.tip(&moved.branch) != from {
            // A newer change moved the branch, so nothing is undone.
            assert_eq!(plan.expect_err("a refusal").kind(), ErrorKind::Conflict);
            self.model.undone.push(moved);
            return;
        }
        let plan = plan.expect("a plan");
        self.repo.undo(&plan, &now, "take back").expect("a commit");
        self.model.put(&moved.branch, to);
        if again {
            self.model.done.push(moved);
        } else {
            self.model.undone.push(moved);
        }
        self.counts.undone += 1;
    }

    fn collect(&mut self) {
        let purpose = match self.random.below(6) {
            0 => Purpose::Repack(Tier::Hot),
            1 => Purpose::Repack(Tier::Compacted),
            2 => Purpose::Step,
            3 => {
                auto::pack(&self.repo, 1).expect("a pack");
                self.counts.collections += 1;
                return;
            }
            _ => Purpose::Gc,
        };
        let now = self.now();
        collect(&self.repo, purpose, &now, &mut |_| {}).expect("a collection");
        self.counts.collections += 1;
    }

    /// Checks that all branches are at their expected commits.
    fn check_branches(&self) {
        let refs = self.repo.refs();
        let heads = refs.values.iter().filter_map(|(name, value)| match value {
            RefValue::Object(id) => Some((name.strip_prefix("refs/heads/s/")?.to_owned(), *id)),
            _ => None,
        });
        assert_eq!(heads.collect::<BTreeMap<_, _>>(), self.model.branches);
    }

    /// Checks that all commits exist, with a new handle.
    fn check_all(&mut self) {
        self.open();
        self.check_branches();
        for (id, turn) in &self.model.turns {
            assert_eq!(self.read(id), turn.content, "{id}");
        }
        let report = fsck(&self.repo, Thoroughness::Full, stamp(0).time, &mut |_, _| {});
        let report = report.expect("a report");
        assert!(report.is_ok(), "{report:?}");
    }
}
