//! The expected state of a repository: the content of every commit, the branches, and the
//! operations that can be undone.

use std::collections::{BTreeMap, BTreeSet};

use turntree::context::{Builder, Context, FileEntry, FileMode, MessageEntry, Role};
use turntree::object::{Kind, ObjectId, ObjectSink, ObjectSource};
use turntree::tree::Item;

use crate::sim::Random;

/// The conversation of the walk.
pub(super) const MESSAGES: &str = "agents/main/messages";

/// The maps of the walk.
pub(super) const MAPS: [&str; 3] = ["scratchpad", "memory", "files"];

/// Entries by map and key.
pub(super) type Maps = BTreeMap<&'static str, BTreeMap<String, String>>;

/// The parts of a context that the walk changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) messages: Vec<String>,
    pub(super) maps: Maps,
}

impl Content {
    /// The number of times that a message occurs.
    pub(super) fn count(&self, message: &str) -> usize {
        self.messages.iter().filter(|own| *own == message).count()
    }

    /// An entry of a map.
    pub(super) fn entry(&self, map: &str, key: &str) -> Option<&String> {
        self.maps.get(map)?.get(key)
    }

    /// Reads the content of a commit from the store.
    pub(super) fn read(source: &dyn ObjectSource, context: &Context) -> Self {
        let text = |id: &ObjectId| {
            let bytes = source.read_as(Kind::Blob, id).expect("a blob");
            String::from_utf8(bytes.to_vec()).expect("text")
        };
        let list = context.messages(source, "main").expect("the conversation");
        let message = |item: turntree::Result<Item>| {
            let entry = MessageEntry::from_item(&item.expect("a message")).expect("an entry");
            text(&entry.blob)
        };
        let messages = list.iter(source, 0..list.len()).map(message).collect();
        let mut content = Self { messages, maps: Maps::new() };
        for name in MAPS {
            for entry in context.map(source, name).expect("a map").iter(source) {
                let (key, item) = entry.expect("an entry");
                let key = String::from_utf8(key.to_vec()).expect("a key of text");
                let blob = match name {
                    "files" => FileEntry::from_item(&item).expect("a file").blob,
                    _ => item.link.id,
                };
                content.maps.entry(name).or_default().insert(key, text(&blob));
            }
        }
        content
    }

    /// Makes a random change, here and in `builder`. `number` makes new messages unique.
    pub(super) fn change(
        &mut self,
        sink: &mut dyn ObjectSink,
        builder: &mut Builder,
        number: usize,
        random: &mut Random,
    ) {
        if random.below(10) < 7 {
            let kept = match random.below(6) {
                0 => random.below(self.messages.len() + 1),
                _ => self.messages.len(),
            };
            let end = self.messages.len() as u64;
            builder.splice(sink, MESSAGES, kept as u64..end, Vec::new()).expect("room");
            self.messages.truncate(kept);
            for nth in 0..random.below(4) {
                let said = format!("{{\"role\": \"user\", \"content\": \"{number}.{nth}\"}}");
                let blob = sink.write(Kind::Blob, said.clone().into()).expect("a blob");
                let entry = MessageEntry::new(blob, Role::User, "json");
                builder.push_message(sink, "main", &entry).expect("a message");
                self.messages.push(said);
            }
        }
        for name in MAPS {
            for _ in 0..random.below(3) {
                let key = ["a", "b", "dir/c", "dir/d"][random.below(4)].to_owned();
                let map = self.maps.entry(name).or_default();
                let value = (random.below(4) > 0).then(|| lines(random));
                let bytes = value.clone().map(Into::into);
                match name {
                    "files" => {
                        let file = bytes.map(|bytes| (FileMode::Regular, bytes));
                        builder.set_file(sink, &key, file).expect("a file");
                    }
                    _ => builder.set_entry(sink, name, &key, bytes).expect("an entry"),
                }
                match value {
                    Some(value) => drop(map.insert(key, value)),
                    None => drop(map.remove(&key)),
                }
            }
        }
        self.maps.retain(|_, map| !map.is_empty());
    }
}

/// A few lines of few words, so that lines repeat.
fn lines(random: &mut Random) -> String {
    let words = ["alpha", "beta", "gamma", "delta", "", "zeta"];
    let lines: Vec<&str> =
        (0..1 + random.below(5)).map(|_| words[random.below(words.len())]).collect();
    let end = if random.below(4) == 0 { "" } else { "\n" };
    lines.join("\n") + end
}

/// A commit.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) parents: Vec<ObjectId>,
    pub(super) content: Content,
}

/// The branch that an operation moved, with its old and new commits.
#[derive(Debug, Clone)]
pub(super) struct Moved {
    pub(super) branch: String,
    pub(super) old: Option<ObjectId>,
    pub(super) new: Option<ObjectId>,
}

/// The expected state of a repository.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) turns: BTreeMap<ObjectId, Turn>,
    pub(super) branches: BTreeMap<String, ObjectId>,
    /// The operations that can be undone, newest last, and those that can be redone.
    pub(super) done: Vec<Moved>,
    pub(super) undone: Vec<Moved>,
}

impl Model {
    /// The commit that a branch is at.
    pub(super) fn tip(&self, branch: &str) -> Option<ObjectId> {
        self.branches.get(branch).copied()
    }

    /// Records that an operation has moved a branch.
    pub(super) fn moved(&mut self, branch: &str, new: Option<ObjectId>) {
        let moved = Moved { branch: branch.to_owned(), old: self.tip(branch), new };
        self.put(branch, new);
        self.done.push(moved);
    }

    /// Moves or deletes a branch.
    pub(super) fn put(&mut self, branch: &str, at: Option<ObjectId>) {
        match at {
            Some(id) => drop(self.branches.insert(branch.to_owned(), id)),
            None => drop(self.branches.remove(branch)),
        }
    }

    /// The ancestors of a commit, including itself.
    pub(super) fn ancestors(&self, id: &ObjectId) -> BTreeSet<ObjectId> {
        let (mut seen, mut open) = (BTreeSet::new(), vec![*id]);
        while let Some(id) = open.pop() {
            if seen.insert(id) {
                open.extend(&self.turns[&id].parents);
            }
        }
        seen
    }

    /// The best common ancestors of two commits: those that are not ancestors of each other.
    pub(super) fn bases(&self, one: &ObjectId, two: &ObjectId) -> BTreeSet<ObjectId> {
        let common: BTreeSet<ObjectId> =
            self.ancestors(one).intersection(&self.ancestors(two)).copied().collect();
        let mut best = common.clone();
        for id in &common {
            for parent in &self.turns[id].parents {
                for older in self.ancestors(parent) {
                    best.remove(&older);
                }
            }
        }
        best
    }
}
