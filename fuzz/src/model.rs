//! Compares a repository with a naive model: every read must agree, whatever happened before.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use turntree::ErrorKind;
use turntree::context::{Builder, FileMode, MessageEntry, Role};
use turntree::maintenance::{Purpose, collect, fsck};
use turntree::object::{Kind, ObjectId, ObjectSink, ObjectSource, RefValue};
use turntree::repo::{BranchName, NewPin, Repository, SnapshotDraft, tag_ref};
use turntree::store::{Expected, NewStore, Thoroughness, Tier};
use turntree_tests::oracle::{DIR, options};
use turntree_tests::sim::{Keep, SimDisk};
use turntree_tests::stamp;

/// Maximum number of steps.
const MAX_STEPS: usize = 40;

/// The content of a context, in the simplest form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct State {
    messages: Vec<Bytes>,
    notes: BTreeMap<String, Bytes>,
    files: BTreeMap<String, Bytes>,
}

/// The expected content of a repository.
#[derive(Debug, Default)]
struct Model {
    branches: BTreeMap<String, ObjectId>,
    tags: BTreeMap<String, ObjectId>,
    pins: BTreeMap<String, ObjectId>,
    /// Every commit: its content, and its parent.
    commits: BTreeMap<ObjectId, (State, Option<ObjectId>)>,
}

/// A repository and its model, on a disk.
struct Pair {
    disk: SimDisk,
    repo: Repository,
    model: Model,
    second: i64,
}

/// Executes steps of four bytes each: snapshots, forks, moves of branches, tags, pins, collections,
/// reopening, crashes.
///
/// # Panics
/// If the repository differs from the model.
pub fn model(bytes: &[u8]) {
    let disk = SimDisk::new(Path::new("/disk"));
    let (io, new) = (Arc::new(disk.clone()), NewStore { id: [7; 16] });
    let repo = Repository::init(io, Path::new(DIR), &new, options(1)).unwrap();
    let mut pair = Pair { disk, repo, model: Model::default(), second: 1 };
    for step in bytes.as_chunks::<4>().0.iter().take(MAX_STEPS) {
        pair.step(*step);
    }
    pair.check();
    pair.reopen(Keep::Nothing);
    pair.check();
    let report =
        fsck(&pair.repo, Thoroughness::Full, stamp(pair.second).time, &mut |_, _| {}).unwrap();
    assert!(report.is_ok(), "{:#?}", report.findings);
}

impl Pair {
    fn step(&mut self, [what, a, b, c]: [u8; 4]) {
        self.second += 1;
        let branch = BranchName::new("work", &format!("b{}", a % 4)).unwrap();
        match what % 16 {
            0..=6 => self.snapshot(&branch, b, c),
            7 | 8 => self.move_to(&branch, b),
            9 => self.tag(a, b),
            10 => self.pin(a, b),
            11 => self.delete(&branch, b),
            12 => self.collect(Purpose::Gc),
            13 => self.collect(match a % 4 {
                0 => Purpose::Step,
                1 => Purpose::Repack(Tier::Hot),
                2 => Purpose::Repack(Tier::Archive),
                _ => Purpose::Repack(Tier::Compacted),
            }),
            14 => self.reopen(Keep::All),
            _ => self.reopen(Keep::Some(u64::from(b) << 8 | u64::from(c))),
        }
        if what >= 0xc0 {
            self.check();
        }
    }

    /// Takes a turn that adds messages, and changes notes and files.
    fn snapshot(&mut self, branch: &BranchName, b: u8, c: u8) {
        let parent = self.model.branches.get(branch.full().as_str()).copied();
        let mut state = parent.map(|id| self.model.commits[&id].0.clone()).unwrap_or_default();
        let mut change = self.repo.begin();
        let mut builder = match parent {
            Some(id) => Builder::from(self.repo.context(&id).unwrap()),
            None => Builder::new(),
        };
        for number in 0..b % 4 {
            let text = Bytes::from(format!("{b} {number} ").repeat(usize::from(c) + 1));
            let blob = change.write(Kind::Blob, text.clone()).unwrap();
            let entry = MessageEntry::new(blob, Role::User, "text");
            builder.push_message(&mut change, "main", &entry).unwrap();
            state.messages.push(text);
        }
        for number in 0..b / 4 % 8 {
            let (key, value) =
                (format!("k{}", c.wrapping_add(number * 3) % 50), !c.is_multiple_of(5));
            let value = value.then(|| Bytes::from(format!("note {c}")));
            builder.set_entry(&mut change, "scratchpad", &key, value.clone()).unwrap();
            set(&mut state.notes, key, value);
        }
        if b & 0x80 != 0 {
            let (path, value) = (format!("d{}/f{}", c % 3, c % 7), !c.is_multiple_of(4));
            let value = value.then(|| Bytes::from(format!("file {c}\n").repeat(usize::from(b))));
            let file = value.clone().map(|bytes| (FileMode::Regular, bytes));
            builder.set_file(&mut change, &path, file).unwrap();
            set(&mut state.files, path, value);
        }
        let tree = builder.write(&mut change).unwrap();
        let stamp = stamp(self.second);
        let id = change.snapshot(branch, SnapshotDraft::new(tree, "turn", &stamp)).unwrap();
        change.commit(&stamp, "snapshot").unwrap();
        self.model.commits.insert(id, (state, parent));
        self.model.branches.insert(branch.full(), id);
    }

    /// Returns a reachable commit, chosen by a number.
    fn some_commit(&self, number: u8) -> Option<ObjectId> {
        let kept: Vec<ObjectId> = self.reachable().into_iter().collect();
        kept.get(usize::from(number) % kept.len().max(1)).copied()
    }

    fn move_to(&mut self, branch: &BranchName, b: u8) {
        let Some(to) = self.some_commit(b) else { return };
        self.change(|change| change.move_branch(branch, Some(to)));
        self.model.branches.insert(branch.full(), to);
    }

    fn delete(&mut self, branch: &BranchName, b: u8) {
        if b.is_multiple_of(2) && self.model.branches.remove(&branch.full()).is_some() {
            self.change(|change| change.move_branch(branch, None));
        }
    }

    fn tag(&mut self, a: u8, b: u8) {
        let name = tag_ref(&format!("t{}", a % 3)).unwrap();
        let to = self.some_commit(b).filter(|_| a < 0x80);
        if to.is_some() || self.model.tags.contains_key(&name) {
            self.change(|change| change.set_ref(&name, Expected::Any, to.map(RefValue::Object)));
        }
        set(&mut self.model.tags, name, to);
    }

    fn pin(&mut self, a: u8, b: u8) {
        let name = format!("p{}", a % 3);
        if self.model.pins.remove(&name).is_some() {
            self.change(|change| change.unpin(&name).unwrap());
        } else if let Some(to) = self.some_commit(b) {
            let (new, stamp) = (NewPin { name: Some(name.clone()), ..NewPin::default() }, stamp(1));
            self.change(|change| drop(change.pin(&to, new, &stamp).unwrap()));
            self.model.pins.insert(name, to);
        }
    }

    fn change(&self, what: impl FnOnce(&mut turntree::repo::Transaction<'_>)) {
        let mut change = self.repo.begin();
        what(&mut change);
        change.commit(&stamp(self.second), "change").unwrap();
    }

    fn collect(&mut self, purpose: Purpose) {
        collect(&self.repo, purpose, &stamp(self.second), &mut |_| {}).unwrap();
    }

    /// Reopens the store in another process, after a crash of the machine.
    fn reopen(&mut self, keep: Keep) {
        self.disk = self.disk.crash(keep);
        self.second += 1;
        let options = options(self.second.unsigned_abs() << 8);
        self.repo = Repository::open(Arc::new(self.disk.clone()), Path::new(DIR), options).unwrap();
        assert_eq!(self.repo.findings(), []);
    }

    /// Returns every commit reachable from a name.
    fn reachable(&self) -> std::collections::BTreeSet<ObjectId> {
        let Model { branches, tags, pins, commits } = &self.model;
        let mut reached = std::collections::BTreeSet::new();
        for id in branches.values().chain(tags.values()).chain(pins.values()) {
            let mut next = Some(*id);
            while let Some(id) = next.filter(|id| reached.insert(*id)) {
                next = commits[&id].1;
            }
        }
        reached
    }

    fn check(&self) {
        let (repo, model) = (&self.repo, &self.model);
        let branches: BTreeMap<String, ObjectId> =
            repo.branches().into_iter().map(|(name, id)| (name.full(), id)).collect();
        assert_eq!(branches, model.branches);
        for (name, id) in &model.tags {
            assert_eq!(repo.read_ref(name).unwrap(), *id, "{name}");
        }
        let pins: BTreeMap<String, ObjectId> =
            repo.pins().unwrap().into_iter().map(|pin| (pin.name, pin.commit)).collect();
        assert_eq!(pins, model.pins);
        for id in self.reachable() {
            let (state, parent) = &model.commits[&id];
            assert_eq!(read(repo, &id).unwrap(), *state, "{id}");
            let parents = repo.commit(&id).unwrap().parents;
            assert_eq!(parents.first(), parent.as_ref());
        }
        for (id, (state, _)) in &model.commits {
            match read(repo, id) {
                Ok(found) => assert_eq!(found, *state, "{id}"),
                Err(error) => assert_ne!(error.kind(), ErrorKind::Corrupt, "{id}: {error}"),
            }
        }
    }
}

fn set<T>(map: &mut BTreeMap<String, T>, key: String, value: Option<T>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

/// Reads the content of a commit.
fn read(repo: &Repository, id: &ObjectId) -> turntree::Result<State> {
    let (store, context) = (repo, repo.context(id)?);
    let mut state = State::default();
    let list = context.messages(store, "main")?;
    for item in list.iter(store, 0..list.len()) {
        let entry = MessageEntry::from_item(&item?)?;
        state.messages.push(store.read_as(Kind::Blob, &entry.blob)?);
    }
    for (section, entries) in [("scratchpad", &mut state.notes), ("files", &mut state.files)] {
        for entry in context.map(store, section)?.iter(store) {
            let (key, item) = entry?;
            let key = String::from_utf8(key.to_vec()).expect("a key of the model");
            entries.insert(key, store.read_as(Kind::Blob, &item.link.id)?);
        }
    }
    Ok(state)
}
